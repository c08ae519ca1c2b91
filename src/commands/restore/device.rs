//! The options that say what the device can give.

use clap::Args;

use crate::units::{Bytes, ParseBytesError};
use crate::warm::DeviceProfile;

/// What the device can give.
#[derive(Clone, Copy, Debug, Args)]
#[command(next_help_heading = "Device")]
pub struct DeviceArguments {
    /// Reads that the device serves in a second
    #[arg(long, value_name = "READS", default_value_t = 3000, value_parser = clap::value_parser!(u32).range(1..))]
    riops: u32,

    /// Bytes that it delivers in a second
    #[arg(long, value_name = "BYTES", default_value = "125MiB", value_parser = positive_bytes)]
    rbps: Bytes,

    /// The largest read worth issuing
    #[arg(long, value_name = "BYTES", default_value = "256KiB", value_parser = positive_bytes)]
    read_size: Bytes,
}

impl DeviceArguments {
    /// The profile to plan for, with `threads` that read.
    pub fn profile(self, threads: u16) -> DeviceProfile {
        DeviceProfile {
            reads_per_second: self.riops.into(),
            bandwidth: self.rbps,
            largest_read: self.read_size,
            depth: threads.into(),
        }
    }
}

/// An amount of data that is not 0.
pub fn positive_bytes(text: &str) -> Result<Bytes, String> {
    match text.parse() {
        Ok(Bytes(0)) => Err("must be more than 0".to_owned()),
        parsed => parsed.map_err(|error: ParseBytesError| error.to_string()),
    }
}
