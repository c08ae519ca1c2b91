//! `pgthaw report`: the work is done in `src/report/`.

use clap::Args;

use super::{ExitStatus, OutputArguments};

/// One self-contained HTML file of a run
#[derive(Debug, Args)]
pub struct ReportArguments {}

/// Runs the command.
pub async fn run(_arguments: ReportArguments, _output: OutputArguments) -> anyhow::Result<ExitStatus> {
    anyhow::bail!("not built yet")
}
