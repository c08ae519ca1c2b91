//! How hot the blocks of the page cache are: of several witnesses, the first that can tell them apart.
//!
//! 1. The kernel's page flags: how often each page was read since it came. Root only.
//! 2. Earlier snapshots: how many of the last few had the block, and had it in shared_buffers.
//! 3. The server's statistics: how many reads for each block of a relation went past shared_buffers.
//!
//! A witness that says the same of nearly all blocks says nothing, as the flags of a server that has run for weeks with
//! more memory than data: then the next one is asked.

mod generations;
mod levels;
mod page_flags;
mod statistics;

use std::collections::BTreeMap;

use roaring::RoaringBitmap;

pub use levels::{HeatInputs, USUAL_HEAT};

use levels::HeatOfForks;

use super::{HeatSource, Map, TierState};

/// The share of the blocks that may have one heat. Beyond it a witness says nothing.
const SAME_MAX: f64 = 0.95;

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

#[cfg(test)]
mod tests {
    use super::levels::Levels;
    use super::*;
    use crate::cache::ForkMap;
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
}
