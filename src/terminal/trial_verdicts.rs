//! The model's verdicts over a run's trials, a few words for each strategy.

use super::curve::render_seconds;
use super::steady::render_fit;
use crate::model::{Judgement, Verdict, tell_from};
use crate::study::{NOTHING, Trial};
use crate::verdict::Summary;

/// What is said of trials whose level is not that of the others, to which the times beside it are.
const OTHER_LEVEL: &str = ", below the run's steady level";

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
        for is_of_other_level in [false, true] {
            let such = |one: &&Judgement| one.verdict == verdict && one.is_of_other_level() == is_of_other_level;
            let such: Vec<&Judgement> =
                trials.iter().filter_map(|trial| trial.judgement.as_ref()).filter(such).collect();
            if !such.is_empty() {
                let level = if is_of_other_level { OTHER_LEVEL } else { "" };
                let (name, from) = (name(verdict), render_from(&such));
                counted.push(format!("{name}{from}{level} ({} of {})", such.len(), trials.len()));
            }
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

/// ` from 6 s`, ` from 6 s to 8 s`, ` at once`, ` at once to 3.0 s`, or nothing.
fn render_from(judgements: &[&Judgement]) -> String {
    let from: Vec<f64> = judgements.iter().filter_map(|one| one.steady_from_seconds).collect();
    let (low, high) = (from.iter().copied().reduce(f64::min), from.iter().copied().reduce(f64::max));
    let Some((low, high)) = low.zip(high) else { return String::new() };
    let [shown_low, shown_high] = [low, high].map(render_seconds);
    let to = if shown_low == shown_high { String::new() } else { format!(" to {shown_high}") };
    format!(" {}{to}", tell_from(low, &shown_low))
}

fn render_trial_fit(trial: &Trial) -> Option<String> {
    let judgement = trial.judgement.as_ref()?;
    let repeat = trial.repeat;
    match (&judgement.fit, &judgement.no_fit) {
        (Some(fit), _) => Some(format!("what the model makes of trial {repeat}: {}", render_fit(fit))),
        (None, Some(why)) => Some(format!("the model says nothing of trial {repeat}: {why}")),
        (None, None) => None,
    }
}
