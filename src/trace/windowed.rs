//! Reads a film just ahead of its job, window by window, and lets go behind it what is not used again.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::sleep;
use std::time::{Duration, Instant};

use roaring::RoaringBitmap;

use super::attend::Progress;
use super::preload::{Bringer, JOB_ENDED, Preloaded};
use super::touched::TouchedFork;
use super::windows::Window;
use crate::units::Bytes;
use crate::warm::restore::Files;

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
mod tests {
    use std::path::Path;
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::linux::memory::LoadableMemory;
    use crate::linux::page_cache::FakePageCache;
    use crate::postgres::RelationPath;
    use crate::trace::touched::Touched;
    use crate::units::{BlockRange, Fork, PageRange};
    use crate::warm::Room;
    use crate::warm::plan::{Geometry, Read};

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
