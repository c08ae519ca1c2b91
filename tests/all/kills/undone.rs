//! Kills and stops where something could be left that only pgthaw's next call would undo: a limit on memory, a transaction, a lock.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use host::linux::DiskLimit;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::servers::{self, TestServer, below, is_in_state, wait_until};

use super::faults::build_library;
use super::figures::Figures;

/// A few of so many, spread over all of them, from 1. PGTHAW_KILLS_UNDONE is another number, or `all`.
fn spread(calls: usize, few: usize) -> impl Iterator<Item = usize> {
    let wanted = std::env::var("PGTHAW_KILLS_UNDONE").map_or(few, |number| number.parse().unwrap_or(usize::MAX));
    let step = calls.div_ceil(wanted.max(1)).max(1);
    (1..=calls).skip(step / 2).step_by(step)
}

/// Part of the path of a connection, and of a cgroup's files.
const CONNECTIONS: &str = "socket:";
const CGROUPS: &str = "/sys/fs/cgroup";

/// strike.c, which stops or kills a command after a certain call.
struct Shim {
    directory: TempDir,
    library: PathBuf,
}

impl Shim {
    /// `None` without a C compiler.
    fn build() -> Option<Shim> {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let library = build_library(directory.path(), include_str!("strike.c"))?;
        Some(Shim { directory, library })
    }

    fn log(&self) -> PathBuf {
        self.directory.path().join("log")
    }

    fn load(&self, mut command: Command, paths: &str) -> Command {
        fs::write(self.log(), "").unwrap();
        command.env("LD_PRELOAD", &self.library).env("STRIKE_LOG", self.log()).env("STRIKE_WHERE", paths);
        command
    }

    /// The calls of the last command, each with its path.
    fn calls(&self) -> Vec<String> {
        fs::read_to_string(self.log()).unwrap().lines().map(str::to_owned).collect()
    }

    /// The calls of a command that nobody disturbs.
    fn calls_of(&self, command: Command, paths: &str) -> Vec<String> {
        let output = servers::output_of(&mut self.load(command, paths));
        assert!((0..=3).contains(&output.status), "{output:?}");
        self.calls()
    }

    /// Returns when the signal has come after the call with this number, or the command has ended without.
    fn strike(&self, command: Command, paths: &str, number: usize, signal: Signal) -> Struck {
        let mut command = self.load(command, paths);
        command.env("STRIKE_AT", number.to_string()).env("STRIKE_SIGNAL", signal.as_raw().to_string());
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        wait_until("the signal", || {
            let mut processes = [vec![child.id()], below(child.id())].concat().into_iter();
            processes.any(|pid| is_in_state(pid, 'T')) || child.try_wait().unwrap().is_some()
        });
        let call = self.calls().get(number - 1).and_then(|call| Some(call.split_once(' ')?.0.to_owned()));
        Struck { child, call }
    }
}

/// The calls, from 1, at which a statement is sent or answered for the first time. Its numbers make no other statement of it.
fn first_of_each_statement(calls: &[String]) -> Vec<usize> {
    let mut sent: HashMap<&str, String> = HashMap::new();
    let mut known = HashSet::new();
    let mut points = Vec::new();
    for (call, number) in calls.iter().zip(1..) {
        let mut words = call.splitn(3, ' ');
        let (kind, socket) = (words.next().unwrap(), words.next().unwrap());
        if let Some(statement) = words.next() {
            sent.insert(socket, statement.replace(|letter: char| letter.is_ascii_digit(), ""));
        }
        if known.insert((kind, sent.get(socket).cloned())) {
            points.push(number);
        }
    }
    points
}

struct Struck {
    child: Child,
    /// `None` if the command made fewer calls this time.
    call: Option<String>,
}

impl Struck {
    fn end(mut self) {
        if self.child.try_wait().unwrap().is_none() {
            for pid in below(self.child.id()) {
                let _ = kill_process(Pid::from_raw(pid as i32).unwrap(), Signal::KILL);
            }
        }
        let _ = self.child.kill();
        self.child.wait().unwrap();
    }
}

fn postmaster_of(server: &TestServer) -> u32 {
    let file = fs::read_to_string(server.data_directory().join("postmaster.pid")).unwrap();
    file.lines().next().unwrap().parse().unwrap()
}

fn processes_of(server: &TestServer) -> Vec<u32> {
    let postmaster = postmaster_of(server);
    [vec![postmaster], below(postmaster)].concat()
}

/// The postmaster, and a process that it starts anew after a backend's crash.
fn life_of(server: &TestServer) -> (u32, String) {
    (postmaster_of(server), server.psql("SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'"))
}

/// A server with a database of a plain role's, in whose schema the extensions are, and a snapshot of its table in both tiers.
fn server_of_an_owner(version: u32) -> TestServer {
    let server = servers::start(version, &[("shared_buffers", "32MB"), ("autovacuum", "off")]);
    server.psql("CREATE ROLE shop LOGIN; CREATE DATABASE shop OWNER shop");
    server.psql_in(
        "shop",
        "CREATE SCHEMA ext AUTHORIZATION shop; CREATE EXTENSION pg_prewarm SCHEMA ext; CREATE EXTENSION pg_buffercache SCHEMA ext;
         CREATE TABLE t AS SELECT i, repeat('x', 300) FROM generate_series(1, 40000) AS i; VACUUM ANALYZE t; CHECKPOINT;
         SELECT ext.pg_prewarm('t')",
    );
    server.pgthaw(&["snapshot", "take"]).ok();
    server
}

fn make_cold(server: &mut TestServer) {
    server.restart();
    server.pgthaw(&["evict", "--all", "--tier", "os", "--yes"]).ok();
}

const NEXT: &str = "SELECT pg_snapshot_xmax(pg_current_snapshot())";

test_every_version! {
    fn no_command_takes_a_transaction_id_where_an_extension_can_be_moved(version) {
        let mut server = server_of_an_owner(version);
        make_cold(&mut server);
        // Hint bits and the catalog's own clean-up take none either, but a first look at all does the second.
        server.pgthaw(&["map"]).ok();
        for command in [&["restore", "--json"][..], &["map"], &["snapshot", "take"], &["doctor"], &["evict", "-d", "shop", "--yes"], &["restore"]] {
            let before = server.psql(NEXT);
            let output = server.pgthaw(command);
            assert!((0..=3).contains(&output.status), "{command:?}: {output:?}");
            assert_eq!(server.psql(NEXT), before, "{command:?}: {output:?}");
            if command[0] == "restore" && command.len() == 2 {
                let receipt = output.json();
                let bytes = |name: &str| receipt["buffers"][name].as_u64().unwrap();
                assert!(bytes("resident_after_bytes") > 8 << 20, "{receipt:#}");
            }
        }
    }
}

const SESSIONS: &str = "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'pgthaw%'";

const TRANSACTIONS: &str = "SELECT state, query FROM pg_stat_activity
    WHERE application_name LIKE 'pgthaw%' AND state LIKE 'idle in transaction%'";

/// A statement that runs may hold some, unless it waits for pgthaw.
const LOCKS: &str = "SELECT l.locktype, l.mode, a.query FROM pg_locks l JOIN pg_stat_activity a USING (pid)
    WHERE a.pid <> pg_backend_pid() AND a.backend_type = 'client backend' AND l.mode <> 'AccessShareLock'
      AND l.locktype <> 'virtualxid' AND (a.state <> 'active' OR a.wait_event = 'ClientWrite')";

/// The owner can do with his schema what he likes.
const OWNER: &str = "SET lock_timeout = '1s'; SET SESSION AUTHORIZATION shop; GRANT USAGE ON SCHEMA ext TO PUBLIC;
    ALTER SCHEMA ext RENAME TO other; ALTER SCHEMA other RENAME TO ext; CREATE SCHEMA more; DROP SCHEMA more";

/// The command, where it has something to do.
fn prepare(server: &mut TestServer, arguments: &[&str]) -> Command {
    match arguments[0] {
        "restore" | "run" => make_cold(server),
        "evict" => drop(server.psql_in("shop", "SELECT ext.pg_prewarm('t')")),
        _ => {}
    }
    server.command(arguments)
}

#[test]
fn a_command_that_is_stopped_or_killed_after_any_statement_keeps_nothing_open() {
    let Some(shim) = Shim::build() else { return };
    let mut server = server_of_an_owner(servers::newest());
    // Where films can be recorded, one that `--like` preloads by.
    let psql = crate::films::psql(&server);
    server.pgthaw(&["run", "--like", "x", "--", &psql, "-XAtqd", "shop", "-c", "SELECT count(*) FROM t"]).ok();
    let commands = [
        &["restore", "--json"][..],
        &["map"],
        &["doctor"],
        &["snapshot", "take"],
        &["evict", "-d", "shop", "--yes"],
        &["run", "--like", "x", "--", "true"],
    ];
    let mut figures = Figures::of("stops and kills after statements", 2 * commands.len());
    for arguments in commands {
        let calls = shim.calls_of(prepare(&mut server, arguments), CONNECTIONS);
        assert!(calls.len() > 4, "{arguments:?}: {calls:?}");
        let points = first_of_each_statement(&calls);
        for number in spread(points.len(), 2).map(|nth| points[nth - 1]) {
            for signal in [Signal::STOP, Signal::KILL] {
                let command = prepare(&mut server, arguments);
                let before = life_of(&server);
                let struck = shim.strike(command, CONNECTIONS, number, signal);
                let what = format!("{}: {signal:?} after {:?}, call {number}", arguments[0], struck.call);
                let wait_for_sessions = || wait_until("the end of its sessions", || server.psql(SESSIONS) == "0");
                match signal {
                    // What was sent is answered meanwhile.
                    Signal::STOP => std::thread::sleep(Duration::from_millis(500)),
                    _ => wait_for_sessions(),
                }
                assert_eq!(server.psql(TRANSACTIONS), "", "{what}");
                assert_eq!(server.psql_in("shop", LOCKS), "", "{what}");
                server.psql_in("shop", OWNER);
                struck.call.iter().for_each(|call| figures.note(format!("{}: {signal:?} after {call}", arguments[0])));
                struck.end();
                wait_for_sessions();
                assert_eq!(life_of(&server), before, "{what}");
                figures.checked("servers that lived on without a transaction, lock or session of pgthaw's", 1);
            }
        }
    }
    figures.finish();
}

/// Each limit on memory that holds for a process of the server.
fn limits_on_memory(server: &TestServer) -> BTreeSet<(PathBuf, String)> {
    let of = |pid: u32| -> Vec<(PathBuf, String)> {
        let cgroups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        let directories = cgroups.lines().filter_map(|line| {
            let mut parts = line.splitn(3, ':').skip(1);
            let (controllers, path) = (parts.next()?, parts.next()?);
            Some(Path::new("/sys/fs/cgroup").join(controllers).join(path.trim_start_matches('/')))
        });
        let limits = ["memory.limit_in_bytes", "memory.soft_limit_in_bytes", "memory.max", "memory.high"];
        let files = directories.flat_map(|directory| limits.map(|limit| directory.join(limit)));
        files.filter_map(|file| Some((file.clone(), fs::read_to_string(file).ok()?))).collect()
    };
    processes_of(server).into_iter().flat_map(of).collect()
}

fn is_apart(server: &TestServer) -> bool {
    let cgroups = |pid: u32| fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    processes_of(server).into_iter().map(cgroups).any(|cgroups| cgroups.contains("pgthaw-"))
}

#[test]
fn an_isolated_run_that_is_killed_or_stopped_at_a_cgroup_leaves_none_after_the_next_call_and_no_limit_on_memory() {
    needs_root!();
    let Some(shim) = Shim::build() else { return };
    if DiskLimit::available().is_err() {
        untested!(machine: "no cgroup can be made");
    }
    let server = servers::start_any(&[("shared_buffers", "16MB")]);
    server.psql("CREATE TABLE t AS SELECT i, repeat('t', 500) AS body FROM generate_series(1, 40000) AS i; CHECKPOINT");
    server.pgthaw(&["snapshot", "take"]).ok();
    // As a pooler's: it is there after each run.
    let mut pooled = server.command_of("psql");
    pooled.env("PGAPPNAME", "pooled").stdin(Stdio::piped()).stdout(Stdio::null());
    let mut pooled = pooled.spawn().unwrap();
    let is_there = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pooled'";
    wait_until("the pooled session", || server.psql(is_there) == "1");
    let job = format!("{} -XAtqc 'SELECT count(body) FROM t'; sleep 0.5", crate::films::psql(&server));
    let named = ["run", "--protect=isolate", "--application-name", "pooled", "--json", "--", "sh", "-c", &job];
    let run = || server.command(&named);
    let calls = shim.calls_of(run(), CGROUPS);
    assert!(["mkdir", "write", "rmdir"].iter().all(|one| calls.iter().any(|call| call.starts_with(one))), "{calls:#?}");
    assert!(!calls.iter().any(|call| call.contains("/memory.") && !call.contains("/memory.reclaim")), "{calls:#?}");
    let nexts = [
        &["run", "--protect", "--", "true"][..],
        &["restore", "newest", "--tier", "os"],
        &["run", "--like", "x", "--", "true"],
        &["run", "--protect=isolate", "--", "true"],
    ];
    let (limits, life) = (limits_on_memory(&server), life_of(&server));
    let mut figures = Figures::of("stops and kills of isolated runs at cgroups", 2);
    let (mut cgroups_left, mut sessions_left) = (0, 0);
    for (nth, number) in spread(calls.len(), 4).enumerate() {
        for (other, signal) in [Signal::KILL, Signal::STOP].into_iter().enumerate() {
            let struck = shim.strike(run(), CGROUPS, number, signal);
            let what = format!("{signal:?} after {:?}, call {number}", struck.call);
            let after = limits_on_memory(&server);
            let new: Vec<_> = after
                .difference(&limits)
                .filter(|(_, limit)| limit.trim().parse::<u64>().is_ok_and(|limit| limit < 1 << 62))
                .collect();
            assert!(new.is_empty(), "{what}: {new:?}");
            assert_eq!(server.psql("SELECT count(*) FROM t"), "40000", "{what}");
            struck.call.iter().for_each(|call| figures.note(format!("{signal:?} after {call}")));
            struck.end();
            let made = shim.calls().into_iter().filter_map(|call| Some(PathBuf::from(call.strip_prefix("mkdir ")?)));
            let made: Vec<PathBuf> = made.collect();
            cgroups_left += made.iter().filter(|cgroup| cgroup.exists()).count();
            sessions_left += usize::from(is_apart(&server));
            let next = nexts[(nth + other) % nexts.len()];
            server.pgthaw(next).ok();
            assert!(!made.iter().any(|cgroup| cgroup.exists()), "{what}, then {next:?}: {made:?}");
            assert!(!is_apart(&server), "{what}, then {next:?}");
            assert_eq!(life_of(&server), life, "{what}");
            figures.checked("next calls after which no cgroup was left, of servers that lived on", 1);
        }
    }
    assert!(cgroups_left > 0 && sessions_left > 0, "{cgroups_left} cgroups and {sessions_left} sessions were left");
    figures.finish();
    drop(pooled.stdin.take());
    pooled.wait().unwrap();
}
