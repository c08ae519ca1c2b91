//! What older versions kept in tables of their own becomes studies: moved one by one, each in one transaction, so that at
//! any moment everything is there, once.

use std::collections::HashMap;

use sqlx::migrate::MigrateError;

use super::Store;
use super::columns::{Columns, columns};
use super::database::{Query, Row, Transaction, Values};
use super::sweep_write::{insert_sweep_trial, upsert_sweep};
use crate::study::{Run, Sample, SweepRun, SweepTrial, Trial};
use crate::verdict::make_study_of_run;

columns!(Run {
    id, started_at, ended_at, pgthaw_version, steady_tps
    ; json machine, server, settings, study, warnings
});

columns!(Trial {
    run_id, strategy, repeat, position, started_at, warm_after_seconds, to_50_seconds, to_90_seconds, to_95_seconds,
    served_until_warm, served, device_read_bytes, no_verdict
    ; json residency, warnings, foreground_tenths
    ; optional_json judgement
    ; flat start_state, outcome
    ; apart samples
});

/// Keeps the row from everybody else until the transaction ends. Whoever else moves the run waits here, and finds none then.
const HOLD: &str = "UPDATE runs SET id = id WHERE id = $1";

/// What a server has not got of a run it has not got of the study, nor of its trials.
const MARK: &str = "
INSERT INTO unsent (server, kind, id, number, repeat, changes)
SELECT server, $2, id, CAST($3 AS INTEGER), CAST($4 AS INTEGER), 1 FROM unsent WHERE kind = 'run' AND id = $1
ON CONFLICT (server, kind, id, number, repeat) DO UPDATE SET changes = unsent.changes + 1";

impl Store {
    /// Moves every run of `bench warmup`.
    pub(super) async fn move_older_runs(&self) -> Result<(), MigrateError> {
        let ids = Query::new("SELECT id FROM runs ORDER BY id").fetch(&self.database).await?;
        for id in ids.iter().map(|row| row.get::<String>("id")) {
            let mut transaction = self.database.begin().await?;
            move_run(&mut transaction, &id?).await?;
            transaction.commit().await?;
        }
        Ok(())
    }
}

async fn move_run(transaction: &mut Transaction, id: &str) -> Result<(), sqlx::Error> {
    if Query::new(HOLD).bind(id).execute(transaction).await? == 0 {
        return Ok(());
    }
    let runs = Query::new("SELECT * FROM runs WHERE id = $1").bind(id).fetch_within(transaction).await?;
    for run in &runs {
        let (study, trials) = make_study_of_run(&run.record()?, read_trials(transaction, id).await?);
        keep_study(transaction, &study, &trials).await?;
    }
    Query::new("DELETE FROM unsent WHERE kind = 'run' AND id = $1").bind(id).execute(transaction).await?;
    Query::new("DELETE FROM runs WHERE id = $1").bind(id).execute(transaction).await.map(drop)
}

async fn read_trials(transaction: &mut Transaction, run_id: &str) -> Result<Vec<Trial>, sqlx::Error> {
    let query = "SELECT * FROM samples WHERE run_id = $1 ORDER BY strategy, repeat, second";
    let mut samples: HashMap<(String, u32), Vec<Sample>> = HashMap::new();
    for row in Query::new(query).bind(run_id).fetch_within(transaction).await? {
        samples.entry((row.get("strategy")?, row.get("repeat")?)).or_default().push(Columns::read(&row)?);
    }
    let query = "SELECT * FROM trials WHERE run_id = $1 ORDER BY position, strategy, repeat";
    let rows = Query::new(query).bind(run_id).fetch_within(transaction).await?;
    let trial = |row: &Row| {
        let mut trial: Trial = row.record()?;
        trial.samples = samples.remove(&(trial.strategy.clone(), trial.repeat)).unwrap_or_default();
        Ok(trial)
    };
    rows.iter().map(trial).collect()
}

/// An older program may have come back to a run that was moved already: what is new of it is added.
async fn keep_study(transaction: &mut Transaction, study: &SweepRun, trials: &[SweepTrial]) -> Result<(), sqlx::Error> {
    upsert_sweep(transaction, study).await?;
    let mark = |kind: &str, number: u32, repeat: u32| {
        Query::new(MARK).bind(&study.id).bind(kind).bind(i64::from(number)).bind(i64::from(repeat))
    };
    mark("sweep", 0, 0).execute(transaction).await?;
    for trial in trials {
        insert_sweep_trial(transaction, trial, "ON CONFLICT DO NOTHING").await?;
        mark("sweep trial", trial.number, trial.repeat).execute(transaction).await?;
    }
    Ok(())
}
