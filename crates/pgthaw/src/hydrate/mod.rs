//! `pgthaw hydrate`: the work is done in `crates/cache/src/warm/hydrate/`.

pub mod receipt_text;

use std::sync::Arc;

use clap::Args;

use super::restore::{DeviceArguments, SharingArguments, rate};
use super::{ConnectionArguments, ExitStatus, OutputArguments, SnapshotsArguments, Target, situation_of};
use crate::hydrate::receipt_text::render_hydration;
use crate::warm_progress::WarmProgress;
use cache::{BEST, Chosen, NEWEST, Snapshot, Tiers};
use host::failure::Explain as _;
use host::linux::block_device::read_block_device;
use postgres::DataDirectory;

use cache::warm::hydrate::{Hydration, HydrationReceipt, StateStore};
use cache::warm::traffic::ServerTraffic;
use cache::warm::{Control, Error, state_directory};
use host::units::Bytes;

/// Touch every block of a volume that was made from a volume snapshot, once
///
/// Such a volume fetches each block from far away when it is first read. Reads everything below the data directory past the
/// page cache, so that nothing warm is pushed out; what a snapshot of pgthaw's knows to be hot comes first. What was done is
/// kept: after Ctrl-C or a crash the next run goes on. It works while the server runs: as long as that works, only a few reads
/// are in flight at a time. To bring memory back, use restore.
#[derive(Debug, Args)]
pub struct HydrateArguments {
    /// The pgthaw snapshot that says what is hot: `best` (the one that restore would take), `newest`, the beginning of a name, or a
    /// file
    #[arg(default_value = BEST)]
    snapshot: String,

    #[command(flatten)]
    pub connection: ConnectionArguments,

    #[command(flatten, next_help_heading = "Hydrate")]
    snapshots: SnapshotsArguments,

    /// Read no more than this in a second, such as 50MB (10^6 bytes)
    #[arg(long, value_name = "BYTES", value_parser = rate)]
    max_rate: Option<Bytes>,

    /// Reads at a time: a block that comes from far away takes long, so that many help; only a few of them while the server works
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: u16,

    /// Read all of it again, whatever earlier runs did: for a volume that cannot be told from an earlier one
    #[arg(long)]
    again: bool,

    #[command(flatten)]
    sharing: SharingArguments,
}

/// Runs the command.
pub async fn run(arguments: HydrateArguments, output: OutputArguments) -> anyhow::Result<ExitStatus> {
    if !arguments.connection.databases.is_empty() {
        return Err(Error::DatabaseToHydrate.into());
    }
    let target = Target::open(&arguments.connection).await?;
    // From here on there is something to end in good order; until here a signal ends this process at once.
    let control = Arc::new(Control::default());
    let interrupted = Arc::clone(&control);
    tokio::spawn(terminal::interrupt_then_exit(move || interrupted.interrupt()));
    let has_server = target.server.is_some();
    let directory = target.data_directory.ok_or(Error::NothingToHydrate)?;
    let (snapshot, remarks) = arguments.find_snapshot(&directory)?;
    // Of a volume that was never read a profile is rare; one that was probed all the same says where to begin.
    let (device, unusable) = DeviceArguments::default().choose(Some(&directory.path), Some(arguments.threads));
    let progress = Arc::new(WarmProgress::new(output.shows_progress()));
    let watcher = Arc::clone(&progress);
    let receipt = tokio::task::spawn_blocking(move || {
        let hot = snapshot.as_ref().map(|snapshot| &snapshot.map);
        let traffic = ServerTraffic::new(|| directory.find_postmaster_pid());
        arguments.hydrate(&Hydration {
            directory: &directory,
            hot,
            threads: arguments.threads.into(),
            max_rate: arguments.max_rate,
            sharing: arguments.sharing.sharing(),
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
    match output.json {
        true => terminal::print_json(&receipt)?,
        false => terminal::print_line(&render_hydration(&receipt)),
    }
    Ok(receipt.failure().map_or(ExitStatus::Done, ExitStatus::Because))
}

impl HydrateArguments {
    /// What is hot, or why nobody knows: the order is a convenience, unless the user says which.
    fn find_snapshot(&self, directory: &DataDirectory) -> Result<(Option<Snapshot>, Vec<String>), cache::Error> {
        match self.read_snapshot(directory) {
            Ok((snapshot, remarks)) => Ok((Some(snapshot), remarks)),
            Err(error) if matches!(&*self.snapshot, BEST | NEWEST) => {
                let hint = error.hint().map(|hint| format!(" ({hint})")).unwrap_or_default();
                Ok((None, vec![format!("the order is that of the files, as nothing says what is hot: {error}{hint}")]))
            }
            Err(error) => Err(error),
        }
    }

    fn read_snapshot(&self, directory: &DataDirectory) -> Result<(Snapshot, Vec<String>), cache::Error> {
        let cluster = directory.system_identifier;
        let situation = situation_of(directory, Tiers::BOTH);
        let chosen = self.snapshots.open().read(&self.snapshot, cluster, &situation);
        let chosen = chosen.map_err(|error| self.snapshots.with_owners(error, &self.connection))?;
        let Chosen { snapshot, path, remarks, .. } = chosen;
        match snapshot.map.source.system_identifier {
            other if other != cluster => Err(cache::Error::OtherCluster { path, snapshot: other, cluster }),
            _ => Ok((snapshot, remarks)),
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
