//! Choice of the snapshot to restore. After a restart, scheduled snapshots record a cold server, so the newest is not
//! always right.

use std::collections::BTreeSet;
use std::path::PathBuf;

use jiff::Timestamp;
use serde::Serialize;

use super::{DatabaseBlocks, SnapshotHeader, TierState};
use host::failure::Tiers;

/// Share of the warmest snapshot's blocks that a snapshot must have in each tier to count as nearly as warm. pgthaw
/// restores the newest such snapshot, because the working set shifts.
pub const NEARLY: f64 = 0.95;

/// A snapshot is clearly colder than another if, in a tier, it has less than this share of the other's blocks. Smaller
/// differences are normal.
pub const CLEARLY: f64 = 0.8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastStart {
    At(Timestamp),
    /// No server is running, so every snapshot is from before the next start.
    NotRunning,
    /// The start time cannot be determined. Treated as `NotRunning`.
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Situation {
    pub start: LastStart,
    pub tiers: Tiers,
    pub now: Timestamp,
    /// Databases that exist now. `None` if unknown: no database then counts as dropped.
    pub databases: Option<Databases>,
    /// The server's data directory. A primary and its standby on one host share snapshots. `None` if unknown.
    pub directory: Option<PathBuf>,
}

impl Situation {
    pub fn now(start: LastStart, tiers: Tiers) -> Situation {
        Situation { start, tiers, now: Timestamp::now(), databases: None, directory: None }
    }

    pub fn among(self, databases: Option<Databases>) -> Situation {
        Situation { databases, ..self }
    }

    pub fn of(self, directory: Option<PathBuf>) -> Situation {
        Situation { directory, ..self }
    }

    fn is_of_another(&self, header: &SnapshotHeader) -> bool {
        self.directory.as_ref().zip(header.source.data_directory.as_ref()).is_some_and(|(own, its)| own != its)
    }

    pub fn count(&self, headers: &[SnapshotHeader]) -> Vec<SnapshotHeader> {
        self.databases.as_ref().map_or_else(|| headers.to_vec(), |databases| databases.count(headers))
    }
}

/// Why a restore uses this snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, crate::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The user named it.
    Named,
    /// The newest readable snapshot, because the newest one is unreadable.
    NewestReadable,
    /// The newest snapshot from before the server's start that has at least 95 % as many blocks in each tier as the
    /// warmest such snapshot.
    WarmestBeforeStart,
    /// A snapshot from after the server's start that has at least 95 % as many blocks in each tier as the warmest one
    /// from before the start.
    AsWarmSinceStart,
    /// The newest non-empty snapshot, because all from before the server's start are empty.
    NewestSinceStart,
    /// The warmest snapshot, because no server runs.
    WarmestOfAll,
    /// The warmest snapshot, because the server's start time is unknown.
    WarmestStartUnknown,
}

/// Chooses the newest snapshot that is nearly as warm (`NEARLY`) as the warmest from before the server's last start. If
/// none is from before the start, chooses the newest. `None` if all are empty in the requested tiers. Ignores snapshots
/// of other data directories if the server's own has one from before the start.
///
/// `headers`: from `Situation::count`, in the store's order (newest first). A snapshot with an unreliable timestamp
/// (`says_nothing`) counts as from before the start.
pub fn choose(headers: &[SnapshotHeader], situation: &Situation) -> Option<(usize, Reason)> {
    let &Situation { start, tiers, now, .. } = situation;
    let mut filled = find_filled(headers, tiers);
    let is_before = |(at, header, _): &Filled<'_>| match start {
        LastStart::At(start) => header.taken_at < start || says_nothing(headers, *at, now),
        LastStart::NotRunning | LastStart::Unknown => true,
    };
    if filled.iter().any(|one| is_before(one) && !situation.is_of_another(one.1)) {
        filled.retain(|(_, header, _)| !situation.is_of_another(header));
    }
    let before: Vec<Filled<'_>> = filled.iter().copied().filter(is_before).collect();
    let Some(warmest) = find_warmest(&before) else {
        return find_newest(filled, now).map(|(at, ..)| (at, Reason::NewestSinceStart));
    };
    filled.retain(|(.., one)| one.reaches(warmest, NEARLY));
    let chosen = find_newest(filled, now)?;
    let reason = match start {
        LastStart::At(_) if is_before(&chosen) => Reason::WarmestBeforeStart,
        LastStart::At(_) => Reason::AsWarmSinceStart,
        LastStart::NotRunning => Reason::WarmestOfAll,
        LastStart::Unknown => Reason::WarmestStartUnknown,
    };
    Some((chosen.0, reason))
}

/// Finds a snapshot warmer than `than`; `None` unless `than` is clearly colder (`CLEARLY`).
pub fn find_warmer(headers: &[SnapshotHeader], than: &SnapshotHeader, situation: &Situation) -> Option<usize> {
    let &Situation { tiers, now, .. } = situation;
    let mut filled = find_filled(headers, tiers);
    filled.retain(|(_, header, _)| !situation.is_of_another(header));
    let warmest = find_warmest(&filled)?;
    filled.retain(|(.., one)| one.reaches(warmest, NEARLY));
    let (warmer, header, _) = find_newest(filled, now)?;
    is_clearly_colder(than, header, tiers).then_some(warmer)
}

/// A snapshot with blocks in the requested tiers, and its place in the store's order.
type Filled<'a> = (usize, &'a SnapshotHeader, Warmth);

fn find_filled(headers: &[SnapshotHeader], tiers: Tiers) -> Vec<Filled<'_>> {
    let filled = headers.iter().enumerate().filter_map(|(at, one)| Some((at, one, Warmth::of(one, tiers)?)));
    filled.collect()
}

fn find_newest(among: Vec<Filled<'_>>, now: Timestamp) -> Option<Filled<'_>> {
    among.into_iter().min_by_key(|(at, header, _)| (is_to_come(header, now), *at))
}

pub fn is_clearly_colder(one: &SnapshotHeader, than: &SnapshotHeader, tiers: Tiers) -> bool {
    let Some(than) = Warmth::of(than, tiers) else { return false };
    Warmth::of(one, tiers).is_none_or(|one| !one.reaches(than, CLEARLY))
}

/// True if the timestamp is unreliable because the clock was later set back: it is in the future, or later than that of
/// a newer snapshot.
fn says_nothing(headers: &[SnapshotHeader], at: usize, now: Timestamp) -> bool {
    is_to_come(&headers[at], now) || headers[..at].iter().any(|later| later.taken_at < headers[at].taken_at)
}

pub fn is_to_come(header: &SnapshotHeader, now: Timestamp) -> bool {
    header.taken_at > now
}

#[derive(Clone, Copy)]
struct Warmth {
    os: u64,
    buffers: u64,
}

impl Warmth {
    /// Warmth of a snapshot; `None` if it has no blocks in `tiers`. If the page cache was not measured, the blocks of
    /// shared_buffers count instead, because a restore reads them into the page cache.
    fn of(header: &SnapshotHeader, tiers: Tiers) -> Option<Warmth> {
        let os = if header.os == TierState::Measured { header.os_blocks } else { header.buffer_blocks };
        let os = if tiers.os { os } else { 0 };
        let buffers = if tiers.buffers { header.buffer_blocks } else { 0 };
        (os > 0 || buffers > 0).then_some(Warmth { os, buffers })
    }

    fn reaches(self, other: Warmth, part: f64) -> bool {
        self.os as f64 >= part * other.os as f64 && self.buffers as f64 >= part * other.buffers as f64
    }
}

/// Each tier counts relative to its maximum in `among`, because shared_buffers is small, but worth more per byte.
fn find_warmest(among: &[Filled<'_>]) -> Option<Warmth> {
    let warm = among.iter().map(|(.., one)| *one);
    let most_os = warm.clone().map(|one| one.os).max()?;
    let most_buffers = warm.clone().map(|one| one.buffers).max()?;
    let share = |part: u64, most: u64| part as f64 / most.max(1) as f64;
    let score = |one: &Warmth| share(one.os, most_os) + share(one.buffers, most_buffers);
    warm.max_by(|one, other| score(one).total_cmp(&score(other)))
}

/// FirstNormalObjectId in PostgreSQL's src/include/access/transam.h.
const FIRST_USER_OID: u32 = 16_384;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Databases(BTreeSet<u32>);

impl Databases {
    /// `None` if `oids` is empty: the list of databases could not be read.
    pub fn of(oids: impl IntoIterator<Item = u32>) -> Option<Databases> {
        let oids: BTreeSet<u32> = oids.into_iter().collect();
        (!oids.is_empty()).then_some(Databases(oids))
    }

    pub fn count(&self, headers: &[SnapshotHeader]) -> Vec<SnapshotHeader> {
        let known = self.known(headers);
        let count = |header: &SnapshotHeader| {
            let mut counted = header.clone();
            for database in self.gone(header, known.as_ref()) {
                counted.os_blocks = counted.os_blocks.saturating_sub(database.os_blocks);
                counted.buffer_blocks = counted.buffer_blocks.saturating_sub(database.buffers_blocks);
            }
            counted
        };
        headers.iter().map(count).collect()
    }

    pub fn gone_of<'a>(&self, header: &'a SnapshotHeader, headers: &[SnapshotHeader]) -> Vec<&'a str> {
        let holds = |one: &&DatabaseBlocks| one.os_blocks > 0 || one.buffers_blocks > 0;
        let gone = self.gone(header, self.known(headers).as_ref());
        gone.into_iter().filter(holds).map(|one| &*one.name).collect()
    }

    /// Databases in `header` that were dropped. One whose name is in `known` was recreated and does not count, because
    /// a restore finds its relations by name.
    fn gone<'a>(&self, header: &'a SnapshotHeader, known: Option<&BTreeSet<&str>>) -> Vec<&'a DatabaseBlocks> {
        let Some(names) = known else { return Vec::new() };
        let is_gone = |one: &&DatabaseBlocks| !self.0.contains(&one.oid) && !names.contains(&*one.name);
        header.databases.iter().filter(is_gone).collect()
    }

    /// Names of existing databases, from the snapshots. `None` if an existing user database is in no snapshot: its name
    /// is then unknown, and it may be a recreated database.
    fn known<'a>(&self, headers: &'a [SnapshotHeader]) -> Option<BTreeSet<&'a str>> {
        let databases = || headers.iter().flat_map(|header| &header.databases);
        let oids: BTreeSet<u32> = databases().map(|one| one.oid).collect();
        let has_all = self.0.iter().all(|oid| *oid < FIRST_USER_OID || oids.contains(oid));
        has_all.then(|| databases().filter(|one| self.0.contains(&one.oid)).map(|one| &*one.name).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::header;

    /// `kept` in the order taken: seconds, blocks of the page cache, blocks of shared_buffers.
    fn chosen(kept: &[(i64, Option<u64>, Option<u64>)], start: LastStart) -> Option<(usize, Reason)> {
        chosen_for(kept, start, Tiers::BOTH)
    }

    fn chosen_for(kept: &[(i64, Option<u64>, Option<u64>)], start: LastStart, tiers: Tiers) -> Option<(usize, Reason)> {
        let newest_first = kept.iter().rev();
        let headers: Vec<SnapshotHeader> = newest_first.map(|(at, os, buffers)| header(*at, *os, *buffers)).collect();
        let (at, reason) = choose(&headers, &Situation { now: second(1000), ..Situation::now(start, tiers) })?;
        Some((kept.len() - 1 - at, reason))
    }

    fn second(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn at(start: i64) -> LastStart {
        LastStart::At(second(start))
    }

    #[test]
    fn cold_takes_after_a_restart_are_passed_over() {
        let mut kept = vec![(10, Some(1000), Some(100)), (20, Some(980), Some(100))];
        kept.extend((200..207).map(|second| (second, Some(20), Some(3))));
        assert_eq!(chosen(&kept, at(100)), Some((1, Reason::WarmestBeforeStart)), "the newest that is nearly as warm");
        kept[1].1 = Some(940);
        assert_eq!(chosen(&kept, at(100)), Some((0, Reason::WarmestBeforeStart)), "6 % less is less");
        assert_eq!(chosen(&kept, at(300)), Some((0, Reason::WarmestBeforeStart)));
        assert_eq!(chosen(&kept, LastStart::NotRunning), Some((0, Reason::WarmestOfAll)));
        assert_eq!(chosen(&kept, LastStart::Unknown), Some((0, Reason::WarmestStartUnknown)));
    }

    #[test]
    fn once_it_is_warm_again_the_newest_is_taken() {
        let kept = [(10, Some(1000), Some(100)), (200, Some(500), Some(50)), (300, Some(990), Some(99))];
        assert_eq!(chosen(&kept, at(100)), Some((2, Reason::AsWarmSinceStart)));
        assert_eq!(chosen(&kept[..2], at(100)), Some((0, Reason::WarmestBeforeStart)));
    }

    #[test]
    fn a_server_that_never_restarted_gets_its_newest() {
        let kept = [(10, Some(1000), Some(100)), (20, Some(30), Some(100)), (30, Some(0), Some(0))];
        assert_eq!(chosen(&kept, at(5)), Some((1, Reason::NewestSinceStart)), "not the one that holds nothing");
    }

    #[test]
    fn one_that_holds_nothing_is_never_taken() {
        let kept = [(10, Some(0), None), (20, None, Some(0)), (30, None, None)];
        for start in [at(5), at(100), LastStart::NotRunning] {
            assert_eq!(chosen(&kept, start), None);
        }
        assert_eq!(chosen(&[], LastStart::Unknown), None);
        let kept = [(10, Some(0), Some(0)), (200, Some(7), Some(0))];
        assert_eq!(chosen(&kept, at(100)), Some((1, Reason::NewestSinceStart)));
    }

    #[test]
    fn a_restart_that_left_the_page_cache_warm_lost_shared_buffers_all_the_same() {
        let kept = [(10, Some(60_000), Some(1000)), (200, Some(60_000), Some(5))];
        assert_eq!(chosen(&kept, at(100)), Some((0, Reason::WarmestBeforeStart)));
        assert_eq!(chosen(&kept, LastStart::NotRunning).map(|(at, _)| at), Some(0));
        let os = Tiers { os: true, buffers: false };
        assert_eq!(chosen_for(&kept, at(100), os), Some((1, Reason::AsWarmSinceStart)), "which nobody asked for here");
    }

    #[test]
    fn one_tier_alone_counts_for_that_tier() {
        let over_sql = (10, None, Some(1000));
        let os_alone = (20, Some(5000), None);
        assert_eq!(chosen(&[over_sql, (20, Some(5000), Some(990))], at(100)).map(|(at, _)| at), Some(1));
        let buffers = Tiers { os: false, buffers: true };
        assert_eq!(chosen_for(&[over_sql, os_alone], at(100), buffers).map(|(at, _)| at), Some(0));
        assert_eq!(chosen_for(&[os_alone], at(100), buffers), None);
        let os = Tiers { os: true, buffers: false };
        assert_eq!(chosen_for(&[over_sql, os_alone], at(100), os).map(|(at, _)| at), Some(1));
        assert_eq!(chosen_for(&[over_sql], at(100), os).map(|(at, _)| at), Some(0), "its blocks are read");
        let both = (10, Some(5000), Some(1000));
        assert_eq!(chosen(&[both, (200, None, Some(1000))], at(100)).map(|(at, _)| at), Some(0));
    }

    #[test]
    fn a_time_that_is_to_come_says_nothing() {
        // The clock was set back: the warm one's timestamp is after the start and in the future.
        let kept = [(200, Some(20), Some(2)), (5000, Some(1000), Some(100))];
        assert_eq!(chosen(&kept, at(100)), Some((1, Reason::WarmestBeforeStart)));
        let kept = [(200, Some(1000), Some(100)), (5000, Some(1000), Some(100))];
        assert_eq!(chosen(&kept, at(100)), Some((0, Reason::AsWarmSinceStart)));
    }

    #[test]
    fn a_time_after_that_of_a_later_one_says_nothing_either() {
        // The warm one's clock was an hour ahead. Then the clock was corrected and the server restarted.
        let mut kept = vec![(600, Some(1000), Some(100)), (110, Some(20), Some(2)), (120, Some(30), Some(3))];
        assert_eq!(chosen(&kept, at(100)), Some((0, Reason::WarmestBeforeStart)));
        kept[2] = (120, Some(1000), Some(100));
        assert_eq!(chosen(&kept, at(100)), Some((2, Reason::AsWarmSinceStart)));
    }

    #[test]
    fn snapshots_of_another_server_on_this_host_count_only_without_own_ones() {
        let of = |directory: &str, second, blocks| {
            let mut one = header(second, Some(blocks), Some(100));
            one.source.data_directory = Some(directory.into());
            one
        };
        let situation = Situation { now: second(1000), ..Situation::now(at(100), Tiers::BOTH) };
        let chosen = |headers: &[SnapshotHeader]| {
            let newest_first: Vec<SnapshotHeader> = headers.iter().rev().cloned().collect();
            let (at, _) = choose(&newest_first, &situation.clone().of(Some("/b".into()))).unwrap();
            headers.len() - 1 - at
        };
        let [first, second, third] = [of("/b", 10, 500), of("/a", 20, 1000), of("/a", 200, 1000)];
        assert_eq!(chosen(&[first.clone(), second.clone(), third.clone()]), 0);
        assert_eq!(chosen(&[second.clone(), third]), 1, "a moved or promoted server");
        assert_eq!(chosen(&[second, of("/b", 200, 20)]), 0, "the first start in this directory");
        let over_sql = header(30, Some(500), Some(100));
        assert_eq!(chosen(&[first, over_sql]), 1, "it may be of this server");
    }

    #[test]
    fn a_warmer_one_is_told_when_it_is_clearly_warmer() {
        let kept = [header(10, Some(1000), Some(100)), header(20, Some(0), Some(0))];
        let situation = Situation { now: second(1000), ..Situation::now(at(5), Tiers::BOTH) };
        let warmer = |os, buffers| find_warmer(&kept, &header(30, os, buffers), &situation);
        assert_eq!(warmer(Some(810), Some(100)), None);
        assert_eq!(warmer(Some(790), Some(100)), Some(0));
        assert_eq!(warmer(Some(1000), Some(70)), Some(0));
        assert_eq!(warmer(Some(0), Some(0)), Some(0));
        assert_eq!(warmer(None, Some(100)), Some(0), "it knows nothing of the page cache");
        assert_eq!(find_warmer(&kept[1..], &header(30, Some(0), None), &situation), None);
        let alike = [header(20, Some(990), Some(99)), header(10, Some(1000), Some(100))];
        assert_eq!(find_warmer(&alike, &kept[1], &situation), Some(0), "of those that are alike the newest");
    }
}

#[cfg(test)]
mod standing_tests {
    use super::*;
    use crate::fixtures::header_of_databases;

    #[test]
    fn what_is_of_a_dropped_database_does_not_count() {
        let headers = [header_of_databases(10, &[(5, "app", 100, 10), (6, "big", 900, 90)])];
        let there = Databases::of([5]).unwrap();
        let counted = there.count(&headers);
        assert_eq!((counted[0].os_blocks, counted[0].buffer_blocks), (100, 10));
        assert_eq!(there.gone_of(&headers[0], &headers), ["big"]);
        let all = Databases::of([5, 6]).unwrap();
        assert_eq!(all.count(&headers), headers);
        assert_eq!(Databases::of([]), None);
    }

    #[test]
    fn one_that_was_made_anew_counts() {
        let headers = [header_of_databases(20, &[(7, "app", 1, 0)]), header_of_databases(10, &[(5, "app", 100, 10)])];
        assert_eq!(Databases::of([7]).unwrap().count(&headers), headers);
        assert_eq!(Databases::of([8]).unwrap().count(&headers)[1].os_blocks, 0, "8 is not a user's");
        let anew = Databases::of([FIRST_USER_OID + 9]).unwrap();
        assert_eq!(anew.count(&headers), headers, "nobody knows what it is called: it may be app");
        assert!(anew.gone_of(&headers[1], &headers).is_empty());
    }
}
