//! What the server's other clients have while a job runs, and which sessions call themselves as the job's do.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use sqlx::postgres::PgConnection;
use tokio::task::JoinHandle;

use crate::postgres::{Error, Server, read_all_transactions, read_named_sessions};
use crate::trace::OthersSeen;

/// Backends report their transactions once a second: two of these are seen.
const BEFORE: Duration = Duration::from_millis(2100);

/// Time from one look for sessions by their name to the next.
const NAMES_INTERVAL: Duration = Duration::from_millis(50);

/// Counts the transactions of all databases.
#[derive(Debug)]
pub struct Others {
    connection: PgConnection,
    before_tps: Option<f64>,
    /// When the job began, and how many there had been.
    begun: (Instant, u64),
}

impl Others {
    /// Counts for a moment before the job, if somebody is at work.
    pub async fn begin(server: &Server) -> Result<Others, Error> {
        let mut connection = server.connect_to(&server.database).await?;
        let (count, clients) = read_all_transactions(&mut connection).await?;
        let mut others = Others { connection, before_tps: None, begun: (Instant::now(), count) };
        if clients > 0 {
            tokio::time::sleep(BEFORE).await;
            others.before_tps = Some(others.rate().await?);
            others.job_begins().await?;
        }
        Ok(others)
    }

    /// From now on it is counted while the job runs.
    pub async fn job_begins(&mut self) -> Result<(), Error> {
        let (count, _) = read_all_transactions(&mut self.connection).await?;
        self.begun = (Instant::now(), count);
        Ok(())
    }

    async fn rate(&mut self) -> Result<f64, Error> {
        let (count, _) = read_all_transactions(&mut self.connection).await?;
        let (at, before) = self.begun;
        Ok(count.saturating_sub(before) as f64 / at.elapsed().as_secs_f64().max(f64::MIN_POSITIVE))
    }

    /// The job has ended. `None` where the server does not answer any more.
    pub async fn end(mut self) -> Option<OthersSeen> {
        Some(OthersSeen { before_tps: self.before_tps, during_tps: self.rate().await.ok()? })
    }
}

/// Keeps `named` up to date until it is aborted.
pub fn follow_names(server: Server, name: String, named: Arc<Mutex<BTreeSet<u32>>>) -> JoinHandle<()> {
    tokio::spawn(async move {
        let mut connection = None;
        loop {
            if connection.is_none() {
                connection = server.connect_to(&server.database).await.ok();
            }
            if let Some(connected) = &mut connection {
                match read_named_sessions(connected, &name).await {
                    Ok(pids) => *named.lock().unwrap_or_else(PoisonError::into_inner) = pids.into_iter().collect(),
                    // The server may be started again.
                    Err(_) => connection = None,
                }
            }
            tokio::time::sleep(NAMES_INTERVAL).await;
        }
    })
}
