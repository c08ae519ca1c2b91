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

/// The sentence says between which rates the curve moved: more than all of it is no percentage.
#[test]
fn a_curve_that_is_too_noisy_for_a_level_says_between_what_it_moved() {
    let wandering = (0..14).map(|second| 40_000.0 * (1.0 + 0.9 * (f64::from(second) / 2.2 + 20.0).sin()));
    let home = Home::new();
    fs::write(home.path().join("run.txt"), progress_lines(wandering)).unwrap();
    let shown = home.pgthaw(&["judge", "run.txt"]).ends_with(10).stdout;
    let first = shown.lines().next().unwrap();
    assert!(first.starts_with("steady state undecided: ") && !first.contains('%'), "{shown}");
}

/// A cold server is as even as a warm one: there is a level, and whether it is warm is another question.
#[test]
fn twelve_even_seconds_are_a_level_and_say_what_would_tell_whether_it_is_warm() {
    let home = Home::new();
    let even = progress_lines((0..12).map(|second| 4000.0 + f64::from(second * 7 % 12) * 10.0));
    fs::write(home.path().join("run.txt"), &even).unwrap();
    let shown = home.pgthaw(&["judge", "run.txt"]).ends_with(0).stdout;
    assert!(shown.starts_with("steady at once: its throughput stayed level until the end (±"), "{shown}");
    let second = shown.lines().nth(1).unwrap();
    assert!(second.starts_with("unknown whether the server is warm: ") && second.contains("--pages"), "{shown}");
    let sized = home.pgthaw(&["judge", "run.txt", "--pages", "1000", "--json"]).ends_with(0).json();
    assert_eq!(sized["curves"][0]["warmth"]["is_warm"], true, "{sized}");
    // Reads beside the rates decide.
    let read = |reads: u32| {
        let lines: String = (1..=30).map(|second| format!("{second},{},{reads}\n", 4000 + second % 3)).collect();
        steady_of(&format!("time,tps,reads\n{lines}"))
    };
    let cold = read(800).ends_with(10).json();
    let warmth = &cold["curves"][0]["warmth"];
    assert_eq!(warmth["evidence"], "each transaction read 0.20 blocks from the device, as many at the end as before");
    assert_eq!(cold["curves"][0]["verdict"], "steady");
    assert_eq!(warmth["is_warm"], false);
    assert_eq!(read(3).ends_with(0).json()["curves"][0]["warmth"]["is_warm"], true);
}

/// What collectors, editors and Windows make of pgbench's text.
#[test]
fn a_log_is_read_however_it_was_kept() {
    let plain = fs::read_to_string(fixture("cold_whole.txt")).unwrap();
    let expected = steady_of(&plain).ends_with(0).json();
    let home = Home::new();
    let utf_16: Vec<u8> =
        std::iter::once(0xfeff).chain(plain.replace('\n', "\r\n").encode_utf16()).flat_map(u16::to_le_bytes).collect();
    let prefixed: String = plain.lines().map(|line| format!("[web1] out: {line}\n")).collect();
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut packed, plain.as_bytes()).unwrap();
    for (name, bytes) in [
        ("no-mark.txt", utf_16[2..].to_vec()),
        ("powershell.txt", utf_16),
        ("crlf.txt", plain.replace('\n', "\r\n").into_bytes()),
        ("mark.txt", [&b"\xef\xbb\xbf"[..], plain.as_bytes()].concat()),
        ("prefixed.txt", prefixed.into_bytes()),
        ("run.txt.gz", packed.finish().unwrap()),
    ] {
        fs::write(home.path().join(name), bytes).unwrap();
        let judged = home.pgthaw(&["judge", &format!("./{name}"), "--json"]).ends_with(0).json();
        for field in ["verdict", "steady_from_seconds", "steady_tps", "warmth", "fit"] {
            assert_eq!(judged["curves"][0][field], expected["curves"][0][field], "{name}, {field}");
        }
        let imported =
            home.pgthaw(&["results", "import", "--results", &format!("{name}.sqlite"), &format!("./{name}"), "--json"]);
        let imported = imported.ok().json();
        assert_eq!(imported["trials"][0]["transactions"], 499_703, "{name}");
        let version = imported["sweep"]["pgbench_version"].as_str().unwrap();
        assert!(version.contains("15.18 (Debian"), "{name}: {version}");
    }
}

#[test]
fn what_is_there_of_a_compressed_file_that_was_cut_is_judged_and_the_cut_told() {
    let home = Home::new();
    let progress = progress_lines((0..3000).map(|second| 4000.0 + f64::from(second * 37 % 101)));
    let transactions: String = (0..60_000)
        .map(|number| format!("0 {number} {} 0 {} 5\n", 900 + number * 37 % 101, 1_700_000_000 + number / 20))
        .collect();
    for (name, text) in [("progress.gz", progress), ("pgbench_log.7.gz", transactions)] {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut packed, text.as_bytes()).unwrap();
        let bytes = packed.finish().unwrap();
        fs::write(home.path().join(name), &bytes[..bytes.len() / 2]).unwrap();
        let path = format!("./{name}");
        let judged = home.pgthaw(&["judge", &path, "--json"]).ends_with(0).json()["curves"][0].clone();
        let seconds = judged["run_seconds"].as_f64().unwrap();
        assert!((1000.0..2000.0).contains(&seconds), "{judged}");
        assert_eq!(judged["remarks"][0], format!("{path} is truncated: only the existing part was read"));
        let imported = home.pgthaw(&["results", "import", "--results", &format!("{name}.sqlite"), &path]).ok();
        assert!(imported.stdout.contains("is truncated: only the existing part was read"), "{}", imported.stdout);
    }
}

#[test]
fn a_first_line_that_is_late_and_a_file_without_its_beginning_are_judged() {
    let late: String = (0..32)
        .map(|line| match line {
            0 => "progress: 144.0 s, 0.0 tps, lat -nan ms stddev -nan\n".to_owned(),
            1 => "progress: 160.0 s, 58.7 tps, lat 265.4 ms stddev 127.4\n".to_owned(),
            line => {
                format!("progress: {}.0 s, {}.0 tps, lat 13.3 ms stddev 4.1\n", 140 + 20 * line, 1190 + line % 3 * 10)
            }
        })
        .collect();
    let judged = steady_of(&late).ends_with(0).json();
    assert_eq!(judged["curves"][0]["remarks"][0], "left out: the first 144.0 s, while pgbench connected");
    let tail: String = (501..=600)
        .map(|second| format!("progress: {second}.0 s, {}.0 tps, lat 13.3 ms stddev 4.7\n", 1190 + second % 3 * 10))
        .collect();
    let judged = steady_of(&tail).ends_with(0).json();
    assert_eq!(judged["curves"][0]["run_seconds"], 100.0);
    assert_eq!(judged["curves"][0]["remarks"][0], "the file begins 500 s into the run: times count from there");
}

#[test]
fn a_rate_that_was_not_kept_is_told_with_what_was_asked_served_and_late() {
    let lines: String = (3..=40)
        .map(|second| {
            format!(
                "progress: {second}.0 s, 1500.0 tps, lat 9.0 ms stddev 1.0, 0 failed, lag {}.5 ms\n",
                (second - 2) * 850
            )
        })
        .collect();
    let text = format!("progress: 2.5 s, 0.0 tps, lat 0.0 ms stddev 0.0, 0 failed, lag 0.000 ms\n{lines}");
    let judged = steady_of(&text).ends_with(0).json();
    let remarks = &judged["curves"][0]["remarks"];
    assert_eq!(remarks[0], "left out: the first 2.5 s, while pgbench connected");
    let missed = remarks[1].as_str().unwrap();
    assert!(missed.starts_with("the rate was not kept: about 1"), "{missed}");
    assert!(missed.contains("1500 were served") && missed.ends_with("grew to 32.3 s"), "{missed}");
}

#[test]
fn the_logs_of_a_runs_threads_are_one_curve() {
    let home = Home::new();
    let log = |rate: u32| -> String {
        (0..60).map(|second| format!("{} {} 99 99 9 9\n", 1_700_000_000 + second, rate + second % 3)).collect()
    };
    for (name, rate) in
        [("pgbench_log.7", 300), ("pgbench_log.7.1", 200), ("pgbench_log.7.2", 100), ("pgbench_log.8", 50)]
    {
        fs::write(home.path().join(name), log(rate)).unwrap();
    }
    for files in [&["./pgbench_log.7"][..], &["./pgbench_log.7", "./pgbench_log.7.1", "./pgbench_log.7.2"]] {
        let arguments = [&["judge", "--json"][..], files].concat();
        let curves = home.pgthaw(&arguments).ends_with(0).json()["curves"].clone();
        assert_eq!(curves.as_array().unwrap().len(), 1, "{curves}");
        assert!((curves[0]["steady_tps"].as_f64().unwrap() - 603.0).abs() < 4.0, "{curves}");
    }
    fs::remove_file(home.path().join("pgbench_log.7.1")).unwrap();
    let gap = "pgbench_log.7.1 is missing, and its transactions are not counted";
    for files in [&["./pgbench_log.7"][..], &["./pgbench_log.7", "./pgbench_log.7.2"]] {
        let curve = home.pgthaw(&[&["judge", "--json"][..], files].concat()).ends_with(0).json()["curves"][0].clone();
        assert_eq!(curve["remarks"][0], format!("./{gap}"));
        assert!((curve["steady_tps"].as_f64().unwrap() - 402.0).abs() < 4.0, "{curve}");
    }
    let imported = home.pgthaw(&["results", "import", "./pgbench_log.7", "./pgbench_log.7.2"]).ok();
    assert!(imported.stdout.contains(gap), "{}", imported.stdout);
    fs::write(home.path().join("pgbench_log.7.1"), log(200)).unwrap();
    let both = home.pgthaw(&["judge", "--json", "./pgbench_log.8", "./pgbench_log.7"]).ends_with(0).json();
    let levels: Vec<f64> =
        both["curves"].as_array().unwrap().iter().map(|curve| curve["steady_tps"].as_f64().unwrap()).collect();
    assert!((levels[0] - 51.0).abs() < 2.0 && (levels[1] - 603.0).abs() < 4.0, "{levels:?}");
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
    assert!(curve["remarks"][0].as_str().unwrap().contains("the workload's 19126"), "{curve}");
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
        unknown.stderr.contains("hint: its strategies are ") && unknown.stderr.contains("nothing"),
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
        ("time,tps\n1,0,4711,3\n".into(), "line 2 uses commas both as decimal marks"),
        ("time,tps\n1,\u{1b}[31m\n".into(), "line 2: \"?[31m\""),
        ("\u{0}".repeat(100_000), "has a line of more than 65536 bytes"),
    ];
    for (text, message) in cases {
        let output = steady_of(&text).ends_with(2);
        let failure: serde_json::Value = serde_json::from_str(&output.stderr).unwrap();
        assert!(failure["error"].as_str().unwrap().contains(message), "{failure}");
    }
    let home = Home::new();
    assert!(home.pgthaw(&["judge", "no/such.txt"]).ends_with(2).stderr.contains("lists stored runs"));
}

#[test]
fn a_run_without_a_transaction_is_answered_by_its_verdict() {
    let failed: String = (0..30).map(|second| format!("0 {second} failed 0 {} 5\n", 1_700_000_000 + second)).collect();
    for text in [progress_lines([0.0; 30]), failed] {
        let judged = steady_of(&text).ends_with(10).json();
        let curve = &judged["curves"][0];
        assert_eq!(curve["verdict"], "not_reached", "{curve}");
        assert!(curve["reason"].as_str().unwrap().starts_with("it served no transaction in its"), "{curve}");
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
