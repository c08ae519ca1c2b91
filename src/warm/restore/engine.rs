//! Issues the reads of a plan: threads that take the next one, in the plan's order, and read it through the page cache.

use std::collections::{BTreeMap, VecDeque};
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use roaring::RoaringBitmap;

use super::files::{Files, OpenFiles};
use super::governor::Governor;
use super::read_over::drop_splits;
use super::staying::{Left, Staying};
use crate::linux;
use crate::linux::page_cache::CachedFile;
use crate::linux::threads::on_threads;
use crate::postgres::RelationPath;
use crate::units::{BlockRange, Bytes, Fork, PageRange};
use crate::warm::plan::{Plan, Read, Scratch};
use crate::warm::traffic::Traffic;
use crate::warm::{Control, Room, StopReason, Watcher};

/// How often to ask whether there still is memory, and whether what was read stays ...
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

/// ... and after how many bytes, whatever is sooner.
const LOOK_BYTES: u64 = 128 << 20;

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
    /// Forks in the plan's order.
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
    /// Bytes that were read once more, because they had gone by the time that a later slice was read.
    pub reread_bytes: Bytes,
    /// Forks that could not be read, by number, with the first error.
    pub failures: BTreeMap<usize, String>,
}

/// The reads that nobody took yet.
struct Queue {
    next_step: usize,
    reads: VecDeque<Turn>,
    scratch: Scratch,
    looked_at: Instant,
    /// Bytes that were read by then.
    looked_at_bytes: u64,
}

/// A read, and the slice that it is of; `None` when it is done again.
type Turn = (Option<usize>, Read);

/// What a thread does next.
enum Next {
    Read(Turn),
    /// A slice begins: somebody looks back at the ones before.
    Slice(usize),
    End,
}

/// Where the blocks of a read are.
struct Place {
    segment: u32,
    /// The segment's first block.
    first: u64,
    /// Within the segment.
    range: BlockRange,
    pages: PageRange,
}

struct Work<'a> {
    engine: &'a Engine<'a>,
    files: OpenFiles<'a>,
    /// Cached pages in the midst of a read that the device rather reads again than leaves out.
    gap_pages: u64,
    queue: Mutex<Queue>,
    is_exhausted: AtomicBool,
    staying: Staying,
    reads: AtomicU64,
    read_bytes: AtomicU64,
    reread_bytes: AtomicU64,
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
        self.reread_bytes += other.reread_bytes;
        self.fork_bytes.iter_mut().zip(other.fork_bytes).for_each(|(bytes, more)| *bytes += more);
        self.failures.extend(other.failures);
    }
}

impl Engine<'_> {
    /// Reads until the plan is done or there is a reason to stop.
    pub fn run(&self) -> Outcome {
        let (looked_at, looked_at_bytes) = (Instant::now(), 0);
        let queue =
            Queue { next_step: 0, reads: VecDeque::new(), scratch: Scratch::default(), looked_at, looked_at_bytes };
        let work = Work {
            engine: self,
            files: OpenFiles::new(self.files),
            gap_pages: self.plan.gap_bytes().0 / self.files.cache.page_bytes(),
            queue: Mutex::new(queue),
            is_exhausted: AtomicBool::new(false),
            staying: Staying::default(),
            reads: AtomicU64::new(0),
            read_bytes: AtomicU64::new(0),
            reread_bytes: AtomicU64::new(0),
            fork_bytes: self.forks.iter().map(|_| AtomicU64::new(0)).collect(),
            failures: Mutex::default(),
        };
        let is_done = AtomicBool::new(false);
        thread::scope(|scope| {
            // Without it nobody is yielded to.
            let _ = thread::Builder::new().spawn_scoped(scope, || self.governor.watch(self.traffic, &is_done));
            let readers = on_threads(self.threads, |thread| work.read_on(thread));
            let panic = readers.into_iter().filter_map(Result::err).last();
            is_done.store(true, Ordering::Relaxed);
            if let Some(panic) = panic {
                resume_unwind(panic);
            }
        });
        Outcome {
            reads: work.reads.into_inner(),
            reread_bytes: Bytes(work.reread_bytes.into_inner()),
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
            let Some((step, read)) = self.take() else {
                // Who still waits for a turn waits for nothing.
                self.is_exhausted.store(true, Ordering::Relaxed);
                return;
            };
            if step.is_some() {
                self.engine.watcher.advance(self.bytes(read.range));
            }
            let done = if self.has_failed(read.fork) { Ok(0) } else { self.apply(read, &mut buffer) };
            let loaded = done.unwrap_or_else(|error| {
                self.lock_failures().entry(read.fork).or_insert_with(|| error.to_string());
                0
            });
            self.note(step, read, loaded);
        }
    }

    fn note(&self, step: Option<usize>, read: Read, loaded: u64) {
        self.engine.governor.advance(loaded);
        self.read_bytes.fetch_add(loaded, Ordering::Relaxed);
        match step {
            Some(step) if loaded > 0 => self.staying.add(step, read),
            Some(_) => {}
            None => _ = self.reread_bytes.fetch_add(loaded, Ordering::Relaxed),
        }
    }

    fn goes_on(&self) -> bool {
        !self.is_exhausted.load(Ordering::Relaxed) && self.engine.control.os_stopped_by().is_none()
    }

    /// The next read of the plan; `None` at its end or when there is a reason to stop.
    fn take(&self) -> Option<Turn> {
        while self.engine.control.os_stopped_by().is_none() {
            match self.next() {
                Next::Read(turn) => return Some(turn),
                Next::Slice(step) => self.look_back(step),
                Next::End => return None,
            }
        }
        None
    }

    fn next(&self) -> Next {
        let mut queue = self.lock_queue();
        let Queue { next_step, reads, scratch, .. } = &mut *queue;
        if let Some(turn) = reads.pop_front() {
            return Next::Read(turn);
        }
        let step = *next_step;
        if step == self.engine.plan.steps() {
            return Next::End;
        }
        reads.extend(self.engine.plan.reads(step, scratch).iter().map(|read| (Some(step), *read)));
        *next_step += 1;
        Next::Slice(step)
    }

    /// Looks whether the slices before `step` are still there; what is not is read once more. Now and then looks at a sample
    /// of all of them, and at what memory there is. Other threads read on meanwhile.
    fn look_back(&self, step: usize) {
        let settled = self.staying.take_settled(step);
        let again: Vec<Turn> =
            settled.into_iter().filter(|read| self.look(*read).gone > 0).map(|read| (None, read)).collect();
        let mut queue = self.lock_queue();
        again.into_iter().rev().for_each(|turn| queue.reads.push_front(turn));
        let read_bytes = self.read_bytes.load(Ordering::Relaxed);
        if queue.looked_at.elapsed() < LOOK_INTERVAL && read_bytes - queue.looked_at_bytes < LOOK_BYTES {
            return;
        }
        (queue.looked_at, queue.looked_at_bytes) = (Instant::now(), read_bytes);
        drop(queue);
        self.stop_without_room(read_bytes);
        if self.staying.is_evicted(self.engine.room.idle_age(), |read| self.look(read)) {
            self.engine.control.stop_os(StopReason::Evicted);
        }
    }

    /// Somebody else may have taken the memory that was there at first.
    fn stop_without_room(&self, read_bytes: u64) {
        let loaded = read_bytes - self.reread_bytes.load(Ordering::Relaxed).min(read_bytes);
        let room = self.engine.room.read_room();
        if room.is_some_and(|room| room.bytes.0 < self.engine.resident_bytes.0 + loaded) {
            self.engine.control.stop_os(StopReason::NoMemory);
        }
    }

    /// What is left of a read; nothing where nobody can see.
    fn look(&self, read: Read) -> Left {
        self.count_left(read).unwrap_or_default()
    }

    fn count_left(&self, read: Read) -> Result<Left, linux::Error> {
        let fork = &self.engine.forks[read.fork];
        let Place { segment, pages, .. } = self.place(read.range);
        let Some(file) = self.files.get((read.fork, segment), &fork.path, fork.fork)? else {
            return Ok(Left::default());
        };
        let count = |file: &dyn CachedFile, pages: PageRange| {
            let cached = file.read_counts(pages)?.cached;
            Ok::<_, linux::Error>(Left { pages: pages.pages(), gone: pages.pages().saturating_sub(cached) })
        };
        let left = count(&*file, pages)?;
        if left.gone == 0 {
            return Ok(left);
        }
        // It may have been dropped or truncated since it was opened.
        let Some(file) = self.engine.files.open(&fork.path, fork.fork, segment)? else { return Ok(Left::default()) };
        let end = file.size_bytes().div_ceil(self.engine.files.cache.page_bytes());
        count(&*file, PageRange::new(pages.start.min(end), pages.end.min(end)))
    }

    fn place(&self, blocks: BlockRange) -> Place {
        let segment_blocks = u64::from(self.engine.files.geometry.segment_blocks);
        let segment = blocks.start / segment_blocks;
        let first = segment * segment_blocks;
        let range = BlockRange::new(blocks.start - first, blocks.end - first);
        Place { segment: segment as u32, first, range, pages: self.engine.files.pages(range) }
    }

    /// One read, unless the server's own traffic was quicker. Returns the bytes that were not cached.
    fn apply(&self, read: Read, buffer: &mut Vec<u8>) -> Result<u64, linux::Error> {
        let engine = self.engine;
        let fork = &engine.forks[read.fork];
        let Place { segment, first, range, pages } = self.place(read.range);
        let Some(file) = self.files.get((read.fork, segment), &fork.path, fork.fork)? else { return Ok(0) };
        let counts = file.read_counts(pages)?;
        let missing = pages.pages().saturating_sub(counts.cached);
        if missing == 0 {
            return Ok(0);
        }
        engine.governor.wait(Bytes(missing * engine.files.cache.page_bytes()), engine.control);
        // Not before the wait: what is dropped is to be back at once.
        let dropped = match engine.governor.is_short_of_reads() {
            true => drop_splits(&*file, pages, counts, self.gap_pages)?,
            false => 0,
        };
        let missing_bytes = (missing + dropped) * engine.files.cache.page_bytes();
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

    fn lock_queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_failures(&self) -> MutexGuard<'_, BTreeMap<usize, String>> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
