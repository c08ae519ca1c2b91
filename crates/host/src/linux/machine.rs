//! What machine this is.

use std::path::{Path, PathBuf};

use procfs::process::Process;
use procfs::{CpuInfo, Current as _};
use rustix::fs::{AtFlags, CWD, StatxFlags, statvfs, statx};

use super::Error;
use super::error::LOOK_AT_FILE_SYSTEM;
use super::memory::read_memory;
use super::process::read_pid_namespace;
use crate::units::Bytes;

/// The host, for a record of what was measured where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineFacts {
    pub hostname: String,
    /// The kernel's release, such as `6.1.0-18-amd64`.
    pub kernel: String,
    /// Model of the processor by /proc/cpuinfo; `unknown` on architectures that do not say.
    pub cpu_model: String,
    /// Processors that this process may use.
    pub cores: u32,
    pub memory_bytes: Bytes,
}

/// What is mounted where a path is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// `ext4`, `xfs`, `overlay`.
    pub file_system: String,
    /// What is mounted: of a disk's file system its device.
    pub source: PathBuf,
    /// Where.
    pub point: PathBuf,
}

/// By what processes of this machine are told from those of others: numbers of processes mean the same where both agree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineIdentity {
    /// Identifier of the boot; empty where it is not known.
    pub boot: String,
    /// The namespace of processes, such as `pid:[4026531836]`; empty where it is not known.
    pub processes: String,
}

/// The machine that this process runs on.
pub fn read_identity() -> MachineIdentity {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let processes = read_pid_namespace().map_or_else(|_| String::new(), |number| format!("pid:[{number}]"));
    MachineIdentity { boot: boot.trim().to_owned(), processes }
}

/// Asks the kernel who and what it runs on.
pub fn read_machine() -> Result<MachineFacts, Error> {
    let names = rustix::system::uname();
    let processors = CpuInfo::current().map_err(|error| Error::proc("read /proc/cpuinfo", error))?;
    let cores = std::thread::available_parallelism();
    let cores = cores.map_err(|source| Error::Call { action: "count the processors", source })?;
    Ok(MachineFacts {
        hostname: names.nodename().to_string_lossy().into_owned(),
        kernel: names.release().to_string_lossy().into_owned(),
        cpu_model: processors.model_name(0).unwrap_or("unknown").to_owned(),
        cores: cores.get() as u32,
        memory_bytes: read_memory()?.total_bytes,
    })
}

/// Processors that this process may use; 1 where the kernel does not say.
pub fn count_cores() -> f64 {
    std::thread::available_parallelism().map_or(1.0, |cores| cores.get() as f64)
}

/// Bytes that this user may still write to the file system of `path`.
pub fn read_free_bytes(path: &Path) -> Result<Bytes, Error> {
    let status = statvfs(path).map_err(|error| Error::file(LOOK_AT_FILE_SYSTEM, path, error.into()))?;
    Ok(Bytes(status.f_bavail * status.f_frsize))
}

/// Bytes of the file system of `path` that are taken: no file there has more that is stored.
pub fn read_used_bytes(path: &Path) -> Result<Bytes, Error> {
    let status = statvfs(path).map_err(|error| Error::file(LOOK_AT_FILE_SYSTEM, path, error.into()))?;
    Ok(Bytes(status.f_blocks.saturating_sub(status.f_bfree) * status.f_frsize))
}

/// The mount that `path` is on, found by its number: device numbers mislead on btrfs, names below a mount point on all.
pub fn read_mount(path: &Path) -> Result<Mount, Error> {
    let status = statx(CWD, path, AtFlags::empty(), StatxFlags::MNT_ID);
    let status = status.map_err(|error| Error::file("look at", path, error.into()))?;
    let mounts = Process::myself().and_then(|process| process.mountinfo());
    let mounts = mounts.map_err(|error| Error::proc("read the mounts", error))?;
    let found = mounts.into_iter().find(|mount| mount.mnt_id as u64 == status.stx_mnt_id);
    let mount = found.ok_or_else(|| Error::Unavailable {
        what: "finding the mount of a path",
        reason: format!("/proc/self/mountinfo has no mount {}", status.stx_mnt_id),
        remedy: "use Linux 5.8 or newer".into(),
    })?;
    let source = mount.mount_source.unwrap_or_default().into();
    Ok(Mount { file_system: mount.fs_type, source, point: mount.mount_point })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_itself() {
        let machine = read_machine().unwrap();
        assert!(machine.cores > 0 && machine.memory_bytes.0 > 0, "{machine:?}");
        assert!(machine.kernel.contains('.'), "{machine:?}");
    }

    #[test]
    fn knows_its_mounts() {
        let proc = read_mount("/proc/self".as_ref()).unwrap();
        assert_eq!((proc.file_system.as_str(), proc.point.as_path()), ("proc", Path::new("/proc")));
        assert!(read_mount("/nowhere/at/all".as_ref()).is_err());
        assert!(read_free_bytes("/var/tmp".as_ref()).unwrap().0 > 0);
    }
}
