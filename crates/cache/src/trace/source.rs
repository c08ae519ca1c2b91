//! Where events come from, and the source that every user may read: it looks at the page cache again and again. Of every file the pages
//! are counted (cachestat, which is quick); only where a count has changed mincore tells which pages those are.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use roaring::RoaringBitmap;

use super::error::Error;
use super::film::{EventKind, FilmRelation, Sampled};
use crate::{Map, RelationMap, TierState};
use host::linux;
use host::linux::open_files::read_limit;
use host::linux::page_cache::{CachedFile, PageCache};
use host::linux::ready::Over;
use host::units::{BlockRange, Bytes, Fork, PageRange};

/// Neighbouring blocks that were touched since the last look.
#[derive(Clone, Debug, PartialEq)]
pub struct Touch {
    pub relation: Arc<FilmRelation>,
    pub fork: Fork,
    pub blocks: BlockRange,
    pub kind: EventKind,
    /// 0 where unknown.
    pub pid: u32,
    /// By the monotonic clock; `None`: at some time since the last look.
    pub at: Option<Duration>,
    /// What the job has read by then, this included; `None` where the source does not count.
    pub job_bytes: Option<Bytes>,
    /// It is part of the film, unlike gaps that pgthaw reads over, and what came without a request.
    pub is_of_film: bool,
    pub came: bool,
}

impl Touch {
    /// Is `next` of the same kind and moment, with the blocks that follow?
    pub fn goes_on_with(&self, next: &Touch) -> bool {
        let same = |one: &Touch| (one.fork, one.kind, one.pid, one.at, one.is_of_film, one.came);
        self.blocks.end == next.blocks.start && Arc::ptr_eq(&self.relation, &next.relation) && same(self) == same(next)
    }
}

/// Were server processes of the film's command seen?
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum JobSeen {
    /// The source cannot distinguish processes, or the film is of no command.
    #[default]
    Unknown,
    Yes,
    /// No, and no process read anything.
    No,
    /// No, and the film has all reads of the cluster.
    Everybody,
}

/// What a source says of itself when it ends.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SourceEnd {
    pub lost_events: u64,
    /// Blocks of which every request was seen; `None` where requests are not seen.
    pub sampling: Option<Sampled>,
    /// What came for the job though it had come before; `None` where that is not seen.
    pub fetched_again: Option<Bytes>,
    /// Runs of its BPF programs, and their nanoseconds, by the kernel's own count.
    pub cost: Option<(u64, u64)>,
    pub job_seen: JobSeen,
    /// Processes that it assumed to be the job's, and why.
    pub guessed: Vec<String>,
    pub remarks: Vec<String>,
}

pub trait Source: Send {
    /// Waits until the next look; the last one `took` so long. `false` when it is `over`.
    fn wait(&mut self, took: Duration, over: &Over) -> bool;

    /// Passes what was touched since the last look to `visit`.
    fn look(&mut self, visit: &mut dyn FnMut(Touch)) -> Result<(), Error>;

    /// How it sees and what it cannot see, for people.
    fn describe(&self) -> String;

    fn end(&mut self, visit: &mut dyn FnMut(Touch)) -> Result<SourceEnd, Error>;
}

/// Time from look to look at least ...
const INTERVAL: Duration = Duration::from_millis(100);

/// ... and as a multiple of what a look takes: a twentieth of a processor at most.
const INTERVAL_LOOKS: u32 = 20;

/// Files that stay open between looks, at most half of those that may be open; the others are opened for each. Fewer than the usual limit
/// on open files, 1024.
const OPEN_FILES_MAX: u64 = 512;

/// Pages that are counted together, a multiple of the largest block.
const WINDOW_BYTES: u64 = 32 << 20;

/// Looks after which files are opened anew, to see how long they are.
const LOOKS_OF_A_FILE: u32 = 20;

/// What pgthaw itself brings while it looks, by relation of the map and fork.
#[derive(Debug, Default)]
pub struct Own(Mutex<HashMap<(usize, Fork), Brought>>);

/// Blocks that pgthaw brings for the job, and those that it reads over on its way.
#[derive(Clone, Debug, Default)]
struct Brought {
    wanted: RoaringBitmap,
    read_over: RoaringBitmap,
}

impl Own {
    /// Notes blocks that pgthaw is about to read, for those of them that the job has `touched`.
    pub fn add(&self, relation: usize, fork: Fork, blocks: BlockRange, touched: &RoaringBitmap) {
        let mut all = RoaringBitmap::new();
        all.insert_range(blocks.start as u32..blocks.end as u32);
        let mut own = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let own = own.entry((relation, fork)).or_default();
        own.read_over |= &all - touched;
        own.wanted |= all & touched;
    }

    /// Those of `blocks` that pgthaw brought for the job.
    pub fn wanted_among(&self, relation: usize, fork: Fork, blocks: &RoaringBitmap) -> RoaringBitmap {
        self.among(relation, fork, blocks).wanted
    }

    /// Those of `blocks` that pgthaw brought.
    fn among(&self, relation: usize, fork: Fork, blocks: &RoaringBitmap) -> Brought {
        let own = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let among = |own: &Brought| Brought { wanted: &own.wanted & blocks, read_over: &own.read_over & blocks };
        own.get(&(relation, fork)).map(among).unwrap_or_default()
    }
}

/// Counters of a stretch of a file at the last look: where neither has changed, nothing has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Seen {
    cached: u64,
    evicted: u64,
}

struct Segment {
    relation: usize,
    fork: Fork,
    number: u32,
    file: Option<Box<dyn CachedFile>>,
    seen: Seen,
    windows: Vec<Seen>,
    /// Blocks that are cached, by their numbers in the fork.
    known: RoaringBitmap,
}

/// The page cache of a cluster's files, looked at again and again.
pub struct Polling {
    cache: Arc<dyn PageCache>,
    directory: PathBuf,
    block_size: u64,
    segment_blocks: u64,
    relations: Vec<Arc<FilmRelation>>,
    segments: Vec<Segment>,
    own: Arc<Own>,
    looks: u32,
    most_open: usize,
}

impl std::fmt::Debug for Polling {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Polling").field("directory", &self.directory).finish_non_exhaustive()
    }
}

impl Polling {
    /// Begins with what `map` says to be cached. What is in `own` is told as pgthaw's.
    ///
    /// # Errors
    /// When the map does not know what is cached.
    pub fn new(cache: Arc<dyn PageCache>, map: &Map, own: Arc<Own>) -> Result<Polling, Error> {
        let directory = match (&map.os, &map.source.data_directory) {
            (TierState::Unknown { reason }, _) => return Err(Error::NothingSeen(reason.clone())),
            (TierState::Measured, None) => return Err(Error::NothingSeen("the data directory is not known".into())),
            (TierState::Measured, Some(directory)) => directory.clone(),
        };
        let segment_blocks = u64::from(map.source.segment_blocks);
        let segments = map.relations.iter().enumerate();
        let segments = segments.flat_map(|(at, one)| segments_of(at, one, segment_blocks)).collect();
        let film_relation = |one: &RelationMap| {
            Arc::new(FilmRelation { name: one.relation.name.clone(), path: one.relation.path.clone() })
        };
        Ok(Polling {
            cache,
            directory,
            block_size: map.source.block_size.into(),
            segment_blocks,
            relations: map.relations.iter().map(film_relation).collect(),
            segments,
            own,
            looks: 0,
            most_open: (read_limit() / 2).min(OPEN_FILES_MAX) as usize,
        })
    }

    fn open(&self, at: usize) -> Result<Option<Box<dyn CachedFile>>, linux::Error> {
        let Segment { relation, fork, number, .. } = self.segments[at];
        self.cache.open(&self.relations[relation].path.segment_file(&self.directory, fork, number))
    }

    /// What has come into a segment since the last look; it may have gone meanwhile.
    fn look_at(&mut self, at: usize) -> Result<RoaringBitmap, linux::Error> {
        let kept = self.segments[at].file.take();
        let file = match kept {
            Some(file) => file,
            None => match self.open(at)? {
                Some(file) => file,
                None => return Ok(RoaringBitmap::new()),
            },
        };
        let reading = Reading {
            file: &*file,
            page_bytes: self.cache.page_bytes(),
            block_size: self.block_size,
            first_block: u64::from(self.segments[at].number) * self.segment_blocks,
        };
        let come = reading.look(&mut self.segments[at]);
        if at < self.most_open {
            self.segments[at].file = Some(file);
        }
        come
    }
}

impl Source for Polling {
    fn wait(&mut self, took: Duration, over: &Over) -> bool {
        !over.wait(INTERVAL.max(took * INTERVAL_LOOKS))
    }

    fn look(&mut self, visit: &mut dyn FnMut(Touch)) -> Result<(), Error> {
        self.looks += 1;
        if self.looks.is_multiple_of(LOOKS_OF_A_FILE) {
            self.segments.iter_mut().for_each(|segment| segment.file = None);
        }
        for at in 0..self.segments.len() {
            // A file that cannot be looked at now, as one that is being dropped, is no reason to lose the others.
            let Ok(come) = self.look_at(at) else { continue };
            if come.is_empty() {
                continue;
            }
            let Segment { relation, fork, .. } = self.segments[at];
            let own = self.own.among(relation, fork, &come);
            let (rest, pid) = (&(&come - &own.wanted) - &own.read_over, std::process::id());
            for (blocks, pid, is_read_over) in [(rest, 0, false), (own.wanted, pid, false), (own.read_over, pid, true)]
            {
                for blocks in runs(&blocks) {
                    let relation = Arc::clone(&self.relations[relation]);
                    visit(Touch {
                        relation,
                        fork,
                        blocks,
                        kind: EventKind::Fetched,
                        pid,
                        at: None,
                        job_bytes: None,
                        is_of_film: !is_read_over,
                        came: true,
                    });
                }
            }
        }
        Ok(())
    }

    fn describe(&self) -> String {
        "by looking at the page cache several times a second: which blocks came, whoever fetched them, in the order of the looks; \
         what was cached before is not seen"
            .to_owned()
    }

    fn end(&mut self, visit: &mut dyn FnMut(Touch)) -> Result<SourceEnd, Error> {
        self.look(visit)?;
        Ok(SourceEnd::default())
    }
}

fn segments_of(at: usize, relation: &RelationMap, segment_blocks: u64) -> Vec<Segment> {
    let of_fork = relation.forks.iter().flat_map(|fork| {
        (0..fork.blocks.div_ceil(segment_blocks)).map(move |number| {
            let start = number * segment_blocks;
            let mut known = fork.os.clone();
            known.remove_range(..start as u32);
            known.remove_range(u32::try_from(start + segment_blocks).unwrap_or(u32::MAX)..);
            let (seen, windows) = (Seen { cached: u64::MAX, evicted: 0 }, Vec::new());
            Segment { relation: at, fork: fork.fork, number: number as u32, file: None, seen, windows, known }
        })
    });
    of_fork.collect()
}

/// One look at one segment's file.
struct Reading<'a> {
    file: &'a dyn CachedFile,
    page_bytes: u64,
    block_size: u64,
    first_block: u64,
}

impl Reading<'_> {
    fn count(&self, pages: PageRange) -> Result<Seen, linux::Error> {
        let counts = self.file.read_counts(pages)?;
        Ok(Seen { cached: counts.cached, evicted: counts.evicted })
    }

    fn look(&self, segment: &mut Segment) -> Result<RoaringBitmap, linux::Error> {
        let pages = self.file.size_bytes().div_ceil(self.page_bytes);
        let seen = self.count(PageRange::new(0, pages))?;
        if seen == segment.seen {
            return Ok(RoaringBitmap::new());
        }
        let window_pages = WINDOW_BYTES / self.page_bytes;
        let unseen = Seen { cached: u64::MAX, evicted: 0 };
        segment.windows.resize(pages.div_ceil(window_pages) as usize, unseen);
        let mut come = RoaringBitmap::new();
        for (at, last) in segment.windows.iter_mut().enumerate() {
            let start = at as u64 * window_pages;
            let window = PageRange::new(start, pages.min(start + window_pages));
            let seen = self.count(window)?;
            if seen == *last {
                continue;
            }
            let now = self.read_blocks(window, seen.cached)?;
            come |= &now - &segment.known;
            let blocks = self.whole_blocks(window);
            segment.known.remove_range(blocks.start as u32..blocks.end as u32);
            segment.known |= now;
            *last = seen;
        }
        segment.seen = seen;
        Ok(come)
    }

    /// The blocks of a window that are cached, when so many of its pages are.
    fn read_blocks(&self, window: PageRange, cached: u64) -> Result<RoaringBitmap, linux::Error> {
        let runs = match cached {
            0 => Vec::new(),
            all if all >= window.pages() => vec![window],
            _ => self.file.read_resident(window)?,
        };
        let mut blocks = RoaringBitmap::new();
        for run in runs.into_iter().map(|run| self.whole_blocks(run)).filter(|run| !run.is_empty()) {
            blocks.insert_range(run.start as u32..run.end as u32);
        }
        Ok(blocks)
    }

    /// The blocks of which every page is among these, by their numbers in the fork.
    fn whole_blocks(&self, pages: PageRange) -> BlockRange {
        let blocks = self.file.size_bytes() / self.block_size;
        let start = (pages.start * self.page_bytes).div_ceil(self.block_size);
        let end = (pages.end * self.page_bytes / self.block_size).min(blocks);
        BlockRange::new(self.first_block + start, self.first_block + end.max(start))
    }
}

/// Maximal runs of neighbouring blocks, in order.
pub fn runs(blocks: &RoaringBitmap) -> Vec<BlockRange> {
    let mut left = blocks.iter();
    let next = || left.next_range().map(|run| BlockRange::new((*run.start()).into(), u64::from(*run.end()) + 1));
    std::iter::from_fn(next).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ForkMap;
    use crate::fixtures::{map_of, relation};
    use host::linux::page_cache::FakePageCache;
    use std::path::Path;

    const BLOCK: u64 = 8192;

    fn looked(polling: &mut Polling) -> Vec<(u64, u64, u32)> {
        let mut seen = Vec::new();
        polling.look(&mut |touch| seen.push((touch.blocks.start, touch.blocks.end, touch.pid))).unwrap();
        seen
    }

    #[test]
    fn only_what_comes_is_told_and_who_brought_it() {
        let cache = Arc::new(FakePageCache::new());
        let file = "/data/base/5/1";
        cache.insert(file, 10_000 * BLOCK, &[PageRange::new(0, 4)]);
        let bring = |first: u64, blocks: u64| {
            let file = cache.open(Path::new(file)).unwrap().unwrap();
            file.apply_read(first * BLOCK, &mut vec![0; (blocks * BLOCK) as usize]).unwrap();
        };
        let mut fork = ForkMap::empty(Fork::Main, 10_000);
        fork.os.insert_range(0..2);
        let mut map = map_of(vec![relation(1, fork)]);
        map.source.data_directory = Some("/data".into());
        let own = Arc::new(Own::default());
        let mut polling = Polling::new(Arc::clone(&cache) as _, &map, Arc::clone(&own)).unwrap();
        assert_eq!(looked(&mut polling), []);
        bring(5, 2);
        bring(8500, 1);
        own.add(0, Fork::Main, BlockRange::new(6, 100), &[6].into_iter().collect());
        assert_eq!(looked(&mut polling), [(5, 6, 0), (8500, 8501, 0), (6, 7, std::process::id())]);
        let lists = cache.calls().lists;
        assert_eq!(looked(&mut polling), []);
        assert_eq!(cache.calls().lists, lists, "what has not changed is only counted");
        // What went and came again is touched again.
        cache.open(Path::new(file)).unwrap().unwrap().apply_drop(PageRange::new(0, 12)).unwrap();
        assert_eq!(looked(&mut polling), []);
        bring(1, 1);
        assert_eq!(looked(&mut polling), [(1, 2, 0)]);
    }

    #[test]
    fn who_may_not_see_the_cache_is_told_why() {
        let mut map = map_of(Vec::new());
        map.os = TierState::Unknown { reason: "not the owner".into() };
        let refused = Polling::new(Arc::new(FakePageCache::new()), &map, Arc::default()).map(drop).unwrap_err();
        assert!(refused.to_string().contains("not the owner"), "{refused}");
    }

    #[test]
    fn runs_are_maximal() {
        let blocks: RoaringBitmap = [1, 2, 3, 7, 9, 10].into_iter().collect();
        let found: Vec<(u64, u64)> = runs(&blocks).into_iter().map(|run| (run.start, run.end)).collect();
        assert_eq!(found, [(1, 4), (7, 8), (9, 11)]);
    }
}
