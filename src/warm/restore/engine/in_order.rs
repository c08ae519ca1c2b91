//! Long stretches while nobody else needs the device: in order, which takes a fifth of the processor time
//! (docs/journal/2026-11-26-read-in-order.md).

use super::{Place, Read, Work};
use crate::linux;
use crate::units::{BlockRange, Bytes, PageRange};

/// Between two looks whether to go on. It ends where a folio of any read-ahead does.
const STEP: Bytes = Bytes(1 << 20);

/// A stretch of which a smaller part would come in order is not worth a file of its own.
const IN_ORDER_RATIO: f64 = 0.5;

impl Work<'_> {
    /// Reads a stretch in order as long as nobody comes. Returns what is left of it: to be read otherwise, and where reading in order
    /// fails to fail again.
    pub(super) fn read_in_order(
        &self,
        slice: Option<usize>,
        read: Read,
        buffer: &mut Vec<u8>,
    ) -> Result<Read, linux::Error> {
        let engine = self.engine;
        if read.range.blocks() <= engine.plan.largest_read_blocks().into() || self.has_failed(read.fork) {
            return Ok(read);
        }
        let fork = &engine.forks[read.fork];
        let Place { segment, first, range, pages } = self.place(read.range);
        let Some(file) = self.files.get((read.fork, segment), &fork.path, fork.fork)? else { return Ok(read) };
        let Ok(Some(mut in_order)) = file.open_in_order() else { return Ok(read) };
        let in_order_end = self.in_order_end(range, in_order.reach());
        let counts = file.read_counts(pages)?;
        let least = (range.blocks() as f64 * IN_ORDER_RATIO) as u64;
        if in_order_end < range.start + least || counts.cached * 2 > pages.pages() {
            return Ok(read);
        }
        let cached = if counts.cached > 0 { file.read_resident(pages)? } else { Vec::new() };
        let mut at = range.start;
        while at < range.end && self.may_read_in_order() {
            let is_in_order = at < in_order_end;
            let part = BlockRange::new(at, self.step_end(at).min(if is_in_order { in_order_end } else { range.end }));
            let missing_bytes =
                Bytes(missing_pages(engine.files.pages(part), &cached) * engine.files.cache.page_bytes());
            let done = Read { fork: read.fork, range: BlockRange::new(first + part.start, first + part.end) };
            self.begin(slice, done);
            let mut fill = |part: BlockRange| match is_in_order {
                true => in_order.apply_read(engine.files.pages(part)).map(|filled| filled.0),
                false => self.fill(&*file, part, buffer),
            };
            let filled = engine.governor.read(missing_bytes, || fill(part));
            let Ok(filled) = filled else { break };
            self.note_brought(done, first, &cached);
            self.keep_hot(&fork.hot, done.range, first, fill)?;
            self.note(slice, done, self.count(done, missing_bytes.0.min(filled)));
            at = part.end;
        }
        Ok(Read { range: BlockRange::new(first + at, read.range.end), ..read })
    }

    fn may_read_in_order(&self) -> bool {
        self.engine.governor.may_read_in_order() && self.engine.control.os_stopped_by().is_none()
    }

    /// From here on reads are of their own size: the kernel reads so far ahead of whoever reads in order, and what comes after may not
    /// be wanted.
    fn in_order_end(&self, range: BlockRange, reach: Bytes) -> u64 {
        let largest = u64::from(self.engine.plan.largest_read_blocks());
        range.end.saturating_sub(reach.0.div_ceil(self.engine.files.geometry.block_size.into())) / largest * largest
    }

    fn step_end(&self, block: u64) -> u64 {
        let step = (STEP.0 / u64::from(self.engine.files.geometry.block_size)).max(1);
        (block / step + 1) * step
    }
}

/// How many of `pages` are in none of the runs.
fn missing_pages(pages: PageRange, runs: &[PageRange]) -> u64 {
    let within = |run: &PageRange| PageRange::new(run.start.max(pages.start), run.end.min(pages.end)).pages();
    pages.pages() - runs.iter().map(within).sum::<u64>()
}
