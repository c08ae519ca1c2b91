//! Heat of blocks relative to others. By Che's approximation (Che, Tung, Wang 2002, eq. 4), a block used λ times in a
//! buffer's lifetime is in shared_buffers with probability 1 − e^(−λ). So a window of blocks, of which the share s is
//! in shared_buffers, has the heat −ln(1 − s). This separates index leaves from table pages, whose usage counts are
//! mostly 0 or 1.

use std::collections::BTreeMap;

use roaring::RoaringBitmap;

use crate::{ForkMap, HeatSource, Map, USAGE_COUNTS, USUAL_HEAT};

/// Factors that multiply the heat of a block's window if the block is in shared_buffers, by usage count. Low counts
/// differ by chance. The maximum, 5, includes blocks used far more often, such as inner index pages.
const BY_USAGE_COUNT: [f64; USAGE_COUNTS] = [1.0, 1.2, 1.5, 4.0, 8.0, 32.0];

/// Blocks per window: small enough to separate a table's newest part, large enough to average out chance.
const WINDOW: u64 = 1024;

/// Heats that differ by at most this factor form one level.
const LEVEL_RATIO: f64 = 1.5;

/// Factors that multiply the heat of a block's window if the block is only in the page cache, by page flags: read
/// ahead, read once, twice, more often. Page flags are weak evidence, because they also depend on when the page was
/// loaded. So the factors are close together: page flags alone should not cause separate reads.
const BY_ACTIVITY: [f64; 4] = [0.5, 1.0, 1.2, 1.5];

/// Minimum usage count, page flag level (2: active list) or heat level of a hot block. Level 7: in shared_buffers in
/// most snapshots, or eight times the average reads.
const HOT_USAGE_COUNT: usize = 3;
const HOT_ACTIVITY: u8 = 2;
const HOT_HEAT: u8 = 7;

const USUAL_SHARE_MAX: f64 = 0.5;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Evidence {
    os_heat: HeatSource,
    /// Share of all blocks that were in shared_buffers; `None` if unknown.
    usual_share: Option<f64>,
}

impl Evidence {
    pub fn of(map: &Map) -> Evidence {
        Evidence::of_forks(map.os_heat, map.forks().map(|(_, fork)| fork))
    }

    fn of_forks<'a>(os_heat: HeatSource, forks: impl IntoIterator<Item = &'a ForkMap>) -> Evidence {
        let (mut in_buffers, mut all) = (0, 0);
        for fork in forks {
            let buffers = fork.all_buffers();
            in_buffers += buffers.len();
            all += fork.os.union_len(&buffers);
        }
        let share = (in_buffers as f64 / all.max(1) as f64).min(USUAL_SHARE_MAX);
        Evidence { os_heat, usual_share: (in_buffers > 0).then_some(share) }
    }
}

/// Factor that multiplies the heat of a block's window if the block is only in the page cache, 0.5 to 2.
fn os_factor(source: HeatSource, level: u8) -> f64 {
    match source {
        HeatSource::None => 1.0,
        HeatSource::PageFlags => BY_ACTIVITY[usize::from(level).min(BY_ACTIVITY.len() - 1)],
        HeatSource::Snapshots | HeatSource::Statistics => {
            2_f64.powf((f64::from(level) / f64::from(USUAL_HEAT) - 1.0).clamp(-1.0, 1.0))
        }
    }
}

pub fn hot(fork: &ForkMap, source: HeatSource) -> RoaringBitmap {
    let mut hot = fork.buffers[HOT_USAGE_COUNT..].iter().fold(hot_in_os(fork, source), |hot, blocks| hot | blocks);
    hot.optimize();
    hot
}

/// Returns the fork with few levels, because a steady server's usage counts and page flags change all the time.
pub fn coarse(fork: &ForkMap, source: HeatSource) -> ForkMap {
    const GREATEST: usize = USAGE_COUNTS - 1;
    let mut new = ForkMap { os: fork.os.clone(), ..ForkMap::empty(fork.fork, fork.blocks) };
    for (usage, blocks) in fork.buffers.iter().enumerate() {
        let level = match usage {
            GREATEST => GREATEST,
            HOT_USAGE_COUNT.. => HOT_USAGE_COUNT,
            _ => 1,
        };
        new.buffers[level] |= blocks;
    }
    let in_os = hot_in_os(fork, source);
    if !in_os.is_empty() {
        new.os_heat.insert(hot_from(source), in_os);
    }
    new
}

fn hot_in_os(fork: &ForkMap, source: HeatSource) -> RoaringBitmap {
    fork.os_heat.range(hot_from(source)..).fold(RoaringBitmap::new(), |hot, (_, blocks)| hot | blocks)
}

fn hot_from(source: HeatSource) -> u8 {
    match source {
        HeatSource::None => u8::MAX,
        HeatSource::PageFlags => HOT_ACTIVITY,
        HeatSource::Snapshots | HeatSource::Statistics => HOT_HEAT,
    }
}

/// Blocks processed at a time, to limit memory: bitmaps take kilobytes per 65,536 blocks and level.
const PIECE: u64 = 1 << 25;

/// Groups the wanted blocks by heat, coldest first. Heats are comparable within one snapshot.
pub fn levels(fork: &ForkMap, evidence: Evidence, wanted: &RoaringBitmap) -> Vec<(f32, RoaringBitmap)> {
    let end = wanted.max().map_or(0, |last| u64::from(last) + 1);
    let mut levels = BTreeMap::new();
    if end <= PIECE {
        add_levels(&mut levels, fork, evidence, wanted);
    } else {
        for start in (0..end).step_by(PIECE as usize) {
            let mut piece = RoaringBitmap::new();
            piece.insert_range(start as u32..=(start + PIECE - 1).min(u32::MAX.into()) as u32);
            let os_heat = fork.os_heat.iter().map(|(level, blocks)| (*level, blocks & &piece)).collect();
            let buffers = fork.buffers.each_ref().map(|blocks| blocks & &piece);
            let part = ForkMap { os_heat, buffers, ..ForkMap::empty(fork.fork, fork.blocks) };
            add_levels(&mut levels, &part, evidence, &(wanted & &piece));
        }
    }
    let levels = levels.into_iter().filter(|(_, blocks)| !blocks.is_empty());
    levels.map(|(level, blocks)| (LEVEL_RATIO.powi(level) as f32, blocks)).collect()
}

fn add_levels(levels: &mut BTreeMap<i32, RoaringBitmap>, fork: &ForkMap, evidence: Evidence, wanted: &RoaringBitmap) {
    let Evidence { os_heat: source, usual_share } = evidence;
    let in_buffers = fork.all_buffers();
    let os_heat: Vec<(f64, RoaringBitmap)> =
        fork.os_heat.iter().map(|(level, blocks)| (os_factor(source, *level), blocks - &in_buffers)).collect();
    let mut found: BTreeMap<i32, RoaringBitmap> = BTreeMap::new();
    for (heat, window) in windows(wanted, &in_buffers, usual_share) {
        let window = window & wanted;
        let mut add = |factor: f64, blocks: RoaringBitmap| {
            *found.entry((heat * factor).log(LEVEL_RATIO).round() as i32).or_default() |= blocks;
        };
        for (factor, blocks) in BY_USAGE_COUNT.into_iter().zip(&fork.buffers) {
            add(factor, blocks & &window);
        }
        let mut os_only = window - &in_buffers;
        for (factor, blocks) in &os_heat {
            add(*factor, blocks & &os_only);
            os_only -= blocks;
        }
        add(os_factor(source, 0), os_only);
    }
    for (level, mut blocks) in found {
        blocks.optimize();
        *levels.entry(level).or_default() |= blocks;
    }
}

pub fn mean(levels: &[(f32, RoaringBitmap)]) -> f32 {
    let blocks: u64 = levels.iter().map(|(_, blocks)| blocks.len()).sum();
    let heat: f64 = levels.iter().map(|(heat, blocks)| f64::from(*heat) * blocks.len() as f64).sum();
    (heat / blocks.max(1) as f64) as f32
}

fn windows(wanted: &RoaringBitmap, in_buffers: &RoaringBitmap, usual_share: Option<f64>) -> Vec<(f64, RoaringBitmap)> {
    let mut windows: BTreeMap<i32, RoaringBitmap> = BTreeMap::new();
    let mut at = wanted.min().map(u64::from);
    while let Some(block) = at {
        let start = block / WINDOW * WINDOW;
        let range = start as u32..=(start + WINDOW - 1).min(u32::MAX.into()) as u32;
        let blocks = wanted.range_cardinality(range.clone());
        let buffers = in_buffers.range_cardinality(range.clone()).min(blocks);
        windows
            .entry(use_rate(buffers, blocks, usual_share).log(LEVEL_RATIO).round() as i32)
            .or_default()
            .insert_range(range.clone());
        at = range.end().checked_add(1).and_then(|next| wanted.range(next..).next()).map(u64::from);
    }
    windows.into_iter().map(|(level, blocks)| (LEVEL_RATIO.powi(level), blocks)).collect()
}

/// Mean number of uses of a block in a buffer's lifetime. One block is added to `blocks`, and `usual_share` to
/// `buffers`. So the heat of a small file is neither zero nor infinite if none or all of its blocks are in
/// shared_buffers. If `usual_share` is unknown, all blocks are equally hot.
fn use_rate(buffers: u64, blocks: u64, usual_share: Option<f64>) -> f64 {
    let Some(usual_share) = usual_share else { return 1.0 };
    let share = (buffers as f64 + usual_share) / (blocks as f64 + 1.0);
    -(1.0 - share).ln()
}

#[cfg(test)]
mod tests {
    use super::*;
    use host::units::Fork;

    fn heat_of(levels: &[(f32, RoaringBitmap)], block: u32) -> f32 {
        levels.iter().find(|(_, blocks)| blocks.contains(block)).unwrap().0
    }

    #[test]
    fn every_wanted_block_is_in_one_level_and_usage_counts_tell_them_apart() {
        let mut fork = ForkMap::empty(Fork::Main, 100);
        fork.os.insert_range(0..10);
        fork.buffers[0].insert(3);
        fork.buffers[5].insert_range(8..12);
        let levels = levels(&fork, Evidence::of_forks(HeatSource::None, [&fork]), &fork.os);
        assert_eq!(levels.iter().map(|(_, blocks)| blocks.len()).sum::<u64>(), 10);
        assert!(levels.is_sorted_by(|(one, _), (other, _)| one < other));
        assert_eq!(heat_of(&levels, 3), heat_of(&levels, 0), "a usage count of 0 says nothing");
        assert!(heat_of(&levels, 8) > 20.0 * heat_of(&levels, 0));
        assert!(mean(&levels) > heat_of(&levels, 0) && mean(&levels) < heat_of(&levels, 8));
    }

    #[test]
    fn the_share_in_buffers_tells_an_index_from_its_table() {
        // pgbench, scale 100, shared_buffers 256MB, select-only: 52 % of the index and 11 % of the table had
        // buffers. Index pages are used 6 times as often.
        let fork_with = |percent: u32| {
            let mut fork = ForkMap::empty(Fork::Main, 10_000);
            fork.os.insert_range(0..10_000);
            (0..10_000).filter(|block| block % 100 < percent).for_each(|block| _ = fork.buffers[0].insert(block));
            fork
        };
        let (index, table) = (fork_with(52), fork_with(11));
        let evidence = Evidence::of_forks(HeatSource::None, [&index, &table]);
        let ratio = mean(&levels(&index, evidence, &index.os)) / mean(&levels(&table, evidence, &table.os));
        assert!((4.5..8.0).contains(&ratio), "{ratio}");
    }

    #[test]
    fn the_newest_part_of_a_table_stands_out() {
        let mut fork = ForkMap::empty(Fork::Main, 100 * WINDOW);
        fork.os.insert_range(0..100 * WINDOW as u32);
        fork.buffers[1].insert_range(90 * WINDOW as u32..100 * WINDOW as u32);
        let levels = levels(&fork, Evidence::of_forks(HeatSource::None, [&fork]), &fork.os);
        assert_eq!(levels.len(), 2);
        assert!(levels[1].0 > 1000.0 * levels[0].0);
        assert_eq!(levels[1].1.len(), 10 * WINDOW);
    }

    #[test]
    fn without_buffers_all_is_equally_hot() {
        let fork_of = |blocks: u32| {
            let mut fork = ForkMap::empty(Fork::Main, blocks.into());
            fork.os.insert_range(0..blocks);
            fork
        };
        let forks = [fork_of(5 * WINDOW as u32 + 17), fork_of(1)];
        let evidence = Evidence::of_forks(HeatSource::None, &forks);
        let [table, file] = forks.each_ref().map(|fork| levels(fork, evidence, &fork.os));
        assert_eq!((table.len(), file.len()), (1, 1));
        assert_eq!(table[0].0, file[0].0);
    }

    #[test]
    fn a_small_file_without_a_buffer_is_no_hotter_than_what_is_usual() {
        let mut table = ForkMap::empty(Fork::Main, 10_000);
        table.os.insert_range(0..10_000);
        table.buffers[0] = (0..10_000).step_by(10).collect();
        let mut file = ForkMap::empty(Fork::Main, 1);
        file.os.insert(0);
        let evidence = Evidence::of_forks(HeatSource::None, [&table, &file]);
        let heat = |fork: &ForkMap| mean(&levels(fork, evidence, &fork.os));
        assert!(heat(&file) < heat(&table), "{} {}", heat(&file), heat(&table));
        file.buffers[0].insert(0);
        assert!(heat(&file) > 5.0 * heat(&table), "{} {}", heat(&file), heat(&table));
    }

    #[test]
    fn what_is_known_of_the_page_cache_tells_blocks_without_a_buffer_apart() {
        let mut fork = ForkMap::empty(Fork::Main, WINDOW);
        fork.os.insert_range(0..20);
        fork.os_heat.insert(2, (5..15).collect());
        fork.os_heat.insert(3, (15..18).collect());
        fork.buffers[0].insert(14);
        fork.buffers[3].insert(19);
        let levels = levels(&fork, Evidence::of_forks(HeatSource::PageFlags, [&fork]), &fork.os);
        assert_eq!(levels.iter().map(|(_, blocks)| blocks.len()).sum::<u64>(), 20);
        let [ahead, twice, often] = [0, 5, 15].map(|block| heat_of(&levels, block));
        assert!(ahead < twice && twice < often, "{levels:?}");
        assert!(heat_of(&levels, 14) < often, "of a buffer the usage count counts");
        let expected: RoaringBitmap = (5..18).chain([19]).collect();
        assert_eq!(hot(&fork, HeatSource::PageFlags), expected);
        assert_eq!(hot(&fork, HeatSource::None).iter().collect::<Vec<_>>(), [19]);
    }

    #[test]
    fn the_usual_heat_changes_nothing() {
        for source in [HeatSource::Snapshots, HeatSource::Statistics] {
            assert_eq!(
                [0, USUAL_HEAT, 2 * USUAL_HEAT, 200].map(|level| os_factor(source, level)),
                [0.5, 1.0, 2.0, 2.0]
            );
        }
        assert_eq!(os_factor(HeatSource::PageFlags, 200), 1.5);
    }
}
