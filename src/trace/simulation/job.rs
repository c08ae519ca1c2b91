//! A job as it is simulated.

use crate::trace::touched::Piece;
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
