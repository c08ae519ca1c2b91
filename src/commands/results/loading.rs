//! Runs of loaders in `pgthaw results`: the work is done in `src/results/` and `src/verdict/loading/`.

use std::path::Path;

use serde::Serialize;
use serde_json::{Value, json};

use crate::commands::OutputArguments;
use crate::results::Store;
use crate::study::{LoadingRun, LoadingTrial};
use crate::terminal;
use crate::verdict::{LoadingSummary, compute_loading_summary};

/// What `--json` prints of a run of loaders.
#[derive(Serialize)]
struct Document<'a> {
    run: &'a LoadingRun,
    summary: LoadingSummary,
    trials: &'a [LoadingTrial],
    interrupted: bool,
    kept_cluster: Option<&'a Path>,
}

/// A run that has just ended: everything as JSON, or head and tables.
pub fn print_loading(
    (run, trials): (&LoadingRun, &[LoadingTrial]),
    interrupted: bool,
    kept_cluster: Option<&Path>,
    output: OutputArguments,
) -> anyhow::Result<()> {
    let summary = compute_loading_summary(run, trials);
    if output.json {
        return Ok(terminal::print_json(&Document { run, summary, trials, interrupted, kept_cluster })?);
    }
    terminal::print_line(&terminal::render_loading_head(run));
    terminal::print_line(&terminal::render_loading(run, &summary));
    Ok(())
}

/// Shows a stored run.
pub async fn show_loading(store: &Store, run: &LoadingRun, output: OutputArguments) -> anyhow::Result<()> {
    let trials = store.read_loading_trials(&run.id).await?;
    print_loading((run, &trials), run.ended_at.is_none(), None, output)
}

/// The runs of loaders of a store, the newest first, with how many trials of each have ended.
pub async fn read_loading_lines(store: &Store) -> anyhow::Result<Vec<(LoadingRun, usize)>> {
    let mut lines = Vec::new();
    for run in store.read_loadings().await? {
        let trials = store.read_loading_trials(&run.id).await?.len();
        lines.push((run, trials));
    }
    Ok(lines)
}

/// A run of loaders in the list.
pub fn line_json((run, trials): &(LoadingRun, usize)) -> Value {
    json!({
        "id": run.id, "started_at": run.started_at, "ended_at": run.ended_at, "scale": run.study.scale,
        "disk": run.study.disk.name, "script": run.study.script, "loaders": run.study.loaders,
        "rounds": run.study.rounds, "trials": trials,
    })
}
