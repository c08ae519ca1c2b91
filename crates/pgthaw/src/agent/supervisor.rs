//! The running agent: watches the server, and starts a process per step, so that a step can hang or fail alone.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::Result;
use jiff::{Timestamp, Zoned};
use rustix::process::{Pid, Signal, kill_process};
use sd_notify::NotifyState;
use serde_json::Value;
use sqlx::postgres::PgConnection;
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use super::arguments::{READY_SHARE, RunArguments, parse_share};
use super::exposition::render_metrics;
use super::share::{KEPT, OWN_LABEL};
use super::status::{AgentError, AgentState, AgentStatus, StatusPlace, judge, name_of};
use crate::{ConnectionArguments, ExitStatus, OutputArguments, connect_to_meant, describe};
use command::hear_signals;
use command::http::{Listener, METRICS_TYPE, PLAIN, StatusCode, Uri, find_in_pairs, respond};
use host::linux::process::{read_cpu_time, read_family_cpu_time};
use host::linux::threads::lock;
use host::units::Bytes;
use postgres::{Server, ServerLook, parse_connection_string, read_server_look, read_warm_state};

const TICK: Duration = Duration::from_secs(1);

/// Maximum age of the stored status.
const STATUS_INTERVAL: Duration = Duration::from_secs(30);

/// Interval at which a standby looks for a new warm set.
const RECEIVE_INTERVAL: Duration = Duration::from_secs(10);
/// Minimum time between snapshots without `--every`.
const EVERY: Duration = Duration::from_secs(5 * 60);
/// Idle time after a step, in multiples of its processor time: 0.5 % of a core. The limit is `--every` or `REST_MAX`.
const REST: u32 = 200;
const REST_MAX: Duration = Duration::from_secs(3600);

/// Beyond this replay lag, the agent reads nothing.
const LAG_MAX_SECONDS: f64 = 10.0;

/// A standby loads missing blocks above both limits.
const MISSING_SHARE: f64 = 0.01;
const MISSING_MIN_BYTES: u64 = 4 << 20;
/// It also loads below this warmth of shared_buffers.
const BUFFERS_SHARE: f64 = 0.95;

/// Without a stored status, a server that has run longer is not restored.
const YOUNG: Duration = Duration::from_secs(600);

const RETRY: Duration = Duration::from_secs(1);
/// In a container, each connection keeps descriptors open.
const RETRY_IN_CONTAINER: Duration = Duration::from_secs(10);

/// Attempts of a restore after a start.
const WARM_TRIES: u32 = 3;
const WARM_PAUSE: Duration = Duration::from_secs(10);

/// Steps other than restores end within this time.
const STEP_LIMIT: Duration = Duration::from_secs(15 * 60);
/// Limits the last snapshot before the server stops.
const LAST_LIMIT: Duration = Duration::from_secs(60);
const END_LIMIT: Duration = Duration::from_secs(10);

const HISTORY: &str = "history";
/// Pause after a failed recording, as on a full disk. After `RECORDS`, a recording has succeeded.
const RECORD_PAUSE: Duration = Duration::from_secs(600);
const RECORDS: Duration = Duration::from_secs(30);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    /// Restore of the best snapshot, after a start; gentle on a standby, which has WAL to replay.
    Warm {
        gently: bool,
    },
    /// Restore of the former primary's blocks, after a promotion.
    Finish(String),
    /// Restore of the primary's blocks on a standby.
    Load(String),
    Take,
    Share(PathBuf),
    Receive,
    /// Hours of history; runs beside other steps.
    Record(u64),
}

impl Step {
    fn name(&self) -> &'static str {
        match self {
            Step::Warm { .. } => "restore",
            Step::Finish(_) => "finish",
            Step::Load(_) => "load",
            Step::Take => "snapshot",
            Step::Share(_) => "share",
            Step::Receive => "receive",
            Step::Record(_) => HISTORY,
        }
    }

    fn words(&self) -> Vec<String> {
        let keep = KEPT.to_string();
        let words: &[&str] = match self {
            Step::Warm { gently: false } => &["restore", "any"],
            Step::Warm { gently: true } => &["restore", "any", "--pace", "gentle"],
            Step::Finish(name) => &["restore", name],
            Step::Load(name) => &["restore", name, "--pace", "gentle"],
            Step::Take => &["snapshot", "take", "--label", OWN_LABEL, "--keep", &keep],
            Step::Share(path) => return vec!["agent".into(), "share".into(), path.display().to_string()],
            Step::Receive => &["agent", "receive"],
            Step::Record(hours) => return vec!["agent".into(), "record".into(), format!("--history={hours}h")],
        };
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    fn is_restore(&self) -> bool {
        matches!(self, Step::Warm { .. } | Step::Finish(_) | Step::Load(_))
    }

    /// Whether the server is not ready meanwhile.
    fn is_warming(&self) -> bool {
        matches!(self, Step::Warm { .. } | Step::Finish(_))
    }
}

struct Running {
    step: Step,
    pid: Option<Pid>,
    started: Instant,
    /// Total of all earlier steps.
    processor_time: Duration,
    /// When the agent sent SIGTERM.
    stopped: Option<Instant>,
    task: JoinHandle<Result<Value, String>>,
}

impl Running {
    fn signal(&self, signal: Signal) {
        // The pid of an ended process may be reused.
        if !self.task.is_finished() {
            let _ = self.pid.map(|pid| kill_process(pid, signal));
        }
    }
}

/// A time `next_` of `None` is now.
#[derive(Default)]
struct Agent {
    arguments: RunArguments,
    /// Options for the server and the snapshots, as each step gets them, and the password of a connection string.
    words: Vec<String>,
    password: Option<String>,
    status: Arc<Mutex<AgentStatus>>,
    place: Option<StatusPlace>,
    session: Option<(Server, PgConnection)>,
    running: Option<Running>,
    recorder: Option<Running>,
    next_record: Option<Instant>,
    look: Option<ServerLook>,
    next_connect: Option<Instant>,
    warm_tries: u32,
    /// Server's start time when last seen as a standby.
    standby_start: Option<f64>,
    /// Received WAL and when it was seen, until it is replayed.
    received_wal: VecDeque<(Instant, i64)>,
    next_warm: Option<Instant>,
    /// Snapshot from the primary, to be restored after a promotion.
    finish: Option<String>,
    next_take: Option<Instant>,
    next_receive: Option<Instant>,
    next_peek: Option<Instant>,
    /// Snapshot to load on a standby, and the newest from the primary.
    wanted: Option<String>,
    received: Option<String>,
    /// Start of the last load, bytes missing then (until the next look), and loads in a row without effect.
    loaded: Option<Instant>,
    missing_before: Option<u64>,
    fruitless: u32,
    to_share: Option<PathBuf>,
    written: Option<Instant>,
    output: OutputArguments,
}

pub async fn run(mut arguments: RunArguments, output: OutputArguments) -> Result<ExitStatus> {
    // Nobody is there to enter a password.
    arguments.place.connection.no_password = true;
    let mut end = std::pin::pin!(hear_signals()?);
    let status = Arc::new(Mutex::new(AgentStatus {
        pid: std::process::id(),
        since: Timestamp::now(),
        written_at: Timestamp::now(),
        ..AgentStatus::default()
    }));
    let endpoint = match arguments.listen {
        Some(address) => {
            let listener = Listener::bind(address, arguments.token_file.as_deref()).await?;
            terminal::print_remark(&format!("metrics: http://{}/metrics", listener.address()?));
            Some(tokio::spawn(serve(listener, Arc::clone(&status))))
        }
        None => None,
    };
    let (words, password) = words_of(&arguments)?;
    let written = Some(Instant::now());
    let mut agent = Agent { arguments, words, password, status, output, written, ..Agent::default() };
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    notify(NotifyState::Ready);
    loop {
        tokio::select! {
            () = &mut end => break,
            _ = ticks.tick() => {}
        }
        tokio::select! {
            () = &mut end => break,
            result = agent.tick() => result?,
        }
        notify(NotifyState::Watchdog);
    }
    notify(NotifyState::Stopping);
    agent.finish().await;
    endpoint.iter().for_each(JoinHandle::abort);
    Ok(ExitStatus::Done)
}

impl Agent {
    async fn tick(&mut self) -> Result<()> {
        self.digest().await;
        self.end_late_step();
        match self.look().await {
            Ok(look) => {
                self.record().await;
                if let Err(error) = self.act(look) {
                    self.fail("start", describe(&error));
                }
            }
            Err(error) if error.is::<AgentError>() => return Err(error),
            Err(error) => {
                (self.session, self.look) = (None, None);
                let is_in_container = self.arguments.place.connection.container.is_some();
                self.next_connect = Some(Instant::now() + if is_in_container { RETRY_IN_CONTAINER } else { RETRY });
                self.fail("connect", describe(&error));
                if !self.running.as_ref().is_some_and(|running| running.step.is_warming()) {
                    self.enter(AgentState::Waiting);
                }
            }
        }
        if self.written.is_none_or(|at| at.elapsed() >= STATUS_INTERVAL) {
            self.write();
        }
        Ok(())
    }

    async fn look(&mut self) -> Result<ServerLook> {
        let (server, connection) = match &mut self.session {
            Some(session) => session,
            none => {
                tokio::time::sleep_until(self.next_connect.unwrap_or_else(Instant::now).into()).await;
                // A restarted container has other processes.
                self.arguments.place.connection.found = Arc::default();
                let server = connect_to_meant(&self.arguments.place.connection).await?;
                let connection = server.connect_to(&server.database).await?;
                none.insert((server, connection))
            }
        };
        let look = read_server_look(connection).await?;
        if look.in_recovery && is_due(self.next_peek) {
            self.next_peek = Some(Instant::now() + RECEIVE_INTERVAL);
            // The step `Receive` reports errors.
            let state = read_warm_state(connection).await.ok().flatten();
            if state.is_some_and(|state| Some(state.taken_at) != lock(&self.status).snapshot_taken_at) {
                self.next_receive = None;
            }
        }
        let cluster = server.facts.system_identifier;
        if self.place.as_ref().is_none_or(|place| place.system_identifier != cluster) {
            let store = self.arguments.place.snapshots.open();
            let container = self.arguments.place.connection.container.as_deref();
            let (place, previous) = StatusPlace::open(&store, cluster, &name_of(&server.describe(), container))?;
            self.recorder.take().iter().for_each(|of_another| of_another.signal(Signal::TERM));
            self.place = Some(place);
            let mut status = lock(&self.status);
            let previous = previous.unwrap_or_default();
            (status.server_start, status.is_restored) = (previous.server_start, previous.is_restored);
            // A promotion while no agent runs is noticed, too.
            self.standby_start = previous.server_start.filter(|_| previous.replay_lag_seconds.is_some());
            self.received = previous.snapshot.filter(|_| self.standby_start.is_some());
            (status.system_identifier, status.address) = (cluster.to_string(), server.address.clone());
        }
        self.succeed("connect");
        Ok(look)
    }

    fn act(&mut self, look: ServerLook) -> Result<()> {
        self.look = Some(look);
        let lag = self.measure_lag(look);
        {
            let mut status = lock(&self.status);
            status.replay_lag_seconds = lag;
            if status.server_start != Some(look.start) {
                // Without a stored status, an old server counts as warm.
                status.is_restored = status.server_start.is_none() && look.uptime >= YOUNG;
                status.server_start = Some(look.start);
                status.failing.clear();
                (status.warmth, status.wanted_bytes, status.missing_bytes) = (None, None, None);
                self.warm_tries = 0;
                self.next_warm = None;
            }
        }
        let is_promoted = !look.in_recovery && self.standby_start.take() == Some(look.start);
        if look.in_recovery {
            self.standby_start = Some(look.start);
        }
        let is_restored = lock(&self.status).is_restored;
        if is_promoted {
            self.finish = self.received.take();
            let mut status = lock(&self.status);
            status.failing.clear();
            (status.warmth, status.wanted_bytes, status.missing_bytes) = (None, None, None);
        }
        let is_slow = lag.is_some_and(|lag| lag > LAG_MAX_SECONDS);
        if let Some(running) = &self.running {
            let is_overtaken = !is_restored || self.finish.is_some();
            let is_in_the_way = matches!(running.step, Step::Load(_)) && is_slow;
            if is_in_the_way || is_overtaken && !running.step.is_warming() {
                self.stop_step();
            }
            return Ok(());
        }
        if !is_restored {
            return if is_due(self.next_warm) { self.start(Step::Warm { gently: look.in_recovery }) } else { Ok(()) };
        }
        if let Some(name) = self.finish.take() {
            self.wanted = None;
            return self.start(Step::Finish(name));
        }
        self.enter(if look.in_recovery { AgentState::Following } else { AgentState::Keeping });
        match self.next_step(look, is_slow) {
            Some(step) => self.start(step),
            None => Ok(()),
        }
    }

    /// Age of the oldest received WAL that is not replayed.
    fn measure_lag(&mut self, look: ServerLook) -> Option<f64> {
        let Some(wal) = look.wal else {
            self.received_wal.clear();
            return None;
        };
        if self.received_wal.back().is_none_or(|(_, received)| *received < wal.received) {
            self.received_wal.push_back((Instant::now(), wal.received));
        }
        while self.received_wal.front().is_some_and(|(_, received)| *received <= wal.replayed) {
            self.received_wal.pop_front();
        }
        Some(self.received_wal.front().map_or(0.0, |(at, _)| at.elapsed().as_secs_f64()))
    }

    fn next_step(&mut self, look: ServerLook, is_slow: bool) -> Option<Step> {
        if let Some(path) = self.to_share.take().filter(|_| !look.in_recovery) {
            return Some(Step::Share(path));
        }
        if let Some(name) = self.wanted.take().filter(|_| look.in_recovery && !is_slow) {
            self.loaded = Some(Instant::now());
            self.missing_before = lock(&self.status).missing_bytes.map(|missing| missing.0);
            return Some(Step::Load(name));
        }
        match look.in_recovery {
            true if is_due(self.next_receive) => Some(Step::Receive),
            _ if is_due(self.next_take) => Some(Step::Take),
            _ => None,
        }
    }

    fn start(&mut self, step: Step) -> Result<()> {
        if step.is_warming() {
            self.enter(AgentState::Warming);
        }
        self.running = Some(self.spawn(step)?);
        Ok(())
    }

    fn spawn(&self, step: Step) -> Result<Running> {
        // This path works after an update of the file.
        let mut command = Command::new("/proc/self/exe");
        command.arg("--json").args(step.words()).args(&self.words).kill_on_drop(true);
        command.envs(self.password.as_ref().map(|password| ("PGPASSWORD", password)));
        // The receipt of a restore has a row per relation, and nobody reads it.
        command.stdout(if step.is_restore() { Stdio::null() } else { Stdio::piped() });
        let child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn()?;
        let pid = child.id().and_then(|pid| Pid::from_raw(pid.cast_signed()));
        let task = tokio::spawn(collect(child));
        let (started, processor_time) = (Instant::now(), read_steps_time());
        Ok(Running { step, pid, started, processor_time, stopped: None, task })
    }

    async fn record(&mut self) {
        let length = self.arguments.history;
        if length.is_zero() {
            return;
        }
        if let Some(ended) = self.recorder.take_if(|recorder| recorder.task.is_finished()) {
            let answer = ended.task.await.unwrap_or_else(|error| Err(error.to_string()));
            self.fail(HISTORY, answer.map_or_else(|error| error, |_| "it ended".to_owned()));
            self.next_record = Some(Instant::now() + RECORD_PAUSE);
        }
        match &self.recorder {
            Some(recorder) if recorder.started.elapsed() > RECORDS => self.succeed(HISTORY),
            None if is_due(self.next_record) => match self.spawn(Step::Record(length.as_secs() / 3600)) {
                Ok(recorder) => self.recorder = Some(recorder),
                Err(error) => self.fail("start", describe(&error)),
            },
            _ => {}
        }
    }

    fn stop_step(&mut self) {
        if let Some(running) = self.running.as_mut().filter(|running| running.stopped.is_none()) {
            running.stopped = Some(Instant::now());
            running.signal(Signal::TERM);
        }
    }

    fn end_late_step(&self) {
        let Some(running) = &self.running else { return };
        let is_late = !running.step.is_restore() && running.started.elapsed() > STEP_LIMIT;
        if is_late || running.stopped.is_some_and(|at| at.elapsed() > END_LIMIT) {
            running.signal(Signal::KILL);
        }
    }

    async fn digest(&mut self) {
        let ended = self.running.take_if(|running| running.task.is_finished());
        let Some(Running { step, processor_time, stopped, task, .. }) = ended else { return };
        let answer = task.await.unwrap_or_else(|error| Err(error.to_string()));
        let rest = (read_steps_time().saturating_sub(processor_time) * REST).min(REST_MAX);
        let every = self.arguments.every;
        match &step {
            Step::Take => self.next_take = Some(Instant::now() + every.unwrap_or(rest.max(EVERY))),
            Step::Receive => {
                let pause = RECEIVE_INTERVAL.max(rest.min(every.unwrap_or(REST_MAX)));
                self.next_receive = Some(Instant::now() + pause);
            }
            Step::Share(_) if every.is_none() => self.next_take = self.next_take.map(|at| at + rest),
            Step::Share(_) | Step::Record(_) => {}
            Step::Warm { .. } | Step::Finish(_) | Step::Load(_) => {
                lock(&self.status).restores += 1;
                self.next_receive = None;
            }
        }
        if stopped.is_some() {
            // A stopped load does not show whether the blocks fit.
            self.missing_before = None;
        }
        if matches!(step, Step::Warm { .. }) && stopped.is_none() {
            self.warm_tries += 1;
            self.next_warm = Some(Instant::now() + WARM_PAUSE);
            lock(&self.status).is_restored = answer.is_ok() || self.warm_tries >= WARM_TRIES;
        }
        match answer {
            Ok(answer) => {
                self.take_in(&step, &answer);
                self.succeed(step.name());
            }
            Err(_) if stopped.is_some() => {}
            Err(error) => {
                if step == Step::Receive {
                    lock(&self.status).warmth = None;
                }
                self.fail(step.name(), error);
            }
        }
        self.write();
    }

    fn take_in(&mut self, step: &Step, answer: &Value) {
        let bytes = |name: &str| serde_json::from_value(answer[name].clone()).ok();
        let time = |value: &Value| serde_json::from_value(value.clone()).ok();
        let is_standby = self.look.is_some_and(|look| look.in_recovery);
        let mut status = lock(&self.status);
        match step {
            Step::Take => {
                let header = &answer["header"];
                let block_size = header["source"]["block_size"].as_u64().unwrap_or(0);
                let blocks = |name: &str| header[name].as_u64().map(|blocks| Bytes(blocks * block_size));
                (status.os_bytes, status.buffers_bytes) = (blocks("os_blocks"), blocks("buffers_blocks"));
                // A standby's status shows the primary's snapshot.
                if !is_standby {
                    let path = answer["path"].as_str().map(PathBuf::from);
                    let stem = path.as_ref().and_then(|path| path.file_stem());
                    status.snapshot = stem.map(|stem| stem.to_string_lossy().into_owned());
                    status.snapshot_taken_at = time(&header["taken_at"]);
                    (status.warmth, status.wanted_bytes, status.missing_bytes) = (None, None, None);
                    self.to_share = path;
                }
            }
            Step::Share(_) => status.warm_set_rows = answer["rows"].as_u64(),
            Step::Receive if answer["warmth"].is_null() => status.warmth = None,
            Step::Receive => {
                status.snapshot = answer["snapshot"].as_str().map(str::to_owned);
                status.snapshot_taken_at = time(&answer["taken_at"]);
                status.warm_set_rows = answer["rows"].as_u64();
                status.warmth = serde_json::from_value(answer["warmth"].clone()).ok();
                (status.wanted_bytes, status.missing_bytes) = (bytes("wanted_bytes"), bytes("missing_bytes"));
                (status.os_bytes, status.buffers_bytes) = (bytes("os_bytes"), bytes("buffers_bytes"));
                self.received = status.snapshot.clone();
                let missing = status.missing_bytes.unwrap_or_default().0;
                let share = missing as f64 / status.wanted_bytes.unwrap_or_default().0.max(1) as f64;
                let of_buffers = status.warmth.and_then(|warmth| warmth.buffers).unwrap_or(1.0);
                // Only free buffers are filled, so one attempt is enough.
                let is_cold = missing > MISSING_MIN_BYTES && share > MISSING_SHARE
                    || of_buffers < BUFFERS_SHARE && self.loaded.is_none();
                // A smaller standby holds the hottest part, and cannot hold more.
                if let Some(before) = self.missing_before.take() {
                    let is_fruitless = is_cold && missing as f64 > 0.9 * before as f64;
                    self.fruitless = if is_fruitless { self.fruitless + 1 } else { 0 };
                }
                let pause = self.arguments.every.unwrap_or(EVERY) * 2_u32.pow(self.fruitless.min(6));
                let is_early = self.loaded.is_some_and(|at| self.fruitless > 0 && at.elapsed() < pause);
                self.wanted = self.received.clone().filter(|_| is_cold && !is_early);
                if let Some(failure) = answer["failure"].as_str() {
                    status.failing.insert("warm_set".to_owned(), failure.to_owned());
                } else {
                    status.failing.remove("warm_set");
                }
            }
            Step::Warm { .. } | Step::Finish(_) | Step::Load(_) | Step::Record(_) => {}
        }
    }

    fn enter(&mut self, state: AgentState) {
        let mut status = lock(&self.status);
        if status.state != state {
            (status.state, status.since) = (state, Timestamp::now());
            drop(status);
            self.say(state.name());
            self.write();
        }
    }

    fn fail(&self, step: &str, error: String) {
        let mut status = lock(&self.status);
        *status.errors.entry(step.to_owned()).or_default() += 1;
        let before = status.failing.insert(step.to_owned(), error.clone());
        drop(status);
        if before.as_ref() != Some(&error) {
            self.say(&format!("{step} failed: {error}"));
        }
    }

    fn succeed(&self, step: &str) {
        lock(&self.status).failing.remove(step);
    }

    fn say(&self, text: &str) {
        if !self.output.quiet {
            terminal::print_aside(&format!("{} {text}", Zoned::now().strftime("%F %T")), false);
        }
    }

    fn write(&mut self) {
        self.written = Some(Instant::now());
        lock(&self.status).written_at = Timestamp::now();
        let status = lock(&self.status).clone();
        // A full disk does not end the agent.
        let _ = self.place.as_ref().map(|place| place.write(&status));
    }

    /// Takes a last snapshot: systemd stops the agent before the server.
    async fn finish(&mut self) {
        let was_restoring = self.running.as_ref().is_some_and(|running| running.step.is_warming());
        self.stop_step();
        self.recorder.iter().for_each(|recorder| recorder.signal(Signal::TERM));
        for running in self.running.take().into_iter().chain(self.recorder.take()) {
            let _ = timeout(END_LIMIT, running.task).await;
        }
        if self.look.is_some() && !was_restoring && self.start(Step::Take).is_ok() {
            let until = Instant::now() + LAST_LIMIT;
            while self.running.is_some() && Instant::now() < until {
                sleep(Duration::from_millis(50)).await;
                self.digest().await;
            }
        }
        self.enter(AgentState::Stopped);
    }
}

fn is_due(next: Option<Instant>) -> bool {
    next.is_none_or(|at| at <= Instant::now())
}

/// Processor time of the ended steps.
fn read_steps_time() -> Duration {
    let agent = std::process::id();
    let with_steps = read_family_cpu_time(agent).unwrap_or_default();
    with_steps.saturating_sub(read_cpu_time(agent).unwrap_or_default())
}

/// The answer of a step, or its error.
async fn collect(child: Child) -> Result<Value, String> {
    let ended = child.wait_with_output().await.map_err(|error| error.to_string())?;
    match ended.status.success() {
        true => Ok(serde_json::from_slice(&ended.stdout).unwrap_or_default()),
        false => {
            let complaint = String::from_utf8_lossy(&ended.stderr);
            let last = complaint.lines().rev().find_map(|line| serde_json::from_str::<Value>(line).ok());
            let told = last.and_then(|last| last["error"].as_str().map(str::to_owned));
            Err(told.unwrap_or_else(|| format!("it ended with {}", ended.status)))
        }
    }
}

fn words_of(arguments: &RunArguments) -> Result<(Vec<String>, Option<String>)> {
    let ConnectionArguments { host, port, username, databases, system_user, data_dir, container, .. } =
        &arguments.place.connection;
    let path = |path: &PathBuf| path.display().to_string();
    let single = [
        ("--host", host.clone()),
        ("--port", port.clone()),
        ("--username", username.clone()),
        ("--as", system_user.clone()),
        ("--data-dir", data_dir.as_ref().map(path)),
        ("--container", container.clone()),
        ("--dir", arguments.place.snapshots.directory.as_ref().map(path)),
    ];
    let single = single.into_iter().filter_map(|(option, value)| Some(format!("{option}={}", value?)));
    let mut words: Vec<String> = single.chain(["--no-password".to_owned()]).collect();
    let mut password = None;
    for database in databases {
        // The process list shows command lines.
        let string = parse_connection_string(database)?;
        password = password.or(string.as_ref().and_then(|string| string.get("password").map(str::to_owned)));
        let told = string.map_or_else(|| database.clone(), |string| string.render_without_password());
        words.push(format!("--dbname={told}"));
    }
    Ok((words, password))
}

async fn serve(listener: Listener, status: Arc<Mutex<AgentStatus>>) {
    let page = move |uri: &Uri| {
        let status = lock(&status).clone();
        let ok = |kind: &'static str, body: String| Some(respond(StatusCode::OK, kind, body));
        match uri.path() {
            "/metrics" => ok(METRICS_TYPE, render_metrics(&status)),
            "/status" => ok("application/json", serde_json::to_string_pretty(&status).unwrap_or_default()),
            "/ready" => {
                let least = find_in_pairs(uri.query().unwrap_or_default(), "min");
                let least = least.map_or(Ok(READY_SHARE), |text| parse_share(&text));
                let (status, body) = match least.map(|least| judge(&status, least)) {
                    Err(error) => (StatusCode::BAD_REQUEST, format!("min {error}")),
                    Ok((true, text)) => (StatusCode::OK, text),
                    Ok((false, text)) => (StatusCode::SERVICE_UNAVAILABLE, text),
                };
                Some(respond(status, PLAIN, body + "\n"))
            }
            _ => None,
        }
    };
    listener.run_pages(Some("/ready"), page, std::future::pending()).await;
}

/// Notifies systemd, if it started the agent (sd_notify(3)).
fn notify(state: NotifyState<'_>) {
    let _ = sd_notify::notify(&[state]);
}
