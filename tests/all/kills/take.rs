//! Kills of `snapshot take`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::servers::{self, Output, TestServer};

use super::figures::Figures;
use super::litter::{confine, others_below, snapshots_below};
use super::moments::{Moments, kill_after, measure};
use super::strace::{self, Point};

/// How many of a label stay; of those before, the warmest may stay besides.
const KEEP: usize = 3;

/// After so many kills there is a new, empty store.
const KILLS_PER_STORE: usize = 25;

/// A server with enough tables that a take has something to write.
pub fn server() -> TestServer {
    let server = servers::start_any(&[]);
    server.psql(
        "CREATE EXTENSION pg_buffercache;
         DO $$ BEGIN FOR i IN 1..60 LOOP EXECUTE format('CREATE TABLE t%s AS SELECT 1 AS i', i); END LOOP; END $$",
    );
    server
}

/// The directory of snapshots that takes are killed in, and what has to be there.
struct Store<'a> {
    server: &'a TestServer,
    directory: PathBuf,
    /// What is below the home directory when nobody was killed, apart from snapshots.
    furniture: BTreeSet<PathBuf>,
    /// How many fell in this directory.
    kills: usize,
}

impl Store<'_> {
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.server.command(arguments);
        confine(&mut command, self.server.home());
        command.env("PGTHAW_SNAPSHOTS", &self.directory);
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        servers::output_of(&mut self.command(arguments))
    }

    /// Takes alternate between two labels.
    fn take(&self, number: usize) -> Command {
        let keep = KEEP.to_string();
        let label = label_of(number);
        let label = if label.is_empty() { [].as_slice() } else { &["--label", label] };
        self.command(&[["snapshot", "take", "--keep", &keep].as_slice(), label].concat())
    }

    fn snapshots(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        snapshots_below(&self.directory)
    }

    /// What was there is there byte for byte, but what a new one has pushed out; at most one is new; all that is listed is whole.
    #[track_caller]
    fn check_after_kill(&self, before: &BTreeMap<PathBuf, Vec<u8>>, point: &str) -> usize {
        let after = self.snapshots();
        let new: Vec<&PathBuf> = after.keys().filter(|path| !before.contains_key(*path)).collect();
        assert!(new.len() <= 1, "{point}: {new:?}");
        for (path, bytes) in before {
            match after.get(path) {
                Some(left) => assert!(left == bytes, "{point}: {} has changed", path.display()),
                None => {
                    let newer = after.keys().filter(|other| label(other) == label(path) && *other > path).count();
                    assert!(new.len() == 1 && newer >= KEEP, "{point}: {} is gone", path.display());
                }
            }
        }
        let listed = self.run(&["snapshot", "list", "--json"]).ok().json();
        let listed = listed["snapshots"].as_array().unwrap();
        assert!(listed.iter().all(|one| one["error"].is_null()), "{point}: {listed:#?}");
        let listed: BTreeSet<PathBuf> = listed.iter().map(|one| one["path"].as_str().unwrap().into()).collect();
        assert!(listed.iter().eq(after.keys()), "{point}: {listed:?}");
        if !after.is_empty() {
            let verified = self.run(&["snapshot", "list", "--verify", "--all", "--json"]).ok().json();
            let verified = verified["snapshots"].as_array().unwrap();
            assert!(verified.iter().all(|one| one["is_whole"] == true) && verified.len() == after.len(), "{point}");
        }
        after.len()
    }

    /// A take that is left alone adds one, and leaves nothing that the killed ones did.
    #[track_caller]
    fn check_next(&self, number: usize, points: &[String]) {
        let before = self.snapshots();
        servers::output_of(&mut self.take(number)).ok();
        let after = self.snapshots();
        let new = after.keys().filter(|path| !before.contains_key(*path)).count();
        assert_eq!(new, 1, "{points:?}");
        // One prunes what has its label; those of the other one may be as many as were killed before they came to that.
        let count = after.keys().filter(|path| label(path) == label_of(number)).count();
        assert!(count <= KEEP + 1, "{points:?}: {:?}", after.keys());
        let others = others_below(self.server.home());
        assert_eq!(self.without_cluster(&others), self.without_cluster(&self.furniture), "left after {points:?}");
    }

    /// Paths as they would be in a store of another name.
    fn without_cluster(&self, paths: &BTreeSet<PathBuf>) -> BTreeSet<PathBuf> {
        let stores = self.directory.parent().unwrap();
        let common = |path: &PathBuf| match path.strip_prefix(stores) {
            Ok(inner) => inner.components().skip(1).collect(),
            Err(_) => path.clone(),
        };
        paths.iter().map(common).collect()
    }
}

/// The label of the take of this number.
fn label_of(number: usize) -> &'static str {
    if number.is_multiple_of(2) { "a" } else { "" }
}

fn label(path: &Path) -> String {
    let name = path.file_stem().unwrap().to_string_lossy();
    name.splitn(3, '-').nth(2).unwrap_or_default().to_owned()
}

/// Kills takes by `kill`, which says where it fell or that it came too late.
fn kill_takes(figures: &mut Figures, server: &TestServer, mut kill: impl FnMut(&Store, usize) -> Option<String>) {
    let mut moments = Moments::new(1);
    let mut store = Store { server, directory: server.home().join("stores/0"), furniture: BTreeSet::new(), kills: 0 };
    servers::output_of(&mut store.take(0)).ok();
    store.furniture = others_below(server.home());
    let mut number = 0;
    let mut points = Vec::new();
    while !figures.is_enough() {
        number += 1;
        let before = store.snapshots();
        let fell = kill(&store, number);
        if let Some(point) = fell {
            let count = store.check_after_kill(&before, &point);
            figures.checked("snapshots listed and verified after a kill, older ones byte for byte as before", count);
            figures.note(point.clone());
            points.push(point);
            store.kills += 1;
        }
        // One to four kills, then a take that is left alone.
        if moments.below(5) < 2 || figures.is_enough() {
            store.check_next(number, &points);
            figures.checked("takes left alone: one snapshot more, no file that a killed one left", 1);
            points.clear();
            if store.kills >= KILLS_PER_STORE {
                store.kills = 0;
                store.directory = server.home().join(format!("stores/{number}"));
            }
        }
    }
}

#[test]
fn a_take_that_is_killed_at_any_moment_harms_nothing() {
    let mut figures = Figures::new("kills of take, at random moments", "PGTHAW_KILLS_TAKE_AT_RANDOM", 6);
    let server = server();
    let mut moments = Moments::new(2);
    let store = Store { server: &server, directory: server.home().join("first"), furniture: BTreeSet::new(), kills: 0 };
    let take = || drop(servers::output_of(&mut store.take(1)).ok());
    let whole = measure(|| (), take);
    let tenth = whole / 10;
    kill_takes(&mut figures, &server, |store, number| {
        let time = moments.within(whole);
        let tenths = time.as_micros() / tenth.max(Duration::from_micros(1)).as_micros();
        kill_after(store.take(number), time).then(|| format!("{} to {} % of its time", 10 * tenths, 10 * (tenths + 1)))
    });
    figures.finish();
}

#[test]
fn a_take_that_is_killed_at_a_system_call_harms_nothing() {
    if !strace::is_here() {
        return;
    }
    let mut figures = Figures::new("kills of take, at system calls", "PGTHAW_KILLS_TAKE_AT_CALLS", 6);
    let server = server();
    let home = server.home().to_str().unwrap().to_owned();
    let log = tempfile::NamedTempFile::new_in("/var/tmp").unwrap();
    let store = Store { server: &server, directory: server.home().join("first"), furniture: BTreeSet::new(), kills: 0 };
    let mut points: BTreeMap<String, BTreeSet<Point>> = BTreeMap::new();
    // One that makes its directories, and one that removes an older snapshot.
    let pruning = store.command(&["snapshot", "take", "--label", "a", "--keep", "1"]);
    for command in [store.take(0), pruning] {
        for point in strace::find_points(&command, strace::FILE_CALLS, log.path(), |line| line.contains(&home)) {
            points.entry(point.call.clone()).or_default().insert(point);
        }
    }
    let points: Vec<Vec<Point>> = points.into_values().map(|points| points.into_iter().collect()).collect();
    let mut moments = Moments::new(3);
    kill_takes(&mut figures, &server, |store, number| {
        // The calls take turns, so that rare ones have their share.
        let point = moments.pick(&points[number % points.len()]).clone();
        let struck = strace::strike(&store.take(number), &point, "signal=KILL", log.path());
        (struck.output.status == 137).then(|| format!("{} of {}", point.call, place_of(&struck.lines, &home)))
    });
    figures.finish();
}

/// What the call that was struck was for.
fn place_of(lines: &[String], home: &str) -> &'static str {
    match lines.last() {
        Some(line) if line.contains("/stores/") => "the store",
        Some(line) if line.contains(&format!("{home}/tmp")) => "a temporary file",
        Some(line) if line.contains(home) => "the home directory",
        _ => "something else",
    }
}
