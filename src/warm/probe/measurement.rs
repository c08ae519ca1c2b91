//! What a probe measured.

use serde::{Deserialize, Serialize};

use crate::units::Bytes;
use crate::warm::DeviceProfile;

/// What was measured. Rates are those of the phases' later parts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// What a restore plans with.
    pub profile: DeviceProfile,
    /// Of one small read at a time, in microseconds.
    pub latency_us_p50: f64,
    pub latency_us_p99: f64,
    /// Bytes per second of reads of 1 MiB in order.
    pub sequential_bandwidth: Bytes,
    /// Random reads of 8 KiB.
    pub by_depth: Vec<DepthPoint>,
    /// Random reads, the useful number of them in flight.
    pub by_size: Vec<SizePoint>,
    /// How well `seconds = reads ÷ reads_per_second + bytes ÷ bandwidth` describes `by_size`.
    pub fit: Fit,
    /// How far the profile itself is off there at most, as a ratio of the measured time.
    pub profile_error_ratio_max: f64,
    /// What the probe itself cost.
    pub reads: u64,
    pub read_bytes: Bytes,
    pub seconds: f64,
    /// Did it run out of blocks that had not been read yet?
    pub has_read_twice: bool,
}

impl Measurement {
    /// A profile of before 2026-11-27 does not say how long a read alone takes; what was measured does.
    pub(super) fn complete(&mut self) {
        if self.profile.alone_seconds == 0.0 {
            self.profile.alone_seconds = alone_seconds(&self.by_depth);
        }
    }
}

/// Seconds of a small read at a time, the median: one pause of a shared disk would make a mean of few reads anything. 0 where none was measured.
pub fn alone_seconds(points: &[DepthPoint]) -> f64 {
    points.iter().find(|point| point.depth == 1).map_or(0.0, |point| point.latency_us_p50 / 1e6)
}

/// Small random reads with so many in flight.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct DepthPoint {
    pub depth: u32,
    pub reads_per_second: f64,
    pub latency_us_p50: f64,
    pub latency_us_p99: f64,
}

/// Random reads of one size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SizePoint {
    pub read_bytes: Bytes,
    pub reads_per_second: f64,
}

impl SizePoint {
    /// Bytes per second.
    pub fn bandwidth(&self) -> Bytes {
        Bytes((self.reads_per_second * self.read_bytes.0 as f64) as u64)
    }
}

/// The prices that describe the measured reads best, one added to the other.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fit {
    pub reads_per_second: f64,
    pub bandwidth: Bytes,
    /// How far they are off at most, as a ratio of the measured time.
    pub error_ratio_max: f64,
}
