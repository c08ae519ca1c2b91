//! Writes runs and trials, each in one transaction.

use jiff::Timestamp;
use sqlx::types::Json;

use super::database::{Query, Transaction, Values};
use super::unsent::Unsent;
use super::{Error, Store};
use crate::study::{Run, Sample, Trial};
use crate::units::Bytes;

const UPSERT_RUN: &str = "
INSERT INTO runs (id, started_at, ended_at, pgthaw_version, machine, server, settings, study, steady_tps, warnings)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
ON CONFLICT (id) DO UPDATE SET
    started_at = excluded.started_at, ended_at = excluded.ended_at, pgthaw_version = excluded.pgthaw_version,
    machine = excluded.machine, server = excluded.server, settings = excluded.settings, study = excluded.study,
    steady_tps = excluded.steady_tps, warnings = excluded.warnings";

const INSERT_TRIAL: &str = "
INSERT INTO trials (
    run_id, strategy, repeat, position, started_at, start_os_resident_bytes, start_total_bytes, start_verdict,
    command, ended_after_seconds, issued_bytes, failure, warm_after_seconds, to_50_seconds, to_90_seconds,
    to_95_seconds, served_until_warm, served, device_read_bytes, residency, warnings, output, foreground_tenths,
    judgement, no_verdict)";

const INSERT_SAMPLE: &str = "
INSERT INTO samples (
    run_id, strategy, repeat, second, monotonic_ms, wall_ms, transactions, latency_us_mean, latency_us_min,
    latency_us_max, foreground_read_bytes, device_read_bytes, device_reads, os_resident_bytes)";

impl Store {
    /// Keeps a run with its trials, as older versions measured them.
    pub async fn save_run(&self, run: &Run, trials: &[Trial]) -> Result<(), Error> {
        let failed = self.failed_to("write");
        let mut transaction = self.database.begin().await.map_err(&failed)?;
        upsert_run(&mut transaction, run).await.map_err(&failed)?;
        for trial in trials {
            replace_trial(&mut transaction, trial).await.map_err(&failed)?;
        }
        self.mark_unsent(&mut transaction, &Unsent::run(&run.id)).await.map_err(&failed)?;
        transaction.commit().await.map_err(&failed)?;
        self.send_soon();
        Ok(())
    }

    /// Forgets a run with its trials.
    pub async fn drop_run(&self, id: &str) -> Result<(), Error> {
        self.execute(Query::new("DELETE FROM runs WHERE id = $1").bind(id)).await.map(drop)
    }

    /// A single statement that changes something.
    pub(super) async fn execute(&self, query: Query) -> Result<u64, Error> {
        let mut transaction = self.database.begin().await.map_err(self.failed_to("write"))?;
        let changed = query.execute(&mut transaction).await.map_err(self.failed_to("write"))?;
        transaction.commit().await.map_err(self.failed_to("write"))?;
        Ok(changed)
    }
}

pub(super) async fn upsert_run(transaction: &mut Transaction, run: &Run) -> Result<(), sqlx::Error> {
    Query::new(UPSERT_RUN)
        .bind(&run.id)
        .bind(sql_time(run.started_at))
        .bind(run.ended_at.map(sql_time))
        .bind(&run.pgthaw_version)
        .bind(Json(&run.machine))
        .bind(Json(&run.server))
        .bind(Json(&run.settings))
        .bind(Json(&run.study))
        .bind(run.steady_tps)
        .bind(Json(&run.warnings))
        .execute(transaction)
        .await?;
    Ok(())
}

pub(super) async fn replace_trial(transaction: &mut Transaction, trial: &Trial) -> Result<(), sqlx::Error> {
    Query::new("DELETE FROM trials WHERE run_id = $1 AND strategy = $2 AND repeat = $3")
        .bind(&trial.run_id)
        .bind(&trial.strategy)
        .bind(i64::from(trial.repeat))
        .execute(transaction)
        .await?;
    transaction.insert(INSERT_TRIAL, vec![trial_values(trial)], "").await?;
    let key = Values::default().bind(&trial.run_id).bind(&trial.strategy).bind(i64::from(trial.repeat));
    let samples = trial.samples.iter().map(|sample| sample_values(key.clone(), sample)).collect();
    transaction.insert(INSERT_SAMPLE, samples, "").await?;
    Ok(())
}

fn trial_values(trial: &Trial) -> Values {
    Values::default()
        .bind(&trial.run_id)
        .bind(&trial.strategy)
        .bind(i64::from(trial.repeat))
        .bind(i64::from(trial.position))
        .bind(sql_time(trial.started_at))
        .bind(sql_bytes(trial.start_state.os_resident_bytes))
        .bind(sql_bytes(trial.start_state.total_bytes))
        .bind(&trial.start_state.verdict)
        .bind(&trial.outcome.command)
        .bind(trial.outcome.ended_after_seconds)
        .bind(trial.outcome.issued_bytes.map(sql_bytes))
        .bind(&trial.outcome.failure)
        .bind(trial.warm_after_seconds)
        .bind(trial.to_50_seconds)
        .bind(trial.to_90_seconds)
        .bind(trial.to_95_seconds)
        .bind(sql_integer(trial.served_until_warm))
        .bind(sql_integer(trial.served))
        .bind(sql_bytes(trial.device_read_bytes))
        .bind(Json(&trial.residency))
        .bind(Json(&trial.warnings))
        .bind(&trial.outcome.output)
        .bind(Json(&trial.foreground_tenths))
        .bind(trial.judgement.as_ref().map(Json))
        .bind(&trial.no_verdict)
}

/// Of a trial of a run or of a sweep, behind the values that say which.
pub(super) fn sample_values(key: Values, sample: &Sample) -> Values {
    key.bind(i64::from(sample.second))
        .bind(sql_integer(sample.monotonic_ms))
        .bind(sample.wall_ms)
        .bind(sql_integer(sample.transactions))
        .bind(sample.latency_us_mean)
        .bind(sample.latency_us_min.map(sql_integer))
        .bind(sample.latency_us_max.map(sql_integer))
        .bind(sql_bytes(sample.foreground_read_bytes))
        .bind(sql_bytes(sample.device_read_bytes))
        .bind(sql_integer(sample.device_reads))
        .bind(sql_bytes(sample.os_resident_bytes))
}

/// Nanoseconds, always nine digits: the text sorts by time.
pub(super) fn sql_time(time: Timestamp) -> String {
    format!("{time:.9}")
}

/// SQL has no unsigned integers. No count of a trial comes near 2⁶³.
pub(super) fn sql_integer(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

pub(super) fn sql_bytes(amount: Bytes) -> i64 {
    sql_integer(amount.0)
}
