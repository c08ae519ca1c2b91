//! What the trials of each point say together.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::outline::{BackgroundWrites, TrialOutline};
use crate::model::compute_median;
use crate::study::{MeasurementVerdict, SweepRun};
use crate::verdict::bootstrap::{MedianInterval, compute_median_interval};

/// A figure over the repeats of a point.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Range {
    pub median: f64,
    pub min: f64,
    pub max: f64,
    /// Of the median; `None` of fewer than three trials.
    pub interval: Option<MedianInterval>,
}

/// What speaks against trials of a point.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PointVerdict {
    pub kind: &'static str,
    /// Of how many trials it was told.
    pub trials: u32,
    /// As of the first of them.
    pub sentence: String,
    pub remedy: String,
    /// Was something else measured than was asked for?
    pub is_refusing: bool,
}

impl PointVerdict {
    /// Of one trial.
    pub fn new(verdict: &MeasurementVerdict) -> PointVerdict {
        PointVerdict {
            kind: verdict.finding.kind(),
            trials: 1,
            sentence: verdict.sentence.clone(),
            remedy: verdict.remedy.clone(),
            is_refusing: verdict.finding.is_refusing(),
        }
    }
}

/// One point of a sweep, with what its trials measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PointSummary {
    pub number: u32,
    /// The point by what varies.
    pub label: String,
    /// Values of the axes that vary, in the order of [`SweepRun::varied`].
    pub values: Vec<String>,
    /// Trials that ended, and those of them that have no figures.
    pub trials: u32,
    pub failures: u32,
    /// Transactions per second; `None` when no trial has figures, as below.
    pub tps: Option<Range>,
    pub worst_second_tps: Option<Range>,
    /// Of the trials with enough transactions beyond the percentile.
    pub latency_us_p50: Option<Range>,
    pub latency_us_p95: Option<Range>,
    pub latency_us_p99: Option<Range>,
    pub latency_us_p999: Option<Range>,
    pub device_read_bytes: Option<Range>,
    /// Of the trials whose device was gauged: writes per second in the mean, and all that was written.
    pub device_writes_per_second: Option<Range>,
    pub device_written_bytes: Option<Range>,
    /// Transactions above the latency limit, and those that were not begun because they were due too long ago.
    pub late: Option<Range>,
    pub skipped: Option<Range>,
    /// That ended within a trial.
    pub checkpoints: Option<Range>,
    /// Medians.
    pub background: Option<BackgroundWrites>,
    /// What speaks against its trials.
    pub verdicts: Vec<PointVerdict>,
    /// Failures, and what trials that have no verdicts say against themselves, each text once, with how many say so.
    pub warnings: BTreeMap<String, u32>,
}

/// The points of which a trial has ended, in the order of their numbers.
pub fn compute_outline_summary(run: &SweepRun, trials: &[TrialOutline]) -> Vec<PointSummary> {
    let mut points: BTreeMap<u32, Vec<&TrialOutline>> = BTreeMap::new();
    for trial in trials {
        points.entry(trial.number).or_default().push(trial);
    }
    points.into_values().map(|trials| summarize(run, &trials)).collect()
}

/// `trials` are all of one point, and at least one.
fn summarize(run: &SweepRun, trials: &[&TrialOutline]) -> PointSummary {
    let good: Vec<&TrialOutline> = trials.iter().copied().filter(|trial| trial.failure.is_none()).collect();
    let range = |of: fn(&TrialOutline) -> Option<f64>| range_of(good.iter().filter_map(|trial| of(trial)).collect());
    let mut warnings: BTreeMap<String, u32> = BTreeMap::new();
    for trial in trials {
        let failure = trial.failure.as_ref().map(|failure| format!("failed: {failure}"));
        // Verdicts say the same with more figures; older trials have texts alone.
        let texts = if trial.verdicts.is_empty() { trial.warnings.as_slice() } else { &[] };
        for warning in texts.iter().cloned().chain(failure) {
            *warnings.entry(warning).or_default() += 1;
        }
    }
    let point = &trials[0].point;
    PointSummary {
        number: trials[0].number,
        label: point.render(&run.varied),
        values: run.varied.iter().map(|axis| point.value(axis).unwrap_or_default()).collect(),
        trials: trials.len() as u32,
        failures: (trials.len() - good.len()) as u32,
        tps: range(|trial| Some(trial.tps)),
        // Trials of older versions may say one that is above their throughput.
        worst_second_tps: range(|trial| trial.worst_second_tps.filter(|worst| *worst <= trial.tps)),
        latency_us_p50: range(|trial| trial.latency_us_p50.map(|us| us as f64)),
        latency_us_p95: range(|trial| trial.latency_us_p95.map(|us| us as f64)),
        latency_us_p99: range(|trial| trial.latency_us_p99.map(|us| us as f64)),
        latency_us_p999: range(|trial| trial.latency_us_p999.map(|us| us as f64)),
        device_read_bytes: range(|trial| Some(trial.device_read_bytes as f64)),
        device_writes_per_second: range(|trial| trial.device_writes_per_second),
        device_written_bytes: range(|trial| trial.device_written_bytes.map(|bytes| bytes as f64)),
        late: range(|trial| Some(trial.late as f64)),
        skipped: range(|trial| Some(trial.skipped as f64)),
        checkpoints: range(|trial| Some(f64::from(trial.checkpoints))),
        background: compute_background(&good),
        verdicts: collect_verdicts(trials),
        warnings,
    }
}

/// One of each kind and subject, the first that was told.
fn collect_verdicts(trials: &[&TrialOutline]) -> Vec<PointVerdict> {
    let mut places: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let mut collected: Vec<PointVerdict> = Vec::new();
    for trial in trials {
        // A trial counts once.
        let mut seen = BTreeSet::new();
        for verdict in &trial.verdicts {
            let key = (verdict.finding.kind(), verdict.finding.subject());
            if !seen.insert(key) {
                continue;
            }
            let place = *places.entry(key).or_insert(collected.len());
            match collected.get_mut(place) {
                Some(known) => known.trials += 1,
                None => collected.push(PointVerdict::new(verdict)),
            }
        }
    }
    collected
}

fn compute_background(trials: &[&TrialOutline]) -> Option<BackgroundWrites> {
    let median =
        |of: fn(&BackgroundWrites) -> f64| compute_median(trials.iter().map(|trial| of(&trial.background)).collect());
    Some(BackgroundWrites {
        checkpoints_timed: median(|one| one.checkpoints_timed)?,
        checkpoints_requested: median(|one| one.checkpoints_requested)?,
        buffers_checkpoint: median(|one| one.buffers_checkpoint)?,
        buffers_clean: median(|one| one.buffers_clean)?,
        buffers_backend: median(|one| one.buffers_backend)?,
        maxwritten_clean: median(|one| one.maxwritten_clean)?,
        buffers_alloc: median(|one| one.buffers_alloc)?,
    })
}

fn range_of(values: Vec<f64>) -> Option<Range> {
    let (min, max) =
        values.iter().fold((f64::INFINITY, 0.0_f64), |(min, max), value| (min.min(*value), max.max(*value)));
    Some(Range { median: compute_median(values.clone())?, min, max, interval: compute_median_interval(values) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_of_what_is_there() {
        let range = range_of(vec![3.0, 1.0, 8.0]).unwrap();
        assert_eq!((range.median, range.min, range.max), (3.0, 1.0, 8.0));
        assert_eq!(range.interval.map(|interval| (interval.low, interval.high)), Some((1.0, 8.0)));
        assert_eq!(range_of(vec![3.0, 1.0]).unwrap().interval, None);
        assert_eq!(range_of(Vec::new()), None);
    }
}
