//! What puts the server under load: one pgbench on this host, or whatever else can be started at an instant.

use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::error::Error;
use super::launch::Stop;
use super::launch::{Gated, Launch, Running};
use host::linux::clock;
use pgbench::{Said, parse_said};

/// The start is at least this far away when everything is ready.
const LEAD: Duration = Duration::from_millis(100);

/// Load that is ready to start, runs, or has ended. Dropping it ends it.
pub trait Generator: Debug {
    /// How far away the start has to be at least when it is chosen.
    fn lead(&self) -> Duration;

    /// Is told before when the start will be. Returns the processes of this host that make the load.
    fn announce(&mut self, start: Start) -> Result<Vec<u32>, Error>;

    /// The start has come.
    fn go(&mut self);

    /// When it ended, since the machine booted; `None` while it runs. An error when it failed.
    fn poll(&mut self) -> Result<Option<Duration>, Error>;

    /// Asks it to end before its time: what is under way is finished.
    fn end_early(&mut self);

    /// Transactions in each second that it has told of.
    fn read_paces(&self) -> Vec<f64>;

    /// Why it did not end by itself, as far as it says so.
    fn failure(&self) -> Error;
}

/// No load at all.
#[derive(Debug)]
pub struct NoLoad;

impl Generator for NoLoad {
    fn lead(&self) -> Duration {
        LEAD
    }

    fn announce(&mut self, _start: Start) -> Result<Vec<u32>, Error> {
        Ok(Vec::new())
    }

    fn go(&mut self) {}

    fn poll(&mut self) -> Result<Option<Duration>, Error> {
        Ok(Some(clock::read_monotonic()))
    }

    fn end_early(&mut self) {}

    fn read_paces(&self) -> Vec<f64> {
        Vec::new()
    }

    fn failure(&self) -> Error {
        Error::Program { program: "pgbench", output: "it was not started".to_owned() }
    }
}

/// One pgbench on this host.
#[derive(Debug)]
pub struct LocalPgbench {
    state: State,
    logs: PathBuf,
}

#[derive(Debug)]
enum State {
    Ready(Gated),
    Running(Running),
    /// For the moment between the two.
    Starting,
}

impl LocalPgbench {
    /// Makes pgbench ready. `arguments` make it log into [`LocalPgbench::logs_in`] of `directory`.
    pub fn ready(launch: &Launch, directory: &Path) -> Result<LocalPgbench, Error> {
        let logs = LocalPgbench::logs_in(directory);
        std::fs::create_dir(&logs).map_err(|source| Error::file("create", &logs, source))?;
        Ok(LocalPgbench { state: State::Ready(launch.ready("pgbench", directory, None)?), logs })
    }

    /// Where its logs are.
    pub fn logs_in(directory: &Path) -> PathBuf {
        directory.join("pgbench")
    }

    /// The same.
    pub fn logs(&self) -> &Path {
        &self.logs
    }

    /// What it printed when it ended.
    pub fn read_report(&self) -> String {
        self.running().map(Running::read_stdout).unwrap_or_default()
    }

    fn running(&self) -> Option<&Running> {
        match &self.state {
            State::Running(running) => Some(running),
            State::Ready(_) | State::Starting => None,
        }
    }
}

impl Generator for LocalPgbench {
    fn lead(&self) -> Duration {
        LEAD
    }

    fn announce(&mut self, _start: Start) -> Result<Vec<u32>, Error> {
        Ok(match &self.state {
            State::Ready(gated) => vec![gated.pid()],
            State::Running(running) => vec![running.pid()],
            State::Starting => Vec::new(),
        })
    }

    fn go(&mut self) {
        self.state = match std::mem::replace(&mut self.state, State::Starting) {
            State::Ready(gated) => State::Running(gated.go()),
            other => other,
        };
    }

    fn poll(&mut self) -> Result<Option<Duration>, Error> {
        let State::Running(running) = &mut self.state else { return Ok(None) };
        match running.poll() {
            Some(ended) if !ended.status.success() => Err(pgbench_error(running)),
            ended => Ok(ended.map(|ended| ended.at)),
        }
    }

    fn end_early(&mut self) {
        if let State::Running(running) = &mut self.state {
            running.ring_alarm();
        }
    }

    fn read_paces(&self) -> Vec<f64> {
        self.running().map(|running| read_paces(&running.read_stderr())).unwrap_or_default()
    }

    fn failure(&self) -> Error {
        match self.running() {
            Some(running) => pgbench_error(running),
            None => Error::Program { program: "pgbench", output: "it was not started".to_owned() },
        }
    }
}

/// What pgbench complained of.
pub fn pgbench_error(pgbench: &Running) -> Error {
    let nothing = || "it did not end by itself, and said nothing".to_owned();
    Error::Program { program: "pgbench", output: complaints_of(&pgbench.read_stderr()).unwrap_or_else(nothing) }
}

/// What is said on standard error beside pgbench's progress, if anything.
pub fn complaints_of(said: &str) -> Option<String> {
    let complaints: Vec<&str> = said.lines().filter(|line| parse_said(line) == Said::Other).collect();
    (!complaints.is_empty()).then(|| complaints.join("\n"))
}

/// A workload or a load of the tables that takes longer than this is stuck.
pub const PATIENCE: Duration = Duration::from_secs(24 * 3600);

/// Runs pgbench to its end, and returns what it said on standard error; `hear` is given what it has said so far, now and then.
pub fn run_pgbench(
    launch: Launch,
    name: &str,
    directory: &Path,
    stop: &Stop,
    hear: impl Fn(&str),
) -> Result<String, Error> {
    stop.check()?;
    let mut pgbench = launch.ready(name, directory, None)?.go();
    let deadline = clock::read_monotonic() + PATIENCE;
    loop {
        let tick = (clock::read_monotonic() + Duration::from_millis(500)).min(deadline);
        let ended = pgbench.wait_until(tick, || !stop.is_requested());
        stop.check()?;
        match ended {
            Some(ended) if ended.status.success() => return Ok(pgbench.read_stderr()),
            None if clock::read_monotonic() < deadline => {}
            _ => return Err(pgbench_error(&pgbench)),
        }
        hear(&pgbench.read_stderr());
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
