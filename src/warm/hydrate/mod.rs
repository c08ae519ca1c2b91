//! The first touch of every block of a volume that was made from a volume snapshot: until then each read of it fetches the
//! block from far away. Everything below the data directory is read once, past the page cache, so that nothing that is warm
//! is pushed out by it; what a snapshot of pgthaw's knows to be hot comes first. What was done is kept, and not done again
//! after an interruption.

mod chunks;
mod state;

use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde::Serialize;

pub use state::{HydrationState, StateStore};

use chunks::{CHUNK, Chunks};

use super::restore::Governor;
use super::traffic::{Sharing, Traffic};
use super::{Control, Phase, PlannedDevice, TrafficReceipt, Watcher};
use crate::cache::Map;
use crate::failure::{ErrorKind, Explain as _};
use crate::linux;
use crate::linux::direct_read::{AlignedBuffer, DirectFile};
use crate::linux::threads::on_threads;
use crate::postgres::DataDirectory;
use crate::units::Bytes;

/// Bytes of one read.
const READ: u64 = 1 << 20;
/// How often what was done is kept: this much is done again after a power failure.
const KEEP_INTERVAL: Duration = Duration::from_secs(5);
/// How often to look whether all is done.
const LOOK: Duration = Duration::from_millis(20);
/// Failures that are told one by one.
const FAILURES_MAX: usize = 20;

/// One hydration.
#[derive(Clone, Copy)]
pub struct Hydration<'a> {
    pub directory: &'a DataDirectory,
    /// What is hot, of the same cluster; `None`: by path alone.
    pub hot: Option<&'a Map>,
    pub threads: usize,
    /// Bytes per second.
    pub max_rate: Option<Bytes>,
    /// How the device is shared with live traffic.
    pub sharing: Sharing,
    /// What it gives, as far as it was probed.
    pub device: PlannedDevice,
    pub traffic: &'a dyn Traffic,
    /// Does a server answer? Beside none there is nobody to be gentle with.
    pub has_server: bool,
    pub control: &'a Control,
    pub watcher: &'a dyn Watcher,
}

impl std::fmt::Debug for Hydration<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hydration").field("directory", &self.directory).finish_non_exhaustive()
    }
}

/// What was done.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HydrationReceipt {
    pub files: u64,
    pub total_bytes: Bytes,
    /// Bytes that earlier runs read.
    pub done_before_bytes: Bytes,
    pub read_bytes: Bytes,
    pub left_bytes: Bytes,
    pub seconds: f64,
    /// When the earlier run was that this one goes on with.
    pub resumed_from: Option<Timestamp>,
    /// The earlier run that touched everything: this one read nothing.
    pub finished_before: Option<FinishedRun>,
    /// When the snapshot was taken that says what is hot.
    pub snapshot_taken_at: Option<Timestamp>,
    /// Reads that failed: the first of them one by one.
    pub failed_reads: u64,
    /// Failed reads that this user may not do.
    pub denied_reads: u64,
    pub failures: Vec<HydrationFailure>,
    /// What the server did meanwhile, and what was left to it.
    pub traffic: TrafficReceipt,
    pub is_interrupted: bool,
    pub remarks: Vec<String>,
}

impl HydrationReceipt {
    /// What kept it from its end.
    pub fn failure(&self) -> Option<ErrorKind> {
        match self {
            HydrationReceipt { is_interrupted: true, .. } => Some(ErrorKind::Interrupted),
            HydrationReceipt { failed_reads: 0, .. } => None,
            HydrationReceipt { failed_reads, denied_reads, .. } if failed_reads == denied_reads => {
                Some(ErrorKind::Privilege)
            }
            _ => Some(ErrorKind::Failed),
        }
    }
}

/// A run that touched every block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FinishedRun {
    pub at: Timestamp,
    /// The device's name in /sys/block.
    pub device: String,
}

/// A file that could not be read, or a directory that could not be listed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HydrationFailure {
    /// Below the data directory.
    pub path: String,
    pub detail: String,
}

/// What the threads share.
struct Work<'a> {
    hydration: Hydration<'a>,
    chunks: &'a Chunks,
    governor: Governor,
    next: AtomicUsize,
    /// Is each chunk done?
    done: Vec<AtomicBool>,
    read_bytes: AtomicU64,
    failed_reads: AtomicU64,
    denied_reads: AtomicU64,
    failures: Mutex<Vec<HydrationFailure>>,
}

impl Hydration<'_> {
    /// Reads what `state` does not have yet, nothing when it is finished, and tells `keep` now and then how far it is. Blocks.
    ///
    /// # Errors
    /// When the directory cannot be listed, or when `keep` fails.
    pub fn run<E: From<linux::Error>>(
        &self,
        state: &mut HydrationState,
        mut keep: impl FnMut(&HydrationState) -> Result<(), E>,
    ) -> Result<HydrationReceipt, E> {
        let started = Instant::now();
        let chunks = Chunks::list(self.directory, self.hot)?;
        let done: Vec<AtomicBool> = chunks.iter().map(|(path, chunk)| state.has(path, chunk).into()).collect();
        let bytes_of = |done: &[AtomicBool]| -> Bytes {
            let with = done.iter().zip(chunks.lengths()).filter(|(done, _)| done.load(Ordering::Relaxed));
            Bytes(with.map(|(_, bytes)| bytes).sum())
        };
        let finished_before = state.finished().map(|(at, device)| FinishedRun { at, device: device.to_owned() });
        let total_bytes = Bytes(chunks.lengths().sum());
        let done_before_bytes = bytes_of(&done);
        let resumed_from = state.resumed_from();
        self.watcher.begin(Phase::Hydrating, total_bytes.0 - done_before_bytes.0);
        let work = Work {
            hydration: *self,
            chunks: &chunks,
            governor: self.governor(),
            next: AtomicUsize::new(0),
            done,
            read_bytes: AtomicU64::new(0),
            failed_reads: AtomicU64::new(0),
            denied_reads: AtomicU64::new(0),
            failures: Mutex::default(),
        };
        if finished_before.is_none() {
            chunks.refused.iter().for_each(|(path, error)| work.fail(path, error));
            work.run_threads(|| {
                work.note(state);
                keep(state)
            })?;
        }
        Ok(HydrationReceipt {
            files: chunks.files() as u64,
            total_bytes,
            done_before_bytes,
            read_bytes: Bytes(work.read_bytes.load(Ordering::Relaxed)),
            left_bytes: Bytes(total_bytes.0 - bytes_of(&work.done).0),
            seconds: started.elapsed().as_secs_f64(),
            resumed_from,
            finished_before,
            snapshot_taken_at: self.hot.map(|map| map.taken_at),
            traffic: work.governor.receipt(),
            failed_reads: work.failed_reads.into_inner(),
            denied_reads: work.denied_reads.into_inner(),
            failures: work.failures.into_inner().unwrap_or_else(PoisonError::into_inner),
            is_interrupted: self.control.is_interrupted(),
            remarks: Vec::new(),
        })
    }

    /// What a volume gives that has not been read yet is learnt on the way.
    fn governor(&self) -> Governor {
        let governor = Governor::new(self.sharing, self.threads.max(1), self.max_rate, self.device);
        if !self.has_server {
            governor.note_no_server();
        }
        governor
    }
}

impl Work<'_> {
    /// Reads until all is done or the user stops it; calls `keep` meanwhile and at the end. A failure to keep what was done
    /// stops the reads too.
    fn run_threads<E>(&self, mut keep: impl FnMut() -> Result<(), E>) -> Result<(), E> {
        let is_done = AtomicBool::new(false);
        thread::scope(|scope| {
            let threads = self.hydration.threads;
            let readers =
                thread::Builder::new().spawn_scoped(scope, move || on_threads(threads, |one| self.read_on(one)));
            let Ok(readers) = readers else {
                // Not one thread is to be had: it is all read by this one.
                self.read_on(0);
                return keep();
            };
            // Without it nobody is yielded to.
            let watch = || self.governor.watch(self.hydration.traffic, &is_done);
            let _ = thread::Builder::new().spawn_scoped(scope, watch);
            let mut kept_at = Instant::now();
            let mut kept = Ok(());
            while kept.is_ok() && !readers.is_finished() {
                thread::sleep(LOOK);
                if kept_at.elapsed() >= KEEP_INTERVAL {
                    kept = keep().inspect_err(|_| self.hydration.control.interrupt());
                    kept_at = Instant::now();
                }
            }
            is_done.store(true, Ordering::Relaxed);
            kept.and_then(|()| keep())
        })
    }

    /// Is there a chunk that no thread took? Then who took one may wait until it may go on.
    fn goes_on(&self) -> bool {
        self.next.load(Ordering::Relaxed) < self.done.len() && !self.hydration.control.is_interrupted()
    }

    /// One thread's life.
    fn read_on(&self, thread: usize) {
        let mut buffer = AlignedBuffer::new(READ as usize);
        loop {
            self.governor.enter(thread, || self.goes_on());
            let at = self.next.fetch_add(1, Ordering::Relaxed);
            if at >= self.done.len() || self.hydration.control.is_interrupted() {
                return;
            }
            if self.done[at].load(Ordering::Relaxed) {
                continue;
            }
            let (path, chunk) = self.chunks.get(at);
            let range = chunk * CHUNK..chunk * CHUNK + self.chunks.length(at);
            match self.read_chunk(thread, path, range, &mut buffer) {
                Ok(is_whole) => self.done[at].store(is_whole, Ordering::Relaxed),
                Err(error) => self.fail(path, &error),
            }
        }
    }

    /// Was all of it read? A file that is gone needs nothing any more.
    fn read_chunk(
        &self,
        thread: usize,
        path: &str,
        range: Range<u64>,
        buffer: &mut AlignedBuffer,
    ) -> Result<bool, linux::Error> {
        let file = match DirectFile::open_below(&self.hydration.directory.files, Path::new(path)) {
            Ok(file) => file,
            Err(linux::Error::File { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => return Ok(true),
            Err(error) => return Err(error),
        };
        for offset in range.clone().step_by(READ as usize) {
            self.governor.enter(thread, || self.goes_on());
            self.governor.wait(Bytes(READ.min(range.end - offset)), self.hydration.control);
            if self.hydration.control.is_interrupted() {
                return Ok(false);
            }
            let bytes = file.read_at(offset, READ as usize, buffer)? as u64;
            self.read_bytes.fetch_add(bytes, Ordering::Relaxed);
            self.governor.advance(bytes);
            self.hydration.watcher.advance(bytes);
            if bytes < READ {
                break;
            }
        }
        Ok(true)
    }

    fn fail(&self, path: &str, error: &linux::Error) {
        self.failed_reads.fetch_add(1, Ordering::Relaxed);
        if error.kind() == ErrorKind::Privilege {
            self.denied_reads.fetch_add(1, Ordering::Relaxed);
        }
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        if failures.len() < FAILURES_MAX && failures.last().is_none_or(|last| last.path != path) {
            failures.push(HydrationFailure { path: path.to_owned(), detail: error.to_string() });
        }
    }

    /// Adds what is done to the state.
    fn note(&self, state: &mut HydrationState) {
        let done = self.chunks.iter().zip(&self.done).filter(|(_, done)| done.load(Ordering::Relaxed));
        state.set(done.map(|(chunk, _)| chunk));
        if self.chunks.refused.is_empty() && self.done.iter().all(|done| done.load(Ordering::Relaxed)) {
            state.finish();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::linux::process::Busy;
    use crate::warm::Unwatched;
    use crate::warm::{DeviceProfile, ProfileSource};

    /// A server whose processes all wait for the disk.
    struct Waiting;

    impl Traffic for Waiting {
        fn read_busy(&self) -> Option<Busy> {
            Some(Busy { running: 0, waiting: 8 })
        }
    }

    #[test]
    fn beside_live_traffic_all_is_read_at_the_rate_and_with_no_thread_left_waiting() {
        let root = tempfile::tempdir_in("/var/tmp").unwrap();
        fs::write(root.path().join("PG_VERSION"), "15").unwrap();
        for name in ["1", "2", "3"] {
            fs::File::create(root.path().join(name)).unwrap().set_len(9 << 20).unwrap();
        }
        if let Err(error) = DirectFile::open(&root.path().join("1")) {
            untested!(machine: "{error}");
        }
        let directory = DataDirectory::pretend(root.path());
        let hydration = Hydration {
            directory: &directory,
            hot: None,
            threads: 16,
            max_rate: Some(Bytes(100 << 20)),
            device: PlannedDevice { profile: DeviceProfile::default(), source: ProfileSource::Default },
            sharing: Sharing::Fair,
            traffic: &Waiting,
            has_server: true,
            control: &Control::default(),
            watcher: &Unwatched,
        };
        let mut state = HydrationState::for_tests();
        let receipt = hydration.run(&mut state, |_| Ok::<(), linux::Error>(())).unwrap();
        assert_eq!(
            (receipt.read_bytes, receipt.left_bytes, receipt.failure()),
            (Bytes((27 << 20) + 2), Bytes(0), None)
        );
        assert!(receipt.traffic.waiting_seconds > 0.0, "{receipt:?}");
        assert!(state.finished().is_some());
    }
}
