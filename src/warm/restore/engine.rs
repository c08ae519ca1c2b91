//! Issues the reads of a plan: threads that take the next one, in the plan's order, and read it through the page cache.

use std::collections::{BTreeMap, VecDeque};
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use roaring::RoaringBitmap;

use super::files::{Files, OpenFiles};
use super::governor::Governor;
use crate::linux;
use crate::linux::page_cache::CachedFile;
use crate::postgres::RelationPath;
use crate::units::{BlockRange, Bytes, Fork};
use crate::warm::plan::{Plan, Read, Scratch};
use crate::warm::traffic::Traffic;
use crate::warm::{Control, Room, StopReason, Watcher};

/// How often to ask whether there still is memory.
const ROOM_INTERVAL: Duration = Duration::from_secs(1);

/// Whose reads a plan's fork means.
#[derive(Clone, Debug, PartialEq)]
pub struct ForkFile {
    pub path: RelationPath,
    pub fork: Fork,
    /// Blocks that are to outlive what is read once.
    pub hot: RoaringBitmap,
}

/// Everything that the threads share.
pub struct Engine<'a> {
    pub plan: &'a Plan,
    /// In the plan's order.
    pub forks: &'a [ForkFile],
    pub files: Files<'a>,
    pub threads: usize,
    pub governor: &'a Governor,
    pub traffic: &'a dyn Traffic,
    pub control: &'a Control,
    pub watcher: &'a dyn Watcher,
    pub room: &'a dyn Room,
    /// What was cached before of what is to stay.
    pub resident_bytes: Bytes,
}

/// What was done.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    pub reads: u64,
    /// Bytes of each fork that were not cached when their read was issued, in the plan's order.
    pub fork_bytes: Vec<Bytes>,
    /// Forks that could not be read, by number, with the first error.
    pub failures: BTreeMap<usize, String>,
}

/// The reads that nobody took yet.
struct Queue {
    next_step: usize,
    reads: VecDeque<Read>,
    scratch: Scratch,
    room_read_at: Instant,
}

struct Work<'a> {
    engine: &'a Engine<'a>,
    files: OpenFiles<'a>,
    queue: Mutex<Queue>,
    is_exhausted: AtomicBool,
    reads: AtomicU64,
    fork_bytes: Vec<AtomicU64>,
    failures: Mutex<BTreeMap<usize, String>>,
}

impl Outcome {
    /// Bytes that were not cached when their read was issued.
    pub fn read_bytes(&self) -> Bytes {
        self.fork_bytes.iter().copied().sum()
    }

    /// Adds what a second run over the same forks did.
    pub fn add(&mut self, other: Outcome) {
        self.reads += other.reads;
        self.fork_bytes.iter_mut().zip(other.fork_bytes).for_each(|(bytes, more)| *bytes += more);
        self.failures.extend(other.failures);
    }
}

impl Engine<'_> {
    /// Reads until the plan is done or there is a reason to stop.
    pub fn run(&self) -> Outcome {
        let queue =
            Queue { next_step: 0, reads: VecDeque::new(), scratch: Scratch::default(), room_read_at: Instant::now() };
        let work = Work {
            engine: self,
            files: OpenFiles::new(self.files),
            queue: Mutex::new(queue),
            is_exhausted: AtomicBool::new(false),
            reads: AtomicU64::new(0),
            fork_bytes: self.forks.iter().map(|_| AtomicU64::new(0)).collect(),
            failures: Mutex::default(),
        };
        let is_done = AtomicBool::new(false);
        thread::scope(|scope| {
            let work = &work;
            let readers: Vec<_> =
                (0..self.threads.max(1)).map(|thread| scope.spawn(move || work.read_on(thread))).collect();
            scope.spawn(|| self.governor.watch(self.traffic, &is_done));
            let panic = readers.into_iter().filter_map(|reader| reader.join().err()).last();
            is_done.store(true, Ordering::Relaxed);
            if let Some(panic) = panic {
                resume_unwind(panic);
            }
        });
        Outcome {
            reads: work.reads.into_inner(),
            fork_bytes: work.fork_bytes.into_iter().map(|bytes| Bytes(bytes.into_inner())).collect(),
            failures: work.failures.into_inner().unwrap_or_else(PoisonError::into_inner),
        }
    }
}

impl Work<'_> {
    /// One thread's life.
    fn read_on(&self, thread: usize) {
        let mut buffer = Vec::new();
        loop {
            self.engine.governor.enter(thread, || self.goes_on());
            let Some(read) = self.take() else {
                // Who still waits for a turn waits for nothing.
                self.is_exhausted.store(true, Ordering::Relaxed);
                return;
            };
            self.engine.watcher.advance(self.bytes(read.range));
            let done = if self.has_failed(read.fork) { Ok(0) } else { self.apply(read, &mut buffer) };
            let loaded = done.unwrap_or_else(|error| {
                self.lock_failures().entry(read.fork).or_insert_with(|| error.to_string());
                0
            });
            self.engine.governor.advance(loaded);
        }
    }

    fn goes_on(&self) -> bool {
        !self.is_exhausted.load(Ordering::Relaxed) && self.engine.control.os_stopped_by().is_none()
    }

    /// The next read of the plan; `None` at its end or when there is a reason to stop.
    fn take(&self) -> Option<Read> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let Queue { next_step, reads, scratch, room_read_at } = &mut *queue;
        while self.engine.control.os_stopped_by().is_none() {
            if let Some(read) = reads.pop_front() {
                return Some(read);
            }
            if *next_step == self.engine.plan.steps() {
                return None;
            }
            reads.extend(self.engine.plan.reads(*next_step, scratch));
            *next_step += 1;
            if room_read_at.elapsed() >= ROOM_INTERVAL {
                *room_read_at = Instant::now();
                self.stop_without_room();
            }
        }
        None
    }

    /// Somebody else may have taken the memory that was there at first.
    fn stop_without_room(&self) {
        let loaded: u64 = self.fork_bytes.iter().map(|bytes| bytes.load(Ordering::Relaxed)).sum();
        let room = self.engine.room.read_room();
        if room.is_some_and(|room| room.0 < self.engine.resident_bytes.0 + loaded) {
            self.engine.control.stop_os(StopReason::NoMemory);
        }
    }

    /// One read, unless the server's own traffic was quicker. Returns the bytes that were not cached.
    fn apply(&self, read: Read, buffer: &mut Vec<u8>) -> Result<u64, linux::Error> {
        let engine = self.engine;
        let segment_blocks = u64::from(engine.files.geometry.segment_blocks);
        let fork = &engine.forks[read.fork];
        let segment = (read.range.start / segment_blocks) as u32;
        let Some(file) = self.files.get((read.fork, segment), &fork.path, fork.fork)? else { return Ok(0) };
        let first = u64::from(segment) * segment_blocks;
        let range = BlockRange::new(read.range.start - first, read.range.end - first);
        let pages = engine.files.pages(range);
        let missing = pages.pages().saturating_sub(file.read_counts(pages)?.cached);
        if missing == 0 {
            return Ok(0);
        }
        let missing_bytes = missing * engine.files.cache.page_bytes();
        engine.governor.wait(Bytes(missing_bytes), engine.control);
        buffer.resize(self.bytes(range) as usize, 0);
        let offset = range.start * u64::from(engine.files.geometry.block_size);
        let filled = file.apply_read(offset, buffer)? as u64;
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.keep_hot(&*file, &fork.hot, read.range, first, buffer)?;
        let loaded = missing_bytes.min(filled);
        self.fork_bytes[read.fork].fetch_add(loaded, Ordering::Relaxed);
        Ok(loaded)
    }

    /// Reads the hot blocks of what was just read again: a page that is read twice goes to the kernel's active list, and what
    /// is read once, such as the colder rest, pushes it out no more.
    fn keep_hot(
        &self,
        file: &dyn CachedFile,
        hot: &RoaringBitmap,
        range: BlockRange,
        segment_start: u64,
        buffer: &mut [u8],
    ) -> Result<(), linux::Error> {
        let (Ok(start), Ok(last)) = (u32::try_from(range.start), u32::try_from(range.end - 1)) else { return Ok(()) };
        let mut runs = hot.range(start..=last);
        while let Some(run) = runs.next_range() {
            let run = BlockRange::new((*run.start()).into(), u64::from(*run.end()) + 1);
            let offset = (run.start - segment_start) * u64::from(self.engine.files.geometry.block_size);
            file.apply_read(offset, &mut buffer[..self.bytes(run) as usize])?;
        }
        Ok(())
    }

    fn bytes(&self, range: BlockRange) -> u64 {
        range.blocks() * u64::from(self.engine.files.geometry.block_size)
    }

    fn has_failed(&self, fork: usize) -> bool {
        self.lock_failures().contains_key(&fork)
    }

    fn lock_failures(&self) -> std::sync::MutexGuard<'_, BTreeMap<usize, String>> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
