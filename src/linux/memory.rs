//! How much memory there is to load things into.

use procfs::{Current as _, Meminfo};

use super::Error;
use super::cgroup::read_memory_limit;
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

/// Bytes that can be loaded for process `pid` and stay: what the machine has and what the process's cgroup allows,
/// if other page cache gives way. Page cache of the loaded files themselves, where it is there already, is part of it.
pub fn read_loadable_bytes(pid: u32) -> Result<Bytes, Error> {
    let available = read_memory()?.available_bytes;
    // Where no cgroup can be read, none limits what this process can see.
    let room = read_memory_limit(pid).ok().flatten().map(|limit| limit.room_bytes());
    Ok(room.map_or(available, |room| room.min(available)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_some_memory() {
        let memory = read_memory().unwrap();
        assert!(memory.total_bytes > memory.available_bytes, "{memory:?}");
        let loadable = read_loadable_bytes(std::process::id()).unwrap();
        assert!(loadable.0 > 0 && loadable <= memory.total_bytes, "{loadable}");
    }
}
