//! What a block device can give.

use serde::{Deserialize, Serialize};

use crate::units::Bytes;

/// The two prices of a device, and how to ask it.
///
/// A read costs `1 ÷ reads_per_second` of the one and its bytes ÷ `bandwidth` of the other; whichever sum is larger is
/// the time that a stretch of reads takes (docs/plan.md).
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

impl DeviceProfile {
    /// Seconds that the device needs for a stretch of reads.
    pub fn seconds(&self, reads: u64, bytes: Bytes) -> f64 {
        (reads as f64 / self.reads_per_second).max(bytes.seconds_at(self.bandwidth))
    }

    /// Would fewer reads make this stretch shorter?
    pub fn is_bound_by_reads(&self, reads: u64, bytes: Bytes) -> bool {
        reads as f64 / self.reads_per_second > bytes.seconds_at(self.bandwidth)
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
    fn the_larger_price_decides() {
        let device = DeviceProfile { reads_per_second: 100.0, bandwidth: Bytes(1_000_000), ..DeviceProfile::default() };
        assert_eq!(device.seconds(100, Bytes(1)), 1.0);
        assert_eq!(device.seconds(1, Bytes(2_000_000)), 2.0);
        assert!(device.is_bound_by_reads(100, Bytes(1)));
        assert!(!device.is_bound_by_reads(100, Bytes(1_000_000)));
    }
}
