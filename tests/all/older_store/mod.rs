//! A results store that an older program kept, before a study measured how its trials got warm, is opened, brought up to date,
//! and tells what it told before.
//!
//! `store.sql` is that store as text, with a tournament, a residency study and a sweep. `shown.json` is what the program that
//! kept it printed, by command, with lists of more than four shortened to their ends.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use pgthaw::results::Store;
use serde_json::{Map, Value, json};

use crate::results::{sqlite, wait};
use crate::results_server::{address, place};
use crate::servers::{self, Home, TestServer};

const RUN: &str = "20261123-125447-e074";
const SWEEP: &str = "20261123-125631-d9fc";
const LOADING: &str = "20261123-125601-c6a8";

/// A home with that store.
fn older_store() -> (Home, PathBuf) {
    let home = Home::new();
    let file = home.path().join("state/pgthaw/results.sqlite");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    sqlite(&file, include_str!("store.sql"));
    (home, file)
}

#[test]
fn what_an_older_program_kept_is_shown_and_exported_as_before() {
    let (home, _) = older_store();
    let told: Map<String, Value> = serde_json::from_str(include_str!("shown.json")).unwrap();
    assert!(told.len() >= 9, "{}", told.len());
    for (name, before) in &told {
        let now = match name.as_str() {
            "list" => home.pgthaw(&["results", "list", "--json"]),
            name if name.starts_with("show-") => {
                home.pgthaw(&["results", "show", "--json", &name.replace("show-", "20261123-")])
            }
            name => {
                let (whose, rows) = name.trim_start_matches("export-").split_once('-').unwrap();
                let id = if whose == "run" { RUN } else { SWEEP };
                home.pgthaw(&["results", "export", "--format", "json", "--rows", rows, id])
            }
        };
        let mut now = now.ok().json();
        // Trials of studies come in the order of their points.
        if name == "export-run-seconds" {
            let order = |row: &Value| (row["strategy"].to_string(), row["repeat"].as_u64(), row["second"].as_u64());
            now.as_array_mut().unwrap().sort_by_key(order);
        }
        let mut differences = Vec::new();
        compare(name, before, &shortened(&now), &mut differences);
        assert!(differences.is_empty(), "{}", differences.join("\n"));
    }
}

/// What the program shows of the tournament, which is what the older one did.
fn assert_told(home: &Home, results: &[&str]) {
    let shown = home.pgthaw(&[&["results", "show", "--json", RUN], results].concat()).ok().json();
    let told: Map<String, Value> = serde_json::from_str(include_str!("shown.json")).unwrap();
    let mut differences = Vec::new();
    compare("show", &told["show-125447-e074"], &shortened(&shown), &mut differences);
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// How often everything is there.
const COUNTS: &str =
    "SELECT (SELECT count(*) FROM sweeps), (SELECT count(*) FROM sweep_trials), (SELECT count(*) FROM sweep_samples)";

#[test]
fn whoever_is_killed_while_it_is_brought_up_to_date_loses_and_doubles_nothing() {
    let (whole, file) = older_store();
    whole.pgthaw(&["results", "list"]).ok();
    let counts = sqlite(&file, COUNTS);
    let (home, file) = older_store();
    for milliseconds in (0..400).step_by(9) {
        let list = || home.command(&["results", "list"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let mut children = [list(), list()];
        std::thread::sleep(Duration::from_millis(milliseconds));
        children[0].kill().unwrap();
        if milliseconds % 2 == 0 {
            children[1].kill().unwrap();
        }
        children.iter_mut().for_each(|child| assert!(child.wait().is_ok()));
    }
    assert_told(&home, &[]);
    assert_eq!(sqlite(&file, COUNTS), counts);
}

#[test]
fn what_waited_for_a_server_as_a_run_is_sent_as_a_study() {
    let (home, file) = older_store();
    let server = servers::start_any(&[]);
    let results = address(&server);
    sqlite(&file, &format!("INSERT INTO unsent VALUES ('{}', 'run', '{RUN}', 0, 0, 3)", place(&server)));
    let sent = home.pgthaw(&["results", "send", "--json", "--results", &results]).ok().json();
    assert_eq!(sent["sent"], 5, "the study and its trials");
    assert_eq!(sqlite(&file, "SELECT count(*) FROM unsent"), "0");
    assert_told(&home, &["--results", &results]);
}

#[test]
fn an_older_server_is_brought_up_to_date_by_several_at_once() {
    let (_home, file) = older_store();
    let server = servers::start_any(&[]);
    wait(async { Store::connect_server(&place(&server)).await.unwrap().close().await });
    make_older(&server, &file);
    let connect = || {
        let place = place(&server);
        std::thread::spawn(move || wait(async { Store::connect_server(&place).await.map(drop) }))
    };
    let connected: Vec<_> = (0..5).map(|_| connect()).collect();
    connected.into_iter().for_each(|one| one.join().unwrap().unwrap());
    assert_told(&server.home, &["--results", &address(&server)]);
    assert_eq!(server.psql("SELECT kind, trials FROM all_runs"), "warmup|4");
    assert_eq!(server.psql("SELECT count(*) FROM pg_tables WHERE tablename IN ('runs', 'trials', 'samples')"), "0");
}

/// Gives a server of now the tables of a tournament with what the file has in them.
fn make_older(server: &TestServer, file: &Path) {
    server.psql("DROP VIEW all_runs, trial_summary, trial_verdicts, served_by_second");
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/results/migrations");
    let older = ["0001_runs_trials_samples", "0002_strategy_output", "0003_foreground_tenths", "0004_judgements"];
    for migration in older {
        server.psql(&std::fs::read_to_string(directory.join(format!("{migration}.sql"))).unwrap());
    }
    server.psql("CREATE VIEW all_runs AS SELECT id FROM runs; DELETE FROM _sqlx_migrations WHERE version > 20");
    for table in ["runs", "trials", "samples"] {
        let listed = |text: &str, between: &str| {
            sqlite(file, &format!("SELECT group_concat({text}, '{between}') FROM pragma_table_info('{table}')"))
        };
        let (names, values) = (listed("name", ", "), listed("'quote(' || name || ')'", " || '', '' || "));
        let rows =
            sqlite(file, &format!("SELECT 'INSERT INTO {table} ({names}) VALUES (' || {values} || ');' FROM {table}"));
        server.psql(&rows);
    }
}

#[test]
fn what_an_older_program_kept_is_drawn() {
    let (home, _) = older_store();
    for id in [RUN, LOADING, SWEEP] {
        let page = home.path().join(format!("{id}.html"));
        home.pgthaw(&["report", id, "-o", page.to_str().unwrap()]).ok();
        assert!(std::fs::read_to_string(page).unwrap().contains(id), "{id}");
    }
}

/// Columns of exported tournaments that are told of studies under another name.
const RENAMED: [(&str, &str); 2] = [("run_id", "sweep_id"), ("served", "transactions")];

/// Whatever was told before is told now; fields may be added.
fn compare(place: &str, before: &Value, now: &Value, differences: &mut Vec<String>) {
    match (before, now) {
        (Value::Object(before), Value::Object(now)) => {
            for (key, before) in before.iter().filter(|(key, _)| *key != "results") {
                let renamed = RENAMED.iter().find(|(older, _)| place.starts_with("export-run") && older == key);
                let now = now.get(renamed.map_or(key.as_str(), |(_, newer)| newer));
                compare(&format!("{place}.{key}"), before, now.unwrap_or(&json!("(nothing)")), differences);
            }
        }
        (Value::Array(before), Value::Array(now)) if before.len() == now.len() => {
            for (number, (before, now)) in before.iter().zip(now).enumerate() {
                compare(&format!("{place}[{number}]"), before, now, differences);
            }
        }
        _ if before == now => {}
        _ => differences.push(format!("{place}: {before} became {now}")),
    }
}

/// As `shown.json` has it.
fn shortened(value: &Value) -> Value {
    match value {
        Value::Array(values) if values.len() > 4 => {
            json!({ "rows": values.len(), "first": shortened(&values[0]), "last": shortened(&values[values.len() - 1]) })
        }
        Value::Array(values) => values.iter().map(shortened).collect(),
        Value::Object(values) => values.iter().map(|(key, value)| (key.clone(), shortened(value))).collect(),
        other => other.clone(),
    }
}
