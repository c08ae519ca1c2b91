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
        match name.as_str() {
            // Trials of studies come in the order of their points.
            "export-run-seconds" => {
                let order = |row: &Value| (row["strategy"].to_string(), row["repeat"].as_u64(), row["second"].as_u64());
                now.as_array_mut().unwrap().sort_by_key(order);
            }
            "list" => {
                let loading = now["sweeps"].as_array_mut().unwrap().pop_if(|sweep| sweep["id"] == LOADING).unwrap();
                let told = (&loading["points"], &loading["repeats"], &loading["trials"], &loading["varied"]);
                assert_eq!(told, (&json!(2), &json!(2), &json!(4), &json!(["strategy"])));
                now["loadings"] = before["loadings"].clone();
            }
            "show-125601-c6a8" => {
                assert_brought(before, &shortened_within_trials(&now));
                continue;
            }
            _ => {}
        }
        let mut differences = Vec::new();
        compare(name, before, &shortened(&now), &mut differences);
        assert!(differences.is_empty(), "{}", differences.join("\n"));
    }
}

/// A residency study is told of as any study is, with the same figures.
fn assert_brought(before: &Value, now: &Value) {
    let (asked, sweep) = (&before["run"]["study"], &now["sweep"]);
    for field in ["id", "started_at", "ended_at", "pgthaw_version", "machine", "server"] {
        let mut differences = Vec::new();
        compare(field, &before["run"][field], &sweep[field], &mut differences);
        assert!(differences.is_empty(), "{}", differences.join("\n"));
    }
    assert_eq!(
        (&before["run"]["warnings"], &asked["rounds"], &asked["seed"]),
        (&sweep["warnings"], &sweep["repeats"], &sweep["seed"])
    );
    let trials = before["trials"].as_array().unwrap().iter().zip(now["trials"].as_array().unwrap());
    for (before, now) in trials {
        let (outcome, warming) = (&before["outcome"], &now["warming"]);
        let strategy = if before["loader"] == "pgthaw" { json!("pgthaw-os") } else { before["loader"].clone() };
        assert_eq!(
            (&strategy, &before["round"], &before["position"]),
            (&now["point"]["strategy"], &now["repeat"], &now["position"])
        );
        assert_eq!((&before["started_at"], &before["start_state"]), (&now["started_at"], &now["start_state"]));
        for (place, brought) in [
            ("resident_after_seconds", true),
            ("buffers_after_seconds", true),
            ("resident_bytes", true),
            ("cpu_seconds", true),
            ("device_reads", true),
            ("own_bytes", true),
            ("own_seconds", true),
            ("ended_after_seconds", false),
            ("failure", false),
            ("output", false),
        ] {
            let now = if brought { &warming["brought"] } else { &now["strategy_outcome"] };
            assert_eq!(outcome[place], now[place], "{place}");
        }
        assert_eq!(
            (&before["command"], &outcome["device_read_bytes"]),
            (&now["strategy_outcome"]["command"], &now["device_read_bytes"])
        );
        for place in ["wanted_pages", "wanted_pieces", "former_buffers_bytes", "former_hot_bytes", "bound"] {
            assert_eq!(asked[place], warming["brought"][place], "{place}");
        }
        assert_eq!((&asked["wanted_bytes"], &before["samples"]), (&warming["wanted_bytes"], &warming["looks"]));
    }
    let medians = |of: &Value, place: &str| of[place]["median"].clone();
    for (loader, point) in
        before["summary"]["loaders"].as_array().unwrap().iter().zip(now["points"].as_array().unwrap())
    {
        for (older, newer) in
            [("resident_after_seconds", "resident_after_seconds"), ("bytes_per_second", "load_bytes_per_second")]
        {
            assert_eq!(medians(loader, older), medians(point, newer), "{older} {point:#}");
        }
    }
}

/// All but the points, whose figures are few.
fn shortened_within_trials(shown: &Value) -> Value {
    let mut short = shortened(shown);
    short["points"] = shown["points"].clone();
    short
}

#[test]
fn an_older_residency_study_is_one_of_warmers_of_an_idle_server() {
    let (home, file) = older_store();
    // One with a script, other loaders, a bound and what went wrong.
    sqlite(
        &file,
        "INSERT INTO loading_runs SELECT '20261124-000000-aaaa', '2026-11-24T00:00:00.000000000Z', NULL, pgthaw_version, machine, server, \
         settings, json_set(study, '$.script', 'hot.sql', '$.loaders', json('[\"pgthaw\",\"pgthaw-both\",\"fio-direct\"]'), \
         '$.skipped_loaders', json('[[\"vmtouch\",\"apt-get install vmtouch\"]]'), '$.bound', \
         json('{\"reads\":9,\"read_bytes\":99,\"seconds\":0.05}'), '$.rounds', 1), warnings FROM loading_runs",
    );
    for (position, (loader, resident, back, failure)) in [
        ("pgthaw", "0.1", "NULL", "NULL"),
        ("pgthaw-both", "0.2", "0.3", "NULL"),
        ("fio-direct", "NULL", "NULL", "'no fio'"),
    ]
    .into_iter()
    .enumerate()
    {
        sqlite(
            &file,
            &format!(
                "INSERT INTO loading_trials SELECT '20261124-000000-aaaa', '{loader}', 1, {position} + 1, started_at, \
                 start_os_resident_bytes, start_total_bytes, 'lukewarm', command, {resident}, {back}, ended_after_seconds, 4000, 2.0, \
                 resident_bytes, cpu_seconds, NULL, NULL, {failure}, output, samples, warnings \
                 FROM loading_trials WHERE loader = 'cat' AND round = 1"
            ),
        );
    }
    let shown = home.pgthaw(&["results", "show", "--json"]).ok().json();
    let (sweep, points) = (&shown["sweep"], shown["points"].as_array().unwrap());
    assert_eq!(
        (&sweep["question"], &sweep["study"]["wanted_seconds"]),
        (&json!("ways to load what hot.sql reads, scale 1, disk native"), &json!(5))
    );
    assert_eq!((&sweep["verdicts"][0]["kind"], &sweep["points"]), (&json!("strategy_left_out"), &json!(4)));
    assert_eq!(
        (&points[0]["bound_ratio"]["median"], &points[1]["buffers_after_seconds"]["median"]),
        (&json!(2.0), &json!(0.3))
    );
    let verdicts = |place: usize| {
        shown["trials"][place]["verdicts"].as_array().unwrap().iter().map(|one| one["kind"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(
        (verdicts(0), verdicts(2)),
        (vec![json!("start_not_as_asked")], vec![json!("strategy_failed"), json!("start_not_as_asked")])
    );
    let view = "SELECT loader || ' ' || round || ' ' || script || ' ' || CAST(round(bound_ratio * 10) AS INTEGER) FROM loading_summary \
                WHERE run_id = '20261124-000000-aaaa' AND resident_after_seconds IS NOT NULL ORDER BY loader";
    assert_eq!(sqlite(&file, view), "pgthaw 1 hot.sql 40\npgthaw-os 1 hot.sql 20");
    assert_eq!(
        sqlite(&file, "SELECT group_concat(kind, ' ') FROM (SELECT kind FROM all_runs ORDER BY started_at)"),
        "warmup residency sweep residency"
    );
    home.pgthaw(&["results", "export", "--rows", "trials"]).ok();
    home.pgthaw(&["results", "drop", "20261124"]).ok();
    assert_eq!(sqlite(&file, "SELECT count(*) FROM loading_summary"), "4");
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

/// An odd document costs no trial, and gives none to another warmer.
#[test]
fn a_loader_that_its_study_does_not_name_keeps_its_trials() {
    for named in ["[]", "[\"pgthaw\"]"] {
        let (home, file) = older_store();
        sqlite(&file, &format!("UPDATE loading_runs SET study = json_set(study, '$.loaders', json('{named}'));"));
        let shown = home.pgthaw(&["results", "show", "--json", LOADING]).ok().json();
        let trials = shown["trials"].as_array().unwrap();
        let of = |strategy: &str| trials.iter().filter(|trial| trial["point"]["strategy"] == strategy).count();
        assert_eq!((trials.len(), of("pgthaw-os"), of("cat")), (4, 2, 2), "{named}");
    }
}

/// The other runs wait, and it is said which one it is and how to give it up.
#[test]
fn a_run_that_cannot_be_read_is_named() {
    let (home, file) = older_store();
    sqlite(&file, &format!("UPDATE trials SET warnings = 'x' WHERE run_id = '{RUN}' AND repeat = 1;"));
    let refused = home.pgthaw(&["results", "list"]).ends_with(1);
    assert!(refused.stderr.contains(&format!("DELETE FROM runs WHERE id = '{RUN}'")), "{}", refused.stderr);
    sqlite(&file, &format!("PRAGMA foreign_keys = ON; DELETE FROM runs WHERE id = '{RUN}';"));
    let listed = home.pgthaw(&["results", "list", "--json"]).ok().json();
    assert_eq!((listed["runs"].as_array().unwrap().len(), listed["sweeps"].as_array().unwrap().len()), (0, 2));
}

/// A text with what a terminal would obey, or would not show.
#[test]
fn json_of_a_study_is_json_whatever_it_is_called() {
    let (home, file) = older_store();
    home.pgthaw(&["results", "list"]).ok();
    let question = "q\u{200b}\u{9b}31m\u{2028}\u{e0041}\u{7f}";
    sqlite(&file, &format!("UPDATE sweeps SET question = '{question}' WHERE id = '{SWEEP}';"));
    let shown = home.pgthaw(&["results", "show", "--json", SWEEP]).ok();
    assert!(shown.stdout.is_ascii() || !shown.stdout.contains('\u{200b}'), "{}", shown.stdout);
    assert_eq!(shown.json()["sweep"]["question"], question);
}

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
    for (kind, id) in [("run", RUN), ("loading", LOADING)] {
        sqlite(&file, &format!("INSERT INTO unsent VALUES ('{}', '{kind}', '{id}', 0, 0, 3)", place(&server)));
    }
    let sent = home.pgthaw(&["results", "send", "--json", "--results", &results]).ok().json();
    assert_eq!(sent["sent"], 10, "two studies and their trials");
    assert_eq!(server.psql_of_results("SELECT count(*) FROM loading_summary"), "4");
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
    assert_eq!(server.psql_of_results("SELECT kind, trials FROM all_runs ORDER BY kind"), "residency|4\nwarmup|4");
    let seconds = "SELECT CAST(sum(resident_after_seconds) * 1e9 AS BIGINT), sum(device_reads) FROM loading_summary";
    assert_eq!(server.psql_of_results(seconds), "199921973|1710");
    let older = "SELECT count(*) FROM pg_tables WHERE tablename SIMILAR TO '(moved_)?(loading_)?(runs|trials)|samples|left_over'";
    assert_eq!(server.psql_of_results(older), "0");
}

/// Gives a server of now the tables of a tournament with what the file has in them.
fn make_older(server: &TestServer, file: &Path) {
    server.psql_of_results(
        "DROP VIEW all_runs, trial_summary, trial_verdicts, served_by_second, loading_summary, sweep_summary",
    );
    server
        .psql_of_results("CREATE VIEW sweep_summary AS SELECT 'older'; ALTER TABLE sweep_trials DROP COLUMN ended_at");
    let newer = ["ended_at", "device_reads_per_second", "device_reads_per_second_max", "device_bytes_per_write"];
    for column in
        newer.iter().chain(&["server_cpu_us_per_transaction", "device_reads_unevenness", "time", "warmer_seconds"])
    {
        server.psql_of_results(&format!("ALTER TABLE sweep_outlines DROP COLUMN {column}"));
    }
    server.psql_of_results(
        "ALTER TABLE sweep_trials DROP COLUMN devices, DROP COLUMN fresh_copy, DROP COLUMN time; \
         ALTER TABLE sweep_os_samples DROP COLUMN parts; ALTER TABLE sweep_wait_samples DROP COLUMN flushes; \
         DROP VIEW sweep_seconds; CREATE VIEW sweep_seconds AS SELECT 'older'; \
         ALTER TABLE sweeps DROP COLUMN databases; ALTER TABLE sweep_samples DROP COLUMN latency_us_deviation",
    );
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/results/migrations");
    let older = [
        "0001_runs_trials_samples",
        "0002_strategy_output",
        "0003_foreground_tenths",
        "0004_judgements",
        "0006_loadings",
    ];
    for migration in older {
        server.psql_of_results(&std::fs::read_to_string(directory.join(format!("{migration}.sql"))).unwrap());
    }
    server.psql_of_results(
        "CREATE VIEW all_runs AS SELECT id FROM runs; DELETE FROM _sqlx_migrations WHERE version > 20",
    );
    for table in ["runs", "trials", "samples", "loading_runs", "loading_trials"] {
        let listed = |text: &str, between: &str| {
            sqlite(file, &format!("SELECT group_concat({text}, '{between}') FROM pragma_table_info('{table}')"))
        };
        let (names, values) = (listed("name", ", "), listed("'quote(' || name || ')'", " || '', '' || "));
        let rows =
            sqlite(file, &format!("SELECT 'INSERT INTO {table} ({names}) VALUES (' || {values} || ');' FROM {table}"));
        server.psql_of_results(&rows);
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
