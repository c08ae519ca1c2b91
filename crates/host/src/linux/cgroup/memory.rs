//! What memory a process's cgroup allows. Page cache is charged to the cgroup of the process that reads it in.

use std::fs;
use std::path::{Path, PathBuf};

use super::hierarchy::{CgroupVersion, Controller, Hierarchy};
use crate::linux::Error;
use crate::units::Bytes;

/// The cgroup limit that leaves a process the least room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryLimit {
    pub limit_bytes: Bytes,
    /// Charged to the cgroup that has the limit: anonymous memory, page cache, the kernel's own.
    pub used_bytes: Bytes,
    /// The page cache among it, which gives way when something else is loaded.
    pub file_bytes: Bytes,
    /// The shared memory among it.
    pub shared_bytes: Bytes,
}

impl MemoryLimit {
    /// Bytes that can be loaded without going over the limit, if the page cache of the cgroup gives way.
    pub fn room_bytes(self) -> Bytes {
        let firm = self.used_bytes.0.saturating_sub(self.file_bytes.0);
        Bytes(self.limit_bytes.0.saturating_sub(firm))
    }
}

/// The limit that binds a process: its own cgroup's or the one of a cgroup above it. `None` when there is none.
pub fn read_memory_limit(pid: u32) -> Result<Option<MemoryLimit>, Error> {
    let hierarchy = Hierarchy::find(Controller::Memory)?;
    let directory = hierarchy.directory_of(pid)?;
    let groups = directory.ancestors().take_while(|group| group.starts_with(&hierarchy.mount_point));
    let limits = groups.filter_map(|group| read_group(group, hierarchy.version));
    Ok(limits.min_by_key(|limit| limit.room_bytes()))
}

/// The directory of the cgroup that a process's memory is charged to.
pub fn memory_directory_of(pid: u32) -> Result<PathBuf, Error> {
    Hierarchy::find(Controller::Memory)?.directory_of(pid)
}

/// Moves this process into the memory cgroup of another one, so that what it loads is charged there and stays for as
/// long as that cgroup can hold it.
pub fn join_memory_of(pid: u32) -> Result<(), Error> {
    let hierarchy = Hierarchy::find(Controller::Memory)?;
    let target = hierarchy.directory_of(pid)?;
    if hierarchy.directory_of(std::process::id())? == target {
        return Ok(());
    }
    move_memory_to(&target)
}

/// Moves this process into the memory cgroup of this directory.
pub fn move_memory_to(directory: &Path) -> Result<(), Error> {
    let members = directory.join("cgroup.procs");
    fs::write(&members, std::process::id().to_string()).map_err(|error| Error::cgroup("move into", &members, error))
}

/// The limit of one cgroup; `None` when it has none (the root of version 2 has not even the files).
fn read_group(group: &Path, version: CgroupVersion) -> Option<MemoryLimit> {
    // The words of version 1 that begin with total_ count the cgroups below, as those of version 2 do.
    let (limit_file, used_file, prefix) = match version {
        CgroupVersion::V1 => ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_"),
        CgroupVersion::V2 => ("memory.max", "memory.current", ""),
    };
    let read_number = |name: &str| fs::read_to_string(group.join(name)).ok()?.trim().parse::<u64>().ok();
    // Above memory.high, which only version 2 has, the kernel takes back what is loaded as it does at the limit.
    let limits = [limit_file, "memory.high"].into_iter().filter_map(read_number);
    // Version 2 says "max", which is no number; version 1 a number beyond any machine.
    let limit = limits.filter(|limit| *limit < 1 << 62).min()?;
    let statistics = fs::read_to_string(group.join("memory.stat")).ok()?;
    let statistic = |word: &str| -> Option<u64> {
        let value = |line: &str| line.strip_prefix(prefix)?.strip_prefix(word)?.strip_prefix(' ')?.parse().ok();
        statistics.lines().find_map(value)
    };
    Some(MemoryLimit {
        limit_bytes: Bytes(limit),
        used_bytes: Bytes(read_number(used_file)?),
        file_bytes: Bytes(["active_file", "inactive_file"].into_iter().filter_map(statistic).sum()),
        shared_bytes: Bytes(statistic("shmem").unwrap_or_default()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write_group(files: &[(&str, &str)]) -> tempfile::TempDir {
        let group = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::write(group.path().join(name), text).unwrap();
        }
        group
    }

    #[test]
    fn page_cache_gives_way() {
        let group = write_group(&[
            ("memory.max", "1000\n"),
            ("memory.current", "900\n"),
            (
                "memory.stat",
                "anon 100\nfile 800\nshmem 60\nactive_file 500\ninactive_file 200\nworkingset_refault_file 7\n",
            ),
        ]);
        let limit = read_group(group.path(), CgroupVersion::V2).unwrap();
        assert_eq!(limit.shared_bytes, Bytes(60));
        assert_eq!(limit.file_bytes, Bytes(700));
        assert_eq!(limit.room_bytes(), Bytes(800));
    }

    #[test]
    fn what_is_taken_back_counts_as_a_limit() {
        let files = [("memory.max", "max\n"), ("memory.current", "100\n"), ("memory.stat", "")];
        let group = write_group(&[&files[..], &[("memory.high", "600\n")]].concat());
        assert_eq!(read_group(group.path(), CgroupVersion::V2).unwrap().limit_bytes, Bytes(600));
    }

    #[test]
    fn version_1_counts_the_cgroups_below() {
        let group = write_group(&[
            ("memory.limit_in_bytes", "1000\n"),
            ("memory.usage_in_bytes", "1000\n"),
            ("memory.stat", "shmem 2\nactive_file 1\ntotal_shmem 7\ntotal_active_file 300\ntotal_inactive_file 0\n"),
        ]);
        let limit = read_group(group.path(), CgroupVersion::V1).unwrap();
        assert_eq!((limit.room_bytes(), limit.shared_bytes), (Bytes(300), Bytes(7)));
    }

    #[test]
    fn no_limit_is_none() {
        let group = write_group(&[("memory.max", "max\n"), ("memory.current", "9\n"), ("memory.stat", "")]);
        assert_eq!(read_group(group.path(), CgroupVersion::V2), None);
        let group = write_group(&[("memory.limit_in_bytes", "9223372036854771712\n"), ("memory.stat", "")]);
        assert_eq!(read_group(group.path(), CgroupVersion::V1), None);
        assert_eq!(read_group(Path::new("/nowhere"), CgroupVersion::V2), None);
    }
}
