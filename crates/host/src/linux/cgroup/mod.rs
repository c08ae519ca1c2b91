use std::fs;
use std::path::{Path, PathBuf};

use procfs::process::{MountInfo, Process};
use serde::{Deserialize, Serialize};

use crate::linux::process::read_mounts;
use crate::linux::{DeviceNumber, Error, Result};
use crate::units::Bytes;

mod disk_limit;
#[cfg(test)]
mod disk_limit_tests;
mod own_cgroup;

pub use disk_limit::{DeviceLimit, DiskLimit, clear_limits_on_own, has_read_limit, read_limit_of};
pub use own_cgroup::{Isolation, LeftCgroup, remove_left_near};

const PROCS_FILE: &str = "cgroup.procs";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CgroupVersion {
    V1,
    V2,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Controller {
    Cpu,
    Io,
    Memory,
}

impl Controller {
    fn v1_name(self) -> &'static str {
        match self {
            Controller::Io => "blkio",
            other => other.v2_name(),
        }
    }

    fn v2_name(self) -> &'static str {
        self.into()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Hierarchy {
    version: CgroupVersion,
    controller: Controller,
    mount_point: PathBuf,
    /// Path of the mounted cgroup: `/`, except in containers without a cgroup namespace.
    mounted: PathBuf,
}

impl Hierarchy {
    fn find(controller: Controller) -> Result<Hierarchy> {
        let found = read_mounts()?.iter().find_map(|mount| Hierarchy::of_mount(controller, mount));
        found.ok_or_else(|| Error::Unavailable {
            what: "cgroup control",
            reason: format!("no mounted cgroup hierarchy has the controller {}", controller.v2_name()),
            remedy: "mount -t cgroup2 none /sys/fs/cgroup (in a container: docker run --privileged --cgroupns=host)"
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

    fn directory_of(&self, pid: u32) -> Result<PathBuf> {
        let groups = Process::new(pid as i32).and_then(|process| process.cgroups());
        let groups = groups.map_err(|error| Error::proc("read the cgroups of a process", error))?;
        let group = groups.0.iter().find(|group| match self.version {
            CgroupVersion::V1 => group.controllers.iter().any(|name| name == self.controller.v1_name()),
            CgroupVersion::V2 => group.hierarchy == 0,
        });
        group.and_then(|group| self.directory(Path::new(&group.pathname))).ok_or_else(|| Error::Unavailable {
            what: "cgroup control",
            reason: format!("the cgroup of process {pid} is outside of the cgroups mounted here"),
            remedy: "run pgthaw where that process runs: on the host, or in its container".into(),
        })
    }

    fn cgroup(&self, directory: &Path) -> Cgroup {
        Cgroup { version: self.version, directory: directory.to_owned() }
    }

    fn lineage<'a>(&'a self, directory: &'a Path) -> impl Iterator<Item = &'a Path> {
        directory.ancestors().take_while(|group| group.starts_with(&self.mount_point))
    }

    /// `None` outside of the mounted cgroup.
    fn directory(&self, group: &Path) -> Option<PathBuf> {
        let below = group.strip_prefix(&self.mounted).ok()?;
        let stays = !below.components().any(|part| part.as_os_str() == "..");
        stays.then(|| self.mount_point.join(below))
    }
}

#[derive(Clone, Debug)]
struct Cgroup {
    version: CgroupVersion,
    directory: PathBuf,
}

impl Cgroup {
    fn file(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    fn read(&self, name: &str) -> Result<String> {
        let path = self.file(name);
        fs::read_to_string(&path).map_err(|error| Error::cgroup("read", &path, error))
    }

    fn write(&self, name: &str, text: &str) -> Result<()> {
        let path = self.file(name);
        fs::write(&path, text).map_err(|error| Error::cgroup("write to", &path, error))
    }

    fn join(&self, pid: u32) -> Result<()> {
        self.write(PROCS_FILE, &pid.to_string())
    }

    /// `None` without a limit (root cgroup of version 2).
    fn read_memory_limit(&self) -> Option<MemoryLimit> {
        // In version 1, fields prefixed total_ include the cgroups below.
        let (limit_file, used_file, prefix) = match self.version {
            CgroupVersion::V1 => ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_"),
            CgroupVersion::V2 => ("memory.max", "memory.current", ""),
        };
        let read_number = |name: &str| self.read(name).ok()?.trim().parse::<u64>().ok();
        // Above memory.high (version 2) the kernel reclaims memory as it does at memory.max.
        let limits = [limit_file, "memory.high"].into_iter().filter_map(read_number);
        // Version 1's default is a huge number.
        let limit = limits.filter(|limit| *limit < 1 << 62).min()?;
        let statistics = self.read("memory.stat").ok()?;
        Some(MemoryLimit {
            limit_bytes: Bytes(limit),
            used_bytes: Bytes(read_number(used_file)?),
            file_bytes: sum_statistics(&statistics, prefix, &PAGE_CACHE),
            shared_bytes: sum_statistics(&statistics, prefix, &["shmem"]),
        })
    }

    /// `None` removes a limit.
    fn limit(&self, device: DeviceNumber, reads: ReadLimit, writes: WriteLimit) -> Result<()> {
        let values = [
            reads.read_bytes_per_second.map(|bytes| bytes.0),
            reads.reads_per_second,
            writes.written_bytes_per_second.map(|bytes| bytes.0),
            writes.writes_per_second,
        ];
        let mut limits = LIMITS.into_iter().zip(values);
        match self.version {
            CgroupVersion::V1 => {
                limits.try_for_each(|((file, _), value)| self.write(file, &format!("{device} {}", value.unwrap_or(0))))
            }
            CgroupVersion::V2 => {
                let word = |value: Option<u64>| value.map_or("max".to_owned(), |value| value.to_string());
                let words: Vec<String> = limits.map(|((_, key), value)| format!("{key}={}", word(value))).collect();
                self.write(V2_LIMIT, &format!("{device} {}", words.join(" ")))
            }
        }
    }

    fn lift_limits(&self, device: DeviceNumber) -> Result<()> {
        self.limit(device, ReadLimit::default(), WriteLimit::default())
    }

    fn read_limits(&self, device: DeviceNumber) -> Result<(ReadLimit, WriteLimit)> {
        let values = LIMITS.map(|(file, key)| self.read_value(device, (file, None), (V2_LIMIT, key)));
        let [read_bytes, reads, written_bytes, writes] = values;
        Ok((
            ReadLimit { reads_per_second: reads?, read_bytes_per_second: read_bytes?.map(Bytes) },
            WriteLimit { writes_per_second: writes?, written_bytes_per_second: written_bytes?.map(Bytes) },
        ))
    }

    /// Returns 0 for an unused device, which the kernel does not list.
    fn read_usage(&self, device: DeviceNumber) -> Result<ReadUsage> {
        let reads = self.read_value(device, (V1_READS, Some("Read")), (V2_STATISTICS, "rios"))?;
        let bytes = self.read_value(device, (V1_BYTES, Some("Read")), (V2_STATISTICS, "rbytes"))?;
        Ok(ReadUsage { reads: reads.unwrap_or(0), read_bytes: Bytes(bytes.unwrap_or(0)) })
    }

    /// `v1` is a file and an operation, `v2` a file and a key.
    fn read_value(&self, device: DeviceNumber, v1: (&str, Option<&str>), v2: (&str, &str)) -> Result<Option<u64>> {
        Ok(match self.version {
            CgroupVersion::V1 => v1_value(&self.read(v1.0)?, device, v1.1),
            CgroupVersion::V2 => v2_value(&self.read(v2.0)?, device, v2.1),
        })
    }
}

fn directory_of(controller: Controller, pid: u32) -> Result<PathBuf> {
    Hierarchy::find(controller)?.directory_of(pid)
}

/// Cgroup of a process, and its ancestors.
fn lineage_of(controller: Controller, pid: u32) -> Result<Vec<Cgroup>> {
    let hierarchy = Hierarchy::find(controller)?;
    let directory = hierarchy.directory_of(pid)?;
    Ok(hierarchy.lineage(&directory).map(|group| hierarchy.cgroup(group)).collect())
}

fn has_word(path: &Path, word: &str) -> bool {
    fs::read_to_string(path).is_ok_and(|text| text.split_whitespace().any(|one| one == word))
}

// Page cache is charged to the cgroup of the process that reads it.

/// Tightest memory limit of a process's cgroup and its ancestors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryLimit {
    pub limit_bytes: Bytes,
    /// Charged memory: anonymous, page cache, kernel.
    pub used_bytes: Bytes,
    /// Reclaimable part of `used_bytes`.
    pub file_bytes: Bytes,
    pub shared_bytes: Bytes,
}

impl MemoryLimit {
    /// Free bytes once the cgroup's page cache is reclaimed.
    pub fn room_bytes(self) -> Bytes {
        let firm = self.used_bytes.0.saturating_sub(self.file_bytes.0);
        Bytes(self.limit_bytes.0.saturating_sub(firm))
    }
}

pub fn read_memory_limit(pid: u32) -> Result<Option<MemoryLimit>> {
    let limits = lineage_of(Controller::Memory, pid)?.into_iter().filter_map(|group| group.read_memory_limit());
    Ok(limits.min_by_key(|limit| limit.room_bytes()))
}

pub fn memory_directory_of(pid: u32) -> Result<PathBuf> {
    directory_of(Controller::Memory, pid)
}

/// Moves this process into the cgroup of `pid`: that of memory is charged for loaded page cache, and the limit of that
/// of I/O then includes this process's reads.
pub fn join_cgroup_of(pid: u32, controller: Controller) -> Result<()> {
    move_to(&directory_of(controller, pid)?)
}

/// Memory and I/O cgroups to which this process can return.
pub fn find_home() -> Vec<PathBuf> {
    let find = |controller| directory_of(controller, std::process::id()).ok();
    [Controller::Memory, Controller::Io].into_iter().filter_map(find).collect()
}

pub fn move_to(cgroup: &Path) -> Result<()> {
    if find_home().iter().any(|own| own == cgroup) {
        return Ok(());
    }
    let members = cgroup.join(PROCS_FILE);
    fs::write(&members, std::process::id().to_string()).map_err(|error| Error::cgroup("move into", &members, error))
}

/// Page cache without shared memory, in `memory.stat`.
const PAGE_CACHE: [&str; 2] = ["active_file", "inactive_file"];

fn sum_statistics(statistics: &str, prefix: &str, words: &[&str]) -> Bytes {
    let value = |line: &str| {
        let (word, value) = line.strip_prefix(prefix)?.split_once(' ')?;
        value.trim().parse().ok().filter(|_| words.contains(&word))
    };
    statistics.lines().filter_map(value).map(Bytes).sum()
}

/// Files of version 1, and their keys in version 2's `io.max`.
const LIMITS: [(&str, &str); 4] = [
    ("blkio.throttle.read_bps_device", "rbps"),
    ("blkio.throttle.read_iops_device", "riops"),
    ("blkio.throttle.write_bps_device", "wbps"),
    ("blkio.throttle.write_iops_device", "wiops"),
];
const V1_READS: &str = "blkio.throttle.io_serviced";
const V1_BYTES: &str = "blkio.throttle.io_service_bytes";
const V2_LIMIT: &str = "io.max";
const V2_STATISTICS: &str = "io.stat";

/// Limit of reads. `None` is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
pub struct ReadLimit {
    #[serde(rename = "riops")]
    pub reads_per_second: Option<u64>,
    #[serde(rename = "rbps")]
    pub read_bytes_per_second: Option<Bytes>,
}

impl ReadLimit {
    pub fn and(self, other: ReadLimit) -> ReadLimit {
        let bytes = [self, other].into_iter().filter_map(|limit| limit.read_bytes_per_second);
        ReadLimit {
            reads_per_second: self.reads_per_second.into_iter().chain(other.reads_per_second).min(),
            read_bytes_per_second: bytes.min(),
        }
    }
}

/// `None` is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteLimit {
    pub writes_per_second: Option<u64>,
    pub written_bytes_per_second: Option<Bytes>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadUsage {
    pub reads: u64,
    pub read_bytes: Bytes,
}

/// Parses `254:0 3000` or `254:0 Read 3000`.
fn v1_value(text: &str, device: DeviceNumber, operation: Option<&str>) -> Option<u64> {
    let device = device.to_string();
    text.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        let fits = words.next() == Some(&device) && operation.is_none_or(|operation| words.next() == Some(operation));
        fits.then(|| words.next()?.parse().ok())?
    })
}

/// Parses `254:0 rbps=131072000 wbps=max`; `None` for `max`.
fn v2_value(text: &str, device: DeviceNumber, key: &str) -> Option<u64> {
    let device = device.to_string();
    let line = text.lines().find(|line| line.split_whitespace().next() == Some(&device))?;
    let (_, value) = line.split_whitespace().filter_map(|word| word.split_once('=')).find(|(name, _)| *name == key)?;
    value.parse().ok()
}

#[cfg(test)]
mod hierarchy_tests {
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
        if let Ok(memory) = Hierarchy::find(Controller::Memory) {
            assert!(memory.directory_of(std::process::id()).unwrap().join("cgroup.procs").exists());
        }
    }
}

#[cfg(test)]
mod memory_tests {
    use super::*;

    pub fn write_group(version: CgroupVersion, files: &[(&str, &str)]) -> (tempfile::TempDir, Cgroup) {
        let place = tempfile::tempdir().unwrap();
        let group = Cgroup { version, directory: place.path().to_owned() };
        files.iter().for_each(|(name, text)| group.write(name, text).unwrap());
        (place, group)
    }

    #[test]
    fn page_cache_gives_way() {
        let (_place, group) = write_group(
            CgroupVersion::V2,
            &[
                ("memory.max", "1000\n"),
                ("memory.current", "900\n"),
                (
                    "memory.stat",
                    "anon 100\nfile 800\nshmem 60\nactive_file 500\ninactive_file 200\nworkingset_refault_file 7\n",
                ),
            ],
        );
        let limit = group.read_memory_limit().unwrap();
        assert_eq!(limit.shared_bytes, Bytes(60));
        assert_eq!(limit.file_bytes, Bytes(700));
        assert_eq!(limit.room_bytes(), Bytes(800));
    }

    #[test]
    fn what_is_taken_back_counts_as_a_limit() {
        let files = [("memory.max", "max\n"), ("memory.current", "100\n"), ("memory.stat", "")];
        let (_place, group) = write_group(CgroupVersion::V2, &[&files[..], &[("memory.high", "600\n")]].concat());
        assert_eq!(group.read_memory_limit().unwrap().limit_bytes, Bytes(600));
    }

    #[test]
    fn version_1_counts_the_cgroups_below() {
        let (_place, group) = write_group(
            CgroupVersion::V1,
            &[
                ("memory.limit_in_bytes", "1000\n"),
                ("memory.usage_in_bytes", "1000\n"),
                (
                    "memory.stat",
                    "shmem 2\nactive_file 1\ntotal_shmem 7\ntotal_active_file 300\ntotal_inactive_file 0\n",
                ),
            ],
        );
        let limit = group.read_memory_limit().unwrap();
        assert_eq!((limit.room_bytes(), limit.shared_bytes), (Bytes(300), Bytes(7)));
    }

    #[test]
    fn no_limit_is_none() {
        let files = [("memory.max", "max\n"), ("memory.current", "9\n"), ("memory.stat", "")];
        let (_place, group) = write_group(CgroupVersion::V2, &files);
        assert_eq!(group.read_memory_limit(), None);
        let files = [("memory.limit_in_bytes", "9223372036854771712\n"), ("memory.stat", "")];
        let (_place, group) = write_group(CgroupVersion::V1, &files);
        assert_eq!(group.read_memory_limit(), None);
        let nowhere = Cgroup { version: CgroupVersion::V2, directory: "/nowhere".into() };
        assert_eq!(nowhere.read_memory_limit(), None);
    }
}

#[cfg(test)]
mod throttle_tests {
    use super::memory_tests::write_group;
    use super::*;

    const DEVICE: DeviceNumber = DeviceNumber { major: 254, minor: 0 };
    const GP3: ReadLimit = ReadLimit { reads_per_second: Some(3000), read_bytes_per_second: Some(Bytes(131_072_000)) };

    const V1_BYTES_LIMIT: &str = LIMITS[0].0;
    const V1_READS_LIMIT: &str = LIMITS[1].0;
    const V1_WRITTEN_BYTES_LIMIT: &str = LIMITS[2].0;
    const V1_WRITES_LIMIT: &str = LIMITS[3].0;

    fn limited(version: CgroupVersion, reads: ReadLimit, writes: WriteLimit) -> (tempfile::TempDir, Cgroup) {
        let (place, group) = write_group(version, &[]);
        group.limit(DEVICE, reads, writes).unwrap();
        (place, group)
    }

    #[test]
    fn version_1_has_a_file_for_each() {
        let (_place, group) = limited(CgroupVersion::V1, GP3, WriteLimit::default());
        let lines = LIMITS.map(|(file, _)| group.read(file).unwrap());
        assert_eq!(lines, ["254:0 131072000", "254:0 3000", "254:0 0", "254:0 0"]);
        let (_place, group) = write_group(
            CgroupVersion::V1,
            &[
                (V1_READS_LIMIT, "8:0 77\n254:0 3000\n"),
                (V1_BYTES_LIMIT, ""),
                (V1_WRITTEN_BYTES_LIMIT, ""),
                (V1_WRITES_LIMIT, ""),
                (V1_READS, "254:0 Read 12\n254:0 Write 5\n254:0 Total 17\nTotal 17\n"),
                (V1_BYTES, "254:0 Read 98304\n254:0 Write 4096\nTotal 102400\n"),
            ],
        );
        let (limit, _) = group.read_limits(DEVICE).unwrap();
        assert_eq!(limit, ReadLimit { reads_per_second: Some(3000), read_bytes_per_second: None });
        assert_eq!(group.read_usage(DEVICE).unwrap(), ReadUsage { reads: 12, read_bytes: Bytes(98304) });
    }

    #[test]
    fn version_2_has_a_line_for_all() {
        let (_place, group) = limited(CgroupVersion::V2, GP3, WriteLimit::default());
        assert_eq!(group.read(V2_LIMIT).unwrap(), "254:0 rbps=131072000 riops=3000 wbps=max wiops=max");
        let bytes_only = ReadLimit { reads_per_second: None, ..GP3 };
        let (_place, group) = limited(CgroupVersion::V2, bytes_only, WriteLimit::default());
        assert_eq!(group.read(V2_LIMIT).unwrap(), "254:0 rbps=131072000 riops=max wbps=max wiops=max");
        let (_place, group) = write_group(
            CgroupVersion::V2,
            &[
                (
                    V2_LIMIT,
                    "8:16 rbps=1 wbps=max riops=2 wiops=max\n254:0 rbps=131072000 wbps=max riops=max wiops=max\n",
                ),
                (V2_STATISTICS, "254:0 rbytes=98304 wbytes=0 rios=12 wios=0 dbytes=0 dios=0\n"),
            ],
        );
        assert_eq!(group.read_limits(DEVICE).unwrap().0, bytes_only);
        assert_eq!(group.read_usage(DEVICE).unwrap(), ReadUsage { reads: 12, read_bytes: Bytes(98304) });
    }

    #[test]
    fn writes_have_limits_of_their_own() {
        let limit = WriteLimit { writes_per_second: Some(400), written_bytes_per_second: Some(Bytes(1 << 20)) };
        let (_place, v1) = limited(CgroupVersion::V1, ReadLimit::default(), limit);
        let written = [V1_WRITTEN_BYTES_LIMIT, V1_WRITES_LIMIT].map(|file| v1.read(file).unwrap());
        assert_eq!(written, ["254:0 1048576", "254:0 400"]);
        let (_place, v2) = limited(CgroupVersion::V2, ReadLimit::default(), limit);
        assert_eq!(v2.read(V2_LIMIT).unwrap(), "254:0 rbps=max riops=max wbps=1048576 wiops=400");
        let (_place, v1) = write_group(
            CgroupVersion::V1,
            &[
                (V1_WRITES_LIMIT, "254:0 400\n"),
                (V1_WRITTEN_BYTES_LIMIT, "254:0 1048576\n"),
                (V1_BYTES_LIMIT, ""),
                (V1_READS_LIMIT, ""),
            ],
        );
        let text = "254:0 rbps=max wbps=1048576 riops=max wiops=400\n";
        let (_place, v2) = write_group(CgroupVersion::V2, &[(V2_LIMIT, text)]);
        for group in [v1, v2] {
            assert_eq!(group.read_limits(DEVICE).unwrap(), (ReadLimit::default(), limit));
        }
    }

    #[test]
    fn of_two_limits_the_smaller_holds() {
        let reads_only = ReadLimit { reads_per_second: Some(500), read_bytes_per_second: None };
        assert_eq!(GP3.and(reads_only), ReadLimit { reads_per_second: Some(500), ..GP3 });
        assert_eq!(reads_only.and(ReadLimit::default()), reads_only);
    }

    #[test]
    fn another_device_says_nothing() {
        let device = DeviceNumber { major: 25, minor: 4 };
        let files = LIMITS.map(|(file, _)| (file, "254:0 3000\n"));
        let (_place, group) = write_group(CgroupVersion::V1, &files);
        assert_eq!(group.read_limits(device).unwrap().0, ReadLimit::default());
        let (_place, group) = write_group(CgroupVersion::V2, &[(V2_STATISTICS, "254:0 3000\n")]);
        assert_eq!(group.read_usage(device).unwrap(), ReadUsage::default());
    }
}
