//! A slower disk for some processes: a cgroup whose reads from a device, or from several, are limited.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use super::hierarchy::{CgroupVersion, Controller, Hierarchy};
use super::own_cgroup::{OwnCgroup, PROCS_FILE};
use super::throttle::{self, ReadLimit, ReadUsage, WriteLimit};
use super::whole_device::WholeDevice;
use crate::linux::{DeviceNumber, Error};
use crate::units::Bytes;

/// The limit on the reads of a process from `device`: of its own cgroup and of those above it, which all hold.
pub fn read_limit_of(pid: u32, device: DeviceNumber) -> Result<ReadLimit, Error> {
    let hierarchy = Hierarchy::find(Controller::Io)?;
    let directory = hierarchy.directory_of(pid)?;
    let groups = directory.ancestors().take_while(|group| group.starts_with(&hierarchy.mount_point));
    // The root has no limit, and in version 2 not even the file.
    let limits = groups.filter_map(|group| {
        throttle::read_limit(hierarchy.version, device, |file| fs::read_to_string(group.join(file))).ok()
    });
    Ok(limits.fold(ReadLimit::default(), ReadLimit::and))
}

/// A limit on the reads, and perhaps the writes, of the processes that join it, in force until this is dropped.
#[derive(Debug)]
pub struct DiskLimit {
    group: Group,
    /// The cgroup that limits memory: in version 1 it is one of another tree.
    memory: Option<OwnCgroup>,
    device: DeviceNumber,
    reads: ReadLimit,
    writes: WriteLimit,
    others: Vec<OtherDevice>,
}

/// A device beside the first one, for those who join too.
#[derive(Debug)]
struct OtherDevice {
    device: DeviceNumber,
    reads: ReadLimit,
    writes: WriteLimit,
    /// In version 1, where the limit is the device's own.
    _whole: Option<WholeDevice>,
}

/// Where the limit stands.
#[derive(Debug)]
enum Group {
    Own(OwnCgroup),
    Whole(WholeDevice),
}

impl DiskLimit {
    /// Can a limit be made here? Tried, not deduced: makes a cgroup and removes it. The error says why not and what
    /// mends it.
    pub fn available() -> Result<CgroupVersion, Error> {
        let cgroup = OwnCgroup::create(Hierarchy::find(Controller::Io)?)?;
        let version = cgroup.version();
        cgroup.remove()?;
        Ok(version)
    }

    /// Can writes be limited, on a device that nobody else uses (`is_own`) or on any?
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

    /// Limits the reads from `device`, a whole disk: a partition has no limit of its own. Nobody is limited until
    /// someone joins. Fails when the kernel took another limit than the one asked for.
    pub fn create(device: DeviceNumber, asked: ReadLimit) -> Result<DiskLimit, Error> {
        let cgroup = OwnCgroup::create(Hierarchy::find(Controller::Io)?)?;
        DiskLimit::in_group(Group::Own(cgroup), device, asked)
    }

    /// Limits a device that nobody else uses, such as a loop device. In version 1 that is a limit on the device itself,
    /// whoever reads or writes; in version 2, where what is written back is charged to whom it is for, as
    /// [`DiskLimit::create`].
    pub fn create_for_own(device: DeviceNumber, asked: ReadLimit) -> Result<DiskLimit, Error> {
        let hierarchy = Hierarchy::find(Controller::Io)?;
        match hierarchy.version {
            CgroupVersion::V1 => {
                DiskLimit::in_group(Group::Whole(WholeDevice::create(hierarchy, device)?), device, asked)
            }
            CgroupVersion::V2 => DiskLimit::create(device, asked),
        }
    }

    fn in_group(group: Group, device: DeviceNumber, reads: ReadLimit) -> Result<DiskLimit, Error> {
        let limit = DiskLimit { group, memory: None, device, reads, writes: WriteLimit::default(), others: Vec::new() };
        limit.enforce()?;
        Ok(limit)
    }

    /// Whoever joins may write so much too; [`DiskLimit::writes_available`] says where that holds.
    pub fn with_writes(mut self, asked: WriteLimit) -> Result<DiskLimit, Error> {
        self.charge_writes()?;
        self.writes = asked;
        self.enforce()?;
        Ok(self)
    }

    /// Limits another device too, one that nobody else uses, as the first of a limit by [`DiskLimit::create_for_own`].
    pub fn with_own(mut self, device: DeviceNumber, reads: ReadLimit, writes: WriteLimit) -> Result<DiskLimit, Error> {
        self.charge_writes()?;
        let _whole = match self.group {
            Group::Whole(_) => Some(WholeDevice::create(Hierarchy::find(Controller::Io)?, device)?),
            Group::Own(_) => None,
        };
        self.others.push(OtherDevice { device, reads, writes, _whole });
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

    /// Puts the limit in force again, as it is from the beginning. Fails when the kernel took another than the one that was
    /// asked for.
    pub fn enforce(&self) -> Result<(), Error> {
        self.enforce_on(self.device, self.reads, self.writes)?;
        self.others.iter().try_for_each(|other| self.enforce_on(other.device, other.reads, other.writes))
    }

    fn enforce_on(&self, device: DeviceNumber, reads: ReadLimit, writes: WriteLimit) -> Result<(), Error> {
        let version = self.version();
        self.write_all(throttle::limit_lines(version, device, reads))?;
        self.write_all(throttle::write_limit_lines(version, device, writes))?;
        let read = |file| self.group.read(file);
        let in_force =
            (throttle::read_limit(version, device, read)?, throttle::read_write_limit(version, device, read)?);
        if in_force != (reads, writes) {
            let asked = (reads, writes);
            return Err(other_limit(format!("asked for {asked:?} on device {device}, the kernel has {in_force:?}")));
        }
        Ok(())
    }

    /// Lets those who joined read and write as fast as the device can, until [`DiskLimit::enforce`].
    pub fn lift(&self) -> Result<(), Error> {
        let devices = [self.device].into_iter().chain(self.others.iter().map(|other| other.device));
        devices.into_iter().try_for_each(|device| self.write_all(throttle::lines_without_limit(self.version(), device)))
    }

    fn write_all(&self, lines: Vec<(&'static str, String)>) -> Result<(), Error> {
        lines.iter().try_for_each(|(file, line)| self.group.write(file, line))
    }

    /// Whoever joins may use so much memory too, page cache and shared memory included.
    pub fn with_memory(mut self, limit: Bytes) -> Result<DiskLimit, Error> {
        let hierarchy = Hierarchy::find(Controller::Memory)?;
        match (&self.group, hierarchy.version) {
            (Group::Own(cgroup), CgroupVersion::V2) if cgroup.version() == CgroupVersion::V2 => {
                cgroup.hand_down(&hierarchy)?;
                cgroup.write("memory.max", &limit.0.to_string())?;
            }
            (_, version) => {
                let own = OwnCgroup::create(hierarchy)?;
                let file = if version == CgroupVersion::V1 { "memory.limit_in_bytes" } else { "memory.max" };
                own.write(file, &limit.0.to_string())?;
                self.memory = Some(own);
            }
        }
        Ok(self)
    }

    pub fn version(&self) -> CgroupVersion {
        self.group.version()
    }

    /// Limits a process, with all of its threads and the children that it starts from now on; children that it has
    /// already are not limited.
    pub fn join(&self, pid: u32) -> Result<(), Error> {
        self.memory.iter().try_for_each(|memory| memory.join(pid))?;
        match &self.group {
            Group::Own(cgroup) => cgroup.join(pid),
            Group::Whole(whole) => whole.join(pid),
        }
    }

    /// Makes a command start limited: its process joins before it runs the program, so that not a byte is read outside
    /// of the limit, and whoever it runs as.
    pub fn limit_command(&self, command: &mut Command) -> Result<(), Error> {
        let memory = self.memory.as_ref().map(|cgroup| cgroup.file(PROCS_FILE));
        for path in [self.procs_file()].into_iter().chain(memory) {
            let procs = File::options().write(true).open(&path).map_err(|error| Error::cgroup("open", &path, error))?;
            let join = move || (&procs).write_all(b"0");
            // SAFETY: between fork and exec the closure calls nothing but write(2), which is async-signal-safe, and allocates
            // nothing, failed or not.
            unsafe { command.pre_exec(join) };
        }
        Ok(())
    }

    /// The file to which a process that is about to run a program writes `0` to be limited itself.
    pub fn procs_file(&self) -> PathBuf {
        match &self.group {
            Group::Own(cgroup) => cgroup.file(PROCS_FILE),
            Group::Whole(whole) => whole.file(PROCS_FILE),
        }
    }

    /// What all that joined have read from the first device so far.
    pub fn read_usage(&self) -> Result<ReadUsage, Error> {
        match &self.group {
            Group::Own(cgroup) => throttle::read_usage(cgroup.version(), self.device, |file| cgroup.read(file)),
            Group::Whole(whole) => whole.read_usage(),
        }
    }

    /// Ends the limit and says whether that worked. Dropping ends it too, and keeps quiet.
    pub fn remove(self) -> Result<(), Error> {
        self.memory.map_or(Ok(()), OwnCgroup::remove)?;
        match self.group {
            Group::Own(cgroup) => cgroup.remove(),
            Group::Whole(whole) => whole.clear(),
        }
    }
}

impl Group {
    fn version(&self) -> CgroupVersion {
        match self {
            Group::Own(cgroup) => cgroup.version(),
            Group::Whole(_) => CgroupVersion::V1,
        }
    }

    fn read(&self, file: &str) -> Result<String, Error> {
        match self {
            Group::Own(cgroup) => cgroup.read(file),
            Group::Whole(whole) => whole.read(file),
        }
    }

    fn write(&self, file: &str, text: &str) -> Result<(), Error> {
        match self {
            Group::Own(cgroup) => cgroup.write(file, text),
            Group::Whole(whole) => whole.write(file, text),
        }
    }
}

fn other_limit(reason: String) -> Error {
    let remedy = "ask for whole numbers above 0, operations per second below 2³²".into();
    Error::Unavailable { what: "this disk limit", reason, remedy }
}
