//! `pgthaw snapshot`; the work is in `crates/cache/src/`.

mod place;
pub mod snapshot_text;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::json;

use crate::map::map_text::render_states;
use crate::snapshot::snapshot_text::{
    SnapshotLine, Taken, render_difference, render_difference_json, render_dropped, render_other, render_passed_over,
    render_selected, render_snapshot_head, render_snapshots, render_snapshots_json, render_taken, render_taken_json,
    render_verdicts, render_verdicts_json,
};
use crate::{
    ConnectionArguments, ExitStatus, OutputArguments, PositionalArguments, SelectionArguments, Target, ViewArguments,
    add_heat, describe, read_current_map,
};
use cache::{
    BEST, Candidates, Generation, NEWEST, Selected, Snapshot, SnapshotStore, Tiers, compute_difference, is_path,
    kept_elsewhere,
};
use host::failure::Explain as _;
use terminal::Canvas;

pub use place::{SnapshotPlace, SnapshotsArguments};

/// Take, list, show, compare or drop snapshots of the caches
#[derive(Debug, Args)]
pub struct SnapshotArguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Store which blocks are cached now, in both caches; --quiet prints only errors
    Take(TakeArguments),
    /// List the snapshots, newest first, and mark the one that `restore` would choose
    List {
        /// With --verify only: the beginning of a name, newest, newest~1, best or a file
        #[arg(requires = "verify")]
        snapshot: Option<String>,
        /// Instead verify checksums of SNAPSHOT, or of the newest snapshot and the one that `restore` would choose
        #[arg(long)]
        verify: bool,
        /// With --verify: every snapshot of every cluster
        #[arg(long, requires = "verify", conflicts_with = "snapshot")]
        all: bool,
        #[command(flatten)]
        place: SnapshotPlace,
    },
    /// Show the contents of a snapshot
    Show {
        /// Snapshot: newest, newest~1, best (the one that `restore` would choose), the beginning of a name, or a file
        #[arg(default_value = NEWEST)]
        snapshot: String,
        #[command(flatten)]
        view: ViewArguments,
        #[command(flatten)]
        place: SnapshotPlace,
    },
    /// Show the changes between two snapshots, or from one until now
    Diff(DiffArguments),
    /// Delete a snapshot
    Drop {
        /// Snapshot: newest, newest~1, best (the one that `restore` would choose), or the beginning of a name
        snapshot: String,
        #[command(flatten)]
        place: SnapshotPlace,
    },
}

pub async fn run(arguments: SnapshotArguments, output: OutputArguments) -> anyhow::Result<ExitStatus> {
    match arguments.action {
        Action::Take(arguments) => return take(arguments, output).await,
        Action::List { snapshot, verify: true, all, place } => {
            return verify(snapshot.as_deref(), all, &place, output).await;
        }
        Action::List { place, .. } => list(&place, output).await?,
        Action::Show { snapshot, view, place } => show(&snapshot, &view, &place, output).await?,
        Action::Diff(arguments) => diff(&arguments, output).await?,
        Action::Drop { snapshot, place } => forget(&snapshot, &place, output).await?,
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

async fn forget(name: &str, place: &SnapshotPlace, output: OutputArguments) -> anyhow::Result<()> {
    let generation = place.find(name).await?;
    let before = place.select(generation.system_identifier).await?;
    place.snapshots.open().forget(&generation)?;
    let restore = place.select(generation.system_identifier).await?;
    let answer = json!({ "dropped": [generation.name], "restore": restore });
    let was_taken = before.is_some_and(|before| before.holding.path == generation.path);
    Ok(terminal::print_answer(&answer, output.json, || render_dropped(&generation, was_taken, restore.as_ref()))?)
}

/// Returns the exit status for the first error.
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
    let answer = render_verdicts_json(&verdicts);
    terminal::print_answer(&answer, output.json, || render_verdicts(&verdicts, store.root()))?;
    let first = verdicts.iter().find_map(|(_, error)| error.as_ref());
    Ok(first.map_or(ExitStatus::Done, |error| ExitStatus::Because(error.kind())))
}

/// Name and place of a new snapshot.
#[derive(Debug, Args)]
pub struct TakeArguments {
    #[command(flatten)]
    place: SnapshotPlace,

    #[command(flatten)]
    positional: PositionalArguments,

    /// Label in the snapshot's name, such as nightly
    #[arg(long)]
    label: Option<String>,

    /// Keep this many snapshots of the same label, and delete older ones after the new one is stored
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u16).range(1..))]
    keep: u16,

    /// Write the snapshot to this file only, and delete no old snapshots
    #[arg(short, long, value_name = "FILE", conflicts_with = "keep")]
    output: Option<PathBuf>,
}

impl TakeArguments {
    pub fn named(&self) -> ConnectionArguments {
        self.place.connection.clone().with(self.positional.clone())
    }
}

pub async fn take(arguments: TakeArguments, output: OutputArguments) -> anyhow::Result<ExitStatus> {
    let store = arguments.place.snapshots.open();
    let target = Target::open(&ConnectionArguments { keeps_first: true, ..arguments.named() }).await?;
    let (snapshot, taken) = match arguments.output {
        Some(path) => {
            let snapshot = read_snapshot(&target, &store, arguments.label, output).await?;
            snapshot.write(&path)?;
            let taken = Taken::alone(snapshot.header(), path)?;
            (snapshot, taken)
        }
        None => take_into(&target, &store, arguments.label, arguments.keep, output).await?,
    };
    if output.json {
        terminal::print_json(&render_taken_json(&taken))?;
    } else if !output.quiet {
        // cron mails any output, hence `--quiet`.
        terminal::print_line(&render_taken(&taken));
        render_states(&snapshot.map).iter().for_each(|line| terminal::print_remark(line));
        render_passed_over(&taken).iter().for_each(|line| terminal::print_remark(line));
    }
    Ok(ExitStatus::Done)
}

async fn read_snapshot(
    target: &Target,
    store: &SnapshotStore,
    label: Option<String>,
    output: OutputArguments,
) -> anyhow::Result<Snapshot> {
    let mut map = read_current_map(target, store, output.shows_progress()).await?;
    add_heat(&mut map, target, store).await?;
    Ok(Snapshot::take(map, label)?)
}

/// Stores a snapshot, and deletes old ones of its label.
pub async fn take_into(
    target: &Target,
    store: &SnapshotStore,
    label: Option<String>,
    keep: u16,
    output: OutputArguments,
) -> anyhow::Result<(Snapshot, Taken)> {
    let snapshot = read_snapshot(target, store, label, output).await?;
    let generation = store.keep(&snapshot)?;
    let situation = target.situation(Tiers::BOTH).await;
    let dropped = store.prune(&generation, keep.into(), situation.databases.clone())?;
    let (candidates, _) = store.read_candidates(generation.system_identifier)?;
    let restore = candidates.select(&situation);
    let taken = Taken { keep, dropped, restore, ..Taken::alone(snapshot.header(), generation.path)? };
    Ok((snapshot, taken))
}

pub async fn list(place: &SnapshotPlace, output: OutputArguments) -> anyhow::Result<()> {
    let store = place.snapshots.open();
    let mut lines: Vec<SnapshotLine> = store.read_all()?.into_iter().map(SnapshotLine::read).collect();
    mark_taken(&mut lines, place).await?;
    match output.json {
        true => terminal::print_json(&render_snapshots_json(&lines))?,
        false if lines.is_empty() => {
            let directory = store.root().display();
            let more = match place.snapshots.find_owners(&place.connection) {
                Some(elsewhere) => format!("; {}", kept_elsewhere(&elsewhere)),
                None => " yet: `pgthaw snapshot take` makes one".to_owned(),
            };
            terminal::print_line(&format!("there is no snapshot in {directory}{more}"));
        }
        false => terminal::print_line(&render_snapshots(&lines, Canvas::of_stdout(false))),
    }
    Ok(())
}

async fn mark_taken(lines: &mut [SnapshotLine], place: &SnapshotPlace) -> anyhow::Result<()> {
    if lines.is_empty() {
        return Ok(());
    }
    let (known, unanswered) = place.ask_situation().await?;
    if let Some(error) = unanswered {
        terminal::print_remark(&format!("note: {}; the list has the snapshots of all servers", describe(&error)));
    }
    for of_cluster in
        lines.chunk_by_mut(|one, other| one.generation.system_identifier == other.generation.system_identifier)
    {
        let mut candidates = Candidates::default();
        let readable = of_cluster.iter().filter_map(|line| Some((line, line.header.as_ref().ok()?)));
        readable.for_each(|(line, header)| candidates.add(line.generation.clone(), header.clone()));
        let selected = candidates.select(&known.of(of_cluster[0].generation.system_identifier));
        let taken = of_cluster
            .iter_mut()
            .find(|line| selected.as_ref().is_some_and(|selected| selected.holding.path == line.generation.path));
        taken.into_iter().for_each(|line| line.restore.clone_from(&selected));
    }
    Ok(())
}

/// The compared snapshots, and the shown relations.
#[derive(Debug, Args)]
pub struct DiffArguments {
    /// Earlier snapshot: the beginning of its name, newest, newest~1 or a file [default: the one that `restore` would choose]
    before: Option<String>,

    /// Later snapshot [default: the caches now]
    after: Option<String>,

    #[command(flatten)]
    selection: SelectionArguments,

    /// Show the N relations that changed most; 0 shows all
    #[arg(long, value_name = "N", default_value_t = 20)]
    top: usize,

    #[command(flatten)]
    pub place: SnapshotPlace,
}

pub async fn diff(arguments: &DiffArguments, output: OutputArguments) -> anyhow::Result<()> {
    let place = &arguments.place;
    let (before, since) = match arguments.before.as_deref() {
        None | Some(BEST) => place.choose().await.map(|chosen| (chosen.snapshot.map, Some(chosen.selected)))?,
        Some(name) => (place.read(name).await?.map, None),
    };
    let after = match &arguments.after {
        Some(name) => place.read(name).await?.map,
        None => {
            let target = Target::open(&place.connection).await?;
            read_current_map(&target, &place.snapshots.open(), output.shows_progress()).await?
        }
    };
    let difference = compute_difference(&before, &after).select(&arguments.selection.selection())?;
    let block_size = after.source.block_size;
    // As JSON every relation has a value, changed or not.
    if output.json {
        return Ok(terminal::print_json(&render_difference_json(&difference, block_size, since.as_ref()))?);
    }
    let table = render_difference(&difference, block_size, arguments.top, Canvas::of_stdout(false));
    terminal::print_line(&since.iter().flat_map(render_selected).chain([table]).collect::<Vec<_>>().join("\n"));
    Ok(())
}
