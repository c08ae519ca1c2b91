//! `pgthaw snapshot take`: the work is done in `src/cache/`.

use std::fs;
use std::path::PathBuf;

use clap::Args;

use super::snapshot_place::SnapshotPlace;
use super::{ExitStatus, OutputArguments, Target, read_current_map};
use crate::cache::{Generation, Snapshot};
use crate::terminal;
use crate::units::Bytes;

/// What to call it, and where to put it.
#[derive(Debug, Args)]
pub struct TakeArguments {
    #[command(flatten)]
    place: SnapshotPlace,

    /// A word for its name, such as nightly
    #[arg(long)]
    label: Option<String>,

    /// Keep this many with the same label, and drop older ones once the new one is safe
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u16).range(1..))]
    keep: u16,

    /// Write this file instead, and drop none
    #[arg(short, long, value_name = "FILE", conflicts_with = "keep")]
    output: Option<PathBuf>,
}

/// Takes a snapshot.
pub async fn take(arguments: TakeArguments, output: OutputArguments) -> anyhow::Result<ExitStatus> {
    let store = arguments.place.snapshots.open();
    let target = Target::open(&arguments.place.connection).await?;
    let map = read_current_map(&target, &store, output).await?;
    let snapshot = Snapshot::take(map, arguments.label)?;
    let header = snapshot.header();
    let (path, dropped): (PathBuf, Vec<Generation>) = match arguments.output {
        Some(path) => {
            snapshot.write(&path)?;
            (path, Vec::new())
        }
        None => {
            let generation = store.keep(&snapshot)?;
            let cluster = generation.system_identifier;
            (generation.path, store.prune(cluster, snapshot.label.as_deref(), arguments.keep.into())?)
        }
    };
    let file_bytes = Bytes(fs::metadata(&path)?.len());
    let path = path.display().to_string();
    if output.json {
        terminal::print_json(&terminal::render_taken_json(&header, &path, file_bytes, &dropped))?;
    } else {
        terminal::print_line(&terminal::render_taken(&header, &path, file_bytes, &dropped));
        terminal::render_states(&snapshot.map).iter().for_each(|line| terminal::print_remark(line));
    }
    Ok(ExitStatus::Done)
}
