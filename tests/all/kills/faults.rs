//! System calls that fail: a full disk, one that cannot be read, no descriptors left, an interruption, a file that ends early.
//! Each command says what failed and where, or does all that it should; and leaves what was there as it was.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::results_server::address;
use crate::servers::{self, Output, TestServer};

use super::figures::Figures;
use super::litter::{confine, paths_below, snapshots_below};
use super::moments::Moments;
use super::strace::{self, Point};
use super::take;

/// The calls that are answered otherwise, and how: what the kernel may say to them.
const ANSWERS: [(&str, &[&str]); 10] = [
    ("openat openat2", &["error=EMFILE", "error=ENFILE", "error=EIO", "error=EINTR", "error=ENOSPC", "error=EACCES"]),
    ("read pread64", &["error=EIO", "error=EINTR", "retval=0"]),
    ("write pwrite64 ftruncate fallocate", &["error=ENOSPC", "error=EIO", "error=EINTR", "error=EDQUOT"]),
    ("fsync fdatasync", &["error=EIO", "error=ENOSPC", "error=EINTR"]),
    (
        "mkdir mkdirat rename renameat renameat2 link linkat unlink unlinkat",
        &["error=ENOSPC", "error=EIO", "error=EACCES"],
    ),
    ("flock", &["error=EINTR", "error=ENOLCK", "error=EIO"]),
    // Locks, and copies of descriptors.
    ("fcntl", &["error=ENOLCK", "error=EMFILE"]),
    ("getdents64 statx newfstatat fstat", &["error=EIO", "error=ENOMEM"]),
    ("connect sendto", &["error=EINTR", "error=ECONNRESET", "error=EPIPE"]),
    ("recvfrom", &["error=EINTR", "error=ECONNRESET", "retval=0"]),
];

/// Exit statuses of an error that was explained: failed, usage, privilege.
const EXPLAINED: [i32; 3] = [1, 2, 3];

/// One command, and how it is seen that it did its work or none.
struct Case {
    name: &'static str,
    arguments: Vec<String>,
    prepare: fn(&World),
    /// After success everything has to be there.
    check: fn(&World, &Output),
}

struct World {
    server: TestServer,
    results: String,
    log: tempfile::NamedTempFile,
    /// The files that a command writes when nothing fails.
    written: BTreeMap<PathBuf, Vec<u8>>,
    asked_bytes: f64,
    /// What a take says of the snapshot when nothing fails.
    taken: BTreeMap<&'static str, f64>,
}

impl World {
    fn new() -> World {
        let server = take::server();
        server.psql("CREATE EXTENSION pg_prewarm; SELECT pg_prewarm('pg_proc'), pg_prewarm('pg_attribute')");
        let results = address(&server);
        let log = tempfile::NamedTempFile::new_in("/var/tmp").unwrap();
        let mut world =
            World { server, results, log, written: BTreeMap::new(), asked_bytes: 0.0, taken: BTreeMap::new() };
        for (name, rows) in [("pgbench_log.7", 100), ("pgbench_log.8", 70)] {
            let log = format!("1650260550 {rows} 50000 0 80 1200\n1650260551 50 25000 0 90 900\n");
            fs::write(world.path(name), log).unwrap();
        }
        world.run(&["snapshot", "take", "-o", "first.parquet"]).ok();
        let taken = world.run(&["snapshot", "take", "--json"]).ok().json();
        for name in ["relation_count", "os_blocks"] {
            world.taken.insert(name, taken["header"][name].as_f64().unwrap());
        }
        for arguments in ["snapshot take", "results import pgbench_log.7"] {
            world.run(&arguments.split(' ').collect::<Vec<_>>()).ok();
        }
        fs::copy(world.path("state/pgthaw/results.sqlite"), world.path("results.before")).unwrap();
        for (arguments, file) in [("report -o page.html", "page.html"), ("results export -o rows.csv", "rows.csv")] {
            world.run(&arguments.split(' ').collect::<Vec<_>>()).ok();
            let path = world.path(file);
            world.written.insert(path.clone(), fs::read(path).unwrap());
        }
        let receipt = world.run(&["restore", "./first.parquet", "--json"]).ok().json();
        world.asked_bytes = receipt["os"]["asked_bytes"].as_f64().unwrap();
        world
    }

    fn path(&self, name: &str) -> PathBuf {
        self.server.home().join(name)
    }

    fn command<T: AsRef<str>>(&self, arguments: &[T]) -> Command {
        let arguments: Vec<&str> = arguments.iter().map(AsRef::as_ref).collect();
        let mut command = self.server.command(&arguments);
        confine(&mut command, self.server.home());
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        servers::output_of(&mut self.command(arguments))
    }

    /// Is this call's line about a file of the test, or of its server, or about a connection?
    fn is_meant(&self, line: &str) -> bool {
        let ours = [self.server.home().to_owned(), self.server.data_directory()];
        ours.iter().any(|path| line.contains(path.to_str().unwrap())) || line.contains("<socket:[")
    }

    /// What is kept, whole: a snapshot less than before is a loss, whatever the command answered.
    #[track_caller]
    fn check_kept(&self, before: &BTreeMap<PathBuf, Vec<u8>>, what: &str) {
        let after = snapshots_below(self.server.home());
        assert!(before.iter().all(|(path, bytes)| after.get(path) == Some(bytes)), "{what}: a snapshot has changed");
        let verified = self.run(&["snapshot", "list", "--verify", "--all", "--json"]).ok().json();
        // One of them is not in the store.
        assert_eq!(verified["snapshots"].as_array().unwrap().len() + 1, after.len(), "{what}");
        // What was imported has its trial, or is not there.
        let listed = self.run(&["results", "--json"]).ok().json();
        assert!(listed["studies"].as_array().unwrap().iter().all(|one| one["trials"] == 1), "{what}: {listed:#}");
        for (path, bytes) in &self.written {
            let is_as_written = fs::read(path).is_ok_and(|found| found == *bytes);
            assert!(is_as_written || !path.exists(), "{what}: {} is half written", path.display());
        }
    }
}

fn case(name: &'static str, arguments: &str, prepare: fn(&World), check: fn(&World, &Output)) -> Case {
    Case { name, arguments: arguments.split(' ').map(str::to_owned).collect(), prepare, check }
}

fn of_snapshots() -> Vec<Case> {
    let nothing: fn(&World) = |_| {};
    vec![
        case("snapshot take", "snapshot take --keep 100 --json", nothing, |world, output| {
            let taken = output.json();
            assert!(Path::new(taken["path"].as_str().unwrap()).exists());
            let count = |name: &str| taken["header"][name].as_f64().unwrap();
            let is_all = ["relation_count", "os_blocks"].iter().all(|name| count(name) >= 0.9 * world.taken[*name]);
            assert!(
                is_all || !taken["header"]["remarks"].as_array().unwrap().is_empty(),
                "{taken:#} {:?}",
                world.taken
            );
        }),
        case("snapshot verify", "snapshot list --verify --all --json", nothing, |world, output| {
            let output = output.json();
            let verified = output["snapshots"].as_array().unwrap();
            assert!(verified.iter().all(|one| one["is_whole"] == true), "{output:#}");
            assert_eq!(verified.len(), snapshots_below(&world.path("state")).len());
        }),
        case("snapshot list", "snapshot list --json", nothing, |world, output| {
            let listed = output.json()["snapshots"].as_array().unwrap().len();
            assert_eq!(listed, snapshots_below(&world.path("state")).len());
        }),
        case("restore", "restore ./first.parquet --json", nothing, |world, output| {
            let receipt = output.json();
            let bytes = |name: &str| receipt["os"][name].as_f64().unwrap();
            let is_all = bytes("asked_bytes") >= world.asked_bytes * 0.9
                && bytes("resident_after_bytes") > 0.9 * bytes("asked_bytes");
            let says_so = |name: &str| receipt[name].as_array().is_some_and(|some| !some.is_empty());
            assert!(is_all || says_so("skipped") || says_so("remarks"), "{receipt:#}");
        }),
    ]
}

fn of_results(results: &str) -> Vec<Case> {
    let as_before: fn(&World) = |world| {
        fs::copy(world.path("results.before"), world.path("state/pgthaw/results.sqlite")).unwrap();
        world.written.keys().for_each(|path| drop(fs::remove_file(path)));
        world.server.psql_of_results(
            "DO $$ BEGIN IF to_regclass('sweeps') IS NOT NULL THEN TRUNCATE sweeps CASCADE; END IF; END $$",
        );
    };
    vec![
        case("results import", "results import pgbench_log.8", as_before, |world, _| {
            let listed = world.run(&["results", "--json"]).ok().json();
            let trials: Vec<u64> =
                listed["studies"].as_array().unwrap().iter().map(|one| one["trials"].as_u64().unwrap()).collect();
            assert_eq!(trials, [1, 1], "{listed:#}");
        }),
        case("results", &format!("results import pgbench_log.8 --results {results}"), as_before, |world, _| {
            world.run(&["results", "--results", &world.results]).ok();
            let listed = world.run(&["results", "--json"]).ok().json();
            assert_eq!(listed["studies"].as_array().unwrap().len(), 2, "{listed:#}");
            let rows = world.server.psql_of_results("SELECT count(*), count(DISTINCT sweep_id) FROM sweep_trials");
            assert_eq!(rows, "1|1");
        }),
        case("report", "report -o page.html", as_before, |world, _| {
            let path = world.path("page.html");
            assert!(fs::read(&path).unwrap() == world.written[&path], "the page is another");
        }),
        case("results export", "results export -o rows.csv", as_before, |world, _| {
            let path = world.path("rows.csv");
            assert!(fs::read(&path).unwrap() == world.written[&path], "the rows are others");
        }),
    ]
}

/// The calls of a command that may be struck, by the answers that the kernel has for them.
fn find_points(world: &World, case: &Case) -> Vec<(Point, &'static str)> {
    (case.prepare)(world);
    let calls: Vec<&str> = ANSWERS.iter().flat_map(|(calls, _)| calls.split(' ')).collect();
    let command = world.command(&case.arguments);
    let found = strace::find_points(&command, &calls.join(","), world.log.path(), |line| world.is_meant(line));
    let answers = |call: &str| ANSWERS.iter().find(|(calls, _)| calls.split(' ').any(|one| one == call)).unwrap().1;
    found
        .into_iter()
        .flat_map(|point| answers(&point.call).iter().map(move |answer| (point.clone(), *answer)))
        .collect()
}

/// The error names the file that it is about, its directory, or the file that was asked for and is drafted beside it; an error
/// of a connection names the server. What wakes pgthaw's own threads is a socket too, of which a copy is made as they start.
fn is_explained(case: &Case, output: &Output, line: &str) -> bool {
    let said = format!("{}{}", output.stderr, output.stdout);
    if line.contains("<socket:[") && line.contains("F_DUPFD_CLOEXEC") {
        return said.contains("cannot start the threads that pgthaw needs: ") && said.contains("ulimit -n");
    }
    if line.contains("<socket:[") {
        return ["server", "database", "connect"].iter().any(|word| said.contains(word));
    }
    // What is no path among them stands in no error either.
    let paths = line.split(['<', '>', '"']).filter(|part| !part.contains([' ', '('])).map(Path::new);
    let mut names = paths.flat_map(|path| path.ancestors().take(2)).filter_map(Path::file_name);
    let is_asked_for = |name: &String| name.contains('.') && said.contains(name);
    names.any(|name| said.contains(name.to_str().unwrap())) || case.arguments.iter().any(is_asked_for)
}

fn inject(figures: &mut Figures, world: &World, cases: &[Case], part: u64) {
    let mut moments = Moments::new(part);
    let points: Vec<Vec<(Point, &str)>> = cases.iter().map(|case| find_points(world, case)).collect();
    let calls = |points: &[(Point, &str)]| points.iter().map(|(point, _)| point.call.clone()).collect::<BTreeSet<_>>();
    let mut number = 0;
    while !figures.is_enough() {
        let (case, points) = (&cases[number % cases.len()], &points[number % cases.len()]);
        let calls: Vec<String> = calls(points).into_iter().collect();
        // The calls take turns, so that rare ones have their share.
        let call = &calls[(number / cases.len()) % calls.len()];
        let of_call: Vec<_> = points.iter().filter(|(point, _)| point.call == *call).collect();
        let (point, answer) = moments.pick(&of_call);
        number += 1;
        (case.prepare)(world);
        let before = snapshots_below(world.server.home());
        let paths = paths_below(world.server.home());
        let struck = strace::strike(&world.command(&case.arguments), point, answer, world.log.path());
        if struck.lines.is_empty() || !struck.lines.iter().all(|line| world.is_meant(line)) {
            continue;
        }
        let (line, output) = (struck.lines.last().unwrap(), &struck.output);
        let what = format!("{} with {line}: status {}\n{}{}", case.name, output.status, output.stdout, output.stderr);
        assert!(!output.stderr.contains("panicked"), "{what}");
        match output.status {
            0 => (case.check)(world, output),
            status => assert!(EXPLAINED.contains(&status) && is_explained(case, output, line), "{what}"),
        }
        world.check_kept(&before, &what);
        let is_work =
            |path: &&PathBuf| path.extension().is_some_and(|end| end == "parquet") || world.written.contains_key(*path);
        let left: Vec<PathBuf> =
            paths_below(world.server.home()).difference(&paths).filter(|path| !is_work(path)).cloned().collect();
        assert!(left.is_empty(), "{left:?} is left of {what}");
        let ended = if output.status == 0 { "did its work" } else { "failed and said where" };
        figures.note(format!("{}: {} of {} {ended}", case.name, answer.split('=').next_back().unwrap(), point.call));
        figures.checked("commands that did all or named what failed; snapshots, results and written files whole", 1);
    }
}

#[test]
fn a_call_that_fails_under_a_snapshot_is_told_and_harms_nothing() {
    if !strace::is_here() {
        return;
    }
    let mut figures = Figures::new("faults of take, verify, list and restore", "PGTHAW_KILLS_FAULTS_OF_SNAPSHOTS", 8);
    inject(&mut figures, &World::new(), &of_snapshots(), 8);
    figures.finish();
}

#[test]
fn a_call_that_fails_under_results_is_told_and_harms_nothing() {
    if !strace::is_here() {
        return;
    }
    let mut figures = Figures::new("faults of import, send, report and export", "PGTHAW_KILLS_FAULTS_OF_RESULTS", 8);
    let world = World::new();
    inject(&mut figures, &world, &of_results(&world.results), 9);
    figures.finish();
}

/// Compiles a library for LD_PRELOAD. `None` without a C compiler.
pub fn build_library(directory: &Path, text: &str) -> Option<PathBuf> {
    let (source, library) = (directory.join("library.c"), directory.join("library.so"));
    fs::write(&source, text).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-D_GNU_SOURCE", "-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(&source);
    match compiler.status() {
        Ok(status) => status.success().then_some(library),
        Err(error) => untested!("there is no C compiler: {error}"),
    }
}

#[test]
fn reads_and_writes_that_fall_short_change_nothing() {
    let mut figures = Figures::new("short reads and writes", "PGTHAW_KILLS_FAULTS_OF_TRANSFERS", 8);
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let Some(library) = build_library(directory.path(), include_str!("short_transfers.c")) else { return };
    let world = World::new();
    let cases: Vec<Case> = of_snapshots().into_iter().chain(of_results(&world.results)).collect();
    let mut number = 0;
    while !figures.is_enough() {
        let case = &cases[number % cases.len()];
        // From every one to one in so many.
        let every = 1 + number / cases.len();
        (case.prepare)(&world);
        let before = snapshots_below(world.server.home());
        let mut command = world.command(&case.arguments);
        let output = servers::output_of(command.env("LD_PRELOAD", &library).env("SHORT_EVERY", every.to_string())).ok();
        (case.check)(&world, &output);
        world.check_kept(&before, case.name);
        number += 1;
        figures.note(format!("{}: one of {every} fell short", case.name));
        figures.checked("commands that did all their work", 1);
    }
    figures.finish();
}
