//! Measures what the device of a data directory can give: reads of existing relation files past the page cache, nothing
//! written, within a time and a number of bytes.
//!
//! Threads read, as many as reads are to be in flight: that needs nothing of the kernel, and a device that they cannot
//! saturate is not what a restore waits for. The first moments of each phase do not count, because limiters let a burst
//! through; no block is read twice while there are others, because caches below the device would answer.

mod files;
mod fit;
mod measurement;
mod phase;
mod store;

use std::time::{Duration, Instant};

pub use files::{SampleFile, find_sample_files};
pub use measurement::{DepthPoint, Fit, Measurement, SizePoint};
pub use store::{DeviceRecord, ProfileStore, StoredDevice, StoredLimit};

use files::{Deck, SIZES};
use phase::{Phase, Speed};

use super::{Control, Error};
use crate::files::Tree;
use crate::units::Bytes;

/// What a probe may take at most, unless its device hangs.
pub const PROBE_TIME: Duration = Duration::from_secs(10);

/// Small reads: a block's usual size.
const SMALL_READ: u64 = 8 << 10;
/// Small reads in flight.
const DEPTHS: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];
/// Bytes of a read in order.
const SEQUENTIAL_READ: u64 = 1 << 20;
/// Large reads in flight: few are enough, many would take long to stop.
const LARGE_DEPTHS: std::ops::RangeInclusive<u32> = 4..=16;

/// The share of the time and of the bytes that each phase has. The bytes' are 1 together; the time's stay well below, as
/// the last reads of a phase may wait for a limiter.
const DEPTH_SHARE: (f64, f64) = (0.045, 0.02);
const SIZE_SHARE: (f64, f64) = (0.045, 0.07);
const SEQUENTIAL_SHARE: (f64, f64) = (0.15, 0.36);

/// One probe.
pub struct Probe<'a> {
    /// The data directory.
    pub directory: &'a Tree,
    /// What to read of.
    pub files: &'a [SampleFile],
    /// Bytes that it may read.
    pub budget: Bytes,
    pub control: &'a Control,
    /// Is told what is done next, after how many of how many steps.
    pub progress: &'a dyn Fn(&str, u64, u64),
}

impl std::fmt::Debug for Probe<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Probe").field("files", &self.files).field("budget", &self.budget).finish_non_exhaustive()
    }
}

/// What the phases share.
struct Running<'a> {
    probe: &'a Probe<'a>,
    deck: Deck,
    done: u64,
    reads: u64,
    read_bytes: u64,
}

impl Probe<'_> {
    /// Measures. `None` when the user stopped it.
    ///
    /// # Errors
    /// When there is too little to read, or when the files cannot be read directly.
    pub fn run(&self) -> Result<Option<Measurement>, Error> {
        let started = Instant::now();
        let mut running =
            Running { probe: self, deck: Deck::new(self.directory, self.files)?, done: 0, reads: 0, read_bytes: 0 };
        let Some(by_depth) = running.measure_depths()? else { return Ok(None) };
        let small = fit::summarize_depths(&by_depth);
        let large_depth = small.depth.clamp(*LARGE_DEPTHS.start(), *LARGE_DEPTHS.end());
        let Some(by_size) = running.measure_sizes(large_depth, small.reads_per_second)? else { return Ok(None) };
        let Some(sequential) = running.measure_sequential(large_depth)? else { return Ok(None) };
        let sequential_bandwidth = Bytes((sequential.reads_per_second * SEQUENTIAL_READ as f64) as u64);
        let profile = fit::compute_profile(small, &by_size, sequential_bandwidth);
        let alone = by_depth[0];
        Ok(Some(Measurement {
            profile,
            latency_us_p50: alone.latency_us_p50,
            latency_us_p99: alone.latency_us_p99,
            sequential_bandwidth,
            fit: fit::fit_prices(&by_size, &profile),
            profile_error_ratio_max: fit::compute_error_ratio(&by_size, &profile),
            by_depth,
            by_size,
            reads: running.reads,
            read_bytes: Bytes(running.read_bytes),
            seconds: started.elapsed().as_secs_f64(),
            has_read_twice: running.deck.has_read_twice(),
        }))
    }
}

impl Running<'_> {
    /// Small reads with more and more in flight, until more does not help.
    fn measure_depths(&mut self) -> Result<Option<Vec<DepthPoint>>, Error> {
        let mut points: Vec<DepthPoint> = Vec::new();
        for depth in DEPTHS {
            let what = format!("random reads of {}, {depth} at a time", Bytes(SMALL_READ));
            let Some(speed) = self.run(&what, Phase::random(SMALL_READ, depth), DEPTH_SHARE)? else { return Ok(None) };
            points.push(DepthPoint {
                depth,
                reads_per_second: speed.reads_per_second,
                latency_us_p50: speed.latency_us_p50,
                latency_us_p99: speed.latency_us_p99,
            });
            if fit::is_flat(&points) {
                break;
            }
        }
        Ok(Some(points))
    }

    fn measure_sizes(&mut self, depth: u32, small_per_second: f64) -> Result<Option<Vec<SizePoint>>, Error> {
        let mut points = vec![SizePoint { read_bytes: Bytes(SMALL_READ), reads_per_second: small_per_second }];
        for size in SIZES {
            let what = format!("random reads of {}, {depth} at a time", Bytes(size));
            let Some(speed) = self.run(&what, Phase::random(size, depth), SIZE_SHARE)? else { return Ok(None) };
            points.push(SizePoint { read_bytes: Bytes(size), reads_per_second: speed.reads_per_second });
        }
        Ok(Some(points))
    }

    fn measure_sequential(&mut self, depth: u32) -> Result<Option<Speed>, Error> {
        self.run("reads in order", Phase::sequential(SEQUENTIAL_READ, depth), SEQUENTIAL_SHARE)
    }

    /// Runs a phase with its share of the time and of the bytes. `None` when the user stopped it.
    fn run(&mut self, what: &str, phase: Phase, (time, bytes): (f64, f64)) -> Result<Option<Speed>, Error> {
        let steps = DEPTHS.len() + SIZES.len() + 1;
        (self.probe.progress)(what, self.done, steps as u64);
        self.done += 1;
        let budget = (self.probe.budget.0 as f64 * bytes) as u64;
        let done = phase.run(&self.deck, PROBE_TIME.mul_f64(time), budget, self.probe.control)?;
        self.reads += done.reads;
        self.read_bytes += done.read_bytes;
        if self.probe.control.is_interrupted() {
            return Ok(None);
        }
        done.speed.map(Some).ok_or(Error::TooFewReads(what.to_owned()))
    }
}
