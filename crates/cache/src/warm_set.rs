//! The warm set: a primary's cached blocks, a row per fork (docs/agent.md). It has fewer levels of heat than a snapshot, so
//! a steady cache changes few rows.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use jiff::{SignedDuration, Timestamp};
use roaring::RoaringBitmap;
use serde::{Deserialize, Serialize};

use super::snapshot_file::{Collector, NONE, decode_bitmap, encode_tier, parse_tier, rows_of};
use super::warm::{Evidence, coarse, compute_heat_levels};
use super::{ForkMap, HeatSource, Lookups, Map, MapSource, RelationMap, TierState};
use host::units::{Bytes, Fork};
use postgres::{Relation, WarmRow, WarmSet, WarmState};

/// A fork's row is replaced if more than this share of its blocks changed.
const CHANGED_SHARE: f64 = 0.02;
/// Changes of fewer blocks are not worth a write.
const CHANGED_MIN: u64 = 64;
/// As `CHANGED_SHARE`, for blocks whose heat changed: heat changes faster, and matters less.
const HEAT_CHANGED_SHARE: f64 = 0.25;

/// Bytes per hour that may be written for each started 100 GB of cached blocks.
const HOURLY_BYTES: u64 = 1_000_000;
const HOURLY_PER: u64 = 100_000_000_000;

/// WAL of a row besides its content and its page.
const ROW_WAL_BYTES: usize = 200;
const PAGE_BYTES: usize = 8192;

/// A server with a smaller share of the old set's blocks is not warm yet.
const COLDER: f64 = 0.8;

/// After this uptime, a smaller warm set counts as normal.
const WARM_AFTER: SignedDuration = SignedDuration::from_hours(1);

/// Changes for the primary's table.
#[derive(Debug, Default)]
pub struct Share {
    /// `None` if the old warm set stays: the server has just started and holds much less, or a tier is unknown now.
    pub state: Option<WarmState>,
    pub changed: Vec<WarmRow>,
    pub gone: Vec<(String, String)>,
    /// Rows that changed, but are over the hour's limit.
    pub postponed: usize,
    pub written: Bytes,
}

/// Chooses the rows to write. `everything` ignores the thresholds and the limit; used for a switchover.
/// If `is_partial`, some databases are missing from the map; their rows stay.
pub fn compute_share(
    old: Option<&WarmSet>,
    map: &Map,
    server_started_at: Timestamp,
    everything: bool,
    is_partial: bool,
) -> Share {
    let is_of_other = old.is_some_and(|old| old.state.system_identifier != map.source.system_identifier);
    let everything = everything || is_of_other;
    // Old rows. Those that are left after the loop have no cached blocks any more.
    let mut known: HashMap<(&str, &str), &WarmRow> =
        old.iter().flat_map(|old| &old.rows).map(|row| ((&*row.path, &*row.fork), row)).collect();
    let blocks = |row: &WarmRow| residency_of(&read_levels(row)).values().map(RoaringBitmap::len).sum::<u64>();
    let total: u64 = map.forks().map(|(_, fork)| fork.os.len() + fork.all_buffers().len()).sum();
    let of_old: u64 = known.values().map(|row| blocks(row)).sum();
    // After a checkpoint, scattered rows cost full-page images.
    let pages = known.values().map(|row| row.size()).sum::<usize>() / PAGE_BYTES + 1;
    let uptime = map.taken_at.duration_since(server_started_at);
    let knows = |tier: &TierState, text: fn(&WarmState) -> &String| {
        let is_known = *tier == TierState::Measured || is_of_other;
        is_known || old.is_none_or(|old| parse_tier(text(&old.state)) != Some(TierState::Measured))
    };
    if !knows(&map.os, |state| &state.os) || !knows(&map.buffers, |state| &state.buffers) {
        return Share::default();
    }
    if !everything && uptime < WARM_AFTER && (total as f64) < of_old as f64 * COLDER {
        return Share::default();
    }
    // Most changed blocks per byte first.
    let mut changed: Vec<(f64, WarmRow)> = Vec::new();
    for row in map.relations.iter().flat_map(rows_of_relation(map.os_heat)) {
        let old = known.get(&(&*row.path, &*row.fork)).copied();
        old.into_iter().for_each(|old| _ = known.remove(&(&*old.path, &*old.fork)));
        let change = match old {
            Some(old) if *old == row => continue,
            Some(old) if old.relation == row.relation => {
                compute_change(&read_levels(old), &read_levels(&row), everything)
            }
            // A new or renamed relation.
            _ => Some(blocks(&row)),
        };
        if let Some(change) = change {
            changed.push((change as f64 / row.size() as f64, row));
        }
    }
    let gone = known.into_values().filter(|_| !is_partial);
    let gone: Vec<(String, String)> = gone.map(|row| (row.path.clone(), row.fork.clone())).collect();
    changed.sort_by(|one, other| other.0.total_cmp(&one.0));
    let bytes = Bytes(total * u64::from(map.source.block_size));
    let limit = HOURLY_BYTES * bytes.0.div_ceil(HOURLY_PER).max(1);
    let debt = old.map_or(0, |old| compute_debt(&old.state, map.taken_at, limit));
    let is_free = everything || old.is_none_or(|old| old.rows.is_empty());
    let (mut written, mut writes) = (debt, 0);
    let mut fits = |size: usize| {
        // A large row may exceed the limit; later rows then wait longer.
        let fits = is_free || written < limit;
        if fits {
            let page = if writes < pages { PAGE_BYTES } else { 0 };
            written += (size + page + ROW_WAL_BYTES) as u64;
            writes += 1;
        }
        fits
    };
    let all = changed.len() + gone.len();
    let changed: Vec<WarmRow> = changed.into_iter().map(|(_, row)| row).filter(|row| fits(row.size())).collect();
    let gone: Vec<(String, String)> = gone.into_iter().filter(|_| fits(0)).collect();
    let state = WarmState {
        system_identifier: map.source.system_identifier,
        taken_at: map.taken_at,
        os: encode_tier(&map.os),
        buffers: encode_tier(&map.buffers),
        os_heat: map.os_heat.name().to_owned(),
        written_bytes: written as i64,
        written_since: map.taken_at,
    };
    let (postponed, written) = (all - changed.len() - gone.len(), Bytes(written - debt));
    Share { state: Some(state), changed, gone, postponed, written }
}

/// Bytes written, minus the bytes that the time since then allows.
fn compute_debt(state: &WarmState, now: Timestamp, limit: u64) -> u64 {
    let hours = now.duration_since(state.written_since).as_secs_f64().max(0.0) / 3600.0;
    (state.written_bytes.max(0) as u64).saturating_sub((limit as f64 * hours) as u64)
}

/// Disjoint blocks by tier and heat.
type Levels = BTreeMap<(String, i32), RoaringBitmap>;

fn rows_of_relation(source: HeatSource) -> impl Fn(&RelationMap) -> Vec<WarmRow> {
    move |one| {
        let forks = one.forks.iter().map(|fork| coarse(fork, source)).collect();
        let one = RelationMap { relation: one.relation.clone(), forks };
        let mut rows: Vec<WarmRow> = Vec::new();
        for row in rows_of(&one).filter(|row| row.tier != NONE) {
            let fork = row.fork.fork.name();
            if rows.last().is_none_or(|last| last.fork != fork) {
                let (path, relation_blocks) = (one.relation.path.to_string(), row.fork.blocks as i64);
                let relation = serde_json::to_vec(&one.relation).unwrap_or_default();
                let (fork, tiers, heats, bitmaps) = (fork.to_owned(), Vec::new(), Vec::new(), Vec::new());
                rows.push(WarmRow { path, fork, relation, relation_blocks, tiers, heats, bitmaps });
            }
            let Some(last) = rows.last_mut() else { continue };
            let mut bytes = Vec::with_capacity(row.bitmap.serialized_size());
            // Writing to memory does not fail.
            let _ = row.bitmap.serialize_into(&mut bytes);
            last.tiers.push(row.tier.to_owned());
            last.heats.push(row.heat.into());
            last.bitmaps.push(bytes);
        }
        rows
    }
}

/// Bitmaps that are not readable count as empty.
fn read_levels(row: &WarmRow) -> Levels {
    let blocks = u64::try_from(row.relation_blocks).unwrap_or(0);
    let parts = row.tiers.iter().zip(&row.heats).zip(&row.bitmaps);
    let read = parts.map(|((tier, heat), bytes)| ((tier.clone(), *heat), decode_bitmap(bytes, None, blocks)));
    read.filter_map(|(key, bitmap)| Some((key, bitmap.ok()?))).collect()
}

fn residency_of(levels: &Levels) -> BTreeMap<&str, RoaringBitmap> {
    let mut tiers: BTreeMap<&str, RoaringBitmap> = BTreeMap::new();
    for ((tier, _), blocks) in levels {
        *tiers.entry(tier).or_default() |= blocks;
    }
    tiers
}

/// Changed blocks; `None` if they are too few for a write.
fn compute_change(old: &Levels, new: &Levels, everything: bool) -> Option<u64> {
    let (before, after) = (residency_of(old), residency_of(new));
    let (changed, moved) = (count_different(&before, &after), count_different(old, new));
    let all: u64 = after.values().map(RoaringBitmap::len).sum();
    let is_more = |blocks: u64, share: f64| blocks > CHANGED_MIN && blocks as f64 > all as f64 * share;
    let is_noticed = everything || is_more(changed, CHANGED_SHARE) || is_more(moved / 2, HEAT_CHANGED_SHARE);
    is_noticed.then_some(changed + moved / 2)
}

fn count_different<K: Ord>(old: &BTreeMap<K, RoaringBitmap>, new: &BTreeMap<K, RoaringBitmap>) -> u64 {
    let none = RoaringBitmap::new();
    let keys: BTreeSet<&K> = old.keys().chain(new.keys()).collect();
    keys.into_iter().map(|key| (old.get(key).unwrap_or(&none) ^ new.get(key).unwrap_or(&none)).len()).sum()
}

/// Leaves out and counts rows that contradict themselves or others, or take too much memory.
pub fn decode_warm_set(set: WarmSet, source: MapSource) -> (Map, usize) {
    let mut collector = Collector::default();
    let mut refused = set.refused;
    let mut rows = set.rows;
    // Forks in PostgreSQL's order, as in a snapshot.
    let order = |row: &WarmRow| (row.path.clone(), Fork::from_name(&row.fork));
    rows.sort_by_cached_key(order);
    for row in rows {
        if collector.is_full() || add_row(&mut collector, &row).is_err() {
            refused += 1;
        }
    }
    let known =
        |text: &str| parse_tier(text).unwrap_or(TierState::Unknown { reason: "its state is not readable".into() });
    let WarmState { taken_at, os, buffers, os_heat, .. } = set.state;
    let (os, buffers, os_heat) = (known(&os), known(&buffers), os_heat.parse().unwrap_or_default());
    let (relations, lookups) = (collector.relations, Lookups::default());
    let (empty, partitioned, remarks) = (Vec::new(), Vec::new(), Vec::new());
    (Map { taken_at, source, os, buffers, os_heat, relations, empty, partitioned, lookups, remarks }, refused)
}

fn add_row(collector: &mut Collector, row: &WarmRow) -> Result<(), String> {
    let relation: Relation = serde_json::from_slice(&row.relation).map_err(|error| error.to_string())?;
    if relation.path.to_string() != row.path {
        return Err(format!("it describes {}", relation.path));
    }
    if row.tiers.len() != row.bitmaps.len() || row.heats.len() != row.bitmaps.len() {
        return Err("its arrays have different lengths".to_owned());
    }
    for ((tier, heat), bitmap) in row.tiers.iter().zip(&row.heats).zip(&row.bitmaps) {
        let WarmRow { fork, relation_blocks, .. } = row;
        collector.add_blocks_of(relation.clone(), (fork, *relation_blocks), (tier, *heat), (bitmap, None))?;
    }
    Ok(())
}

/// Cached share of a warm set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct Warmth {
    /// Share of the warm set that is in the page cache or in shared_buffers here, weighted by heat, 0 to 1. `None` if not
    /// measured, or if nothing is wanted.
    pub os: Option<f64>,
    /// Share of the warm set's buffers that are in shared_buffers here, weighted by heat.
    pub buffers: Option<f64>,
    /// The warm set's blocks that still exist here.
    pub wanted_blocks: u64,
    /// Of these, blocks in neither cache.
    pub missing_blocks: u64,
}

/// `now` is of the same cluster: files are compared by path.
pub fn compute_warmth(wanted: &Map, now: &Map) -> Warmth {
    let here: HashMap<(String, Fork), &ForkMap> =
        now.forks().map(|(relation, fork)| ((relation.path.to_string(), fork.fork), fork)).collect();
    let evidence = Evidence::of(wanted);
    let mut sums = [(0.0, 0.0); 2];
    let mut warmth = Warmth::default();
    for (relation, fork) in wanted.forks() {
        let Some(here) = here.get(&(relation.path.to_string(), fork.fork)) else { continue };
        let in_buffers = here.all_buffers();
        let cached = &here.os | &in_buffers;
        let mut buffers = fork.all_buffers();
        let mut all = &fork.os | &buffers;
        if let Ok(end) = u32::try_from(here.blocks) {
            all.remove_range(end..);
            buffers.remove_range(end..);
        }
        warmth.wanted_blocks += all.len();
        warmth.missing_blocks += (&all - &cached).len();
        for (sum, wanted, cached) in [(0, &all, &cached), (1, &buffers, &in_buffers)] {
            for (heat, blocks) in compute_heat_levels(fork, evidence, wanted) {
                sums[sum].0 += f64::from(heat) * blocks.intersection_len(cached) as f64;
                sums[sum].1 += f64::from(heat) * blocks.len() as f64;
            }
        }
    }
    let share = |(part, whole): (f64, f64)| (whole > 0.0).then(|| part / whole);
    let is_measured = |one: &Map, tier: fn(&Map) -> &TierState| *tier(one) == TierState::Measured;
    let os = is_measured(now, |map| &map.os);
    let buffers = is_measured(now, |map| &map.buffers);
    Warmth { os: share(sums[0]).filter(|_| os), buffers: share(sums[1]).filter(|_| buffers), ..warmth }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{map_of, relation};

    const START: Timestamp = Timestamp::UNIX_EPOCH;

    fn map(parts: &[(u32, std::ops::Range<u32>, std::ops::Range<u32>)]) -> Map {
        let one = |(number, os, buffers): &(u32, std::ops::Range<u32>, std::ops::Range<u32>)| {
            let mut fork = ForkMap::empty(Fork::Main, 100_000);
            fork.os.insert_range(os.clone());
            fork.buffers[5].insert_range(buffers.clone());
            relation(*number, fork)
        };
        let mut map = map_of(parts.iter().map(one).collect());
        map.buffers = TierState::Measured;
        map
    }

    /// What the table holds after the writes.
    fn apply(old: Option<WarmSet>, share: Share) -> WarmSet {
        let mut rows = old.map_or(Vec::new(), |old| old.rows);
        let key = |row: &WarmRow| (row.path.clone(), row.fork.clone());
        let replaced: Vec<_> = share.changed.iter().map(key).chain(share.gone).collect();
        rows.retain(|row| !replaced.contains(&key(row)));
        rows.extend(share.changed);
        WarmSet { state: share.state.unwrap(), rows, refused: 0 }
    }

    #[test]
    fn what_is_written_is_what_a_standby_reads() {
        let primary = map(&[(1, 0..50_000, 0..20_000), (2, 5..6, 0..0), (3, 0..0, 0..0)]);
        let set = apply(None, compute_share(None, &primary, START, false, false));
        assert_eq!(set.rows.len(), 2, "what is not cached is not written");
        let (read, refused) = decode_warm_set(set, primary.source.clone());
        assert_eq!((refused, read.os_blocks(), read.buffer_blocks()), (0, 50_001, 20_000));
        assert_eq!(read.relations[0], primary.relations[0]);
        let same = compute_warmth(&read, &primary);
        assert_eq!((same.os, same.buffers, same.missing_blocks), (Some(1.0), Some(1.0), 0));
        // The hot part weighs more than its blocks.
        let hot = compute_warmth(&read, &map(&[(1, 0..20_000, 0..0), (2, 0..0, 0..0)]));
        assert!(hot.os.unwrap() > 0.4 && hot.os.unwrap() < 1.0 && hot.buffers == Some(0.0), "{hot:?}");
        assert_eq!((hot.wanted_blocks, hot.missing_blocks), (50_001, 30_001));
    }

    #[test]
    fn only_what_changed_noticeably_is_written() {
        let then = map(&[(1, 0..50_000, 0..20_000), (2, 0..1000, 0..0), (4, 0..9, 0..0)]);
        let set = apply(None, compute_share(None, &then, START, false, false));
        let writes = |parts: &[_], everything| {
            let share = compute_share(Some(&set), &map(parts), START, everything, false);
            let paths = share.changed.iter().map(|row| row.path.clone()).collect::<Vec<_>>();
            (paths, share.gone.len())
        };
        let little = [(1, 0..50_100, 0..20_000), (2, 0..1000, 0..0), (4, 0..9, 0..0)];
        assert_eq!(writes(&little, false), (vec![], 0));
        assert_eq!(writes(&little, true).0.len(), 1);
        let path = |number: u32| relation(number, ForkMap::empty(Fork::Main, 1)).relation.path.to_string();
        let more = [(1, 0..70_000, 0..20_000), (2, 0..1000, 0..0)];
        assert_eq!(writes(&more, false), (vec![path(1)], 1));
    }

    #[test]
    fn a_server_that_has_just_started_does_not_replace_a_warm_set() {
        let warm = map(&[(1, 0..50_000, 0..20_000)]);
        let set = apply(None, compute_share(None, &warm, START, false, false));
        let cold = map(&[(1, 0..10_000, 0..100)]);
        let minutes = |minutes: i64| cold.taken_at - SignedDuration::from_mins(minutes);
        let share = compute_share(Some(&set), &cold, minutes(5), false, false);
        assert!(share.state.is_none() && share.changed.is_empty());
        let share = compute_share(Some(&set), &cold, minutes(90), false, false);
        assert!(share.state.is_some() && share.changed.len() == 1, "it is its usual size now");
    }

    #[test]
    fn the_bytes_of_an_hour_are_limited() {
        // Every other block, so that bitmaps are large.
        let scattered = |first: u32| {
            let parts: Vec<RelationMap> = (0..300)
                .map(|number| {
                    let mut fork = ForkMap::empty(Fork::Main, 100_000);
                    fork.os = (first..60_000).step_by(2).collect();
                    relation(20_000 + number, fork)
                })
                .collect();
            map_of(parts)
        };
        let (even, mut odd) = (scattered(0), scattered(1));
        let first = compute_share(None, &even, START, false, false);
        assert_eq!((first.changed.len(), first.postponed), (300, 0), "the first is written whole");
        let mut set = apply(None, first);
        set.state.written_bytes = 0;
        let share = compute_share(Some(&set), &odd, START, false, false);
        assert!(share.postponed > 0 && share.written.0 < HOURLY_BYTES * 11 / 10, "{}", share.written);
        let set = apply(Some(set), share);
        assert_eq!(
            compute_share(Some(&set), &odd, START, false, false).changed.len(),
            0,
            "the hour's bytes are written"
        );
        odd.taken_at += SignedDuration::from_mins(61);
        assert!(!compute_share(Some(&set), &odd, START, false, false).changed.is_empty());
        // A row above the limit is written too, and none for some time then.
        let mut large = map(&[]);
        let mut fork = ForkMap::empty(Fork::Main, 20_000_000);
        fork.os = (0..20_000_000).step_by(2).collect();
        large.relations = vec![relation(1, fork)];
        let small = apply(None, compute_share(None, &map(&[(1, 0..9, 0..0)]), START, false, false));
        let small = WarmSet { state: WarmState { written_bytes: 0, ..small.state }, ..small };
        let share = compute_share(Some(&small), &large, START, false, false);
        assert!(share.changed.len() == 1 && share.written.0 > 2 * HOURLY_BYTES, "{}", share.written);
        large.taken_at += SignedDuration::from_mins(61);
        let set = apply(Some(small), share);
        assert!(compute_debt(&set.state, large.taken_at, HOURLY_BYTES) > HOURLY_BYTES);
    }

    #[test]
    fn a_map_that_lacks_a_tier_or_databases_replaces_nothing() {
        let both = map(&[(1, 0..500, 0..100), (2, 0..500, 0..0)]);
        let set = apply(None, compute_share(None, &both, START, false, false));
        let mut one = map(&[(1, 0..500, 0..0)]);
        let share = compute_share(Some(&set), &one, START, true, true);
        assert!(share.gone.is_empty() && share.changed.len() == 1, "{share:?}");
        one.buffers = TierState::Unknown { reason: "not seen".into() };
        let share = compute_share(Some(&set), &one, START, true, false);
        assert!(share.state.is_none() && share.changed.is_empty() && share.gone.is_empty(), "{share:?}");
    }

    #[test]
    fn a_row_that_cannot_be_is_left_out() {
        let primary =
            map(&[(1, 0..500, 0..0), (2, 0..500, 0..0), (3, 0..500, 0..0), (4, 0..500, 0..0), (5, 0..9, 0..0)]);
        let mut set = apply(None, compute_share(None, &primary, START, false, false));
        set.rows.sort_by(|one, other| one.path.cmp(&other.path));
        set.rows[0].bitmaps[0] = vec![1; 40];
        set.rows[1].relation_blocks = 100;
        set.rows[2].path = "base/1/../../etc".to_owned();
        set.rows[3].heats.clear();
        let (read, refused) = decode_warm_set(set, primary.source.clone());
        assert_eq!(refused, 4);
        assert_eq!(read.os_blocks(), 9);
    }
}
