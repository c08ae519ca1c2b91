//! Runs the statements: each connection takes the next one, in their order.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures_util::future::join_all;

use super::BuffersTier;
use super::jobs::{Job, Want};
use crate::failure::{ErrorKind, Explain as _};
use crate::postgres::{Error, PG_PREWARM, PrewarmMode, Prewarmer, apply_create_extension};
use crate::warm::receipt::SkipReason;

/// Why something was not loaded, and what the server said.
type Refusal = (SkipReason, String);

/// What was loaded.
#[derive(Debug, Default)]
pub struct Loaded {
    pub statements: u64,
    /// Blocks of each want.
    pub blocks: Vec<u64>,
    /// Wants that the server refused.
    pub refusals: BTreeMap<usize, Refusal>,
    /// Databases that do not let one in, or have no pg_prewarm.
    pub databases: BTreeMap<String, Refusal>,
    pub is_server_gone: bool,
}

/// The statements that are still to run, and what the others did.
pub struct Loader<'a> {
    tier: BuffersTier<'a>,
    wants: &'a [Want],
    jobs: Mutex<VecDeque<Job>>,
    loaded: Mutex<Loaded>,
}

/// A connection, to the database that it was last needed for.
type Open = Option<(String, Prewarmer)>;

impl<'a> Loader<'a> {
    pub fn new(tier: BuffersTier<'a>, wants: &'a [Want], jobs: Vec<Job>) -> Loader<'a> {
        let loaded = Loaded { blocks: vec![0; wants.len()], ..Loaded::default() };
        Loader { tier, wants, jobs: Mutex::new(jobs.into()), loaded: Mutex::new(loaded) }
    }

    /// Loads until all is done, the user stops it, or the server is gone.
    pub async fn run(self) -> Loaded {
        join_all((0..self.tier.connections.max(1)).map(|nth| self.work(nth == 0))).await;
        self.loaded.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// One connection's life. Only the first insists when the server has no connection left to give.
    async fn work(&self, is_first: bool) {
        let mut open: Open = None;
        while let Some(job) = self.take() {
            match self.apply(&job, &mut open).await {
                Ok(blocks) => {
                    let mut loaded = lock(&self.loaded);
                    loaded.statements += 1;
                    loaded.blocks[job.want] += blocks.min(job.new_blocks());
                }
                Err(failure) if failure.is_too_many() && !is_first => {
                    lock(&self.jobs).push_front(job);
                    return;
                }
                Err(failure) => {
                    open = None;
                    self.note(&job, &failure);
                }
            }
            self.tier.watcher.advance(job.new_blocks() * u64::from(self.tier.server.facts.block_size));
        }
    }

    /// The next statement that makes sense.
    fn take(&self) -> Option<Job> {
        let loaded = lock(&self.loaded);
        let mut jobs = lock(&self.jobs);
        while let Some(job) = jobs.pop_front() {
            if self.tier.control.is_interrupted() || loaded.is_server_gone {
                return None;
            }
            let is_refused = loaded.refusals.contains_key(&job.want)
                || loaded.databases.contains_key(&self.wants[job.want].database);
            if !is_refused {
                return Some(job);
            }
        }
        None
    }

    async fn apply(&self, job: &Job, open: &mut Open) -> Result<u64, Failure> {
        let want = &self.wants[job.want];
        if open.as_ref().is_none_or(|(database, _)| *database != want.database) {
            let prewarmer = self.open(&want.database).await.map_err(Failure::OfDatabase)?;
            *open = Some((want.database.clone(), prewarmer));
        }
        let Some((_, prewarmer)) = open else { return Ok(0) };
        let loaded = prewarmer.apply_prewarm(want.oid, PrewarmMode::Buffer, want.fork, &job.ranges, job.passes);
        loaded.await.map_err(Failure::OfRelation)
    }

    async fn open(&self, database: &str) -> Result<Prewarmer, Error> {
        let server = self.tier.server;
        match Prewarmer::open(server.connect_to(database).await?).await {
            // What is created in template1 every later database would inherit.
            Err(Error::ExtensionMissing { .. }) if self.tier.create_extensions && database != "template1" => {
                apply_create_extension(&mut server.connect_to(database).await?, PG_PREWARM).await?;
                Prewarmer::open(server.connect_to(database).await?).await
            }
            opened => opened,
        }
    }

    fn note(&self, job: &Job, failure: &Failure) {
        let mut loaded = lock(&self.loaded);
        let error = failure.error();
        if is_server_gone(error) {
            loaded.is_server_gone = true;
            return;
        }
        let reason = match (error, error.kind()) {
            (Error::ExtensionMissing { .. }, _) => SkipReason::NoPrewarm,
            (Error::Connect { .. }, _) => SkipReason::DatabaseUnreachable,
            (_, ErrorKind::Privilege) => SkipReason::NoPermission,
            _ => SkipReason::ReadFailed,
        };
        let refusal = (reason, error.to_string());
        match failure {
            Failure::OfDatabase(_) => {
                loaded.databases.entry(self.wants[job.want].database.clone()).or_insert(refusal);
            }
            Failure::OfRelation(_) => _ = loaded.refusals.entry(job.want).or_insert(refusal),
        }
    }
}

/// What failed: getting ready in a database, or loading one relation.
#[derive(Debug)]
enum Failure {
    OfDatabase(Error),
    OfRelation(Error),
}

impl Failure {
    fn error(&self) -> &Error {
        match self {
            Failure::OfDatabase(error) | Failure::OfRelation(error) => error,
        }
    }

    /// SQLSTATE too_many_connections.
    fn is_too_many(&self) -> bool {
        self.error().sqlstate().as_deref() == Some("53300")
    }
}

/// Did the connection break, or is there nobody to connect to?
fn is_server_gone(error: &Error) -> bool {
    match error.sqlstate() {
        // Shutting down, crashed, starting up.
        Some(state) => state.starts_with("57P0"),
        None => matches!(error, Error::Connect { .. } | Error::ConnectTimeout { .. } | Error::Query { .. }),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
