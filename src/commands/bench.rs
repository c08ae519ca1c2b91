//! `pgthaw bench`: the work is done in `src/bench/`.

use clap::Args;

use super::{ExitStatus, OutputArguments};

/// Measure warm-ups honestly: proven start state, repeats, randomised order
#[derive(Debug, Args)]
pub struct BenchArguments {}

/// Runs the command.
pub async fn run(_arguments: BenchArguments, _output: OutputArguments) -> anyhow::Result<ExitStatus> {
    anyhow::bail!("not built yet")
}
