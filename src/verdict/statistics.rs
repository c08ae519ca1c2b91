//! The median, which every figure over repeats and seconds is; and ratios between the two trials of a round, with what
//! chance and unreached times leave open. Pure.

use serde::Serialize;

pub use crate::model::compute_median;

/// Fewest pairs of which an interval is given.
pub const MIN_PAIRS: usize = 3;

/// How often the interval holds the true median at least, 0 to 1, where there are pairs enough.
const CONFIDENCE: f64 = 0.95;

/// What is known of a quantity that is not negative: the limits that it lies within.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Limits {
    pub at_least: f64,
    /// `None`: it has no upper limit.
    pub at_most: Option<f64>,
}

impl Limits {
    /// A quantity that was measured.
    pub fn exactly(value: f64) -> Limits {
        Limits { at_least: value, at_most: Some(value) }
    }

    /// A time that was measured, or is longer than `observed` seconds: how long nothing came.
    pub fn reached(value: Option<f64>, observed: f64) -> Limits {
        value.map_or(Limits { at_least: observed, at_most: None }, Limits::exactly)
    }

    /// The quotient: as large as the largest dividend and the smallest divisor make it, as small as their opposites do.
    pub fn divided_by(self, divisor: Limits) -> Limits {
        let at_least = divisor.at_most.filter(|most| *most > 0.0).map_or(0.0, |most| self.at_least / most);
        let at_most = self.at_most.filter(|_| divisor.at_least > 0.0).map(|most| most / divisor.at_least);
        Limits { at_least, at_most }
    }
}

/// A ratio over the rounds of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Ratio {
    /// Of the ratios of all pairs. Its limits differ where times were not reached.
    pub median: Limits,
    /// Where the true median is, in at least 95 % of cases; `None` with fewer than [`MIN_PAIRS`] pairs.
    pub interval: Option<Limits>,
    /// How often such an interval holds the true median, 0 to 1: 0.97 with six pairs. Fewer than six do not allow 95 %:
    /// the interval is their range then, which holds it in 0.75 of cases with three, 0.94 with five.
    pub coverage: f64,
    pub pairs: u32,
}

/// The ratio of dividends to divisors, each pair measured in one round. `None` without any pair.
///
/// The interval lies between two of the ratios in their order, of which so many are left out at each end as chance
/// allows: each ratio falls below the true median with a probability of one half, so how many do is binomial (the sign
/// test's interval; no distribution is assumed). The percentile bootstrap was tried: of twelve uniform values its
/// interval held the true median in 275 of 300 cases, which is less than it promises.
///
/// A ratio whose parts were not all reached is known within limits only. Median and ends grow with each of the ratios,
/// so computed once of all lower limits and once of all upper ones they enclose what they would have been, had the
/// trials lasted longer.
pub fn compute_ratio(pairs: &[(Limits, Limits)]) -> Option<Ratio> {
    let ratios = pairs.iter().map(|(dividend, divisor)| dividend.divided_by(*divisor));
    let (mut lowest, mut highest): (Vec<f64>, Vec<f64>) =
        ratios.map(|ratio| (ratio.at_least, ratio.at_most.unwrap_or(f64::INFINITY))).unzip();
    lowest.sort_by(f64::total_cmp);
    highest.sort_by(f64::total_cmp);
    let limits = |low: f64, high: f64| Limits { at_least: low, at_most: high.is_finite().then_some(high) };
    let median = limits(compute_median(lowest.clone())?, compute_median(highest.clone())?);
    let (left_out, coverage) = compute_left_out(pairs.len());
    let interval = (pairs.len() >= MIN_PAIRS).then(|| limits(lowest[left_out], highest[pairs.len() - 1 - left_out]));
    Some(Ratio { median, interval, coverage, pairs: pairs.len() as u32 })
}

/// How many of `count` values in their order lie beyond each end of the interval, and how often it then holds the true
/// median: unless too few, or too many, of the values are below it.
pub(super) fn compute_left_out(count: usize) -> (usize, f64) {
    let mut left_out = 0;
    // Of `count` fair coins none shows heads; then at most one, and so on.
    let mut exactly = 0.5_f64.powi(count as i32);
    let mut at_most = exactly;
    loop {
        exactly *= (count - left_out) as f64 / (left_out + 1) as f64;
        if 2.0 * (at_most + exactly) > 1.0 - CONFIDENCE {
            return (left_out, 1.0 - 2.0 * at_most);
        }
        at_most += exactly;
        left_out += 1;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand::rngs::StdRng;
    use rand::{Rng as _, SeedableRng as _};

    use super::*;

    fn exact(pairs: &[(f64, f64)]) -> Ratio {
        let pairs: Vec<_> = pairs.iter().map(|(one, other)| (Limits::exactly(*one), Limits::exactly(*other))).collect();
        compute_ratio(&pairs).unwrap()
    }

    #[test]
    fn a_ratio_is_that_of_the_pairs_and_not_of_the_medians() {
        // A machine that slows down from round to round: the medians' ratio would be 3.0 ÷ 4.0.
        let ratio = exact(&[(1.0, 2.0), (3.0, 4.0), (9.0, 10.0), (3.0, 6.0), (2.0, 4.0)]);
        assert_eq!(ratio.median, Limits::exactly(0.5));
        assert_eq!(ratio.interval, Some(Limits { at_least: 0.5, at_most: Some(0.9) }));
        assert_eq!(ratio.pairs, 5);
    }

    #[test]
    fn the_interval_of_few_pairs_is_their_range_and_says_how_often_that_is_enough() {
        let ratio = exact(&[(1.0, 1.0), (2.0, 1.0), (3.0, 1.0)]);
        assert_eq!(ratio.interval, Some(Limits { at_least: 1.0, at_most: Some(3.0) }));
        assert_eq!(ratio.coverage, 0.75);
        assert_eq!(exact(&[(1.0, 1.0), (2.0, 1.0)]).interval, None);
        assert_eq!(compute_ratio(&[]), None);
    }

    #[test]
    fn what_was_not_reached_leaves_one_side_open() {
        let (five, beyond) = (Limits::exactly(5.0), Limits::reached(None, 20.0));
        let median = |pair: (Limits, Limits)| compute_ratio(&[pair; 3]).unwrap().median;
        assert_eq!(median((five, beyond)), Limits { at_least: 0.0, at_most: Some(0.25) });
        assert_eq!(median((beyond, five)), Limits { at_least: 4.0, at_most: None });
        assert_eq!(median((beyond, beyond)), Limits { at_least: 0.0, at_most: None });
        // A time of 0 s is a time within the first reading: nothing can be said of a ratio to it.
        assert_eq!(median((five, Limits::exactly(0.0))), Limits { at_least: 0.0, at_most: None });
        assert_eq!(Limits::reached(Some(5.0), 20.0), five);
    }

    #[test]
    fn a_minority_of_unreached_times_leaves_the_median_known() {
        let pair = |one: Option<f64>| (Limits::reached(one, 20.0), Limits::exactly(10.0));
        let ratio = compute_ratio(&[pair(Some(5.0)), pair(Some(6.0)), pair(None)]).unwrap();
        assert_eq!(ratio.median, Limits::exactly(0.6));
        assert_eq!(ratio.interval, Some(Limits { at_least: 0.5, at_most: None }));
    }

    #[test]
    fn the_interval_holds_the_true_median_as_often_as_it_says() {
        assert_eq!(compute_left_out(5), (0, 0.9375));
        // As tables of the sign test have it: the first and the last of 6, the third and the tenth of 12, the sixth and
        // the fifteenth of 20.
        assert_eq!([6, 12, 20].map(|count| compute_left_out(count).0), [0, 2, 5]);
        let mut random = StdRng::seed_from_u64(1);
        let mut holds = || {
            let pairs: Vec<_> = (0..12).map(|_| (random.random_range(0.0_f64..1.0), 1.0)).collect();
            let interval = exact(&pairs).interval.unwrap();
            interval.at_least <= 0.5 && interval.at_most.unwrap() >= 0.5
        };
        // 0.961 by the binomial distribution; three standard errors are 0.013.
        let held = (0..2000).filter(|_| holds()).count();
        assert!((1896..=1949).contains(&held), "{held} of 2000");
    }

    proptest! {
        /// Whatever the hidden times were, what is said of the censored pairs is true of them.
        #[test]
        fn censoring_widens_and_never_misleads(times in prop::collection::vec((0.1f64..40.0, 0.1f64..40.0), 3..8)) {
            let seen = |time: f64| Limits::reached((time <= 20.0).then_some(time), 20.0);
            let censored: Vec<_> = times.iter().map(|(one, other)| (seen(*one), seen(*other))).collect();
            let (truth, told) = (exact(&times), compute_ratio(&censored).unwrap());
            let encloses = |wide: Limits, narrow: Limits| {
                wide.at_least <= narrow.at_least + 1e-12
                    && wide.at_most.is_none_or(|most| most + 1e-12 >= narrow.at_most.unwrap())
            };
            prop_assert!(encloses(told.median, truth.median));
            prop_assert!(encloses(told.interval.unwrap(), truth.interval.unwrap()));
        }
    }
}
