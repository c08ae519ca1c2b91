use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use roaring::RoaringBitmap;

use super::receipt::{BuffersForecast, FoundAs, SkipReason};
use super::restore::{Catalog, Missing, Pace, Restore, Row, compare_paths};
use super::{Phase, Refusal, Sharing};
use crate::read::key_of;
use crate::{ForkMap, USAGE_COUNTS};
use host::linux::threads::lock;
use host::units::{BlockRange, Bytes, Fork};
use postgres::{
    BufferSet, Error, PG_BUFFERCACHE, PG_PREWARM, PrewarmMode, Prewarmer, Relation, RelationPath, Result, Server,
    apply_create_extension, find_extension, read_buffer_sets,
};

#[derive(Debug, Default)]
pub struct BuffersPass {
    pub forecast: BuffersForecast,
    pub rows: Vec<Row>,
    pub statements: u64,
    pub seconds: f64,
    pub remarks: Vec<String>,
    /// Requested blocks that are in shared_buffers now.
    pub buffered: Vec<(RelationPath, Fork, RoaringBitmap)>,
}

impl BuffersTier<'_> {
    pub async fn load(&self, catalog: &Catalog) -> BuffersPass {
        let Restore { options, host, .. } = self.restore;
        let mut pass = BuffersPass::default();
        let wants = self.find_wants(catalog, &mut pass.rows);
        let databases: BTreeSet<&str> = wants.iter().map(|want| want.database).collect();
        let databases: Vec<String> = databases.into_iter().map(str::to_owned).collect();
        let before = self.read_current(&wants, &databases, &mut pass.remarks).await;
        let refused = self.prepare(&databases).await;
        let started = Instant::now();
        let (budget_blocks, over_budget) = self.budget_blocks(before.as_ref());
        let before = before.ok();
        let (mut jobs, beyond) = plan_jobs(&wants, before.as_ref(), budget_blocks, self.cached);
        jobs.retain(|job| !refused.contains_key(wants[job.want].database));
        pass.forecast = BuffersForecast {
            statements: jobs.len() as u64,
            load_bytes: Bytes(planned_blocks(&jobs) * u64::from(self.server.facts.block_size)),
            over_budget_blocks: beyond.iter().sum(),
        };
        let is_dry_run = options.is_dry_run;
        let (blocks, ends) = (vec![0; wants.len()], vec![u64::MAX; wants.len()]);
        let mut loaded = Loaded { blocks, ends, databases: refused, ..Loaded::default() };
        if is_dry_run {
            jobs.iter().for_each(|job| loaded.blocks[job.want] += job.new_blocks);
        } else {
            host.watcher.begin(Phase::Buffers, pass.forecast.load_bytes.0);
            let loader = Loader {
                tier: *self,
                wants: &wants,
                pace: Pace::new(options.max_rate.filter(|_| !self.is_cached)),
                jobs: Mutex::new(jobs.into()),
                loaded: Mutex::new(loaded),
                wanted: AtomicUsize::new(1),
            };
            loader.run().await;
            loaded = loader.loaded.into_inner().unwrap_or_else(PoisonError::into_inner);
        }
        let after = match (&before, &loaded.server_gone) {
            (Some(_), None) if !is_dry_run => self.read_current(&wants, &databases, &mut pass.remarks).await.ok(),
            _ => None,
        };
        pass.seconds = if is_dry_run { 0.0 } else { started.elapsed().as_secs_f64() };
        pass.statements = loaded.done.statements;
        let current = [before.as_ref(), after.as_ref()];
        let buffered = |(Want { now, fork, .. }, resident): (&Want<'_>, &RoaringBitmap)| {
            (now.path.clone(), fork.fork, fork.all_buffers() & resident)
        };
        pass.buffered = after.iter().flat_map(|after| wants.iter().zip(&after.resident)).map(buffered).collect();
        let row = |(at, want): (usize, &Want<'_>)| self.row(at, want, current, &loaded, (over_budget, beyond[at]));
        pass.rows.extend(wants.iter().enumerate().map(row));
        pass
    }

    /// Creates missing extensions, if allowed, before several connections try to. Returns the databases where
    /// pg_prewarm is unusable.
    async fn prepare(&self, databases: &[String]) -> BTreeMap<String, Refusal> {
        let Restore { options, host, .. } = self.restore;
        let mut refused = BTreeMap::new();
        if !options.create_extensions && !options.is_dry_run {
            return refused;
        }
        for database in databases.iter().take_while(|_| !host.control.is_interrupted()) {
            if let Err(error) = self.prepare_database(database).await {
                refused.insert(database.clone(), Refusal::of(&error));
            }
        }
        refused
    }

    async fn prepare_database(&self, database: &str) -> Result<()> {
        let mut connection = self.server.connect_to(database).await?;
        if find_extension(&mut connection, PG_PREWARM).await?.is_some() {
            return Ok(());
        }
        match self.restore.options.create_extensions {
            true if self.restore.options.is_dry_run => Ok(()),
            true => apply_create_extension(&mut connection, PG_PREWARM).await,
            false => Err(Error::ExtensionMissing { name: PG_PREWARM, database: database.to_owned() }),
        }
    }

    fn find_wants<'b>(&'b self, catalog: &'b Catalog, rows: &mut Vec<Row>) -> Vec<Want<'b>> {
        let Restore { request, options, .. } = self.restore;
        let (mut wants, same_cluster) = (Vec::new(), options.same_cluster);
        for (relation, fork, blocks) in request.buffered() {
            let then = &request.map.relations[relation].relation.path;
            let found = catalog.find(&request.identities[relation], same_cluster.then_some(then));
            let found = found.and_then(|now| match compare_paths(then, &now.path, same_cluster) {
                FoundAs::SameFile | FoundAs::Moved => Ok(now),
                _ => Err(Refusal::because(SkipReason::Rewritten)),
            });
            match found {
                Ok(now) => wants.push(Want::new(relation, fork, now, &self.server.database)),
                Err(why) => rows.push(Row::absent(relation, fork.fork, FoundAs::NotFound, blocks, &why)),
            }
        }
        wants
    }

    async fn read_current(
        &self,
        wants: &[Want<'_>],
        databases: &[String],
        remarks: &mut Vec<String>,
    ) -> Result<Current, Refusal> {
        let numbers: HashMap<BufferKey, usize> = wants.iter().enumerate().map(|(at, want)| (want.key(), at)).collect();
        let mut current = Current { used: 0, resident: vec![RoaringBitmap::new(); wants.len()] };
        let read = async {
            let mut connection = self.server.connect_with_extension(PG_BUFFERCACHE, databases).await?;
            let add = |set: BufferSet| {
                current.used += set.blocks.len() as u64;
                if let Some(at) = numbers.get(&(set.relation, set.fork)) {
                    current.resident[*at].extend(set.blocks);
                }
            };
            read_buffer_sets(&mut connection, add).await
        };
        match read.await {
            Ok(()) => Ok(current),
            Err(error) => {
                remarks.push(format!("the content of shared_buffers was not measured: {error}"));
                Err(Refusal::of(&error))
            }
        }
    }

    /// Receipt of a fork. `over_budget` blocks were left out, for the reason `no_room`.
    fn row(
        &self,
        at: usize,
        want: &Want<'_>,
        current: [Option<&Current>; 2],
        loaded: &Loaded,
        (no_room, over_budget): (SkipReason, u64),
    ) -> Row {
        let [before, after] = current.map(|current| current.map(|current| want.count_in(&current.resident[at])));
        let loaded_blocks = loaded.blocks[at];
        let asked_blocks = want.count_from(0);
        let there = after.unwrap_or_else(|| before.unwrap_or(0) + loaded_blocks).min(asked_blocks);
        let missing = asked_blocks - there;
        let over_budget = over_budget.min(missing);
        let truncated = want.count_from(loaded.ends[at]).min(missing - over_budget);
        let refusal = loaded.refusals.get(&at).or_else(|| loaded.databases.get(want.database));
        let why = match refusal.or(loaded.server_gone.as_ref()) {
            Some(refusal) => refusal.clone(),
            None if self.restore.host.control.is_interrupted() => Refusal::because(SkipReason::Interrupted),
            None => Refusal::because(SkipReason::DidNotStay),
        };
        let skips: Vec<Missing> = vec![
            (no_room, over_budget, None),
            (SkipReason::Truncated, truncated, None),
            (why.reason, missing - over_budget - truncated, why.detail),
        ];
        Row {
            relation: want.relation,
            fork: want.fork.fork,
            found: FoundAs::SameFile,
            asked_blocks,
            resident_before: before,
            resident_after: after,
            read_bytes: Bytes(loaded_blocks * u64::from(self.server.facts.block_size)),
            grown_blocks: 0,
            skips,
        }
    }

    /// Number of buffers to fill, and the reason to skip further blocks. Without an explicit budget, no buffer of live
    /// traffic is evicted.
    fn budget_blocks(&self, before: Result<&Current, &Refusal>) -> (u64, SkipReason) {
        let facts = &self.server.facts;
        let blocks = |bytes: Bytes| bytes.0 / u64::from(facts.block_size);
        let used = before.map(|before| before.used);
        let (budget, limit) = (self.restore.options.buffers_budget.map(blocks), self.limit.map_or(u64::MAX, blocks));
        fillable(blocks(facts.shared_buffers_bytes), budget, used, limit, self.cached.is_some())
    }
}

/// Number of the buffers `all` to fill, and why further blocks are skipped. `limit`: rest of the budget, which may be
/// `shared` with the page cache.
fn fillable(all: u64, budget: Option<u64>, used: Result<u64, &Refusal>, limit: u64, shared: bool) -> (u64, SkipReason) {
    let (fillable, reason) = match (budget, used) {
        (Some(budget), _) => (budget.min(all), SkipReason::OverBudget),
        (None, Ok(used)) => (all.saturating_sub(used), SkipReason::NoFreeBuffer),
        // The statements will report the lost server.
        (None, Err(why)) if why.reason == SkipReason::ServerGone => (all, SkipReason::FreeBuffersUnknown),
        (None, Err(_)) => (0, SkipReason::FreeBuffersUnknown),
    };
    let is_limited = reason != SkipReason::FreeBuffersUnknown && (limit < fillable || shared);
    (fillable.min(limit), if is_limited { SkipReason::OverBudget } else { reason })
}

#[derive(Debug)]
struct Current {
    used: u64,
    resident: Vec<RoaringBitmap>,
}

#[derive(Clone, Copy)]
pub struct BuffersTier<'a> {
    pub server: &'a Server,
    pub restore: &'a Restore,
    /// Unless all blocks are cached, the server reads them from the shared device, so limits apply.
    pub is_cached: bool,
    pub limit: Option<Bytes>,
    /// Loads only these blocks: others would exceed the page cache's budget.
    pub cached: Option<&'a Cached>,
}

pub type Cached = BTreeMap<(usize, Fork), RoaringBitmap>;

type BufferKey = ((u32, u32, u32), Fork);

#[derive(Clone, Debug)]
struct Want<'a> {
    pub relation: usize,
    pub fork: &'a ForkMap,
    pub now: &'a Relation,
    /// Database whose connection loads the fork; any database for shared catalogs.
    pub database: &'a str,
}

impl<'a> Want<'a> {
    pub fn new(relation: usize, fork: &'a ForkMap, now: &'a Relation, any_database: &'a str) -> Want<'a> {
        let database = if now.name.database.is_empty() { any_database } else { &now.name.database };
        Want { relation, fork, now, database }
    }

    pub fn key(&self) -> BufferKey {
        (key_of(&self.now.path), self.fork.fork)
    }

    pub fn count_in(&self, resident: &RoaringBitmap) -> u64 {
        self.fork.buffers.iter().map(|blocks| blocks.intersection_len(resident)).sum()
    }

    pub fn count_from(&self, block: u64) -> u64 {
        let Ok(block) = u32::try_from(block) else { return 0 };
        self.fork.buffers.iter().map(|blocks| blocks.range_cardinality(block..)).sum()
    }
}

// ---- loader ----
//
// Runs statements in order. Adds connections while throughput rises.

const LOOK: Duration = Duration::from_millis(100);

#[derive(Debug, Default)]
struct Loaded {
    pub done: Done,
    pub blocks: Vec<u64>,
    /// Current end of each requested fork that has become shorter.
    pub ends: Vec<u64>,
    pub refusals: BTreeMap<usize, Refusal>,
    /// Databases without access or pg_prewarm.
    pub databases: BTreeMap<String, Refusal>,
    pub server_gone: Option<Refusal>,
}

struct Loader<'a> {
    tier: BuffersTier<'a>,
    wants: &'a [Want<'a>],
    pace: Pace,
    jobs: Mutex<VecDeque<Job>>,
    loaded: Mutex<Loaded>,
    wanted: AtomicUsize,
}

impl<'a> Loader<'a> {
    async fn run(&self) {
        let BuffersTier { restore, is_cached, .. } = self.tier;
        let connections = match restore.options.sharing {
            Sharing::Gentle if !is_cached => 1,
            _ => restore.options.connections,
        };
        let (mut crew, began) = (Crew::new(connections), Instant::now());
        let mut connections = FuturesUnordered::from_iter([self.work(0)]);
        loop {
            tokio::select! {
                ended = connections.next() => match ended {
                    Some(()) => {}
                    // A refused connection returned its statement to the queue after the others had ended.
                    None if self.is_unfinished() => connections.push(self.work(0)),
                    None => return,
                },
                () = tokio::time::sleep(LOOK) => {
                    let done = lock(&self.loaded).done;
                    let wanted = crew.judge(began.elapsed(), done);
                    let before = self.wanted.swap(wanted, Ordering::Relaxed);
                    connections.extend((before..wanted).map(|nth| self.work(nth)));
                }
            }
        }
    }

    /// Runs statements until connection `nth` is no longer wanted. If the server refuses a connection other than the
    /// first, its statement is put back.
    async fn work(&self, nth: usize) {
        let mut open = None;
        while nth < self.wanted.load(Ordering::Relaxed)
            && let Some(job) = self.take()
        {
            let bytes = Bytes(job.new_blocks * u64::from(self.tier.server.facts.block_size));
            if !self.pace.wait_async(bytes, &self.tier.restore.host.control).await {
                return;
            }
            match self.apply(&job, &mut open).await {
                Ok(blocks) => {
                    let mut loaded = lock(&self.loaded);
                    loaded.blocks[job.want] += blocks.min(job.new_blocks);
                    let end = &mut loaded.ends[job.want];
                    *end = job.end_of(blocks).min(*end);
                    loaded.done.statements += 1;
                    loaded.done.blocks += job.new_blocks;
                }
                Err(error) if is_too_many(&error) && nth > 0 => {
                    lock(&self.jobs).push_front(job);
                    return;
                }
                Err(error) => self.note(&job, &error, open.take().is_some()),
            }
            self.tier.restore.host.watcher.advance(bytes.0);
        }
    }

    fn is_unfinished(&self) -> bool {
        let is_stopped = self.tier.restore.host.control.is_interrupted() || lock(&self.loaded).server_gone.is_some();
        !is_stopped && !lock(&self.jobs).is_empty()
    }

    fn take(&self) -> Option<Job> {
        let loaded = lock(&self.loaded);
        let mut jobs = lock(&self.jobs);
        while let Some(job) = jobs.pop_front() {
            if self.tier.restore.host.control.is_interrupted() || loaded.server_gone.is_some() {
                return None;
            }
            let is_refused =
                loaded.refusals.contains_key(&job.want) || loaded.databases.contains_key(self.wants[job.want].database);
            if !is_refused {
                return Some(job);
            }
        }
        None
    }

    /// Opens the database's connection first, unless `open` is it already.
    async fn apply(&self, job: &Job, open: &mut Option<(&'a str, Prewarmer)>) -> Result<u64> {
        let Want { database, now, fork, .. } = self.wants[job.want];
        if open.as_ref().is_none_or(|(of, _)| *of != database) {
            // If this fails, the caller blames the database, not the fork.
            *open = None;
            *open = Some((database, Prewarmer::open(self.tier.server.connect_to(database).await?).await?));
        }
        let Some((_, prewarmer)) = open else { return Ok(0) };
        prewarmer.apply_prewarm(now.oid, PrewarmMode::Buffer, fork.fork, &job.ranges, job.passes).await
    }

    fn note(&self, job: &Job, error: &Error, was_open: bool) {
        let mut loaded = lock(&self.loaded);
        let refusal = Refusal::of(error);
        if refusal.reason == SkipReason::ServerGone {
            loaded.server_gone.get_or_insert(refusal);
        } else if !was_open || matches!(error, Error::ExtensionPrivilege { .. } | Error::SchemasLocked { .. }) {
            loaded.databases.entry(self.wants[job.want].database.to_owned()).or_insert(refusal);
        } else {
            loaded.refusals.entry(job.want).or_insert(refusal);
        }
    }
}

/// SQLSTATE too_many_connections, or the local limit on open files.
fn is_too_many(error: &Error) -> bool {
    error.sqlstate().as_deref() == Some("53300") || error.is_too_few_files()
}

/// Minimum time, and statements per connection, between changes of the number of connections.
const WINDOW: Duration = Duration::from_millis(200);
const STATEMENTS_EACH: u64 = 2;

/// Minimum throughput gain of one more connection.
const NOTICEABLE: f64 = 1.1;

/// Interval between attempts with another connection: later blocks may be on another device.
const RETRY: Duration = Duration::from_secs(4);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Done {
    pub statements: u64,
    pub blocks: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Crew {
    most: usize,
    connections: usize,
    /// Start of the current measurement, and the totals at that time.
    since: (Duration, Done),
    /// Blocks per second with one connection less.
    before: Option<f64>,
    settled_at: Option<Duration>,
}

impl Crew {
    pub fn new(most: usize) -> Crew {
        Crew { most: most.max(1), connections: 1, ..Crew::default() }
    }

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

// Splits blocks into statements of some megabytes, highest usage count first.

/// A slow disk reads this many blocks in a fraction of a second, so Ctrl-C works promptly.
const JOB_BLOCKS: u64 = 2048;
const JOB_RANGES: usize = 256;

// Server's processor time for a block from the page cache and for a range, as a multiple of another pass over a block
// (0.6 µs).
const LOAD_COST: u64 = 20;
const RANGE_COST: u64 = 8;

/// Limit on extra time for heat order and usage counts: 1/`HEAT_FRACTION` of the load time, but at least 0.1 s
/// (docs/decisions/usage-counts.md).
const HEAT_FRACTION: u64 = 25;
const HEAT_COST_MIN: u64 = 160_000;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Job {
    pub want: usize,
    pub ranges: Vec<BlockRange>,
    pub new_blocks: u64,
    pub passes: u32,
}

impl Job {
    /// Block number after the first `blocks` blocks.
    pub fn end_of(&self, mut blocks: u64) -> u64 {
        for range in &self.ranges {
            if range.blocks() > blocks {
                return range.start + blocks;
            }
            blocks -= range.blocks();
        }
        u64::MAX
    }
}

const PASSES_MAX: u32 = 5;

fn planned_blocks(jobs: &[Job]) -> u64 {
    jobs.iter().map(|job| job.new_blocks).sum()
}

/// Plans at most `budget_blocks` missing blocks, only `cached` ones. Returns the jobs, and the blocks of each fork
/// beyond the budget. At equal usage count, catalogs load first, then each database's other relations. Ranges also
/// cover hotter blocks, because each pass raises their usage count by one: at most to the snapshot's count, plus one if
/// the snapshot has blocks with count 0.
fn plan_jobs(
    wants: &[Want<'_>],
    before: Option<&Current>,
    budget_blocks: u64,
    cached: Option<&Cached>,
) -> (Vec<Job>, Vec<u64>) {
    let levels = (0..wants.len()).flat_map(|at| (0..USAGE_COUNTS).map(move |usage_count| (at, usage_count)));
    let is_asked = |(at, usage_count): &(usize, usize)| !wants[*at].fork.buffers[*usage_count].is_empty();
    let mut order: Vec<(usize, usize)> = levels.filter(is_asked).collect();
    order.sort_by_key(|(at, usage_count)| {
        let want = &wants[*at];
        (Reverse(*usage_count), !want.now.is_system, want.database, want.key(), *at)
    });
    let (mut jobs, mut beyond) = (Vec::new(), vec![0; wants.len()]);
    let mut planned = vec![RoaringBitmap::new(); wants.len()];
    let mut left = budget_blocks;
    for (at, usage_count) in &order {
        let Want { relation, fork, .. } = wants[*at];
        let mut missing = fork.buffers[*usage_count].clone();
        before.into_iter().for_each(|before| missing -= &before.resident[*at]);
        let all = missing.len();
        if let Some(cached) = cached {
            missing = cached.get(&(relation, fork.fork)).map_or_else(RoaringBitmap::new, |cached| missing & cached);
        }
        missing.remove_biggest(missing.len().saturating_sub(left));
        beyond[*at] += all - missing.len();
        left -= missing.len();
        planned[*at] |= missing;
    }
    let mut heat_cost = HEAT_COST_MIN.max((budget_blocks - left) * LOAD_COST / HEAT_FRACTION);
    let more = u32::from(wants.iter().any(|want| !want.fork.buffers[0].is_empty()));
    let all_passes = |usage_count: usize| (usage_count as u32 + more).min(PASSES_MAX);
    let mut hot = vec![RoaringBitmap::new(); wants.len()];
    let mut loaded = hot.clone();
    for (at, usage_count) in order {
        let (buffers, loaded) = (&wants[at].fork.buffers, &mut loaded[at]);
        hot[at] |= &buffers[usage_count] & &planned[at];
        let next = buffers[..usage_count].iter().rposition(|blocks| !blocks.is_empty());
        let passes = all_passes(usage_count) - next.map_or(0, all_passes);
        let Some((ranges, passes)) = choose(&hot[at], &planned[at], loaded, passes, &mut heat_cost) else { continue };
        cut(&ranges, |ranges| {
            let new = |range: &BlockRange| loaded.insert_range(range.start as u32..range.end as u32);
            let new_blocks = ranges.iter().map(new).sum();
            jobs.push(Job { want: at, ranges, new_blocks, passes });
        });
    }
    (jobs, beyond)
}

/// Returns ranges of the `hot` blocks, and the number of passes. If `left` is too small, returns ranges of the unloaded
/// ones, joined over short gaps, or `None` if all are loaded.
fn choose(
    hot: &RoaringBitmap,
    planned: &RoaringBitmap,
    loaded: &RoaringBitmap,
    passes: u32,
    left: &mut u64,
) -> Option<(Vec<BlockRange>, u32)> {
    let new = hot - loaded;
    let cost = |ranges: &[BlockRange], passes: u32| {
        ranges.len() as u64 * RANGE_COST + (count(ranges) * u64::from(passes)).saturating_sub(new.len())
    };
    let exact = join(hot, planned, 0);
    let affordable = (1..=passes.max(1)).rev().find(|passes| cost(&exact, *passes) <= *left);
    let (ranges, passes) = match affordable {
        Some(passes) => (exact, passes),
        None if new.is_empty() => return None,
        None => {
            let gaps = std::iter::successors(Some(0), |gap| (*gap < JOB_BLOCKS).then_some(2 * gap + 1));
            let mut joined = gaps.map(|gap| join(&new, planned, gap));
            let fitting = joined.find(|ranges| cost(ranges, 1) <= *left);
            (fitting.unwrap_or_else(|| join(&new, planned, JOB_BLOCKS)), 1)
        }
    };
    *left = left.saturating_sub(cost(&ranges, passes));
    Some((ranges, passes))
}

/// Ranges of `blocks`, joined over gaps of at most `gap_max` `planned` blocks.
fn join(blocks: &RoaringBitmap, planned: &RoaringBitmap, gap_max: u64) -> Vec<BlockRange> {
    let mut ranges: Vec<BlockRange> = Vec::new();
    let mut runs = blocks.iter();
    while let Some(run) = runs.next_range() {
        let (start, end) = (u64::from(*run.start()), u64::from(*run.end()) + 1);
        let is_near = |last: &&mut BlockRange| {
            let gap = start - last.end;
            gap <= gap_max && planned.range_cardinality(last.end as u32..start as u32) == gap
        };
        match ranges.last_mut().filter(is_near) {
            Some(last) => last.end = end,
            None => ranges.push(BlockRange::new(start, end)),
        }
    }
    ranges
}

fn count(ranges: &[BlockRange]) -> u64 {
    ranges.iter().map(|range| range.blocks()).sum()
}

fn cut(ranges: &[BlockRange], mut emit: impl FnMut(Vec<BlockRange>)) {
    let mut piece = Vec::new();
    let mut sum = 0;
    for range in ranges {
        let mut start = range.start;
        while start < range.end {
            let end = range.end.min(start + JOB_BLOCKS - sum);
            sum += end - start;
            piece.push(BlockRange::new(start, end));
            start = end;
            if sum == JOB_BLOCKS || piece.len() == JOB_RANGES {
                emit(std::mem::take(&mut piece));
                sum = 0;
            }
        }
    }
    if !piece.is_empty() {
        emit(piece);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_live_traffic_brought_in_is_pushed_out_only_on_request() {
        let unseen = Refusal::because(SkipReason::NoPrivilege);
        let fillable = |budget, used| super::fillable(100, budget, used, u64::MAX, false).0;
        assert_eq!(fillable(None, Ok(30)), 70);
        assert_eq!(fillable(None, Err(&unseen)), 0);
        assert_eq!(fillable(Some(60), Err(&unseen)), 60);
        assert_eq!(fillable(Some(600), Ok(30)), 100);
        let gone = Refusal::because(SkipReason::ServerGone);
        assert_eq!(fillable(None, Err(&gone)), 100);
    }

    #[test]
    fn a_limit_does_not_hide_that_free_buffers_are_unknown() {
        let unseen = Refusal::because(SkipReason::NoPrivilege);
        let unknown = (0, SkipReason::FreeBuffersUnknown);
        let fillable = |budget, used, shares| super::fillable(100, budget, used, 50, shares);
        assert_eq!([false, true].map(|shares| fillable(None, Err(&unseen), shares)), [unknown; 2]);
        assert_eq!(fillable(Some(60), Err(&unseen), true), (50, SkipReason::OverBudget));
        assert_eq!(fillable(None, Ok(30), true), (50, SkipReason::OverBudget));
        assert_eq!(fillable(None, Ok(80), false), (20, SkipReason::NoFreeBuffer));
    }
}

#[cfg(test)]
mod crew_tests {
    use super::*;

    /// `rate(connections, now)` is in blocks per second.
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
        let found = play(4, 5.0, |_, _| 256.0);
        assert_eq!(found[..8], [1, 1, 1, 1, 1, 1, 1, 2]);
    }
}

#[cfg(test)]
mod jobs_tests {
    use super::*;
    use crate::RelationMap;
    use crate::fixtures::relation;

    fn fork(levels: &[(usize, std::ops::Range<u32>)]) -> RelationMap {
        let mut fork = ForkMap::empty(Fork::Main, 10_000);
        for (usage_count, blocks) in levels {
            fork.buffers[*usage_count].insert_range(blocks.clone());
        }
        relation(1, fork)
    }

    fn plan(forks: &[RelationMap], budget_blocks: u64, cached: Option<&Cached>) -> (Vec<Job>, Vec<u64>) {
        let forks = forks.iter().enumerate();
        let wants: Vec<_> = forks.map(|(at, one)| Want::new(at, &one.forks[0], &one.relation, "d")).collect();
        plan_jobs(&wants, None, budget_blocks, cached)
    }

    #[test]
    fn the_most_used_come_first_and_the_budget_cuts_the_least_used() {
        let forks = [fork(&[(1, 0..100), (5, 100..110)]), fork(&[(3, 0..1000)])];
        let (jobs, beyond) = plan(&forks, 1050, None);
        let order: Vec<_> = jobs.iter().map(|job| (job.want, job.new_blocks, count(&job.ranges), job.passes)).collect();
        assert_eq!(order, [(0, 10, 10, 4), (1, 1000, 1000, 3), (0, 40, 50, 1)]);
        assert_eq!((planned_blocks(&jobs), beyond), (1050, vec![60, 0]));
    }

    #[test]
    fn what_is_not_allowed_is_over_the_budget() {
        let cached = Cached::from([((0, Fork::Main), (50..105).collect())]);
        let forks = [fork(&[(0, 0..100), (5, 100..110)]), fork(&[(3, 0..1000)])];
        let (jobs, beyond) = plan(&forks, 30, Some(&cached));
        assert_eq!((planned_blocks(&jobs), beyond), (30, vec![80, 1000]));
    }

    #[test]
    fn each_block_gets_its_usage_count_again() {
        for (least, more) in [(1, 0), (0, 1)] {
            let forks = [fork(&[(least, 20..30), (3, 0..20), (5, 5..10)]), fork(&[(2, 0..9)])];
            let mut counts = [[0; 30]; 2];
            for job in plan(&forks, 1000, None).0 {
                for range in job.ranges {
                    (range.start..range.end).for_each(|block| counts[job.want][block as usize] += job.passes);
                }
            }
            assert_eq!([0, 5, 10, 20].map(|block| counts[0][block].min(5)), [3 + more, 5, 3 + more, 1]);
            assert_eq!(counts[1][0], 2 + more);
        }
    }

    #[test]
    fn alternating_blocks_make_few_ranges_and_load_once() {
        let mut wanted = fork(&[(1, 0..400_000)]);
        let hot: RoaringBitmap = (0..100_000).map(|nth| nth * 4).collect();
        wanted.forks[0].buffers[1] -= &hot;
        wanted.forks[0].buffers[2] = hot;
        let (jobs, _) = plan(&[wanted], 400_000, None);
        let ranges: usize = jobs.iter().map(|job| job.ranges.len()).sum();
        assert!(ranges < 1000, "{ranges}");
        let touched: u64 = jobs.iter().map(|job| count(&job.ranges)).sum();
        assert_eq!((planned_blocks(&jobs), touched), (400_000, 400_000));
    }

    #[test]
    fn a_shorter_fork_ends_after_its_last_block() {
        let range = BlockRange::new;
        let job = Job { want: 0, ranges: vec![range(5, 10), range(20, 30)], new_blocks: 15, passes: 1 };
        assert_eq!([0, 3, 5, 6, 15].map(|blocks| job.end_of(blocks)), [5, 8, 20, 21, u64::MAX]);
    }

    #[test]
    fn scattered_blocks_make_statements_of_bounded_length() {
        let ranges: Vec<BlockRange> = (0..300).map(|block| BlockRange::new(block * 2, block * 2 + 1)).collect();
        let mut lengths = Vec::new();
        cut(&ranges, |ranges| lengths.push((ranges.len(), count(&ranges))));
        assert_eq!(lengths, [(256, 256), (44, 44)]);
    }
}
