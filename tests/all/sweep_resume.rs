//! A study that goes on: after a kill at the wrong moment, on the wrong ground, beside itself, and with edited scripts.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use pgthaw_lab::results::Store;

use super::bench::{Place, text};
use super::results::{sqlite, wait};
use super::servers::{Home, Output};
use super::sweep::{run_until, spec, sweep, trials};

/// Kills it when standard error says this, and waits until its server is gone too.
fn kill_at(mut command: Command, sign: &str, place: &Place) {
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains(sign)), "it never said {sign}");
    child.kill().unwrap();
    child.wait().unwrap();
    let is_running = || clusters(place).iter().any(|cluster| cluster.join("data/postmaster.pid").exists());
    while is_running() {
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn clusters(place: &Place) -> Vec<PathBuf> {
    let entries = fs::read_dir(place.0.path()).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("pgthaw-lab-")).collect()
}

#[test]
fn a_sweep_that_is_killed_before_its_first_trial_goes_on_with_its_databases_and_on_its_own_ground_alone() {
    let (home, place) = (Home::new(), Place::new());
    let path = spec(&home, "repeats = 1\n[points]\nscale = [1, 4]\nseconds = 1\nrate = 100\nstart = 'as-is'\n");
    let again = |place: &Place, version: u32| {
        Output::from(sweep(place, &home, version, path.to_str().unwrap(), &[]).output().unwrap())
    };
    kill_at(sweep(&place, &home, 15, path.to_str().unwrap(), &[]), "tables, scale 4", &place);
    let left = clusters(&place);
    assert_eq!(left.len(), 1);
    let listed = home.pgthaw(&["results", "--json"]).ok().json();
    assert!(listed["studies"][0]["ended_at"].is_null() && listed["studies"][0]["trials"] == 0, "{listed}");

    let newest = crate::servers::newest();
    let refused = again(&place, newest).ends_with(2).stderr;
    let other = format!("with PostgreSQL {newest}");
    assert!(refused.contains("started with PostgreSQL 15") && refused.contains(&other), "{refused}");
    assert!(refused.contains("--bin-dir") && refused.contains("--anew"), "{refused}");
    let in_memory = Place(tempfile::tempdir_in("/dev/shm").unwrap());
    let refused = again(&in_memory, 15).ends_with(2).stderr;
    assert!(refused.contains("(tmpfs)") && refused.contains("--dir"), "{refused}");
    assert_eq!(clusters(&place), left);

    let output = again(&place, 15).ok();
    assert!(output.stderr.contains("reusing the cluster of a killed run"), "{}", output.stderr);
    assert!(!output.stderr.contains("tables, scale 1 "), "a database is made twice: {}", output.stderr);
    assert!(clusters(&place).is_empty());
    let listed = home.pgthaw(&["results", "--json"]).ok().json();
    assert_eq!((listed["studies"].as_array().unwrap().len(), &listed["studies"][0]["trials"]), (1, &2.into()));

    // It may be killed when nothing is left but to say that it has ended: it is not prepared once more for that.
    let path_of_store = home.path().join("state/pgthaw/results.sqlite");
    wait(async {
        let store = Store::open(&path_of_store).await.unwrap();
        let mut run = store.read_sweeps().await.unwrap().remove(0);
        run.ended_at = None;
        store.save_sweep(&run).await.unwrap();
        // Another one, which is damaged, is named and left out.
        run.id = "other".to_owned();
        store.save_sweep(&run).await.unwrap();
        store.close().await;
    });
    sqlite(&path_of_store, "UPDATE sweeps SET machine = '{}' WHERE id = 'other'");
    let output = again(&place, 15).ok();
    assert_eq!(output.stderr.matches("skipped damaged results: other;").count(), 1, "{}", output.stderr);
    assert!(!output.stderr.contains("creating a scratch cluster"), "{}", output.stderr);
    let listed = home.pgthaw(&["results", "--json"]).ok().json();
    assert!(listed["studies"][0]["ended_at"].is_string(), "{listed}");
}

/// The same command goes on with the fourth trial.
#[test]
fn ways_to_warm_that_are_killed_go_on_with_what_is_left() {
    let (home, place) = (Home::new(), Place::new());
    let study = ["bench", "warmup", "scale=1", "seconds=2", "rate=100", "repeats=2", "strategy=nothing,cat"];
    let again = |more: &[&str]| place.command(&home, 15, &[&study[..], more].concat());
    kill_at(again(&[]), "2 of 4", &place);
    let killed = home.pgthaw(&["results", "show", "--json"]).ok().json();
    assert_eq!((trials(&killed).len(), killed["sweep"]["ended_at"].is_null()), (2, true), "{killed}");

    let output = Output::from(again(&["--json"]).stderr(Stdio::piped()).output().unwrap()).ok();
    assert!(clusters(&place).is_empty());
    let printed = output.json();
    assert_eq!((&printed["sweep"]["id"], trials(&printed).len()), (&killed["sweep"]["id"], 4), "{printed}");
    assert_eq!(trials(&printed)[..2], trials(&killed)[..], "what had ended is as it was");
    assert!(printed["sweep"]["ended_at"].is_string());
    let listed = home.pgthaw(&["results", "--json"]).ok().json();
    assert_eq!(
        (listed["studies"].as_array().unwrap().len(), &listed["studies"][0]["trials"]),
        (1, &4.into()),
        "{listed}"
    );

    // It is a sweep for those that compare trials.
    let compared = home.pgthaw(&["results", "compare", "strategy=nothing", "strategy=cat", "--json"]).ok().json();
    assert_eq!(compared["cells"].as_array().map(Vec::len), Some(1), "{compared}");
    // And the study that it prints is the same one.
    let file = home.path().join("printed.toml");
    fs::write(&file, again(&["--print"]).output().unwrap().stdout).unwrap();
    let plan = sweep(&place, &home, 15, file.to_str().unwrap(), &["--dry-run", "--json"]).output().unwrap();
    assert_eq!(Output::from(plan).ok().json()["plan"]["varied"], serde_json::json!(["strategy"]));
}

/// Killed in its third trial.
#[test]
fn warmers_of_an_idle_server_that_are_killed_go_on_with_what_is_left() {
    let (home, place) = (Home::new(), Place::new());
    let study = ["bench", "residency", "scale=1", "repeats=2", "strategy=pgthaw-os,cat"];
    let again = |more: &[&str]| place.command(&home, 15, &[&study[..], more].concat());
    kill_at(again(&[]), "2 of 4", &place);
    let killed = home.pgthaw(&["results", "show", "--json"]).ok().json();
    assert_eq!((trials(&killed).len(), killed["sweep"]["ended_at"].is_null()), (2, true), "{killed}");
    let output = Output::from(again(&["--json"]).stderr(Stdio::piped()).output().unwrap()).ok();
    assert!(clusters(&place).is_empty());
    let printed = output.json();
    assert_eq!((&printed["sweep"]["id"], trials(&printed).len()), (&killed["sweep"]["id"], 4), "{printed}");
    assert_eq!(trials(&printed)[..2], trials(&killed)[..], "what had ended is as it was");
    assert!(printed["sweep"]["ended_at"].is_string());
    let file = home.path().join("printed.toml");
    fs::write(&file, again(&["--print"]).output().unwrap().stdout).unwrap();
    let plan = sweep(&place, &home, 15, file.to_str().unwrap(), &["--dry-run", "--json"]).output().unwrap();
    assert_eq!(Output::from(plan).ok().json()["plan"]["varied"], serde_json::json!(["strategy"]));
}

#[test]
fn nothing_stays_of_a_sweep_that_does_not_go_on() {
    let (home, place) = (Home::new(), Place::new());
    let study = "repeats = 1\n[points]\nscale = 4\nseconds = 1\nrate = 100\nstart = 'as-is'\n";
    let path = spec(&home, study);
    let run = || sweep(&place, &home, 15, path.to_str().unwrap(), &[]);
    kill_at(run(), "tables, scale 4", &place);
    assert_eq!(clusters(&place).len(), 1);
    home.pgthaw(&["results", "drop", "2"]).ok();
    fs::write(&path, study.replace("scale = 4", "scale = 1")).unwrap();
    let output = Output::from(run().output().unwrap()).ok();
    assert!(output.stderr.contains("left by a killed run whose sweep will not be resumed"), "{}", output.stderr);
    assert!(clusters(&place).is_empty());

    // One that fails before its first trial leaves nothing to go on with either.
    fs::write(home.path().join("setup.sql"), "SELECT no_such_column;\n").unwrap();
    fs::write(&path, format!("{study}[database]\nsetup = 'setup.sql'\n").replace("scale = 4", "scale = 1")).unwrap();
    Output::from(run().output().unwrap()).ends_with(1);
    assert!(fs::read_dir(place.0.path()).unwrap().next().is_none());
    let listed = home.pgthaw(&["results", "--json"]).ok().json();
    assert_eq!(listed["studies"].as_array().unwrap().len(), 1, "{listed}");
}

#[test]
fn a_sweep_is_run_once_at_a_time_and_measures_the_scripts_that_it_began_with() {
    let (home, place, other) = (Home::new(), Place::new(), Place::new());
    let script = home.path().join("one.sql");
    fs::write(&script, "SELECT 1;\n").unwrap();
    let text_of = "repeats = 3\n[points]\nseconds = 2\nrate = 100\nstart = 'as-is'\nscript = 'one.sql'\n";
    let path = spec(&home, text_of);
    let (child, lines) = run_until(sweep(&place, &home, 15, path.to_str().unwrap(), &[]), 1);
    let second = sweep(&other, &home, 15, path.to_str().unwrap(), &[]).output().unwrap();
    let refused = Output::from(second).ends_with(1).stderr;
    assert!(refused.contains(&format!("is running already, as process {} in ", child.id())), "{refused}");
    fs::write(&script, "SELECT no_such_column;\n").unwrap();
    lines.for_each(drop);
    Output::from(child.wait_with_output().unwrap()).ok();
    let kept = home.pgthaw(&["results", "show", "--json"]).ok().json();
    assert_eq!(trials(&kept).len(), 3);
    let named = script.canonicalize().unwrap().display().to_string();
    for trial in trials(&kept) {
        assert!(trial["failure"].is_null() && text(trial, "/command").contains(&named), "{trial}");
        assert_eq!(text(trial, "/scripts/0/script"), "one.sql");
    }
    let state = fs::read_dir(home.path().join("state/pgthaw")).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(!state.into_iter().any(|name| name.to_string_lossy().contains("lock")), "a lock is left");
}
