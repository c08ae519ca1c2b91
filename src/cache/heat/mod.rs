//! How hot the blocks of the page cache are: of several witnesses, the first that can tell them apart.
//!
//! 1. The kernel's page flags: how often each page was read since it came. Root only.
//! 2. Earlier snapshots: how many of the last few had the block, and had it in shared_buffers.
//! 3. The server's statistics: how many reads for each block of a relation went past shared_buffers.
//!
//! A witness that says the same of nearly all blocks says nothing, as the flags of a server that has run for weeks with
//! more memory than data: then the next one is asked.

mod generations;
mod page_flags;
mod statistics;

use std::collections::BTreeMap;
use std::path::PathBuf;

use roaring::RoaringBitmap;
use serde::Serialize;

use super::{ForkMap, Map, TierState};
use crate::linux::page_cache::PageCache;
use crate::postgres::{DataDirectory, Database, Server};

/// The share of the blocks that may have one heat. Beyond it a witness says nothing.
const SAME_MAX: f64 = 0.95;

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

/// The heat of snapshots and statistics that stands for the usual, and the greatest.
pub const USUAL_HEAT: u8 = 4;
pub const GREATEST_HEAT: u8 = 8;

/// Who can be asked.
#[derive(Clone, Copy)]
pub struct HeatInputs<'a> {
    pub server: Option<&'a Server>,
    pub data_directory: Option<&'a DataDirectory>,
    pub page_cache: &'a dyn PageCache,
    /// Those whose relations are in the map.
    pub databases: &'a [Database],
    /// Files of earlier snapshots of the cluster, the newest first.
    pub earlier: &'a [PathBuf],
}

impl std::fmt::Debug for HeatInputs<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HeatInputs").field("earlier", &self.earlier).finish_non_exhaustive()
    }
}

/// Blocks of a fork by heat; those of heat 0 are left out, and no block has two.
type Levels = BTreeMap<u8, RoaringBitmap>;
/// Heat of every fork of a map, in the map's order.
type HeatOfForks = Vec<Levels>;

/// Finds out how hot the blocks of the map's OS tier are. Whatever cannot be asked is passed over: a snapshot without heat
/// is better than none.
pub async fn read_heat(map: &mut Map, inputs: HeatInputs<'_>) {
    if map.os != TierState::Measured {
        return;
    }
    for source in HeatSource::ALL {
        let heat = match source {
            HeatSource::None => continue,
            HeatSource::PageFlags => page_flags::read(map, &inputs),
            HeatSource::Snapshots => generations::read(map, inputs.earlier),
            HeatSource::Statistics => statistics::read(map, &inputs).await,
        };
        if let Some(heat) = heat.filter(|heat| tells_apart(map, heat)) {
            put(map, source, heat);
            return;
        }
    }
}

/// Do at least a few blocks differ from the others?
fn tells_apart(map: &Map, heat: &HeatOfForks) -> bool {
    let mut blocks: BTreeMap<u8, u64> = BTreeMap::new();
    for ((_, fork), levels) in map.forks().zip(heat) {
        let hot: u64 = levels.values().map(RoaringBitmap::len).sum();
        *blocks.entry(0).or_default() += fork.os.len() - hot;
        levels.iter().for_each(|(heat, of_heat)| *blocks.entry(*heat).or_default() += of_heat.len());
    }
    let all: u64 = blocks.values().sum();
    blocks.values().all(|of_heat| *of_heat as f64 <= all as f64 * SAME_MAX)
}

fn put(map: &mut Map, source: HeatSource, heat: HeatOfForks) {
    map.os_heat = source;
    let forks = map.relations.iter_mut().flat_map(|one| &mut one.forks);
    for (fork, mut levels) in forks.zip(heat) {
        levels.retain(|_, blocks| !blocks.is_empty());
        levels.values_mut().for_each(|blocks| _ = blocks.optimize());
        fork.os_heat = levels;
    }
}

/// The blocks of `levels` that the fork has in the page cache, each in the hottest level that it is in.
fn tidy(mut levels: Levels, fork: &ForkMap) -> Levels {
    let mut hotter = RoaringBitmap::new();
    for (_, blocks) in levels.iter_mut().rev() {
        *blocks &= &fork.os;
        *blocks -= &hotter;
        hotter |= &*blocks;
    }
    levels.remove(&0);
    levels
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::fixtures::{map_of, relation};
    use crate::units::Fork;

    fn map() -> Map {
        let mut fork = ForkMap::empty(Fork::Main, 1000);
        fork.os.insert_range(0..100);
        map_of(vec![relation(1, fork)])
    }

    fn levels(levels: &[(u8, std::ops::Range<u32>)]) -> Levels {
        levels.iter().map(|(heat, blocks)| (*heat, blocks.clone().collect())).collect()
    }

    #[test]
    fn a_witness_that_says_the_same_of_all_says_nothing() {
        let map = map();
        assert!(!tells_apart(&map, &vec![levels(&[])]));
        assert!(!tells_apart(&map, &vec![levels(&[(2, 0..96)])]));
        assert!(tells_apart(&map, &vec![levels(&[(2, 0..94)])]));
        assert!(!tells_apart(&map_of(Vec::new()), &Vec::new()) || map_of(Vec::new()).os_blocks() == 0);
    }

    #[test]
    fn a_block_has_one_heat_and_is_cached() {
        let map = map();
        let found = tidy(levels(&[(0, 0..10), (1, 5..50), (3, 40..200)]), &map.relations[0].forks[0]);
        assert_eq!(found, levels(&[(1, 5..40), (3, 40..100)]));
    }
}
