//! Some processes of a server set apart from its others: what they read of files takes a bounded part of the page cache, and of the
//! device what they are given.

use std::{fs, io};

use super::hierarchy::{CgroupVersion, Controller, Hierarchy};
use super::own_cgroup::{LeftCgroup, OwnCgroup};
use super::throttle::{self, ReadLimit, ReadUsage};
use crate::linux::{DeviceNumber, Error};
use crate::units::Bytes;

const V1_USED: &str = "memory.usage_in_bytes";
const V1_LIMIT: &str = "memory.limit_in_bytes";
const V2_USED: &str = "memory.current";
const V2_SOFT_LIMIT: &str = "memory.high";
const STATISTICS: &str = "memory.stat";
const V1_WEIGHT: &str = "cpu.shares";
const V2_WEIGHT: &str = "cpu.weight";

/// All of them together weigh as one process of the server, where others wait for the processors; in version 2, where the server as a
/// whole weighs 100, as a fifth of it.
const V1_PROCESSOR_SHARES: &str = "1024";
const V2_PROCESSOR_WEIGHT: &str = "20";

/// Cgroups of one's own, near those of a server, until this is dropped: then who is in them goes back to where he came from.
#[derive(Debug)]
pub struct Isolation {
    /// In version 2 it has both controllers.
    memory: OwnCgroup,
    /// That of the device in version 1.
    io: Option<OwnCgroup>,
    /// That of the processors in version 1, where there is one.
    cpu: Option<OwnCgroup>,
    device: Option<DeviceNumber>,
}

/// Removes those near a server whose makers were killed, whether or not they were written down.
pub fn remove_left_near(server_pid: u32) {
    for controller in [Controller::Memory, Controller::Io, Controller::Cpu] {
        // Who may not make any has left none.
        let _ = Hierarchy::find(controller).and_then(|hierarchy| OwnCgroup::sweep_for(&hierarchy, server_pid));
    }
}

impl Isolation {
    /// Makes them for processes of the server that runs as `server_pid`; `device` is what it lies on. Nobody is in them yet.
    ///
    /// # Errors
    /// When this user may not make cgroups, or there are none.
    pub fn create(server_pid: u32, device: Option<DeviceNumber>) -> Result<Isolation, Error> {
        let memory = OwnCgroup::create_for(Hierarchy::find(Controller::Memory)?, server_pid)?;
        let mut isolation = Isolation { memory, io: None, cpu: None, device: None };
        isolation.weigh(server_pid);
        if let Some(device) = device {
            let hierarchy = Hierarchy::find(Controller::Io)?;
            match (isolation.memory.version(), hierarchy.version) {
                (CgroupVersion::V2, CgroupVersion::V2) => isolation.memory.hand_down(&hierarchy)?,
                _ => isolation.io = Some(OwnCgroup::create_for(hierarchy, server_pid)?),
            }
            isolation.device = Some(device);
        }
        Ok(isolation)
    }

    /// Sees to it that they do not take the processors from the others either. Where that is not to be had they are as they would be.
    fn weigh(&mut self, server_pid: u32) {
        if self.memory.version() == CgroupVersion::V2 {
            // Only where the processors are shared out among the cgroups here already: to begin with that would change it for all.
            let _ = self.memory.write(V2_WEIGHT, V2_PROCESSOR_WEIGHT);
            return;
        }
        let hierarchy = Hierarchy::find(Controller::Cpu).ok().filter(|found| found.version == CgroupVersion::V1);
        let cpu = hierarchy.and_then(|hierarchy| OwnCgroup::create_for(hierarchy, server_pid).ok());
        self.cpu = cpu.filter(|cpu| cpu.write(V1_WEIGHT, V1_PROCESSOR_SHARES).is_ok());
    }

    /// Where they are, for whoever clears up if this process is killed.
    pub fn places(&self) -> Vec<LeftCgroup> {
        self.groups().map(OwnCgroup::place).collect()
    }

    fn groups(&self) -> impl Iterator<Item = &OwnCgroup> {
        [&self.memory].into_iter().chain(&self.io).chain(&self.cpu)
    }

    fn of_device(&self) -> &OwnCgroup {
        self.io.as_ref().unwrap_or(&self.memory)
    }

    /// Moves a process in, with all of its threads.
    pub fn join(&self, pid: u32) -> Result<(), Error> {
        self.groups().try_for_each(|group| group.join(pid))
    }

    /// Sends a process back to where it came from.
    pub fn leave(&self, pid: u32) {
        self.groups().for_each(|group| group.leave(pid));
    }

    /// Sees to it that the page cache charged here is no larger than that, as far as the kernel can take it back; to be called again
    /// and again. Version 2 holds the limit by itself until the next call.
    ///
    /// Nothing else is limited: a backend's own memory, and the shared buffers that it was the first to touch, cannot be taken back,
    /// and where a limit is reached that way the kernel ends a process, and with it the whole server.
    pub fn bound_cache(&self, most: Bytes) -> Result<Bytes, Error> {
        let version = self.memory.version();
        let used = self.memory.read(if version == CgroupVersion::V1 { V1_USED } else { V2_USED })?;
        let used: u64 = used.trim().parse().unwrap_or(0);
        let cached = cached_bytes(&self.memory.read(STATISTICS)?);
        match version {
            CgroupVersion::V2 => {
                let firm = used.saturating_sub(cached);
                self.memory.write(V2_SOFT_LIMIT, &firm.saturating_add(most.0).to_string())?;
            }
            CgroupVersion::V1 if cached > most.0 => {
                // Version 1 has no limit that only takes back. One that is set takes back before it holds, and is lifted at once: it
                // never stands in anybody's way who does not need all that is left of the cache in that moment.
                let target = used.saturating_sub(cached - most.0);
                let taken = self.memory.write(V1_LIMIT, &target.to_string());
                self.memory.write(V1_LIMIT, "-1")?;
                match taken {
                    Err(Error::Cgroup { source, .. }) if is_kept(&source) => {}
                    other => other?,
                }
            }
            CgroupVersion::V1 => {}
        }
        Ok(Bytes(cached))
    }

    /// Lets those who are in read so much of the device and no more.
    pub fn limit_reads(&self, limit: ReadLimit) -> Result<(), Error> {
        let Some(device) = self.device else { return Ok(()) };
        let group = self.of_device();
        let lines = match limit == ReadLimit::default() {
            true => throttle::lines_without_limit(group.version(), device),
            false => throttle::limit_lines(group.version(), device, limit),
        };
        lines.iter().try_for_each(|(file, line)| group.write(file, line))
    }

    /// What those who are in have read of the device so far.
    pub fn read_usage(&self) -> Result<ReadUsage, Error> {
        let Some(device) = self.device else { return Ok(ReadUsage::default()) };
        let group = self.of_device();
        throttle::read_usage(group.version(), device, |file| group.read(file))
    }

    /// What those who stayed where the others come from have read of the device so far; `None` where that is not told.
    pub fn read_home_usage(&self) -> Option<ReadUsage> {
        let group = self.of_device();
        let home = group.home();
        throttle::read_usage(group.version(), self.device?, |file| fs::read_to_string(home.join(file))).ok()
    }

    /// The page cache that is charged here.
    pub fn read_cached(&self) -> Result<Bytes, Error> {
        Ok(Bytes(cached_bytes(&self.memory.read(STATISTICS)?)))
    }

    /// Sends everybody back and removes the cgroups, and says whether that worked.
    pub fn remove(self) -> Result<(), Error> {
        let others = [self.io, self.cpu].into_iter().flatten();
        let removed: Vec<_> = others.chain([self.memory]).map(OwnCgroup::remove).collect();
        removed.into_iter().collect()
    }
}

/// What page cache cannot be taken back now is no failure: somebody uses it, or it is being written.
fn is_kept(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EBUSY | libc::EINTR))
}

/// The page cache that is charged to a cgroup, shared memory left out, by its `memory.stat`.
fn cached_bytes(statistics: &str) -> u64 {
    let value = |line: &str| line.split_once(' ')?.1.trim().parse::<u64>().ok();
    let is_file = |line: &&str| ["inactive_file ", "active_file "].iter().any(|word| line.starts_with(word));
    statistics.lines().filter(is_file).filter_map(value).sum()
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::io::Read as _;
    use std::process::{Command, Stdio};

    use super::*;
    use crate::linux::block_device::read_block_device;
    use crate::linux::cgroup::memory_directory_of;

    #[test]
    fn only_page_cache_is_counted() {
        let text = "cache 900\nrss 7\nshmem 300\ninactive_file 400\nactive_file 200\ntotal_inactive_file 4000\n";
        assert_eq!(cached_bytes(text), 600);
    }

    /// Needs root and cgroups: elsewhere there is nothing to see.
    fn isolation() -> Option<Isolation> {
        let device = read_block_device(std::path::Path::new("/var/tmp")).ok().map(|device| device.number);
        Isolation::create(std::process::id(), device).ok()
    }

    #[test]
    fn the_cache_of_those_within_is_bounded_and_they_go_home() {
        let Some(isolation) = isolation() else { return };
        let place = tempfile::tempdir_in("/var/tmp").unwrap();
        let path = place.path().join("file");
        fs::write(&path, vec![7; 64 << 20]).unwrap();
        let file = File::open(&path).unwrap();
        file.sync_all().unwrap();
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        let script = "read line; cat \"$1\" > /dev/null; echo done; read line";
        let mut command = Command::new("sh");
        command.args(["-c", script, "sh", path.to_str().unwrap()]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let home = memory_directory_of(child.id()).unwrap();
        isolation.join(child.id()).unwrap();
        assert_ne!(memory_directory_of(child.id()).unwrap(), home);
        let mut input = child.stdin.take().unwrap();
        std::io::Write::write_all(&mut input, b"go\n").unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0; 5]).unwrap();
        // Something else may have had a part of the file in memory.
        let before = isolation.bound_cache(Bytes(16 << 20)).unwrap();
        let after = isolation.bound_cache(Bytes(16 << 20)).unwrap();
        assert!(before.0 < 32 << 20 || after < before, "{before} were there, and {after} are");
        isolation.leave(child.id());
        assert_eq!(memory_directory_of(child.id()).unwrap(), home);
        isolation.join(child.id()).unwrap();
        let places = isolation.places();
        assert!(places.iter().all(|place| place.remove().is_ok()), "of one who lives they stay");
        isolation.join(child.id()).unwrap();
        isolation.remove().unwrap();
        assert_eq!(memory_directory_of(child.id()).unwrap(), home);
        drop(input);
        child.wait().unwrap();
    }
}
