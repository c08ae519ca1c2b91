//! A job as it is simulated: what it reads, and how it fetches blocks by itself, one by one or read ahead by the kernel.

use super::touched::{Piece, Touched, count_in};
use crate::warm::DeviceProfile;

/// Reads of a preload that are under way at once.
pub const DEPTH: usize = 4;

/// As many processes in the mean are more than one.
const SEVERAL: f64 = 1.5;

/// What a job will do.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// The pieces that it touches, in order.
    pub(super) steps: Vec<Step>,
    /// Their places, by fork and position.
    pub(super) order: Vec<u32>,
    /// Blocks of all of them.
    pub(super) blocks: u64,
    /// Seconds in which it does not wait for the device.
    pub(super) own_seconds: f64,
    /// The steps of each of its processes, in order.
    pub(super) readers: Vec<Vec<u32>>,
    /// How many of them fetch at once, in the mean.
    pub(super) at_once: f64,
    /// The device as the job saw it: never slower than the film proves.
    pub(super) device: DeviceProfile,
    pub(super) block_size: u32,
}

/// A piece, with what the job needs to fetch it alone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Step {
    pub(super) piece: Piece,
    /// Blocks of it that are not cached.
    pub(super) missing_blocks: u32,
    /// Reads that they take one after another, and the device's seconds for all of them.
    pub(super) reads: u32,
    pub(super) seconds: f64,
    /// The kernel reads it ahead, while the job works on what came before.
    pub(super) is_ahead: bool,
}

impl Job {
    /// Do several of its processes fetch at once, and not one after the other?
    pub(super) fn fetches_at_once(&self) -> bool {
        self.at_once >= SEVERAL
    }

    /// Seconds of its own work for a block.
    pub(super) fn block_seconds(&self) -> f64 {
        self.own_seconds * self.at_once / self.blocks.max(1) as f64
    }

    /// Seconds that it takes at least, whatever is brought: its own work, of several processes that of the longest.
    pub fn least_seconds(&self) -> f64 {
        let blocks = |steps: &Vec<u32>| steps.iter().map(|at| u64::from(self.steps[*at as usize].piece.blocks)).sum();
        let most: u64 = self.readers.iter().map(blocks).max().unwrap_or_default();
        (self.block_seconds() * most as f64).min(self.own_seconds)
    }

    /// Seconds that one read of so many blocks takes.
    pub(super) fn read_seconds(&self, blocks: u32) -> f64 {
        seconds(&self.device, 1.0, f64::from(blocks) * f64::from(self.block_size))
    }
}

/// The device as one of `at_once` processes finds it that ask at the same time: while it waits the others are served.
pub(super) fn beside(device: DeviceProfile, at_once: f64) -> DeviceProfile {
    DeviceProfile { alone_seconds: device.alone_seconds / at_once, ..device }
}

/// [`DeviceProfile::seconds`], of a part of a read too.
pub(super) fn seconds(device: &DeviceProfile, reads: f64, bytes: f64) -> f64 {
    let (of_reads, of_bytes) = (reads / device.reads_per_second, bytes / device.bandwidth.0.max(1) as f64);
    of_reads + of_bytes - device.overlap * of_reads.min(of_bytes)
}

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
