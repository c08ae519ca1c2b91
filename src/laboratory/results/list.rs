//! `pgthaw results list`: the work is done in `src/results/`.

use serde_json::json;

use super::sweep;
use crate::laboratory::OutputArguments;
use crate::laboratory::store::remark_damaged;
use crate::results::{Listed, Store};
use crate::study::{Run, Trial};
use crate::terminal::{self, Canvas, RunLine};
use crate::verdict::{compute_summary, render_headline};

/// Lists runs of all kinds, the newest first.
pub async fn list(store: &Store, output: OutputArguments) -> anyhow::Result<()> {
    let Listed { runs, sweeps, damaged } = store.read_listed().await?;
    let lines: Vec<RunLine<'_>> = runs.iter().map(line_of).collect();
    if output.json {
        let lines: Vec<_> = lines.iter().map(line_json).collect();
        let sweeps: Vec<_> = sweeps.iter().map(sweep::line_json).collect();
        let lists = json!({ "results": store.place(), "runs": lines, "sweeps": sweeps, "damaged": damaged });
        return Ok(terminal::print_json(&lists)?);
    }
    remark_damaged(&damaged);
    for (sweep, trials) in &sweeps {
        terminal::print_line(&terminal::render_sweep_line(sweep, *trials));
    }
    if lines.is_empty() && sweeps.is_empty() && damaged.is_empty() {
        terminal::print_remark(&format!("{} holds no run yet", store.place()));
    } else if !lines.is_empty() {
        terminal::print_line(&terminal::render_runs(&lines, Canvas::of_stdout(false)));
    }
    Ok(())
}

fn line_of((run, trials): &(Run, Vec<Trial>)) -> RunLine<'_> {
    RunLine { run, trials: trials.len(), headline: render_headline(&compute_summary(run, trials)) }
}

fn line_json(line: &RunLine<'_>) -> serde_json::Value {
    let Run { id, started_at, ended_at, study, .. } = line.run;
    json!({
        "id": id, "started_at": started_at, "ended_at": ended_at, "scale": study.scale, "disk": study.disk.name,
        "strategies": study.strategies, "trials": line.trials, "headline": line.headline,
    })
}
