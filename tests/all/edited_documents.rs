//! The results store is a file that anybody may edit: the greatest number in place of any other makes no figure panic.

use std::ops::Range;

use pgthaw_lab::report::{StudyData, TrialData};
use pgthaw_lab::study::{SweepRun, SweepTrial};
use pgthaw_lab::verdict::{Metric, Selection, Side, compute_noises, compute_sweep_comparison, outline_trials};
use serde_json::{Value, json};

use crate::{synthetic_run, synthetic_sweep};

#[test]
fn a_sweep_with_the_greatest_numbers_is_told() {
    let shape = synthetic_sweep::Shape {
        scales: &[1],
        clients: &[1, 4],
        buffers: &["128MB"],
        repeats: 1,
        strategies: &["nothing", "cat"],
        seconds: 2,
    };
    let (sweep, trials) = synthetic_sweep::make(&shape);
    let [one, four]: [Selection; 2] = ["clients=1", "clients=4"].map(|asked| asked.parse().unwrap());
    edit_everywhere(&json!([sweep, trials[..2]]), |document| {
        let (run, trials): (SweepRun, Vec<SweepTrial>) = serde_json::from_value(document).ok()?;
        let side = |selection| Side { selection, run: &run, trials: &trials };
        let compared = compute_sweep_comparison(side(&one), side(&four), Metric::Tps).ok();
        let told = tell(run.clone(), trials.clone())?;
        Some(told + &serde_json::to_string(&compared).ok()?)
    });
}

#[test]
fn a_study_of_warmers_with_the_greatest_numbers_is_told() {
    let (run, trials) = synthetic_run::make(1, 3);
    edit_everywhere(&json!([run, trials[..2]]), |document| {
        let (run, trials) = serde_json::from_value(document).ok()?;
        tell(run, trials)
    });
}

/// What pages and tables have of it.
fn tell(run: SweepRun, trials: Vec<SweepTrial>) -> Option<String> {
    let outlines = outline_trials(&trials);
    let noises = compute_noises(&run, &trials);
    let counts = |trial: &SweepTrial| trial.samples.iter().map(|sample| sample.transactions).collect();
    let served = trials.iter().map(|trial| ((trial.number, trial.repeat), counts(trial))).collect();
    let study = StudyData::new(run, outlines, noises, &served);
    let details: Vec<TrialData> = trials.into_iter().map(|trial| TrialData::new(trial, 16)).collect();
    serde_json::to_string(&(study, details)).ok()
}

/// Numbers that are replaced together, so that sums and differences meet the greatest more than once.
const NEIGHBOURS: usize = 40;

/// Tells the document with each number replaced, alone and with its neighbours.
fn edit_everywhere(sound: &Value, tell: impl Fn(Value) -> Option<String>) {
    let numbers = count_numbers(sound);
    assert!(numbers > 100, "{numbers}");
    assert!(tell(sound.clone()).is_some());
    let told = |places: Range<usize>, greatest: &Value| {
        let mut document = sound.clone();
        replace(&mut document, &mut 0, &places, greatest);
        tell(document).is_some()
    };
    let alone = (0..numbers).filter(|place| told(*place..place + 1, &json!(u64::MAX))).count();
    assert!(alone > numbers / 4, "{alone} of {numbers} could be told");
    for greatest in [json!(u64::MAX), json!(i64::MAX), json!(u32::MAX), json!(f64::MAX)] {
        for place in (0..numbers).step_by(NEIGHBOURS / 2) {
            told(place..place + NEIGHBOURS, &greatest);
        }
    }
}

fn count_numbers(value: &Value) -> usize {
    match value {
        Value::Number(_) => 1,
        Value::Array(values) => values.iter().map(count_numbers).sum(),
        Value::Object(values) => values.values().map(count_numbers).sum(),
        _ => 0,
    }
}

/// Writes `new` where the numbers of these places in the document stand.
fn replace(value: &mut Value, place: &mut usize, places: &Range<usize>, new: &Value) {
    match value {
        Value::Number(_) => {
            if places.contains(place) {
                *value = new.clone();
            }
            *place += 1;
        }
        Value::Array(values) => values.iter_mut().for_each(|one| replace(one, place, places, new)),
        Value::Object(values) => values.values_mut().for_each(|one| replace(one, place, places, new)),
        _ => {}
    }
}
