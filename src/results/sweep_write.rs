//! Writes sweeps and their trials, each in one transaction.

use sqlx::types::Json;
use sqlx::{Sqlite, Transaction};

use super::sweep_gauges::{insert_os_sample, insert_wait_sample};
use super::write::{sql_bytes, sql_integer, sql_time};
use super::{Error, Store};
use crate::bench::{LatencyHistogram, ScriptLatency, SweepRun, SweepSample, SweepTrial};

const UPSERT_SWEEP: &str = "
INSERT INTO sweeps (
    id, started_at, ended_at, pgthaw_version, pgbench_version, machine, server, question, digest, study, varied, points,
    repeats, seed, warnings, configuration, verdicts, generator)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18)
ON CONFLICT (id) DO UPDATE SET
    ended_at = excluded.ended_at, warnings = excluded.warnings, verdicts = excluded.verdicts,
    generator = excluded.generator";

const INSERT_TRIAL: &str = "
INSERT INTO sweep_trials (
    sweep_id, number, repeat, position, started_at, point, start_os_resident_bytes, start_total_bytes, start_verdict,
    command, failure, lasted_seconds, transactions, failed, skipped, tps, worst_second_tps, latency_us_p50,
    latency_us_p99, latency, statistics, buffers_before, buffers_after, checkpoints, settings, device_read_bytes,
    warnings, waits, checkpoint_begun, retried, retries, verdicts, checkpoint_cycles, cycle_tps)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24,
        $25, $26, $27, $28, $29, $30, $31, $32, $33, $34)";

const INSERT_SCRIPT: &str = "
INSERT INTO sweep_scripts (sweep_id, number, repeat, place, script, answered, failed, skipped, response, service)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";

const INSERT_SAMPLE: &str = "
INSERT INTO sweep_samples (
    sweep_id, number, repeat, second, monotonic_ms, wall_ms, transactions, latency_us_mean, latency_us_min,
    latency_us_max, foreground_read_bytes, device_read_bytes, device_reads, os_resident_bytes)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)";

impl Store {
    /// Keeps a sweep, new or changed.
    pub async fn save_sweep(&self, run: &SweepRun) -> Result<(), Error> {
        let saved = sqlx::query(UPSERT_SWEEP)
            .bind(&run.id)
            .bind(sql_time(run.started_at))
            .bind(run.ended_at.map(sql_time))
            .bind(&run.pgthaw_version)
            .bind(&run.pgbench_version)
            .bind(Json(&run.machine))
            .bind(Json(&run.server))
            .bind(&run.question)
            .bind(&run.digest)
            .bind(Json(&run.study))
            .bind(Json(&run.varied))
            .bind(i64::from(run.points))
            .bind(i64::from(run.repeats))
            .bind(run.seed.to_string())
            .bind(Json(&run.warnings))
            .bind(Json(&run.configuration))
            .bind(Json(&run.verdicts))
            .bind(Json(&run.generator))
            .execute(&self.pool)
            .await;
        saved.map(drop).map_err(self.failed_to("write"))
    }

    /// Keeps a trial of a sweep that was saved.
    ///
    /// # Errors
    /// Also when the same repetition of the same point is there already: a finished trial is never replaced.
    pub async fn save_sweep_trial(&self, trial: &SweepTrial) -> Result<(), Error> {
        let mut transaction = self.pool.begin().await.map_err(self.failed_to("write"))?;
        insert_all(&mut transaction, trial).await.map_err(self.failed_to("write"))?;
        transaction.commit().await.map_err(self.failed_to("write"))
    }

    /// Forgets a sweep with its trials.
    pub async fn drop_sweep(&self, id: &str) -> Result<(), Error> {
        let dropped = sqlx::query("DELETE FROM sweeps WHERE id = $1").bind(id).execute(&self.pool).await;
        dropped.map(drop).map_err(self.failed_to("write"))
    }
}

async fn insert_all(transaction: &mut Transaction<'_, Sqlite>, trial: &SweepTrial) -> Result<(), sqlx::Error> {
    insert_trial(transaction, trial).await?;
    for (place, script) in (0..).zip(&trial.scripts) {
        insert_script(transaction, trial, place, script).await?;
    }
    for sample in &trial.samples {
        insert_sample(transaction, trial, sample).await?;
    }
    for sample in &trial.os_samples {
        insert_os_sample(transaction, trial, sample).await?;
    }
    for sample in &trial.wait_samples {
        insert_wait_sample(transaction, trial, sample).await?;
    }
    Ok(())
}

async fn insert_trial(transaction: &mut Transaction<'_, Sqlite>, trial: &SweepTrial) -> Result<(), sqlx::Error> {
    let (start, latency) = (trial.start_state.as_ref(), trial.latency.as_ref());
    sqlx::query(INSERT_TRIAL)
        .bind(&trial.sweep_id)
        .bind(i64::from(trial.number))
        .bind(i64::from(trial.repeat))
        .bind(i64::from(trial.position))
        .bind(sql_time(trial.started_at))
        .bind(Json(&trial.point))
        .bind(start.map(|start| sql_bytes(start.os_resident_bytes)))
        .bind(start.map(|start| sql_bytes(start.total_bytes)))
        .bind(start.map(|start| &start.verdict))
        .bind(&trial.command)
        .bind(&trial.failure)
        .bind(trial.lasted_seconds)
        .bind(sql_integer(trial.transactions))
        .bind(sql_integer(trial.failed))
        .bind(sql_integer(trial.skipped))
        .bind(trial.tps)
        .bind(trial.worst_second_tps)
        .bind(latency.map(|latency| sql_integer(latency.p50_us)))
        .bind(latency.map(|latency| sql_integer(latency.p99_us)))
        .bind(latency.map(LatencyHistogram::encoded))
        .bind(Json(&trial.statistics))
        .bind(Json(&trial.buffers_before))
        .bind(Json(&trial.buffers_after))
        .bind(Json(&trial.checkpoints))
        .bind(Json(&trial.settings))
        .bind(sql_bytes(trial.device_read_bytes))
        .bind(Json(&trial.warnings))
        .bind(Json(&trial.waits))
        .bind(Json(&trial.checkpoint_begun))
        .bind(sql_integer(trial.retried))
        .bind(sql_integer(trial.retries))
        .bind(Json(&trial.verdicts))
        .bind(i64::from(trial.checkpoint_cycles))
        .bind(trial.cycle_tps)
        .execute(&mut **transaction)
        .await?;
    Ok(())
}

async fn insert_script(
    transaction: &mut Transaction<'_, Sqlite>,
    trial: &SweepTrial,
    place: i64,
    script: &ScriptLatency,
) -> Result<(), sqlx::Error> {
    sqlx::query(INSERT_SCRIPT)
        .bind(&trial.sweep_id)
        .bind(i64::from(trial.number))
        .bind(i64::from(trial.repeat))
        .bind(place)
        .bind(&script.script)
        .bind(sql_integer(script.answered))
        .bind(sql_integer(script.failed))
        .bind(sql_integer(script.skipped))
        .bind(script.response.encoded())
        .bind(script.service.as_ref().map(LatencyHistogram::encoded))
        .execute(&mut **transaction)
        .await?;
    Ok(())
}

async fn insert_sample(
    transaction: &mut Transaction<'_, Sqlite>,
    trial: &SweepTrial,
    sample: &SweepSample,
) -> Result<(), sqlx::Error> {
    sqlx::query(INSERT_SAMPLE)
        .bind(&trial.sweep_id)
        .bind(i64::from(trial.number))
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
