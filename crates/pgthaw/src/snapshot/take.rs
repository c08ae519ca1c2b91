//! `pgthaw snapshot take`: the work is done in `crates/cache/src/`.

use std::path::PathBuf;

use clap::Args;

use super::place::SnapshotPlace;
use crate::map::map_text::render_states;
use crate::snapshot::snapshot_json::render_taken_json;
use crate::snapshot::snapshot_text::Taken;
use crate::snapshot::snapshot_text::{render_passed_over, render_taken};
use crate::{
    ConnectionArguments, ExitStatus, OutputArguments, PositionalArguments, Target, add_heat, read_current_map,
};
use cache::{Snapshot, Tiers};

/// What to call it, and where to put it.
#[derive(Debug, Args)]
pub struct TakeArguments {
    #[command(flatten)]
    place: SnapshotPlace,

    #[command(flatten)]
    positional: PositionalArguments,

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

impl TakeArguments {
    /// Which server and databases were named.
    pub fn named(&self) -> ConnectionArguments {
        self.place.connection.clone().with(self.positional.clone())
    }
}

/// Takes a snapshot.
pub async fn take(arguments: TakeArguments, output: OutputArguments) -> anyhow::Result<ExitStatus> {
    let store = arguments.place.snapshots.open();
    let target = Target::open(&arguments.named()).await?;
    let mut map = read_current_map(&target, &store, output).await?;
    add_heat(&mut map, &target, &store).await?;
    let snapshot = Snapshot::take(map, arguments.label)?;
    let header = snapshot.header();
    let taken = match arguments.output {
        Some(path) => {
            snapshot.write(&path)?;
            Taken::alone(header, path)?
        }
        None => {
            let generation = store.keep(&snapshot)?;
            let situation = target.situation(Tiers::BOTH).await;
            let dropped = store.prune(&generation, arguments.keep.into(), situation.databases.clone())?;
            let (candidates, _) = store.read_candidates(generation.system_identifier)?;
            let restore = candidates.select(&situation);
            Taken { keep: arguments.keep, dropped, restore, ..Taken::alone(header, generation.path)? }
        }
    };
    if output.json {
        terminal::print_json(&render_taken_json(&taken))?;
    } else if !output.quiet {
        // Whoever wants quiet takes from cron, which mails whatever is printed.
        terminal::print_line(&render_taken(&taken));
        render_states(&snapshot.map).iter().for_each(|line| terminal::print_remark(line));
        render_passed_over(&taken).iter().for_each(|line| terminal::print_remark(line));
    }
    Ok(ExitStatus::Done)
}
