use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::metric::{ByMetric, Metric};
use super::outline::{BackgroundWrites, TrialOutline};
use super::statistics::{Spread, missing_last};
use super::warming::{job_limit, might_have};
use crate::study::{MeasurementVerdict, SweepRun};
use model::{Judgement, compute_median};
use observe::time::TimeFigures;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, crate::JsonSchema, crate::TS)]
pub struct PointVerdict {
    pub kind: &'static str,
    pub trials: u32,
    /// Sentence of the first trial with this verdict.
    pub sentence: String,
    pub remedy: String,
    /// Whether the trial measured something other than requested.
    pub is_refusing: bool,
}

impl PointVerdict {
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

#[derive(Clone, Debug, Default, PartialEq, Serialize, crate::JsonSchema, crate::TS)]
pub struct PointSummary {
    /// From 0.
    pub number: u32,
    /// The point's values on the axes that vary.
    pub label: String,
    /// Values of the axes in `varied`.
    pub values: Vec<String>,
    /// Number of ended trials.
    pub trials: u32,
    /// Number of trials without figures.
    pub failures: u32,
    /// The time of an event that did not occur counts as longer than all others.
    #[serde(flatten)]
    pub figures: ByMetric<Spread>,
    /// Length of the cold trials. An event that did not occur takes longer than this.
    pub measured_seconds: Option<u32>,
    /// Medians over the trials.
    pub background: Option<BackgroundWrites>,
    /// Mean over the point's trials, if available; published as `TimedPoint`.
    #[serde(skip)]
    pub time: Option<TimeFigures>,
    pub verdicts: Vec<PointVerdict>,
    /// Warnings with their numbers of trials: failures that are not in `verdicts`, and trials that ended early although
    /// they were not steady.
    pub warnings: BTreeMap<String, u32>,
}

impl PointSummary {
    pub fn figure(&self, metric: Metric) -> Option<Spread> {
        self.figures.get(metric)
    }

    pub fn median(&self, metric: Metric) -> Option<f64> {
        self.figure(metric)?.median
    }
}

/// Sorts the points by number, or fastest first if only the warmer varies.
pub fn compute_outline_summary(run: &SweepRun, trials: &[TrialOutline]) -> Vec<PointSummary> {
    let mut points: BTreeMap<u32, Vec<&TrialOutline>> = BTreeMap::new();
    for trial in trials {
        points.entry(trial.number).or_default().push(trial);
    }
    let mut points: Vec<PointSummary> = points.into_values().map(|trials| summarize(run, &trials)).collect();
    if run.compares_warmers() {
        points.sort_by(soonest_first);
    }
    points
}

fn soonest_first(a: &PointSummary, b: &PointSummary) -> Ordering {
    let reached = |point: &PointSummary, of: fn(&Spread) -> Option<f64>| {
        let metrics = [Metric::Whole, Metric::ResidentAfter, Metric::WarmAfter];
        metrics.into_iter().find_map(|metric| point.figure(metric)).and_then(|spread| of(&spread))
    };
    missing_last(reached(a, |spread| spread.median), reached(b, |spread| spread.median))
        .then_with(|| missing_last(reached(a, |spread| spread.min), reached(b, |spread| spread.min)))
        .then_with(|| missing_last(b.median(Metric::Served), a.median(Metric::Served)))
        .then_with(|| a.number.cmp(&b.number))
}

/// `trials` belong to one point and are not empty.
fn summarize(run: &SweepRun, trials: &[&TrialOutline]) -> PointSummary {
    let good: Vec<&TrialOutline> = trials.iter().copied().filter(|trial| trial.failure.is_none()).collect();
    let mut warnings: BTreeMap<String, u32> = BTreeMap::new();
    for trial in trials {
        let is_told = |failure: &&String| trial.verdicts.iter().any(|verdict| verdict.sentence == **failure);
        let failure = trial.failure.as_ref().filter(|failure| !is_told(failure));
        let failure = failure.map(|failure| format!("failed: {failure}"));
        for warning in failure.into_iter().chain(find_lost_verdict(trial)) {
            *warnings.entry(warning).or_default() += 1;
        }
    }
    let point = &trials[0].point;
    let measured = |trial: &&TrialOutline| trial.warming.as_ref().map(|one| one.measured_seconds).or(job_limit(trial));
    PointSummary {
        number: trials[0].number,
        label: point.render(&run.varied),
        values: run.varied.iter().map(|axis| point.value(axis).unwrap_or_default()).collect(),
        trials: trials.len() as u32,
        failures: (trials.len() - good.len()) as u32,
        figures: Metric::ALL.iter().copied().map(|metric| (metric, compute_spread(metric, &good))).collect(),
        measured_seconds: good.iter().filter_map(measured).min(),
        background: compute_background(&good),
        time: TimeFigures::mean(&good.iter().filter_map(|trial| trial.time.as_ref()).collect::<Vec<_>>()),
        verdicts: collect_verdicts(trials),
        warnings,
    }
}

/// Reports a trial that ended early because it looked steady, although its whole curve is not steady.
fn find_lost_verdict(trial: &TrialOutline) -> Option<String> {
    let (warming, asked) = (trial.warming.as_ref()?, trial.point.seconds?);
    let ended_early =
        warming.brought.is_none() && warming.job.is_none() && warming.measured_seconds.saturating_add(1) < asked;
    let is_borne_out = trial.judgement.as_ref().is_some_and(Judgement::is_steady);
    (ended_early && !is_borne_out).then(|| {
        let lasted = warming.measured_seconds;
        format!("the trial ended after {lasted} s because it looked steady, but its whole curve is not steady: repeat it without until = \"steady\"")
    })
}

fn collect_verdicts(trials: &[&TrialOutline]) -> Vec<PointVerdict> {
    let mut places: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let mut collected: Vec<PointVerdict> = Vec::new();
    for trial in trials {
        // A trial counts once per verdict.
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

fn compute_spread(metric: Metric, trials: &[&TrialOutline]) -> Option<Spread> {
    let figures = trials.iter().map(|trial| trial.figures.get(metric));
    let spread = match metric.may_be_missed() {
        true => Spread::of(figures.zip(trials).filter(|(_, trial)| might_have(trial, metric)).map(|(value, _)| value)),
        false => Spread::of(figures.flatten().map(Some)),
    };
    (spread.repeats > 0).then_some(spread)
}

/// Where the servers' time went at a point, as means over the trials.
#[derive(Clone, Debug, PartialEq, Serialize, crate::JsonSchema, crate::TS)]
pub struct TimedPoint {
    pub number: u32,
    /// `None` for imports.
    pub clients: Option<u32>,
    /// The point's values on the axes that vary, except clients.
    pub others: String,
    /// Median transactions per second.
    pub tps: Option<f64>,
    /// Response time: clients ÷ `tps`. `None` if the load had a fixed rate.
    pub response_us: Option<f64>,
    /// Explained time per client: its backend's time in known states.
    pub explained_seconds: Option<f64>,
    #[serde(flatten)]
    pub time: TimeFigures,
    /// Total time of all clients' backends from the end of one command to the receipt of the next. Time in an unknown
    /// state is not counted.
    pub reading_seconds: f64,
    pub processors_used: f64,
}

pub fn compute_timed_points(run: &SweepRun, points: &[PointSummary]) -> Vec<TimedPoint> {
    let axes = run.axes();
    let timed = |summary: &PointSummary| {
        let time = summary.time.clone()?;
        let point = axes.as_ref().map(|axes| axes.point(summary.number.into()));
        let clients = point.as_ref().map(|point| point.clients);
        let varied = run.varied.iter().zip(&summary.values).filter(|(axis, _)| axis.as_str() != "clients");
        let others: Vec<String> = varied.map(|(axis, value)| format!("{axis} {value}")).collect();
        let tps = summary.median(Metric::Tps);
        let is_closed = point.is_some_and(|point| point.rate.is_none());
        let response_us = tps.zip(clients).filter(|(tps, _)| is_closed && *tps > 0.0);
        Some(TimedPoint {
            number: summary.number,
            clients,
            others: others.join(", "),
            tps,
            response_us: response_us.map(|(tps, clients)| 1e6 * f64::from(clients) / tps),
            explained_seconds: clients.map(|clients| time.explained_seconds() / f64::from(clients)),
            reading_seconds: time.reading_seconds(),
            processors_used: time.processors_used(),
            time,
        })
    };
    points.iter().filter_map(timed).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::study::record::tests::run;
    use crate::study::spec::tests::sweep;
    use observe::time::TimeUse;

    #[test]
    fn a_response_follows_from_users_and_throughput() {
        let study = sweep("[points]\nclients = [1, 64]\n[settings]\nwork_mem = ['4MB', '8MB']\n").unwrap();
        let run = SweepRun { study: serde_json::to_value(&study).unwrap(), varied: study.axes.varied(), ..run() };
        let total =
            TimeUse { running_seconds: 32.0, client_seconds: 608.0, handled_seconds: 40.0, ..TimeUse::default() };
        let time = TimeFigures { length_seconds: 10.0, total, ..TimeFigures::default() };
        let spread = crate::verdict::Spread::of([Some(3200.0)]);
        let number = (0..4).find(|number| study.point(*number).clients == 64).unwrap();
        let points = [
            PointSummary { number: 0, ..PointSummary::default() },
            PointSummary {
                number,
                values: vec!["64".into(), "8MB".into()],
                figures: [(Metric::Tps, Some(spread))].into_iter().collect(),
                time: Some(time),
                ..PointSummary::default()
            },
        ];
        let timed = compute_timed_points(&run, &points);
        assert_eq!(timed.len(), 1, "nobody looked at the other");
        let one = &timed[0];
        assert_eq!((one.clients, one.others.as_str()), (Some(64), "work_mem 8MB"));
        assert_eq!((one.response_us, one.explained_seconds), (Some(20_000.0), Some(10.0)));
        assert_eq!((one.reading_seconds, one.processors_used), (600.0, 3.2));
        assert_eq!(serde_json::to_value(one).unwrap()["handled_seconds"], json!(40.0));
    }
}
