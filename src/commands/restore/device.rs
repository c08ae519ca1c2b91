//! The options that say what the device can give.

use std::path::Path;

use clap::Args;

use crate::commands::doctor_probe::find_profile;
use crate::units::{Bytes, ParseBytesError};
use crate::warm::{DeviceProfile, PlannedDevice, ProfileSource};

/// What the device can give. What is not told is taken from its stored profile, or else is that of a common cloud volume.
#[derive(Clone, Copy, Debug, Args)]
#[command(next_help_heading = "Device")]
pub struct DeviceArguments {
    /// Reads that the device serves in a second [default: as `doctor --probe` measured, or 3000]
    #[arg(long, value_name = "READS", value_parser = clap::value_parser!(u32).range(1..))]
    riops: Option<u32>,

    /// Bytes that it delivers in a second [default: as `doctor --probe` measured, or 125MiB]
    #[arg(long, value_name = "BYTES", value_parser = positive_bytes)]
    rbps: Option<Bytes>,

    /// The largest read worth issuing [default: as `doctor --probe` measured, or 256KiB]
    #[arg(long, value_name = "BYTES", value_parser = positive_bytes)]
    read_size: Option<Bytes>,
}

impl DeviceArguments {
    /// The profile to plan for, with `threads` that read, and why a stored one is not used although it is there. Who tells
    /// either price means another device than the one that was measured.
    pub fn choose(self, directory: Option<&Path>, threads: u16) -> (PlannedDevice, Option<String>) {
        let is_told = self.riops.is_some() || self.rbps.is_some();
        let (stored, unusable) = match directory.filter(|_| !is_told).map(find_profile) {
            Some(Ok(stored)) => (stored, None),
            // A device that cannot be found out has no profile either.
            Some(Err(crate::warm::Error::Linux(_))) | None => (None, None),
            Some(Err(error)) => (None, Some(error.to_string())),
        };
        let (base, source) = match stored {
            Some(record) => (record.measurement.profile, ProfileSource::Probed { measured_at: record.measured_at }),
            None if is_told => (DeviceProfile::default(), ProfileSource::Told),
            None => (DeviceProfile::default(), ProfileSource::Default),
        };
        let profile = DeviceProfile {
            reads_per_second: self.riops.map_or(base.reads_per_second, f64::from),
            bandwidth: self.rbps.unwrap_or(base.bandwidth),
            largest_read: self.read_size.unwrap_or(base.largest_read),
            depth: threads.into(),
        };
        (PlannedDevice { profile, source }, unusable)
    }
}

/// An amount of data that is not 0.
pub fn positive_bytes(text: &str) -> Result<Bytes, String> {
    match text.parse() {
        Ok(Bytes(0)) => Err("must be more than 0".to_owned()),
        parsed => parsed.map_err(|error: ParseBytesError| error.to_string()),
    }
}
