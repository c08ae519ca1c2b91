//! Runs pgbench on other hosts, started at the same instant and counted as one load. A host is any command that runs
//! `sh` on pgthaw's pipes. This needs no shell quoting, and no process list shows a password. pgbench ends when its
//! input pipe closes.

use std::fs::File;
use std::io;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use super::cluster::Lab;
use super::generator::{Generator, LoadFigures, new_latencies};
use super::launch::{Start, Stop, Work, complaints_of, kill_group, read_lossy, read_paces};
use crate::study::{Error, Generators, Latencies, Result, TrialGenerator, TrialGenerators};
use host::files::read_at_most;
use host::linux::{MachineIdentity, clock, read_identity};
use pgbench::{PgbenchOutcome, parse_report};
use postgres::{ConnectOptions, Load, Pgbench, SCRIPT_BYTES_MAX, Script, visit_transactions};

const LEAD: Duration = Duration::from_millis(300);
const LEAD_ROUND_TRIPS: u32 = 4;

const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Timeout for a lost host, which not every transport detects.
const SILENCE_LIMIT: Duration = Duration::from_secs(60);

/// Dropping a `Fleet` ends pgbench on all hosts of the trial.
#[derive(Debug)]
pub struct Fleet {
    members: Vec<Member>,
    start: Option<Start>,
    stop: Stop,
}

#[derive(Debug)]
struct Member {
    session: Session,
    load: Load,
    command: String,
    version: String,
    is_seen: bool,
    offset: ClockOffset,
    /// Time since boot at which pgbench's end was reported, and pgbench's start in ns by the host's clock.
    ended: Option<(Duration, Option<i64>)>,
    is_done: bool,
}

/// Fails if a host is unreachable or lacks pgbench.
pub fn check_hosts(generators: &Generators, work: Work<'_>) -> Result<Vec<String>, Error> {
    let directory = work.make_temporary()?;
    let work = Work { directory: directory.path(), ..work };
    let load = Load::new(generators.hosts.len() as u32, 1, 1);
    let fleet = Fleet::ready(generators, &load, &ConnectOptions::default(), "", work)?;
    let describe = |member: &Member| {
        let ClockOffset { offset_ns, uncertainty_ns } = member.offset;
        let (offset, uncertainty) = (to_ms(offset_ns), to_ms(uncertainty_ns));
        let (host, version) = (&member.session.host, &member.version);
        format!("{host}: {version}, its clock is {offset:+.1} ms ahead of this host's, ± {uncertainty:.1} ms")
    };
    Ok(fleet.members.iter().map(describe).collect())
}

impl Fleet {
    /// `connection` is the server's address.
    pub fn ready(
        generators: &Generators,
        load: &Load,
        connection: &ConnectOptions,
        password: &str,
        work: Work<'_>,
    ) -> Result<Fleet, Error> {
        let mut opened = Vec::new();
        for (place, (host, load)) in generators.hosts.iter().zip(share_load(load, generators.hosts.len())).enumerate() {
            let (script, arguments) = write_script(&load, connection.clone(), password, generators.pgbench(host))?;
            let directory = work.directory.join(format!("generator-{place}"));
            let session = Session::open(host, &generators.command(host), script, &directory)?;
            opened.push((session, load, format!("{host}: pgbench {arguments}")));
        }
        let here = read_identity();
        let join = |(session, load, command)| Member::join(session, load, command, &here, work.stop);
        let members = opened.into_iter().map(join).collect::<Result<_, _>>()?;
        Ok(Fleet { members, start: None, stop: work.stop.clone() })
    }
}

impl Member {
    fn join(mut session: Session, load: Load, command: String, here: &MachineIdentity, stop: &Stop) -> Result<Member> {
        let (mut version, mut is_seen) = (String::new(), false);
        loop {
            match session.wait(stop)?.answer {
                Answer::Version(said) => version = said,
                Answer::Machine(there) => is_seen = *here == there,
                Answer::Ready => break,
                _ => {}
            }
        }
        session.take_pipe()?;
        let offset = session.measure_offset(stop)?;
        Ok(Member { session, load, command, version, is_seen, offset, ended: None, is_done: false })
    }

    /// Returns the waiting process, `None` if it is not visible on this machine.
    fn announce(&mut self, start: Start, stop: &Stop) -> Result<Option<u32>, Error> {
        self.session.say(&format!("start {}", start_ns(start) + self.offset.offset_ns))?;
        loop {
            if let Answer::Process(pid) = self.session.wait(stop)?.answer {
                return Ok(Some(pid).filter(|_| self.is_seen));
            }
        }
    }

    fn listen(&mut self) -> Result<(), Error> {
        while !self.is_done
            && let Some(heard) = self.session.poll()?
        {
            match heard.answer {
                Answer::Ended { status, begun_ns } => {
                    if let Some(why) = describe_status(status) {
                        return Err(self.session.failure(&why));
                    }
                    self.ended = Some((heard.monotonic, begun_ns));
                }
                Answer::Done => self.is_done = true,
                _ => {}
            }
        }
        Ok(())
    }

    fn count(&mut self, start: Option<Start>, latencies: &mut Latencies) -> Result<(PgbenchOutcome, TrialGenerator)> {
        let behind_us = self.offset.offset_ns / 1000;
        visit_transactions(&self.session.files.logs, |one| latencies.add(one.by_clock_behind(behind_us)))?;
        let report = self.session.read_report();
        let outcome =
            parse_report(&report).outcome.ok_or_else(|| self.session.failure(&format!("invalid report: {report}")))?;
        let began = self.ended.and_then(|(_, begun_ns)| begun_ns).zip(start);
        let after_ns = began.map(|(begun_ns, start)| begun_ns - self.offset.offset_ns - start_ns(start));
        let generator = TrialGenerator {
            host: self.session.host.clone(),
            clients: self.load.clients,
            jobs: self.load.jobs,
            pgbench_version: self.version.clone(),
            clock_offset_ms: to_ms(self.offset.offset_ns),
            clock_uncertainty_ms: to_ms(self.offset.uncertainty_ns),
            started_after_ms: to_ms(after_ns.unwrap_or_default()),
            transactions: outcome.transactions,
            tps: outcome.tps,
            is_seen: self.is_seen,
        };
        Ok((outcome, generator))
    }
}

impl Generator for Fleet {
    fn command(&self, _lab: &Lab, _asked: &Load) -> Result<String, Error> {
        Ok(self.members.iter().map(|member| member.command.as_str()).collect::<Vec<_>>().join("; "))
    }

    fn lead(&self) -> Duration {
        let farthest_ns = self.members.iter().map(|member| member.offset.uncertainty_ns).max().unwrap_or_default();
        // A clock's uncertainty is half a round trip, hence the factor 2.
        LEAD + LEAD_ROUND_TRIPS * 2 * Duration::from_nanos(farthest_ns.unsigned_abs())
    }

    fn announce(&mut self, start: Start) -> Result<Vec<u32>, Error> {
        self.start = Some(start);
        let stop = &self.stop;
        let processes: Vec<Option<u32>> =
            self.members.iter_mut().map(|member| member.announce(start, stop)).collect::<Result<_, _>>()?;
        Ok(processes.into_iter().flatten().collect())
    }

    fn poll(&mut self) -> Result<Option<Duration>, Error> {
        self.members.iter_mut().try_for_each(Member::listen)?;
        let ends: Option<Vec<Duration>> = self.members.iter().map(|member| Some(member.ended?.0)).collect();
        Ok(ends.and_then(|ends| ends.into_iter().max()))
    }

    fn end_early(&mut self) {
        for member in self.members.iter_mut().filter(|member| member.ended.is_none()) {
            // If the host is gone, the next poll detects that.
            let _ = member.session.say("alarm");
        }
    }

    /// While any host runs, includes only seconds that all hosts have reported.
    fn read_paces(&self) -> Vec<f64> {
        let paces_of = |member: &Member| read_paces(&read_lossy(&member.session.files.errors));
        let paces: Vec<Vec<f64>> = self.members.iter().map(paces_of).collect();
        let lengths = || paces.iter().map(Vec::len);
        let is_over = self.members.iter().all(|member| member.ended.is_some());
        let seconds = if is_over { lengths().max() } else { lengths().min() };
        let sum = |second: usize| paces.iter().filter_map(|paces| paces.get(second)).sum();
        (0..seconds.unwrap_or_default()).map(sum).collect()
    }

    fn failure(&self) -> Error {
        let running = self.members.iter().filter(|member| member.ended.is_none());
        let hosts: Vec<&str> = running.map(|member| member.session.host.as_str()).collect();
        Error::Generator { host: hosts.join(", "), output: "it did not end by itself".to_owned() }
    }

    /// Waits for all logs. Figures use this host's clock.
    fn finish(mut self: Box<Self>, load: &Load) -> Result<LoadFigures, Error> {
        let began = clock::read_monotonic();
        while !self.members.iter().all(|member| member.is_done) {
            self.stop.check()?;
            self.members.iter_mut().try_for_each(Member::listen)?;
            let mut sending = self.members.iter_mut().filter(|member| !member.is_done);
            sending.try_for_each(|member| member.session.check_heard(began, SILENCE_LIMIT))?;
            std::thread::sleep(POLL_INTERVAL);
        }
        let mut latencies = new_latencies(load);
        let counted = self.members.iter_mut().map(|member| member.count(self.start, &mut latencies));
        let (outcomes, hosts): (Vec<_>, Vec<_>) = counted.collect::<Result<Vec<_>, _>>()?.into_iter().unzip();
        let generators = Some(TrialGenerators::new(hosts));
        Ok(LoadFigures { latencies, outcome: merge_outcomes(&outcomes), generators })
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        // Closes all pipes first: dropping a session waits for its end.
        self.members.iter_mut().for_each(|member| member.session.hang_up());
    }
}

fn start_ns(start: Start) -> i64 {
    start.unix * 1_000_000_000
}

fn to_ms(ns: i64) -> f64 {
    ns as f64 / 1e6
}

/// The longest of the parallel runs determines the throughput.
fn merge_outcomes(outcomes: &[PgbenchOutcome]) -> PgbenchOutcome {
    let sum = |of: fn(&PgbenchOutcome) -> u64| outcomes.iter().map(of).sum::<u64>();
    let transactions = sum(|one| one.transactions);
    let lasted = outcomes.iter().filter(|one| one.tps > 0.0).map(|one| one.transactions as f64 / one.tps);
    let longest = lasted.fold(0.0, f64::max);
    PgbenchOutcome {
        transactions,
        failed: sum(|one| one.failed),
        skipped: sum(|one| one.skipped),
        late: sum(|one| one.late),
        retried: sum(|one| one.retried),
        retries: sum(|one| one.retries),
        tps: if longest > 0.0 { transactions as f64 / longest } else { 0.0 },
    }
}

/// Divides clients and threads evenly, the rate in proportion to clients. Omits hosts without clients.
pub fn share_load(load: &Load, hosts: usize) -> Vec<Load> {
    let clients = share(load.clients, hosts as u32);
    let busy = clients.iter().filter(|clients| **clients > 0).count();
    let jobs = share(load.jobs.min(load.clients), busy as u32);
    let of_host = |(clients, jobs): (u32, u32)| Load {
        clients,
        jobs: jobs.max(1),
        rate: load.rate.map(|rate| rate * f64::from(clients) / f64::from(load.clients)),
        ..load.clone()
    };
    clients.into_iter().zip(jobs).map(of_host).collect()
}

fn share(amount: u32, hosts: u32) -> Vec<u32> {
    (0..hosts).map(|host| amount / hosts + u32::from(host < amount % hosts)).collect()
}

const BODY: &str = include_str!("host.sh");

/// Writes one compound command: the shell reads no later input as script. Also returns pgbench's arguments.
fn write_script(
    load: &Load,
    connection: ConnectOptions,
    password: &str,
    pgbench: Option<&str>,
) -> Result<(Vec<u8>, String), Error> {
    let mut load = load.clone();
    let files = take_files(&mut load)?;
    let arguments = Pgbench::in_path(connection).load_arguments(&load, &PathBuf::new());
    let arguments: Vec<String> =
        arguments.iter().map(|argument| quote(argument.to_string_lossy().as_bytes())).map(into_text).collect();
    let arguments = arguments.join(" ");
    let [password, pgbench] = [password, pgbench.unwrap_or_default()].map(|word| into_text(quote(word.as_bytes())));
    let mut text = format!("{{\npassword={password}\npgbench={pgbench}\nput_files() {{\n:\n").into_bytes();
    for (name, content) in files {
        text.extend(b"printf %s ");
        text.extend(quote(&content));
        text.extend(format!(" >{name} || return\n").into_bytes());
    }
    text.extend(format!("}}\nrun_pgbench() {{ exec \"$pgbench\" {arguments}; }}\n{BODY}}}\n").into_bytes());
    Ok((text, arguments))
}

fn take_files(load: &mut Load) -> Result<Vec<(String, Vec<u8>)>, Error> {
    let mut files = Vec::new();
    for (script, _) in &mut load.scripts {
        let Script::File(path) = script else { continue };
        let content = read_at_most(path, SCRIPT_BYTES_MAX).map_err(|source| Error::file("read", path, source))?;
        if content.contains(&0) {
            return Err(Error::Setting(format!(
                "points.script: {} has a zero byte and is not a script",
                path.display()
            )));
        }
        let name = format!("{}.sql", files.len());
        *script = Script::File(PathBuf::from(&name));
        files.push((name, content));
    }
    Ok(files)
}

fn quote(word: &[u8]) -> Vec<u8> {
    let parts: Vec<&[u8]> = word.split(|byte| *byte == b'\'').collect();
    let edge = &b"'"[..];
    [edge, parts.join(&br"'\''"[..]).as_slice(), edge].concat()
}

fn into_text(bytes: Vec<u8>) -> String {
    String::from_utf8_lossy(&bytes).into_owned()
}

const ANSWER_LIMIT: Duration = Duration::from_secs(30);

const FAREWELL_LIMIT: Duration = Duration::from_secs(3);

/// A clock measurement ends after 20 round trips or 2 s, but not before 5 round trips.
const ROUND_TRIPS: usize = 20;
const ROUND_TRIPS_MIN: usize = 5;
const ROUND_TRIPS_LIMIT: Duration = Duration::from_secs(2);

const LINE_BYTES_MAX: u64 = 1 << 16;

/// Dropping it ends the host's processes.
#[derive(Debug)]
pub struct Session {
    pub host: String,
    child: Child,
    opening: Option<JoinHandle<io::Result<ChildStdin>>>,
    pipe: Option<ChildStdin>,
    heard: Receiver<Heard>,
    /// Last byte received, in ms since boot.
    last_byte: Arc<AtomicU64>,
    files: SessionFiles,
}

fn read_monotonic_ms() -> u64 {
    clock::read_monotonic().as_millis() as u64
}

struct Noting<R> {
    inner: R,
    last_byte: Arc<AtomicU64>,
}

impl<R: io::Read> io::Read for Noting<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.last_byte.store(read_monotonic_ms(), Ordering::Relaxed);
        Ok(read)
    }
}

#[derive(Clone, Debug)]
struct SessionFiles {
    errors: PathBuf,
    report: PathBuf,
    logs: PathBuf,
}

/// Answer of a host, and when it arrived: `wall_ns` since 1970, `monotonic` since boot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard {
    pub answer: Answer,
    pub wall_ns: i64,
    pub monotonic: Duration,
}

impl Heard {
    fn now(answer: Answer) -> Heard {
        Heard { answer, wall_ns: clock::read_wall_ns(), monotonic: clock::read_monotonic() }
    }
}

impl Session {
    /// Starts the host's shell and sends `script`, without waiting for an answer. `directory` gets the output.
    pub fn open(host: &str, command: &[String], script: Vec<u8>, directory: &Path) -> Result<Session, Error> {
        let logs = directory.join("logs");
        std::fs::create_dir_all(&logs).map_err(|source| Error::file("create", &logs, source))?;
        let files = SessionFiles { errors: directory.join("errors"), report: directory.join("report"), logs };
        let errors = File::create(&files.errors).map_err(|source| Error::file("create", &files.errors, source))?;
        let mut launch = Command::new(&command[0]);
        launch.args(&command[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(errors);
        // Ctrl-C must reach only pgthaw, which then closes the pipes.
        launch.process_group(0);
        let mut child = launch.spawn().map_err(|source| Error::Launch { command: command.join(" "), source })?;
        let (Some(mut pipe), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            unreachable!("both were requested as pipes")
        };
        // A script may exceed the pipe's capacity, and the host may never read it.
        let opening = std::thread::spawn(move || pipe.write_all(&script).map(|()| pipe));
        let (tell, heard) = channel();
        let (kept, last_byte) = (files.clone(), Arc::new(AtomicU64::new(read_monotonic_ms())));
        let output = Noting { inner: stdout, last_byte: Arc::clone(&last_byte) };
        std::thread::spawn(move || listen(output, &kept, &tell));
        Ok(Session { host: host.to_owned(), child, opening: Some(opening), pipe: None, heard, last_byte, files })
    }

    pub fn wait(&mut self, stop: &Stop) -> Result<Heard, Error> {
        let deadline = clock::read_monotonic() + ANSWER_LIMIT;
        loop {
            stop.check()?;
            match self.heard.recv_timeout(POLL_INTERVAL) {
                Ok(heard) => return self.check(heard),
                Err(RecvTimeoutError::Disconnected) => return Err(self.gone()),
                Err(RecvTimeoutError::Timeout) if clock::read_monotonic() < deadline => {}
                Err(RecvTimeoutError::Timeout) => {
                    let seconds = ANSWER_LIMIT.as_secs();
                    return Err(self.failure(&format!("it did not answer for {seconds} s")));
                }
            }
        }
    }

    pub fn poll(&mut self) -> Result<Option<Heard>, Error> {
        match self.heard.try_recv() {
            Ok(heard) => self.check(heard).map(Some),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(self.gone()),
        }
    }

    /// Fails if no byte has arrived for `limit`, counted from `asked` at the earliest.
    pub fn check_heard(&mut self, asked: Duration, limit: Duration) -> Result<(), Error> {
        let silent = clock::read_monotonic()
            .saturating_sub(Duration::from_millis(self.last_byte.load(Ordering::Relaxed)).max(asked));
        match silent < limit {
            true => Ok(()),
            false => Err(self.failure(&format!("it sent no log data for {} s", limit.as_secs()))),
        }
    }

    fn check(&mut self, heard: Heard) -> Result<Heard, Error> {
        match heard.answer {
            Answer::Failed(why) => Err(self.failure(&why)),
            _ => Ok(heard),
        }
    }

    /// Enables `say`. May block before `Answer::Ready`.
    pub fn take_pipe(&mut self) -> Result<(), Error> {
        let Some(opening) = self.opening.take() else { return Ok(()) };
        let opened = opening.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        self.pipe = Some(opened.map_err(|error| self.failure(&error.to_string()))?);
        Ok(())
    }

    pub fn say(&mut self, line: &str) -> Result<(), Error> {
        let Some(pipe) = &mut self.pipe else { return Err(self.gone()) };
        // One write: a pause within the line would distort `measure_offset`.
        pipe.write_all(format!("{line}\n").as_bytes()).map_err(|_| self.gone())
    }

    pub fn measure_offset(&mut self, stop: &Stop) -> Result<ClockOffset, Error> {
        let (mut trips, began) = (Vec::new(), clock::read_monotonic());
        while trips.len() < ROUND_TRIPS
            && (trips.len() < ROUND_TRIPS_MIN || clock::read_monotonic() - began < ROUND_TRIPS_LIMIT)
        {
            let asked_ns = clock::read_wall_ns();
            self.say("clock")?;
            let heard = self.wait(stop)?;
            if let Answer::Clock(there_ns) = heard.answer {
                trips.push(ClockOffset::of(asked_ns, there_ns, heard.wall_ns));
            }
        }
        ClockOffset::quickest(trips).ok_or_else(|| self.failure("this host's clock was set back"))
    }

    pub fn read_report(&self) -> String {
        read_lossy(&self.files.report)
    }

    pub fn failure(&mut self, why: &str) -> Error {
        let said = complaints_of(&read_lossy(&self.files.errors));
        let output = [Some(why.to_owned()), said].into_iter().flatten().collect::<Vec<_>>().join(": ");
        Error::Generator { host: self.host.clone(), output }
    }

    fn gone(&mut self) -> Error {
        // The host's last message may arrive only now.
        let status = self.wait_for_end(FAREWELL_LIMIT);
        let why =
            status.map_or_else(|| "its output ended".to_owned(), |status| format!("the connection ended ({status})"));
        self.failure(&why)
    }

    pub fn hang_up(&mut self) {
        self.pipe = None;
    }

    fn wait_for_end(&mut self, limit: Duration) -> Option<std::process::ExitStatus> {
        let deadline = clock::read_monotonic() + limit;
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return Some(status),
                Ok(None) if clock::read_monotonic() < deadline => std::thread::sleep(POLL_INTERVAL),
                _ => return None,
            }
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.hang_up();
        let limit = if self.opening.is_some() { Duration::ZERO } else { FAREWELL_LIMIT };
        if self.wait_for_end(limit).is_none() {
            kill_group(&mut self.child);
        }
    }
}

fn listen(stdout: impl io::Read, files: &SessionFiles, tell: &Sender<Heard>) {
    let mut reader = BufReader::with_capacity(1 << 17, stdout);
    let mut logs = 0;
    let mut line = Vec::new();
    loop {
        line.clear();
        let is_read = (&mut reader).take(LINE_BYTES_MAX).read_until(b'\n', &mut line);
        if !is_read.is_ok_and(|bytes| bytes > 0) {
            break;
        }
        let Some(answer) = parse_answer(String::from_utf8_lossy(&line).trim_end()) else { continue };
        if let Answer::File { bytes, is_report } = answer {
            let path = if is_report { files.report.clone() } else { files.logs.join(format!("log.{logs}")) };
            logs += u32::from(!is_report);
            if let Err(error) = keep_file(&mut reader, bytes, &path) {
                let _ = tell.send(Heard::now(Answer::Failed(format!("cannot store its output: {error}"))));
                return;
            }
        }
        if tell.send(Heard::now(answer)).is_err() {
            return;
        }
    }
}

fn keep_file(reader: &mut impl io::Read, bytes: u64, path: &Path) -> io::Result<()> {
    match io::copy(&mut reader.take(bytes), &mut File::create(path)?)? {
        kept if kept == bytes => Ok(()),
        kept => Err(io::Error::other(format!("received {kept} of {bytes} bytes"))),
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Version(String),
    Machine(MachineIdentity),
    Ready,
    /// The host's clock in nanoseconds since 1970.
    Clock(i64),
    Process(u32),
    /// Shell exit status, and pgbench's start in nanoseconds since 1970.
    Ended {
        status: i32,
        begun_ns: Option<i64>,
    },
    File {
        bytes: u64,
        is_report: bool,
    },
    Done,
    Failed(String),
}

pub fn parse_answer(line: &str) -> Option<Answer> {
    let (word, rest) = line.strip_prefix("pgthaw ")?.split_once(' ').unwrap_or((line.strip_prefix("pgthaw ")?, ""));
    let mut words = rest.split_ascii_whitespace();
    Some(match word {
        "version" => Answer::Version(rest.to_owned()),
        "machine" => {
            Answer::Machine(MachineIdentity { boot: words.next()?.to_owned(), processes: words.next()?.to_owned() })
        }
        "ready" => Answer::Ready,
        "clock" => match rest.parse() {
            Ok(ns) => Answer::Clock(ns),
            Err(_) => Answer::Failed(format!("its `date` has no nanoseconds and printed {rest}")),
        },
        "process" => Answer::Process(rest.parse().ok()?),
        "ended" => {
            let (status, _ended) = (words.next()?.parse().ok()?, words.next()?);
            Answer::Ended { status, begun_ns: words.next().and_then(|begun| begun.parse().ok()) }
        }
        "file" => Answer::File { bytes: words.next()?.parse().ok()?, is_report: words.next()? == "report" },
        "done" => Answer::Done,
        "failed" => Answer::Failed(rest.to_owned()),
        _ => return None,
    })
}

pub fn describe_status(status: i32) -> Option<String> {
    match status {
        0 => None,
        signal if signal > 128 => Some(format!("it was ended by signal {}", signal - 128)),
        status => Some(format!("it ended with status {status}")),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockOffset {
    pub offset_ns: i64,
    pub uncertainty_ns: i64,
}

impl ClockOffset {
    /// The least uncertain. `None` if the clock was set back in each.
    fn quickest(trips: Vec<Option<ClockOffset>>) -> Option<ClockOffset> {
        trips.into_iter().flatten().min_by_key(|trip| trip.uncertainty_ns)
    }

    /// From one query, in nanoseconds since 1970; `there_ns` is by the other host's clock. `None` if this host's clock was
    /// set back meanwhile.
    fn of(asked_ns: i64, there_ns: i64, answered_ns: i64) -> Option<ClockOffset> {
        let took_ns = answered_ns - asked_ns;
        let offset_ns = there_ns - (asked_ns + took_ns / 2);
        (took_ns >= 0).then(|| ClockOffset { offset_ns, uncertainty_ns: took_ns - took_ns / 2 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pgbench::QueryMode;
    use postgres::{Length, TransactionLog};

    #[test]
    fn outcomes_add_up_and_the_longest_run_divides() {
        let of = |transactions, tps| PgbenchOutcome { transactions, tps, retries: 1, ..PgbenchOutcome::default() };
        let both = merge_outcomes(&[of(1000, 100.0), of(3000, 600.0)]);
        assert_eq!((both.transactions, both.retries, both.tps), (4000, 2, 400.0));
        assert_eq!(merge_outcomes(&[of(0, 0.0), of(100, 10.0)]).tps, 10.0);
        assert_eq!(merge_outcomes(&[of(0, 0.0)]).tps, 0.0);
    }

    fn shared(clients: u32, jobs: u32, hosts: usize) -> Vec<(u32, u32, Option<f64>)> {
        let load = Load {
            scripts: Vec::new(),
            variables: Vec::new(),
            query_mode: QueryMode::default(),
            clients,
            jobs,
            rate: Some(1000.0),
            latency_limit_ms: None,
            max_tries: 1,
            length: Length::Seconds(1),
            log: TransactionLog::Seconds,
        };
        share_load(&load, hosts).iter().map(|one| (one.clients, one.jobs, one.rate)).collect()
    }

    #[test]
    fn every_client_is_somewhere_and_the_rate_goes_with_them() {
        assert_eq!(shared(4, 2, 2), [(2, 1, Some(500.0)), (2, 1, Some(500.0))]);
        assert_eq!(shared(5, 3, 2), [(3, 2, Some(600.0)), (2, 1, Some(400.0))]);
        assert_eq!(shared(2, 2, 3), [(1, 1, Some(500.0)), (1, 1, Some(500.0))]);
        assert_eq!(shared(4, 1, 2), [(2, 1, Some(500.0)), (2, 1, Some(500.0))]);
    }
}

#[cfg(test)]
mod script_tests {
    use std::path::Path;
    use std::process::Command;

    use proptest::prelude::*;

    use super::*;
    use pgbench::QueryMode;
    use postgres::{Length, TransactionLog};

    fn load(script: &Path) -> Load {
        Load {
            scripts: vec![(Script::File(script.to_owned()), 3), (Script::Builtin("select-only"), 1)],
            variables: vec![("x".into(), "it's $(date) `id` \\ \"".into())],
            query_mode: QueryMode::default(),
            clients: 2,
            jobs: 1,
            rate: None,
            latency_limit_ms: None,
            max_tries: 1,
            length: Length::Seconds(5),
            log: TransactionLog::Transactions(1.0),
        }
    }

    #[test]
    fn a_script_goes_along_whatever_it_holds_and_no_argument_means_anything_to_the_shell() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a b'; touch x.sql");
        let content = "SELECT 'it''s', $1;\n-- \\ `id` \u{e9}\n\n";
        std::fs::write(&path, content).unwrap();
        let connection = ConnectOptions {
            host: Some("h".into()),
            port: Some(1),
            user: Some("u".into()),
            database: Some("d".into()),
            ..ConnectOptions::default()
        };
        let (script, _) = write_script(&load(&path), connection, "p'w", Some("/x y/pgbench")).unwrap();
        let script = String::from_utf8(script).unwrap();
        let (head, _) = script.split_once("# Runs pgbench").unwrap();
        let shown = format!("{head}put_files; pgbench=printf; set --; printf '%s\\n' \"$password\"; run_pgbench; }}\n");
        let shown = shown.replacen("exec \"$pgbench\"", "exec printf '%s\\n'", 1);
        let output = Command::new("sh").arg("-c").arg(&shown).current_dir(directory.path()).output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(lines[0], "p'w", "{said}");
        assert!(lines.contains(&"x=it's $(date) `id` \\ \"") && lines.contains(&"0.sql@3"), "{said}");
        assert!(lines.contains(&"--log-prefix=log") && lines.ends_with(&["d"]), "{said}");
        assert_eq!(std::fs::read_to_string(directory.path().join("0.sql")).unwrap(), content);
    }

    #[test]
    fn what_is_no_text_is_no_script() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.sql");
        std::fs::write(&path, b"SELECT\0").unwrap();
        let refused = write_script(&load(&path), ConnectOptions::default(), "", None).unwrap_err();
        assert!(refused.to_string().contains("has a zero byte"));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn a_shell_reads_a_quoted_word_as_it_was(word in "[^\\x00]{0,40}") {
            let script = [b"printf %s ".to_vec(), quote(word.as_bytes())].concat();
            let output = Command::new("sh").arg("-c").arg(into_text(script)).output().unwrap();
            prop_assert_eq!(String::from_utf8(output.stdout).unwrap(), word);
        }
    }
}

#[cfg(test)]
mod session_tests {
    use proptest::prelude::*;

    use super::*;

    fn open(script: &str, directory: &Path) -> Session {
        let command = ["env", "sh"].map(str::to_owned);
        Session::open("h", &command, format!("{{\n{script}\n}}\n").into_bytes(), directory).unwrap()
    }

    #[test]
    fn files_are_kept_by_names_of_our_own_and_noise_is_passed_over() {
        let directory = tempfile::tempdir().unwrap();
        let script = "echo Welcome; printf 'pgthaw file 3 ../../x\\nabcpgthaw file 2 report\\nokpgthaw done\\n'";
        let mut session = open(script, directory.path());
        let stop = Stop::default();
        let answers: Vec<Answer> = (0..3).map(|_| session.wait(&stop).unwrap().answer).collect();
        assert_eq!(answers[2], Answer::Done);
        assert_eq!(std::fs::read_to_string(session.files.logs.join("log.0")).unwrap(), "abc");
        assert_eq!(session.read_report(), "ok");
    }

    #[test]
    fn a_host_that_is_gone_is_named_with_its_words() {
        let directory = tempfile::tempdir().unwrap();
        let mut session =
            open("echo 'progress: 1.0 s, 5.0 tps, lat 1' >&2; echo 'no such host' >&2; exit 255", directory.path());
        let error = session.wait(&Stop::default()).unwrap_err().to_string();
        assert!(error.contains("h failed") && error.contains("255") && error.contains("no such host"), "{error}");
        assert!(!error.contains("progress"), "{error}");
    }

    #[test]
    fn a_clock_is_measured_by_round_trips() {
        let directory = tempfile::tempdir().unwrap();
        let script =
            "echo pgthaw ready; while read -r word; do echo \"pgthaw clock $(($(date +%s%N) + 5000000000))\"; done";
        let mut session = open(script, directory.path());
        let stop = Stop::default();
        assert_eq!(session.wait(&stop).unwrap().answer, Answer::Ready);
        session.take_pipe().unwrap();
        let found = session.measure_offset(&stop).unwrap();
        assert!((found.offset_ns - 5_000_000_000).abs() <= found.uncertainty_ns, "{found:?}");
    }

    #[test]
    fn a_host_of_which_no_byte_comes_is_lost_and_a_slow_one_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let mut session = open("echo pgthaw done; sleep 600", directory.path());
        assert_eq!(session.wait(&Stop::default()).unwrap().answer, Answer::Done);
        let (now, limit) = (clock::read_monotonic(), Duration::from_millis(20));
        session.check_heard(now, Duration::from_secs(60)).unwrap();
        std::thread::sleep(2 * limit);
        session.check_heard(clock::read_monotonic(), limit).unwrap();
        let error = session.check_heard(now, limit).unwrap_err().to_string();
        assert!(error.contains("pgbench on h failed") && error.contains("it sent no log data"), "{error}");
    }

    #[test]
    fn a_user_who_stops_need_not_wait_for_a_host() {
        let directory = tempfile::tempdir().unwrap();
        let mut session = open("sleep 600", directory.path());
        let stop = Stop::default();
        stop.request();
        assert!(matches!(session.wait(&stop), Err(Error::Interrupted)));
    }

    #[test]
    fn answers_are_understood_and_a_login_s_greeting_is_passed_over() {
        for (line, answer) in [
            ("pgthaw version pgbench (PostgreSQL) 15.18", Answer::Version("pgbench (PostgreSQL) 15.18".into())),
            (
                "pgthaw machine 4b83 pid:[7]",
                Answer::Machine(MachineIdentity { boot: "4b83".into(), processes: "pid:[7]".into() }),
            ),
            ("pgthaw ready", Answer::Ready),
            ("pgthaw clock 1795351021361891628", Answer::Clock(1_795_351_021_361_891_628)),
            ("pgthaw process 77", Answer::Process(77)),
            ("pgthaw ended 137 20 10", Answer::Ended { status: 137, begun_ns: Some(10) }),
            ("pgthaw ended 143 20 ", Answer::Ended { status: 143, begun_ns: None }),
            ("pgthaw file 12 report", Answer::File { bytes: 12, is_report: true }),
            ("pgthaw file  7 log.123.1", Answer::File { bytes: 7, is_report: false }),
            ("pgthaw done", Answer::Done),
            ("pgthaw failed there is no pgbench", Answer::Failed("there is no pgbench".into())),
        ] {
            assert_eq!(parse_answer(line), Some(answer), "{line}");
        }
        assert!(matches!(parse_answer("pgthaw clock 17953510213N"), Some(Answer::Failed(_))));
        for other in ["Welcome to bench1", "pgthaw", "pgthaw dance", "pgthaw process -1", "pgthaw ended"] {
            assert_eq!(parse_answer(other), None, "{other}");
        }
    }

    #[test]
    fn a_status_says_which_signal_it_was() {
        assert_eq!(describe_status(0), None);
        assert_eq!(describe_status(137).as_deref(), Some("it was ended by signal 9"));
        assert_eq!(describe_status(2).as_deref(), Some("it ended with status 2"));
    }

    #[test]
    fn a_quicker_round_trip_is_less_uncertain() {
        let trips = [(0, 9_000, 8_000), (10_000, 15_400, 11_000), (20_000, 26_000, 24_000)];
        let found = trips.map(|(asked, there, answered)| ClockOffset::of(asked, there, answered).unwrap());
        assert_eq!(found.map(|one| one.uncertainty_ns), [4_000, 500, 2_000]);
        assert_eq!(found[1].offset_ns, 4_900);
        // The clock was set back during the round trip.
        assert_eq!(ClockOffset::of(5, 0, 4), None);
        assert_eq!(ClockOffset::quickest([found.map(Some).to_vec(), vec![None]].concat()), Some(found[1]));
        assert_eq!(ClockOffset::quickest(vec![None]), None);
    }

    proptest! {
        #[test]
        fn the_true_offset_is_never_outside(
            offset in -10_000_000_000i64..10_000_000_000,
            (there, back) in (0i64..5_000_000, 0i64..5_000_000),
        ) {
            let asked_ns = 1_000_000_000;
            let found = ClockOffset::of(asked_ns, asked_ns + there + offset, asked_ns + there + back).unwrap();
            prop_assert!((found.offset_ns - offset).abs() <= found.uncertainty_ns, "{:?}", found);
        }
    }
}
