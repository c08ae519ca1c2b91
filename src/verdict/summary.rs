//! What the trials of a run say about each strategy. Pure: the table, `--json` and the report all show this.

use std::cmp::Ordering;

use serde::Serialize;

use super::spread::{Spread, missing_last};
use crate::study::{NOTHING, Run, Sample, Trial};

/// All strategies of a run, the soonest warm first.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Summary {
    /// Seconds below which no warmer can be; `None` on the native disk.
    pub bound_seconds: Option<f64>,
    /// Seconds that each trial lasted: what a missing time is longer than.
    pub trial_seconds: u32,
    pub strategies: Vec<StrategySummary>,
}

/// A strategy that was warm before this part of the bound did not need all that the bound is about.
const BOUND_HOLDS_FROM: f64 = 0.95;

impl Summary {
    /// Is the bound one? Where most of the work needs a part of what was resident, a server is warm before the rest is loaded.
    pub fn is_bounded(&self) -> bool {
        let ratios = || self.strategies.iter().filter_map(|one| one.bound_ratio?.min);
        self.bound_seconds.is_some() && ratios().all(|ratio| ratio >= BOUND_HOLDS_FROM)
    }
}

/// One strategy over its repeats.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct StrategySummary {
    pub strategy: String,
    pub trials: u32,
    pub warm_after_seconds: Spread,
    /// Seconds until that share of the run's steady throughput; `None` when that is not known.
    pub to_50_seconds: Option<Spread>,
    pub to_90_seconds: Option<Spread>,
    pub to_95_seconds: Option<Spread>,
    /// `warm_after_seconds ÷ bound_seconds`.
    pub bound_ratio: Option<Spread>,
    /// Transactions served until it was warm; over the whole trial when it never was.
    pub served_until_warm: Spread,
    /// Transactions that `nothing` had served by this strategy's median warm time (by the end of the trial when there
    /// is none). `None` when `nothing` was not measured for so long, and for `nothing` itself.
    pub nothing_served_by_then: Option<Spread>,
    /// Transactions served over the whole trial.
    pub served: Spread,
    /// Seconds until the strategy's command ended; `None` when it has none, or when it never ended.
    pub ended_after_seconds: Option<Spread>,
    pub device_read_bytes: Spread,
    /// What speaks against these numbers: failed commands, starts that were not cold, the trials' own warnings.
    pub caveats: Vec<String>,
}

/// Summarises the trials of a run. Strategies without a trial are left out.
pub fn compute_summary(run: &Run, trials: &[Trial]) -> Summary {
    let bound_seconds = run.study.bound_seconds.filter(|bound| *bound > 0.0);
    let mut names: Vec<&str> = Vec::new();
    for name in run.study.strategies.iter().chain(trials.iter().map(|trial| &trial.strategy)) {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    let mut strategies: Vec<StrategySummary> = names
        .into_iter()
        .filter(|name| trials.iter().any(|trial| trial.strategy == *name))
        .map(|name| summarise_strategy(name, trials, bound_seconds, run.steady_tps.is_some()))
        .collect();
    strategies.sort_by(soonest_first);
    Summary { bound_seconds, trial_seconds: run.study.seconds, strategies }
}

/// By the median warm time, then by the soonest repeat; among those that never got warm, who served most comes first.
fn soonest_first(a: &StrategySummary, b: &StrategySummary) -> Ordering {
    missing_last(a.warm_after_seconds.median, b.warm_after_seconds.median)
        .then_with(|| missing_last(a.warm_after_seconds.min, b.warm_after_seconds.min))
        .then_with(|| missing_last(b.served.median, a.served.median))
}

fn summarise_strategy(name: &str, all: &[Trial], bound_seconds: Option<f64>, is_steady_known: bool) -> StrategySummary {
    let trials: Vec<&Trial> = all.iter().filter(|trial| trial.strategy == name).collect();
    let spread = |value: fn(&Trial) -> Option<f64>| Spread::of(trials.iter().map(|trial| value(trial)));
    let warm_after_seconds = spread(|trial| trial.warm_after_seconds);
    let ended_after_seconds = spread(|trial| trial.outcome.ended_after_seconds);
    StrategySummary {
        strategy: name.to_owned(),
        trials: trials.len() as u32,
        warm_after_seconds,
        to_50_seconds: is_steady_known.then(|| spread(|trial| trial.to_50_seconds)),
        to_90_seconds: is_steady_known.then(|| spread(|trial| trial.to_90_seconds)),
        to_95_seconds: is_steady_known.then(|| spread(|trial| trial.to_95_seconds)),
        bound_ratio: bound_seconds.map(|bound| warm_after_seconds.divided_by(bound)),
        served_until_warm: spread(|trial| Some(trial.served_until_warm as f64)),
        nothing_served_by_then: nothing_served_by(name, warm_after_seconds.median, all),
        served: spread(|trial| Some(trial.served as f64)),
        ended_after_seconds: (ended_after_seconds.reached > 0).then_some(ended_after_seconds),
        device_read_bytes: spread(|trial| Some(trial.device_read_bytes.0 as f64)),
        caveats: caveats(&trials),
    }
}

fn nothing_served_by(strategy: &str, seconds: Option<f64>, all: &[Trial]) -> Option<Spread> {
    let baseline: Vec<&Trial> = all.iter().filter(|trial| trial.strategy == NOTHING).collect();
    if strategy == NOTHING || baseline.is_empty() {
        return None;
    }
    // A trial that ended when it was steady says nothing of later instants.
    let longest = all.iter().map(|trial| trial.samples.len()).max().unwrap_or(0);
    let needed = seconds.map_or(longest, |seconds| seconds.ceil() as usize);
    if baseline.iter().any(|trial| trial.samples.len() < needed) {
        return None;
    }
    Some(Spread::of(baseline.iter().map(|trial| Some(served_by(&trial.samples, seconds.unwrap_or(f64::INFINITY))))))
}

/// Transactions served by an instant, with the second that it falls into taken as even.
pub fn served_by(samples: &[Sample], seconds: f64) -> f64 {
    let share_of = |second: u32| (seconds - (f64::from(second) - 1.0)).clamp(0.0, 1.0);
    samples.iter().map(|sample| sample.transactions as f64 * share_of(sample.second)).sum()
}

/// Each thing said once, with the repeats that it holds for.
fn caveats(trials: &[&Trial]) -> Vec<String> {
    let mut said: Vec<(String, Vec<u32>)> = Vec::new();
    for trial in trials {
        let failure = trial.outcome.failure.iter().map(|failure| format!("failed: {failure}"));
        let start = (trial.start_state.verdict != "cold").then(|| {
            let state = &trial.start_state;
            format!("started {}: {} of {} were resident", state.verdict, state.os_resident_bytes, state.total_bytes)
        });
        for text in failure.chain(start).chain(trial.warnings.iter().cloned()) {
            match said.iter_mut().find(|(known, _)| without_figures(known) == without_figures(&text)) {
                Some((_, repeats)) => repeats.push(trial.repeat),
                None => said.push((text, vec![trial.repeat])),
            }
        }
    }
    said.into_iter().map(|(text, repeats)| with_repeats(text, repeats, trials.len())).collect()
}

/// What others did differs a little from trial to trial, and is told once, with the first one's figures.
fn without_figures(text: &str) -> String {
    // Trials of older versions say what to stop.
    match text.split_once(": wait until ").or_else(|| text.split_once(": stop ")) {
        Some((sentence, _)) => sentence.chars().filter(|letter| !letter.is_ascii_digit()).collect(),
        None => text.to_owned(),
    }
}

fn with_repeats(text: String, mut repeats: Vec<u32>, of: usize) -> String {
    repeats.sort_unstable();
    let list = repeats.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    match (of, repeats.len()) {
        (1, _) => text,
        (_, 1) => format!("{text} (repeat {list} of {of})"),
        _ => format!("{text} (repeats {list} of {of})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_are_told_once_for_all_repeats() {
        let warned = |repeat: u32, text: &str| Trial {
            warnings: vec![text.to_owned()],
            ..crate::study::record::tests::trial("cat", repeat, Vec::new())
        };
        let trials = [
            warned(1, "others used 0.9 of 2 processors meanwhile: wait until make has ended"),
            warned(2, "2 of 20 readings came late"),
            warned(3, "others used 1.2 of 2 processors meanwhile: wait until cc1 and make have ended"),
        ];
        let told = caveats(&trials.iter().collect::<Vec<_>>());
        assert_eq!(
            told,
            [
                "others used 0.9 of 2 processors meanwhile: wait until make has ended (repeats 1, 3 of 3)",
                "2 of 20 readings came late (repeat 2 of 3)"
            ]
        );
    }
}
