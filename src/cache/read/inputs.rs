//! What a map is read from, and what its parts are read into.

use std::fmt;

use crate::cache::{Error, RelationMap, Snapshot, TierState};
use crate::failure::{ErrorKind, Explain};
use crate::linux::page_cache::PageCache;
use crate::postgres::{DataDirectory, Database, PartitionedTable, Server};

/// What a map is read from. At least one of `server` and `data_directory` is there.
#[derive(Clone, Copy)]
pub struct MapInputs<'a> {
    pub server: Option<&'a Server>,
    pub data_directory: Option<&'a DataDirectory>,
    pub page_cache: &'a dyn PageCache,
    /// The databases to look at, beside the shared catalogs.
    pub databases: &'a [Database],
    /// Those of them whose catalogs are asked, for names and no partitioned tables; of the others the files are listed. `None`: all.
    pub named: Option<&'a [String]>,
    /// Where names come from when there is no server: a snapshot of this cluster.
    pub names: Option<&'a Snapshot>,
    /// Is told now and then how many of how many relations' files were looked at.
    pub progress: &'a (dyn Fn(usize, usize) + Sync),
}

impl MapInputs<'_> {
    /// Is the catalog of this database asked?
    pub fn asks(&self, database: &str) -> bool {
        self.named.is_none_or(|named| named.iter().any(|name| name == database))
    }
}

impl fmt::Debug for MapInputs<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MapInputs")
            .field("server", &self.server)
            .field("data_directory", &self.data_directory)
            .field("databases", &self.databases)
            .finish_non_exhaustive()
    }
}

/// What there is to look at.
#[derive(Debug, Default)]
pub struct Listed {
    pub relations: Vec<RelationMap>,
    pub partitioned: Vec<PartitionedTable>,
}

/// The state of a tier that an error keeps from being seen: unknown when a privilege or a capability is missing;
/// other failures are handed on.
pub fn unknown_for<E: Explain + Into<Error>>(error: E) -> Result<TierState, Error> {
    if error.kind() != ErrorKind::Privilege {
        return Err(error.into());
    }
    let hint = error.hint().map(|hint| format!(": {hint}")).unwrap_or_default();
    Ok(TierState::Unknown { reason: format!("{error}{hint}") })
}
