//! A cgroup that this process makes, fills and takes away again.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use std::{fs, thread};

use serde::{Deserialize, Serialize};

use super::hierarchy::{CgroupVersion, Hierarchy, has_word};
use crate::linux::{Error, process};

/// Every cgroup of ours is called `pgthaw-` and whose it is: the namespace of its maker's pid, the pid, the maker's
/// start time and a number.
const PREFIX: &str = "pgthaw-";

/// Whoever is written here joins.
pub const PROCS_FILE: &str = "cgroup.procs";

/// What `statfs` says of cgroups of version 1 and 2 (`CGROUP_SUPER_MAGIC`, `CGROUP2_SUPER_MAGIC` in linux/magic.h).
const CGROUP_FILE_SYSTEMS: [u64; 2] = [0x0027_e0eb, 0x6367_7270];

/// Processes may fork while they are moved away, and dying ones linger: look again this often before giving up.
const REMOVAL_TRIES: u32 = 50;
const REMOVAL_PAUSE: Duration = Duration::from_millis(20);

/// A cgroup below the root of its hierarchy, or near another one. Dropping it sends its processes back to where they came from and removes
/// it; one whose maker was killed is removed when the next one is made.
#[derive(Debug)]
pub struct OwnCgroup {
    hierarchy: Hierarchy,
    directory: PathBuf,
    /// Where the processes that were put in came from.
    homes: Mutex<HashMap<u32, PathBuf>>,
    /// Where those go that were born here of a parent that was not.
    home: PathBuf,
    is_removed: bool,
}

impl OwnCgroup {
    /// Makes one, after sweeping away those that killed processes left.
    pub fn create(hierarchy: Hierarchy) -> Result<OwnCgroup, Error> {
        let root = hierarchy.mount_point.clone();
        OwnCgroup::create_in(hierarchy, &root, root.clone())
    }

    /// Makes one for processes that come from where `pid` is. In version 1 it is below that cgroup, so that their memory goes on to
    /// count there; in version 2, where a cgroup with processes hands no controller down, beside it.
    pub fn create_for(hierarchy: Hierarchy, pid: u32) -> Result<OwnCgroup, Error> {
        let (parent, home) = place_for(&hierarchy, pid)?;
        OwnCgroup::create_in(hierarchy, &parent, home)
    }

    /// Removes those that were made for processes that come from where `pid` is, by others that were killed.
    pub fn sweep_for(hierarchy: &Hierarchy, pid: u32) -> Result<(), Error> {
        let (parent, home) = place_for(hierarchy, pid)?;
        sweep(&parent, &home, process::read_pid_namespace()?);
        Ok(())
    }

    fn create_in(hierarchy: Hierarchy, parent: &Path, home: PathBuf) -> Result<OwnCgroup, Error> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let maker = Maker::myself()?;
        enable_controller(&hierarchy, parent)?;
        sweep(parent, &home, maker.namespace);
        let name = format!("{}-{}", maker.prefix(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let directory = parent.join(name);
        fs::create_dir(&directory).map_err(|error| Error::cgroup("create", &directory, error))?;
        Ok(OwnCgroup { hierarchy, directory, homes: Mutex::default(), home, is_removed: false })
    }

    /// Makes another controller of version 2 available here.
    pub fn hand_down(&self, other: &Hierarchy) -> Result<(), Error> {
        enable_controller(other, self.directory.parent().unwrap_or(&other.mount_point))
    }

    /// Where its processes go that came from nowhere else.
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// Where it is, and where its processes go in the end: for who clears up after its maker was killed.
    pub fn place(&self) -> LeftCgroup {
        LeftCgroup { directory: self.directory.clone(), home: self.home.clone() }
    }

    pub fn version(&self) -> CgroupVersion {
        self.hierarchy.version
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    pub fn read(&self, name: &str) -> Result<String, Error> {
        let path = self.file(name);
        fs::read_to_string(&path).map_err(|error| Error::cgroup("read", &path, error))
    }

    pub fn write(&self, name: &str, text: &str) -> Result<(), Error> {
        let path = self.file(name);
        fs::write(&path, text).map_err(|error| Error::cgroup("write to", &path, error))
    }

    /// Moves a process, with all of its threads, into this cgroup. Children that it starts from now on are born here.
    pub fn join(&self, pid: u32) -> Result<(), Error> {
        let home = self.hierarchy.directory_of(pid)?;
        self.write(PROCS_FILE, &pid.to_string())?;
        self.homes.lock().unwrap_or_else(PoisonError::into_inner).entry(pid).or_insert(home);
        Ok(())
    }

    /// Sends a process back to where it came from. One that is gone needs no home.
    pub fn leave(&self, pid: u32) {
        let home = self.homes.lock().unwrap_or_else(PoisonError::into_inner).remove(&pid);
        let home = home.unwrap_or_else(|| self.home.clone());
        if move_process(pid, &home).is_err() {
            let _ = move_process(pid, &self.home);
        }
    }

    /// Sends the processes home and removes the cgroup. Dropping does the same and keeps quiet.
    pub fn remove(mut self) -> Result<(), Error> {
        self.is_removed = true;
        self.empty_and_remove()
    }

    fn empty_and_remove(&self) -> Result<(), Error> {
        // Whoever was killed in here may have left some below.
        if let Ok(myself) = Maker::myself() {
            sweep(&self.directory, &self.directory, myself.namespace);
        }
        let homes = self.homes.lock().unwrap_or_else(PoisonError::into_inner);
        empty_and_remove(&self.directory, &self.home, |pid| home_of(pid, &homes))
    }
}

impl Drop for OwnCgroup {
    fn drop(&mut self) {
        if !self.is_removed {
            // What stays is empty or swept away at the next start; there is nobody left to tell.
            let _ = self.empty_and_remove();
        }
    }
}

/// A cgroup whose maker may have been killed, and where its processes came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftCgroup {
    directory: PathBuf,
    home: PathBuf,
}

impl LeftCgroup {
    /// Sends its processes home and removes it, unless its maker lives. One that is gone is removed. What was kept of it may be anybody's
    /// word: nothing outside of a cgroup file system is written to or removed.
    ///
    /// # Errors
    /// When it cannot be removed, or is none that pgthaw has made.
    pub fn remove(&self) -> Result<(), Error> {
        let named = |path: &Path| path.file_name().and_then(|name| Maker::from_name(name.to_str()?));
        named(&self.directory).ok_or_else(|| refused(&self.directory))?;
        let Some(directory) = find_cgroup(&self.directory)? else { return Ok(()) };
        // What a link leads to has another name.
        if named(&directory).ok_or_else(|| refused(&directory))?.is_alive() {
            return Ok(());
        }
        // A home that is gone is above.
        let home = find_cgroup(&self.home)?;
        let above = directory.parent().unwrap_or(&directory);
        empty_and_remove(&directory, home.as_deref().unwrap_or(above), |_| None)
    }
}

fn refused(path: &Path) -> Error {
    Error::cgroup("remove", path, io::ErrorKind::InvalidInput.into())
}

/// A directory of a cgroup file system, by a path without links, of which there are none in there; `None` when it is gone.
fn find_cgroup(path: &Path) -> Result<Option<PathBuf>, Error> {
    let found = match path.canonicalize() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        found => found.map_err(|error| Error::cgroup("look for", path, error))?,
    };
    let facts = rustix::fs::statfs(&found).map_err(|error| Error::cgroup("look at", &found, error.into()))?;
    let is_cgroup = CGROUP_FILE_SYSTEMS.contains(&(facts.f_type as u64)) && found.join(PROCS_FILE).exists();
    if is_cgroup { Ok(Some(found)) } else { Err(refused(path)) }
}

/// Version 2 hands a controller down only when every cgroup above says so. It stays handed down afterwards: another one may
/// have come to rely on it.
fn enable_controller(hierarchy: &Hierarchy, parent: &Path) -> Result<(), Error> {
    let name = hierarchy.controller.v2_name();
    let mut above: Vec<&Path> = parent.ancestors().take_while(|one| one.starts_with(&hierarchy.mount_point)).collect();
    above.reverse();
    for switch in above.into_iter().map(|one| one.join("cgroup.subtree_control")) {
        if hierarchy.version == CgroupVersion::V2 && !has_word(&switch, name) {
            fs::write(&switch, format!("+{name}"))
                .map_err(|error| Error::cgroup("enable the controller in", &switch, error))?;
        }
    }
    Ok(())
}

/// Above a cgroup that is made for processes which come from where `pid` is, and where that is.
fn place_for(hierarchy: &Hierarchy, pid: u32) -> Result<(PathBuf, PathBuf), Error> {
    let home = hierarchy.directory_of(pid)?;
    let parent = match (hierarchy.version, home.parent()) {
        (CgroupVersion::V2, Some(above)) if home != hierarchy.mount_point => above.to_owned(),
        _ => home.clone(),
    };
    Ok((parent, home))
}

/// Removes the cgroups in `parent` that killed processes left. One that cannot be removed hurts nobody.
fn sweep(parent: &Path, home: &Path, namespace: u64) {
    let Ok(entries) = fs::read_dir(parent) else {
        return;
    };
    for entry in entries.flatten() {
        let maker = entry.file_name().to_str().and_then(Maker::from_name);
        if maker.is_some_and(|maker| maker.namespace == namespace && !maker.is_alive()) {
            let _ = empty_and_remove(&entry.path(), home, |_| None);
        }
    }
}

/// Moves every process to its home, or to the common one when it has none of its own, until the cgroup can be removed.
fn empty_and_remove(directory: &Path, common: &Path, home_of: impl Fn(u32) -> Option<PathBuf>) -> Result<(), Error> {
    let parent = directory.parent().unwrap_or(directory);
    for attempt in 1.. {
        for pid in read_pids(directory)? {
            let home = home_of(pid).unwrap_or_else(|| common.to_owned());
            if move_process(pid, &home).is_err() {
                // The home may be gone. A process that is gone needs none.
                let _ = move_process(pid, parent);
            }
        }
        match fs::remove_dir(directory) {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy && attempt < REMOVAL_TRIES => {
                thread::sleep(REMOVAL_PAUSE);
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(Error::cgroup("remove", directory, error));
            }
            _ => break,
        }
    }
    Ok(())
}

fn read_pids(directory: &Path) -> Result<Vec<u32>, Error> {
    let path = directory.join(PROCS_FILE);
    match fs::read_to_string(&path) {
        Ok(text) => Ok(text.lines().filter_map(|line| line.parse().ok()).collect()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(Error::cgroup("read", &path, error)),
    }
}

fn move_process(pid: u32, directory: &Path) -> io::Result<()> {
    fs::write(directory.join(PROCS_FILE), pid.to_string())
}

/// Where a process came from, or its nearest ancestor that was moved.
fn home_of(pid: u32, homes: &HashMap<u32, PathBuf>) -> Option<PathBuf> {
    let mut lineage = std::iter::successors(Some(pid), |pid| process::read_parent(*pid).ok());
    lineage.find_map(|ancestor| homes.get(&ancestor).cloned())
}

/// The process that made a cgroup. Its start time tells it from a later process of the same pid, the namespace from a
/// process of another container that sees the same cgroups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Maker {
    namespace: u64,
    pid: u32,
    start_ticks: u64,
}

impl Maker {
    fn myself() -> Result<Maker, Error> {
        let pid = std::process::id();
        Ok(Maker { namespace: process::read_pid_namespace()?, pid, start_ticks: process::read_start_ticks(pid)? })
    }

    fn prefix(self) -> String {
        format!("{PREFIX}{}-{}-{}", self.namespace, self.pid, self.start_ticks)
    }

    fn from_name(name: &str) -> Option<Maker> {
        let mut parts = name.strip_prefix(PREFIX)?.split('-');
        let namespace = parts.next()?.parse().ok()?;
        let pid = parts.next()?.parse().ok()?;
        let start_ticks = parts.next()?.parse().ok()?;
        Some(Maker { namespace, pid, start_ticks })
    }

    fn is_alive(self) -> bool {
        process::read_start_ticks(self.pid).is_ok_and(|ticks| ticks == self.start_ticks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_whose_it_is() {
        let maker = Maker { namespace: 4026531836, pid: 17, start_ticks: 99 };
        assert_eq!(Maker::from_name(&format!("{}-3", maker.prefix())), Some(maker));
        assert_eq!(Maker::from_name("system.slice"), None);
        assert_eq!(Maker::from_name("pgthaw-lab"), None);
        assert!(Maker::myself().unwrap().is_alive());
        assert!(!Maker { start_ticks: 1, ..Maker::myself().unwrap() }.is_alive());
    }

    #[test]
    fn what_only_looks_like_a_cgroup_is_left_alone() {
        let place = tempfile::tempdir().unwrap();
        let make = |name: &str, pids: &str| {
            let directory = place.path().join(name);
            fs::create_dir(&directory).unwrap();
            fs::write(directory.join(PROCS_FILE), pids).unwrap();
            directory
        };
        let dead = Maker { start_ticks: 1, ..Maker::myself().unwrap() }.prefix();
        let (directory, home) = (make(&dead, "4194305"), make("home", ""));
        let left = |directory: &Path| LeftCgroup { directory: directory.to_owned(), home: home.clone() };
        assert!(left(&directory).remove().is_err());
        assert_eq!(fs::read_to_string(home.join(PROCS_FILE)).unwrap(), "", "nobody was sent there");
        assert!(directory.join(PROCS_FILE).exists());
        let gone = place.path().join(format!("{dead}-1"));
        assert!(left(&gone).remove().is_ok() && left(place.path()).remove().is_err());
        // A link of a maker's name leads to one that pgthaw did not make.
        let Ok(root) = Path::new("/proc/self/root/sys/fs/cgroup").canonicalize() else { return };
        std::os::unix::fs::symlink(root, &gone).unwrap();
        assert!(left(&gone).remove().is_err());
    }
}
