//! Records a film in a thread that polls its source several times a second. The unprivileged source counts each file's
//! cached pages (cachestat, fast), and lists them if a count changed.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use roaring::RoaringBitmap;

use super::attend::Progress;
use super::error::Error;
use super::film::{Event, EventKind, FilmHeader, FilmRelation, FilmWriter, Recorded};
use crate::warm::plan::Geometry;
use crate::{Map, RelationMap, TierState, read_resident_blocks};
use host::linux;
use host::linux::block_device::{DeviceCounters, Devices};
use host::linux::page_cache::PageCache;
use host::linux::read_monotonic;
use host::linux::threads::{Going, Over, lock};
use host::units::{BlockRange, Bytes, Fork, PageRange};
use postgres::RelationPath;

pub type Came = BTreeMap<(RelationPath, Fork), RoaringBitmap>;

/// Dropping the recording ends the thread and leaves no file.
#[derive(Debug)]
pub struct Recording {
    going: Going,
    thread: JoinHandle<Result<Looking, Error>>,
    /// Blocks fetched for the job that no other process requested.
    pub came: Arc<Mutex<Came>>,
    devices: Devices,
    before: Option<DeviceCounters>,
    is_nameless: bool,
}

impl Recording {
    /// First records which blocks are in shared_buffers according to `map`. `progress`: bytes that the job's sessions
    /// requested, if known.
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
        let (going, over) = begin.map_err(|source| Error::NothingSeen(format!("cannot create a pipe: {source}")))?;
        let came = Arc::new(Mutex::new(Came::new()));
        let header = FilmHeader { recorder: source.describe(), ..header };
        let account = Account { source, came: Arc::clone(&came), of_others: Came::new() };
        let (job_bytes, begun, last) = (Bytes(0), read_monotonic(), Duration::ZERO);
        let looking = Looking { writer, header, account, job_bytes, progress, begun, last };
        let thread = thread::Builder::new().spawn(move || looking.run(&over));
        let thread = thread.map_err(|source| Error::NothingSeen(format!("cannot start a thread: {source}")))?;
        let before = devices.read().ok().flatten();
        Ok(Recording { going, thread, came, devices, before, is_nameless: false })
    }

    /// Removes the film's label after a failed command: no later run may preload by an incomplete film.
    pub fn without_name(self) -> Recording {
        Recording { is_nameless: true, ..self }
    }

    /// The returned account continues to track requests of other processes.
    pub fn end(self) -> Result<(Recorded, Account), Error> {
        let ended = read_monotonic();
        let after = self.devices.read().ok().flatten();
        drop(self.going);
        let looking = self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        let Looking { writer, progress, begun, account, mut header, .. } = looking;
        if let Some(label) = header.label.take_if(|_| self.is_nameless) {
            let why = "because its command failed and the reads after the failure are missing";
            header.remarks.push(format!("the film is not stored as {label}, {why}"));
        }
        header.remarks.extend(header.guessed.iter().cloned());
        let device = self.before.zip(after);
        let requested = progress.requested();
        let header = FilmHeader {
            requested_bytes: requested,
            workers: requested.map(|_| progress.workers_seen.load(Ordering::Relaxed) as u64),
            seconds: ended.saturating_sub(begun).as_secs_f64(),
            device_reads: device.map(|(before, after)| after.reads.saturating_sub(before.reads)),
            device_bytes: device.map(|(before, after)| Bytes(after.read_bytes.0.saturating_sub(before.read_bytes.0))),
            ..header
        };
        Ok((writer.finish(header)?, account))
    }
}

pub struct Account {
    source: Box<dyn Source>,
    came: Arc<Mutex<Came>>,
    of_others: Came,
}

impl Account {
    fn note(&mut self, touch: &Touch) {
        let place = (touch.event.relation.path.clone(), touch.event.fork);
        let blocks = touch.event.blocks.start as u32..touch.event.blocks.end as u32;
        let mut came = lock(&self.came);
        match touch.claim {
            Claim::None => {}
            Claim::Job => {
                let came = came.entry(place.clone()).or_default();
                came.insert_range(blocks);
                self.of_others.get(&place).into_iter().for_each(|others| *came -= others);
            }
            Claim::Others => {
                came.get_mut(&place).into_iter().for_each(|came| _ = came.remove_range(blocks.clone()));
                self.of_others.entry(place).or_default().insert_range(blocks);
            }
        }
    }

    pub fn came(&mut self) -> Came {
        let came = lock(&self.came).clone();
        self.own_of(came)
    }

    /// Removes from `blocks` those that another process requested; all if in doubt.
    pub fn own_of(&mut self, mut blocks: Came) -> Came {
        let looked = self.source.look();
        let Some(touches) = looked.ok().filter(|_| !self.source.misses_requests()) else { return Came::new() };
        touches.iter().filter(|touch| touch.claim == Claim::Others).for_each(|touch| self.note(touch));
        blocks.retain(|place, blocks| {
            self.of_others.get(place).into_iter().for_each(|others| *blocks -= others);
            !blocks.is_empty()
        });
        blocks
    }

    pub fn remark(&self) -> Option<String> {
        self.source
            .doubt()
            .map(|why| format!("pages loaded for the job may stay cached, because other processes may use them: {why}"))
    }
}

host::debug_by!(Account: of_others);

fn write_buffers(writer: &mut FilmWriter, map: &Map) -> Result<(), Error> {
    if map.buffers != TierState::Measured {
        return Ok(());
    }
    let (time, kind, pid, job_bytes) = (Duration::ZERO, EventKind::Buffers, 0, Bytes(0));
    for one in &map.relations {
        // The writer knows a relation's texts by this pointer.
        let of = FilmRelation::of(&one.relation);
        for fork in &one.forks {
            for blocks in runs(&fork.all_buffers()) {
                let relation = Arc::clone(&of);
                writer.push(&Event { time, relation, fork: fork.fork, blocks, kind, pid, job_bytes })?;
            }
        }
    }
    Ok(())
}

struct Looking {
    writer: FilmWriter,
    header: FilmHeader,
    account: Account,
    job_bytes: Bytes,
    progress: Arc<Progress>,
    /// Start by the monotonic clock, and time of the last event since the start.
    begun: Duration,
    last: Duration,
}

impl Looking {
    fn run(mut self, over: &Over) -> Result<Looking, Error> {
        let mut took = Duration::ZERO;
        while self.account.source.wait(took, over) {
            let begun = Instant::now();
            self.look(|source| source.look())?;
            took = begun.elapsed();
        }
        let mut header = std::mem::take(&mut self.header);
        self.look(|source| source.end(&mut header))?;
        Ok(Looking { header, ..self })
    }

    fn look(&mut self, look: impl FnOnce(&mut dyn Source) -> Result<Vec<Touch>, Error>) -> Result<(), Error> {
        let requested = self.progress.requested();
        let touches = look(&mut *self.account.source)?;
        let misses_requests = self.account.source.misses_requests();
        if misses_requests {
            lock(&self.account.came).clear();
        }
        for touch in touches {
            if !misses_requests {
                self.account.note(&touch);
            }
            let Touch { event, is_of_film: true, .. } = touch else { continue };
            // `job_bytes` paces a later preload. It is the sessions' requested bytes or, if unknown, the event's count.
            self.job_bytes = self.job_bytes.max(requested.unwrap_or(event.job_bytes));
            // A late event, or one of another processor, must not precede earlier rows.
            self.last = event.time.saturating_sub(self.begun).max(self.last);
            self.writer.push(&Event { time: self.last, job_bytes: self.job_bytes, ..event })?;
        }
        Ok(())
    }
}

/// Adjacent blocks that a process requested or fetched since the last poll.
#[derive(Clone, Debug, PartialEq)]
pub struct Touch {
    /// Its time is by the monotonic clock.
    pub event: Event,
    /// `false` for unrequested fetches and for unneeded blocks that pgthaw reads to merge two reads into one.
    pub is_of_film: bool,
    pub claim: Claim,
}

/// For whom blocks were loaded, which decides whether they stay cached after the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    None,
    Job,
    /// Others requested the blocks, or may have.
    Others,
}

impl Touch {
    pub fn goes_on_with(&self, next: &Touch) -> bool {
        let same = |one: &Touch| {
            let Event { fork, kind, pid, time, .. } = one.event;
            (fork, kind, pid, time, one.is_of_film, one.claim)
        };
        let (own, next_event) = (&self.event, &next.event);
        let follows = own.blocks.end == next_event.blocks.start && Arc::ptr_eq(&own.relation, &next_event.relation);
        follows && same(self) == same(next)
    }
}

pub trait Source: Send {
    /// Waits for the next poll; the last one took `took`. Returns `false` once the job is over.
    fn wait(&mut self, took: Duration, over: &Over) -> bool;

    fn look(&mut self) -> Result<Vec<Touch>, Error>;

    fn misses_requests(&self) -> bool;

    /// Why the users of some fetched blocks are unknown.
    fn doubt(&self) -> Option<String>;

    fn describe(&self) -> String;

    fn end(&mut self, header: &mut FilmHeader) -> Result<Vec<Touch>, Error>;
}

const INTERVAL: Duration = Duration::from_millis(100);

/// Minimum interval between polls, as a multiple of a poll's duration, so that polls take at most a twentieth of a
/// processor.
const INTERVAL_LOOKS: u32 = 20;

/// Blocks that pgthaw reads, by the relation's position in the map.
#[derive(Debug, Default)]
pub struct Own(Mutex<HashMap<(usize, Fork), Brought>>);

/// Blocks that pgthaw read: those `wanted` by the job, and those between, read to merge two reads into one.
#[derive(Clone, Debug, Default)]
pub struct Brought {
    pub wanted: RoaringBitmap,
    pub read_over: RoaringBitmap,
}

impl Own {
    pub fn add(&self, relation: usize, fork: Fork, blocks: BlockRange, touched: &RoaringBitmap) {
        let mut all = RoaringBitmap::new();
        all.insert_range(blocks.start as u32..blocks.end as u32);
        let mut own = lock(&self.0);
        let own = own.entry((relation, fork)).or_default();
        own.read_over |= &all - touched;
        own.wanted |= all & touched;
    }

    pub fn among(&self, relation: usize, fork: Fork, blocks: &RoaringBitmap) -> Brought {
        let own = lock(&self.0);
        let among = |own: &Brought| Brought { wanted: &own.wanted & blocks, read_over: &own.read_over & blocks };
        own.get(&(relation, fork)).map(among).unwrap_or_default()
    }
}

#[derive(Debug)]
struct Segment {
    relation: usize,
    fork: Fork,
    number: u32,
    /// Numbers of cached and evicted pages. If unchanged, nothing was fetched.
    seen: Option<(u64, u64)>,
    /// Cached blocks, numbered in the fork.
    known: RoaringBitmap,
}

#[derive(Debug)]
pub struct Polling {
    cache: Arc<dyn PageCache>,
    directory: PathBuf,
    geometry: Geometry,
    relations: Vec<Arc<FilmRelation>>,
    segments: Vec<Segment>,
    own: Arc<Own>,
    /// Bytes fetched by other processes.
    fetched: Bytes,
}

impl Polling {
    /// `map`: blocks cached before the recording; `own`: blocks that pgthaw reads.
    ///
    /// # Errors
    /// If the page cache's contents or the data directory are unknown.
    pub fn new(cache: Arc<dyn PageCache>, map: &Map, own: Arc<Own>) -> Result<Polling, Error> {
        let directory = match (&map.os, &map.source.data_directory) {
            (TierState::Unknown { reason }, _) => return Err(Error::NothingSeen(reason.clone())),
            (TierState::Measured, None) => return Err(Error::NothingSeen("the data directory is unknown".into())),
            (TierState::Measured, Some(directory)) => directory.clone(),
        };
        let segment_blocks = u64::from(map.source.segment_blocks);
        let segments = map.relations.iter().enumerate();
        let segments = segments.flat_map(|(at, one)| segments_of(at, one, segment_blocks)).collect();
        let relations = map.relations.iter().map(|one| FilmRelation::of(&one.relation)).collect();
        let geometry = Geometry::of(&map.source);
        Ok(Polling { cache, directory, geometry, relations, segments, own, fetched: Bytes(0) })
    }

    fn look_at(&mut self, at: usize) -> linux::Result<RoaringBitmap> {
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
        let Geometry { block_size, segment_blocks } = self.geometry;
        let first = u64::from(segment.number) * u64::from(segment_blocks);
        let blocks = first..first + file.size_bytes() / u64::from(block_size);
        let now = read_resident_blocks(&*file, page_bytes, block_size.into(), blocks)?;
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

    fn look(&mut self) -> Result<Vec<Touch>, Error> {
        let (time, mut touches) = (read_monotonic(), Vec::new());
        for at in 0..self.segments.len() {
            // An unreadable file must not stop the others.
            let Ok(come) = self.look_at(at) else { continue };
            if come.is_empty() {
                continue;
            }
            let Segment { relation, fork, .. } = self.segments[at];
            let own = self.own.among(relation, fork, &come);
            let (rest, pid) = (&(&come - &own.wanted) - &own.read_over, std::process::id());
            for (blocks, pid, is_of_film) in [(rest, 0, true), (own.wanted, pid, true), (own.read_over, pid, false)] {
                for blocks in runs(&blocks) {
                    self.fetched += self.geometry.bytes(if pid == 0 { blocks.blocks() } else { 0 });
                    let (relation, job_bytes) = (Arc::clone(&self.relations[relation]), self.fetched);
                    let event = Event { time, relation, fork, blocks, kind: EventKind::Fetched, pid, job_bytes };
                    touches.push(Touch { event, is_of_film, claim: Claim::Job });
                }
            }
        }
        Ok(touches)
    }

    fn misses_requests(&self) -> bool {
        true
    }

    fn doubt(&self) -> Option<String> {
        Some("polling the page cache does not show which process requested a page".to_owned())
    }

    fn describe(&self) -> String {
        "by polling the page cache several times a second: blocks that any process loaded, in the order in which the polls found them; blocks cached before the recording are not visible"
            .to_owned()
    }

    fn end(&mut self, _header: &mut FilmHeader) -> Result<Vec<Touch>, Error> {
        self.look()
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
        let seen = |Touch { event, .. }: Touch| (event.blocks.start, event.blocks.end, event.pid);
        polling.look().unwrap().into_iter().map(seen).collect()
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
        cache.open(Path::new(file)).unwrap().unwrap().apply_drop(PageRange::new(0, 12)).unwrap();
        assert_eq!(looked(&mut polling), []);
        bring(1, 1);
        assert_eq!(looked(&mut polling), [(1, 2, 0)]);
    }

    #[test]
    fn who_may_not_see_the_cache_is_told_why() {
        let mut map = map_of(Vec::new());
        map.os = TierState::Unknown { reason: "not the owner".into() };
        let polling = Polling::new(Arc::new(FakePageCache::new()), &map, Arc::default());
        let refused = polling.map(drop).unwrap_err();
        assert!(refused.to_string().contains("not the owner"), "{refused}");
    }

    #[test]
    fn runs_are_maximal() {
        let blocks: RoaringBitmap = [1, 2, 3, 7, 9, 10].into_iter().collect();
        let found: Vec<(u64, u64)> = runs(&blocks).into_iter().map(|run| (run.start, run.end)).collect();
        assert_eq!(found, [(1, 4), (7, 8), (9, 11)]);
    }
}
