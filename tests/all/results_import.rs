//! `results import`: which files are of one run, what is kept of it, and what is told against it.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::bench::text;
use super::servers::Home;

/// A log of transactions of so many seconds, `per_second` each, from the first second on, by four clients from `client` on.
pub fn transactions_of(client: u64, first: u64, seconds: u64, per_second: u64) -> String {
    let line = |number: u64| {
        let (second, latency) = (first + number / per_second, 100 + number % 900);
        let microsecond = number % per_second * 1_000_000 / per_second;
        format!("{} {} {latency} 0 {second} {microsecond}\n", client + number % 4, number / 4)
    };
    (0..seconds * per_second).map(line).collect()
}

pub fn transactions(first: u64, seconds: u64, per_second: u64) -> String {
    transactions_of(0, first, seconds, per_second)
}

pub const REPORT: &str = "transaction type: <builtin: select only>\nscaling factor: 10\nquery mode: simple\n\
    number of clients: 4\nnumber of threads: 2\nduration: 3 s\nnumber of transactions actually processed: 6000\n\
    latency average = 0.5 ms\ntps = 1999.5 (without initial connection time)\n";

#[test]
fn a_log_with_its_report_is_a_trial() {
    let home = Home::new();
    let directory = home.path().join("one");
    fs::create_dir(&directory).unwrap();
    fs::write(directory.join("pgbench_log.7"), transactions(1_650_260_550, 3, 1000)).unwrap();
    fs::write(directory.join("pgbench_log.7.1"), transactions(1_650_260_550, 3, 1000)).unwrap();
    fs::write(directory.join("out.txt"), REPORT).unwrap();
    let imported = home.pgthaw(&["results", "import", directory.to_str().unwrap(), "--json"]).ok().json();
    let trial = &imported["trials"][0];
    assert_eq!(trial["point"]["script"], "select-only");
    assert_eq!((&trial["point"]["scale"], &trial["point"]["clients"]), (&json!(10), &json!(4)));
    assert_eq!((&trial["transactions"], &trial["tps"]), (&json!(6000), &json!(1999.5)));
    let samples: Vec<&Value> = trial["samples"].as_array().unwrap().iter().collect();
    assert_eq!(samples.iter().map(|one| one["transactions"].as_u64().unwrap()).collect::<Vec<_>>(), [2000; 3]);
    assert_eq!(trial["latency"]["count"], 6000);
    assert!(imported["points"][0]["latency_us_p99"]["median"].as_f64().unwrap() > 900.0);
    assert_eq!(text(trial, "/started_at"), "2022-04-18T05:42:29.9999Z");
    assert!(text(&imported, "/sweep/source").ends_with("/one"));
    // What is shown is what was kept, and the same is not kept twice.
    assert!(home.pgthaw(&["results", "show", "--json"]).ok().json() == imported);
    let again = home.pgthaw(&["results", "import", directory.to_str().unwrap()]).ends_with(1);
    assert!(again.stderr.contains("were already imported"), "{}", again.stderr);
}

#[test]
fn intervals_and_progress_have_seconds_and_no_percentiles() {
    let home = Home::new();
    let intervals = home.path().join("intervals.log");
    fs::write(&intervals, "1650260550 100 50000 0 80 1200\n1650260551 50 25000 0 90 900\n").unwrap();
    let progress =
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("tests/fixtures/pgbench/cold_short.txt");
    let arguments = ["results", "import", intervals.to_str().unwrap(), progress.to_str().unwrap(), "--json"];
    let imported = home.pgthaw(&arguments).ok().json();
    let trials = imported["trials"].as_array().unwrap();
    let by_seconds = trials.iter().find(|trial| text(trial, "/command").ends_with("intervals.log")).unwrap();
    assert_eq!((&by_seconds["transactions"], &by_seconds["latency"]), (&json!(150), &Value::Null));
    assert_eq!(by_seconds["samples"][0]["latency_us_mean"], 500.0);
    assert!(text(by_seconds, "/warnings/0").contains("scale="), "{}", by_seconds["warnings"]);
    let by_progress = trials.iter().find(|trial| text(trial, "/command").ends_with("cold_short.txt")).unwrap();
    assert_eq!(by_progress["samples"][0]["transactions"], 524);
    assert!(by_progress["samples"].as_array().unwrap().len() > 5 && by_progress["tps"].as_f64().unwrap() > 500.0);
}

#[test]
fn directories_of_pgbench_tools_are_trials_of_one_study() {
    let home = Home::new();
    let results = home.path().join("results");
    for (test, clients) in [(1, 4), (2, 8), (3, 4)] {
        let directory = results.join("oldserver").join(test.to_string());
        fs::create_dir_all(&directory).unwrap();
        let report = REPORT.replace("clients: 4", &format!("clients: {clients}"));
        fs::write(directory.join("results.txt"), format!("starting vacuum...end.\n{report}")).unwrap();
        let seconds = format!(
            "collected,samples,min_latency,avg_latency,max_latency\n165026055{test},1000,0.1,0.5,9.5\n165026056{test},900,0.1,0.5,7\n"
        );
        fs::write(directory.join("latency_1s.csv"), seconds).unwrap();
        fs::write(directory.join("vmstat.log"), "procs -----------memory----------\n").unwrap();
        fs::write(directory.join("index.html"), "<html>\n").unwrap();
    }
    let path = results.to_str().unwrap();
    let imported = home.pgthaw(&["results", "import", path, "question=the old server", "--json"]).ok().json();
    assert_eq!(imported["sweep"]["varied"], json!(["clients"]));
    assert_eq!((&imported["sweep"]["points"], &imported["sweep"]["repeats"]), (&json!(2), &json!(2)));
    let trial = &imported["trials"][0];
    assert_eq!(trial["samples"].as_array().unwrap().len(), 11);
    assert_eq!(
        (&trial["samples"][0]["transactions"], &trial["samples"][0]["latency_us_max"]),
        (&json!(1000), &json!(9500))
    );
    let csv = home.pgthaw(&["results", "export", "--rows", "points"]).ok().stdout;
    assert!(csv.lines().count() == 3 && csv.contains(",1999.5,"), "{csv}");
    let shown = home.pgthaw(&["results", "show"]).ok().stdout;
    assert!(shown.contains("the old server") && shown.contains("imported"), "{shown}");
}

#[test]
fn what_pgbench_tools_calls_a_server_is_an_axis() {
    let home = Home::new();
    let results = home.path().join("results");
    for test in ["pg15/1", "pg15/2", "pg17/1", "1"] {
        fs::create_dir_all(results.join(test)).unwrap();
        fs::write(results.join(test).join("results.txt"), REPORT).unwrap();
    }
    let imported = home.pgthaw(&["results", "import", results.to_str().unwrap(), "--json"]).ok().json();
    assert_eq!(imported["sweep"]["varied"], json!(["server"]));
    let points = imported["points"].as_array().unwrap();
    let mut trials: Vec<(&str, &Value)> =
        points.iter().map(|point| (text(point, "/values/0"), &point["trials"])).collect();
    trials.sort_by_key(|(server, _)| *server);
    assert_eq!(trials, [("default", &json!(1)), ("pg15", &json!(2)), ("pg17", &json!(1))]);
}

/// A directory of trials, each with a report.
fn with_reports(reports: &[String]) -> Home {
    let home = Home::new();
    for (number, report) in reports.iter().enumerate() {
        let trial = home.path().join("reports").join(number.to_string());
        fs::create_dir_all(&trial).unwrap();
        fs::write(trial.join("out.txt"), report).unwrap();
    }
    home
}

/// The kinds of what is told against a trial.
pub fn kinds(trial: &Value) -> Vec<&str> {
    trial["verdicts"].as_array().unwrap().iter().map(|verdict| text(verdict, "/kind")).collect()
}

#[test]
fn trials_that_were_asked_for_something_else_are_no_repeats() {
    let limited = format!("{REPORT}rate limit schedule lag: avg 302.504 (max 628.034) ms\n");
    let skipping = limited.replace("latency average", "number of transactions skipped: 300 (4.8%)\nlatency average");
    let late = "number of transactions above the 50.0 ms latency limit: 3/6000 (0.050%)\nlatency average";
    let mix = "SQL script 1: <builtin: select only>\n - weight: 9 (targets 90.0% of total)\n\
               SQL script 2: /s/insert.sql\n - weight: 1 (targets 10.0% of total)\n";
    let reports = [
        REPORT.to_owned(),
        limited,
        skipping,
        REPORT.replace("mode: simple", "mode: prepared"),
        REPORT.replace("duration: 3 s", "duration: 60 s"),
        REPORT.replace("latency average", late),
        REPORT.replace("<builtin: select only>", "multiple scripts") + mix,
        REPORT.to_owned(),
    ];
    let home = with_reports(&reports);
    let imported = home.pgthaw(&["results", "import", "reports", "--json"]).ok().json();
    assert_eq!((&imported["sweep"]["points"], &imported["sweep"]["repeats"]), (&json!(7), &json!(2)));
    let varied = ["script", "rate", "seconds", "latency_limit_ms", "query_mode"];
    assert_eq!(imported["sweep"]["varied"], json!(varied));
    let trials = imported["trials"].as_array().unwrap();
    let of = |number: usize| {
        let end = format!("/{number}");
        trials.iter().find(|trial| text(trial, "/command").ends_with(&end)).unwrap()
    };
    let told = |number: usize| varied.map(|axis| of(number)["point"][axis].clone());
    let mixed = "select-only@9 + insert.sql@1";
    assert_eq!(json!(told(0)), json!(["select-only", null, 3, null, "simple"]));
    assert_eq!(json!(told(1)), json!(["select-only", 2500.0, 3, null, "simple"]), "its lag grew by a fifth");
    assert_eq!(json!(told(2)), json!(["select-only", 2100.0, 3, null, "simple"]));
    assert_eq!(json!(told(3)), json!(["select-only", null, 3, null, "prepared"]));
    assert_eq!(json!(told(4)), json!(["select-only", null, 60, null, "simple"]));
    assert_eq!(json!(told(5)), json!(["select-only", null, 3, 50.0, "simple"]));
    assert_eq!(json!(told(6)), json!([mixed, null, 3, null, "simple"]));
    assert!(text(of(1), "/verdicts/0/sentence").contains("about 2500 per second"), "{}", of(1));
    // Whoever knows the rate says it, and it is that of those alone that had one.
    let arguments = ["results", "import", "reports", "rate=2500", "start=cold", "--json"];
    let imported = home.pgthaw(&arguments).ok().json();
    let trials = imported["trials"].as_array().unwrap();
    let rates: Vec<&Value> =
        trials.iter().map(|trial| &trial["point"]["rate"]).filter(|rate| !rate.is_null()).collect();
    assert_eq!(rates, [&json!(2500.0); 2]);
    let missed = trials.iter().filter(|trial| kinds(trial).contains(&"rate_not_reached")).count();
    assert_eq!((missed, &trials[0]["point"]["start"]), (2, &json!("cold")));
}

/// pgbench draws the moments at random: of one rate there are as many transactions as chance has it.
#[test]
fn repeats_under_a_rate_are_one_point() {
    let of = |transactions: u32| {
        let counted = REPORT.replace("processed: 6000", &format!("processed: {transactions}")).replace("3 s", "60 s");
        let tps = counted.replace("1999.5", &format!("{:.1}", f64::from(transactions) / 60.0));
        tps + "rate limit schedule lag: avg 0.5 (max 9.5) ms\n"
    };
    let home = with_reports(&[of(62_700), of(63_300), of(62_900), of(90_000)]);
    let sweep = home.pgthaw(&["results", "import", "reports", "--json"]).ok().json()["sweep"].clone();
    assert_eq!((&sweep["points"], &sweep["repeats"]), (&json!(2), &json!(3)), "1045 and 1055 a second are one rate");
}

#[test]
fn a_late_first_line_and_a_last_interval_that_is_never_written_are_no_standstill() {
    let head = "transaction type: <builtin: select only>\nscaling factor: 10\nquery mode: simple\nnumber of clients: 4\n\
                number of threads: 2\nduration: 20 s\nnumber of transactions actually processed: 26250\n\
                rate limit schedule lag: avg 7179.112 (max 14842.572) ms\ntps = 1500.0 (without initial connection time)\n";
    let lines: String = (3..=20)
        .map(|second| {
            format!(
                "progress: {second}.0 s, 1500.0 tps, lat 9.0 ms stddev 1.0, 0 failed, lag {}.5 ms\n",
                (second - 2) * 850
            )
        })
        .collect();
    let late = format!("progress: 2.5 s, 0.0 tps, lat 0.0 ms stddev 0.0, 0 failed, lag 0.000 ms\n{lines}{head}");
    let intervals: String =
        (0..5).map(|ten| format!("{} 10000 5000000 0 80 1200\n", 1_650_260_550 + 10 * ten)).collect();
    let home = with_files(&[("late.txt", &late), ("pgbench_log.7", &intervals)]);
    let imported = import_named(&home, &["late.txt"], &[]);
    let trial = &imported["trials"][0];
    assert!(!kinds(trial).contains(&"log_gaps") && kinds(trial).contains(&"rate_not_reached"), "{}", trial["verdicts"]);
    assert!(trial["verdicts"].to_string().contains("the first 2.5 s of the run are omitted: pgbench was connecting"));
    assert!((9_000.0..12_000.0).contains(&trial["point"]["rate"].as_f64().unwrap()), "{}", trial["point"]);
    let imported = import_named(&home, &["pgbench_log.7"], &["seconds=60"]);
    let trial = &imported["trials"][0];
    assert!(!kinds(trial).contains(&"log_gaps"), "{}", trial["verdicts"]);
    assert_eq!(trial["tps"], 1000.0);
}

#[test]
fn what_is_imported_is_judged_as_what_was_measured() {
    let home = Home::new();
    // Nothing of five of its thirty seconds.
    let log = transactions(1_650_260_550, 20, 100) + &transactions(1_650_260_575, 5, 100);
    fs::write(home.path().join("pgbench_log.1"), log).unwrap();
    let arguments = ["results", "import", "pgbench_log.1", "scale=10", "script=select-only", "--json"];
    let imported = home.pgthaw(&arguments).ok().json();
    let trial = &imported["trials"][0];
    assert_eq!(kinds(trial), ["log_gaps", "assumed", "assumed", "never_steady"], "{}", trial["verdicts"]);
    let gap = &trial["verdicts"][0];
    assert_eq!([&gap["seconds"], &gap["longest_after_seconds"]], [&json!(5), &json!(20)]);
    assert_eq!(text(trial, "/verdicts/1/remedy"), "import again with jobs=");
    assert_eq!(text(trial, "/verdicts/2/remedy"), "import again with query_mode=");
    assert_eq!(trial["warnings"].as_array().unwrap().len(), 4);
    assert!(imported["sweep"]["warnings"].to_string().contains("one trial per point"), "{}", imported["sweep"]);
    let shown = home.pgthaw(&["results", "show"]).ok().stdout;
    assert!(shown.contains("no data for 5 of its 30 s"), "{shown}");
}

#[test]
fn a_trial_without_a_transaction_is_kept_with_its_verdict() {
    let nothing = REPORT.replace("processed: 6000", "processed: 0").replace("tps = 1999.5", "tps = 0.0");
    let home = with_reports(&[nothing]);
    let imported = home.pgthaw(&["results", "import", "reports", "--json"]).ok().json();
    let trial = &imported["trials"][0];
    assert_eq!((&trial["tps"], kinds(trial)), (&json!(0.0), vec!["nothing_served"]));
    assert!(text(trial, "/verdicts/0/sentence").contains("the server completed no transaction in 3 s"));
}

/// Files of one directory.
pub fn with_files(files: &[(&str, &str)]) -> Home {
    let home = Home::new();
    for (name, text) in files {
        let path = home.path().join("in").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    home
}

/// What is imported of these, below the directory.
pub fn import_named(home: &Home, names: &[&str], options: &[&str]) -> Value {
    let paths: Vec<String> = names.iter().map(|name| format!("in/{name}")).collect();
    let arguments = ["results", "import", "--json"].into_iter().chain(paths.iter().map(String::as_str));
    home.pgthaw(&arguments.chain(options.iter().copied()).collect::<Vec<_>>()).ok().json()
}

pub fn trials_of(imported: &Value) -> &[Value] {
    imported["trials"].as_array().unwrap()
}

#[test]
fn every_report_of_a_directory_is_a_trial() {
    let slower = REPORT.replace("processed: 6000", "processed: 3000").replace("1999.5", "999.5");
    let home = with_files(&[("a.out", REPORT), ("b.out", &slower), ("notes.txt", "Dear diary\n")]);
    let imported = import_named(&home, &["."], &[]);
    let told: Vec<(&str, &Value)> =
        trials_of(&imported).iter().map(|trial| (text(trial, "/command"), &trial["tps"])).collect();
    assert_eq!(told, [("in/./a.out", &json!(1999.5)), ("in/./b.out", &json!(999.5))]);
    // A directory of pgbench-tools is one trial; what else is in it is told.
    let home = with_files(&[("results.txt", REPORT), ("other.out", &slower)]);
    let imported = import_named(&home, &["."], &[]);
    assert_eq!((trials_of(&imported).len(), &imported["trials"][0]["tps"]), (1, &json!(1999.5)));
    assert!(imported["trials"][0]["warnings"].to_string().contains("other.out, which is also a report"), "{imported}");
}

#[test]
fn files_of_one_run_are_one_trial_however_they_are_named() {
    let (one, other) = (transactions(1_650_260_550, 3, 1000), transactions_of(4, 1_650_260_550, 3, 1000));
    let slower = REPORT.replace("processed: 6000", "processed: 3000").replace("1999.5", "999.5");
    let later = transactions(1_650_260_700, 3, 1000);
    let report = REPORT.replace("clients: 4", "clients: 8");
    let files = [
        ("pgbench_log.7", one.as_str()),
        ("pgbench_log.7.1", other.as_str()),
        ("renamed.log", other.as_str()),
        ("out.txt", report.as_str()),
        ("pgbench_log.9", later.as_str()),
        ("slow.txt", slower.as_str()),
        (
            "progress.txt",
            "progress: 1.0 s, 1000.0 tps, lat 1 ms stddev 1\nprogress: 2.0 s, 1000.0 tps, lat 1 ms stddev 1\nprogress: 3.0 s, 999.0 tps, lat 1 ms stddev 1\n",
        ),
    ];
    let home = with_files(&files);
    // Threads by their names, and by the clients that the others do not have.
    for threads in [["pgbench_log.7", "pgbench_log.7.1"], ["renamed.log", "pgbench_log.7"]] {
        let imported = import_named(&home, &threads, &[]);
        let trial = &imported["trials"][0];
        assert_eq!((trials_of(&imported).len(), &trial["transactions"]), (1, &json!(6000)), "{threads:?}");
        assert_eq!((&trial["point"]["clients"], kinds(trial).contains(&"log_partial")), (&json!(8), false));
        home.pgthaw(&["results", "drop", text(&imported, "/sweep/id")]).ok();
    }
    // A log and its report, by what they count, in any order.
    let names = ["slow.txt", "pgbench_log.9", "pgbench_log.7.1", "out.txt", "pgbench_log.7"];
    let imported = import_named(&home, &names, &[]);
    let told: Vec<_> = trials_of(&imported)
        .iter()
        .map(|trial| (text(trial, "/command"), &trial["latency"]["count"], &trial["tps"]))
        .collect();
    assert_eq!(
        told,
        [
            ("in/out.txt, in/pgbench_log.7, in/pgbench_log.7.1", &json!(6000), &json!(1999.5)),
            ("in/slow.txt, in/pgbench_log.9", &json!(3000), &json!(999.5)),
        ]
    );
    let mut again = names.map(|name| format!("in/{name}"));
    again.reverse();
    let mut arguments = vec!["results", "import"];
    arguments.extend(again.iter().map(String::as_str));
    let refused = home.pgthaw(&arguments).ends_with(1);
    assert!(refused.stderr.contains("were already imported"), "{}", refused.stderr);
    // What is named twice is there once.
    arguments.push("in/out.txt");
    home.pgthaw(&arguments).ends_with(1);
    // pgbench's two streams.
    let imported = import_named(&home, &["progress.txt", "slow.txt"], &[]);
    let trial = &imported["trials"][0];
    assert_eq!(
        (trials_of(&imported).len(), &trial["tps"], trial["samples"].as_array().unwrap().len()),
        (1, &json!(999.5), 3)
    );
}

#[test]
fn names_tell_what_counts_do_not() {
    let log = transactions(1_650_260_550, 3, 2000);
    let sampled: String = log.lines().step_by(10).map(|line| format!("{line}\n")).collect();
    let files = [("a.7", sampled.as_str()), ("b.9", sampled.as_str()), ("a.out", REPORT), ("b.out", REPORT)];
    let imported = import_named(&with_files(&files), &["a.7", "b.9", "b.out", "a.out"], &[]);
    let told: Vec<&str> = trials_of(&imported).iter().map(|trial| text(trial, "/command")).collect();
    assert_eq!(told, ["in/a.out, in/a.7", "in/b.out, in/b.9"]);
    // pgbench does not log the interval that it ends in.
    let intervals = "1650260550 2900 145 7 5 5\n1650260551 2900 145 7 5 5\n";
    let imported = import_named(&with_files(&[("c.7", intervals), ("c.out", REPORT)]), &["c.7", "c.out"], &[]);
    let trial = &imported["trials"][0];
    assert_eq!((trials_of(&imported).len(), kinds(trial).contains(&"log_partial")), (1, false), "{trial}");
}

#[test]
fn what_may_belong_to_two_runs_is_asked_about() {
    let report = REPORT.replace("duration: 3 s", "number of transactions per client: 1500");
    let log = transactions(1_650_260_550, 3, 2000);
    let home = with_files(&[("a.txt", &report), ("b.txt", &report), ("pgbench_log.7", &log)]);
    let refused = home.pgthaw(&["results", "import", "in/pgbench_log.7", "in/a.txt", "in/b.txt"]).ends_with(2);
    assert!(
        refused.stderr.contains("whether in/pgbench_log.7 belongs to the same run as in/a.txt or in/b.txt"),
        "{}",
        refused.stderr
    );
    assert!(refused.stderr.contains("a directory of its own"), "{}", refused.stderr);
}

#[test]
fn a_part_of_a_log_is_told_and_nothing_is_scaled() {
    let whole = transactions(1_650_260_550, 3, 2000);
    let sampled: String =
        whole.lines().enumerate().filter(|(line, _)| line % 10 == 0).map(|(_, line)| format!("{line}\n")).collect();
    let home = with_files(&[
        ("pgbench_log.7", &sampled),
        ("out.txt", REPORT),
        ("pgbench_log.8.1", &transactions_of(4, 1_650_260_550, 3, 2000)),
    ]);
    let sample = import_named(&home, &["pgbench_log.7"], &[]);
    assert_eq!(
        (&sample["trials"][0]["transactions"], kinds(&sample["trials"][0]).contains(&"log_partial")),
        (&json!(600), true)
    );
    let with_report = import_named(&home, &["out.txt", "pgbench_log.7"], &[]);
    let trial = &with_report["trials"][0];
    let partial =
        trial["verdicts"].as_array().unwrap().iter().find(|verdict| verdict["kind"] == "log_partial").unwrap();
    assert_eq!(
        (trials_of(&with_report).len(), &partial["logged"], &partial["transactions"]),
        (1, &json!(600), &json!(6000))
    );
    assert_eq!(
        (&trial["transactions"], &trial["tps"], &trial["latency"]["count"]),
        (&json!(6000), &json!(1999.5), &json!(600))
    );
    assert_eq!(trial["worst_second_tps"], Value::Null);
    let thread = import_named(&home, &["pgbench_log.8.1"], &[]);
    assert!(
        thread["trials"][0]["warnings"].to_string().contains("4 of 8 clients"),
        "{}",
        thread["trials"][0]["warnings"]
    );
}

#[test]
fn connections_for_each_transaction_are_no_repeats_of_others() {
    let connecting = REPORT.replace("(without initial connection time)", "(including reconnection times)");
    let home = with_reports(&[REPORT.to_owned(), connecting]);
    let imported = home.pgthaw(&["results", "import", "reports", "--json"]).ok().json();
    assert_eq!((&imported["sweep"]["points"], &imported["sweep"]["varied"]), (&json!(2), &json!(["connect"])));
    let shown = home.pgthaw(&["results", "show"]).ok().stdout;
    assert!(shown.contains("connect") && shown.contains("true"), "{shown}");
}

#[test]
fn a_run_that_was_aborted_has_a_verdict() {
    let aborted = format!(
        "pgbench: error: client 1 aborted in command 4 (SQL) of script 0; ERROR:  no\n{}pgbench: error: Run was aborted; the above results are incomplete.\n",
        REPORT.replace("duration: 3 s", "number of transactions per client: 2000").replace("6000", "6000/8000")
    );
    let home = with_files(&[("out.txt", &aborted)]);
    let imported = import_named(&home, &["out.txt"], &[]);
    let verdict = &imported["trials"][0]["verdicts"][0];
    assert_eq!(text(verdict, "/kind"), "run_aborted");
    assert_eq!(
        text(verdict, "/sentence"),
        "1 of 4 clients aborted before the end: 6000 of 8000 transactions were completed"
    );
    assert_eq!(text(&imported, "/trials/0/failure"), text(verdict, "/sentence"));
}

#[test]
fn a_clock_that_was_set_back_is_told() {
    let log = transactions(1_650_260_550, 3, 100) + "0 900 100 0 1650260549 0\n";
    let home = with_files(&[("pgbench_log.7", &log)]);
    let imported = import_named(&home, &["pgbench_log.7"], &[]);
    assert!(
        imported["trials"][0]["warnings"].to_string().contains("jump back by 4.0 s"),
        "{}",
        imported["trials"][0]["warnings"]
    );
}

#[test]
fn what_is_said_by_hand_fits_what_the_report_says() {
    let limited = format!("{REPORT}rate limit schedule lag: avg 2.504 (max 128.034) ms\n");
    let home = with_files(&[("out.txt", REPORT), ("limited.txt", &limited)]);
    for (file, given, told) in [
        ("out.txt", "rate=2500", "no rate was requested"),
        ("limited.txt", "rate=200", "about 2000 per second were scheduled"),
        ("limited.txt", "rate=2500", "none began more than 128 ms late"),
        ("out.txt", "clients=8", "clients= is 8, but pgbench's report shows 4"),
        ("out.txt", "jobs=3", "jobs= is 3, but pgbench's report shows 2"),
        ("out.txt", "scale=100", "scale= is 100, but pgbench's report shows 10"),
        ("out.txt", "query_mode=prepared", "query_mode= is prepared, but pgbench's report shows simple"),
        ("out.txt", "script=tpcb-like", "pgbench's report shows select-only"),
        ("out.txt", "seconds=60", "seconds= is 60, but pgbench's report shows 3"),
    ] {
        let refused = home.pgthaw(&["results", "import", &format!("in/{file}"), given]).ends_with(2);
        assert!(refused.stderr.contains(told) && refused.stderr.contains("omit "), "{given}: {}", refused.stderr);
    }
    import_named(&home, &["limited.txt"], &["rate=2050"]);
}

/// Half a line may look like a whole one of another time.
#[test]
fn a_torn_line_at_the_end_of_a_log_does_not_count() {
    let whole = transactions_of(0, 1_700_000_000, 4, 100);
    let torn = format!("{whole}0 400 1000 0 1699999 99");
    let home = with_files(&[("pgbench_log.1", &torn)]);
    let imported = import_named(&home, &["pgbench_log.1"], &[]);
    let trial = &trials_of(&imported)[0];
    assert_eq!(trial["transactions"], 400);
    assert!(!kinds(trial).contains(&"clock_set_back"), "{:?}", kinds(trial));
}

/// A run does not begin with a second of the clock.
#[test]
fn seconds_of_a_log_are_those_of_the_run() {
    let line = |number: u64| {
        let at = 1_700_000_000_900_000 + number * 10_000;
        format!("0 {number} 1000 0 {} {}\n", at / 1_000_000, at % 1_000_000)
    };
    let log: String = (0..300).map(line).collect();
    let home = with_files(&[("pgbench_log.1", &log)]);
    let imported = import_named(&home, &["pgbench_log.1"], &[]);
    let samples = trials_of(&imported)[0]["samples"].as_array().unwrap();
    let counts: Vec<u64> = samples.iter().map(|one| one["transactions"].as_u64().unwrap()).collect();
    assert_eq!(counts, [100, 100, 100]);
}

#[test]
fn what_cannot_be_of_one_run_is_refused() {
    let report = "transaction type: <builtin: select only>\nnumber of transactions actually processed: 7\n\
                  tps = 7.0 (without initial connection time)\n";
    let log = transactions_of(0, 1_700_000_000, 20, 100);
    let home = with_files(&[("two.txt", &report.repeat(2)), ("pgbench_log.1", &log)]);
    let two = home.path().join("in/two.txt");
    let refused = home.pgthaw(&["results", "import", two.to_str().unwrap()]).ends_with(2).stderr;
    assert!(refused.contains("holds 2 reports"), "{refused}");
    let log = home.path().join("in/pgbench_log.1");
    for seconds in ["5", "999999999"] {
        let refused = home
            .pgthaw(&["results", "import", log.to_str().unwrap(), &format!("seconds={seconds}")])
            .ends_with(2)
            .stderr;
        assert!(refused.contains("the log lasts 2"), "{refused}");
    }
}

#[test]
fn remedies_are_what_pgbench_can_do() {
    let log = transactions(1_650_260_550, 40, 20);
    let home =
        with_files(&[("pgbench_log.7", &log), ("out.txt", &REPORT.replace("6000", "600").replace("1999.5", "199.95"))]);
    let imported = import_named(&home, &["pgbench_log.7", "out.txt"], &[]);
    let warnings =
        [&imported["sweep"]["warnings"], &imported["trials"][0]["warnings"], &imported["trials"][1]["warnings"]];
    let told = warnings.map(Value::to_string).concat();
    assert!(told.contains("pgbench -T") && told.contains("import three or more runs"), "{told}");
    assert!(!told.contains("points.") && !told.contains("--pages") && !told.contains("repeats ="), "{told}");
}

#[test]
fn a_log_without_an_answer_is_a_trial_that_served_nothing() {
    let failed = "0 1 failed 0 1650260550 100\n0 2 failed 0 1650260552 100\n";
    let home = with_files(&[("failed.log", failed), ("pgbench_log.7", "")]);
    for (name, count) in [("failed.log", 2), ("pgbench_log.7", 0)] {
        let imported = import_named(&home, &[name], &[]);
        let trial = &imported["trials"][0];
        assert_eq!((kinds(trial).contains(&"nothing_served"), &trial["failed"]), (true, &json!(count)), "{trial}");
    }
}

#[test]
fn what_is_no_result_is_refused_and_nothing_is_kept() {
    let home = Home::new();
    let letters = home.path().join("letters.txt");
    fs::write(&letters, "Dear diary\n").unwrap();
    let refused = home.pgthaw(&["results", "import", letters.to_str().unwrap()]).ends_with(2);
    assert!(refused.stderr.contains("holds no result of pgbench"), "{}", refused.stderr);
    let torn = home.path().join("torn.log");
    fs::write(&torn, "0 0 100 0 1650260550 1\nDear diary\n0 1 100 0 1650260550 2\n").unwrap();
    let refused = home.pgthaw(&["results", "import", torn.to_str().unwrap()]).ends_with(2);
    assert!(refused.stderr.contains("line 2: \"Dear diary\""), "{}", refused.stderr);
    home.pgthaw(&["results", "import", "/nowhere"]).ends_with(1);
    assert_eq!(home.pgthaw(&["results", "--json"]).ok().json()["studies"], json!([]));
}

/// Files that count as far as numbers go, and further.
const BOUNDLESS: [(&str, &str); 8] = [
    (
        "a.log",
        "1700000000 18446744073709551615 1e300 0 18446744073709551615 18446744073709551615\n1700000001 18446744073709551615 1 0 0 1\n1700000002 18446744073709551615 1 0 0 1\n",
    ),
    (
        "wide.log",
        "1700000000 18446744073709551615 1 0 0 1\n1700000005 18446744073709551615 1 0 0 1\n1700000010 7 1 0 0 1\n",
    ),
    ("apart.log", "-9223372036854775808 1 1 0 0 1\n9223372036854775807 1 1 0 0 1\n"),
    (
        "transactions.log",
        "0 0 18446744073709551615 0 1700000000 1\n262142 1 18446744073709551615 0 1700000000 1 18446744073709551615\n",
    ),
    ("scripts.log", "0 0 1 4294967295 1700000000 1\n"),
    ("last.log", "0 0 1 0 9223372036854775807 4294967295\n"),
    (
        "report.txt",
        "transaction type: x\nscaling factor: 4294967295\nnumber of clients: 4294967295\nnumber of threads: 4294967295\nduration: 4294967295 s\nnumber of transactions actually processed: 18446744073709551615\nnumber of failed transactions: 18446744073709551615 (100%)\nlatency average = 1e300 ms\ntps = 1e300 (without initial connection time)\n",
    ),
    (
        "progress.txt",
        "progress: 1.0 s, 1e300 tps, lat 1e300 ms stddev 0\nprogress: 2.0 s, 1e300 tps, lat 1e300 ms stddev 0\nprogress: 3.0 s, inf tps, lat NaN ms stddev 0\n",
    ),
];

#[test]
fn counts_as_large_as_numbers_go_are_kept_or_refused() {
    let told = |home: &Home, arguments: &[&str]| {
        let output = home.pgthaw(arguments);
        assert!(!output.stderr.contains("panicked"), "{arguments:?}: {}", output.stderr);
        assert!([0, 1, 2].contains(&output.status), "{arguments:?}: {} {}", output.status, output.stderr);
        output
    };
    let mut kept = Vec::new();
    for (name, text) in BOUNDLESS {
        let home = Home::new();
        fs::write(home.path().join(name), text).unwrap();
        // Of another thread, or run, the same again.
        fs::create_dir(home.path().join("two")).unwrap();
        for copy in ["pgbench_log.1", "pgbench_log.1.1"] {
            fs::write(home.path().join("two").join(copy), text).unwrap();
        }
        for path in [name, "two"] {
            if told(&home, &["results", "import", path, "clients=1", "--json"]).status == 0 {
                kept.push((name, path));
            }
        }
        for arguments in [
            &["results", "--json"][..],
            &["results", "show"],
            &["results", "show", "--json"],
            &["results", "export", "--rows", "seconds", "--json"],
            &["results", "export", "--rows", "points"],
            &["report"],
        ] {
            told(&home, arguments);
        }
    }
    for name in ["a.log", "wide.log", "transactions.log"] {
        assert!(kept.contains(&(name, name)) && kept.contains(&(name, "two")), "{kept:?}");
    }
    assert!(!kept.contains(&("apart.log", "apart.log")) && !kept.contains(&("scripts.log", "scripts.log")), "{kept:?}");
}
