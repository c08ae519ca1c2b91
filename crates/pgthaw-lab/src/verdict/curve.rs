//! A trial as the throughput curve that `crates/model/src/` judges, and what it says of it.

use super::sweep::{Metric, TrialOutline};
use crate::study::{Sample, SweepRun, SweepTrial};
use host::units::Bytes;
use model::{Collector, Facts, Judgement, Series, judge};

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

/// A trial's curve and what is said of it among the trials of its study, with so many `pages` where somebody knows.
///
/// # Errors
/// When its seconds are too few, or none of them served anything.
pub fn judge_curve(
    run: &SweepRun,
    trial: &SweepTrial,
    outline: &TrialOutline,
    pages: Option<f64>,
) -> Result<(Series, Judgement), model::Error> {
    // What a script of one's own reads is not known by the scale.
    let is_builtin = ["select-only", "simple-update", "tpcb-like"].contains(&trial.point.script_name().as_str());
    let block_size = Bytes(run.server.block_size.into());
    let series = compute_series(&trial.samples, Some(block_size), trial.point.facts(!is_builtin))?;
    let mut judgement = judge(&series, pages);
    settle(&mut judgement, outline.steady_tps, outline.figures.get(Metric::To95));
    Ok((series, judgement))
}

/// Takes back what the time to 95 % of the `common` level contradicts, and tells of a level that never gets there.
pub fn settle(judgement: &mut Judgement, common: Option<f64>, to_95_seconds: Option<f64>) {
    judgement.settle(judgement.to_95_seconds);
    judgement.settle(to_95_seconds);
    if let (Some(steady), Some(common), None) = (judgement.steady_tps, common, to_95_seconds) {
        judgement.tell_share(steady / common);
    }
}
