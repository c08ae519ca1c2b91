//! `pgthaw map`: the work is done in `src/cache/`.

use clap::Args;

use super::{ExitStatus, OutputArguments};

/// What is resident now, per relation, in shared_buffers and in the OS page cache
#[derive(Debug, Args)]
pub struct MapArguments {}

/// Runs the command.
pub async fn run(_arguments: MapArguments, _output: OutputArguments) -> anyhow::Result<ExitStatus> {
    anyhow::bail!("not built yet")
}
