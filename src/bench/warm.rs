//! When is a trial warm? Judged physically: fewer than 1 % of transactions read from the device, sustained.
//!
//! Throughput cannot say it: the cold plateau is as steady as the warm one, and the steady level itself moves with
//! the neighbours' load. What the workload's own backends read from the device has a natural zero.
//!
//! Reads are counted in blocks, so a transaction that misses twice counts twice: the share is an upper bound.

use super::Sample;
use crate::units::Bytes;

/// Misses per transaction below which a second is warm.
pub const WARM_SHARE: f64 = 0.01;

/// A later second may reach this share, when the seconds on both sides of it are warm: a vacuum or a single page that
/// the kernel took back is not a relapse.
pub const TOLERATED_SHARE: f64 = 0.02;

/// Warm seconds at the end of a trial that count as sustained.
pub const SUSTAINED_SECONDS: usize = 3;

/// Blocks that the workload's backends read from the device per transaction. `None` in a second without any
/// transaction: such a second is never warm, however little it read.
pub fn compute_miss_share(sample: &Sample, block_size: Bytes) -> Option<f64> {
    let misses = sample.foreground_read_bytes.0 as f64 / block_size.0.max(1) as f64;
    (sample.transactions > 0).then(|| misses / sample.transactions as f64)
}

/// Seconds from the start of the workload to the end of the last second that was not warm: 0 when it was warm at
/// once. `None` when the trial did not end in at least [`SUSTAINED_SECONDS`] warm seconds. Whole seconds, because
/// pgbench counts transactions by the second and nothing is interpolated.
pub fn compute_warm_after(samples: &[Sample], block_size: Bytes) -> Option<f64> {
    let shares: Vec<Option<f64>> = samples.iter().map(|sample| compute_miss_share(sample, block_size)).collect();
    let is_warm = |index: usize| shares[index].is_some_and(|share| share < WARM_SHARE);
    let is_tolerated = |index: usize| {
        let is_inside = index > 0 && index + 1 < shares.len();
        is_inside
            && shares[index].is_some_and(|share| share < TOLERATED_SHARE)
            && is_warm(index - 1)
            && is_warm(index + 1)
    };
    let last_not_warm = (0..shares.len()).rev().find(|&index| !is_warm(index) && !is_tolerated(index));
    let first_warm = last_not_warm.map_or(0, |index| index + 1);
    (shares.len() >= first_warm + SUSTAINED_SECONDS).then_some(first_warm as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::record::tests::sample;

    const BLOCK: Bytes = Bytes(8192);

    /// Seconds of 1000 transactions each, with the given misses.
    fn seconds(misses: &[u64]) -> Vec<Sample> {
        (1..).zip(misses).map(|(second, misses)| sample(second, 1000, misses * BLOCK.0)).collect()
    }

    #[test]
    fn warm_from_the_second_after_the_cold_plateau() {
        assert_eq!(compute_warm_after(&seconds(&[990, 990, 990, 400, 9, 0, 0, 0]), BLOCK), Some(4.0));
    }

    #[test]
    fn a_steady_cold_plateau_is_never_warm() {
        assert_eq!(compute_warm_after(&seconds(&[990; 60]), BLOCK), None);
    }

    #[test]
    fn exactly_one_percent_is_not_warm() {
        assert_eq!(compute_warm_after(&seconds(&[10; 20]), BLOCK), None);
        assert_eq!(compute_warm_after(&seconds(&[9; 20]), BLOCK), Some(0.0));
    }

    #[test]
    fn warm_at_once() {
        assert_eq!(compute_warm_after(&seconds(&[0; 10]), BLOCK), Some(0.0));
    }

    #[test]
    fn one_small_dip_is_tolerated_and_a_larger_or_longer_one_is_not() {
        assert_eq!(compute_warm_after(&seconds(&[900, 0, 0, 19, 0, 0, 0]), BLOCK), Some(1.0));
        assert_eq!(compute_warm_after(&seconds(&[900, 0, 0, 20, 0, 0, 0]), BLOCK), Some(4.0));
        assert_eq!(compute_warm_after(&seconds(&[900, 0, 0, 15, 15, 0, 0, 0]), BLOCK), Some(5.0));
    }

    #[test]
    fn the_tolerated_second_cannot_be_the_first_or_the_last() {
        assert_eq!(compute_warm_after(&seconds(&[15, 0, 0, 0]), BLOCK), Some(1.0));
        assert_eq!(compute_warm_after(&seconds(&[0, 0, 0, 15]), BLOCK), None);
    }

    #[test]
    fn a_second_without_transactions_is_not_warm() {
        let mut trial = seconds(&[0; 10]);
        trial[5].transactions = 0;
        assert_eq!(compute_warm_after(&trial, BLOCK), Some(6.0));
        assert_eq!(compute_miss_share(&trial[5], BLOCK), None);
    }

    #[test]
    fn warm_in_the_last_two_seconds_only_is_not_sustained() {
        assert_eq!(compute_warm_after(&seconds(&[900, 900, 0, 0]), BLOCK), None);
        assert_eq!(compute_warm_after(&seconds(&[900, 0, 0, 0]), BLOCK), Some(1.0));
    }

    #[test]
    fn nothing_measured_is_not_warm() {
        assert_eq!(compute_warm_after(&[], BLOCK), None);
    }
}
