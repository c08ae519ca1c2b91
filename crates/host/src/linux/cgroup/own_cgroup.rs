use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use std::{fs, io, thread};

use serde::{Deserialize, Serialize};

use super::{
    Cgroup, CgroupVersion, Controller, Hierarchy, PAGE_CACHE, PROCS_FILE, ReadLimit, ReadUsage, WriteLimit, has_word,
    sum_statistics,
};
use crate::linux::process::Stage;
use crate::linux::threads::lock;
use crate::linux::{DeviceNumber, Error, process};
use crate::units::Bytes;

/// `pgthaw-NAMESPACE-PID-START-NUMBER`: pid namespace, pid and start time of the creating process, then a counter.
const PREFIX: &str = "pgthaw-";

/// CGROUP_SUPER_MAGIC and CGROUP2_SUPER_MAGIC of linux/magic.h.
const CGROUP_FILE_SYSTEMS: [u64; 2] = [0x0027_e0eb, 0x6367_7270];

/// Removal is retried: processes may fork while they are moved, or end slowly.
const REMOVAL_TRIES: u32 = 50;
const REMOVAL_PAUSE: Duration = Duration::from_millis(20);

/// Dropping it moves its processes back. Creating one removes cgroups that killed pgthaw processes left.
#[derive(Debug)]
pub struct OwnCgroup {
    hierarchy: Hierarchy,
    pub(super) files: Cgroup,
    homes: Mutex<HashMap<u32, PathBuf>>,
    /// Cgroup to which processes of unknown origin move at removal.
    home: PathBuf,
    is_removed: bool,
}

impl OwnCgroup {
    pub fn create(hierarchy: Hierarchy) -> Result<OwnCgroup, Error> {
        let root = hierarchy.mount_point.clone();
        OwnCgroup::create_in(hierarchy, &root, root.clone())
    }

    /// Creates a cgroup near that of `pid`. In version 1 it is a child, so the parent still counts its memory. In
    /// version 2 it is a sibling: a cgroup with processes delegates no controller.
    pub fn create_for(hierarchy: Hierarchy, pid: u32) -> Result<OwnCgroup, Error> {
        let (parent, home) = place_for(&hierarchy, pid)?;
        OwnCgroup::create_in(hierarchy, &parent, home)
    }

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
        let files = hierarchy.cgroup(&directory);
        Ok(OwnCgroup { hierarchy, files, homes: Mutex::default(), home, is_removed: false })
    }

    pub fn hand_down(&self, other: &Hierarchy) -> Result<(), Error> {
        enable_controller(other, self.files.directory.parent().unwrap_or(&other.mount_point))
    }

    pub fn place(&self) -> LeftCgroup {
        LeftCgroup { directory: self.files.directory.clone(), home: self.home.clone() }
    }

    pub fn join(&self, pid: u32) -> Result<(), Error> {
        let home = self.hierarchy.directory_of(pid)?;
        self.files.join(pid)?;
        lock(&self.homes).entry(pid).or_insert(home);
        Ok(())
    }

    pub fn leave(&self, pid: u32) {
        let home = lock(&self.homes).remove(&pid);
        let home = home.unwrap_or_else(|| self.home.clone());
        let _ = move_process(pid, &home).or_else(|_| move_process(pid, &self.home));
    }

    /// Unlike dropping, reports errors.
    pub fn remove(mut self) -> Result<(), Error> {
        self.is_removed = true;
        self.empty_and_remove()
    }

    fn empty_and_remove(&self) -> Result<(), Error> {
        let homes = lock(&self.homes);
        empty_and_remove(&self.files.directory, &self.home, |pid| home_of(pid, &homes))
    }
}

impl Drop for OwnCgroup {
    fn drop(&mut self) {
        if !self.is_removed {
            let _ = self.empty_and_remove();
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftCgroup {
    directory: PathBuf,
    home: PathBuf,
}

impl LeftCgroup {
    /// Removes the cgroup unless its creator is alive. The record may be forged, so only cgroup file systems are
    /// changed.
    ///
    /// # Errors
    /// If it cannot be removed, or is not pgthaw's.
    pub fn remove(&self) -> Result<(), Error> {
        let named = |path: &Path| path.file_name().and_then(|name| Maker::from_name(name.to_str()?));
        named(&self.directory).ok_or_else(|| refused(&self.directory))?;
        let Some(directory) = find_cgroup(&self.directory)? else { return Ok(()) };
        // If the recorded path contained a link, the real name may differ from the checked one.
        if named(&directory).ok_or_else(|| refused(&directory))?.is_alive() {
            return Ok(());
        }
        let home = find_cgroup(&self.home)?;
        let above = directory.parent().unwrap_or(&directory);
        empty_and_remove(&directory, home.as_deref().unwrap_or(above), |_| None)
    }
}

fn refused(path: &Path) -> Error {
    Error::cgroup("remove", path, io::ErrorKind::InvalidInput.into())
}

fn find_cgroup(path: &Path) -> Result<Option<PathBuf>, Error> {
    let found = match path.canonicalize() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        found => found.map_err(|error| Error::cgroup("look for", path, error))?,
    };
    let facts = rustix::fs::statfs(&found).map_err(|error| Error::cgroup("look at", &found, error.into()))?;
    let is_cgroup = CGROUP_FILE_SYSTEMS.contains(&(facts.f_type as u64)) && found.join(PROCS_FILE).exists();
    if is_cgroup { Ok(Some(found)) } else { Err(refused(path)) }
}

/// In version 2, a controller needs to be enabled in all cgroups above. It stays enabled: other programs may rely on
/// it.
fn enable_controller(hierarchy: &Hierarchy, parent: &Path) -> Result<(), Error> {
    let name = hierarchy.controller.v2_name();
    let mut above: Vec<&Path> = hierarchy.lineage(parent).collect();
    above.reverse();
    for switch in above.into_iter().map(|one| one.join("cgroup.subtree_control")) {
        if hierarchy.version == CgroupVersion::V2 && !has_word(&switch, name) {
            fs::write(&switch, format!("+{name}"))
                .map_err(|error| Error::cgroup("enable the controller in", &switch, error))?;
        }
    }
    Ok(())
}

fn place_for(hierarchy: &Hierarchy, pid: u32) -> Result<(PathBuf, PathBuf), Error> {
    let home = hierarchy.directory_of(pid)?;
    let parent = match (hierarchy.version, home.parent()) {
        (CgroupVersion::V2, Some(above)) if home != hierarchy.mount_point => above.to_owned(),
        _ => home.clone(),
    };
    Ok((parent, home))
}

fn sweep(parent: &Path, home: &Path, namespace: u64) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        let maker = entry.file_name().to_str().and_then(Maker::from_name);
        if maker.is_some_and(|maker| maker.namespace == namespace && !maker.is_alive()) {
            let _ = empty_and_remove(&entry.path(), home, |_| None);
        }
    }
}

/// Retries, as new processes may appear.
fn empty_and_remove(directory: &Path, common: &Path, home_of: impl Fn(u32) -> Option<PathBuf>) -> Result<(), Error> {
    let parent = directory.parent().unwrap_or(directory);
    let namespace = process::read_pid_namespace().ok();
    for attempt in 1.. {
        if let Some(namespace) = namespace {
            sweep(directory, directory, namespace);
        }
        for pid in read_pids(directory)? {
            let home = home_of(pid).unwrap_or_else(|| common.to_owned());
            let _ = move_process(pid, &home).or_else(|_| move_process(pid, parent));
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

fn home_of(pid: u32, homes: &HashMap<u32, PathBuf>) -> Option<PathBuf> {
    let mut lineage = std::iter::successors(Some(pid), |pid| process::read_parent(*pid).ok());
    lineage.find_map(|ancestor| homes.get(&ancestor).cloned())
}

/// Creator of a cgroup. The start time detects a reused pid, the namespace a pid of another container.
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
        process::read_stage(self.pid, self.start_ticks) != Stage::Ended
    }
}

/// The kernel reclaims as many bytes as are written to this file (version 2, Linux 5.19).
const RECLAIM: &str = "memory.reclaim";
const STATISTICS: &str = "memory.stat";
const V1_WEIGHT: &str = "cpu.shares";
const V2_WEIGHT: &str = "cpu.weight";

/// CPU weight of all isolated processes together: that of one process in the server's cgroup (version 1), a fifth of
/// the server's cgroup (version 2).
const V1_PROCESSOR_SHARES: &str = "1024";
const V2_PROCESSOR_WEIGHT: &str = "20";

/// Limits some of a server's processes until dropped. Sets no memory limit: if pgthaw were killed, the limit would
/// stay, and the kernel would kill backends.
#[derive(Debug)]
pub struct Isolation {
    /// Cgroup of controller io; in version 2 also memory and cpu.
    io: OwnCgroup,
    /// Only in version 1.
    cpu: Option<OwnCgroup>,
    device: Option<DeviceNumber>,
    can_reclaim: bool,
}

/// Removes cgroups that killed pgthaw processes left beside the server's, even without a `LeftCgroup` record.
pub fn remove_left_near(server_pid: u32) {
    for controller in [Controller::Io, Controller::Cpu] {
        let _ = Hierarchy::find(controller).and_then(|hierarchy| OwnCgroup::sweep_for(&hierarchy, server_pid));
    }
}

impl Isolation {
    /// # Errors
    /// If this user may not create cgroups, or none are mounted.
    pub fn create(server_pid: u32, device: Option<DeviceNumber>) -> Result<Isolation, Error> {
        let io = OwnCgroup::create_for(Hierarchy::find(Controller::Io)?, server_pid)?;
        let mut isolation = Isolation { io, cpu: None, device, can_reclaim: false };
        if isolation.io.files.version == CgroupVersion::V2 {
            let memory = Hierarchy::find(Controller::Memory).ok().filter(|memory| memory.version == CgroupVersion::V2);
            isolation.can_reclaim = memory.is_some_and(|memory| isolation.io.hand_down(&memory).is_ok())
                && isolation.io.files.file(RECLAIM).exists();
            // Fails unless the controller is enabled; enabling it would affect all cgroups.
            let _ = isolation.io.files.write(V2_WEIGHT, V2_PROCESSOR_WEIGHT);
            return Ok(isolation);
        }
        let hierarchy = Hierarchy::find(Controller::Cpu).ok().filter(|found| found.version == CgroupVersion::V1);
        let cpu = hierarchy.and_then(|hierarchy| OwnCgroup::create_for(hierarchy, server_pid).ok());
        isolation.cpu = cpu.filter(|cpu| cpu.files.write(V1_WEIGHT, V1_PROCESSOR_SHARES).is_ok());
        Ok(isolation)
    }

    pub fn places(&self) -> Vec<LeftCgroup> {
        self.groups().map(OwnCgroup::place).collect()
    }

    fn groups(&self) -> impl Iterator<Item = &OwnCgroup> {
        [&self.io].into_iter().chain(&self.cpu)
    }

    /// Whether the cgroup has `memory.reclaim` (version 2 only).
    pub fn can_bound_cache(&self) -> bool {
        self.can_reclaim
    }

    pub fn join(&self, pid: u32) -> Result<(), Error> {
        self.groups().try_for_each(|group| group.join(pid))
    }

    pub fn leave(&self, pid: u32) {
        self.groups().for_each(|group| group.leave(pid));
    }

    /// Reclaims page cache beyond `most`, if possible. The cache grows again, so call this repeatedly.
    pub fn bound_cache(&self, most: Bytes) -> Result<(), Error> {
        let excess = self.read_cached()?.0.saturating_sub(most.0);
        if !self.can_reclaim || excess == 0 {
            return Ok(());
        }
        // swappiness=0 spares anonymous memory (Linux 6.10).
        let taken = match self.io.files.write(RECLAIM, &format!("{excess} swappiness=0")) {
            Err(Error::Cgroup { source, .. }) if source.raw_os_error() == Some(libc::EINVAL) => {
                self.io.files.write(RECLAIM, &excess.to_string())
            }
            taken => taken,
        };
        match taken {
            // The kernel reclaimed less than requested; the rest is in use.
            Err(Error::Cgroup { source, .. }) if matches!(source.raw_os_error(), Some(libc::EAGAIN | libc::EINTR)) => {
                Ok(())
            }
            taken => taken,
        }
    }

    pub fn limit_reads(&self, limit: ReadLimit) -> Result<(), Error> {
        let Some(device) = self.device else { return Ok(()) };
        self.io.files.limit(device, limit, WriteLimit::default())
    }

    pub fn read_usage(&self) -> Result<ReadUsage, Error> {
        let Some(device) = self.device else { return Ok(ReadUsage::default()) };
        self.io.files.read_usage(device)
    }

    pub fn read_home_usage(&self) -> Option<ReadUsage> {
        self.io.hierarchy.cgroup(&self.io.home).read_usage(self.device?).ok()
    }

    pub fn read_cached(&self) -> Result<Bytes, Error> {
        if !self.can_reclaim {
            return Ok(Bytes(0));
        }
        Ok(sum_statistics(&self.io.files.read(STATISTICS)?, "", &PAGE_CACHE))
    }

    pub fn remove(self) -> Result<(), Error> {
        let removed: Vec<_> = self.cpu.into_iter().chain([self.io]).map(OwnCgroup::remove).collect();
        removed.into_iter().collect()
    }
}

#[cfg(test)]
mod own_cgroup_tests {
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
        let Ok(root) = Path::new("/proc/self/root/sys/fs/cgroup").canonicalize() else { return };
        std::os::unix::fs::symlink(root, &gone).unwrap();
        assert!(left(&gone).remove().is_err());
    }
}

#[cfg(test)]
mod isolation_tests {
    use std::process::Command;

    use super::*;
    use crate::linux::block_device::read_block_device;

    #[test]
    fn only_page_cache_is_counted() {
        let text = "cache 900\nrss 7\nshmem 300\ninactive_file 400\nactive_file 200\ntotal_inactive_file 4000\n";
        assert_eq!(sum_statistics(text, "", &PAGE_CACHE), Bytes(600));
    }

    fn isolation() -> Option<Isolation> {
        let device = read_block_device(std::path::Path::new("/var/tmp")).ok().map(|device| device.number);
        Isolation::create(std::process::id(), device).ok()
    }

    #[test]
    fn who_is_within_goes_home() {
        let Some(isolation) = isolation() else { return };
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let hierarchy = Hierarchy::find(Controller::Io).unwrap();
        let place = || hierarchy.directory_of(child.id()).unwrap();
        let home = place();
        isolation.join(child.id()).unwrap();
        assert_ne!(place(), home);
        isolation.bound_cache(Bytes(16 << 20)).unwrap();
        isolation.leave(child.id());
        assert_eq!(place(), home);
        isolation.join(child.id()).unwrap();
        let places = isolation.places();
        assert!(places.iter().all(|place| place.remove().is_ok()), "of one who lives they stay");
        isolation.join(child.id()).unwrap();
        isolation.remove().unwrap();
        assert_eq!(place(), home);
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
