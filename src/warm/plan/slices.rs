//! Cuts a fork into slices: the stretches within which the plan looks for what costs least, and which it then orders by
//! heat.

use super::cells::Cells;
use super::wanted::{Precedence, WantedFork};

/// Largest reads of a slice. Long enough that a plan of terabytes stays small, short enough that a hot part of a table
/// stands out: 8 MB with reads of 256 kB.
const SLICE_READS: u32 = 32;
/// A slice's blocks are counted in 16 bits.
pub const MAX_READ_BLOCKS: u32 = u16::MAX as u32 / SLICE_READS;
/// Blocks of an index that go ahead of everything hot: the metapage and the root that a small B-tree has.
const HEAD_BLOCKS: u64 = 4;

/// Where a slice is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    pub fork: u32,
    pub start: u64,
    pub end: u64,
    pub is_head: bool,
}

/// Walks a fork.
#[derive(Debug)]
pub struct Slices<'a> {
    wanted: &'a WantedFork,
    fork: u32,
    segment_blocks: u64,
    largest_read: u32,
    at: u64,
}

impl<'a> Slices<'a> {
    pub fn new(wanted: &'a WantedFork, fork: u32, segment_blocks: u32, largest_read: u32) -> Slices<'a> {
        Slices { wanted, fork, segment_blocks: segment_blocks.max(1).into(), largest_read, at: 0 }
    }

    /// The next slice with a wanted block; leaves its blocks in `cells`.
    pub fn next(&mut self, cells: &mut Cells) -> Option<Slice> {
        let start = self.next_wanted()?;
        let segment_end = (start / self.segment_blocks + 1) * self.segment_blocks;
        let mut end = (start + u64::from(self.largest_read * SLICE_READS)).min(segment_end).min(self.wanted.blocks);
        let is_head = self.wanted.is_index && self.wanted.precedence == Precedence::ByHeat && start < HEAD_BLOCKS;
        if is_head {
            end = end.min(HEAD_BLOCKS);
        }
        cells.fill(self.wanted, start, end);
        if !is_head && end < segment_end && self.is_missing(end) {
            end -= self.cut_back(cells);
        }
        self.at = end;
        Some(Slice { fork: self.fork, start, end, is_head })
    }

    /// Moves the end out of the middle of a run, to where a read of that run would have ended anyway: cutting a fork
    /// into slices then costs no read. Returns the blocks cut off.
    fn cut_back(&self, cells: &mut Cells) -> u64 {
        let run = cells.last_run_start();
        let cut = (cells.len() - run) % self.largest_read;
        if cut == cells.len() {
            return 0;
        }
        cells.truncate(cells.len() - cut);
        cut.into()
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
