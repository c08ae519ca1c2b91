//! Where snapshots are kept: a directory per cluster, a file per generation.
//!
//! Generations are in the order in which they were taken, whatever the clock said: each has a number that is one more than the
//! greatest that was there. It stands in its name behind the time, which is for people.

#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::choice::{LastStart, Situation, choose, is_clearly_colder};
use super::sealed_file::DRAFT_PREFIX;
use super::snapshot_file::write_draft;
use super::{Databases, Error, MapSource, NEWEST, Snapshot, SnapshotHeader};
use host::failure::Tiers;
use host::files::{
    DIRECTORY_MODE, Directory, Draft, Entry, EntryKind, FILE_MODE, as_owner_of, remove_abandoned_drafts,
};
use host::linux::home::{state_home, state_in};

const EXTENSION: &str = "parquet";

/// A greater number in a name is none of ours: nobody takes so many.
const NUMBER_MAX: u64 = 999_999_999_999;

/// How often and how long apart it is tried to give a name alone. It takes well under a millisecond.
const LOCK_TRIES: u32 = 1000;
const LOCK_PAUSE: Duration = Duration::from_millis(5);

/// A directory of snapshots: `ROOT/SYSTEM_IDENTIFIER/NAME.parquet`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotStore {
    root: PathBuf,
}

/// One kept snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generation {
    /// The time it was taken (UTC), its number and the label: `20261121-233005.123.42-before-upgrade`.
    pub name: String,
    pub system_identifier: u64,
    pub path: PathBuf,
    /// What stands there under its name; only a file can be read.
    pub kind: EntryKind,
}

impl SnapshotStore {
    /// The store at `directory` (`--dir` or PGTHAW_SNAPSHOTS), else in the XDG state directory.
    pub fn open(directory: Option<PathBuf>) -> SnapshotStore {
        SnapshotStore { root: directory.unwrap_or_else(default_root) }
    }

    /// Where a user with this home keeps his, unless he said otherwise.
    pub fn in_home(home: &Path) -> SnapshotStore {
        SnapshotStore { root: state_in(home).join(BELOW_STATE) }
    }

    /// A store of other files than snapshots, with generations as these have.
    pub fn of_others(root: PathBuf) -> SnapshotStore {
        SnapshotStore { root }
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
        let Some(root) = found(Directory::open(&self.root), &self.root)? else { return Ok(Vec::new()) };
        let cluster = |entry: Entry| {
            let name = entry.name.to_str().filter(|_| entry.kind == EntryKind::Directory)?;
            // As it is written here: +42 and 042 are somebody else's.
            name.parse().ok().filter(|cluster: &u64| cluster.to_string() == name)
        };
        let mut clusters: Vec<u64> = self.entries(&root)?.into_iter().filter_map(cluster).collect();
        clusters.sort_unstable();
        Ok(clusters)
    }

    /// One cluster's snapshots, the one taken last first.
    pub fn read_generations(&self, system_identifier: u64) -> Result<Vec<Generation>, Error> {
        let Some(root) = found(Directory::open(&self.root), &self.root)? else { return Ok(Vec::new()) };
        let path = self.cluster_directory(system_identifier);
        let directory = found(root.subdirectory(system_identifier.to_string()), &path)?;
        directory.map_or_else(|| Ok(Vec::new()), |directory| self.generations_in(&directory, system_identifier))
    }

    fn generations_in(&self, directory: &Directory, system_identifier: u64) -> Result<Vec<Generation>, Error> {
        let generation = |Entry { name, kind }: Entry| {
            let name = name.to_str()?.strip_suffix(&format!(".{EXTENSION}"))?.to_owned();
            let path = directory.path().join(format!("{name}.{EXTENSION}"));
            (!name.starts_with('.')).then_some(Generation { name, system_identifier, path, kind })
        };
        let mut generations: Vec<Generation> = self.entries(directory)?.into_iter().filter_map(generation).collect();
        generations.sort_by(|one, other| other.order().cmp(&one.order()));
        Ok(generations)
    }

    fn entries(&self, directory: &Directory) -> Result<Vec<Entry>, Error> {
        directory.entries().map_err(|source| Error::file("list", directory.path(), source))
    }

    /// Every snapshot of every cluster: the clusters in order, of each the newest first.
    pub fn read_all(&self) -> Result<Vec<Generation>, Error> {
        let clusters = self.read_clusters()?;
        let generations: Vec<Vec<Generation>> =
            clusters.into_iter().map(|cluster| self.read_generations(cluster)).collect::<Result<_, _>>()?;
        Ok(generations.into_iter().flatten().collect())
    }

    /// The generation that `name` means: `newest`, `newest~N` or the beginning of its name.
    pub fn find(&self, name: &str, system_identifier: u64) -> Result<Generation, Error> {
        let directory = self.cluster_directory(system_identifier);
        let generations = self.read_generations(system_identifier)?;
        if generations.is_empty() {
            return Err(Error::NoSnapshot(directory));
        }
        let found = match parse_age(name) {
            Some(age) => generations.into_iter().nth(age).ok_or_else(Vec::new),
            None => find_by_beginning(generations, name),
        };
        found.map_err(|candidates| match candidates.is_empty() {
            true => Error::UnknownSnapshot { name: name.to_owned(), directory },
            false => Error::AmbiguousSnapshot { name: name.to_owned(), candidates },
        })
    }

    /// The one snapshot of all clusters that is called just so. `None`: none is, or who knows which of several.
    pub fn find_whole_name(&self, name: &str) -> Option<Generation> {
        let mut called = self.read_all().ok()?.into_iter().filter(|one| one.name == name);
        called.next().filter(|_| called.next().is_none())
    }

    /// The one snapshot of all clusters whose name begins so.
    pub fn find_beginning(&self, name: &str) -> Option<Generation> {
        find_by_beginning(self.read_all().ok()?, name).ok()
    }

    /// Writes a snapshot as the newest generation of its cluster. What a killed take left behind is swept first. Root writes
    /// in a directory of somebody else's as he: it is his snapshot.
    pub fn keep(&self, snapshot: &Snapshot) -> Result<Generation, Error> {
        let MapSource { system_identifier, .. } = snapshot.map.source;
        let (taken_at, label) = (snapshot.map.taken_at, snapshot.label.as_deref());
        let draft = self.as_owner(|| {
            let directory = self.sweep(system_identifier)?;
            let name = self.free_names(&directory, system_identifier, taken_at, label)?.next().unwrap_or_default();
            write_draft(snapshot, directory, &self.cluster_directory(system_identifier).join(name))
        })?;
        self.place(draft, system_identifier, taken_at, label)
    }

    /// A file that will be a generation of a cluster, to be written as whoever the store belongs to. What those left who were killed
    /// while they wrote is swept first.
    pub fn begin(&self, system_identifier: u64) -> Result<Draft, Error> {
        let path = self.cluster_directory(system_identifier);
        let create = |directory| {
            Draft::create(directory, DRAFT_PREFIX, FILE_MODE)
                .map_err(|source| Error::file("create a file in", &path, source))
        };
        self.as_owner(|| create(self.sweep(system_identifier)?))
    }

    /// Makes a file that was written the newest generation of its cluster.
    pub fn place(
        &self,
        draft: Draft,
        system_identifier: u64,
        taken_at: Timestamp,
        label: Option<&str>,
    ) -> Result<Generation, Error> {
        let path = self.cluster_directory(system_identifier);
        let free_names = |directory: &Directory| self.free_names(directory, system_identifier, taken_at, label);
        self.as_owner(|| {
            let directory = self.create_cluster_directory(system_identifier)?;
            // Among takes at once a number that was just free may be below those that were given meanwhile.
            let _turn = lock_briefly(&directory);
            let shown = path.join(free_names(&directory)?.next().unwrap_or_default());
            let name = draft
                .place_first_free(free_names(&directory)?)
                .map_err(|source| Error::file("write", &shown, source))?;
            let path = path.join(&name);
            let name = Path::new(&name).file_stem().unwrap_or_default().to_string_lossy().into_owned();
            Ok(Generation { name, system_identifier, path, kind: EntryKind::File })
        })
    }

    /// What a new file may be called: its number comes after all that are there.
    fn free_names(
        &self,
        directory: &Directory,
        system_identifier: u64,
        taken_at: Timestamp,
        label: Option<&str>,
    ) -> Result<FreeNames, Error> {
        let generations = self.generations_in(directory, system_identifier)?;
        let number = generations.first().map_or(0, |one| one.order().0);
        Ok(FreeNames { taken_at, label: label.map(str::to_owned), number })
    }

    fn as_owner<T: Send>(&self, work: impl FnOnce() -> Result<T, Error> + Send) -> Result<T, Error> {
        as_owner_of(&self.root, work)
            .unwrap_or_else(|source| Err(Error::file("act as the owner of", &self.root, source)))
    }

    /// A cluster's directory, without what those left who were killed.
    fn sweep(&self, system_identifier: u64) -> Result<Directory, Error> {
        let directory = self.create_cluster_directory(system_identifier)?;
        remove_abandoned_drafts(&directory, DRAFT_PREFIX)
            .map_err(|source| Error::file("sweep", directory.path(), source))?;
        Ok(directory)
    }

    fn create_cluster_directory(&self, system_identifier: u64) -> Result<Directory, Error> {
        let root = Directory::create(&self.root).map_err(|source| Error::file("create", &self.root, source))?;
        let name = system_identifier.to_string();
        let directory = root.create_or_open_subdirectory(&name, DIRECTORY_MODE);
        directory.map_err(|source| Error::file("create", &self.root.join(name), source))
    }

    /// Removes all but the `keep` newest snapshots of the label of `just_taken`, and returns what it removed. That one stays
    /// whatever the others are; the warmest of the others stays too as long as each that is kept is clearly colder
    /// ([`CLEARLY`](super::choice::CLEARLY)): takes that went on after a restart must not push out the only snapshot that is
    /// worth restoring. Of databases that are not among `databases` nothing counts.
    pub fn prune(
        &self,
        just_taken: &Generation,
        keep: usize,
        databases: Option<Databases>,
    ) -> Result<Vec<Generation>, Error> {
        let generations = self.read_generations(just_taken.system_identifier)?;
        let (kept, old): (Vec<_>, Vec<_>) = generations
            .into_iter()
            .filter(|one| one.label() == just_taken.label())
            .enumerate()
            .partition(|(age, one)| *age < keep.max(1) || one.name == just_taken.name);
        let [kept, mut old] = [kept, old].map(|some| some.into_iter().map(|(_, one)| one).collect::<Vec<Generation>>());
        if let Some(spared) = find_irreplaceable(&old, &kept, databases) {
            old.remove(spared);
        }
        let mut dropped = Vec::new();
        for one in old {
            // Another take may prune at the same time.
            if self.drop_if_there(&one)? {
                dropped.push(one);
            }
        }
        Ok(dropped)
    }

    /// Removes a generation's file, or whatever has its name: what a link leads to stays.
    pub fn forget(&self, generation: &Generation) -> Result<(), Error> {
        match self.drop_if_there(generation)? {
            true => Ok(()),
            false => Err(Error::file("remove", &generation.path, io::ErrorKind::NotFound.into())),
        }
    }

    /// Removes it, unless it is gone already.
    pub fn drop_if_there(&self, generation: &Generation) -> Result<bool, Error> {
        as_owner_of(&self.root, || -> io::Result<bool> {
            let root = Directory::open(&self.root)?;
            let directory = root.subdirectory(generation.system_identifier.to_string())?;
            match directory.remove_file(generation.path.file_name().unwrap_or_default()) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
                removed => removed.map(|()| true),
            }
        })
        .unwrap_or_else(Err)
        .map_err(|source| Error::file("remove", &generation.path, source))
    }
}

/// The one generation whose name is this or begins so. Otherwise the names of all that it could be.
pub fn find_by_beginning(generations: Vec<Generation>, name: &str) -> Result<Generation, Vec<String>> {
    // Every name begins with nothing: who says nothing, perhaps by a variable that is not set, means none.
    let begins = |one: &Generation| !name.is_empty() && one.name.starts_with(name);
    let mut matching: Vec<Generation> = generations.into_iter().filter(begins).collect();
    // One that is called just so is meant, even if another's name goes on from there.
    let exact = matching.iter().position(|one| one.name == name);
    match exact.or((matching.len() == 1).then_some(0)) {
        Some(at) => Ok(matching.swap_remove(at)),
        None => Err(matching.into_iter().map(|one| one.name).collect()),
    }
}

/// Names of files, one for each number.
#[derive(Clone, Debug)]
struct FreeNames {
    taken_at: Timestamp,
    label: Option<String>,
    /// The one before.
    number: u64,
}

impl Iterator for FreeNames {
    type Item = OsString;

    fn next(&mut self) -> Option<OsString> {
        self.number = Some(self.number + 1).filter(|number| *number <= NUMBER_MAX)?;
        let name = generation_name(self.taken_at, self.number, self.label.as_deref());
        Some(format!("{name}.{EXTENSION}").into())
    }
}

impl Generation {
    /// The label in its name.
    pub fn label(&self) -> Option<&str> {
        self.name.splitn(3, '-').nth(2)
    }

    /// What its file says of itself, if the file matches its checksum.
    pub fn read_header(&self) -> Result<SnapshotHeader, Error> {
        self.require_file()?;
        SnapshotHeader::read(&self.path)
    }

    /// What its footer says of it, and nothing else: the file may be damaged.
    pub fn read_unverified(&self) -> Result<SnapshotHeader, Error> {
        self.require_file()?;
        SnapshotHeader::read_unverified(&self.path)
    }

    /// Reads it, and checks all of it.
    pub fn read(&self) -> Result<Snapshot, Error> {
        self.require_file()?;
        Snapshot::read(&self.path)
    }

    /// A link may lead anywhere, and nobody may ever write into a pipe.
    pub fn require_file(&self) -> Result<(), Error> {
        let what = match self.kind {
            EntryKind::File => return Ok(()),
            EntryKind::Directory => "a directory",
            EntryKind::Link => "a symbolic link",
            EntryKind::Other => "a pipe, a socket or a device",
        };
        Err(Error::NotASnapshot { path: self.path.clone(), reason: format!("it is {what}") })
    }

    /// By what generations are in order: the number, and the name of those that were taken by a pgthaw that gave none, or at
    /// the same moment.
    fn order(&self) -> (u64, &str) {
        let time = self.name.split('-').nth(1).unwrap_or_default();
        let number = time.split('.').nth(2).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
        let number = number.and_then(|digits| digits.parse().ok()).filter(|number| *number <= NUMBER_MAX);
        (number.unwrap_or_default(), &self.name)
    }
}

/// The one of `old` that is worth restoring more than any that is kept, if there is one. What footers say is looked at first;
/// whether a file is whole matters only where it decides.
fn find_irreplaceable(old: &[Generation], kept: &[Generation], databases: Option<Databases>) -> Option<usize> {
    // All that are old enough to go are alike: when the server was started does not matter.
    let situation = Situation::now(LastStart::Unknown, Tiers::BOTH).among(databases);
    let is_whole = |one: &Generation| one.read_header().is_ok();
    let claims = old.iter().chain(kept).enumerate();
    let claims: Vec<(usize, SnapshotHeader)> =
        claims.filter_map(|(at, one)| Some((at, one.read_unverified().ok()?))).collect();
    let (places, claims): (Vec<usize>, Vec<SnapshotHeader>) = claims.into_iter().unzip();
    let counted = places.into_iter().zip(situation.count(&claims));
    let (mut candidates, of_kept): (Vec<_>, Vec<_>) = counted.partition(|(at, _)| *at < old.len());
    let kept: Vec<(&Generation, SnapshotHeader)> =
        of_kept.into_iter().map(|(at, header)| (&kept[at - old.len()], header)).collect();
    loop {
        let headers: Vec<SnapshotHeader> = candidates.iter().map(|(_, header)| header.clone()).collect();
        let (best, _) = choose(&headers, &situation)?;
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

/// `20261121-233005.123.42` in UTC, then the label.
fn generation_name(taken_at: Timestamp, number: u64, label: Option<&str>) -> String {
    let time = taken_at.strftime("%Y%m%d-%H%M%S.%3f");
    label.map_or_else(|| format!("{time}.{number}"), |label| format!("{time}.{number}-{label}"))
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

/// In a directory of programs' state.
const BELOW_STATE: &str = "pgthaw/snapshots";

/// `$XDG_STATE_HOME/pgthaw/snapshots`, by default in `~/.local/state`.
fn default_root() -> PathBuf {
    state_home().unwrap_or_else(|| PathBuf::from("/var/lib")).join(BELOW_STATE)
}

/// Waits for its turn, but for nobody who never ends: then, and where directories cannot be locked, it goes on without. The lock
/// ends with what is returned.
fn lock_briefly(directory: &Directory) -> Option<OwnedFd> {
    let lock = directory.as_fd().try_clone_to_owned().ok()?;
    for _ in 0..LOCK_TRIES {
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Some(lock),
            Err(Errno::WOULDBLOCK) => std::thread::sleep(LOCK_PAUSE),
            Err(_) => return None,
        }
    }
    None
}

/// What is there; `None` when nothing is.
fn found(opened: io::Result<Directory>, path: &Path) -> Result<Option<Directory>, Error> {
    match opened {
        Err(source) if source.kind() == io::ErrorKind::NotFound => Ok(None),
        opened => opened.map(Some).map_err(|source| Error::file("list", path, source)),
    }
}
