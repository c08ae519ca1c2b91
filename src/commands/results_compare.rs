//! `pgthaw results compare`: the work is done in `src/bench/sweep/`.

use clap::Args;

use super::OutputArguments;
use crate::bench::{Metric, Selection, Side, SweepRun, SweepTrial, compute_sweep_comparison};
use crate::results::{self, NEWEST, Store};
use crate::terminal::{self, Canvas};

/// What is held against what.
#[derive(Debug, Args)]
pub struct CompareArguments {
    /// One side: AXIS=VALUE,… of the newest sweep, SWEEP:AXIS=VALUE,… of another, or a SWEEP as a whole
    a: Selection,

    /// The other side, which is divided by the first
    b: Selection,

    /// tps, worst-second, p50, p95, p99 or p999; a percentile needs ten transactions beyond it in a trial
    #[arg(long, default_value = "tps")]
    metric: Metric,
}

/// Compares two sides, cell by cell.
pub async fn compare(store: &Store, arguments: &CompareArguments, output: OutputArguments) -> anyhow::Result<()> {
    let (run_a, trials_a) = read_side(store, &arguments.a).await?;
    let (run_b, trials_b) = read_side(store, &arguments.b).await?;
    let a = Side { selection: &arguments.a, run: &run_a, trials: &trials_a };
    let b = Side { selection: &arguments.b, run: &run_b, trials: &trials_b };
    let comparison = compute_sweep_comparison(a, b, arguments.metric)?;
    if output.json {
        terminal::print_json(&comparison)?;
    } else {
        terminal::print_line(&terminal::render_sweep_comparison(&comparison, Canvas::of_stdout(false).width));
    }
    Ok(())
}

async fn read_side(store: &Store, selection: &Selection) -> anyhow::Result<(SweepRun, Vec<SweepTrial>)> {
    read_sweep_outcomes(store, selection.sweep.as_deref()).await
}

/// A sweep, the newest of them when none is named, with its trials but without their seconds.
pub async fn read_sweep_outcomes(store: &Store, wanted: Option<&str>) -> anyhow::Result<(SweepRun, Vec<SweepTrial>)> {
    let run = match wanted {
        Some(wanted) => store.find_sweep(wanted).await?,
        // Of the sweeps alone, even when a tournament came later.
        None => store.read_sweeps().await?.into_iter().next(),
    };
    let run = run.ok_or_else(|| results::Error::UnknownRun(wanted.unwrap_or(NEWEST).to_owned()))?;
    let trials = store.read_sweep_outcomes(&run.id).await?;
    Ok((run, trials))
}
