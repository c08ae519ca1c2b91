use std::cmp::Ordering;

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use serde::Serialize;

use model::compute_median;

pub const MIN_PAIRS: usize = 3;

/// Minimum probability that an interval contains the true median.
const CONFIDENCE: f64 = 0.95;

/// Known limits of a non-negative quantity.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, crate::JsonSchema, crate::TS)]
pub struct Limits {
    pub at_least: f64,
    /// `None`: no upper limit.
    pub at_most: Option<f64>,
}

impl Limits {
    pub fn exactly(value: f64) -> Limits {
        Limits { at_least: value, at_most: Some(value) }
    }

    /// A measured time. Without `value`, it exceeds `observed` seconds.
    pub fn reached(value: Option<f64>, observed: f64) -> Limits {
        value.map_or(Limits { at_least: observed, at_most: None }, Limits::exactly)
    }

    pub fn divided_by(self, divisor: Limits) -> Limits {
        let at_least = divisor.at_most.filter(|most| *most > 0.0).map_or(0.0, |most| self.at_least / most);
        let at_most = self.at_most.filter(|_| divisor.at_least > 0.0).map(|most| most / divisor.at_least);
        Limits { at_least, at_most }
    }
}

/// Ratio of a figure in two trials of the same round. If a trial under load never became warm, only a minimum of its
/// warm time is known: its length minus 3 s. Such a dividend gives the ratio only a lower limit, such a divisor only an
/// upper limit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, crate::JsonSchema, crate::TS)]
pub struct Ratio {
    /// Median of the ratios. Both limits are equal if all times were measured.
    pub median: Limits,
    /// `None` with fewer than three pairs.
    pub interval: Option<Limits>,
    /// Probability that the interval contains the true median, by sign test: at least 0.95 for six pairs or more. With
    /// fewer pairs, the interval is the whole range (0.75 for three pairs).
    pub coverage: f64,
    pub pairs: u32,
}

/// Each pair is from one round.
///
/// The interval is that of the sign test: the number of ratios below the true median is binomial.
/// A percentile bootstrap contains the true median too rarely.
///
/// Median and interval never decrease if a ratio increases, so the results for lower and upper limits enclose that of
/// longer trials.
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

/// Returns how many of `count` sorted values lie outside the interval at each end, and the interval's coverage.
pub(super) fn compute_left_out(count: usize) -> (usize, f64) {
    let mut left_out = 0;
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

#[derive(Clone, Copy, Debug, PartialEq, Serialize, crate::JsonSchema, crate::TS)]
pub struct MedianInterval {
    pub low: f64,
    pub high: f64,
    /// Probability that the interval contains the true median, for any distribution.
    pub coverage: f64,
}

/// Computes an interval as in `compute_ratio`; `None` with fewer than three figures.
pub fn compute_median_interval(mut figures: Vec<f64>) -> Option<MedianInterval> {
    let count = figures.len();
    if count < MIN_PAIRS {
        return None;
    }
    figures.sort_by(f64::total_cmp);
    let (left_out, coverage) = compute_left_out(count);
    Some(MedianInterval { low: figures[left_out], high: figures[count - 1 - left_out], coverage })
}

/// Distribution of a figure over the repeats. The time of an event that did not occur counts as the longest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, crate::JsonSchema, crate::TS)]
pub struct Spread {
    /// `None` if half of the repeats or more lack the value (were never warm).
    pub median: Option<f64>,
    pub min: Option<f64>,
    /// `None` if any repeat lacks the value.
    pub max: Option<f64>,
    pub reached: u32,
    pub repeats: u32,
    /// `None` with fewer than three repeats, or if one lacks the value.
    pub interval: Option<MedianInterval>,
}

impl Spread {
    pub fn of(values: impl IntoIterator<Item = Option<f64>>) -> Spread {
        let mut sorted: Vec<Option<f64>> = values.into_iter().collect();
        sorted.sort_by(|a, b| missing_last(*a, *b));
        let count = sorted.len();
        let at = |place: usize| sorted.get(place).copied().flatten();
        let median = at(count.saturating_sub(1) / 2).zip(at(count / 2)).map(|(low, high)| (low + high) / 2.0);
        Spread {
            median,
            min: sorted.first().copied().flatten(),
            max: sorted.last().copied().flatten(),
            reached: sorted.iter().flatten().count() as u32,
            repeats: count as u32,
            interval: sorted.into_iter().collect::<Option<Vec<f64>>>().and_then(compute_median_interval),
        }
    }
}

pub fn missing_last(a: Option<f64>, b: Option<f64>) -> Ordering {
    match (a, b) {
        (Some(a), Some(b)) => a.total_cmp(&b),
        _ => a.is_none().cmp(&b.is_none()),
    }
}

/// Maximum pairs for an exact test; with more, permutations are sampled.
const EXACT_PAIRS: usize = 16;
const SAMPLED_PERMUTATIONS: u32 = 100_000;

/// Quantiles of Student's t, 97.5 % and 80 %, by degrees of freedom from 1: a two-sided test at 5 % with a power of 80
/// %.
const T_975: [f64; 20] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
    2.110, 2.101, 2.093, 2.086,
];
const T_80: [f64; 20] = [
    1.376, 1.061, 0.978, 0.941, 0.920, 0.906, 0.896, 0.889, 0.883, 0.879, 0.876, 0.873, 0.870, 0.868, 0.866, 0.865,
    0.863, 0.862, 0.861, 0.860,
];
const NORMAL: (f64, f64) = (1.960, 0.842);

/// p-value of a permutation test: share of sign combinations whose sum is as far from 0 as the observed one, or
/// farther.
pub fn compute_p(logs: &[f64]) -> f64 {
    let seen = logs.iter().sum::<f64>().abs();
    // Tolerates rounding errors: the order of summation changes the last digits.
    let is_as_far = |sum: f64| sum.abs() >= seen * (1.0 - 1e-9);
    if logs.len() <= EXACT_PAIRS {
        let all = 1_u32 << logs.len();
        let sum = |signs: u32| -> f64 {
            let signed = |(place, log): (usize, &f64)| if (signs >> place) & 1 == 1 { -log } else { *log };
            logs.iter().enumerate().map(signed).sum()
        };
        return (0..all).filter(|signs| is_as_far(sum(*signs))).count() as f64 / f64::from(all);
    }
    let mut random = StdRng::seed_from_u64(0);
    let far = (0..SAMPLED_PERMUTATIONS)
        .filter(|_| is_as_far(logs.iter().map(|log| if random.random::<bool>() { -log } else { *log }).sum()));
    // + 1, because the observed signs are also a permutation.
    (far.count() as f64 + 1.0) / (f64::from(SAMPLED_PERMUTATIONS) + 1.0)
}

/// Smallest ratio that 80 % of studies with the same number and scatter of pairs detect.
pub fn compute_smallest_detectable(logs: &[f64]) -> Option<f64> {
    let freedom = logs.len().checked_sub(2)?;
    let mean = logs.iter().sum::<f64>() / logs.len() as f64;
    let variance = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / (logs.len() - 1) as f64;
    let (upper, power) = (T_975.get(freedom).unwrap_or(&NORMAL.0), T_80.get(freedom).unwrap_or(&NORMAL.1));
    Some(((upper + power) * (variance / logs.len() as f64).sqrt()).exp())
}

pub fn compute_holm(p_values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|one, other| p_values[*one].total_cmp(&p_values[*other]));
    let mut adjusted = vec![0.0; p_values.len()];
    let mut least = 0.0_f64;
    for (rank, place) in order.into_iter().enumerate() {
        least = least.max((p_values[place] * (p_values.len() - rank) as f64).min(1.0));
        adjusted[place] = least;
    }
    adjusted
}

/// Renders `0.43` and `0.40–0.47`. Open limits are `< 0.30`, `> 1.25`, or `?` for any value.
pub fn render_ratio(ratio: &Ratio) -> (String, Option<String>) {
    (render_limits(ratio.median), ratio.interval.map(render_limits))
}

fn render_limits(limits: Limits) -> String {
    let low = render_number(limits.at_least);
    match limits.at_most.map(render_number) {
        Some(high) if high == low => low,
        Some(high) if limits.at_least == 0.0 => format!("< {high}"),
        Some(high) => format!("{low}–{high}"),
        None if limits.at_least == 0.0 => "?".to_owned(),
        None => format!("> {low}"),
    }
}

fn render_number(ratio: f64) -> String {
    match ratio {
        0.0 => "0".to_owned(),
        ..0.095 => format!("{ratio:.3}"),
        ..9.995 => format!("{ratio:.2}"),
        ..99.95 => format!("{ratio:.1}"),
        _ => format!("{ratio:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn exact(pairs: &[(f64, f64)]) -> Ratio {
        let pairs: Vec<_> = pairs.iter().map(|(one, other)| (Limits::exactly(*one), Limits::exactly(*other))).collect();
        compute_ratio(&pairs).unwrap()
    }

    #[test]
    fn a_ratio_is_that_of_the_pairs_and_not_of_the_medians() {
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
        // 0 s means "within the first reading".
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

    fn places(count: usize) -> (f64, f64, f64) {
        let interval = compute_median_interval((1..=count).rev().map(|one| one as f64).collect()).unwrap();
        (interval.low, interval.high, interval.coverage)
    }

    #[test]
    fn few_trials_have_their_range_and_how_often_that_is_enough() {
        assert_eq!(compute_median_interval(vec![1.0, 2.0]), None);
        let (low, high, coverage) = places(3);
        assert!((low, high) == (1.0, 3.0) && (coverage - 0.75).abs() < 1e-12, "{coverage}");
        let (low, high, coverage) = places(5);
        assert!((low, high) == (1.0, 5.0) && (coverage - 0.9375).abs() < 1e-12, "{coverage}");
    }

    #[test]
    fn the_interval_of_ratios_holds_the_true_one_as_often_as_it_says() {
        let mut random = StdRng::seed_from_u64(6);
        for count in [3, 8, 12, 20, 101] {
            let coverage = places(count).2;
            let mut holds = || {
                let figures = (0..count).map(|_| random.random_range(-3.0_f64..3.0).exp()).collect();
                let interval = compute_median_interval(figures).unwrap();
                interval.low <= 1.0 && interval.high >= 1.0
            };
            let held = (0..4000).filter(|_| holds()).count() as f64 / 4000.0;
            assert!((held - coverage).abs() < 0.021, "{count}: {held} held, {coverage} told");
            assert!(count < 6 || coverage >= 0.95, "{count}: {coverage}");
        }
        assert!((0.95..0.96).contains(&places(1000).2));
    }

    #[test]
    fn a_repeat_that_did_not_get_there_is_the_longest() {
        let spread = Spread::of([Some(3.0), None, Some(1.0)]);
        assert_eq!((spread.median, spread.min, spread.max), (Some(3.0), Some(1.0), None));
        assert_eq!((spread.reached, spread.repeats), (2, 3));
        assert_eq!(Spread::of([None, Some(1.0)]).median, None);
        assert_eq!(Spread::of([Some(4.0), Some(1.0)]).median, Some(2.5));
        assert_eq!(Spread::of([]).median, None);
    }

    #[test]
    fn the_median_of_three_that_got_there_has_an_interval() {
        let interval = |values: &[Option<f64>]| Spread::of(values.iter().copied()).interval;
        let of_three = interval(&[Some(3.0), Some(1.0), Some(8.0)]).unwrap();
        assert_eq!((of_three.low, of_three.high), (1.0, 8.0));
        assert_eq!(interval(&[Some(3.0), Some(1.0)]), None);
        assert_eq!(interval(&[Some(3.0), Some(1.0), Some(8.0), None]), None);
    }

    #[test]
    fn all_pairs_on_one_side_are_as_rare_as_coins() {
        assert_eq!(compute_p(&[0.1, 0.2, 0.3]), 0.25);
        assert_eq!(compute_p(&[0.1; 6]), 2.0 / 64.0);
        assert_eq!(compute_p(&[-0.1, 0.1]), 1.0);
        assert_eq!(compute_p(&[0.0, 0.0]), 1.0);
        assert!(compute_p(&[0.1; 17]) < 1e-4 && compute_p(&[0.1; 17]) > 0.0);
    }

    #[test]
    fn equal_sides_are_found_different_as_often_as_the_level_says() {
        let mut random = StdRng::seed_from_u64(3);
        let mut is_found = || {
            let logs: Vec<f64> = (0..8).map(|_| random.random_range(-0.1..0.1)).collect();
            compute_p(&logs) <= 0.05
        };
        let found = (0..1000).filter(|_| is_found()).count();
        assert!((20..=71).contains(&found), "{found} of 1000");
    }

    #[test]
    fn what_is_detectable_is_found_in_most_studies() {
        let mut random = StdRng::seed_from_u64(4);
        let mut noise = || (0..12).map(|_| random.random_range(-0.5..0.5)).sum::<f64>() * 0.02;
        let found = (0..300).filter(|_| {
            let still: Vec<f64> = (0..8).map(|_| noise()).collect();
            let shift = compute_smallest_detectable(&still).unwrap().ln();
            compute_p(&(0..8).map(|_| shift + noise()).collect::<Vec<_>>()) <= 0.05
        });
        let found = found.count();
        assert!((195..=285).contains(&found), "{found} of 300");
        assert_eq!(compute_smallest_detectable(&[0.1]), None);
    }

    #[test]
    fn holm_never_makes_a_larger_p_smaller_than_a_smaller_one() {
        assert_eq!(compute_holm(&[0.04, 0.01, 0.03]), [0.06, 0.03, 0.06]);
    }

    #[test]
    fn what_is_only_limited_is_told_as_that() {
        let (two, beyond) = (Limits::exactly(2.0), Limits::reached(None, 10.0));
        let text = |pair| render_ratio(&compute_ratio(&[pair; 3]).unwrap()).0;
        assert_eq!(text((two, Limits::exactly(3.0))), "0.67");
        assert_eq!(text((two, beyond)), "< 0.20");
        assert_eq!(text((beyond, two)), "> 5.00");
        assert_eq!(text((beyond, beyond)), "?");
    }

    #[test]
    fn the_interval_stands_beside_the_median() {
        let pair = |value| (Limits::exactly(value), Limits::exactly(10.0));
        let ratio = compute_ratio(&[pair(0.5), pair(12.0), pair(300.0)]).unwrap();
        assert_eq!(render_ratio(&ratio), ("1.20".into(), Some("0.050–30.0".into())));
        assert_eq!(render_ratio(&compute_ratio(&[pair(5.0)]).unwrap()), ("0.50".into(), None));
    }
}
