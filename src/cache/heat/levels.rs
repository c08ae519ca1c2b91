//! What witnesses are asked with, and what they answer.

use std::collections::BTreeMap;
use std::path::PathBuf;

use roaring::RoaringBitmap;

use crate::cache::ForkMap;
use crate::linux::page_cache::PageCache;
use crate::postgres::{DataDirectory, Database, Server};

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
pub type Levels = BTreeMap<u8, RoaringBitmap>;
/// Of every fork of a map, in its order.
pub type HeatOfForks = Vec<Levels>;

/// The blocks of `levels` that the fork has in the page cache, each in the hottest level that it is in.
pub fn tidy(mut levels: Levels, fork: &ForkMap) -> Levels {
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
    use crate::units::Fork;

    #[test]
    fn a_block_has_one_heat_and_is_cached() {
        let levels = |levels: &[(u8, std::ops::Range<u32>)]| -> Levels {
            levels.iter().map(|(heat, blocks)| (*heat, blocks.clone().collect())).collect()
        };
        let mut fork = ForkMap::empty(Fork::Main, 1000);
        fork.os.insert_range(0..100);
        let found = tidy(levels(&[(0, 0..10), (1, 5..50), (3, 40..200)]), &fork);
        assert_eq!(found, levels(&[(1, 5..40), (3, 40..100)]));
    }
}
