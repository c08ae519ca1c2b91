//! `pgthaw results time`: the work is done in `crates/pgthaw-lab/src/verdict/sweep/`.

use serde_json::json;

use crate::laboratory::OutputArguments;
use crate::laboratory::text::render_study_time;
use crate::results::Store;
use crate::verdict::{compute_outline_summary, compute_timed_points};
use terminal::Canvas;

/// Shows where the time of the servers of a study went, point by point.
pub async fn show_time(store: &Store, wanted: &str, output: OutputArguments) -> anyhow::Result<()> {
    let run = store.read_study(wanted).await?;
    let trials = store.read_sweep_outlines(&run.id).await?;
    let points = compute_timed_points(&run, &compute_outline_summary(&run, &trials));
    if output.json {
        return Ok(terminal::print_json(
            &json!({ "sweep": run.id, "processors": run.machine.cores, "points": points }),
        )?);
    }
    terminal::print_line(&render_study_time(&points, run.machine.cores, Canvas::of_stdout(false).width));
    Ok(())
}
