//! When a trial became warm: at the first second with fewer than 0.01 blocks read from the device per transaction, if
//! from then on no three consecutive seconds together reach this ratio, so that a short vacuum is no relapse. A cold
//! plateau of throughput is as steady as a warm one.

use crate::study::{Sample, UntilWarm};
use host::units::Bytes;
use model::{WARM_SHARE, compute_running_median};

/// Minimum number of blocks read in a cold tenth of a second. Interpolation may divide the read of one block between
/// two tenths.
const ANY_MISS: f64 = 0.5;

const TENTHS: usize = 10;

pub const SUSTAINED_SECONDS: usize = 3;

/// Blocks read from the device per transaction.
pub fn compute_miss_share(sample: &Sample, block_size: Bytes) -> Option<f64> {
    let misses = sample.foreground_read_bytes.0 as f64 / block_size.0.max(1) as f64;
    (sample.transactions > 0).then(|| misses / sample.transactions as f64)
}

/// Seconds until the trial was warm; `None` if it was not yet warm `SUSTAINED_SECONDS` before its end.
///
/// Searches the first warm second and its predecessor for cold tenths. Returns the end of the last one, or the start of
/// the pair. A tenth is cold if its second completed no transaction, or if it read many blocks: at least `ANY_MISS`,
/// and at least 0.1 % of the transactions in the last second before the pair. `tenths` has the bytes read in each
/// tenth, counted when issued.
pub fn compute_warm_after(samples: &[Sample], tenths: &[Bytes], block_size: Bytes) -> Option<f64> {
    let first_warm = find_first_warm(samples, block_size)?;
    let earlier = first_warm.checked_sub(2).map_or(0, |second| samples[second].transactions);
    let limit = (WARM_SHARE * earlier as f64 / TENTHS as f64).max(ANY_MISS);
    let is_cold = |tenth: usize| {
        let misses = tenths.get(tenth).map_or(0.0, |read| read.0 as f64 / block_size.0.max(1) as f64);
        misses >= limit || samples[tenth / TENTHS].transactions == 0
    };
    let transition = first_warm.saturating_sub(1) * TENTHS..(first_warm + 1) * TENTHS;
    let last_cold = transition.clone().rev().find(|tenth| is_cold(*tenth));
    Some(last_cold.map_or(transition.start, |tenth| tenth + 1) as f64 / TENTHS as f64)
}

/// Seconds without a transaction are not warm.
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

/// Smooths the throughput over three seconds: one fast second does not count.
pub fn smooth_throughput(samples: &[Sample]) -> Vec<f64> {
    compute_running_median(&samples.iter().map(|one| one.transactions as f64).collect::<Vec<_>>(), 1)
}

/// Transactions until `instant`, assuming an even pace within each second.
pub fn served_by(seconds: &[u64], instant: f64) -> f64 {
    let served = |(count, before): (&u64, u32)| *count as f64 * (instant - f64::from(before)).clamp(0.0, 1.0);
    seconds.iter().zip(0_u32..).map(served).sum()
}

const PACE_SECONDS: usize = 4;

/// If the workload reads more than this share of the cache's growth, it warms the server.
const OWN_SHARE: f64 = 0.5;

#[derive(Clone, Copy, Debug)]
pub struct WarmGoal {
    pub wanted_bytes: Bytes,
    pub block_size: Bytes,
    pub warm_tps: Option<f64>,
    /// Whether rows are read uniformly. False, because unknown, for the user's own scripts.
    pub is_uniform: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PassedSecond {
    pub transactions: f64,
    /// Bytes read by the workload, without those that a warmer read.
    pub read_bytes: Bytes,
    /// At the end of the second.
    pub resident_bytes: Bytes,
}

/// Extrapolates from the last seconds. With a warmer, the cache keeps growing at the same rate. Without one, the
/// workload reads at the same rate while the device is the bottleneck; later, its share of misses decays exponentially
/// (docs/model.md).
pub fn compute_until_warm(goal: &WarmGoal, passed: &[PassedSecond]) -> UntilWarm {
    let block = goal.block_size.0.max(1) as f64;
    let reads = |second: &PassedSecond| second.read_bytes.0 as f64 / block;
    let is_warm = |second: &PassedSecond| second.transactions > 0.0 && reads(second) < WARM_SHARE * second.transactions;
    if passed.len() >= SUSTAINED_SECONDS && passed[passed.len() - SUSTAINED_SECONDS..].iter().all(is_warm) {
        return UntilWarm::Warm;
    }
    let Some(before) = passed.len().checked_sub(PACE_SECONDS + 1) else { return UntilWarm::Unknown };
    let (first, recent) = (&passed[before], &passed[before + 1..]);
    let seconds = recent.len() as f64;
    let resident = recent[recent.len() - 1].resident_bytes;
    let grown = resident.0.saturating_sub(first.resident_bytes.0) as f64 / block / seconds;
    let pages = goal.wanted_bytes.0 as f64 / block;
    let missing = goal.wanted_bytes.0.saturating_sub(resident.0) as f64 / block;
    let own: f64 = recent.iter().map(reads).sum::<f64>() / seconds;
    let tps: f64 = recent.iter().map(|second| second.transactions).sum::<f64>() / seconds;
    if grown < 1.0 || pages < 1.0 {
        return UntilWarm::Unknown;
    }
    if own < OWN_SHARE * grown {
        return UntilWarm::Seconds(missing / grown);
    }
    let (Some(warm_tps), true) = (goal.warm_tps, goal.is_uniform && tps > 0.0 && missing >= 1.0) else {
        return UntilWarm::Unknown;
    };
    // Blocks requested per transaction.
    let asked = own / tps * pages / missing;
    let falling = |from: f64, to: f64| pages / (asked * warm_tps) * (from / to).ln().max(0.0);
    let (at_warm, at_device_limit) = (WARM_SHARE / asked * pages, own / (asked * warm_tps) * pages);
    let limited = (missing - at_device_limit).max(0.0) / grown;
    UntilWarm::Seconds(limited + falling(missing.min(at_device_limit), at_warm))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::study::record::tests::sample;
    use model::{Device, PageClass, Popularity, Server, Warmer, Workload, compute_forecast};

    const BLOCK: Bytes = Bytes(8192);

    fn seconds(misses: &[u64]) -> Vec<Sample> {
        (1..).zip(misses).map(|(second, misses)| sample(second, 1000, misses * BLOCK.0)).collect()
    }

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
        assert_eq!(warm_after(&[900, 0, 0, 9, 9, 12, 0, 0, 0]), Some(3.0));
    }

    #[test]
    fn a_leap_of_the_throughput_does_not_make_the_seconds_before_it_warm() {
        let mut trial = seconds(&[200, 200, 200, 3, 0, 0, 0]);
        trial[4..].iter_mut().for_each(|sample| sample.transactions = 100_000);
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
        tenths[10..20].copy_from_slice(&[100, 100, 100, 0, 0, 0, 0, 0, 0, 0].map(|misses| Bytes(misses * BLOCK.0)));
        assert_eq!(compute_warm_after(&samples, &tenths, BLOCK), Some(1.3));
    }

    #[test]
    fn a_second_that_made_up_for_its_cold_beginning_is_dated_to_the_end_of_it() {
        // The whole second is warm: its 250 misses are below 1 % of 30,000 transactions.
        let mut samples = seconds(&[250, 0, 0, 0]);
        samples[0].transactions = 30_000;
        let mut tenths = even_tenths(&samples);
        tenths[..10].copy_from_slice(&[36, 36, 36, 36, 36, 35, 35, 0, 0, 0].map(|misses| Bytes(misses * BLOCK.0)));
        assert_eq!(compute_warm_after(&samples, &tenths, BLOCK), Some(0.7));
    }

    fn serving(transactions: &[u64]) -> Vec<Sample> {
        (1..).zip(transactions).map(|(second, count)| sample(second, *count, 0)).collect()
    }

    pub fn compute_seconds_to(samples: &[Sample], share: f64, steady_tps: f64) -> Option<f64> {
        let smooth = smooth_throughput(samples);
        let is_there = |(sample, smooth): (&Sample, &f64)| smooth.min(sample.transactions as f64) >= share * steady_tps;
        samples.iter().zip(&smooth).position(is_there).map(|index| index as f64)
    }

    #[test]
    fn a_single_lucky_second_is_no_arrival() {
        let samples = serving(&[10, 10, 100, 10, 10, 100, 100, 100]);
        assert_eq!(compute_seconds_to(&samples, 0.9, 100.0), Some(5.0));
    }

    #[test]
    fn a_steep_rise_is_dated_to_its_second() {
        let samples = serving(&[1, 1, 1, 50, 95, 100, 100]);
        assert_eq!(compute_seconds_to(&samples, 0.5, 100.0), Some(3.0));
        assert_eq!(compute_seconds_to(&samples, 0.9, 100.0), Some(4.0));
        assert_eq!(compute_seconds_to(&samples, 1.5, 100.0), None);
        assert_eq!(compute_seconds_to(&[], 0.5, 100.0), None);
    }

    const BLOCK_BYTES: f64 = 8192.0;
    const WARM_TPS: f64 = 40_000.0;

    fn forecast(is_warmed: bool) -> (WarmGoal, Vec<PassedSecond>, f64) {
        let class = |name: &str, pages| PageClass {
            name: name.into(),
            pages,
            accesses: 1.0,
            run_pages: 1.0,
            popularity: Popularity::Uniform,
        };
        let workload = Workload {
            clients: 8,
            classes: vec![class("table", 81_967.0), class("leaves", 13_661.0)],
            hit_seconds: 2.0 / WARM_TPS,
            read_seconds: 0.0,
            read_ahead_pages: 1.0,
            startup_reads: 0.0,
        };
        let device = Device::with_limits(3000.0, 131_072_000.0, 0.5e-3);
        let server = Server {
            device,
            cores: 2.0,
            buffers_pages: f64::INFINITY,
            os_pages: f64::INFINITY,
            block_bytes: BLOCK_BYTES,
        };
        let warmer = is_warmed.then(|| Warmer::in_file_order(&workload, BLOCK_BYTES, 4, 262_144.0));
        let forecast = compute_forecast(&workload, &server, warmer.as_ref()).unwrap();
        let pages = 81_967.0 + 13_661.0;
        let at = |seconds: f64| {
            let next = forecast.points.partition_point(|point| point.seconds < seconds);
            forecast.points[next.min(forecast.points.len() - 1)]
        };
        let warm_after = forecast.seconds_to_warm().unwrap();
        let second = |number: u32| {
            let [middle, end] = [f64::from(number) - 0.5, f64::from(number)].map(at);
            PassedSecond {
                transactions: middle.tps,
                read_bytes: Bytes((middle.reads_per_second * BLOCK_BYTES) as u64),
                resident_bytes: Bytes((end.resident_share * pages * BLOCK_BYTES) as u64),
            }
        };
        let goal = WarmGoal {
            wanted_bytes: Bytes((pages * BLOCK_BYTES) as u64),
            block_size: Bytes(BLOCK_BYTES as u64),
            warm_tps: Some(WARM_TPS),
            is_uniform: true,
        };
        (goal, (1..=warm_after as u32 + 10).map(second).collect(), warm_after)
    }

    #[track_caller]
    fn assert_told_in_time(is_warmed: bool) {
        let (goal, passed, warm_after) = forecast(is_warmed);
        for now in (PACE_SECONDS + 1)..(0.9 * warm_after) as usize {
            let UntilWarm::Seconds(left) = compute_until_warm(&goal, &passed[..now]) else {
                panic!("nothing at {now}")
            };
            let truth = warm_after - now as f64;
            assert!((left - truth).abs() < 0.15 * warm_after, "after {now} s {left:.1} s left, of {truth:.1}");
        }
        assert_eq!(compute_until_warm(&goal, &passed), UntilWarm::Warm);
        assert_eq!(compute_until_warm(&goal, &passed[..3]), UntilWarm::Unknown);
    }

    #[test]
    fn a_workload_that_warms_itself_is_foreseen() {
        assert_told_in_time(false);
    }

    #[test]
    fn a_warmer_is_foreseen_by_its_pace() {
        assert_told_in_time(true);
    }

    #[test]
    fn what_does_not_get_warmer_has_no_end() {
        let (goal, passed, _) = forecast(false);
        assert_eq!(compute_until_warm(&goal, &[passed[6]; 10]), UntilWarm::Unknown);
        let unknown = WarmGoal { is_uniform: false, ..goal };
        assert_eq!(compute_until_warm(&unknown, &passed[..10]), UntilWarm::Unknown);
    }
}
