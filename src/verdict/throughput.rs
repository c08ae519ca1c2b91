//! Throughput beside the physical criterion: when a trial reached shares of a level.

use super::statistics;
use crate::study::Sample;

/// Seconds of the running median that a trial's throughput is smoothed with, so that one lucky second is no arrival.
const WINDOW_SECONDS: usize = 3;

/// Seconds from the start of the workload until its throughput, and its running median over three seconds with it, first
/// reaches `share` of `steady_tps`: the end of the last second before, 0 when it began there. `None` when it never does.
pub fn compute_seconds_to(samples: &[Sample], share: f64, steady_tps: f64) -> Option<f64> {
    let smooth = compute_running_median(samples);
    let is_there = |(sample, smooth): (&Sample, &f64)| smooth.min(sample.transactions as f64) >= share * steady_tps;
    samples.iter().zip(&smooth).position(is_there).map(|index| index as f64)
}

/// Centred; at both ends over the seconds that there are.
pub fn compute_running_median(samples: &[Sample]) -> Vec<f64> {
    let half = WINDOW_SECONDS / 2;
    let window = |index: usize| &samples[index.saturating_sub(half)..(index + half + 1).min(samples.len())];
    let median =
        |window: &[Sample]| statistics::compute_median(window.iter().map(|one| one.transactions as f64).collect());
    (0..samples.len()).filter_map(|index| median(window(index))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::record::tests::sample;

    fn seconds(transactions: &[u64]) -> Vec<Sample> {
        (1..).zip(transactions).map(|(second, count)| sample(second, *count, 0)).collect()
    }

    #[test]
    fn a_single_lucky_second_is_no_arrival() {
        let samples = seconds(&[10, 10, 100, 10, 10, 100, 100, 100]);
        assert_eq!(compute_seconds_to(&samples, 0.9, 100.0), Some(5.0));
    }

    #[test]
    fn a_steep_rise_is_dated_to_its_second() {
        let samples = seconds(&[1, 1, 1, 50, 95, 100, 100]);
        assert_eq!(compute_seconds_to(&samples, 0.5, 100.0), Some(3.0));
        assert_eq!(compute_seconds_to(&samples, 0.9, 100.0), Some(4.0));
        assert_eq!(compute_seconds_to(&samples, 1.5, 100.0), None);
        assert_eq!(compute_seconds_to(&[], 0.5, 100.0), None);
    }
}
