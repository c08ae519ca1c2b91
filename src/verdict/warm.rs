//! When is a trial warm? Judged physically: from its first second in which fewer than 1 % of the transactions read from the
//! device, if from then on until it ends any three seconds have fewer too. Three, so that a vacuum, or a page that the kernel took
//! back, is no relapse; and a second of its own, so that the leap of a slow disk's throughput does not outvote the cold second before
//! it.
//!
//! Throughput cannot say it: the cold plateau is as steady as the warm one, and the steady level itself moves with
//! the neighbours' load. What the workload's own backends read from the device has a natural zero.
//!
//! Reads are counted in blocks, so a transaction that misses twice counts twice: the share is an upper bound.

use crate::study::Sample;
use crate::units::Bytes;

/// Misses per transaction below which seconds are warm.
pub const WARM_SHARE: f64 = 0.01;

/// Blocks that count as a miss: less than one comes from readings between which a block was shared out.
const ANY_MISS: f64 = 0.5;

/// Tenths of a second in a second.
const TENTHS: usize = 10;

/// Seconds whose transactions are judged together; a trial must end in so many that are warm.
pub const SUSTAINED_SECONDS: usize = 3;

/// Blocks that the workload's backends read from the device per transaction. `None` in a second without any transaction.
pub fn compute_miss_share(sample: &Sample, block_size: Bytes) -> Option<f64> {
    let misses = sample.foreground_read_bytes.0 as f64 / block_size.0.max(1) as f64;
    (sample.transactions > 0).then(|| misses / sample.transactions as f64)
}

/// Seconds from the start of the workload until it was warm: 0 when it was so at once. `None` when the last
/// [`SUSTAINED_SECONDS`] of the trial were not.
///
/// Which seconds are warm is judged by whole seconds, for pgbench counts transactions so. The instant lies in the last
/// second that was not warm or in the first that was: it is the end of the last tenth in which the workload read for at
/// least 1 % of the transactions that it had served in a tenth before these two seconds, when it was slower than in
/// them: rather late than early. A second that served nothing was cold to its end. `tenths` are the workload's reads in
/// each tenth of a second; a read counts when it is issued.
pub fn compute_warm_after(samples: &[Sample], tenths: &[Bytes], block_size: Bytes) -> Option<f64> {
    let first_warm = find_first_warm(samples, block_size)?;
    let earlier = first_warm.checked_sub(2).map_or(0, |second| samples[second].transactions);
    let limit = (WARM_SHARE * earlier as f64 / TENTHS as f64).max(ANY_MISS);
    let is_cold = |tenth: usize| {
        let misses = tenths.get(tenth).map_or(0.0, |read| read.0 as f64 / block_size.0.max(1) as f64);
        misses >= limit || samples[tenth / TENTHS].transactions == 0
    };
    let transition = first_warm.saturating_sub(1) * TENTHS..(first_warm + 1) * TENTHS;
    let last_cold = transition.rev().find(|tenth| is_cold(*tenth));
    Some(last_cold.map_or(0.0, |tenth| (tenth + 1) as f64 / TENTHS as f64))
}

/// The index of the first second from which the trial stays warm to its end. Seconds that served nothing at all are not warm,
/// however little they read.
pub fn find_first_warm(samples: &[Sample], block_size: Bytes) -> Option<usize> {
    let is_warm = |seconds: &[Sample]| {
        let misses: f64 =
            seconds.iter().map(|one| one.foreground_read_bytes.0 as f64 / block_size.0.max(1) as f64).sum();
        let transactions: u64 = seconds.iter().map(|one| one.transactions).sum();
        misses < WARM_SHARE * transactions as f64
    };
    let windows: Vec<bool> = samples.windows(SUSTAINED_SECONDS).map(is_warm).collect();
    let sustained = windows.iter().rposition(|is_warm| !is_warm).map_or(0, |last| last + 1);
    (sustained..windows.len()).find(|second| is_warm(&samples[*second..=*second]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::record::tests::sample;

    const BLOCK: Bytes = Bytes(8192);

    /// Seconds of 1000 transactions each, with the given misses.
    fn seconds(misses: &[u64]) -> Vec<Sample> {
        (1..).zip(misses).map(|(second, misses)| sample(second, 1000, misses * BLOCK.0)).collect()
    }

    /// The same, spread evenly within each second.
    fn even_tenths(samples: &[Sample]) -> Vec<Bytes> {
        samples.iter().flat_map(|sample| [Bytes(sample.foreground_read_bytes.0 / 10); 10]).collect()
    }

    fn warm_after(misses: &[u64]) -> Option<f64> {
        let samples = seconds(misses);
        compute_warm_after(&samples, &even_tenths(&samples), BLOCK)
    }

    #[test]
    fn warm_from_the_second_after_the_cold_plateau() {
        assert_eq!(warm_after(&[990, 990, 990, 400, 9, 0, 0, 0]), Some(4.0));
    }

    #[test]
    fn a_steady_cold_plateau_is_never_warm() {
        assert_eq!(warm_after(&[990; 60]), None);
    }

    #[test]
    fn exactly_one_percent_is_not_warm() {
        assert_eq!(warm_after(&[10; 20]), None);
        assert_eq!(warm_after(&[9; 20]), Some(1.0));
    }

    #[test]
    fn warm_at_once() {
        assert_eq!(warm_after(&[0; 10]), Some(0.0));
    }

    #[test]
    fn three_seconds_are_judged_together() {
        assert_eq!(warm_after(&[900, 0, 0, 29, 0, 0, 0]), Some(1.0));
        assert_eq!(warm_after(&[900, 0, 0, 30, 0, 0, 0]), Some(4.0));
        assert_eq!(warm_after(&[900, 0, 0, 15, 15, 0, 0, 0]), Some(5.0));
        assert_eq!(warm_after(&[0, 0, 0, 30]), None);
    }

    #[test]
    fn a_leap_of_the_throughput_does_not_make_the_seconds_before_it_warm() {
        let mut trial = seconds(&[200, 200, 200, 3, 0, 0, 0]);
        trial[4..].iter_mut().for_each(|sample| sample.transactions = 100_000);
        // Of the third to the fifth second 203 of 102,000 read; the third is cold all the same.
        assert_eq!(find_first_warm(&trial, BLOCK), Some(3));
    }

    #[test]
    fn what_the_kernel_takes_back_for_ever_is_not_warm() {
        assert_eq!(warm_after(&[900, 0, 30, 0, 0, 30, 0, 0, 30, 0, 0]), None);
        assert_eq!(warm_after(&[900, 0, 15, 0, 0, 15, 0, 0, 15, 0, 0]), Some(1.0));
    }

    #[test]
    fn seconds_that_served_nothing_are_not_warm() {
        let mut trial = seconds(&[0; 10]);
        trial[5].transactions = 0;
        let warm_after = |trial: &[Sample]| compute_warm_after(trial, &even_tenths(trial), BLOCK);
        assert_eq!((warm_after(&trial), compute_miss_share(&trial[5], BLOCK)), (Some(0.0), None));
        trial[4..7].iter_mut().for_each(|sample| sample.transactions = 0);
        assert_eq!(warm_after(&trial), Some(7.0));
    }

    #[test]
    fn warm_in_the_last_two_seconds_only_is_not_sustained() {
        assert_eq!(warm_after(&[900, 900, 0, 0]), None);
        assert_eq!(warm_after(&[900, 0, 0, 0]), Some(1.0));
    }

    #[test]
    fn nothing_measured_is_not_warm() {
        assert_eq!(compute_warm_after(&[], &[], BLOCK), None);
    }

    #[test]
    fn the_instant_lies_within_the_second_in_which_it_got_warm() {
        let mut samples = seconds(&[900, 300, 5, 0, 0, 0]);
        samples[2].transactions = 40_000;
        let mut tenths = even_tenths(&samples);
        // The second that was not warm read for its first three tenths; the warm one nothing worth a word.
        tenths[10..20].copy_from_slice(&[100, 100, 100, 0, 0, 0, 0, 0, 0, 0].map(|misses| Bytes(misses * BLOCK.0)));
        assert_eq!(compute_warm_after(&samples, &tenths, BLOCK), Some(1.3));
    }

    #[test]
    fn a_second_that_made_up_for_its_cold_beginning_is_dated_to_the_end_of_it() {
        // 250 misses in the first seven tenths are few against 30,000 transactions in the other three.
        let mut samples = seconds(&[250, 0, 0, 0]);
        samples[0].transactions = 30_000;
        let mut tenths = even_tenths(&samples);
        tenths[..10].copy_from_slice(&[36, 36, 36, 36, 36, 35, 35, 0, 0, 0].map(|misses| Bytes(misses * BLOCK.0)));
        assert_eq!(compute_warm_after(&samples, &tenths, BLOCK), Some(0.7));
    }
}
