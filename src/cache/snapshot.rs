//! A map that was kept.

use std::path::Path;

use jiff::Timestamp;

use super::snapshot_store::check_label;
use super::{Error, HeatSource, Map, MapSource, TierState, snapshot_file};
use crate::postgres::{PartitionedTable, Relation};

/// A map that was kept, with the label that the user gave it.
///
/// Which buffers were dirty is not kept: it says nothing about what to bring back.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    pub label: Option<String>,
    pub map: Map,
}

/// What a snapshot says of itself, without its rows.
#[derive(Clone, Debug, PartialEq)]
pub struct SnapshotHeader {
    pub label: Option<String>,
    pub taken_at: Timestamp,
    pub source: MapSource,
    pub os: TierState,
    pub buffers: TierState,
    pub os_heat: HeatSource,
    pub remarks: Vec<String>,
    pub relations: u64,
    /// [`Map::empty`] without PostgreSQL's own.
    pub empty: Vec<Relation>,
    pub partitioned: Vec<PartitionedTable>,
    /// Blocks resident in the OS page cache.
    pub os_blocks: u64,
    /// Blocks resident in shared_buffers.
    pub buffer_blocks: u64,
}

impl Snapshot {
    /// What is resident now as a snapshot, when there is something to keep and the label can stand in a file's name.
    pub fn take(map: Map, label: Option<String>) -> Result<Snapshot, Error> {
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

    /// A map and its label as they are.
    pub fn new(map: Map, label: Option<String>) -> Snapshot {
        Snapshot { label, map }
    }

    /// What the snapshot's file says of it.
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
            os_blocks: self.map.os_blocks(),
            buffer_blocks: self.map.buffer_blocks(),
        }
    }

    /// Reads a snapshot file and checks all of it. The file is untrusted: see [`snapshot_file`].
    pub fn read(path: &Path) -> Result<Snapshot, Error> {
        snapshot_file::read_snapshot(path)
    }

    /// Writes the file at `path`, which must not exist yet, whole or not at all.
    pub fn write(&self, path: &Path) -> Result<(), Error> {
        snapshot_file::write_snapshot(self, path)
    }
}

impl SnapshotHeader {
    /// Blocks that it holds, of both tiers.
    pub fn resident_blocks(&self) -> u64 {
        self.os_blocks + self.buffer_blocks
    }

    /// Reads what a snapshot file's footer says of it, and nothing else: the file may be damaged.
    pub fn read_unverified(path: &Path) -> Result<SnapshotHeader, Error> {
        snapshot_file::read_footer(path)
    }

    /// Reads what a snapshot file says of itself, and compares the file with its checksum. Its rows are not looked at.
    pub fn read(path: &Path) -> Result<SnapshotHeader, Error> {
        snapshot_file::read_header(path)
    }
}
