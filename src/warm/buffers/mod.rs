//! The buffers tier: loads into shared_buffers what was there, the most used first, over several connections.

mod loader;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Instant;

use loader::{JobPlan, Loaded, Loader, plan_jobs};
use roaring::RoaringBitmap;

use super::receipt::{BuffersForecast, FoundAs, SkipReason};
use super::restore::{Buffered, Catalog, Found, Missing, Request, Row, compare_paths};
use super::{Control, Phase, Refusal, Watcher};
use crate::cache::ForkMap;
use crate::postgres::{
    Error, PG_BUFFERCACHE, PG_PREWARM, Relation, RelationPath, Server, apply_create_extension, find_extension,
    read_buffers,
};
use crate::units::{Bytes, Fork};

/// What was done.
#[derive(Debug, Default)]
pub struct BuffersPass {
    pub forecast: BuffersForecast,
    pub rows: Vec<Row>,
    pub statements: u64,
    pub seconds: f64,
    pub remarks: Vec<String>,
    /// The blocks asked for that are in shared_buffers now, as was measured.
    pub buffered: Vec<Buffered>,
}

impl BuffersTier<'_> {
    /// Loads what `request` has in shared_buffers and is not there now.
    pub async fn restore(&self, request: &Request, catalog: &Catalog, same_cluster: bool) -> BuffersPass {
        let mut pass = BuffersPass::default();
        let wants = self.find_wants(request, catalog, same_cluster, &mut pass.rows);
        let databases: BTreeSet<String> = wants.iter().map(|want| want.database.clone()).collect();
        let databases: Vec<String> = databases.into_iter().collect();
        let before = self.read_current(&wants, &databases, &mut pass.remarks).await;
        let refused = self.prepare(&databases).await;
        let started = Instant::now();
        let (budget_blocks, over_budget) = self.budget_blocks(before.as_ref());
        let before = before.ok();
        let allowed: Option<Vec<RoaringBitmap>> = self.cached.map(|cached| {
            wants.iter().map(|want| cached.get(&(want.relation, want.fork)).cloned().unwrap_or_default()).collect()
        });
        let mut plan = plan_jobs(&wants, before.as_ref(), budget_blocks, allowed.as_deref());
        plan.jobs.retain(|job| !refused.contains_key(&wants[job.want].database));
        pass.forecast = self.forecast(&plan);
        let loaded = match self.is_dry_run {
            true => Loaded::planned(&plan, refused),
            false => {
                self.watcher.begin(Phase::Buffers, pass.forecast.load_bytes.0);
                Loader::new(*self, &wants, std::mem::take(&mut plan.jobs), refused).run().await
            }
        };
        let after = match (&before, &loaded.server_gone) {
            (Some(_), None) if !self.is_dry_run => self.read_current(&wants, &databases, &mut pass.remarks).await.ok(),
            _ => None,
        };
        pass.seconds = if self.is_dry_run { 0.0 } else { started.elapsed().as_secs_f64() };
        pass.statements = loaded.statements;
        let facts = Facts { before: before.as_ref(), after: after.as_ref(), loaded: &loaded, over_budget, tier: *self };
        pass.buffered = after.iter().flat_map(|after| buffered(&wants, after)).collect();
        pass.rows.extend(wants.iter().enumerate().map(|(at, want)| facts.row(at, want, plan.over_budget[at])));
        pass
    }

    fn forecast(&self, plan: &JobPlan) -> BuffersForecast {
        BuffersForecast {
            statements: plan.jobs.len() as u64,
            load_bytes: Bytes(plan.planned_blocks() * u64::from(self.server.facts.block_size)),
            over_budget_blocks: plan.over_budget.iter().sum(),
        }
    }

    /// Databases that pg_prewarm cannot be used in, with why. Where it is missing and may be created it is: once, and
    /// before several connections race to. Without either purpose nobody is asked, each connection finds out.
    async fn prepare(&self, databases: &[String]) -> BTreeMap<String, Refusal> {
        let mut refused = BTreeMap::new();
        if !self.create_extensions && !self.is_dry_run {
            return refused;
        }
        for database in databases.iter().take_while(|_| !self.control.is_interrupted()) {
            if let Err(error) = self.prepare_database(database).await {
                refused.insert(database.clone(), Refusal::of(&error));
            }
        }
        refused
    }

    async fn prepare_database(&self, database: &str) -> Result<(), Error> {
        let mut connection = self.server.connect_to(database).await?;
        if find_extension(&mut connection, PG_PREWARM).await?.is_some() {
            return Ok(());
        }
        match self.create_extensions {
            true if self.is_dry_run => Ok(()),
            true => apply_create_extension(&mut connection, PG_PREWARM).await,
            false => Err(Error::ExtensionMissing { name: PG_PREWARM, database: database.to_owned() }),
        }
    }

    /// What of the request can be found; the rows of the rest.
    fn find_wants(&self, request: &Request, catalog: &Catalog, same_cluster: bool, rows: &mut Vec<Row>) -> Vec<Want> {
        let mut wants = Vec::new();
        for (place, one) in request.buffered() {
            for fork in one.forks.iter().filter(|fork| fork.buffers.iter().any(|blocks| !blocks.is_empty())) {
                let mut want = Want::new(place, fork, &self.server.database);
                let file = same_cluster.then_some(&one.relation.path);
                let refusal = match catalog.find(&request.identities[place], file) {
                    Found::Relation(now) => match compare_paths(&one.relation.path, &now.path, same_cluster) {
                        FoundAs::SameFile | FoundAs::Moved => {
                            want.locate(now, &self.server.database);
                            wants.push(want);
                            continue;
                        }
                        FoundAs::WholeRewritten | FoundAs::Emptied | FoundAs::NotFound => {
                            Refusal::because(SkipReason::Rewritten)
                        }
                    },
                    Found::Nothing => Refusal::because(SkipReason::Dropped),
                    Found::Unreachable(why) => why.clone(),
                };
                rows.push(want.refused_row(refusal));
            }
        }
        wants
    }

    /// What is in shared_buffers now; with a remark when nobody can see.
    async fn read_current(
        &self,
        wants: &[Want],
        databases: &[String],
        remarks: &mut Vec<String>,
    ) -> Result<Current, Refusal> {
        Current::read(self.server, databases, wants).await.map_err(|error| {
            remarks.push(format!("what is in shared_buffers was not measured: {error}"));
            Refusal::of(&error)
        })
    }

    /// Buffers that may be filled, and what to say of what goes beyond them. Without a word from the user nothing that live
    /// traffic brought in is pushed out.
    fn budget_blocks(&self, before: Result<&Current, &Refusal>) -> (u64, SkipReason) {
        let facts = &self.server.facts;
        let blocks = |bytes: Bytes| bytes.0 / u64::from(facts.block_size);
        let used = before.map(|before| before.used);
        let (budget, limit) = (self.budget.map(blocks), self.limit.map(blocks));
        let fillable = fillable(blocks(facts.shared_buffers_bytes), budget, used);
        cap(fillable, budget, limit, self.cached.is_some(), used)
    }
}

/// The `fillable` buffers within the `limit` of both tiers, and what to say of what goes beyond them.
fn cap(
    fillable: u64,
    budget: Option<u64>,
    limit: Option<u64>,
    shares_limit: bool,
    used: Result<u64, &Refusal>,
) -> (u64, SkipReason) {
    let reason = match budget {
        Some(_) => SkipReason::OverBudget,
        // A limit is not why nothing may be filled.
        None if used.is_err() => return (fillable.min(limit.unwrap_or(u64::MAX)), SkipReason::FreeBuffersUnknown),
        None => SkipReason::NoFreeBuffer,
    };
    match limit {
        Some(limit) if limit < fillable || shares_limit => (limit.min(fillable), SkipReason::OverBudget),
        _ => (fillable, reason),
    }
}

/// How many of `all` buffers may be filled: the budget, or what is not `used`.
fn fillable(all: u64, budget: Option<u64>, used: Result<u64, &Refusal>) -> u64 {
    match (budget, used) {
        (Some(budget), _) => budget.min(all),
        (None, Ok(used)) => all.saturating_sub(used),
        // The statements will say so.
        (None, Err(why)) if why.reason == SkipReason::ServerGone => all,
        (None, Err(_)) => 0,
    }
}

/// What of the wants is there.
fn buffered(wants: &[Want], after: &Current) -> Vec<Buffered> {
    let of_want = |(at, want): (usize, &Want)| {
        let blocks =
            want.levels.iter().fold(RoaringBitmap::new(), |all, (_, blocks)| all | blocks) & after.resident(at);
        want.path.clone().map(|path| Buffered { path, fork: want.fork, blocks })
    };
    wants.iter().enumerate().filter_map(of_want).collect()
}

/// What the rows are made of.
struct Facts<'a> {
    before: Option<&'a Current>,
    after: Option<&'a Current>,
    loaded: &'a Loaded,
    /// Why what had no room had none.
    over_budget: SkipReason,
    tier: BuffersTier<'a>,
}

impl Facts<'_> {
    fn row(&self, at: usize, want: &Want, over_budget: u64) -> Row {
        let count = |current: Option<&Current>| current.map(|current| current.count(at, want));
        let (before, after) = (count(self.before), count(self.after));
        let loaded_blocks = self.loaded.blocks[at];
        let there = after.unwrap_or_else(|| before.unwrap_or(0) + loaded_blocks).min(want.asked());
        let missing = want.asked() - there;
        let over_budget = over_budget.min(missing);
        let why = self.why_missing(at, want);
        let truncated = self.loaded.past_end[at].min(missing - over_budget);
        let skips: Vec<Missing> = vec![
            (self.over_budget, over_budget, None),
            (SkipReason::Truncated, truncated, None),
            (why.reason, missing - over_budget - truncated, why.detail),
        ];
        Row {
            relation: want.relation,
            fork: want.fork,
            found: FoundAs::SameFile,
            asked_blocks: want.asked(),
            resident_before: before,
            resident_after: after,
            read_bytes: Bytes(loaded_blocks * u64::from(self.tier.server.facts.block_size)),
            grown_blocks: 0,
            skips,
        }
    }

    fn why_missing(&self, at: usize, want: &Want) -> Refusal {
        let refusal = self.loaded.refusals.get(&at).or_else(|| self.loaded.databases.get(&want.database));
        match refusal.or(self.loaded.server_gone.as_ref()) {
            Some(refusal) => refusal.clone(),
            None if self.tier.control.is_interrupted() => Refusal::because(SkipReason::Interrupted),
            None => Refusal::because(SkipReason::DidNotStay),
        }
    }
}

// ---- current ----

/// A picture of shared_buffers, as far as it matters.
#[derive(Debug)]
struct Current {
    /// Buffers that hold something.
    pub used: u64,
    /// Blocks of each want, by its number.
    resident: Vec<RoaringBitmap>,
}

impl Current {
    /// Looks at all buffers, through the first database that has pg_buffercache.
    pub async fn read(server: &Server, databases: &[String], wants: &[Want]) -> Result<Current, Error> {
        let mut connection = server.connect_with_extension(PG_BUFFERCACHE, databases).await?;
        let numbers: HashMap<BufferKey, usize> = wants.iter().enumerate().map(|(at, want)| (want.key, at)).collect();
        let mut current = Current { used: 0, resident: vec![RoaringBitmap::new(); wants.len()] };
        read_buffers(&mut connection, |buffer| {
            current.used += 1;
            let key = (buffer.tablespace_oid, buffer.database_oid, buffer.relfilenumber, buffer.fork);
            if let Some(at) = numbers.get(&key) {
                current.resident[*at].insert(buffer.block);
            }
        })
        .await?;
        Ok(current)
    }

    /// The blocks of a want that are there.
    pub fn resident(&self, want: usize) -> &RoaringBitmap {
        &self.resident[want]
    }

    /// How many of the blocks that are asked for are there.
    pub fn count(&self, at: usize, want: &Want) -> u64 {
        want.levels.iter().map(|(_, blocks)| blocks.intersection_len(&self.resident[at])).sum()
    }
}

// ---- tier ----

/// How to load.
#[derive(Clone, Copy)]
pub struct BuffersTier<'a> {
    pub server: &'a Server,
    /// At most; there are as many as help.
    pub connections: usize,
    /// `None`: as many buffers as are free.
    pub budget: Option<Bytes>,
    /// What a budget of both tiers leaves for this one, whatever is free.
    pub limit: Option<Bytes>,
    /// Load only what is in the page cache: what is not would come into that one too, beyond the budget.
    pub cached: Option<&'a Cached>,
    /// Bytes per second; `None`: as fast as it goes.
    pub max_rate: Option<Bytes>,
    pub create_extensions: bool,
    /// Plan and tell; load nothing.
    pub is_dry_run: bool,
    pub control: &'a Control,
    pub watcher: &'a dyn Watcher,
}

/// Blocks that are in the page cache, by the number of their relation in the request and by fork.
pub type Cached = BTreeMap<(usize, Fork), RoaringBitmap>;

// ---- want ----

/// How a buffer says whose it is: tablespace, database, relfilenumber, fork.
type BufferKey = (u32, u32, u32, Fork);

/// One fork that is wanted in shared_buffers.
#[derive(Clone, Debug)]
struct Want {
    /// Which relation of the request it belongs to.
    pub relation: usize,
    pub fork: Fork,
    /// Blocks by usage count.
    pub levels: Vec<(u8, RoaringBitmap)>,
    /// Where to load it from; of a shared catalog any database.
    pub database: String,
    pub oid: u32,
    /// Where its files are; `None` before it is found.
    pub path: Option<RelationPath>,
    pub key: BufferKey,
    pub is_system: bool,
}

impl Want {
    /// What a snapshot has of a fork, not yet found.
    pub fn new(relation: usize, fork: &ForkMap, database: &str) -> Want {
        let levels = fork.buffers.iter().enumerate().filter(|(_, blocks)| !blocks.is_empty());
        Want {
            relation,
            fork: fork.fork,
            levels: levels.map(|(usage_count, blocks)| (usage_count as u8, blocks.clone())).collect(),
            database: database.to_owned(),
            oid: 0,
            path: None,
            key: (0, 0, 0, fork.fork),
            is_system: false,
        }
    }

    /// Found in the catalog.
    pub fn locate(&mut self, now: &Relation, any_database: &str) {
        self.oid = now.oid;
        self.path = Some(now.path.clone());
        self.key = key_of(&now.path, self.fork);
        self.is_system = now.is_system;
        self.database = if now.name.database.is_empty() { any_database } else { &now.name.database }.to_owned();
    }

    /// Blocks asked for.
    pub fn asked(&self) -> u64 {
        self.levels.iter().map(|(_, blocks)| blocks.len()).sum()
    }

    /// The row of one that cannot be loaded.
    pub fn refused_row(&self, why: Refusal) -> Row {
        Row {
            relation: self.relation,
            fork: self.fork,
            found: FoundAs::NotFound,
            asked_blocks: self.asked(),
            resident_before: None,
            resident_after: None,
            read_bytes: Bytes(0),
            grown_blocks: 0,
            skips: vec![(why.reason, self.asked(), why.detail)],
        }
    }
}

/// The key of a fork's buffers.
fn key_of(path: &RelationPath, fork: Fork) -> BufferKey {
    (path.tablespace_oid(), path.database_oid(), path.relfilenumber(), fork)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_live_traffic_brought_in_is_pushed_out_only_on_request() {
        let unseen = Refusal::because(SkipReason::NoPrivilege);
        assert_eq!(fillable(100, None, Ok(30)), 70);
        assert_eq!(fillable(100, None, Err(&unseen)), 0);
        assert_eq!(fillable(100, Some(60), Err(&unseen)), 60);
        assert_eq!(fillable(100, Some(600), Ok(30)), 100);
        let gone = Refusal::because(SkipReason::ServerGone);
        assert_eq!(fillable(100, None, Err(&gone)), 100);
    }

    #[test]
    fn a_limit_does_not_hide_that_free_buffers_are_unknown() {
        let unseen = Refusal::because(SkipReason::NoPrivilege);
        let unknown = (0, SkipReason::FreeBuffersUnknown);
        assert_eq!([false, true].map(|shares| cap(0, None, Some(50), shares, Err(&unseen))), [unknown; 2]);
        assert_eq!(cap(60, Some(60), Some(50), true, Err(&unseen)), (50, SkipReason::OverBudget));
        assert_eq!(cap(70, None, Some(50), true, Ok(30)), (50, SkipReason::OverBudget));
        assert_eq!(cap(20, None, Some(50), false, Ok(80)), (20, SkipReason::NoFreeBuffer));
    }
}
