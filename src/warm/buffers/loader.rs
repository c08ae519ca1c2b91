//! Runs the statements: each connection takes the next one, in their order. There are as many connections as help.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use roaring::RoaringBitmap;

use super::BuffersTier;
use super::Current;
use super::Want;
use crate::postgres::{Error, PrewarmMode, Prewarmer};
use crate::units::{BlockRange, Bytes};
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

// ---- crew ----

/// So long what the connections bring is watched before anything changes, and until each has ended so many statements.
const WINDOW: Duration = Duration::from_millis(500);
const STATEMENTS_EACH: u64 = 2;

/// One connection more helps when it brings this much more.
const NOTICEABLE: f64 = 1.1;

/// What did not help is tried again after so long: what is read later may lie elsewhere.
const RETRY: Duration = Duration::from_secs(4);

/// What all connections together have done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Done {
    pub statements: u64,
    pub blocks: u64,
}

/// The connections at work.
#[derive(Clone, Copy, Debug)]
pub struct Crew {
    most: usize,
    connections: usize,
    /// When the window began, and what had been done by then.
    since: (Duration, Done),
    /// Blocks per second before the last connection was added.
    before: Option<f64>,
    /// When one more did not help.
    settled_at: Option<Duration>,
}

impl Crew {
    /// One connection, of at most `most`.
    pub fn new(most: usize) -> Crew {
        Crew {
            most: most.max(1),
            connections: 1,
            since: (Duration::ZERO, Done::default()),
            before: None,
            settled_at: None,
        }
    }

    /// How many there are to be from now on, when `done` is done since the beginning.
    pub fn judge(&mut self, now: Duration, done: Done) -> usize {
        let (began, then) = self.since;
        let ended = done.statements - then.statements;
        let lasted = now.saturating_sub(began);
        if lasted < WINDOW || ended < STATEMENTS_EACH * self.connections as u64 {
            return self.connections;
        }
        self.since = (now, done);
        if self.settled_at.is_some_and(|settled_at| now.saturating_sub(settled_at) < RETRY) {
            return self.connections;
        }
        let rate = (done.blocks - then.blocks) as f64 / lasted.as_secs_f64();
        if self.before.take().is_some_and(|before| rate < before * NOTICEABLE) {
            self.settled_at = Some(now);
            self.connections -= 1;
        } else if self.connections < self.most {
            self.before = Some(rate);
            self.connections += 1;
        }
        self.connections
    }
}

// ---- jobs ----
//
// What to load, in statements of a few megabytes, the most used first.

/// A statement's blocks and ranges: a fraction of a second on a slow disk, so that Ctrl-C is heard.
const JOB_BLOCKS: u64 = 512;
const JOB_RANGES: usize = 128;

/// A statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// The number of what is wanted.
    pub want: usize,
    pub ranges: Vec<BlockRange>,
    pub blocks: u64,
    /// How often to load them.
    pub passes: u32,
    /// Are they loaded already, and only to be used again?
    is_again: bool,
}

impl Job {
    /// Blocks that it brings.
    pub fn new_blocks(&self) -> u64 {
        if self.is_again { 0 } else { self.blocks }
    }
}

/// Loading gives a usage count of 1 also to what had 0, and each further pass adds one, up to 5. So everything gets one
/// more than it had: the first round of the clock sweep, which comes when all buffers are taken, sets that right.
const PASSES_AGAIN_MAX: u8 = 4;

/// All statements, in their order.
#[derive(Debug)]
pub struct JobPlan {
    pub jobs: Vec<Job>,
    /// Blocks of each want for which the budget had no room.
    pub over_budget: Vec<u64>,
}

impl JobPlan {
    pub fn planned_blocks(&self) -> u64 {
        self.jobs.iter().map(Job::new_blocks).sum()
    }
}

/// The statements that load what of `wants` is not there `before`, at most `budget_blocks`, and of each want only what is
/// `allowed`, where that is limited: the rest counts as over the budget. Catalogs come first among
/// what is equally used, then one database after another. When all is loaded the hot ones are used again: filling the
/// last free buffers makes the clock sweep go round.
pub fn plan_jobs(
    wants: &[Want],
    before: Option<&Current>,
    budget_blocks: u64,
    allowed: Option<&[RoaringBitmap]>,
) -> JobPlan {
    let mut order: Vec<(usize, &(u8, RoaringBitmap))> =
        wants.iter().enumerate().flat_map(|(at, want)| want.levels.iter().map(move |level| (at, level))).collect();
    order.sort_by_key(|(at, (usage_count, _))| {
        let want = &wants[*at];
        (std::cmp::Reverse(*usage_count), !want.is_system, &want.database, want.key, *at)
    });
    let mut plan = JobPlan { jobs: Vec::new(), over_budget: vec![0; wants.len()] };
    let mut left = budget_blocks;
    let mut again = Vec::new();
    for (at, (usage_count, blocks)) in order {
        let mut missing = blocks.clone();
        before.into_iter().for_each(|before| missing -= before.resident(at));
        if let Some(allowed) = allowed {
            plan.over_budget[at] += missing.len() - missing.intersection_len(&allowed[at]);
            missing &= &allowed[at];
        }
        let fitting = missing.len().min(left);
        left -= fitting;
        plan.over_budget[at] += missing.len() - fitting;
        missing.remove_biggest(missing.len() - fitting);
        let passes = u32::from((*usage_count).min(PASSES_AGAIN_MAX));
        cut(&missing, |ranges, blocks| {
            let job = Job { want: at, ranges, blocks, passes: 1, is_again: false };
            if passes > 0 {
                again.push(Job { passes, is_again: true, ..job.clone() });
            }
            plan.jobs.push(job);
        });
    }
    plan.jobs.append(&mut again);
    plan
}

/// Cuts blocks into statements.
fn cut(blocks: &RoaringBitmap, mut emit: impl FnMut(Vec<BlockRange>, u64)) {
    let mut ranges = Vec::new();
    let mut sum = 0;
    let mut runs = blocks.iter();
    while let Some(run) = runs.next_range() {
        let (mut start, end) = (u64::from(*run.start()), u64::from(*run.end()) + 1);
        while start < end {
            let piece = BlockRange::new(start, end.min(start + JOB_BLOCKS - sum));
            sum += piece.blocks();
            start = piece.end;
            ranges.push(piece);
            if sum == JOB_BLOCKS || ranges.len() == JOB_RANGES {
                emit(std::mem::take(&mut ranges), std::mem::take(&mut sum));
            }
        }
    }
    if !ranges.is_empty() {
        emit(ranges, sum);
    }
}

#[cfg(test)]
mod crew_tests {
    use super::*;

    /// The connections after each half second on a server that loads `rate(connections)` blocks a second, 512 in a statement.
    fn play(most: usize, seconds: f64, rate: impl Fn(usize, f64) -> f64) -> Vec<usize> {
        let (mut crew, mut blocks, mut connections) = (Crew::new(most), 0.0, 1);
        let mut found = Vec::new();
        for half in 1..=(2.0 * seconds) as u32 {
            let now = f64::from(half) / 2.0;
            blocks += rate(connections, now) / 2.0;
            let done = Done { statements: blocks as u64 / 512, blocks: blocks as u64 };
            connections = crew.judge(Duration::from_secs_f64(now), done);
            found.push(connections);
        }
        found
    }

    #[test]
    fn there_are_as_many_as_help() {
        let scales_to = |best: usize| move |connections: usize, _: f64| 10_000.0 * connections.min(best) as f64;
        assert_eq!(play(8, 4.0, scales_to(3)), [2, 3, 4, 3, 3, 3, 3, 3]);
        assert_eq!(play(8, 2.0, scales_to(1)), [2, 1, 1, 1]);
        assert_eq!(play(2, 2.5, scales_to(9)), [2, 2, 2, 2, 2]);
        assert_eq!(play(1, 1.0, scales_to(9)), [1, 1]);
    }

    #[test]
    fn what_did_not_help_is_tried_again_later() {
        let later = |connections: usize, now: f64| if now > 3.0 { 10_000.0 * connections as f64 } else { 10_000.0 };
        let found = play(4, 7.0, later);
        assert_eq!(found[..3], [2, 1, 1]);
        assert_eq!(found.last(), Some(&4));
    }

    #[test]
    fn slow_statements_are_waited_for() {
        // One in two seconds: four seconds for two of them.
        let found = play(4, 5.0, |_, _| 256.0);
        assert_eq!(found[..8], [1, 1, 1, 1, 1, 1, 1, 2]);
    }
}

#[cfg(test)]
mod jobs_tests {
    use super::*;
    use crate::cache::ForkMap;
    use crate::units::Fork;

    fn want(levels: &[(u8, std::ops::Range<u32>)]) -> Want {
        let mut fork = ForkMap::empty(Fork::Main, 10_000);
        for (usage_count, blocks) in levels {
            fork.buffers[usize::from(*usage_count)].insert_range(blocks.clone());
        }
        Want::new(0, &fork, "d")
    }

    #[test]
    fn the_most_used_come_first_and_the_budget_cuts_the_least_used() {
        let wants = [want(&[(1, 0..100), (5, 100..110)]), want(&[(3, 0..1000)])];
        let plan = plan_jobs(&wants, None, 1050, None);
        let order: Vec<_> = plan.jobs.iter().map(|job| (job.want, job.new_blocks(), job.passes)).collect();
        let loads = [(0, 10, 1), (1, 512, 1), (1, 488, 1), (0, 40, 1)];
        assert_eq!(order, [&loads[..], &[(0, 0, 4), (1, 0, 3), (1, 0, 3), (0, 0, 1)]].concat());
        assert_eq!((plan.planned_blocks(), plan.over_budget), (1050, vec![60, 0]));
    }

    #[test]
    fn what_is_not_allowed_is_over_the_budget() {
        let allowed = [(50..105).collect(), RoaringBitmap::new()];
        let wants = [want(&[(0, 0..100), (5, 100..110)]), want(&[(3, 0..1000)])];
        let plan = plan_jobs(&wants, None, 30, Some(&allowed));
        assert_eq!((plan.planned_blocks(), plan.over_budget), (30, vec![80, 1000]));
    }

    #[test]
    fn scattered_blocks_make_statements_of_bounded_length() {
        let blocks: RoaringBitmap = (0..300).map(|block| block * 2).collect();
        let mut lengths = Vec::new();
        cut(&blocks, |ranges, blocks| lengths.push((ranges.len(), blocks)));
        assert_eq!(lengths, [(128, 128), (128, 128), (44, 44)]);
    }
}
