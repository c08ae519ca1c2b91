//! The flags of `waits`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use crate::ConnectionArguments;
use crate::looking::BudgetArguments;
use observe::time::{By, Tier};

/// Where the time of the server's processes goes: on a processor, ready for one, waiting for the client, or for what
///
/// Looks for some seconds, or while a command runs: pgthaw waits -- pgbench -T 30. With root's rights a small program in the kernel
/// charges every nanosecond of every process, and what it costs is told. With fewer rights the wait events are looked at now and then:
/// in the processes' memory, or over SQL alone; then nothing is counted, and times are estimates. docs/waits.md says what is measured.
#[derive(Debug, Args)]
pub struct WaitsArguments {
    #[command(flatten)]
    pub connection: ConnectionArguments,

    /// Look for so long [default: 10; with a command as long as it runs]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub(super) seconds: Option<u32>,

    /// Whose times are added up
    #[arg(long, value_enum, default_value_t)]
    pub(super) by: By,

    /// Where the times come from [default: the most exact source that can be had]
    #[arg(long, value_enum)]
    pub(super) source: Option<Tier>,

    #[command(flatten)]
    pub(super) budget: BudgetArguments,

    /// Write the statistics and the account of the seconds to this file too, as Parquet
    #[arg(long, value_name = "FILE")]
    pub(super) parquet: Option<PathBuf>,

    /// Look while this command runs, and end with its exit status
    #[arg(last = true, value_name = "CMD", conflicts_with = "seconds")]
    pub(super) command: Vec<OsString>,
}
