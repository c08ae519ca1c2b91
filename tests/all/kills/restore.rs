//! Kills of `restore`.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::servers::{self, TestServer};

use super::figures::Figures;
use super::litter::{confine, paths_below, snapshots_below};
use super::moments::{Moments, kill_after, measure};
use super::strace::{self, Point};

/// Of what was asked for, the share that has to be there: the kernel may take a page back at any time.
const RESIDENT_MIN: f64 = 0.9;

/// A killed client's session ends as soon as its server writes to it or waits for it.
const SESSION_ENDS_WITHIN: Duration = Duration::from_secs(10);

/// What a restore reads, asks and waits with.
const CALLS: &str =
    "openat,openat2,pread64,preadv,fadvise64,readahead,madvise,mmap,close,statx,connect,sendto,recvfrom,epoll_wait";

/// A server whose table and its index are in the snapshot, in both tiers.
struct Warm {
    server: TestServer,
    snapshot: (PathBuf, Vec<u8>),
    /// What is below the home directory when nobody was killed.
    paths: BTreeSet<PathBuf>,
}

impl Warm {
    fn new() -> Warm {
        let server = servers::start_any(&[("shared_buffers", "64MB")]);
        server.psql(
            "CREATE EXTENSION pg_prewarm; CREATE EXTENSION pg_buffercache;
             CREATE TABLE t (i int PRIMARY KEY, body text);
             INSERT INTO t SELECT i, repeat('x', 300) FROM generate_series(1, 60000) AS i;
             VACUUM ANALYZE t; CHECKPOINT;
             SELECT pg_prewarm(name::regclass, 'buffer') FROM (VALUES ('t'), ('t_pkey')) AS warm (name)",
        );
        let mut warm = Warm { server, snapshot: Default::default(), paths: BTreeSet::new() };
        servers::output_of(&mut warm.command(&["snapshot", "take"])).ok();
        warm.snapshot = snapshots_below(warm.server.home()).pop_first().unwrap();
        servers::output_of(&mut warm.restore()).ok();
        warm.paths = paths_below(warm.server.home());
        warm
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.server.command(arguments);
        confine(&mut command, self.server.home());
        command
    }

    fn restore(&self) -> Command {
        self.command(&["restore", "--json"])
    }

    /// No buffer, no page.
    fn make_cold(&mut self) {
        self.server.restart();
        servers::output_of(&mut self.command(&["evict", "--all", "--tier", "os"])).ok();
    }

    #[track_caller]
    fn check_after_kill(&self, point: &str) {
        // The server answers, and soon nobody but us is there.
        let sessions = "SELECT count(*) FROM pg_stat_activity
            WHERE backend_type IN ('client backend', 'parallel worker') AND pid <> pg_backend_pid()";
        let until = Instant::now() + SESSION_ENDS_WITHIN;
        while self.server.psql(sessions) != "0" {
            assert!(Instant::now() < until, "{point}: {}", self.server.psql("SELECT * FROM pg_stat_activity"));
            std::thread::sleep(Duration::from_millis(20));
        }
        let (path, bytes) = &self.snapshot;
        assert!(fs::read(path).unwrap() == *bytes, "{point}: {} has changed", path.display());
        let receipt = servers::output_of(&mut self.restore()).ok().json();
        for tier in ["os", "buffers"] {
            let bytes = |name: &str| receipt[tier][name].as_f64().unwrap();
            let share = bytes("resident_after_bytes") / bytes("asked_bytes");
            assert!((RESIDENT_MIN..=1.0).contains(&share), "{point}: {receipt:#}");
        }
        assert!(receipt["stopped_by"].is_null(), "{point}: {receipt:#}");
        assert_eq!(paths_below(self.server.home()), self.paths, "left after {point}");
    }
}

fn kill_restores(figures: &mut Figures, warm: &mut Warm, mut kill: impl FnMut(&Warm, usize) -> Option<String>) {
    let mut number = 0;
    while !figures.is_enough() {
        number += 1;
        warm.make_cold();
        let Some(point) = kill(warm, number) else { continue };
        warm.check_after_kill(&point);
        figures.note(point);
        figures.checked("servers that answered and had no session left, and the snapshot byte for byte as before", 1);
        figures.checked("further restores with a right receipt, and no file that a killed one left", 1);
    }
}

#[test]
fn a_restore_that_is_killed_at_any_moment_harms_nothing() {
    let mut figures = Figures::new("kills of restore, at random moments", "PGTHAW_KILLS_RESTORE_AT_RANDOM", 4);
    let mut warm = Warm::new();
    let place = RefCell::new(&mut warm);
    let restore = || drop(servers::output_of(&mut place.borrow().restore()).ok());
    let whole = measure(|| place.borrow_mut().make_cold(), restore);
    let mut moments = Moments::new(4);
    kill_restores(&mut figures, &mut warm, |warm, _| {
        let time = moments.within(whole);
        kill_after(warm.restore(), time).then(|| {
            let tenth = 10 * time.as_micros() / whole.as_micros().max(1);
            format!("{} to {} % of its time", 10 * tenth, 10 * (tenth + 1))
        })
    });
    figures.finish();
}

#[test]
fn a_restore_that_is_killed_at_a_system_call_harms_nothing() {
    if !strace::is_here() {
        return;
    }
    let mut figures = Figures::new("kills of restore, at system calls", "PGTHAW_KILLS_RESTORE_AT_CALLS", 4);
    let mut warm = Warm::new();
    let log = tempfile::NamedTempFile::new_in("/var/tmp").unwrap();
    let data_directory = warm.server.data_directory().display().to_string();
    let is_meant =
        |line: &str| line.contains(&data_directory) || line.contains("socket:") || line.contains("epoll_wait");
    warm.make_cold();
    let found = strace::find_points(&warm.restore(), CALLS, log.path(), is_meant);
    let calls: BTreeSet<&str> = found.iter().map(|point| point.call.as_str()).collect();
    let points: Vec<Vec<&Point>> =
        calls.iter().map(|call| found.iter().filter(|point| point.call == *call).collect()).collect();
    let mut moments = Moments::new(5);
    kill_restores(&mut figures, &mut warm, |warm, number| {
        let point = *moments.pick(&points[number % points.len()]);
        let struck = strace::strike(&warm.restore(), point, "signal=KILL", log.path());
        (struck.output.status == 137).then(|| format!("at {}", point.call))
    });
    figures.finish();
}
