//! Files, directories and sockets that somebody else can write: what he puts there harms nobody but himself.

mod environment;
mod files;
mod interrupt;
mod planted;
mod scratch;
mod sockets;

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::{Pid, Signal, kill_process};

use crate::servers::Output;

/// Nothing of this file's takes as long: what does waits for somebody.
const LIMIT: Duration = Duration::from_secs(20);

/// Runs a command that must end by itself.
#[track_caller]
pub fn ends_by_itself(command: &mut Command) -> Output {
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let pid = Pid::from_child(&child);
    let (sender, ended) = mpsc::channel();
    std::thread::spawn(move || sender.send(child.wait_with_output().unwrap()));
    ended.recv_timeout(LIMIT).map(Output::from).unwrap_or_else(|_| {
        kill_process(pid, Signal::KILL).unwrap();
        panic!("{command:?} waits for somebody");
    })
}

/// Makes a pipe that nobody reads or writes.
pub fn make_pipe(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o666), 0).unwrap();
}

/// A user who may do nothing.
pub const NOBODY: u32 = 65_534;

/// Who attacks: this process's user; as root also the server's user, and nobody.
pub fn attackers() -> Vec<u32> {
    let own = rustix::process::geteuid().as_raw();
    let others = is_root().then(|| nix::unistd::User::from_name("postgres").unwrap().map(|user| user.uid.as_raw()));
    [own].into_iter().chain(others.flatten()).chain(is_root().then_some(NOBODY)).collect()
}

/// Does this test run as root, whom the attack is for?
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Runs a program as another user of the system.
pub fn run_as(user: &str, arguments: &[&str]) -> Output {
    ends_by_itself(Command::new("setpriv").args(["--reuid", user, "--regid", user, "--clear-groups"]).args(arguments))
}
