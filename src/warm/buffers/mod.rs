//! The buffers tier: loads into shared_buffers what was there, the most used first, over several connections.

mod current;
mod jobs;
mod loader;

use std::collections::BTreeSet;
use std::time::Instant;

use current::Current;
use jobs::{Want, plan_jobs};
use loader::{Loaded, Loader};

use crate::postgres::Server;
use crate::units::Bytes;
use crate::warm::receipt::{FoundAs, SkipReason};
use crate::warm::restore::{Catalog, Found, Missing, Request, Row, compare_paths};
use crate::warm::{Control, Phase, Watcher};

/// How to load.
#[derive(Clone, Copy)]
pub struct BuffersTier<'a> {
    pub server: &'a Server,
    pub connections: usize,
    /// `None`: as many buffers as are free.
    pub budget: Option<Bytes>,
    pub create_extensions: bool,
    pub control: &'a Control,
    pub watcher: &'a dyn Watcher,
}

/// What was done.
#[derive(Debug, Default)]
pub struct BuffersPass {
    pub rows: Vec<Row>,
    pub statements: u64,
    pub seconds: f64,
    pub remarks: Vec<String>,
}

impl BuffersTier<'_> {
    /// Loads what `request` has in shared_buffers and is not there now.
    pub async fn restore(&self, request: &Request, catalog: &Catalog, same_cluster: bool) -> BuffersPass {
        let mut pass = BuffersPass::default();
        let wants = self.find_wants(request, catalog, same_cluster, &mut pass.rows);
        let databases: BTreeSet<String> = wants.iter().map(|want| want.database.clone()).collect();
        let databases: Vec<String> = databases.into_iter().collect();
        let before = self.read_current(&wants, &databases, &mut pass.remarks).await;
        let started = Instant::now();
        let block_size = u64::from(self.server.facts.block_size);
        let plan = plan_jobs(&wants, before.as_ref(), self.budget_blocks(before.as_ref()));
        self.watcher.begin(Phase::Buffers, plan.planned_blocks() * block_size);
        let loader = Loader::new(*self, &wants, plan.jobs);
        let loaded = loader.run().await;
        let after = match (&before, loaded.is_server_gone) {
            (Some(_), false) => self.read_current(&wants, &databases, &mut pass.remarks).await,
            _ => None,
        };
        pass.seconds = started.elapsed().as_secs_f64();
        pass.statements = loaded.statements;
        let facts = Facts { before: before.as_ref(), after: after.as_ref(), loaded: &loaded, tier: *self };
        pass.rows.extend(wants.iter().enumerate().map(|(at, want)| facts.row(at, want, plan.over_budget[at])));
        pass
    }

    /// What of the request can be found; the rows of the rest.
    fn find_wants(&self, request: &Request, catalog: &Catalog, same_cluster: bool, rows: &mut Vec<Row>) -> Vec<Want> {
        let mut wants = Vec::new();
        for (place, one) in request.map.relations.iter().enumerate() {
            for fork in one.forks.iter().filter(|fork| fork.buffers.iter().any(|blocks| !blocks.is_empty())) {
                let mut want = Want::new(place, fork, &self.server.database);
                let refusal = match catalog.find(&request.identities[place]) {
                    Found::Relation(now) => match compare_paths(&one.relation.path, &now.path, same_cluster) {
                        FoundAs::SameFile | FoundAs::Moved => {
                            want.locate(now, &self.server.database);
                            wants.push(want);
                            continue;
                        }
                        FoundAs::WholeRewritten | FoundAs::NotFound => (SkipReason::Rewritten, None),
                    },
                    Found::Nothing => (SkipReason::Dropped, None),
                    Found::Unreachable(why) => (SkipReason::DatabaseUnreachable, Some(why.to_owned())),
                };
                rows.push(want.refused_row(refusal.0, refusal.1));
            }
        }
        wants
    }

    /// What is in shared_buffers now; `None` with a remark when nobody can see.
    async fn read_current(&self, wants: &[Want], databases: &[String], remarks: &mut Vec<String>) -> Option<Current> {
        match Current::read(self.server, databases, wants).await {
            Ok(current) => Some(current),
            Err(error) => {
                remarks.push(format!("what is in shared_buffers was not measured: {error}"));
                None
            }
        }
    }

    /// Buffers that may be filled. Without a word from the user nothing that live traffic brought in is pushed out.
    fn budget_blocks(&self, before: Option<&Current>) -> u64 {
        let facts = &self.server.facts;
        let all = facts.shared_buffers_bytes.0 / u64::from(facts.block_size);
        match (self.budget, before) {
            (Some(budget), _) => (budget.0 / u64::from(facts.block_size)).min(all),
            (None, Some(before)) => all.saturating_sub(before.used),
            (None, None) => all,
        }
    }
}

/// What the rows are made of.
struct Facts<'a> {
    before: Option<&'a Current>,
    after: Option<&'a Current>,
    loaded: &'a Loaded,
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
        let reason = match self.tier.budget {
            Some(_) => SkipReason::OverBudget,
            None => SkipReason::NoFreeBuffer,
        };
        let (why, detail) = self.why_missing(at, want);
        let skips: Vec<Missing> = vec![(reason, over_budget, None), (why, missing - over_budget, detail)];
        Row {
            relation: want.relation,
            fork: want.fork,
            found: FoundAs::SameFile,
            asked_blocks: want.asked(),
            resident_before: before,
            resident_after: after,
            read_bytes: Bytes(loaded_blocks * u64::from(self.tier.server.facts.block_size)),
            grown_blocks: 0,
            skips: skips.into_iter().filter(|(_, blocks, _)| *blocks > 0).collect(),
        }
    }

    fn why_missing(&self, at: usize, want: &Want) -> (SkipReason, Option<String>) {
        let refusal = self.loaded.refusals.get(&at).or_else(|| self.loaded.databases.get(&want.database));
        match refusal {
            Some((reason, detail)) => (*reason, Some(detail.clone())),
            None if self.loaded.is_server_gone => (SkipReason::NoServer, None),
            None if self.tier.control.is_interrupted() => (SkipReason::Interrupted, None),
            None => (SkipReason::DidNotStay, None),
        }
    }
}
