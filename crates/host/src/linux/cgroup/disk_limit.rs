use std::fs::File;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use super::own_cgroup::OwnCgroup;
use super::{
    Cgroup, CgroupVersion, Controller, Hierarchy, LIMITS, PROCS_FILE, ReadLimit, ReadUsage, V2_LIMIT, WriteLimit,
    lineage_of,
};
use crate::linux::{DeviceNumber, Error};
use crate::units::Bytes;

/// Lowest read limit of the process's cgroup and its ancestors.
pub fn read_limit_of(pid: u32, device: DeviceNumber) -> Result<ReadLimit, Error> {
    // The root cgroup has no limit; in version 2 it has no limit file either.
    let limits = lineage_of(Controller::Io, pid)?.into_iter().filter_map(|group| group.read_limits(device).ok());
    Ok(limits.fold(ReadLimit::default(), |all, (reads, _)| all.and(reads)))
}

pub fn has_read_limit(pid: u32) -> bool {
    let has_limit = |group: &Cgroup| {
        let files = match group.version {
            CgroupVersion::V1 => LIMITS.map(|(file, _)| file).to_vec(),
            CgroupVersion::V2 => vec![V2_LIMIT],
        };
        files.iter().any(|file| group.read(file).is_ok_and(|limits| !limits.trim().is_empty()))
    };
    lineage_of(Controller::Io, pid).is_ok_and(|groups| groups.iter().any(has_limit))
}

#[derive(Debug)]
pub struct DiskLimit {
    /// Cgroup that has the limits; the root cgroup if whole devices are limited.
    files: Cgroup,
    /// `None` if whole devices are limited.
    own: Option<OwnCgroup>,
    wholes: Vec<WholeDevice>,
    /// Cgroup with the memory limit, if `own` cannot have it (version 1).
    memory: Option<OwnCgroup>,
    devices: Vec<DeviceLimit>,
}

/// Limits of a whole disk; a partition has none of its own.
#[derive(Clone, Copy, Debug)]
pub struct DeviceLimit {
    pub number: DeviceNumber,
    pub reads: ReadLimit,
    pub writes: WriteLimit,
}

impl DiskLimit {
    pub fn available() -> Result<CgroupVersion, Error> {
        let cgroup = OwnCgroup::create(Hierarchy::find(Controller::Io)?)?;
        let version = cgroup.files.version;
        cgroup.remove()?;
        Ok(version)
    }

    pub fn writes_available(is_own: bool) -> Result<(), Error> {
        if is_own || DiskLimit::available()? == CgroupVersion::V2 {
            return DiskLimit::available().map(drop);
        }
        Err(Error::Unavailable {
            what: "limiting writes",
            reason: "with cgroups version 1, writes of journals and dirty pages cannot be limited".into(),
            remedy:
                "give the study its own file system (points.file_system): pgthaw can limit that file system's device"
                    .into(),
        })
    }

    /// Limits I/O and memory, including page cache, of processes that join. `is_own`: whether only these processes use
    /// the devices; if so, cgroup version 1 limits whole devices, including write-back. Version 2 charges write-back to
    /// the writer's cgroup.
    ///
    /// # Errors
    /// If the kernel applied another limit.
    pub fn create(devices: Vec<DeviceLimit>, is_own: bool, memory: Option<Bytes>) -> Result<DiskLimit, Error> {
        let hierarchy = Hierarchy::find(Controller::Io)?;
        let mut limit = if is_own && hierarchy.version == CgroupVersion::V1 {
            let files = hierarchy.cgroup(&hierarchy.mount_point);
            let wholes =
                devices.iter().map(|device| WholeDevice::create(&files, device.number)).collect::<Result<_, _>>()?;
            DiskLimit { files, own: None, wholes, memory: None, devices }
        } else {
            let own = OwnCgroup::create(hierarchy)?;
            DiskLimit { files: own.files.clone(), own: Some(own), wholes: Vec::new(), memory: None, devices }
        };
        let has_writes = limit.devices.iter().any(|device| device.writes != WriteLimit::default());
        match &limit.own {
            // Version 2 charges write-back only to a cgroup with the controllers io and memory.
            Some(own) if has_writes && limit.files.version == CgroupVersion::V2 => {
                own.hand_down(&Hierarchy::find(Controller::Memory)?)?;
            }
            _ => {}
        }
        limit.enforce()?;
        if let Some(memory) = memory {
            limit.limit_memory(memory)?;
        }
        Ok(limit)
    }

    fn limit_memory(&mut self, limit: Bytes) -> Result<(), Error> {
        let hierarchy = Hierarchy::find(Controller::Memory)?;
        let version = hierarchy.version;
        let file = if version == CgroupVersion::V1 { "memory.limit_in_bytes" } else { "memory.max" };
        match &self.own {
            Some(own) if version == CgroupVersion::V2 && self.files.version == CgroupVersion::V2 => {
                own.hand_down(&hierarchy)?;
                own.files.write(file, &limit.0.to_string())
            }
            _ => {
                let own = OwnCgroup::create(hierarchy)?;
                own.files.write(file, &limit.0.to_string())?;
                self.memory = Some(own);
                Ok(())
            }
        }
    }

    pub fn enforce(&self) -> Result<(), Error> {
        for DeviceLimit { number, reads, writes } in &self.devices {
            self.files.limit(*number, *reads, *writes)?;
        }
        self.check()
    }

    fn check(&self) -> Result<(), Error> {
        for DeviceLimit { number, reads, writes } in &self.devices {
            let in_force = self.files.read_limits(*number)?;
            if in_force != (*reads, *writes) {
                let asked = (reads, writes);
                return Err(Error::Unavailable {
                    what: "this disk limit",
                    reason: format!("requested {asked:?} on device {number}, but the kernel applied {in_force:?}"),
                    remedy:
                        "use whole numbers above 0, and operations per second below 2³²; if systemd or another program \
                             changed the cgroup, try again"
                            .into(),
                });
            }
        }
        Ok(())
    }

    pub fn lift(&self) -> Result<(), Error> {
        self.devices.iter().try_for_each(|device| self.files.lift_limits(device.number))
    }

    /// Also limits children that start later, but not present ones.
    pub fn join(&self, pid: u32) -> Result<(), Error> {
        self.memory.iter().try_for_each(|memory| memory.join(pid))?;
        self.own.as_ref().map_or_else(|| self.files.join(pid), |own| own.join(pid))
    }

    /// Makes a command join the limit before exec, so that none of its reads escapes the limit.
    pub fn limit_command(&self, command: &mut Command) -> Result<(), Error> {
        let memory = self.memory.as_ref().map(|cgroup| cgroup.files.file(PROCS_FILE));
        for path in [self.procs_file()].into_iter().chain(memory) {
            let procs = File::options().write(true).open(&path).map_err(|error| Error::cgroup("open", &path, error))?;
            let join = move || (&procs).write_all(b"0");
            // SAFETY: between fork and exec the closure calls nothing but write(2), which is async-signal-safe, and
            // allocates nothing, whether write(2) fails or not.
            unsafe { command.pre_exec(join) };
        }
        Ok(())
    }

    /// A process joins the limit by writing `0` to this file before exec.
    pub fn procs_file(&self) -> PathBuf {
        self.files.file(PROCS_FILE)
    }

    /// Reads from the first device by all processes that joined the limit.
    pub fn read_usage(&self) -> Result<ReadUsage, Error> {
        match (self.wholes.first(), self.devices.first()) {
            (Some(whole), _) => whole.read_usage(),
            (None, first) => first.map_or(Ok(ReadUsage::default()), |device| self.files.read_usage(device.number)),
        }
    }

    /// Unlike `Drop`, returns errors, also if the limit was no longer in force: in version 2, `systemctl daemon-reload`
    /// may disable the controller.
    pub fn remove(self) -> Result<(), Error> {
        let in_force = self.check();
        self.memory.map_or(Ok(()), OwnCgroup::remove)?;
        self.own.map_or(Ok(()), OwnCgroup::remove)?;
        self.wholes.iter().try_for_each(|whole| whole.files.lift_limits(whole.device))?;
        in_force
    }
}

// In version 1 a cgroup's limit does not cover kernel writes (journal, write-back). They belong to the root cgroup,
// which can be limited too.

pub fn clear_limits_on_own(device: DeviceNumber) -> Result<(), Error> {
    let hierarchy = Hierarchy::find(Controller::Io)?;
    match hierarchy.version {
        CgroupVersion::V1 => hierarchy.cgroup(&hierarchy.mount_point).lift_limits(device),
        // `OwnCgroup::create` removes cgroups of killed pgthaw processes, with their limits.
        CgroupVersion::V2 => Ok(()),
    }
}

#[derive(Debug)]
struct WholeDevice {
    files: Cgroup,
    device: DeviceNumber,
    /// Usage when the limit was set: the root cgroup counts from the device's creation.
    before: ReadUsage,
}

impl WholeDevice {
    fn create(files: &Cgroup, device: DeviceNumber) -> Result<WholeDevice, Error> {
        files.lift_limits(device)?;
        Ok(WholeDevice { files: files.clone(), before: files.read_usage(device)?, device })
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
        let _ = self.files.lift_limits(self.device);
    }
}
