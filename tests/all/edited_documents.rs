//! The results store is a file that anybody may edit: the greatest number in place of any other makes no figure panic.

use std::ops::Range;

use pgthaw::report::{StudyData, TrialData};
use pgthaw::study::{Disk, Run, SweepRun, SweepTrial, Trial, WarmupFacts};
use pgthaw::units::Bytes;
use pgthaw::verdict::{
    Metric, Selection, Side, TrialOutline, compute_comparison, compute_noises, compute_summary,
    compute_sweep_comparison, judge_trial, render_headline, view_run, view_trials,
};
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
    let (mut sweep, trials) = synthetic_sweep::make(&shape);
    sweep.warmup = Some(WarmupFacts {
        disk: Disk::default(),
        database_bytes: Bytes(1 << 30),
        wanted_bytes: Bytes(1 << 29),
        calibration_tps: Some(900.0),
        forecast: None,
        told: None,
    });
    let [one, four]: [Selection; 2] = ["clients=1", "clients=4"].map(|asked| asked.parse().unwrap());
    edit_everywhere(&json!([sweep, trials[..2]]), |document| {
        let (run, trials): (SweepRun, Vec<SweepTrial>) = serde_json::from_value(document).ok()?;
        let side = |selection| Side { selection, run: &run, trials: &trials };
        let compared = compute_sweep_comparison(side(&one), side(&four), Metric::Tps).ok();
        let outlines: Vec<TrialOutline> = trials.iter().map(TrialOutline::from).collect();
        let study = StudyData::new(run.clone(), outlines, compute_noises(&run, &trials));
        // A study of ways to warm is told of so too.
        let viewed = view_run(&run, &trials);
        let viewed = (view_trials(&viewed, trials.clone()), viewed);
        let details: Vec<TrialData> = trials.into_iter().map(|trial| TrialData::new(trial, 16)).collect();
        serde_json::to_string(&(study, details, compared, viewed)).ok()
    });
}

#[test]
fn a_tournament_with_the_greatest_numbers_is_told() {
    let (run, trials) = synthetic_run::make(1, 3);
    edit_everywhere(&json!([run, trials[..2]]), |document| {
        let (run, mut trials): (Run, Vec<Trial>) = serde_json::from_value(document).ok()?;
        trials.iter_mut().for_each(|trial| judge_trial(&run, trial));
        let summary = compute_summary(&run, &trials);
        let comparison = compute_comparison(&summary, &trials);
        Some(render_headline(&summary) + &serde_json::to_string(&(&summary, &comparison, &trials)).ok()?)
    });
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
