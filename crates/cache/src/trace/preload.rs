//! Reads what a job needs while it runs, a few reads at a time, so that the job's own never wait for long. What does not fit into memory is
//! read window by window just ahead of the job; behind it what the film does not use again is dropped.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use parquet::file::reader::ChunkReader;
use roaring::RoaringBitmap;
use serde::Serialize;

use super::attend::Progress;
use super::error::Error;
use super::film::{Event, EventKind};
use super::film_file::Film;
use super::job::DEPTH;
use super::source::Own;
use super::touched::{Touched, TouchedFork, plan_reads};
use crate::warm::plan::{Geometry, Read};
use crate::warm::restore::Files;
use crate::warm::{DeviceProfile, Room};
use host::linux;
use host::linux::page_cache::{CachedFile, PageCache};
use host::linux::threads::on_threads;
use host::units::{BlockRange, Bytes, PageRange};

/// Reads after which it is asked whether there is still room.
const READS_PER_LOOK: usize = 64;

/// Less room than this is none.
const ROOM_MIN: Bytes = Bytes(16 << 20);

/// Why a preload ends that the job has overtaken.
pub const JOB_ENDED: &str = "the job had ended";

/// What a preload did.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Preloaded {
    /// Reads that were issued, and bytes of them that were not cached before.
    pub reads: u64,
    pub bytes: Bytes,
    pub seconds: f64,
    /// Bytes that were let go behind the job, for its film does not use them again.
    pub dropped_bytes: Bytes,
    /// Why it ended early; `None` when all was brought.
    pub stopped: Option<String>,
}

/// Brings blocks of a cluster's files into the page cache.
pub struct Bringer {
    pub page_cache: Arc<dyn PageCache>,
    pub directory: PathBuf,
    pub geometry: Geometry,
    pub touched: Touched,
    pub own: Arc<Own>,
    pub room: Box<dyn Room>,
    /// Set when the job has ended.
    pub stop: Arc<AtomicBool>,
}

impl std::fmt::Debug for Bringer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bringer").field("directory", &self.directory).finish_non_exhaustive()
    }
}

/// An open segment: which, and its file, if there is one.
type Segment = ((usize, u64), Option<Box<dyn CachedFile>>);

impl Bringer {
    /// Does these reads until all is there, the job has ended, or there is no room.
    pub fn bring_all(&self, wanted: &[Read]) -> Preloaded {
        let started = Instant::now();
        let (next, reads, bytes) = (AtomicUsize::new(0), AtomicU64::new(0), AtomicU64::new(0));
        let stopped: Mutex<Option<String>> = Mutex::default();
        let is_stopped = || stopped.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        let stop = |why: String| _ = stopped.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(why);
        on_threads(DEPTH, |_| {
            let mut segment: Segment = ((usize::MAX, 0), None);
            let mut buffer = Vec::new();
            while !is_stopped() {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(read) = wanted.get(at) else { break };
                if self.is_over() {
                    return stop(JOB_ENDED.to_owned());
                }
                if at.is_multiple_of(READS_PER_LOOK) && self.room.read_room().is_some_and(|room| room.bytes < ROOM_MIN)
                {
                    return stop("there was no memory left for it".to_owned());
                }
                match self.bring(*read, &mut segment, &mut buffer) {
                    Ok(Bytes(0)) => {}
                    Ok(brought) => {
                        reads.fetch_add(1, Ordering::Relaxed);
                        bytes.fetch_add(brought.0, Ordering::Relaxed);
                    }
                    Err(error) => return stop(error.to_string()),
                }
            }
        });
        Preloaded {
            reads: reads.into_inner(),
            bytes: Bytes(bytes.into_inner()),
            seconds: started.elapsed().as_secs_f64(),
            dropped_bytes: Bytes(0),
            stopped: stopped.into_inner().unwrap_or_else(PoisonError::into_inner),
        }
    }

    /// Has the job ended?
    pub fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Does one read, unless all of it is cached already, and tells what of it was not.
    fn bring(&self, read: Read, segment: &mut Segment, buffer: &mut Vec<u8>) -> Result<Bytes, linux::Error> {
        let TouchedFork { relation, path, fork, touched, .. } = &self.touched.forks[read.fork];
        let segment_blocks = u64::from(self.geometry.segment_blocks);
        let number = read.range.start / segment_blocks;
        if segment.0 != (read.fork, number) {
            let file = self.page_cache.open(&path.segment_file(&self.directory, *fork, number as u32))?;
            *segment = ((read.fork, number), file);
        }
        // Dropped or truncated meanwhile.
        let Some(file) = &segment.1 else { return Ok(Bytes(0)) };
        let first = number * segment_blocks;
        let range = BlockRange::new(read.range.start - first, read.range.end - first);
        let (block_size, page_bytes) = (u64::from(self.geometry.block_size), self.page_cache.page_bytes());
        let pages =
            PageRange::new(range.start * block_size / page_bytes, (range.end * block_size).div_ceil(page_bytes));
        let cached = file.read_counts(pages)?.cached;
        if cached >= pages.pages() {
            return Ok(Bytes(0));
        }
        self.own.add(*relation, *fork, read.range, touched);
        buffer.resize((range.blocks() * block_size) as usize, 0);
        file.apply_read(range.start * block_size, buffer)?;
        Ok(Bytes((pages.pages() - cached) * page_bytes))
    }
}

/// A stretch of a job.
#[derive(Clone, Debug, PartialEq)]
pub struct Window {
    /// What it touches, by file and position: where it is cached already nothing is read.
    pub reads: Vec<Read>,
    /// Blocks of these reads, in bytes.
    pub bytes: Bytes,
    /// What the job has asked files for when it is through.
    pub until: Bytes,
    /// Of each fork of [`Touched::forks`] the blocks that are touched in it and never again.
    pub last_touched: Vec<RoaringBitmap>,
}

/// Cuts a film into windows that touch no more than `most` each. What of it was not proven, or is not there any more, is left out.
pub fn cut_windows<S: ChunkReader + 'static>(
    film: &Film<S>,
    touched: &Touched,
    most: Bytes,
    device: DeviceProfile,
    geometry: Geometry,
) -> Result<Vec<Window>, Error> {
    let places = touched.places();
    let nothing = || vec![RoaringBitmap::new(); touched.forks.len()];
    let most_blocks = (most.0 / u64::from(geometry.block_size)).max(1);
    let (mut cuts, mut current, mut blocks, mut until) = (Vec::new(), nothing(), 0, Bytes(0));
    // Of some blocks alone no window can be made.
    let has_all_again = film.header().sampling.is_some_and(|sampled| sampled.shift == 0);
    film.visit(|event: Event| {
        let is_asked = match event.kind {
            EventKind::Buffers => false,
            EventKind::Again => has_all_again,
            EventKind::Requested | EventKind::Fetched => !film.header().is_brought(&event),
        };
        let Some(place) = places.get(&(&event.relation.path, event.fork)).filter(|_| is_asked) else { return };
        let end = event.blocks.end.min(touched.forks[*place].blocks);
        if event.blocks.start >= end {
            return;
        }
        if blocks >= most_blocks {
            cuts.push((std::mem::replace(&mut current, nothing()), until));
            blocks = 0;
        }
        until = event.job_bytes.max(until);
        blocks += current[*place].insert_range(event.blocks.start as u32..end as u32);
    })?;
    if blocks > 0 {
        cuts.push((current, until));
    }
    let mut later = nothing();
    let mut windows: Vec<Window> = Vec::with_capacity(cuts.len());
    for (blocks, until) in cuts.into_iter().rev() {
        let last_touched = blocks.iter().zip(&later).map(|(blocks, later)| blocks - later).collect();
        later.iter_mut().zip(&blocks).for_each(|(later, blocks)| *later |= blocks);
        let reads = plan_reads(touched.wanted_among(&blocks), device, geometry);
        let planned: u64 = reads.iter().map(|read| read.range.blocks()).sum();
        let bytes = Bytes(planned * u64::from(geometry.block_size));
        windows.push(Window { reads, bytes, until, last_touched });
    }
    windows.reverse();
    Ok(windows)
}

/// Seconds until a job ends that works `own_seconds` and finds each window loaded, the first before it begins: whichever takes longer,
/// the device or the job, and the loading of the first.
pub fn forecast_windows(windows: &[Window], device: &DeviceProfile, own_seconds: f64) -> f64 {
    let load = |window: &Window| device.seconds(window.reads.len() as u64, window.bytes);
    let first = windows.first().map_or(0.0, load);
    let rest: f64 = windows.iter().skip(1).map(load).sum();
    first + rest.max(own_seconds)
}

/// How often it is looked how far the job is.
const LOOK: Duration = Duration::from_millis(20);

/// A job that asks for nothing for so long may do so for hours.
const STUCK: Duration = Duration::from_secs(30);

/// A session is found within this, if the job has one here.
const FOUND_WITHIN: Duration = Duration::from_secs(10);

/// A job that fetches by itself more than this part of what it asks for does not go by its film, 0 to 1; judged from so many bytes on.
const FETCHED_SHARE_MAX: f64 = 0.5;
const JUDGED_FROM: Bytes = Bytes(64 << 20);

/// What is read ahead of a job.
#[derive(Debug)]
pub struct Windowed<'a> {
    pub bringer: &'a Bringer,
    pub windows: &'a [Window],
    pub progress: Arc<Progress>,
    /// What may be there ahead of the job.
    pub room: Bytes,
    /// Did the film's job have parallel workers? `None`: nobody counted.
    pub had_workers: Option<bool>,
}

/// How far it is.
#[derive(Default)]
struct State {
    done: Preloaded,
    /// Windows that are loaded and that the job is not through with, and their bytes.
    ahead: VecDeque<usize>,
    ahead_bytes: u64,
    /// What stayed of the window that was let go last, by fork.
    behind: Vec<(usize, RoaringBitmap)>,
}

impl Windowed<'_> {
    /// Goes on until all is read, the job has ended, or goes another way.
    pub fn run(&self) -> Preloaded {
        let started = Instant::now();
        let mut state = State::default();
        for (at, window) in self.windows.iter().enumerate() {
            if let Err(why) = self.wait_for_room(window, &mut state).and_then(|()| self.load(at, &mut state)) {
                state.done.stopped = Some(why);
                break;
            }
        }
        state.done.seconds = started.elapsed().as_secs_f64();
        state.done
    }

    fn load(&self, at: usize, state: &mut State) -> Result<(), String> {
        let window = &self.windows[at];
        // The job is through with it already.
        if self.position().is_some_and(|position| position >= window.until) {
            return Ok(());
        }
        let brought = self.bringer.bring_all(&window.reads);
        state.done.reads += brought.reads;
        state.done.bytes += brought.bytes;
        state.ahead.push_back(at);
        state.ahead_bytes += window.bytes.0;
        brought.stopped.map_or(Ok(()), Err)
    }

    fn position(&self) -> Option<Bytes> {
        self.progress.requested()
    }

    /// Waits until the job is through with so much that the window has room.
    fn wait_for_room(&self, window: &Window, state: &mut State) -> Result<(), String> {
        let (begun, mut moved, mut last) = (Instant::now(), Instant::now(), self.position());
        loop {
            self.let_go(state);
            self.check()?;
            if state.ahead.is_empty() || state.ahead_bytes + window.bytes.0 <= self.room.0 {
                return Ok(());
            }
            sleep(LOOK);
            let now = self.position();
            if now.is_none() && begun.elapsed() > FOUND_WITHIN {
                return Err("no session of the job was found on the server, so nobody knows how far it is".to_owned());
            }
            if now != last {
                (moved, last) = (Instant::now(), now);
            } else if now.is_some() && moved.elapsed() > STUCK {
                return Err(format!("the job has asked for nothing for {} s", STUCK.as_secs()));
            }
        }
    }

    /// Does the job go by its film?
    fn check(&self) -> Result<(), String> {
        if self.bringer.is_over() {
            return Err(JOB_ENDED.to_owned());
        }
        let requested = self.progress.requested_bytes.load(Ordering::Relaxed);
        let workers = self.progress.workers_seen.load(Ordering::Relaxed) > 0;
        let is_through_one = self.windows.first().is_some_and(|first| requested > first.until.0);
        match self.had_workers {
            Some(false) if workers => {
                return Err("the job runs in parallel, and its film is of a serial run".to_owned());
            }
            Some(true) if !workers && is_through_one => {
                return Err("the job runs without workers, and its film is of a parallel run".to_owned());
            }
            _ => {}
        }
        let fetched = self.progress.fetched_bytes.load(Ordering::Relaxed);
        if requested >= JUDGED_FROM.0 && fetched as f64 > requested as f64 * FETCHED_SHARE_MAX {
            let (fetched, requested) = (Bytes(fetched), Bytes(requested));
            return Err(format!(
                "the job had to fetch {fetched} of the {requested} that it asked for: it goes another way than its film"
            ));
        }
        Ok(())
    }

    /// Drops what the job is through with and does not need again. What was cached before stays.
    fn let_go(&self, state: &mut State) {
        let Some(position) = self.position() else { return };
        while let Some(at) = state.ahead.front().copied().filter(|at| position >= self.windows[*at].until) {
            state.ahead.pop_front();
            state.ahead_bytes -= self.windows[at].bytes.0;
            // What the job had written to, as by its hint bits, was not to be dropped before it was written, and can go by now. What stays even
            // then is pushed out sooner or later.
            for (fork, blocks) in std::mem::take(&mut state.behind) {
                self.drop_blocks(fork, &blocks, &mut state.done);
            }
            for (fork, blocks) in self.windows[at].last_touched.iter().enumerate() {
                let own = blocks - &self.bringer.touched.forks[fork].resident;
                let stayed = self.drop_blocks(fork, &own, &mut state.done);
                state.behind.extend((!stayed.is_empty()).then_some((fork, stayed)));
            }
        }
    }

    /// Drops blocks of a fork, and returns those of which something stayed.
    fn drop_blocks(&self, fork: usize, blocks: &RoaringBitmap, done: &mut Preloaded) -> RoaringBitmap {
        let Bringer { page_cache, directory, geometry, touched, .. } = self.bringer;
        let files = Files { cache: &**page_cache, directory, geometry: *geometry };
        let TouchedFork { path, fork, .. } = &touched.forks[fork];
        let dropped = files.drop_blocks(path, *fork, blocks, |_, run| Ok(vec![files.pages(run)]));
        done.dropped_bytes.0 += dropped.before_bytes.0.saturating_sub(dropped.after_bytes.0);
        dropped.stayed
    }
}

#[cfg(test)]
mod windows_tests {
    use super::*;
    use crate::fixtures::{map_of, relation};
    use crate::trace::FilmHeader;
    use crate::trace::fixtures::{self, film_relation};
    use crate::{ForkMap, RelationMap};
    use host::units::{BlockRange, Fork};

    const GEOMETRY: Geometry = Geometry { block_size: 8192, segment_blocks: 131_072 };

    fn there(number: u32, blocks: u64) -> RelationMap {
        relation(number, ForkMap::empty(Fork::Main, blocks))
    }

    #[test]
    fn a_film_is_cut_where_a_window_is_full_and_what_comes_again_is_kept_until_then() {
        let place = tempfile::tempdir().unwrap();
        let events = [(1, 0..8, 10), (2, 0..2, 20), (1, 50..60, 30), (1, 4..6, 40), (2, 90..110, 50)];
        let events = events.map(|(number, blocks, job_bytes)| Event {
            pid: 1,
            job_bytes: Bytes(job_bytes),
            ..fixtures::event(0, &film_relation(number), blocks, EventKind::Fetched)
        });
        let film = fixtures::film(&place.path().join("film"), &FilmHeader::for_tests(), events);
        let touched = Touched::read(&[&film], &map_of(vec![there(1, 100), there(2, 100)]), true).unwrap();
        let device = DeviceProfile::default();
        let windows = cut_windows(&film, &touched, Bytes(10 * 8192), device, GEOMETRY).unwrap();
        assert_eq!(windows.iter().map(|window| window.until.0).collect::<Vec<_>>(), [20, 30, 50]);
        let read = |fork, start, end| Read { fork, range: BlockRange::new(start, end) };
        assert_eq!(windows[0].reads, [read(0, 0, 8), read(1, 0, 2)]);
        assert_eq!(windows[0].bytes, Bytes(10 * 8192));
        let last = |window: usize, fork: usize| windows[window].last_touched[fork].iter().collect::<Vec<_>>();
        assert_eq!(last(0, 0), [0, 1, 2, 3, 6, 7], "4 and 5 come again in the last one");
        assert_eq!(last(2, 0), [4, 5]);
        assert_eq!(last(2, 1), (90..100).collect::<Vec<_>>(), "no more than the file has");
        let alone = forecast_windows(&windows, &device, 0.0);
        assert!((forecast_windows(&windows, &device, 5.0) - 5.0) < alone && forecast_windows(&[], &device, 5.0) == 5.0);
    }
}

#[cfg(test)]
mod windowed_tests {
    use super::*;
    use crate::trace::touched::Touched;
    use crate::warm::Room;
    use crate::warm::plan::{Geometry, Read};
    use host::linux::memory::LoadableMemory;
    use host::linux::page_cache::FakePageCache;
    use host::units::{BlockRange, Fork, PageRange};
    use postgres::RelationPath;
    use std::path::Path;
    use std::sync::atomic::AtomicBool;

    const BLOCK: u64 = 8192;
    const FILE: &str = "/data/base/5/1";

    struct Endless;

    impl Room for Endless {
        fn read_room(&self) -> Option<LoadableMemory> {
            None
        }

        fn idle_age(&self) -> Option<Duration> {
            None
        }
    }

    /// Ten windows of ten blocks each, of a file of which the first three blocks were cached before.
    struct Case {
        cache: Arc<FakePageCache>,
        bringer: Bringer,
        windows: Vec<Window>,
        progress: Arc<Progress>,
        stop: Arc<AtomicBool>,
    }

    impl Case {
        fn new() -> Case {
            let cache = Arc::new(FakePageCache::new());
            cache.insert(FILE, 100 * BLOCK, &[PageRange::new(0, 6)]);
            let path = RelationPath::Base { database_oid: 5, relfilenumber: 1 };
            let (touched, resident) = ((0..100).collect(), (0..3).collect());
            let fork = TouchedFork {
                relation: 0,
                path,
                fork: Fork::Main,
                blocks: 100,
                touched,
                found: RoaringBitmap::new(),
                resident,
            };
            let stop = Arc::new(AtomicBool::new(false));
            let bringer = Bringer {
                page_cache: Arc::clone(&cache) as _,
                directory: "/data".into(),
                geometry: Geometry { block_size: BLOCK as u32, segment_blocks: 131_072 },
                touched: Touched { forks: vec![fork], ..Touched::default() },
                own: Arc::default(),
                room: Box::new(Endless),
                stop: Arc::clone(&stop),
            };
            let window = |at: u64| Window {
                reads: vec![Read { fork: 0, range: BlockRange::new(at * 10, at * 10 + 10) }],
                bytes: Bytes(10 * BLOCK),
                until: Bytes((at + 1) * 1000),
                last_touched: vec![(at as u32 * 10..at as u32 * 10 + 10).collect::<RoaringBitmap>()],
            };
            Case { cache, bringer, windows: (0..10).map(window).collect(), progress: Arc::default(), stop }
        }

        /// The job is there, with so many workers, and has asked for so much.
        fn move_to(&self, requested: u64, workers: usize) {
            self.progress.sessions_seen.store(1, Ordering::Relaxed);
            self.progress.workers_seen.store(workers, Ordering::Relaxed);
            self.progress.requested_bytes.store(requested, Ordering::Relaxed);
        }

        fn run(&self, had_workers: Option<bool>) -> Preloaded {
            let (windows, progress) = (&*self.windows, Arc::clone(&self.progress));
            Windowed { bringer: &self.bringer, windows, progress, room: Bytes(30 * BLOCK), had_workers }.run()
        }

        fn resident(&self) -> Vec<PageRange> {
            self.cache.resident(Path::new(FILE))
        }
    }

    #[test]
    fn no_more_than_the_room_is_read_ahead_and_what_is_behind_goes() {
        let case = Case::new();
        case.move_to(0, 0);
        std::thread::scope(|scope| {
            let replay = scope.spawn(|| case.run(None));
            while case.resident() != [PageRange::new(0, 60)] {
                std::thread::yield_now();
            }
            // Two windows on, and two more come. What was cached before stays.
            case.move_to(2500, 0);
            while case.resident() != [PageRange::new(0, 6), PageRange::new(40, 100)] {
                std::thread::yield_now();
            }
            case.stop.store(true, Ordering::Relaxed);
            let done = replay.join().unwrap();
            assert_eq!(done.stopped.as_deref(), Some(JOB_ENDED));
            assert_eq!((done.bytes, done.dropped_bytes), (Bytes(47 * BLOCK), Bytes(17 * BLOCK)));
        });
    }

    #[test]
    fn what_the_job_wrote_to_goes_with_the_next_window() {
        let case = Case::new();
        let wait_for = |expected: PageRange| {
            while case.resident() != [PageRange::new(0, 6), expected] {
                std::thread::yield_now();
            }
        };
        case.move_to(0, 0);
        std::thread::scope(|scope| {
            let replay = scope.spawn(|| case.run(None));
            while case.resident() != [PageRange::new(0, 60)] {
                std::thread::yield_now();
            }
            // Of what was cached before, and of what came.
            case.cache.write(Path::new(FILE), PageRange::new(4, 20));
            case.move_to(1500, 0);
            while case.resident() != [PageRange::new(0, 80)] {
                std::thread::yield_now();
            }
            case.move_to(2500, 0);
            wait_for(PageRange::new(40, 100));
            case.stop.store(true, Ordering::Relaxed);
            assert_eq!(replay.join().unwrap().dropped_bytes, Bytes(17 * BLOCK));
        });
    }

    #[test]
    fn a_job_that_is_far_is_not_read_after() {
        let case = Case::new();
        case.move_to(9500, 0);
        let done = case.run(Some(false));
        assert_eq!((done.bytes, done.stopped), (Bytes(10 * BLOCK), None), "the last window alone");
    }

    #[test]
    fn a_job_that_goes_another_way_is_left() {
        let case = Case::new();
        case.move_to(10, 2);
        assert!(case.run(Some(false)).stopped.unwrap().contains("its film is of a serial run"));
        case.move_to(1500, 0);
        assert!(case.run(Some(true)).stopped.unwrap().contains("its film is of a parallel run"));
        let case = Case::new();
        case.move_to(100 << 20, 0);
        case.progress.fetched_bytes.store(80 << 20, Ordering::Relaxed);
        assert!(case.run(None).stopped.unwrap().contains("another way than its film"));
    }
}
