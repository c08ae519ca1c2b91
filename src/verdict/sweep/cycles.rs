//! Whole cycles of checkpoints within a trial: from the beginning of one to that of the next.
//!
//! Full-page images come right behind a checkpoint's beginning and its writes after them, so that trials that saw different
//! parts of a cycle differ in what they were given to do.

use crate::study::{Sample, SweepTrial};

/// A part of a trial that begins and ends with the beginning of a checkpoint; whole seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The seconds above `after` and up to `until`, as samples count them.
    after: u32,
    until: u32,
}

impl Window {
    /// The first `cycles` whole cycles of a trial. `None` when it has fewer, or they have no whole second.
    pub fn of(trial: &SweepTrial, cycles: u32) -> Option<Window> {
        let begins = read_begins(trial);
        let (first, last) = (begins.first()?, begins.get(cycles as usize).filter(|_| cycles > 0)?);
        let window = Window { after: first.ceil() as u32, until: last.floor() as u32 };
        (window.after < window.until).then_some(window)
    }

    /// Transactions per second.
    pub fn tps(self, trial: &SweepTrial) -> f64 {
        let served: f64 = self.samples(trial).map(|sample| sample.transactions as f64).sum();
        served / f64::from(self.until - self.after)
    }

    /// Transactions of its slowest second. `None` when none was sampled.
    pub fn worst_second_tps(self, trial: &SweepTrial) -> Option<f64> {
        self.samples(trial).map(|sample| sample.transactions as f64).reduce(f64::min)
    }

    fn samples(self, trial: &SweepTrial) -> impl Iterator<Item = &Sample> {
        trial.samples.iter().filter(move |sample| sample.second > self.after && sample.second <= self.until)
    }
}

/// How many whole cycles a trial has, and its transactions per second within them.
pub fn compute_cycles(trial: &SweepTrial) -> (u32, Option<f64>) {
    let cycles = read_begins(trial).len().saturating_sub(1) as u32;
    (cycles, Window::of(trial, cycles).map(|window| window.tps(trial)))
}

/// Checkpoints that ended in a trial, and one that only began.
pub fn count_checkpoints(trial: &SweepTrial) -> u32 {
    trial.checkpoints.len() as u32 + u32::from(trial.checkpoint_begun.is_some())
}

/// When checkpoints began within the trial, in order; seconds after its beginning.
fn read_begins(trial: &SweepTrial) -> Vec<f64> {
    let ended = trial.checkpoints.iter().map(|one| one.began_after_seconds);
    let begun = trial.checkpoint_begun.iter().map(|one| one.began_after_seconds);
    let mut begins: Vec<f64> =
        ended.chain(begun).filter(|began| (0.0..=trial.lasted_seconds).contains(began)).collect();
    begins.sort_by(f64::total_cmp);
    begins
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::study::sweep::record::tests::trial;
    use crate::study::{Checkpoint, CheckpointBegun};
    use crate::units::Bytes;

    pub fn checkpoint(began_after_seconds: f64) -> Checkpoint {
        Checkpoint {
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

    /// Ten seconds, in each as many transactions as its number; checkpoints begin after these seconds.
    pub fn counting(begins: &[f64]) -> SweepTrial {
        let sample = |second: u32| Sample {
            second,
            monotonic_ms: 0,
            wall_ms: 0,
            transactions: second.into(),
            latency_us_mean: None,
            latency_us_min: None,
            latency_us_max: None,
            latency_us_deviation: None,
            foreground_read_bytes: Bytes(0),
            device_read_bytes: Bytes(0),
            device_reads: 0,
            os_resident_bytes: Bytes(0),
        };
        SweepTrial {
            lasted_seconds: 10.0,
            tps: 5.5,
            worst_second_tps: Some(2.0),
            samples: (1..=10).map(sample).collect(),
            checkpoints: begins.iter().map(|began| checkpoint(*began)).collect(),
            ..trial()
        }
    }

    #[test]
    fn cycles_go_from_one_beginning_to_the_next() {
        assert_eq!(compute_cycles(&counting(&[])), (0, None));
        // That one began before the trial did.
        let mut one = counting(&[-0.5, 2.0]);
        assert_eq!(compute_cycles(&one), (0, None));
        one.checkpoint_begun = Some(CheckpointBegun { began_after_seconds: 6.5, reason: "time".into() });
        // Seconds 3 to 6.
        assert_eq!(compute_cycles(&one), (1, Some(4.5)));
        assert_eq!(Window::of(&one, 1).unwrap().worst_second_tps(&one), Some(3.0));
        assert_eq!((Window::of(&one, 0), Window::of(&one, 2)), (None, None));
    }

    #[test]
    fn a_cycle_without_a_whole_second_is_no_window() {
        let one = counting(&[2.2, 2.9]);
        assert_eq!((Window::of(&one, 1), compute_cycles(&one)), (None, (1, None)));
    }
}
