//! The options that say where results are kept.

use std::path::PathBuf;

use clap::Args;

use crate::results::{self, Store};

/// Where results are kept.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Results")]
pub struct StoreArguments {
    /// The file that keeps results [default: pgthaw/results.sqlite in $XDG_STATE_HOME or ~/.local/state]
    #[arg(long = "results", value_name = "FILE", env = "PGTHAW_RESULTS", global = true)]
    file: Option<PathBuf>,
}

impl StoreArguments {
    /// The store to write to; made when it is not there.
    pub async fn open(&self) -> Result<Store, results::Error> {
        Store::open(&self.path()?).await
    }

    /// The store to read from, which must be there.
    pub async fn open_existing(&self) -> Result<Store, results::Error> {
        Store::open_existing(&self.path()?).await
    }

    fn path(&self) -> Result<PathBuf, results::Error> {
        self.file.clone().map_or_else(results::default_path, Ok)
    }
}
