//! Where the cgroups of a controller are mounted, and where a process is among them.

use std::fs;
use std::path::{Path, PathBuf};

use procfs::process::{MountInfo, Process};

use crate::linux::Error;

/// Which kind of cgroups a controller uses on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CgroupVersion {
    V1,
    V2,
}

impl CgroupVersion {
    /// `v1` or `v2`.
    pub fn name(self) -> &'static str {
        match self {
            CgroupVersion::V1 => "v1",
            CgroupVersion::V2 => "v2",
        }
    }
}

/// What a cgroup controls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Controller {
    Cpu,
    Io,
    Memory,
}

impl Controller {
    fn v1_name(self) -> &'static str {
        match self {
            Controller::Cpu => "cpu",
            Controller::Io => "blkio",
            Controller::Memory => "memory",
        }
    }

    pub fn v2_name(self) -> &'static str {
        match self {
            Controller::Cpu => "cpu",
            Controller::Io => "io",
            Controller::Memory => "memory",
        }
    }
}

/// The mounted tree of cgroups that has a controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hierarchy {
    pub version: CgroupVersion,
    pub controller: Controller,
    pub mount_point: PathBuf,
    /// The cgroup that is mounted there: `/`, except in containers without a cgroup namespace.
    mounted: PathBuf,
}

impl Hierarchy {
    /// Finds the controller's tree: a controller is in one tree only, of either version.
    pub fn find(controller: Controller) -> Result<Hierarchy, Error> {
        let mounts = Process::myself().and_then(|process| process.mountinfo());
        let mounts = mounts.map_err(|error| Error::proc("read the mounts", error))?;
        let found = mounts.iter().find_map(|mount| Hierarchy::of_mount(controller, mount));
        found.ok_or_else(|| Error::Unavailable {
            what: "cgroup control",
            reason: format!("no mounted cgroup hierarchy has the controller {}", controller.v2_name()),
            remedy:
                "`mount -t cgroup2 none /sys/fs/cgroup` (in a container: `docker run --privileged --cgroupns=host`)"
                    .into(),
        })
    }

    fn of_mount(controller: Controller, mount: &MountInfo) -> Option<Hierarchy> {
        let version = match mount.fs_type.as_str() {
            "cgroup" if mount.super_options.contains_key(controller.v1_name()) => CgroupVersion::V1,
            "cgroup2" if has_word(&mount.mount_point.join("cgroup.controllers"), controller.v2_name()) => {
                CgroupVersion::V2
            }
            _ => return None,
        };
        let (mount_point, mounted) = (mount.mount_point.clone(), PathBuf::from(&mount.root));
        Some(Hierarchy { version, controller, mount_point, mounted })
    }

    /// The directory of the cgroup that a process is in.
    pub fn directory_of(&self, pid: u32) -> Result<PathBuf, Error> {
        let groups = Process::new(pid as i32).and_then(|process| process.cgroups());
        let groups = groups.map_err(|error| Error::proc("read the cgroups of a process", error))?;
        let group = groups.0.iter().find(|group| match self.version {
            CgroupVersion::V1 => group.controllers.iter().any(|name| name == self.controller.v1_name()),
            CgroupVersion::V2 => group.hierarchy == 0,
        });
        group.and_then(|group| self.directory(Path::new(&group.pathname))).ok_or_else(|| Error::Unavailable {
            what: "cgroup control",
            reason: format!("the cgroup of process {pid} is outside of what is mounted here"),
            remedy: "run pgthaw where the process runs: on the host, or in its container".into(),
        })
    }

    /// The directory of a cgroup as /proc/PID/cgroup names it; `None` when it is not below the mounted one.
    fn directory(&self, group: &Path) -> Option<PathBuf> {
        let below = group.strip_prefix(&self.mounted).ok()?;
        let stays = !below.components().any(|part| part.as_os_str() == "..");
        stays.then(|| self.mount_point.join(below))
    }
}

/// Does the file hold this word?
pub fn has_word(path: &Path, word: &str) -> bool {
    fs::read_to_string(path).is_ok_and(|text| text.split_whitespace().any(|one| one == word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hierarchy(mounted: &str) -> Hierarchy {
        let (version, controller) = (CgroupVersion::V2, Controller::Io);
        Hierarchy { version, controller, mount_point: "/sys/fs/cgroup".into(), mounted: mounted.into() }
    }

    #[test]
    fn finds_the_directory_below_the_mount() {
        let whole = hierarchy("/");
        let found = whole.directory(Path::new("/system.slice/postgresql.service"));
        assert_eq!(found, Some("/sys/fs/cgroup/system.slice/postgresql.service".into()));
        assert_eq!(hierarchy("/docker/1f").directory(Path::new("/docker/1f/x")), Some("/sys/fs/cgroup/x".into()));
    }

    #[test]
    fn does_not_leave_the_mount() {
        assert_eq!(hierarchy("/docker/1f").directory(Path::new("/system.slice")), None);
        assert_eq!(hierarchy("/").directory(Path::new("/../../system.slice")), None);
    }

    #[test]
    fn every_process_has_a_place() {
        // A machine without any cgroups is a legitimate one.
        if let Ok(memory) = Hierarchy::find(Controller::Memory) {
            assert!(memory.directory_of(std::process::id()).unwrap().join("cgroup.procs").exists());
        }
    }
}
