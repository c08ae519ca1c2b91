//! `pgthaw report` of a sweep, and its page in a browser.

use std::path::Path;
use std::process::Command;

use pgthaw_lab::results::Store;
use pgthaw_lab::study::{Finding, Saturation, SaturationSign, SweepRun, SweepTrial};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::servers::{self, Home};
use crate::synthetic_sweep::{self, Shape};

/// Names that would do harm where they were taken for SQL, for markup, or for a template of the chart library's.
pub const HOSTILE: &str = "'; DROP TABLE sweeps; -- </script><img src=x onerror=\"window.injected = true\"><script>window.injected = true</script> {b|x} {@value}";

/// Keeps a sweep as `bench` does.
pub fn keep(path: &Path, run: &SweepRun, trials: &[SweepTrial]) {
    Runtime::new().unwrap().block_on(async {
        let store = Store::open(path).await.unwrap();
        store.save_sweep(run).await.unwrap();
        for trial in trials {
            store.save_sweep_trial(trial).await.unwrap();
        }
        store.close().await;
    });
}

/// What a reader of studies sees there.
pub fn look(place: &str) -> Value {
    look_by("open_studies.mjs", place)
}

/// What one of the readers in web/test sees there.
pub fn look_by(reader: &str, place: &str) -> Value {
    let web = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("web/test");
    let mut command = Command::new("node");
    command.arg(web.join(reader)).arg(place).args(std::env::var_os("PGTHAW_SCREENSHOTS"));
    servers::output_of(&mut command).ok().json()
}

fn open(home: &Home, run: &SweepRun, trials: &[SweepTrial]) -> Value {
    keep(&home.path().join("state/pgthaw/results.sqlite"), run, trials);
    let report = home.path().join("report.html");
    let printed = home.pgthaw(&["report", "-o", report.to_str().unwrap()]).ok().stdout;
    assert_eq!(Path::new(printed.trim()), report);
    look(report.to_str().unwrap())
}

/// Nothing complained, nothing was asked of the network, and nothing is wider than its page.
pub fn assert_clean(seen: &Value) {
    assert_eq!((&seen["errors"], &seen["requests"]), (&json!([]), &json!([])), "{seen:#}");
    assert_eq!(seen["injected"], Value::Null);
    for view in [&seen["light"], &seen["dark"], &seen["phone"], &seen["trial"]["light"], &seen["trialOnPhone"]] {
        assert_eq!((&view["overflow"], &view["clipped"]), (&json!(0), &json!([])), "{view}");
        assert!(view["drawn"].as_u64().unwrap() > 0, "{view}");
    }
    assert_ne!(seen["light"]["background"], seen["dark"]["background"]);
}

pub const SHAPE: Shape<'_> = Shape {
    scales: &[1, 10, 100],
    clients: &[1, 8, 32],
    buffers: &["32MB", "1GB"],
    strategies: &[],
    repeats: 2,
    seconds: 70,
};

#[test]
fn the_page_shows_the_points_their_costs_and_every_trial() {
    let home = Home::new();
    let (run, mut trials) = synthetic_sweep::make(&SHAPE);
    trials[0].verdicts.push(Finding::LateReadings { late: 3, readings: 70, worst_ms: 40 }.into());
    trials[1].verdicts.push(saturated().into());
    let seen = open(&home, &run, &trials);
    assert_clean(&seen);
    assert_eq!(seen["headline"], run.question);
    assert!(seen["answer"].as_str().unwrap().starts_with("Most transactions per second: "), "{}", seen["answer"]);
    let warnings: Vec<&str> = seen["warnings"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert_eq!(warnings.len(), 2);
    // What was not measured as asked comes first, and says what to do.
    assert!(warnings[0].contains("Pgbench itself is the limit") && warnings[0].contains("points.jobs"), "{warnings:?}");
    check_heat(&seen);
    // Two small multiples with a line and its uprights for each of three scales.
    assert_eq!(seen["charts"]["lines"].as_array().unwrap().len(), 2 * 2 * 3);
    let rows = |table: &str| seen["tables"][table].as_u64().unwrap();
    assert_eq!((rows("fooled"), rows("background"), rows("points")), (12, 18, 18));
    assert!(rows("beside") > 0);
    check_keyboard(&seen["keyboard"]);
    check_trial(&seen["trial"]);
    check_downloads(&seen, &run, trials.len());
}

fn saturated() -> Finding {
    Finding::GeneratorSaturated(Saturation {
        sign: SaturationSign::NearOneCore,
        threads: 1,
        cpu_ratio: 0.98,
        run_delay_ratio: 0.1,
        idle_backends_ratio: None,
        lag_ratio: None,
        empty_tps: Some(40_000.0),
        unseen_hosts: Vec::new(),
    })
}

fn check_heat(seen: &Value) {
    let cells = seen["heat"].as_array().unwrap();
    assert_eq!(cells.len(), 18);
    let marked: Vec<&Value> = cells.iter().filter(|cell| cell["marked"] != "").collect();
    let marks: Vec<&str> = marked.iter().filter_map(|cell| cell["marked"].as_str()).collect();
    assert_eq!(marks, ["doubtful", "refused hatched"]);
    let told = marked[0]["told"].as_str().unwrap();
    assert!(
        told.starts_with("scale 1, clients 1, shared_buffers 32MB: ") && told.ends_with("2 trials; verdicts: 1"),
        "{told}"
    );
}

fn check_keyboard(keyboard: &Value) {
    assert_eq!((&keyboard["metric"], &keyboard["reloaded"]), (&json!("worst-second"), &json!("worst-second")));
    assert_eq!(keyboard["unit"], "transactions in the worst second");
    assert_eq!((&keyboard["isStillFocused"], &keyboard["isHidden"]), (&json!("pivot-metric"), &json!(true)));
    // From the first cell one to the right and one down.
    let moved = keyboard["moved"].as_str().unwrap();
    assert!(moved.starts_with("scale 10, clients 8, shared_buffers 32MB: "), "{moved}");
    let bubble = keyboard["bubble"].as_str().unwrap();
    assert!(bubble.contains("99th percentile") && bubble.contains("ms late, so pgthaw scaled"), "{bubble}");
}

fn check_trial(trial: &Value) {
    assert_eq!(
        (&trial["headline"], &trial["focused"]),
        (&json!("scale 1, clients 1, shared_buffers 32MB"), &json!("H1"))
    );
    let points = |charts: &Value, id: &str| {
        let found = charts["trial"].as_array().unwrap().iter().find(|one| one["id"] == id).cloned();
        found.map(|one| one["points"].as_u64().unwrap())
    };
    for curve in ["line:tps:0:0", "line:latency:0:0", "band:latency:0:0", "line:resident:0:0", "line:device:0:1"] {
        assert_eq!(points(&trial["charts"], curve), Some(70), "{curve}");
        assert_eq!(points(&trial["both"], &curve.replacen(":0:", ":1:", 1)), Some(70), "{curve}");
    }
    // Areas hide each other: they are of the trial that is shown.
    for curve in [
        "line:waits:0:3",
        "line:processors:0:3",
        "line:device:0:2",
        "line:await:0:1",
        "line:dirty:0:1",
        "line:switches:0:0",
    ] {
        assert_eq!(points(&trial["charts"], curve), Some(70), "{curve}");
    }
    assert_eq!(points(&trial["both"], "line:waits:1:0"), None);
    let stalls: Vec<&str> = trial["stalls"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert_eq!(stalls.len(), 3);
    assert!(stalls[1].starts_with("45–47 s") && stalls[1].contains("waited for LWLock WALWrite"), "{stalls:?}");
    assert!(stalls[2].contains("a checkpoint (time) wrote buffers"), "{stalls:?}");
    let pointer = trial["pointer"].as_str().unwrap();
    assert!(pointer.contains("mean latency") && pointer.contains("at 3"), "{pointer}");
}

fn check_downloads(seen: &Value, run: &SweepRun, trials: usize) {
    let file = |ending: &str| seen["downloads"][format!("pgthaw-{}{ending}", run.id)].as_str().unwrap().to_owned();
    let study: Value = serde_json::from_str(&file(".json")).unwrap();
    assert_eq!(study["exact"]["seed"], run.seed.to_string());
    assert!(file("-trials.csv").starts_with("scale,clients,shared_buffers,number,repeat,"));
    assert_eq!(file("-trials.csv").lines().count(), 1 + trials);
    assert_eq!(file("-points.csv").lines().count(), 1 + 18);
}

#[test]
fn a_study_of_cold_servers_shows_when_they_were_warm_beside_the_bound() {
    let home = Home::new();
    let strategies = &["nothing", "cat", "pgthaw"];
    let (run, trials) = synthetic_sweep::make(&Shape { clients: &[8], strategies, ..SHAPE });
    let seen = open(&home, &run, &trials);
    assert_clean(&seen);
    let of = |figure: &str, what: &str, point: &str| {
        let place = format!("scale {point}, shared_buffers 1GB: ");
        let told = seen["warm"][figure]["told"].as_array().unwrap();
        let cell = told.iter().position(|told| told.as_str().unwrap().starts_with(&place)).unwrap();
        seen["warm"][figure][what][cell].as_str().unwrap().to_owned()
    };
    let scale = seen["warm"]["warm-after"]["scale"].as_str().unwrap();
    assert!(scale.starts_with("seconds until fewer than 1 % of transactions read from the device: "), "{scale}");
    // Through a disk of 125 MiB in a second 1.54 GB take 11.7 s.
    let cell = |what| of("warm-after", what, "100, strategy pgthaw");
    assert!(cell("told").contains(" × bound, ") && cell("cells").trim_end().ends_with("× bound"), "{}", cell("told"));
    assert_eq!(of("warm-after", "cells", "100, strategy nothing").lines().next(), Some("not reached"));
    assert!(of("bound", "cells", "100, strategy cat").starts_with("11.7 s"));
    assert!(of("bound-ratio", "cells", "100, strategy pgthaw").starts_with("1."));
}

#[test]
fn hostile_names_stay_text() {
    let home = Home::new();
    let (mut run, mut trials) = synthetic_sweep::make(&Shape { scales: &[1], clients: &[1, 8], repeats: 1, ..SHAPE });
    make_hostile(&mut run, &mut trials);
    let seen = open(&home, &run, &trials);
    assert_clean(&seen);
    assert_eq!(seen["headline"], HOSTILE);
    assert!(seen["warnings"].to_string().contains("onerror"), "{}", seen["warnings"]);
    assert!(seen["heat"].to_string().contains("onerror"), "{}", seen["heat"]);
    assert!(seen["trial"]["headline"].as_str().unwrap().contains(HOSTILE), "{}", seen["trial"]["headline"]);
}

/// Puts the name wherever a person chooses one.
pub fn make_hostile(run: &mut SweepRun, trials: &mut [SweepTrial]) {
    run.question = HOSTILE.into();
    run.machine.hostname = HOSTILE.into();
    run.warnings.push(HOSTILE.into());
    run.varied.push(HOSTILE.into());
    for trial in trials {
        trial.point.script = HOSTILE.into();
        trial.point.variables.push((HOSTILE.into(), HOSTILE.into()));
        trial.scripts[0].script = HOSTILE.into();
        trial.command = HOSTILE.into();
        trial.settings.push((HOSTILE.into(), HOSTILE.into()));
        trial.verdicts.push(Finding::NotInForce { what: HOSTILE.into(), reason: HOSTILE.into() }.into());
        trial.warnings.push(HOSTILE.into());
        trial.checkpoints[0].reason = HOSTILE.into();
    }
}

#[test]
fn a_sweep_with_little_in_it_is_shown_too() {
    let home = Home::new();
    let (mut run, mut trials) = synthetic_sweep::make(&Shape { scales: &[1], buffers: &["1GB"], repeats: 1, ..SHAPE });
    run.ended_at = None;
    // One failed; its page has no curves.
    let failed = &mut trials[1];
    (failed.failure, failed.latency, failed.worst_second_tps) = (Some("pgbench broke off".into()), None, None);
    (failed.samples, failed.scripts, failed.start_state) = (Vec::new(), Vec::new(), None);
    let seen = open(&home, &run, &trials);
    assert_eq!((&seen["errors"], &seen["injected"]), (&json!([]), &Value::Null));
    let warnings = seen["warnings"].to_string();
    assert!(warnings.contains("has not ended") && warnings.contains("pgbench broke off"), "{warnings}");
}
