//! Heat from earlier snapshots: what they all had is what is used all the time.

use std::collections::HashMap;
use std::path::PathBuf;

use roaring::RoaringBitmap;

use super::levels::{GREATEST_HEAT, HeatOfForks, Levels, tidy};
use crate::cache::{ForkMap, Map, Snapshot, TierState};
use crate::postgres::RelationPath;
use crate::units::Fork;

/// Snapshots that are looked at: a week of nightly ones. Each is read whole, one at a time.
const SNAPSHOTS_MAX: usize = 7;
/// Snapshots that are needed: of fewer, one that was taken at an odd moment would decide.
const SNAPSHOTS_MIN: usize = 2;

/// How many of the sets that were added have a block.
#[derive(Clone, Debug, Default)]
struct Counts {
    /// Blocks that at least one set has, at least two, …
    at_least: Vec<RoaringBitmap>,
}

impl Counts {
    fn add(&mut self, blocks: &RoaringBitmap) {
        let mut carried = blocks.clone();
        for level in &mut self.at_least {
            let both = &*level & &carried;
            *level |= &carried;
            carried = both;
        }
        if !carried.is_empty() {
            self.at_least.push(carried);
        }
    }

    /// The blocks by heat. `sets` is how many might have had a block.
    fn into_levels(self, sets: usize) -> Levels {
        let mut levels = Levels::new();
        for (nth, blocks) in self.at_least.into_iter().enumerate() {
            let heat = (nth + 1) * usize::from(GREATEST_HEAT) / sets;
            *levels.entry(heat as u8).or_default() |= blocks;
        }
        levels
    }
}

/// The heat of every fork's cached blocks. `None` when there are too few snapshots of this cluster.
pub fn read(map: &Map, earlier: &[PathBuf]) -> Option<HeatOfForks> {
    let forks = map.forks().enumerate();
    let places: HashMap<(&RelationPath, Fork), usize> =
        forks.map(|(at, (relation, fork))| ((&relation.path, fork.fork), at)).collect();
    let mut counts = vec![Counts::default(); places.len()];
    let mut snapshots = 0;
    for path in earlier {
        // A damaged one says nothing; that is for `snapshot verify` to tell.
        let Ok(snapshot) = Snapshot::read(path) else { continue };
        if snapshot.map.source.system_identifier != map.source.system_identifier || !is_measured(&snapshot.map) {
            continue;
        }
        for (relation, fork) in snapshot.map.forks() {
            if let Some(at) = places.get(&(&relation.path, fork.fork)) {
                add(&mut counts[*at], fork);
            }
        }
        snapshots += 1;
        if snapshots == SNAPSHOTS_MAX {
            break;
        }
    }
    // Each snapshot counts twice: for being cached, and for being in shared_buffers.
    let levels =
        counts.into_iter().zip(map.forks()).map(|(counts, (_, fork))| tidy(counts.into_levels(2 * snapshots), fork));
    (snapshots >= SNAPSHOTS_MIN).then(|| levels.collect())
}

fn is_measured(map: &Map) -> bool {
    map.os == TierState::Measured && map.buffers == TierState::Measured
}

fn add(counts: &mut Counts, fork: &ForkMap) {
    let buffers = fork.all_buffers();
    counts.add(&(&fork.os | &buffers));
    counts.add(&buffers);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::fixtures::{map_of, relation};

    fn map(os: std::ops::Range<u32>, buffers: std::ops::Range<u32>) -> Map {
        let mut fork = ForkMap::empty(Fork::Main, 1000);
        fork.os.insert_range(os);
        fork.buffers[1].insert_range(buffers);
        let mut map = map_of(vec![relation(1, fork)]);
        map.buffers = TierState::Measured;
        map
    }

    #[test]
    fn what_every_snapshot_had_is_hottest() {
        let directory = tempfile::tempdir().unwrap();
        let keep = |nth: usize, map: Map| {
            let path = directory.path().join(nth.to_string());
            Snapshot::new(map, None).write(&path).unwrap();
            path
        };
        let earlier = [
            keep(0, map(0..100, 0..10)),
            keep(1, map(0..200, 0..10)),
            keep(2, map(50..100, 300..310)),
            directory.path().join("absent"),
            keep(3, map(0..50, 0..0)),
        ];
        let now = map(0..120, 0..0);
        assert!(read(&now, &earlier[..1]).is_none());
        let heat = read(&now, &earlier).unwrap();
        // Four snapshots, so a heat for each of eight votes: 5 of block 0, 3 of block 20, 3 of block 70, 1 of block 110.
        let of = |block: u32| heat[0].iter().find(|(_, blocks)| blocks.contains(block)).map(|(heat, _)| *heat);
        assert_eq!(
            [of(0), of(20), of(70), of(110), of(150), of(305)],
            [Some(5), Some(3), Some(3), Some(1), None, None]
        );
    }
}
