//! Which snapshot is meant: for `snapshot` and whatever else reads one.

use std::path::PathBuf;

use clap::Args;

use super::{ConnectionArguments, Target};
use crate::cache::{self, Generation, SnapshotStore, is_path};

/// Where snapshots are kept.
#[derive(Clone, Debug, Default, Args)]
pub struct SnapshotsArguments {
    /// The directory that keeps snapshots [default: pgthaw/snapshots in $XDG_STATE_HOME or ~/.local/state]
    #[arg(long = "dir", value_name = "DIRECTORY", env = "PGTHAW_SNAPSHOTS")]
    directory: Option<PathBuf>,
}

impl SnapshotsArguments {
    /// The store.
    pub fn open(&self) -> SnapshotStore {
        SnapshotStore::open(self.directory.clone())
    }
}

/// Which store, and which cluster in it.
#[derive(Debug, Args)]
pub struct SnapshotPlace {
    #[command(flatten)]
    pub connection: ConnectionArguments,

    #[command(flatten)]
    pub snapshots: SnapshotsArguments,
}

impl SnapshotPlace {
    /// The file of the snapshot that is meant.
    pub async fn resolve(&self, name: &str) -> anyhow::Result<PathBuf> {
        if is_path(name) {
            return Ok(PathBuf::from(name));
        }
        Ok(self.find(name).await?.path)
    }

    /// The generation that is meant.
    pub async fn find(&self, name: &str) -> anyhow::Result<Generation> {
        let store = self.snapshots.open();
        let cluster = self.find_cluster(&store).await?;
        Ok(store.find(name, cluster)?)
    }

    /// Which cluster it is. The server is asked only when it was named, or when there are several to choose from: the
    /// snapshots of a server that is down can be looked at too.
    async fn find_cluster(&self, store: &SnapshotStore) -> anyhow::Result<u64> {
        let is_named = self.connection.names_server() || self.connection.data_dir.is_some();
        match store.read_clusters()?.as_slice() {
            [] => Err(cache::Error::NoSnapshot(store.root().to_owned()).into()),
            [only] if !is_named => Ok(*only),
            _ => Ok(Target::open(&self.connection).await?.system_identifier().unwrap_or_default()),
        }
    }
}
