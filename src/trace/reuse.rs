//! How much memory would have sufficed: from how many other blocks were asked for before the same one was asked for again.
//!
//! A cache that lets go what was used longest ago has a block at hand if it holds as many blocks as were asked for since, this one
//! included (Mattson, Gecsei, Slutz, Traiger: Evaluation techniques for storage hierarchies, 1970). Of some blocks alone, chosen by a
//! hash, distances are as exact as a sample is: SHARDS (Waldspurger and others, FAST 2015).

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;

use super::film::Sampled;
use super::requests::salt_of;
use crate::observe::pages::unit_hash;
use crate::postgres::RelationPath;
use crate::units::{BlockRange, Fork};

/// Blocks that are followed at once, some 40 bytes of memory each. A film that has more of them is sampled again.
const FOLLOWED_MAX: usize = 1 << 17;

/// Of a distance so many of its leading bits are kept: it is never told too small, and too large by 3 % at most.
const LEADING_BITS: u32 = 6;

/// Of all requests so many may find their block gone where memory suffices, beside those that come for the first time, 0 to 1.
const SPARED: f64 = 0.01;

/// How many requests would have found their block in a page cache of which size.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct MissRatioCurve {
    /// Requests of blocks, as far as the sample tells; those for the first time are missed whatever the memory.
    pub requests: u64,
    pub first_requests: u64,
    /// One block in 2 to this power was followed; 0: all of them, and the curve is exact.
    pub sampling: u32,
    /// From small to large: with so many blocks of memory so many requests are missed, those for the first time included.
    pub points: Vec<CurvePoint>,
}

/// One size of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct CurvePoint {
    pub blocks: u64,
    pub missed: u64,
}

impl MissRatioCurve {
    /// Of the requests the part that is missed with so many blocks of memory, 0 to 1. `None` where nothing was asked for.
    pub fn miss_ratio(&self, blocks: u64) -> Option<f64> {
        let missed = match self.points.partition_point(|point| point.blocks <= blocks) {
            0 => self.requests,
            after => self.points[after - 1].missed,
        };
        (self.requests > 0).then(|| missed as f64 / self.requests as f64)
    }

    /// With so many blocks of memory only first requests are missed. 0 where nothing was asked for again.
    pub fn most_blocks(&self) -> u64 {
        self.points.last().map_or(0, |point| point.blocks)
    }

    /// The fewest blocks of memory with which no more than 1 % of the requests are missed that were there once. 0 where nothing was asked
    /// for again.
    pub fn sufficient_blocks(&self) -> u64 {
        let spared = self.first_requests as f64 + self.requests as f64 * SPARED;
        let is_short = |point: &&CurvePoint| point.missed as f64 > spared;
        match self.requests - self.first_requests {
            0 => 0,
            again if again as f64 <= self.requests as f64 * SPARED => 0,
            _ => self.points.iter().find(|point| !is_short(point)).map_or(0, |point| point.blocks),
        }
    }
}

/// Which block: of which fork, by a number of its own, and where.
type Block = (u32, u32);

/// Adds requests up, in their order.
#[derive(Debug)]
pub struct Reuse {
    sampled: Sampled,
    /// Beyond what the film was sampled by.
    shift: u32,
    forks: HashMap<(RelationPath, Fork), u32>,
    /// When each block was asked for last, by a count of requests.
    last: HashMap<Block, u32>,
    /// Which block was asked for when, if not again since, with its hash.
    order: Vec<Option<(Block, u32)>>,
    /// Of a prefix of `order` how many are there: a Fenwick tree.
    tree: Vec<u32>,
    first_requests: u64,
    /// Requests by the blocks of memory that would have kept theirs.
    needed: BTreeMap<u64, u64>,
}

impl Reuse {
    /// For a film that was sampled so.
    pub fn new(sampled: Sampled) -> Reuse {
        Reuse {
            sampled,
            shift: sampled.shift,
            forks: HashMap::new(),
            last: HashMap::new(),
            order: Vec::new(),
            tree: vec![0],
            first_requests: 0,
            needed: BTreeMap::new(),
        }
    }

    /// These blocks were asked for.
    pub fn add(&mut self, path: &RelationPath, fork: Fork, blocks: BlockRange) {
        let salt = salt_of(path, fork);
        let unit_blocks = u64::from(self.sampled.unit_blocks);
        let mut number = None;
        for unit in blocks.start / unit_blocks..blocks.end.div_ceil(unit_blocks) {
            let hash = unit_hash(salt.wrapping_add(unit as u32));
            if u64::from(hash) >= below(self.shift) {
                continue;
            }
            let next = self.forks.len() as u32;
            let number = *number.get_or_insert_with(|| *self.forks.entry((path.clone(), fork)).or_insert(next));
            self.touch((number, unit as u32), hash);
        }
    }

    fn touch(&mut self, block: Block, hash: u32) {
        let weight = 1 << self.shift;
        match self.last.remove(&block) {
            Some(at) => {
                // What was asked for since, and the block itself.
                let since = self.last.len() as u64 + 1 - self.count_before(at);
                self.order[at as usize] = None;
                self.change(at, u32::MAX);
                let unit_blocks = u64::from(self.sampled.unit_blocks);
                *self.needed.entry(round_up((since * unit_blocks) << self.shift)).or_default() += weight;
            }
            None => self.first_requests += weight,
        }
        self.last.insert(block, self.order.len() as u32);
        self.order.push(Some((block, hash)));
        self.push();
        if self.last.len() > FOLLOWED_MAX {
            self.shift += 1;
            self.compact();
        } else if self.order.len() > 2 * FOLLOWED_MAX {
            self.compact();
        }
    }

    /// How many of those that were asked for before this one was are not asked for again since.
    fn count_before(&self, at: u32) -> u64 {
        let (mut index, mut count) = (at as usize, 0_u64);
        while index > 0 {
            count += u64::from(self.tree[index]);
            index &= index - 1;
        }
        count
    }

    /// Adds to the count of one, `u32::MAX` being one less.
    fn change(&mut self, at: u32, by: u32) {
        let mut index = at as usize + 1;
        while index < self.tree.len() {
            self.tree[index] = self.tree[index].wrapping_add(by);
            index += index & index.wrapping_neg();
        }
    }

    /// The tree becomes one longer, by one that is there.
    fn push(&mut self) {
        let index = self.tree.len();
        let (mut child, mut count) = (index - 1, 1);
        let end = index & (index - 1);
        while child > end {
            count += self.tree[child];
            child &= child - 1;
        }
        self.tree.push(count);
    }

    /// Leaves out what was asked for again, and what is not followed any more.
    fn compact(&mut self) {
        let limit = below(self.shift);
        self.last.clear();
        let kept = std::mem::take(&mut self.order).into_iter().flatten().filter(|(_, hash)| u64::from(*hash) < limit);
        self.order = kept.map(Some).collect();
        self.tree = vec![0];
        for at in 0..self.order.len() {
            if let Some((block, _)) = self.order[at] {
                self.last.insert(block, at as u32);
            }
            self.push();
        }
    }

    /// The curve of all that was added.
    pub fn finish(self) -> MissRatioCurve {
        let again: u64 = self.needed.values().sum();
        let requests = self.first_requests + again;
        let mut missed = requests;
        let points = self.needed.iter().map(|(blocks, kept)| {
            missed -= kept;
            CurvePoint { blocks: *blocks, missed }
        });
        let points = points.collect();
        MissRatioCurve { requests, first_requests: self.first_requests, sampling: self.shift, points }
    }
}

/// Up to which hash blocks are chosen.
fn below(shift: u32) -> u64 {
    (1 << 32) >> shift
}

fn round_up(blocks: u64) -> u64 {
    let spare = (u64::BITS - blocks.leading_zeros()).saturating_sub(LEADING_BITS);
    (blocks.div_ceil(1 << spare)) << spare
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Sampled = Sampled { shift: 0, unit_blocks: 1 };

    fn path(relfilenumber: u32) -> RelationPath {
        RelationPath::Base { database_oid: 5, relfilenumber }
    }

    fn curve(sampled: Sampled, blocks: impl Iterator<Item = u64>) -> MissRatioCurve {
        let mut reuse = Reuse::new(sampled);
        blocks.for_each(|block| reuse.add(&path(1), Fork::Main, BlockRange::new(block, block + 1)));
        reuse.finish()
    }

    /// As a list does it that is searched from its end.
    fn by_hand(blocks: &[u64]) -> BTreeMap<u64, u64> {
        let mut needed = BTreeMap::new();
        let mut stack: Vec<u64> = Vec::new();
        for block in blocks {
            if let Some(at) = stack.iter().rposition(|one| one == block) {
                *needed.entry(round_up((stack.len() - at) as u64)).or_default() += 1;
                stack.remove(at);
            }
            stack.push(*block);
        }
        needed
    }

    #[test]
    fn distances_are_those_of_a_stack() {
        let blocks: Vec<u64> = (0..20_000_u64).map(|at| (at * at * 31 + at * 7) % 1009).collect();
        let found = curve(ALL, blocks.iter().copied());
        let again: u64 = by_hand(&blocks).values().sum();
        assert_eq!(found.requests, 20_000);
        assert_eq!(found.first_requests, 20_000 - again);
        let mut missed = 20_000;
        for (point, (needed, kept)) in found.points.iter().zip(by_hand(&blocks)) {
            missed -= kept;
            assert_eq!(*point, CurvePoint { blocks: needed, missed });
        }
    }

    #[test]
    fn a_loop_needs_all_of_itself_and_a_scan_nothing() {
        // 1000 blocks five times over: with one fewer every request is missed.
        let looped = curve(ALL, (0..5).flat_map(|_| 0..1000));
        assert_eq!(looped.sufficient_blocks(), round_up(1000));
        assert_eq!((looped.miss_ratio(900), looped.miss_ratio(1100)), (Some(1.0), Some(0.2)));
        let scan = curve(ALL, 0..5000);
        assert_eq!((scan.sufficient_blocks(), scan.miss_ratio(1), scan.requests), (0, Some(1.0), 5000));
        assert_eq!(MissRatioCurve::default().miss_ratio(5), None);
    }

    #[test]
    fn a_sample_is_near_and_memory_is_bounded() {
        let sampled = curve(Sampled { shift: 3, unit_blocks: 1 }, (0..4).flat_map(|_| 0..40_000));
        let near = |found: u64, expected: f64| (found as f64 / expected - 1.0).abs() < 0.05;
        assert!(near(sampled.requests, 160_000.0) && near(sampled.sufficient_blocks(), 40_000.0), "{sampled:?}");
        assert_eq!(sampled.sampling, 3);
        let large = curve(ALL, (0..2).flat_map(|_| 0..500_000));
        assert!(large.sampling == 2 && near(large.sufficient_blocks(), 500_000.0), "{large:?}");
        assert!(near(large.requests, 1_000_000.0), "{large:?}");
    }

    #[test]
    fn where_blocks_are_small_a_page_is_what_is_asked_for() {
        let mut reuse = Reuse::new(Sampled { shift: 0, unit_blocks: 4 });
        (0..2).for_each(|_| reuse.add(&path(1), Fork::Main, BlockRange::new(1, 7)));
        let curve = reuse.finish();
        assert_eq!((curve.requests, curve.first_requests, curve.sufficient_blocks()), (4, 2, 8));
    }

    #[test]
    fn what_is_rounded_is_never_less() {
        for blocks in [1, 63, 64, 65, 1000, 1_000_000] {
            assert!(round_up(blocks) >= blocks && round_up(blocks) * 100 <= blocks * 104, "{blocks}");
        }
    }
}
