//! `pgthaw results noise`: the work is done in `crates/pgthaw-lab/src/verdict/sweep/`.

use clap::Args;
use serde_json::json;

use crate::laboratory::OutputArguments;
use crate::laboratory::text::render_noise;
use crate::results::Store;
use crate::verdict::{Metric, Noise, compute_noise};
use terminal::Canvas;

/// Which sweep.
#[derive(Debug, Args)]
pub struct NoiseArguments {
    /// A sweep of `bench --aa` [default: the newest]
    sweep: Option<String>,
}

/// Shows what the equal sides of a sweep differ by, in every figure.
pub async fn show_noise(store: &Store, arguments: &NoiseArguments, output: OutputArguments) -> anyhow::Result<()> {
    let (run, trials) = store.read_sweep_or_newest(arguments.sweep.as_deref()).await?;
    let noises = Metric::ALL.iter().copied().map(|metric| compute_noise(&run, &trials, metric));
    let noises: Vec<Noise> = noises.collect::<Result<_, _>>()?;
    if output.json {
        terminal::print_json(&json!({ "sweep": run.id, "noise": noises }))?;
    } else {
        terminal::print_line(&render_noise(&run.id, &noises, Canvas::of_stdout(false).width));
    }
    Ok(())
}
