//! Snapshot storage: a directory per cluster, a file per generation. Each new file gets the next number, so the clock
//! does not affect the order.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fs::{File, TryLockError};
use std::io;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;

use super::choice::{LastStart, NEARLY, Reason, Situation, choose, find_warmer, is_clearly_colder, is_to_come};
use super::sealed_file::{DRAFT_PREFIX, Flaw};
use super::snapshot_file::{create_draft, write_draft};
use super::warm::{STATE, state_directory};
use super::{BEST, Databases, Error, MapSource, NEWEST, Result, Snapshot, SnapshotHeader, TierState};
use host::failure::Tiers;
use host::files::{DIRECTORY_MODE, Directory, Draft, Entry, FileType, as_owner_of, remove_abandoned_drafts};
use host::linux::own_program::{may_write, state_in};
use host::units::Bytes;

/// Default store of users who can write to it, and of the units in packaging/systemd.
const OF_MACHINE: &str = "/var/lib/pgthaw";

const EXTENSION: &str = "parquet";

/// A snapshot whose name has a greater number is not from pgthaw.
const NUMBER_MAX: u64 = 999_999_999_999;

/// Attempts to lock a directory. Other processes hold the lock under a millisecond, to name a file.
const LOCK_TRIES: u32 = 1000;
const LOCK_PAUSE: Duration = Duration::from_millis(5);

/// A directory of snapshots: `ROOT/SYSTEM_IDENTIFIER/NAME.parquet`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotStore {
    root: PathBuf,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generation {
    /// Time (UTC), number and label: `20261121-233005.123.42-before-upgrade`.
    pub name: String,
    pub system_identifier: u64,
    pub path: PathBuf,
    /// Only a regular file can be read.
    pub kind: FileType,
}

impl SnapshotStore {
    /// Opens `directory` (`--dir` or PGTHAW_SNAPSHOTS), else the machine's store if writable, else the XDG state
    /// directory.
    pub fn open(directory: Option<PathBuf>) -> SnapshotStore {
        let of_machine = || {
            Some(SnapshotStore::of_machine().root)
                .filter(|root| std::env::var_os("XDG_STATE_HOME").is_none() && may_write(root))
        };
        let of_user = || state_directory().join(SNAPSHOTS);
        SnapshotStore { root: directory.or_else(of_machine).unwrap_or_else(of_user) }
    }

    pub fn of_machine() -> SnapshotStore {
        SnapshotStore { root: OF_MACHINE.into() }
    }

    pub fn in_home(home: &Path) -> SnapshotStore {
        SnapshotStore { root: state_in(home).join(STATE).join(SNAPSHOTS) }
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn cluster_directory(&self, system_identifier: u64) -> PathBuf {
        self.root.join(system_identifier.to_string())
    }

    pub fn read_clusters(&self) -> Result<Vec<u64>> {
        let Some(root) = found(Directory::open(&self.root), &self.root)? else { return Ok(Vec::new()) };
        let cluster = |entry: Entry| {
            let name = entry.name.to_str().filter(|_| entry.kind == FileType::Directory)?;
            // pgthaw never writes a number as +42 or 042.
            name.parse().ok().filter(|cluster: &u64| cluster.to_string() == name)
        };
        let mut clusters: Vec<u64> = self.entries(&root)?.into_iter().filter_map(cluster).collect();
        clusters.sort_unstable();
        Ok(clusters)
    }

    /// Generations of a cluster, newest first.
    pub fn read_generations(&self, system_identifier: u64) -> Result<Vec<Generation>> {
        let Some(root) = found(Directory::open(&self.root), &self.root)? else { return Ok(Vec::new()) };
        let path = self.cluster_directory(system_identifier);
        let directory = found(root.subdirectory(system_identifier.to_string()), &path)?;
        directory.map_or_else(|| Ok(Vec::new()), |directory| self.generations_in(&directory, system_identifier))
    }

    fn generations_in(&self, directory: &Directory, system_identifier: u64) -> Result<Vec<Generation>> {
        let generation = |Entry { name, kind }: Entry| {
            let name = name.to_str()?.strip_suffix(&format!(".{EXTENSION}"))?.to_owned();
            let path = directory.path().join(format!("{name}.{EXTENSION}"));
            (!name.starts_with('.')).then_some(Generation { name, system_identifier, path, kind })
        };
        let mut generations: Vec<Generation> = self.entries(directory)?.into_iter().filter_map(generation).collect();
        generations.sort_by(|one, other| other.order().cmp(&one.order()));
        Ok(generations)
    }

    fn entries(&self, directory: &Directory) -> Result<Vec<Entry>> {
        directory.entries().map_err(|source| Error::file("list", directory.path(), source))
    }

    pub fn read_all(&self) -> Result<Vec<Generation>> {
        let generations = self.read_clusters()?.into_iter().map(|cluster| self.read_generations(cluster));
        Ok(generations.collect::<Result<Vec<_>, _>>()?.concat())
    }

    /// `name`: `newest`, `newest~N` or the beginning of a name.
    pub fn find(&self, name: &str, system_identifier: u64) -> Result<Generation> {
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

    /// `None` unless exactly one generation has this whole name.
    pub fn find_whole_name(&self, name: &str) -> Option<Generation> {
        let mut called = self.read_all().ok()?.into_iter().filter(|one| one.name == name);
        called.next().filter(|_| called.next().is_none())
    }

    pub fn find_beginning(&self, name: &str) -> Option<Generation> {
        find_by_beginning(self.read_all().ok()?, name).ok()
    }

    /// Stores a snapshot, and removes unfinished files of killed processes. Root acts as the directory's owner.
    pub fn keep(&self, snapshot: &Snapshot) -> Result<Generation> {
        let MapSource { system_identifier, .. } = snapshot.map.source;
        let (taken_at, label) = (snapshot.map.taken_at, snapshot.label.as_deref());
        let draft = self.as_owner(|| {
            let directory = self.sweep(system_identifier)?;
            let name = file_name(taken_at, self.last_number(&directory, system_identifier)? + 1, label);
            write_draft(snapshot, directory, &self.cluster_directory(system_identifier).join(name))
        })?;
        self.place(draft, system_identifier, taken_at, label)
    }

    /// Removes unfinished files of killed processes.
    pub fn begin(&self, system_identifier: u64) -> Result<Draft> {
        self.as_owner(|| create_draft(self.sweep(system_identifier)?))
    }

    pub fn place(&self, draft: Draft, cluster: u64, taken_at: Timestamp, label: Option<&str>) -> Result<Generation> {
        let path = self.cluster_directory(cluster);
        self.as_owner(|| {
            let directory = self.create_cluster_directory(cluster)?;
            // Without the lock, concurrent writers could use numbers out of order. If it cannot be had in time, the
            // snapshot is stored all the same.
            let turn = directory.as_fd().try_clone_to_owned().map(File::from);
            let _ = turn.as_ref().map(|turn| lock_within(turn, LOCK_TRIES, LOCK_PAUSE));
            let first = self.last_number(&directory, cluster)? + 1;
            let names = (first..=NUMBER_MAX).map(|number| file_name(taken_at, number, label).into());
            let failed = |source| Error::file("write", &path.join(file_name(taken_at, first, label)), source);
            let name = draft.place_first_free(names).map_err(failed)?;
            let path = path.join(&name);
            let name = Path::new(&name).file_stem().unwrap_or_default().to_string_lossy().into_owned();
            Ok(Generation { name, system_identifier: cluster, path, kind: FileType::RegularFile })
        })
    }

    fn last_number(&self, directory: &Directory, system_identifier: u64) -> Result<u64> {
        Ok(self.generations_in(directory, system_identifier)?.first().map_or(0, |one| one.order().0))
    }

    fn as_owner<T: Send>(&self, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        as_owner_of(&self.root, work)
            .unwrap_or_else(|source| Err(Error::file("act as the owner of", &self.root, source)))
    }

    fn sweep(&self, system_identifier: u64) -> Result<Directory> {
        let directory = self.create_cluster_directory(system_identifier)?;
        remove_abandoned_drafts(&directory, DRAFT_PREFIX)
            .map_err(|source| Error::file("sweep", directory.path(), source))?;
        Ok(directory)
    }

    fn create_cluster_directory(&self, system_identifier: u64) -> Result<Directory> {
        let root = Directory::create(&self.root).map_err(|source| Error::file("create", &self.root, source))?;
        let name = system_identifier.to_string();
        let directory = root.create_or_open_subdirectory(&name, DIRECTORY_MODE);
        directory.map_err(|source| Error::file("create", &self.root.join(name), source))
    }

    /// Removes and returns old snapshots with the label and data directory of `just_taken`. Keeps `just_taken` and the
    /// `keep` newest. Also keeps the warmest old one while all others kept are clearly colder (`CLEARLY`), as after a
    /// restart. For this comparison, only blocks of `databases` count.
    pub fn prune(&self, just_taken: &Generation, keep: usize, databases: Option<Databases>) -> Result<Vec<Generation>> {
        let generations = self.read_generations(just_taken.system_identifier)?.into_iter();
        let directory = |one: &Generation| one.read_unverified().ok().map(|header| header.source.data_directory);
        let own = directory(just_taken);
        let is_of_another = |one: &Generation| directory(one).zip(own.as_ref()).is_some_and(|(its, own)| its != *own);
        let alike = generations.filter(|one| one.label() == just_taken.label() && !is_of_another(one));
        let mut younger = 0;
        let (kept, mut old): (Vec<Generation>, Vec<Generation>) = alike.partition(|one| {
            younger += 1;
            younger <= keep.max(1) || one.name == just_taken.name
        });
        if let Some(spared) = find_irreplaceable(&old, &kept, databases) {
            old.remove(spared);
        }
        let dropped = old.into_iter().map(|one| Ok(self.drop_if_there(&one)?.then_some(one)));
        dropped.filter_map(Result::transpose).collect()
    }

    /// Removes a snapshot. Keeps the target of a link.
    pub fn forget(&self, generation: &Generation) -> Result<()> {
        match self.drop_if_there(generation)? {
            true => Ok(()),
            false => Err(Error::file("remove", &generation.path, io::ErrorKind::NotFound.into())),
        }
    }

    pub fn drop_if_there(&self, generation: &Generation) -> Result<bool> {
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

    /// Skips unreadable snapshots only if `name` is `BEST` or `NEWEST`.
    pub fn read(&self, name: &str, system_identifier: u64, situation: &Situation) -> Result<Chosen> {
        let (mut candidates, mut unread) = self.read_candidates(system_identifier)?;
        if name != BEST {
            let (snapshot, path, passed_over) = self.read_named(name, system_identifier)?;
            let stem = path.file_stem().filter(|_| !is_path(name)).map(|stem| stem.to_string_lossy().into_owned());
            let header = snapshot.header();
            let holding = Holding::of(stem.unwrap_or_else(|| name.to_owned()), &path, &header, situation.now);
            let reason = if passed_over.is_empty() { Reason::Named } else { Reason::NewestReadable };
            // Oids of another cluster differ, so `databases` does not apply.
            let is_own = header.source.system_identifier == system_identifier;
            let situation = situation.clone().among(situation.databases.clone().filter(|_| is_own));
            let selected = candidates.describe(holding, &header, reason, &situation);
            let remarks = passed_over_remarks(&passed_over, header.taken_at);
            return Ok(Chosen { snapshot, selected, remarks });
        }
        // Damage shows only when a file is read; then the next best is tried.
        while let Some((at, reason)) = candidates.choose(situation) {
            match candidates.generations[at].read() {
                Ok(snapshot) => {
                    let header = snapshot.header();
                    let holding = candidates.holding(at, situation.now);
                    let selected = candidates.describe(holding, &header, reason, situation);
                    let mut remarks = passed_over_remarks(&unread, header.taken_at);
                    remarks.extend(candidates.remark_to_come(situation.now));
                    return Ok(Chosen { snapshot, selected, remarks });
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

    /// Candidates from the files' footers, newest first; and errors of unreadable snapshots.
    pub fn read_candidates(&self, system_identifier: u64) -> Result<(Candidates, Vec<Error>)> {
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

    fn read_named(&self, name: &str, system_identifier: u64) -> Result<(Snapshot, PathBuf, Vec<Error>)> {
        if is_path(name) {
            return Ok((Snapshot::read(Path::new(name))?, PathBuf::from(name), Vec::new()));
        }
        if name != NEWEST {
            let named = self.find(name, system_identifier)?;
            return Ok((named.read()?, named.path, Vec::new()));
        }
        let mut passed_over = Vec::new();
        for generation in self.read_generations(system_identifier)? {
            match generation.read() {
                Ok(snapshot) => return Ok((snapshot, generation.path, passed_over)),
                Err(error) => passed_over.push(error),
            }
        }
        let newest = passed_over.into_iter().next();
        Err(newest.unwrap_or_else(|| Error::NoSnapshot(self.cluster_directory(system_identifier))))
    }
}

/// The generation named `name`, or the only one whose name begins with it; otherwise all candidates.
pub fn find_by_beginning(generations: Vec<Generation>, name: &str) -> Result<Generation, Vec<String>> {
    // An empty name, as from an unset variable, would match all.
    let begins = |one: &Generation| !name.is_empty() && one.name.starts_with(name);
    let mut matching: Vec<Generation> = generations.into_iter().filter(begins).collect();
    let exact = matching.iter().position(|one| one.name == name);
    match exact.or((matching.len() == 1).then_some(0)) {
        Some(at) => Ok(matching.swap_remove(at)),
        None => Err(matching.into_iter().map(|one| one.name).collect()),
    }
}

impl Generation {
    pub fn label(&self) -> Option<&str> {
        self.name.splitn(3, '-').nth(2)
    }

    pub fn read_header(&self) -> Result<SnapshotHeader> {
        SnapshotHeader::read(self.require_file()?)
    }

    pub fn read_unverified(&self) -> Result<SnapshotHeader> {
        SnapshotHeader::read_unverified(self.require_file()?)
    }

    pub fn read(&self) -> Result<Snapshot> {
        Snapshot::read(self.require_file()?)
    }

    /// Path of a regular file. Other kinds are errors: a link may lead anywhere, and a pipe may never end.
    pub fn require_file(&self) -> Result<&Path> {
        let what = match self.kind {
            FileType::RegularFile => return Ok(&self.path),
            FileType::Directory => "a directory",
            FileType::Symlink => "a symbolic link",
            _ => "a pipe, a socket or a device",
        };
        Err(Error::of_flaw(Flaw::NotOne(format!("it is {what}")), &self.path))
    }

    /// Sort key: number, then name. Names by an older pgthaw have no number.
    fn order(&self) -> (u64, &str) {
        let time = self.name.split('-').nth(1).unwrap_or_default();
        let number = time.split('.').nth(2).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
        let number = number.and_then(|digits| digits.parse().ok()).filter(|number| *number <= NUMBER_MAX);
        (number.unwrap_or_default(), &self.name)
    }
}

/// Index in `old` of a snapshot that is much warmer than all kept ones. Reads footers first, and verifies files only if
/// the result depends on it.
fn find_irreplaceable(old: &[Generation], kept: &[Generation], databases: Option<Databases>) -> Option<usize> {
    // All snapshots precede the server's next start, so the last start does not matter.
    let situation = Situation::now(LastStart::Unknown, Tiers::BOTH).among(databases);
    let is_whole = |one: &Generation| one.read_header().is_ok();
    let readable = old.iter().chain(kept).filter_map(|one| Some((one, one.read_unverified().ok()?)));
    let (generations, headers): (Vec<&Generation>, Vec<SnapshotHeader>) = readable.unzip();
    let counted = generations.into_iter().zip(situation.count(&headers));
    let (mut candidates, kept): (Vec<_>, Vec<_>) = counted.partition(|(one, _)| old.contains(one));
    loop {
        let headers: Vec<SnapshotHeader> = candidates.iter().map(|(_, header)| header.clone()).collect();
        let (best, _) = choose(&headers, &situation)?;
        let (warm, header) = &candidates[best];
        let mut replacing = kept.iter().filter(|(_, kept)| !is_clearly_colder(kept, header, Tiers::BOTH));
        if replacing.any(|(one, _)| is_whole(one)) {
            return None;
        }
        if is_whole(warm) {
            return old.iter().position(|one| one == *warm);
        }
        candidates.remove(best);
    }
}

fn file_name(taken_at: Timestamp, number: u64, label: Option<&str>) -> String {
    let label = label.map(|label| format!("-{label}")).unwrap_or_default();
    format!("{}.{number}{label}.{EXTENSION}", taken_at.strftime("%Y%m%d-%H%M%S.%3f"))
}

pub fn is_path(name: &str) -> bool {
    name.contains('/') || name.ends_with(&format!(".{EXTENSION}"))
}

fn parse_age(name: &str) -> Option<usize> {
    match name.strip_prefix(NEWEST)? {
        "" => Some(0),
        rest => rest.strip_prefix('~')?.parse().ok(),
    }
}

const SNAPSHOTS: &str = "snapshots";

/// Returns false if another process still holds the lock after `tries`.
pub fn lock_within(file: &File, tries: u32, pause: Duration) -> io::Result<bool> {
    for _ in 0..tries {
        match file.try_lock() {
            Ok(()) => return Ok(true),
            Err(TryLockError::WouldBlock) => std::thread::sleep(pause),
            Err(TryLockError::Error(source)) => return Err(source),
        }
    }
    Ok(false)
}

fn found(opened: io::Result<Directory>, path: &Path) -> Result<Option<Directory>> {
    match opened {
        Err(source) if source.kind() == io::ErrorKind::NotFound => Ok(None),
        opened => opened.map(Some).map_err(|source| Error::file("list", path, source)),
    }
}

#[derive(Debug)]
pub struct Chosen {
    pub snapshot: Snapshot,
    pub selected: Selected,
    /// Remarks, such as on skipped damaged snapshots or a timestamp in the future.
    pub remarks: Vec<String>,
}

/// The snapshot that a restore uses.
#[derive(Clone, Debug, PartialEq, Serialize, crate::JsonSchema)]
pub struct Selected {
    #[serde(flatten)]
    pub holding: Holding,
    pub reason: Reason,
    /// Start of the server. `None` if it is not running, or its start is unknown.
    pub server_started_at: Option<Timestamp>,
    /// The warmest snapshot, if the selected one has less than 80 % of its blocks in a tier.
    pub warmer: Option<Holding>,
    /// Dropped databases that have over 5 % of the blocks of this snapshot, or of the one that would be selected with
    /// their blocks. The choice ignored their blocks.
    pub dropped_databases: Vec<String>,
}

/// A snapshot and its size.
#[derive(Clone, Debug, PartialEq, Serialize, crate::JsonSchema)]
pub struct Holding {
    /// Name in the store; elsewhere the file's path.
    pub name: String,
    pub path: PathBuf,
    pub taken_at: Timestamp,
    /// Negative if the snapshot is dated in the future.
    pub age_seconds: i64,
    /// Bytes in the page cache. `None` if not measured.
    pub os_bytes: Option<Bytes>,
    /// Bytes in shared_buffers. `None` if not measured.
    pub buffers_bytes: Option<Bytes>,
}

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
        let (path, taken_at) = (path.to_owned(), header.taken_at);
        let age_seconds = now.as_second() - taken_at.as_second();
        let os_bytes = bytes(&header.os, header.os_blocks);
        let buffers_bytes = bytes(&header.buffers, header.buffer_blocks);
        Holding { name, path, taken_at, age_seconds, os_bytes, buffers_bytes }
    }
}

impl Candidates {
    /// Adds a generation that is older than all others.
    pub fn add(&mut self, generation: Generation, header: SnapshotHeader) {
        self.generations.push(generation);
        self.headers.push(header);
    }

    pub fn select(&self, situation: &Situation) -> Option<Selected> {
        let (at, reason) = self.choose(situation)?;
        Some(self.describe(self.holding(at, situation.now), &self.headers[at], reason, situation))
    }

    /// Selects a snapshot. `None` unless a restore would prefer it to `other`, a snapshot in another store.
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

    fn describe(&self, holding: Holding, header: &SnapshotHeader, reason: Reason, situation: &Situation) -> Selected {
        let mut counted = situation.count(&[&self.headers, std::slice::from_ref(header)].concat());
        let warmer = counted.pop().and_then(|than| find_warmer(&counted, &than, situation));
        let is_named = matches!(reason, Reason::Named | Reason::NewestReadable);
        let otherwise = choose(&self.headers, situation).filter(|_| !is_named).map(|(at, _)| &self.headers[at]);
        let dropped = otherwise.into_iter().chain([header]).flat_map(|one| self.much_dropped(one, situation));
        let dropped_databases = dropped.collect::<BTreeSet<_>>().into_iter().map(str::to_owned).collect();
        let server_started_at = if let LastStart::At(start) = situation.start { Some(start) } else { None };
        let warmer = warmer.map(|at| self.holding(at, situation.now));
        Selected { holding, reason, server_started_at, warmer, dropped_databases }
    }

    /// Dropped databases, if the snapshot without their blocks is not nearly as warm (`NEARLY`).
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
            "snapshot {} is dated in the future, perhaps because the clock was set back: it counts as one from before the server's start",
            self.generations[at].name
        ))
    }
}

fn passed_over_remarks(passed_over: &[Error], taken_at: Timestamp) -> Vec<String> {
    let instead = taken_at.strftime("%F %T");
    passed_over.iter().map(|error| format!("{error}; the snapshot of {instead} UTC was used instead")).collect()
}

#[cfg(test)]
mod the_one_that_is_read_tests {
    use std::fs;

    use super::*;
    use crate::fixtures::{map_of, relation};
    use crate::{Databases, ForkMap, HeatSource};
    use host::failure::Tiers;
    use host::units::Fork;
    use postgres::RelationPath;

    const CLUSTER: u64 = 42;
    const NOW: i64 = 1_700_001_000;

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
            assert_eq!(
                (chosen.snapshot, chosen.selected.holding.path),
                (snapshot(1_700_000_000, 9), kept[0].path.clone())
            );
            let damage = chosen.remarks;
            assert!(damage[0].contains("is empty") && damage[1].contains("is damaged"), "{damage:?}");
        }
        fs::remove_file(&kept[2].path).unwrap();
        fs::create_dir(&kept[2].path).unwrap();
        for name in [NEWEST, BEST] {
            let chosen = store.read(name, CLUSTER, &since).unwrap();
            assert!(chosen.selected.holding.path == kept[0].path && chosen.remarks.len() == 2, "{:?}", chosen.remarks);
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
        let mut bytes = fs::read(&warmest.path).unwrap();
        bytes[10] ^= 1;
        fs::write(&warmest.path, bytes).unwrap();
        let chosen = store.read(BEST, CLUSTER, &restarted).unwrap();
        assert_eq!(chosen.selected.holding.name, second.name);
        assert_eq!(chosen.selected.warmer, None, "what cannot be restored is no warmer one");
        assert!(chosen.remarks[0].contains(&warmest.name), "{:?}", chosen.remarks);
    }

    fn snapshot_with_big(second: i64, blocks: u32, of_big: u32) -> Snapshot {
        let mut fork = ForkMap::empty(Fork::Main, 1000);
        fork.os.insert_range(0..of_big);
        let mut big = relation(20_000, fork);
        big.relation.name.database = "big".to_owned();
        big.relation.path = RelationPath::base(6, 20_000);
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
        assert!(error.to_string().contains("contains blocks of shared_buffers or the page cache"), "{error}");
        store.keep(&snapshot(1_700_000_001, 5)).unwrap();
        let buffers = Situation { tiers: Tiers { os: false, buffers: true }, ..situation(1_600_000_000) };
        let error = store.read(BEST, CLUSTER, &buffers).unwrap_err();
        assert!(error.to_string().contains("contains blocks of shared_buffers"), "{error}");
    }

    #[test]
    fn a_time_that_is_to_come_is_remarked() {
        let (_directory, store) = store();
        let ahead = store.keep(&snapshot(NOW + 3600, 900)).unwrap();
        store.keep(&snapshot(1_700_000_200, 10)).unwrap();
        let chosen = store.read(BEST, CLUSTER, &situation(1_700_000_100)).unwrap();
        assert_eq!(chosen.selected.holding.name, ahead.name);
        assert_eq!(chosen.selected.holding.age_seconds, -3600);
        assert!(chosen.remarks[0].contains("is dated in the future"), "{:?}", chosen.remarks);
    }
}
