//! Whether pairs of trials differ by more than chance would have it. Pure.
//!
//! Everything is about the logarithms of the ratios of pairs: a half and a double are then as far from no difference.

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

/// Up to so many pairs every permutation is tried; of more a sample.
const EXACT_PAIRS: usize = 16;
const SAMPLED_PERMUTATIONS: u32 = 100_000;

/// Student's t by degrees of freedom from 1: the 97.5 % and the 80 % quantile, for a test at 5 % on two sides that finds
/// a true difference in 80 % of studies. Beyond the tables those of the normal distribution are close.
const T_975: [f64; 20] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
    2.110, 2.101, 2.093, 2.086,
];
const T_80: [f64; 20] = [
    1.376, 1.061, 0.978, 0.941, 0.920, 0.906, 0.896, 0.889, 0.883, 0.879, 0.876, 0.873, 0.870, 0.868, 0.866, 0.865,
    0.863, 0.862, 0.861, 0.860,
];
const NORMAL: (f64, f64) = (1.960, 0.842);

/// The signs of the logarithms turned over in every way: the share in which their sum is at least as far from 0.
pub fn compute_p(logs: &[f64]) -> f64 {
    let seen = logs.iter().sum::<f64>().abs();
    // Sums of the same terms in another order differ in their last digits.
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
    // What was seen is one of the permutations.
    (far.count() as f64 + 1.0) / (f64::from(SAMPLED_PERMUTATIONS) + 1.0)
}

/// The smallest ratio that so many pairs with this scatter find in 80 % of studies.
pub fn compute_smallest_detectable(logs: &[f64]) -> Option<f64> {
    let freedom = logs.len().checked_sub(2)?;
    let mean = logs.iter().sum::<f64>() / logs.len() as f64;
    let variance = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / (logs.len() - 1) as f64;
    let (upper, power) = (T_975.get(freedom).unwrap_or(&NORMAL.0), T_80.get(freedom).unwrap_or(&NORMAL.1));
    Some(((upper + power) * (variance / logs.len() as f64).sqrt()).exp())
}

/// Holm's step-down over the p-values of one study: the smallest counts as often as there are questions, the next once less,
/// and none less than one before.
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

#[cfg(test)]
mod tests {
    use super::*;

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
        // 50 expected at most; three standard deviations are 21.
        assert!((20..=71).contains(&found), "{found} of 1000");
    }

    #[test]
    fn what_is_detectable_is_found_in_most_studies() {
        let mut random = StdRng::seed_from_u64(4);
        // About normal, with a standard deviation of 0.02.
        let mut noise = || (0..12).map(|_| random.random_range(-0.5..0.5)).sum::<f64>() * 0.02;
        let found = (0..300).filter(|_| {
            let still: Vec<f64> = (0..8).map(|_| noise()).collect();
            let shift = compute_smallest_detectable(&still).unwrap().ln();
            compute_p(&(0..8).map(|_| shift + noise()).collect::<Vec<_>>()) <= 0.05
        });
        // 80 % where the scatter is known; it is estimated from eight.
        let found = found.count();
        assert!((195..=285).contains(&found), "{found} of 300");
        assert_eq!(compute_smallest_detectable(&[0.1]), None);
    }

    #[test]
    fn holm_never_makes_a_larger_p_smaller_than_a_smaller_one() {
        assert_eq!(compute_holm(&[0.04, 0.01, 0.03]), [0.06, 0.03, 0.06]);
    }
}
