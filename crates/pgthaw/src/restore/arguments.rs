//! The options of a restore.

use clap::Args;

use super::device::{DeviceArguments, rate};
use super::sharing::SharingArguments;
use super::tier::TierArgument;
use crate::{ConnectionArguments, SelectionArguments, SnapshotsArguments};
use cache::BEST;
use host::units::Bytes;

/// Bring back what a snapshot says was resident
///
/// The OS page cache first, with large reads, hottest first; then shared_buffers through pg_prewarm. Works on a running
/// server and, for the page cache, on a stopped one before its start (--data-dir). What is resident already is not read.
/// Prints a receipt: which snapshot and why, what was asked, resident before and after, left out and why. Ctrl-C stops it cleanly.
///
/// Without a name it takes the warmest snapshot from before the server's last start, or the newest with 95 % of each tier of
/// that one; where none is from before it, the newest. An empty one is never taken, a damaged one is passed over, and what was of
/// databases that are dropped since does not count.
///
/// It shares the device with the server's traffic: beside traffic that waits for the disk, at most ten reads are in flight;
/// beside traffic that flows it takes 93 % of the bandwidth or, where the server does more then, less; with --gentle 30 % beside
/// either. Nobody busy: full speed.
///
/// Where a `pgthaw run` was killed less than an hour ago, its clean-up is finished first: the cache as it was before that job.
///
/// Exit status: 0 when all was loaded or what was left out is a matter of course (over the budget, dropped or truncated
/// since, no server before its start); 3 when a privilege or a capability kept something from being loaded, unless
/// that is below 0.1 % of its tier, or below 1 MB and 1 %; 1 when the server went away or something could not be read; when
/// interrupted that of the signal: 130 after Ctrl-C, 143 after SIGTERM.
#[derive(Debug, Args)]
pub struct RestoreArguments {
    /// `best` (see above), `newest`, `newest~1`, the beginning of a name that `pgthaw snapshot list` shows, or a file
    #[arg(default_value = BEST)]
    pub snapshot: String,

    #[command(flatten)]
    pub connection: ConnectionArguments,

    #[command(flatten, next_help_heading = "Restore")]
    pub selection: SelectionArguments,

    #[command(flatten)]
    pub snapshots: SnapshotsArguments,

    /// Which cache to fill
    #[arg(long, value_enum, default_value_t = TierArgument::Both)]
    pub tier: TierArgument,

    /// Load no more than this (1GB is 1024 MB) into both caches together, hottest first; half of it at most is for shared_buffers
    #[arg(long, value_name = "BYTES")]
    pub budget: Option<Bytes>,

    /// Threads that read; only a few while live traffic waits for the disk [default: what `doctor --probe` found useful, or 16]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub threads: Option<u16>,

    /// The snapshot is of another cluster: find its relations by name
    #[arg(long)]
    pub other_cluster: bool,

    /// Do nothing, and end well, as long as there is no snapshot of this cluster: for a unit, whose first start has none
    #[arg(long, conflicts_with = "other_cluster")]
    pub if_any: bool,

    /// Print what would be read, and how long that would take; read nothing
    #[arg(long)]
    pub dry_run: bool,

    /// A row for every relation
    #[arg(short, long, help_heading = "Output")]
    pub verbose: bool,

    /// Read no more than this from the device in a second, such as 50MB (10^6 bytes); shared_buffers are filled as slowly unless all is in the
    /// page cache
    #[arg(long, help_heading = "Live traffic", value_name = "BYTES", value_parser = rate)]
    pub max_rate: Option<Bytes>,

    #[command(flatten)]
    pub sharing: SharingArguments,

    #[command(flatten)]
    pub device: DeviceArguments,

    #[command(flatten)]
    pub buffers: BuffersArguments,
}

/// How to fill shared_buffers.
#[derive(Clone, Copy, Debug, Args)]
#[command(next_help_heading = "shared_buffers")]
pub struct BuffersArguments {
    /// Load no more than this into shared_buffers, and push out others for it [default: what is free there]
    #[arg(long, value_name = "BYTES")]
    pub buffers_budget: Option<Bytes>,

    /// Connections that load shared_buffers at most: there is one more as long as that brings noticeably more
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub connections: u16,

    /// Run CREATE EXTENSION pg_prewarm in the databases that lack it
    #[arg(long)]
    pub create_extensions: bool,

    /// Keep nothing in the page cache of what is in shared_buffers at the end
    #[arg(long)]
    pub no_double: bool,
}
