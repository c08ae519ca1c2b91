//! The options that say how the device is shared with live traffic.

use clap::Args;

use cache::warm::traffic::Sharing;

/// Sharing the device with live traffic
///
/// By default all that the device can give while the server waits for it all the same or is idle, and a little less where
/// that lets the server flow.
#[derive(Clone, Copy, Debug, Args)]
#[command(next_help_heading = "Live traffic")]
pub struct SharingArguments {
    /// Take 30 % of the bandwidth as long as there is traffic; --max-rate says it in bytes
    #[arg(long, conflicts_with = "full_speed")]
    gentle: bool,

    /// Take all of the device, whatever the traffic
    #[arg(long)]
    full_speed: bool,
}

impl SharingArguments {
    pub fn sharing(self) -> Sharing {
        match self {
            SharingArguments { gentle: true, .. } => Sharing::Gentle,
            SharingArguments { full_speed: true, .. } => Sharing::FullSpeed,
            _ => Sharing::Fair,
        }
    }
}
