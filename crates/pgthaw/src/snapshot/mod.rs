//! `pgthaw snapshot`: the work is done in `crates/cache/src/`.

mod diff;
mod list;
mod place;
pub mod selected_text;
pub mod snapshot_json;
pub mod snapshot_text;
mod take;

pub use place::{SnapshotPlace, SnapshotsArguments};

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::json;

use crate::snapshot::snapshot_json::render_verdicts_json;
use crate::snapshot::snapshot_text::{render_dropped, render_other, render_snapshot_head, render_verdicts};
use crate::{ConnectionArguments, ExitStatus, OutputArguments, ViewArguments};
use cache::{Generation, NEWEST, Selected, Snapshot, is_path};
use host::failure::Explain as _;

use diff::{DiffArguments, diff};
use list::list;
use take::{TakeArguments, take};

/// Keep the map of what is resident, to bring it back later
#[derive(Debug, Args)]
pub struct SnapshotArguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Keep what is resident now, in both tiers; with --quiet nothing is printed but failures
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
        /// The beginning of its name, newest, newest~1, best or a file [default: the newest, and the one that `restore` would take]
        snapshot: Option<String>,
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
        Action::Show { snapshot, view, place } => show(&snapshot, &view, &place, output).await?,
        Action::Diff(arguments) => diff(&arguments, output).await?,
        Action::Drop { snapshot, place } => forget(&snapshot, &place, output).await?,
        Action::Verify { snapshot, all, place } => return verify(snapshot.as_deref(), all, &place, output).await,
    }
    Ok(ExitStatus::Done)
}

async fn show(name: &str, view: &ViewArguments, place: &SnapshotPlace, output: OutputArguments) -> anyhow::Result<()> {
    let kept = if is_path(name) { None } else { Some(place.find_to_read(name).await?) };
    let snapshot = kept.as_ref().map_or_else(|| Snapshot::read(Path::new(name)), |kept| kept.read())?;
    let (name, path) = kept.as_ref().map_or((name, Path::new(name)), |kept| (&*kept.name, &*kept.path));
    if !output.json {
        terminal::print_line(&render_snapshot_head(name, &snapshot.header()));
        if let Some(kept) = &kept
            && let Some(selected) = place.select(kept.system_identifier).await?
        {
            render_other(path, &selected).iter().for_each(|line| terminal::print_remark(line));
        }
    }
    view.print(&snapshot.map, output)
}

/// Drops one, and says which a restore takes from now on.
async fn forget(name: &str, place: &SnapshotPlace, output: OutputArguments) -> anyhow::Result<()> {
    let generation = place.find(name).await?;
    let before = place.select(generation.system_identifier).await?;
    place.snapshots.open().forget(&generation)?;
    let restore = place.select(generation.system_identifier).await?;
    if output.json {
        terminal::print_json(&json!({ "dropped": [generation.name], "restore": restore }))?;
    } else {
        let was_taken = before.is_some_and(|before| before.holding.path == generation.path);
        let lines = render_dropped(&generation, was_taken, restore.as_ref());
        lines.iter().for_each(|line| terminal::print_line(line));
    }
    Ok(())
}

/// The status is that of whatever else would read the first one that is not whole.
async fn verify(
    name: Option<&str>,
    all: bool,
    place: &SnapshotPlace,
    output: OutputArguments,
) -> anyhow::Result<ExitStatus> {
    let store = place.snapshots.open();
    let of_kept = |kept: Vec<Generation>| -> Vec<(PathBuf, Option<cache::Error>)> {
        kept.into_iter().map(|one| (one.path.clone(), one.read().err())).collect()
    };
    let verdicts = match name {
        _ if all => of_kept(store.read_all()?),
        Some(name) if is_path(name) => vec![(name.into(), Snapshot::read(Path::new(name)).err())],
        Some(name) => of_kept(vec![place.find_to_read(name).await?]),
        None => {
            let newest = place.find(NEWEST).await?;
            let taken = place.select(newest.system_identifier).await?.filter(|one| one.holding.path != newest.path);
            let find = |one: Selected| store.find(&one.holding.name, newest.system_identifier);
            let taken = taken.map(find).transpose()?;
            of_kept([newest].into_iter().chain(taken).collect())
        }
    };
    let verdicts: Vec<_> = verdicts.iter().map(|(path, error)| (path, error.as_ref())).collect();
    match output.json {
        true => terminal::print_json(&render_verdicts_json(&verdicts))?,
        false => terminal::print_line(&render_verdicts(&verdicts, store.root())),
    }
    let first = verdicts.iter().find_map(|(_, error)| *error);
    Ok(first.map_or(ExitStatus::Done, |error| ExitStatus::Because(error.kind())))
}
