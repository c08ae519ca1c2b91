//! Keeps runs of loaders and their trials, and reads them back.

use sqlx::types::Json;

use super::columns::{bytes_of, json_of, number_of, optional_number_of, optional_time_of, time_of};
use super::database::{Query, Row, Transaction, Values};
use super::names::{Kind, Named, choose};
use super::read::start_state_of;
use super::unsent::Unsent;
use super::write::{sql_bytes, sql_integer, sql_time};
use super::{Error, NEWEST, Store};
use crate::study::{LoadOutcome, LoadingRun, LoadingTrial, Record as _};
use crate::units::Bytes;

const UPSERT_RUN: &str = "
INSERT INTO loading_runs (id, started_at, ended_at, pgthaw_version, machine, server, settings, study, warnings)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
ON CONFLICT (id) DO UPDATE SET ended_at = excluded.ended_at, warnings = excluded.warnings";

const INSERT_TRIAL: &str = "
INSERT INTO loading_trials (
    run_id, loader, round, position, started_at, start_os_resident_bytes, start_total_bytes, start_verdict, command,
    resident_after_seconds, buffers_after_seconds, ended_after_seconds, own_bytes, own_seconds, resident_bytes,
    cpu_seconds, device_read_bytes, device_reads, failure, output, samples, warnings)";

impl Named for LoadingRun {
    fn id(&self) -> &str {
        &self.id
    }
}

impl Store {
    /// Keeps a run of loaders, new or ended.
    pub async fn save_loading(&self, run: &LoadingRun) -> Result<(), Error> {
        let failed = self.failed_to("write");
        let mut transaction = self.database.begin().await.map_err(&failed)?;
        upsert_loading(&mut transaction, run).await.map_err(&failed)?;
        self.mark_unsent(&mut transaction, &Unsent::loading(&run.id)).await.map_err(&failed)?;
        transaction.commit().await.map_err(&failed)?;
        self.send_soon();
        Ok(())
    }

    /// Keeps a trial of a run that was saved.
    pub async fn save_loading_trial(&self, run_id: &str, trial: &LoadingTrial) -> Result<(), Error> {
        let failed = self.failed_to("write");
        let mut transaction = self.database.begin().await.map_err(&failed)?;
        insert_loading_trials(&mut transaction, run_id, std::slice::from_ref(trial), "").await.map_err(&failed)?;
        self.mark_unsent(&mut transaction, &Unsent::loading(run_id)).await.map_err(&failed)?;
        transaction.commit().await.map_err(&failed)?;
        self.send_soon();
        Ok(())
    }

    /// Forgets a run of loaders with its trials.
    pub async fn drop_loading(&self, id: &str) -> Result<(), Error> {
        self.execute(Query::new("DELETE FROM loading_runs WHERE id = $1").bind(id)).await.map(drop)
    }

    /// All runs of loaders, the newest first.
    pub async fn read_loadings(&self) -> Result<Vec<LoadingRun>, Error> {
        self.read(Query::new("SELECT * FROM loading_runs ORDER BY started_at DESC, id DESC"), run_from).await
    }

    /// The run of loaders that is meant: by its id, by the first characters of it when no other begins so, or `newest`.
    /// `None`: no run of loaders is.
    pub async fn find_loading(&self, wanted: &str) -> Result<Option<LoadingRun>, Error> {
        let runs = self.read_loadings().await?;
        if wanted == NEWEST {
            let is_newest = self.read_newest_kind().await? == Some(Kind::Loading);
            return Ok(runs.into_iter().next().filter(|_| is_newest));
        }
        choose(runs, wanted)
    }

    /// The trials of a run of loaders, in the order in which they ran.
    pub async fn read_loading_trials(&self, run_id: &str) -> Result<Vec<LoadingTrial>, Error> {
        let query = "SELECT * FROM loading_trials WHERE run_id = $1 ORDER BY position";
        self.read(Query::new(query).bind(run_id), trial_from).await
    }
}

pub(super) async fn upsert_loading(transaction: &mut Transaction, run: &LoadingRun) -> Result<(), sqlx::Error> {
    Query::new(UPSERT_RUN)
        .bind(&run.id)
        .bind(sql_time(run.started_at))
        .bind(run.ended_at.map(sql_time))
        .bind(&run.pgthaw_version)
        .bind(Json(&run.machine))
        .bind(Json(&run.server))
        .bind(Json(&run.settings))
        .bind(Json(&run.study))
        .bind(Json(&run.warnings))
        .execute(transaction)
        .await?;
    Ok(())
}

/// Inserts trials of a run. With `on_conflict` that does nothing, those that are there already stay as they are.
pub(super) async fn insert_loading_trials(
    transaction: &mut Transaction,
    run_id: &str,
    trials: &[LoadingTrial],
    on_conflict: &str,
) -> Result<(), sqlx::Error> {
    let rows = trials.iter().map(|trial| trial_values(run_id, trial)).collect();
    transaction.insert(INSERT_TRIAL, rows, on_conflict).await.map(drop)
}

fn trial_values(run_id: &str, trial: &LoadingTrial) -> Values {
    let outcome = &trial.outcome;
    Values::default()
        .bind(run_id)
        .bind(&trial.loader)
        .bind(i64::from(trial.round))
        .bind(i64::from(trial.position))
        .bind(sql_time(trial.started_at))
        .bind(sql_bytes(trial.start_state.os_resident_bytes))
        .bind(sql_bytes(trial.start_state.total_bytes))
        .bind(&trial.start_state.verdict)
        .bind(&trial.command)
        .bind(outcome.resident_after_seconds)
        .bind(outcome.buffers_after_seconds)
        .bind(outcome.ended_after_seconds)
        .bind(outcome.own_bytes.map(sql_bytes))
        .bind(outcome.own_seconds)
        .bind(sql_bytes(outcome.resident_bytes))
        .bind(outcome.cpu_seconds)
        .bind(outcome.device_read_bytes.map(sql_bytes))
        .bind(outcome.device_reads.map(sql_integer))
        .bind(&outcome.failure)
        .bind(&outcome.output)
        .bind(Json(&trial.samples))
        .bind(Json(&trial.warnings))
}

fn run_from(row: &Row) -> Result<LoadingRun, sqlx::Error> {
    let mut run = LoadingRun {
        id: row.try_get("id")?,
        started_at: time_of(row, "started_at")?,
        ended_at: optional_time_of(row, "ended_at")?,
        pgthaw_version: row.try_get("pgthaw_version")?,
        machine: json_of(row, "machine")?,
        server: json_of(row, "server")?,
        settings: json_of(row, "settings")?,
        study: json_of(row, "study")?,
        warnings: json_of(row, "warnings")?,
    };
    run.hide_secrets();
    Ok(run)
}

fn trial_from(row: &Row) -> Result<LoadingTrial, sqlx::Error> {
    let mut trial = LoadingTrial {
        loader: row.try_get("loader")?,
        round: number_of(row, "round")?,
        position: number_of(row, "position")?,
        started_at: time_of(row, "started_at")?,
        start_state: start_state_of(row)?,
        command: row.try_get("command")?,
        outcome: LoadOutcome {
            resident_after_seconds: row.try_get("resident_after_seconds")?,
            buffers_after_seconds: row.try_get("buffers_after_seconds")?,
            ended_after_seconds: row.try_get("ended_after_seconds")?,
            own_bytes: optional_number_of(row, "own_bytes")?.map(Bytes),
            own_seconds: row.try_get("own_seconds")?,
            resident_bytes: bytes_of(row, "resident_bytes")?,
            cpu_seconds: row.try_get("cpu_seconds")?,
            device_read_bytes: optional_number_of(row, "device_read_bytes")?.map(Bytes),
            device_reads: optional_number_of(row, "device_reads")?,
            failure: row.try_get("failure")?,
            output: row.try_get("output")?,
        },
        samples: json_of(row, "samples")?,
        warnings: json_of(row, "warnings")?,
    };
    trial.hide_secrets();
    Ok(trial)
}
