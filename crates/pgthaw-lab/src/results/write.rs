use super::database::{Query, Transaction, Values};
use super::records::{Columns as _, Unsent};
use super::{Result, Store};
use crate::study::{SweepRun, SweepTrial};
use crate::verdict::TrialOutline;

const UPDATE_SWEEP: &str = "
ON CONFLICT (id) DO UPDATE SET
    ended_at = excluded.ended_at, warnings = excluded.warnings, verdicts = excluded.verdicts,
    databases = excluded.databases, generator = excluded.generator, warmup = excluded.warmup";

const MARK: &str = "
INSERT INTO unsent (server, kind, id, number, repeat, changes) VALUES ($1, $2, $3, $4, $5, 1)
ON CONFLICT (server, kind, id, number, repeat) DO UPDATE SET changes = unsent.changes + 1";

impl Store {
    /// Stores a sweep before its first trial, without queueing it for the server.
    pub async fn open_sweep(&self, run: &SweepRun) -> Result<()> {
        Store { queue: None, ..self.clone() }.save(Some(run), &[], "").await
    }

    pub async fn save_sweep(&self, run: &SweepRun) -> Result<()> {
        self.save(Some(run), &[], "").await
    }

    /// # Errors
    /// Also if this repeat of the point is already stored: a finished trial is never replaced.
    pub async fn save_sweep_trial(&self, trial: &SweepTrial) -> Result<()> {
        self.save(None, std::slice::from_ref(trial), "").await
    }

    pub async fn save_whole_sweep(&self, run: &SweepRun, trials: &[SweepTrial]) -> Result<()> {
        self.save(Some(run), trials, "").await
    }

    /// Stores all or nothing. `on_conflict` follows the values of a trial.
    pub(super) async fn save(&self, run: Option<&SweepRun>, trials: &[SweepTrial], on_conflict: &str) -> Result<()> {
        let failed = self.failed_to("write");
        let mut transaction = self.begin().await?;
        if let Some(run) = run {
            let sweep = vec![run.put(Values::default())];
            transaction.insert("sweeps", sweep, UPDATE_SWEEP).await.map_err(&failed)?;
            self.mark_unsent(&mut transaction, &Unsent::sweep(&run.id)).await.map_err(&failed)?;
        }
        for trial in trials {
            insert_sweep_trial(&mut transaction, trial, on_conflict).await.map_err(&failed)?;
            let &SweepTrial { number, repeat, .. } = trial;
            let unsent = Unsent { number, repeat, ..Unsent::sweep(&trial.sweep_id) };
            self.mark_unsent(&mut transaction, &unsent).await.map_err(&failed)?;
        }
        transaction.commit().await.map_err(&failed)?;
        self.send_soon();
        Ok(())
    }

    async fn mark_unsent(&self, transaction: &mut Transaction, unsent: &Unsent) -> Result<(), sqlx::Error> {
        let Some(queue) = &self.queue else { return Ok(()) };
        unsent.bind(MARK, &queue.server.shown).execute(transaction).await.map(drop)
    }

    pub async fn drop_sweep(&self, id: &str) -> Result<()> {
        self.execute(Query::new("DELETE FROM sweeps WHERE id = $1").bind(id)).await
    }
}

async fn insert_sweep_trial(
    transaction: &mut Transaction,
    trial: &SweepTrial,
    on_conflict: &str,
) -> Result<(), sqlx::Error> {
    if transaction.insert("sweep_trials", vec![trial.put(Values::default())], on_conflict).await? == 0 {
        return Ok(());
    }
    let key = || {
        let key = Values::default().bind("sweep_id", &trial.sweep_id);
        key.bind("number", &trial.number).bind("repeat", &trial.repeat)
    };
    let outline = TrialOutline::from(trial).put(Values::default().bind("sweep_id", &trial.sweep_id));
    transaction.insert("sweep_outlines", vec![outline], "").await?;
    let scripts = (0..).zip(&trial.scripts).map(|(place, script): (i64, _)| script.put(key().bind("place", &place)));
    transaction.insert("sweep_scripts", scripts.collect(), "").await?;
    let samples = trial.samples.iter().map(|sample| sample.put(key()));
    transaction.insert("sweep_samples", samples.collect(), "").await?;
    let samples = trial.os_samples.iter().map(|sample| sample.put(key()));
    transaction.insert("sweep_os_samples", samples.collect(), "").await?;
    let samples = trial.wait_samples.iter().map(|sample| sample.put(key()));
    transaction.insert("sweep_wait_samples", samples.collect(), "").await.map(drop)
}

impl Unsent {
    pub fn sweep(id: &str) -> Unsent {
        Unsent { id: id.to_owned(), number: 0, repeat: 0, changes: 0 }
    }

    pub fn bind(&self, sql: &'static str, server: &str) -> Query {
        let kind = if self.repeat > 0 { "sweep trial" } else { "sweep" };
        let query = Query::new(sql).bind(server).bind(kind).bind(&self.id);
        query.bind(&self.number).bind(&self.repeat)
    }
}
