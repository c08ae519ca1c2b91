//! Results on a PostgreSQL server: several writers, a server that goes away, and a sweep that is killed meanwhile.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use host::failure::quote_argument;
use pgthaw_lab::results::{NEWEST, Place as StorePlace, ServerPlace, Store};
use pgthaw_lab::verdict::{Metric, outline_trials};
use postgres::StopMode;
use serde_json::Value;

use super::bench::{Place, text};
use super::results::{SHARES, shares_of, sqlite, wait};
use super::servers::{self, Home, Output, TestServer};
use super::synthetic_run;

/// The address of a database of the server.
pub fn address(server: &TestServer) -> String {
    let port = server.psql("SHOW port");
    let user = server.psql("SELECT current_user");
    format!("postgres://{user}@/postgres?host={}&port={port}", server.cluster.socket_directory().display())
}

pub fn place(server: &TestServer) -> ServerPlace {
    match address(server).parse().unwrap() {
        StorePlace::Server(server) => server,
        StorePlace::File(file) => panic!("{} is no server", file.display()),
    }
}

fn spec(home: &Home, text: &str) -> PathBuf {
    let path = home.path().join("study.toml");
    fs::write(&path, text).unwrap();
    path
}

/// `bench` of the study into this place.
fn sweep(place: &Place, home: &Home, spec: &str, results: &str) -> Command {
    place.command(home, 15, &["bench", spec, "--results", results])
}

/// `number repeat` of the trials that a server has, in order.
fn trials_on(server: &TestServer) -> Vec<String> {
    let rows = server.psql_of_results("SELECT number || ' ' || repeat FROM sweep_trials ORDER BY 1");
    rows.lines().map(str::to_owned).collect()
}

fn trials(printed: &Value) -> Vec<String> {
    let trials = printed["trials"].as_array().unwrap();
    let mut keys: Vec<String> = trials.iter().map(|one| format!("{} {}", one["number"], one["repeat"])).collect();
    keys.sort();
    keys
}

test_every_version! {
    fn what_was_kept_on_a_server_comes_back_to_the_last_digit(version) {
        let server = servers::start(version, &[]);
        let (mut run, trials) = synthetic_run::make(2, 20);
        run.question = "a title with a \"quote\", a \\ and ünicode".into();
        wait(async {
            let store = Store::connect_server(&place(&server)).await.unwrap();
            store.save_whole_sweep(&run, &trials).await.unwrap();
            assert_eq!(store.read_study(NEWEST).await.unwrap(), run);
            assert_eq!(store.read_sweep_trials(&run.id).await.unwrap(), trials);
            store.close().await;
        });
        let results = address(&server);
        let shown = server.home.pgthaw(&["results", "show", "--json", "--results", &results]).ok().json();
        assert_eq!(shown["trials"].as_array().unwrap().len(), trials.len());
        let listed = server.home.pgthaw(&["results", "--results", &results]).ok().stdout;
        assert!(listed.contains(&run.id), "{listed}");
        // The views are there too, and medians by SQL.
        assert_eq!(server.psql_of_results("SELECT kind, trials FROM all_runs"), format!("warmup|{}", trials.len()));
        assert_eq!(server.psql_of_results(SHARES), shares_of(&trials));
        let served = server.psql_of_results("SELECT sum(transactions) FROM sweep_seconds WHERE strategy = 'cat' AND repeat = 2");
        assert_eq!(served, trials.iter().find(|one| one.point.strategy == "cat" && one.repeat == 2).unwrap().transactions.to_string());
        // Before its first facts are kept it is a study of ways to warm too, whose level nobody told.
        server.psql_of_results("UPDATE sweeps SET warmup = NULL");
        assert_eq!(server.psql_of_results("SELECT kind FROM all_runs"), "warmup");
        let level = "SELECT count(steady_tps), count(to_50_seconds), count(*) FROM sweep_summary";
        let reached = outline_trials(&trials).iter().filter(|one| one.figures.get(Metric::To50).is_some()).count();
        assert_eq!(server.psql_of_results(level), format!("{0}|{reached}|{0}", trials.len()));
        server.home.pgthaw(&["results", "drop", &run.id, "--results", &results]).ok();
        assert_eq!(server.psql_of_results("SELECT count(*) FROM sweep_samples"), "0");
    }
}

#[test]
fn several_machines_write_at_once() {
    let server = servers::start_any(&[]);
    let writers: Vec<_> = (0..6)
        .map(|number| {
            let place = place(&server);
            thread::spawn(move || {
                let (mut run, mut trials) = synthetic_run::make(1, 20);
                run.id = format!("20260101-00000{number}-aaaa");
                trials.iter_mut().for_each(|trial| trial.sweep_id.clone_from(&run.id));
                // All of them find no tables, and make them.
                wait(async {
                    let store = Store::connect_server(&place).await.unwrap();
                    store.save_whole_sweep(&run, &trials).await.unwrap();
                    store.close().await;
                });
            })
        })
        .collect();
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    assert_eq!(server.psql_of_results("SELECT count(*), count(DISTINCT sweep_id) FROM sweep_trials"), "60|6");
    assert_eq!(server.psql_of_results("SELECT count(*) FROM sweep_samples"), "1200");
}

#[test]
fn a_database_of_somebody_else_is_refused_and_a_server_that_is_away_told() {
    let mut server = servers::start_any(&[]);
    server.psql("CREATE SCHEMA pgthaw; CREATE TABLE pgthaw.sweeps (theirs text)");
    let results = address(&server);
    let refused = server.home.pgthaw(&["results", "--results", &results]).ends_with(2);
    assert!(refused.stderr.contains("is not a results store of pgthaw"), "{}", refused.stderr);
    assert_eq!(server.psql_of_results("SELECT count(*) FROM pg_class WHERE relname = 'sweep_trials'"), "0");
    server.cluster.stop(StopMode::Fast).unwrap();
    let away = server.home.pgthaw(&["results", "--results", &results]).ends_with(1);
    assert!(away.stderr.contains("does not answer"), "{}", away.stderr);
    let wrong = server.home.pgthaw(&["results", "--results", "postgres://x:y:z"]).ends_with(2);
    assert!(wrong.stderr.contains("postgres://USER@HOST:PORT/DATABASE"), "{}", wrong.stderr);
}

#[test]
fn a_server_that_is_killed_during_a_sweep_gets_every_trial_once() {
    let (home, place) = (Home::new(), Place::new());
    let mut server = servers::start_any(&[("restart_after_crash", "off")]);
    let results = address(&server);
    let path = spec(&home, "repeats = 4\n[points]\nclients = [1, 2]\nseconds = 1\nrate = 100\nstart = 'as-is'\n");
    let mut command = sweep(&place, &home, path.to_str().unwrap(), &results);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut ended = |count: usize| {
        let mut seen = 0;
        while seen < count {
            let line = lines.next().unwrap().unwrap();
            seen += usize::from(line.contains(" tps"));
        }
    };
    ended(2);
    // As a power cut would: no connection is told.
    server.cluster.stop(StopMode::Immediate).unwrap();
    ended(3);
    server.cluster.start().unwrap();
    ended(3);
    drop(lines);
    let output = Output::from(child.wait_with_output().unwrap()).ok();
    assert!(output.stdout.contains("8 trials"), "{}", output.stdout);
    let all = ["0 1", "0 2", "0 3", "0 4", "1 1", "1 2", "1 3", "1 4"];
    assert_eq!(trials_on(&server), all);
    assert_eq!(server.psql_of_results("SELECT count(*) FROM sweeps WHERE ended_at IS NOT NULL"), "1");
    assert_eq!(server.psql_of_results("SELECT count(*) FROM sweep_samples"), "8");
    assert_eq!(server.psql_of_results("SELECT count(*) FROM unsent"), "0");
    // What the server has is what the local file has.
    let local = home.pgthaw(&["results", "show", "--json"]).ok().json();
    let remote = home.pgthaw(&["results", "show", "--json", "--results", &results]).ok();
    assert_sent(&remote, &results, &local, "after stops of the server");
}

#[test]
fn a_server_whose_tables_are_locked_keeps_no_trial_from_being_kept_here() {
    let (home, place) = (Home::new(), Place::new());
    let server = servers::start_any(&[]);
    let results = address(&server);
    home.pgthaw(&["results", "--results", &results]).ok();
    let mut psql = server.command_of("psql");
    psql.args(["-XAtq", "-d", "postgres"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut locker = psql.spawn().unwrap();
    let mut pipe = locker.stdin.take().unwrap();
    pipe.write_all(b"BEGIN; LOCK TABLE pgthaw.sweep_trials; SELECT 'locked';\n").unwrap();
    let mut said = BufReader::new(locker.stdout.take().unwrap()).lines();
    assert_eq!(said.next().unwrap().unwrap(), "locked");

    let path = spec(&home, "repeats = 4\n[points]\nseconds = 1\nrate = 100\nstart = 'as-is'\n");
    let mut command = sweep(&place, &home, path.to_str().unwrap(), &results);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut seen = 0;
    for line in lines {
        let line = line.unwrap();
        if line.contains(" tps") {
            seen += 1;
            let kept = home.pgthaw(&["results", "show", "--json"]).ok().json();
            assert!(trials(&kept).len() >= seen, "{seen} trials ended: {:?}", trials(&kept));
        }
    }
    Output::from(child.wait_with_output().unwrap()).ok();
    assert_eq!(seen, 4);
    drop(pipe);
    locker.wait().unwrap();
    home.pgthaw(&["results", "--results", &results]).ok();
    assert_eq!(trials_on(&server), ["0 1", "0 2", "0 3", "0 4"]);
}

#[test]
fn what_waits_is_sent_when_the_server_is_back() {
    let (home, place) = (Home::new(), Place::new());
    let mut server = servers::start_any(&[]);
    let results = address(&server);
    server.cluster.stop(StopMode::Fast).unwrap();
    let path = spec(&home, "repeats = 2\n[points]\nseconds = 1\nrate = 100\nstart = 'as-is'\n");
    let output = sweep(&place, &home, path.to_str().unwrap(), &results).output().unwrap();
    let output = Output::from(output).ok();
    assert!(
        output.stderr.contains("does not answer")
            && output.stderr.contains("`pgthaw results --results ")
            && output.stderr.contains("` sends them"),
        "{}",
        output.stderr
    );
    home.pgthaw(&["results", "--results", &results]).ends_with(1);
    server.cluster.start().unwrap();
    home.pgthaw(&["results", "--results", &results]).ok();
    assert_eq!(trials_on(&server), ["0 1", "0 2"]);
    assert_eq!(server.psql_of_results("SELECT count(*) FROM sweeps"), "1");
    assert_eq!(home.pgthaw(&["results", "--results", &results]).ok().stderr, "");
}

#[test]
fn what_is_dropped_on_the_server_is_dropped_here_too() {
    let home = Home::new();
    let server = servers::start_any(&[]);
    let results = address(&server);
    let log = home.path().join("pgbench_log.7");
    fs::write(&log, "1650260550 100 50000 0 80 1200\n1650260551 50 25000 0 90 900\n").unwrap();
    home.pgthaw(&["results", "import", log.to_str().unwrap(), "--results", &results]).ok();
    assert_eq!(server.psql_of_results("SELECT count(*) FROM sweep_trials"), "1");
    let listed = || home.pgthaw(&["results", "--json"]).ok().json();
    let id = text(&listed(), "/studies/0/id").to_owned();
    home.pgthaw(&["results", "drop", &id, "--results", &results]).ok();
    assert_eq!(server.psql_of_results("SELECT count(*) FROM sweeps"), "0");
    assert_eq!(listed()["studies"], serde_json::json!([]));
    // What another machine kept is not here.
    let (run, trials) = synthetic_run::make(1, 5);
    wait(async {
        Store::connect_server(&place(&server)).await.unwrap().save_whole_sweep(&run, &trials).await.unwrap()
    });
    home.pgthaw(&["results", "drop", &run.id, "--results", &results]).ok();
    assert_eq!(server.psql_of_results("SELECT count(*) FROM sweeps"), "0");
}

#[test]
fn a_damaged_study_keeps_no_other_from_being_sent() {
    let home = Home::new();
    let mut server = servers::start_any(&[]);
    let results = address(&server);
    server.cluster.stop(StopMode::Fast).unwrap();
    for number in [7, 8, 9] {
        let log = home.path().join(format!("pgbench_log.{number}"));
        fs::write(&log, format!("1650260550 10{number} 50000 0 80 1200\n1650260551 50 25000 0 90 900\n")).unwrap();
        home.pgthaw(&["results", "import", log.to_str().unwrap(), "--results", &results]).ok();
    }
    // The first of them in the order of their names, and a trial of the second.
    let local = home.path().join("state/pgthaw/results.sqlite");
    let ids: Vec<String> = sqlite(&local, "SELECT id FROM sweeps ORDER BY id").lines().map(str::to_owned).collect();
    sqlite(&local, &format!("UPDATE sweeps SET machine = '{{}}' WHERE id = '{}'", ids[0]));
    sqlite(&local, &format!("UPDATE sweep_trials SET started_at = 'x' WHERE sweep_id = '{}'", ids[1]));
    server.cluster.start().unwrap();
    let sent = home.pgthaw(&["results", "--results", &results]).ok().stderr;
    let is_told = |id: &String| sent.contains(&format!("not sent: the study {id} in"));
    assert!(is_told(&ids[0]) && is_told(&ids[1]) && !is_told(&ids[2]), "{sent}");
    assert!(sent.contains("column machine"), "{sent}");
    assert_eq!(server.psql_of_results("SELECT count(*) FROM sweeps"), "2", "two studies and a trial");
    assert_eq!(server.psql_of_results("SELECT sweep_id FROM sweep_trials"), ids[2]);
    // Nor does it keep anybody from what is on the server, and it can be forgotten.
    let listed = home.pgthaw(&["results", "--results", &results]).ok();
    assert!(listed.stdout.contains(&ids[2]) && listed.stderr.contains("not sent: the study"), "{listed:?}");
    for id in &ids[..2] {
        home.pgthaw(&["results", "drop", id, "--results", &results]).ok();
    }
    assert_eq!(home.pgthaw(&["results", "--results", &results]).ok().stderr, "");
}

#[test]
fn a_sweep_that_is_killed_at_any_moment_loses_and_doubles_nothing() {
    let (home, place) = (Home::new(), Place::new());
    let server = servers::start_any(&[]);
    let results = address(&server);
    let path = spec(&home, "repeats = 3\n[points]\nclients = [1, 2]\nseconds = 1\nrate = 100\nstart = 'as-is'\n");
    let listed = || home.pgthaw(&["results", "--json"]);
    let has_ended = || {
        let listed = listed();
        listed.status == 0 && listed.json()["studies"][0]["ended_at"].is_string()
    };
    let mut random = 7_u64;
    let mut before: Vec<String> = Vec::new();
    for _ in 0..5 {
        if has_ended() {
            break;
        }
        let mut command = sweep(&place, &home, path.to_str().unwrap(), &results);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let end = Instant::now() + Duration::from_millis(1500 + (random >> 33) % 6000);
        while Instant::now() < end && child.try_wait().unwrap().is_none() {
            thread::sleep(Duration::from_millis(5));
        }
        let _ = child.kill();
        child.wait().unwrap();
        // Killed before its first trial it has left no sweep.
        let local = home.pgthaw(&["results", "show", "--json"]);
        let now = if local.status == 0 { trials(&local.json()) } else { Vec::new() };
        assert!(before.iter().all(|trial| now.contains(trial)), "{before:?} became {now:?}");
        before = now;
    }
    if !has_ended() {
        Output::from(sweep(&place, &home, path.to_str().unwrap(), &results).output().unwrap()).ok();
    }
    home.pgthaw(&["results", "--results", &results]).ok();
    let kept = home.pgthaw(&["results", "show", "--json"]).ok().json();
    let all = ["0 1", "0 2", "0 3", "1 1", "1 2", "1 3"];
    assert_eq!(trials(&kept), all);
    assert_eq!(trials_on(&server), all);
    assert_eq!(server.psql_of_results("SELECT count(*) FROM sweeps"), "1");
    let remote = home.pgthaw(&["results", "show", text(&kept, "/sweep/id"), "--json", "--results", &results]);
    assert_sent(&remote.ok(), &results, &kept, "after kills");
}

/// Checks that a study on a server is the local one, but for the option that leads printed commands to the server.
#[track_caller]
pub fn assert_sent(remote: &Output, results: &str, kept: &Value, what: &str) {
    fn differences(left: &Value, right: &Value, at: &str, found: &mut Vec<String>) {
        match (left, right) {
            (Value::Object(ours), Value::Object(theirs)) if ours.keys().eq(theirs.keys()) => {
                ours.iter().for_each(|(name, value)| differences(value, &theirs[name], &format!("{at}/{name}"), found));
            }
            (Value::Array(ours), Value::Array(theirs)) if ours.len() == theirs.len() => {
                let pairs = ours.iter().zip(theirs).enumerate();
                pairs.for_each(|(place, (ours, theirs))| differences(ours, theirs, &format!("{at}/{place}"), found));
            }
            _ if left == right => {}
            _ => found.push(format!("{at}: {left} and {right}")),
        }
    }
    let option = format!(" --results {}", quote_argument(results));
    let remote = serde_json::from_str(&remote.stdout.replace(&option, "")).unwrap();
    let mut found = Vec::new();
    differences(&remote, kept, "", &mut found);
    assert!(found.is_empty(), "{what}: what was sent differs from what was kept: {found:#?}");
}
