//! Half-open ranges of blocks and of pages.

use serde::{Deserialize, Serialize};

/// A block's number within its fork, from 0. PostgreSQL's BlockNumber: at most 2³² − 2.
pub type BlockNumber = u32;

/// Contiguous blocks `[start, end)` of one fork. `u64` so that the end of the largest relation fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BlockRange {
    pub start: u64,
    pub end: u64,
}

/// Contiguous kernel pages `[start, end)` of one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageRange {
    pub start: u64,
    pub end: u64,
}

impl BlockRange {
    pub fn new(start: u64, end: u64) -> BlockRange {
        BlockRange { start, end }
    }

    /// Blocks in the range.
    pub fn blocks(self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    pub fn is_empty(self) -> bool {
        self.start >= self.end
    }
}

impl PageRange {
    pub fn new(start: u64, end: u64) -> PageRange {
        PageRange { start, end }
    }

    /// Pages in the range.
    pub fn pages(self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    pub fn is_empty(self) -> bool {
        self.start >= self.end
    }
}
