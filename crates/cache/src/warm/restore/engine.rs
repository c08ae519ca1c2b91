//! Issues a plan's reads through the page cache, from several threads.

mod in_order;

use std::collections::{BTreeMap, VecDeque};
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rand::Rng as _;
use roaring::RoaringBitmap;

use super::governor::Governor;
use super::open_files::{OpenFiles, Splits};
use super::request::Planned;
use super::task::{OsTier, Restore};
use crate::files::numbers;
use crate::warm::control::Host;
use crate::warm::plan::{Mix, Plan, Read};
use crate::warm::receipt::MemoryReceipt;
use crate::warm::{Refusal, StopReason};
use ::host::linux;
use ::host::linux::page_cache::{Activity, CachedFile, PageCounts, Window};
use ::host::linux::threads::{lock, on_threads};
use ::host::units::{BlockRange, Bytes, PageRange};

/// Memory and evictions are checked at this interval.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

/// Memory and evictions are also checked whenever this many bytes were read.
const LOOK_BYTES: u64 = 128 << 20;

/// A plan is used for at least this multiple of its planning time.
const PLANNING_RATIO: u32 = 10;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    pub reads: u64,
    /// Bytes not cached when read, per fork in plan order.
    pub fork_bytes: Vec<Bytes>,
    pub memory: MemoryReceipt,
    pub failures: BTreeMap<usize, Refusal>,
    /// Blocks per fork that these reads loaded, without those cached before or read by the server first.
    pub brought: Vec<RoaringBitmap>,
    /// Whether the remaining reads need a new plan.
    pub is_outdated: bool,
}

struct Queue<'a> {
    mix: Mix<'a>,
    /// Reads to repeat, because their pages were evicted.
    again: VecDeque<Read>,
    /// Unread rests of long reads, each with the number of its plan step (`slice`).
    left: VecDeque<(Option<usize>, Read)>,
    begun: usize,
    looked_at: Instant,
    looked_at_bytes: u64,
}

struct Place {
    segment: u32,
    first: u64,
    range: BlockRange,
    pages: PageRange,
}

struct Work<'a> {
    tier: &'a OsTier<'a>,
    plan: &'a Plan,
    planning: Duration,
    /// In plan order.
    forks: &'a [Planned],
    /// Bytes cached before this plan that should stay cached.
    resident_bytes: Bytes,
    files: OpenFiles<'a>,
    splits: Splits,
    queue: Mutex<Queue<'a>>,
    started: Instant,
    is_exhausted: AtomicBool,
    staying: Mutex<Staying>,
    read_bytes: AtomicU64,
    outcome: Mutex<Outcome>,
    in_order_fails: AtomicBool,
    windows: Mutex<BTreeMap<u64, Option<Window>>>,
}

impl Outcome {
    pub fn read_bytes(&self) -> Bytes {
        self.fork_bytes.iter().copied().sum()
    }

    pub fn add(&mut self, other: Outcome) {
        self.reads += other.reads;
        self.memory.add(other.memory);
        self.fork_bytes.iter_mut().zip(other.fork_bytes).for_each(|(bytes, more)| *bytes += more);
        self.brought.iter_mut().zip(other.brought).for_each(|(brought, more)| *brought |= more);
        self.failures.extend(other.failures);
        self.is_outdated = other.is_outdated;
    }
}

pub fn run(tier: &OsTier<'_>, forks: &[Planned], plan: &Plan, planning: Duration, resident_bytes: Bytes) -> Outcome {
    let started = Instant::now();
    tier.restore.governor.begin_plan(plan.forecast().read_bytes);
    let work = Work {
        tier,
        plan,
        planning,
        forks,
        resident_bytes,
        files: OpenFiles::new(tier.files),
        splits: Splits::new(plan.gap_bytes().0 / tier.files.cache.page_bytes()),
        queue: Mutex::new(Queue {
            mix: Mix::new(plan),
            again: VecDeque::new(),
            left: VecDeque::new(),
            begun: 0,
            looked_at: started,
            looked_at_bytes: 0,
        }),
        started,
        is_exhausted: AtomicBool::new(false),
        staying: Mutex::default(),
        read_bytes: AtomicU64::new(0),
        outcome: Mutex::new(Outcome {
            fork_bytes: vec![Bytes(0); forks.len()],
            brought: vec![RoaringBitmap::new(); forks.len()],
            ..Outcome::default()
        }),
        in_order_fails: AtomicBool::new(false),
        windows: Mutex::default(),
    };
    let readers = on_threads(tier.restore.options.threads, |thread| work.read_on(thread));
    if let Some(panic) = readers.into_iter().filter_map(Result::err).last() {
        resume_unwind(panic);
    }
    work.outcome.into_inner().unwrap_or_else(PoisonError::into_inner)
}

impl Work<'_> {
    fn host(&self) -> &Host {
        &self.tier.restore.host
    }

    fn governor(&self) -> &Governor {
        &self.tier.restore.governor
    }

    fn read_on(&self, thread: usize) {
        let mut buffer = Vec::new();
        loop {
            self.governor().enter(thread, || self.goes_on());
            let Some((slice, read)) = self.take() else {
                // Nothing is left to read, so threads that wait for permission to read stop waiting.
                self.is_exhausted.store(true, Ordering::Relaxed);
                return;
            };
            if read.range.blocks() > self.plan.largest_read_blocks() {
                let rest = self.read_in_order(slice, read, &mut buffer);
                if !rest.range.is_empty() {
                    lock(&self.queue).left.push_front((slice, rest));
                }
                continue;
            }
            self.begin(slice, read);
            let done = if self.has_failed(read.fork) { Ok(0) } else { self.apply(read, &mut buffer) };
            let loaded = done.unwrap_or_else(|error| {
                lock(&self.outcome).failures.entry(read.fork).or_insert_with(|| Refusal::of_read(&error));
                0
            });
            self.note(slice, read, loaded);
        }
    }

    fn begin(&self, slice: Option<usize>, read: Read) {
        if slice.is_some() {
            self.host().watcher.advance(self.bytes(read.range));
            self.governor().take(self.bytes(read.range));
        }
    }

    fn note(&self, slice: Option<usize>, read: Read, loaded: u64) {
        self.governor().advance(loaded);
        self.read_bytes.fetch_add(loaded, Ordering::Relaxed);
        match slice {
            Some(slice) if loaded > 0 => lock(&self.staying).add(slice, read),
            Some(_) => {}
            None => lock(&self.outcome).memory.reread_bytes += Bytes(loaded),
        }
    }

    fn goes_on(&self) -> bool {
        !self.is_exhausted.load(Ordering::Relaxed) && self.host().control.os_stopped_by().is_none()
    }

    /// Next read and its slice; a repeated read has none. `None` at the end, on a stop, or with an outdated plan.
    fn take(&self) -> Option<(Option<usize>, Read)> {
        if self.host().control.os_stopped_by().is_some() || self.find_outdated() {
            return None;
        }
        let mut queue = lock(&self.queue);
        if let Some(read) = queue.again.pop_front() {
            return Some((None, read));
        }
        if let Some((slice, Read { fork, range })) = queue.left.pop_front() {
            let end = range.end.min(range.start + self.plan.largest_read_blocks());
            if end < range.end {
                queue.left.push_front((slice, Read { fork, range: BlockRange::new(end, range.end) }));
            }
            return Some((slice, Read { fork, range: BlockRange::new(range.start, end) }));
        }
        let (slice, mut read) = queue.mix.next(self.governor().read_worth())?;
        if self.may_read_in_order() {
            read = queue.mix.join(read);
        }
        let begins = slice > queue.begun;
        queue.begun = queue.begun.max(slice);
        if begins && queue.mix.is_at_cold_rest() {
            self.governor().note_cold_rest();
        }
        drop(queue);
        if begins {
            self.look_back(slice);
        }
        self.host().control.os_stopped_by().is_none().then_some((Some(slice), read))
    }

    fn find_outdated(&self) -> bool {
        let is_outdated = self.governor().situation() != self.plan.situation
            && self.plan.forecast().over_budget_blocks == 0
            && self.started.elapsed() > self.planning * PLANNING_RATIO;
        let mut outcome = lock(&self.outcome);
        outcome.is_outdated |= is_outdated;
        outcome.is_outdated
    }

    /// Queues reads of earlier slices again if their pages were evicted.
    fn look_back(&self, slice: usize) {
        // If residency is unknown, pages count as cached.
        let look = |read| self.count_left(read).unwrap_or_default();
        let settled = lock(&self.staying).take_settled(slice);
        let again: Vec<Read> = settled.into_iter().filter(|read| look(*read).gone > 0).collect();
        let mut queue = lock(&self.queue);
        queue.again.extend(again);
        let read_bytes = self.read_bytes.load(Ordering::Relaxed);
        if queue.looked_at.elapsed() < LOOK_INTERVAL && read_bytes - queue.looked_at_bytes < LOOK_BYTES {
            return;
        }
        (queue.looked_at, queue.looked_at_bytes) = (Instant::now(), read_bytes);
        drop(queue);
        self.stop_without_room(read_bytes);
        let sample = lock(&self.staying).sample(self.host().room.idle_age());
        if are_evicted(sample.into_iter().map(look)) {
            self.host().control.stop_os(StopReason::Evicted);
        }
    }

    /// Makes room by evicting blocks that were read only because they lie in gaps between requested blocks. Stops the
    /// restore only if that does not suffice.
    fn stop_without_room(&self, read_bytes: u64) {
        if !self.has_room(read_bytes) {
            let mut outcome = lock(&self.outcome);
            let let_go = self.tier.let_go(self.forks, self.plan, &mut outcome.brought);
            outcome.memory.add(let_go);
            // Missing pages no longer prove short memory. Others who look wait for the outcome before they take a sample.
            *lock(&self.staying) = Staying::default();
            drop(outcome);
            if !self.has_room(read_bytes) {
                self.host().control.stop_os(StopReason::NoMemory);
            }
        }
    }

    fn has_room(&self, read_bytes: u64) -> bool {
        let MemoryReceipt { reread_bytes, let_go_bytes, .. } = lock(&self.outcome).memory;
        let gone = reread_bytes.0 + let_go_bytes.0;
        let room = self.host().room.read_room();
        room.is_none_or(|room| room.bytes.0 >= self.resident_bytes.0 + read_bytes.saturating_sub(gone))
    }

    fn count_left(&self, read: Read) -> linux::Result<Left> {
        let fork = &self.forks[read.fork].entry;
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
        // `None`: the file was dropped or truncated.
        let Some(file) = self.tier.files.open(&fork.path, fork.fork, segment)? else { return Ok(Left::default()) };
        let end = file.size_bytes().div_ceil(self.tier.files.cache.page_bytes());
        count(&*file, PageRange::new(pages.start.min(end), pages.end.min(end)))
    }

    fn place(&self, blocks: BlockRange) -> Place {
        let segment_blocks = u64::from(self.tier.files.geometry.segment_blocks);
        let segment = blocks.start / segment_blocks;
        let first = segment * segment_blocks;
        let range = BlockRange::new(blocks.start - first, blocks.end - first);
        Place { segment: segment as u32, first, range, pages: self.tier.files.pages(range) }
    }

    /// Returns the bytes that were not cached.
    fn apply(&self, read: Read, buffer: &mut Vec<u8>) -> linux::Result<u64> {
        let Restore { governor, host, .. } = self.tier.restore;
        let fork = &self.forks[read.fork].entry;
        let Place { segment, first, range, pages } = self.place(read.range);
        let Some(file) = self.files.get((read.fork, segment), &fork.path, fork.fork)? else { return Ok(0) };
        let missing = |counts: PageCounts| pages.pages().saturating_sub(counts.cached);
        let page_bytes = self.tier.files.cache.page_bytes();
        match missing(file.read_counts(pages)?) {
            0 => return Ok(0),
            missing => governor.pace.wait(Bytes(missing * page_bytes), &host.control),
        }
        // Counts again, because the server may have read pages during the wait.
        let counts = file.read_counts(pages)?;
        let cached = if counts.cached > 0 { file.read_resident(pages)? } else { Vec::new() };
        self.note_brought(read, first, &cached);
        let needed_pages = governor.needed_per_read().0 as f64 / page_bytes as f64;
        let dropped = self.splits.drop_from(&*file, pages, counts, cached, needed_pages)?;
        let missing_bytes = (missing(counts) + dropped) * page_bytes;
        let filled = governor.pace.read(Bytes(missing_bytes), || self.fill(&*file, range, buffer))?;
        self.keep_hot(&fork.hot, read.range, first, |run| self.fill(&*file, run, buffer))?;
        Ok(self.count(read, missing_bytes.min(filled)))
    }

    fn count(&self, read: Read, loaded: u64) -> u64 {
        let reads = read.range.blocks().div_ceil(self.plan.largest_read_blocks());
        let mut outcome = lock(&self.outcome);
        outcome.reads += reads;
        outcome.fork_bytes[read.fork] += Bytes(loaded);
        loaded
    }

    fn fill(&self, file: &dyn CachedFile, range: BlockRange, buffer: &mut Vec<u8>) -> linux::Result<u64> {
        buffer.resize(self.bytes(range) as usize, 0);
        let offset = range.start * u64::from(self.tier.files.geometry.block_size);
        file.apply_read(offset, buffer).map(|filled| filled as u64)
    }

    fn note_brought(&self, read: Read, segment_start: u64, cached: &[PageRange]) {
        let mut blocks = RoaringBitmap::new();
        blocks.insert_range(numbers(read.range));
        for run in cached {
            let run = self.tier.files.blocks_with(*run);
            blocks.remove_range(numbers(BlockRange::new(segment_start + run.start, segment_start + run.end)));
        }
        lock(&self.outcome).brought[read.fork] |= blocks;
    }

    /// Reads hot blocks again: this moves them to the kernel's active list, where pages read once cannot evict them.
    /// `range` counts blocks from the fork's start, `read`'s argument from the segment's.
    fn keep_hot(
        &self,
        hot: &RoaringBitmap,
        range: BlockRange,
        segment_start: u64,
        mut read: impl FnMut(BlockRange) -> linux::Result<u64>,
    ) -> linux::Result<()> {
        let (Ok(start), Ok(last)) = (u32::try_from(range.start), u32::try_from(range.end - 1)) else { return Ok(()) };
        let mut runs = hot.range(start..=last);
        while let Some(run) = runs.next_range() {
            let run = BlockRange::new((*run.start()).into(), u64::from(*run.end()) + 1);
            read(BlockRange::new(run.start - segment_start, run.end - segment_start))?;
        }
        Ok(())
    }

    fn bytes(&self, range: BlockRange) -> u64 {
        range.blocks() * u64::from(self.tier.files.geometry.block_size)
    }

    fn has_failed(&self, fork: usize) -> bool {
        lock(&self.outcome).failures.contains_key(&fork)
    }
}

impl OsTier<'_> {
    /// Evicts blocks of `brought` that the plan does not want, and removes them from `brought`. If there was traffic,
    /// keeps pages used since their load (all, if the kernel hides their use).
    pub fn let_go(&self, forks: &[Planned], plan: &Plan, brought: &mut [RoaringBitmap]) -> MemoryReceipt {
        let (files, may_be_used) = (self.files, self.restore.governor.had_traffic());
        let over = brought.iter_mut().zip(plan.forks()).map(|(brought, fork)| {
            let over = fork.levels.iter().fold(brought.clone(), |over, (_, wanted)| over - wanted);
            *brought -= &over;
            over
        });
        let over: Vec<RoaringBitmap> = over.collect();
        let read_over_bytes = files.geometry.bytes(over.iter().map(RoaringBitmap::len).sum());
        let mut sums = MemoryReceipt { read_over_bytes, ..MemoryReceipt::default() };
        if read_over_bytes == Bytes(0) || (may_be_used && files.cache.test_activity().is_err()) {
            return sums;
        }
        let choose = |file: &dyn CachedFile, run: BlockRange| -> linux::Result<Vec<PageRange>> {
            let pages = files.pages_within(run);
            if !may_be_used {
                return Ok(vec![pages]);
            }
            let mut unused = Vec::new();
            for run in file.read_resident(pages)? {
                // The read that loaded a page counts as one use.
                file.visit_activity(run, &mut |run, activity| {
                    unused.extend((activity < Activity::Active).then_some(run));
                })?;
            }
            Ok(unused)
        };
        for (Planned { entry, .. }, over) in forks.iter().zip(&over) {
            // Unreadable files keep their pages.
            let dropped = files.drop_blocks(&entry.path, entry.fork, over, choose);
            sums.let_go_bytes += Bytes(dropped.before_bytes.0.saturating_sub(dropped.after_bytes.0));
        }
        sums
    }
}

// Detects eviction of loaded pages: a restore that cannot keep them is pointless.

/// A slice is checked after this many later slices began, when its last reads have ended.
const SLICES_LATER: usize = 2;
const SAMPLE_READS: usize = 256;
const SAMPLE_READS_MIN: usize = 32;
/// Share of evicted pages above which memory is short. Other causes evict single pages.
const GONE_RATIO_MAX: f64 = 0.1;

#[derive(Debug, Default)]
struct Staying {
    /// Reads whose pages were not checked yet, each with its slice's number, in order of completion.
    fresh: VecDeque<(usize, Read)>,
    /// Number of all reads, and a uniform sample of them.
    seen: u64,
    sample: Vec<(Instant, Read)>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Left {
    pub pages: u64,
    pub gone: u64,
}

impl Staying {
    pub fn add(&mut self, step: usize, read: Read) {
        self.fresh.push_back((step, read));
        self.seen += 1;
        if self.sample.len() < SAMPLE_READS {
            self.sample.push((Instant::now(), read));
        } else if let Ok(place) = usize::try_from(rand::rng().random_range(0..self.seen))
            && place < SAMPLE_READS
        {
            self.sample[place] = (Instant::now(), read);
        }
    }

    /// Returns the reads that are old enough to be checked when slice `step` begins. Returns each read only once.
    pub fn take_settled(&mut self, step: usize) -> Vec<Read> {
        let settled = self.fresh.iter().take_while(|(of, _)| of + SLICES_LATER <= step).count();
        self.fresh.drain(..settled).map(|(_, read)| read).collect()
    }

    /// Leaves out reads older than `idle_age`: the kernel may have evicted their idle pages.
    pub fn sample(&self, idle_age: Option<Duration>) -> Vec<Read> {
        let counts = |at: &Instant| idle_age.is_none_or(|age| at.elapsed() < age);
        self.sample.iter().filter(|(at, _)| counts(at)).map(|(_, read)| *read).collect()
    }
}

fn are_evicted(sample: impl Iterator<Item = Left>) -> bool {
    let left: Vec<Left> = sample.filter(|left| left.pages > 0).collect();
    let (pages, gone) = left.iter().fold((0, 0), |sum, left| (sum.0 + left.pages, sum.1 + left.gone));
    left.len() >= SAMPLE_READS_MIN && gone as f64 > pages as f64 * GONE_RATIO_MAX
}

#[cfg(test)]
mod staying_tests {
    use super::*;
    use ::host::units::BlockRange;

    fn read(number: u64) -> Read {
        Read { fork: 0, range: BlockRange::new(number, number + 1) }
    }

    #[test]
    fn a_slice_is_looked_at_once_when_the_next_one_is_read() {
        let mut staying = Staying::default();
        for (step, number) in [(0, 0), (1, 1), (0, 2), (2, 3)] {
            staying.add(step, read(number));
        }
        assert_eq!(staying.take_settled(1), []);
        assert_eq!(staying.take_settled(2), [read(0)]);
        assert_eq!(staying.take_settled(3), [read(1), read(2)]);
        assert_eq!(staying.take_settled(9), [read(3)]);
        assert_eq!(staying.take_settled(9), []);
    }

    #[test]
    fn a_tenth_may_go_and_no_more() {
        let mut staying = Staying::default();
        (0..10_000).for_each(|number| staying.add(0, read(number)));
        let gone_below =
            |end: u64| move |read: Read| Left { pages: 2, gone: if read.range.start < end { 2 } else { 0 } };
        let sample = staying.sample(None);
        assert!(!are_evicted(sample.iter().copied().map(gone_below(300))));
        assert!(are_evicted(sample.iter().copied().map(gone_below(3000))), "as of a sample of all");
        assert_eq!(staying.sample(Some(Duration::ZERO)), [], "older than what idle pages live");
        let dropped = sample.iter().map(|_| Left::default());
        assert!(!are_evicted(dropped), "what was dropped is not gone for lack of room");
    }
}
