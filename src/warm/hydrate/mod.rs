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

use super::restore::Pace;
use super::{Control, Phase, Watcher};
use crate::cache::Map;
use crate::linux;
use crate::linux::direct_read::{AlignedBuffer, DirectFile};
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
    /// By earlier runs.
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
    pub failures: Vec<HydrationFailure>,
    pub is_interrupted: bool,
    pub remarks: Vec<String>,
}

/// A run that touched every block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FinishedRun {
    pub at: Timestamp,
    /// As in /sys/block.
    pub device: String,
}

/// A file that could not be read.
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
    pace: Pace,
    next: AtomicUsize,
    /// Of each chunk.
    done: Vec<AtomicBool>,
    read_bytes: AtomicU64,
    failed_reads: AtomicU64,
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
            pace: Pace::new(self.max_rate),
            next: AtomicUsize::new(0),
            done,
            read_bytes: AtomicU64::new(0),
            failed_reads: AtomicU64::new(0),
            failures: Mutex::default(),
        };
        if finished_before.is_none() {
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
            failed_reads: work.failed_reads.into_inner(),
            failures: work.failures.into_inner().unwrap_or_else(PoisonError::into_inner),
            is_interrupted: self.control.is_interrupted(),
            remarks: Vec::new(),
        })
    }
}

impl Work<'_> {
    /// Reads until all is done or the user stops it; calls `keep` meanwhile and at the end. A failure to keep what was done
    /// stops the reads too.
    fn run_threads<E>(&self, mut keep: impl FnMut() -> Result<(), E>) -> Result<(), E> {
        thread::scope(|scope| {
            let workers: Vec<_> = (0..self.hydration.threads.max(1)).map(|_| scope.spawn(|| self.read_on())).collect();
            let mut kept_at = Instant::now();
            while !workers.iter().all(|worker| worker.is_finished()) {
                thread::sleep(LOOK);
                if kept_at.elapsed() >= KEEP_INTERVAL {
                    keep().inspect_err(|_| self.hydration.control.interrupt())?;
                    kept_at = Instant::now();
                }
            }
            keep()
        })
    }

    /// One thread's life.
    fn read_on(&self) {
        let mut buffer = AlignedBuffer::new(READ as usize);
        loop {
            let at = self.next.fetch_add(1, Ordering::Relaxed);
            if at >= self.done.len() || self.hydration.control.is_interrupted() {
                return;
            }
            if self.done[at].load(Ordering::Relaxed) {
                continue;
            }
            let (path, chunk) = self.chunks.get(at);
            match self.read_chunk(path, chunk * CHUNK..chunk * CHUNK + self.chunks.length(at), &mut buffer) {
                Ok(is_whole) => self.done[at].store(is_whole, Ordering::Relaxed),
                Err(error) => self.fail(path, &error),
            }
        }
    }

    /// Was all of it read? A file that is gone needs nothing any more.
    fn read_chunk(&self, path: &str, range: Range<u64>, buffer: &mut AlignedBuffer) -> Result<bool, linux::Error> {
        let file = match DirectFile::open(&self.hydration.directory.path.join(path)) {
            Ok(file) => file,
            Err(linux::Error::File { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => return Ok(true),
            Err(error) => return Err(error),
        };
        for offset in range.clone().step_by(READ as usize) {
            self.pace.wait(Bytes(READ.min(range.end - offset)), self.hydration.control);
            if self.hydration.control.is_interrupted() {
                return Ok(false);
            }
            let bytes = file.read_at(offset, READ as usize, buffer)? as u64;
            self.read_bytes.fetch_add(bytes, Ordering::Relaxed);
            self.hydration.watcher.advance(bytes);
            if bytes < READ {
                break;
            }
        }
        Ok(true)
    }

    fn fail(&self, path: &str, error: &linux::Error) {
        self.failed_reads.fetch_add(1, Ordering::Relaxed);
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        if failures.len() < FAILURES_MAX && failures.last().is_none_or(|last| last.path != path) {
            failures.push(HydrationFailure { path: path.to_owned(), detail: error.to_string() });
        }
    }

    /// Adds what is done to the state.
    fn note(&self, state: &mut HydrationState) {
        let done = self.chunks.iter().zip(&self.done).filter(|(_, done)| done.load(Ordering::Relaxed));
        state.set(done.map(|(chunk, _)| chunk));
        if self.done.iter().all(|done| done.load(Ordering::Relaxed)) {
            state.finish();
        }
    }
}

/// Is this the name of a file that PostgreSQL alone reads, all of it in order, and recycles?
fn is_wal(path: &str) -> bool {
    Path::new(path).starts_with("pg_wal")
}
