//! Runs of loaders in the results store, and their page.

use pgthaw::results::Store;
use pgthaw::study::{LoadingRun, LoadingTrial};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::servers::Home;
use crate::synthetic_run;

const LOADERS: [&str; 3] = ["pgthaw", "pgthaw-both", "cat"];

/// Six rounds in which pgthaw takes 4 s, cat 5 s, and shared_buffers are back after 5.2 s.
pub fn make(id: &str, started_at: &str) -> (LoadingRun, Vec<LoadingTrial>) {
    let (run, trials) = synthetic_run::make(1, 20);
    let disk = serde_json::to_value(&run.study.disk).unwrap();
    let study = json!({
        "scale": 50, "script": null, "script_seconds": 5, "clients": 8, "rounds": 6, "loaders": LOADERS,
        "skipped_loaders": [["vmtouch", "apt-get install vmtouch"]], "disk": disk, "seed": u64::MAX,
        "database_bytes": 800_000_000_u64, "wanted_bytes": 600_000_000_u64, "wanted_pages": 146_484, "wanted_pieces": 300,
        "resident_share": 0.99, "former_buffers_bytes": 200_000_000, "former_hot_bytes": 90_000_000,
        "bound": { "reads": 2400, "read_bytes": 600_000_000, "seconds": 3.8 }, "patience_seconds": 120,
    });
    let mut document = serde_json::to_value(&run).unwrap();
    (document["id"], document["started_at"], document["study"]) = (json!(id), json!(started_at), study);
    let start_state = serde_json::to_value(&trials[0].start_state).unwrap();
    let trial = |place: usize| {
        let loader = LOADERS[place % 3];
        let seconds = if loader == "cat" { 5.0 } else { 4.0 } + 0.01 * place as f64;
        let back = (loader == "pgthaw-both").then_some(5.2);
        json!({
            "loader": loader, "round": place / 3 + 1, "position": place + 1, "started_at": started_at,
            "start_state": start_state, "command": format!("load with {loader}"), "warnings": [],
            "outcome": {
                "resident_after_seconds": seconds, "buffers_after_seconds": back, "ended_after_seconds": seconds,
                "own_bytes": null, "own_seconds": null, "resident_bytes": 599_000_000, "cpu_seconds": 0.4,
                "device_read_bytes": 600_000_000, "device_reads": 2500, "failure": null, "output": "<script>alert(1)</script>",
            },
            "samples": [{
                "seconds": 0.5, "resident_bytes": 70_000_000, "is_exact": true, "buffers_bytes": null, "hot_bytes": null,
            }],
        })
    };
    let trials = (0..18).map(|place| serde_json::from_value(trial(place)).unwrap()).collect();
    (serde_json::from_value(document).unwrap(), trials)
}

/// Keeps a run as `bench residency` does.
pub fn keep(home: &Home, run: &LoadingRun, trials: &[LoadingTrial]) {
    Runtime::new().unwrap().block_on(async {
        let store = Store::open(&home.path().join("state/pgthaw/results.sqlite")).await.unwrap();
        store.save_loading(&LoadingRun { ended_at: None, ..run.clone() }).await.unwrap();
        for trial in trials {
            store.save_loading_trial(&run.id, trial).await.unwrap();
        }
        store.save_loading(run).await.unwrap();
        store.close().await;
    });
}

#[test]
fn a_stored_run_is_listed_shown_and_dropped() {
    let home = Home::new();
    let (run, trials) = make("20260301-000000-aaaa", "2026-03-01T00:00:00Z");
    keep(&home, &run, &trials);
    let shown = home.pgthaw(&["results", "show", "--json"]).ok().json();
    assert_eq!(serde_json::from_value::<LoadingRun>(shown["run"].clone()).unwrap(), run);
    assert_eq!(serde_json::from_value::<Vec<LoadingTrial>>(shown["trials"].clone()).unwrap(), trials);
    let text = home.pgthaw(&["results", "show", "2026030"]).ok().stdout;
    assert!(text.contains("pgthaw ÷ cat") && text.contains("pgthaw-both ÷ pgthaw"), "{text}");
    let list = home.pgthaw(&["results", "list"]).ok().stdout;
    assert!(list.contains("residency of everything, scale 50") && list.contains("18 of 18 trials"), "{list}");
    let list: Value = home.pgthaw(&["results", "list", "--json"]).ok().json();
    assert_eq!(list["loadings"][0]["loaders"], json!(LOADERS));
    home.pgthaw(&["results", "drop", "2026030"]).ok();
    assert!(home.pgthaw(&["results", "list"]).ok().stderr.contains("holds no run yet"));
}

#[test]
fn the_newest_is_the_newest_of_all_kinds() {
    let home = Home::new();
    let (run, trials) = make("20260301-000000-aaaa", "2026-03-01T00:00:00Z");
    keep(&home, &run, &trials);
    let shown = || home.pgthaw(&["results", "show", "--json"]).ok().json()["run"]["id"].clone();
    assert_eq!(shown(), "20260301-000000-aaaa");
    let (mut later, trials) = synthetic_run::make(1, 20);
    (later.id, later.started_at) = ("20260302-000000-bbbb".into(), "2026-03-02T00:00:00Z".parse().unwrap());
    let trials: Vec<_> =
        trials.into_iter().map(|trial| pgthaw::study::Trial { run_id: later.id.clone(), ..trial }).collect();
    crate::results::keep(&home.path().join("state/pgthaw/results.sqlite"), &later, &trials);
    assert_eq!(shown(), "20260302-000000-bbbb");
}

#[test]
fn the_page_draws_seconds_and_ratios() {
    let home = Home::new();
    let (run, trials) = make("20260301-000000-aaaa", "2026-03-01T00:00:00Z");
    keep(&home, &run, &trials);
    let page = home.path().join("loaders.html");
    home.pgthaw(&["report", "-o", page.to_str().unwrap()]).ok();
    let html = std::fs::read_to_string(page).unwrap();
    assert!(html.contains("bound 3.80 s") && html.contains("pgthaw ÷ cat, seconds"), "{html}");
    assert!(html.contains("pgthaw-both: shared_buffers back") && html.contains("5.20 s"), "{html}");
    // Four bars of seconds, three of ratios, and whiskers across all of them.
    assert_eq!((html.matches("<svg").count(), html.matches("<rect").count()), (2, 4 + 3), "{html}");
    assert!(!html.contains("NaN") && !html.contains("inf"), "{html}");
    // What a loader printed stays text, and nothing runs.
    assert_eq!(html.matches("<script").count(), 1);
}
