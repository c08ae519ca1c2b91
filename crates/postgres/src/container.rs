//! Servers in other mount and pid namespaces, such as containers.
//!
//! A container is untrusted: its paths are resolved below its root directory, and a server counts as found only if its
//! process works in the directory that has the cluster's identifier.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use host::files::{Directory, SMALL_FILE_BYTES_MAX, read_text_at_most};
use procfs::ProcessCGroup;
use procfs::process::{Process, all_processes};

use super::data_directory::{all_pids, read_age};
use super::{DataDirectory, Error, Result, SystemUser};
use host::linux::process::{read_own_number, read_parent};

/// Programs that print the number of a container's first process and the container's identifier, with their options.
const RUNTIMES: [(&str, &[&str]); 3] = [
    ("docker", &["inspect", "--type", "container", "--format", "{{.State.Pid}} {{.Id}}"]),
    ("podman", &["inspect", "--type", "container", "--format", "{{.State.Pid}} {{.Id}}"]),
    ("crictl", &["inspect", "--output", "go-template", "--template", "{{.info.pid}} {{.status.id}}"]),
];

/// Beginnings of cgroup names, before a container's identifier or name.
const OF_IDENTIFIERS: [&str; 5] = ["docker-", "libpod-", "crio-", "cri-containerd-", ""];
const OF_NAMES: [&str; 3] = ["machine-", "lxc.payload.", ""];

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

    /// The directory as its server sees it: in a container, links of tablespaces lead to the container's files.
    pub fn as_seen_by_its_server(self) -> DataDirectory {
        let contained = self.find_postmaster().filter(|server| !server.is_here);
        contained.and_then(|server| open_of_process(server.pid)).unwrap_or(self)
    }
}

fn ask(program: &str, options: &[&str], container: &str) -> Option<u32> {
    let mut command = Command::new(program);
    let output = command.args(options).args(["--", container]).stdin(Stdio::null()).output().ok()?;
    let (pid, identifier) = str::from_utf8(&output.stdout).ok()?.trim().split_once(' ')?;
    // The program may report another machine's container.
    let groups = read_text_at_most(format!("/proc/{pid}/cgroup").as_ref(), SMALL_FILE_BYTES_MAX).ok()?;
    pid.parse().ok().filter(|_| identifier.len() >= SHORT_IDENTIFIER && groups.contains(identifier))
}

/// A process whose cgroup is named after the container. Skips cgroups of users, because users choose their names.
fn find_in_cgroup(container: &str) -> Option<u32> {
    let is_named = |name: &str| {
        let name = name.strip_suffix(".scope").unwrap_or(name);
        let rest = |beginning: &&str| name.strip_prefix(*beginning);
        OF_NAMES.iter().filter_map(rest).any(|rest| rest == container)
            || container.len() >= SHORT_IDENTIFIER
                && OF_IDENTIFIERS.iter().filter_map(rest).any(|rest| rest.starts_with(container))
    };
    let is_in =
        |group: ProcessCGroup| !group.pathname.starts_with("/user.slice") && group.pathname.split('/').any(is_named);
    let processes = all_processes().ok()?.flatten();
    let mut found = processes.filter(|process| process.cgroups().is_ok_and(|groups| groups.into_iter().any(is_in)));
    found.next().map(|process| process.pid().cast_unsigned())
}

/// Processes of the same pid namespace; none if that is pgthaw's own.
fn pids_beside(pid: u32) -> Vec<u32> {
    let namespace = |process: &str| std::fs::read_link(format!("/proc/{process}/ns/pid")).ok();
    let wanted = namespace(&pid.to_string()).filter(|wanted| namespace("self").is_some_and(|own| own != *wanted));
    let Some(wanted) = wanted else { return Vec::new() };
    all_pids().filter(|pid| namespace(&pid.to_string()).as_ref() == Some(&wanted)).collect()
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
pub(super) fn find_postmaster_of(backend: u32, path: &Path, identifier: u64) -> Option<u32> {
    // Only root may look into containers.
    if !SystemUser::is_root() {
        return None;
    }
    let is_it = |pid: u32| {
        read_own_number(pid).is_ok_and(|number| number == backend)
            && read_age(pid).is_some_and(|age| age < BACKEND_AGE_MAX)
    };
    let parent = |process: Process| {
        let stat = process.stat().ok().filter(|stat| matches!(&*stat.comm, "postgres" | "postmaster"))?;
        u32::try_from(stat.ppid).ok().filter(|_| is_it(process.pid().cast_unsigned()))
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
