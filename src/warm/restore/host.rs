//! The machine that a restore runs on, or a fake one.

use std::fmt;
use std::sync::Arc;

use crate::linux::cgroup::{join_memory_of, read_memory_limit};
use crate::linux::memory::read_loadable_bytes;
use crate::linux::page_cache::PageCache;
use crate::units::Bytes;
use crate::warm::traffic::Traffic;
use crate::warm::{Control, Room, Watcher};

/// What a restore acts on and is watched by.
#[derive(Clone)]
pub struct Host {
    pub page_cache: Arc<dyn PageCache>,
    pub room: Arc<dyn Room>,
    pub traffic: Arc<dyn Traffic>,
    pub control: Arc<Control>,
    pub watcher: Arc<dyn Watcher>,
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host").field("control", &self.control).finish_non_exhaustive()
    }
}

/// The memory that a process may fill: the server's, or this one's when the server does not run.
#[derive(Clone, Copy, Debug)]
pub struct SystemRoom {
    pub pid: u32,
}

impl Room for SystemRoom {
    fn read_room(&self) -> Option<Bytes> {
        read_loadable_bytes(self.pid).ok()
    }
}

/// Makes sure that what is loaded is charged where it is used. Only where memory is limited does it matter who is
/// charged; returns what to tell the user when this process is charged in the server's stead.
pub fn join_memory_cgroup(postmaster_pid: u32) -> Option<String> {
    let own = read_memory_limit(std::process::id()).ok().flatten();
    let of_server = read_memory_limit(postmaster_pid).ok().flatten();
    if own.is_none() && of_server.is_none() {
        return None;
    }
    let error = join_memory_of(postmaster_pid).err()?;
    Some(format!(
        "what is loaded is charged to pgthaw's own memory cgroup and may go with it: {error} (run pgthaw as root, or inside the server's cgroup)"
    ))
}
