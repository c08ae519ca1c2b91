//! Blocks that a job will touch, derived from films and compared with the cache; and a film's summary. An LRU cache
//! still holds a block if it has room for all blocks requested since (Mattson et al., 1970). A sample of blocks, chosen
//! by a hash, suffices (SHARDS: Waldspurger et al., 2015).

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use parquet::file::reader::ChunkReader;
use roaring::{RoaringBitmap, RoaringTreemap};
use serde::Serialize;

use super::error::Result;
use super::film::{Event, EventKind, Film, FilmRelation, Sampled};
use super::requests::{below, salt_of};
use crate::warm::DeviceProfile;
use crate::warm::plan::{Geometry, Plan, Precedence, Read, Scratch, Situation, WantedFork};
use crate::{ForkMap, Map};
use host::units::{BlockRange, Fork};
use observe::pages::unit_hash;
use postgres::{RelationName, RelationPath};

/// Maximum number of a job's `Piece`s, 13 bytes each. A job with more takes hours.
const PIECES_MAX: usize = 4 << 20;

/// Up to this many blocks, single lookups are faster than a range count, which starts at the set's beginning.
const ASKED_ONE_BY_ONE: u32 = 16;

type Buffers = HashMap<(RelationPath, Fork), RoaringBitmap>;

const FETCHERS_MAX: u8 = 64;

/// Adjacent blocks first touched together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Index in `Touched::forks`.
    pub fork: u32,
    pub start: u32,
    pub blocks: u32,
}

/// A film's fork that still exists.
#[derive(Clone, Debug, PartialEq)]
pub struct TouchedFork {
    /// Index in the map; `usize::MAX` without a map.
    pub relation: usize,
    pub path: RelationPath,
    pub fork: Fork,
    pub blocks: u64,
    pub touched: RoaringBitmap,
    /// Touched blocks that the recorded job found in memory.
    pub found: RoaringBitmap,
    pub resident: RoaringBitmap,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Touched {
    pub forks: Vec<TouchedFork>,
    pub pieces: Vec<Piece>,
    /// Number of the process that fetched each piece, from 0.
    pub fetchers: Vec<u8>,
    pub gone: Vec<String>,
    pub gone_blocks: u64,
    /// Blocks excluded because it is unknown whether the job needs them.
    pub unproven_blocks: u64,
    pub truncated_blocks: u64,
    pub is_too_long: bool,
    /// Mean number of concurrently fetching processes; 0 without fetches.
    pub at_once: f64,
}

impl Touched {
    /// Reads a job's films; the first one determines the order. A relation whose file or (known) name changed is gone.
    /// Excludes blocks seen only in shared_buffers; if `buffers_are_gone`, counts them as `unproven_blocks`. Without a
    /// map, all relations count as existing and uncached.
    pub fn read<'a, S: ChunkReader + 'static>(
        films: &[&Film<S>],
        map: impl Into<Option<&'a Map>>,
        buffers_are_gone: bool,
    ) -> Result<Touched> {
        let map = map.into();
        let mut there = HashMap::new();
        for (at, one) in map.iter().flat_map(|map| map.relations.iter().enumerate()) {
            there.extend(one.forks.iter().map(|fork| ((&one.relation.path, fork.fork), (at, fork))));
        }
        let mut touched = Touched::default();
        // `None` if the relation is gone.
        let mut places: HashMap<(RelationPath, Fork), Option<u32>> = HashMap::new();
        let mut fetchers = Fetchers::default();
        let mut buffers = Vec::new();
        let (mut gone, mut beyond) = (Buffers::new(), Buffers::new());
        for (film_place, film) in films.iter().enumerate() {
            let mut of_film = Buffers::new();
            film.visit(|event| {
                if event.kind == EventKind::Buffers {
                    let blocks = event.blocks.start as u32..event.blocks.end as u32;
                    of_film.entry((event.relation.path.clone(), event.fork)).or_default().insert_range(blocks);
                    return;
                }
                if event.kind == EventKind::Again || film.header().is_brought(&event) {
                    return;
                }
                // Only the first film distinguishes processes.
                let fetcher = if film_place == 0 { fetchers.see(event.pid, event.time) } else { 0 };
                let key = (event.relation.path.clone(), event.fork);
                let place = *places.entry(key.clone()).or_insert_with_key(|(path, fork)| {
                    let Some(map) = map else {
                        let whole = ForkMap::empty(*fork, u64::from(u32::MAX));
                        return Some(touched.add_fork(usize::MAX, path.clone(), &whole));
                    };
                    let is_same =
                        |at: usize| is_same_name(&map.relations[at].relation.name, &event.relation.name, path);
                    match there.get(&(path, *fork)).filter(|(at, _)| is_same(*at)) {
                        Some((at, of_map)) => Some(touched.add_fork(*at, path.clone(), of_map)),
                        None => {
                            touched.gone.push(event.relation.name.to_string());
                            None
                        }
                    }
                });
                let (start, end) = (event.blocks.start as u32, event.blocks.end as u32);
                let there = place.map_or(0, |place| touched.forks[place as usize].blocks);
                let there = u32::try_from(there).unwrap_or(u32::MAX).clamp(start, end);
                if there < end {
                    let lost = if place.is_some() { &mut beyond } else { &mut gone };
                    lost.entry(key).or_default().insert_range(there..end);
                }
                if let Some(place) = place.filter(|_| start < there) {
                    touched.add_piece(place, start, there, event.kind);
                    touched.fetchers.resize(touched.pieces.len(), fetcher);
                }
            })?;
            // Without a record of shared_buffers, which always contain some blocks, they are unknown.
            if film.header().totals.buffers_blocks > 0 {
                buffers.push(of_film);
            }
        }
        if buffers_are_gone {
            touched.count_unproven(&buffers);
        }
        let count = |all: &Buffers| all.values().map(RoaringBitmap::len).sum();
        (touched.gone_blocks, touched.truncated_blocks) = (count(&gone), count(&beyond));
        touched.at_once = fetchers.at_once();
        touched.gone.sort();
        touched.gone.dedup();
        Ok(touched)
    }

    /// Counts uncached blocks of the job's relations that were in shared_buffers during all films. The job may need
    /// them: films miss requests that shared_buffers served. If a film neither recorded a block nor saw it in
    /// shared_buffers, the job does not need it. `buffers` has only films that recorded shared_buffers.
    fn count_unproven(&mut self, buffers: &[Buffers]) {
        for fork in &self.forks {
            let key = (fork.path.clone(), fork.fork);
            let of_films = buffers.iter().map(|film| film.get(&key).cloned().unwrap_or_default());
            let mut blocks = of_films.reduce(|all, of_film| all & of_film).unwrap_or_default();
            blocks.remove_range(u32::try_from(fork.blocks).unwrap_or(u32::MAX)..);
            blocks -= &fork.touched;
            blocks -= &fork.resident;
            self.unproven_blocks += blocks.len();
        }
    }

    fn add_fork(&mut self, relation: usize, path: RelationPath, fork: &ForkMap) -> u32 {
        let (touched, found) = (RoaringBitmap::new(), RoaringBitmap::new());
        // Blocks in shared_buffers cause no requests to the page cache, so they count as cached.
        let resident = &fork.os | fork.all_buffers();
        self.forks.push(TouchedFork { relation, path, fork: fork.fork, blocks: fork.blocks, touched, found, resident });
        self.forks.len() as u32 - 1
    }

    fn add_piece(&mut self, fork: u32, start: u32, end: u32, kind: EventKind) {
        let TouchedFork { touched, found, .. } = &mut self.forks[fork as usize];
        let before = count_in(touched, start, end - start);
        if before == end - start {
            return;
        }
        let mut new = RoaringBitmap::new();
        if before > 0 || kind == EventKind::Requested {
            new.insert_range(start..end);
            new -= &*touched;
        }
        if self.pieces.len() >= PIECES_MAX {
            self.is_too_long = true;
        } else if before == 0 {
            self.pieces.push(Piece { fork, start, blocks: end - start });
        } else {
            let piece =
                |run: RangeInclusive<u32>| Piece { fork, start: *run.start(), blocks: run.end() - run.start() + 1 };
            let mut runs = new.iter();
            self.pieces.extend(std::iter::from_fn(|| runs.next_range()).map(piece));
        }
        if kind == EventKind::Requested {
            *found |= new;
        }
        touched.insert_range(start..end);
    }

    /// Plans reads of the job's uncached blocks, sorted by file and position. With `among`, plans reads of the blocks
    /// in `among` instead, cached or not.
    pub fn plan_reads(&self, among: Option<&[RoaringBitmap]>, device: DeviceProfile, geometry: Geometry) -> Vec<Read> {
        let wanted = self.forks.iter().enumerate().map(|(at, fork)| {
            let (blocks, resident) = match among {
                Some(blocks) => (blocks[at].clone(), RoaringBitmap::new()),
                None => (fork.touched.clone(), fork.resident.clone()),
            };
            let (levels, precedence, places) = (vec![(1.0, blocks)], Precedence::ByHeat, Vec::new());
            WantedFork { precedence, is_index: false, blocks: fork.blocks, levels, resident, places }
        });
        let plan = Plan::new(wanted.collect(), geometry, device, Situation::Shared, None);
        let mut scratch = Scratch::default();
        let mut reads: Vec<Read> = (0..plan.steps()).flat_map(|step| plan.reads(step, &mut scratch).to_vec()).collect();
        reads.sort_unstable_by_key(|read| (read.fork, read.range.start));
        reads
    }

    pub fn places(&self) -> HashMap<(&RelationPath, Fork), usize> {
        self.forks.iter().enumerate().map(|(at, one)| ((&one.path, one.fork), at)).collect()
    }

    pub fn blocks(&self) -> u64 {
        self.forks.iter().map(|fork| fork.touched.len()).sum()
    }

    pub fn film_blocks(&self) -> u64 {
        self.blocks() + self.gone_blocks + self.truncated_blocks
    }

    /// Share of film blocks beyond the end of their file, 0 to 1. No job requests such blocks.
    pub fn truncated_share(&self) -> f64 {
        self.truncated_blocks as f64 / self.film_blocks().max(1) as f64
    }

    pub fn lost_share(&self) -> f64 {
        (self.gone_blocks + self.truncated_blocks) as f64 / self.film_blocks().max(1) as f64
    }

    pub fn missing_blocks(&self) -> u64 {
        self.forks.iter().map(|fork| fork.touched.len() - fork.touched.intersection_len(&fork.resident)).sum()
    }
}

#[derive(Default)]
struct Fetchers(HashMap<u32, (u8, Duration, Duration)>);

impl Fetchers {
    fn see(&mut self, pid: u32, time: Duration) -> u8 {
        let number = self.0.len() as u8 % FETCHERS_MAX;
        let (number, _, last) = self.0.entry(pid).or_insert((number, time, time));
        *last = time.max(*last);
        *number
    }

    fn at_once(&self) -> f64 {
        let length = |first: Duration, last: Duration| last.saturating_sub(first).as_secs_f64();
        let begin = self.0.values().map(|(_, first, _)| *first).min().unwrap_or_default();
        let end = self.0.values().map(|(_, _, last)| *last).max().unwrap_or_default();
        let sum: f64 = self.0.values().map(|(_, first, last)| length(*first, *last)).sum();
        if end > begin { sum / length(begin, end) } else { self.0.len().min(1) as f64 }
    }
}

pub fn count_in(set: &RoaringBitmap, start: u32, blocks: u32) -> u32 {
    match blocks {
        _ if set.is_empty() => 0,
        ..=ASKED_ONE_BY_ONE => (start..start + blocks).filter(|block| set.contains(*block)).count() as u32,
        _ => set.range_cardinality(start..start + blocks) as u32,
    }
}

/// If a relation's name is unknown, its path is stored as its name. Such a name counts as equal to every name.
fn is_same_name(now: &RelationName, then: &RelationName, path: &RelationPath) -> bool {
    now == then || [now, then].iter().any(|name| name.schema.is_empty() && name.name == path.to_string())
}

pub const MOMENTS: usize = 20;

/// Blocks of a relation that a job used.
#[derive(Clone, Debug, PartialEq, Serialize, crate::JsonSchema)]
pub struct RelationTouches {
    #[serde(flatten)]
    pub relation: FilmRelation,
    /// Distinct blocks fetched or requested, of all forks.
    pub blocks: u64,
    /// Distinct blocks in shared_buffers before the film.
    pub buffers_blocks: u64,
    /// Number of runs of adjacent blocks, each recorded at one moment.
    #[serde(rename = "pieces")]
    pub events: u64,
    /// Time of the relation's first use, from the start of the film. `None` if its blocks were only in shared_buffers.
    pub first_seconds: Option<f64>,
    /// Time of the relation's last use, from the start of the film.
    pub last_seconds: Option<f64>,
    #[serde(skip)]
    pub picture: Picture,
}

/// Progress of a job.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, crate::JsonSchema)]
pub struct Moment {
    /// Since the start of the film.
    pub seconds: f64,
    /// Distinct blocks used so far.
    pub blocks: u64,
    /// Distinct blocks used since the previous moment.
    pub recent_blocks: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, crate::JsonSchema)]
pub struct FilmSummary {
    /// Relations with the most blocks first.
    pub relations: Vec<RelationTouches>,
    /// Progress at equal intervals up to the film's end.
    pub moments: Vec<Moment>,
    /// Misses by memory size; `None` if requests were not recorded.
    pub curve: Option<MissRatioCurve>,
}

#[derive(Default)]
struct Sum {
    blocks: RoaringTreemap,
    buffers: RoaringTreemap,
    recent: RoaringTreemap,
    events: u64,
    first_seconds: Option<f64>,
    last_seconds: Option<f64>,
    picture: Picture,
}

fn insert(all: &mut RoaringTreemap, event: &Event) -> u64 {
    let fork = (event.fork as u64) << 32;
    all.insert_range(fork + event.blocks.start..fork + event.blocks.end)
}

impl FilmSummary {
    pub fn read<S: ChunkReader + 'static>(film: &Film<S>) -> Result<FilmSummary> {
        let header = film.header();
        let mut sums: BTreeMap<Arc<FilmRelation>, Sum> = BTreeMap::new();
        let moment = |at: usize| header.seconds * (at + 1) as f64 / MOMENTS as f64;
        let mut moments = Vec::with_capacity(MOMENTS);
        let (mut blocks, mut recent_blocks, mut pictures) = (0, 0, 0);
        let mut reuse = header.sampling.map(Reuse::new);
        film.visit(|event| {
            let seconds = event.time.as_secs_f64();
            while moments.len() + 1 < MOMENTS && seconds > moment(moments.len()) {
                moments.push(Moment { seconds: moment(moments.len()), blocks, recent_blocks });
                recent_blocks = 0;
                sums.values_mut().for_each(|sum| sum.recent.clear());
            }
            let sum = sums.entry(Arc::clone(&event.relation)).or_default();
            if event.kind == EventKind::Buffers {
                insert(&mut sum.buffers, &event);
                return;
            }
            if event.pid != header.recorder_pid {
                reuse.iter_mut().for_each(|reuse| reuse.add(&event.relation.path, event.fork, event.blocks));
                if event.fork == Fork::Main && (pictures < PICTURES_MAX || !sum.picture.cells.is_empty()) {
                    pictures += usize::from(sum.picture.cells.is_empty());
                    let part = seconds / header.seconds.max(f64::MIN_POSITIVE);
                    let column = ((part * COLUMNS as f64) as u64).min(COLUMNS - 1);
                    sum.picture.add(column, event.blocks.start, event.blocks.end);
                }
            }
            recent_blocks += insert(&mut sum.recent, &event);
            if event.kind != EventKind::Again {
                blocks += insert(&mut sum.blocks, &event);
                sum.events += 1;
                sum.first_seconds.get_or_insert(seconds);
                sum.last_seconds = Some(seconds);
            }
        })?;
        while moments.len() < MOMENTS {
            moments.push(Moment { seconds: moment(moments.len()), blocks, recent_blocks });
            recent_blocks = 0;
        }
        let finish = |(relation, sum): (_, Sum)| {
            let Sum { blocks, buffers, events, first_seconds, last_seconds, picture, .. } = sum;
            let (relation, blocks, buffers_blocks) = (Arc::unwrap_or_clone(relation), blocks.len(), buffers.len());
            RelationTouches { relation, blocks, buffers_blocks, events, first_seconds, last_seconds, picture }
        };
        let mut relations: Vec<RelationTouches> = sums.into_iter().map(finish).collect();
        relations.sort_by_key(|one| Reverse((one.blocks, one.buffers_blocks)));
        Ok(FilmSummary { relations, moments, curve: reuse.map(Reuse::finish) })
    }
}

/// Maximum number of blocks whose last request is remembered, 40 bytes each. Larger films get a smaller sample.
const FOLLOWED_MAX: usize = 1 << 17;

/// Number of repeated requests after which the sample is halved.
const REPEATED_MAX: u64 = 1 << 17;

/// Leading bits kept of a reuse distance (distinct blocks between two requests for a block). Rounding up adds at most
/// 3 %.
const LEADING_BITS: u32 = 6;

/// A memory size is sufficient if at most this share of requests misses although their block was requested before.
const SPARED: f64 = 0.01;

/// Requests that miss the page cache, by its size.
#[derive(Clone, Debug, Default, PartialEq, Serialize, crate::JsonSchema)]
pub struct MissRatioCurve {
    /// Estimated number of block requests.
    pub requests: u64,
    /// Estimated number of first requests for a block. They miss, however large the page cache is.
    pub first_requests: u64,
    /// The sample contains one block in 2^`sampling`.
    pub sampling: u32,
    /// By increasing memory.
    pub points: Vec<CurvePoint>,
}

/// Misses with a page cache of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, crate::JsonSchema)]
pub struct CurvePoint {
    /// Size of the page cache in blocks.
    pub blocks: u64,
    /// Requests that miss this cache, first requests included.
    pub missed: u64,
}

impl MissRatioCurve {
    /// Share of requests that miss with `blocks` of memory, 0 to 1; `None` without requests.
    pub fn miss_ratio(&self, blocks: u64) -> Option<f64> {
        let missed = match self.points.partition_point(|point| point.blocks <= blocks) {
            0 => self.requests,
            after => self.points[after - 1].missed,
        };
        (self.requests > 0).then(|| missed as f64 / self.requests as f64)
    }

    /// Smallest memory size, in blocks, with which only first requests miss; 0 if no block is requested again.
    pub fn most_blocks(&self) -> u64 {
        self.points.last().map_or(0, |point| point.blocks)
    }

    /// Smallest sufficient page cache, in blocks: at most 1 % of requests miss it although their block was requested
    /// before. 0 if at most 1 % of requests are repeated ones.
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

type Block = (u32, u32);

#[derive(Debug, Default)]
pub struct Reuse {
    sampled: Sampled,
    shift: u32,
    forks: HashMap<(RelationPath, Fork), u32>,
    /// Index of each block's last request, and the block's hash.
    last: HashMap<Block, (u32, u32)>,
    order: RoaringBitmap,
    next: u32,
    repeated: u64,
    first_requests: u64,
    /// By memory size in blocks: number of repeated requests that hit with this much memory, but not with less.
    needed: BTreeMap<u64, u64>,
}

impl Reuse {
    pub fn new(sampled: Sampled) -> Reuse {
        Reuse { sampled, shift: sampled.shift, ..Reuse::default() }
    }

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
        match self.last.insert(block, (self.next, hash)) {
            Some((at, _)) => {
                // The distance includes this block.
                let since = self.order.len() + 1 - self.order.rank(at);
                self.order.remove(at);
                self.repeated += 1;
                let unit_blocks = u64::from(self.sampled.unit_blocks);
                *self.needed.entry(round_up((since * unit_blocks) << self.shift)).or_default() += weight;
            }
            None => self.first_requests += weight,
        }
        self.order.insert(self.next);
        self.next += 1;
        if self.last.len() > FOLLOWED_MAX || self.repeated > REPEATED_MAX {
            (self.shift, self.repeated) = (self.shift + 1, 0);
            self.compact();
        } else if self.next as usize > 2 * FOLLOWED_MAX {
            self.compact();
        }
    }

    /// Drops blocks outside the sample and renumbers the rest, because ranks are computed faster with fewer numbers.
    fn compact(&mut self) {
        let limit = below(self.shift);
        self.last.retain(|_, (_, hash)| u64::from(*hash) < limit);
        self.last.values_mut().for_each(|(at, _)| *at = self.order.rank(*at) as u32);
        self.next = self.order.len() as u32 + 1;
        self.order = self.last.values().map(|(at, _)| *at).collect();
    }

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

fn round_up(blocks: u64) -> u64 {
    let spare = (u64::BITS - blocks.leading_zeros()).saturating_sub(LEADING_BITS);
    (blocks.div_ceil(1 << spare)) << spare
}

/// Columns (time) and maximum rows (position) of a relation's picture of accesses.
pub const COLUMNS: u64 = 120;
pub const ROWS: u64 = 32;

/// Maximum number of relations with a `Picture`, up to 150 kB each. Relations touched first get one.
const PICTURES_MAX: usize = 512;

#[derive(Clone, Debug, PartialEq)]
pub struct Picture {
    /// Blocks per row, a power of two.
    pub row_blocks: u64,
    /// Touched blocks by column and row, counting repetitions.
    pub cells: BTreeMap<(u64, u64), u64>,
}

impl Default for Picture {
    fn default() -> Picture {
        Picture { row_blocks: 1, cells: BTreeMap::new() }
    }
}

impl Picture {
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

    fn halve(&mut self) {
        self.row_blocks *= 2;
        for ((column, row), blocks) in std::mem::take(&mut self.cells) {
            *self.cells.entry((column, row / 2)).or_default() += blocks;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RelationMap;
    use crate::fixtures::{map_of, relation};
    use crate::trace::FilmHeader;
    use crate::trace::fixtures::{self, film_relation};

    fn there(number: u32, blocks: u64, cached: u32) -> RelationMap {
        relation(number, ForkMap { os: (0..cached).collect(), ..ForkMap::empty(Fork::Main, blocks) })
    }

    fn film(place: &tempfile::TempDir, name: &str, events: &[(u32, u64, u64, EventKind)]) -> Film<std::fs::File> {
        let event = |(number, first, end, kind): &(u32, u64, u64, EventKind)| {
            fixtures::event(0, &film_relation(*number), *first..*end, *kind)
        };
        fixtures::film(&place.path().join(name), &FilmHeader::for_tests(), events.iter().map(event))
    }

    #[test]
    fn what_shared_buffers_had_is_told_where_no_film_proves_that_it_is_not_needed() {
        use EventKind::{Buffers, Fetched};
        let place = tempfile::tempdir().unwrap();
        let events = [(1, 0, 60, Buffers), (2, 0, 9, Buffers), (1, 40, 70, Fetched), (1, 95, 99, Buffers)];
        let warm = film(&place, "warm", &events);
        let map = map_of(vec![there(1, 97, 10), there(2, 9, 0)]);
        let touched = Touched::read(&[&warm], &map, false).unwrap();
        assert_eq!((touched.unproven_blocks, touched.blocks()), (0, 30), "they may be there still");
        let touched = Touched::read(&[&warm], &map, true).unwrap();
        assert_eq!((touched.unproven_blocks, touched.blocks(), touched.missing_blocks()), (32, 30, 30), "not wanted");
        let helped = film(&place, "helped", &[(1, 30, 70, Fetched)]);
        let touched = Touched::read(&[&warm, &helped], &map, true).unwrap();
        assert_eq!((touched.unproven_blocks, touched.blocks()), (22, 40), "it does not know");
        assert_eq!(Touched::read(&[&helped], &map, true).unwrap().unproven_blocks, 0);
        let cold = film(&place, "cold", &[(3, 0, 1, Buffers), (1, 30, 70, Fetched)]);
        let touched = Touched::read(&[&cold, &warm], &map, true).unwrap();
        assert_eq!((touched.unproven_blocks, touched.blocks()), (0, 40));
    }

    #[test]
    fn few_blocks_are_counted_as_many_are() {
        let set: RoaringBitmap = (0..200_000).filter(|block| block % 3 == 0).collect();
        for blocks in [0, 1, 2, ASKED_ONE_BY_ONE, ASKED_ONE_BY_ONE + 1, 70_000] {
            let count = set.range_cardinality(65_530..65_530 + blocks);
            assert_eq!(u64::from(count_in(&set, 65_530, blocks)), count, "{blocks}");
        }
        assert_eq!(count_in(&RoaringBitmap::new(), 7, 100), 0);
    }

    #[test]
    fn a_block_in_shared_buffers_is_not_missing() {
        let place = tempfile::tempdir().unwrap();
        let film = film(&place, "film", &[(1, 0, 10, EventKind::Fetched)]);
        let mut one = there(1, 10, 2);
        one.forks[0].buffers[3] = (1..6).collect();
        let touched = Touched::read(&[&film], &map_of(vec![one]), false).unwrap();
        assert_eq!((touched.blocks(), touched.missing_blocks()), (10, 4));
    }

    #[test]
    fn a_film_is_held_against_what_is_there() {
        use EventKind::{Buffers, Fetched};
        let place = tempfile::tempdir().unwrap();
        let alone = film(&place, "alone", &[(1, 50, 60, Fetched), (2, 0, 4, Fetched), (1, 0, 5, Fetched)]);
        let newest = film(
            &place,
            "newest",
            &[
                (1, 0, 10, Fetched),
                (3, 0, 10, Fetched),
                (4, 0, 10, Fetched),
                (1, 70, 80, Buffers),
                (1, 95, 105, Fetched),
            ],
        );
        let mut renamed = there(4, 10, 0);
        renamed.relation.name.name = "another".into();
        let map = map_of(vec![there(1, 100, 52), there(2, 4, 0), renamed]);
        let touched = Touched::read(&[&alone, &newest], &map, true).unwrap();
        let pieces: Vec<(u32, u32, u32)> = touched.pieces.iter().map(|one| (one.fork, one.start, one.blocks)).collect();
        assert_eq!(pieces, [(0, 50, 10), (1, 0, 4), (0, 0, 5), (0, 5, 5), (0, 95, 5)], "each block once");
        assert_eq!(touched.gone, ["public.relation_3", "public.relation_4"]);
        assert_eq!((touched.fetchers.as_slice(), touched.at_once), ([0; 5].as_slice(), 1.0));
        assert_eq!((touched.truncated_blocks, touched.blocks(), touched.missing_blocks()), (5, 29, 17));
        assert_eq!((touched.gone_blocks, touched.truncated_share()), (20, 5.0 / 54.0));

        let mut unnamed = there(2, 4, 0);
        unnamed.relation.name.schema.clear();
        unnamed.relation.name.name = unnamed.relation.path.to_string();
        let touched = Touched::read(&[&alone], &map_of(vec![unnamed]), true).unwrap();
        assert_eq!((touched.blocks(), touched.gone.len()), (4, 1));
    }
}

#[cfg(test)]
mod reuse_tests {
    use super::*;

    const ALL: Sampled = Sampled { shift: 0, unit_blocks: 1 };

    fn path(relfilenumber: u32) -> RelationPath {
        RelationPath::base(5, relfilenumber)
    }

    fn curve(sampled: Sampled, blocks: impl Iterator<Item = u64>) -> MissRatioCurve {
        let mut reuse = Reuse::new(sampled);
        blocks.for_each(|block| reuse.add(&path(1), Fork::Main, BlockRange::new(block, block + 1)));
        reuse.finish()
    }

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

    #[test]
    fn rows_become_coarser_as_blocks_lie_farther_away() {
        let mut picture = Picture::default();
        picture.add(0, 0, 4);
        assert_eq!(picture.cells.len(), 4);
        picture.add(1, 60, 130);
        assert_eq!(picture.row_blocks, 8);
        assert_eq!(picture.cells.first_key_value(), Some((&(0, 0), &4)));
        assert_eq!(picture.cells.last_key_value(), Some((&(1, 16), &2)));
        assert_eq!(picture.cells.values().sum::<u64>(), 74);
    }
}
