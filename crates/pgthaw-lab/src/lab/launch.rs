//! Programs that start at a given instant: each is made ready behind a gate, and what it cost is read when it ends.

use std::ffi::OsString;
use std::fs::File;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use super::cluster::Place;
use super::error::Error;
use host::files::read_at_most;
use host::linux::{DiskLimit, clock, process};

use crate::study::{Event, Events};
use host::units::Bytes;
use postgres::MarkedDirectory;

/// Waits for a word, then becomes the program. A gate that closes without the word ends it.
const GATE_SCRIPT: &str = r#"read -r go && exec "$@""#;

/// How often a program's end is looked for.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Characters of a program's output that are kept.
const OUTPUT_TAIL_CHARACTERS: usize = 2000;

/// A program and its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    pub program: OsString,
    pub arguments: Vec<OsString>,
}

impl Launch {
    pub fn new(program: impl Into<OsString>, arguments: impl IntoIterator<Item: Into<OsString>>) -> Launch {
        Launch { program: program.into(), arguments: arguments.into_iter().map(Into::into).collect() }
    }

    /// As one would type it.
    pub fn render(&self) -> String {
        let words = [&self.program].into_iter().chain(&self.arguments).map(|word| quote(&word.to_string_lossy()));
        words.collect::<Vec<_>>().join(" ")
    }

    /// Starts the process and stops it at the gate. Its output goes to `NAME.out` and `NAME.err` in `directory`. With
    /// a `limit` it reads under the limit.
    pub fn ready(&self, name: &str, directory: &Path, limit: Option<&DiskLimit>) -> Result<Gated, Error> {
        let output = OutputFiles::new(directory, name);
        let mut command = Command::new("/bin/sh");
        command.args(["-c", GATE_SCRIPT, "sh"]).arg(&self.program).args(&self.arguments);
        command.stdin(Stdio::piped()).stdout(output.create(&output.stdout)?).stderr(output.create(&output.stderr)?);
        // The user's own server is not meant.
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("PG")) {
            command.env_remove(name);
        }
        // A group of its own: Ctrl-C is for pgthaw, and a shell's children are reached by it.
        command.process_group(0);
        if let Some(limit) = limit {
            limit.limit_command(&mut command)?;
        }
        let mut child = command.spawn().map_err(|source| Error::Launch { command: self.render(), source })?;
        let Some(gate) = child.stdin.take() else { unreachable!("standard input was asked to be a pipe") };
        Ok(Gated { running: Running { child, output, ended: None }, gate })
    }
}

/// Quotes a word for the reader when a shell would need it.
fn quote(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_=./,:@+%".contains(c);
    match word.chars().all(is_plain) && !word.is_empty() {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[derive(Debug)]
struct OutputFiles {
    stdout: PathBuf,
    stderr: PathBuf,
}

impl OutputFiles {
    fn new(directory: &Path, name: &str) -> OutputFiles {
        let file = |ending: &str| directory.join(format!("{name}.{ending}"));
        OutputFiles { stdout: file("out"), stderr: file("err") }
    }

    fn create(&self, path: &Path) -> Result<File, Error> {
        File::create(path).map_err(|source| Error::file("create", path, source))
    }
}

/// A program that is ready to go.
#[derive(Debug)]
pub struct Gated {
    running: Running,
    gate: ChildStdin,
}

impl Gated {
    /// Of the process that becomes the program.
    pub fn pid(&self) -> u32 {
        self.running.pid()
    }

    /// Opens the gate.
    pub fn go(mut self) -> Running {
        // If the process is gone already, its end is seen by the first poll.
        let _ = self.gate.write_all(b"go\n");
        self.running
    }
}

/// A program under way. Dropping it kills it, with everything it started in its group.
#[derive(Debug)]
pub struct Running {
    child: Child,
    output: OutputFiles,
    ended: Option<Ended>,
}

/// How a program ended and what it cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ended {
    /// When that was seen, since the machine booted.
    pub at: Duration,
    pub status: ExitStatus,
    /// Read from the device by the program and the children that it waited for; `None` when the kernel did not tell.
    pub read_bytes: Option<Bytes>,
    /// Processor time of the program and the children that it waited for.
    pub cpu_time: Option<Duration>,
}

impl Running {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Has it ended? The counters of a dead process can be read until it is waited for.
    pub fn poll(&mut self) -> Option<Ended> {
        if self.ended.is_none() && !process::is_alive(self.pid()) {
            let (at, read_bytes) = (clock::read_monotonic(), process::read_fetched_bytes(self.pid()).ok());
            let cpu_time = process::read_family_cpu_time(self.pid()).ok();
            self.ended = self.child.wait().ok().map(|status| Ended { at, status, read_bytes, cpu_time });
        }
        self.ended
    }

    /// Waits for the end until the monotonic instant `deadline`, as long as `goes_on` agrees.
    pub fn wait_until(&mut self, deadline: Duration, mut goes_on: impl FnMut() -> bool) -> Option<Ended> {
        loop {
            let ended = self.poll();
            if ended.is_some() || clock::read_monotonic() >= deadline || !goes_on() {
                return ended;
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Read from the device so far, or in all when it has ended.
    pub fn read_bytes(&self) -> Option<Bytes> {
        match self.ended {
            Some(ended) => ended.read_bytes,
            None => process::read_fetched_bytes(self.pid()).ok(),
        }
    }

    /// Standard output so far.
    pub fn read_stdout(&self) -> String {
        read_lossy(&self.output.stdout)
    }

    /// The lines of standard error so far.
    pub fn read_stderr(&self) -> String {
        read_lossy(&self.output.stderr)
    }

    /// The end of what it printed: standard output, then standard error.
    pub fn read_output_tail(&self) -> String {
        let printed = format!("{}{}", self.read_stdout(), self.read_stderr());
        let characters = printed.trim().chars();
        let skipped = characters.clone().count().saturating_sub(OUTPUT_TAIL_CHARACTERS);
        characters.skip(skipped).collect()
    }

    /// Rings the alarm clock by which pgbench ends a run: what is under way is finished, and its log is whole.
    pub fn ring_alarm(&mut self) {
        let pid = i32::try_from(self.pid()).ok().and_then(Pid::from_raw);
        if let (None, Some(pid)) = (self.poll(), pid) {
            // Not reaped yet, so the number is still its own.
            let _ = kill_process(pid, Signal::ALARM);
        }
    }

    /// Ends it and its group, and waits.
    pub fn kill(&mut self) {
        if self.poll().is_some() {
            return;
        }
        if let Some(group) = i32::try_from(self.pid()).ok().and_then(Pid::from_raw) {
            // Not reaped yet, so the number is still its own.
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.child.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Bytes that a program may have printed.
const OUTPUT_BYTES_MAX: u64 = 64 << 20;

fn read_lossy(path: &Path) -> String {
    read_at_most(path, OUTPUT_BYTES_MAX)
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .unwrap_or_else(|error| error.to_string())
}

/// Shared by whoever hears Ctrl-C and whoever has to tidy up then.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Asks the study to stop.
    pub fn request(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub fn is_requested(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// An error once a stop was asked for.
    pub fn check(&self) -> Result<(), Error> {
        if self.is_requested() { Err(Error::Interrupted) } else { Ok(()) }
    }
}

/// A directory that is gone when the study is.
#[derive(Debug)]
pub struct WorkDirectory(MarkedDirectory);

impl WorkDirectory {
    /// Makes one in the system's directory for temporary files.
    pub fn create() -> Result<WorkDirectory, Error> {
        let parent = std::env::temp_dir();
        let made = MarkedDirectory::create("pgthaw-bench-", &parent);
        made.map(WorkDirectory).map_err(|source| Error::file("create a directory in", &parent, source))
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

/// Removes what killed studies left where this one works, and tells it.
pub fn remove_abandoned(place: &Place, events: &Events) {
    let mut parents = vec![std::env::temp_dir(), PathBuf::from("/tmp")];
    if let Place::Scratch { parent } = place {
        parents.push(parent.clone());
    }
    parents.sort();
    parents.dedup();
    for directory in parents.iter().flat_map(|parent| postgres::remove_abandoned(parent)) {
        events.tell(Event::Remark(format!("a run that was killed had left {}: it is removed", directory.display())));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Launch {
        Launch::new("sh", ["-c", script])
    }

    fn soon() -> Duration {
        clock::read_monotonic() + Duration::from_secs(60)
    }

    #[test]
    fn nothing_happens_before_the_gate_opens() {
        let directory = tempfile::tempdir().unwrap();
        let marker = directory.path().join("marker");
        let gated =
            shell(&format!("touch {}; echo done", marker.display())).ready("x", directory.path(), None).unwrap();
        assert!(!marker.exists());
        let mut running = gated.go();
        let ended = running.wait_until(soon(), || true).unwrap();
        assert!(ended.status.success() && ended.read_bytes.is_some());
        assert!(marker.exists());
        assert_eq!(running.read_output_tail(), "done");
    }

    #[test]
    fn a_gate_that_closes_ends_the_process() {
        let directory = tempfile::tempdir().unwrap();
        let marker = directory.path().join("marker");
        let gated = shell(&format!("touch {}", marker.display())).ready("x", directory.path(), None).unwrap();
        let pid = gated.running.pid();
        drop(gated);
        assert!(!process::is_alive(pid) && !marker.exists());
    }

    #[test]
    fn dropping_kills_what_the_shell_started_too() {
        let directory = tempfile::tempdir().unwrap();
        let mut running = shell("sleep 60 & echo $!; wait").ready("x", directory.path(), None).unwrap().go();
        let sleeper = loop {
            if let Ok(pid) = running.read_output_tail().parse::<u32>() {
                break pid;
            }
            assert!(running.poll().is_none());
            std::thread::yield_now();
        };
        drop(running);
        // Killed, though nobody may have waited for it yet.
        while process::is_alive(sleeper) {
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_program_that_is_not_there_ends_with_what_the_shell_says() {
        let directory = tempfile::tempdir().unwrap();
        let mut running = Launch::new("/no/such/program", [""; 0]).ready("x", directory.path(), None).unwrap().go();
        let ended = running.wait_until(soon(), || true).unwrap();
        assert_eq!(ended.status.code(), Some(127));
        assert!(running.read_output_tail().contains("/no/such/program"));
    }

    #[test]
    fn renders_what_one_would_type() {
        assert_eq!(Launch::new("psql", ["-c", "SELECT 'x'"]).render(), r"psql -c 'SELECT '\''x'\'''");
    }
}
