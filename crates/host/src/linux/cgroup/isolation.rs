//! Some processes of a server set apart from its others: they read of the device what they are given, and what they read of files
//! takes a bounded part of the page cache where the kernel can take it back without a limit.

use std::fs;

use super::hierarchy::{CgroupVersion, Controller, Hierarchy};
use super::own_cgroup::{LeftCgroup, OwnCgroup};
use super::throttle::{self, ReadLimit, ReadUsage};
use crate::linux::{DeviceNumber, Error};
use crate::units::Bytes;

/// Version 2, Linux 5.19 and later: takes back as much as is written here, and keeps nothing of it.
const RECLAIM: &str = "memory.reclaim";
const STATISTICS: &str = "memory.stat";
const V1_WEIGHT: &str = "cpu.shares";
const V2_WEIGHT: &str = "cpu.weight";

/// All of them together weigh as one process of the server, where others wait for the processors; in version 2, where the server as a
/// whole weighs 100, as a fifth of it.
const V1_PROCESSOR_SHARES: &str = "1024";
const V2_PROCESSOR_WEIGHT: &str = "20";

/// Cgroups of one's own, near those of a server, until this is dropped: then who is in them goes back to where he came from.
///
/// No limit on memory is ever set: a backend's own memory, and the shared buffers that it was the first to touch, cannot be taken back.
/// Where they reach a limit that a killed pgthaw left, the kernel ends a backend, and with it the whole server.
#[derive(Debug)]
pub struct Isolation {
    /// That of the device; in version 2 of memory and the processors too.
    io: OwnCgroup,
    /// That of the processors in version 1, where there is one.
    cpu: Option<OwnCgroup>,
    device: Option<DeviceNumber>,
    can_reclaim: bool,
}

/// Removes those near a server whose makers were killed, whether or not they were written down.
pub fn remove_left_near(server_pid: u32) {
    for controller in [Controller::Io, Controller::Cpu] {
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
        let io = OwnCgroup::create_for(Hierarchy::find(Controller::Io)?, server_pid)?;
        let mut isolation = Isolation { io, cpu: None, device, can_reclaim: false };
        if isolation.io.version() == CgroupVersion::V2 {
            let memory = Hierarchy::find(Controller::Memory).ok().filter(|memory| memory.version == CgroupVersion::V2);
            isolation.can_reclaim = memory.is_some_and(|memory| isolation.io.hand_down(&memory).is_ok())
                && isolation.io.file(RECLAIM).exists();
            // Only where the processors are shared out among the cgroups here already: to begin with that would change it for all.
            let _ = isolation.io.write(V2_WEIGHT, V2_PROCESSOR_WEIGHT);
            return Ok(isolation);
        }
        let hierarchy = Hierarchy::find(Controller::Cpu).ok().filter(|found| found.version == CgroupVersion::V1);
        let cpu = hierarchy.and_then(|hierarchy| OwnCgroup::create_for(hierarchy, server_pid).ok());
        isolation.cpu = cpu.filter(|cpu| cpu.write(V1_WEIGHT, V1_PROCESSOR_SHARES).is_ok());
        Ok(isolation)
    }

    /// Where they are, for whoever clears up if this process is killed.
    pub fn places(&self) -> Vec<LeftCgroup> {
        self.groups().map(OwnCgroup::place).collect()
    }

    fn groups(&self) -> impl Iterator<Item = &OwnCgroup> {
        [&self.io].into_iter().chain(&self.cpu)
    }

    /// Is the page cache of those who are in charged here, and can the kernel take it back without a limit? Never in version 1.
    pub fn can_bound_cache(&self) -> bool {
        self.can_reclaim
    }

    /// Moves a process in, with all of its threads.
    pub fn join(&self, pid: u32) -> Result<(), Error> {
        self.groups().try_for_each(|group| group.join(pid))
    }

    /// Sends a process back to where it came from.
    pub fn leave(&self, pid: u32) {
        self.groups().for_each(|group| group.leave(pid));
    }

    /// Has the kernel take back what of the page cache charged here is beyond `most`; to be called again and again. Does nothing where
    /// that is not possible.
    pub fn bound_cache(&self, most: Bytes) -> Result<(), Error> {
        let excess = self.read_cached()?.0.saturating_sub(most.0);
        if !self.can_reclaim || excess == 0 {
            return Ok(());
        }
        // From Linux 6.10 on memory of processes can be left where it is.
        let taken = match self.io.write(RECLAIM, &format!("{excess} swappiness=0")) {
            Err(Error::Cgroup { source, .. }) if source.raw_os_error() == Some(libc::EINVAL) => {
                self.io.write(RECLAIM, &excess.to_string())
            }
            taken => taken,
        };
        match taken {
            // Somebody uses what is left, or it is being written.
            Err(Error::Cgroup { source, .. }) if matches!(source.raw_os_error(), Some(libc::EAGAIN | libc::EINTR)) => {
                Ok(())
            }
            taken => taken,
        }
    }

    /// Lets those who are in read so much of the device and no more.
    pub fn limit_reads(&self, limit: ReadLimit) -> Result<(), Error> {
        let Some(device) = self.device else { return Ok(()) };
        let group = &self.io;
        let lines = match limit == ReadLimit::default() {
            true => throttle::lines_without_limit(group.version(), device),
            false => throttle::limit_lines(group.version(), device, limit),
        };
        lines.iter().try_for_each(|(file, line)| group.write(file, line))
    }

    /// What those who are in have read of the device so far.
    pub fn read_usage(&self) -> Result<ReadUsage, Error> {
        let Some(device) = self.device else { return Ok(ReadUsage::default()) };
        let group = &self.io;
        throttle::read_usage(group.version(), device, |file| group.read(file))
    }

    /// What those who stayed where the others come from have read of the device so far; `None` where that is not told.
    pub fn read_home_usage(&self) -> Option<ReadUsage> {
        let group = &self.io;
        let home = group.home();
        throttle::read_usage(group.version(), self.device?, |file| fs::read_to_string(home.join(file))).ok()
    }

    /// The page cache that is charged here; none where that is not counted apart.
    pub fn read_cached(&self) -> Result<Bytes, Error> {
        if !self.can_reclaim {
            return Ok(Bytes(0));
        }
        Ok(Bytes(cached_bytes(&self.io.read(STATISTICS)?)))
    }

    /// Sends everybody back and removes the cgroups, and says whether that worked.
    pub fn remove(self) -> Result<(), Error> {
        let removed: Vec<_> = self.cpu.into_iter().chain([self.io]).map(OwnCgroup::remove).collect();
        removed.into_iter().collect()
    }
}

/// The page cache that is charged to a cgroup, shared memory left out, by its `memory.stat`.
fn cached_bytes(statistics: &str) -> u64 {
    let value = |line: &str| line.split_once(' ')?.1.trim().parse::<u64>().ok();
    let is_file = |line: &&str| ["inactive_file ", "active_file "].iter().any(|word| line.starts_with(word));
    statistics.lines().filter(is_file).filter_map(value).sum()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::linux::block_device::read_block_device;

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
