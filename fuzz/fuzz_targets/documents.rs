//! Documents of the results store, edited by somebody: as text, or a sound one of which some values were replaced.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::arbitrary::{Arbitrary, Unstructured};
use libfuzzer_sys::{arbitrary, fuzz_target};
use pgthaw_lab::report::{StudyData, TrialData};
use pgthaw_lab::study::{SweepRun, SweepTrial};
use pgthaw_lab::verdict::{Metric, Selection, Side, compute_noises, compute_sweep_comparison, outline_trials};
use serde_json::{Map, Value, json};

#[path = "../../tests/all/synthetic_host.rs"]
#[allow(dead_code)]
mod synthetic_host;
#[path = "../../tests/all/synthetic_run.rs"]
#[allow(dead_code)]
mod synthetic_run;
#[path = "../../tests/all/synthetic_sweep.rs"]
#[allow(dead_code)]
mod synthetic_sweep;

/// A run of two seconds, and a sweep with two cold trials. Lists are short, as an edit makes them longer: most of an execution's time goes
/// with the size of the document.
static SOUND: LazyLock<[Value; 2]> = LazyLock::new(|| {
    let (run, trials) = synthetic_run::make(1, 2);
    // One gets warm and the other does not.
    let strategies = &["nothing", "cat"];
    let shape = synthetic_sweep::Shape {
        scales: &[10],
        clients: &[4],
        buffers: &["128MB"],
        strategies,
        repeats: 1,
        seconds: 12,
    };
    let (sweep, sweep_trials) = synthetic_sweep::make(&shape);
    [json!({ "sweep": run, "trials": trials[..2] }), json!({ "sweep": sweep, "trials": sweep_trials[..2] })]
        .map(shortened)
});

/// With lists of two at most.
fn shortened(value: Value) -> Value {
    match value {
        Value::Array(values) => values.into_iter().take(2).map(shortened).collect(),
        Value::Object(values) => values.into_iter().map(|(key, value)| (key, shortened(value))).collect(),
        other => other,
    }
}

#[derive(Arbitrary, Debug)]
enum Edit<'a> {
    Null,
    Boolean(bool),
    Small(u8),
    Whole(i64),
    Huge(u64),
    Real(f64),
    Text(&'a str),
    Empty,
    Remove,
    /// As often as this.
    Repeat(u8),
}

fuzz_target!(|bytes: &[u8]| {
    let document = match bytes.first() {
        Some(b'{') => match serde_json::from_slice(bytes) {
            Ok(document) => document,
            Err(_) => return,
        },
        Some(first) => edited(usize::from(*first) % SOUND.len(), &bytes[1..]),
        None => return,
    };
    look_at(document);
});

/// A sound document with some of its values replaced.
fn edited(which: usize, bytes: &[u8]) -> Value {
    let mut document = SOUND[which].clone();
    let mut rest = Unstructured::new(bytes);
    for _ in 0..4 {
        let (Ok(place), Ok(edit)) = (u16::arbitrary(&mut rest), Edit::arbitrary(&mut rest)) else { break };
        let mut left = usize::from(place);
        apply(&mut document, &mut left, &edit);
        if rest.is_empty() {
            break;
        }
    }
    document
}

/// Edits the value that comes after `left` others, those within others included. True when it was found.
fn apply(value: &mut Value, left: &mut usize, edit: &Edit<'_>) -> bool {
    if *left == 0 {
        *value = match edit {
            Edit::Null | Edit::Remove => Value::Null,
            Edit::Boolean(value) => json!(value),
            Edit::Small(value) => json!(value),
            Edit::Whole(value) => json!(value),
            Edit::Huge(value) => json!(value),
            Edit::Real(value) => json!(value),
            Edit::Text(text) => json!(text),
            Edit::Empty if value.is_array() => json!([]),
            Edit::Empty => Value::Object(Map::new()),
            Edit::Repeat(times) => match value.as_array() {
                Some(values) if !values.is_empty() && values.len() < 8 => {
                    values.iter().cycle().take(usize::from(*times % 16)).cloned().collect()
                }
                _ => Value::Array(vec![value.clone(); usize::from(*times % 4)]),
            },
        };
        return true;
    }
    *left -= 1;
    match value {
        Value::Array(values) => values.iter_mut().any(|one| apply(one, left, edit)),
        Value::Object(values) => {
            let removed = values.iter_mut().find_map(|(key, one)| {
                let is_here = *left == 0;
                apply(one, left, edit).then(|| is_here.then(|| key.clone()))
            });
            if let (Some(Some(key)), Edit::Remove) = (&removed, edit) {
                values.remove(key);
            }
            removed.is_some()
        }
        _ => false,
    }
}

/// Reads it as the store does, and computes what the report and `serve` show.
fn look_at(mut document: Value) -> Option<()> {
    document.as_object()?;
    let trials = document["trials"].take();
    let sweep: SweepRun = serde_json::from_value(document["sweep"].take()).ok()?;
    let trials: Vec<SweepTrial> = serde_json::from_value(trials).ok()?;
    let outlines = outline_trials(&trials);
    let a: Selection = "clients=1".parse().ok()?;
    let b: Selection = "clients=4".parse().ok()?;
    let side = |selection| Side { selection, run: &sweep, trials: &trials };
    let compared = compute_sweep_comparison(side(&a), side(&b), Metric::Tps).ok();
    let noise = compute_noises(&sweep, &trials);
    let counts = |trial: &SweepTrial| trial.samples.iter().map(|sample| sample.transactions).collect();
    let served = trials.iter().map(|trial| ((trial.number, trial.repeat), counts(trial))).collect();
    let study = StudyData::new(sweep.clone(), outlines, noise, &served);
    let details: Vec<TrialData> = trials.into_iter().map(|trial| TrialData::new(trial, 16)).collect();
    assert!(serde_json::to_string(&(study, details, compared)).is_ok());
    Some(())
}
