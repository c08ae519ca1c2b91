use std::path::Path;

use clap::Args;

use cache::warm::probe::{DeviceRecord, ProfileStore};
use cache::warm::{DeviceProfile, PlannedDevice, ProfileSource};
use command::{find_limit_of, find_profile_of};
use host::linux::ReadLimit;
use host::linux::block_device::read_block_device;
use host::units::Bytes;

/// Threads for a device without a profile.
const THREADS: u32 = 16;
/// Range of threads for a measured device. Fewer would get too little bandwidth beside the server's reads; 32 of the
/// largest reads keep any device busy.
const PROBED_THREADS: std::ops::RangeInclusive<u32> = THREADS..=32;

/// Rates of the device. Defaults are those of its stored profile, else those of a common cloud volume.
#[derive(Clone, Copy, Debug, Default, Args)]
#[command(next_help_heading = "Device")]
pub struct DeviceArguments {
    /// Reads per second of the device [default: from `doctor --probe`, or 3000]
    #[arg(long, value_name = "READS", hide_short_help = true, value_parser = clap::value_parser!(u32).range(1..))]
    riops: Option<u32>,

    /// Bytes per second of the device [default: from `doctor --probe`, or 125MiB]; MB are 10^6 bytes
    #[arg(long, value_name = "BYTES", hide_short_help = true, value_parser = positive_rate)]
    rbps: Option<Bytes>,
}

/// True if the disk is slow at random reads, and reports that it is rotational. Many virtual disks wrongly report this.
pub fn seeks(directory: Option<&Path>, profile: &DeviceProfile) -> bool {
    let says_so = |directory| read_block_device(directory).is_ok_and(|disk| disk.is_rotational);
    profile.is_slow_to_seek() && directory.is_some_and(says_so)
}

impl DeviceArguments {
    /// Chooses the rates: from options, else the stored profile, else a default. Also returns why a stored profile is
    /// unusable.
    pub fn choose(
        self,
        directory: Option<&Path>,
        server: Option<u32>,
        threads: Option<u16>,
    ) -> (PlannedDevice, Option<String>) {
        let is_told = self.riops.is_some() || self.rbps.is_some();
        let is_of_use = !is_told && !ProfileStore::open().is_empty();
        let (stored, unusable) = match find_profile_of(directory.filter(|_| is_of_use), server) {
            Ok(stored) => (stored, None),
            Err(error) => (None, Some(error.to_string())),
        };
        let (base, source, usual_threads) = match stored {
            Some(DeviceRecord { measurement, measured_at, .. }) => {
                let depth = measurement.profile.depth.clamp(*PROBED_THREADS.start(), *PROBED_THREADS.end());
                (measurement.profile, ProfileSource::Probed { measured_at }, depth)
            }
            None if is_told => (self.told(), ProfileSource::Told, THREADS),
            None => match find_limit_of(directory, server) {
                limit if limit == ReadLimit::default() => (DeviceProfile::default(), ProfileSource::Default, THREADS),
                limit => (DeviceProfile::limited(limit), ProfileSource::Cgroup, THREADS),
            },
        };
        let profile = DeviceProfile { depth: threads.map_or(usual_threads, u32::from), ..base };
        (PlannedDevice { profile, source }, unusable)
    }

    fn told(self) -> DeviceProfile {
        let usual = DeviceProfile::default();
        let reads_per_second = self.riops.map_or(usual.reads_per_second, f64::from);
        DeviceProfile::told(reads_per_second, self.rbps.unwrap_or(usual.bandwidth))
    }
}

fn positive_rate(text: &str) -> Result<Bytes, String> {
    match Bytes::parse_rate(text) {
        Ok(Bytes(0)) => Err("must be more than 0".to_owned()),
        parsed => parsed.map_err(|error| error.to_string()),
    }
}
