use std::path::PathBuf;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use host::linux::ReadLimit;
use host::linux::own_program::state_home;
use host::units::Bytes;

/// Cost of reads, in seconds: `reads ÷ reads_per_second` plus `bytes ÷ bandwidth`.
///
/// Under load both costs count (docs/plan.md), because the server's reads wait in the same queue. An idle device may
/// overlap the costs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct DeviceProfile {
    /// Random reads of 8 KiB per second, above 0.
    pub reads_per_second: f64,
    /// Bytes per second, above 0.
    pub bandwidth: Bytes,
    /// Bytes. Larger reads gain little.
    pub largest_read: Bytes,
    /// Fewest reads in flight that reach 90 % of the highest rate.
    pub depth: u32,
    /// Share of the smaller cost (for reads or for bytes) that overlaps with the larger cost on an otherwise idle
    /// device, 0 to 1.
    pub overlap: f64,
    /// Median time of a small read that is alone in flight. 0 if not measured.
    pub alone_seconds: f64,
}

/// The device, as plans assume it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, crate::JsonSchema)]
pub struct PlannedDevice {
    #[serde(flatten)]
    pub profile: DeviceProfile,
    #[serde(flatten)]
    pub source: ProfileSource,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, crate::JsonSchema)]
#[serde(tag = "source", rename_all = "snake_case")]
pub enum ProfileSource {
    /// Given by the user.
    Told,
    /// Probed on this device, under its current read limit.
    Probed { measured_at: Timestamp },
    /// Read limit of pgthaw's or the server's cgroup.
    Cgroup,
    /// Assumed.
    #[default]
    Default,
}

/// Maximum fixed cost of a read of `largest_read` bytes, as a share of the cost of its bytes.
pub const READ_PRICE_SHARE_MAX: f64 = 0.25;

/// Maximum read size for a profile that was not probed.
const TOLD_READ_MAX: u64 = 4 << 20;

/// A device with fewer reads per second has a seeking head.
const SEEKING_READS_PER_SECOND: f64 = 1000.0;

impl DeviceProfile {
    /// Profile with the user's rates. The slower the device seeks, the larger its reads.
    pub fn told(reads_per_second: f64, bandwidth: Bytes) -> DeviceProfile {
        let usual = DeviceProfile::default();
        let useful = bandwidth.0 as f64 / reads_per_second / READ_PRICE_SHARE_MAX;
        let largest_read = (useful as u64).clamp(usual.largest_read.0, TOLD_READ_MAX).next_power_of_two();
        let told = DeviceProfile { reads_per_second, bandwidth, largest_read: Bytes(largest_read), ..usual };
        DeviceProfile { overlap: if told.is_slow_to_seek() { 0.0 } else { usual.overlap }, ..told }
    }

    pub fn limited(limit: ReadLimit) -> DeviceProfile {
        let usual = DeviceProfile::default();
        let reads_per_second = limit.reads_per_second.map_or(usual.reads_per_second, |reads| reads as f64);
        match limit.read_bytes_per_second {
            None if limit.reads_per_second.is_none() => usual,
            bandwidth => DeviceProfile::told(reads_per_second, bandwidth.unwrap_or(usual.bandwidth)),
        }
    }

    pub fn is_slow_to_seek(&self) -> bool {
        self.reads_per_second < SEEKING_READS_PER_SECOND
    }

    /// Seconds that the reads take on an idle device.
    pub fn seconds(&self, reads: u64, bytes: Bytes) -> f64 {
        let (of_reads, of_bytes) = (reads as f64 / self.reads_per_second, bytes.seconds_at(self.bandwidth));
        of_reads + of_bytes - self.overlap * of_reads.min(of_bytes)
    }

    /// Extra seconds per small read if reads are issued one at a time.
    pub fn wait_seconds(&self) -> f64 {
        (self.alone_seconds - 1.0 / self.reads_per_second).max(0.0)
    }

    /// Seconds in which the device cannot serve other processes because of these reads.
    pub fn shared_seconds(&self, reads: u64, bytes: Bytes) -> f64 {
        reads as f64 / self.reads_per_second + bytes.seconds_at(self.bandwidth)
    }
}

impl Default for DeviceProfile {
    /// The cheapest common cloud volume, with separate limits on reads and bytes. On faster devices, plans then merge
    /// slightly too few reads.
    fn default() -> DeviceProfile {
        DeviceProfile {
            reads_per_second: 3000.0,
            bandwidth: Bytes(125 << 20),
            largest_read: Bytes(256 << 10),
            depth: 8,
            overlap: 1.0,
            alone_seconds: 0.0,
        }
    }
}

pub const STATE: &str = "pgthaw";

pub const DEVICES: &str = "devices";

/// `$XDG_STATE_HOME/pgthaw`, by default `~/.local/state/pgthaw`; without a home `/var/lib/pgthaw`.
pub fn state_directory() -> PathBuf {
    state_home().unwrap_or_else(|| PathBuf::from("/var/lib")).join(STATE)
}

pub fn file_name_of(identity: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_');
    identity.chars().map(|letter| if is_plain(letter) { letter } else { '_' }).take(150).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_prices_are_paid() {
        let prices = DeviceProfile { reads_per_second: 100.0, bandwidth: Bytes(1_000_000), ..DeviceProfile::default() };
        let device = DeviceProfile { overlap: 0.0, ..prices };
        assert_eq!(device.seconds(100, Bytes(0)), 1.0);
        assert_eq!(device.seconds(100, Bytes(2_000_000)), 3.0);
        assert_eq!(DeviceProfile { overlap: 1.0, ..device }.shared_seconds(100, Bytes(2_000_000)), 3.0);
    }

    #[test]
    fn a_device_that_seeks_is_read_in_larger_pieces() {
        let largest = |riops: f64, rbps: u64| DeviceProfile::told(riops, Bytes(rbps)).largest_read;
        assert_eq!(largest(3000.0, 125 << 20), Bytes(256 << 10));
        assert_eq!(largest(200.0, 87_000_000), Bytes(2 << 20));
        assert_eq!(largest(1.0, 1 << 40), Bytes(4 << 20));
        assert_eq!(largest(1e6, 1), Bytes(256 << 10));
        let overlap = |riops: f64| DeviceProfile::told(riops, Bytes(125 << 20)).overlap;
        assert_eq!((overlap(200.0), overlap(3000.0)), (0.0, 1.0));
    }

    #[test]
    fn who_asks_for_one_after_another_waits_longer() {
        let device = DeviceProfile { reads_per_second: 50_000.0, ..DeviceProfile::default() };
        let wait = |alone_seconds| DeviceProfile { alone_seconds, ..device }.wait_seconds();
        assert!((wait(70e-6) - 50e-6).abs() < 1e-9);
        assert_eq!((wait(0.0), wait(20e-6)), (0.0, 0.0));
    }

    #[test]
    fn an_idle_device_may_do_one_while_it_does_the_other() {
        let device = DeviceProfile { reads_per_second: 100.0, bandwidth: Bytes(1_000_000), ..DeviceProfile::default() };
        let with = |overlap| DeviceProfile { overlap, ..device }.seconds(100, Bytes(2_000_000));
        assert_eq!((with(0.5), with(1.0)), (2.5, 2.0));
    }
}
