//! What the server's other clients have while a job runs, and which sessions call themselves as the job's do.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use sqlx::postgres::PgConnection;
use tokio::task::JoinHandle;

use crate::observe::time::OwnTransactions;
use crate::postgres::{Error, Server, can_tell_at_once, read_all_transactions, read_named_sessions, tell_statistics};
use crate::trace::OthersSeen;

/// Backends report their transactions once a second: two of these are seen.
const BEFORE: Duration = Duration::from_millis(2100);

/// Of a shorter job nothing is told: what was counted of it may be all of the second before, or nothing.
const TOLD_FROM: Duration = Duration::from_secs(3);

/// Time from one look for sessions by their name to the next.
const NAMES_INTERVAL: Duration = Duration::from_millis(50);

/// Counts the transactions of all databases but pgthaw's own.
#[derive(Debug)]
pub struct Others {
    connection: PgConnection,
    /// What pgthaw's sessions ask while it is counted.
    own: OwnTransactions,
    /// Statements of one count.
    own_per_count: u64,
    before_tps: Option<f64>,
    /// When the job began, and how many there had been.
    begun: (Instant, u64),
}

impl Others {
    /// Counts for a moment before the job, if somebody is at work.
    pub async fn begin(server: &Server, own: OwnTransactions) -> Result<Others, Error> {
        let mut connection = server.connect_to(&server.database).await?;
        // What this session has done so far is told, and what it is going to ask is prepared, before anything is counted.
        read_all_transactions(&mut connection).await?;
        tell_statistics(&mut connection).await?;
        let own_per_count = if can_tell_at_once(server.facts.version_num) { 2 } else { 1 };
        let mut others = Others { connection, own, own_per_count, before_tps: None, begun: (Instant::now(), 0) };
        let (count, clients) = others.count().await?;
        others.begun = (Instant::now(), count);
        if clients > 0 {
            tokio::time::sleep(BEFORE).await;
            others.before_tps = Some(others.rate().await?);
            others.job_begins().await?;
        }
        Ok(others)
    }

    /// From now on it is counted while the job runs.
    pub async fn job_begins(&mut self) -> Result<(), Error> {
        let (count, _) = self.count().await?;
        self.begun = (Instant::now(), count);
        Ok(())
    }

    /// Transactions since the statistics began without those that pgthaw's sessions have had meanwhile, and clients at work.
    async fn count(&mut self) -> Result<(u64, u64), Error> {
        let (_, own) = self.own.counts();
        let (all, clients) = read_all_transactions(&mut self.connection).await?;
        tell_statistics(&mut self.connection).await?;
        self.own.add(self.own_per_count);
        Ok((all.saturating_sub(own), clients))
    }

    async fn rate(&mut self) -> Result<f64, Error> {
        let (count, _) = self.count().await?;
        let (at, before) = self.begun;
        Ok(count.saturating_sub(before) as f64 / at.elapsed().as_secs_f64().max(f64::MIN_POSITIVE))
    }

    /// The job has ended. `None` where the server does not answer any more, or it was too short.
    pub async fn end(mut self) -> Option<OthersSeen> {
        if self.begun.0.elapsed() < TOLD_FROM {
            return None;
        }
        Some(OthersSeen { before_tps: self.before_tps, during_tps: self.rate().await.ok()? })
    }
}

/// Keeps `named` up to date until it is aborted. What it asks is counted as `own`.
pub fn follow_names(
    server: Server,
    name: String,
    named: Arc<Mutex<BTreeSet<u32>>>,
    own: OwnTransactions,
) -> JoinHandle<()> {
    tokio::spawn(async move {
        let mut connection = None;
        loop {
            if connection.is_none() {
                connection = server.connect_to(&server.database).await.ok();
            }
            if let Some(connected) = &mut connection {
                let _asked = own.begin();
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
