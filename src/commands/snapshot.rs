//! `pgthaw snapshot`: the work is done in `src/cache/`.

use std::path::PathBuf;

use clap::Args;

use super::{ExitStatus, OutputArguments};

/// Keep the map of what is resident, to bring it back later
#[derive(Debug, Args)]
pub struct SnapshotArguments {}

/// Where snapshots are kept.
#[derive(Clone, Debug, Default, Args)]
pub struct SnapshotsArguments {
    /// The directory that keeps snapshots [default: pgthaw/snapshots in $XDG_STATE_HOME or ~/.local/state]
    #[arg(long = "dir", value_name = "DIRECTORY", env = "PGTHAW_SNAPSHOTS")]
    directory: Option<PathBuf>,
}

impl SnapshotsArguments {
    /// The directory, when it is not the usual one.
    pub fn directory(&self) -> Option<PathBuf> {
        self.directory.clone()
    }
}

/// Runs the command.
pub async fn run(_arguments: SnapshotArguments, _output: OutputArguments) -> anyhow::Result<ExitStatus> {
    anyhow::bail!("not built yet")
}
