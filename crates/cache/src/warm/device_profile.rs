//! What a block device can give.

use std::path::PathBuf;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use host::linux::own_program::state_home;
use host::units::Bytes;

/// The two prices of a device, and how to ask it.
///
/// A stretch of reads costs `reads ÷ reads_per_second` and `bytes ÷ bandwidth`. One is on top of the other for whoever shares
/// the device (docs/plan.md has the measurement): what a plan saves of the one is there for the server's own misses, which
/// wait in the same queue. A device that does nothing else may do part of the one while it does the other.
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
    /// The part of the smaller price that an idle device works off meanwhile: 0 where the prices add up, as for a head that
    /// seeks, 1 where the larger one alone holds, as behind the kernel's limiter.
    pub overlap: f64,
    /// Seconds that a small read takes beside which nobody asks, the median; 0 where nobody measured it. A device that serves
    /// many at once lets whoever asks for one after another wait longer than `1 ÷ reads_per_second`.
    pub alone_seconds: f64,
}

/// The profile that a restore plans with, and where it comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct PlannedDevice {
    #[serde(flatten)]
    pub profile: DeviceProfile,
    #[serde(flatten)]
    pub source: ProfileSource,
}

/// Who says what the device can give.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(tag = "source", rename_all = "snake_case")]
pub enum ProfileSource {
    /// The user.
    Told,
    /// A probe of this device under this limit.
    Probed { measured_at: Timestamp },
    /// Nobody.
    #[default]
    Default,
}

/// A read is large enough when its own price is at most this share of that of its bytes: a larger one would spare the
/// device hardly anything.
pub const READ_PRICE_SHARE_MAX: f64 = 0.25;

/// A read that nobody measured is never larger than this.
const TOLD_READ_MAX: u64 = 4 << 20;

/// Fewer reads a second than this come of a head that moves.
const SEEKING_READS_PER_SECOND: f64 = 1000.0;

impl DeviceProfile {
    /// A device of which somebody tells the two prices: the slower it seeks, the larger its reads have to be. While a head seeks
    /// nothing is read.
    pub fn told(reads_per_second: f64, bandwidth: Bytes) -> DeviceProfile {
        let usual = DeviceProfile::default();
        let useful = bandwidth.0 as f64 / reads_per_second / READ_PRICE_SHARE_MAX;
        let largest_read = (useful as u64).clamp(usual.largest_read.0, TOLD_READ_MAX).next_power_of_two();
        let told = DeviceProfile { reads_per_second, bandwidth, largest_read: Bytes(largest_read), ..usual };
        DeviceProfile { overlap: if told.is_slow_to_seek() { 0.0 } else { usual.overlap }, ..told }
    }

    /// Does it give as few reads as a head that seeks?
    pub fn is_slow_to_seek(&self) -> bool {
        self.reads_per_second < SEEKING_READS_PER_SECOND
    }

    /// Seconds that the idle device needs for a stretch of reads.
    pub fn seconds(&self, reads: u64, bytes: Bytes) -> f64 {
        let (of_reads, of_bytes) = (reads as f64 / self.reads_per_second, bytes.seconds_at(self.bandwidth));
        of_reads + of_bytes - self.overlap * of_reads.min(of_bytes)
    }

    /// Seconds that each small read takes beyond its share of the device, where one is asked for after another.
    pub fn wait_seconds(&self) -> f64 {
        (self.alone_seconds - 1.0 / self.reads_per_second).max(0.0)
    }

    /// Seconds of the device that others cannot have.
    pub fn shared_seconds(&self, reads: u64, bytes: Bytes) -> f64 {
        reads as f64 / self.reads_per_second + bytes.seconds_at(self.bandwidth)
    }
}

impl Default for DeviceProfile {
    /// A cloud volume of the cheapest common kind: on anything faster the plan reads over a few gaps less than it might. Its limits
    /// are budgets of their own.
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

// ---- state directory ----

/// Its name in the directory where the user's programs keep their state.
pub const STATE: &str = "pgthaw";

/// What was measured of devices is kept here, below it.
pub const DEVICES: &str = "devices";

/// `$XDG_STATE_HOME/pgthaw`, by default `~/.local/state/pgthaw`; without a home `/var/lib/pgthaw`.
pub fn state_directory() -> PathBuf {
    state_home().unwrap_or_else(|| PathBuf::from("/var/lib")).join(STATE)
}

/// What a device calls itself, as a part of a file's name.
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
