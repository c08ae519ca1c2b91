//! Reads runs and trials back.

use std::collections::HashMap;

use super::columns::{bytes_of, json_of, number_of, optional_number_of, optional_time_of, time_of};
use super::database::{Query, Row};
use super::names::{NEWEST, Named, choose};
use super::{Error, Store};
use crate::study::{Record as _, Run, Sample, StartState, StrategyOutcome, SweepRun, Trial};
use crate::units::Bytes;
use crate::verdict::{view_run, view_trials};

impl Named for Run {
    fn id(&self) -> &str {
        &self.id
    }
}

impl Store {
    /// All runs, the newest first: those that were kept so, and studies of ways to warm.
    pub async fn read_runs(&self) -> Result<Vec<Run>, Error> {
        let mut runs = self.read_kept_runs().await?;
        for sweep in self.read_sweeps().await?.into_iter().filter(SweepRun::is_warmup) {
            runs.push(view_run(&sweep, &self.read_sweep_outcomes(&sweep.id).await?));
        }
        runs.sort_by_key(|run| std::cmp::Reverse(run.started_at));
        Ok(runs)
    }

    /// Those that an older pgthaw kept as runs.
    pub(super) async fn read_kept_runs(&self) -> Result<Vec<Run>, Error> {
        self.read(Query::new("SELECT * FROM runs ORDER BY started_at DESC, id DESC"), run_from).await
    }

    /// One run: by its id, by the first characters of it when no other begins so, or `newest`.
    pub async fn read_run(&self, wanted: &str) -> Result<Run, Error> {
        let mut runs = self.read_runs().await?;
        if wanted == NEWEST {
            let newest = (!runs.is_empty()).then(|| runs.swap_remove(0));
            return newest.ok_or_else(|| Error::Empty(self.place().clone()));
        }
        choose(runs, wanted)?.ok_or_else(|| Error::UnknownRun(wanted.to_owned()))
    }

    /// The trials of a run with every second of them, in the order in which they ran.
    pub async fn read_trials(&self, run_id: &str) -> Result<Vec<Trial>, Error> {
        if let Some(sweep) = self.find_warmup(run_id).await? {
            let mut trials = self.read_sweep_outcomes(run_id).await?;
            self.add_samples(run_id, &mut trials).await?;
            return Ok(view_trials(&view_run(&sweep, &trials), trials));
        }
        let query = "SELECT * FROM samples WHERE run_id = $1 ORDER BY strategy, repeat, second";
        let mut samples: HashMap<(String, u32), Vec<Sample>> = HashMap::new();
        for (trial, sample) in self.read(Query::new(query).bind(run_id), sample_of_trial).await? {
            samples.entry(trial).or_default().push(sample);
        }
        let mut trials = self.read_outcomes(run_id).await?;
        for trial in &mut trials {
            trial.samples = samples.remove(&(trial.strategy.clone(), trial.repeat)).unwrap_or_default();
        }
        Ok(trials)
    }

    /// The trials of a run without their seconds: enough for times and counts.
    pub async fn read_outcomes(&self, run_id: &str) -> Result<Vec<Trial>, Error> {
        if let Some(sweep) = self.find_warmup(run_id).await? {
            let trials = self.read_sweep_outcomes(run_id).await?;
            return Ok(view_trials(&view_run(&sweep, &trials), trials));
        }
        let query = "SELECT * FROM trials WHERE run_id = $1 ORDER BY position, strategy, repeat";
        self.read(Query::new(query).bind(run_id), trial_from).await
    }

    /// The study of ways to warm with this id.
    async fn find_warmup(&self, id: &str) -> Result<Option<SweepRun>, Error> {
        Ok(self.read_sweeps().await?.into_iter().find(|sweep| sweep.id == id && sweep.is_warmup()))
    }

    /// The rows that answer a query, as what they stand for.
    pub(super) async fn read<T>(
        &self,
        query: Query,
        from: impl Fn(&Row) -> Result<T, sqlx::Error>,
    ) -> Result<Vec<T>, Error> {
        let rows = query.fetch(&self.database).await.map_err(self.failed_to("read"))?;
        rows.iter().map(|row| from(row).map_err(self.failed_to("read"))).collect()
    }
}

fn run_from(row: &Row) -> Result<Run, sqlx::Error> {
    let mut run = Run {
        id: row.try_get("id")?,
        started_at: time_of(row, "started_at")?,
        ended_at: optional_time_of(row, "ended_at")?,
        pgthaw_version: row.try_get("pgthaw_version")?,
        machine: json_of(row, "machine")?,
        server: json_of(row, "server")?,
        settings: json_of(row, "settings")?,
        study: json_of(row, "study")?,
        steady_tps: row.try_get("steady_tps")?,
        warnings: json_of(row, "warnings")?,
    };
    run.hide_secrets();
    Ok(run)
}

/// How a trial began.
pub(super) fn start_state_of(row: &Row) -> Result<StartState, sqlx::Error> {
    Ok(StartState {
        os_resident_bytes: bytes_of(row, "start_os_resident_bytes")?,
        total_bytes: bytes_of(row, "start_total_bytes")?,
        verdict: row.try_get("start_verdict")?,
    })
}

fn trial_from(row: &Row) -> Result<Trial, sqlx::Error> {
    let mut trial = Trial {
        run_id: row.try_get("run_id")?,
        strategy: row.try_get("strategy")?,
        repeat: number_of(row, "repeat")?,
        position: number_of(row, "position")?,
        started_at: time_of(row, "started_at")?,
        start_state: start_state_of(row)?,
        samples: Vec::new(),
        outcome: StrategyOutcome {
            command: row.try_get("command")?,
            ended_after_seconds: row.try_get("ended_after_seconds")?,
            issued_bytes: optional_number_of(row, "issued_bytes")?.map(Bytes),
            failure: row.try_get("failure")?,
            output: row.try_get("output")?,
        },
        warm_after_seconds: row.try_get("warm_after_seconds")?,
        to_50_seconds: row.try_get("to_50_seconds")?,
        to_90_seconds: row.try_get("to_90_seconds")?,
        to_95_seconds: row.try_get("to_95_seconds")?,
        served_until_warm: number_of(row, "served_until_warm")?,
        served: number_of(row, "served")?,
        device_read_bytes: bytes_of(row, "device_read_bytes")?,
        residency: json_of(row, "residency")?,
        warnings: json_of(row, "warnings")?,
        foreground_tenths: json_of(row, "foreground_tenths")?,
        judgement: row.json("judgement")?,
        no_verdict: row.try_get("no_verdict")?,
    };
    trial.hide_secrets();
    Ok(trial)
}

/// A sample, and the strategy and repeat that it belongs to.
fn sample_of_trial(row: &Row) -> Result<((String, u32), Sample), sqlx::Error> {
    Ok(((row.try_get("strategy")?, number_of(row, "repeat")?), sample_from(row)?))
}

/// Of a trial of a run or of a sweep.
pub(super) fn sample_from(row: &Row) -> Result<Sample, sqlx::Error> {
    Ok(Sample {
        second: number_of(row, "second")?,
        monotonic_ms: number_of(row, "monotonic_ms")?,
        wall_ms: row.try_get("wall_ms")?,
        transactions: number_of(row, "transactions")?,
        latency_us_mean: row.try_get("latency_us_mean")?,
        latency_us_min: optional_number_of(row, "latency_us_min")?,
        latency_us_max: optional_number_of(row, "latency_us_max")?,
        foreground_read_bytes: bytes_of(row, "foreground_read_bytes")?,
        device_read_bytes: bytes_of(row, "device_read_bytes")?,
        device_reads: number_of(row, "device_reads")?,
        os_resident_bytes: bytes_of(row, "os_resident_bytes")?,
    })
}
