//! A trial as the throughput curve that `src/model/` judges.

use super::{Run, Trial};
use crate::model::{self, Collector, Facts, Series};

/// The transactions of each second of a trial, with the reads of the workload's own backends.
pub fn compute_series(run: &Run, trial: &Trial) -> Result<Series, model::Error> {
    let block_size = f64::from(run.server.block_size.max(1));
    let mut collector = Collector::new(1.0);
    for sample in &trial.samples {
        let end = f64::from(sample.second);
        let reads = sample.foreground_read_bytes.0 as f64 / block_size;
        collector.add(end - 1.0, end, sample.transactions as f64, Some(reads));
    }
    // What a script of one's own reads is not known by the scale.
    let is_builtin = ["select-only", "simple-update", "tpcb-like"].contains(&run.study.script.as_str());
    let facts = Facts { clients: Some(run.study.clients), scale: Some(run.study.scale), is_own_script: !is_builtin };
    collector.finish(facts, Vec::new()).check()
}
