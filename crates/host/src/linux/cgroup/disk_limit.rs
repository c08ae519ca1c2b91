//! A slower disk for some processes: a cgroup with limited reads from devices.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use super::own_cgroup::OwnCgroup;
use super::{
    Cgroup, CgroupVersion, Controller, Hierarchy, PROCS_FILE, ReadLimit, ReadUsage, WriteLimit, limit_lines,
    read_limits,
};
use crate::linux::{DeviceNumber, Error};
use crate::units::Bytes;

/// The effective read limit of a process for `device`, from its cgroup and all above it.
pub fn read_limit_of(pid: u32, device: DeviceNumber) -> Result<ReadLimit, Error> {
    let hierarchy = Hierarchy::find(Controller::Io)?;
    let directory = hierarchy.directory_of(pid)?;
    // The root has no limit, and in version 2 not even the file.
    let limits = hierarchy
        .lineage(&directory)
        .filter_map(|group| read_limits(hierarchy.version, device, |file| fs::read_to_string(group.join(file))).ok());
    Ok(limits.fold(ReadLimit::default(), |all, (reads, _)| all.and(reads)))
}

/// A limit on the reads, and perhaps the writes, of the processes that join it, until this is dropped.
#[derive(Debug)]
pub struct DiskLimit {
    group: Group,
    /// The cgroup of the memory limit, in version 1 of another tree.
    memory: Option<OwnCgroup>,
    device: LimitedDevice,
    others: Vec<LimitedDevice>,
}

#[derive(Debug)]
struct LimitedDevice {
    number: DeviceNumber,
    reads: ReadLimit,
    writes: WriteLimit,
    /// Version 1: the limit is on the whole device.
    _whole: Option<WholeDevice>,
}

#[derive(Debug)]
enum Group {
    Own(OwnCgroup),
    Whole(WholeDevice),
}

impl DiskLimit {
    /// Can a limit be made here? Tried by creating and removing a cgroup.
    pub fn available() -> Result<CgroupVersion, Error> {
        let cgroup = OwnCgroup::create(Hierarchy::find(Controller::Io)?)?;
        let version = cgroup.files.version;
        cgroup.remove()?;
        Ok(version)
    }

    /// Can writes be limited, on an own device (`is_own`) or any?
    pub fn writes_available(is_own: bool) -> Result<(), Error> {
        if is_own || DiskLimit::available()? == CgroupVersion::V2 {
            return DiskLimit::available().map(drop);
        }
        Err(Error::Unavailable {
            what: "limiting writes",
            reason: "with cgroups of version 1 the kernel writes journals and dirty pages past the limit".into(),
            remedy: "measure on a file system of the study's own, which is limited as a whole: points.file_system"
                .into(),
        })
    }

    /// Limits the reads from `device`, a whole disk (a partition has no limit of its own), for those who join.
    ///
    /// # Errors
    /// When the kernel took another limit.
    pub fn create(device: DeviceNumber, asked: ReadLimit) -> Result<DiskLimit, Error> {
        let cgroup = OwnCgroup::create(Hierarchy::find(Controller::Io)?)?;
        DiskLimit::in_group(Group::Own(cgroup), device, asked)
    }

    /// Limits a device that nobody else uses, such as a loop device: in version 1 the device itself, whoever reads or
    /// writes; in version 2 as [`DiskLimit::create`], because write-back is charged to the writer's cgroup.
    pub fn create_for_own(device: DeviceNumber, asked: ReadLimit) -> Result<DiskLimit, Error> {
        let hierarchy = Hierarchy::find(Controller::Io)?;
        match hierarchy.version {
            CgroupVersion::V1 => {
                DiskLimit::in_group(Group::Whole(WholeDevice::create(hierarchy, device)?), device, asked)
            }
            CgroupVersion::V2 => DiskLimit::create(device, asked),
        }
    }

    fn in_group(group: Group, number: DeviceNumber, reads: ReadLimit) -> Result<DiskLimit, Error> {
        let device = LimitedDevice { number, reads, writes: WriteLimit::default(), _whole: None };
        let limit = DiskLimit { group, memory: None, device, others: Vec::new() };
        limit.enforce()?;
        Ok(limit)
    }

    /// Whoever joins may write so much too; [`DiskLimit::writes_available`] says where that holds.
    pub fn with_writes(mut self, asked: WriteLimit) -> Result<DiskLimit, Error> {
        self.charge_writes()?;
        self.device.writes = asked;
        self.enforce()?;
        Ok(self)
    }

    /// Limits another own device, after [`DiskLimit::create_for_own`].
    pub fn with_own(mut self, device: DeviceNumber, reads: ReadLimit, writes: WriteLimit) -> Result<DiskLimit, Error> {
        self.charge_writes()?;
        let _whole = match self.group {
            Group::Whole(_) => Some(WholeDevice::create(Hierarchy::find(Controller::Io)?, device)?),
            Group::Own(_) => None,
        };
        self.others.push(LimitedDevice { number: device, reads, writes, _whole });
        self.enforce()?;
        Ok(self)
    }

    /// Dirty pages are charged to a cgroup where both controllers are.
    fn charge_writes(&self) -> Result<(), Error> {
        match &self.group {
            Group::Own(cgroup) if self.version() == CgroupVersion::V2 => {
                cgroup.hand_down(&Hierarchy::find(Controller::Memory)?)
            }
            _ => Ok(()),
        }
    }

    fn devices(&self) -> impl Iterator<Item = &LimitedDevice> {
        [&self.device].into_iter().chain(&self.others)
    }

    /// Enforces the limit again.
    ///
    /// # Errors
    /// When the kernel took another limit.
    pub fn enforce(&self) -> Result<(), Error> {
        let files = self.group.files();
        for LimitedDevice { number, reads, writes, .. } in self.devices() {
            files.write_all(limit_lines(files.version, *number, *reads, *writes))?;
            let in_force = read_limits(files.version, *number, |file| files.read(file))?;
            if in_force != (*reads, *writes) {
                let asked = (reads, writes);
                return Err(Error::Unavailable {
                    what: "this disk limit",
                    reason: format!("asked for {asked:?} on device {number}, the kernel has {in_force:?}"),
                    remedy: "ask for whole numbers above 0, operations per second below 2³²".into(),
                });
            }
        }
        Ok(())
    }

    /// Suspends the limit until [`DiskLimit::enforce`].
    pub fn lift(&self) -> Result<(), Error> {
        self.devices().try_for_each(|device| self.group.files().lift_limits(device.number))
    }

    /// Also limits the memory of those who join, page cache included.
    pub fn with_memory(mut self, limit: Bytes) -> Result<DiskLimit, Error> {
        let hierarchy = Hierarchy::find(Controller::Memory)?;
        match (&self.group, hierarchy.version) {
            (Group::Own(cgroup), CgroupVersion::V2) if self.version() == CgroupVersion::V2 => {
                cgroup.hand_down(&hierarchy)?;
                cgroup.files.write("memory.max", &limit.0.to_string())?;
            }
            (_, version) => {
                let own = OwnCgroup::create(hierarchy)?;
                let file = if version == CgroupVersion::V1 { "memory.limit_in_bytes" } else { "memory.max" };
                own.files.write(file, &limit.0.to_string())?;
                self.memory = Some(own);
            }
        }
        Ok(self)
    }

    pub fn version(&self) -> CgroupVersion {
        self.group.files().version
    }

    /// Limits a process, its threads and its future children. Present children are not limited.
    pub fn join(&self, pid: u32) -> Result<(), Error> {
        self.memory.iter().try_for_each(|memory| memory.join(pid))?;
        match &self.group {
            Group::Own(cgroup) => cgroup.join(pid),
            Group::Whole(whole) => whole.files.join(pid),
        }
    }

    /// Lets a command's process join before it runs its program: nothing is read outside of the limit, whatever user it
    /// runs as.
    pub fn limit_command(&self, command: &mut Command) -> Result<(), Error> {
        let memory = self.memory.as_ref().map(|cgroup| cgroup.files.file(PROCS_FILE));
        for path in [self.procs_file()].into_iter().chain(memory) {
            let procs = File::options().write(true).open(&path).map_err(|error| Error::cgroup("open", &path, error))?;
            let join = move || (&procs).write_all(b"0");
            // SAFETY: between fork and exec the closure calls nothing but write(2), which is async-signal-safe, and allocates
            // nothing, failed or not.
            unsafe { command.pre_exec(join) };
        }
        Ok(())
    }

    /// A process that writes `0` here, before exec, joins the limit.
    pub fn procs_file(&self) -> PathBuf {
        self.group.files().file(PROCS_FILE)
    }

    /// What all that joined have read from the first device so far.
    pub fn read_usage(&self) -> Result<ReadUsage, Error> {
        match &self.group {
            Group::Own(cgroup) => cgroup.files.read_usage(self.device.number),
            Group::Whole(whole) => whole.read_usage(),
        }
    }

    /// Ends the limit and reports errors; dropping ignores them.
    pub fn remove(self) -> Result<(), Error> {
        self.memory.map_or(Ok(()), OwnCgroup::remove)?;
        match self.group {
            Group::Own(cgroup) => cgroup.remove(),
            Group::Whole(whole) => whole.files.lift_limits(whole.device),
        }
    }
}

impl Group {
    fn files(&self) -> &Cgroup {
        match self {
            Group::Own(cgroup) => &cgroup.files,
            Group::Whole(whole) => &whole.files,
        }
    }
}

// ---- whole device ----
//
// A limit on a whole device that nobody else uses. In version 1 a cgroup's limit does not cover what the kernel writes
// on its behalf (journal, write-back): that happens in the root cgroup, which can be limited too.

/// Ends limits that a killed run left on an own device.
pub fn clear_limits_on_own(device: DeviceNumber) -> Result<(), Error> {
    let hierarchy = Hierarchy::find(Controller::Io)?;
    match hierarchy.version {
        CgroupVersion::V1 => WholeDevice::create(hierarchy, device).map(drop),
        // In version 2 the next cgroup sweeps the old one away.
        CgroupVersion::V2 => Ok(()),
    }
}

/// The root cgroup with limits on one device, until this is dropped.
#[derive(Debug)]
struct WholeDevice {
    files: Cgroup,
    device: DeviceNumber,
    /// What was read before: the root counts from when the device was made.
    before: ReadUsage,
}

impl WholeDevice {
    /// Begins without a limit, whatever was left there.
    fn create(hierarchy: Hierarchy, device: DeviceNumber) -> Result<WholeDevice, Error> {
        let files = Cgroup { version: hierarchy.version, directory: hierarchy.mount_point };
        files.lift_limits(device)?;
        Ok(WholeDevice { before: files.read_usage(device)?, files, device })
    }

    fn read_usage(&self) -> Result<ReadUsage, Error> {
        let usage = self.files.read_usage(self.device)?;
        Ok(ReadUsage {
            reads: usage.reads.saturating_sub(self.before.reads),
            read_bytes: Bytes(usage.read_bytes.0.saturating_sub(self.before.read_bytes.0)),
        })
    }
}

impl Drop for WholeDevice {
    fn drop(&mut self) {
        // Nobody else uses the device; there is nobody left to tell.
        let _ = self.files.lift_limits(self.device);
    }
}
