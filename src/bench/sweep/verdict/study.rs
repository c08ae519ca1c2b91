//! What speaks against a sweep as a whole: what is known before its first trial, and what its trials show together.

use std::collections::BTreeMap;

use super::MeasurementVerdict;
use super::finding::Finding;
use crate::bench::Disk;
use crate::bench::statistics::compute_median;
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

/// Those that ended in a trial, and one that only began.
fn count_checkpoints(trial: &SweepTrial) -> u32 {
    trial.checkpoints.len() as u32 + u32::from(trial.checkpoint_begun.is_some())
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

/// How many whole cycles of checkpoints a trial has, from the beginning of one to that of the next, and its transactions
/// per second within them.
pub fn compute_cycles(trial: &SweepTrial) -> (u32, Option<f64>) {
    let ended = trial.checkpoints.iter().map(|one| one.began_after_seconds);
    let begun = trial.checkpoint_begun.iter().map(|one| one.began_after_seconds);
    let mut begins: Vec<f64> =
        ended.chain(begun).filter(|began| (0.0..=trial.lasted_seconds).contains(began)).collect();
    begins.sort_by(f64::total_cmp);
    let [first, .., last] = begins[..] else { return (0, None) };
    // Whole seconds within.
    let within = |second: f64| second > first.ceil() && second <= last.floor();
    let seconds = last.floor() - first.ceil();
    let served: u64 = trial.samples.iter().filter(|one| within(one.second.into())).map(|one| one.transactions).sum();
    (begins.len() as u32 - 1, (seconds >= 1.0).then(|| served as f64 / seconds))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::Sample;
    use crate::bench::sweep::CheckpointBegun;
    use crate::bench::sweep::trial::tests::trial;

    fn begun(began_after_seconds: f64) -> CheckpointBegun {
        CheckpointBegun { began_after_seconds, reason: "time".into() }
    }

    fn checkpoint(began_after_seconds: f64) -> crate::bench::sweep::Checkpoint {
        crate::bench::sweep::Checkpoint {
            began_after_seconds,
            ended_after_seconds: began_after_seconds + 1.0,
            reason: "time".into(),
            buffers: 1,
            write_seconds: 0.5,
            sync_seconds: 0.1,
            total_seconds: 1.0,
            sync_files: 1,
            longest_sync_seconds: 0.1,
        }
    }

    #[test]
    fn cycles_go_from_one_beginning_to_the_next() {
        let mut one = trial();
        one.lasted_seconds = 10.0;
        one.samples = (1..=10).map(|second| Sample { transactions: second.into(), ..sample(second) }).collect();
        assert_eq!(compute_cycles(&one), (0, None));
        // That one began before the trial did.
        one.checkpoints = vec![checkpoint(-0.5), checkpoint(2.0)];
        assert_eq!(compute_cycles(&one), (0, None));
        one.checkpoint_begun = Some(begun(6.5));
        // Seconds 3 to 6.
        assert_eq!(compute_cycles(&one), (1, Some(4.5)));
    }

    fn sample(second: u32) -> Sample {
        Sample {
            second,
            monotonic_ms: 0,
            wall_ms: 0,
            transactions: 0,
            latency_us_mean: None,
            latency_us_min: None,
            latency_us_max: None,
            foreground_read_bytes: crate::units::Bytes(0),
            device_read_bytes: crate::units::Bytes(0),
            device_reads: 0,
            os_resident_bytes: crate::units::Bytes(0),
        }
    }

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
