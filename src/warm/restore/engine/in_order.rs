//! Long stretches while nobody else needs the device: in order, which takes a third of the processor time
//! (docs/journal/2026-11-26-read-in-order.md).

use std::sync::atomic::Ordering;

use super::{Place, Read, Work};
use crate::linux::page_cache::{CachedFile, InOrder};
use crate::units::{BlockRange, Bytes, PageRange};

/// A stretch of which a smaller part would come in order is not worth a file of its own.
const IN_ORDER_RATIO: f64 = 0.5;

/// A stretch that is being read.
struct Stretch<'a> {
    read: Read,
    slice: Option<usize>,
    /// The segment's first block. The others are within the segment.
    first: u64,
    range: BlockRange,
    file: &'a dyn CachedFile,
    /// What of it was cached before.
    cached: Vec<PageRange>,
}

impl Stretch<'_> {
    /// Blocks of the segment as a read of the fork.
    fn read_of(&self, part: BlockRange) -> Read {
        Read { fork: self.read.fork, range: BlockRange::new(self.first + part.start, self.first + part.end) }
    }
}

impl Work<'_> {
    /// Reads a stretch in order as long as nobody comes. Returns what is left of it, to be read otherwise. What fails here fails there
    /// again, and is told then.
    pub(super) fn read_in_order(&self, slice: Option<usize>, read: Read, buffer: &mut Vec<u8>) -> Read {
        if self.has_failed(read.fork) {
            return read;
        }
        let fork = &self.engine.forks[read.fork];
        let Place { segment, first, range, pages } = self.place(read.range);
        let Ok(Some(file)) = self.files.get((read.fork, segment), &fork.path, fork.fork) else { return read };
        let Ok(Some(mut in_order)) = file.open_in_order() else { return read };
        let end = self.in_order_end(range, &*in_order);
        let Ok(counts) = file.read_counts(pages) else { return read };
        if (end.saturating_sub(range.start) as f64) < range.blocks() as f64 * IN_ORDER_RATIO
            || counts.cached * 2 > pages.pages()
            || self.window_blocks(&*in_order) < self.largest_read_blocks()
        {
            return read;
        }
        let cached = if counts.cached > 0 { file.read_resident(pages) } else { Ok(Vec::new()) };
        let Ok(cached) = cached else { return read };
        let stretch = Stretch { read, slice, first, range, file: &*file, cached };
        let at = self.read_stretch(&stretch, &mut *in_order, end, buffer);
        if at < range.end {
            self.note_ahead(&stretch, BlockRange::new(at, range.end));
        }
        Read { range: BlockRange::new(first + at, read.range.end), ..read }
    }

    /// Reads up to `in_order_end` in order, and the rest in reads of their own size. Returns how far it came.
    fn read_stretch(
        &self,
        stretch: &Stretch<'_>,
        in_order: &mut dyn InOrder,
        in_order_end: u64,
        buffer: &mut Vec<u8>,
    ) -> u64 {
        let hot = &self.engine.forks[stretch.read.fork].hot;
        let step = self.window_blocks(in_order);
        let mut at = stretch.range.start;
        while at < stretch.range.end && self.may_read_in_order() {
            let is_in_order = at < in_order_end;
            let part = BlockRange::new(at, ((at / step + 1) * step).min(stretch.range.end));
            let mut fill = |part: BlockRange| match is_in_order {
                true => in_order.apply_read(self.engine.files.pages(part)).map(|filled| filled.0),
                false => self.fill(stretch.file, part, buffer),
            };
            let missing_bytes = self.missing_bytes(part, &stretch.cached);
            let done = stretch.read_of(part);
            let filled = self.engine.governor.read(missing_bytes, || fill(part));
            let Ok(filled) =
                filled.and_then(|filled| self.keep_hot(hot, done.range, stretch.first, fill).map(|()| filled))
            else {
                self.in_order_fails.store(true, Ordering::Relaxed);
                break;
            };
            self.begin(stretch.slice, done);
            self.note_brought(done, stretch.first, &stretch.cached);
            self.note(stretch.slice, done, self.count(done, missing_bytes.0.min(filled)));
            at = part.end;
        }
        at
    }

    /// What the kernel has read ahead of a stretch that was left came by it too.
    fn note_ahead(&self, stretch: &Stretch<'_>, left: BlockRange) {
        let Ok(runs) = stretch.file.read_resident(self.engine.files.pages(left)) else { return };
        for run in runs {
            let came = self.missing_bytes_of(run, &stretch.cached);
            let blocks = self.engine.files.blocks_with(run);
            let part = BlockRange::new(blocks.start.max(left.start), blocks.end.min(left.end));
            self.note_brought(stretch.read_of(part), stretch.first, &stretch.cached);
            self.count(stretch.read_of(part), came.0);
        }
    }

    pub(super) fn may_read_in_order(&self) -> bool {
        self.engine.governor.may_read_in_order()
            && self.engine.control.os_stopped_by().is_none()
            && !self.in_order_fails.load(Ordering::Relaxed)
    }

    /// From here on reads are of their own size: the kernel reads so far ahead of whoever reads in order, and what comes after may not
    /// be wanted.
    fn in_order_end(&self, range: BlockRange, in_order: &dyn InOrder) -> u64 {
        let reach = in_order.reach().0.div_ceil(self.engine.files.geometry.block_size.into());
        let step = self.window_blocks(in_order);
        range.end.saturating_sub(reach) / step * step
    }

    fn window_blocks(&self, in_order: &dyn InOrder) -> u64 {
        (in_order.window().0 / u64::from(self.engine.files.geometry.block_size)).max(1)
    }

    fn missing_bytes(&self, part: BlockRange, cached: &[PageRange]) -> Bytes {
        self.missing_bytes_of(self.engine.files.pages(part), cached)
    }

    /// Bytes of `pages` that are in none of the runs.
    fn missing_bytes_of(&self, pages: PageRange, runs: &[PageRange]) -> Bytes {
        let within = |run: &PageRange| PageRange::new(run.start.max(pages.start), run.end.min(pages.end)).pages();
        let missing = pages.pages() - runs.iter().map(within).sum::<u64>();
        Bytes(missing * self.engine.files.cache.page_bytes())
    }
}
