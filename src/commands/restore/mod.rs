//! `pgthaw restore`: the work is done in `src/warm/restore/`.

mod device;
mod source;
mod tier;

use std::sync::Arc;

use clap::Args;

pub use device::DeviceArguments;
pub use tier::TierArgument;

use super::{ConnectionArguments, ExitStatus, OutputArguments, SelectionArguments, SnapshotsArguments};
use crate::failure::ErrorKind;
use crate::linux::page_cache::SystemPageCache;
use crate::terminal::{self, WarmProgress};
use crate::units::Bytes;
use crate::warm::restore::{Host, Restore, RestoreOptions, SystemRoom, join_memory_cgroup};
use crate::warm::{Control, Receipt};

/// Bring back what a snapshot says was resident
///
/// The OS page cache first, with large reads, hottest first; then shared_buffers through pg_prewarm. Works on a running
/// server and, for the page cache, on a stopped one before its start (--data-dir). What is resident already is not read.
/// Prints a receipt: what was asked, what was resident before and after, what was left out and why. Ctrl-C stops it
/// cleanly, a second one at once.
#[derive(Debug, Args)]
pub struct RestoreArguments {
    /// `newest`, `newest~1`, the beginning of a name that `pgthaw snapshot list` shows, or a file
    #[arg(default_value = "newest")]
    snapshot: String,

    #[command(flatten)]
    connection: ConnectionArguments,

    #[command(flatten)]
    selection: SelectionArguments,

    #[command(flatten)]
    snapshots: SnapshotsArguments,

    #[command(flatten)]
    device: DeviceArguments,

    /// Which cache to fill
    #[arg(long, value_enum, default_value_t = TierArgument::Both)]
    tier: TierArgument,

    /// Read no more than this into the page cache, hottest first
    #[arg(long, value_name = "BYTES")]
    budget: Option<Bytes>,

    /// Load no more than this into shared_buffers [default: what is free there]
    #[arg(long, value_name = "BYTES")]
    buffers_budget: Option<Bytes>,

    /// Read no more than this in a second
    #[arg(long, value_name = "BYTES", value_parser = device::positive_bytes)]
    max_rate: Option<Bytes>,

    /// Threads that read
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: u16,

    /// Connections that load shared_buffers
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64))]
    connections: u16,

    /// Run CREATE EXTENSION pg_prewarm in the databases that lack it
    #[arg(long)]
    create_extensions: bool,

    /// The snapshot is of another cluster: find its relations by name
    #[arg(long)]
    other_cluster: bool,

    /// Print what would be read, and how long that would take; read nothing
    #[arg(long)]
    dry_run: bool,

    /// A row for every relation
    #[arg(short, long)]
    verbose: bool,
}

/// Runs the command.
pub async fn run(arguments: RestoreArguments, output: OutputArguments) -> anyhow::Result<ExitStatus> {
    let control = Arc::new(Control::default());
    let interrupted = Arc::clone(&control);
    tokio::spawn(terminal::interrupt_then_exit(move || interrupted.interrupt()));
    let (snapshot, source) = source::find(&arguments).await?;
    let pid = source.postmaster_pid();
    let progress = Arc::new(WarmProgress::new(output.shows_progress()));
    let host = Host {
        page_cache: Arc::new(SystemPageCache::new()),
        room: Arc::new(SystemRoom { pid: pid.unwrap_or_else(std::process::id) }),
        control,
        watcher: Arc::clone(&progress) as _,
    };
    let options = arguments.options(source.is_same_cluster());
    let restore = Restore { request: source.request(snapshot, &arguments)?, options, place: source.place(), host };
    let remark = pid.filter(|_| !arguments.dry_run).and_then(join_memory_cgroup);
    let receipt = restore.run(source.server(&arguments)).await;
    progress.finish();
    let mut receipt = receipt?;
    receipt.remarks.extend(remark);
    match output.json {
        true => terminal::print_json(&receipt)?,
        false => terminal::print_line(&terminal::render_receipt(&receipt, arguments.verbose)),
    }
    Ok(status(&receipt))
}

/// Stopped by the user is one thing, unable to do anything another.
fn status(receipt: &Receipt) -> ExitStatus {
    match receipt.missing_capability() {
        _ if receipt.is_interrupted() => ExitStatus::Because(ErrorKind::Interrupted),
        true => ExitStatus::Because(ErrorKind::Privilege),
        false => ExitStatus::Done,
    }
}

impl RestoreArguments {
    fn options(&self, same_cluster: bool) -> RestoreOptions {
        RestoreOptions {
            device: self.device.profile(self.threads),
            threads: self.threads.into(),
            connections: self.connections.into(),
            budget: self.budget,
            buffers_budget: self.buffers_budget,
            max_rate: self.max_rate,
            create_extensions: self.create_extensions,
            is_dry_run: self.dry_run,
            same_cluster,
        }
    }
}
