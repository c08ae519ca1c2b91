//! `pgthaw restore`: the work is done in `src/warm/restore/`.

mod buffers;
mod device;
mod sharing;
mod source;
mod tier;

use std::sync::Arc;

use clap::Args;

pub use device::{DeviceArguments, positive_bytes, positive_rate, rate};
pub use sharing::SharingArguments;
use source::Source;
pub use tier::TierArgument;

use buffers::BuffersArguments;

use super::{ConnectionArguments, ExitStatus, OutputArguments, SelectionArguments, SnapshotsArguments};
use crate::cache::BEST;
use crate::terminal::{self, Canvas, WarmProgress};
use crate::units::Bytes;
use crate::warm::restore::{Host, Restore, RestoreOptions, choose_room};
use crate::warm::{Control, PlannedDevice, Receipt};

/// Bring back what a snapshot says was resident
///
/// The OS page cache first, with large reads, hottest first; then shared_buffers through pg_prewarm. Works on a running
/// server and, for the page cache, on a stopped one before its start (--data-dir). What is resident already is not read.
/// Prints a receipt: which snapshot and why, what was asked, resident before and after, left out and why. Ctrl-C stops it cleanly.
///
/// Without a name it takes the warmest snapshot from before the server's last start, or the newest with 95 % of each tier of
/// that one; where none is from before it, the newest. An empty one is never taken, a damaged one is passed over.
///
/// It shares the device with the server's traffic: beside traffic that waits for the disk, at most ten reads are in flight;
/// beside traffic that flows it takes 93 % of the bandwidth, with --gentle 30 % beside either. Nobody busy: full speed.
///
/// Exit status: 0 when all was loaded or what was left out is a matter of course (over the budget, dropped or truncated
/// since, no server before its start); 3 when a privilege or a capability kept something from being loaded; 1 when the
/// server went away or something could not be read; 130 when interrupted.
#[derive(Debug, Args)]
pub struct RestoreArguments {
    /// `best` (see above), `newest`, `newest~1`, the beginning of a name that `pgthaw snapshot list` shows, or a file
    #[arg(default_value = BEST)]
    snapshot: String,

    #[command(flatten)]
    pub connection: ConnectionArguments,

    #[command(flatten, next_help_heading = "Restore")]
    selection: SelectionArguments,

    #[command(flatten)]
    snapshots: SnapshotsArguments,

    /// Which cache to fill
    #[arg(long, value_enum, default_value_t = TierArgument::Both)]
    tier: TierArgument,

    /// Load no more than this (1GB is 1024 MB) into both caches together, hottest first; half of it at most is for shared_buffers
    #[arg(long, value_name = "BYTES")]
    budget: Option<Bytes>,

    /// Threads that read; only a few while live traffic waits for the disk [default: what `doctor --probe` found useful, or 16]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: Option<u16>,

    /// The snapshot is of another cluster: find its relations by name
    #[arg(long)]
    other_cluster: bool,

    /// Print what would be read, and how long that would take; read nothing
    #[arg(long)]
    dry_run: bool,

    /// A row for every relation
    #[arg(short, long, help_heading = "Output")]
    verbose: bool,

    /// Read no more than this from the device in a second, such as 50MB (10^6 bytes); shared_buffers are filled as slowly unless all is in the
    /// page cache
    #[arg(long, help_heading = "Live traffic", value_name = "BYTES", value_parser = rate)]
    max_rate: Option<Bytes>,

    #[command(flatten)]
    sharing: SharingArguments,

    #[command(flatten)]
    device: DeviceArguments,

    #[command(flatten)]
    buffers: BuffersArguments,
}

/// Runs the command.
pub async fn run(arguments: RestoreArguments, output: OutputArguments) -> anyhow::Result<ExitStatus> {
    let (snapshot, selected, mut source) = source::find(&arguments).await?;
    // From here on there is something to end in good order; until here a signal ends this process at once.
    let control = Arc::new(Control::default());
    let interrupted = Arc::clone(&control);
    tokio::spawn(terminal::interrupt_then_exit(move || interrupted.interrupt()));
    let pid = source.postmaster_pid();
    let progress = Arc::new(WarmProgress::new(output.shows_progress()));
    let (room, charged) = choose_room(pid, arguments.dry_run);
    let host = Host {
        page_cache: Arc::new(source.page_cache()),
        room: Arc::new(room),
        traffic: source.traffic(),
        control,
        watcher: Arc::clone(&progress) as _,
    };
    let place = source.place();
    let (device, unusable) =
        arguments.device.choose(place.as_ref().ok().map(|place| &*place.directory), arguments.threads);
    let options = arguments.options(device, &source);
    let restore = Restore::new(source.request(snapshot, &arguments)?, options, place, host);
    let receipt = restore.run(source.server(&arguments)).await;
    progress.finish();
    let mut receipt = Receipt { snapshot: Some(selected), ..receipt? };
    receipt.remarks.extend(charged.into_iter().chain(unusable));
    match output.json {
        true => terminal::print_json(&receipt)?,
        false => {
            terminal::print_line(&terminal::render_receipt(&receipt, arguments.verbose, Canvas::of_stdout(false).width))
        }
    }
    Ok(receipt.failure().map_or(ExitStatus::Done, ExitStatus::Because))
}

impl RestoreArguments {
    fn options(&self, device: PlannedDevice, source: &Source) -> RestoreOptions {
        let place = source.place().ok();
        RestoreOptions {
            seeks: device::seeks(place.as_ref().map(|place| &*place.directory), &device.profile),
            device,
            threads: device.profile.depth as usize,
            sharing: self.sharing.sharing(),
            connections: self.buffers.connections.into(),
            budget: self.budget,
            buffers_budget: self.buffers.buffers_budget,
            max_rate: self.max_rate,
            create_extensions: self.buffers.create_extensions,
            no_double: self.buffers.no_double,
            is_dry_run: self.dry_run,
            same_cluster: source.is_same_cluster(),
            awaits_server: source.may_bypass_page_cache(),
        }
    }
}
