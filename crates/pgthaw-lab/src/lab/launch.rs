//! Starts programs at a given instant (until then, a shell waits in their place), and reads their cost.

use std::collections::BTreeSet;
use std::ffi::OsString;
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
use crate::study::{Error, Event, Events, Result};
use host::files::read_at_most;
use host::linux::{DiskLimit, clock, process};
use host::units::Bytes;
use pgbench::{is_progress, parse_loaded_share, parse_progress};

const GATE_SCRIPT: &str = r#"read -r go && exec "$@""#;

const POLL_INTERVAL: Duration = Duration::from_millis(20);

const OUTPUT_TAIL_CHARACTERS: usize = 2000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    pub program: OsString,
    pub arguments: Vec<OsString>,
}

impl Launch {
    pub fn new(program: impl Into<OsString>, arguments: impl IntoIterator<Item: Into<OsString>>) -> Launch {
        Launch { program: program.into(), arguments: arguments.into_iter().map(Into::into).collect() }
    }

    pub fn render(&self) -> String {
        let words = [&self.program].into_iter().chain(&self.arguments).map(|word| quote(&word.to_string_lossy()));
        words.collect::<Vec<_>>().join(" ")
    }

    /// Starts a shell that runs the program when `Running::go` is called. Output goes to `NAME.out` and `NAME.err` in
    /// `directory`.
    pub fn ready(&self, name: &str, directory: &Path, limit: Option<&DiskLimit>) -> Result<Running> {
        let [stdout, stderr] = ["out", "err"].map(|ending| directory.join(format!("{name}.{ending}")));
        let create = |path: &Path| File::create(path).map_err(|source| Error::file("create", path, source));
        let mut command = Command::new("/bin/sh");
        command.args(["-c", GATE_SCRIPT, "sh"]).arg(&self.program).args(&self.arguments);
        command.stdin(Stdio::piped()).stdout(create(&stdout)?).stderr(create(&stderr)?);
        // PG* variables would point libpq to the user's own server.
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("PG")) {
            command.env_remove(name);
        }
        // Ctrl-C must reach only pgthaw. A kill must also reach a shell's children.
        command.process_group(0);
        if let Some(limit) = limit {
            limit.limit_command(&mut command)?;
        }
        let mut child = command.spawn().map_err(|source| Error::Launch { command: self.render(), source })?;
        let gate = child.stdin.take();
        Ok(Running { child, gate, stdout, stderr, ended: None })
    }
}

fn quote(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_=./,:@+%".contains(c);
    match word.chars().all(is_plain) && !word.is_empty() {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// Dropping it kills the program's process group.
#[derive(Debug)]
pub struct Running {
    child: Child,
    gate: Option<ChildStdin>,
    stdout: PathBuf,
    stderr: PathBuf,
    ended: Option<Ended>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ended {
    /// Time of the end, since boot.
    pub at: Duration,
    pub status: ExitStatus,
    /// Includes reaped children.
    pub read_bytes: Option<Bytes>,
    /// Includes reaped children.
    pub cpu_time: Option<Duration>,
}

impl Running {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn go(&mut self) {
        if let Some(mut gate) = self.gate.take() {
            let _ = gate.write_all(b"go\n");
        }
    }

    /// Reads the counters before reaping the process: a zombie's counters remain readable.
    pub fn poll(&mut self) -> Option<Ended> {
        if self.ended.is_none() && !process::is_alive(self.pid()) {
            let (at, read_bytes) = (clock::read_monotonic(), process::read_fetched_bytes(self.pid()).ok());
            let cpu_time = process::read_family_cpu_time(self.pid()).ok();
            self.ended = self.child.wait().ok().map(|status| Ended { at, status, read_bytes, cpu_time });
        }
        self.ended
    }

    pub fn wait_until(&mut self, deadline: Duration, mut goes_on: impl FnMut() -> bool) -> Option<Ended> {
        loop {
            let ended = self.poll();
            if ended.is_some() || clock::read_monotonic() >= deadline || !goes_on() {
                return ended;
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    pub fn read_bytes(&self) -> Option<Bytes> {
        match self.ended {
            Some(ended) => ended.read_bytes,
            None => process::read_fetched_bytes(self.pid()).ok(),
        }
    }

    pub fn read_stdout(&self) -> String {
        read_lossy(&self.stdout)
    }

    pub fn read_stderr(&self) -> String {
        read_lossy(&self.stderr)
    }

    pub fn read_output_tail(&self) -> String {
        let printed = format!("{}{}", self.read_stdout(), self.read_stderr());
        let characters = printed.trim().chars();
        let skipped = characters.clone().count().saturating_sub(OUTPUT_TAIL_CHARACTERS);
        characters.skip(skipped).collect()
    }

    /// Sends SIGALRM, on which pgbench completes current transactions and its log.
    pub fn ring_alarm(&mut self) {
        if self.poll().is_none() {
            // Not reaped yet, so its pid is not reused.
            let _ = kill_process(Pid::from_child(&self.child), Signal::ALARM);
        }
    }

    pub fn kill(&mut self) {
        if self.poll().is_none() {
            kill_group(&mut self.child);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

pub fn kill_group(leader: &mut Child) {
    let group = Pid::from_child(leader);
    // Not reaped yet, so its pid is not reused.
    let _ = kill_process_group(group, Signal::KILL);
    let _ = leader.wait();
    // A process with BPF programs takes a while to end.
    let until = Instant::now() + GROUP_END_LIMIT;
    while test_kill_process_group(group).is_ok() && Instant::now() < until {
        thread::sleep(GROUP_PAUSE);
    }
}

const GROUP_END_LIMIT: Duration = Duration::from_secs(20);
const GROUP_PAUSE: Duration = Duration::from_millis(10);

const OUTPUT_BYTES_MAX: u64 = 64 << 20;

pub fn read_lossy(path: &Path) -> String {
    read_at_most(path, OUTPUT_BYTES_MAX)
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .unwrap_or_else(|error| error.to_string())
}

#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    pub fn request(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub fn is_requested(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    pub fn check(&self) -> Result<()> {
        if self.is_requested() { Err(Error::Interrupted) } else { Ok(()) }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Work<'a> {
    pub directory: &'a Path,
    pub events: &'a Events,
    pub stop: &'a Stop,
}

impl Work<'_> {
    pub fn step(&self, what: impl Into<String>) {
        self.events.tell(Event::Step(what.into()));
    }

    pub fn remark(&self, what: impl Into<String>) {
        self.events.tell(Event::Remark(what.into()));
    }

    pub fn make_temporary(&self) -> Result<tempfile::TempDir> {
        let directory = self.directory;
        tempfile::tempdir_in(directory).map_err(|source| Error::file("create a directory in", directory, source))
    }
}

pub fn remove_abandoned(place: &Place, events: &Events) {
    let mut parents = BTreeSet::from([std::env::temp_dir(), PathBuf::from("/tmp")]);
    if let Place::Scratch { parent } = place {
        parents.insert(parent.clone());
    }
    for directory in parents.iter().flat_map(|parent| postgres::remove_abandoned(parent)) {
        events.tell(Event::Remark(format!("removed {}, left by a killed run", directory.display())));
    }
}

pub fn program_error(program: &'static str, running: &Running) -> Error {
    let nothing = || "it did not end by itself and printed nothing".to_owned();
    Error::Program { program, output: complaints_of(&running.read_stderr()).unwrap_or_else(nothing) }
}

pub fn complaints_of(said: &str) -> Option<String> {
    let is_news = |line: &&str| match is_progress(line) {
        true => parse_progress(line).is_some(),
        false => parse_loaded_share(line).is_some(),
    };
    let complaints: Vec<&str> = said.lines().filter(|line| !is_news(line)).collect();
    (!complaints.is_empty()).then(|| complaints.join("\n"))
}

pub const PATIENCE: Duration = Duration::from_secs(24 * 3600);

/// Returns the program's standard error, which `hear` receives every 0.5 s.
pub fn run_program(
    program: &'static str,
    launch: &Launch,
    limit: Option<&DiskLimit>,
    work: Work<'_>,
    hear: impl Fn(&str),
) -> Result<String> {
    work.stop.check()?;
    let mut running = launch.ready("program", work.directory, limit)?;
    running.go();
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

/// Start of a trial, at a whole second: pgbench logs whole seconds.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    /// Seconds since 1970.
    pub unix: i64,
    /// Since boot.
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

    pub fn end_of_second(self, instant: Duration) -> Duration {
        self.monotonic + Duration::from_secs(instant.saturating_sub(self.monotonic).as_secs() + 1)
    }
}

/// Returns transactions per second. A late progress line covers several seconds.
pub fn read_paces(said: &str) -> Vec<f64> {
    let mut paces = Vec::new();
    for progress in said.lines().filter(|line| is_progress(line)).filter_map(parse_progress) {
        let whole_seconds = progress.until_seconds.round().max(0.0) as usize;
        paces.resize(whole_seconds.max(paces.len() + 1), progress.tps);
    }
    paces
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Launch {
        Launch::new("sh", ["-c", script])
    }

    fn start(launch: &Launch, directory: &Path) -> Running {
        let mut running = launch.ready("x", directory, None).unwrap();
        running.go();
        running
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
        let mut running = start(&shell("sleep 60 & echo $!; wait"), directory.path());
        let sleeper = loop {
            if let Ok(pid) = running.read_output_tail().parse::<u32>() {
                break pid;
            }
            assert!(running.poll().is_none());
            std::thread::yield_now();
        };
        drop(running);
        while process::is_alive(sleeper) {
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_program_that_is_not_there_ends_with_what_the_shell_says() {
        let directory = tempfile::tempdir().unwrap();
        let mut running = start(&Launch::new("/no/such/program", [""; 0]), directory.path());
        let ended = running.wait_until(soon(), || true).unwrap();
        assert_eq!(ended.status.code(), Some(127));
        assert!(running.read_output_tail().contains("/no/such/program"));
    }

    #[test]
    fn renders_what_one_would_type() {
        assert_eq!(Launch::new("psql", ["-c", "SELECT 'x'"]).render(), r"psql -c 'SELECT '\''x'\'''");
    }
}
