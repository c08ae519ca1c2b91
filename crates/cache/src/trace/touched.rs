//! What a film says that a job will touch, held against what is there and cached now.

use std::collections::HashMap;
use std::time::Duration;

use parquet::file::reader::ChunkReader;
use roaring::RoaringBitmap;

use super::error::Error;
use super::film::EventKind;
use super::film_file::Film;
use crate::warm::DeviceProfile;
use crate::warm::plan::{Geometry, Plan, Precedence, Read, Scratch, Situation, WantedFork};
use crate::{ForkMap, Map};
use host::units::Fork;
use postgres::{RelationName, RelationPath};

/// Pieces of a film whose order is kept, 13 bytes each: the job of a longer one takes hours.
const PIECES_MAX: usize = 4 << 20;

/// Of as many blocks or fewer it is quicker to ask for each whether it is in a set.
const ASKED_ONE_BY_ONE: u32 = 16;

/// What was in shared_buffers when a film was recorded.
type Buffers = HashMap<(RelationPath, Fork), RoaringBitmap>;

/// So many processes of a job are told apart.
const FETCHERS_MAX: u8 = 64;

/// Neighbouring blocks that the job touched for the first time together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Index in [`Touched::forks`].
    pub fork: u32,
    pub start: u32,
    pub blocks: u32,
}

/// One fork that a film has something of, and that is still there.
#[derive(Clone, Debug, PartialEq)]
pub struct TouchedFork {
    /// The relation's index in the map, and its file.
    pub relation: usize,
    pub path: RelationPath,
    pub fork: Fork,
    /// Blocks that the fork has now.
    pub blocks: u64,
    pub touched: RoaringBitmap,
    /// Those of them that the job found in memory when the film was recorded.
    pub found: RoaringBitmap,
    /// Blocks that are cached now.
    pub resident: RoaringBitmap,
}

/// What a job will touch, in the order of its film.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Touched {
    pub forks: Vec<TouchedFork>,
    pub pieces: Vec<Piece>,
    /// Which of the job's processes fetched each piece, counted from 0.
    pub fetchers: Vec<u8>,
    /// Relations of the film whose files are not there any more, by name: dropped or rewritten since.
    pub gone: Vec<String>,
    /// Blocks of the film that were theirs.
    pub gone_blocks: u64,
    /// Blocks that the job may need and no film proves, which are left out: see [`Touched::count_unproven`].
    pub unproven_blocks: u64,
    /// Blocks of the film that are beyond the end of their file now.
    pub truncated_blocks: u64,
    /// There were more pieces than are kept in order.
    pub is_too_long: bool,
    /// Processes of the job that fetched at once, in the mean; 0 where nobody fetched.
    pub at_once: f64,
}

impl Touched {
    /// Reads films of a job, the one whose order counts first. A relation is the same when its file and its name are, if both
    /// are known. What was in shared_buffers alone is not proven, and left out: it may be there still, and is counted where
    /// `buffers_are_gone`.
    pub fn read<S: ChunkReader + 'static>(
        films: &[&Film<S>],
        map: &Map,
        buffers_are_gone: bool,
    ) -> Result<Touched, Error> {
        Touched::read_against(films, Some(map), buffers_are_gone)
    }

    /// Reads a film as it was recorded: all of it is there, and nothing is cached.
    pub fn recorded<S: ChunkReader + 'static>(film: &Film<S>) -> Result<Touched, Error> {
        Touched::read_against(&[film], None, false)
    }

    fn read_against<S: ChunkReader + 'static>(
        films: &[&Film<S>],
        map: Option<&Map>,
        buffers_are_gone: bool,
    ) -> Result<Touched, Error> {
        let there = map.map(there).unwrap_or_default();
        let mut touched = Touched::default();
        // What a relation of the film became; one that is gone is `None`.
        let mut places: HashMap<(RelationPath, Fork), Option<u32>> = HashMap::new();
        let mut fetchers = Fetchers::default();
        let mut buffers = Vec::new();
        // What of the films is not there any more: of relations that are gone, and beyond the end of others.
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
                // What only a later film has comes at some time or other.
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
                let blocks = event.blocks.start as u32..event.blocks.end as u32;
                let Some(place) = place else {
                    gone.entry(key).or_default().insert_range(blocks);
                    return;
                };
                let end = event.blocks.end.min(touched.forks[place as usize].blocks);
                if event.blocks.end > end {
                    let start = event.blocks.start.max(end) as u32;
                    beyond.entry(key).or_default().insert_range(start..blocks.end);
                }
                if event.blocks.start < end {
                    touched.add_piece(place, event.blocks.start as u32, end as u32, event.kind);
                    touched.fetchers.resize(touched.pieces.len(), fetcher);
                }
            })?;
            if film.header().totals.knows_buffers() {
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

    /// Counts what was in shared_buffers whenever a film of the job was recorded, as far as it is of the relations that the job is known to
    /// ask for, and is not cached now: the films lack what the job found there. Whether that is any of it is not known, for others' blocks
    /// were there too. A film that was recorded while it was not there proves that it is not needed; films that do not know what was there
    /// are not among these.
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
        let (touched, found, resident) = (RoaringBitmap::new(), RoaringBitmap::new(), fork.os.clone());
        self.forks.push(TouchedFork { relation, path, fork: fork.fork, blocks: fork.blocks, touched, found, resident });
        self.forks.len() as u32 - 1
    }

    /// Adds those of the blocks that were not touched before.
    fn add_piece(&mut self, fork: u32, start: u32, end: u32, kind: EventKind) {
        let TouchedFork { touched, found, .. } = &mut self.forks[fork as usize];
        let before = count_in(touched, start, end - start);
        if before == end - start {
            return;
        }
        if kind == EventKind::Requested {
            let mut new = RoaringBitmap::new();
            new.insert_range(start..end);
            *found |= new - &*touched;
        }
        if self.pieces.len() == PIECES_MAX {
            self.is_too_long = true;
        } else if before == 0 {
            self.pieces.push(Piece { fork, start, blocks: end - start });
        } else {
            let mut run: Option<Piece> = None;
            for block in (start..end).filter(|block| !touched.contains(*block)) {
                match &mut run {
                    Some(piece) if piece.start + piece.blocks == block => piece.blocks += 1,
                    _ => self.pieces.extend(run.replace(Piece { fork, start: block, blocks: 1 })),
                }
            }
            self.pieces.extend(run);
        }
        touched.insert_range(start..end);
    }

    /// What to plan reads for: every touched block is as good as another.
    pub fn wanted(&self) -> Vec<WantedFork> {
        self.forks.iter().map(|one| wanted(one, one.touched.clone(), one.resident.clone())).collect()
    }

    /// The same of these blocks of each fork alone, whatever is cached.
    pub fn wanted_among(&self, blocks: &[RoaringBitmap]) -> Vec<WantedFork> {
        let forks = self.forks.iter().zip(blocks);
        forks.map(|(one, blocks)| wanted(one, blocks.clone(), RoaringBitmap::new())).collect()
    }

    /// The place in [`Touched::forks`] of each file of them.
    pub fn places(&self) -> HashMap<(&RelationPath, Fork), usize> {
        self.forks.iter().enumerate().map(|(at, one)| ((&one.path, one.fork), at)).collect()
    }

    /// Distinct blocks.
    pub fn blocks(&self) -> u64 {
        self.forks.iter().map(|fork| fork.touched.len()).sum()
    }

    /// Distinct blocks of the film, those that are not there any more among them.
    pub fn film_blocks(&self) -> u64 {
        self.blocks() + self.gone_blocks + self.truncated_blocks
    }

    /// The part of the film that is beyond the end of its files now, 0 to 1: no job asks for it any more.
    pub fn truncated_share(&self) -> f64 {
        self.truncated_blocks as f64 / self.film_blocks().max(1) as f64
    }

    /// The part of the film that is not there any more, 0 to 1.
    pub fn lost_share(&self) -> f64 {
        (self.gone_blocks + self.truncated_blocks) as f64 / self.film_blocks().max(1) as f64
    }

    /// Those of them that are not cached.
    pub fn missing_blocks(&self) -> u64 {
        self.forks.iter().map(|fork| fork.touched.len() - fork.touched.intersection_len(&fork.resident)).sum()
    }
}

/// The processes of a job: which each is, and when it fetched first and last.
#[derive(Default)]
struct Fetchers(HashMap<u32, (u8, Duration, Duration)>);

impl Fetchers {
    /// Which one this is. Of very many some are taken for one.
    fn see(&mut self, pid: u32, time: Duration) -> u8 {
        let number = self.0.len() as u8 % FETCHERS_MAX;
        let (number, _, last) = self.0.entry(pid).or_insert((number, time, time));
        *last = time.max(*last);
        *number
    }

    /// How many there were in the mean, from the first fetch to the last.
    fn at_once(&self) -> f64 {
        let length = |first: Duration, last: Duration| last.saturating_sub(first).as_secs_f64();
        let begin = self.0.values().map(|(_, first, _)| *first).min().unwrap_or_default();
        let end = self.0.values().map(|(_, _, last)| *last).max().unwrap_or_default();
        let sum: f64 = self.0.values().map(|(_, first, last)| length(*first, *last)).sum();
        if end > begin { sum / length(begin, end) } else { self.0.len().min(1) as f64 }
    }
}

/// Blocks of a piece that are in a set. To count a range a set is counted from its beginning: of a few blocks each is asked for.
pub fn count_in(set: &RoaringBitmap, start: u32, blocks: u32) -> u32 {
    match blocks {
        _ if set.is_empty() => 0,
        ..=ASKED_ONE_BY_ONE => (start..start + blocks).filter(|block| set.contains(*block)).count() as u32,
        _ => set.range_cardinality(start..start + blocks) as u32,
    }
}

/// The reads that bring what is missing of these forks, by file and position. The job reads beside them.
pub fn plan_reads(wanted: Vec<WantedFork>, device: DeviceProfile, geometry: Geometry) -> Vec<Read> {
    let plan = Plan::new(wanted, geometry, device, Situation::Shared, None);
    let mut scratch = Scratch::default();
    let mut reads: Vec<Read> = (0..plan.steps()).flat_map(|step| plan.reads(step, &mut scratch).to_vec()).collect();
    reads.sort_unstable_by_key(|read| (read.fork, read.range.start));
    reads
}

fn wanted(fork: &TouchedFork, blocks: RoaringBitmap, resident: RoaringBitmap) -> WantedFork {
    WantedFork {
        precedence: Precedence::ByHeat,
        is_index: false,
        blocks: fork.blocks,
        levels: vec![(1.0, blocks)],
        resident,
        places: Vec::new(),
    }
}

/// Are the names that a relation has now and had in a film the same? Where a catalog was not asked its path stands for the name.
fn is_same_name(now: &RelationName, then: &RelationName, path: &RelationPath) -> bool {
    now == then || [now, then].iter().any(|name| name.schema.is_empty() && name.name == path.to_string())
}

/// Where each fork of a map is.
fn there(map: &Map) -> HashMap<(&RelationPath, Fork), (usize, &ForkMap)> {
    let relations = map.relations.iter().enumerate();
    let forks =
        relations.flat_map(|(at, one)| one.forks.iter().map(move |fork| ((&one.relation.path, fork.fork), (at, fork))));
    forks.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RelationMap;
    use crate::fixtures::{map_of, relation};
    use crate::trace::FilmHeader;
    use crate::trace::fixtures::{self, film_relation};

    /// A relation of so many blocks, the first of which are cached.
    fn there(number: u32, blocks: u64, cached: u32) -> RelationMap {
        relation(number, ForkMap { os: (0..cached).collect(), ..ForkMap::empty(Fork::Main, blocks) })
    }

    /// A film of these relations' blocks.
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
        // Of 2 the job is not known to need anything; the first 10 are cached, and the file is shorter now.
        let map = map_of(vec![there(1, 97, 10), there(2, 9, 0)]);
        let touched = Touched::read(&[&warm], &map, false).unwrap();
        assert_eq!((touched.unproven_blocks, touched.blocks()), (0, 30), "they may be there still");
        let touched = Touched::read(&[&warm], &map, true).unwrap();
        assert_eq!((touched.unproven_blocks, touched.blocks(), touched.missing_blocks()), (32, 30, 30), "not wanted");
        // As a film of `run`, which does not look.
        let helped = film(&place, "helped", &[(1, 30, 70, Fetched)]);
        let touched = Touched::read(&[&warm, &helped], &map, true).unwrap();
        assert_eq!((touched.unproven_blocks, touched.blocks()), (22, 40), "it does not know");
        assert_eq!(Touched::read(&[&helped], &map, true).unwrap().unproven_blocks, 0);
        // Recorded when they were not there.
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

        // Of a database that was not asked for its names.
        let mut unnamed = there(2, 4, 0);
        unnamed.relation.name.schema.clear();
        unnamed.relation.name.name = unnamed.relation.path.to_string();
        let touched = Touched::read(&[&alone], &map_of(vec![unnamed]), true).unwrap();
        assert_eq!((touched.blocks(), touched.gone.len()), (4, 1));
    }
}
