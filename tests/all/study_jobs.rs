//! Studies of a job beside the load: by itself, and helped by pgthaw, on real servers.

use std::fs;

use host::linux::DiskLimit;
use serde_json::{Value, json};

use super::bench::{Place, text};
use super::servers::{Home, Output, programs};
use super::sweep::{spec, sweep, trials};
use crate::films::JOB;

const VERSION: u32 = 15;

/// `t` is what the job reads, row by row from its end to its beginning, where no kernel reads ahead.
const TABLE: &str = "
    CREATE TABLE t AS SELECT i, 39999 - i AS j, repeat('t', 1500) AS body FROM generate_series(0, 39999) AS i;
    CREATE INDEX t_j ON t (j);
";

fn psql() -> String {
    programs(VERSION).path("psql").unwrap().display().to_string()
}

fn outcome<'a>(printed: &'a Value, strategy: &str, start: &str) -> &'a Value {
    let is = |one: &&Value| one["point"]["strategy"] == strategy && one["point"]["start"] == start;
    let trial = trials(printed).iter().find(is).unwrap();
    assert_eq!((&trial["failure"], &trial["start_state"]["verdict"]), (&Value::Null, &json!(start)), "{strategy}");
    assert!(trial["transactions"].as_u64().unwrap() > 0, "{strategy}: the load stood still");
    &trial["strategy_outcome"]
}

#[test]
fn a_job_runs_beside_the_load_alone_and_by_its_film() {
    needs_root!();
    if DiskLimit::available().is_err() {
        untested!(machine: "no cgroup can be made");
    }
    let (home, place) = (Home::new(), Place::new());
    fs::write(home.path().join("table.sql"), TABLE).unwrap();
    // A quarter of it: with a read after the other it ends within its trial on a crowded disk too.
    let quarter = JOB.replace("ORDER BY j", "WHERE j < 10000 ORDER BY j");
    fs::write(home.path().join("report.sql"), quarter).unwrap();
    let study = format!(
        "repeats = 1\n[points]\nseconds = 15\nrate = 20\nstart = 'cold'\ndisk = 'gp3'\n\
         strategy = ['job', 'run', 'isolate', 'replay']\n[settings]\nmax_parallel_workers_per_gather = 0\n\
         [database]\nsetup = 'table.sql'\n[job]\ncommand = ['{}', '-Xqf', 'report.sql']\n",
        psql()
    );
    let path = spec(&home, &study);
    let output = sweep(&place, &home, VERSION, path.to_str().unwrap(), &["--json"]).output().unwrap();
    let printed = Output::from(output).ok().json();
    for (strategy, command) in [
        ("job", "-Xqf"),
        ("run", " run --like job "),
        ("isolate", " --protect=isolate "),
        ("replay", " run --film job "),
    ] {
        let outcome = outcome(&printed, strategy, "cold");
        assert!(outcome["failure"].is_null() && outcome["ended_after_seconds"].is_f64(), "{strategy}: {outcome:#}");
        assert!(text(outcome, "/command").contains(command), "{strategy}: {outcome:#}");
        // A quarter of its table has 16 MB.
        assert!(outcome["issued_bytes"].as_u64().unwrap() > 12 << 20, "{strategy}: {outcome:#}");
        let said = text(outcome, "/output");
        assert!(said.contains("15000000"), "{strategy}: the report is missing in {said}");
        let is_alone = strategy == "job";
        assert_eq!(said.contains("pgthaw: "), !is_alone, "{strategy}: {said}");
        assert_eq!(said.contains("MB were preloaded while it ran"), !is_alone, "{strategy}: {said}");
        assert_eq!(said.contains("1 session of the job could use"), strategy == "isolate", "{strategy}: {said}");
    }
    // Whoever runs the study has the films that he had.
    assert_eq!(home.pgthaw(&["film", "show", "--json"]).ok().json()["films"], json!([]));
    let shown = home.pgthaw(&["results", "show"]).ok();
    assert!(shown.stdout.contains("command took, s"), "{}", shown.stdout);
    let compare = ["results", "compare", "--metric", "warmer", "strategy=job", "strategy=run", "--json"];
    let compared = home.pgthaw(&compare).ok().json();
    assert_eq!(compared["cells"][0]["ratio"]["pairs"], 1, "{compared:#}");
}

/// It is ended with its trial, and what it was set apart in with it.
#[test]
fn a_job_that_outlives_its_trial_is_ended() {
    needs_root!();
    if DiskLimit::available().is_err() {
        untested!(machine: "no cgroup can be made");
    }
    let (home, place) = (Home::new(), Place::new());
    let (psql, once) = (psql(), home.path().join("once"));
    // Its film is recorded first.
    let job = format!(
        "#!/bin/sh\nif [ -e {once} ]; then exec {psql} -Xqc 'SELECT pg_sleep(600)'; fi\n{psql} -Xqc 'SELECT 1' && touch {once}\n",
        once = once.display()
    );
    fs::write(home.path().join("job.sh"), job).unwrap();
    let study = "repeats = 1\n[points]\nseconds = 4\nrate = 20\nstart = 'warm'\ndisk = 'gp3'\nstrategy = ['job', 'isolate']\n\
                 [job]\ncommand = ['sh', 'job.sh']\n";
    let path = spec(&home, study);
    let child = sweep(&place, &home, VERSION, path.to_str().unwrap(), &["--json"]);
    let child = { child }.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    let pid = child.id();
    let printed = Output::from(child.wait_with_output().unwrap()).ok().json();
    place.assert_nothing_is_left(pid);
    for strategy in ["job", "isolate"] {
        let outcome = outcome(&printed, strategy, "warm");
        assert!(outcome["ended_after_seconds"].is_null() && outcome["failure"].is_null(), "{strategy}: {outcome:#}");
    }
    let points = printed["points"].as_array().unwrap();
    assert!(points.iter().all(|point| point["warmer_seconds"]["reached"] == 0), "{points:#?}");
    let shown = home.pgthaw(&["results", "show"]).ok();
    assert!(shown.stdout.contains("> 4"), "{}", shown.stdout);
}
