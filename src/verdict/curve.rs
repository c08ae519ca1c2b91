//! A trial as the throughput curve that `src/model/` judges, and what it says of it.

use super::warnings::warn_of_lost_verdict;
use crate::model::{self, Collector, Facts, Judgement, Series, judge};
use crate::study::{NOTHING, Run, Sample, Study, Trial};
use crate::units::Bytes;

/// The transactions of each second, with the reads of the workload's own backends in blocks of this size; `None`: nobody saw them.
fn compute_series(samples: &[Sample], block_size: Option<Bytes>, facts: Facts) -> Result<Series, model::Error> {
    let mut collector = Collector::new(1.0);
    for sample in samples {
        let end = f64::from(sample.second);
        let reads = block_size.map(|block| sample.foreground_read_bytes.0 as f64 / block.0.max(1) as f64);
        collector.add(end - 1.0, end, sample.transactions as f64, reads);
    }
    collector.finish(facts, Vec::new()).check()
}

/// What the model says of a trial's seconds.
///
/// # Errors
/// When they are too few, or none of them served anything.
pub fn judge_samples(samples: &[Sample], block_size: Bytes, facts: Facts) -> Result<Judgement, model::Error> {
    Ok(judge(&compute_series(samples, Some(block_size), facts)?, None))
}

/// What the model says of a trial's seconds where nobody saw what was read.
///
/// # Errors
/// When they are too few, or none of them served anything.
pub fn judge_unseen_samples(samples: &[Sample], facts: Facts) -> Result<Judgement, model::Error> {
    Ok(judge(&compute_series(samples, None, facts)?, None))
}

/// What the model has to know beside the curve of a trial.
fn describe_workload(study: &Study, strategy: &str) -> Facts {
    // What a script of one's own reads is not known by the scale.
    let is_builtin = ["select-only", "simple-update", "tpcb-like"].contains(&study.script.as_str());
    Facts {
        clients: Some(study.clients),
        scale: Some(study.scale),
        is_own_script: !is_builtin,
        has_warmer: strategy != NOTHING,
        is_rate_limited: false,
    }
}

/// Gives a trial its verdict and fit, or says why it has none. One that has them keeps them, as far as the times to shares
/// of the run's steady throughput, which are known at the run's end, do not contradict them.
pub fn judge_trial(run: &Run, trial: &mut Trial) {
    if trial.judgement.is_none() && trial.no_verdict.is_none() {
        match judge_curve(run, trial, None) {
            Ok((_, judgement)) => trial.judgement = Some(judgement),
            Err(error) => trial.no_verdict = Some(error.to_string()),
        }
    }
    let (common, to_95_seconds) = (run.steady_tps, trial.to_95_seconds);
    trial.judgement.iter_mut().for_each(|judgement| settle(judgement, common, to_95_seconds));
    let verdict = trial.judgement.as_ref().map(|judgement| judgement.verdict);
    let lost = warn_of_lost_verdict(&run.study, trial.samples.len(), verdict);
    trial.warnings.extend(lost.filter(|lost| !trial.warnings.contains(lost)));
}

/// A trial's curve and what is said of it among the trials of its run, with so many `pages` where somebody knows.
pub fn judge_curve(run: &Run, trial: &Trial, pages: Option<f64>) -> Result<(Series, Judgement), model::Error> {
    let facts = describe_workload(&run.study, &trial.strategy);
    let series = compute_series(&trial.samples, Some(Bytes(run.server.block_size.into())), facts)?;
    let mut judgement = judge(&series, pages);
    settle(&mut judgement, run.steady_tps, trial.to_95_seconds);
    Ok((series, judgement))
}

/// Takes back what the time to 95 % of the `common` level contradicts, and tells of a level that never gets there.
fn settle(judgement: &mut Judgement, common: Option<f64>, to_95_seconds: Option<f64>) {
    judgement.settle(judgement.to_95_seconds);
    judgement.settle(to_95_seconds);
    if let (Some(steady), Some(common), None) = (judgement.steady_tps, common, to_95_seconds) {
        judgement.tell_share(steady / common);
    }
}
