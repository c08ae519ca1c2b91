//! `postmaster.pid`: the server that runs in a data directory, and where it listens.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use procfs::Current as _;
use procfs::process::{Process, all_processes};

use host::files::{SMALL_FILE_BYTES_MAX, Tree};

/// A running server's own process, as its `postmaster.pid` describes it. See `src/include/utils/pidfile.h`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Postmaster {
    pub pid: u32,
    pub port: Option<u16>,
    /// The first socket directory; `None` when it has no socket.
    pub socket_directory: Option<PathBuf>,
    /// The first address it listens on; `None` when it has none.
    pub listen_address: Option<String>,
    /// When it was started, by the clock as it was then: see [`Postmaster::read_start`].
    pub started_at: Option<Timestamp>,
}

impl Postmaster {
    /// The server of this data directory. `None` when there is no file, or when the process that it names is gone, or
    /// is not a server of this directory: the file stays after a crash, its number is reused, and the number of a
    /// server in a container means another process here.
    pub(super) fn read(data_directory: &Tree) -> Option<Postmaster> {
        let postmaster = read_file(data_directory)?;
        is_server_of(postmaster.pid, data_directory.path()).then_some(postmaster)
    }

    /// The pid, as it is here, of the server of this data directory: also of one in a pid namespace below this one, as a container's is.
    /// Its `postmaster.pid` has another pid and addresses that may lead somewhere else here, so the pid is all there is.
    pub(super) fn find_pid(data_directory: &Tree) -> Option<u32> {
        let Postmaster { pid, .. } = read_file(data_directory)?;
        let path = data_directory.path();
        if is_server_of(pid, path) { Some(pid) } else { find_in_namespaces(pid, path) }
    }

    /// When it was started. The file has the time by the clock as it was then, in whole seconds; the age of the process knows
    /// no clock that was set since.
    pub fn read_start(&self) -> Option<Timestamp> {
        read_start(self.pid).or(self.started_at)
    }
}

fn read_file(data_directory: &Tree) -> Option<Postmaster> {
    let text = data_directory.read_at_most("postmaster.pid", SMALL_FILE_BYTES_MAX).ok()?;
    parse(&String::from_utf8_lossy(&text))
}

/// Did the process `postmaster` start the one that calls itself `number`, in its own pid namespace or in one below this one?
pub(super) fn is_child(postmaster: u32, number: i32) -> bool {
    let is_it = |process: &Process| {
        let is_direct = process.stat().is_ok_and(|stat| u32::try_from(stat.ppid) == Ok(postmaster));
        is_direct && number_of(process) == Some(number)
    };
    // Outside of containers this is all that is looked at.
    Process::new(number).is_ok_and(|process| is_it(&process))
        || all_processes()
            .is_ok_and(|mut processes| processes.any(|process| process.is_ok_and(|process| is_it(&process))))
}

/// What a process calls itself (`NSpid` of proc(5)): its pid, unless it is in a pid namespace below this one.
fn number_of(process: &Process) -> Option<i32> {
    process.status().ok()?.nspid?.last().copied()
}

/// The process that calls itself `number` in a pid namespace below this one and works in this directory.
fn find_in_namespaces(number: u32, directory: &Path) -> Option<u32> {
    let place = |path: &Path| fs::metadata(path).ok().map(|found| (found.dev(), found.ino()));
    let wanted = place(directory)?;
    let is_it = |process: &Process| {
        let called = number_of(process).filter(|called| *called != process.pid());
        called.is_some_and(|called| u32::try_from(called) == Ok(number))
            && place(&PathBuf::from(format!("/proc/{}/cwd", process.pid()))) == Some(wanted)
    };
    let found = all_processes().ok()?.flatten().find(is_it)?;
    u32::try_from(found.pid()).ok()
}

pub(super) fn parse(text: &str) -> Option<Postmaster> {
    let mut lines = text.lines().map(str::trim);
    // A standalone backend writes a negative number.
    let pid = lines.next()?.parse().ok()?;
    let [_directory, start, port, socket, address] =
        std::array::from_fn(|_| lines.next().filter(|line| !line.is_empty()));
    Some(Postmaster {
        pid,
        port: port.and_then(|port| port.parse().ok()),
        socket_directory: socket.map(PathBuf::from),
        listen_address: address.filter(|address| *address != "*").map(str::to_owned),
        started_at: start.and_then(|start| Timestamp::from_second(start.parse().ok()?).ok()),
    })
}

/// When a process was started: now, less its age.
fn read_start(pid: u32) -> Option<Timestamp> {
    let process = Process::new(i32::try_from(pid).ok()?).ok()?;
    let since_boot = process.stat().ok()?.starttime as f64 / procfs::ticks_per_second() as f64;
    let age = procfs::Uptime::current().ok()?.uptime - since_boot;
    Timestamp::now().checked_sub(Duration::try_from_secs_f64(age).ok()?).ok()
}

/// A server's working directory is its data directory. Only its owner and root may see that; for others the program's
/// name has to do.
fn is_server_of(pid: u32, data_directory: &Path) -> bool {
    let process = PathBuf::from(format!("/proc/{pid}"));
    match fs::read_link(process.join("cwd")) {
        Ok(directory) => directory == data_directory,
        Err(_) => {
            fs::read_to_string(process.join("comm")).is_ok_and(|name| matches!(name.trim(), "postgres" | "postmaster"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_a_server_writes() {
        let text =
            "4242\n/var/lib/postgresql/15/main\n1700000000\n5433\n/var/run/postgresql\nlocalhost\n  6 0\nready   \n";
        let postmaster = parse(text).unwrap();
        assert_eq!((postmaster.pid, postmaster.port), (4242, Some(5433)));
        assert_eq!(postmaster.socket_directory, Some(PathBuf::from("/var/run/postgresql")));
        assert_eq!(postmaster.listen_address.as_deref(), Some("localhost"));
        assert_eq!(postmaster.started_at, Timestamp::from_second(1_700_000_000).ok());
    }

    #[test]
    fn a_process_was_started_before_now() {
        let age = Timestamp::now().duration_since(read_start(std::process::id()).unwrap());
        // It is some moments old, and has run for no day.
        assert!((-1.0..86_400.0).contains(&age.as_secs_f64()), "{age:?}");
    }

    #[test]
    fn a_server_that_is_starting_has_no_port_yet() {
        let postmaster = parse("4242\n/data\n1700000000\n").unwrap();
        assert_eq!((postmaster.pid, postmaster.port, postmaster.socket_directory), (4242, None, None));
        assert_eq!(parse(""), None);
        assert_eq!(parse("-4242\n/data\n"), None);
    }

    #[test]
    fn a_process_that_is_no_server_does_not_run_here() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().canonicalize().unwrap();
        fs::write(path.join("postmaster.pid"), format!("{}\n/data\n1\n5432\n", std::process::id())).unwrap();
        let tree = Tree::open(&path, &[]).unwrap();
        assert_eq!(Postmaster::read(&tree), None);
        fs::write(path.join("postmaster.pid"), "4194305\n/data\n1\n5432\n").unwrap();
        assert_eq!(Postmaster::read(&tree), None);
    }
}
