//! `pgthaw hydrate`; the work is in `crates/cache/src/warm/hydrate.rs`.

use std::sync::Arc;

use clap::Args;

use super::restore::{DeviceArguments, PaceArguments};
use super::{ConnectionArguments, ExitStatus, OutputArguments, SnapshotsArguments, Target, situation_of};
use crate::warm_progress::{WarmProgress, end_in_good_order};
use cache::warm::hydrate::{FinishedRun, Hydration, HydrationReceipt, StateStore};
use cache::warm::traffic::{ServerTraffic, Sharing};
use cache::warm::{Error, TrafficReceipt, state_directory};
use cache::{BEST, Chosen, NEWEST, Snapshot, Tiers};
use host::failure::Explain as _;
use host::linux::block_device::read_block_device;
use host::units::{Bytes, counted};
use postgres::DataDirectory;
use terminal::{printable, render_age};

/// Read each block of a volume created from a volume snapshot
///
/// Such a volume fetches each block from remote storage at its first read. pgthaw reads everything below the data directory with direct
/// I/O, which evicts nothing. It begins with the hot blocks of a pgthaw snapshot. It stores its progress: after Ctrl-C or a crash the
/// next run continues. The server may run; while it is busy, only a few reads are in flight. Use restore to load the caches.
#[derive(Debug, Args)]
pub struct HydrateArguments {
    /// Snapshot with the hot blocks: best, newest, a name or a file
    ///
    /// `best` is the snapshot that restore would choose. A name is one that `pgthaw snapshot list` shows, or the
    /// beginning of such a name.
    #[arg(default_value = BEST)]
    snapshot: String,

    #[command(flatten, next_help_heading = "Hydrate")]
    snapshots: SnapshotsArguments,

    #[command(flatten)]
    pace: PaceArguments,

    /// Reads in flight
    ///
    /// Reads from remote storage have a high latency, so many in parallel help. While the server is busy, pgthaw uses only a few.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: u16,

    /// Read everything again, ignoring earlier runs
    ///
    /// For a new volume that pgthaw cannot distinguish from an earlier one.
    #[arg(long)]
    again: bool,

    #[command(flatten)]
    pub connection: ConnectionArguments,
}

pub async fn run(arguments: HydrateArguments, output: OutputArguments) -> anyhow::Result<ExitStatus> {
    if !arguments.connection.databases.is_empty() {
        return Err(Error::DatabaseToHydrate.into());
    }
    let target = Target::open(&arguments.connection).await?;
    let control = end_in_good_order();
    let has_server = target.server.is_some();
    let directory = target.data_directory.ok_or(Error::NothingToHydrate)?;
    let (snapshot, remarks) = arguments.find_snapshot(&directory)?;
    // A new volume rarely has a stored device profile; the default is that of a typical cloud volume.
    let (device, unusable) = DeviceArguments::default().choose(
        Some(&directory.path),
        directory.find_postmaster_pid(),
        Some(arguments.threads),
    );
    let progress = Arc::new(WarmProgress::new(output.shows_progress()));
    let watcher = Arc::clone(&progress);
    let (sharing, max_rate) = arguments.pace.pace;
    let receipt = tokio::task::spawn_blocking(move || {
        let hot = snapshot.as_ref().map(|snapshot| &snapshot.map);
        let traffic = ServerTraffic::new(|| directory.find_postmaster_pid());
        arguments.hydrate(&Hydration {
            directory: &directory,
            hot,
            threads: arguments.threads.into(),
            max_rate,
            sharing,
            device,
            traffic: &traffic,
            has_server,
            control: &control,
            watcher: &*watcher,
        })
    });
    let receipt = receipt.await;
    progress.finish();
    let mut receipt = receipt??;
    receipt.remarks.extend(remarks.into_iter().chain(unusable));
    terminal::print_answer(&receipt, output.json, || render_hydration(&receipt))?;
    Ok(receipt.failure().map_or(ExitStatus::Done, ExitStatus::Because))
}

impl HydrateArguments {
    /// `None` if no snapshot is usable and the user named none: reads are then in file order.
    fn find_snapshot(&self, directory: &DataDirectory) -> Result<(Option<Snapshot>, Vec<String>), cache::Error> {
        let situation = situation_of(directory, Tiers::BOTH);
        match self.snapshots.read(&self.snapshot, &self.connection, directory.system_identifier, &situation, false) {
            Ok(Chosen { snapshot, remarks, .. }) => Ok((Some(snapshot), remarks)),
            Err(error) if matches!(&*self.snapshot, BEST | NEWEST) => {
                let why = error.with_hint();
                let remark = format!("pgthaw reads in file order, because no snapshot shows the hot blocks: {why}");
                Ok((None, vec![remark]))
            }
            Err(error) => Err(error),
        }
    }

    fn hydrate(&self, hydration: &Hydration<'_>) -> Result<HydrationReceipt, Error> {
        let device = read_block_device(&hydration.directory.path)?;
        let store = StateStore::open(&state_directory(), hydration.directory, &device)?;
        let (mut state, remark) = if self.again { (store.begin(), None) } else { store.read()? };
        let mut receipt = hydration.run(&mut state, |state| store.keep(state))?;
        receipt.remarks.extend(remark);
        Ok(receipt)
    }
}

pub fn render_hydration(receipt: &HydrationReceipt) -> String {
    let mut lines = match &receipt.finished_before {
        Some(FinishedRun { at, device }) => vec![format!(
            "nothing read: an earlier run {} ({at:.0}) on {device} read everything; --again reads it again",
            render_age(*at)
        )],
        None => render_reads(receipt),
    };
    let TrafficReceipt { waiting_seconds, flowing_seconds, .. } = receipt.traffic;
    if receipt.traffic.sharing != Sharing::FullSpeed && waiting_seconds + flowing_seconds >= 1.0 {
        lines.push(format!(
            "the server was active for {:.1} s of the run: pgthaw issued fewer reads meanwhile (--pace full prevents this)",
            waiting_seconds + flowing_seconds
        ));
    }
    if receipt.failed_reads > 0 {
        lines.push(format!("{} failed:", counted(receipt.failed_reads, "read")));
        lines.extend(receipt.failures.iter().map(|failure| format!("  {}", printable(&failure.detail))));
    }
    lines.extend(receipt.remarks.iter().map(|remark| format!("note: {}", printable(remark))));
    lines.join("\n")
}

fn render_reads(receipt: &HydrationReceipt) -> Vec<String> {
    let HydrationReceipt { read_bytes, seconds, files, total_bytes, done_before_bytes, left_bytes, .. } = receipt;
    let rate = Bytes((read_bytes.0 as f64 / seconds.max(1e-3)) as u64).per_second();
    let mut lines =
        vec![format!("read {read_bytes} of {total_bytes} ({}) in {seconds:.1} s ({rate})", counted(*files, "file"))];
    lines.extend(
        receipt
            .resumed_from
            .map(|at| format!("{done_before_bytes} were already read {}; --again starts over", render_age(at))),
    );
    match left_bytes {
        Bytes(0) if receipt.failed_reads > 0 => {
            lines.push("every block of the files that pgthaw could list has been read".to_owned())
        }
        Bytes(0) => lines.push("every block has been read".to_owned()),
        left => lines.push(format!("{left} are not yet read: the next run continues from here")),
    }
    lines
}
