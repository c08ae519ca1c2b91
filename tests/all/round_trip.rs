//! What the store gives back of records whose every field has another random value: on a file and on a server.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use pgthaw_lab::results::Store;
use pgthaw_lab::study::{LatencyHistogram, Record, SweepRun, SweepTrial};
use pgthaw_lab::verdict::outline_trials;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::results::wait;
use super::results_server::place;
use super::servers::{self, Home};
use super::synthetic_sweep::{self, Shape};

const SEEDS: std::ops::Range<u64> = 0..6;

/// A record of each kind, with trials.
struct Records {
    sweep: SweepRun,
    sweep_trials: Vec<SweepTrial>,
}

impl Records {
    fn new(seed: u64) -> Records {
        let random = &mut StdRng::seed_from_u64(seed);
        let shape =
            Shape { scales: &[1], clients: &[1, 8], buffers: &["1GB"], strategies: &[], repeats: 1, seconds: 2 };
        let (sweep, sweep_trials) = synthetic_sweep::make(&shape);
        let sweep: SweepRun = scramble(&sweep, sweep_details(), random);
        let mut sweep_trials: Vec<SweepTrial> =
            sweep_trials.iter().map(|one| scramble(one, sweep_trial_details(), random)).collect();
        for trial in &mut sweep_trials {
            trial.sweep_id.clone_from(&sweep.id);
            trial.samples.sort_by_key(|sample| sample.second);
            trial.os_samples.sort_by_key(|sample| sample.second);
            trial.wait_samples.sort_by_key(|sample| sample.second);
            trial.latency = random.random_bool(0.9).then(|| histogram(random));
            for script in &mut trial.scripts {
                script.response = histogram(random);
                script.service = random.random_bool(0.9).then(|| histogram(random));
            }
        }
        sweep_trials.sort_by_key(|trial| trial.position);
        Records { sweep, sweep_trials }
    }

    async fn save(&self, store: &Store) {
        store.save_whole_sweep(&self.sweep, &self.sweep_trials).await.unwrap();
    }

    async fn check(&self, store: &Store) {
        assert_eq!(store.find_sweep(&self.sweep.id).await.unwrap().as_ref(), Some(&self.sweep));
        assert_eq!(store.read_sweep_trials(&self.sweep.id).await.unwrap(), self.sweep_trials);
        assert_eq!(store.read_sweep_outlines(&self.sweep.id).await.unwrap(), outline_trials(&self.sweep_trials));
    }
}

#[test]
fn every_field_comes_back_from_a_file() {
    let home = Home::new();
    wait(async {
        let store = Store::open(&home.path().join("results.sqlite")).await.unwrap();
        for records in SEEDS.map(Records::new) {
            records.save(&store).await;
            records.check(&store).await;
        }
        store.close().await;
    });
}

test_every_version! {
    fn every_field_comes_back_from_a_server(version) {
        let server = servers::start(version, &[]);
        wait(async {
            let store = Store::connect_server(&place(&server)).await.unwrap();
            for records in SEEDS.map(Records::new) {
                records.save(&store).await;
                records.check(&store).await;
            }
            store.close().await;
        });
    }
}

/// The same record, with `details` where it had nothing, and then another random value, or none, wherever its type takes that.
fn scramble<T: Serialize + DeserializeOwned + Record>(record: &T, details: Value, random: &mut StdRng) -> T {
    let mut document = serde_json::to_value(record).unwrap();
    merge(&mut document, details);
    let mut places = BTreeMap::new();
    find_places(&document, String::new(), &mut places);
    let missing: Vec<&String> = places.iter().filter(|(_, value)| value.is_null()).map(|(place, _)| place).collect();
    assert!(missing.is_empty(), "give these fields a value in the details: {missing:?}");
    for (place, value) in places {
        for candidate in candidates(&place, &value, random) {
            // Below what is nothing now there is nothing.
            let Some(there) = document.pointer_mut(&place) else { break };
            let before = std::mem::replace(there, candidate);
            if serde_json::from_value::<T>(document.clone()).is_ok() {
                break;
            }
            *document.pointer_mut(&place).unwrap() = before;
        }
    }
    let mut record: T = serde_json::from_value(document).unwrap();
    // What looks like a secret is not kept.
    record.hide_secrets();
    record
}

fn merge(document: &mut Value, details: Value) {
    match (document, details) {
        (Value::Object(document), Value::Object(details)) => {
            for (name, detail) in details {
                merge(document.entry(name).or_insert(Value::Null), detail);
            }
        }
        (document, details) => *document = details,
    }
}

/// Everything but lists by its path.
fn find_places(document: &Value, place: String, places: &mut BTreeMap<String, Value>) {
    match document {
        Value::Array(items) => {
            (0..).zip(items).for_each(|(at, item): (usize, _)| find_places(item, format!("{place}/{at}"), places));
        }
        Value::Object(fields) => {
            for (name, field) in fields {
                find_places(field, format!("{place}/{}", name.replace('~', "~0").replace('/', "~1")), places);
            }
            places.insert(place, document.clone());
        }
        leaf => drop(places.insert(place, leaf.clone())),
    }
}

/// What may stand there instead, the best first.
fn candidates(place: &str, value: &Value, random: &mut StdRng) -> Vec<Value> {
    let nothing = (!place.is_empty() && random.random_bool(0.1)).then_some(Value::Null);
    let others = match value {
        Value::Bool(_) => vec![json!(random.random::<bool>())],
        Value::Number(number) if number.is_f64() => vec![json!(random.random_range(0.0..1e6))],
        // Numbers of 64, of 32 and of 8 bits; some of 32 bits are added up.
        Value::Number(_) => vec![
            json!(random.random_range(1_u64 << 33..1 << 52)),
            json!(random.random_range(1_u32 << 9..1 << 24)),
            json!(random.random::<u8>()),
        ],
        Value::String(_) => {
            let at = jiff::Timestamp::new(random.random_range(0..4_000_000_000), random.random_range(0..1_000_000_000));
            vec![json!(format!("a \"text\", a \\ and ünicode {}", random.random::<u64>())), json!(at.unwrap())]
        }
        _ => Vec::new(),
    };
    nothing.into_iter().chain(others).collect()
}

fn histogram(random: &mut StdRng) -> LatencyHistogram {
    let mut histogram = Histogram::new(3).unwrap();
    (0..2000).for_each(|_| histogram.record(random.random_range(1..100_000)).unwrap());
    LatencyHistogram::new(&histogram)
}

fn disk() -> Value {
    json!({
        "riops": 1, "rbps": 1, "wiops": 1, "wbps": 1, "writes_not_enforced": "x", "not_enforced": "x", "read_ahead": 1,
        "read_ahead_not_enforced": "x",
    })
}

fn warmup() -> Value {
    let span = json!({ "seconds": 0.5, "low": 0.5, "high": 0.5 });
    let mut disk = disk();
    disk["name"] = json!("x");
    json!({
        "disk": disk, "database_bytes": 1, "wanted_bytes": 1, "calibration_tps": 0.5,
        "forecast": { "cold_tps": 0.5, "steady_tps": 0.5, "to_50_seconds": span, "warm_after_seconds": span },

    })
}

fn sample() -> Value {
    json!({
        "second": 1, "monotonic_ms": 1, "wall_ms": 1, "transactions": 1, "latency_us_mean": 0.5, "latency_us_min": 1,
        "latency_us_max": 1, "latency_us_deviation": 0.5, "foreground_read_bytes": 1, "device_read_bytes": 1, "device_reads": 1, "os_resident_bytes": 1,
    })
}

fn residency() -> Value {
    let strip = json!({ "os": [0.5, 0.5], "buffers": [0.5] });
    json!([{ "relation": "x", "kind": "x", "total_bytes": 1, "before": strip, "after": strip }])
}

fn judgement() -> Value {
    let estimate = json!({ "value": 0.5, "low": 0.5, "high": 0.5 });
    json!({
        "verdict": "steady", "reason": "x", "steady_from_seconds": 0.5, "level_lasts_seconds": 0.5, "period_seconds": 0.5,
        "steady_tps": 0.5, "level_error_share": 0.5, "mean_tps": 0.5, "mean_error_share": 0.5, "to_50_seconds": 0.5, "to_90_seconds": 0.5,
        "to_95_seconds": 0.5, "run_seconds": 0.5, "should_have_run_seconds": 0.5, "no_fit": "x", "remarks": ["x"],
        "fit": {
            "cold_seconds": estimate, "hit_seconds": estimate, "pages": estimate, "residual_share": 0.5, "clients": 1,
        },
    })
}

fn warming() -> Value {
    json!({
        "measured_seconds": 1, "warm_after_seconds": 0.5, "served_until_warm": 1, "served": 1, "warm_tps": 0.5,
        "climb": [{ "seconds": 0.5, "tps": 0.5 }, { "seconds": 0.5, "tps": 0.5 }], "wanted_bytes": 1, "bound_seconds": 0.5,
        "foreground_tenths": [1, 1, 1], "residency": residency(), "judgement": judgement(), "no_verdict": "x",
        "looks": [{ "seconds": 0.5, "resident_bytes": 1, "is_exact": true, "buffers_bytes": 1, "hot_bytes": 1 }], "brought": brought(),
    })
}

fn brought() -> Value {
    json!({
        "wanted_pages": 1, "wanted_pieces": 1, "former_buffers_bytes": 1, "former_hot_bytes": 1,
        "bound": { "reads": 1, "read_bytes": 1, "seconds": 0.5 }, "resident_after_seconds": 0.5,
        "buffers_after_seconds": 0.5, "resident_bytes": 1, "cpu_seconds": 0.5, "device_reads": 1, "own_bytes": 1,
        "own_seconds": 0.5,
    })
}

fn finding() -> Value {
    json!({ "kind": "generators_apart", "spread_ms": 0.5, "uncertainty_ms": 0.5, "sentence": "x", "remedy": "x" })
}

fn sweep_details() -> Value {
    json!({
        "server": { "io_method": "x" }, "warnings": ["x"], "source": "x", "verdicts": [finding()],
        "warmup": warmup(), "configuration": [{ "name": "x", "value": "x", "unit": "x", "source": "x" }],
        "generator": [{ "clients": 1, "jobs": 1, "query_mode": "simple", "tps": 0.5, "cpu_ratio": 0.5, "run_delay_ratio": 0.5 }],
        "databases": [{
            "database": "x", "scale": 1, "file_system": "x", "server": "x", "seconds": 0.5, "steps": [{ "step": "x", "seconds": 0.5 }],
        }],
    })
}

fn sweep_trial_details() -> Value {
    let wait = json!({ "backend": "x", "state": "x", "event_type": "x", "event": "x", "observed": 1 });
    let flushes = json!({ "looks": 1, "others": 1 });
    json!({
        "point": {
            "rate": 0.5, "seconds": 1, "transactions": 1, "latency_limit_ms": 0.5, "side": "x",
            "variables": [["x", "y"]],
        },
        "failure": "x", "worst_second_tps": 0.5, "server_version": "x", "cycle_tps": 0.5, "warnings": ["x"],
        "samples": [sample(), sample()],
        "time": {
            "explained_ratio_min": 0.5, "explained_ratio_max": 0.5, "refused": [{ "source": "sql", "reason": "x", "remedy": "x" }],
        },
        "wait_samples": [{ "second": 1, "looks": 1, "waits": [wait, wait], "flushes": flushes }],
        "waits": { "looks": 1, "waits": [wait], "flushes": flushes },
        "strategy_outcome": {
            "command": "x", "ended_after_seconds": 0.5, "issued_bytes": 1, "failure": "x", "output": "x",
        },
        "warming": warming(),
        "generators": { "start_spread_ms": 0.5, "hosts": [{
            "host": "x", "clients": 1, "jobs": 1, "pgbench_version": "x", "clock_offset_ms": 0.5,
            "clock_uncertainty_ms": 0.5, "started_after_ms": 0.5, "transactions": 1, "tps": 0.5, "is_seen": true,
        }] },
        "checkpoints": [{
            "began_after_seconds": 0.5, "ended_after_seconds": 0.5, "reason": "x", "buffers": 1, "write_seconds": 0.5,
            "sync_seconds": 0.5, "total_seconds": 0.5, "sync_files": 1, "longest_sync_seconds": 0.5,
        }],
        "checkpoint_begun": { "began_after_seconds": 0.5, "reason": "x" },
        "file_system": {
            "kind": "x", "options": ["x"], "image_bytes": 1, "direct_io": true, "scheduler": "x", "read_ahead_bytes": 1,
            "logical_block_bytes": 1,
        },
        "verdicts": [finding()],
        "scripts": [histogram_of_nothing("tpcb-like"), histogram_of_nothing("select-only")],
    })
}

/// Its figures are made anew.
fn histogram_of_nothing(script: &str) -> Value {
    let latency = serde_json::to_value(LatencyHistogram::new(&Histogram::new(3).unwrap())).unwrap();
    json!({ "script": script, "answered": 1, "failed": 1, "skipped": 1, "response": latency, "service": latency })
}
