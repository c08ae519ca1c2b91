//! `pgthaw judge`: verdicts over files and stored runs, its exit status, and what it refuses.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use crate::servers::{Home, Output};
use crate::synthetic_run;

fn fixture(name: &str) -> String {
    let path: PathBuf =
        [concat!(env!("CARGO_MANIFEST_DIR"), "/../.."), "tests/fixtures/pgbench", name].iter().collect();
    path.to_str().unwrap().to_owned()
}

fn steady_of(text: &str) -> Output {
    let home = Home::new();
    fs::write(home.path().join("run.txt"), text).unwrap();
    home.pgthaw(&["judge", "run.txt", "--json"])
}

fn progress_lines(rates: impl IntoIterator<Item = f64>) -> String {
    let lines = (1..)
        .zip(rates)
        .map(|(second, rate)| format!("progress: {second}.0 s, {rate:.1} tps, lat 1.0 ms stddev 1.0\n"));
    lines.collect()
}

#[test]
fn real_runs_get_the_right_verdict() {
    for (name, status, verdict) in [
        ("cold_short.txt", 10, "not_reached"),
        ("cold_whole.txt", 0, "steady"),
        ("warm.txt", 0, "steady"),
        ("prewarmed.txt", 0, "steady"),
        ("tpcb_checkpoints.txt", 11, "periodic"),
    ] {
        let output = Home::new().pgthaw(&["judge", &fixture(name), "--json"]).ends_with(status);
        assert_eq!(output.json()["curves"][0]["verdict"], verdict, "{name}: {}", output.stdout);
    }
}

/// Faster than any device, so nothing but its noise speaks against it.
#[test]
fn a_level_whose_interval_has_nought_in_it_is_not_decided() {
    let wandering =
        |seconds: u32| (0..seconds).map(|second| 40_000.0 * (1.0 + 0.2 * (f64::from(second) / 2.2 + 20.0).sin()));
    let fast = |seconds: u32| progress_lines(wandering(seconds)).replace("lat 1.0", "lat 0.2");
    let judged = steady_of(&fast(14)).ends_with(10).json();
    let curve = &judged["curves"][0];
    assert!(curve["reason"].as_str().unwrap().starts_with("its level cannot be told from its noise"), "{curve}");
    assert!(curve["should_have_run_seconds"].as_f64().unwrap() > 14.0, "{curve}");
    let home = Home::new();
    fs::write(home.path().join("run.txt"), fast(14)).unwrap();
    let shown = home.pgthaw(&["judge", "run.txt"]).ends_with(10).stdout;
    assert!(shown.starts_with("not decided whether it is steady: "), "{shown}");
    assert!(shown.contains("\nneeded "), "{shown}");
}

/// A cold server is as even as a warm one.
#[test]
fn twelve_even_seconds_are_not_decided_and_say_what_would_decide() {
    let home = Home::new();
    let even = progress_lines((0..12).map(|second| 4000.0 + f64::from(second * 7 % 12) * 10.0));
    fs::write(home.path().join("run.txt"), even).unwrap();
    let shown = home.pgthaw(&["judge", "run.txt"]).ends_with(10).stdout;
    assert!(shown.starts_with("not decided whether it is steady: it was flat from the start"), "{shown}");
    assert!(shown.contains("--pages says how many blocks"), "{shown}");
}

/// Its fit sees a plateau of the device's and takes it for the warm one: 520 to 8945 pages, where the scale says 19,126.
#[test]
fn a_fit_that_the_known_pages_contradict_promises_nothing() {
    let judged = Home::new().pgthaw(&["judge", &fixture("cold_short.txt"), "--json"]).ends_with(10).json();
    let curve = &judged["curves"][0];
    // Several clients: how wrong the number is, is not known.
    let pages = &curve["fit"]["pages"];
    assert!(pages["high"].is_null() && 2.0 * pages["value"].as_f64().unwrap() < 19_126.0, "{curve}");
    for promise in ["steady_tps", "mean_error_share", "to_50_seconds", "to_95_seconds", "should_have_run_seconds"] {
        assert!(curve[promise].is_null(), "{promise}: {curve}");
    }
    assert!(curve["remarks"][0].as_str().unwrap().contains("19126 pages"), "{curve}");
    // Where the number fits, the promise stands.
    let judged = Home::new().pgthaw(&["judge", &fixture("cold_short.txt"), "--pages", "3000", "--json"]).json();
    assert!(judged["curves"][0]["steady_tps"].is_f64(), "{judged}");
}

#[test]
fn an_interrupted_run_without_a_summary_is_judged_too() {
    let whole = fs::read_to_string(fixture("cold_short.txt")).unwrap();
    let end = whole.find("progress: 14").unwrap() + 15;
    let judged = steady_of(&whole[..end]).ends_with(10).json();
    assert_eq!(judged["curves"][0]["remarks"][0], "left out: 1 progress line cut short");
}

#[test]
fn text_shows_the_verdict_the_curve_and_the_figures() {
    let output = Home::new().pgthaw(&["judge", &fixture("cold_whole.txt"), "--ascii"]).ok();
    assert!(output.stdout.starts_with("steady from "), "{}", output.stdout);
    for part in ["tps", "* measured", "- fitted", "whole ", "fit ", "90 % after"] {
        assert!(output.stdout.contains(part), "{part}: {}", output.stdout);
    }
}

#[test]
fn a_stored_run_is_judged_trial_by_trial() {
    let home = Home::new();
    let file = home.path().join("results.sqlite");
    let (run, trials) = synthetic_run::make(2, 20);
    crate::results::keep(&file, &run, &trials);
    let results = file.to_str().unwrap();
    let cold = home.pgthaw(&["judge", &run.id, "--strategy", "nothing", "--results", results, "--json"]).ends_with(10);
    assert_eq!(cold.json()["curves"].as_array().unwrap().len(), 2);
    assert_eq!(cold.json()["curves"][0]["name"], "nothing, repeat 1");
    let warm = home.pgthaw(&["judge", "newest", "--strategy", "pgthaw", "--results", results, "--json"]).ends_with(0);
    assert_eq!(warm.json()["curves"][1]["verdict"], "steady");
    // The trials that never got warm decide.
    home.pgthaw(&["judge", &run.id, "--results", results]).ends_with(10);
    home.pgthaw(&["judge", "no-such-run", "--results", results]).ends_with(2);
    let unknown = home.pgthaw(&["judge", "newest", "--strategy", "nosuch", "--results", results]).ends_with(2);
    assert!(
        unknown.stderr.contains("hint: it has trials of ") && unknown.stderr.contains("nothing"),
        "{}",
        unknown.stderr
    );
}

/// Its exit status is the answer: what becomes of the text must not turn it into "steady".
#[test]
fn a_reader_that_went_away_does_not_change_the_answer_and_a_full_disk_is_a_failure() {
    let home = Home::new();
    let file = fixture("cold_short.txt");
    for arguments in [vec!["judge", &file], vec!["judge", &file, "--json"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let status = home.command(&arguments).stdout(writer).status().unwrap();
        assert_eq!(status.code(), Some(10), "{arguments:?}");
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let output = Output::from(home.command(&arguments).stdout(full).output().unwrap()).ends_with(1);
        assert!(output.stderr.contains("cannot write to standard output: No space left"), "{}", output.stderr);
    }
}

#[test]
fn standard_input_is_read() {
    let home = Home::new();
    fs::write(home.path().join("run.csv"), "time;tps\n".to_owned() + &"\n".repeat(3)).unwrap();
    let shell = format!("{} judge - < run.csv", env!("CARGO_BIN_EXE_pgthaw"));
    let output = std::process::Command::new("sh").args(["-c", &shell]).current_dir(home.path()).output().unwrap();
    let output = Output::from(output).ends_with(2);
    assert!(output.stderr.contains("-: 0 intervals are too few"), "{}", output.stderr);
}

#[test]
fn bad_input_is_told_with_a_hint() {
    let backwards = progress_lines([5.0; 15]) + &progress_lines([5.0; 15]);
    let cases = [
        (String::new(), "the file is empty"),
        ("nothing here\n".into(), "no progress lines"),
        (progress_lines([5.0; 2]), "2 intervals are too few to judge: at least 10 are needed"),
        (backwards, "line 16: time runs backwards, from 15 to 1"),
        ("time,tps\nNaN,5\n".into(), "line 2: \"NaN\""),
        ("time,tps\n1,0,4711,3\n".into(), "line 2 has decimal commas"),
        ("time,tps\n1,\u{1b}[31m\n".into(), "line 2: \"?[31m\""),
        ("\u{0}".repeat(100_000), "has a line of more than 65536 bytes"),
    ];
    for (text, message) in cases {
        let output = steady_of(&text).ends_with(2);
        let failure: serde_json::Value = serde_json::from_str(&output.stderr).unwrap();
        assert!(failure["error"].as_str().unwrap().contains(message), "{failure}");
    }
    let home = Home::new();
    assert!(home.pgthaw(&["judge", "no/such.txt"]).ends_with(2).stderr.contains("hint: a stored run"));
}

#[test]
fn a_run_without_a_transaction_is_answered_by_its_verdict() {
    let failed: String = (0..30).map(|second| format!("0 {second} failed 0 {} 5\n", 1_700_000_000 + second)).collect();
    for text in [progress_lines([0.0; 30]), failed] {
        let judged = steady_of(&text).ends_with(10).json();
        let curve = &judged["curves"][0];
        assert_eq!(curve["verdict"], "not_reached", "{curve}");
        assert!(curve["reason"].as_str().unwrap().starts_with("not one transaction was served in its"), "{curve}");
    }
}

#[test]
fn what_is_not_a_number_is_a_gap_and_commas_are_points() {
    let mut lines = String::from("time;tps\n");
    for second in 1..=300 {
        let rate = if second == 150 { "NaN".to_owned() } else { format!("{},5", 20_000 + second % 7) };
        writeln!(lines, "{second},0;{rate}").unwrap();
    }
    let judged = steady_of(&lines).ok().json();
    let curve = &judged["curves"][0];
    assert!((curve["steady_tps"].as_f64().unwrap() - 20_003.5).abs() < 3.0, "{curve}");
    assert_eq!(curve["remarks"].as_array().unwrap().len(), 1);
}

#[test]
fn a_log_of_a_million_lines_is_read_whole() {
    let home = Home::new();
    let mut log = String::with_capacity(40 << 20);
    for second in 0..1_000_000_u64 {
        writeln!(log, "{} {} 1542744 483552416 61 2573", 1_700_000_000 + second, 5600 + second % 13).unwrap();
    }
    fs::write(home.path().join("log"), log).unwrap();
    let judged = home.pgthaw(&["judge", "./log", "--json"]).ok().json();
    assert_eq!(judged["curves"][0]["verdict"], "steady");
    assert!((judged["curves"][0]["run_seconds"].as_f64().unwrap() / 1e6 - 1.0).abs() < 0.001);
}
