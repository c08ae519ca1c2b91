//! What speaks against what others measured: what native trials are told, as far as their files let it be seen.

use super::study::{compute_sweep_verdicts, find_one_repeat};
use super::trial::{find_few, find_missed_rate, find_nothing_served, find_short_run, find_unsteady};
use crate::study::{Finding, Imported, MeasurementVerdict, texts_of};
use crate::verdict::curve::judge_unseen_samples;

/// Adds it to what was told while the files were read.
pub fn judge_import(imported: &mut Imported) {
    let Imported { run, trials, facts } = imported;
    for (trial, facts) in trials.iter_mut().zip(facts) {
        let judgement = judge_unseen_samples(&trial.samples, *facts).ok();
        let unsteady = judgement.and_then(|judgement| find_unsteady(trial, judgement));
        // Its figures are those of a part.
        let is_part = trial.verdicts.iter().any(
            |verdict| matches!(verdict.finding, Finding::LogPartial { logged, .. } if logged == trial.transactions),
        );
        let found = [
            find_short_run(trial).filter(|_| unsteady.is_none()),
            unsteady,
            find_few(trial),
            find_nothing_served(trial),
            find_missed_rate(trial).filter(|_| !is_part),
        ];
        trial.verdicts.extend(found.into_iter().flatten().map(MeasurementVerdict::of_import));
        trial.warnings = texts_of(&trial.verdicts);
    }
    run.verdicts.extend(find_one_repeat(run.repeats).map(MeasurementVerdict::of_import));
    let found = compute_sweep_verdicts(run, trials);
    run.verdicts.extend(found.into_iter().map(|verdict| MeasurementVerdict::of_import(verdict.finding)));
    run.warnings = texts_of(&run.verdicts);
}
