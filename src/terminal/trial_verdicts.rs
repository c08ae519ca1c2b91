//! The model's verdicts over a run's trials, a few words for each strategy.

use super::curve::render_seconds;
use super::steady::{render_fit, verdict_name};
use crate::model::{Judgement, Verdict, tell_from};
use crate::study::{NOTHING, Trial};
use crate::verdict::Summary;

/// What is said of trials whose level is not that of the others, to which the times beside it are.
const OTHER_LEVEL: &str = ", below the run's steady level";

/// Which verdicts the trials of each strategy got, in the order of the table, and the fits where nothing warmed beside.
pub fn render_trial_verdicts(summary: &Summary, trials: &[Trial]) -> String {
    let width = summary.strategies.iter().map(|one| one.strategy.chars().count() + 1).max().unwrap_or(0);
    let mut lines = vec!["verdicts over the curves of each warmer (pgthaw steady RUN draws them):".to_owned()];
    for strategy in &summary.strategies {
        let own: Vec<&Trial> = trials.iter().filter(|trial| trial.strategy == strategy.strategy).collect();
        let judged: Vec<&Judgement> = own.iter().filter_map(|trial| trial.judgement.as_ref()).collect();
        let no_verdict = own.iter().find_map(|trial| trial.no_verdict.as_deref());
        // The colon keeps `nothing` from being read with what follows.
        let name = format!("{}:", strategy.strategy);
        lines.push(format!("  {name:<width$}  {}", render_counts(&judged, no_verdict, own.len())));
        if strategy.strategy == NOTHING {
            lines.extend(own.iter().filter_map(|trial| render_trial_fit(trial)).map(|fit| format!("    {fit}")));
        }
    }
    lines.join("\n")
}

/// `steady from 6 s to 8 s (2 of 3); steady state not reached (1 of 3)`
fn render_counts(judged: &[&Judgement], no_verdict: Option<&str>, trials: usize) -> String {
    let mut counted: Vec<String> = Vec::new();
    for verdict in [Verdict::Steady, Verdict::Periodic, Verdict::Degrading, Verdict::NotReached] {
        for is_otherwise in [false, true] {
            let such = |one: &&Judgement| one.verdict == verdict && is_of_other_kind(one) == is_otherwise;
            let such: Vec<&Judgement> = judged.iter().copied().filter(such).collect();
            let Some(first) = such.first() else { continue };
            let level = if first.level_share.is_some() { OTHER_LEVEL } else { "" };
            counted.push(format!("{}{}{level} ({} of {trials})", verdict_name(first), render_from(&such), such.len()));
        }
    }
    counted.extend(no_verdict.map(|why| format!("no verdict: {why}")));
    counted.join("; ")
}

/// Is it of a level that is not that of the others, or open rather than seen?
fn is_of_other_kind(judgement: &Judgement) -> bool {
    judgement.level_share.is_some() || judgement.undecided.is_some()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Bucket, Facts, Series, Undecided, judge};

    #[test]
    fn what_was_not_reached_is_told_in_words_of_its_own() {
        let judged = |undecided| {
            let second = Bucket { transactions: 100.0, covered_seconds: 1.0, ..Bucket::default() };
            let buckets = vec![second; 20];
            let series =
                Series { width_seconds: 1.0, buckets, has_reads: false, facts: Facts::default(), remarks: Vec::new() };
            Judgement { verdict: Verdict::NotReached, steady_from_seconds: None, undecided, ..judge(&series, None) }
        };
        let (seen, open) = (judged(None), judged(Some(Undecided::TooShort)));
        assert_eq!(
            render_counts(&[&seen, &open, &open], None, 3),
            "steady state not reached (1 of 3); not decided whether it is steady (2 of 3)"
        );
    }
}
