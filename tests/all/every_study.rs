//! Warmers, a sweep and a residency study on one page: in one report, and as they are served.

use host::units::Bytes;
use pgthaw_lab::study::{Bound, Brought, LoadSample, SweepRun, SweepTrial};
use serde_json::{Value, json};

use crate::report_sweep::{SHAPE, keep, look_by};
use crate::serve::serve;
use crate::servers::Home;
use crate::synthetic_run;
use crate::synthetic_sweep::{self, Shape};

const SECONDS: u32 = 12;

/// Of the sweep.
const QUESTION: &str = "What do clients and size do to the worst second?";

/// A sweep of warmers whose trials have no load, and end when what is wanted is resident.
pub fn make_residency() -> (SweepRun, Vec<SweepTrial>) {
    let strategies = &["cat", "pg_prewarm-buffer", "pgthaw"];
    let shape = Shape { scales: &[10], clients: &[8], buffers: &["1GB"], strategies, repeats: 3, seconds: SECONDS };
    let (mut run, mut trials) = synthetic_sweep::make(&shape);
    run.id = "20261122-080000-0c0c".into();
    run.question = "How soon is it resident?".into();
    run.study["until"] = json!("resident");
    for trial in &mut trials {
        trial.sweep_id.clone_from(&run.id);
        make_idle(trial);
    }
    (run, trials)
}

fn make_idle(trial: &mut SweepTrial) {
    let warming = trial.warming.as_mut().unwrap();
    let wanted = warming.figures.wanted_bytes.unwrap();
    // Of the second one a round did not get there.
    let seconds = match (trial.point.strategy.as_str(), trial.repeat) {
        ("pg_prewarm-buffer", 2) => None,
        ("pgthaw", repeat) => Some(1.3 + f64::from(repeat) / 10.0),
        (_, repeat) => Some(3.0 + f64::from(repeat) / 10.0),
    };
    let looks = |share: f64| LoadSample {
        seconds: share * seconds.unwrap_or(f64::from(SECONDS)),
        resident_bytes: Bytes((wanted.0 as f64 * share) as u64),
        is_exact: true,
        buffers_bytes: (trial.point.strategy == "pgthaw").then_some(Bytes((1e8 * share) as u64)),
        hot_bytes: None,
    };
    warming.looks = (0..=30).map(|step| looks(f64::from(step) / 30.0)).collect();
    warming.figures.brought = Some(Brought {
        wanted_pages: wanted.0 / 4096,
        wanted_pieces: 12,
        bound: Some(Bound { reads: 100, read_bytes: wanted, seconds: 1.2 }),
        resident_after_seconds: seconds,
        buffers_after_seconds: seconds.filter(|_| trial.point.strategy == "pgthaw").map(|seconds| seconds + 0.4),
        resident_bytes: wanted,
        cpu_seconds: Some(0.1),
        device_reads: Some(1000),
        ..Brought::default()
    });
    (trial.latency, trial.worst_second_tps, trial.transactions, trial.tps) = (None, None, 0, 0.0);
    trial.scripts.clear();
    for sample in &mut trial.samples {
        (sample.transactions, sample.latency_us_mean) = (0, None);
        (sample.latency_us_min, sample.latency_us_max, sample.latency_us_deviation) = (None, None, None);
    }
}

/// A study of ways to warm whose trials were gauged as those of a sweep are.
fn make_warmers() -> (SweepRun, Vec<SweepTrial>) {
    let (study, mut trials) = synthetic_run::make(3, SECONDS);
    let shape = Shape { scales: &[1], clients: &[8], buffers: &["1GB"], repeats: 1, seconds: SECONDS, ..SHAPE };
    let (_, gauged) = synthetic_sweep::make(&shape);
    for trial in &mut trials {
        (trial.os_samples, trial.wait_samples) = (gauged[0].os_samples.clone(), gauged[0].wait_samples.clone());
    }
    (study, trials)
}

/// Keeps one of each in a new store.
fn keep_each(home: &Home) -> [String; 3] {
    let store = home.path().join("state/pgthaw/results.sqlite");
    let sweep = synthetic_sweep::make(&Shape { scales: &[1], clients: &[1, 8], seconds: SECONDS, ..SHAPE });
    [make_warmers(), sweep, make_residency()].map(|(run, trials)| {
        keep(&store, &run, &trials);
        run.id
    })
}

#[test]
fn warmers_a_sweep_and_a_residency_study_share_a_report() {
    let home = Home::new();
    let [warmers, sweep, residency] = keep_each(&home);
    let report = home.path().join("report.html");
    let named = ["report", &warmers, &sweep, &residency, "-o", report.to_str().unwrap(), "--json"];
    let told = home.pgthaw(&named).ok().json();
    assert_eq!(told["runs"], json!([warmers, sweep, residency]));
    let seen = look_by("open_every_study.mjs", report.to_str().unwrap());
    let studies = seen["studies"].as_array().unwrap();
    check_each(&seen, [&studies[0], &studies[1], &studies[2]]);
}

#[test]
fn the_same_page_is_served() {
    let home = Home::new();
    keep_each(&home);
    let served = serve(&home, &[]);
    let seen = look_by("open_every_study.mjs", &format!("http://{}/", served.host));
    let studies = seen["studies"].as_array().unwrap();
    let of = |name: &str| studies.iter().find(|study| study["headline"] == name).unwrap_or_else(|| panic!("{name}"));
    let residency = of("How soon is it resident?");
    check_each(&seen, [of("ways to warm a server: pgbench select-only, scale 50"), of(QUESTION), residency]);
}

#[track_caller]
fn check_each(seen: &Value, [warmers, sweep, residency]: [&Value; 3]) {
    assert_eq!((&seen["errors"], &seen["requests"]), (&json!([]), &json!([])));
    for study in [warmers, sweep, residency] {
        for view in [&study["wide"], &study["phone"], &study["trialOnPhone"]] {
            assert_eq!((&view["overflow"], &view["clipped"]), (&json!(0), &json!([])), "{}: {view}", study["name"]);
        }
        let titles: Vec<&str> = study["titles"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        let mut once = titles.clone();
        once.sort_unstable();
        once.dedup();
        assert_eq!(once.len(), titles.len(), "no heading stands there twice: {titles:?}");
    }
    let has = |study: &Value, chart: &str| study["charts"].as_array().unwrap().contains(&json!(chart));
    assert!(has(warmers, "throughput") && has(warmers, "warm-times") && has(warmers, "interference"));
    assert!(has(sweep, "lines") && !has(sweep, "throughput"));
    assert!(has(residency, "resident-times") && has(residency, "ratios") && !has(residency, "trade-off"));
    let bars = residency["rows"]["resident-times"].as_array().unwrap();
    assert_eq!(*bars, ["pg_prewarm-buffer", "cat", "pgthaw: shared_buffers", "pgthaw"].map(Value::from));
    for panel in ["processors", "device", "waits", "resident"] {
        for study in [warmers, sweep, residency] {
            assert!(study["trial"][panel].as_u64().is_some_and(|points| points > 0), "{panel}: {}", study["trial"]);
        }
    }
    assert!(residency["trial"]["looks"].as_u64().is_some_and(|points| points >= 30), "{}", residency["trial"]);
    assert_eq!(residency["trial"]["tps"], Value::Null);
}
