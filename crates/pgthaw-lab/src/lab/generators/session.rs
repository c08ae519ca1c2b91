//! A host while it has a trial's script: what reaches it, what it is told, and what it answers.

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

use rustix::process::{Pid, Signal, kill_process_group};

use crate::lab::error::Error;
use crate::lab::generator::{complaints_of, read_paces};
use crate::lab::launch::Stop;
use host::files::read_at_most;
use host::linux::clock;

/// A host that says nothing for so long, while something is asked of it, is given up.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);

/// After its pipe is closed a host needs a moment to tidy up.
const FAREWELL_LIMIT: Duration = Duration::from_secs(3);

const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Round trips that measure a clock: so many, or as many as fit into the time, but for the fewest.
const ROUND_TRIPS: usize = 20;
const ROUND_TRIPS_MIN: usize = 5;
const ROUND_TRIPS_LIMIT: Duration = Duration::from_secs(2);

/// Longer lines are none of ours.
const LINE_BYTES_MAX: u64 = 1 << 16;

/// A host with its script. Dropping it ends what runs there.
#[derive(Debug)]
pub struct Session {
    pub host: String,
    child: Child,
    /// Hands the script over, and then the pipe.
    opening: Option<JoinHandle<io::Result<ChildStdin>>>,
    pipe: Option<ChildStdin>,
    heard: Receiver<Heard>,
    last_byte: LastByte,
    files: SessionFiles,
}

/// When the last byte of a host came, in milliseconds since the machine booted.
#[derive(Clone, Debug)]
struct LastByte(Arc<AtomicU64>);

impl LastByte {
    fn now() -> LastByte {
        LastByte(Arc::new(AtomicU64::new(read_monotonic_ms())))
    }

    fn at(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::Relaxed))
    }
}

fn read_monotonic_ms() -> u64 {
    clock::read_monotonic().as_millis() as u64
}

/// Notes when something was read.
struct Noting<R> {
    inner: R,
    last_byte: LastByte,
}

impl<R: io::Read> io::Read for Noting<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.last_byte.0.store(read_monotonic_ms(), Ordering::Relaxed);
        Ok(read)
    }
}

/// Where a host's output goes, on this host.
#[derive(Clone, Debug)]
struct SessionFiles {
    errors: PathBuf,
    report: PathBuf,
    logs: PathBuf,
}

/// An answer, and when it came: by the wall clock in nanoseconds since 1970, and since the machine booted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard {
    /// `None`: nothing comes any more.
    pub answer: Option<Answer>,
    pub wall_ns: i64,
    pub monotonic: Duration,
}

impl Heard {
    fn now(answer: Option<Answer>) -> Heard {
        Heard { answer, wall_ns: clock::read_wall_ns(), monotonic: clock::read_monotonic() }
    }
}

impl Session {
    /// Reaches the host by this command and hands the script over; does not wait for an answer. What comes back is kept
    /// in `directory`, which is made.
    pub fn open(host: &str, command: &[String], script: Vec<u8>, directory: &Path) -> Result<Session, Error> {
        let files = SessionFiles::make(directory)?;
        let errors = File::create(&files.errors).map_err(|source| Error::file("create", &files.errors, source))?;
        let mut launch = Command::new(&command[0]);
        launch.args(&command[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(errors);
        // A group of its own: Ctrl-C is for pgthaw, which then closes the pipe.
        launch.process_group(0);
        let mut child = launch.spawn().map_err(|source| Error::Launch { command: command.join(" "), source })?;
        let (Some(mut pipe), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            unreachable!("both were asked to be pipes")
        };
        // A pipe holds less than a script may have, and nobody may be there to read it.
        let opening = std::thread::spawn(move || pipe.write_all(&script).map(|()| pipe));
        let (tell, heard) = channel();
        let (kept, last_byte) = (files.clone(), LastByte::now());
        let output = Noting { inner: stdout, last_byte: last_byte.clone() };
        std::thread::spawn(move || listen(output, &kept, &tell));
        Ok(Session { host: host.to_owned(), child, opening: Some(opening), pipe: None, heard, last_byte, files })
    }

    /// Waits for the next answer.
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
                    return Err(self.failure(&format!("it does not answer for {seconds} s")));
                }
            }
        }
    }

    /// The next answer, if there is one.
    pub fn poll(&mut self) -> Result<Option<Heard>, Error> {
        match self.heard.try_recv() {
            Ok(heard) => self.check(heard).map(Some),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(self.gone()),
        }
    }

    /// An error when not a byte has come for so long, since it was `asked` for some.
    pub fn check_heard(&mut self, asked: Duration, limit: Duration) -> Result<(), Error> {
        let silent = clock::read_monotonic().saturating_sub(self.last_byte.at().max(asked));
        match silent < limit {
            true => Ok(()),
            false => Err(self.failure(&format!("nothing of what it logged comes for {} s", limit.as_secs()))),
        }
    }

    fn check(&mut self, heard: Heard) -> Result<Heard, Error> {
        match heard.answer {
            Some(Answer::Failed(why)) => Err(self.failure(&why)),
            None => Err(self.gone()),
            _ => Ok(heard),
        }
    }

    /// Takes over the pipe from who handed the script over: the host has said that it has all of it.
    pub fn take_pipe(&mut self) -> Result<(), Error> {
        let Some(opening) = self.opening.take() else { return Ok(()) };
        match opening.join() {
            Ok(Ok(pipe)) => {
                self.pipe = Some(pipe);
                Ok(())
            }
            Ok(Err(error)) => Err(self.failure(&error.to_string())),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }

    /// Tells the script something.
    pub fn say(&mut self, line: &str) -> Result<(), Error> {
        let Some(pipe) = &mut self.pipe else { return Err(self.gone()) };
        // In one piece, for a shell reads it byte by byte.
        match pipe.write_all(format!("{line}\n").as_bytes()) {
            Ok(()) => Ok(()),
            Err(_) => Err(self.gone()),
        }
    }

    /// Measures how far the host's clock is ahead.
    pub fn measure_offset(&mut self, stop: &Stop) -> Result<ClockOffset, Error> {
        let (mut trips, began) = (Vec::new(), clock::read_monotonic());
        while trips.len() < ROUND_TRIPS
            && (trips.len() < ROUND_TRIPS_MIN || clock::read_monotonic() - began < ROUND_TRIPS_LIMIT)
        {
            let asked_ns = clock::read_wall_ns();
            self.say("clock")?;
            let heard = self.wait(stop)?;
            if let Some(Answer::Clock(there_ns)) = heard.answer {
                trips.push(RoundTrip { asked_ns, there_ns, answered_ns: heard.wall_ns });
            }
        }
        ClockOffset::compute(&trips).ok_or_else(|| self.failure("this host's clock was set back meanwhile"))
    }

    /// The directory of its pgbench's logs.
    pub fn logs(&self) -> &Path {
        &self.files.logs
    }

    /// Its pgbench's report.
    pub fn read_report(&self) -> String {
        read_lossy(&self.files.report)
    }

    /// Its pgbench's progress.
    pub fn read_paces(&self) -> Vec<f64> {
        read_paces(&read_lossy(&self.files.errors))
    }

    /// The error of this host: what is known, and what was said there.
    pub fn failure(&mut self, why: &str) -> Error {
        let said = complaints_of(&read_lossy(&self.files.errors));
        let output = [Some(why.to_owned()), said].into_iter().flatten().collect::<Vec<_>>().join(": ");
        Error::Generator { host: self.host.clone(), output }
    }

    /// The error of a host of which nothing comes any more.
    fn gone(&mut self) -> Error {
        // What it says about it comes last.
        let status = self.wait_for_end(FAREWELL_LIMIT);
        let why =
            status.map_or_else(|| "its output ended".to_owned(), |status| format!("the connection ended ({status})"));
        self.failure(&why)
    }

    /// Closes the pipe: what runs there ends.
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
        // Before the script is there, nothing runs that would have to tidy up.
        let limit = if self.opening.is_some() { Duration::ZERO } else { FAREWELL_LIMIT };
        if self.wait_for_end(limit).is_none() {
            if let Some(group) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
                // Not reaped yet, so the number is still its own.
                let _ = kill_process_group(group, Signal::KILL);
            }
            let _ = self.child.wait();
        }
    }
}

impl SessionFiles {
    fn make(directory: &Path) -> Result<SessionFiles, Error> {
        let logs = directory.join("logs");
        std::fs::create_dir_all(&logs).map_err(|source| Error::file("create", &logs, source))?;
        Ok(SessionFiles { errors: directory.join("errors"), report: directory.join("report"), logs })
    }
}

/// Passes on what a host says, and keeps the files that it sends.
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
            // By a name of our own, whatever the host calls it.
            let path = if is_report { files.report.clone() } else { files.logs.join(format!("log.{logs}")) };
            logs += u32::from(!is_report);
            if let Err(error) = keep_file(&mut reader, bytes, &path) {
                let _ = tell.send(Heard::now(Some(Answer::Failed(format!("what it sent cannot be kept: {error}")))));
                return;
            }
        }
        // Nobody listens any more when the trial was given up.
        if tell.send(Heard::now(Some(answer))).is_err() {
            return;
        }
    }
    let _ = tell.send(Heard::now(None));
}

fn keep_file(reader: &mut impl io::Read, bytes: u64, path: &Path) -> io::Result<()> {
    match io::copy(&mut reader.take(bytes), &mut File::create(path)?)? {
        kept if kept == bytes => Ok(()),
        kept => Err(io::Error::other(format!("{kept} of {bytes} bytes came"))),
    }
}

/// Bytes that a program may have printed.
const OUTPUT_BYTES_MAX: u64 = 64 << 20;

fn read_lossy(path: &Path) -> String {
    read_at_most(path, OUTPUT_BYTES_MAX)
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .unwrap_or_else(|error| error.to_string())
}

/// A line that is meant for us.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The line in which its pgbench names itself.
    Version(String),
    /// The machine's boot, and the namespace of its processes.
    Machine {
        boot: String,
        processes: String,
    },
    /// It waits for being told what to do.
    Ready,
    /// Nanoseconds since 1970 by its clock.
    Clock(i64),
    /// The process that becomes pgbench.
    Process(u32),
    /// pgbench ended, with this status of a shell; when, and when it was begun, if it was, by its clock in nanoseconds.
    Ended {
        status: i32,
        begun_ns: Option<i64>,
    },
    /// So many bytes of a file follow.
    File {
        bytes: u64,
        is_report: bool,
    },
    Done,
    /// It cannot do it, and why.
    Failed(String),
}

/// Understands a line; `None` when it is none of ours.
pub fn parse_answer(line: &str) -> Option<Answer> {
    let (word, rest) = line.strip_prefix("pgthaw ")?.split_once(' ').unwrap_or((line.strip_prefix("pgthaw ")?, ""));
    let mut words = rest.split_ascii_whitespace();
    Some(match word {
        "version" => Answer::Version(rest.to_owned()),
        "machine" => Answer::Machine { boot: words.next()?.to_owned(), processes: words.next()?.to_owned() },
        "ready" => Answer::Ready,
        "clock" => match rest.parse() {
            Ok(ns) => Answer::Clock(ns),
            Err(_) => Answer::Failed(format!("its date knows no nanoseconds, and says {rest}")),
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

/// How pgbench ended, for people; `None` when all is well.
pub fn describe_status(status: i32) -> Option<String> {
    match status {
        0 => None,
        // As a shell has it.
        signal if signal > 128 => Some(format!("it was ended by signal {}", signal - 128)),
        status => Some(format!("it ended with status {status}")),
    }
}

/// A question to a host and its answer, by this host's clock and by the other's, in nanoseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundTrip {
    pub asked_ns: i64,
    pub there_ns: i64,
    pub answered_ns: i64,
}

impl RoundTrip {
    fn took_ns(self) -> i64 {
        self.answered_ns - self.asked_ns
    }
}

/// What the round trips tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockOffset {
    /// By how much the other clock is ahead.
    pub offset_ns: i64,
    /// It is at most so far from that: the answer was given at some moment between question and answer.
    pub uncertainty_ns: i64,
}

impl ClockOffset {
    /// From the quickest round trip, for it leaves the least room; `None` without any.
    pub fn compute(trips: &[RoundTrip]) -> Option<ClockOffset> {
        let quickest = trips.iter().filter(|trip| trip.took_ns() >= 0).min_by_key(|trip| trip.took_ns())?;
        let middle_ns = quickest.asked_ns + quickest.took_ns() / 2;
        Some(ClockOffset {
            offset_ns: quickest.there_ns - middle_ns,
            uncertainty_ns: quickest.took_ns() - quickest.took_ns() / 2,
        })
    }
}

#[cfg(test)]
mod tests {
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
        let answers: Vec<Answer> = (0..3).map(|_| session.wait(&stop).unwrap().answer.unwrap()).collect();
        assert_eq!(answers[2], Answer::Done);
        assert_eq!(std::fs::read_to_string(session.logs().join("log.0")).unwrap(), "abc");
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
        assert_eq!(session.wait(&stop).unwrap().answer, Some(Answer::Ready));
        session.take_pipe().unwrap();
        let found = session.measure_offset(&stop).unwrap();
        assert!((found.offset_ns - 5_000_000_000).abs() <= found.uncertainty_ns, "{found:?}");
    }

    #[test]
    fn a_host_of_which_no_byte_comes_is_lost_and_a_slow_one_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let mut session = open("echo pgthaw done; sleep 600", directory.path());
        assert_eq!(session.wait(&Stop::default()).unwrap().answer, Some(Answer::Done));
        let (now, limit) = (clock::read_monotonic(), Duration::from_millis(20));
        session.check_heard(now, Duration::from_secs(60)).unwrap();
        std::thread::sleep(2 * limit);
        session.check_heard(clock::read_monotonic(), limit).unwrap();
        let error = session.check_heard(now, limit).unwrap_err().to_string();
        assert!(error.contains("pgbench on h failed") && error.contains("nothing of what it logged"), "{error}");
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
            ("pgthaw machine 4b83 pid:[7]", Answer::Machine { boot: "4b83".into(), processes: "pid:[7]".into() }),
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
    fn the_quickest_round_trip_decides() {
        let trip = |asked_ns, there_ns, answered_ns| RoundTrip { asked_ns, there_ns, answered_ns };
        let trips = [trip(0, 9_000, 8_000), trip(10_000, 15_400, 11_000), trip(20_000, 26_000, 24_000)];
        assert_eq!(ClockOffset::compute(&trips), Some(ClockOffset { offset_ns: 4_900, uncertainty_ns: 500 }));
        assert_eq!(ClockOffset::compute(&[]), None);
        // The clock was set back meanwhile.
        assert_eq!(ClockOffset::compute(&[trip(5, 0, 4)]), None);
    }

    proptest! {
        /// Wherever on its way the answer was given, the true offset is within the uncertainty.
        #[test]
        fn the_true_offset_is_never_outside(
            offset in -10_000_000_000i64..10_000_000_000,
            ways in prop::collection::vec((0i64..5_000_000, 0i64..5_000_000), 1..20),
        ) {
            let trips: Vec<RoundTrip> = (1..).zip(&ways).map(|(place, (there, back))| {
                let asked_ns = place * 1_000_000_000;
                RoundTrip { asked_ns, there_ns: asked_ns + there + offset, answered_ns: asked_ns + there + back }
            }).collect();
            let found = ClockOffset::compute(&trips).unwrap();
            prop_assert!((found.offset_ns - offset).abs() <= found.uncertainty_ns, "{:?}", found);
        }
    }
}
