//! Records a film: a thread that looks several times a second, and writes what it sees. And the source that every user may read: it looks at the
//! page cache again and again. Of every file the pages are counted (cachestat, which is quick); only where a count has changed the cached pages
//! are listed.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use roaring::RoaringBitmap;

use super::attend::Progress;
use super::error::Error;
use super::film::{Event, EventKind, FilmHeader, FilmRelation, FilmWriter, ProbeShare, Sampled};
use crate::{Map, RelationMap, TierState, read_resident_blocks};
use host::files::Draft;
use host::linux;
use host::linux::block_device::{DeviceCounters, Devices};
use host::linux::page_cache::PageCache;
use host::linux::read_monotonic;
use host::linux::threads::{Going, Over};
use host::units::{BlockRange, Bytes, Fork, PageRange};
use postgres::RelationPath;

/// What came, by file and fork.
pub type Came = BTreeMap<(RelationPath, Fork), RoaringBitmap>;

/// A film that was recorded: its file, which is to be placed, and what it says of itself.
#[derive(Debug)]
pub struct Recorded {
    pub draft: Draft,
    pub header: FilmHeader,
    /// Were server processes of its command seen?
    pub job_seen: JobSeen,
    /// What was taken for the command's without having been seen to be; it stands in the header too.
    pub guessed: Vec<String>,
}

/// A film that is being recorded, by a thread of its own. Dropping it ends that, and leaves nothing behind.
#[derive(Debug)]
pub struct Recording {
    going: Going,
    /// Hands back its writer, and what the source said at its end.
    thread: JoinHandle<Result<(FilmWriter, SourceEnd), Error>>,
    came: Arc<Mutex<Came>>,
    started: Instant,
    header: FilmHeader,
    devices: Devices,
    before: Option<DeviceCounters>,
    progress: Arc<Progress>,
}

impl Recording {
    /// Begins a film of what `source` sees. `map` is what was cached before; what of it was in shared_buffers comes first.
    /// `header` says all that is known by now. How far the job is goes by `progress` where somebody attends it.
    pub fn begin(
        mut writer: FilmWriter,
        source: Box<dyn Source>,
        map: &Map,
        header: FilmHeader,
        devices: Devices,
        progress: Arc<Progress>,
    ) -> Result<Recording, Error> {
        write_buffers(&mut writer, map)?;
        let begin = Going::begin();
        let (going, over) = begin.map_err(|source| Error::NothingSeen(format!("no pipe can be made: {source}")))?;
        let came = Arc::new(Mutex::new(Came::new()));
        let looking = Looking {
            writer,
            source,
            came: Arc::clone(&came),
            block_size: map.source.block_size.into(),
            job_bytes: Bytes(0),
            progress: Arc::clone(&progress),
            started: Instant::now(),
            begun: read_monotonic(),
            last: Duration::ZERO,
        };
        let header = FilmHeader { recorder: looking.source.describe(), ..header };
        let started = looking.started;
        let thread = thread::Builder::new().spawn(move || looking.run(&over));
        let thread = thread.map_err(|source| Error::NothingSeen(format!("no thread can be started: {source}")))?;
        let before = devices.read().ok().flatten();
        Ok(Recording { going, thread, came, started, header, devices, before, progress })
    }

    /// What came so far: whoever asks may look at it until it lets go.
    pub fn came(&self) -> Arc<Mutex<Came>> {
        Arc::clone(&self.came)
    }

    /// Takes the film's name from it, for its command failed: what that would have needed is not known, and no other is to go by it.
    pub fn without_name(mut self) -> Recording {
        if let Some(label) = self.header.label.take() {
            self.header.remarks.push(format!(
                "it is not called {label}, for its command failed: what that would have needed is not known"
            ));
        }
        self
    }

    /// Looks a last time, and ends the film.
    pub fn end(self) -> Result<Recorded, Error> {
        let seconds = self.started.elapsed().as_secs_f64();
        let after = self.devices.read().ok().flatten();
        drop(self.going);
        let (writer, end) = self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        let device = self.before.zip(after);
        let requested = self.progress.requested();
        let header = FilmHeader {
            requested_bytes: requested,
            workers: requested.map(|_| self.progress.workers_seen.load(Ordering::Relaxed) as u64),
            seconds,
            lost_events: end.lost_events,
            sampling: end.sampling,
            fetched_again: end.fetched_again,
            probe: end.cost,
            remarks: self.header.remarks.into_iter().chain(end.remarks).chain(end.guessed.iter().cloned()).collect(),
            device_reads: device.map(|(before, after)| after.reads.saturating_sub(before.reads)),
            device_bytes: device.map(|(before, after)| Bytes(after.read_bytes.0.saturating_sub(before.read_bytes.0))),
            ..self.header
        };
        let (draft, header) = writer.finish(&header)?;
        Ok(Recorded { draft, header, job_seen: end.job_seen, guessed: end.guessed })
    }
}

/// What was in shared_buffers before, at the beginning of the film.
fn write_buffers(writer: &mut FilmWriter, map: &Map) -> Result<(), Error> {
    if map.buffers != TierState::Measured {
        return Ok(());
    }
    for one in &map.relations {
        let relation = FilmRelation::of(&one.relation);
        for fork in &one.forks {
            for blocks in runs(&fork.all_buffers()) {
                writer.push(&Event {
                    time: Duration::ZERO,
                    relation: Arc::clone(&relation),
                    fork: fork.fork,
                    blocks,
                    kind: EventKind::Buffers,
                    pid: 0,
                    job_bytes: Bytes(0),
                })?;
            }
        }
    }
    Ok(())
}

/// What the thread works with.
struct Looking {
    writer: FilmWriter,
    source: Box<dyn Source>,
    came: Arc<Mutex<Came>>,
    block_size: u64,
    job_bytes: Bytes,
    progress: Arc<Progress>,
    started: Instant,
    /// The same moment by the monotonic clock.
    begun: Duration,
    /// When the last event was, since then.
    last: Duration,
}

impl Looking {
    /// Looks again and again until it is over, and once more.
    fn run(mut self, over: &Over) -> Result<(FilmWriter, SourceEnd), Error> {
        let mut took = Duration::ZERO;
        while self.source.wait(took, over) {
            let begun = Instant::now();
            self.look(|source, visit| source.look(visit))?;
            took = begun.elapsed();
        }
        let end = self.look(|source, visit| source.end(visit))?;
        Ok((self.writer, end))
    }

    fn look<T>(
        &mut self,
        look: impl FnOnce(&mut dyn Source, &mut dyn FnMut(Touch)) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let now = self.started.elapsed();
        let requested = self.progress.requested();
        let mut touches = Vec::new();
        let seen = look(&mut *self.source, &mut |touch| touches.push(touch))?;
        let mut came = self.came.lock().unwrap_or_else(PoisonError::into_inner);
        for Touch { relation, fork, blocks, kind, pid, at, job_bytes, is_of_film, came: has_come } in touches {
            if has_come {
                let key = (relation.path.clone(), fork);
                came.entry(key).or_default().insert_range(blocks.start as u32..blocks.end as u32);
            }
            if !is_of_film {
                continue;
            }
            // A preload is paced by what sessions ask files for: where that is known, a film has the same measure.
            let own_count = if pid == std::process::id() { 0 } else { blocks.blocks() * self.block_size };
            let read = requested.or(job_bytes).unwrap_or(self.job_bytes + Bytes(own_count));
            self.job_bytes = self.job_bytes.max(read);
            // What was told late, or by another processor, is not before what stands there already.
            let time = at.map_or(now, |at| at.saturating_sub(self.begun)).max(self.last);
            self.last = time;
            self.writer.push(&Event { time, relation, fork, blocks, kind, pid, job_bytes: self.job_bytes })?;
        }
        Ok(seen)
    }
}

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
    /// What its BPF programs cost; `None` where it has none.
    pub cost: Option<ProbeShare>,
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

#[derive(Debug)]
struct Segment {
    relation: usize,
    fork: Fork,
    number: u32,
    /// Pages of the file that were cached and evicted at the last look: where neither has changed, nothing has come.
    seen: Option<(u64, u64)>,
    /// Blocks that are cached, by their numbers in the fork.
    known: RoaringBitmap,
}

/// The page cache of a cluster's files, looked at again and again.
#[derive(Debug)]
pub struct Polling {
    cache: Arc<dyn PageCache>,
    directory: PathBuf,
    block_size: u64,
    segment_blocks: u64,
    relations: Vec<Arc<FilmRelation>>,
    segments: Vec<Segment>,
    own: Arc<Own>,
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
        let relations = map.relations.iter().map(|one| FilmRelation::of(&one.relation)).collect();
        Ok(Polling {
            cache,
            directory,
            block_size: map.source.block_size.into(),
            segment_blocks,
            relations,
            segments,
            own,
        })
    }

    /// What has come into a segment since the last look; it may have gone meanwhile.
    fn look_at(&mut self, at: usize) -> Result<RoaringBitmap, linux::Error> {
        let segment = &mut self.segments[at];
        let path = &self.relations[segment.relation].path;
        let file = self.cache.open(&path.segment_file(&self.directory, segment.fork, segment.number))?;
        let Some(file) = file else { return Ok(RoaringBitmap::new()) };
        let page_bytes = self.cache.page_bytes();
        let counts = file.read_counts(PageRange::new(0, file.size_bytes().div_ceil(page_bytes)))?;
        let seen = Some((counts.cached, counts.evicted));
        if seen == segment.seen {
            return Ok(RoaringBitmap::new());
        }
        let (first, blocks) = (u64::from(segment.number) * self.segment_blocks, file.size_bytes() / self.block_size);
        let now = read_resident_blocks(&*file, page_bytes, self.block_size, first..first + blocks)?;
        segment.seen = seen;
        let come = &now - &segment.known;
        segment.known = now;
        Ok(come)
    }
}

impl Source for Polling {
    fn wait(&mut self, took: Duration, over: &Over) -> bool {
        !over.wait(INTERVAL.max(took * INTERVAL_LOOKS))
    }

    fn look(&mut self, visit: &mut dyn FnMut(Touch)) -> Result<(), Error> {
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
            Segment { relation: at, fork: fork.fork, number: number as u32, seen: None, known }
        })
    });
    of_fork.collect()
}

/// Maximal runs of neighbouring blocks, in order.
pub fn runs(blocks: &RoaringBitmap) -> Vec<BlockRange> {
    let mut left = blocks.iter();
    let next = || left.next_range().map(|run| BlockRange::new((*run.start()).into(), u64::from(*run.end()) + 1));
    std::iter::from_fn(next).collect()
}

#[cfg(test)]
mod source_tests {
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
