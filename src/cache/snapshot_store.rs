//! Where snapshots are kept: a directory per cluster, a file per generation.

use crate::failure::Tiers;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;

use super::choice::{LastStart, Situation, choose, is_clearly_colder};
use super::snapshot_file::TEMPORARY_PREFIX;
use super::{Error, Snapshot, SnapshotHeader};
use crate::linux::home::state_home;

const EXTENSION: &str = "parquet";

/// A temporary this old that nobody has locked was left by a take that was killed.
const STALE_AFTER: Duration = Duration::from_secs(60);

/// The name of the snapshot that was taken last.
pub const NEWEST: &str = "newest";

/// A directory of snapshots: `ROOT/SYSTEM_IDENTIFIER/NAME.parquet`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotStore {
    root: PathBuf,
}

/// One kept snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generation {
    /// The time it was taken (UTC) and the label: `20261121-233005.123-before-upgrade`.
    pub name: String,
    pub system_identifier: u64,
    pub path: PathBuf,
}

impl SnapshotStore {
    /// The store at `directory` (`--dir` or PGTHAW_SNAPSHOTS), else in the XDG state directory.
    pub fn open(directory: Option<PathBuf>) -> SnapshotStore {
        SnapshotStore { root: directory.unwrap_or_else(default_root) }
    }

    /// Where it is.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The directory of one cluster's snapshots.
    pub fn cluster_directory(&self, system_identifier: u64) -> PathBuf {
        self.root.join(system_identifier.to_string())
    }

    /// The clusters that have a directory here, in order.
    pub fn read_clusters(&self) -> Result<Vec<u64>, Error> {
        let mut clusters: Vec<u64> = read_names(&self.root)?.iter().filter_map(|name| name.parse().ok()).collect();
        clusters.sort_unstable();
        Ok(clusters)
    }

    /// One cluster's snapshots, the newest first.
    pub fn read_generations(&self, system_identifier: u64) -> Result<Vec<Generation>, Error> {
        let directory = self.cluster_directory(system_identifier);
        let mut generations: Vec<Generation> = read_names(&directory)?
            .into_iter()
            .filter_map(|file| {
                let name = file.strip_suffix(&format!(".{EXTENSION}"))?.to_owned();
                let is_ours = !name.starts_with('.');
                is_ours.then(|| Generation { name, system_identifier, path: directory.join(file) })
            })
            .collect();
        generations.sort_by(|one, other| other.name.cmp(&one.name));
        Ok(generations)
    }

    /// Every snapshot of every cluster: the clusters in order, of each the newest first.
    pub fn read_all(&self) -> Result<Vec<Generation>, Error> {
        let clusters = self.read_clusters()?;
        let generations: Vec<Vec<Generation>> =
            clusters.into_iter().map(|cluster| self.read_generations(cluster)).collect::<Result<_, _>>()?;
        Ok(generations.into_iter().flatten().collect())
    }

    /// The file that `name` means: a path, or what [`SnapshotStore::find`] takes.
    pub fn resolve(&self, name: &str, system_identifier: u64) -> Result<PathBuf, Error> {
        if is_path(name) {
            return Ok(PathBuf::from(name));
        }
        self.find(name, system_identifier).map(|generation| generation.path)
    }

    /// The generation that `name` means: `newest`, `newest~N` or the beginning of its name.
    pub fn find(&self, name: &str, system_identifier: u64) -> Result<Generation, Error> {
        let directory = self.cluster_directory(system_identifier);
        let generations = self.read_generations(system_identifier)?;
        if generations.is_empty() {
            return Err(Error::NoSnapshot(directory));
        }
        let mut matching: Vec<Generation> = match parse_age(name) {
            Some(age) => generations.into_iter().skip(age).take(1).collect(),
            None => generations.into_iter().filter(|one| one.name.starts_with(name)).collect(),
        };
        // One that is called just so is meant, even if another's name goes on from there.
        if let Some(exact) = matching.iter().position(|one| one.name == name) {
            return Ok(matching.swap_remove(exact));
        }
        match matching.pop() {
            Some(only) if matching.is_empty() => Ok(only),
            Some(last) => {
                let candidates = matching.iter().chain([&last]).map(|one| one.name.clone()).collect();
                Err(Error::AmbiguousSnapshot { name: name.to_owned(), candidates })
            }
            None => Err(Error::UnknownSnapshot { name: name.to_owned(), directory }),
        }
    }

    /// Writes a snapshot as the newest generation of its cluster. What a killed take left behind is swept first.
    pub fn keep(&self, snapshot: &Snapshot) -> Result<Generation, Error> {
        let system_identifier = snapshot.map.source.system_identifier;
        let directory = self.cluster_directory(system_identifier);
        fs::create_dir_all(&directory).map_err(|source| Error::file("create", &directory, source))?;
        sweep(&directory)?;
        let name = generation_name(snapshot.map.taken_at, snapshot.label.as_deref());
        let path = directory.join(format!("{name}.{EXTENSION}"));
        snapshot.write(&path)?;
        Ok(Generation { name, system_identifier, path })
    }

    /// Removes all but the `keep` newest snapshots of the same label, and returns what it removed. The warmest of the others
    /// stays too as long as each that is kept is clearly colder ([`CLEARLY`](super::choice::CLEARLY)): takes that went on after
    /// a restart must not push out the only snapshot that is worth restoring.
    pub fn prune(&self, system_identifier: u64, label: Option<&str>, keep: usize) -> Result<Vec<Generation>, Error> {
        let generations = self.read_generations(system_identifier)?;
        let (kept, old): (Vec<_>, Vec<_>) = generations
            .into_iter()
            .filter(|one| one.label() == label)
            .enumerate()
            .partition(|(age, _)| *age < keep.max(1));
        let [kept, mut old] = [kept, old].map(|some| some.into_iter().map(|(_, one)| one).collect::<Vec<Generation>>());
        if let Some(spared) = find_irreplaceable(&old, &kept) {
            old.remove(spared);
        }
        old.into_iter().map(|one| one.drop_file().map(|()| one)).collect()
    }
}

impl Generation {
    /// The label in its name.
    pub fn label(&self) -> Option<&str> {
        self.name.splitn(3, '-').nth(2)
    }

    /// What its file says of itself, if the file matches its checksum.
    pub fn read_header(&self) -> Result<SnapshotHeader, Error> {
        SnapshotHeader::read(&self.path)
    }

    /// Removes its file.
    pub fn drop_file(&self) -> Result<(), Error> {
        fs::remove_file(&self.path).map_err(|source| Error::file("remove", &self.path, source))
    }
}

/// The one of `old` that is worth restoring more than any that is kept, if there is one. What footers say is looked at first;
/// whether a file is whole matters only where it decides.
fn find_irreplaceable(old: &[Generation], kept: &[Generation]) -> Option<usize> {
    let claim = |one: &Generation| SnapshotHeader::read_unverified(&one.path).ok();
    let is_whole = |one: &Generation| one.read_header().is_ok();
    let mut candidates: Vec<(usize, SnapshotHeader)> =
        old.iter().enumerate().filter_map(|(at, one)| Some((at, claim(one)?))).collect();
    let kept: Vec<(&Generation, SnapshotHeader)> = kept.iter().filter_map(|one| Some((one, claim(one)?))).collect();
    loop {
        let headers: Vec<SnapshotHeader> = candidates.iter().map(|(_, header)| header.clone()).collect();
        // All that are old enough to go are alike: when the server was started does not matter.
        let (best, _) = choose(&headers, Situation::now(LastStart::Unknown, Tiers::BOTH))?;
        let (at, header) = &candidates[best];
        let replaces = |one: &&(&Generation, SnapshotHeader)| !is_clearly_colder(&one.1, header, Tiers::BOTH);
        if kept.iter().filter(replaces).any(|(one, _)| is_whole(one)) {
            return None;
        }
        if is_whole(&old[*at]) {
            return Some(*at);
        }
        candidates.remove(best);
    }
}

/// Can this stand in a file's name, and be told from the time before it?
pub fn check_label(label: &str) -> Result<(), Error> {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric();
    let is_part = |byte: u8| is_word(byte) || matches!(byte, b'.' | b'_' | b'-');
    let is_label = label.len() <= 40 && label.bytes().next().is_some_and(is_word) && label.bytes().all(is_part);
    if is_label { Ok(()) } else { Err(Error::Label(label.to_owned())) }
}

/// `20261121-233005.123` in UTC, so that names sort by time, then the label.
fn generation_name(taken_at: Timestamp, label: Option<&str>) -> String {
    let time = taken_at.strftime("%Y%m%d-%H%M%S.%3f").to_string();
    label.map_or(time.clone(), |label| format!("{time}-{label}"))
}

/// Is this the path of a file rather than a name in the store?
pub fn is_path(name: &str) -> bool {
    name.contains('/') || name.ends_with(&format!(".{EXTENSION}"))
}

/// `newest` is 0, `newest~2` the second before it.
fn parse_age(name: &str) -> Option<usize> {
    match name.strip_prefix(NEWEST)? {
        "" => Some(0),
        rest => rest.strip_prefix('~')?.parse().ok(),
    }
}

/// `$XDG_STATE_HOME/pgthaw/snapshots`, by default in `~/.local/state`.
fn default_root() -> PathBuf {
    state_home().unwrap_or_else(|| PathBuf::from("/var/lib")).join("pgthaw/snapshots")
}

/// The names in a directory; none when it does not exist.
fn read_names(directory: &Path) -> Result<Vec<String>, Error> {
    let failed = |source| Error::file("list", directory, source);
    let entries = match fs::read_dir(directory) {
        Err(source) if source.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(failed)?,
    };
    let names = entries.map(|entry| entry.map(|entry| entry.file_name().into_string().ok()).map_err(failed));
    names.filter_map(Result::transpose).collect()
}

/// Removes temporaries of takes that were killed. One that is being written is locked, or too young.
fn sweep(directory: &Path) -> Result<(), Error> {
    for name in read_names(directory)?.iter().filter(|name| name.starts_with(TEMPORARY_PREFIX)) {
        let path = directory.join(name);
        if is_stale(&path).unwrap_or(false) {
            fs::remove_file(&path).map_err(|source| Error::file("remove", &path, source))?;
        }
    }
    Ok(())
}

fn is_stale(path: &Path) -> io::Result<bool> {
    let file = File::open(path)?;
    let age = file.metadata()?.modified()?.elapsed().unwrap_or_default();
    match file.try_lock() {
        Ok(()) => Ok(age > STALE_AFTER),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;
    use crate::cache::{ForkMap, Map, MapSource, RelationMap, TierState};
    use crate::postgres::{Relation, RelationKind, RelationName};
    use crate::units::Fork;

    fn snapshot(second: i64, label: Option<&str>) -> Snapshot {
        let source = MapSource {
            system_identifier: 42,
            version_num: 150_018,
            block_size: 8192,
            segment_blocks: 131_072,
            data_directory: None,
            lsn: String::new(),
            timeline: 1,
        };
        let map = Map {
            taken_at: Timestamp::from_second(second).unwrap(),
            source,
            os: TierState::Measured,
            buffers: TierState::Measured,
            os_heat: Default::default(),
            relations: Vec::new(),
            empty: Vec::new(),
            partitioned: Vec::new(),
            remarks: Vec::new(),
        };
        Snapshot::new(map, label.map(str::to_owned))
    }

    fn store() -> (tempfile::TempDir, SnapshotStore) {
        let directory = tempfile::tempdir().unwrap();
        let store = SnapshotStore::open(Some(directory.path().join("deep/snapshots")));
        (directory, store)
    }

    fn names(store: &SnapshotStore) -> Vec<String> {
        store.read_generations(42).unwrap().into_iter().map(|one| one.name).collect()
    }

    #[test]
    fn the_newest_is_first_and_names_may_be_cut_short() {
        let (_directory, store) = store();
        for (second, label) in [(1_700_000_000, None), (1_700_000_100, Some("nightly")), (1_699_000_000, None)] {
            store.keep(&snapshot(second, label)).unwrap();
        }
        assert_eq!(names(&store), ["20231114-221500.000-nightly", "20231114-221320.000", "20231103-082640.000"]);
        let path = |name: &str| store.resolve(name, 42).unwrap().file_stem().unwrap().to_str().unwrap().to_owned();
        assert_eq!(path("newest"), "20231114-221500.000-nightly");
        assert_eq!(path("newest~2"), "20231103-082640.000");
        assert_eq!(path("20231103"), "20231103-082640.000");
        assert_eq!(path("./other/20231103.parquet"), "20231103");
        assert!(matches!(store.resolve("20231114", 42), Err(Error::AmbiguousSnapshot { .. })));
        assert!(matches!(store.resolve("2024", 42), Err(Error::UnknownSnapshot { .. })));
        assert!(matches!(store.resolve("newest~3", 42), Err(Error::UnknownSnapshot { .. })));
        assert!(matches!(store.resolve("newest", 43), Err(Error::NoSnapshot(_))));
        assert_eq!(store.read_clusters().unwrap(), [42]);
    }

    #[test]
    fn only_the_same_label_is_pruned() {
        let (_directory, store) = store();
        for second in 0..5 {
            store.keep(&snapshot(1_700_000_000 + second, None)).unwrap();
            store.keep(&snapshot(1_700_000_000 + second, Some("keep-me"))).unwrap();
        }
        assert_eq!(store.prune(42, None, 2).unwrap().len(), 3);
        assert_eq!(names(&store).iter().filter(|name| name.ends_with("-keep-me")).count(), 5);
        assert_eq!(store.prune(42, Some("keep-me"), 0).unwrap().len(), 4, "the one just taken always stays");
        assert_eq!(names(&store)[..2], ["20231114-221324.000-keep-me", "20231114-221324.000"]);
    }

    /// A snapshot with this many blocks in the page cache.
    fn warm_snapshot(second: i64, blocks: u32) -> Snapshot {
        let mut snapshot = snapshot(second, None);
        let mut fork = ForkMap::empty(Fork::Main, 1000);
        fork.os.insert_range(0..blocks);
        let name = RelationName { database: "shop".into(), schema: "public".into(), name: "orders".into() };
        let relation = Relation {
            name,
            kind: RelationKind::Table,
            oid: 16384,
            path: "base/5/16384".parse().unwrap(),
            tablespace: "pg_default".into(),
            parent: None,
            is_system: false,
        };
        snapshot.map.relations.push(RelationMap { relation, forks: vec![fork] });
        snapshot
    }

    #[test]
    fn cold_snapshots_do_not_push_out_the_warm_one() {
        let (_directory, store) = store();
        let keep = |second: i64, blocks| store.keep(&warm_snapshot(1_700_000_000 + second, blocks)).unwrap();
        let warm = [(0, 900), (1, 1000), (2, 980)].map(|(second, blocks)| keep(second, blocks));
        // A restart, a take each minute, another restart, and so on.
        for minute in 0..20 {
            keep(60 * (minute + 1), 10 + minute as u32 % 3);
            store.prune(42, None, 7).unwrap();
            assert!(names(&store).contains(&warm[2].name), "the newest of the warmest stays");
        }
        assert_eq!(names(&store).len(), 8, "and it alone");
        keep(2000, 700);
        store.prune(42, None, 7).unwrap();
        assert!(names(&store).contains(&warm[2].name), "nearly as warm is more than this");
        keep(2060, 800);
        store.prune(42, None, 7).unwrap();
        assert_eq!(names(&store).len(), 7, "warm again, the old one may go");
    }

    #[test]
    fn a_warm_one_of_another_label_stays_for_itself() {
        let (_directory, store) = store();
        let labelled = |second: i64, blocks, label: &str| {
            let mut snapshot = warm_snapshot(1_700_000_000 + second, blocks);
            snapshot.label = Some(label.to_owned());
            store.keep(&snapshot).unwrap()
        };
        let (by_hand, timer) = (labelled(0, 1000, "by-hand"), labelled(1, 990, "timer"));
        for minute in 1..10 {
            labelled(60 * minute, 10, "timer");
            store.prune(42, Some("timer"), 3).unwrap();
        }
        assert_eq!(names(&store).len(), 5);
        assert!(names(&store).contains(&by_hand.name) && names(&store).contains(&timer.name));
    }

    #[test]
    fn a_damaged_snapshot_does_not_push_out_the_warm_one_either() {
        let (_directory, store) = store();
        let keep = |second: i64, blocks| store.keep(&warm_snapshot(1_700_000_000 + second, blocks)).unwrap();
        let (_, damaged, _) = (keep(0, 1000), keep(1, 900), keep(2, 10));
        let mut bytes = fs::read(&damaged.path).unwrap();
        bytes[10] ^= 1;
        fs::write(&damaged.path, bytes).unwrap();
        let claimed = SnapshotHeader::read_unverified(&damaged.path).unwrap().resident_blocks();
        assert_eq!(claimed, 900, "its footer is whole");
        assert_eq!(store.prune(42, None, 2).unwrap(), []);
        keep(3, 20);
        assert_eq!(store.prune(42, None, 2).unwrap(), [damaged], "what cannot be restored is not spared");
    }

    #[test]
    fn what_a_killed_take_left_is_swept() {
        let (_directory, store) = store();
        let kept = store.keep(&snapshot(1_700_000_000, None)).unwrap();
        let directory = kept.path.parent().unwrap();
        let old = SystemTime::now() - STALE_AFTER * 2;
        let make = |name: &str| {
            let file = File::create(directory.join(name)).unwrap();
            file.set_modified(old).unwrap();
            file
        };
        make(".pgthaw-taking-dead");
        let alive = make(".pgthaw-taking-alive");
        alive.lock().unwrap();
        File::create(directory.join(".pgthaw-taking-young")).unwrap();
        store.keep(&snapshot(1_700_000_001, None)).unwrap();
        let left = read_names(directory).unwrap();
        assert!(!left.contains(&".pgthaw-taking-dead".to_owned()), "{left:?}");
        assert_eq!(left.len(), 4, "{left:?}");
        assert_eq!(names(&store).len(), 2, "temporaries are no generations");
    }

    #[test]
    fn labels_stay_inside_the_directory() {
        for label in ["nightly", "2026.1", "a-b_c"] {
            check_label(label).unwrap();
        }
        for label in ["", "-x", ".x", "a/b", "../x", "a b", "ä", "a\n", &"x".repeat(41)] {
            assert!(check_label(label).is_err(), "{label:?}");
        }
    }
}
