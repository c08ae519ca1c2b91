//! `pgthaw restore`: the work is done in `src/warm/`.

use clap::Args;

use super::{ExitStatus, OutputArguments};

/// Bring back what a snapshot says was resident
#[derive(Debug, Args)]
pub struct RestoreArguments {}

/// Runs the command.
pub async fn run(_arguments: RestoreArguments, _output: OutputArguments) -> anyhow::Result<ExitStatus> {
    anyhow::bail!("not built yet")
}
