//! `pgthaw evict`: the work is done in `crates/cache/src/warm/evict/`.

pub mod receipt_text;

use std::sync::Arc;

use clap::Args;

use super::restore::TierArgument;
use super::{
    ConnectionArguments, ExitStatus, LabArguments, OutputArguments, PositionalArguments, SelectionArguments,
    SnapshotsArguments, Target, read_current_map, require_lab_server,
};
use crate::evict::receipt_text::render_evict_receipt;
use crate::warm_progress::WarmProgress;
use cache::warm::evict::{EvictReceipt, Eviction};
use cache::warm::{Control, Error};
use cache::{Map, Selection};
use host::failure::ErrorKind;
use terminal::Canvas;

/// Make relations, a database or the whole cluster cold
///
/// For measuring cold starts. Evicts from the OS page cache without being root (the files are written out first) and from
/// shared_buffers where the server can (17 and later; before, restart it: exit status 3 unless --tier os). Looks again, and says what stayed and why.
/// Refuses a server that is no lab server unless --yes.
#[derive(Debug, Args)]
pub struct EvictArguments {
    #[command(flatten)]
    connection: ConnectionArguments,

    #[command(flatten)]
    positional: PositionalArguments,

    #[command(flatten)]
    selection: SelectionArguments,

    /// Everything: all relations of all databases
    #[arg(long)]
    all: bool,

    /// Which cache to empty
    #[arg(long, value_enum, default_value_t = TierArgument::Both)]
    tier: TierArgument,

    /// Drop everything that this machine has cached, other programs' files too (root only)
    #[arg(long)]
    drop_caches: bool,

    /// Print what is resident; evict nothing
    #[arg(long)]
    dry_run: bool,

    /// A row for every relation
    #[arg(short, long)]
    verbose: bool,

    #[command(flatten)]
    snapshots: SnapshotsArguments,

    #[command(flatten)]
    lab: LabArguments,
}

/// Runs the command.
pub async fn run(arguments: EvictArguments, output: OutputArguments) -> anyhow::Result<ExitStatus> {
    if !arguments.names_something() {
        return Err(Error::NothingNamed.into());
    }
    let target = Target::open(&arguments.named()).await?;
    if !arguments.dry_run {
        require_lab_server(&target, &arguments.lab, "evicting")?;
    }
    let control = Arc::new(Control::default());
    let interrupted = Arc::clone(&control);
    tokio::spawn(terminal::interrupt_then_exit(move || interrupted.interrupt()));
    let map = arguments.choose(read_current_map(&target, &arguments.snapshots.open(), output).await?)?;
    let progress = WarmProgress::new(output.shows_progress());
    let eviction = Eviction {
        map: &map,
        tiers: arguments.tier.tiers(),
        is_whole_cluster: arguments.all,
        drop_caches: arguments.drop_caches,
        is_dry_run: arguments.dry_run,
        server: target.server.as_ref(),
        directory: target.data_directory.as_ref().map(|directory| &*directory.path),
        page_cache: &target.page_cache(),
        control: &control,
        watcher: &progress,
    };
    let receipt = eviction.run().await;
    progress.finish();
    let mut receipt = receipt?;
    receipt.remarks.splice(0..0, map.remarks);
    match output.json {
        true => terminal::print_json(&receipt)?,
        false => {
            terminal::print_line(&render_evict_receipt(&receipt, arguments.verbose, Canvas::of_stdout(false).width))
        }
    }
    Ok(match receipt {
        EvictReceipt { is_interrupted: true, .. } => ExitStatus::Because(ErrorKind::Interrupted),
        // Who asked for a cold start would not get one.
        EvictReceipt { buffers_stay: true, .. } => ExitStatus::Because(ErrorKind::Privilege),
        _ => ExitStatus::Done,
    })
}

impl EvictArguments {
    /// Which server and databases were named.
    pub fn named(&self) -> ConnectionArguments {
        self.connection.clone().with(self.positional.clone())
    }

    /// Everything is not the default of a command that does harm.
    fn names_something(&self) -> bool {
        self.all || !self.named().databases.is_empty() || self.selection.selection() != Selection::default()
    }

    /// The part of the map that is meant. `-d` does not mean the shared catalogs here.
    fn choose(&self, mut map: Map) -> anyhow::Result<Map> {
        let places = map.select(&self.selection.selection())?;
        let databases = self.named().databases()?;
        let is_meant = |place: usize| {
            let database = &map.relations[place].relation.name.database;
            places.binary_search(&place).is_ok() && (self.all || databases.is_empty() || databases.contains(database))
        };
        let meant: Vec<bool> = (0..map.relations.len()).map(is_meant).collect();
        let mut meant = meant.into_iter();
        map.relations.retain(|_| meant.next() == Some(true));
        Ok(map)
    }
}
