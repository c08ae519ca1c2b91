//! Keeps runs of loaders and their trials, and reads them back.

use super::columns::Columns as _;
use super::database::{Query, Row, Transaction, Values};
use super::names::{Kind, Named, choose};
use super::unsent::Unsent;
use super::{Error, NEWEST, Store};
use crate::study::{LoadingRun, LoadingTrial};

const UPDATE_RUN: &str = "ON CONFLICT (id) DO UPDATE SET ended_at = excluded.ended_at, warnings = excluded.warnings";

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
        self.read(Query::new("SELECT * FROM loading_runs ORDER BY started_at DESC, id DESC"), Row::record).await
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
        self.read(Query::new(query).bind(run_id), Row::record).await
    }
}

pub(super) async fn upsert_loading(transaction: &mut Transaction, run: &LoadingRun) -> Result<(), sqlx::Error> {
    transaction.insert("loading_runs", vec![run.put(Values::default())], UPDATE_RUN).await.map(drop)
}

/// Inserts trials of a run. With `on_conflict` that does nothing, those that are there already stay as they are.
pub(super) async fn insert_loading_trials(
    transaction: &mut Transaction,
    run_id: &str,
    trials: &[LoadingTrial],
    on_conflict: &str,
) -> Result<(), sqlx::Error> {
    let rows = trials.iter().map(|trial| trial.put(Values::default().bind("run_id", run_id))).collect();
    transaction.insert("loading_trials", rows, on_conflict).await.map(drop)
}
