//! `pgthaw completions`: the work is done in `src/commands/`.

use clap::Args;

use super::{ExitStatus, OutputArguments};

/// Print the completions of a shell, or the manual page
#[derive(Debug, Args)]
pub struct CompletionsArguments {}

/// Runs the command.
pub async fn run(_arguments: CompletionsArguments, _output: OutputArguments) -> anyhow::Result<ExitStatus> {
    anyhow::bail!("not built yet")
}
