//! pgthaw's own studies from end to end, on clusters of their own: what is kept, and that nothing stays behind.

use std::fs::{self, Permissions};
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{Access, access, major, minor};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use super::servers::{self, Home, Output, programs};

/// The smallest study of warmers that shows everything.
const SMALL: [&str; 4] = ["scale=1", "seconds=4", "clients=2", "strategy=nothing,pgthaw"];

/// Where the clusters of one test are made.
pub struct Place(pub TempDir);

impl Place {
    pub fn new() -> Place {
        let directory = tempfile::Builder::new().prefix("pgthaw-bench-test-").tempdir_in("/var/tmp").unwrap();
        // The server's user has to reach it.
        fs::set_permissions(directory.path(), Permissions::from_mode(0o777)).unwrap();
        Place(directory)
    }

    pub fn command(&self, home: &Home, version: u32, arguments: &[&str]) -> Command {
        let mut command = home.command(arguments);
        command.arg("--dir").arg(self.0.path()).arg("--bin-dir").arg(programs(version).bin_dir());
        // For what a study keeps while it runs: it has to be gone too.
        command.env("TMPDIR", self.0.path());
        command
    }

    /// No file, no process, no cgroup is left of a pgthaw that had this pid.
    #[track_caller]
    pub fn assert_nothing_is_left(&self, pid: u32) {
        let left: Vec<_> = fs::read_dir(self.0.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(left.is_empty(), "{left:?}");
        let place = self.0.path().to_str().unwrap();
        let titles =
            fs::read_dir("/proc").unwrap().filter_map(|entry| fs::read(entry.unwrap().path().join("cmdline")).ok());
        let running: Vec<String> = titles
            .map(|title| String::from_utf8_lossy(&title).replace('\0', " "))
            .filter(|title| title.contains(place))
            .collect();
        assert!(running.is_empty(), "{running:?}");
        for hierarchy in ["/sys/fs/cgroup", "/sys/fs/cgroup/blkio"] {
            for entry in fs::read_dir(hierarchy).into_iter().flatten().flatten() {
                let name = entry.file_name().to_string_lossy().into_owned();
                let parts: Vec<&str> = name.split('-').collect();
                assert!(parts[0] != "pgthaw" || parts.get(2) != Some(&pid.to_string().as_str()), "{name} is left");
            }
        }
    }
}

pub fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_else(|| panic!("no {pointer} in {value}"))
}

test_every_version! {
    fn a_study_of_warmers_keeps_everything_and_leaves_nothing(version) {
        let (home, place) = (Home::new(), Place::new());
        let arguments = [["bench", "warmup", "--json", "disk=gp3", "seed=7"].as_slice(), &SMALL].concat();
        let child = place.command(&home, version, &arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let pid = child.id();
        let printed = Output::from(child.wait_with_output().unwrap()).ok().json();
        place.assert_nothing_is_left(pid);

        let id = text(&printed, "/sweep/id");
        let kept = home.pgthaw(&["results", "show", id, "--json"]).ok().json();
        for part in ["sweep", "trials", "points"] {
            assert!(kept[part] == printed[part], "{part} differs: {id}");
        }
        let run = &kept["sweep"];
        assert!(text(run, "/server/version").starts_with(&version.to_string()), "{}", run["server"]);
        assert_eq!(run["study"]["axes"]["strategy"], serde_json::json!(["nothing", "pgthaw"]));
        assert_eq!(run["warmup"]["disk"]["read_ahead"], 128 << 10);
        if run["warmup"]["disk"]["not_enforced"].is_null() {
            let forecast = &run["warmup"]["forecast"];
            assert!(forecast["warm_after_seconds"]["seconds"].as_f64().unwrap() < 60.0, "{forecast}");
        }
        assert_eq!(kept["trials"].as_array().unwrap().len(), 2);
        for trial in kept["trials"].as_array().unwrap() {
            check_trial(trial);
        }
    }
}

/// What every trial shows, on whatever disk.
fn check_trial(trial: &Value) {
    let strategy = text(trial, "/point/strategy");
    let (outcome, warming) = (&trial["strategy_outcome"], &trial["warming"]);
    assert_eq!(text(trial, "/start_state/verdict"), "cold", "{trial}");
    assert_eq!(outcome["failure"], Value::Null, "{strategy}: {outcome}");
    let samples = trial["samples"].as_array().unwrap();
    assert_eq!(samples.len(), 4);
    let sum = |name: &str| samples.iter().map(|sample| sample[name].as_u64().unwrap()).sum::<u64>();
    assert_eq!(warming["served"].as_u64().unwrap(), sum("transactions"));
    assert!(sum("transactions") > 0, "{strategy} served nothing");
    // Whoever read it, at the end of the trial most of the database is in memory; nothing of it was at the start.
    let total = trial["start_state"]["total_bytes"].as_u64().unwrap();
    assert!(samples[3]["os_resident_bytes"].as_u64().unwrap() > total / 2, "{strategy}: {samples:?}");
    let tenths = warming["foreground_tenths"].as_array().unwrap();
    assert_eq!(tenths.len(), 40);
    let accounts =
        warming["residency"].as_array().unwrap().iter().find(|one| one["relation"] == "public.pgbench_accounts");
    let strips = accounts.unwrap_or_else(|| panic!("no strip of pgbench_accounts: {}", warming["residency"]));
    let mean = |pointer: &str| {
        let shares = strips.pointer(pointer).unwrap().as_array().unwrap();
        shares.iter().map(|share| share.as_f64().unwrap()).sum::<f64>() / shares.len() as f64
    };
    assert!(mean("/before/os") < 0.05 && mean("/after/os") > 0.5, "{strategy}: {strips}");
    assert!(mean("/before/buffers") == 0.0 && mean("/after/buffers") > 0.05, "{strategy}: {strips}");
    if strategy == "pgthaw" {
        assert!(text(outcome, "/command").contains(" restore "));
        assert!(outcome["ended_after_seconds"].as_f64().is_some(), "{outcome}");
    }
}

#[test]
fn a_trial_ends_when_it_is_steady() {
    let (home, place) = (Home::new(), Place::new());
    // Its users think for most of the time, so others who use the machine hardly slow them down.
    let script = home.path().join("thinking.sql");
    let lookup = "\\set aid random(1, 100000 * :scale)\nSELECT abalance FROM pgbench_accounts WHERE aid = :aid;\n";
    fs::write(&script, format!("{lookup}\\sleep 50 ms\n")).unwrap();
    let small = ["scale=1", "seconds=60", "clients=16", "strategy=nothing"];
    let script = format!("script={}", script.display());
    let arguments =
        [["bench", "warmup", "--json", "until=steady", "disk=gp3", script.as_str()].as_slice(), &small].concat();
    let printed = Output::from(place.command(&home, 15, &arguments).output().unwrap()).ok().json();
    let (trial, study) = (&printed["trials"][0], &printed["sweep"]["study"]);
    let warming = &trial["warming"];
    let samples = trial["samples"].as_array().unwrap();
    // Ten seconds are the fewest that are judged; a machine that others use may need more of them.
    assert!((12..60).contains(&samples.len()), "{} s: {}", samples.len(), warming["judgement"]);
    // Who ended it saw what pgbench prints as it runs; the log of the whole may differ by a second that was disturbed.
    assert!(
        matches!(text(warming, "/judgement/verdict"), "steady" | "periodic" | "not_reached"),
        "{}",
        warming["judgement"]
    );
    assert_eq!(warming["foreground_tenths"].as_array().unwrap().len(), 10 * samples.len());
    // pgbench ended by itself, with a log of all its seconds.
    assert!(samples.iter().filter(|sample| sample["transactions"] == 0).count() < 3, "{samples:?}");
    assert!(study["until"] == "steady" && trial["point"]["seconds"] == 60, "{study}");
    let text = home.pgthaw(&["results", "show"]).ok().stdout;
    assert!(text.contains("different durations") && !text.contains("the server should be warm after"), "{text}");
}

#[test]
fn ctrl_c_in_a_trial_keeps_what_ended_and_leaves_nothing() {
    let (home, place) = (Home::new(), Place::new());
    let many = ["bench", "warmup", "scale=1", "seconds=2", "rate=100", "repeats=500", "strategy=nothing"];
    let arguments = [many.as_slice(), &["disks.ahead=,,128KiB", "disk=ahead"]].concat();
    let mut child = place.command(&home, 15, &arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let pid = child.id();
    // A line per trial that ended; the next one runs then.
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let ended = lines.find(|line| line.contains("1 of 500"));
    assert!(ended.is_some_and(|line| line.contains("nothing")), "no trial ended");
    // It holds while a trial runs, and not while its start is prepared.
    let deadline = Instant::now() + Duration::from_secs(60);
    while read_settable_read_ahead_kb(place.0.path()).is_some_and(|kb| kb != "128\n") {
        assert!(Instant::now() < deadline, "the read-ahead is not that of the trials");
        std::thread::sleep(Duration::from_millis(20));
    }
    interrupt(pid);
    drop(lines);
    let output = Output::from(child.wait_with_output().unwrap()).ends_with(130);
    assert!(output.stdout.contains("nothing"), "the table of what ended is printed: {}", output.stdout);
    place.assert_nothing_is_left(pid);
    let kept = home.pgthaw(&["results", "show", "--json"]).ok().json();
    assert!(!kept["trials"].as_array().unwrap().is_empty());
    assert!(kept["sweep"]["ended_at"].is_null(), "the same command goes on with it");
}

#[test]
fn ctrl_c_in_the_first_trial_prints_no_empty_table() {
    let (home, place) = (Home::new(), Place::new());
    let arguments = ["bench", "demo", "scale=1", "seconds=60", "strategy=nothing"];
    let mut child = place.command(&home, 15, &arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let pid = child.id();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.contains("forecast of a cold start")), "no trial began");
    interrupt(pid);
    drop(lines);
    let output = Output::from(child.wait_with_output().unwrap()).ends_with(130);
    assert!(output.stdout.contains("No trial has ended"), "{}", output.stdout);
    for part in ["by then", "verdicts on", "transactions served", "draw it"] {
        assert!(!output.stdout.contains(part), "{part}: {}", output.stdout);
    }
    place.assert_nothing_is_left(pid);
}

#[test]
fn the_demo_looks_first_whether_it_may_write_its_report() {
    let (home, place) = (Home::new(), Place::new());
    fs::write(home.path().join("notes.txt"), "buy milk").unwrap();
    for (report, reason) in [("gone/demo.html", "No such file"), ("notes.txt", "is not a pgthaw report")] {
        let arguments = ["bench", "demo", "scale=1", "seconds=1", "strategy=nothing", "-o", report];
        let output = Output::from(place.command(&home, 15, &arguments).output().unwrap());
        assert!((1..=2).contains(&output.status) && output.stdout.is_empty(), "{output:?}");
        assert!(
            output.stderr.contains(reason) && output.stderr.contains("use another file")
                || output.stderr.contains("use a file in an existing directory"),
            "{}",
            output.stderr
        );
    }
    assert!(!home.path().join("state/pgthaw/results.sqlite").exists(), "nothing was begun");
}

/// The read-ahead of the file system that holds a path, in KiB, where this user may change it.
fn read_settable_read_ahead_kb(path: &Path) -> Option<String> {
    let device = fs::metadata(path).unwrap().dev();
    let disk = fs::canonicalize(format!("/sys/dev/block/{}:{}", major(device), minor(device))).ok()?;
    let files = [disk.join("queue/read_ahead_kb"), disk.parent()?.join("queue/read_ahead_kb")];
    let setting = files.into_iter().find(|file| access(file, Access::WRITE_OK).is_ok())?;
    Some(fs::read_to_string(setting).unwrap())
}

#[test]
fn ctrl_c_while_the_tables_are_made_leaves_nothing() {
    let (home, place) = (Home::new(), Place::new());
    // Tables that take seconds to make, and 3 GB of room.
    let arguments = ["bench", "warmup", "scale=100", "strategy=nothing"];
    let mut child = place.command(&home, 15, &arguments).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let pid = child.id();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let mut before = Vec::new();
    let is_begun =
        lines.by_ref().inspect(|line| before.push(line.clone())).any(|line| line.contains("creating pgbench's tables"));
    assert!(is_begun, "{before:?}");
    interrupt(pid);
    let rest: Vec<String> = lines.collect();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{rest:?}");
    place.assert_nothing_is_left(pid);
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_is_made() {
    let (home, place) = (Home::new(), Place::new());
    let refused = |arguments: &[&str], expected: &str| {
        let all = [["bench", "warmup"].as_slice(), arguments].concat();
        let output = Output::from(place.command(&home, 15, &all).output().unwrap()).ends_with(2);
        assert!(output.stderr.contains(expected), "{}", output.stderr);
    };
    refused(&["strategy=nothing,dd"], "points.strategy: \"dd\" is not allowed; write one of nothing, seqscan");
    refused(
        &["disk=floppy"],
        "points.disk: \"floppy\" is unknown; known are gp3, hdd, native and names defined in [disks]",
    );
    refused(&["disk=own", "disks.own=1,fast"], "is not a disk");
    refused(&["disk=own", "disks.own=,,6kB"], "whole pages of 4 kB");
    refused(&["scale=0"], "points.scale: 0 is not allowed");
    refused(&["script=hot.sql"], "hot.sql: No such file");
    refused(&["clinets=2"], "a study has no key clinets; did you mean clients?");
    assert!(fs::read_dir(place.0.path()).unwrap().next().is_none());
}

#[test]
fn a_script_that_fails_is_told_with_pgbenchs_words() {
    let (home, place) = (Home::new(), Place::new());
    let script = home.path().join("wrong.sql");
    fs::write(&script, "SELECT no_such_column FROM pgbench_accounts;\n").unwrap();
    let script = format!("script={}", script.display());
    let arguments = ["bench", "warmup", "scale=1", "seconds=3", &script];
    let output = Output::from(place.command(&home, 15, &arguments).output().unwrap()).ends_with(1);
    assert!(output.stderr.contains("no_such_column"), "{}", output.stderr);
    assert!(fs::read_dir(place.0.path()).unwrap().next().is_none());
}

#[test]
fn the_demo_writes_a_report_of_both_acts() {
    let (home, place) = (Home::new(), Place::new());
    let arguments = [["bench", "demo", "-o", "demo.html"].as_slice(), &SMALL[..2], &["strategy=cat"]].concat();
    let child = place.command(&home, 15, &arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let pid = child.id();
    let output = Output::from(child.wait_with_output().unwrap()).ok();
    place.assert_nothing_is_left(pid);
    let report = home.path().join("demo.html");
    assert!(output.stdout.contains(&report.display().to_string()), "{}", output.stdout);
    assert!(output.stdout.contains("in memory before and after"), "{}", output.stdout);
    let html = fs::read_to_string(report).unwrap();
    for act in ["everything is needed", "the newest tenth"] {
        assert!(output.stdout.contains(&format!("{act}\n")) && html.contains(act), "{}", output.stdout);
    }
    let listed = home.pgthaw(&["results", "--json"]).ok().json();
    assert_eq!(listed["studies"].as_array().unwrap().len(), 2, "one for each act");
}

#[test]
fn a_kept_cluster_stays() {
    let (home, place) = (Home::new(), Place::new());
    let arguments =
        [["bench", "warmup", "--keep", "--json"].as_slice(), &SMALL[..2], &["rate=100", "strategy=nothing"]].concat();
    let printed = Output::from(place.command(&home, 15, &arguments).output().unwrap()).ok().json();
    let kept = Path::new(text(&printed, "/kept_cluster"));
    assert!(kept.starts_with(place.0.path()) && kept.join("data/PG_VERSION").exists(), "{}", kept.display());
    assert!(!kept.join("data/postmaster.pid").exists(), "its server is stopped");
}

#[test]
fn a_lab_server_lends_its_cluster_and_runs_again() {
    let server = servers::start(15, &[("temp_buffers", "7MB")]);
    let data_directory = server.data_directory();
    let configuration = || fs::read_to_string(data_directory.join("postgresql.conf")).unwrap();
    let before = configuration();
    let arguments = [
        ["bench", "warmup", "--json", "-D", data_directory.to_str().unwrap(), "--yes"].as_slice(),
        &SMALL[..2],
        &["rate=100", "strategy=nothing,autoprewarm"],
    ]
    .concat();
    let mut command = server.command(&arguments);
    let output = command.env("PGTHAW_BIN_DIR", programs(15).bin_dir()).output().unwrap();
    let printed = Output::from(output).ok().json();
    assert_eq!(printed["trials"].as_array().unwrap().len(), 2);
    let settings = printed["trials"][0]["settings"].as_array().unwrap();
    assert!(settings.contains(&serde_json::json!(["temp_buffers", "7MB"])), "its own settings count: {settings:?}");
    // The same cluster, started by nobody else, with nothing of the benchmark in it.
    let left = "SELECT count(*) FROM pg_database WHERE datname LIKE 'pgthaw%'";
    assert_eq!(server.psql(left), "0");
    assert_eq!(server.psql("SELECT count(*) FROM pg_roles WHERE rolname LIKE 'pgthaw%'"), "0");
    assert_eq!(server.psql("SHOW shared_preload_libraries"), "");
    assert_eq!(configuration(), before);
    // The harness did not start this server, and so does not stop it.
    terminate(&data_directory);
}

#[test]
fn a_lab_server_that_others_use_gives_them_no_rights() {
    let server = servers::start(servers::installed(), &[]);
    let data_directory = server.data_directory();
    let bench = |strategies: &str| {
        let place = ["bench", "warmup", "--json", "-D", data_directory.to_str().unwrap(), "--yes"];
        let arguments = [place.as_slice(), &SMALL[..2], &["rate=100", strategies]].concat();
        let mut command = server.command(&arguments);
        Output::from(command.env("PGTHAW_BIN_DIR", programs(servers::installed()).bin_dir()).output().unwrap())
    };
    server.psql("CREATE ROLE mallory LOGIN CREATEDB");
    // Under the benchmark's name, with what a superuser's TRUNCATE would run.
    server.psql("SET SESSION AUTHORIZATION mallory; CREATE DATABASE pgthaw_bench_1");
    let refused = bench("strategy=nothing");
    assert!(refused.status != 0 && refused.stderr.contains("belongs to mallory"), "{}", refused.stderr);
    assert_eq!(server.psql("SELECT count(*) FROM pg_database WHERE datname = 'pgthaw_bench_1'"), "1");
    server.psql("DROP DATABASE pgthaw_bench_1");
    // What a new database would be a copy of.
    server.psql_in(
        "template1",
        "GRANT CREATE ON SCHEMA public TO PUBLIC; SET SESSION AUTHORIZATION mallory;
         CREATE FUNCTION public.pg_prewarm(oid, text) RETURNS bigint LANGUAGE plpgsql AS
             $$ BEGIN EXECUTE 'ALTER ROLE mallory SUPERUSER'; RETURN 1; END $$",
    );
    bench("strategy=nothing,pg_prewarm-read").ok();
    assert_eq!(server.psql("SELECT rolsuper FROM pg_roles WHERE rolname = 'mallory'"), "f");
    terminate(&data_directory);
}

#[test]
fn a_server_that_is_no_lab_server_is_left_alone() {
    let server = servers::start_any(&[("cluster_name", "production")]);
    let data_directory = server.data_directory();
    let arguments = ["bench", "warmup", "-D", data_directory.to_str().unwrap()];
    let refused = Output::from(server.command(&arguments).output().unwrap()).ends_with(2);
    assert!(refused.stderr.contains("not a lab server"), "{}", refused.stderr);
    assert_eq!(server.psql("SELECT 1"), "1");
}

/// Ends the server of a data directory, and waits for it.
pub fn terminate(data_directory: &Path) {
    let pid_file = data_directory.join("postmaster.pid");
    let text = fs::read_to_string(&pid_file).unwrap();
    interrupt(text.lines().next().unwrap().parse().unwrap());
    while pid_file.exists() {
        std::thread::yield_now();
    }
}

fn interrupt(pid: u32) {
    kill_process(Pid::from_raw(pid as i32).unwrap(), Signal::INT).unwrap();
}

/// A forecast is not gone on with.
#[test]
fn what_a_killed_run_left_is_removed_by_the_next_one() {
    let (home, place) = (Home::new(), Place::new());
    let forecast = |seconds| {
        let point = ["bench", "forecast", "question=x", "scale=1", "disks.own=1000,100MiB", "disk=own"];
        place.command(&home, 15, &[&point[..], &[seconds]].concat())
    };
    let mut child = forecast("seconds=500").stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.contains("taking its snapshots")), "nothing was prepared");
    child.kill().unwrap();
    child.wait().unwrap();
    let left = || fs::read_dir(place.0.path()).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<PathBuf>>();
    let has_server = |left: &PathBuf| left.join("data/postmaster.pid").exists();
    assert!(!left().is_empty());
    // The server stops by itself when nobody owns it any more.
    while left().iter().any(has_server) {
        std::thread::sleep(Duration::from_millis(50));
    }
    let child = forecast("seconds=3").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let pid = child.id();
    let output = Output::from(child.wait_with_output().unwrap()).ok();
    assert!(output.stderr.contains("left by a killed run"), "{}", output.stderr);
    place.assert_nothing_is_left(pid);
}

test_every_version! {
    fn loaders_bring_back_what_a_script_read(version) {
        let (home, place) = (Home::new(), Place::new());
        let arguments = ["bench", "residency", "--json", "disk=gp3", "scale=2", "wanted_seconds=1", "settings.shared_buffers=48MB"];
        let arguments = [arguments.as_slice(), &["strategy=pgthaw-os,pgthaw,one-read-per-range,cat"]].concat();
        let child = place.command(&home, version, &arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let pid = child.id();
        let printed = Output::from(child.wait_with_output().unwrap()).ok().json();
        place.assert_nothing_is_left(pid);

        let number = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("no number: {value}"));
        let trials = printed["trials"].as_array().unwrap();
        assert_eq!(trials.len(), 4);
        for trial in trials {
            let (warming, brought) = (&trial["warming"], &trial["warming"]["brought"]);
            let wanted = number(&warming["wanted_bytes"]);
            assert!(wanted > 0.0 && wanted <= 1.1 * number(&trial["start_state"]["total_bytes"]), "{warming}");
            assert_eq!(text(trial, "/start_state/verdict"), "cold", "{trial}");
            assert_eq!(trial["strategy_outcome"]["failure"], Value::Null, "{trial}");
            assert!(number(&brought["resident_after_seconds"]) > 0.0);
            assert!(number(&brought["resident_bytes"]) >= 0.9 * wanted, "{brought}");
            assert!(number(&brought["cpu_seconds"]) > 0.0 && brought["device_reads"].is_u64(), "{brought}");
            assert_eq!(trial["point"]["strategy"] == "pgthaw", brought["buffers_after_seconds"].is_f64(), "{brought}");
            let looks = warming["looks"].as_array().unwrap();
            assert!(looks.iter().any(|look| number(&look["resident_bytes"]) >= 0.99 * wanted), "{looks:?}");
            // Its seconds are measured as those of every trial are.
            let seconds = trial["samples"].as_array().unwrap();
            assert!(!seconds.is_empty() && trial["os_samples"].as_array().unwrap().len() == seconds.len(), "{trial}");
            assert_eq!((&trial["latency"], &trial["transactions"]), (&Value::Null, &serde_json::json!(0)), "nobody was served");
        }
        let points = printed["points"].as_array().unwrap();
        assert!(points.iter().all(|point| point["tps"].is_null() && point["resident_after_seconds"]["reached"] == 1), "{points:?}");
        let ratios = printed["ratios"].as_array().unwrap();
        let pairs: Vec<(&str, &str)> = ratios.iter().map(|one| (text(one, "/dividend"), text(one, "/divisor"))).collect();
        // Without the privilege to limit a disk there is no bound.
        let is_limited = trials[0]["warming"]["bound_seconds"].is_f64();
        let mut expected = Vec::new();
        for warmer in ["pgthaw-os", "pgthaw", "one-read-per-range", "cat"] {
            let peers = ["bound", "cat", "pgthaw-os"].into_iter();
            expected.extend(peers.filter(|peer| *peer != warmer && (is_limited || *peer != "bound")).map(|peer| (warmer, peer)));
        }
        assert_eq!(pairs, expected, "{ratios:?}");
        assert!(ratios.iter().all(|one| one["pairs"] == 1 && number(&one["median"]["at_least"]) > 0.0), "{ratios:?}");
        let stored = home.pgthaw(&["results", "show", "--json"]).ok().json();
        assert_eq!(stored, printed);
        let compared = ["results", "compare", "strategy=cat", "strategy=pgthaw-os", "--metric", "resident-after", "--json"];
        let compared = home.pgthaw(&compared).ok().json();
        assert!(number(&compared["cells"][0]["ratio"]["median"]["at_least"]) > 0.0, "{compared}");
        let exported = home.pgthaw(&["results", "export", "--json"]).ok().json();
        assert_eq!(exported.as_array().unwrap().len(), 4);
    }
}

#[test]
fn sigterm_while_loaders_run_leaves_nothing() {
    let (home, place) = (Home::new(), Place::new());
    let arguments = ["bench", "residency", "scale=1", "repeats=500", "strategy=cat"];
    let mut child = place.command(&home, 15, &arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let pid = child.id();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.contains(" resident")), "no trial ended");
    kill_process(Pid::from_raw(pid as i32).unwrap(), Signal::TERM).unwrap();
    drop(lines);
    let output = Output::from(child.wait_with_output().unwrap()).ends_with(143);
    assert!(output.stdout.contains("cat"), "the table of what ended is printed: {}", output.stdout);
    place.assert_nothing_is_left(pid);
}

/// Small enough to be warm within the trial on any disk.
#[test]
fn a_forecast_is_written_before_its_trial_and_judged() {
    let (home, place) = (Home::new(), Place::new());
    let version = servers::servers().last().unwrap().0;
    let point = [
        "bench",
        "forecast",
        "question=small",
        "scale=1",
        "seconds=7",
        "clients=2",
        "disks.own=1000,100MiB",
        "disk=own",
    ];
    let script = place.0.path().join("part.sql");
    // Without a limit in force every account is asked for sooner or later.
    fs::write(&script, "\\set aid random(1, 100000 * :scale)\nSELECT abalance FROM pgbench_accounts WHERE aid = :aid;")
        .unwrap();
    let own_script = format!("script={}", script.display());
    let more = ["--json", own_script.as_str()];
    let child = place.command(&home, version, &[&point[..], &more].concat()).stdout(Stdio::piped()).spawn().unwrap();
    let pid = child.id();
    let printed = Output::from(child.wait_with_output().unwrap()).ok();
    fs::remove_file(script).unwrap();
    place.assert_nothing_is_left(pid);
    let judged = printed.json();
    // 1640 blocks of the table and 276 of its index at 1000 reads/s.
    let warm = judged["forecast"]["warm_after_seconds"].as_f64().unwrap();
    assert!((1.2..4.0).contains(&warm), "{judged}");
    assert!(text(&judged, "/forecast/written_at") < text(&judged, "/trial_started_at"), "{judged}");
    assert!(judged["forecast"]["calibration_tps"].as_f64().unwrap() > 100.0, "{judged}");
    assert_eq!(judged["seconds"].as_array().unwrap().len(), 7);

    let file = home.path().join("small.json");
    fs::write(&file, &printed.stdout).unwrap();
    let verdict = home.pgthaw(&["judge", file.to_str().unwrap(), "--json"]).ok().json();
    assert_eq!(verdict["verdict"]["points"], 1);
    assert!(home.pgthaw(&["judge", file.to_str().unwrap()]).ok().stdout.contains("1 point,"));
    fs::write(&file, "{}").unwrap();
    assert!(home.pgthaw(&["judge", file.to_str().unwrap()]).ends_with(1).stderr.contains("is not a file of `bench"));
}

/// A server that may use less memory than its data needs never gets warm.
#[test]
fn a_limit_on_memory_is_in_force() {
    let (home, place) = (Home::new(), Place::new());
    let version = servers::servers().last().unwrap().0;
    let trial = ["bench", "warmup", "scale=8", "seconds=4", "clients=2", "strategy=nothing"];
    let limited = ["memory=90MB", "settings.shared_buffers=16MB", "--json"];
    let output = Output::from(place.command(&home, version, &[&trial[..], &limited].concat()).output().unwrap());
    if let Err(error) = host::linux::cgroup::DiskLimit::available() {
        untested!("{error}");
    }
    let printed = output.ok().json();
    assert_eq!(printed["sweep"]["study"]["memory"], 90 << 20);
    let last = printed["trials"][0]["samples"].as_array().unwrap().last().unwrap().clone();
    let resident = last["os_resident_bytes"].as_u64().unwrap();
    assert!(resident < 90_000_000, "{last}");
}
