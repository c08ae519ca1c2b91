//! The map: per relation and fork, which blocks are resident in which tier.

use std::collections::BTreeMap;
use std::path::PathBuf;

use jiff::Timestamp;
use roaring::RoaringBitmap;
use serde::Serialize;

use super::Lookups;
use crate::postgres::{PartitionedTable, Relation};
use crate::units::Fork;

/// Usage counts are 0 to 5: BM_MAX_USAGE_COUNT in PostgreSQL's `src/include/storage/buf_internals.h`.
pub const USAGE_COUNTS: usize = 6;

/// Which cluster a map is of, and where in its history.
#[derive(Clone, Debug, PartialEq)]
pub struct MapSource {
    pub system_identifier: u64,
    /// `server_version_num`; of a stopped server major × 10,000.
    pub version_num: u32,
    pub block_size: u32,
    pub segment_blocks: u32,
    /// `None` when the map came through SQL alone.
    pub data_directory: Option<PathBuf>,
    /// Empty and 0 when unknown (a stopped server).
    pub lsn: String,
    pub timeline: u32,
}

/// Was a tier looked at? If not, why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TierState {
    Measured,
    /// The tier could not be measured: why, in words for people, with what would make it measurable.
    Unknown {
        reason: String,
    },
}

/// Where the heat of blocks in the page cache comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum HeatSource {
    /// Nobody could tell. All blocks have heat 0.
    #[default]
    None,
    /// 0: nobody read it, it came by read-ahead; 1: read once; 2: twice; 3: more often.
    PageFlags,
    /// 0 to 8: 4 when each earlier snapshot had it, 8 when each had it in shared_buffers too.
    Snapshots,
    /// 0 to 8, of all blocks of a relation: 4 for as many reads for each block as on average, one more for each doubling.
    Statistics,
}

impl HeatSource {
    pub const ALL: [HeatSource; 4] =
        [HeatSource::None, HeatSource::PageFlags, HeatSource::Snapshots, HeatSource::Statistics];

    /// The word for it in the snapshot file and in `--json`.
    pub fn name(self) -> &'static str {
        match self {
            HeatSource::None => "none",
            HeatSource::PageFlags => "page_flags",
            HeatSource::Snapshots => "snapshots",
            HeatSource::Statistics => "statistics",
        }
    }

    /// The source of a name.
    pub fn from_name(name: &str) -> Option<HeatSource> {
        HeatSource::ALL.into_iter().find(|source| source.name() == name)
    }
}

/// What is resident now.
#[derive(Clone, Debug, PartialEq)]
pub struct Map {
    pub taken_at: Timestamp,
    pub source: MapSource,
    pub os: TierState,
    pub buffers: TierState,
    /// What the heat in the page cache means.
    pub os_heat: HeatSource,
    /// Relations in the catalog's order, without those that have no block.
    pub relations: Vec<RelationMap>,
    /// Relations without a block: nothing of them can be resident, but others belong to them. The index of an empty table has a
    /// block.
    pub empty: Vec<Relation>,
    /// What the partitions among them are parts of.
    pub partitioned: Vec<PartitionedTable>,
    /// What had been looked up by then.
    pub lookups: Lookups,
    /// Notes for the reader, such as databases that could not be asked for their relations' names.
    pub remarks: Vec<String>,
}

/// One relation's part of the map.
#[derive(Clone, Debug, PartialEq)]
pub struct RelationMap {
    pub relation: Relation,
    /// The forks that exist, in PostgreSQL's order.
    pub forks: Vec<ForkMap>,
}

/// One fork's part of the map.
#[derive(Clone, Debug, PartialEq)]
pub struct ForkMap {
    pub fork: Fork,
    /// Blocks of the fork when it was looked at.
    pub blocks: u64,
    /// Blocks of which every page is in the page cache.
    pub os: RoaringBitmap,
    /// Blocks in the page cache by heat, as [`Map::os_heat`] counts it. Those of heat 0 are left out.
    pub os_heat: BTreeMap<u8, RoaringBitmap>,
    /// Blocks in shared_buffers, by usage count 0 to 5.
    pub buffers: [RoaringBitmap; USAGE_COUNTS],
    /// Blocks in shared_buffers that are dirty.
    pub dirty: RoaringBitmap,
}

impl RelationMap {
    /// A relation of which nothing is known to be resident yet.
    pub fn unread(relation: Relation) -> RelationMap {
        RelationMap { relation, forks: Vec::new() }
    }

    /// The fork that holds its rows or entries.
    pub fn main_fork(&self) -> Option<&ForkMap> {
        self.forks.iter().find(|fork| fork.fork == Fork::Main)
    }
}

impl ForkMap {
    /// A fork of which nothing is known to be resident.
    pub fn empty(fork: Fork, blocks: u64) -> ForkMap {
        ForkMap {
            fork,
            blocks,
            os: RoaringBitmap::new(),
            os_heat: BTreeMap::new(),
            buffers: Default::default(),
            dirty: RoaringBitmap::new(),
        }
    }

    /// All blocks in shared_buffers, whatever their usage count.
    pub fn all_buffers(&self) -> RoaringBitmap {
        self.buffers.iter().fold(RoaringBitmap::new(), |all, level| all | level)
    }
}

impl Map {
    /// Blocks of all forks of all relations.
    pub fn blocks(&self) -> u64 {
        self.forks().map(|(_, fork)| fork.blocks).sum()
    }

    /// Blocks resident in the OS page cache.
    pub fn os_blocks(&self) -> u64 {
        self.forks().map(|(_, fork)| fork.os.len()).sum()
    }

    /// Blocks resident in shared_buffers.
    pub fn buffer_blocks(&self) -> u64 {
        self.forks().map(|(_, fork)| fork.buffers.iter().map(RoaringBitmap::len).sum::<u64>()).sum()
    }

    /// Every relation, those without a block last.
    pub fn every_relation(&self) -> impl Iterator<Item = &Relation> + Clone {
        self.relations.iter().map(|one| &one.relation).chain(&self.empty)
    }

    /// Every fork with its relation.
    pub fn forks(&self) -> impl Iterator<Item = (&Relation, &ForkMap)> {
        self.relations.iter().flat_map(|one| one.forks.iter().map(move |fork| (&one.relation, fork)))
    }
}
