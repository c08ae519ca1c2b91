//! `pgthaw results compare`: the work is done in `crates/pgthaw-lab/src/verdict/sweep/`.

use clap::Args;

use crate::laboratory::OutputArguments;
use crate::laboratory::text::render_sweep_comparison;
use crate::results::Store;
use crate::verdict::{Metric, Selection, Side, compute_sweep_comparison};
use terminal::Canvas;

/// What is held against what.
#[derive(Debug, Args)]
pub struct CompareArguments {
    /// One side: AXIS=VALUE,… of the newest sweep, SWEEP:AXIS=VALUE,… of another, or a SWEEP as a whole
    a: Selection,

    /// The other side, which is divided by the first
    b: Selection,

    /// tps, worst-second, p50, p95, p99, p999, warm-after, resident-after or any other figure of docs/formats.md; a percentile
    /// needs ten transactions beyond it in a trial [default: tps; where no load ran resident-after]
    #[arg(long)]
    metric: Option<Metric>,
}

/// Compares two sides, cell by cell.
pub async fn compare(store: &Store, arguments: &CompareArguments, output: OutputArguments) -> anyhow::Result<()> {
    let (run_a, trials_a) = store.read_side(&arguments.a).await?;
    let (run_b, trials_b) = store.read_side(&arguments.b).await?;
    let a = Side { selection: &arguments.a, run: &run_a, trials: &trials_a };
    let b = Side { selection: &arguments.b, run: &run_b, trials: &trials_b };
    let usual = if run_a.is_idle() { Metric::ResidentAfter } else { Metric::Tps };
    let comparison = compute_sweep_comparison(a, b, arguments.metric.unwrap_or(usual))?;
    if output.json {
        terminal::print_json(&comparison)?;
    } else {
        terminal::print_line(&render_sweep_comparison(&comparison, Canvas::of_stdout(false).width));
    }
    Ok(())
}
