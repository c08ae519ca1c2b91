//! Films that are no good, or no longer true of what is there: nothing runs for one that was named itself, and what is left out is told.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::Value;

use crate::films::{JOB, make_cold, psql, receipt, server};
use crate::servers::{self, TestServer};

/// Records whatever runs for a second, and returns the film's path.
fn record(server: &TestServer, name: &str) -> PathBuf {
    let recorded =
        server.pgthaw(&["film", "record", "--seconds", "1", "--source", "polling", "--like", name, "--json"]).ok();
    PathBuf::from(recorded.json()["path"].as_str().unwrap())
}

/// Refused in these words, and the job did not run.
fn assert_not_run(server: &TestServer, film: &Path, status: i32, words: &str) {
    let refused = server.pgthaw(&["run", "--film", film.to_str().unwrap(), "--", "echo", "ran"]).ends_with(status);
    assert!(refused.stderr.contains(words), "{}: {}", film.display(), refused.stderr);
    assert_eq!(refused.stdout, "", "{}", film.display());
}

#[test]
fn nothing_runs_for_a_film_that_was_named_and_is_no_good() {
    let server = servers::start_any(&[]);
    let film = record(&server, "x");
    let whole = fs::read(&film).unwrap();
    let path = |name: &str| server.home().join(name);

    let mut damaged = whole.clone();
    damaged[10] ^= 1;
    fs::write(path("damaged.parquet"), damaged).unwrap();
    assert_not_run(&server, &path("damaged.parquet"), 1, "is damaged");
    fs::write(path("text.parquet"), "no film").unwrap();
    assert_not_run(&server, &path("text.parquet"), 2, "is not a film");
    assert_not_run(&server, &path("missing.parquet"), 1, "`pgthaw film show");

    let other = servers::start_new(15, &[]);
    let others = record(&other, "x");
    assert_not_run(&server, &others, 2, "of another cluster");
}

#[test]
fn what_is_no_file_is_called_no_film() {
    let server = servers::start_any(&[]);
    let store = record(&server, "x").parent().unwrap().to_owned();
    mknodat(CWD, store.join("20990101-000000.000.6-x.parquet"), FileType::Fifo, Mode::RUSR, 0).unwrap();
    fs::create_dir(store.join("20990101-000000.000.7-x.parquet")).unwrap();
    let listed = server.pgthaw(&["film", "show", "--json"]).ok().json();
    let reasons: Vec<String> = listed["films"].as_array().unwrap().iter().map(|one| one["error"].to_string()).collect();
    let told = |reason: &str| reasons.iter().any(|told| told.contains("is not a film") && told.contains(reason));
    assert!(told("a directory") && told("a pipe") && !reasons.concat().contains("snapshot"), "{reasons:?}");
    let ran = receipt(&server.pgthaw(&["run", "--like", "x", "--json", "--", "true"]).ok());
    assert!(ran["remarks"].to_string().contains("is not a film"), "{ran:#}");
}

#[test]
fn a_film_is_called_what_its_name_cannot_be_mistaken_for() {
    let server = servers::start_any(&[]);
    record(&server, "x");
    for name in ["newest", "best", "a\nb"] {
        let refused = server.pgthaw(&["run", "--like", name, "--", "echo", "ran"]).ends_with(2);
        let told = format!("{name:?} is not a valid label");
        assert!(refused.stderr.contains(&told) && refused.stdout.is_empty(), "{refused:?}");
        server.pgthaw(&["snapshot", "take", "--name", name]).ends_with(2);
    }
}

#[test]
fn what_is_left_out_of_a_film_is_told_and_in_no_forecast() {
    let mut server = server(15);
    make_cold(&mut server);
    let psql = psql(&server);
    let run = |server: &TestServer| {
        let options =
            ["run", "--like", "x", "--json", "--riops", "3000", "--rbps", "125MiB", "--", &psql, "-XAtqc", JOB];
        receipt(&server.pgthaw(&options).ok())
    };
    let forecast = |receipt: &Value| receipt["decision"]["forecasts"]["nothing"].as_f64().unwrap();
    run(&server);
    make_cold(&mut server);
    let whole = forecast(&run(&server));
    // Its end is the film's beginning.
    server.psql("DELETE FROM t WHERE i >= 10000; VACUUM t; CHECKPOINT");
    make_cold(&mut server);
    let cut_off = run(&server);
    let remarks = cut_off["remarks"].to_string();
    assert!(remarks.contains("skipped blocks beyond the end of their relations"), "{cut_off:#}");
    assert!(forecast(&cut_off) < whole * 0.6, "{whole}: {cut_off:#}");

    server.psql("VACUUM FULL t; CHECKPOINT");
    make_cold(&mut server);
    let rewritten = run(&server);
    let remarks = rewritten["remarks"].to_string();
    assert!(
        remarks.contains("dropped or rewritten since the recording: public.t") && remarks.contains("of the film's"),
        "{rewritten:#}"
    );
    let reason = rewritten["decision"]["reason"].as_str().unwrap();
    assert!(!reason.contains("the job's own work, so no preload"), "{rewritten:#}");
    // The film that it left is smaller, and all of it is there.
    make_cold(&mut server);
    let by_newer = run(&server);
    let remarks = by_newer["remarks"].to_string();
    assert!(
        remarks.contains("pgthaw used film")
            && remarks.contains("because most blocks of film")
            && !remarks.contains("dropped or rewritten"),
        "{by_newer:#}"
    );
}

#[test]
fn why_shared_buffers_did_not_come_back_is_told() {
    let mut server = server(15);
    server.psql("DROP EXTENSION pg_prewarm");
    make_cold(&mut server);
    server.psql("SELECT sum(length(body)) FROM u");
    let psql = psql(&server);
    let run =
        |server: &TestServer| receipt(&server.pgthaw(&["run", "--protect", "--json", "--", &psql, "-XAtqc", JOB]).ok());
    let done = run(&server);
    assert!(done["put_back"]["buffers_gone_bytes"].as_u64().unwrap() > 0, "{done:#}");
    assert!(done["put_back"]["remarks"].to_string().contains("extension pg_prewarm"), "{done:#}");
    server.psql("DROP EXTENSION pg_buffercache");
    let unseen = run(&server);
    assert!(
        unseen["put_back"]["remarks"].to_string().contains("shared_buffers were not visible: extension pg_buffercache"),
        "{unseen:#}"
    );
}

#[test]
fn what_is_saved_is_not_told_by_a_device_that_nobody_measured() {
    let mut server = server(15);
    let psql = psql(&server);
    let run = |server: &TestServer| {
        receipt(&server.pgthaw(&["run", "--like", "x", "--json", "--", &psql, "-XAtqc", JOB]).ok())
    };
    // All is in memory: what a read takes is not seen.
    server.psql("SELECT count(body) FROM t");
    run(&server);
    make_cold(&mut server);
    let done = run(&server);
    assert!(done["judged"]["forecast_seconds"].is_number(), "{done:#}");
    assert_eq!(done["judged"]["saved_seconds"], Value::Null, "{done:#}");
    assert!(done["remarks"].to_string().contains("the time saved is unknown"), "{done:#}");
}

#[test]
fn nothing_is_said_to_be_saved_by_the_film_of_another_command() {
    let mut server = server(15);
    let psql = psql(&server);
    let run = |server: &TestServer, sql: &str| {
        let words = ["run", "--like", "x", "--riops", "3000", "--json", "--", &psql, "-XAtqc", sql];
        receipt(&server.pgthaw(&words).ok())
    };
    make_cold(&mut server);
    run(&server, JOB);
    make_cold(&mut server);
    let same = run(&server, JOB);
    assert!(same["judged"]["saved_seconds"].is_number(), "{same:#}");
    make_cold(&mut server);
    let other = run(&server, &format!("{JOB} -- another"));
    assert_eq!(other["judged"]["saved_seconds"], Value::Null, "{other:#}");
    assert!(other["remarks"].to_string().contains("the film is of another command"), "{other:#}");
}

#[test]
fn the_film_of_a_slip_is_not_kept_beside_fuller_ones() {
    let mut server = server(15);
    let psql = psql(&server);
    let run = |server: &TestServer, sql: &str| {
        receipt(&server.pgthaw(&["run", "--like", "x", "--json", "--", &psql, "-XAtqc", sql]).ok())
    };
    assert!(!run(&server, "SELECT 1")["kept"].is_null(), "there is no other");
    make_cold(&mut server);
    assert!(!run(&server, JOB)["kept"].is_null());
    let slip = run(&server, "SELECT 2");
    assert!(
        slip["kept"].is_null() && slip["remarks"].to_string().contains("far fewer blocks than another command"),
        "{slip:#}"
    );
    assert!(!run(&server, JOB)["kept"].is_null());
}
