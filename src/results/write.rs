//! Writes runs and trials, each in one transaction.

use super::columns::Columns as _;
use super::database::{Query, Transaction, Values};
use super::unsent::Unsent;
use super::{Error, Store};
use crate::study::{Run, Trial};

const UPDATE_RUN: &str = "
ON CONFLICT (id) DO UPDATE SET
    started_at = excluded.started_at, ended_at = excluded.ended_at, pgthaw_version = excluded.pgthaw_version,
    machine = excluded.machine, server = excluded.server, settings = excluded.settings, study = excluded.study,
    steady_tps = excluded.steady_tps, warnings = excluded.warnings";

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
    transaction.insert("runs", vec![run.put(Values::default())], UPDATE_RUN).await.map(drop)
}

pub(super) async fn replace_trial(transaction: &mut Transaction, trial: &Trial) -> Result<(), sqlx::Error> {
    Query::new("DELETE FROM trials WHERE run_id = $1 AND strategy = $2 AND repeat = $3")
        .bind(&trial.run_id)
        .bind(&trial.strategy)
        .bind(&trial.repeat)
        .execute(transaction)
        .await?;
    transaction.insert("trials", vec![trial.put(Values::default())], "").await?;
    let key = Values::default().bind("run_id", &trial.run_id).bind("strategy", &trial.strategy);
    let key = key.bind("repeat", &trial.repeat);
    let samples = trial.samples.iter().map(|sample| sample.put(key.clone())).collect();
    transaction.insert("samples", samples, "").await.map(drop)
}
