//! Servers in other mount and pid namespaces, such as containers.
//!
//! A container is untrusted: its paths are resolved below its root directory, and a server counts as found only if its
//! process works in the directory that has the cluster's identifier.

use std::os::fd::{AsFd as _, AsRawFd as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use host::files::{Directory, SMALL_FILE_BYTES_MAX};
use procfs::ProcessCGroup;
use procfs::process::{Process, all_processes};

use super::data_directory::{number_of, pid_of, read_age};
use super::{DataDirectory, Error, Result};
use host::linux::process::read_parent;

/// Programs that print the number of a container's first process, with their options.
const RUNTIMES: [(&str, &[&str]); 3] = [
    ("docker", &["inspect", "--type", "container", "--format", "{{.State.Pid}}"]),
    ("podman", &["inspect", "--type", "container", "--format", "{{.State.Pid}}"]),
    ("crictl", &["inspect", "--output", "go-template", "--template", "{{.info.pid}}"]),
];

/// Docker prints this many digits of a container's identifier.
const SHORT_IDENTIFIER: usize = 12;

/// Maximum age of the backend of a new connection.
const BACKEND_AGE_MAX: Duration = Duration::from_secs(20);

impl DataDirectory {
    /// Finds a server by the name or identifier of its container, or by the number of one of its processes.
    ///
    /// # Errors
    /// `ContainerMissing` without such a container, `NoServerInContainer` if no server runs in it, or if this user may not
    /// look into it.
    pub fn of_container(container: &str) -> Result<DataDirectory> {
        let number = container.parse().ok().filter(|pid: &u32| Path::new(&format!("/proc/{pid}")).exists());
        let found = number.or_else(|| RUNTIMES.iter().find_map(|(program, options)| ask(program, options, container)));
        let Some(pid) = found.or_else(|| find_in_cgroup(container)) else {
            return Err(Error::ContainerMissing { container: container.to_owned() });
        };
        // A backend's parent is the server.
        let relatives = [pid].into_iter().chain(read_parent(pid));
        let found = relatives.chain(pids_beside(pid)).find_map(open_of_process);
        found.ok_or_else(|| Error::NoServerInContainer { container: container.to_owned(), pid })
    }
}

impl DataDirectory {
    /// The same directory as its server sees it: in a container, links of tablespaces lead to the container's files.
    pub fn as_seen_by_its_server(self) -> DataDirectory {
        let contained = self.find_postmaster().filter(|server| !server.is_here);
        contained.and_then(|server| open_of_process(server.pid)).unwrap_or(self)
    }
}

fn ask(program: &str, options: &[&str], container: &str) -> Option<u32> {
    let mut command = Command::new(program);
    let output = command.args(options).args(["--", container]).stdin(Stdio::null()).output().ok()?;
    // A stopped container has number 0.
    str::from_utf8(&output.stdout).ok()?.trim().parse().ok().filter(|pid| *pid > 0)
}

/// A process whose cgroup is named after the container, such as `docker-IDENTIFIER.scope` or `machine-NAME.scope`.
fn find_in_cgroup(container: &str) -> Option<u32> {
    let is_named = |name: &str| {
        let name = name.strip_suffix(".scope").unwrap_or(name);
        let before = name.strip_suffix(container);
        before.is_some_and(|before| before.is_empty() || before.ends_with(['-', '.', ':']))
            || container.len() >= SHORT_IDENTIFIER && name.split('-').any(|word| word.starts_with(container))
    };
    let is_in = |group: ProcessCGroup| group.pathname.split('/').any(is_named);
    let processes = all_processes().ok()?.flatten();
    let mut found = processes.filter(|process| process.cgroups().is_ok_and(|groups| groups.into_iter().any(is_in)));
    found.find_map(|process| pid_of(&process))
}

/// Processes of the same pid namespace; none if that is pgthaw's own.
fn pids_beside(pid: u32) -> Vec<u32> {
    let namespace = |process: &str| std::fs::read_link(format!("/proc/{process}/ns/pid")).ok();
    let wanted = namespace(&pid.to_string()).filter(|wanted| namespace("self").is_some_and(|own| own != *wanted));
    let Some((wanted, processes)) = wanted.zip(all_processes().ok()) else { return Vec::new() };
    let pids = processes.flatten().filter_map(|process| pid_of(&process));
    pids.filter(|pid| namespace(&pid.to_string()).as_ref() == Some(&wanted)).collect()
}

/// `None` unless the process is a postmaster.
fn open_of_process(pid: u32) -> Option<DataDirectory> {
    let used = Directory::open(format!("/proc/{pid}/cwd").as_ref()).ok()?;
    let text = used.read_text_at_most("postmaster.pid", SMALL_FILE_BYTES_MAX).ok()?;
    let directory = DataDirectory::of_server(pid, Path::new(text.lines().nth(1)?)).ok()?;
    (directory.find_postmaster_pid() == Some(pid)).then_some(directory)
}

/// Postmaster of a new connection's backend, which has number `backend` in its pid namespace. `None` also if several
/// could be meant: a primary and its standby have the same identifier, and their backends may have the same number.
pub(super) fn find_postmaster_of(backend: i32, path: &Path, identifier: u64) -> Option<u32> {
    let is_new = |pid: u32| read_age(pid).is_some_and(|age| age < BACKEND_AGE_MAX);
    let parent = |process: Process| {
        let stat = process.stat().ok().filter(|stat| matches!(&*stat.comm, "postgres" | "postmaster"))?;
        let is_it = number_of(&process) == Some(backend) && pid_of(&process).is_some_and(is_new);
        u32::try_from(stat.ppid).ok().filter(|_| is_it)
    };
    let is_server = |pid: &u32| {
        DataDirectory::of_server(*pid, path).is_ok_and(|directory| {
            directory.system_identifier == identifier && directory.find_postmaster_pid() == Some(*pid)
        })
    };
    let mut found = all_processes().ok()?.flatten().filter_map(parent).filter(is_server);
    let first = found.next()?;
    found.next().is_none().then_some(first)
}

/// The directory of a container's sockets, by a path that stays valid while pgthaw runs.
pub(super) fn open_socket_directory(postmaster: u32, path: &Path) -> Option<PathBuf> {
    let root = Directory::open(format!("/proc/{postmaster}/root").as_ref()).ok()?;
    let directory = root.open_within(path).ok()?;
    let path = format!("{OPEN_DIRECTORIES}{}", directory.as_fd().as_raw_fd());
    // Later connections open it again.
    std::mem::forget(directory);
    Some(path.into())
}

/// A user's number in the user namespace of a process (user_namespaces(7)); the same without a mapping.
pub(super) fn uid_inside(pid: u32, uid: u32) -> u32 {
    let map = std::fs::read_to_string(format!("/proc/{pid}/uid_map")).unwrap_or_default();
    let mapped = map.lines().find_map(|line| {
        let mut numbers = line.split_whitespace().map(str::parse::<u32>);
        let (inside, outside, count) = (numbers.next()?.ok()?, numbers.next()?.ok()?, numbers.next()?.ok()?);
        let at = uid.checked_sub(outside).filter(|at| *at < count)?;
        inside.checked_add(at)
    });
    mapped.unwrap_or(uid)
}

/// Place of directories that this process opened.
pub(super) const OPEN_DIRECTORIES: &str = "/proc/self/fd/";
