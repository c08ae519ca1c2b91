//! `pgthaw evict`: the work is done in `src/warm/`.

use clap::Args;

use super::{ExitStatus, OutputArguments};

/// Make relations, a database or the whole cluster cold
#[derive(Debug, Args)]
pub struct EvictArguments {}

/// Runs the command.
pub async fn run(_arguments: EvictArguments, _output: OutputArguments) -> anyhow::Result<ExitStatus> {
    anyhow::bail!("not built yet")
}
