//! `pgthaw snapshot`: the work is done in `src/cache/`.

use std::path::Path;

use clap::{Args, Subcommand};
use serde_json::json;

use super::snapshot_diff::{DiffArguments, diff};
use super::snapshot_list::list;
use super::snapshot_place::SnapshotPlace;
use super::snapshot_take::{TakeArguments, take};
use super::{ConnectionArguments, ExitStatus, OutputArguments, ViewArguments};
use crate::cache::{NEWEST, Snapshot};
use crate::failure::Explain as _;
use crate::terminal;

/// Keep the map of what is resident, to bring it back later
#[derive(Debug, Args)]
pub struct SnapshotArguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Keep what is resident now, in both tiers
    Take(TakeArguments),
    /// List the snapshots, newest first, and mark the one that `restore` would take
    List(SnapshotPlace),
    /// Show what a snapshot holds
    Show {
        /// The beginning of its name, newest, newest~1, best (the one that `restore` would take) or a file
        #[arg(default_value = NEWEST)]
        snapshot: String,
        #[command(flatten)]
        view: ViewArguments,
        #[command(flatten)]
        place: SnapshotPlace,
    },
    /// Show what changed between two snapshots, or since one until now
    Diff(DiffArguments),
    /// Forget a snapshot
    Drop {
        /// The beginning of its name, newest, newest~1 or best (the one that `restore` would take)
        snapshot: String,
        #[command(flatten)]
        place: SnapshotPlace,
    },
    /// Read snapshots to their end, and compare them with their checksums
    Verify {
        /// The beginning of its name, newest, newest~1, best (the one that `restore` would take) or a file
        #[arg(default_value = NEWEST)]
        snapshot: String,
        /// Every snapshot of every cluster
        #[arg(long, conflicts_with = "snapshot")]
        all: bool,
        #[command(flatten)]
        place: SnapshotPlace,
    },
}

impl SnapshotArguments {
    /// Which server was named.
    pub fn named(&self) -> ConnectionArguments {
        match &self.action {
            Action::Take(arguments) => arguments.named(),
            Action::Diff(arguments) => arguments.place.connection.clone(),
            Action::List(place)
            | Action::Show { place, .. }
            | Action::Drop { place, .. }
            | Action::Verify { place, .. } => place.connection.clone(),
        }
    }
}

/// Runs the command.
pub async fn run(arguments: SnapshotArguments, output: OutputArguments) -> anyhow::Result<ExitStatus> {
    match arguments.action {
        Action::Take(arguments) => return take(arguments, output).await,
        Action::List(place) => list(&place, output).await?,
        Action::Show { snapshot, view, place } => show(&place.resolve(&snapshot).await?, &view, output)?,
        Action::Diff(arguments) => diff(&arguments, output).await?,
        Action::Drop { snapshot, place } => {
            let generation = place.find(&snapshot).await?;
            generation.drop_file()?;
            match output.json {
                true => terminal::print_json(&json!({ "dropped": [generation.name] }))?,
                false => terminal::print_line(&format!("dropped {}", generation.path.display())),
            }
        }
        Action::Verify { snapshot, all, place } => return verify(&snapshot, all, &place, output).await,
    }
    Ok(ExitStatus::Done)
}

fn show(path: &Path, view: &ViewArguments, output: OutputArguments) -> anyhow::Result<()> {
    let snapshot = Snapshot::read(path)?;
    if !output.json {
        terminal::print_line(&terminal::render_snapshot_head(&snapshot.header()));
    }
    view.print(&snapshot.map, output)
}

/// The status is that of whatever else would read the first one that is not whole.
async fn verify(name: &str, all: bool, place: &SnapshotPlace, output: OutputArguments) -> anyhow::Result<ExitStatus> {
    let paths = match all {
        true => place.snapshots.open().read_all()?.into_iter().map(|generation| generation.path).collect(),
        false => vec![place.resolve(name).await?],
    };
    let verdicts: Vec<_> = paths.iter().map(|path| (path, Snapshot::read(path).err())).collect();
    match output.json {
        true => terminal::print_json(&terminal::render_verdicts_json(&verdicts))?,
        false => terminal::print_line(&terminal::render_verdicts(&verdicts)),
    }
    let first = verdicts.iter().find_map(|(_, error)| error.as_ref());
    Ok(first.map_or(ExitStatus::Done, |error| ExitStatus::Because(error.kind())))
}
