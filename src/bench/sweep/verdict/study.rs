//! What speaks against a sweep as a whole: what is known before its first trial, and what its trials show together.

use std::collections::BTreeMap;

use super::MeasurementVerdict;
use super::finding::Finding;
use crate::bench::Disk;
use crate::bench::statistics::compute_median;
use crate::bench::sweep::cycles::count_checkpoints;
use crate::bench::sweep::{Sweep, SweepTrial};
use crate::linux::memory::pages_out_idle;
use crate::postgres::ConfiguredSetting;

/// Repeats of one point that differ by more than this are told.
const NOISE: f64 = 1.1;

/// What can be told before the first trial.
pub fn compute_start_verdicts(
    sweep: &Sweep,
    disks: &BTreeMap<String, Disk>,
    configuration: &[ConfiguredSetting],
) -> Vec<MeasurementVerdict> {
    let mut findings = Vec::new();
    for (name, disk) in disks {
        let not_in_force = |what: &str, reason: &String| Finding::NotInForce {
            what: format!("the {what} of the disk {name}"),
            reason: reason.clone(),
        };
        findings.extend(disk.not_enforced.as_ref().map(|reason| not_in_force("limit", reason)));
        findings.extend(disk.writes_not_enforced.as_ref().map(|reason| not_in_force("limit on writes", reason)));
        findings.extend(disk.read_ahead_not_enforced.as_ref().map(|reason| not_in_force("read-ahead", reason)));
    }
    let has_assertions =
        |setting: &ConfiguredSetting| setting.name == "debug_assertions" && setting.value.as_deref() == Some("on");
    let found = [
        configuration.iter().any(has_assertions).then_some(Finding::AssertionsEnabled),
        (sweep.repeats < 2).then_some(Finding::OneRepeat),
        pages_out_idle().then_some(Finding::IdleMemoryPagedOut),
    ];
    findings.extend(found.into_iter().flatten());
    findings.into_iter().map(MeasurementVerdict::from).collect()
}

/// What the trials show together.
pub fn compute_sweep_verdicts(trials: &[SweepTrial]) -> Vec<MeasurementVerdict> {
    let good: Vec<&SweepTrial> = trials.iter().filter(|trial| trial.failure.is_none()).collect();
    let found = [find_unequal_checkpoints(&good), find_noise(&good)];
    found.into_iter().flatten().map(MeasurementVerdict::from).collect()
}

fn find_unequal_checkpoints(trials: &[&SweepTrial]) -> Option<Finding> {
    let extremes = |of: &dyn Fn(&SweepTrial) -> u32| {
        let counts = trials.iter().map(|trial| of(trial));
        counts.fold((u32::MAX, 0), |(fewest, most), count| (fewest.min(count), most.max(count)))
    };
    let (fewest, most) = extremes(&count_checkpoints);
    let (fewest_cycles, most_cycles) = extremes(&|trial: &SweepTrial| trial.checkpoint_cycles);
    let differ = (most > 0 && fewest < most) || (most_cycles > 0 && fewest_cycles < most_cycles);
    differ.then_some(Finding::UnequalCheckpoints { fewest, most, fewest_cycles, most_cycles })
}

fn find_noise(trials: &[&SweepTrial]) -> Option<Finding> {
    let mut points: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for trial in trials.iter().filter(|trial| trial.tps > 0.0) {
        points.entry(trial.number).or_default().push(trial.tps);
    }
    let repeats = points.values().map(Vec::len).max()? as u32;
    let ratio = |figures: Vec<f64>| {
        let (min, max) =
            figures.iter().fold((f64::INFINITY, 0.0_f64), |(min, max), figure| (min.min(*figure), max.max(*figure)));
        (figures.len() > 1).then(|| max / min)
    };
    let ratio = compute_median(points.into_values().filter_map(ratio).collect())?;
    (ratio >= NOISE).then_some(Finding::NoiseFloor { ratio, repeats })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::sweep::cycles::tests::checkpoint;
    use crate::bench::sweep::trial::tests::trial;

    #[test]
    fn trials_with_other_checkpoints_are_told_and_so_is_noise() {
        let of = |number: u32, tps: f64, checkpoints: usize| SweepTrial {
            number,
            tps,
            checkpoints: vec![checkpoint(1.0); checkpoints],
            ..trial()
        };
        let kinds = |trials: &[SweepTrial]| {
            let verdicts = compute_sweep_verdicts(trials);
            verdicts.iter().map(|verdict| verdict.finding.kind()).collect::<Vec<_>>()
        };
        assert_eq!(kinds(&[of(0, 100.0, 1), of(1, 300.0, 1)]), [""; 0]);
        assert_eq!(kinds(&[of(0, 100.0, 1), of(1, 300.0, 2)]), ["unequal_checkpoints"]);
        assert_eq!(kinds(&[of(0, 100.0, 0), of(0, 130.0, 0), of(1, 50.0, 0)]), ["noise_floor"]);
        assert_eq!(kinds(&[of(0, 100.0, 0), of(0, 105.0, 0)]), [""; 0]);
        assert_eq!(kinds(&[]), [""; 0]);
    }
}
