//! The memory to load into, and the disk that may be slowed down.

use super::host_target::HostTarget;
use crate::failure::Capability;
use crate::linux::block_device::{BlockDevice, read_block_device};
use crate::linux::cgroup::{DiskLimit, ReadLimit, memory_directory_of, read_memory_limit};
use crate::linux::memory::{read_loadable_memory, read_memory};
use crate::linux::{Error, process};
use crate::units::Bytes;

/// So fast that nobody is slowed down while the limit is tried.
const HARMLESS: ReadLimit =
    ReadLimit { reads_per_second: Some(1_000_000_000), read_bytes_per_second: Some(Bytes(1_000_000_000_000)) };

/// Is what pgthaw loads charged to a cgroup that has as much room as the server's?
pub fn check_memory(target: &HostTarget) -> Capability {
    const GROUP: &str = "page cache";
    const NAME: &str = "memory";
    let own_pid = std::process::id();
    let measured = read_memory().and_then(|memory| Ok((memory, read_loadable_memory(own_pid)?.bytes)));
    let (memory, own) = match measured {
        Ok(measured) => measured,
        Err(error) => return Capability::failed(GROUP, NAME, &error),
    };
    let server_pid = target.server_pid.filter(|pid| process::is_alive(*pid));
    if let Some((pid, limit)) = server_pid.and_then(|pid| Some((pid, narrower_limit(pid)?))) {
        let detail = format!("pgthaw's cgroup allows {limit} of page cache, less than the server's does");
        let remedy = memory_directory_of(pid).map_or_else(
            |error| error.to_string(),
            |directory| {
                format!("`echo $$ > {}/cgroup.procs` (as root), then run pgthaw in that shell", directory.display())
            },
        );
        return Capability::no(GROUP, NAME, detail, remedy);
    }
    let of_total = format!("{own} of {} can be loaded into", memory.total_bytes);
    let detail = match read_memory_limit(own_pid) {
        Ok(Some(limit)) => format!("{of_total}; the cgroup's limit is {}", limit.limit_bytes),
        Ok(None) => format!("{of_total}; no cgroup limits it"),
        Err(_) => format!("{of_total}; cgroups are not visible"),
    };
    Capability::yes(GROUP, NAME, detail)
}

/// What this process may load, when the server may load more.
fn narrower_limit(server_pid: u32) -> Option<Bytes> {
    let own = read_memory_limit(std::process::id()).ok()??;
    let server = read_memory_limit(server_pid).ok()?;
    let is_narrower = server.is_none_or(|server| server.limit_bytes > own.limit_bytes);
    is_narrower.then(|| own.room_bytes())
}

/// Which disk holds the data?
pub fn check_device(target: &HostTarget) -> Capability {
    const NAME: &str = "device";
    match device_of(target) {
        Ok(disk) => {
            let kind = if disk.is_rotational { "rotational (so says many a virtual disk)" } else { "not rotational" };
            let detail = format!(
                "{} ({}), {kind}, read-ahead {}, largest request {}",
                disk.name, disk.number, disk.read_ahead_bytes, disk.max_request_bytes
            );
            Capability::yes(GROUP_DISK, NAME, detail)
        }
        Err(error) => Capability::failed(GROUP_DISK, NAME, &error),
    }
}

const GROUP_DISK: &str = "disk";

/// Can the disk be made slower for some processes, as `bench --disk` does?
pub fn check_disk_limit(target: &HostTarget) -> Capability {
    const NAME: &str = "disk-limit";
    let tried = DiskLimit::available().and_then(|version| {
        let disk = device_of(target)?;
        DiskLimit::create(disk.number, HARMLESS)?.remove()?;
        Ok((version, disk))
    });
    match tried {
        Ok((version, disk)) => {
            let detail = format!("cgroup {} took a limit for {} ({})", version.name(), disk.name, disk.number);
            Capability::yes(GROUP_DISK, NAME, detail)
        }
        Err(error) => Capability::failed(GROUP_DISK, NAME, &error),
    }
}

/// The disk of the data; without a data directory the one where scratch clusters are made.
fn device_of(target: &HostTarget) -> Result<BlockDevice, Error> {
    match &target.data_directory {
        Some(directory) => read_block_device(directory),
        None => read_block_device("/var/tmp".as_ref()),
    }
}
