//! `pgthaw demo`: the work is done in `src/bench/`.

use clap::Args;

use super::{ExitStatus, OutputArguments};

/// See it all on a scratch cluster: cold, slow, warmed, proven
#[derive(Debug, Args)]
pub struct DemoArguments {}

/// Runs the command.
pub async fn run(_arguments: DemoArguments, _output: OutputArguments) -> anyhow::Result<ExitStatus> {
    anyhow::bail!("not built yet")
}
