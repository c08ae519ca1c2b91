//! What a block device can give.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::units::Bytes;

/// The two prices of a device, and how to ask it.
///
/// A stretch of reads costs `reads ÷ reads_per_second` and `bytes ÷ bandwidth`, one on top of the other (docs/plan.md has
/// the measurement): what a plan saves of the one is there for the server's own misses, which wait in the same queue.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeviceProfile {
    /// Random reads that it serves in a second. More than 0.
    pub reads_per_second: f64,
    /// Bytes that it delivers in a second. More than 0.
    pub bandwidth: Bytes,
    /// Beyond this a larger read gains nothing: 64 kB to 1 MB on what was measured.
    pub largest_read: Bytes,
    /// Reads that are worth having in flight at once.
    pub depth: u32,
}

/// The profile that a restore plans with, and where it comes from.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PlannedDevice {
    #[serde(flatten)]
    pub profile: DeviceProfile,
    #[serde(flatten)]
    pub source: ProfileSource,
}

/// Who says what the device can give.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(tag = "source", rename_all = "snake_case")]
pub enum ProfileSource {
    /// The user.
    Told,
    /// A probe of this device under this limit.
    Probed { measured_at: Timestamp },
    /// Nobody.
    Default,
}

impl DeviceProfile {
    /// Seconds that the device needs for a stretch of reads.
    pub fn seconds(&self, reads: u64, bytes: Bytes) -> f64 {
        reads as f64 / self.reads_per_second + bytes.seconds_at(self.bandwidth)
    }
}

impl Default for DeviceProfile {
    /// A cloud volume of the cheapest common kind: on anything faster the plan reads over a few gaps less than it might.
    fn default() -> DeviceProfile {
        DeviceProfile {
            reads_per_second: 3000.0,
            bandwidth: Bytes(125 << 20),
            largest_read: Bytes(256 << 10),
            depth: 8,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_prices_are_paid() {
        let device = DeviceProfile { reads_per_second: 100.0, bandwidth: Bytes(1_000_000), ..DeviceProfile::default() };
        assert_eq!(device.seconds(100, Bytes(0)), 1.0);
        assert_eq!(device.seconds(100, Bytes(2_000_000)), 3.0);
    }
}
