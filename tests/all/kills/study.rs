//! Kills of a study whose results go to a PostgreSQL server.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::bench::{Place, text};
use crate::results_server::{address, assert_sent};
use crate::servers::{self, Home, Output, TestServer};

use super::figures::Figures;
use super::litter::{confine, paths_below};
use super::moments::{Moments, wait_until};
use super::strace::{self, Point};

/// So many kills fall on one study, unless it ends before; then it is left alone until it has ended.
const KILLS_PER_STUDY: usize = 6;

/// Of what a server is told, where a kill falls: the table, and whether the row or the commit waits.
const WAITS: [(&str, &str); 4] =
    [("sweeps", "row"), ("sweep_trials", "row"), ("sweep_samples", "row"), ("sweep_trials", "commit")];

/// The writes of the local file.
const FILE_WRITES: [(&str, usize); 5] =
    [("pwrite64", 40), ("fsync", 8), ("fdatasync", 12), ("ftruncate", 4), ("unlink", 6)];

/// No kill is waited for longer than this: the study has ended, or never gets there.
const PATIENCE: Duration = Duration::from_secs(120);

struct Studies {
    home: Home,
    place: Place,
    server: TestServer,
    results: String,
    log: PathBuf,
    moments: Moments,
    /// The study that is being killed, and what is known of it.
    number: usize,
    kept: BTreeMap<String, Value>,
    pids: Vec<u32>,
    sockets: BTreeSet<PathBuf>,
}

/// One run of the study, and what it said on standard error.
struct Running {
    child: Child,
    said: Receiver<String>,
}

impl Running {
    fn start(mut command: Command) -> Running {
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let pipe = BufReader::new(child.stderr.take().unwrap());
        let (sender, said) = channel();
        std::thread::spawn(move || pipe.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Running { child, said }
    }

    /// Kills it, unless it has ended.
    fn kill(mut self) -> (bool, Vec<String>) {
        let is_alive = self.child.try_wait().unwrap().is_none();
        let _ = self.child.kill();
        let status = self.child.wait().unwrap();
        let said: Vec<String> = self.said.iter().collect();
        assert!(!said.iter().any(|line| line.contains("panicked")), "{said:#?}");
        assert!(is_alive || status.code().is_none_or(|code| code == 0 || code == 137), "{status}: {said:#?}");
        (is_alive, said)
    }
}

impl Studies {
    fn new(part: u64) -> Studies {
        let (home, place) = (Home::new(), Place::new());
        let server = servers::start_any(&[]);
        let results = address(&server);
        home.pgthaw(&["results", "--results", &results]).ok();
        server.psql(&waits());
        let log = home.path().join("strace.log");
        let mut studies = Studies {
            home,
            place,
            server,
            results,
            log,
            moments: Moments::new(part),
            number: 0,
            kept: BTreeMap::new(),
            pids: Vec::new(),
            sockets: BTreeSet::new(),
        };
        studies.next();
        studies
    }

    /// Another study from now on.
    fn next(&mut self) {
        self.number += 1;
        self.kept.clear();
        // Every second one has a disk with a limit and a file system of its own: a cgroup, a loop device, a mount.
        let is_on_image = self.number.is_multiple_of(2) && rustix::process::getuid().is_root();
        let image = if is_on_image { "disk = 'gp3'\nfile_system = 'own'\n[file_systems]\nown = 'ext4'\n" } else { "" };
        let text = format!(
            "question = '{}'\nrepeats = 2\n[points]\nclients = [1, 2]\nseconds = 1\nrate = 100\nstart = 'as-is'\n{image}",
            self.question()
        );
        fs::write(self.home.path().join("study.toml"), text).unwrap();
    }

    fn question(&self) -> String {
        format!("study {}", self.number)
    }

    fn command(&self) -> Command {
        let arguments = ["bench", "study.toml", "--results", &self.results];
        let mut command = self.place.command(&self.home, 15, &arguments);
        confine(&mut command, self.home.path());
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = self.home.command(arguments);
        confine(&mut command, self.home.path());
        servers::output_of(&mut command)
    }

    fn has_ended(&self) -> bool {
        self.sweep().is_some_and(|sweep| sweep["ended_at"].is_string())
    }

    /// The sweep's name, once it has one.
    fn id(&self) -> Option<String> {
        self.sweep().map(|sweep| text(&sweep, "/id").to_owned())
    }

    fn sweep(&self) -> Option<Value> {
        let listed = self.run(&["results", "--json"]).ok().json();
        let sweeps: Vec<&Value> = listed["studies"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|one| one["question"] == self.question().as_str())
            .collect();
        assert!(sweeps.len() <= 1, "{listed:#}");
        sweeps.first().map(|one| (*one).clone())
    }

    fn trials(&self, id: &str) -> BTreeMap<String, Value> {
        let shown = self.run(&["results", "show", id, "--json"]).ok().json();
        let trials = shown["trials"].as_array().unwrap().iter();
        let keyed: Vec<(String, Value)> =
            trials.map(|one| (format!("{} {}", one["number"], one["repeat"]), one.clone())).collect();
        let count = keyed.len();
        let keyed: BTreeMap<String, Value> = keyed.into_iter().collect();
        assert_eq!(keyed.len(), count, "a trial is there twice");
        keyed
    }

    /// What was kept before is kept as it was, and so is what was said to have ended.
    #[track_caller]
    fn check_after_kill(&mut self, point: &str, said: &[String]) -> usize {
        // A scratch server goes with its pgthaw; its socket's directory is named in its own files.
        for file in paths_below(self.place.0.path()).iter().filter(|path| path.ends_with("postmaster.pid")) {
            let content = fs::read_to_string(file).unwrap_or_default();
            self.sockets.extend(content.lines().nth(4).filter(|line| line.starts_with('/')).map(PathBuf::from));
        }
        let ended = said.iter().filter(|line| line.contains(" tps")).count();
        let now = self.id().map(|id| self.trials(&id)).unwrap_or_default();
        assert!(now.len() >= self.kept.len() + ended, "{point}: {said:#?} {:?}", now.keys());
        for (key, trial) in &self.kept {
            assert!(now.get(key) == Some(trial), "{point}: trial {key} has changed");
        }
        self.kept = now;
        self.kept.len()
    }

    /// Left alone, the study ends, and has everything once, here and on the server.
    #[track_caller]
    fn finish(&mut self, figures: &mut Figures, points: &[String]) {
        if !self.has_ended() {
            let ended = servers::output_of(&mut self.command());
            assert!(ended.status == 0, "{points:?}: {}", ended.stderr);
        }
        self.run(&["results", "--results", &self.results]).ok();
        let id = self.id().unwrap();
        let local = self.trials(&id);
        assert!(local.keys().eq(["0 1", "0 2", "1 1", "1 2"]), "{points:?}: {:?}", local.keys());
        assert!(self.kept.iter().all(|(key, trial)| local[key] == *trial), "{points:?}: a trial has changed");
        let both = [["results", "show", &id, "--json"].as_slice(), &["--results", &self.results]].concat();
        let remote = self.run(&both).ok();
        let kept = self.run(&both[..4]).ok().json();
        assert_sent(&remote, &self.results, &kept, &format!("{points:?}"));
        let rows = format!("SELECT number || ' ' || repeat FROM sweep_trials WHERE sweep_id = '{id}' ORDER BY 1");
        assert_eq!(
            self.server.psql_of_results(&rows).lines().collect::<Vec<_>>(),
            ["0 1", "0 2", "1 1", "1 2"],
            "{points:?}"
        );
        let sweeps = self
            .server
            .psql_of_results("SELECT count(*), count(DISTINCT question) FROM sweeps WHERE ended_at IS NOT NULL");
        assert_eq!(sweeps, format!("{0}|{0}", self.number), "{points:?}");
        self.check_nothing_is_left(points);
        figures.checked("trials once in the file and once on the server, with the same values", local.len());
        figures
            .checked("studies that ended with no cluster, socket, process, cgroup, mount, loop device or file left", 1);
        self.next();
    }

    fn check_nothing_is_left(&mut self, points: &[String]) {
        let left: Vec<PathBuf> = self.sockets.iter().filter(|socket| socket.exists()).cloned().collect();
        assert!(left.is_empty(), "{points:?}: {left:?}");
        self.sockets.clear();
        self.pids.drain(..).for_each(|pid| self.place.assert_nothing_is_left(pid));
        let place = self.place.0.path().to_str().unwrap();
        assert!(!fs::read_to_string("/proc/self/mounts").unwrap().contains(place), "{points:?}: a mount is left");
        for device in fs::read_dir("/sys/block").unwrap().flatten() {
            let file = fs::read_to_string(device.path().join("loop/backing_file")).unwrap_or_default();
            assert!(!file.contains(place), "{points:?}: {} is left", device.path().display());
        }
        let inside = |name: &str| -> Vec<String> {
            let entries = fs::read_dir(self.home.path().join(name)).into_iter().flatten().flatten();
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
        };
        let mut temporary = inside("tmp");
        // What tells of a study that runs has a directory that stays.
        temporary.extend(inside("run").into_iter().filter(|name| name != "pgthaw"));
        temporary.extend(inside("run/pgthaw"));
        assert!(temporary.is_empty(), "{points:?}: {temporary:?}");
        let state: BTreeSet<String> = inside("state/pgthaw").into_iter().collect();
        assert!(state.iter().eq(["results.sqlite"]), "{points:?}: {state:?}");
    }

    /// Runs the study until `kill` has ended it or it has ended by itself, again and again.
    fn kill(mut self, mut figures: Figures, mut kill: impl FnMut(&mut Studies) -> Option<(String, Vec<String>)>) {
        let mut points = Vec::new();
        while !figures.is_enough() {
            let fell = kill(&mut self);
            if let Some((point, said)) = fell {
                let kept = self.check_after_kill(&point, &said);
                figures.checked("trials that were finished before a kill and are there as they were", kept);
                figures.note(point.clone());
                points.push(point);
            }
            if self.has_ended() || points.len() >= KILLS_PER_STUDY || figures.is_enough() {
                self.finish(&mut figures, &points);
                points.clear();
            }
        }
        figures.finish();
    }

    fn start(&mut self, command: Command) -> Running {
        let running = Running::start(command);
        self.pids.push(running.child.id());
        running
    }

    fn kill_after(&mut self, time: Duration) -> Option<(String, Vec<String>)> {
        let command = self.command();
        let mut running = self.start(command);
        wait_until(&mut running.child, Instant::now() + time);
        let (was_alive, said) = running.kill();
        was_alive.then(|| (format!("{} to {} s after its start", time.as_secs(), time.as_secs() + 1), said))
    }

    /// Kills it while the server works on what it was sent: the row or the commit waits for a lock that is ours.
    fn kill_within_sending(&mut self) -> Option<(String, Vec<String>)> {
        let at = self.moments.below(WAITS.len());
        let command = self.command();
        let mut running = self.start(command);
        let before = self.moments.within(Duration::from_secs(4));
        wait_until(&mut running.child, Instant::now() + before);
        let mut locker = self.server.command_of("psql");
        locker.args(["-XAtq", "-d", "postgres"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut locker = locker.spawn().unwrap();
        let mut pipe = locker.stdin.take().unwrap();
        let lock = match WAITS[at].1 {
            "row" => format!("SELECT pg_advisory_lock({at})"),
            _ => format!("SELECT number FROM gates WHERE number = {at} FOR UPDATE"),
        };
        let lock = format!("BEGIN; {lock} \\g /dev/null\nSELECT pg_backend_pid();\n");
        std::io::Write::write_all(&mut pipe, lock.as_bytes()).unwrap();
        let pid = BufReader::new(locker.stdout.as_mut().unwrap()).lines().next().unwrap().unwrap();
        let until = Instant::now() + PATIENCE;
        let waiting = format!("SELECT count(*) FROM pg_stat_activity WHERE {pid} = ANY (pg_blocking_pids(pid))");
        let mut is_waiting = false;
        while !is_waiting && wait_until(&mut running.child, Instant::now() + Duration::from_millis(30)) {
            assert!(Instant::now() < until, "{:?}: no row was sent", WAITS[at]);
            is_waiting = self.server.psql(&waiting) != "0";
        }
        let more = self.moments.within(Duration::from_millis(500));
        wait_until(&mut running.child, Instant::now() + more);
        let (was_alive, said) = running.kill();
        // The server goes on with what it was sent, and may well commit it for nobody.
        drop(pipe);
        locker.wait().unwrap();
        let (table, what) = WAITS[at];
        (is_waiting && was_alive).then(|| (format!("within the server's {what} of {table}"), said))
    }

    /// Kills it at a system call on the local file.
    fn kill_at_write(&mut self) -> Option<(String, Vec<String>)> {
        let (call, bound) = *self.moments.pick(&FILE_WRITES);
        let point = Point { call: call.into(), number: 1 + self.moments.below(bound) };
        let file = self.home.path().join("state/pgthaw/results.sqlite");
        let paths = ["", "-journal", "-wal", "-shm"].map(|end| PathBuf::from(format!("{}{end}", file.display())));
        let command = strace::strike_at_paths(&self.command(), &point, "signal=KILL", &paths, &self.log);
        let mut running = self.start(command);
        wait_until(&mut running.child, Instant::now() + PATIENCE);
        let status = running.child.try_wait().unwrap().expect("the study takes too long");
        let (_, said) = running.kill();
        fs::remove_file(&self.log).unwrap();
        use std::os::unix::process::ExitStatusExt as _;
        let was_killed = status.signal() == Some(9) || status.code() == Some(137);
        was_killed.then(|| (format!("at {call} of the local file"), said))
    }
}

/// What makes a row wait for an advisory lock, or its commit for a lock of a row elsewhere. A trigger on one of its tables would be
/// refused by pgthaw, for it has no owner; what a superuser checks is not.
fn waits() -> String {
    let mut sql = "CREATE TABLE gates (number int PRIMARY KEY);
        CREATE FUNCTION wait(number int) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN
        PERFORM pg_catalog.pg_advisory_xact_lock_shared(number); RETURN true; END $$;"
        .to_owned();
    for (number, (table, what)) in WAITS.iter().enumerate() {
        sql += &match *what {
            "row" => format!("ALTER TABLE pgthaw.{table} ADD CHECK (wait({number}));"),
            _ => format!(
                "INSERT INTO gates VALUES ({number}); ALTER TABLE pgthaw.{table} ADD gate int DEFAULT {number}
                 REFERENCES gates DEFERRABLE INITIALLY DEFERRED;"
            ),
        };
    }
    sql
}

#[test]
fn a_study_that_is_killed_at_any_moment_loses_and_doubles_nothing() {
    let figures = Figures::new("kills of a study, at random moments", "PGTHAW_KILLS_STUDY_AT_RANDOM", 1);
    Studies::new(6).kill(figures, |studies| {
        let time = studies.moments.within(Duration::from_secs(9));
        studies.kill_after(time)
    });
}

#[test]
fn a_study_that_is_killed_while_it_is_stored_loses_and_doubles_nothing() {
    if !strace::is_here() {
        return;
    }
    let figures = Figures::new("kills of a study, while it is stored", "PGTHAW_KILLS_STUDY_AT_WRITES", 2);
    let mut turn = 0;
    Studies::new(7).kill(figures, |studies| {
        turn += 1;
        if turn % 2 == 0 { studies.kill_at_write() } else { studies.kill_within_sending() }
    });
}
