//! Reading the map: names from the catalogs or the directory, the OS tier from the files, the buffers tier from
//! pg_buffercache.

mod buffers;
mod catalogs;
mod files;
mod os;

use std::fmt;

use jiff::Timestamp;

use super::{Error, HeatSource, Map, MapSource, RelationMap, Snapshot, TierState};
use crate::failure::{ErrorKind, Explain};
use crate::linux::page_cache::PageCache;
use crate::postgres::{DataDirectory, Database, PartitionedTable, Relation, Server};

/// What a map is read from. At least one of `server` and `data_directory` is there.
#[derive(Clone, Copy)]
pub struct MapInputs<'a> {
    pub server: Option<&'a Server>,
    pub data_directory: Option<&'a DataDirectory>,
    pub page_cache: &'a dyn PageCache,
    /// The databases to look at, beside the shared catalogs.
    pub databases: &'a [Database],
    /// Where names come from when there is no server: a snapshot of this cluster.
    pub names: Option<&'a Snapshot>,
    /// Is told now and then how many of how many relations' files were looked at.
    pub progress: &'a (dyn Fn(usize, usize) + Sync),
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

/// Reads what is resident now. What cannot be seen for lack of a privilege or a capability is said in the map's tiers
/// and remarks; a relation dropped meanwhile is left out.
///
/// # Errors
/// When there is nothing to list the relations with, or when the server goes away.
pub async fn read_map(inputs: MapInputs<'_>) -> Result<Map, Error> {
    let taken_at = Timestamp::now();
    let mut remarks = Vec::new();
    let os = os::probe(&inputs);
    let Listed { mut relations, partitioned } = match inputs.server {
        Some(server) => catalogs::read_catalogs(server, &inputs, os != TierState::Measured, &mut remarks).await?,
        None => files::read_files(&inputs)?,
    };
    if os == TierState::Measured {
        os::read_os_tier(&inputs, &mut relations, &mut remarks);
    }
    let buffers = match inputs.server {
        Some(server) => buffers::read_buffers_tier(server, &inputs, &mut relations).await?,
        None => TierState::Unknown { reason: "there is no server to ask".to_owned() },
    };
    let (relations, empty): (Vec<_>, Vec<_>) = relations.into_iter().partition(|one| !one.forks.is_empty());
    if inputs.server.is_none() && inputs.data_directory.is_some() {
        remarks.push(files::remark_names(&inputs, &relations));
    }
    if inputs.server.is_some_and(|server| server.facts.io_direct) {
        remarks.push("debug_io_direct has data: this server's reads bypass the OS page cache".to_owned());
    }
    Ok(Map {
        taken_at,
        source: read_source(&inputs),
        os,
        buffers,
        os_heat: HeatSource::None,
        relations,
        empty: empty.into_iter().map(|one| one.relation).collect(),
        partitioned,
        remarks,
    })
}

/// What there is to look at.
#[derive(Debug, Default)]
struct Listed {
    relations: Vec<RelationMap>,
    partitioned: Vec<PartitionedTable>,
}

/// A relation of which nothing is known to be resident yet.
fn unread(relation: Relation) -> RelationMap {
    RelationMap { relation, forks: Vec::new() }
}

/// The state of a tier that an error keeps from being seen: unknown when a privilege or a capability is missing;
/// other failures are handed on.
fn unknown_for<E: Explain + Into<Error>>(error: E) -> Result<TierState, Error> {
    if error.kind() != ErrorKind::Privilege {
        return Err(error.into());
    }
    let hint = error.hint().map(|hint| format!(": {hint}")).unwrap_or_default();
    Ok(TierState::Unknown { reason: format!("{error}{hint}") })
}

/// Which cluster it is: the server knows more than its files.
fn read_source(inputs: &MapInputs<'_>) -> MapSource {
    let data_directory = inputs.data_directory.map(|directory| directory.path.clone());
    match (inputs.server, inputs.data_directory) {
        (Some(server), _) => MapSource {
            system_identifier: server.facts.system_identifier,
            version_num: server.facts.version_num,
            block_size: server.facts.block_size,
            segment_blocks: server.facts.segment_blocks,
            data_directory,
            lsn: server.facts.lsn.clone(),
            timeline: server.facts.timeline,
        },
        (None, directory) => MapSource {
            system_identifier: directory.map_or(0, |directory| directory.system_identifier),
            version_num: directory.map_or(0, |directory| directory.version_major * 10_000),
            block_size: directory.map_or(8192, |directory| directory.block_size),
            segment_blocks: directory.map_or(131_072, |directory| directory.segment_blocks),
            data_directory,
            lsn: String::new(),
            timeline: 0,
        },
    }
}
