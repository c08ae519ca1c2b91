//! `pgthaw snapshot`: the work is done in `src/cache/`.

use clap::Args;

use super::{ExitStatus, OutputArguments};

/// Keep the map of what is resident, to bring it back later
#[derive(Debug, Args)]
pub struct SnapshotArguments {}

/// Runs the command.
pub async fn run(_arguments: SnapshotArguments, _output: OutputArguments) -> anyhow::Result<ExitStatus> {
    anyhow::bail!("not built yet")
}
