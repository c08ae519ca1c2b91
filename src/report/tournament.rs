//! What the page shows of a study of ways to warm beside what it shows of every study.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::study::{Run, SweepRun, SweepTrial, Trial};
use crate::verdict::{
    Comparison, Summary, TrialSeries, compute_comparison, compute_summary, render_headline, view_run, view_trials,
};

/// The ways to warm held against each other.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Tournament {
    #[serde(skip)]
    pub headline: String,
    pub run: Run,
    pub summary: Summary,
    pub comparison: Comparison,
    pub trials: Vec<Contender>,
}

/// A trial of it. Its seconds stand in `series`.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Contender {
    /// Of its point.
    pub number: u32,
    #[serde(flatten)]
    pub trial: Trial,
    /// Without what the machine did; nothing where the page has the whole trial beside it.
    pub series: Option<TrialSeries>,
}

impl Tournament {
    /// The curves of a trial have at most so many spans.
    pub fn new(sweep: &SweepRun, trials: Vec<SweepTrial>, spans_max: u32) -> Tournament {
        let run = view_run(sweep, &trials);
        let mut curves: BTreeMap<u32, (u32, TrialSeries)> =
            trials.iter().map(|trial| (trial.position, (trial.number, curves_of(trial, spans_max)))).collect();
        let trials = view_trials(&run, trials);
        let summary = compute_summary(&run, &trials);
        let comparison = compute_comparison(&summary, &trials);
        let contender = |mut trial: Trial| {
            trial.samples.clear();
            trial.foreground_tenths.clear();
            let (number, series) = curves.remove(&trial.position)?;
            Some(Contender { number, trial, series: Some(series) })
        };
        let trials = trials.into_iter().filter_map(contender).collect();
        Tournament { headline: render_headline(&summary), run, summary, comparison, trials }
    }

    /// What whole trials beside it have is not said twice.
    pub fn leave_to_details(&mut self) {
        for contender in &mut self.trials {
            contender.series = None;
            contender.trial.residency.clear();
        }
    }
}

fn curves_of(trial: &SweepTrial, spans_max: u32) -> TrialSeries {
    TrialSeries {
        machine: None,
        waits: Vec::new(),
        stalls: Vec::new(),
        flushes: None,
        ..TrialSeries::new(trial, spans_max)
    }
}
