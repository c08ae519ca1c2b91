//! Programs that start at a given instant: each is made ready behind a gate, and what it cost is read when it ends.

use std::ffi::OsString;
use std::fmt::Debug;
use std::fs::File;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group, test_kill_process_group};

use super::cluster::Place;
use super::error::Error;
use crate::study::{Event, Events};
use host::files::read_at_most;
use host::linux::{DiskLimit, clock, process};
use host::units::Bytes;
use pgbench::{Said, parse_said};

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
    pub fn ready(&self, name: &str, directory: &Path, limit: Option<&DiskLimit>) -> Result<Running, Error> {
        let [stdout, stderr] = ["out", "err"].map(|ending| directory.join(format!("{name}.{ending}")));
        let create = |path: &Path| File::create(path).map_err(|source| Error::file("create", path, source));
        let mut command = Command::new("/bin/sh");
        command.args(["-c", GATE_SCRIPT, "sh"]).arg(&self.program).args(&self.arguments);
        command.stdin(Stdio::piped()).stdout(create(&stdout)?).stderr(create(&stderr)?);
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
        let gate = child.stdin.take();
        Ok(Running { child, gate, stdout, stderr, ended: None })
    }

    /// Starts the process without a gate to wait behind.
    pub fn start(&self, name: &str, directory: &Path, limit: Option<&DiskLimit>) -> Result<Running, Error> {
        let mut running = self.ready(name, directory, limit)?;
        running.go();
        Ok(running)
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

/// A program behind its gate or under way. Dropping it kills it, with everything it started in its group.
#[derive(Debug)]
pub struct Running {
    child: Child,
    /// `None` once it is open.
    gate: Option<ChildStdin>,
    stdout: PathBuf,
    stderr: PathBuf,
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
    /// Of the process that is, or becomes, the program.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Opens the gate.
    pub fn go(&mut self) {
        if let Some(mut gate) = self.gate.take() {
            // If the process is gone already, its end is seen by the first poll.
            let _ = gate.write_all(b"go\n");
        }
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
        read_lossy(&self.stdout)
    }

    /// The lines of standard error so far.
    pub fn read_stderr(&self) -> String {
        read_lossy(&self.stderr)
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
        kill_group(&mut self.child);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Ends a process that leads a group, with all of that, and waits.
pub fn kill_group(leader: &mut Child) {
    let group = i32::try_from(leader.id()).ok().and_then(Pid::from_raw);
    // Not reaped yet, so the number is still its own.
    let _ = group.map(|group| kill_process_group(group, Signal::KILL));
    let _ = leader.wait();
    // Who has programs in the kernel takes a while to end, and what he made cannot be removed before.
    let until = Instant::now() + GROUP_END_LIMIT;
    while group.is_some_and(|group| test_kill_process_group(group).is_ok()) && Instant::now() < until {
        thread::sleep(GROUP_PAUSE);
    }
}

const GROUP_END_LIMIT: Duration = Duration::from_secs(20);
const GROUP_PAUSE: Duration = Duration::from_millis(10);

/// Bytes that a program may have printed.
const OUTPUT_BYTES_MAX: u64 = 64 << 20;

/// What a program has printed into a file; the error where it cannot be read.
pub fn read_lossy(path: &Path) -> String {
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

/// Where a study keeps things for a while, whom it tells what happens, and what stops it.
#[derive(Clone, Copy, Debug)]
pub struct Work<'a> {
    pub directory: &'a Path,
    pub events: &'a Events,
    pub stop: &'a Stop,
}

impl Work<'_> {
    /// Tells that a step of the preparation begins.
    pub fn step(&self, what: impl Into<String>) {
        self.events.tell(Event::Step(what.into()));
    }

    /// Tells something to know.
    pub fn remark(&self, what: impl Into<String>) {
        self.events.tell(Event::Remark(what.into()));
    }

    /// A directory below its own that is gone when it is dropped.
    pub fn make_temporary(&self) -> Result<tempfile::TempDir, Error> {
        let directory = self.directory;
        tempfile::tempdir_in(directory).map_err(|source| Error::file("create a directory in", directory, source))
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

// ---- load that starts at an instant ----

/// The start is at least this far away when everything is ready.
const LEAD: Duration = Duration::from_millis(100);

/// Load that is ready to start, runs, or has ended. Dropping it ends it.
pub trait Generator: Debug {
    /// How far away the start has to be at least when it is chosen.
    fn lead(&self) -> Duration {
        LEAD
    }

    /// Is told before when the start will be. Returns the processes of this host that make the load.
    fn announce(&mut self, start: Start) -> Result<Vec<u32>, Error>;

    /// The start has come.
    fn go(&mut self) {}

    /// When it ended, since the machine booted; `None` while it runs. An error when it failed.
    fn poll(&mut self) -> Result<Option<Duration>, Error>;

    /// Asks it to end before its time: what is under way is finished.
    fn end_early(&mut self);

    /// Transactions in each second that it has told of.
    fn read_paces(&self) -> Vec<f64>;

    /// Why it did not end by itself, as far as it says so.
    fn failure(&self) -> Error;
}

/// What a program complained of.
pub fn program_error(program: &'static str, running: &Running) -> Error {
    let nothing = || "it did not end by itself, and said nothing".to_owned();
    Error::Program { program, output: complaints_of(&running.read_stderr()).unwrap_or_else(nothing) }
}

/// What is said on standard error beside pgbench's progress, if anything.
pub fn complaints_of(said: &str) -> Option<String> {
    let complaints: Vec<&str> = said.lines().filter(|line| parse_said(line) == Said::Other).collect();
    (!complaints.is_empty()).then(|| complaints.join("\n"))
}

/// A workload or a load of the tables that takes longer than this is stuck.
pub const PATIENCE: Duration = Duration::from_secs(24 * 3600);

/// Runs a program to its end, under the limit if there is one, and returns its standard error. `hear` is given what it has printed there
/// so far, twice a second. Errors call it `program`.
pub fn run_program(
    program: &'static str,
    launch: &Launch,
    limit: Option<&DiskLimit>,
    work: Work<'_>,
    hear: impl Fn(&str),
) -> Result<String, Error> {
    work.stop.check()?;
    let mut running = launch.start("program", work.directory, limit)?;
    let deadline = clock::read_monotonic() + PATIENCE;
    loop {
        let tick = (clock::read_monotonic() + Duration::from_millis(500)).min(deadline);
        let ended = running.wait_until(tick, || !work.stop.is_requested());
        work.stop.check()?;
        match ended {
            Some(ended) if ended.status.success() => return Ok(running.read_stderr()),
            None if clock::read_monotonic() < deadline => {}
            _ => return Err(program_error(program, &running)),
        }
        hear(&running.read_stderr());
    }
}

/// The instant at which everything starts, on both clocks. It is a whole second of the wall clock, because pgbench logs
/// by these.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    /// Seconds since 1970.
    pub unix: i64,
    /// Since the machine booted.
    pub monotonic: Duration,
}

impl Start {
    pub fn choose(lead: Duration) -> Start {
        let (wall_ms, monotonic) = (clock::read_wall_ms(), clock::read_monotonic());
        let unix = (wall_ms + lead.as_millis() as i64).div_euclid(1000) + 1;
        Start { unix, monotonic: monotonic + Duration::from_millis((unix * 1000 - wall_ms) as u64) }
    }

    pub fn after(self, seconds: u32) -> Duration {
        self.monotonic + Duration::from_secs(seconds.into())
    }

    /// The end of the second that a monotonic instant is in.
    pub fn end_of_second(self, instant: Duration) -> Duration {
        self.monotonic + Duration::from_secs(instant.saturating_sub(self.monotonic).as_secs() + 1)
    }
}

/// Transactions in each second that pgbench told of. A line that comes late stands for several.
pub fn read_paces(said: &str) -> Vec<f64> {
    let mut paces = Vec::new();
    for line in said.lines() {
        if let Said::Progress(progress) = parse_said(line) {
            let whole_seconds = progress.until_seconds.round().max(0.0) as usize;
            paces.resize(whole_seconds.max(paces.len() + 1), progress.tps);
        }
    }
    paces
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
        let mut running =
            shell(&format!("touch {}; echo done", marker.display())).ready("x", directory.path(), None).unwrap();
        assert!(!marker.exists());
        running.go();
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
        let pid = gated.pid();
        drop(gated);
        assert!(!process::is_alive(pid) && !marker.exists());
    }

    #[test]
    fn dropping_kills_what_the_shell_started_too() {
        let directory = tempfile::tempdir().unwrap();
        let mut running = shell("sleep 60 & echo $!; wait").start("x", directory.path(), None).unwrap();
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
        let mut running = Launch::new("/no/such/program", [""; 0]).start("x", directory.path(), None).unwrap();
        let ended = running.wait_until(soon(), || true).unwrap();
        assert_eq!(ended.status.code(), Some(127));
        assert!(running.read_output_tail().contains("/no/such/program"));
    }

    #[test]
    fn renders_what_one_would_type() {
        assert_eq!(Launch::new("psql", ["-c", "SELECT 'x'"]).render(), r"psql -c 'SELECT '\''x'\'''");
    }
}
