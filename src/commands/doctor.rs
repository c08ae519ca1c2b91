//! `pgthaw doctor`: the work is done in `src/linux and postgres/`.

use clap::Args;

use super::{ExitStatus, OutputArguments};

/// What this host and this server let pgthaw do, and what mends the rest
#[derive(Debug, Args)]
pub struct DoctorArguments {}

/// Runs the command.
pub async fn run(_arguments: DoctorArguments, _output: OutputArguments) -> anyhow::Result<ExitStatus> {
    anyhow::bail!("not built yet")
}
