//! `results export`, and the questions of docs/queries.md.

use std::fs;
use std::path::Path;

use host::units::Bytes;
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::Field;
use pgbench::QueryMode;
use pgthaw_lab::results::Store;
use pgthaw_lab::study::{Point, SweepRun, SweepTrial};
use serde_json::{Value, json};

use super::bench::text;
use super::results::{keep, sqlite, wait};
use super::results_import::transactions;
use super::results_server::{address, place};
use super::servers::{self, Home};
use super::synthetic_run;
use super::synthetic_sweep::{self, Shape};

/// A home whose store holds a study of ten warmers.
fn with_a_run(repeats: u32, seconds: u32) -> (Home, String) {
    let home = Home::new();
    let (run, trials) = synthetic_run::make(repeats, seconds);
    keep(&home.path().join("state/pgthaw/results.sqlite"), &run, &trials);
    (home, run.id)
}

#[test]
fn every_format_holds_the_same_rows() {
    let (home, id) = with_a_run(2, 20);
    let csv = home.pgthaw(&["results", "export"]).ok().stdout;
    let lines: Vec<&str> = csv.lines().collect();
    assert!(
        lines[0].starts_with("sweep_id,question,number,repeat")
            && lines[0].contains(",steady_tps,to_50_seconds,")
            && lines.len() == 21,
        "{csv}"
    );
    let objects = home.pgthaw(&["results", "export", &id, "--json"]).ok().json();
    let objects = objects.as_array().unwrap();
    assert_eq!(objects.len(), 20);
    for (line, object) in lines[1..].iter().zip(objects) {
        assert!(line.contains(text(object, "/strategy")), "{line} {object}");
    }
    let file = home.path().join("seconds.parquet");
    home.pgthaw(&["results", "export", "--rows", "seconds", "-o", file.to_str().unwrap()]).ok();
    let reader = SerializedFileReader::new(fs::File::open(&file).unwrap()).unwrap();
    let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
    assert_eq!(rows.len(), 20 * 20);
    let served: i64 = rows
        .iter()
        .flat_map(|row| row.get_column_iter())
        .filter(|(name, _)| *name == "transactions")
        .map(|(_, field)| match field {
            Field::Long(count) => *count,
            other => panic!("{other}"),
        })
        .sum();
    let store = home.path().join("state/pgthaw/results.sqlite");
    assert_eq!(sqlite(&store, "SELECT sum(transactions) FROM sweep_samples"), served.to_string());
    let points = home.pgthaw(&["results", "export", "--rows", "points"]).ok().stdout;
    assert_eq!(points.lines().count(), 11, "{points}");
}

/// Two points that differ in where they lie, in whose server it is, in what warms it and in what is late.
fn sweep_of_grounds() -> (SweepRun, Vec<SweepTrial>) {
    let shape = Shape { scales: &[1], clients: &[4, 4], buffers: &["16MB"], strategies: &[], repeats: 1, seconds: 3 };
    let (run, mut trials) = synthetic_sweep::make(&shape);
    let grounds = [("ext4", "17", "nothing", None), ("xfs", "18", "cat", Some(50.0))];
    for (trial, (file_system, server, strategy, latency_limit_ms)) in trials.iter_mut().zip(grounds) {
        trial.point = Point {
            file_system: file_system.into(),
            server: server.into(),
            strategy: strategy.into(),
            latency_limit_ms,
            ..trial.point.clone()
        };
    }
    (trials[1].point.query_mode, trials[1].point.memory) = (QueryMode::Simple, Some(Bytes(1024)));
    let xfs = &mut trials[1];
    (xfs.late, xfs.retried, xfs.retries, xfs.checkpoint_cycles) = (7, 3, 4, 2);
    (xfs.cycle_tps, xfs.server_version) = (Some(100.5), Some("18.0".into()));
    (run, trials)
}

#[test]
fn the_views_and_what_is_exported_tell_file_systems_and_servers_apart() {
    let home = Home::new();
    let file = home.path().join("state/pgthaw/results.sqlite");
    let server = servers::start_any(&[]);
    let (run, trials) = sweep_of_grounds();
    wait(async {
        Store::open(&file).await.unwrap().save_whole_sweep(&run, &trials).await.unwrap();
        Store::connect_server(&place(&server)).await.unwrap().save_whole_sweep(&run, &trials).await.unwrap();
    });
    let ask = |question: &str| {
        let answers = (sqlite(&file, question), server.psql_of_results(question));
        assert_eq!(answers.0, answers.1, "{question}");
        answers.0
    };
    for (view, detail) in [("sweep_points", "points"), ("sweep_summary", "trials"), ("sweep_seconds", "seconds")] {
        let grounds = ask(&format!(
            "SELECT DISTINCT number, file_system, server, strategy, CAST(coalesce(latency_limit_ms, 0) AS INTEGER) \
             FROM {view} ORDER BY number"
        ));
        assert_eq!(grounds, "0|ext4|17|nothing|0\n1|xfs|18|cat|50", "{view}");
        let rows = home.pgthaw(&["results", "export", "--rows", detail, "--json"]).ok().json();
        let (first, last) = (&rows[0], rows.as_array().unwrap().last().unwrap());
        assert_eq!((text(first, "/file_system"), text(last, "/file_system")), ("ext4", "xfs"), "{view}");
        assert_eq!((&first["latency_limit_ms"], &last["latency_limit_ms"]), (&Value::Null, &json!(50.0)), "{view}");
    }
    let measures =
        ask("SELECT measure, count(*) FROM sweep_measures WHERE value >= 0 GROUP BY measure ORDER BY measure");
    assert!(measures.contains("server_involuntary_switches|6"), "{measures}");
    let seconds = ["results", "export", "--rows", "seconds", "--json", "--results"];
    let exported = |results: &str| home.pgthaw(&[&seconds[..], &[results]].concat()).ok().json();
    assert!(exported(file.to_str().unwrap()) == exported(&address(&server)), "the server exports other seconds");
    let told = "SELECT number FROM sweep_summary WHERE late = 7 AND retried = 3 AND retries = 4 AND checkpoint_cycles = 2 \
                AND cycle_tps = 100.5 AND server_version = '18.0' AND device_writes_per_second > 0 AND device_written_bytes > 0";
    assert_eq!(ask(told), "1");
    let told = "SELECT number FROM sweep_summary WHERE ended_at > started_at AND query_mode = 'simple' AND memory_bytes = 1024 \
                AND server_cpu_us_per_transaction > 0 AND device_reads_per_second_max >= device_reads_per_second \
                AND device_bytes_per_write > 0";
    assert_eq!(ask(told), "1");
    assert_eq!(
        ask("SELECT query_mode, coalesce(memory_bytes, 0) FROM sweep_points ORDER BY number"),
        "prepared|0\nsimple|1024"
    );
    let writers = "SELECT checkpoints_requested, buffers_checkpoint, buffers_clean, buffers_backend FROM sweep_summary WHERE number = 1";
    let figures = ask(writers);
    let exported = home.pgthaw(&["results", "export", "--json"]).ok().json();
    let told = ["checkpoints_requested", "buffers_checkpoint", "buffers_clean", "buffers_backend"];
    assert_eq!(told.map(|column| exported[1][column].to_string()).join("|"), figures);
    let told = ["late", "retried", "retries", "checkpoint_cycles", "cycle_tps", "server_version"];
    assert_eq!(told.map(|column| exported[1][column].to_string()), ["7", "3", "4", "2", "100.5", "\"18.0\""]);
}

#[test]
fn how_cold_servers_got_warm_is_in_the_view_and_in_every_export() {
    const COLUMNS: [&str; 4] = ["warm_after_seconds", "bound_seconds", "served_until_warm", "warm_tps"];
    let home = Home::new();
    let file = home.path().join("state/pgthaw/results.sqlite");
    let server = servers::start_any(&[]);
    let strategies = &["nothing", "cat", "pgthaw"];
    let shape = Shape { scales: &[10], clients: &[4], buffers: &["16MB"], strategies, repeats: 1, seconds: 12 };
    let (run, trials) = synthetic_sweep::make(&shape);
    wait(async {
        Store::open(&file).await.unwrap().save_whole_sweep(&run, &trials).await.unwrap();
        Store::connect_server(&place(&server)).await.unwrap().save_whole_sweep(&run, &trials).await.unwrap();
    });
    let expected: Vec<Value> = trials
        .iter()
        .map(|trial| {
            let figures = &trial.warming.as_ref().unwrap().figures;
            json!([figures.warm_after_seconds, figures.bound_seconds, figures.served_until_warm, figures.warm_tps])
        })
        .collect();
    // Whom nothing warmed was not warm within the trial.
    assert_eq!((&expected[0][0], &expected[0][3]), (&Value::Null, &Value::Null));
    assert!(expected[1][0].as_f64() > expected[2][0].as_f64() && expected[2][0].as_f64() > expected[2][1].as_f64());

    for results in [file.to_str().unwrap(), &address(&server)] {
        let rows = home.pgthaw(&["results", "export", "--json", "--results", results]).ok().json();
        let kept: Vec<Value> =
            rows.as_array().unwrap().iter().map(|row| json!(COLUMNS.map(|column| row[column].clone()))).collect();
        assert_eq!(kept, expected, "{results}");
    }
    let csv = home.pgthaw(&["results", "export"]).ok().stdout;
    let lines: Vec<&str> = csv.lines().collect();
    assert!(lines[0].contains(&COLUMNS.join(",")), "{}", lines[0]);
    assert!(lines[1].contains(&format!(",,{},{},,", expected[0][1], expected[0][2])), "{}", lines[1]);
    let parquet = home.path().join("trials.parquet");
    home.pgthaw(&["results", "export", "-o", parquet.to_str().unwrap()]).ok();
    let reader = SerializedFileReader::new(fs::File::open(&parquet).unwrap()).unwrap();
    let last = reader.get_row_iter(None).unwrap().last().unwrap().unwrap();
    let shown: Vec<String> = last
        .get_column_iter()
        .filter(|(name, _)| COLUMNS.contains(&name.as_str()))
        .map(|(_, field)| match field {
            Field::Double(number) => json!(number).to_string(),
            Field::Long(count) => count.to_string(),
            other => panic!("{other}"),
        })
        .collect();
    assert_eq!(shown, expected[2].as_array().unwrap().iter().map(Value::to_string).collect::<Vec<_>>());
}

/// The statements of docs/queries.md and docs/formats.md.
fn questions() -> Vec<String> {
    let documents = ["docs/queries.md", "docs/formats.md"]
        .map(|name| fs::read_to_string(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join(name)).unwrap());
    let blocks = documents.iter().flat_map(|document| document.split("```sql\n").skip(1));
    blocks.map(|block| block.split("```").next().unwrap().to_owned()).collect()
}

#[test]
fn the_questions_of_the_documentation_are_answered_by_both_databases() {
    let (home, _) = with_a_run(1, 5);
    let directory = home.path().join("one");
    fs::create_dir(&directory).unwrap();
    fs::write(directory.join("pgbench_log.7"), transactions(1_650_260_550, 3, 1000)).unwrap();
    home.pgthaw(&["results", "import", directory.to_str().unwrap(), "scale=10", "script=select-only"]).ok();
    let file = home.path().join("state/pgthaw/results.sqlite");

    let server = servers::start_any(&[]);
    wait(async {
        let (store, local) = (Store::connect_server(&place(&server)).await.unwrap(), Store::open(&file).await.unwrap());
        for sweep in local.read_sweeps().await.unwrap() {
            store.save_sweep(&sweep).await.unwrap();
            for trial in local.read_sweep_trials(&sweep.id).await.unwrap() {
                store.save_sweep_trial(&trial).await.unwrap();
            }
        }
    });
    let asked = questions();
    assert!(asked.len() >= 9, "{asked:?}");
    for question in &asked {
        if !question.contains("json_array_elements") {
            sqlite(&file, question);
        }
        if !question.contains("json_each") {
            server.psql_of_results(question);
        }
    }
    let counts = "SELECT (SELECT count(*) FROM sweep_points), (SELECT count(*) FROM sweep_summary), \
                  (SELECT count(*) FROM sweep_seconds), (SELECT count(*) FROM all_runs)";
    assert_eq!(sqlite(&file, counts), "11|11|53|2");
    assert_eq!(server.psql_of_results(counts), "11|11|53|2");
    let median = "SELECT CAST(tps_median AS INTEGER), trials FROM sweep_points WHERE scale = 10";
    assert_eq!(sqlite(&file, median), "1000|1");
    assert_eq!(server.psql_of_results(median), "1000|1");
}
