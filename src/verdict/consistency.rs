//! What may stand beside what: the figures and sentences of a trial, and those of its run, must not contradict each other.
//! The verdict's own rules are the model's.

use crate::model::{Judgement, find_disorder};
use crate::study::{Run, Trial};

/// Which of its figures contradict each other, each in a sentence; none of a trial that may be shown.
pub fn find_contradictions(run: &Run, trial: &Trial) -> Vec<String> {
    let times = [trial.to_50_seconds, trial.to_90_seconds, trial.to_95_seconds];
    let mut found: Vec<String> = find_disorder(times).into_iter().collect();
    let lasted = trial.samples.len() as f64;
    let mut refuse = |is_broken: bool, rule: &str| found.extend(is_broken.then(|| rule.to_owned()));
    refuse(trial.judgement.is_some() && trial.no_verdict.is_some(), "it has a verdict, and it has none");
    refuse(times.iter().flatten().any(|at| *at > lasted), "a share of the throughput is reached after its end");
    refuse(trial.warm_after_seconds.is_some_and(|at| at > lasted), "it is warm after its end");
    let Some(judgement) = &trial.judgement else { return found };
    let (is_warm, says_cold) = (trial.warm_after_seconds.is_some(), judgement.reason.contains("from a cold one"));
    refuse(is_warm && says_cold, "its reads show that it is warm, and it cannot be told from a cold one");
    refuse(
        is_before_its_level(run, trial, judgement),
        "it is steady before its own 95 %, or at a level that it never had",
    );
    let is_lost = trial.warnings.iter().any(|warning| warning.contains("as it looked steady"));
    refuse(is_lost && judgement.steady_from_seconds.is_some(), "it looked steady and is not, and it is steady");
    found.extend(judgement.find_contradictions());
    found
}

/// Is it said to be steady before the time to 95 % that stands beside it, which is of the run's steady level?
fn is_before_its_level(run: &Run, trial: &Trial, judgement: &Judgement) -> bool {
    match (judgement.steady_from_seconds, trial.to_95_seconds) {
        (Some(from), Some(reached)) => from < reached,
        (Some(_), None) => run.steady_tps.is_some() && judgement.level_share.is_none(),
        (None, _) => false,
    }
}
