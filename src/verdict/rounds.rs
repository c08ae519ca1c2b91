//! The trials of two strategies, round by round.

use crate::study::Trial;

/// The trials of two strategies in the same round, for all rounds that have both.
pub fn pair_rounds<'a>(trials: &'a [Trial], one: &str, other: &str) -> Vec<(&'a Trial, &'a Trial)> {
    let others: Vec<&Trial> = trials.iter().filter(|trial| trial.strategy == other).collect();
    let own = trials.iter().filter(|trial| trial.strategy == one);
    own.filter_map(|trial| Some((trial, *others.iter().find(|other| other.repeat == trial.repeat)?))).collect()
}
