//! Results for a server: kept in the local file first, and sent as soon as the server takes them.
//!
//! What is written and that it is not sent yet are one transaction of the file, and on the server everything of a trial
//! is one transaction that does nothing when the trial is there already. So nothing is lost when the server, this machine or
//! the connection goes at any moment, and nothing comes twice.

use std::collections::BTreeSet;
use std::io;
use std::time::{Duration, Instant};

use tokio::time::timeout;

use super::database::{Query, Row};
use super::store::{Link, Queue};
use super::write::{Unsent, insert_sweep_trial, upsert_sweep};
use super::{DamagedStudy, Error, Store};
use crate::study::{SweepRun, SweepTrial};

/// After the server did not answer, how long it is left alone. Whoever writes does not wait for it meanwhile.
const PAUSE: Duration = Duration::from_secs(10);

/// A server that has not taken one thing within this is away: it may be stopped, or somebody holds a lock on its tables.
const SEND_LIMIT: Duration = Duration::from_secs(60);

/// Only what has not changed since it was read.
const UNMARK: &str = "
DELETE FROM unsent
WHERE server = $1 AND kind = $2 AND id = $3 AND number = $4 AND repeat = $5 AND changes = $6";

/// A finished trial is never written over.
const LEAVE: &str = "ON CONFLICT DO NOTHING";

const SELECT: &str = "SELECT * FROM unsent WHERE server = $1 ORDER BY id, kind, number, repeat";

/// What came of sending.
#[derive(Debug, Default)]
pub struct Sent {
    /// Studies and trials that the server has now.
    pub things: usize,
    /// Studies that wait still, all of them or a trial: here they cannot be read.
    pub damaged: Vec<DamagedStudy>,
}

impl Sent {
    fn leave(&mut self, id: &str, error: Error) {
        if self.damaged.iter().all(|left| left.id.as_deref() != Some(id)) {
            self.damaged.push(DamagedStudy::new(Some(id.to_owned()), &error.of_study(Some(id))));
        }
    }
}

impl Store {
    /// How many trials and the like wait for the server.
    pub async fn count_unsent(&self) -> Result<usize, Error> {
        match &self.queue {
            Some(queue) => Ok(self.read_unsent(queue).await?.len()),
            None => Ok(0),
        }
    }

    /// Sends what waits; of a store without a server nothing does. A damaged study keeps no other from being sent.
    ///
    /// # Errors
    /// When the server does not answer, even if nothing waits, or does not take it: it goes on waiting.
    pub async fn send(&self) -> Result<Sent, Error> {
        let Some(queue) = &self.queue else { return Ok(Sent::default()) };
        let mut link = queue.link.lock().await;
        self.send_and_note(queue, &mut link).await
    }

    /// Begins to send what waits, unless the server did not answer a moment ago. Whoever writes does not wait for it, nor hear
    /// whether the server takes it: what was written is kept here.
    pub(super) fn send_soon(&self) {
        if self.queue.is_some() {
            let store = self.clone();
            tokio::spawn(async move { store.send_unless_away().await });
        }
    }

    async fn send_unless_away(&self) {
        let Some(queue) = &self.queue else { return };
        let mut link = queue.link.lock().await;
        if link.failed_at.is_none_or(|failed_at| failed_at.elapsed() >= PAUSE) {
            // A failure is noted in the link.
            let _ = self.send_and_note(queue, &mut link).await;
        }
    }

    async fn send_and_note(&self, queue: &Queue, link: &mut Link) -> Result<Sent, Error> {
        let sent = self.send_all(queue, link).await;
        link.failed_at = sent.is_err().then(Instant::now);
        if sent.is_err() {
            link.store = None;
        }
        sent
    }

    async fn send_all(&self, queue: &Queue, link: &mut Link) -> Result<Sent, Error> {
        let waiting = self.read_unsent(queue).await?;
        if link.store.is_none() {
            let connected = within_limit(queue, Store::connect_sender(&queue.server)).await?;
            link.store = Some(Box::new(connected));
        }
        let mut sent = Sent::default();
        let Some(server) = &link.store else { return Ok(sent) };
        let mut taken = BTreeSet::new();
        for unsent in &waiting {
            // A trial needs its sweep, which somebody may have dropped on the server.
            let (sweep, trial) = match self.read_waiting(unsent, !taken.contains(&unsent.id)).await {
                Ok(read) => read,
                Err(error) if error.is_damage() => {
                    sent.leave(&unsent.id, error);
                    continue;
                }
                Err(error) => return Err(error),
            };
            within_limit(queue, server.take_over(sweep.as_ref(), trial.as_ref())).await?;
            let done = unsent.bind(UNMARK, &queue.server.to_string()).bind(unsent.changes);
            self.execute(done).await?;
            taken.insert(&unsent.id);
            sent.things += 1;
        }
        Ok(sent)
    }

    /// What waits, a trial with its study where that is wanted. Nothing of what was dropped here.
    async fn read_waiting(
        &self,
        unsent: &Unsent,
        with_study: bool,
    ) -> Result<(Option<SweepRun>, Option<SweepTrial>), Error> {
        let sweep = if with_study { self.read_sweep(&unsent.id).await? } else { None };
        let trial = match unsent.is_trial() {
            true => self.read_sweep_trial(&unsent.id, unsent.number, unsent.repeat).await?,
            false => None,
        };
        Ok((sweep, trial))
    }

    /// One transaction on the server.
    async fn take_over(&self, sweep: Option<&SweepRun>, trial: Option<&SweepTrial>) -> Result<(), Error> {
        let failed = self.failed_to("write");
        let mut transaction = self.begin().await?;
        if let Some(sweep) = sweep {
            upsert_sweep(&mut transaction, sweep).await.map_err(&failed)?;
        }
        if let Some(trial) = trial {
            insert_sweep_trial(&mut transaction, trial, LEAVE).await.map_err(&failed)?;
        }
        transaction.commit().await.map_err(&failed)
    }

    async fn read_unsent(&self, queue: &Queue) -> Result<Vec<Unsent>, Error> {
        self.read(Query::new(SELECT).bind(queue.server.to_string()), unsent_from).await
    }
}

/// What is asked of the server, unless it takes longer than a server that is there would.
async fn within_limit<T>(queue: &Queue, asked: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    match timeout(SEND_LIMIT, asked).await {
        Ok(answer) => answer,
        Err(_) => {
            let late = io::Error::new(io::ErrorKind::TimedOut, format!("nothing within {} s", SEND_LIMIT.as_secs()));
            Err(Error::Away { server: queue.server.clone(), source: late.into() })
        }
    }
}

fn unsent_from(row: &Row) -> Result<Unsent, sqlx::Error> {
    Ok(Unsent {
        id: row.get("id")?,
        number: row.get("number")?,
        repeat: row.get("repeat")?,
        changes: row.get("changes")?,
    })
}
