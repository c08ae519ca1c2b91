//! Looks at both tiers beside a warmer of an idle server, on a thread of its own.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use sqlx::postgres::PgConnection;
use tokio::runtime::Handle;

use super::wanted::Wanted;
use super::watch::{NEAR_GOAL, Watch};
use crate::lab::Error;
use crate::linux::clock;
use crate::linux::page_cache::PageCache;
use crate::observe;
use crate::study::{LoadSample, RESIDENT_SHARE, Seen, Strategy};
use crate::units::Bytes;

/// Looking takes at most a fourth of a processor, and as often as that allows: between these bounds.
const REST_PER_LOOK: u32 = 3;
const SHORTEST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

/// What a warmer left to the kernel (pgfincore's reads end after its command) may still come within this.
const AFTERMATH: Duration = Duration::from_secs(3);

/// Ready to look.
pub struct Looker {
    wanted: Arc<Wanted>,
    watch: Watch,
    goal_pages: u64,
    strategy: Strategy,
    /// To look at the buffers through; `None` of a warmer that leaves them alone.
    connection: Option<PgConnection>,
    start: Duration,
    seen: Seen,
    come: Arc<Mutex<Come>>,
}

/// What has come so far, in seconds since the start.
#[derive(Clone, Copy, Debug, Default)]
struct Come {
    is_resident: bool,
    are_buffers_back: bool,
    /// When more was seen than before, and how much that was of both tiers.
    last_gain: f64,
    most: (Bytes, Option<Bytes>),
}

/// A looker at work. Dropping it stops it before its next look.
#[derive(Debug)]
pub struct Probe {
    thread: JoinHandle<Result<Seen, Error>>,
    strategy: Strategy,
    start: Duration,
    come: Arc<Mutex<Come>>,
    stop: Sender<()>,
}

impl Looker {
    /// Opens the files. Through `connection`, which is not to the database whose files are counted, the buffers of a warmer are
    /// looked at that brings them back: once already, for the first look reads the catalogs that the later ones need.
    pub async fn open(
        wanted: &Arc<Wanted>,
        cache: &dyn PageCache,
        strategy: Strategy,
        mut connection: PgConnection,
    ) -> Result<Looker, Error> {
        wanted.former.look(&mut connection).await?;
        Ok(Looker {
            watch: Watch::open(&wanted.files, cache)?,
            goal_pages: (wanted.pages() as f64 * RESIDENT_SHARE).ceil() as u64,
            wanted: Arc::clone(wanted),
            strategy,
            connection: strategy.fills_buffers().then_some(connection),
            start: Duration::ZERO,
            seen: Seen::default(),
            come: Arc::default(),
        })
    }

    /// Looks from the monotonic instant `start` on.
    pub fn start(mut self, start: Duration) -> Result<Probe, Error> {
        self.start = start;
        let (strategy, come, runtime) = (self.strategy, Arc::clone(&self.come), Handle::current());
        let (stop, stopped) = channel();
        let work = move || self.look_until(&stopped, &runtime);
        let thread = std::thread::Builder::new().spawn(work).map_err(observe::Error::Thread)?;
        Ok(Probe { thread, strategy, start, come, stop })
    }

    fn look_until(mut self, stopped: &Receiver<()>, runtime: &Handle) -> Result<Seen, Error> {
        let mut pause = self.start.saturating_sub(clock::read_monotonic());
        while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
            let began = clock::read_monotonic();
            if !self.has_seen_all() {
                self.look(runtime)?;
            }
            pause = ((clock::read_monotonic() - began) * REST_PER_LOOK).clamp(SHORTEST_PAUSE, LONGEST_PAUSE);
        }
        self.seen.resident_bytes = Bytes(self.watch.recount()? * self.wanted.page_bytes);
        Ok(self.seen)
    }

    fn has_seen_all(&self) -> bool {
        let are_buffers_back = self.connection.is_none() || self.seen.buffers_after_seconds.is_some();
        self.seen.resident_after_seconds.is_some() && are_buffers_back
    }

    /// Looks at both tiers. What is seen is dated to the end of the look: rather late than early.
    fn look(&mut self, runtime: &Handle) -> Result<(), Error> {
        let looked = self.watch.look(self.goal_pages)?;
        let seconds = self.elapsed();
        if looked.is_exact && looked.pages >= self.goal_pages {
            self.seen.resident_after_seconds.get_or_insert(seconds);
        }
        // A backend that looks all the time is traffic that a restore makes way for.
        let is_near = looked.pages as f64 >= NEAR_GOAL * self.goal_pages as f64;
        let former = &self.wanted.former;
        let buffers = match &mut self.connection {
            Some(connection) if is_near => Some(runtime.block_on(former.look(connection))?),
            _ => None,
        };
        if buffers.is_some_and(|buffers| former.is_back(buffers)) {
            let now = self.elapsed();
            self.seen.buffers_after_seconds.get_or_insert(now);
        }
        let bytes = |blocks: u64| Bytes(blocks * self.wanted.block_bytes);
        let sample = LoadSample {
            seconds,
            resident_bytes: Bytes(looked.pages * self.wanted.page_bytes),
            is_exact: looked.is_exact,
            buffers_bytes: buffers.map(|buffers| bytes(buffers.blocks)),
            hot_bytes: buffers.map(|buffers| bytes(buffers.hot_blocks)),
        };
        self.come.lock().unwrap_or_else(PoisonError::into_inner).add(&sample, &self.seen);
        self.seen.looks.push(sample);
        Ok(())
    }

    fn elapsed(&self) -> f64 {
        clock::read_monotonic().saturating_sub(self.start).as_secs_f64()
    }
}

impl Come {
    fn add(&mut self, sample: &LoadSample, seen: &Seen) {
        self.is_resident = seen.resident_after_seconds.is_some();
        self.are_buffers_back = seen.buffers_after_seconds.is_some();
        let most = (self.most.0.max(sample.resident_bytes), self.most.1.max(sample.buffers_bytes));
        if most != self.most {
            (self.most, self.last_gain) = (most, sample.seconds);
        }
    }
}

impl Probe {
    /// Has all come that can come? `ended_at` is when the warmer's command ended, which may have left reads to the kernel.
    pub fn is_over(&self, ended_at: Option<Duration>) -> bool {
        let come = *self.come.lock().unwrap_or_else(PoisonError::into_inner);
        let is_there = come.is_resident || !self.strategy.fills_cache();
        let is_back = come.are_buffers_back || !self.strategy.fills_buffers();
        let last_gain = self.start + Duration::from_secs_f64(come.last_gain);
        let is_past = |at: Duration| clock::read_monotonic() > at.max(last_gain) + AFTERMATH;
        self.thread.is_finished() || ended_at.is_some_and(|at| (is_there && is_back) || is_past(at))
    }

    /// Ends it, and says what it saw. What came may have gone: all of it is looked at once more.
    pub fn finish(self) -> Result<Seen, Error> {
        let Probe { thread, stop, .. } = self;
        drop(stop);
        // A panic in the thread is a defect, not a state to go on from.
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

#[cfg(test)]
mod tests {
    use super::super::wanted::WantedFile;
    use super::*;
    use crate::linux::page_cache::FakePageCache;
    use crate::units::PageRange;

    const FILE: &str = "/data/base/5/16384";

    #[tokio::test]
    async fn one_that_is_dropped_looks_no_more() {
        let cache = FakePageCache::new();
        cache.insert(FILE, 4096 * 100, &[]);
        let files = vec![WantedFile { path: FILE.into(), runs: vec![PageRange::new(0, 100)] }];
        let looker = Looker {
            watch: Watch::open(&files, &cache).unwrap(),
            wanted: Arc::new(Wanted { files, page_bytes: 4096, block_bytes: 8192, ..Wanted::default() }),
            goal_pages: 99,
            strategy: Strategy::Cat,
            connection: None,
            start: Duration::ZERO,
            seen: Seen::default(),
            come: Arc::default(),
        };
        let probe = looker.start(clock::read_monotonic()).unwrap();
        let come = Arc::clone(&probe.come);
        assert!(!probe.is_over(None) && Arc::strong_count(&come) == 3);
        // As a trial does that fails while it runs.
        drop(probe);
        let deadline = clock::read_monotonic() + Duration::from_secs(30);
        while Arc::strong_count(&come) > 1 {
            assert!(clock::read_monotonic() < deadline, "it still looks");
            std::thread::sleep(SHORTEST_PAUSE);
        }
    }
}
