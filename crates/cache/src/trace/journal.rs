//! What runs leave behind until their clean-up is done: what was cached before, and what the job brought in. Who is killed leaves it to
//! the next.
//!
//! Each run has a lock in the state directory while it lives. Only the last one to end cleans up, for all: so runs at once do not undo
//! each other. What came first, before any of them, is what comes back.

use std::fs::{File, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use roaring::RoaringBitmap;

use super::error::Error;
use super::record::Came;
use crate::sealed_file::DRAFT_PREFIX;
use crate::{ForkMap, Map, RelationMap, Snapshot};
use host::files::{Directory, FILE_MODE, has_foreign_owner, remove_abandoned_drafts};
use host::linux::cgroup::LeftCgroup;
use host::units::Fork;
use postgres::RelationPath;

const LOCK: &str = ".lock";
const BEFORE: &str = ".before.parquet";
const BROUGHT: &str = ".brought.parquet";
const CGROUPS: &str = ".cgroups.json";
/// Restores that read: the name begins with the process.
const RESTORE: &str = ".restore";
/// Of a machine with both versions there are two; a file that is larger than this is none of pgthaw's.
const CGROUPS_BYTES_MAX: u64 = 64 << 10;

/// What was left longer ago is not cleaned up any more: what is cached now came since.
const STALE: SignedDuration = SignedDuration::from_hours(1);

/// Said of a run that was killed at once.
const UNACCOUNTED: &str =
    "an earlier run was killed before it could write down what its job had read: of that nothing is dropped";

/// How often and how long apart it is tried to be the one who cleans up.
const TURN_TRIES: u32 = 20;
const TURN_PAUSE: Duration = Duration::from_millis(50);

/// The runs of one cluster.
#[derive(Debug)]
pub struct Journals {
    directory: Directory,
    system_identifier: u64,
}

/// A run that goes on. It lives as long as this is held.
#[derive(Debug)]
pub struct Journal {
    name: String,
    lock: File,
}

/// A restore that reads. It lives as long as this is held.
#[derive(Debug)]
pub struct Restoring {
    name: String,
    _lock: File,
}

/// What is to be cleaned up, by whoever holds this: nobody else does meanwhile.
#[derive(Debug)]
pub struct Left {
    /// What was cached before the first of them; `None` where none of them protects anything.
    pub before: Option<Map>,
    /// What they brought in, by file and fork.
    pub brought: Came,
    /// How many runs it is of.
    pub runs: usize,
    pub remarks: Vec<String>,
    names: Vec<String>,
    _turn: File,
}

impl Left {
    /// Adds what came for a job.
    pub fn add_came(&mut self, came: &Came) {
        came.iter().for_each(|(place, blocks)| self.add_brought(place.clone(), blocks));
    }

    fn add_brought(&mut self, place: (RelationPath, Fork), blocks: &RoaringBitmap) {
        *self.brought.entry(place).or_default() |= blocks;
    }
}

impl Journals {
    /// Those of a cluster, in pgthaw's state directory.
    ///
    /// # Errors
    /// When it cannot be made. They say which processes go where and what goes from the page cache, so root obeys none that another user
    /// may have written.
    pub fn open(state: &Path, system_identifier: u64) -> Result<Journals, Error> {
        let path = Journals::place(state, system_identifier);
        if has_foreign_owner(&path) {
            let source = io::Error::new(io::ErrorKind::PermissionDenied, "another user decides what is in it");
            return Err(Error::file("use", &path, source));
        }
        let directory = Directory::create(&path).map_err(|source| Error::file("create", &path, source))?;
        Ok(Journals { directory, system_identifier })
    }

    /// Where a cluster's are in a state directory.
    pub fn place(state: &Path, system_identifier: u64) -> PathBuf {
        state.join("runs").join(system_identifier.to_string())
    }

    fn failed(&self, action: &'static str) -> impl Fn(io::Error) -> Error {
        let path = self.directory.path().to_owned();
        move |source| Error::File { action, path: path.clone(), source }
    }

    /// A run begins. With `before` it will put back what was cached then.
    pub fn begin(&self, before: Option<&Map>) -> Result<Journal, Error> {
        let (name, lock) = self.lock_new("", LOCK)?;
        let journal = Journal { name, lock };
        if let Some(before) = before {
            Snapshot::new(before.clone(), None).write(&self.path(&journal.name, BEFORE))?;
        }
        Ok(journal)
    }

    /// Makes a file of a name that nobody has, and locks it. The name is told without its ending.
    fn lock_new(&self, beginning: &str, ending: &str) -> Result<(String, File), Error> {
        let failed = self.failed("create a file in");
        loop {
            let name = format!("{beginning}{:016x}", rand::random::<u64>());
            let lock = self.directory.open_or_create(format!("{name}{ending}"), FILE_MODE).map_err(&failed)?;
            lock.lock().map_err(&failed)?;
            // Somebody may have swept it before it was locked.
            if self.directory.holds(format!("{name}{ending}"), &lock).map_err(&failed)? {
                return Ok((name, lock));
            }
        }
    }

    /// A restore begins to read. Who else does is told by the processes; what those left who were killed goes.
    pub fn begin_restore(&self) -> Result<(Restoring, Vec<u32>), Error> {
        let (own, lock) = self.lock_new(&format!("{}-", std::process::id()), RESTORE)?;
        let mut others = Vec::new();
        for name in self.names(RESTORE)?.into_iter().filter(|name| *name != own) {
            match self.is_locked(&name, RESTORE) {
                true => others.extend(name.split('-').next().and_then(|pid| pid.parse::<u32>().ok())),
                false => _ = self.directory.remove_file(format!("{name}{RESTORE}")),
            }
        }
        others.sort_unstable();
        Ok((Restoring { name: own, _lock: lock }, others))
    }

    /// A restore has ended.
    pub fn end_restore(&self, restoring: Restoring) {
        // What stays is swept by the next one.
        let _ = self.directory.remove_file(format!("{}{RESTORE}", restoring.name));
    }

    /// Keeps what a run's job has brought in by now, in place of what it had before. `map` is of the cluster.
    pub fn keep_brought(&self, journal: &Journal, map: &Map, came: &Came) -> Result<(), Error> {
        let brought = Map { taken_at: Timestamp::now(), relations: only(map, came), empty: Vec::new(), ..map.clone() };
        Snapshot::new(brought, None).replace(&self.path(&journal.name, BROUGHT))?;
        Ok(())
    }

    /// Keeps where a run's job is set apart from the others, before anybody is in there.
    pub fn keep_cgroups(&self, journal: &Journal, cgroups: &[LeftCgroup]) -> Result<(), Error> {
        let failed = self.failed("create a file in");
        let name = format!("{}{CGROUPS}", journal.name);
        let mut file = self.directory.open_or_create(&name, FILE_MODE).map_err(&failed)?;
        let text = serde_json::to_vec(cgroups).map_err(|error| failed(error.into()))?;
        file.write_all(&text).map_err(&failed)
    }

    /// Removes the cgroups of runs that were killed, whose jobs may go on: who is in them goes back to where he came from. Returns what
    /// could not be removed, in words.
    pub fn remove_left_cgroups(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        let Ok(entries) = self.directory.entries() else { return remarks };
        let names = entries.iter().filter_map(|entry| Some(entry.name.to_str()?.strip_suffix(CGROUPS)?.to_owned()));
        for name in names.filter(|name| !self.is_alive(name)) {
            let file = format!("{name}{CGROUPS}");
            match self.read_cgroups(&file) {
                Ok(left) => match left.iter().try_for_each(LeftCgroup::remove) {
                    Ok(()) => _ = self.directory.remove_file(&file),
                    Err(error) => remarks.push(format!("a cgroup that an earlier run left is still there: {error}")),
                },
                Err(why) => {
                    remarks.push(format!("which cgroups an earlier run left cannot be read: {why}"));
                    let _ = self.directory.remove_file(&file);
                }
            }
        }
        remarks
    }

    fn read_cgroups(&self, file: &str) -> Result<Vec<LeftCgroup>, io::Error> {
        let mut text = Vec::new();
        self.directory.open_file(file)?.take(CGROUPS_BYTES_MAX).read_to_end(&mut text)?;
        Ok(serde_json::from_slice(&text)?)
    }

    fn path(&self, name: &str, ending: &str) -> PathBuf {
        self.directory.path().join(format!("{name}{ending}"))
    }

    /// A run has ended. What is to be cleaned up now; `None` when another goes on, which does it when it ends.
    pub fn end(&self, journal: Journal) -> Result<Option<Left>, Error> {
        let Journal { lock, name } = journal;
        let turn = self.take_turn()?;
        drop(lock);
        turn.map_or(Ok(None), |turn| self.collect(turn, Some(&name)))
    }

    /// What runs left that were killed; `None` when there is nothing, or a run goes on, which does it when it ends.
    pub fn take_left(&self) -> Result<Option<Left>, Error> {
        // Restores that read beside each other make the directory too, and leave nothing in it.
        if self.names(LOCK)?.is_empty() {
            return Ok(None);
        }
        let turn = self.take_turn()?;
        let left = turn.map_or(Ok(None), |turn| self.collect(turn, None))?;
        Ok(left.filter(|left| !left.names.is_empty()))
    }

    /// Does a run go on?
    pub fn is_any_alive(&self) -> Result<bool, Error> {
        Ok(self.names(LOCK)?.iter().any(|name| self.is_alive(name)))
    }

    fn take_turn(&self) -> Result<Option<File>, Error> {
        let turn = self.directory.open_or_create("turn", FILE_MODE).map_err(self.failed("create a file in"))?;
        for _ in 0..TURN_TRIES {
            match turn.try_lock() {
                Ok(()) => return Ok(Some(turn)),
                Err(TryLockError::WouldBlock) => std::thread::sleep(TURN_PAUSE),
                Err(TryLockError::Error(source)) => return Err(self.failed("lock a file in")(source)),
            }
        }
        Ok(None)
    }

    fn names(&self, ending: &str) -> Result<Vec<String>, Error> {
        let entries = self.directory.entries().map_err(self.failed("list"))?;
        let name = |entry: host::files::Entry| Some(entry.name.to_str()?.strip_suffix(ending)?.to_owned());
        Ok(entries.into_iter().filter_map(name).collect())
    }

    fn is_alive(&self, name: &str) -> bool {
        self.is_locked(name, LOCK)
    }

    fn is_locked(&self, name: &str, ending: &str) -> bool {
        let lock = self.directory.open_file(format!("{name}{ending}"));
        lock.is_ok_and(|lock| matches!(lock.try_lock(), Err(TryLockError::WouldBlock)))
    }

    /// What all have left, when none lives. `own` is the one that has just ended.
    fn collect(&self, turn: File, own: Option<&str>) -> Result<Option<Left>, Error> {
        let names = self.names(LOCK)?;
        if names.iter().any(|name| self.is_alive(name)) {
            return Ok(None);
        }
        let _ = remove_abandoned_drafts(&self.directory, DRAFT_PREFIX);
        let (before, brought) = (None, Came::new());
        let mut left = Left { before, brought, runs: 0, remarks: Vec::new(), names, _turn: turn };
        for name in left.names.clone() {
            self.add(&mut left, &name, own == Some(&name));
        }
        Ok(Some(left))
    }

    /// Adds what one run left. What cannot be read is only told: it is in a directory of this user's own.
    fn add(&self, left: &mut Left, name: &str, is_own: bool) {
        let read = |ending| match Snapshot::read(&self.path(name, ending)) {
            Ok(snapshot) if snapshot.map.source.system_identifier == self.system_identifier => Ok(Some(snapshot.map)),
            Ok(_) => Ok(None),
            Err(crate::Error::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        };
        let brought = match (read(BEFORE), read(BROUGHT)) {
            (Ok(Some(before)), Ok(brought)) => {
                let last = brought.as_ref().map_or(before.taken_at, |brought| brought.taken_at);
                if Timestamp::now().duration_since(last) > STALE {
                    left.remarks.push(format!("what a run left on {last:.0} is too old to be cleaned up"));
                    return;
                }
                left.runs += 1;
                // What the own one has no place to write down it still knows.
                if brought.is_none() && !is_own {
                    left.remarks.push(UNACCOUNTED.to_owned());
                }
                if left.before.as_ref().is_none_or(|first| before.taken_at < first.taken_at) {
                    left.before = Some(before);
                }
                brought
            }
            (Ok(None), _) => return,
            (Err(error), _) | (_, Err(error)) => {
                left.remarks.push(format!("what a run left cannot be cleaned up: {error}"));
                return;
            }
        };
        for one in brought.into_iter().flat_map(|map| map.relations) {
            for fork in one.forks {
                left.add_brought((one.relation.path.clone(), fork.fork), &fork.os);
            }
        }
    }

    /// All is cleaned up.
    pub fn forget(&self, left: Left) -> Result<(), Error> {
        let endings = [CGROUPS, BROUGHT, BEFORE, LOCK];
        for (name, ending) in left.names.iter().flat_map(|name| endings.map(|ending| (name, ending))) {
            match self.directory.remove_file(format!("{name}{ending}")) {
                Err(source) if source.kind() != io::ErrorKind::NotFound => {
                    return Err(self.failed("remove a file in")(source));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// The relations of a map of which something came, with that as what is cached.
fn only(map: &Map, came: &Came) -> Vec<RelationMap> {
    let of_relation = |one: &RelationMap| {
        let fork = |fork: &ForkMap| {
            let mut os: RoaringBitmap = came.get(&(one.relation.path.clone(), fork.fork))?.clone();
            let blocks = fork.blocks.max(os.max().map_or(0, |last| u64::from(last) + 1));
            os.optimize();
            Some(ForkMap { os, ..ForkMap::empty(fork.fork, blocks) })
        };
        let forks: Vec<ForkMap> = one.forks.iter().filter_map(fork).collect();
        (!forks.is_empty()).then(|| RelationMap { relation: one.relation.clone(), forks })
    };
    map.relations.iter().filter_map(of_relation).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{map_of, relation};

    fn map(second: i64, blocks: std::ops::Range<u32>) -> Map {
        let mut fork = ForkMap::empty(Fork::Main, 100);
        fork.os.insert_range(blocks);
        let now = Timestamp::now().as_second();
        Map { taken_at: Timestamp::from_second(now + second).unwrap(), ..map_of(vec![relation(1, fork)]) }
    }

    fn came(blocks: std::ops::Range<u32>) -> Came {
        let path = relation(1, ForkMap::empty(Fork::Main, 1)).relation.path;
        Came::from([((path, Fork::Main), blocks.collect())])
    }

    fn journals(state: &Path) -> Journals {
        Journals::open(state, map(0, 0..0).source.system_identifier).unwrap()
    }

    #[test]
    fn the_last_one_cleans_up_for_all_to_what_was_before_the_first() {
        let state = tempfile::tempdir().unwrap();
        let journals = journals(state.path());
        let (first, second) = (map(-9, 0..10), map(-5, 0..50));
        let one = journals.begin(Some(&first)).unwrap();
        let two = journals.begin(Some(&second)).unwrap();
        let neither = journals.begin(None).unwrap();
        journals.keep_brought(&one, &first, &came(20..30)).unwrap();
        journals.keep_brought(&one, &first, &came(20..40)).unwrap();
        journals.keep_brought(&two, &second, &came(60..70)).unwrap();
        assert!(journals.end(one).unwrap().is_none(), "others go on");
        assert!(journals.take_left().unwrap().is_none());
        assert!(journals.end(two).unwrap().is_none() && journals.is_any_alive().unwrap());
        let left = journals.end(neither).unwrap().unwrap();
        assert_eq!((left.runs, left.before.as_ref().unwrap().os_blocks()), (2, 10));
        assert_eq!(left.brought.values().map(RoaringBitmap::len).sum::<u64>(), 30);
        journals.forget(left).unwrap();
        assert!(journals.take_left().unwrap().is_none());
    }

    #[test]
    fn a_run_that_could_write_no_account_knows_what_came_and_was_not_killed() {
        let state = tempfile::tempdir().unwrap();
        let journals = journals(state.path());
        let own = journals.begin(Some(&map(-4, 0..10))).unwrap();
        let mut left = journals.end(own).unwrap().unwrap();
        left.add_came(&came(20..30));
        assert_eq!((left.runs, left.brought.len(), left.remarks.as_slice()), (1, 1, [].as_slice()));
        drop(left);
        let found = journals.take_left().unwrap().unwrap();
        assert_eq!(found.remarks, [UNACCOUNTED], "had it been killed");
    }

    #[test]
    fn what_a_killed_run_left_is_there_for_the_next_unless_it_is_old() {
        let state = tempfile::tempdir().unwrap();
        let journals = journals(state.path());
        let before = map(-4, 0..10);
        let killed = journals.begin(Some(&before)).unwrap();
        journals.keep_brought(&killed, &before, &came(20..30)).unwrap();
        drop(killed);
        let left = journals.take_left().unwrap().unwrap();
        assert_eq!((left.runs, left.before.is_some(), left.brought.len()), (1, true, 1));
        drop(left);
        assert!(journals.take_left().unwrap().is_some(), "it is there until it is done");
        journals.forget(journals.take_left().unwrap().unwrap()).unwrap();
        drop(journals.begin(Some(&map(-4000, 0..10))).unwrap());
        let left = journals.take_left().unwrap().unwrap();
        assert!(left.before.is_none() && left.remarks[0].contains("too old"), "{left:?}");
    }

    #[test]
    fn root_obeys_no_journals_of_others() {
        needs_root!();
        let state = tempfile::tempdir().unwrap();
        let others = state.path().join("runs");
        std::fs::create_dir(&others).unwrap();
        std::os::unix::fs::chown(&others, Some(65_534), None).unwrap();
        let system_identifier = map(0, 0..0).source.system_identifier;
        let refused = Journals::open(state.path(), system_identifier).unwrap_err().to_string();
        assert!(refused.contains("another user decides what is in it"), "{refused}");
        // A link of root's that leads there does not help.
        let linked = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(&others, linked.path().join("runs")).unwrap();
        assert!(Journals::open(linked.path(), system_identifier).is_err());
        assert!(std::fs::read_dir(&others).unwrap().next().is_none(), "nothing was made there");
    }

    #[test]
    fn restores_at_once_know_of_each_other_and_no_run_waits_for_them() {
        let state = tempfile::tempdir().unwrap();
        let journals = journals(state.path());
        let own = std::process::id();
        let (killed, nobody) = journals.begin_restore().unwrap();
        drop(killed);
        let (one, none) = journals.begin_restore().unwrap();
        let (two, others) = journals.begin_restore().unwrap();
        assert_eq!((nobody, none, others), (vec![], vec![], vec![own]));
        let run = journals.begin(None).unwrap();
        assert!(journals.end(run).unwrap().is_some());
        journals.end_restore(one);
        journals.end_restore(two);
        assert!(journals.names(RESTORE).unwrap().is_empty());
        journals.forget(journals.take_left().unwrap().unwrap()).unwrap();
        std::fs::remove_file(journals.path("turn", "")).unwrap();
        assert!(journals.take_left().unwrap().is_none());
        assert!(journals.directory.entries().unwrap().is_empty(), "a restore alone leaves nothing");
    }

    #[test]
    fn cgroups_that_are_none_are_told_and_those_of_the_living_left() {
        let state = tempfile::tempdir().unwrap();
        let journals = journals(state.path());
        let journal = journals.begin(None).unwrap();
        let kept = r#"[{"directory": "/", "home": "/"}]"#;
        journals.keep_cgroups(&journal, &serde_json::from_str::<Vec<LeftCgroup>>(kept).unwrap()).unwrap();
        assert!(journals.remove_left_cgroups().is_empty(), "its run goes on");
        drop(journal);
        let remarks = journals.remove_left_cgroups();
        assert!(remarks[0].contains("is still there"), "the root is none of ours: {remarks:?}");
        assert!(std::path::Path::new("/").exists());
        let path = std::fs::read_dir(journals.directory.path()).unwrap().flatten().map(|entry| entry.path());
        let path = path.into_iter().find(|path| path.to_string_lossy().ends_with(CGROUPS)).unwrap();
        std::fs::write(path, "{").unwrap();
        assert!(journals.remove_left_cgroups()[0].contains("cannot be read"));
        assert!(journals.remove_left_cgroups().is_empty(), "told once");
    }

    #[test]
    fn what_cannot_be_read_is_told_and_done_with() {
        let state = tempfile::tempdir().unwrap();
        let journals = journals(state.path());
        let killed = journals.begin(Some(&map(-4, 0..10))).unwrap();
        std::fs::write(journals.path(&killed.name, BEFORE), "PAR1").unwrap();
        drop(killed);
        let left = journals.take_left().unwrap().unwrap();
        assert!(left.before.is_none() && left.remarks[0].contains("cannot be cleaned up"), "{left:?}");
    }
}
