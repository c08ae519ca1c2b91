//! How a job fetches blocks by itself: which come one by one, and which the kernel reads ahead.

use super::touched::{Piece, Touched, count_in};

/// The kernel reads ahead in pieces of this size where blocks are asked for one after another, its default.
const READ_AHEAD_BYTES: u64 = 128 << 10;

/// What is read ahead costs the job no more reads of this size than it would cost a preload: that larger reads would spare anything
/// there is not taken for granted.
const LARGE_READ_BYTES: u64 = 512 << 10;

/// With at most this part of its blocks fetched one by one a stretch is read ahead, 0 to 1.
const AHEAD_SINGLES_MAX: f64 = 0.1;

/// How the job fetches blocks, as far as the film tells.
#[derive(Clone, Copy, Debug)]
pub struct Fetching {
    singles: Singles,
    ahead_blocks: u32,
    large_blocks: f64,
}

/// The part of the blocks that came one by one, of stretches that are too short to be read ahead and of long ones, 0 to 1.
#[derive(Clone, Copy, Debug)]
struct Singles {
    short: f64,
    long: f64,
}

impl Singles {
    /// Where nobody counted.
    const USUAL: Singles = Singles { short: 1.0, long: 0.0 };

    /// Of so many reads: long stretches take the fewest that they can do with, short ones what is left, up to one for each block, and
    /// what is left then came of long stretches again. Neighbours of short ones come together where the kernel reads around.
    fn of(reads: u64, short_blocks: u64, long_blocks: u64, long_fewest: u64) -> Singles {
        let left = reads.saturating_sub(long_fewest);
        let of_short = left.min(short_blocks);
        let of_long = (left - of_short).min(long_blocks - long_fewest);
        let part = |reads: u64, blocks: u64, none: f64| if blocks > 0 { reads as f64 / blocks as f64 } else { none };
        Singles {
            short: part(of_short, short_blocks, Singles::USUAL.short),
            long: part(of_long, long_blocks - long_fewest, Singles::USUAL.long),
        }
    }
}

impl Fetching {
    /// By the reads of the device, where the film was of a cold run and they were counted.
    pub fn new(touched: &Touched, counted_reads: Option<u64>, block_size: u32) -> Fetching {
        let ahead_blocks = (READ_AHEAD_BYTES / u64::from(block_size)).max(1) as u32;
        let (mut short_blocks, mut long_blocks, mut long_fewest) = (0, 0, 0);
        for blocks in touched.pieces.iter().map(|piece| fetched_blocks(touched, piece)) {
            if blocks >= ahead_blocks {
                long_blocks += u64::from(blocks);
                long_fewest += u64::from(blocks.div_ceil(ahead_blocks));
            } else {
                short_blocks += u64::from(blocks);
            }
        }
        let singles = counted_reads.map(|reads| Singles::of(reads, short_blocks, long_blocks, long_fewest));
        Fetching {
            singles: singles.unwrap_or(Singles::USUAL),
            ahead_blocks,
            large_blocks: (LARGE_READ_BYTES / u64::from(block_size)) as f64,
        }
    }

    fn is_long(self, blocks: u32) -> bool {
        blocks >= self.ahead_blocks
    }

    /// How often the job waits for a part of a stretch.
    pub fn reads_of(self, blocks: u32) -> u32 {
        let ahead = f64::from(blocks.div_ceil(self.ahead_blocks));
        let reads = match self.is_long(blocks) {
            true => ahead + self.singles.long * (f64::from(blocks) - ahead),
            false => self.singles.short * f64::from(blocks),
        };
        reads.round() as u32
    }

    /// The reads that a stretch costs the device.
    pub fn priced_reads_of(self, blocks: u32) -> f64 {
        let large = f64::from(blocks) / self.large_blocks;
        match self.is_long(blocks) {
            true => large + self.singles.long * (f64::from(blocks) - large),
            false => large.max(self.singles.short * f64::from(blocks)),
        }
    }

    pub fn is_ahead(self, blocks: u32) -> bool {
        self.is_long(blocks) && self.singles.long <= AHEAD_SINGLES_MAX
    }
}

/// Blocks of a piece that were fetched when the film was recorded.
pub fn fetched_blocks(touched: &Touched, piece: &Piece) -> u32 {
    piece.blocks - count_in(&touched.forks[piece.fork as usize].found, piece.start, piece.blocks)
}
