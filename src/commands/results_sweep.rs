//! Sweeps in `pgthaw results`: the work is done in `src/results/` and `src/bench/sweep/`.

use serde::Serialize;
use serde_json::{Value, json};

use super::OutputArguments;
use crate::bench::{PointSummary, SweepRun, SweepTrial, compute_sweep_summary};
use crate::results::Store;
use crate::terminal::{self, Canvas};

/// What `--json` prints of a sweep.
#[derive(Serialize)]
struct Document<'a> {
    sweep: &'a SweepRun,
    points: Vec<PointSummary>,
    trials: &'a [SweepTrial],
}

/// The table of points, or everything as JSON.
pub fn print_sweep(run: &SweepRun, trials: &[SweepTrial], output: OutputArguments) -> anyhow::Result<()> {
    let points = compute_sweep_summary(run, trials);
    if output.json {
        return Ok(terminal::print_json(&Document { sweep: run, points, trials })?);
    }
    terminal::print_line(&format!("{}\n", terminal::render_sweep_head(run, trials.len())));
    terminal::print_line(&terminal::render_sweep_points(run, &points, Canvas::of_stdout(false)));
    Ok(())
}

/// Shows a stored sweep.
pub async fn show_sweep(store: &Store, run: &SweepRun, output: OutputArguments) -> anyhow::Result<()> {
    print_sweep(run, &store.read_sweep_trials(&run.id).await?, output)
}

/// The sweeps of a store, the newest first, with how many trials of each have ended.
pub async fn read_sweep_lines(store: &Store) -> anyhow::Result<Vec<(SweepRun, usize)>> {
    let mut lines = Vec::new();
    for run in store.read_sweeps().await? {
        let trials = store.read_finished(&run.id).await?.len();
        lines.push((run, trials));
    }
    Ok(lines)
}

/// A sweep in the list.
pub fn line_json((run, trials): &(SweepRun, usize)) -> Value {
    json!({
        "id": run.id, "started_at": run.started_at, "ended_at": run.ended_at, "question": run.question,
        "points": run.points, "repeats": run.repeats, "varied": run.varied, "trials": trials,
    })
}
