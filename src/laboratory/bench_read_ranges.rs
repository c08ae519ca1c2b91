//! `pgthaw bench read-ranges`: the loader that merges nothing, which `bench residency` starts. `src/bench/loading/` does it.

use std::path::PathBuf;

use clap::Args;

use super::ExitStatus;
use crate::bench::apply_read_ranges;

#[derive(Debug, Args)]
pub struct ReadRangesArguments {
    /// A line per range: first byte, number of bytes, file
    list: PathBuf,

    #[arg(long, default_value_t = 16)]
    threads: u16,
}

/// Runs the command.
pub fn run(arguments: &ReadRangesArguments) -> anyhow::Result<ExitStatus> {
    apply_read_ranges(&arguments.list, arguments.threads.into())?;
    Ok(ExitStatus::Done)
}
