//! `pgthaw results`: the work is done in `src/results/`.

use clap::Args;

use super::{ExitStatus, OutputArguments};

/// What earlier runs measured
#[derive(Debug, Args)]
pub struct ResultsArguments {}

/// Runs the command.
pub async fn run(_arguments: ResultsArguments, _output: OutputArguments) -> anyhow::Result<ExitStatus> {
    anyhow::bail!("not built yet")
}
