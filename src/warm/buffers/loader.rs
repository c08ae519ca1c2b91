//! Runs the statements: each connection takes the next one, in their order. There are as many connections as help.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;

use super::crew::{Crew, Done};
use super::jobs::{Job, JobPlan};
use super::tier::BuffersTier;
use super::want::Want;
use crate::postgres::{Error, PrewarmMode, Prewarmer};
use crate::units::Bytes;
use crate::warm::Refusal;
use crate::warm::receipt::SkipReason;
use crate::warm::restore::Pace;

/// How often it is looked whether one connection more would help.
const LOOK: Duration = Duration::from_millis(100);

/// What was loaded.
#[derive(Debug, Default)]
pub struct Loaded {
    pub statements: u64,
    /// Blocks of each want.
    pub blocks: Vec<u64>,
    /// Blocks of each want that are past the end of its fork by now.
    pub past_end: Vec<u64>,
    /// Wants that the server refused.
    pub refusals: BTreeMap<usize, Refusal>,
    /// Databases that do not let one in, or have no pg_prewarm.
    pub databases: BTreeMap<String, Refusal>,
    /// Why nothing more was loaded, when the server went away.
    pub server_gone: Option<Refusal>,
}

impl Loaded {
    /// What a plan would load, if all goes well.
    pub fn planned(plan: &JobPlan, refused: BTreeMap<String, Refusal>) -> Loaded {
        let mut blocks = vec![0; plan.over_budget.len()];
        plan.jobs.iter().for_each(|job| blocks[job.want] += job.new_blocks());
        Loaded { past_end: vec![0; blocks.len()], blocks, databases: refused, ..Loaded::default() }
    }
}

/// The statements that are still to run, and what the others did.
pub struct Loader<'a> {
    tier: BuffersTier<'a>,
    wants: &'a [Want],
    pace: Pace,
    jobs: Mutex<VecDeque<Job>>,
    loaded: Mutex<Loaded>,
    /// What all connections did, blocks included that were only used again.
    done: Mutex<Done>,
    /// The connections that are to be at work.
    wanted: AtomicUsize,
}

/// A connection, to the database that it was last needed for.
type Open = Option<(String, Prewarmer)>;

impl<'a> Loader<'a> {
    /// `refused` are databases that nothing can be loaded in.
    pub fn new(
        tier: BuffersTier<'a>,
        wants: &'a [Want],
        jobs: Vec<Job>,
        refused: BTreeMap<String, Refusal>,
    ) -> Loader<'a> {
        let none = vec![0; wants.len()];
        let loaded = Loaded { blocks: none.clone(), past_end: none, databases: refused, ..Loaded::default() };
        Loader {
            tier,
            wants,
            pace: Pace::new(tier.max_rate),
            jobs: Mutex::new(jobs.into()),
            loaded: Mutex::new(loaded),
            done: Mutex::new(Done::default()),
            wanted: AtomicUsize::new(1),
        }
    }

    /// Loads until all is done, the user stops it, or the server is gone.
    pub async fn run(self) -> Loaded {
        self.work_together().await;
        self.loaded.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins with one connection and adds others as long as they help.
    async fn work_together(&self) {
        let (mut crew, began) = (Crew::new(self.tier.connections), Instant::now());
        let mut connections = FuturesUnordered::from_iter([self.work(0)]);
        loop {
            tokio::select! {
                ended = connections.next() => match ended {
                    Some(()) => {}
                    // One that was refused its connection gave its statement back when the others had ended.
                    None if self.is_unfinished() => connections.push(self.work(0)),
                    None => return,
                },
                () = tokio::time::sleep(LOOK) => {
                    let done = *lock(&self.done);
                    let wanted = crew.judge(began.elapsed(), done);
                    let before = self.wanted.swap(wanted, Ordering::Relaxed);
                    connections.extend((before..wanted).map(|nth| self.work(nth)));
                }
            }
        }
    }

    /// One connection's life, until nothing is left or it is one too many. Only the first insists when there is no
    /// connection left to have.
    async fn work(&self, nth: usize) {
        let mut open: Open = None;
        while nth < self.wanted.load(Ordering::Relaxed)
            && let Some(job) = self.take()
        {
            let bytes = Bytes(job.new_blocks() * u64::from(self.tier.server.facts.block_size));
            if !self.pace.wait_async(bytes, self.tier.control).await {
                return;
            }
            match self.apply(&job, &mut open).await {
                Ok(blocks) => {
                    let mut loaded = lock(&self.loaded);
                    loaded.statements += 1;
                    loaded.blocks[job.want] += blocks.min(job.new_blocks());
                    loaded.past_end[job.want] += job.new_blocks().saturating_sub(blocks);
                    let mut done = lock(&self.done);
                    done.statements += 1;
                    done.blocks += job.blocks;
                }
                Err(failure) if failure.is_too_many() && nth > 0 => {
                    lock(&self.jobs).push_front(job);
                    return;
                }
                Err(failure) => {
                    open = None;
                    self.note(&job, &failure);
                }
            }
            self.tier.watcher.advance(bytes.0);
        }
    }

    fn is_unfinished(&self) -> bool {
        let is_stopped = self.tier.control.is_interrupted() || lock(&self.loaded).server_gone.is_some();
        !is_stopped && !lock(&self.jobs).is_empty()
    }

    /// The next statement that makes sense.
    fn take(&self) -> Option<Job> {
        let loaded = lock(&self.loaded);
        let mut jobs = lock(&self.jobs);
        while let Some(job) = jobs.pop_front() {
            if self.tier.control.is_interrupted() || loaded.server_gone.is_some() {
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
        // Whoever may not use pg_prewarm for one relation may for none of the database.
        loaded.await.map_err(|error| match error {
            Error::ExtensionPrivilege { .. } => Failure::OfDatabase(error),
            error => Failure::OfRelation(error),
        })
    }

    async fn open(&self, database: &str) -> Result<Prewarmer, Error> {
        Prewarmer::open(self.tier.server.connect_to(database).await?).await
    }

    fn note(&self, job: &Job, failure: &Failure) {
        let mut loaded = lock(&self.loaded);
        let refusal = Refusal::of(failure.error());
        if refusal.reason == SkipReason::ServerGone {
            loaded.server_gone.get_or_insert(refusal);
            return;
        }
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

    /// SQLSTATE too_many_connections, or no more files may be open here.
    fn is_too_many(&self) -> bool {
        self.error().sqlstate().as_deref() == Some("53300") || self.error().is_too_few_files()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
