//! The snapshot that a name means, or that is chosen when none is named, and what there is to say of the choice.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::Serialize;

use super::choice::{LastStart, NEARLY, Reason, Situation, choose, find_warmer, is_to_come};
use super::{BEST, Error, Generation, NEWEST, Snapshot, SnapshotHeader, SnapshotStore, TierState, is_path};
use host::units::Bytes;

/// The snapshot that a name meant.
#[derive(Debug)]
pub struct Chosen {
    pub snapshot: Snapshot,
    pub path: PathBuf,
    pub selected: Selected,
    /// What the user should know of others: damaged ones were passed over, or one bears a time that is to come.
    pub remarks: Vec<String>,
}

/// Which snapshot was taken, why, and whether there is a warmer one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Selected {
    #[serde(flatten)]
    pub holding: Holding,
    pub reason: Reason,
    /// The server's last start; `None` when none runs, or when nobody says.
    pub server_started_at: Option<Timestamp>,
    /// The warmest that is kept, or the newest nearly as warm, where this one holds clearly less of a tier.
    pub warmer: Option<Holding>,
    /// Databases that were dropped since, where it matters: this one or the one that would be taken otherwise holds much of them, and that
    /// was not counted.
    pub dropped_databases: Vec<String>,
}

/// A snapshot, and what it holds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Holding {
    /// The snapshot's name in the store; a file's path where it is in none.
    pub name: String,
    pub path: PathBuf,
    pub taken_at: Timestamp,
    /// Seconds since then; negative when that is to come.
    pub age_seconds: i64,
    /// Bytes of the page cache that it holds; `None` when that was not seen.
    pub os_bytes: Option<Bytes>,
    /// Bytes of shared_buffers that it holds.
    pub buffers_bytes: Option<Bytes>,
}

/// What is kept of a cluster, and can be read.
#[derive(Debug, Default)]
pub struct Candidates {
    generations: Vec<Generation>,
    headers: Vec<SnapshotHeader>,
}

impl Holding {
    fn of(name: String, path: &Path, header: &SnapshotHeader, now: Timestamp) -> Holding {
        let bytes = |state: &TierState, blocks: u64| {
            (*state == TierState::Measured).then(|| Bytes(blocks * u64::from(header.source.block_size)))
        };
        Holding {
            name,
            path: path.to_owned(),
            taken_at: header.taken_at,
            age_seconds: now.as_second() - header.taken_at.as_second(),
            os_bytes: bytes(&header.os, header.os_blocks),
            buffers_bytes: bytes(&header.buffers, header.buffer_blocks),
        }
    }
}

impl Candidates {
    /// Adds one that was taken before all that were added.
    pub fn add(&mut self, generation: Generation, header: SnapshotHeader) {
        self.generations.push(generation);
        self.headers.push(header);
    }

    /// The one that a restore would take; `None` when none holds anything.
    pub fn select(&self, situation: &Situation) -> Option<Selected> {
        let (at, reason) = self.choose(situation)?;
        Some(self.describe(self.holding(at, situation.now), &self.headers[at], reason, situation))
    }

    /// The one of these that a restore would take, where it would rather take it than one of another store.
    pub fn select_over(&self, other: &SnapshotHeader, situation: &Situation) -> Option<Selected> {
        let selected = self.select(situation)?;
        let own = self.headers.iter().zip(&self.generations).find(|(_, one)| one.path == selected.holding.path)?.0;
        let is_newer = own.taken_at > other.taken_at;
        let newest_first = if is_newer { [own.clone(), other.clone()] } else { [other.clone(), own.clone()] };
        let (at, _) = choose(&situation.count(&newest_first), situation)?;
        ((at == 0) == is_newer).then_some(selected)
    }

    fn choose(&self, situation: &Situation) -> Option<(usize, Reason)> {
        choose(&situation.count(&self.headers), situation)
    }

    /// What there is to say of one that was taken.
    fn describe(&self, holding: Holding, header: &SnapshotHeader, reason: Reason, situation: &Situation) -> Selected {
        let mut counted = situation.count(&[&self.headers, std::slice::from_ref(header)].concat());
        let warmer = counted.pop().and_then(|than| find_warmer(&counted, &than, situation));
        let is_named = matches!(reason, Reason::Named | Reason::NewestReadable);
        let otherwise = choose(&self.headers, situation).filter(|_| !is_named).map(|(at, _)| &self.headers[at]);
        let dropped = otherwise.into_iter().chain([header]).flat_map(|one| self.much_dropped(one, situation));
        Selected {
            holding,
            reason,
            server_started_at: match situation.start {
                LastStart::At(start) => Some(start),
                LastStart::NotRunning | LastStart::Unknown => None,
            },
            warmer: warmer.map(|at| self.holding(at, situation.now)),
            dropped_databases: dropped.collect::<BTreeSet<_>>().into_iter().map(str::to_owned).collect(),
        }
    }

    /// The databases that are gone and of which one holds more than those have that are nearly as warm.
    fn much_dropped<'a>(&self, header: &'a SnapshotHeader, situation: &Situation) -> Vec<&'a str> {
        let Some(databases) = &situation.databases else { return Vec::new() };
        let all = [&self.headers, std::slice::from_ref(header)].concat();
        let left = databases.count(&all).pop().map_or(0, |counted| counted.resident_blocks());
        let is_much = (left as f64) < NEARLY * header.resident_blocks() as f64;
        if is_much { databases.gone_of(header, &all) } else { Vec::new() }
    }

    fn holding(&self, at: usize, now: Timestamp) -> Holding {
        let Generation { name, path, .. } = &self.generations[at];
        Holding::of(name.clone(), path, &self.headers[at], now)
    }

    fn remark_to_come(&self, now: Timestamp) -> Option<String> {
        let at = self.headers.iter().position(|header| is_to_come(header, now))?;
        Some(format!(
            "the time of snapshot {} is still to come, as if the clock had been set back since: it counts as one from before \
             the server's start",
            self.generations[at].name
        ))
    }
}

impl SnapshotStore {
    /// Reads the snapshot that `name` means, and says why. Whoever says [`BEST`] or [`NEWEST`] wants one that there is:
    /// what cannot be read is passed over. One that is named is read, or is an error.
    pub fn read(&self, name: &str, system_identifier: u64, situation: &Situation) -> Result<Chosen, Error> {
        let (mut candidates, mut unread) = self.read_candidates(system_identifier)?;
        if name != BEST {
            let (snapshot, path, passed_over) = self.read_named(name, system_identifier)?;
            let stem = path.file_stem().filter(|_| !is_path(name)).map(|stem| stem.to_string_lossy().into_owned());
            let header = snapshot.header();
            let holding = Holding::of(stem.unwrap_or_else(|| name.to_owned()), &path, &header, situation.now);
            let reason = if passed_over.is_empty() { Reason::Named } else { Reason::NewestReadable };
            // Another cluster's databases have other oids, and its relations are found by name.
            let is_own = header.source.system_identifier == system_identifier;
            let situation = situation.clone().among(situation.databases.clone().filter(|_| is_own));
            let selected = candidates.describe(holding, &header, reason, &situation);
            let remarks = passed_over_remarks(&passed_over, header.taken_at);
            return Ok(Chosen { snapshot, path, selected, remarks });
        }
        // By what footers say; whether the file keeps its word shows when it is read.
        while let Some((at, reason)) = candidates.choose(situation) {
            let path = candidates.generations[at].path.clone();
            match candidates.generations[at].read() {
                Ok(snapshot) => {
                    let header = snapshot.header();
                    let holding = candidates.holding(at, situation.now);
                    let selected = candidates.describe(holding, &header, reason, situation);
                    let mut remarks = passed_over_remarks(&unread, header.taken_at);
                    remarks.extend(candidates.remark_to_come(situation.now));
                    return Ok(Chosen { snapshot, path, selected, remarks });
                }
                Err(error) => {
                    unread.push(error);
                    candidates.generations.remove(at);
                    candidates.headers.remove(at);
                }
            }
        }
        let directory = self.cluster_directory(system_identifier);
        Err(match (unread.is_empty(), candidates.headers.is_empty()) {
            (false, _) => unread.swap_remove(0),
            (true, true) => Error::NoSnapshot(directory),
            (true, false) => Error::NothingHeld { directory, tiers: situation.tiers },
        })
    }

    /// What is kept of a cluster by what footers say, the newest first, and why the others cannot be read.
    pub fn read_candidates(&self, system_identifier: u64) -> Result<(Candidates, Vec<Error>), Error> {
        let mut candidates = Candidates::default();
        let mut unread = Vec::new();
        for generation in self.read_generations(system_identifier)? {
            match generation.read_unverified() {
                Ok(header) => candidates.add(generation, header),
                Err(error) => unread.push(error),
            }
        }
        Ok((candidates, unread))
    }

    fn read_named(&self, name: &str, system_identifier: u64) -> Result<(Snapshot, PathBuf, Vec<Error>), Error> {
        let mut passed_over = Vec::new();
        for age in 0.. {
            let generation = match age {
                0 if is_path(name) => None,
                0 => Some(self.find(name, system_identifier)?),
                // When there is no older one, what is wrong with the newest is what went wrong.
                age => match self.find(&format!("{NEWEST}~{age}"), system_identifier) {
                    Ok(generation) => Some(generation),
                    Err(_) => break,
                },
            };
            let path = generation.as_ref().map_or_else(|| PathBuf::from(name), |one| one.path.clone());
            match generation.map_or_else(|| Snapshot::read(&path), |one| one.read()) {
                Ok(snapshot) => return Ok((snapshot, path, passed_over)),
                Err(error) if name == NEWEST => passed_over.push(error),
                Err(error) => return Err(error),
            }
        }
        Err(passed_over.swap_remove(0))
    }
}

fn passed_over_remarks(passed_over: &[Error], taken_at: Timestamp) -> Vec<String> {
    let instead = taken_at.strftime("%F %T");
    passed_over.iter().map(|error| format!("{error}; the one of {instead} UTC was taken instead")).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::fixtures::{map_of, relation};
    use crate::{Databases, ForkMap, HeatSource};
    use host::failure::Tiers;
    use host::units::Fork;
    use postgres::RelationPath;

    const CLUSTER: u64 = 42;
    const NOW: i64 = 1_700_001_000;

    /// A snapshot with this many blocks in the page cache.
    fn snapshot(second: i64, blocks: u32) -> Snapshot {
        let mut fork = ForkMap::empty(Fork::Main, 1000);
        fork.os.insert_range(0..blocks);
        let mut map = map_of(vec![relation(16384, fork)]);
        map.source.system_identifier = CLUSTER;
        map.taken_at = Timestamp::from_second(second).unwrap();
        map.os_heat = HeatSource::None;
        Snapshot::new(map, None)
    }

    fn situation(start: i64) -> Situation {
        let second = |second| Timestamp::from_second(second).unwrap();
        Situation { now: second(NOW), ..Situation::now(LastStart::At(second(start)), Tiers::BOTH) }
    }

    fn store() -> (tempfile::TempDir, SnapshotStore) {
        let directory = tempfile::tempdir().unwrap();
        let store = SnapshotStore::open(Some(directory.path().to_owned()));
        (directory, store)
    }

    #[test]
    fn the_newest_is_the_newest_that_is_whole() {
        let (_directory, store) = store();
        let since = situation(1_600_000_000);
        let kept = [0, 1, 2].map(|second| store.keep(&snapshot(1_700_000_000 + second, 9)).unwrap());
        for name in [NEWEST, BEST] {
            assert!(store.read(name, CLUSTER, &since).unwrap().remarks.is_empty());
        }
        fs::write(&kept[2].path, "").unwrap();
        let mut bytes = fs::read(&kept[1].path).unwrap();
        let last = bytes.len() - 20;
        bytes[last] ^= 1;
        fs::write(&kept[1].path, bytes).unwrap();
        for name in [NEWEST, BEST] {
            let chosen = store.read(name, CLUSTER, &since).unwrap();
            assert!(name == BEST || chosen.selected.reason == Reason::NewestReadable, "{:?}", chosen.selected);
            assert_eq!((chosen.snapshot, chosen.path), (snapshot(1_700_000_000, 9), kept[0].path.clone()));
            let damage = chosen.remarks;
            assert!(damage[0].contains("is empty") && damage[1].contains("is damaged"), "{damage:?}");
        }
        // Neither is one that is no file at all.
        fs::remove_file(&kept[2].path).unwrap();
        fs::create_dir(&kept[2].path).unwrap();
        for name in [NEWEST, BEST] {
            let chosen = store.read(name, CLUSTER, &since).unwrap();
            assert!(chosen.path == kept[0].path && chosen.remarks.len() == 2, "{:?}", chosen.remarks);
        }
        fs::remove_dir(&kept[2].path).unwrap();
        fs::write(&kept[2].path, "").unwrap();
        assert!(kept[1].read_header().is_err(), "damage of the footer shows in the list");
        for named in ["newest~0", "newest~1", &kept[2].name] {
            assert!(store.read(named, CLUSTER, &since).is_err(), "{named} was named");
        }
        fs::write(&kept[0].path, "").unwrap();
        for name in [NEWEST, BEST] {
            let error = store.read(name, CLUSTER, &since).unwrap_err();
            assert!(error.to_string().contains(&kept[2].name), "{error}");
            assert!(matches!(store.read(name, 43, &since), Err(Error::NoSnapshot(_))));
        }
    }

    #[test]
    fn a_damaged_warm_one_gives_way_to_the_next_warmest() {
        let (_directory, store) = store();
        let keep = |second: i64, blocks| store.keep(&snapshot(1_700_000_000 + second, blocks)).unwrap();
        let (second, warmest, _cold) = (keep(0, 500), keep(1, 900), keep(200, 10));
        let restarted = situation(1_700_000_100);
        assert_eq!(store.read(BEST, CLUSTER, &restarted).unwrap().selected.holding.name, warmest.name);
        // Its footer is whole and promises what the file does not keep.
        let mut bytes = fs::read(&warmest.path).unwrap();
        bytes[10] ^= 1;
        fs::write(&warmest.path, bytes).unwrap();
        let chosen = store.read(BEST, CLUSTER, &restarted).unwrap();
        assert_eq!(chosen.selected.holding.name, second.name);
        assert_eq!(chosen.selected.warmer, None, "what cannot be restored is no warmer one");
        assert!(chosen.remarks[0].contains(&warmest.name), "{:?}", chosen.remarks);
    }

    /// As [`snapshot`], with so many more of a database that is called big.
    fn snapshot_with_big(second: i64, blocks: u32, of_big: u32) -> Snapshot {
        let mut fork = ForkMap::empty(Fork::Main, 1000);
        fork.os.insert_range(0..of_big);
        let mut big = relation(20_000, fork);
        big.relation.name.database = "big".to_owned();
        big.relation.path = RelationPath::Base { database_oid: 6, relfilenumber: 20_000 };
        let mut both = snapshot(second, blocks);
        both.map.relations.push(big);
        both
    }

    #[test]
    fn what_a_dropped_database_held_is_not_what_makes_one_warm() {
        let (_directory, store) = store();
        let warm = store.keep(&snapshot_with_big(1_700_000_000, 30, 900)).unwrap();
        let smaller = store.keep(&snapshot(1_700_000_010, 500)).unwrap();
        store.keep(&snapshot(1_700_000_200, 10)).unwrap();
        let there = situation(1_700_000_100).among(Databases::of([1, 5, 6]));
        let chosen = store.read(BEST, CLUSTER, &there).unwrap().selected;
        assert_eq!((&chosen.holding.name, chosen.dropped_databases.len()), (&warm.name, 0));
        let dropped = situation(1_700_000_100).among(Databases::of([1, 5]));
        let chosen = store.read(BEST, CLUSTER, &dropped).unwrap().selected;
        assert_eq!((&chosen.holding.name, chosen.warmer), (&smaller.name, None));
        assert_eq!(chosen.dropped_databases, ["big"]);
        assert_eq!(store.read_candidates(CLUSTER).unwrap().0.select(&dropped).unwrap().holding.name, smaller.name);
        // Who names it is told what is left of it, and where there is more.
        let named = store.read(&warm.name, CLUSTER, &dropped).unwrap().selected;
        assert_eq!((named.dropped_databases, named.warmer.unwrap().name), (vec!["big".to_owned()], smaller.name));
    }

    #[test]
    fn what_is_said_of_one_that_was_named() {
        let (_directory, store) = store();
        let (warm, cold) = (store.keep(&snapshot(1_700_000_000, 900)), store.keep(&snapshot(1_700_000_200, 10)));
        let (warm, cold) = (warm.unwrap(), cold.unwrap());
        let chosen = store.read(NEWEST, CLUSTER, &situation(1_700_000_100)).unwrap().selected;
        assert_eq!((chosen.holding.name.as_str(), chosen.reason), (cold.name.as_str(), Reason::Named));
        assert_eq!((chosen.holding.age_seconds, chosen.holding.os_bytes), (800, Some(Bytes(10 * 8192))));
        assert_eq!(chosen.holding.buffers_bytes, None, "it was not seen");
        assert_eq!(chosen.warmer.unwrap().name, warm.name);
        let file = warm.path.to_str().unwrap();
        let chosen = store.read(file, CLUSTER, &situation(1_700_000_100)).unwrap().selected;
        assert_eq!((chosen.holding.name.as_str(), chosen.warmer), (file, None));
    }

    #[test]
    fn the_better_of_two_stores_is_known() {
        let (_directory, own) = store();
        let (_elsewhere, of_owner) = store();
        let restarted = situation(1_700_000_100);
        let cold = own.keep(&snapshot(1_700_000_200, 10)).unwrap().read_header().unwrap();
        let better = |header: &SnapshotHeader| {
            let (candidates, _) = of_owner.read_candidates(CLUSTER).unwrap();
            candidates.select_over(header, &restarted).map(|selected| selected.holding.name)
        };
        assert_eq!(better(&cold), None, "nothing is kept there");
        let warm = of_owner.keep(&snapshot(1_700_000_000, 900)).unwrap();
        assert_eq!(better(&cold).as_ref(), Some(&warm.name));
        let older = own.keep(&snapshot(1_699_999_000, 900)).unwrap().read_header().unwrap();
        assert_eq!(better(&older), Some(warm.name), "as warm, and newer");
        let newer = own.keep(&snapshot(1_700_000_050, 890)).unwrap().read_header().unwrap();
        assert_eq!(better(&newer), None);
    }

    #[test]
    fn where_all_are_empty_the_error_says_so() {
        let (_directory, store) = store();
        store.keep(&snapshot(1_700_000_000, 0)).unwrap();
        let error = store.read(BEST, CLUSTER, &situation(1_600_000_000)).unwrap_err();
        assert!(error.to_string().contains("holds anything of either tier"), "{error}");
        store.keep(&snapshot(1_700_000_001, 5)).unwrap();
        let buffers = Situation { tiers: Tiers { os: false, buffers: true }, ..situation(1_600_000_000) };
        let error = store.read(BEST, CLUSTER, &buffers).unwrap_err();
        assert!(error.to_string().contains("anything of shared_buffers"), "{error}");
    }

    #[test]
    fn a_time_that_is_to_come_is_remarked() {
        let (_directory, store) = store();
        let ahead = store.keep(&snapshot(NOW + 3600, 900)).unwrap();
        store.keep(&snapshot(1_700_000_200, 10)).unwrap();
        let chosen = store.read(BEST, CLUSTER, &situation(1_700_000_100)).unwrap();
        assert_eq!(chosen.selected.holding.name, ahead.name);
        assert_eq!(chosen.selected.holding.age_seconds, -3600);
        assert!(chosen.remarks[0].contains("is still to come"), "{:?}", chosen.remarks);
    }
}
