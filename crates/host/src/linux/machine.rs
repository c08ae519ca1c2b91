use std::hint::black_box;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;
use std::{fs, thread};

use procfs::process::{MountInfo, Process};
use procfs::{CpuInfo, Current as _, FromRead as _, IoPressure, Meminfo, ProcError};
use rustix::fs::{AtFlags, CWD, StatVfs, StatxFlags, statvfs, statx};
use serde::Serialize;

use super::Error;
use super::cgroup::read_memory_limit;
use super::error::LOOK_AT_FILE_SYSTEM;
use super::process::{read_details, read_mounts, read_pid_namespace};
use super::threads::{count_processors, lock, on_threads};
use crate::units::Bytes;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineFacts {
    pub hostname: String,
    pub kernel: String,
    /// `unknown` where /proc/cpuinfo has none.
    pub cpu_model: String,
    pub cores: u32,
    pub memory_bytes: Bytes,
}

/// Pids are comparable if boot and pid namespace are the same.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineIdentity {
    /// Boot identifier; empty if unknown.
    pub boot: String,
    /// Pid namespace, such as `pid:[4026531836]`; empty if unknown.
    pub processes: String,
}

pub fn read_identity() -> MachineIdentity {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let processes = read_pid_namespace().map_or_else(|_| String::new(), |number| format!("pid:[{number}]"));
    MachineIdentity { boot: boot.trim().to_owned(), processes }
}

pub fn read_machine() -> Result<MachineFacts, Error> {
    let names = rustix::system::uname();
    let processors = CpuInfo::current().map_err(|error| Error::proc("read /proc/cpuinfo", error))?;
    Ok(MachineFacts {
        hostname: names.nodename().to_string_lossy().into_owned(),
        kernel: names.release().to_string_lossy().into_owned(),
        cpu_model: processors.model_name(0).unwrap_or("unknown").to_owned(),
        cores: count_cores() as u32,
        memory_bytes: read_memory()?.total_bytes,
    })
}

pub fn count_cores() -> f64 {
    count_processors() as f64
}

pub fn read_free_bytes(path: &Path) -> Result<Bytes, Error> {
    let status = look_at(path)?;
    Ok(Bytes(status.f_bavail * status.f_frsize))
}

/// Always false for file systems without a fixed number of inodes.
pub fn is_without_inodes(path: &Path) -> bool {
    look_at(path).is_ok_and(|status| status.f_files > 0 && status.f_favail == 0)
}

/// An upper bound for the size of any file in the file system.
pub fn read_used_bytes(path: &Path) -> Result<Bytes, Error> {
    let status = look_at(path)?;
    Ok(Bytes(status.f_blocks.saturating_sub(status.f_bfree) * status.f_frsize))
}

fn look_at(path: &Path) -> Result<StatVfs, Error> {
    statvfs(path).map_err(|error| Error::file(LOOK_AT_FILE_SYSTEM, path, error.into()))
}

/// Finds the mount by its ID: device numbers mislead on btrfs.
pub fn read_mount(path: &Path) -> Result<MountInfo, Error> {
    let status = statx(CWD, path, AtFlags::empty(), StatxFlags::MNT_ID);
    let status = status.map_err(|error| Error::file("look at", path, error.into()))?;
    let find = |mounts: Vec<MountInfo>| mounts.into_iter().find(|mount| mount.mnt_id as u64 == status.stx_mnt_id);
    // A chroot hides the mount that contains its directory; process 1's list shows it to root.
    let found = find(read_mounts()?)
        .or_else(|| Process::new(1).and_then(|first| first.mountinfo()).ok().and_then(|all| find(all.0)));
    found.ok_or_else(|| Error::Unavailable {
        what: "finding the mount of a path",
        reason: format!("/proc/self/mountinfo has no mount {}", status.stx_mnt_id),
        remedy: "in a chroot, run pgthaw as root; otherwise use Linux 5.8 or later".into(),
    })
}

pub fn read_file_system(path: &Path) -> String {
    read_mount(path).map_or_else(|_| "unknown".to_owned(), |mount| mount.fs_type)
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    pub total_bytes: Bytes,
    /// `MemAvailable`: usable without swapping if the page cache is reclaimed.
    pub available_bytes: Bytes,
    /// Page cache, including shared memory.
    pub cached_bytes: Bytes,
    pub dirty_bytes: Bytes,
    pub writeback_bytes: Bytes,
}

fn read_meminfo() -> Result<Meminfo, Error> {
    Meminfo::current().map_err(|error| Error::proc("read /proc/meminfo", error))
}

pub fn read_memory() -> Result<Memory, Error> {
    let found = read_meminfo()?;
    Ok(Memory {
        total_bytes: Bytes(found.mem_total),
        // Some containers hide MemAvailable.
        available_bytes: Bytes(found.mem_available.unwrap_or(found.mem_free + found.cached)),
        cached_bytes: Bytes(found.cached),
        dirty_bytes: Bytes(found.dirty),
        writeback_bytes: Bytes(found.writeback),
    })
}

/// The limit of the page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, crate::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MemoryBound {
    /// The machine's memory.
    Machine,
    /// The memory limit of the server's cgroup.
    Cgroup,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadableMemory {
    pub bytes: Bytes,
    pub bound: MemoryBound,
}

/// Maximum page cache that can be loaded for process `pid`, including cached pages, if all other page cache of the
/// machine and of the process's cgroup is reclaimed.
pub fn read_loadable_memory(pid: u32) -> Result<LoadableMemory, Error> {
    let machine = LoadableMemory { bytes: read_memory()?.available_bytes, bound: MemoryBound::Machine };
    let room = read_memory_limit(pid).ok().flatten().map(|limit| limit.room_bytes());
    let cgroup = room.map(|bytes| LoadableMemory { bytes, bound: MemoryBound::Cgroup });
    Ok(cgroup.filter(|cgroup| cgroup.bytes < machine.bytes).unwrap_or(machine))
}

/// Memory that `pid` can use without reclaim, and its cgroup's limit.
pub fn read_unused_memory(pid: u32) -> Result<(Bytes, Option<Bytes>), Error> {
    let found = read_meminfo()?;
    let limit = read_memory_limit(pid).ok().flatten();
    let unused = limit.map(|limit| limit.limit_bytes.0.saturating_sub(limit.used_bytes.0));
    let unused = unused.into_iter().chain([found.mem_free]).min().unwrap_or_default();
    Ok((Bytes(unused), limit.map(|limit| limit.limit_bytes)))
}

/// Lower bound of the unallocated part of a process's shared memory (`size` bytes): assumes that all shared memory of
/// the cgroup (without a memory limit, of the machine) is its own. 0 with huge pages, which are reserved at the
/// server's start.
pub fn read_untouched_shared_memory(pid: u32, size: Bytes) -> Result<Bytes, Error> {
    if read_details(pid)?.hugetlbpages.is_some_and(|kilobytes| kilobytes > 0) {
        return Ok(Bytes(0));
    }
    let found = read_meminfo()?;
    let of_machine = found.shmem.unwrap_or_default();
    let touched = read_memory_limit(pid).ok().flatten().map_or(of_machine, |limit| limit.shared_bytes.0);
    Ok(Bytes(size.0.saturating_sub(touched)))
}

/// Whether DAMON (Documentation/admin-guide/mm/damon/usage.rst) or damon_reclaim pages out idle memory without
/// pressure. False if unreadable.
pub fn pages_out_idle() -> bool {
    let module = fs::read_to_string("/sys/module/damon_reclaim/parameters/enabled");
    module.is_ok_and(|enabled| enabled.trim() == "Y") || has_pageout_scheme(Path::new("/sys/kernel/mm/damon/admin"))
}

fn has_pageout_scheme(damon: &Path) -> bool {
    let says = |file: PathBuf, word: &str| fs::read_to_string(file).is_ok_and(|text| text.trim() == word);
    numbered(&damon.join("kdamonds")).filter(|daemon| says(daemon.join("state"), "on")).any(|daemon| {
        let mut schemes = numbered(&daemon.join("contexts")).flat_map(|context| numbered(&context.join("schemes")));
        schemes.any(|scheme| says(scheme.join("action"), "pageout"))
    })
}

fn numbered(directory: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path()).filter(|path| path.is_dir())
}

// DAMON counts memory that was free for a minute as idle, and within seconds pages out data read into it.

const SPARED_RATIO: f64 = 0.1;

/// Touches per page: DAMON schemes may count a page with one access in ten samples as idle.
const TOUCHES: u32 = 5;

/// Longer than DAMON's sampling interval of 0.5 s.
const PAUSE: Duration = Duration::from_millis(550);

const CHUNK_BYTES: usize = 64 << 20;

const PAGE_BYTES: usize = 4096;

/// Touches up to `wanted` bytes of free memory for three seconds, then frees them, so that DAMON does not count the
/// next allocations as idle.
pub fn apply_use(wanted: Bytes) -> Result<(), Error> {
    let free = read_meminfo()?.mem_free.min(read_loadable_memory(std::process::id())?.bytes.0);
    let bytes = wanted.0.min((free as f64 * (1.0 - SPARED_RATIO)) as u64) as usize;
    let threads = count_processors();
    let mut chunks: Vec<Vec<u8>> = (0..bytes / CHUNK_BYTES).map(|_| vec![0; CHUNK_BYTES]).collect();
    for _ in 0..TOUCHES {
        let parts = chunks.chunks_mut((bytes / CHUNK_BYTES).div_ceil(threads).max(1));
        let parts = Mutex::new(parts);
        let take = || lock(&parts).next();
        on_threads(threads, |_| {
            while let Some(part) = take() {
                part.iter_mut().for_each(|chunk| touch(chunk));
            }
        });
        thread::sleep(PAUSE);
    }
    Ok(())
}

fn touch(chunk: &mut [u8]) {
    chunk.iter_mut().step_by(PAGE_BYTES).for_each(|byte| *byte = byte.wrapping_add(1));
    black_box(chunk);
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pressure {
    /// Share of the last 10 s in which some task waited, 0 to 1.
    pub some_ratio_avg10: f64,
    /// Total waiting time since boot, in microseconds.
    pub some_us_total: u64,
    pub full_us_total: u64,
}

/// `resource` is `cpu`, `io` or `memory`. `None` unless the kernel measures it (boot option `psi=1`).
pub fn read_pressure(resource: &str) -> Result<Option<Pressure>, Error> {
    read_pressure_file(&Path::new("/proc/pressure").join(resource))
}

fn read_pressure_file(path: &Path) -> Result<Option<Pressure>, Error> {
    match IoPressure::from_file(path) {
        Ok(IoPressure { some, full }) => Ok(Some(Pressure {
            some_ratio_avg10: f64::from(some.avg10) / 100.0,
            some_us_total: some.total,
            full_us_total: full.total,
        })),
        Err(ProcError::NotFound(_)) => Ok(None),
        Err(ProcError::Io(error, _)) if error.kind() == ErrorKind::Unsupported => Ok(None),
        Err(error) => Err(Error::proc("read the pressure", error)),
    }
}

#[cfg(test)]
mod machine_tests {
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
        assert_eq!((proc.fs_type.as_str(), proc.mount_point.as_path()), ("proc", Path::new("/proc")));
        assert!(read_mount("/nowhere/at/all".as_ref()).is_err());
        assert!(read_free_bytes("/var/tmp".as_ref()).unwrap().0 > 0);
    }
}

#[cfg(test)]
mod memory_tests {
    use super::*;

    #[test]
    fn a_scheme_pages_out_only_while_its_daemon_runs() {
        let damon = tempfile::tempdir().unwrap();
        assert!(!has_pageout_scheme(damon.path()));
        let daemon = damon.path().join("kdamonds/0");
        let scheme = daemon.join("contexts/0/schemes/0");
        fs::create_dir_all(&scheme).unwrap();
        fs::write(daemon.join("state"), "on\n").unwrap();
        fs::write(scheme.join("action"), "stat\n").unwrap();
        assert!(!has_pageout_scheme(damon.path()));
        fs::write(scheme.join("action"), "pageout\n").unwrap();
        assert!(has_pageout_scheme(damon.path()));
        fs::write(daemon.join("state"), "off\n").unwrap();
        assert!(!has_pageout_scheme(damon.path()));
    }

    #[test]
    fn there_is_some_memory() {
        let memory = read_memory().unwrap();
        assert!(memory.total_bytes > memory.available_bytes, "{memory:?}");
        assert!(memory.cached_bytes.0 > 0 && memory.cached_bytes < memory.total_bytes, "{memory:?}");
        let loadable = read_loadable_memory(std::process::id()).unwrap();
        assert!(loadable.bytes.0 > 0 && loadable.bytes <= memory.total_bytes, "{loadable:?}");
    }
}

#[cfg(test)]
mod pressure_tests {
    use super::*;

    #[test]
    fn shares_are_ratios() {
        let directory = tempfile::tempdir().unwrap();
        let text =
            "some avg10=50.00 avg60=1.00 avg300=0.00 total=1234\nfull avg10=25.00 avg60=0.00 avg300=0.00 total=5\n";
        std::fs::write(directory.path().join("io.pressure"), text).unwrap();
        let expected = Pressure { some_ratio_avg10: 0.5, some_us_total: 1234, full_us_total: 5 };
        assert_eq!(read_pressure_file(&directory.path().join("io.pressure")).unwrap(), Some(expected));
        assert_eq!(read_pressure_file(&directory.path().join("memory.pressure")).unwrap(), None);
    }

    #[test]
    fn the_machine_has_pressure_or_none() {
        for resource in ["cpu", "io", "memory"] {
            let pressure = read_pressure(resource).unwrap();
            assert!(pressure.is_none_or(|pressure| (0.0..=1.0).contains(&pressure.some_ratio_avg10)));
        }
    }
}
