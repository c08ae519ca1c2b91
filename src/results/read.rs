//! Reads runs and trials back.

use std::collections::HashMap;

use super::columns::Columns as _;
use super::database::{Query, Row};
use super::names::{NEWEST, Named, choose};
use super::{Error, Store};
use crate::study::{Run, Sample, SweepRun, Trial};
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
        self.read(Query::new("SELECT * FROM runs ORDER BY started_at DESC, id DESC"), Row::record).await
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
        self.read(Query::new(query).bind(run_id), Row::record).await
    }

    /// The study of ways to warm with this id.
    async fn find_warmup(&self, id: &str) -> Result<Option<SweepRun>, Error> {
        let found = self.read(Query::new("SELECT * FROM sweeps WHERE id = $1").bind(id), Row::record).await?;
        Ok(found.into_iter().find(SweepRun::is_warmup))
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

/// A sample, and the strategy and repeat that it belongs to.
fn sample_of_trial(row: &Row) -> Result<((String, u32), Sample), sqlx::Error> {
    Ok(((row.get("strategy")?, row.get("repeat")?), Sample::read(row)?))
}
