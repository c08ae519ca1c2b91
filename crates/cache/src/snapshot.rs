use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use roaring::RoaringBitmap;

use super::{BEST, Error, HeatSource, Lookups, Map, MapSource, NEWEST, Result, TierState};
use postgres::{PartitionedTable, Relation};

/// A stored map of cached blocks, without dirty flags, which a restore does not need.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    pub label: Option<String>,
    pub map: Map,
}

/// Metadata of a snapshot.
#[derive(Clone, Debug, PartialEq, Serialize, crate::JsonSchema)]
pub struct SnapshotHeader {
    /// Value of `--label`.
    pub label: Option<String>,
    pub taken_at: Timestamp,
    pub source: MapSource,
    /// Whether the page cache was measured.
    pub os: TierState,
    /// Whether shared_buffers were measured.
    pub buffers: TierState,
    pub os_heat: HeatSource,
    /// Remarks on the measurement, such as databases that could not be queried.
    pub remarks: Vec<String>,
    /// Number of relations with blocks, cached or not.
    #[serde(rename = "relation_count")]
    pub relations: u64,
    /// Relations without blocks, except system relations.
    #[serde(skip)]
    pub empty: Vec<Relation>,
    #[serde(skip)]
    pub partitioned: Vec<PartitionedTable>,
    #[serde(skip)]
    pub lookups: Lookups,
    /// Blocks in the page cache.
    pub os_blocks: u64,
    /// Blocks in shared_buffers.
    #[serde(rename = "buffers_blocks")]
    pub buffer_blocks: u64,
    /// Cached blocks by database, without shared catalogs.
    #[serde(skip)]
    pub databases: Vec<DatabaseBlocks>,
}

/// Cached blocks of a database.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
pub struct DatabaseBlocks {
    /// `pg_database.oid`.
    pub oid: u32,
    pub name: String,
    /// In the page cache.
    pub os_blocks: u64,
    /// In shared_buffers.
    pub buffers_blocks: u64,
}

impl Snapshot {
    pub fn take(map: Map, label: Option<String>) -> Result<Snapshot> {
        if let Some(label) = &label {
            check_label(label)?;
        }
        match (&map.os, &map.buffers) {
            (TierState::Unknown { reason: os }, TierState::Unknown { reason: buffers }) => {
                Err(Error::NothingMeasured { os: os.clone(), buffers: buffers.clone() })
            }
            _ => Ok(Snapshot::new(map, label)),
        }
    }

    pub fn new(map: Map, label: Option<String>) -> Snapshot {
        Snapshot { label, map }
    }

    pub fn header(&self) -> SnapshotHeader {
        SnapshotHeader {
            label: self.label.clone(),
            taken_at: self.map.taken_at,
            source: self.map.source.clone(),
            os: self.map.os.clone(),
            buffers: self.map.buffers.clone(),
            os_heat: self.map.os_heat,
            remarks: self.map.remarks.clone(),
            relations: self.map.relations.len() as u64,
            empty: self.map.empty.iter().filter(|one| !one.is_system).cloned().collect(),
            partitioned: self.map.partitioned.clone(),
            lookups: self.map.lookups.clone(),
            os_blocks: self.map.os_blocks(),
            buffer_blocks: self.map.buffer_blocks(),
            databases: count_databases(&self.map),
        }
    }
}

impl SnapshotHeader {
    pub fn resident_blocks(&self) -> u64 {
        self.os_blocks + self.buffer_blocks
    }
}

fn count_databases(map: &Map) -> Vec<DatabaseBlocks> {
    let mut databases: BTreeMap<(u32, &str), DatabaseBlocks> = BTreeMap::new();
    for (relation, fork) in map.forks().filter(|(relation, _)| relation.path.database_oid != 0) {
        let (oid, name) = (relation.path.database_oid, &*relation.name.database);
        let new = || DatabaseBlocks { oid, name: name.to_owned(), os_blocks: 0, buffers_blocks: 0 };
        let database = databases.entry((oid, name)).or_insert_with(new);
        database.os_blocks += fork.os.len();
        database.buffers_blocks += fork.buffers.iter().map(RoaringBitmap::len).sum::<u64>();
    }
    databases.into_values().collect()
}

/// A label must be safe in a file name, and not `best` or `newest`.
pub fn check_label(label: &str) -> Result<()> {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric();
    let is_part = |byte: u8| is_word(byte) || matches!(byte, b'.' | b'_' | b'-');
    let is_label = label.len() <= 40 && label.bytes().next().is_some_and(is_word) && label.bytes().all(is_part);
    let is_taken = [BEST, NEWEST].contains(&label);
    if is_label && !is_taken { Ok(()) } else { Err(Error::Label(label.to_owned())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_stay_inside_the_directory() {
        for label in ["nightly", "2026.1", "a-b_c"] {
            check_label(label).unwrap();
        }
        for label in ["", "-x", ".x", "a/b", "../x", "a b", "ä", "a\n", BEST, NEWEST, &"x".repeat(41)] {
            assert!(check_label(label).is_err(), "{label:?}");
        }
    }
}
