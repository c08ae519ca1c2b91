//! Heat of cached blocks: how often each is used. The first source in which blocks differ is used:
//!
//! 1. Page flags: reads of each page since it was cached (root only).
//! 2. Earlier snapshots: how many had the block cached, and how many in shared_buffers.
//! 3. Statistics: shared_buffers misses per block of a relation.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

use roaring::RoaringBitmap;
use strum::VariantArray as _;

use super::files::{Files, numbers};
use super::{ForkMap, HeatSource, Map, MapInputs, RelationMap, Snapshot, TierState};
use host::linux;
use host::linux::threads::{count_processors, map_on_threads};
use host::units::{BlockRange, Fork};
use postgres::{Relation, RelationPath, read_block_reads};

/// Maximum share of blocks with the same heat in a usable source. If all data fits in memory, all page flags are alike
/// after weeks.
const SAME_MAX: f64 = 0.95;

/// Sets the heat of `map` from the first usable source. `earlier`: paths of snapshots, newest first.
pub async fn read_heat(map: &mut Map, inputs: MapInputs<'_>, earlier: &[PathBuf]) {
    if map.os != TierState::Measured {
        return;
    }
    for source in HeatSource::VARIANTS {
        let heat = match source {
            HeatSource::None => continue,
            HeatSource::PageFlags => read_page_flags(map, &inputs),
            HeatSource::Snapshots => read_generations(map, earlier),
            HeatSource::Statistics => read_statistics(map, &inputs).await,
        };
        if let Some(heat) = heat.filter(|heat| tells_apart(map, heat)) {
            map.os_heat = *source;
            let forks = map.relations.iter_mut().flat_map(|one| &mut one.forks);
            for (fork, mut levels) in forks.zip(heat) {
                levels.retain(|_, blocks| !blocks.is_empty());
                levels.values_mut().for_each(|blocks| _ = blocks.optimize());
                fork.os_heat = levels;
            }
            return;
        }
    }
}

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

/// Maximum number of earlier snapshots (a week of nightly ones): each is read completely.
const SNAPSHOTS_MAX: usize = 7;
/// Minimum number of earlier snapshots: a single one may be untypical.
const SNAPSHOTS_MIN: usize = 2;

/// Element n: blocks in at least n + 1 of the added sets.
type Counts = Vec<RoaringBitmap>;

fn add(counts: &mut Counts, blocks: &RoaringBitmap) {
    let mut carried = blocks.clone();
    for level in &mut *counts {
        let both = &*level & &carried;
        *level |= &carried;
        carried = both;
    }
    counts.extend((!carried.is_empty()).then_some(carried));
}

fn levels_of(counts: Counts, sets: usize) -> Levels {
    let mut levels = Levels::new();
    for (nth, blocks) in counts.into_iter().enumerate() {
        let heat = (nth + 1) * usize::from(GREATEST_HEAT) / sets;
        *levels.entry(heat as u8).or_default() |= blocks;
    }
    levels
}

fn read_generations(map: &Map, earlier: &[PathBuf]) -> Option<HeatOfForks> {
    let forks = map.forks().enumerate();
    let places: HashMap<(&RelationPath, Fork), usize> =
        forks.map(|(at, (relation, fork))| ((&relation.path, fork.fork), at)).collect();
    let mut counts = vec![Counts::default(); places.len()];
    let mut snapshots = 0;
    for path in earlier {
        // Skips a damaged snapshot, which `snapshot list --verify` reports.
        let Ok(snapshot) = Snapshot::read(path) else { continue };
        let is_measured =
            [&snapshot.map.os, &snapshot.map.buffers].into_iter().all(|tier| *tier == TierState::Measured);
        if snapshot.map.source.system_identifier != map.source.system_identifier || !is_measured {
            continue;
        }
        for (relation, fork) in snapshot.map.forks() {
            if let Some(at) = places.get(&(&relation.path, fork.fork)) {
                let buffers = fork.all_buffers();
                add(&mut counts[*at], &(&fork.os | &buffers));
                add(&mut counts[*at], &buffers);
            }
        }
        snapshots += 1;
        if snapshots == SNAPSHOTS_MAX {
            break;
        }
    }
    // Each snapshot added two sets: all its cached blocks, and those in shared_buffers.
    let levels =
        counts.into_iter().zip(map.forks()).map(|(counts, (_, fork))| tidy(levels_of(counts, 2 * snapshots), fork));
    (snapshots >= SNAPSHOTS_MIN).then(|| levels.collect())
}

pub const USUAL_HEAT: u8 = 4;
const GREATEST_HEAT: u8 = 8;

/// Disjoint sets of blocks by heat (1 or more).
type Levels = BTreeMap<u8, RoaringBitmap>;
/// Levels of each fork, in the map's order.
type HeatOfForks = Vec<Levels>;

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

/// Locks in the kernel make more threads useless.
const THREADS_MAX: usize = 8;

fn read_page_flags(map: &Map, inputs: &MapInputs<'_>) -> Option<HeatOfForks> {
    let directory = inputs.data_directory?;
    inputs.page_cache.test_activity().ok()?;
    let files = Files::of(inputs.page_cache, directory);
    let forks: Vec<(&Relation, &ForkMap)> = map.forks().collect();
    let threads = count_processors().min(THREADS_MAX);
    Some(map_on_threads(forks.len(), threads, |at| {
        let (relation, fork) = forks[at];
        read_activity(&files, relation, fork).unwrap_or_default()
    }))
}

fn read_activity(files: &Files<'_>, relation: &Relation, fork: &ForkMap) -> linux::Result<Levels> {
    let segment_blocks = u64::from(files.geometry.segment_blocks);
    let mut levels: Levels = BTreeMap::new();
    let mut ranges = fork.os.iter();
    let mut rest = ranges.next_range();
    let mut segment = None;
    while let Some(range) = rest {
        let (start, end) = (u64::from(*range.start()), u64::from(*range.end()) + 1);
        let number = start / segment_blocks;
        let first = number * segment_blocks;
        let cut = end.min(first + segment_blocks);
        if segment.as_ref().is_none_or(|(open, _)| *open != number) {
            segment = Some((number, files.open(&relation.path, fork.fork, number as u32)?));
        }
        if let Some((_, Some(file))) = &segment {
            let pages = files.pages(BlockRange::new(start - first, cut - first));
            // The hottest page determines a block's heat.
            file.visit_activity(pages, &mut |pages, activity| {
                let blocks = files.blocks_with(pages);
                let blocks = numbers(BlockRange::new(first + blocks.start, first + blocks.end));
                levels.entry(activity as u8).or_default().insert_range(blocks);
            })?;
        }
        rest = if cut < end { Some(cut as u32..=(end - 1) as u32) } else { ranges.next_range() };
    }
    Ok(tidy(levels, fork))
}

// ---- statistics ----
//
// All blocks of a relation have the same heat.

async fn read_statistics(map: &Map, inputs: &MapInputs<'_>) -> Option<HeatOfForks> {
    let server = inputs.server?;
    let mut reads: HashMap<(String, u32), u64> = HashMap::new();
    for database in inputs.databases.iter().filter(|database| database.allows_connections) {
        let Ok(mut connection) = server.connect_to(&database.name).await else { continue };
        for of_relation in read_block_reads(&mut connection).await.unwrap_or_default() {
            let database = if of_relation.is_shared { String::new() } else { database.name.clone() };
            reads.insert((database, of_relation.relation_oid), of_relation.reads);
        }
    }
    let reads_of = |RelationMap { relation, .. }: &RelationMap| {
        reads.get(&(relation.name.database.clone(), relation.oid)).copied().unwrap_or(0)
    };
    let cached = || map.relations.iter().filter(|one| one.forks.iter().any(|fork| !fork.os.is_empty()));
    let (all_reads, all_blocks) = (cached().map(reads_of).sum::<u64>(), cached().map(RelationMap::blocks).sum::<u64>());
    if all_reads == 0 || all_blocks == 0 {
        return None;
    }
    let usual = all_reads as f64 / all_blocks as f64;
    let mut heat = Vec::new();
    for one in &map.relations {
        let level = compute_level(reads_of(one) as f64 / one.blocks().max(1) as f64, usual);
        heat.extend(one.forks.iter().map(|fork| Levels::from_iter((level > 0).then(|| (level, fork.os.clone())))));
    }
    Some(heat)
}

fn compute_level(rate: f64, usual: f64) -> u8 {
    let level = f64::from(USUAL_HEAT) + (rate / usual).log2();
    level.round().clamp(0.0, f64::from(GREATEST_HEAT)) as u8
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ForkMap;
    use crate::fixtures::{map_of, relation};
    use host::units::Fork;

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

#[cfg(test)]
mod generations_tests {
    use super::*;
    use crate::fixtures::{map_of, relation};

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
        assert!(read_generations(&now, &earlier[..1]).is_none());
        let heat = read_generations(&now, &earlier).unwrap();
        let of = |block: u32| heat[0].iter().find(|(_, blocks)| blocks.contains(block)).map(|(heat, _)| *heat);
        assert_eq!(
            [of(0), of(20), of(70), of(110), of(150), of(305)],
            [Some(5), Some(3), Some(3), Some(1), None, None]
        );
    }
}

#[cfg(test)]
mod levels_tests {
    use super::*;
    use host::units::Fork;

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

#[cfg(test)]
mod page_flags_tests {
    use super::*;
    use crate::fixtures::{map_of, relation};
    use host::linux::page_cache::{Activity, FakePageCache, PageCache as _};
    use host::units::{Fork, PageRange};
    use postgres::DataDirectory;

    #[test]
    fn what_was_read_again_is_hotter() {
        let cache = FakePageCache::new();
        let directory = DataDirectory { segment_blocks: 100, ..DataDirectory::pretend("/data") };
        cache.insert("/data/base/5/1", 100 * 8192, &[PageRange::new(80, 200)]);
        cache.insert("/data/base/5/1.1", 20 * 8192, &[PageRange::new(0, 20)]);
        let again = |path: &str, block: u64, bytes: usize| {
            let file = cache.open(path.as_ref()).unwrap().unwrap();
            file.apply_read(block * 8192, &mut vec![0; bytes]).unwrap();
        };
        again("/data/base/5/1", 90, 10 * 8192);
        again("/data/base/5/1", 50, 10);
        again("/data/base/5/1.1", 0, 5 * 8192);
        let mut fork = ForkMap::empty(Fork::Main, 120);
        fork.os.insert_range(40..110);
        let map = map_of(vec![relation(1, fork)]);
        let inputs = MapInputs {
            server: None,
            data_directory: Some(&directory),
            page_cache: &cache,
            databases: &[],
            named: None,
            names: None,
            progress: &|_, _| (),
        };
        let heat = read_page_flags(&map, &inputs).unwrap();
        let active: Vec<u32> = [50].into_iter().chain(90..105).collect();
        assert_eq!(heat[0][&(Activity::Active as u8)].iter().collect::<Vec<_>>(), active);
        assert_eq!(heat[0][&(Activity::Referenced as u8)].len(), 70 - 16);
    }
}

#[cfg(test)]
mod statistics_tests {
    use super::*;

    #[test]
    fn a_doubling_is_one_more() {
        let levels: Vec<u8> = [0.0, 0.5, 1.0, 2.0, 4.0, 1e9].map(|rate| compute_level(rate, 1.0)).into();
        assert_eq!(levels, [0, 3, 4, 5, 6, 8]);
    }
}
