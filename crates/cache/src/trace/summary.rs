//! A film in numbers: per relation, over time, how much memory would have sufficed, and as a picture.
//!
//! A cache that drops the least recently used block has a block at hand if it holds as many blocks as were requested since, this one included
//! (Mattson, Gecsei, Slutz, Traiger: Evaluation techniques for storage hierarchies, 1970). Of some blocks alone, chosen by a hash, distances
//! are as exact as a sample is: SHARDS (Waldspurger and others, FAST 2015).

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use parquet::file::reader::ChunkReader;
use roaring::RoaringBitmap;
use serde::Serialize;

use super::error::Error;
use super::film::{Event, EventKind, FilmRelation, Sampled};
use super::film_file::Film;
use super::requests::salt_of;
use host::units::{BlockRange, Fork};
use observe::pages::unit_hash;
use postgres::RelationPath;

/// Moments at which the working set is told.
pub const MOMENTS: usize = 20;

/// What of one relation a job touched.
#[derive(Clone, Debug, PartialEq)]
pub struct RelationTouches {
    pub relation: Arc<FilmRelation>,
    /// Distinct blocks that came, or were asked for, of all forks.
    pub blocks: u64,
    /// Distinct blocks that were in shared_buffers before.
    pub buffers_blocks: u64,
    /// Events: stretches of neighbouring blocks that came at one look.
    pub events: u64,
    /// When the first and the last of them were seen; `None` where there was nothing but buffers.
    pub span: Option<(Duration, Duration)>,
}

/// What was touched by then.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moment {
    pub time: Duration,
    /// Distinct blocks since the beginning.
    pub blocks: u64,
    /// Distinct blocks since the last moment.
    pub recent_blocks: u64,
}

/// A film in numbers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FilmSummary {
    /// The relation with the most blocks first.
    pub relations: Vec<RelationTouches>,
    /// At equal distances, to the film's end.
    pub moments: Vec<Moment>,
    /// How much memory would have sufficed; `None` of a film that does not know what was asked for.
    pub curve: Option<MissRatioCurve>,
}

/// One relation while events are added up.
#[derive(Default)]
struct Sum {
    blocks: BTreeMap<Fork, RoaringBitmap>,
    buffers: BTreeMap<Fork, RoaringBitmap>,
    events: u64,
    span: Option<(Duration, Duration)>,
}

impl Sum {
    /// Adds an event, and tells how many blocks it has that were not there before.
    fn add(&mut self, event: &Event) -> u64 {
        if event.kind == EventKind::Again {
            return 0;
        }
        let is_buffers = event.kind == EventKind::Buffers;
        let blocks = if is_buffers { &mut self.buffers } else { &mut self.blocks };
        let new = insert(blocks.entry(event.fork).or_default(), event);
        if is_buffers {
            return 0;
        }
        self.events += 1;
        let (first, _) = self.span.unwrap_or((event.time, event.time));
        self.span = Some((first, event.time));
        new
    }
}

fn insert(blocks: &mut RoaringBitmap, event: &Event) -> u64 {
    blocks.insert_range(event.blocks.start as u32..event.blocks.end as u32)
}

impl FilmSummary {
    /// Reads all of a film.
    pub fn read<S: ChunkReader + 'static>(film: &Film<S>) -> Result<FilmSummary, Error> {
        let mut sums: BTreeMap<Arc<FilmRelation>, Sum> = BTreeMap::new();
        let duration = film.header().duration();
        let moment = |at: usize| duration.mul_f64((at + 1) as f64 / MOMENTS as f64);
        let mut moments = Vec::with_capacity(MOMENTS);
        let mut recent: BTreeMap<(Arc<FilmRelation>, Fork), RoaringBitmap> = BTreeMap::new();
        let (mut blocks, mut recent_blocks) = (0, 0);
        let mut reuse = film.header().sampling.map(Reuse::new);
        let recorder_pid = film.header().recorder_pid;
        film.visit(|event| {
            let is_request = event.kind != EventKind::Buffers && event.pid != recorder_pid;
            if let Some(reuse) = reuse.as_mut().filter(|_| is_request) {
                reuse.add(&event.relation.path, event.fork, event.blocks);
            }
            while moments.len() + 1 < MOMENTS && event.time > moment(moments.len()) {
                moments.push(Moment { time: moment(moments.len()), blocks, recent_blocks });
                (recent, recent_blocks) = (BTreeMap::new(), 0);
            }
            blocks += sums.entry(Arc::clone(&event.relation)).or_default().add(&event);
            if event.kind != EventKind::Buffers {
                let key = (Arc::clone(&event.relation), event.fork);
                recent_blocks += insert(recent.entry(key).or_default(), &event);
            }
        })?;
        while moments.len() < MOMENTS {
            moments.push(Moment { time: moment(moments.len()), blocks, recent_blocks });
            recent_blocks = 0;
        }
        let mut relations: Vec<RelationTouches> =
            sums.into_iter().map(|(relation, sum)| sum.finish(relation)).collect();
        relations.sort_by_key(|one| Reverse((one.blocks, one.buffers_blocks)));
        Ok(FilmSummary { relations, moments, curve: reuse.map(Reuse::finish) })
    }
}

impl Sum {
    fn finish(self, relation: Arc<FilmRelation>) -> RelationTouches {
        let count = |blocks: &BTreeMap<Fork, RoaringBitmap>| blocks.values().map(RoaringBitmap::len).sum();
        let (blocks, buffers_blocks) = (count(&self.blocks), count(&self.buffers));
        RelationTouches { relation, blocks, buffers_blocks, events: self.events, span: self.span }
    }
}

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

/// A picture has so many columns, one after the other in time, and at most so many rows, from the relation's first block on.
pub const COLUMNS: u64 = 120;
pub const ROWS: u64 = 32;

/// Relations that get a picture, those with the most blocks.
const PICTURES: usize = 6;

/// The picture of a film.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FilmPicture {
    pub relations: Vec<RelationPicture>,
}

/// Where in a relation's main fork its job was when.
#[derive(Clone, Debug, PartialEq)]
pub struct RelationPicture {
    pub relation: Arc<FilmRelation>,
    /// Blocks that one row stands for, a power of two.
    pub row_blocks: u64,
    /// Blocks that were touched, by column and row. Those that were touched again count again.
    pub cells: BTreeMap<(u64, u64), u64>,
}

impl RelationPicture {
    /// Blocks of all cells.
    pub fn blocks(&self) -> u64 {
        self.cells.values().sum()
    }

    fn add(&mut self, column: u64, mut start: u64, end: u64) {
        while (end - 1) / self.row_blocks >= ROWS {
            self.halve();
        }
        while start < end {
            let row = start / self.row_blocks;
            let stop = ((row + 1) * self.row_blocks).min(end);
            *self.cells.entry((column, row)).or_default() += stop - start;
            start = stop;
        }
    }

    /// Makes one row of two.
    fn halve(&mut self) {
        self.row_blocks *= 2;
        for ((column, row), blocks) in std::mem::take(&mut self.cells) {
            *self.cells.entry((column, row / 2)).or_default() += blocks;
        }
    }
}

impl FilmPicture {
    /// Reads all of a film.
    pub fn read<S: ChunkReader + 'static>(film: &Film<S>) -> Result<FilmPicture, Error> {
        let mut pictures: BTreeMap<Arc<FilmRelation>, RelationPicture> = BTreeMap::new();
        let (seconds, recorder_pid) = (film.header().seconds, film.header().recorder_pid);
        film.visit(|event| {
            if event.kind == EventKind::Buffers || event.fork != Fork::Main || event.pid == recorder_pid {
                return;
            }
            let part = event.time.as_secs_f64() / seconds.max(f64::MIN_POSITIVE);
            let column = ((part * COLUMNS as f64) as u64).min(COLUMNS - 1);
            let picture = pictures.entry(Arc::clone(&event.relation)).or_insert_with(|| RelationPicture {
                relation: Arc::clone(&event.relation),
                row_blocks: 1,
                cells: BTreeMap::new(),
            });
            picture.add(column, event.blocks.start, event.blocks.end);
        })?;
        let mut relations: Vec<RelationPicture> = pictures.into_values().collect();
        relations.sort_by_key(|one| Reverse(one.blocks()));
        relations.truncate(PICTURES);
        Ok(FilmPicture { relations })
    }
}

#[cfg(test)]
mod reuse_tests {
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

#[cfg(test)]
mod picture_tests {
    use super::*;
    use crate::ForkMap;
    use crate::fixtures::relation;

    #[test]
    fn rows_become_coarser_as_blocks_lie_farther_away() {
        let of = relation(1, ForkMap::empty(Fork::Main, 1)).relation;
        let relation = Arc::new(FilmRelation { name: of.name, path: of.path });
        let mut picture = RelationPicture { relation, row_blocks: 1, cells: BTreeMap::new() };
        picture.add(0, 0, 4);
        assert_eq!(picture.cells.len(), 4);
        picture.add(1, 60, 130);
        assert_eq!(picture.row_blocks, 8);
        assert_eq!(picture.cells.first_key_value(), Some((&(0, 0), &4)));
        assert_eq!(picture.cells.last_key_value(), Some((&(1, 16), &2)));
        assert_eq!(picture.blocks(), 74);
    }
}
