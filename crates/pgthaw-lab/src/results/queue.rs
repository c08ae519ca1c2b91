//! Results for a server: stored in the local file first, then sent.
//!
//! One local transaction stores data and their row in `unsent`. On the server, each trial is one transaction that
//! ignores existing trials. So no crash loses or duplicates anything.

use std::collections::BTreeSet;
use std::io;
use std::time::{Duration, Instant};

use tokio::time::timeout;

use super::database::Query;
use super::records::{Columns as _, Unsent};
use super::store::{Link, Queue};
use super::{DamagedStudy, Error, Result, Store};

const PAUSE: Duration = Duration::from_secs(10);

/// Timeout for sending: the server may be stopped, or its tables locked.
const SEND_LIMIT: Duration = Duration::from_secs(60);

/// Removes an item's row from `unsent`, unless the item was queued again while it was sent.
const UNMARK: &str = "
DELETE FROM unsent
WHERE server = $1 AND kind = $2 AND id = $3 AND number = $4 AND repeat = $5 AND changes = $6";

/// A finished trial is never replaced.
const LEAVE: &str = "ON CONFLICT DO NOTHING";

const SELECT: &str = "SELECT * FROM unsent WHERE server = $1 ORDER BY id, kind, number, repeat";

impl Store {
    pub async fn count_unsent(&self) -> Result<usize> {
        let Some(queue) = &self.queue else { return Ok(0) };
        Ok(self.read_unsent(queue).await?.len())
    }

    /// Sends queued results. Returns studies that could not be read.
    ///
    /// # Errors
    /// When the server does not answer, even with an empty queue, or rejects data, which stays queued.
    pub async fn send(&self) -> Result<Vec<DamagedStudy>> {
        let Some(queue) = &self.queue else { return Ok(Vec::new()) };
        let mut link = queue.link.lock().await;
        self.send_and_note(queue, &mut link).await
    }

    /// Sends in the background, unless the server failed recently.
    pub(super) fn send_soon(&self) {
        let (store, Some(queue)) = (self.clone(), self.queue.clone()) else { return };
        tokio::spawn(async move {
            let mut link = queue.link.lock().await;
            if link.failed_at.is_none_or(|failed_at| failed_at.elapsed() >= PAUSE) {
                // The failure is recorded in the link.
                let _ = store.send_and_note(&queue, &mut link).await;
            }
        });
    }

    async fn send_and_note(&self, queue: &Queue, link: &mut Link) -> Result<Vec<DamagedStudy>> {
        let sent = self.send_all(queue, link).await;
        link.failed_at = sent.is_err().then(Instant::now);
        link.store.take_if(|_| sent.is_err());
        sent
    }

    async fn send_all(&self, queue: &Queue, link: &mut Link) -> Result<Vec<DamagedStudy>> {
        let waiting = self.read_unsent(queue).await?;
        let server = match &mut link.store {
            Some(server) => server,
            none => none.insert(Box::new(within_limit(queue, Store::connect_sender(&queue.server)).await?)),
        };
        let mut damaged: Vec<DamagedStudy> = Vec::new();
        let mut taken = BTreeSet::new();
        for unsent in &waiting {
            // A trial is sent with its sweep, which may have been dropped on the server.
            let read = async {
                let is_known = taken.contains(&unsent.id);
                let sweep = if is_known { None } else { self.read_sweep(&unsent.id).await? };
                // A queued study has no trial of its number and repeat.
                Ok::<_, Error>((sweep, self.read_sweep_trial(&unsent.id, unsent.number, unsent.repeat).await?))
            };
            let (sweep, trial) = match read.await {
                Ok(read) => read,
                Err(error) if error.is_damage() => {
                    let id = Some(unsent.id.clone());
                    if damaged.iter().all(|known| known.id != id) {
                        damaged.push(DamagedStudy::new(id, &error.of_study(Some(&unsent.id))));
                    }
                    continue;
                }
                Err(error) => return Err(error),
            };
            within_limit(queue, server.save(sweep.as_ref(), trial.as_slice(), LEAVE)).await?;
            let done = unsent.bind(UNMARK, &queue.server.shown).bind(&unsent.changes);
            self.execute(done).await?;
            taken.insert(&unsent.id);
        }
        Ok(damaged)
    }

    async fn read_unsent(&self, queue: &Queue) -> Result<Vec<Unsent>> {
        self.read(Query::new(SELECT).bind(&queue.server.shown), Unsent::read).await
    }
}

async fn within_limit<T>(queue: &Queue, asked: impl Future<Output = Result<T>>) -> Result<T> {
    timeout(SEND_LIMIT, asked).await.unwrap_or_else(|_| {
        let late = io::Error::new(io::ErrorKind::TimedOut, format!("timeout after {} s", SEND_LIMIT.as_secs()));
        Err(Error::Away { server: queue.server.clone(), source: late.into() })
    })
}
