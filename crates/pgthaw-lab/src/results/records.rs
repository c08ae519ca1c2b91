//! The records that the store keeps, each with its columns.

use super::columns::{Columns, columns};
use super::database::{Row, Values};
use crate::study::{Sample, ScriptLatency, StartState, SweepRun, SweepTrial};
use crate::verdict::{ByMetric, Metric, TrialOutline};
use observe::{WaitSample, Waits};

columns!(StartState {
    os_resident_bytes as "start_os_resident_bytes", total_bytes as "start_total_bytes", verdict as "start_verdict"
});

columns!(Sample {
    second,
    monotonic_ms,
    wall_ms,
    transactions,
    latency_us_mean,
    latency_us_min,
    latency_us_max,
    latency_us_deviation,
    foreground_read_bytes,
    device_read_bytes,
    device_reads,
    os_resident_bytes
});

columns!(SweepRun {
    id, started_at, ended_at, pgthaw_version, pgbench_version, question, digest, points, repeats, source
    ; json machine, server, study, varied, configuration, generator, databases, verdicts, warnings
    ; optional_json warmup
    ; text seed
});

columns!(SweepTrial {
    sweep_id, number, repeat, position, started_at, command, failure, lasted_seconds, transactions, failed, skipped,
    server_version, tps, worst_second_tps, latency, cycle_tps, device_read_bytes, ended_at, retried, retries, late, checkpoint_cycles
    ; json point, statistics, buffers_before, buffers_after, checkpoints, settings, waits, verdicts, warnings, devices
    ; optional_json generators, file_system, strategy_outcome, warming, checkpoint_begun, fresh_copy, time
    ; flat start_state
    ; apart samples, os_samples, wait_samples, scripts
});

columns!(ScriptLatency { script, answered, failed, skipped, response, service });

columns!(WaitSample { second; flat seen });

columns!(Waits { looks; json waits, flushes });

// Other trials decide `steady_tps`.
columns!(TrialOutline {
    number, repeat, position, started_at, ended_at, start_verdict, failure
    ; json point, background, verdicts, warnings
    ; optional_json warming, time
    ; flat figures
    ; apart judgement, no_verdict, steady_tps
});

/// Figures whose columns hold numbers, and those whose columns hold counts. The others follow from other columns.
const NUMBERS: [Metric; 9] = [
    Metric::Tps,
    Metric::WorstSecond,
    Metric::DeviceWrites,
    Metric::ReadsPerSecond,
    Metric::PeakReads,
    Metric::UnevenReads,
    Metric::WriteSize,
    Metric::CpuPerTransaction,
    Metric::Warmer,
];
const COUNTS: [Metric; 8] = [
    Metric::P50,
    Metric::P95,
    Metric::P99,
    Metric::P999,
    Metric::DeviceRead,
    Metric::DeviceWritten,
    Metric::Late,
    Metric::Skipped,
];

/// Every column has the name that its figure has in `--json`.
impl Columns for ByMetric<f64> {
    fn put(&self, values: Values) -> Values {
        let values =
            NUMBERS.into_iter().fold(values, |values, metric| values.bind(metric.facts().key, &self.get(metric)));
        let count = |metric| self.get(metric).map(|figure| figure as u64);
        COUNTS.into_iter().fold(values, |values, metric| values.bind(metric.facts().key, &count(metric)))
    }

    fn read(row: &Row) -> Result<ByMetric<f64>, sqlx::Error> {
        let mut figures = ByMetric::default();
        for metric in NUMBERS {
            figures.set(metric, row.get(metric.facts().key)?);
        }
        for metric in COUNTS {
            let count: Option<u64> = row.get(metric.facts().key)?;
            figures.set(metric, count.map(|count| count as f64));
        }
        Ok(figures)
    }
}

/// Of a trial that failed before its start there is none.
impl Columns for Option<StartState> {
    fn put(&self, values: Values) -> Values {
        let start = self.as_ref();
        values
            .bind("start_os_resident_bytes", &start.map(|start| start.os_resident_bytes))
            .bind("start_total_bytes", &start.map(|start| start.total_bytes))
            .bind("start_verdict", &start.map(|start| start.verdict.clone()))
    }

    fn read(row: &Row) -> Result<Option<StartState>, sqlx::Error> {
        let verdict: Option<String> = row.get("start_verdict")?;
        verdict.map(|_| Columns::read(row)).transpose()
    }
}
