//! Kills and stops where something could be left that only pgthaw's next call would undo: a limit on memory, a transaction, a lock.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use host::linux::DiskLimit;
use rustix::process::{Pid, Signal, kill_process};

use crate::servers::{self, TestServer, wait_until};

use super::strace::{self, Point};

/// Points of each kind that are tried, spread over all that there are.
fn points_to_try() -> usize {
    std::env::var("PGTHAW_KILLS_UNDONE").ok().and_then(|number| number.parse().ok()).unwrap_or(6)
}

fn spread(points: Vec<Point>) -> Vec<Point> {
    let step = points.len().div_ceil(points_to_try()).max(1);
    points.into_iter().step_by(step).collect()
}

/// A command that strace stops or kills at a point.
struct Struck {
    strace: Child,
    is_stopped: bool,
}

impl Struck {
    /// Returns when the signal has come, or the command has ended without.
    fn start(command: &Command, point: &Point, signal: &str, log: &Path) -> Struck {
        fs::write(log, "").unwrap();
        let mut command = strace::strike_at_paths(command, point, &format!("signal={signal}"), &[], log);
        let mut strace = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let mut is_stopped = false;
        wait_until("the signal", || {
            is_stopped = fs::read_to_string(log).unwrap().contains("--- stopped by SIGSTOP ---");
            is_stopped || strace.try_wait().unwrap().is_some()
        });
        Struck { strace, is_stopped }
    }

    fn end(mut self) {
        // strace ends with the command.
        for pid in servers::below(self.strace.id()) {
            let _ = kill_process(Pid::from_raw(pid as i32).unwrap(), Signal::KILL);
        }
        self.strace.wait().unwrap();
    }
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

#[test]
fn a_restore_that_is_stopped_after_any_statement_keeps_nothing_open() {
    if !strace::is_here() {
        return;
    }
    let mut server = server_of_an_owner(servers::servers().last().unwrap().0);
    let log = tempfile::NamedTempFile::new_in("/var/tmp").unwrap();
    let restore = |server: &TestServer| server.command(&["restore", "--json", "--tier", "buffers"]);
    make_cold(&mut server);
    let points = strace::find_points(&restore(&server), "sendto,recvfrom", log.path(), |line| line.contains("socket:"));
    assert!(points.len() > 4, "{points:?}");
    let mut stops = 0;
    for point in spread(points) {
        make_cold(&mut server);
        let struck = Struck::start(&restore(&server), &point, "STOP", log.path());
        // What was sent is answered meanwhile.
        std::thread::sleep(Duration::from_millis(500));
        let open = server.psql(
            "SELECT state, query FROM pg_stat_activity WHERE application_name LIKE 'pgthaw%' AND state LIKE 'idle in transaction%'",
        );
        assert_eq!(open, "", "{point:?}");
        let locks = "SELECT l.locktype, l.mode, a.query FROM pg_locks l JOIN pg_stat_activity a USING (pid)
            WHERE a.pid <> pg_backend_pid() AND a.backend_type = 'client backend' AND l.mode NOT IN ('AccessShareLock')
              AND l.locktype <> 'virtualxid'";
        assert_eq!(server.psql_in("shop", locks), "", "{point:?}");
        // The owner can do with his schema what he likes.
        let owner = "SET lock_timeout = '1s'; SET SESSION AUTHORIZATION shop; GRANT USAGE ON SCHEMA ext TO PUBLIC;
            ALTER SCHEMA ext RENAME TO other; ALTER SCHEMA other RENAME TO ext; CREATE SCHEMA more; DROP SCHEMA more";
        server.psql_in("shop", owner);
        stops += usize::from(struck.is_stopped);
        struck.end();
    }
    assert!(stops > 0);
}

/// Each limit on memory that holds for a process of the server.
fn limits_on_memory(server: &TestServer) -> BTreeSet<(PathBuf, String)> {
    let postmaster: u32 = fs::read_to_string(server.data_directory().join("postmaster.pid"))
        .unwrap()
        .lines()
        .next()
        .unwrap()
        .parse()
        .unwrap();
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
    [vec![postmaster], servers::below(postmaster)].concat().into_iter().flat_map(of).collect()
}

#[test]
fn an_isolated_run_that_is_killed_or_stopped_at_a_cgroup_leaves_no_limit_on_memory() {
    needs_root!();
    if !strace::is_here() {
        return;
    }
    if DiskLimit::available().is_err() {
        untested!(machine: "no cgroup can be made");
    }
    let server = servers::start_any(&[("shared_buffers", "16MB")]);
    server.psql("CREATE TABLE t AS SELECT i, repeat('t', 500) AS body FROM generate_series(1, 40000) AS i; CHECKPOINT");
    let before = limits_on_memory(&server);
    let log = tempfile::NamedTempFile::new_in("/var/tmp").unwrap();
    let job = format!("{} -XAtqc 'SELECT count(body) FROM t; SELECT pg_sleep(1)'", crate::films::psql(&server));
    let run = || server.command(&["run", "--protect=isolate", "--json", "--", "sh", "-c", &job]);
    let points = strace::find_points(&run(), "write", log.path(), |line| line.contains("/sys/fs/cgroup"));
    assert!(points.len() > 2, "{points:?}");
    let written = fs::read_to_string(log.path()).unwrap();
    assert!(
        !written
            .lines()
            .any(|line| line.contains("write(") && line.contains("/memory.") && !line.contains("/memory.reclaim")),
        "{written}"
    );
    let mut stops = 0;
    for point in spread(points) {
        for signal in ["KILL", "STOP"] {
            let struck = Struck::start(&run(), &point, signal, log.path());
            let after = limits_on_memory(&server);
            let new: Vec<_> = after
                .difference(&before)
                .filter(|(_, limit)| limit.trim().parse::<u64>().is_ok_and(|limit| limit < 1 << 62))
                .collect();
            assert!(new.is_empty(), "{signal} at {point:?}: {new:?}");
            assert_eq!(server.psql("SELECT count(*) FROM t"), "40000");
            stops += usize::from(struck.is_stopped);
            struck.end();
            server.pgthaw(&["run", "--protect=isolate", "--", "true"]).ok();
            let left = server.psql("SELECT count(*) FROM t WHERE pg_read_file('/proc/self/cgroup') LIKE '%pgthaw-%'");
            assert_eq!(left, "0");
        }
    }
    assert!(stops > 0);
}
