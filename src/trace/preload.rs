//! Brings what a job needs while it runs: a few reads at a time, so that the job's own never wait for long.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use serde::Serialize;

use super::polling::Own;
use super::simulation::DEPTH;
use super::touched::{Touched, TouchedFork};
use crate::linux;
use crate::linux::page_cache::{CachedFile, PageCache};
use crate::linux::threads::on_threads;
use crate::units::{BlockRange, Bytes, PageRange};
use crate::warm::Room;
use crate::warm::plan::{Geometry, Read};

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
