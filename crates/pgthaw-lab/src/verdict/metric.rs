//! Metrics of a trial, declared once for tables, comparisons, exports and pages.

use std::collections::BTreeMap;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use strum::{EnumMessage, VariantArray};

use crate::study::{Error, Result, SweepTrial};

/// The doc comment of a metric is its caption.
macro_rules! metrics {
    ($($(#[$caption:meta])* $metric:ident: $name:literal, $key:literal, $label:literal, $kind:ident;)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, EnumMessage, VariantArray, crate::TS)]
        #[ts(type = "string")]
        pub enum Metric {
            $($(#[$caption])* $metric),*
        }

        impl Metric {
            pub fn facts(self) -> MetricFacts {
                let (name, key, label, kind) = match self {
                    $(Metric::$metric => ($name, $key, $label, MetricKind::$kind)),*
                };
                let is_low_better = !matches!(kind, MetricKind::Rate | MetricKind::ByteRate)
                    && !matches!(self, Metric::ServedUntilWarm | Metric::Served | Metric::WriteSize);
                let caption = self.get_documentation().unwrap_or_default();
                MetricFacts { name, key, label, caption, kind, is_low_better }
            }
        }
    };
}

metrics! {
    /// transactions per second
    Tps: "tps", "tps", "throughput", Rate;
    /// transactions in the worst second
    WorstSecond: "worst-second", "worst_second_tps", "worst second", Rate;
    /// median latency
    P50: "p50", "latency_us_p50", "median latency", Latency;
    /// 95th percentile of latency
    P95: "p95", "latency_us_p95", "95th percentile", Latency;
    /// 99th percentile of latency
    P99: "p99", "latency_us_p99", "99th percentile", Latency;
    /// 99.9th percentile of latency
    P999: "p999", "latency_us_p999", "99.9th percentile", Latency;
    /// seconds until fewer than 1 % of transactions read from the device
    WarmAfter: "warm-after", "warm_after_seconds", "warm after", Time;
    /// seconds until 50 % of the steady level
    To50: "to-50", "to_50_seconds", "to 50 %", Time;
    /// seconds until 90 % of the steady level
    To90: "to-90", "to_90_seconds", "to 90 %", Time;
    /// seconds until 95 % of the steady level
    To95: "to-95", "to_95_seconds", "to 95 %", Time;
    /// time until warm ÷ the bound of the disk
    BoundRatio: "bound-ratio", "bound_ratio", "× bound", Ratio;
    /// lower bound of the seconds until warm, for any warmer
    Bound: "bound", "bound_seconds", "bound", Time;
    /// transactions served until the server was warm, or in the whole trial
    ServedUntilWarm: "served-until-warm", "served_until_warm", "served until warm", Count;
    /// transactions served in the whole trial, if it starts cold
    Served: "served", "served", "served", Count;
    /// seconds that the warmer ran, or the job that the load runs beside
    Warmer: "warmer", "warmer_seconds", "warmer or job", Time;
    /// seconds from the start of the load to its end
    Load: "load", "load_seconds", "load", Time;
    /// seconds from a cold start to the end of the load, including a warmer before it
    Whole: "whole", "whole_seconds", "in all", Time;
    /// seconds until 99 % of the snapshot's bytes were seen in the page cache
    ResidentAfter: "resident-after", "resident_after_seconds", "resident after", Time;
    /// seconds until 90 % of the snapshot's shared_buffers were restored
    BuffersAfter: "buffers-after", "buffers_after_seconds", "buffers back after", Time;
    /// bytes of the snapshot loaded per second until resident
    LoadRate: "load-rate", "load_bytes_per_second", "loaded", ByteRate;
    /// processor seconds of the warmer's own processes (not of the server's) per 10⁹ bytes of the snapshot
    CpuPerGb: "cpu-per-gb", "cpu_seconds_per_gb", "CPU per GB", Cost;
    /// device reads in a trial, by all processes
    DeviceReads: "reads", "device_reads", "reads (all processes)", Count;
    /// bytes read from the device in a trial, by all processes
    DeviceRead: "read", "device_read_bytes", "device reads (all processes)", Bytes;
    /// mean device reads per second in a trial, by all processes
    ReadsPerSecond: "reads-per-second", "device_reads_per_second", "reads/s (all processes)", PerSecond;
    /// device reads in the busiest second, by all processes
    PeakReads: "peak-reads", "device_reads_per_second_max", "peak reads/s (all processes)", PerSecond;
    /// standard deviation of reads per second ÷ their mean, up to the last second with at least 1 % of the peak
    UnevenReads: "uneven-reads", "device_reads_unevenness", "unevenness of reads (all processes)", Ratio;
    /// device writes per second, by all processes
    DeviceWrites: "writes", "device_writes_per_second", "device writes (all processes)", PerSecond;
    /// bytes written to the device in a trial, by all processes
    DeviceWritten: "written", "device_written_bytes", "device written (all processes)", Bytes;
    /// mean bytes of a device write in a trial, by all processes
    WriteSize: "write-size", "device_bytes_per_write", "bytes per write (all processes)", Bytes;
    /// processor time of the server per transaction
    CpuPerTransaction: "cpu-per-transaction", "server_cpu_us_per_transaction", "CPU per transaction", Latency;
    /// transactions above the latency limit
    Late: "late", "late", "late", Count;
    /// transactions skipped because they were too late
    Skipped: "skipped", "skipped", "skipped", Count;
    /// checkpoints that ended in a trial
    Checkpoints: "checkpoints", "checkpoints", "checkpoints", Count;
}

/// A metric (docs/measures.md).
#[derive(Clone, Copy, Debug, Serialize, crate::JsonSchema, crate::TS)]
pub struct MetricFacts {
    /// Name on the command line and in page addresses.
    pub name: &'static str,
    /// Field in `--json`.
    pub key: &'static str,
    pub label: &'static str,
    pub caption: &'static str,
    pub kind: MetricKind,
    pub is_low_better: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, crate::JsonSchema, crate::TS)]
#[serde(rename_all = "snake_case")]
pub enum MetricKind {
    Rate,
    PerSecond,
    /// Microseconds, which differ by orders of magnitude.
    Latency,
    /// Seconds until an event; missing if it did not occur.
    Time,
    Bytes,
    /// Bytes per second; more is better.
    ByteRate,
    Count,
    /// Seconds per 10⁹ bytes.
    Cost,
    /// Quotient of two figures; missing if one is unknown.
    Ratio,
}

impl Metric {
    pub const ALL: &[Metric] = Metric::VARIANTS;

    pub fn name(self) -> &'static str {
        self.facts().name
    }

    pub fn may_be_missed(self) -> bool {
        use Metric::{BoundRatio, BuffersAfter, ResidentAfter, To50, To90, To95, WarmAfter, Warmer};
        matches!(self, Warmer | WarmAfter | To50 | To90 | To95 | BoundRatio | ResidentAfter | BuffersAfter)
    }
}

impl Serialize for Metric {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl FromStr for Metric {
    type Err = Error;

    fn from_str(text: &str) -> Result<Metric> {
        let known = Metric::ALL.iter().map(|metric| metric.name()).collect::<Vec<_>>().join(", ");
        let found = Metric::ALL.iter().copied().find(|metric| metric.name() == text);
        found.ok_or_else(|| Error::Selection(format!("no metric is called \"{text}\"; known metrics: {known}")))
    }
}

/// Unknown values are null in JSON.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ByMetric<T>(BTreeMap<Metric, T>);

impl<T: Copy> ByMetric<T> {
    pub fn get(&self, metric: Metric) -> Option<T> {
        self.0.get(&metric).copied()
    }

    /// `None` removes a value.
    pub fn update(&mut self, figures: impl IntoIterator<Item = (Metric, Option<T>)>) {
        for (metric, value) in figures {
            self.0.remove(&metric);
            self.0.extend(value.map(|value| (metric, value)));
        }
    }
}

impl<T> FromIterator<(Metric, Option<T>)> for ByMetric<T> {
    fn from_iter<I: IntoIterator<Item = (Metric, Option<T>)>>(figures: I) -> ByMetric<T> {
        ByMetric(figures.into_iter().filter_map(|(metric, value)| Some((metric, value?))).collect())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for ByMetric<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ByMetric<T>, D::Error> {
        let mut known: BTreeMap<String, Option<T>> = BTreeMap::deserialize(deserializer)?;
        let figure = |metric: &Metric| Some((*metric, known.remove(metric.facts().key)??));
        Ok(ByMetric(Metric::ALL.iter().filter_map(figure).collect()))
    }
}

impl<T: Serialize> Serialize for ByMetric<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(Metric::ALL.iter().map(|metric| (metric.facts().key, self.0.get(metric))))
    }
}

pub fn compute_figures(trial: &SweepTrial) -> ByMetric<f64> {
    let percentile = |share| Some(trial.latency.as_ref()?.percentile(share)?.us as f64);
    let device = || trial.os_samples.iter().filter_map(|sample| sample.device);
    let gauged = device().count();
    let writes: f64 = device().map(|second| second.writes as f64).sum();
    let written: f64 = device().map(|second| second.written_bytes.0 as f64).sum();
    let reads = || device().map(|second| second.reads as f64);
    let server_cpu: f64 = trial.os_samples.iter().map(|second| second.server_total().cpu_seconds).sum();
    let has_cpu = !trial.os_samples.is_empty() && trial.transactions > 0;
    ByMetric::from_iter([
        (Metric::Tps, Some(trial.tps)),
        // Omits an imported worst second that exceeds the mean throughput.
        (Metric::WorstSecond, trial.worst_second_tps.filter(|worst| *worst <= trial.tps)),
        (Metric::P50, percentile(0.5)),
        (Metric::P95, percentile(0.95)),
        (Metric::P99, percentile(0.99)),
        (Metric::P999, percentile(0.999)),
        (Metric::Warmer, trial.strategy_outcome.as_ref().and_then(|outcome| outcome.ended_after_seconds)),
        (Metric::DeviceRead, Some(trial.device_read_bytes.0 as f64)),
        (Metric::DeviceWrites, (gauged > 0).then(|| writes / gauged as f64)),
        (Metric::DeviceWritten, (gauged > 0).then_some(written)),
        (Metric::ReadsPerSecond, (gauged > 0).then(|| reads().sum::<f64>() / gauged as f64)),
        (Metric::PeakReads, reads().reduce(f64::max)),
        (Metric::UnevenReads, compute_unevenness(&reads().collect::<Vec<_>>())),
        (Metric::WriteSize, (writes > 0.0).then(|| written / writes)),
        (Metric::CpuPerTransaction, has_cpu.then(|| 1e6 * server_cpu / trial.transactions as f64)),
        (Metric::Late, Some(trial.late as f64)),
        (Metric::Skipped, Some(trial.skipped as f64)),
        (Metric::Checkpoints, Some(trial.checkpoints.len() as f64)),
    ])
}

fn compute_unevenness(reads: &[f64]) -> Option<f64> {
    let peak = reads.iter().copied().reduce(f64::max).filter(|peak| *peak > 0.0)?;
    let end = reads.iter().rposition(|second| *second >= peak / 100.0)?;
    let busy = &reads[..=end];
    let mean = busy.iter().sum::<f64>() / busy.len() as f64;
    let variance = busy.iter().map(|second| (second - mean).powi(2)).sum::<f64>() / busy.len() as f64;
    (busy.len() > 1).then(|| variance.sqrt() / mean)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::record::tests::trial;
    use observe::OsSample;

    #[test]
    fn every_metric_has_a_name_and_a_field_of_its_own() {
        let mut keys: Vec<&str> = Metric::ALL.iter().map(|metric| metric.facts().key).collect();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), Metric::ALL.len());
        for metric in Metric::ALL.iter().copied() {
            assert_eq!(metric.name().parse::<Metric>().unwrap(), metric);
        }
        assert!("p98".parse::<Metric>().unwrap_err().to_string().contains("tps, worst-second, p50, p95, p99, p999"));
    }

    #[test]
    fn seconds_of_the_machine_become_figures_of_the_trial() {
        let second = |cpu_seconds: f64, reads: u64, writes: u64| -> OsSample {
            serde_json::from_value(serde_json::json!({
                "second": 1, "generator_threads": [], "server": { "client backend": { "tasks": 1,
                "cpu_seconds": cpu_seconds, "run_delay_seconds": 0.0, "involuntary_switches": 0.0 } }, "pgthaw_cpu_seconds": 0.0,
                "processors_busy_seconds": 0.0, "processors_iowait_seconds": 0.0, "processors_steal_seconds": 0.0,
                "device": { "reads": reads, "read_bytes": 0, "writes": writes, "written_bytes": 8192 * writes,
                "read_await_us": null, "write_await_us": null, "queue": 0.0, "busy_ratio": 0.0 },
                "available_bytes": 0, "cached_bytes": 0, "dirty_bytes": 0, "writeback_bytes": 0,
                "pressure": { "cpu_some": null, "io_some": null, "io_full": null, "memory_some": null,
                "memory_full": null },
            }))
            .unwrap()
        };
        let os_samples = vec![second(0.5, 100, 10), second(1.5, 300, 0)];
        let figures = compute_figures(&SweepTrial { os_samples, transactions: 4000, ..trial() });
        let told = [Metric::ReadsPerSecond, Metric::PeakReads, Metric::WriteSize, Metric::CpuPerTransaction];
        assert_eq!(told.map(|metric| figures.get(metric)), [200.0, 300.0, 8192.0, 500.0].map(Some));
        let figures = compute_figures(&trial());
        assert_eq!(told.map(|metric| figures.get(metric)), [None; 4]);
    }

    #[test]
    fn rest_after_the_last_reads_is_not_uneven() {
        assert_eq!(compute_unevenness(&[100.0, 300.0, 0.0, 0.0]), Some(0.5));
        assert_eq!(compute_unevenness(&[200.0, 0.0, 200.0]).map(|uneven| (uneven * 100.0).round()), Some(71.0));
        assert_eq!(compute_unevenness(&[7.0, 7.0, 7.0]), Some(0.0));
        assert_eq!([&[][..], &[0.0, 0.0], &[5.0, 0.0]].map(compute_unevenness), [None; 3]);
    }

    #[test]
    fn what_is_not_known_is_null() {
        let figures: ByMetric<f64> = [(Metric::Tps, Some(5.0)), (Metric::P50, None)].into_iter().collect();
        let json = serde_json::to_value(&figures).unwrap();
        assert_eq!((json["tps"].as_f64(), json["latency_us_p50"].is_null()), (Some(5.0), true));
        assert_eq!(json.as_object().unwrap().len(), Metric::ALL.len());
    }
}
