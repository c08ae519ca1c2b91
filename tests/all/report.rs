//! `pgthaw report`, and its page in a browser.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use host::units::Bytes;
use pgthaw_lab::report::{StudyData, StudyInPage, render_report};
use pgthaw_lab::study::{Finding, SweepRun, SweepTrial};
use pgthaw_lab::verdict::{
    Metric, PointSummary, ServedSeconds, Spread, compute_outline_summary, outline_trials, render_sweep_headline,
};
use serde_json::Value;

use crate::results::keep;
use crate::schemas::check_document;
use crate::servers::{self, Home};
use crate::synthetic_run;

const HOSTILE: &str = "</script><img src=x onerror=\"window.injected = true\"><script>window.injected = true</script>";

/// What a reader sees of this run's report (web/test/open_report.mjs).
fn open(home: &Home, run: &SweepRun, trials: &[SweepTrial]) -> Value {
    keep(&home.path().join("state/pgthaw/results.sqlite"), run, trials);
    let report = home.path().join("report.html");
    let printed = home.pgthaw(&["report", "-o", report.to_str().unwrap()]).ok().stdout;
    assert_eq!(Path::new(printed.trim()), report);
    look(&report)
}

fn look(report: &Path) -> Value {
    let web = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("web");
    let mut command = Command::new("node");
    command.arg(web.join("test/open_report.mjs")).arg(report).args(screenshots());
    servers::output_of(&mut command).ok().json()
}

/// A directory for screenshots, to look at them: PGTHAW_SCREENSHOTS.
fn screenshots() -> Option<PathBuf> {
    std::env::var_os("PGTHAW_SCREENSHOTS").map(PathBuf::from)
}

#[test]
fn the_page_shows_what_is_stored() {
    let home = Home::new();
    let (run, trials) = synthetic_run::make(3, 20);
    let seen = open(&home, &run, &trials);
    assert_clean(&seen);
    assert_eq!(seen["warnings"], serde_json::json!([]));
    let headline = render_sweep_headline(&run.varied, &compute_outline_summary(&run, &outline_trials(&trials)));
    assert_eq!(seen["answer"].as_str().unwrap().replace('\u{a0}', " "), headline);
    assert_eq!(seen["title"], format!("pgthaw: {}", seen["headline"].as_str().unwrap()));
    check_charts(&seen, &trials, 20);
    check_table(&seen, &run, &trials);
    check_verdicts(&seen, &trials);
    check_interaction(&seen, run.points as usize);
    check_downloads(&seen, &run, &trials);
    check_first_screen(&seen["first"]);
}

/// The answer, its figures and what speaks against them are seen at once; the rest unfolds, and paper has all of it.
fn check_first_screen(first: &Value) {
    assert_eq!((&first["answer"], &first["against"]), (&Value::Bool(true), &Value::Bool(true)), "{first:#}");
    let figures: Vec<&str> = first["figures"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert_eq!(figures.len(), 4, "{figures:?}");
    assert!(figures[0].starts_with("pgthaw warm after ") && figures[0].contains("nothing > 20 s"), "{figures:?}");
    let folded = first["folded"].as_array().unwrap().len();
    assert!(folded >= 5, "{first:#}");
    assert_eq!((&first["folded_on_paper"], &first["folded_after"]), (&0.into(), &folded.into()));
}

#[test]
fn hostile_names_stay_text() {
    let home = Home::new();
    let (mut run, mut trials) = synthetic_run::make(1, 20);
    run.machine.hostname = HOSTILE.into();
    run.question = HOSTILE.into();
    run.warmup.as_mut().unwrap().disk.name = HOSTILE.into();
    let left_out = Finding::StrategyLeftOut { strategy: format!("no {HOSTILE}"), how: HOSTILE.into() };
    run.verdicts.push(left_out.into());
    for trial in &mut trials {
        trial.point.script = HOSTILE.into();
        trial.settings.push((HOSTILE.into(), HOSTILE.into()));
        if let Some(outcome) = &mut trial.strategy_outcome {
            (outcome.command, outcome.output) = (HOSTILE.into(), HOSTILE.into());
        }
        trial.warming.as_mut().unwrap().residency[0].relation = HOSTILE.into();
        if trial.point.strategy == "seqscan" {
            trial.point.strategy = HOSTILE.into();
        }
    }
    let seen = open(&home, &run, &trials);
    assert_clean(&seen);
    assert_eq!(seen["injected"], Value::Null);
    assert!(seen["warnings"].to_string().contains("onerror"), "{}", seen["warnings"]);
    assert!(seen["table"].to_string().contains("onerror"), "{}", seen["table"]);
    assert!(seen["interaction"]["pointer"].as_str().unwrap().contains(HOSTILE), "{}", seen["interaction"]);
}

#[test]
fn a_run_with_little_in_it_is_shown_too() {
    let home = Home::new();
    let (mut run, mut trials) = synthetic_run::make(1, 20);
    (run.ended_at, run.warmup) = (None, None);
    trials.retain(|trial| trial.point.strategy == "nothing" || trial.point.strategy == "cat");
    let failed = Finding::StrategyFailed { strategy: "cat".into(), reason: "the workload broke off".into() };
    trials[0].verdicts.push(failed.into());
    for trial in &mut trials {
        trial.start_state.as_mut().unwrap().verdict = "lukewarm".into();
        let warming = trial.warming.as_mut().unwrap();
        warming.residency.clear();
        let figures = &mut warming.figures;
        (figures.warm_after_seconds, figures.warm_tps, figures.bound_seconds) = (None, None, None);
    }
    let seen = open(&home, &run, &trials);
    assert_clean(&seen);
    let warnings = seen["warnings"].to_string();
    for warning in ["has not ended", "the workload broke off"] {
        assert!(warnings.contains(warning), "{warning}: {warnings}");
    }
}

#[test]
fn the_file_stands_alone() {
    let (run, trials) = synthetic_run::make(1, 5);
    let study = StudyData::new(run, outline_trials(&trials), Vec::new(), &ServedSeconds::new());
    let html = render_report(&[StudyInPage { study, details: None }]).unwrap();
    assert!(html.contains("default-src 'none'"));
    assert_eq!(html.matches("<script").count(), 2, "the data and the one script");
    let data = html.split_once("id=\"pgthaw-data\">").unwrap().1.split_once("</script>").unwrap().0;
    check_document("report-page", &serde_json::from_str(data).unwrap());
    let (head, rest) = html.split_once("<script>/*").unwrap();
    let (licences, rest) = rest.split_once("*/").unwrap();
    for text in ["The Apache Software Foundation", "Apache License", "Mike Bostock", "Baidu", "BSD 3-Clause License"] {
        assert!(licences.contains(text), "what is bundled hands down its licence: {text}");
    }
    // The one address beside those in licences is SVG's name space, which is never fetched.
    let html = [head, rest].concat();
    let addresses = html.match_indices("http").map(|(at, _)| &html[at..(at + 60).min(html.len())]);
    for address in addresses {
        assert!(address.starts_with("http://www.w3.org/") || address.starts_with("http-equiv"), "{address}");
    }
}

#[test]
fn another_file_is_replaced_only_by_force() {
    let home = Home::new();
    let (run, trials) = synthetic_run::make(1, 5);
    keep(&home.path().join("state/pgthaw/results.sqlite"), &run, &trials);
    let name = format!("pgthaw-report-{}.html", run.id);
    assert_eq!(home.pgthaw(&["report"]).ok().stdout.trim(), name);
    let again = home.pgthaw(&["report", &run.id[..8], "--json"]).ok().json();
    assert_eq!((again["run"].as_str(), again["report"].as_str()), (Some(run.id.as_str()), Some(name.as_str())));

    fs::write(home.path().join("letters"), "Dear diary").unwrap();
    let refused = home.pgthaw(&["report", "-o", "letters"]).ends_with(2);
    assert!(
        refused.stderr.contains("is not a pgthaw report") && refused.stderr.contains("--force"),
        "{}",
        refused.stderr
    );
    assert_eq!(fs::read_to_string(home.path().join("letters")).unwrap(), "Dear diary");
    home.pgthaw(&["report", "-o", "letters", "--force"]).ok();
    home.pgthaw(&["report", "-o", "missing/report.html"]).ends_with(1);
}

/// No complaint, no request, nothing clipped, in light, dark and on a phone.
#[track_caller]
fn assert_clean(seen: &Value) {
    assert_eq!(seen["errors"], serde_json::json!([]));
    assert_eq!(seen["requests"], serde_json::json!([]));
    for view in ["light", "dark", "phone"] {
        assert_eq!(seen[view]["overflow"], 0, "{view}");
        assert_eq!(seen[view]["clipped"], serde_json::json!([]), "{view}");
        assert_eq!(seen[view]["drawn"], seen["charts"].as_object().unwrap().len(), "{view}");
    }
    assert_eq!(seen["light"]["background"], "rgb(251, 251, 249)");
    assert_eq!(seen["dark"]["background"], "rgb(18, 21, 24)");
    assert_eq!(seen["toggled"], seen["dark"]["background"]);
    assert_eq!(seen["phone"]["background"], seen["light"]["background"]);
}

fn check_charts(seen: &Value, trials: &[SweepTrial], seconds: u64) {
    let names: Vec<&str> = trials.iter().filter(|one| one.repeat == 1).map(|one| one.point.strategy.as_str()).collect();
    let points = |chart: &str, series: &str| {
        let all = seen["charts"][chart].as_array().unwrap_or_else(|| panic!("no chart {chart}"));
        let found =
            all.iter().find(|one| one["id"] == series).unwrap_or_else(|| panic!("{chart} has no {series}: {all:?}"));
        found["points"].as_u64().unwrap()
    };
    for strategy in &names {
        // A rate for every second; a state at the start as well.
        for (chart, expected) in
            [("throughput", seconds), ("served", seconds + 1), ("resident", seconds + 1), ("device", seconds)]
        {
            assert_eq!(points(chart, &format!("line:{strategy}")), expected, "{chart} of {strategy}");
        }
        // pg_prewarm in prefetch mode lets no transaction through, so there is no latency.
        let served_any = *strategy != "pg_prewarm-prefetch";
        assert_eq!(points("latency", &format!("line:{strategy}")) > 0, served_any, "latency of {strategy}");
    }
    let strategies = names.len() as u64;
    for strategy in names.iter().filter(|strategy| **strategy != "nothing") {
        assert_eq!(points("interference", &format!("line:{strategy}")), seconds, "{strategy} beside nothing");
    }
    assert!(points("throughput", "warm") > 0);
    assert_eq!((points("warm-times", "bars"), points("warm-times", "labels")), (strategies, strategies));
    assert_eq!(points("ratios", "bars"), strategies, "each has a ratio to the bound");
    for chart in ["heat-1", "heat-2"] {
        assert_eq!((points(chart, "before"), points(chart, "after")), (64 * strategies, 64 * strategies), "{chart}");
    }
}

/// The page's table has every column of the terminal's, with the stored results' medians and ranges.
fn check_table(seen: &Value, run: &SweepRun, trials: &[SweepTrial]) {
    let points = compute_outline_summary(run, &outline_trials(trials));
    let rows: Vec<Vec<String>> = serde_json::from_value(seen["table"].clone()).unwrap();
    let header = "warmer, warm after, 50 % after, 90 % after, 95 % after, warm ÷ bound (×), served until warm (transactions), \
                  served in total (transactions), command took, read from the device (all processes)";
    assert_eq!(rows[0].join(", "), header);
    assert_eq!(rows.len(), points.len() + 1);
    for (row, point) in rows[1..].iter().zip(&points) {
        assert_eq!(*row, expected_row(point, 20.0));
    }
}

/// Every trial has its verdict; where nothing warmed beside, the fit's curve is that of the model, and elsewhere none is drawn.
fn check_verdicts(seen: &Value, trials: &[SweepTrial]) {
    let rows: Vec<Vec<String>> = serde_json::from_value(seen["verdicts"].clone()).unwrap();
    assert_eq!(rows.len(), 1 + trials.len());
    let warmed = rows.iter().find(|row| row[0] == "pgthaw").unwrap();
    assert!(
        warmed[2].starts_with("steady from ") && warmed[5] == "none: a warmer ran beside the workload",
        "{warmed:?}"
    );
    // In 20 s a level at the end is too short to tell, and the page says that as the terminal does.
    let cold = rows.iter().find(|row| row[0] == "nothing").unwrap();
    assert!(cold[2] == "not decided" && cold[5].starts_with("cold "), "{cold:?}");
    let fits = seen["fits"].as_object().unwrap();
    assert_eq!(fits.len(), 3, "of nothing alone: {fits:?}");
    for trial in outline_trials(trials).iter().filter(|trial| trial.point.strategy == "nothing") {
        let curve = trial.judgement.as_ref().unwrap().fit.as_ref().unwrap().curve().unwrap();
        let [at, tps] = [0, 1].map(|place| fits[&format!("fit:nothing:{}", trial.repeat)][place].as_f64().unwrap());
        let expected = curve.throughput(curve.transactions_after(at));
        assert!(at == 19.5 && (tps / expected - 1.0).abs() < 1e-9, "{tps} {expected}");
    }
}

fn expected_row(point: &PointSummary, limit: f64) -> Vec<String> {
    let bound = point.median(Metric::Bound).unwrap();
    let seconds = |metric| expected_cell(point.figure(metric), &format!("{limit} s"), |value| format!("{value:.1} s"));
    let amount = |metric| expected_cell(point.figure(metric), "", with_commas);
    let ratio = |value: f64| format!("{value:.2}");
    vec![
        point.label.clone(),
        seconds(Metric::WarmAfter),
        seconds(Metric::To50),
        seconds(Metric::To90),
        seconds(Metric::To95),
        expected_cell(point.figure(Metric::BoundRatio), &ratio(limit / bound), ratio),
        amount(Metric::ServedUntilWarm),
        amount(Metric::Served),
        seconds(Metric::Warmer),
        expected_cell(point.figure(Metric::DeviceRead), "", |value| Bytes(value as u64).to_string()),
    ]
}

fn expected_cell(spread: Option<Spread>, limit: &str, render: impl Fn(f64) -> String) -> String {
    let Some(spread) = spread else { return "–".into() };
    let or_beyond = |value: Option<f64>| value.map_or_else(|| format!("> {limit}"), &render);
    let (low, high) = (or_beyond(spread.min), or_beyond(spread.max));
    if low == high {
        return or_beyond(spread.median);
    }
    // A unit that both have is said once.
    let unit = high.rfind(' ').map_or("", |at| &high[at..]);
    format!("{}|{}–{high}", or_beyond(spread.median), low.strip_suffix(unit).unwrap_or(&low))
}

fn with_commas(value: f64) -> String {
    let digits = format!("{value:.0}");
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().map(|group| std::str::from_utf8(group).unwrap()).collect();
    groups.join(",")
}

fn check_interaction(seen: &Value, strategies: usize) {
    let interaction = &seen["interaction"];
    assert_eq!(
        interaction["hidden"],
        serde_json::json!({ "before": strategies, "after": strategies - 1, "pressed": "false" })
    );
    assert_eq!(interaction["axis"], "log");
    assert_eq!(interaction["numbers"].as_array().unwrap().len(), 20 + 1);
    let pointer = interaction["pointer"].as_str().unwrap();
    assert!(pointer.contains("second 1") && pointer.contains("pg_prewarm-read"), "{pointer}");
}

fn check_downloads(seen: &Value, run: &SweepRun, trials: &[SweepTrial]) {
    let file = |ending: &str| seen["downloads"][format!("pgthaw-{}{ending}", run.id)].as_str().unwrap().to_owned();
    let all: Value = serde_json::from_str(&file(".json")).unwrap();
    let mut told: SweepRun = serde_json::from_value(all["sweep"].clone()).unwrap();
    // A browser rounds these, and has them as texts.
    let exact = |field: &str| all["exact"][field].as_str().unwrap().parse::<u64>().unwrap();
    (told.seed, told.server.system_identifier) = (exact("seed"), exact("system_identifier"));
    assert_eq!((&told.id, told.seed, &told.server), (&run.id, run.seed, &run.server));
    assert_eq!(all["trials"].as_array().unwrap().len(), trials.len());

    let samples = file("-samples.csv");
    assert_eq!(samples.lines().count(), 1 + trials.iter().map(|trial| trial.samples.len()).sum::<usize>());
    let first = format!("nothing,1,1,1,{},", trials[0].samples[0].transactions);
    assert!(samples.lines().nth(1).unwrap().starts_with(&first), "{samples:.300}");
    assert_eq!(file("-trials.csv").lines().count(), 1 + trials.len());
    assert_eq!(file("-points.csv").lines().count(), 1 + run.points as usize);
}
