//! Small statistics of noisy, autocorrelated series.

use crate::compute_median;

/// What the median absolute deviation of normal noise is multiplied by to be its standard deviation.
const MAD_TO_SIGMA: f64 = 1.4826;

/// A standard deviation that outliers do not move; 0 of an empty list.
pub fn compute_robust_sigma(values: &[f64]) -> f64 {
    let Some(median) = compute_median(values.to_vec()) else { return 0.0 };
    let deviations = values.iter().map(|value| (value - median).abs()).collect();
    MAD_TO_SIGMA * compute_median(deviations).unwrap_or(0.0)
}

/// Correlation of a series with itself `lag` places later, -1 to 1; 0 of a constant one.
pub fn compute_autocorrelation(values: &[f64], lag: usize) -> f64 {
    let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
    let variance: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let shifted = values.iter().zip(values.iter().skip(lag));
    let covariance: f64 = shifted.map(|(one, other)| (one - mean) * (other - mean)).sum();
    if variance > 0.0 { covariance / variance } else { 0.0 }
}

/// By how much autocorrelation widens the standard error of a mean or slope: √((1 + ρ) ÷ (1 − ρ)) of a first-order process.
pub fn compute_error_inflation(residuals: &[f64]) -> f64 {
    // The estimate of ρ from few values is too low by about (1 + 3ρ) ÷ n (Kendall 1954).
    let estimate = compute_autocorrelation(residuals, 1);
    let unbiased = estimate + (1.0 + 3.0 * estimate) / residuals.len().max(1) as f64;
    let rho = unbiased.clamp(0.0, 0.97);
    ((1.0 + rho) / (1.0 - rho)).sqrt()
}

/// The middle of five neighbours, or of as many as there are at the ends.
pub fn compute_running_median(values: &[f64]) -> Vec<f64> {
    const HALF: usize = 2;
    let window = |place: usize| &values[place.saturating_sub(HALF)..(place + HALF + 1).min(values.len())];
    (0..values.len()).filter_map(|place| compute_median(window(place).to_vec())).collect()
}

/// The rising values that come nearest (isotonic regression by pooling neighbours that fall): what is below a later fall is
/// not reached before it.
pub fn compute_rising_means(values: &[f64]) -> Vec<f64> {
    let mut pools: Vec<(f64, usize)> = Vec::new();
    for value in values {
        let mut pool = (*value, 1);
        while let Some((mean, count)) = pools.pop_if(|(mean, _)| *mean >= pool.0) {
            let both = count + pool.1;
            pool = ((mean * count as f64 + pool.0 * pool.1 as f64) / both as f64, both);
        }
        pools.push(pool);
    }
    pools.into_iter().flat_map(|(mean, count)| std::iter::repeat_n(mean, count)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_shows_in_the_autocorrelation() {
        let values: Vec<f64> = (0..200).map(|place| if place % 10 == 0 { 0.0 } else { 1.0 }).collect();
        assert!(compute_autocorrelation(&values, 10) > 0.9);
        assert!(compute_autocorrelation(&values, 5) < 0.0);
        assert_eq!(compute_autocorrelation(&[2.0; 9], 1), 0.0);
    }

    #[test]
    fn rising_means_pool_what_falls() {
        assert_eq!(compute_rising_means(&[1.0, 3.0, 2.0, 4.0, 3.5, 3.0]), [1.0, 2.5, 2.5, 3.5, 3.5, 3.5]);
        assert_eq!(compute_rising_means(&[3.0, 2.0, 1.0]), [2.0; 3]);
        assert!(compute_rising_means(&[]).is_empty());
    }

    #[test]
    fn single_outliers_vanish_in_the_running_median() {
        assert_eq!(compute_running_median(&[1.0, 1.0, 9.0, 1.0, 1.0]), [1.0; 5]);
    }
}
