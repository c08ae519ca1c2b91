use std::collections::HashMap;
use std::iter::Sum;
use std::ops::Add as _;

use roaring::RoaringBitmap;

use super::{ForkMap, Identity, Map, RelationMap, Result, Selection, TierState, compute_identities};
use host::units::Fork;
use postgres::{PartitionedTable, Relation};

#[derive(Clone, Debug, PartialEq)]
pub struct Difference<'a> {
    /// Relations of the later map in its order, then removed ones.
    pub relations: Vec<RelationDifference<'a>>,
    /// Relations without blocks in at least one of the maps, listed because their indexes may have blocks.
    pub empty: Vec<&'a Relation>,
    pub partitioned: Vec<PartitionedTable>,
    pub has_os: bool,
    pub has_buffers: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct RelationDifference<'a> {
    pub relation: &'a Relation,
    pub change: Change,
    pub forks: Vec<ForkDifference>,
}

/// How a relation changed. If several kinds apply, the first in this list counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Change {
    New,
    Gone,
    /// Moved to another file (VACUUM FULL, REINDEX, TRUNCATE, dump and restore), so blocks are not comparable.
    Rewritten,
    Grown,
    Truncated,
    Same,
}

host::named!(Change);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForkDifference {
    pub fork: Fork,
    /// 0 if the fork did not exist.
    pub blocks_before: u64,
    pub blocks_after: u64,
    pub os: TierDifference,
    pub buffers: TierDifference,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TierDifference {
    pub gained: u64,
    pub lost: u64,
    pub kept: u64,
}

impl TierDifference {
    pub fn changed(&self) -> u64 {
        self.gained + self.lost
    }
}

impl Sum for TierDifference {
    fn sum<I: Iterator<Item = TierDifference>>(parts: I) -> TierDifference {
        parts.fold(
            TierDifference::default(),
            |sum, part| host::fieldwise!(TierDifference, sum.add(part): gained, lost, kept),
        )
    }
}

impl Difference<'_> {
    /// # Errors
    /// If neither map has a relation that `selection` names.
    pub fn select(mut self, selection: &Selection) -> Result<Self> {
        let all = self.relations.iter().map(|one| one.relation).chain(self.empty.iter().copied());
        let places = selection.find(all, &self.partitioned)?;
        let mut place = 0..;
        self.relations.retain(|_| place.next().is_some_and(|place| places.binary_search(&place).is_ok()));
        Ok(self)
    }

    pub fn os(&self) -> TierDifference {
        self.relations.iter().map(RelationDifference::os).sum()
    }

    pub fn buffers(&self) -> TierDifference {
        self.relations.iter().map(RelationDifference::buffers).sum()
    }
}

impl RelationDifference<'_> {
    pub fn os(&self) -> TierDifference {
        self.forks.iter().map(|fork| fork.os).sum()
    }

    pub fn buffers(&self) -> TierDifference {
        self.forks.iter().map(|fork| fork.buffers).sum()
    }

    pub fn blocks(&self) -> (u64, u64) {
        self.forks.iter().fold((0, 0), |(before, after), fork| (before + fork.blocks_before, after + fork.blocks_after))
    }
}

/// Compares maps of one cluster or of two copies of it. Relations are matched by name, not by file.
pub fn compute_difference<'a>(before: &'a Map, after: &'a Map) -> Difference<'a> {
    let identities = |map: &'a Map| compute_identities(map.every_relation());
    let mut earlier: HashMap<Identity, &RelationMap> = identities(before).into_iter().zip(&before.relations).collect();
    let later = identities(after).into_iter().zip(&after.relations);
    let mut relations: Vec<RelationDifference<'a>> =
        later.map(|(identity, one)| compare(earlier.remove(&identity), one)).collect();
    let mut gone: Vec<&RelationMap> = earlier.into_values().collect();
    gone.sort_by(|one, other| one.relation.name.cmp(&other.relation.name));
    relations.extend(gone.into_iter().map(|one| RelationDifference {
        relation: &one.relation,
        change: Change::Gone,
        forks: compare_forks(&one.forks, &[], false),
    }));
    let both = |tier: fn(&Map) -> &TierState| [before, after].iter().all(|map| *tier(map) == TierState::Measured);
    let partitioned = [before.partitioned.as_slice(), &after.partitioned].concat();
    let empty = before.empty.iter().chain(&after.empty).collect();
    Difference { relations, empty, partitioned, has_os: both(|map| &map.os), has_buffers: both(|map| &map.buffers) }
}

fn compare<'a>(before: Option<&RelationMap>, after: &'a RelationMap) -> RelationDifference<'a> {
    let relation = &after.relation;
    let Some(before) = before else {
        return RelationDifference { relation, change: Change::New, forks: compare_forks(&[], &after.forks, false) };
    };
    let is_rewritten = before.relation.path.relfilenumber != relation.path.relfilenumber;
    let change = match after.blocks().cmp(&before.blocks()) {
        _ if is_rewritten => Change::Rewritten,
        std::cmp::Ordering::Greater => Change::Grown,
        std::cmp::Ordering::Less => Change::Truncated,
        std::cmp::Ordering::Equal => Change::Same,
    };
    RelationDifference { relation, change, forks: compare_forks(&before.forks, &after.forks, !is_rewritten) }
}

/// `comparable` is false for a rewritten relation, whose block numbers stand for other data.
fn compare_forks<'a>(before: &'a [ForkMap], after: &'a [ForkMap], comparable: bool) -> Vec<ForkDifference> {
    let compare = |fork: Fork| {
        let find = |forks: &'a [ForkMap]| forks.iter().find(|one| one.fork == fork);
        let none = ForkMap::empty(fork, 0);
        let (before, after) = match (find(before), find(after)) {
            (None, None) => return None,
            (before, after) => (before.unwrap_or(&none), after.unwrap_or(&none)),
        };
        let os = compare_tier(&before.os, &after.os, comparable);
        let buffers = compare_tier(&before.all_buffers(), &after.all_buffers(), comparable);
        Some(ForkDifference { fork, blocks_before: before.blocks, blocks_after: after.blocks, os, buffers })
    };
    Fork::ALL.into_iter().filter_map(compare).collect()
}

fn compare_tier(before: &RoaringBitmap, after: &RoaringBitmap, comparable: bool) -> TierDifference {
    let kept = if comparable { before.intersection_len(after) } else { 0 };
    TierDifference { gained: after.len() - kept, lost: before.len() - kept, kept }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{map_of, relation};
    use postgres::RelationPath;

    fn one(number: u32, blocks: u64, os: std::ops::Range<u32>, buffers: std::ops::Range<u32>) -> RelationMap {
        let mut fork = ForkMap::empty(Fork::Main, blocks);
        fork.os.insert_range(os);
        fork.buffers[3].insert_range(buffers);
        relation(number, fork)
    }

    fn with_file(mut one: RelationMap, relfilenumber: u32) -> RelationMap {
        one.relation.path = RelationPath::base(5, relfilenumber);
        one
    }

    #[test]
    fn tells_what_came_went_and_stayed() {
        let before = map_of(vec![one(1, 100, 0..50, 0..10), one(2, 100, 0..50, 0..0), one(3, 9, 0..9, 0..0)]);
        let after = map_of(vec![
            one(1, 120, 20..80, 5..15),
            with_file(one(2, 100, 0..50, 0..0), 77),
            one(4, 10, 0..4, 0..0),
            one(3, 9, 0..9, 0..0),
        ]);
        let difference = compute_difference(&before, &after);
        let changes: Vec<(&str, Change)> =
            difference.relations.iter().map(|one| (one.relation.name.name.as_str(), one.change)).collect();
        let expected = [
            ("relation_1", Change::Grown),
            ("relation_2", Change::Rewritten),
            ("relation_4", Change::New),
            ("relation_3", Change::Same),
        ];
        assert_eq!(changes, expected);
        let [first, second, third, fourth] = difference.relations.as_slice() else { panic!() };
        assert_eq!(first.os(), TierDifference { gained: 30, lost: 20, kept: 30 });
        assert_eq!(first.buffers(), TierDifference { gained: 5, lost: 5, kept: 5 });
        assert_eq!(first.blocks(), (100, 120));
        assert_eq!(second.os(), TierDifference { gained: 50, lost: 50, kept: 0 });
        assert_eq!(third.os(), TierDifference { gained: 4, lost: 0, kept: 0 });
        assert_eq!(fourth.os(), TierDifference { gained: 0, lost: 0, kept: 9 });
        assert!(difference.has_os && !difference.has_buffers, "the fixture does not know its buffers");
    }

    #[test]
    fn what_is_gone_comes_last_with_all_that_it_lost() {
        let before = map_of(vec![one(1, 100, 0..50, 0..10), one(2, 50, 0..0, 0..0)]);
        let after = map_of(vec![one(2, 40, 0..0, 0..0)]);
        let difference = compute_difference(&before, &after);
        assert_eq!(difference.relations[0].change, Change::Truncated);
        assert_eq!(difference.relations[1].change, Change::Gone);
        assert_eq!(difference.relations[1].os(), TierDifference { gained: 0, lost: 50, kept: 0 });
        assert_eq!(difference.relations[1].blocks(), (100, 0));
    }

    #[test]
    fn a_selection_leaves_the_rest_out_and_may_name_what_is_gone() {
        let before = map_of(vec![one(1, 100, 0..50, 0..0), one(2, 50, 0..20, 0..0)]);
        let after = map_of(vec![one(2, 50, 0..30, 0..0), one(3, 50, 0..7, 0..0)]);
        let select = |name: &str| {
            let selection = Selection { relations: vec![name.to_owned()], schema: None };
            compute_difference(&before, &after).select(&selection)
        };
        assert_eq!(select("relation_2").unwrap().os(), TierDifference { gained: 10, lost: 0, kept: 20 });
        assert_eq!(select("relation_1").unwrap().relations[0].change, Change::Gone);
        assert!(select("relation_9").is_err());
    }

    #[test]
    fn a_map_does_not_differ_from_itself() {
        let map = map_of(vec![one(1, 100, 0..50, 0..10), one(2, 50, 3..9, 1..2)]);
        let difference = compute_difference(&map, &map);
        assert!(difference.relations.iter().all(|one| one.change == Change::Same));
        assert!(difference.relations.iter().all(|one| one.os().changed() + one.buffers().changed() == 0));
    }
}
