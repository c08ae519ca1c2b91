//! A slice of a fork as a byte array, which the planner scans repeatedly.

use roaring::RoaringBitmap;

use crate::MapSource;
use host::units::Bytes;

/// Neither wanted nor resident.
const COLD: u8 = 0;
/// Cached, or read by an earlier step.
const RESIDENT: u8 = u8::MAX;

/// One byte per block: cold, resident, or heat level plus one.
#[derive(Clone, Debug, Default)]
pub struct Cells {
    cells: Vec<u8>,
    /// Wanted blocks that were resident at `fill`.
    pub resident_wanted: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    pub start: u64,
    pub end: u64,
    /// Number of blocks between the previous run and this one. `None` for the first run, and if one of these blocks is
    /// resident, because the kernel splits reads there.
    pub gap: Option<u16>,
}

impl Cells {
    pub fn fill(&mut self, fork: &WantedFork, start: u64, end: u64) {
        self.cells.clear();
        self.cells.resize((end - start) as usize, COLD);
        for (level, (_, blocks)) in fork.levels.iter().enumerate() {
            for_each_range(blocks, start, end, |range| self.cells[range].fill(level as u8 + 1));
        }
        self.resident_wanted = 0;
        for_each_range(&fork.resident, start, end, |range| {
            let cells = &mut self.cells[range];
            self.resident_wanted += cells.iter().filter(|cell| **cell != COLD).count() as u64;
            cells.fill(RESIDENT);
        });
    }

    pub fn truncate(&mut self, end: u64) {
        let dropped = self.cells.drain(end as usize..);
        debug_assert!(dropped.as_slice().iter().all(|cell| *cell != RESIDENT), "only cut within a wanted run");
    }

    pub fn runs(&self, coldest: u8) -> impl Iterator<Item = Run> {
        let is_hot = move |cell: &u8| *cell > coldest && *cell != RESIDENT;
        let mut before: Option<usize> = None;
        let mut at = 0;
        std::iter::from_fn(move || {
            let start = at + self.cells[at..].iter().position(is_hot)?;
            let rest = &self.cells[start..];
            let end = start + rest.iter().position(|cell| !is_hot(cell)).unwrap_or(rest.len());
            let gap = before.map(|before| &self.cells[before..start]).filter(|gap| !gap.contains(&RESIDENT));
            (before, at) = (Some(end), end);
            Some(Run { start: start as u64, end: end as u64, gap: gap.map(|gap| gap.len() as u16) })
        })
    }

    /// Heat levels of wanted, uncached blocks, hottest first.
    pub fn levels(&self) -> impl Iterator<Item = u8> + use<> {
        let mut present = [false; 256];
        self.cells.iter().for_each(|cell| present[usize::from(*cell)] = true);
        (1..RESIDENT).rev().filter(move |cell| present[usize::from(*cell)]).map(|cell| cell - 1)
    }

    /// Heat level of each wanted, uncached block.
    pub fn levels_in(&self, start: u64, end: u64) -> impl Iterator<Item = u8> {
        self.cells[start as usize..end as usize].iter().filter(|cell| is_wanted(cell)).map(|cell| cell - 1)
    }

    pub fn mark_resident(&mut self, start: u64, end: u64) {
        self.cells[start as usize..end as usize].fill(RESIDENT);
    }

    /// Start of the run of wanted blocks that ends the slice; the slice's end if there is none.
    pub fn last_run_start(&self) -> u64 {
        self.cells.iter().rposition(|cell| !is_wanted(cell)).map_or(0, |last| last as u64 + 1)
    }
}

fn is_wanted(cell: &u8) -> bool {
    *cell != COLD && *cell != RESIDENT
}

fn for_each_range(blocks: &RoaringBitmap, start: u64, end: u64, mut visit: impl FnMut(std::ops::Range<usize>)) {
    let (Ok(first), Ok(last)) = (u32::try_from(start), u32::try_from(end - 1)) else { return };
    let mut ranges = blocks.range(first..=last);
    while let Some(range) = ranges.next_range() {
        visit((range.start() - first) as usize..(range.end() - first) as usize + 1);
    }
}

// Cuts a fork into slices, which the plan optimizes and then orders by heat.

/// Length of a slice, as a multiple of the largest read: 8 MB with reads of 256 kB. So a plan of terabytes stays small,
/// and a hot part stands out.
const SLICE_READS: u64 = 32;
/// Maximum length of a read: a slice's blocks are counted in 16 bits.
pub const MAX_READ_BLOCKS: u64 = u16::MAX as u64 / SLICE_READS;
/// Index blocks read before hot ones: the metapage, and a small B-tree's root.
const HEAD_BLOCKS: u64 = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    pub fork: u32,
    pub start: u64,
    pub end: u64,
    pub is_head: bool,
}

#[derive(Debug)]
pub struct Slices<'a> {
    wanted: &'a WantedFork,
    fork: u32,
    segment_blocks: u64,
    largest_read: u64,
    at: u64,
}

impl<'a> Slices<'a> {
    pub fn new(wanted: &'a WantedFork, fork: u32, segment_blocks: u32, largest_read: u64) -> Slices<'a> {
        Slices { wanted, fork, segment_blocks: segment_blocks.max(1).into(), largest_read, at: 0 }
    }

    pub fn next(&mut self, cells: &mut Cells) -> Option<Slice> {
        let start = self.next_wanted()?;
        let segment_end = (start / self.segment_blocks + 1) * self.segment_blocks;
        let mut end = (start + self.largest_read * SLICE_READS).min(segment_end).min(self.wanted.blocks);
        let is_head = self.wanted.is_index && self.wanted.precedence == Precedence::ByHeat && start < HEAD_BLOCKS;
        if is_head {
            end = end.min(HEAD_BLOCKS);
        }
        cells.fill(self.wanted, start, end);
        if !is_head && end < segment_end && self.is_missing(end) {
            // The slice ends within a run: its last, incomplete read is left to the next one.
            let cut = (end - start - cells.last_run_start()) % self.largest_read;
            end -= if cut < end - start { cut } else { 0 };
            cells.truncate(end - start);
        }
        self.at = end;
        Some(Slice { fork: self.fork, start, end, is_head })
    }

    fn next_wanted(&self) -> Option<u64> {
        let at = u32::try_from(self.at).ok()?;
        let nexts = self.wanted.levels.iter().filter_map(|(_, blocks)| blocks.range(at..).next());
        nexts.min().map(u64::from).filter(|next| *next < self.wanted.blocks)
    }

    fn is_missing(&self, block: u64) -> bool {
        let Ok(block) = u32::try_from(block) else { return false };
        self.wanted.levels.iter().any(|(_, blocks)| blocks.contains(block)) && !self.wanted.resident.contains(block)
    }
}

/// Order in which parts of relations are read. Any query needs the parts before `ByHeat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Precedence {
    /// Read by every new connection.
    Catalog,
    /// Small, and needed by index-only scans.
    VisibilityMap,
    IndexHead,
    ByHeat,
}

#[derive(Clone, Debug)]
pub struct WantedFork {
    pub precedence: Precedence,
    /// Whether the fork's first blocks are `Precedence::IndexHead`.
    pub is_index: bool,
    pub blocks: u64,
    /// Levels, coldest first: heat (relative uses, above 0) and blocks. At most 200, because `Cells` stores a level's
    /// number in one byte. A block's hottest level counts.
    pub levels: Vec<(f32, RoaringBitmap)>,
    pub resident: RoaringBitmap,
    /// Positions on the device, in fork order; empty if irrelevant or unknown.
    pub places: Vec<Place>,
}

/// Start of a part of the fork that is contiguous on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub first_block: u64,
    /// Bytes from the start of the device.
    pub device_bytes: u64,
}

impl WantedFork {
    /// Position on the device in bytes; `u64::MAX` if unknown.
    pub fn place_of(&self, block: u64, block_size: u32) -> u64 {
        let at = self.places.partition_point(|place| place.first_block <= block);
        let place = at.checked_sub(1).map(|at| self.places[at]);
        place.map_or(u64::MAX, |place| place.device_bytes + (block - place.first_block) * u64::from(block_size))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    pub block_size: u32,
    /// No read crosses a segment's end.
    pub segment_blocks: u32,
}

impl Geometry {
    pub fn of(source: &MapSource) -> Geometry {
        Geometry { block_size: source.block_size, segment_blocks: source.segment_blocks }
    }

    pub fn bytes(self, blocks: u64) -> Bytes {
        Bytes(blocks * u64::from(self.block_size))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::warm::plan::Precedence;

    fn cells(levels: &[&[u32]], resident: &[u32]) -> Cells {
        let levels = levels.iter().enumerate().map(|(heat, blocks)| (heat as f32 + 1.0, blocks.iter().collect()));
        let fork = WantedFork {
            precedence: Precedence::ByHeat,
            is_index: false,
            blocks: 100,
            levels: levels.collect(),
            resident: resident.iter().collect(),
            places: Vec::new(),
        };
        let mut cells = Cells::default();
        cells.fill(&fork, 10, 30);
        cells
    }

    #[test]
    fn a_block_in_two_levels_has_the_hotter() {
        let cells = cells(&[&[10, 11, 12], &[11]], &[]);
        assert_eq!(cells.levels().collect::<Vec<_>>(), [1, 0]);
        assert_eq!(cells.runs(1).collect::<Vec<_>>(), [Run { start: 1, end: 2, gap: None }]);
        assert_eq!(cells.runs(0).collect::<Vec<_>>(), [Run { start: 0, end: 3, gap: None }]);
    }

    #[test]
    fn a_resident_block_ends_a_run_and_forbids_a_gap() {
        let cells = cells(&[&[10, 11, 12, 15, 19]], &[11, 17, 29]);
        assert_eq!(cells.resident_wanted, 1);
        let runs: Vec<_> = cells.runs(0).map(|run| (run.start, run.end, run.gap)).collect();
        assert_eq!(runs, [(0, 1, None), (2, 3, None), (5, 6, Some(2)), (9, 10, None)]);
    }

    #[test]
    fn knows_the_run_at_its_end() {
        assert_eq!(cells(&[&[12, 28, 29, 30]], &[]).last_run_start(), 18);
        assert_eq!(cells(&[&[12]], &[]).last_run_start(), 20);
        assert_eq!(cells(&[&(0..40).collect::<Vec<_>>()], &[]).last_run_start(), 0);
    }
}
