//! The machine that a restore runs on, or a fake one.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::warm::traffic::Traffic;
use crate::warm::{Control, Room, Watcher};
use ::host::linux::Error;
use ::host::linux::cgroup::{join_memory_of, memory_directory_of, move_memory_to, read_memory_limit};
use ::host::linux::memory::{LoadableMemory, pages_out_idle, read_loadable_memory};
use ::host::linux::page_cache::PageCache;
use ::host::linux::process::volunteer_for_oom;

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

/// Schemes that page out what is idle are set to 30 s and more where they were seen; the module's default is 120 s.
const IDLE_AGE: Duration = Duration::from_secs(20);

/// The memory that a process may fill.
#[derive(Clone, Copy, Debug)]
pub struct SystemRoom {
    /// Whom what is loaded is charged to.
    pid: u32,
    pages_out_idle: bool,
}

impl Room for SystemRoom {
    fn read_room(&self) -> Option<LoadableMemory> {
        read_loadable_memory(self.pid).ok()
    }

    fn idle_age(&self) -> Option<Duration> {
        self.pages_out_idle.then_some(IDLE_AGE)
    }
}

/// Sees to it that what is loaded is charged where it is used, to the server that runs as `postmaster_pid`, and says what
/// room there is for it. Of a dry run nothing is charged. Also returns what to tell the user when this process is charged in
/// the server's stead.
pub fn choose_room(postmaster_pid: Option<u32>, is_dry_run: bool) -> (SystemRoom, Option<String>) {
    let own_pid = std::process::id();
    let (pid, remark) = match postmaster_pid {
        Some(pid) if is_dry_run => (pid, None),
        Some(pid) => (own_pid, join_memory_cgroup(pid)),
        None => (own_pid, None),
    };
    (SystemRoom { pid, pages_out_idle: pages_out_idle() }, remark)
}

/// This process, lent to the server's memory cgroup for as long as it loads something there. What else it comes to use meanwhile is taken from the
/// server's page cache.
#[derive(Debug)]
pub struct Lent {
    pub room: SystemRoom,
    /// What to tell the user when this process is charged in the server's stead.
    pub remark: Option<String>,
    home: Option<PathBuf>,
}

impl Lent {
    /// To the server that runs as `postmaster_pid`; to nobody where there is none.
    pub fn to(postmaster_pid: Option<u32>) -> Lent {
        let home = postmaster_pid.and_then(|_| memory_directory_of(std::process::id()).ok());
        let (room, remark) = choose_room(postmaster_pid, false);
        Lent { room, remark, home }
    }

    /// Whoever is started from now on is not charged to the server either.
    pub fn go_home(self) -> Result<(), Error> {
        match self.home {
            Some(home) if memory_directory_of(std::process::id())? != home => move_memory_to(&home),
            _ => Ok(()),
        }
    }
}

/// Joins the server's memory cgroup. Only where memory is limited does it matter who is charged.
pub fn join_memory_cgroup(postmaster_pid: u32) -> Option<String> {
    let own = read_memory_limit(std::process::id()).ok().flatten();
    let of_server = read_memory_limit(postmaster_pid).ok().flatten();
    if own.is_none() && of_server.is_none() {
        return None;
    }
    // In there, what memory runs out for is the server: it is not to be ended in our stead.
    volunteer_for_oom();
    let error = join_memory_of(postmaster_pid).err()?;
    Some(format!(
        "what is loaded is charged to pgthaw's own memory cgroup and may go with it: {error} (run pgthaw as root, or inside the server's cgroup)"
    ))
}
