//! Cached blocks per relation, fork and tier (page cache or shared_buffers).

use std::collections::BTreeMap;
use std::path::PathBuf;

use jiff::Timestamp;
use roaring::RoaringBitmap;
use serde::{Deserialize, Serialize};
use strum::{EnumString, IntoStaticStr, VariantArray};

use crate::JsonSchema;
use host::units::Fork;
use postgres::{Database, PartitionedTable, Relation, Server, read_lookups};

/// Usage counts of a buffer are 0 to 5 (PostgreSQL's BM_MAX_USAGE_COUNT).
pub const USAGE_COUNTS: usize = 6;

/// The measured cluster and its WAL position.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct MapSource {
    /// A string in JSON, because JSON numbers lose the last digits.
    #[serde(serialize_with = "as_text")]
    #[schemars(with = "String")]
    pub system_identifier: u64,
    /// `server_version_num`; major version × 10,000 for a stopped server.
    pub version_num: u32,
    pub block_size: u32,
    /// Blocks of a full segment file.
    pub segment_blocks: u32,
    /// `None` for a map read only over SQL.
    pub data_directory: Option<PathBuf>,
    /// WAL position; empty for a stopped server.
    pub lsn: String,
    /// 0 for a stopped server.
    pub timeline: u32,
}

fn as_text<S: serde::Serializer>(number: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(number)
}

/// Whether a tier (page cache or shared_buffers) was measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum TierState {
    Measured,
    /// Reason and remedy, in words.
    Unknown {
        reason: String,
    },
}

/// Source of the blocks' heat in the page cache. Each source has its own scale.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[derive(Serialize, EnumString, IntoStaticStr, VariantArray, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum HeatSource {
    /// All blocks have heat 0.
    #[default]
    None,
    /// The kernel's count of reads since it loaded the page: 0 (only read ahead), 1, 2 (active list), 3 (more). A large
    /// folio's pages share one count.
    PageFlags,
    /// Score of 0 to 8 for presence in up to 7 earlier snapshots: 4 if cached in all, 8 if in shared_buffers in all.
    Snapshots,
    /// Score of 0 to 8 for reads into shared_buffers per relation block: 4 if average, plus 1 for each doubling.
    Statistics,
}

host::named!(HeatSource);

#[derive(Clone, Debug, PartialEq)]
pub struct Map {
    pub taken_at: Timestamp,
    pub source: MapSource,
    pub os: TierState,
    pub buffers: TierState,
    pub os_heat: HeatSource,
    /// In the catalogs' order, without empty relations.
    pub relations: Vec<RelationMap>,
    /// Relations without blocks. They may own relations with blocks: an empty table's index has a block.
    pub empty: Vec<Relation>,
    pub partitioned: Vec<PartitionedTable>,
    pub lookups: Lookups,
    pub remarks: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct RelationMap {
    pub relation: Relation,
    /// In the order main, FSM, VM, init.
    pub forks: Vec<ForkMap>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ForkMap {
    pub fork: Fork,
    pub blocks: u64,
    /// Blocks of which every page is in the page cache.
    pub os: RoaringBitmap,
    /// Blocks in the page cache by heat, from 1 on. `Map::os_heat` defines the heat.
    pub os_heat: BTreeMap<u8, RoaringBitmap>,
    pub buffers: [RoaringBitmap; USAGE_COUNTS],
    pub dirty: RoaringBitmap,
}

impl RelationMap {
    pub fn unread(relation: Relation) -> RelationMap {
        RelationMap { relation, forks: Vec::new() }
    }

    pub fn main_fork(&self) -> Option<&ForkMap> {
        self.forks.iter().find(|fork| fork.fork == Fork::Main)
    }

    pub fn residency(&self) -> Residency {
        self.forks.iter().map(ForkMap::residency).sum()
    }

    pub fn blocks(&self) -> u64 {
        self.forks.iter().map(|fork| fork.blocks).sum()
    }
}

impl ForkMap {
    pub fn empty(fork: Fork, blocks: u64) -> ForkMap {
        let (os, os_heat, buffers, dirty) = Default::default();
        ForkMap { fork, blocks, os, os_heat, buffers, dirty }
    }

    pub fn all_buffers(&self) -> RoaringBitmap {
        self.buffers.iter().fold(RoaringBitmap::new(), |all, level| all | level)
    }

    pub fn residency(&self) -> Residency {
        let buffers = self.all_buffers();
        Residency {
            blocks: self.blocks,
            os: self.os.len(),
            buffers: buffers.len(),
            dirty: self.dirty.len(),
            both: self.os.intersection_len(&buffers),
            usage_counts: self.buffers.each_ref().map(RoaringBitmap::len),
        }
    }
}

impl Map {
    pub fn os_blocks(&self) -> u64 {
        self.forks().map(|(_, fork)| fork.os.len()).sum()
    }

    pub fn buffer_blocks(&self) -> u64 {
        self.forks().map(|(_, fork)| fork.buffers.iter().map(RoaringBitmap::len).sum::<u64>()).sum()
    }

    /// Empty relations come last.
    pub fn every_relation(&self) -> impl Iterator<Item = &Relation> + Clone {
        self.relations.iter().map(|one| &one.relation).chain(&self.empty)
    }

    pub fn forks(&self) -> impl Iterator<Item = (&Relation, &ForkMap)> {
        self.relations.iter().flat_map(|one| one.forks.iter().map(move |fork| (&one.relation, fork)))
    }

    pub fn residency(&self) -> Residency {
        self.relations.iter().map(RelationMap::residency).sum()
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Residency {
    pub blocks: u64,
    pub os: u64,
    pub buffers: u64,
    pub dirty: u64,
    pub both: u64,
    pub usage_counts: [u64; USAGE_COUNTS],
}

impl Residency {
    pub fn os_ratio(&self) -> f64 {
        compute_ratio(self.os, self.blocks)
    }

    pub fn buffers_ratio(&self) -> f64 {
        compute_ratio(self.buffers, self.blocks)
    }

    pub fn both_ratio(&self) -> f64 {
        compute_ratio(self.both, self.blocks)
    }
}

impl std::iter::Sum for Residency {
    fn sum<I: Iterator<Item = Residency>>(parts: I) -> Residency {
        parts.fold(Residency::default(), |mut sum, part| {
            let blocks = host::field_pairs!(sum, part: blocks, os, buffers, dirty, both);
            let counts = sum.usage_counts.iter_mut().zip(part.usage_counts);
            blocks.into_iter().chain(counts).for_each(|(sum, part)| *sum += part);
            sum
        })
    }
}

/// Cell of a residency bar: share of its blocks resident in each tier, 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BarCell {
    pub os: f64,
    pub buffers: f64,
    pub any: f64,
}

/// Divides the blocks of `forks`, taken as consecutive, into `cells` equal parts.
pub fn compute_bar(forks: &[&ForkMap], cells: usize) -> Vec<BarCell> {
    let mut total = 0;
    let mut tiers: Vec<(u64, u64, [RoaringBitmap; 3])> = Vec::new();
    for fork in forks {
        let buffers = fork.all_buffers();
        let any = &fork.os | &buffers;
        tiers.push((total, total + fork.blocks, [fork.os.clone(), buffers, any]));
        total += fork.blocks;
    }
    let cell = |number: usize| {
        let (number, cells) = (number as u64, cells as u64);
        // A cell has at least one block: with few blocks, several cells show the same block.
        let start = number * total / cells;
        let end = ((number + 1) * total / cells).max(start + 1);
        let first = tiers.partition_point(|(_, fork_end, _)| *fork_end <= start);
        let mut resident = [0; 3];
        for (fork_start, fork_end, bitmaps) in tiers[first..].iter().take_while(|(fork_start, ..)| *fork_start < end) {
            let (from, to) = (start.max(*fork_start) - fork_start, end.min(*fork_end) - fork_start);
            for (sum, bitmap) in resident.iter_mut().zip(bitmaps).filter(|_| from < to) {
                *sum += bitmap.range_cardinality(from as u32..=(to - 1) as u32);
            }
        }
        let [os, buffers, any] = resident.map(|blocks| compute_ratio(blocks, end - start));
        BarCell { os, buffers, any }
    };
    match total {
        0 => vec![BarCell::default(); cells],
        _ => (0..cells).map(cell).collect(),
    }
}

fn compute_ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// Buffer lookups by database and `pg_class.oid`, since the statistics were reset. A bulk load fills buffers without
/// lookups.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Lookups(pub(crate) BTreeMap<String, BTreeMap<u32, u64>>);

impl Lookups {
    /// Skips databases that do not answer.
    pub async fn read(server: &Server, databases: &[Database]) -> Lookups {
        let mut lookups = Lookups::default();
        for database in databases.iter().filter(|database| database.allows_connections) {
            let Ok(mut connection) = server.connect_to(&database.name).await else { continue };
            if let Ok(of_database) = read_lookups(&mut connection).await {
                lookups.0.insert(database.name.clone(), of_database);
            }
        }
        lookups
    }

    pub fn of(&self, relation: &Relation) -> Option<u64> {
        let of_database = self.0.get(&relation.name.database)?;
        Some(of_database.get(&relation.oid).copied().unwrap_or(0))
    }
}

#[cfg(test)]
mod residency_tests {
    use super::*;
    use host::units::Fork;

    fn fork() -> ForkMap {
        let mut fork = ForkMap::empty(Fork::Main, 100);
        fork.os.insert_range(0..50);
        fork.buffers[1].insert_range(40..60);
        fork.buffers[5].insert_range(90..100);
        fork.dirty.insert_range(95..98);
        fork
    }

    #[test]
    fn counts_each_tier_and_what_both_hold() {
        let expected =
            Residency { blocks: 100, os: 50, buffers: 30, dirty: 3, both: 10, usage_counts: [0, 20, 0, 0, 0, 10] };
        assert_eq!(fork().residency(), expected);
        assert_eq!((expected.os_ratio(), expected.buffers_ratio(), expected.both_ratio()), (0.5, 0.3, 0.1));
        assert_eq!(Residency::default().os_ratio(), 0.0);
    }

    #[test]
    fn a_bar_shows_where() {
        let bar = compute_bar(&[&fork()], 10);
        assert_eq!(bar[4], BarCell { os: 1.0, buffers: 1.0, any: 1.0 });
        assert_eq!(bar[5], BarCell { os: 0.0, buffers: 1.0, any: 1.0 });
        assert_eq!(bar[6], BarCell::default());
        assert_eq!(bar[9], BarCell { os: 0.0, buffers: 1.0, any: 1.0 });
        assert_eq!(compute_bar(&[&fork()], 3)[1].os, (50.0 - 33.0) / 33.0);
    }

    #[test]
    fn forks_follow_each_other_in_a_bar() {
        let mut warm = ForkMap::empty(Fork::Main, 30);
        warm.os.insert_range(0..30);
        let cold = ForkMap::empty(Fork::Main, 50);
        let bar: Vec<f64> = compute_bar(&[&warm, &cold, &ForkMap::empty(Fork::Main, 0), &warm], 11)
            .iter()
            .map(|cell| cell.os)
            .collect();
        assert_eq!(bar, [1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0]);
        assert_eq!(compute_bar(&[&warm, &cold], 2)[0].os, 30.0 / 40.0);
    }

    #[test]
    fn a_bar_of_few_or_many_blocks_has_all_its_cells() {
        let mut one = ForkMap::empty(Fork::Main, 1);
        one.os.insert(0);
        assert!(compute_bar(&[&one], 20).iter().all(|cell| cell.os == 1.0));
        assert_eq!(compute_bar(&[&ForkMap::empty(Fork::Main, 0)], 20), vec![BarCell::default(); 20]);
        let mut largest = ForkMap::empty(Fork::Main, u64::from(u32::MAX));
        largest.os.insert_range(0..u32::MAX);
        assert!(compute_bar(&[&largest], 20).iter().all(|cell| cell.os == 1.0));
    }
}
