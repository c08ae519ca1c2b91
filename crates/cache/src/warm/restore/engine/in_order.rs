//! While nothing else uses the device, reads long stretches in order, with a third of the CPU time of ordinary reads
//! (docs/decisions/fill-engine.md).

use std::sync::atomic::Ordering;

use super::{Place, Read, Work};
use ::host::linux;
use ::host::linux::page_cache::{CachedFile, Window};
use ::host::linux::threads::lock;
use ::host::units::{BlockRange, Bytes, PageRange};

/// Minimum share of a run of blocks that can be read in order. With a smaller share, ordinary reads load the run,
/// because in-order reads open three files.
const IN_ORDER_RATIO: f64 = 0.5;

struct Stretch<'a> {
    read: Read,
    slice: Option<usize>,
    first: u64,
    file: &'a dyn CachedFile,
    cached: Vec<PageRange>,
}

impl Stretch<'_> {
    fn read_of(&self, part: BlockRange) -> Read {
        Read { fork: self.read.fork, range: BlockRange::new(self.first + part.start, self.first + part.end) }
    }
}

impl Work<'_> {
    /// Reads a long run of blocks in order, until server processes become busy. Returns the rest for ordinary reads,
    /// which also report errors.
    pub(super) fn read_in_order(&self, slice: Option<usize>, read: Read, buffer: &mut Vec<u8>) -> Read {
        if self.has_failed(read.fork) {
            return read;
        }
        let fork = &self.forks[read.fork].entry;
        let Place { segment, first, range, pages } = self.place(read.range);
        let Ok(Some(file)) = self.files.get((read.fork, segment), &fork.path, fork.fork) else { return read };
        let Some(window) = self.window(file.file_system()) else { return read };
        let block_size = u64::from(self.tier.files.geometry.block_size);
        let step = (window.piece().0 / block_size).max(1);
        // Reading in order ends where read-ahead would fetch unwanted blocks beyond the wanted ones.
        let end = range.end.saturating_sub(window.reach().0.div_ceil(block_size)) / step * step;
        if (end.saturating_sub(range.start) as f64) < range.blocks() as f64 * IN_ORDER_RATIO
            || step < self.plan.largest_read_blocks()
        {
            return read;
        }
        let Ok(counts) = file.read_counts(pages) else { return read };
        if counts.cached * 2 > pages.pages() {
            return read;
        }
        let cached = if counts.cached > 0 { file.read_resident(pages) } else { Ok(Vec::new()) };
        let Ok(cached) = cached else { return read };
        // Runs last, because it opens three files.
        let Ok(mut in_order) = file.open_in_order(window) else { return read };
        let stretch = Stretch { read, slice, first, file: &*file, cached };
        let pace = &self.governor().pace;
        let (mut at, has_failed) =
            self.read_parts(&stretch, BlockRange::new(range.start, end), step, |part, missing| {
                let mut fill = |part| in_order.apply_read(self.tier.files.pages(part)).map(|filled| filled.0);
                let filled = pace.read(missing, || fill(part))?;
                self.keep_hot(&fork.hot, stretch.read_of(part).range, first, fill)?;
                Ok(missing.0.min(filled))
            });
        if has_failed {
            self.in_order_fails.store(true, Ordering::Relaxed);
        }
        // Skips blocks that the kernel is reading: touching a PG_readahead page would make it read beyond this range.
        if at == end {
            (at, _) = self.read_parts(&stretch, BlockRange::new(at, range.end), step, |part, missing| {
                let mut fill = |run: BlockRange| self.fill(&*file, run, buffer);
                let mut short = 0;
                for run in self.absent(&*file, part)? {
                    short += self.bytes(run) - pace.read(Bytes(self.bytes(run)), || fill(run))?;
                    self.keep_hot(&fork.hot, stretch.read_of(run).range, first, &mut fill)?;
                }
                Ok(missing.0.saturating_sub(short))
            });
        }
        if at < range.end {
            self.note_ahead(&stretch, BlockRange::new(at, range.end.min(at + window.reach().0 / block_size)));
        }
        Read { range: BlockRange::new(first + at, read.range.end), ..read }
    }

    /// Calls `read` with each part and its uncached bytes, to get the bytes loaded. Returns the end reached, and
    /// whether a read failed.
    fn read_parts(
        &self,
        stretch: &Stretch<'_>,
        parts: BlockRange,
        step: u64,
        mut read: impl FnMut(BlockRange, Bytes) -> linux::Result<u64>,
    ) -> (u64, bool) {
        let mut at = parts.start;
        while at < parts.end && self.may_read_in_order() {
            let part = BlockRange::new(at, ((at / step + 1) * step).min(parts.end));
            let Ok(loaded) = read(part, self.missing_bytes(part, stretch)) else { return (at, true) };
            let done = stretch.read_of(part);
            self.begin(stretch.slice, done);
            self.note_brought(done, stretch.first, &stretch.cached);
            self.note(stretch.slice, done, self.count(done, loaded));
            at = part.end;
        }
        (at, false)
    }

    fn absent(&self, file: &dyn CachedFile, part: BlockRange) -> linux::Result<Vec<BlockRange>> {
        let is_absent = |blocks: BlockRange| {
            let pages = self.tier.files.pages(blocks);
            file.read_counts(pages).map(|counts| counts.cached < pages.pages())
        };
        if !is_absent(part)? {
            return Ok(Vec::new());
        }
        let mut runs: Vec<BlockRange> = Vec::new();
        for block in part.start..part.end {
            match runs.last_mut() {
                _ if !is_absent(BlockRange::new(block, block + 1))? => {}
                Some(run) if run.end == block => run.end += 1,
                _ => runs.push(BlockRange::new(block, block + 1)),
            }
        }
        Ok(runs)
    }

    /// Records the blocks in `ahead` that the kernel has already read ahead. `ahead` starts at the first block that
    /// pgthaw has not read, because it stopped before the end of the run of blocks.
    fn note_ahead(&self, stretch: &Stretch<'_>, ahead: BlockRange) {
        let Ok(absent) = self.absent(stretch.file, ahead) else { return };
        let starts = [ahead.start].into_iter().chain(absent.iter().map(|run| run.end));
        let ends = absent.iter().map(|run| run.start).chain([ahead.end]);
        for came in starts.zip(ends).map(|(start, end)| BlockRange::new(start, end)).filter(|came| !came.is_empty()) {
            self.note_brought(stretch.read_of(came), stretch.first, &stretch.cached);
            self.count(stretch.read_of(came), self.missing_bytes(came, stretch).0);
        }
    }

    pub(super) fn may_read_in_order(&self) -> bool {
        self.governor().may_read_in_order()
            && self.host().control.os_stopped_by().is_none()
            && !self.in_order_fails.load(Ordering::Relaxed)
    }

    /// The kernel's read-ahead window is constant, so one query suffices.
    fn window(&self, file_system: u64) -> Option<Window> {
        let ask = || self.tier.files.cache.read_window(file_system);
        *lock(&self.windows).entry(file_system).or_insert_with(ask)
    }

    fn missing_bytes(&self, part: BlockRange, stretch: &Stretch<'_>) -> Bytes {
        let pages = self.tier.files.pages(part);
        let within = |run: &PageRange| PageRange::new(run.start.max(pages.start), run.end.min(pages.end)).pages();
        let missing = pages.pages() - stretch.cached.iter().map(within).sum::<u64>();
        Bytes(missing * self.tier.files.cache.page_bytes())
    }
}
