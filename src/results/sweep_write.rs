//! Writes sweeps and their trials, each in one transaction, or a whole sweep.

use sqlx::types::Json;

use super::database::{Query, Transaction, Values};
use super::sweep_gauges::{INSERT_OS_SAMPLE, INSERT_WAIT_SAMPLE, os_sample_values, wait_sample_values};
use super::sweep_outline::{INSERT_OUTLINE, outline_values};
use super::unsent::Unsent;
use super::write::{sample_values, sql_bytes, sql_integer, sql_time};
use super::{Error, Store};
use crate::study::{LatencyHistogram, ScriptLatency, SweepRun, SweepTrial};
use crate::verdict::TrialOutline;

const UPSERT_SWEEP: &str = "
INSERT INTO sweeps (
    id, started_at, ended_at, pgthaw_version, pgbench_version, machine, server, question, digest, study, varied, points,
    repeats, seed, warnings, configuration, verdicts, generator, source, warmup)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20)
ON CONFLICT (id) DO UPDATE SET
    ended_at = excluded.ended_at, warnings = excluded.warnings, verdicts = excluded.verdicts,
    generator = excluded.generator, warmup = excluded.warmup";

const INSERT_TRIAL: &str = "
INSERT INTO sweep_trials (
    sweep_id, number, repeat, position, started_at, point, start_os_resident_bytes, start_total_bytes, start_verdict,
    command, failure, lasted_seconds, transactions, failed, skipped, tps, worst_second_tps, latency_us_p50,
    latency_us_p95, latency_us_p99, latency_us_p999, latency, statistics, buffers_before, buffers_after, checkpoints,
    settings, device_read_bytes, warnings, waits, checkpoint_begun, retried, retries, verdicts, checkpoint_cycles,
    cycle_tps, generators, late, file_system, server_version, strategy_outcome, warming)";

const INSERT_SCRIPT: &str = "
INSERT INTO sweep_scripts (sweep_id, number, repeat, place, script, answered, failed, skipped, response, service)";

const INSERT_SAMPLE: &str = "
INSERT INTO sweep_samples (
    sweep_id, number, repeat, second, monotonic_ms, wall_ms, transactions, latency_us_mean, latency_us_min,
    latency_us_max, foreground_read_bytes, device_read_bytes, device_reads, os_resident_bytes)";

impl Store {
    /// Keeps a sweep of which nothing was measured yet. A server hears of it with the next change.
    pub async fn open_sweep(&self, run: &SweepRun) -> Result<(), Error> {
        let failed = self.failed_to("write");
        let mut transaction = self.database.begin().await.map_err(&failed)?;
        upsert_sweep(&mut transaction, run).await.map_err(&failed)?;
        transaction.commit().await.map_err(&failed)
    }

    /// Keeps a sweep, new or changed.
    pub async fn save_sweep(&self, run: &SweepRun) -> Result<(), Error> {
        self.save_whole_sweep(run, &[]).await
    }

    /// Keeps a trial of a sweep that was saved.
    ///
    /// # Errors
    /// Also when the same repetition of the same point is there already: a finished trial is never replaced.
    pub async fn save_sweep_trial(&self, trial: &SweepTrial) -> Result<(), Error> {
        let failed = self.failed_to("write");
        let mut transaction = self.database.begin().await.map_err(&failed)?;
        self.add_trial(&mut transaction, trial).await.map_err(&failed)?;
        transaction.commit().await.map_err(&failed)?;
        self.send_soon();
        Ok(())
    }

    /// Keeps a sweep with all of its trials, or nothing of it.
    pub async fn save_whole_sweep(&self, run: &SweepRun, trials: &[SweepTrial]) -> Result<(), Error> {
        let failed = self.failed_to("write");
        let mut transaction = self.database.begin().await.map_err(&failed)?;
        upsert_sweep(&mut transaction, run).await.map_err(&failed)?;
        self.mark_unsent(&mut transaction, &Unsent::sweep(&run.id)).await.map_err(&failed)?;
        for trial in trials {
            self.add_trial(&mut transaction, trial).await.map_err(&failed)?;
        }
        transaction.commit().await.map_err(&failed)?;
        self.send_soon();
        Ok(())
    }

    async fn add_trial(&self, transaction: &mut Transaction, trial: &SweepTrial) -> Result<(), sqlx::Error> {
        insert_sweep_trial(transaction, trial, "").await?;
        self.mark_unsent(transaction, &Unsent::sweep_trial(&trial.sweep_id, trial.number, trial.repeat)).await
    }

    /// Forgets a sweep with its trials.
    pub async fn drop_sweep(&self, id: &str) -> Result<(), Error> {
        self.execute(Query::new("DELETE FROM sweeps WHERE id = $1").bind(id)).await.map(drop)
    }
}

pub(super) async fn upsert_sweep(transaction: &mut Transaction, run: &SweepRun) -> Result<(), sqlx::Error> {
    Query::new(UPSERT_SWEEP)
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
        .bind(&run.source)
        .bind(run.warmup.as_ref().map(Json))
        .execute(transaction)
        .await?;
    Ok(())
}

/// Inserts a trial with all that belongs to it. With `on_conflict` that does nothing, one that is there already stays as it
/// is.
pub(super) async fn insert_sweep_trial(
    transaction: &mut Transaction,
    trial: &SweepTrial,
    on_conflict: &str,
) -> Result<(), sqlx::Error> {
    if transaction.insert(INSERT_TRIAL, vec![trial_values(trial)], on_conflict).await? == 0 {
        return Ok(());
    }
    let key = Values::default().bind(&trial.sweep_id).bind(i64::from(trial.number)).bind(i64::from(trial.repeat));
    let outline = outline_values(key.clone(), &TrialOutline::from(trial));
    transaction.insert(INSERT_OUTLINE, vec![outline], "").await?;
    let scripts = (0..).zip(&trial.scripts).map(|(place, script)| script_values(key.clone(), place, script));
    transaction.insert(INSERT_SCRIPT, scripts.collect(), "").await?;
    let samples = trial.samples.iter().map(|sample| sample_values(key.clone(), sample));
    transaction.insert(INSERT_SAMPLE, samples.collect(), "").await?;
    let samples = trial.os_samples.iter().map(|sample| os_sample_values(key.clone(), sample));
    transaction.insert(INSERT_OS_SAMPLE, samples.collect(), "").await?;
    let samples = trial.wait_samples.iter().map(|sample| wait_sample_values(key.clone(), sample));
    transaction.insert(INSERT_WAIT_SAMPLE, samples.collect(), "").await?;
    Ok(())
}

fn trial_values(trial: &SweepTrial) -> Values {
    let (start, latency) = (trial.start_state.as_ref(), trial.latency.as_ref());
    let percentile = |share| Some(sql_integer(latency?.percentile(share)?.us));
    Values::default()
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
        .bind(percentile(0.5))
        .bind(percentile(0.95))
        .bind(percentile(0.99))
        .bind(percentile(0.999))
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
        .bind(trial.generators.as_ref().map(Json))
        .bind(sql_integer(trial.late))
        .bind(trial.file_system.as_ref().map(Json))
        .bind(&trial.server_version)
        .bind(trial.strategy_outcome.as_ref().map(Json))
        .bind(trial.warming.as_ref().map(Json))
}

fn script_values(key: Values, place: i64, script: &ScriptLatency) -> Values {
    key.bind(place)
        .bind(&script.script)
        .bind(sql_integer(script.answered))
        .bind(sql_integer(script.failed))
        .bind(sql_integer(script.skipped))
        .bind(script.response.encoded())
        .bind(script.service.as_ref().map(LatencyHistogram::encoded))
}
