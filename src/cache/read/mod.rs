//! Reading the map: names from the catalogs or the directory, the OS tier from the files, the buffers tier from
//! pg_buffercache.

mod buffers;
mod catalogs;
mod files;
mod inputs;
mod os;

use jiff::Timestamp;

pub use inputs::MapInputs;

use inputs::Listed;

use super::{Error, HeatSource, Lookups, Map, MapSource, TierState};

/// Reads what is resident now. What cannot be seen for lack of a privilege or a capability is said in the map's tiers
/// and remarks; a relation dropped meanwhile is left out.
///
/// # Errors
/// When there is nothing to list the relations with, or when the server goes away.
pub async fn read_map(inputs: MapInputs<'_>) -> Result<Map, Error> {
    read_map_of(inputs, true).await
}

/// Reads what is resident now, of shared_buffers only `with_buffers`: they take a while where there are many.
pub async fn read_map_of(inputs: MapInputs<'_>, with_buffers: bool) -> Result<Map, Error> {
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
        Some(server) if with_buffers => buffers::read_buffers_tier(server, &inputs, &mut relations).await?,
        Some(_) => TierState::Unknown { reason: "nobody asked for it".to_owned() },
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
        lookups: Lookups::default(),
        remarks,
    })
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
