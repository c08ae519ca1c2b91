//! What of a snapshot is to be brought back, as entries for the OS tier.

use roaring::RoaringBitmap;

use super::entry::{Asks, Entry, Row};
use super::names::{Catalog, Found};
use crate::cache::{ForkMap, Identity, Map, RelationMap, TierState, Tiers, compute_identities};
use crate::postgres::{Relation, RelationKind, RelationPath};
use crate::units::{Bytes, Fork};
use crate::warm::Refusal;
use crate::warm::heat::{self, Evidence};
use crate::warm::plan::Precedence;
use crate::warm::receipt::{FoundAs, SkipReason};

/// Less that is left out is not worth a remark.
const REMARKED_MIN: Bytes = Bytes(1 << 20);

/// The part of a snapshot that was asked for.
#[derive(Debug)]
pub struct Request {
    pub map: Map,
    pub tiers: Tiers,
    /// Identities of the map's relations in their order, then of the empty ones.
    pub identities: Vec<Identity>,
}

/// What to do about an entry whose file is not where the snapshot says.
#[derive(Debug)]
pub enum Resolved {
    Entry(Box<Entry>),
    Skipped(Refusal),
}

impl Request {
    /// Asks for all of `map`, in these tiers.
    pub fn new(map: Map, tiers: Tiers) -> Request {
        let identities = compute_identities(map.every_relation());
        Request { map, tiers, identities }
    }

    /// Does the OS tier read what was in shared_buffers too? What the buffers tier is to load comes off the device in
    /// large reads first, instead of block by block; and of a snapshot that knows shared_buffers alone it is all there
    /// is.
    fn reads_buffers(&self) -> bool {
        self.tiers.buffers || self.map.os != TierState::Measured
    }

    /// The blocks of a fork that the OS tier is to have.
    fn wanted(&self, fork: &ForkMap) -> RoaringBitmap {
        if self.reads_buffers() { &fork.os | fork.all_buffers() } else { fork.os.clone() }
    }

    /// One entry for every fork of which something is wanted, at the place that the snapshot knows.
    pub fn entries(&self) -> Vec<Entry> {
        let relations = self.map.relations.iter().enumerate();
        let forks = relations.flat_map(|(place, one)| one.forks.iter().map(move |fork| (place, fork)));
        let evidence = Evidence::of(&self.map);
        forks.filter_map(|(place, fork)| self.entry(place, fork, evidence)).collect()
    }

    fn entry(&self, place: usize, fork: &ForkMap, evidence: Evidence) -> Option<Entry> {
        let levels = heat::levels(fork, evidence, &self.wanted(fork));
        if levels.is_empty() {
            return None;
        }
        let relation = &self.map.relations[place].relation;
        Some(Entry {
            relation: place,
            path: relation.path.clone(),
            fork: fork.fork,
            found: FoundAs::SameFile,
            precedence: self.precedence(relation, fork),
            is_index: relation.kind == RelationKind::Index && fork.fork == Fork::Main,
            asks: Asks::Levels(levels),
            hot: heat::hot(fork, self.map.os_heat),
            snapshot_blocks: fork.blocks,
        })
    }

    /// The catalogs of a database that nobody uses wait for their turn. Of one that somebody does, some block was in shared_buffers;
    /// where that is not known, nobody uses a template: its hundreds of small files would cost the reads that users wait for.
    fn precedence(&self, relation: &Relation, fork: &ForkMap) -> Precedence {
        let is_used = match self.map.buffers {
            TierState::Measured => !fork.all_buffers().is_empty(),
            _ => !relation.name.is_of_template(),
        };
        match fork.fork {
            _ if relation.is_system && is_used => Precedence::Catalog,
            Fork::Vm => Precedence::VisibilityMap,
            _ => Precedence::ByHeat,
        }
    }

    /// What the buffers tier is asked for, with the places in the map: all but templates. What is found of these in shared_buffers is left
    /// over from looking at the catalogs, and an extension that is created in template1 every later database would inherit.
    pub fn buffered(&self) -> impl Iterator<Item = (usize, &RelationMap)> {
        let relations = self.map.relations.iter().enumerate().filter(move |_| self.tiers.buffers);
        relations.filter(|(_, one)| !one.relation.name.is_of_template())
    }

    /// Bytes of it.
    pub fn buffers_bytes(&self) -> Bytes {
        self.buffered_bytes(self.buffered().map(|(_, one)| one))
    }

    fn buffered_bytes<'a>(&self, relations: impl Iterator<Item = &'a RelationMap>) -> Bytes {
        let blocks: u64 = relations.flat_map(|one| &one.forks).map(|fork| fork.all_buffers().len()).sum();
        Bytes(blocks * u64::from(self.map.source.block_size))
    }

    /// What of shared_buffers the snapshot holds and nobody is asked for.
    pub fn remark_templates(&self) -> Option<String> {
        let templates = self.map.relations.iter().filter(|one| one.relation.name.is_of_template());
        let bytes = self.buffered_bytes(templates);
        (self.tiers.buffers && bytes >= REMARKED_MIN).then(|| {
            format!(
                "{bytes} of what the snapshot holds of shared_buffers are not asked for: they are of templates (template1), and nobody works \
                 there"
            )
        })
    }

    /// A row for every fork that was in shared_buffers, none of which is loaded.
    pub fn buffers_rows(&self, refusal: &Refusal) -> Vec<Row> {
        let forks = self.buffered().flat_map(|(place, one)| one.forks.iter().map(move |fork| (place, fork)));
        let wanted = forks.map(|(place, fork)| (place, fork.fork, fork.all_buffers().len()));
        wanted
            .filter(|(_, _, blocks)| *blocks > 0)
            .map(|(place, fork, blocks)| Row {
                relation: place,
                fork,
                found: FoundAs::SameFile,
                asked_blocks: blocks,
                resident_before: None,
                resident_after: None,
                read_bytes: Bytes(0),
                grown_blocks: 0,
                skips: vec![(refusal.reason, blocks, refusal.detail.clone())],
            })
            .collect()
    }

    /// Looks for an entry's relation by name. `same_cluster` says that paths mean the same here as in the snapshot.
    pub fn resolve(&self, mut entry: Entry, catalog: &Catalog, same_cluster: bool) -> Resolved {
        let relation = &self.map.relations[entry.relation].relation;
        let now = match catalog.find(&self.identities[entry.relation], same_cluster.then_some(&relation.path)) {
            Found::Relation(now) => now,
            Found::Nothing => return Resolved::Skipped(Refusal::because(SkipReason::Dropped)),
            Found::Unreachable(why) => return Resolved::Skipped(why.clone()),
        };
        entry.found = compare_paths(&relation.path, &now.path, same_cluster);
        match entry.found {
            // The file was looked at already: the fork has no block any more.
            FoundAs::SameFile => return Resolved::Skipped(Refusal::because(SkipReason::Truncated)),
            FoundAs::WholeRewritten => {
                (entry.asks, entry.hot) = (rewritten(&entry.asks, entry.snapshot_blocks), RoaringBitmap::new());
            }
            FoundAs::Moved | FoundAs::Emptied | FoundAs::NotFound => {}
        }
        entry.path = now.path.clone();
        Resolved::Entry(Box::new(entry))
    }
}

/// How a relation that was at `then` and is at `now` relates to its former self. Moving to another tablespace copies a
/// relation block by block; whatever else gives it a new file puts rows where they were not.
pub fn compare_paths(then: &RelationPath, now: &RelationPath, same_cluster: bool) -> FoundAs {
    match same_cluster {
        true if then == now => FoundAs::SameFile,
        true if then.tablespace_oid() != now.tablespace_oid() => FoundAs::Moved,
        _ => FoundAs::WholeRewritten,
    }
}

/// What to ask of a relation that was rewritten: nobody knows which of its blocks are hot. When at least half were
/// asked for, most will be.
fn rewritten(asks: &Asks, snapshot_blocks: u64) -> Asks {
    let asked_blocks = asks.blocks();
    match asks {
        Asks::Levels(levels) if asked_blocks * 2 >= snapshot_blocks => {
            Asks::Whole { heat: heat::mean(levels), asked_blocks }
        }
        _ => Asks::Nothing { asked_blocks },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_file_is_a_rewrite_unless_it_is_in_another_tablespace() {
        let path = |text: &str| text.parse::<RelationPath>().unwrap();
        let (then, rewritten) = (path("base/5/16384"), path("base/5/16999"));
        let moved = path("pg_tblspc/16390/PG_15_202209061/5/17000");
        assert_eq!(compare_paths(&then, &then, true), FoundAs::SameFile);
        assert_eq!(compare_paths(&then, &rewritten, true), FoundAs::WholeRewritten);
        assert_eq!(compare_paths(&then, &moved, true), FoundAs::Moved);
        assert_eq!(compare_paths(&then, &then, false), FoundAs::WholeRewritten);
    }

    #[test]
    fn half_of_a_rewritten_relation_is_enough() {
        let asks = |blocks: u32| Asks::Levels(vec![(3.0, (0..blocks).collect())]);
        assert_eq!(rewritten(&asks(5), 10), Asks::Whole { heat: 3.0, asked_blocks: 5 });
        assert_eq!(rewritten(&asks(4), 10), Asks::Nothing { asked_blocks: 4 });
    }
}
