//! The map: per relation and fork, which blocks are resident in which tier.

use std::collections::BTreeMap;
use std::path::PathBuf;

use jiff::Timestamp;
use roaring::RoaringBitmap;
use serde::{Deserialize, Serialize};
use strum::{EnumString, IntoStaticStr, VariantArray};

use host::units::Fork;
use postgres::{Database, PartitionedTable, Relation, Server, read_lookups};

/// Usage counts are 0 to 5: BM_MAX_USAGE_COUNT in PostgreSQL's `src/include/storage/buf_internals.h`.
pub const USAGE_COUNTS: usize = 6;

/// Which cluster a map is of, and where in its history.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct MapSource {
    /// In JSON a text: numbers there lose its last digits.
    #[serde(serialize_with = "as_text")]
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

fn as_text<S: serde::Serializer>(number: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(number)
}

/// Was a tier looked at? If not, why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum TierState {
    Measured,
    /// The tier could not be measured: why, in words for people, with what would make it measurable.
    Unknown {
        reason: String,
    },
}

/// Where the heat of blocks in the page cache comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, EnumString, IntoStaticStr, VariantArray)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
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
    /// The word for it in the snapshot file and in `--json`.
    pub fn name(self) -> &'static str {
        self.into()
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

// ---- residency ----
//
// A map in numbers: how much of what is resident in which tier, and where in a fork.

/// How much is resident, in blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Residency {
    pub blocks: u64,
    /// Blocks in the OS page cache.
    pub os: u64,
    /// Blocks in shared_buffers.
    pub buffers: u64,
    /// Blocks in shared_buffers that are dirty.
    pub dirty: u64,
    /// Blocks in both tiers.
    pub both: u64,
    /// Blocks in shared_buffers by usage count 0 to 5.
    pub usage_counts: [u64; USAGE_COUNTS],
}

impl Residency {
    /// Share of the blocks in the OS page cache, 0 to 1.
    pub fn os_ratio(&self) -> f64 {
        compute_ratio(self.os, self.blocks)
    }

    /// Share of the blocks in shared_buffers, 0 to 1.
    pub fn buffers_ratio(&self) -> f64 {
        compute_ratio(self.buffers, self.blocks)
    }

    /// Share of the blocks in both tiers, 0 to 1.
    pub fn both_ratio(&self) -> f64 {
        compute_ratio(self.both, self.blocks)
    }
}

impl std::iter::Sum for Residency {
    fn sum<I: Iterator<Item = Residency>>(parts: I) -> Residency {
        parts.fold(Residency::default(), |one, other| Residency {
            blocks: one.blocks + other.blocks,
            os: one.os + other.os,
            buffers: one.buffers + other.buffers,
            dirty: one.dirty + other.dirty,
            both: one.both + other.both,
            usage_counts: std::array::from_fn(|count| one.usage_counts[count] + other.usage_counts[count]),
        })
    }
}

impl ForkMap {
    /// The fork in numbers.
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

impl RelationMap {
    /// All forks in numbers.
    pub fn residency(&self) -> Residency {
        self.forks.iter().map(ForkMap::residency).sum()
    }

    /// Blocks of all forks.
    pub fn blocks(&self) -> u64 {
        self.forks.iter().map(|fork| fork.blocks).sum()
    }
}

impl Map {
    /// All relations in numbers.
    pub fn residency(&self) -> Residency {
        self.relations.iter().map(RelationMap::residency).sum()
    }
}

/// One cell of a residency bar: the share of its blocks that each tier holds, 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BarCell {
    pub os: f64,
    pub buffers: f64,
    /// Share that is in either tier.
    pub any: f64,
}

/// Where in forks that follow each other the resident blocks are: all of them cut into `cells` equal parts.
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
        // At least one block: forks of fewer blocks than cells show each block in several cells.
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

// ---- lookups ----

/// Blocks that had been looked up, by database and `pg_class.oid`, since the statistics began.
///
/// What is resident does not say who brought it. A load leaves as many buffers as readers do, but looks nothing up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Lookups(pub(crate) BTreeMap<String, BTreeMap<u32, u64>>);

impl Lookups {
    /// Those of these databases. One that lets us not in, or does not answer, is left out.
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

    /// Blocks of a relation; `None` when nobody has counted them.
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
