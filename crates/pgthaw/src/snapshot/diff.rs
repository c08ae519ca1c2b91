//! `pgthaw snapshot diff`: the work is done in `crates/cache/src/`.

use clap::Args;

use super::place::SnapshotPlace;
use crate::snapshot::selected_text::render_selected;
use crate::snapshot::snapshot_json::render_difference_json;
use crate::snapshot::snapshot_text::render_difference;
use crate::{OutputArguments, SelectionArguments, Target, read_current_map};
use cache::{BEST, compute_difference};
use terminal::Canvas;

/// What to compare, and what of it is shown.
#[derive(Debug, Args)]
pub struct DiffArguments {
    /// The earlier one: the beginning of its name, newest, newest~1 or a file [default: the one that `restore` would take]
    before: Option<String>,

    /// The later one [default: what is resident now]
    after: Option<String>,

    #[command(flatten)]
    selection: SelectionArguments,

    /// The N that changed most; 0 for all
    #[arg(long, value_name = "N", default_value_t = 20)]
    top: usize,

    #[command(flatten)]
    pub place: SnapshotPlace,
}

/// Compares two snapshots, or one with what is resident now.
pub async fn diff(arguments: &DiffArguments, output: OutputArguments) -> anyhow::Result<()> {
    let place = &arguments.place;
    let (before, since) = match arguments.before.as_deref() {
        None | Some(BEST) => place.choose().await.map(|chosen| (chosen.snapshot.map, Some(chosen.selected)))?,
        Some(name) => (place.read(name).await?.map, None),
    };
    let after = match &arguments.after {
        Some(name) => place.read(name).await?.map,
        None => read_current_map(&Target::open(&place.connection).await?, &place.snapshots.open(), output).await?,
    };
    let difference = compute_difference(&before, &after).select(&arguments.selection.selection())?;
    let block_size = after.source.block_size;
    if output.json {
        terminal::print_json(&render_difference_json(&difference, block_size, since.as_ref()))?;
    } else {
        let canvas = Canvas::of_stdout(false);
        since.iter().flat_map(render_selected).for_each(|line| terminal::print_line(&line));
        terminal::print_line(&render_difference(&difference, block_size, arguments.top, canvas));
    }
    Ok(())
}
