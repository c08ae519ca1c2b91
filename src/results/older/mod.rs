//! What older versions kept in tables of their own becomes studies: moved one by one, each in one transaction, so that at
//! any moment everything is there, once.

mod loadings;
mod runs;

use sqlx::migrate::MigrateError;

use super::Store;
use super::database::{Query, Transaction};
use super::sweep_write::{insert_sweep_trial, upsert_sweep};
use crate::study::{Record as _, SweepRun, SweepTrial};

/// What was kept apart.
#[derive(Clone, Copy, Debug)]
enum Older {
    /// Of `bench warmup`.
    Run,
    /// Of `bench residency`.
    Loading,
}

impl Older {
    /// The table of its runs, and what it was called where it waited for a server.
    fn table_and_kind(self) -> (&'static str, &'static str) {
        match self {
            Older::Run => ("runs", "run"),
            Older::Loading => ("loading_runs", "loading"),
        }
    }
}

/// What a server has not got of a run it has not got of the study, nor of its trials.
const MARK: &str = "
INSERT INTO unsent (server, kind, id, number, repeat, changes)
SELECT server, $3, id, CAST($4 AS INTEGER), CAST($5 AS INTEGER), 1 FROM unsent WHERE kind = $1 AND id = $2
ON CONFLICT (server, kind, id, number, repeat) DO UPDATE SET changes = unsent.changes + 1";

impl Store {
    /// Moves everything that was kept apart.
    pub(super) async fn move_older_runs(&self) -> Result<(), MigrateError> {
        for older in [Older::Run, Older::Loading] {
            let (table, _) = older.table_and_kind();
            let ids = Query::new(format!("SELECT id FROM {table} ORDER BY id")).fetch(&self.database).await?;
            for id in ids.iter().map(|row| row.get::<String>("id")) {
                let (id, mut transaction) = (id?, self.database.begin().await?);
                move_run(&mut transaction, older, &id).await.map_err(|error| name_run(error, table, &id))?;
                transaction.commit().await?;
            }
        }
        Ok(())
    }
}

/// Whoever cannot have it read can give it up.
fn name_run(error: sqlx::Error, table: &str, id: &str) -> MigrateError {
    let sqlx::Error::ColumnDecode { index, source } = &error else { return error.into() };
    MigrateError::Source(
        format!(
            "{index} of the run {id} or of one of its trials: {source}; DELETE FROM {table} WHERE id = '{id}' gives that run up, \
             with PRAGMA foreign_keys = ON in SQLite"
        )
        .into(),
    )
}

async fn move_run(transaction: &mut Transaction, older: Older, id: &str) -> Result<(), sqlx::Error> {
    let (table, kind) = older.table_and_kind();
    // Keeps the row from everybody else until the transaction ends. Whoever else moves the run waits here, and finds none then.
    if Query::new(format!("UPDATE {table} SET id = id WHERE id = $1")).bind(id).execute(transaction).await? == 0 {
        return Ok(());
    }
    let rows = Query::new(format!("SELECT * FROM {table} WHERE id = $1")).bind(id).fetch_within(transaction).await?;
    for row in &rows {
        let (mut study, mut trials) = match older {
            Older::Run => runs::read_run(transaction, row).await?,
            Older::Loading => loadings::read_loading(transaction, row).await?,
        };
        study.hide_secrets();
        trials.iter_mut().for_each(SweepTrial::hide_secrets);
        keep_study(transaction, kind, &study, &trials).await?;
    }
    Query::new("DELETE FROM unsent WHERE kind = $1 AND id = $2").bind(kind).bind(id).execute(transaction).await?;
    Query::new(format!("DELETE FROM {table} WHERE id = $1")).bind(id).execute(transaction).await.map(drop)
}

/// An older program may have come back to a run that was moved already: what is new of it is added.
async fn keep_study(
    transaction: &mut Transaction,
    kind: &str,
    study: &SweepRun,
    trials: &[SweepTrial],
) -> Result<(), sqlx::Error> {
    upsert_sweep(transaction, study).await?;
    let mark = |newer: &str, number: u32, repeat: u32| {
        let query = Query::new(MARK).bind(kind).bind(&study.id).bind(newer);
        query.bind(i64::from(number)).bind(i64::from(repeat))
    };
    mark("sweep", 0, 0).execute(transaction).await?;
    for trial in trials {
        insert_sweep_trial(transaction, trial, "ON CONFLICT DO NOTHING").await?;
        mark("sweep trial", trial.number, trial.repeat).execute(transaction).await?;
    }
    Ok(())
}
