//! How much memory there is to load things into.

use std::fs;
use std::path::{Path, PathBuf};

use procfs::{Current as _, Meminfo};
use serde::Serialize;

use super::Error;
use super::cgroup::read_memory_limit;
use super::process::read_details;
use crate::units::Bytes;

/// The machine's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    pub total_bytes: Bytes,
    /// What can be used without swapping, if the page cache gives way (`MemAvailable`).
    pub available_bytes: Bytes,
}

/// The machine's memory now.
pub fn read_memory() -> Result<Memory, Error> {
    let found = Meminfo::current().map_err(|error| Error::proc("read /proc/meminfo", error))?;
    // MemAvailable is older than any kernel that PostgreSQL 13 runs on; some containers hide it.
    let available = found.mem_available.unwrap_or(found.mem_free + found.cached);
    Ok(Memory { total_bytes: Bytes(found.mem_total), available_bytes: Bytes(available) })
}

/// What the machine's memory holds now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryUse {
    pub available_bytes: Bytes,
    /// Bytes of files in the page cache, shared memory included.
    pub cached_bytes: Bytes,
    /// Bytes of files that were changed: not yet on their way to a disk, and below it those on their way.
    pub dirty_bytes: Bytes,
    pub writeback_bytes: Bytes,
}

/// What the machine's memory holds now.
pub fn read_memory_use() -> Result<MemoryUse, Error> {
    let found = Meminfo::current().map_err(|error| Error::proc("read /proc/meminfo", error))?;
    Ok(MemoryUse {
        available_bytes: Bytes(found.mem_available.unwrap_or(found.mem_free + found.cached)),
        cached_bytes: Bytes(found.cached),
        dirty_bytes: Bytes(found.dirty),
        writeback_bytes: Bytes(found.writeback),
    })
}

/// Whose memory is the narrower.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MemoryBound {
    Machine,
    Cgroup,
}

/// What can be loaded and stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadableMemory {
    pub bytes: Bytes,
    pub bound: MemoryBound,
}

/// What can be loaded for process `pid` and stay: what the machine has and what the process's cgroup allows, if other page
/// cache gives way. Page cache of the loaded files themselves, where it is there already, is part of it.
pub fn read_loadable_memory(pid: u32) -> Result<LoadableMemory, Error> {
    let machine = LoadableMemory { bytes: read_memory()?.available_bytes, bound: MemoryBound::Machine };
    // Where no cgroup can be read, none limits what this process can see.
    let room = read_memory_limit(pid).ok().flatten().map(|limit| limit.room_bytes());
    let cgroup = room.map(|bytes| LoadableMemory { bytes, bound: MemoryBound::Cgroup });
    Ok(cgroup.filter(|cgroup| cgroup.bytes < machine.bytes).unwrap_or(machine))
}

/// What can be loaded for process `pid` without anything else giving way, and the limit that its cgroup has, if any.
pub fn read_unused_memory(pid: u32) -> Result<(Bytes, Option<Bytes>), Error> {
    let found = Meminfo::current().map_err(|error| Error::proc("read /proc/meminfo", error))?;
    let limit = read_memory_limit(pid).ok().flatten();
    let unused = limit.map(|limit| limit.limit_bytes.0.saturating_sub(limit.used_bytes.0));
    let unused = unused.into_iter().chain([found.mem_free]).min().unwrap_or_default();
    Ok((Bytes(unused), limit.map(|limit| limit.limit_bytes)))
}

/// Bytes of the shared memory of process `pid`, `size` large, that nobody has touched yet: they are taken of what can be loaded when
/// somebody does. At least so many, for all shared memory that is charged with it is taken for this one. None of huge pages, which are
/// set aside from the start.
pub fn read_untouched_shared_memory(pid: u32, size: Bytes) -> Result<Bytes, Error> {
    if read_details(pid)?.hugetlbpages.is_some_and(|kilobytes| kilobytes > 0) {
        return Ok(Bytes(0));
    }
    let found = Meminfo::current().map_err(|error| Error::proc("read /proc/meminfo", error))?;
    let of_machine = found.shmem.unwrap_or_default();
    let touched = read_memory_limit(pid).ok().flatten().map_or(of_machine, |limit| limit.shared_bytes.0);
    Ok(Bytes(size.0.saturating_sub(touched)))
}

/// Does the kernel take memory away that was idle for a while, though none is short? A DAMON scheme does, which hosts of
/// virtual machines like to set up (Documentation/admin-guide/mm/damon/usage.rst), and so does the module damon_reclaim.
/// What may not be read is taken for absent.
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

#[cfg(test)]
mod tests {
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
        let holds = read_memory_use().unwrap();
        assert!(holds.cached_bytes.0 > 0 && holds.cached_bytes < memory.total_bytes, "{holds:?}");
        let loadable = read_loadable_memory(std::process::id()).unwrap();
        assert!(loadable.bytes.0 > 0 && loadable.bytes <= memory.total_bytes, "{loadable:?}");
    }
}
