//! Writes runs and trials, each in one transaction.

use jiff::Timestamp;
use sqlx::types::Json;
use sqlx::{Sqlite, Transaction};

use super::{Error, Store};
use crate::bench::{Run, Sample, Trial};
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
    judgement, no_verdict)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22,
        $23, $24, $25)";

const INSERT_SAMPLE: &str = "
INSERT INTO samples (
    run_id, strategy, repeat, second, monotonic_ms, wall_ms, transactions, latency_us_mean, latency_us_min,
    latency_us_max, foreground_read_bytes, device_read_bytes, device_reads, os_resident_bytes)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)";

impl Store {
    /// Keeps a run, new or changed.
    pub async fn save_run(&self, run: &Run) -> Result<(), Error> {
        let mut transaction = self.pool.begin().await.map_err(self.failed_to("write"))?;
        upsert_run(&mut transaction, run).await.map_err(self.failed_to("write"))?;
        transaction.commit().await.map_err(self.failed_to("write"))
    }

    /// Keeps a trial of a run that was saved; one of the same strategy and repeat is replaced.
    pub async fn save_trial(&self, trial: &Trial) -> Result<(), Error> {
        let mut transaction = self.pool.begin().await.map_err(self.failed_to("write"))?;
        replace_trial(&mut transaction, trial).await.map_err(self.failed_to("write"))?;
        transaction.commit().await.map_err(self.failed_to("write"))
    }

    /// Keeps what is known only at the end: the run with its steady throughput, and the trials judged by it.
    pub async fn finish_run(&self, run: &Run, trials: &[Trial]) -> Result<(), Error> {
        let mut transaction = self.pool.begin().await.map_err(self.failed_to("write"))?;
        upsert_run(&mut transaction, run).await.map_err(self.failed_to("write"))?;
        for trial in trials {
            replace_trial(&mut transaction, trial).await.map_err(self.failed_to("write"))?;
        }
        transaction.commit().await.map_err(self.failed_to("write"))
    }

    /// Forgets a run with its trials.
    pub async fn drop_run(&self, id: &str) -> Result<(), Error> {
        let dropped = sqlx::query("DELETE FROM runs WHERE id = $1")
            .bind(id)
            .execute(&self.pool)
            .await
            .map_err(self.failed_to("write"))?;
        if dropped.rows_affected() == 0 { Err(Error::UnknownRun(id.to_owned())) } else { Ok(()) }
    }
}

async fn upsert_run(transaction: &mut Transaction<'_, Sqlite>, run: &Run) -> Result<(), sqlx::Error> {
    sqlx::query(UPSERT_RUN)
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
        .execute(&mut **transaction)
        .await?;
    Ok(())
}

async fn replace_trial(transaction: &mut Transaction<'_, Sqlite>, trial: &Trial) -> Result<(), sqlx::Error> {
    sqlx::query("DELETE FROM trials WHERE run_id = $1 AND strategy = $2 AND repeat = $3")
        .bind(&trial.run_id)
        .bind(&trial.strategy)
        .bind(i64::from(trial.repeat))
        .execute(&mut **transaction)
        .await?;
    insert_trial(transaction, trial).await?;
    for sample in &trial.samples {
        insert_sample(transaction, trial, sample).await?;
    }
    Ok(())
}

async fn insert_trial(transaction: &mut Transaction<'_, Sqlite>, trial: &Trial) -> Result<(), sqlx::Error> {
    sqlx::query(INSERT_TRIAL)
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
        .execute(&mut **transaction)
        .await?;
    Ok(())
}

async fn insert_sample(
    transaction: &mut Transaction<'_, Sqlite>,
    trial: &Trial,
    sample: &Sample,
) -> Result<(), sqlx::Error> {
    sqlx::query(INSERT_SAMPLE)
        .bind(&trial.run_id)
        .bind(&trial.strategy)
        .bind(i64::from(trial.repeat))
        .bind(i64::from(sample.second))
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
        .execute(&mut **transaction)
        .await?;
    Ok(())
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
