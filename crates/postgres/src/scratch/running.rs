//! The server of a scratch cluster while it runs.

use std::io::Write as _;
use std::process::{Child, ChildStdin};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

/// How often a server is looked at that starts or stops.
pub const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The postmaster, and the pipe whose end makes the watcher stop it.
#[derive(Debug)]
pub struct RunningServer {
    pub postmaster: Child,
    pub pipe: ChildStdin,
}

impl RunningServer {
    pub fn is_alive(&mut self) -> bool {
        matches!(self.postmaster.try_wait(), Ok(None))
    }

    pub fn signal(&mut self, signal: Signal) {
        // `try_wait` reaps, so while it says alive the number cannot be another process's.
        if self.is_alive()
            && let Some(pid) = as_pid(self.postmaster.id())
        {
            let _ = rustix::process::kill_process(pid, signal);
        }
    }

    /// Waits for the postmaster's end, and dismisses the watcher then. False when it did not come in time.
    pub fn wait(&mut self, limit: Duration, is_given_up: impl Fn() -> bool) -> bool {
        let started = Instant::now();
        while self.is_alive() {
            if started.elapsed() > limit || is_given_up() {
                return false;
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        // The watcher may be gone already.
        let _ = self.pipe.write_all(b"goodbye\n");
        true
    }

    /// The backends and the other processes that the postmaster started.
    pub fn children(&self) -> Vec<Pid> {
        let pid = self.postmaster.id();
        let listed = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        listed.split_whitespace().filter_map(|child| as_pid(child.parse().ok()?)).collect()
    }
}

fn as_pid(number: u32) -> Option<Pid> {
    Pid::from_raw(i32::try_from(number).ok()?)
}

/// The eighth line of `postmaster.pid` says `ready`, and the first that it is this postmaster that says so.
pub fn is_ready(text: &str, postmaster_pid: Option<u32>) -> bool {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    lines.first().and_then(|pid| pid.parse().ok()) == postmaster_pid && lines.get(7) == Some(&"ready")
}
