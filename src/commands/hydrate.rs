//! `pgthaw hydrate`: the work is done in `src/warm/hydrate/`.

use std::sync::Arc;

use clap::Args;

use super::restore::positive_bytes;
use super::{ConnectionArguments, ExitStatus, OutputArguments, SnapshotsArguments, Target};
use crate::cache::{NEWEST, Snapshot, SnapshotStore};
use crate::failure::ErrorKind;
use crate::linux::block_device::read_block_device;
use crate::postgres::DataDirectory;
use crate::terminal::{self, WarmProgress};
use crate::units::Bytes;
use crate::warm::hydrate::{Hydration, HydrationReceipt, StateStore};
use crate::warm::{Control, Error, state_directory};

/// Touch every block of a volume that was made from a volume snapshot, once
///
/// Such a volume fetches each block from far away when it is first read. Reads everything below the data directory past the
/// page cache, so that nothing warm is pushed out; what a snapshot of pgthaw's knows to be hot comes first. What was done is
/// kept: after Ctrl-C or a crash the next run goes on. It works while the server runs. To bring memory back, use restore.
#[derive(Debug, Args)]
pub struct HydrateArguments {
    /// The pgthaw snapshot that says what is hot: `newest`, the beginning of a name, or a file
    #[arg(default_value = NEWEST)]
    snapshot: String,

    #[command(flatten)]
    connection: ConnectionArguments,

    #[command(flatten, next_help_heading = "Hydrate")]
    snapshots: SnapshotsArguments,

    /// Read no more than this in a second
    #[arg(long, value_name = "BYTES", value_parser = positive_bytes)]
    max_rate: Option<Bytes>,

    /// Reads at a time: a block that comes from far away takes long, so that many help
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: u16,

    /// Read all of it again, whatever earlier runs did: for a volume that cannot be told from an earlier one
    #[arg(long)]
    again: bool,
}

/// Runs the command.
pub async fn run(arguments: HydrateArguments, output: OutputArguments) -> anyhow::Result<ExitStatus> {
    let control = Arc::new(Control::default());
    let interrupted = Arc::clone(&control);
    tokio::spawn(terminal::interrupt_then_exit(move || interrupted.interrupt()));
    let target = Target::open(&arguments.connection).await?;
    let directory = target.data_directory.ok_or(Error::NothingToHydrate)?;
    let (snapshot, remark) = arguments.find_snapshot(&directory);
    let progress = Arc::new(WarmProgress::new(output.shows_progress()));
    let watcher = Arc::clone(&progress);
    let receipt = tokio::task::spawn_blocking(move || {
        let hot = snapshot.as_ref().map(|snapshot| &snapshot.map);
        arguments.hydrate(&Hydration {
            directory: &directory,
            hot,
            threads: arguments.threads.into(),
            max_rate: arguments.max_rate,
            control: &control,
            watcher: &*watcher,
        })
    });
    let receipt = receipt.await;
    progress.finish();
    let mut receipt = receipt??;
    receipt.remarks.extend(remark);
    match output.json {
        true => terminal::print_json(&receipt)?,
        false => terminal::print_line(&terminal::render_hydration(&receipt)),
    }
    Ok(match receipt {
        HydrationReceipt { is_interrupted: true, .. } => ExitStatus::Because(ErrorKind::Interrupted),
        HydrationReceipt { failed_reads: 0, .. } => ExitStatus::Done,
        _ => ExitStatus::Because(ErrorKind::Failed),
    })
}

impl HydrateArguments {
    /// What is hot, or why nobody knows: the order is a convenience.
    fn find_snapshot(&self, directory: &DataDirectory) -> (Option<Snapshot>, Option<String>) {
        let store: SnapshotStore = self.snapshots.open();
        match store.read(&self.snapshot, directory.system_identifier) {
            Ok(chosen) => (Some(chosen.snapshot), None),
            Err(error) => (None, Some(format!("the order is that of the files, as nothing says what is hot: {error}"))),
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
