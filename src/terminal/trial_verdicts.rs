//! The model's verdicts over a run's trials, a few words for each strategy.

use super::curve::render_seconds;
use super::steady::render_fit;
use crate::bench::{NOTHING, Summary, Trial};
use crate::model::{Judgement, Verdict};

/// Which verdicts the trials of each strategy got, in the order of the table, and the fits where nothing warmed beside.
pub fn render_trial_verdicts(summary: &Summary, trials: &[Trial]) -> String {
    let width = summary.strategies.iter().map(|one| one.strategy.chars().count()).max().unwrap_or(0);
    let mut lines = vec!["verdicts over the curves (pgthaw steady RUN draws them):".to_owned()];
    for strategy in &summary.strategies {
        let own: Vec<&Trial> = trials.iter().filter(|trial| trial.strategy == strategy.strategy).collect();
        lines.push(format!("  {:<width$}  {}", strategy.strategy, render_counts(&own)));
        if strategy.strategy == NOTHING {
            lines.extend(own.iter().filter_map(|trial| render_trial_fit(trial)).map(|fit| format!("    {fit}")));
        }
    }
    lines.join("\n")
}

/// `steady from 6 s to 8 s (2 of 3); not reached (1 of 3)`
fn render_counts(trials: &[&Trial]) -> String {
    let mut counted: Vec<String> = Vec::new();
    for verdict in [Verdict::Steady, Verdict::Periodic, Verdict::Degrading, Verdict::NotReached] {
        let such: Vec<&Judgement> =
            trials.iter().filter_map(|trial| trial.judgement.as_ref()).filter(|one| one.verdict == verdict).collect();
        if !such.is_empty() {
            counted.push(format!("{}{} ({} of {})", name(verdict), render_from(&such), such.len(), trials.len()));
        }
    }
    let reasons = trials.iter().filter_map(|trial| trial.no_verdict.as_ref());
    counted.extend(reasons.take(1).map(|why| format!("no verdict: {why}")));
    counted.join("; ")
}

fn name(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Steady => "steady",
        Verdict::NotReached => "not reached",
        Verdict::Periodic => "periodic",
        Verdict::Degrading => "degrading",
    }
}

/// ` from 6 s`, ` from 6 s to 8 s`, or nothing.
fn render_from(judgements: &[&Judgement]) -> String {
    let from: Vec<f64> = judgements.iter().filter_map(|one| one.steady_from_seconds).collect();
    let (low, high) = (from.iter().copied().reduce(f64::min), from.iter().copied().reduce(f64::max));
    match low.zip(high) {
        None => String::new(),
        Some((low, high)) if low == high => format!(" from {}", render_seconds(low)),
        Some((low, high)) => format!(" from {} to {}", render_seconds(low), render_seconds(high)),
    }
}

fn render_trial_fit(trial: &Trial) -> Option<String> {
    let judgement = trial.judgement.as_ref()?;
    let repeat = trial.repeat;
    match (&judgement.fit, &judgement.no_fit) {
        (Some(fit), _) => Some(format!("fit of repeat {repeat}: {}", render_fit(fit))),
        (None, Some(why)) => Some(format!("no fit of repeat {repeat}: {why}")),
        (None, None) => None,
    }
}
