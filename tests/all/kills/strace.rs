//! Exact moments by strace: a kill at a system call, or an answer of it that was not the kernel's.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::servers::{self, Output};

/// Calls that make, change, move, remove or read files, or lock them.
pub const FILE_CALLS: &str = "openat,openat2,read,pread64,readv,preadv,write,pwrite64,writev,pwritev,fsync,fdatasync,\
    rename,renameat,renameat2,link,linkat,symlinkat,unlink,unlinkat,mkdir,mkdirat,rmdir,flock,fcntl,ftruncate,fallocate,\
    fchmod,fchmodat,fchown,fchownat,copy_file_range,sendfile,getdents64,statx,newfstatat,fstat,close";

/// A call of the dry run: the Nth of its name in its thread.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Point {
    pub call: String,
    pub number: usize,
}

/// Is there a strace that may trace? Without one the test says so.
pub fn is_here() -> bool {
    let is_here = Command::new("strace").args(["-qq", "-o", "/dev/null", "true"]).status().is_ok_and(|it| it.success());
    if !is_here {
        untested!("strace is missing or may not trace: scripts/setup --for test");
    }
    is_here
}

/// The command under strace, which writes what it saw to `log`. What it starts is not followed unless it only forks.
fn under_strace(command: &Command, arguments: &[String], log: &Path) -> Command {
    let mut traced = Command::new("strace");
    traced.args(["-f", "-y", "-qq", "-s", "0", "-o"]).arg(log).args(arguments);
    traced.arg("--").arg(command.get_program()).args(command.get_args());
    traced.current_dir(command.get_current_dir().unwrap());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => traced.env(name, value),
            None => traced.env_remove(name),
        };
    }
    traced
}

/// A line of the log: which thread, which call, and all of it.
struct Line<'a> {
    thread: &'a str,
    call: &'a str,
    text: &'a str,
}

fn parse(log: &str) -> impl Iterator<Item = Line<'_>> {
    log.lines().filter_map(|text| {
        let (thread, rest) = text.split_once(' ')?;
        let (call, _) = rest.trim_start().split_once('(')?;
        let is_call = call.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        (is_call && !call.starts_with("syscall")).then_some(Line { thread, call, text })
    })
}

/// Runs a command undisturbed, and returns the calls (of `calls`, as strace has them) whose line `is_meant`: a call with a path
/// or the path of a descriptor stands in its line.
pub fn find_points(command: &Command, calls: &str, log: &Path, is_meant: impl Fn(&str) -> bool) -> Vec<Point> {
    let trace = format!("--trace=?{}", calls.replace(',', ",?"));
    servers::output_of(&mut under_strace(command, &["--seccomp-bpf".into(), trace], log)).ok();
    let log = read_log(log);
    let mut numbers: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let mut points = BTreeSet::new();
    for line in parse(&log) {
        let number = numbers.entry((line.thread, line.call)).or_default();
        *number += 1;
        if is_meant(line.text) {
            points.insert(Point { call: line.call.to_owned(), number: *number });
        }
    }
    points.into_iter().collect()
}

/// What a traced run came to.
#[derive(Debug)]
pub struct Struck {
    pub output: Output,
    /// The lines of the calls that were struck.
    pub lines: Vec<String>,
}

/// Runs a command with a kill (`signal=KILL`) or an answer (`error=ENOSPC`, `retval=0`) at a point.
pub fn strike(command: &Command, point: &Point, what: &str, log: &Path) -> Struck {
    let mut arguments = injection(point, what);
    // It is faster, but signals are lost with it.
    arguments.extend((!what.starts_with("signal")).then(|| "--seccomp-bpf".to_owned()));
    let output = servers::output_of(&mut under_strace(command, &arguments, log));
    Struck { output, lines: read_struck(point, log) }
}

/// As [`strike`], of a command that starts programs, and only at calls on these paths; the command is returned to be run.
pub fn strike_at_paths(command: &Command, point: &Point, what: &str, paths: &[PathBuf], log: &Path) -> Command {
    let mut arguments = vec!["--detach-on=execve".to_owned()];
    arguments.extend(injection(point, what));
    arguments.extend(paths.iter().map(|path| format!("--trace-path={}", path.display())));
    under_strace(command, &arguments, log)
}

fn injection(point: &Point, what: &str) -> Vec<String> {
    let Point { call, number } = point;
    vec![format!("--trace={call}"), format!("--inject={call}:{what}:when={number}")]
}

/// The lines of the calls that were struck: an answer is marked, and a call that a kill fell on has no result. So may one
/// before it that another thread made, but not the last.
pub fn read_struck(point: &Point, log: &Path) -> Vec<String> {
    let log = read_log(log);
    let is_struck = |line: &Line| {
        let is_cut = line.text.ends_with("= ?") || line.text.ends_with("<unfinished ...>");
        line.call == point.call && (line.text.contains("INJECTED") || is_cut)
    };
    parse(&log).filter(is_struck).map(|line| line.text.to_owned()).collect()
}

/// Without the directory that a command runs in, which says nothing about what a call is meant for.
fn read_log(log: &Path) -> String {
    let log = fs::read_to_string(log).unwrap_or_default();
    let mut parts = log.split("AT_FDCWD<");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |log, part| log + "AT_FDCWD" + part.split_once('>').map_or("", |(_, rest)| rest))
}
