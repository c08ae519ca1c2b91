//! `results import`: what is not there, what cannot be so, and what was there before.

use std::fs;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use super::bench::text;
use super::results_import::{REPORT, import_named, transactions, transactions_of, trials_of, with_files};

#[test]
fn figures_that_no_pgbench_has_are_refused_with_their_file() {
    let log = "0 0 100 0 1650260550 1\n4294967295 0 100 0 1650260550 2\n";
    for (said, edited, told) in [
        ("scaling factor: 10", "scaling factor: 0", "its scaling factor is 0"),
        ("number of clients: 4", "number of clients: 0", "its number of clients is 0, but pgbench accepts 1 to 262143"),
        ("number of clients: 4", "number of clients: 4294967295", "its number of clients is 4294967295"),
        ("number of clients: 4", "number of clients: -4", "its number of clients is 0"),
        ("number of threads: 2", "number of threads: 5", "5 threads for 4 clients"),
        ("duration: 3 s", "duration: 0 s", "its duration is 0"),
        ("duration: 3 s", "duration: 99999999999 s", "its duration is 4294967295"),
        ("duration: 3 s", "number of transactions per client: 0", "transactions per client is 0"),
    ] {
        let home = with_files(&[("out.txt", &REPORT.replace(said, edited))]);
        let refused = home.pgthaw(&["results", "import", "in/out.txt"]).ends_with(2).stderr;
        assert!(refused.contains("in/out.txt: ") && refused.contains(told), "{edited}: {refused}");
        assert!(refused.contains("as pgbench wrote it"), "{edited}: {refused}");
    }
    let home = with_files(&[("pgbench_log.1", log)]);
    let refused = home.pgthaw(&["results", "import", "in/pgbench_log.1"]).ends_with(2).stderr;
    assert!(refused.contains("in/pgbench_log.1: the log has a client number above 262142"), "{refused}");
    for key in ["scale=0", "clients=0", "jobs=0", "seconds=0"] {
        let refused = home.pgthaw(&["results", "import", "in/pgbench_log.1", key]).ends_with(2).stderr;
        assert!(refused.contains(key) && refused.contains("at least 1"), "{key}: {refused}");
    }
}

/// pgbench logs no interval that it ends in.
#[test]
fn an_interval_that_is_not_there_is_told_and_not_counted() {
    let intervals = "1650260550 1000 500000 7 5 5\n1650260560 1000 500000 7 5 5\n";
    let report = REPORT.replace("duration: 3 s", "duration: 30 s").replace("6000", "3000").replace("1999.5", "100.0");
    let log = transactions(1_650_260_550, 20, 100);
    // Of a log of all that the report counts, the last two seconds of thirty.
    let nearly = transactions(1_650_260_550, 28, 1000);
    let counted = REPORT.replace("duration: 3 s", "duration: 30 s").replace("6000", "28010");
    let progress: String =
        (1..=20).map(|second| format!("progress: {second}.0 s, 100.0 tps, lat 1 ms stddev 1\n")).collect();
    let files = [
        ("a.log", intervals),
        ("a.out", report.as_str()),
        ("pgbench_log.7", log.as_str()),
        ("progress.txt", progress.as_str()),
        ("whole/pgbench_log.1", nearly.as_str()),
        ("whole/out.txt", counted.as_str()),
    ];
    let home = with_files(&files);
    let gap_of = |names: &[&str], options: &[&str]| {
        let imported = import_named(&home, names, options);
        let trial = trials_of(&imported)[0].clone();
        let told = trial["verdicts"].as_array().unwrap().iter().find(|one| one["kind"] == "log_gaps").cloned();
        home.pgthaw(&["results", "drop", text(&imported, "/sweep/id")]).ok();
        let figures =
            ["seconds", "of_seconds", "longest_after_seconds"].map(|key| told.clone().unwrap_or_default()[key].clone());
        (figures, trial)
    };
    for (names, asked) in [(["a.log"], 40), (["pgbench_log.7"], 30), (["progress.txt"], 30)] {
        let (gap, trial) = gap_of(&names, &[format!("seconds={asked}").as_str()]);
        assert_eq!(gap, [json!(asked - 20), json!(asked), json!(20)], "{names:?}: {}", trial["verdicts"]);
        assert_eq!((&trial["tps"], trial["samples"].as_array().unwrap().len()), (&json!(100.0), 20), "{names:?}");
        let (gap, trial) = gap_of(&names, &[]);
        let tps = trial["tps"].as_f64().unwrap().round();
        assert_eq!((&gap[0], tps), (&Value::Null, 100.0), "{names:?}: {}", trial["verdicts"]);
    }
    // One interval is missing of every such log: no gap, and no time without transactions.
    for (names, options) in [(&["a.log"][..], &["seconds=30"][..]), (&["a.log", "a.out"][..], &[][..])] {
        let (gap, trial) = gap_of(names, options);
        assert_eq!((&gap[0], &trial["tps"]), (&Value::Null, &json!(100.0)), "{names:?}: {}", trial["verdicts"]);
        assert_eq!(trial["samples"].as_array().unwrap().len(), 20);
    }
    let (gap, trial) = gap_of(&["whole"], &[]);
    assert_eq!((gap, trial["samples"].as_array().unwrap().len()), ([json!(2), json!(30), json!(28)], 28));
}

#[test]
fn the_same_is_known_again_by_what_it_holds() {
    let home = with_files(&[("results/one/1/results.txt", REPORT)]);
    let imported = import_named(&home, &["results"], &[]);
    let sweep = &imported["sweep"];
    assert!(text(sweep, "/started_at") < text(sweep, "/ended_at"), "{sweep}");
    // A copy, later and under another name.
    let copy = home.path().join("in/elsewhere/results/two/7");
    fs::create_dir_all(&copy).unwrap();
    fs::write(copy.join("results.txt"), REPORT).unwrap();
    let later = SystemTime::now() + Duration::from_secs(3600);
    fs::File::options().append(true).open(copy.join("results.txt")).unwrap().set_modified(later).unwrap();
    for path in ["in/elsewhere", "in/elsewhere/results/two/7/results.txt"] {
        let refused = home.pgthaw(&["results", "import", path]).ends_with(1).stderr;
        assert!(refused.contains("were already imported"), "{path}: {refused}");
    }
}

#[test]
fn threads_are_counted_by_their_logs_or_told_to_be_assumed() {
    let (one, other) = (transactions(1_650_260_550, 3, 1000), transactions_of(4, 1_650_260_550, 3, 1000));
    let home = with_files(&[("pgbench_log.7", &one), ("pgbench_log.7.1", &other)]);
    let imported = import_named(&home, &["pgbench_log.7", "pgbench_log.7.1"], &[]);
    let trial = &trials_of(&imported)[0];
    assert_eq!((&trial["point"]["jobs"], trial["warnings"].to_string().contains("threads")), (&json!(2), false));
    let imported = import_named(&home, &["pgbench_log.7"], &[]);
    let trial = &trials_of(&imported)[0];
    assert!(
        trial["warnings"].to_string().contains("the number of pgbench's threads is not in"),
        "{}",
        trial["warnings"]
    );
    let imported = import_named(&home, &["pgbench_log.7"], &["jobs=2"]);
    assert_eq!(trials_of(&imported)[0]["point"]["jobs"], 2);
    let refused = home.pgthaw(&["results", "import", "in/pgbench_log.7", "clients=4", "jobs=5"]).ends_with(2);
    assert!(refused.stderr.contains("no more threads than its 4 clients"), "{}", refused.stderr);
}

#[test]
fn an_aborted_run_does_not_count_among_its_repeats() {
    let aborted = format!(
        "{}pgbench: error: Run was aborted; the above results are incomplete.\n",
        REPORT.replace("6000", "60").replace("1999.5", "19.5")
    );
    let faster = REPORT.replace("1999.5", "2001.5");
    let home = with_files(&[("1/out.txt", REPORT), ("2/out.txt", &faster), ("3/out.txt", &aborted)]);
    let imported = import_named(&home, &["."], &[]);
    let point = &imported["points"][0];
    assert_eq!((&point["trials"], &point["failures"], &point["warnings"]), (&json!(3), &json!(1), &json!({})));
    assert_eq!((&point["tps"]["median"], &point["tps"]["min"]), (&json!(2000.5), &json!(1999.5)), "{point}");
    assert!(!text(&imported, "/headline").contains("measured something other"), "{}", imported["headline"]);
    let shown = home.pgthaw(&["results", "show"]).ok().stdout;
    assert!(shown.contains("3 (1 failed)") && shown.contains("(1 of 3): pgbench aborted before the end"), "{shown}");
    let csv = home.pgthaw(&["results", "export", "--rows", "points"]).ok().stdout;
    assert!(csv.contains(",2,2000.5,"), "{csv}");
    // Where nothing else is there, nothing is counted.
    let home = with_files(&[("out.txt", &aborted)]);
    let imported = import_named(&home, &["."], &[]);
    assert_eq!((&imported["points"][0]["failures"], &imported["points"][0]["tps"]), (&json!(1), &Value::Null));
    let shown = home.pgthaw(&["results", "show"]).ok().stdout;
    assert!(shown.contains("aborted before the end") && shown.contains("1 (1 failed)"), "{shown}");
}
