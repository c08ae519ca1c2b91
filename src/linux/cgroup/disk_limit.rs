//! A slower disk for some processes: a cgroup whose reads from one device are limited.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use super::hierarchy::{CgroupVersion, Controller, Hierarchy};
use super::own_cgroup::OwnCgroup;
use super::throttle::{self, ReadLimit, ReadUsage};
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

/// A limit on the reads of the processes that join it, in force until this is dropped.
#[derive(Debug)]
pub struct DiskLimit {
    cgroup: OwnCgroup,
    /// In version 1 a limit on memory is a cgroup of another tree.
    memory: Option<OwnCgroup>,
    device: DeviceNumber,
    in_force: ReadLimit,
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

    /// Limits the reads from `device`, a whole disk: a partition has no limit of its own. Nobody is limited until
    /// someone joins. Fails when the kernel took another limit than the one asked for.
    pub fn create(device: DeviceNumber, asked: ReadLimit) -> Result<DiskLimit, Error> {
        let cgroup = OwnCgroup::create(Hierarchy::find(Controller::Io)?)?;
        for (file, line) in throttle::limit_lines(cgroup.version(), device, asked) {
            cgroup.write(file, &line)?;
        }
        let in_force = throttle::read_limit(cgroup.version(), device, |file| cgroup.read(file))?;
        if in_force != asked {
            return Err(Error::Unavailable {
                what: "this disk limit",
                reason: format!("asked for {asked:?} on device {device}, the kernel has {in_force:?}"),
                remedy: "ask for whole numbers above 0, reads per second below 2³²".into(),
            });
        }
        Ok(DiskLimit { cgroup, memory: None, device, in_force })
    }

    /// Whoever joins may use so much memory too, page cache and shared memory included.
    pub fn with_memory(mut self, limit: Bytes) -> Result<DiskLimit, Error> {
        let hierarchy = Hierarchy::find(Controller::Memory)?;
        match (self.cgroup.version(), hierarchy.version) {
            (CgroupVersion::V2, CgroupVersion::V2) => {
                self.cgroup.hand_down(&hierarchy)?;
                self.cgroup.write("memory.max", &limit.0.to_string())?;
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

    /// The limit as the kernel reads it back.
    pub fn in_force(&self) -> ReadLimit {
        self.in_force
    }

    pub fn version(&self) -> CgroupVersion {
        self.cgroup.version()
    }

    /// Limits a process, with all of its threads and the children that it starts from now on; children that it has
    /// already are not limited.
    pub fn join(&self, pid: u32) -> Result<(), Error> {
        self.memory.iter().try_for_each(|memory| memory.join(pid))?;
        self.cgroup.join(pid)
    }

    /// Makes a command start limited: its process joins before it runs the program, so that not a byte is read outside
    /// of the limit, and whoever it runs as.
    pub fn limit_command(&self, command: &mut Command) -> Result<(), Error> {
        for cgroup in [Some(&self.cgroup), self.memory.as_ref()].into_iter().flatten() {
            let path = cgroup.file("cgroup.procs");
            let procs = File::options().write(true).open(&path).map_err(|error| Error::cgroup("open", &path, error))?;
            let join = move || (&procs).write_all(b"0");
            // SAFETY: between fork and exec the closure makes one write(2), which is async-signal-safe, and allocates
            // nothing.
            unsafe { command.pre_exec(join) };
        }
        Ok(())
    }

    /// The file to which a process that is about to run a program writes `0` to be limited itself.
    pub fn procs_file(&self) -> PathBuf {
        self.cgroup.file("cgroup.procs")
    }

    /// What all that joined have read from the device so far.
    pub fn read_usage(&self) -> Result<ReadUsage, Error> {
        throttle::read_usage(self.cgroup.version(), self.device, |file| self.cgroup.read(file))
    }

    /// Ends the limit and says whether that worked. Dropping ends it too, and keeps quiet.
    pub fn remove(self) -> Result<(), Error> {
        self.memory.map_or(Ok(()), OwnCgroup::remove)?;
        self.cgroup.remove()
    }
}
