//! Does a tail rise or fall?

use crate::model::statistics::{compute_error_inflation, compute_median, compute_robust_sigma};

/// The change over the whole of a series, in the unit of its values, and its standard error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trend {
    pub change: f64,
    pub error: f64,
}

/// Values farther from the median than so many standard deviations are drawn in: stalls are not the trend.
const DRAWN_IN: f64 = 3.0;

impl Trend {
    /// Is the change above `least`, and not by chance?
    pub fn exceeds(&self, least: f64, errors: f64) -> bool {
        self.change > least && self.change > errors * self.error
    }
}

/// The straight line through the values, its error widened by what autocorrelation takes from their number.
pub fn fit_trend(values: &[f64]) -> Trend {
    let n = values.len() as f64;
    let median = compute_median(values.to_vec()).unwrap_or(0.0);
    let reach = DRAWN_IN * compute_robust_sigma(values).max(1e-6);
    let drawn: Vec<f64> = values.iter().map(|value| value.clamp(median - reach, median + reach)).collect();
    let mean = drawn.iter().sum::<f64>() / n.max(1.0);
    let middle = (n - 1.0) / 2.0;
    let spread: f64 = (0..drawn.len()).map(|place| (place as f64 - middle).powi(2)).sum();
    if spread <= 0.0 {
        return Trend { change: 0.0, error: f64::INFINITY };
    }
    let slope = drawn.iter().enumerate().map(|(place, value)| (place as f64 - middle) * (value - mean)).sum::<f64>();
    let slope = slope / spread;
    let residuals: Vec<f64> =
        drawn.iter().enumerate().map(|(place, value)| value - mean - slope * (place as f64 - middle)).collect();
    let variance = residuals.iter().map(|r| r * r).sum::<f64>() / (n - 2.0).max(1.0);
    let error = (variance / spread).sqrt() * compute_error_inflation(&residuals);
    Trend { change: slope * n, error: error * n }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(place: usize) -> f64 {
        f64::from((place as u32 * 7919) % 101) / 101.0 - 0.5
    }

    #[test]
    fn a_line_is_found_and_noise_is_none() {
        let rising: Vec<f64> = (0..200).map(|place| 0.1 * noise(place) + place as f64 * 1e-3).collect();
        let trend = fit_trend(&rising);
        assert!((trend.change - 0.2).abs() < 3.0 * trend.error && trend.exceeds(0.02, 3.0), "{trend:?}");
        let flat: Vec<f64> = (0..200).map(|place| 0.1 * noise(place)).collect();
        assert!(!fit_trend(&flat).exceeds(0.0, 3.0));
        assert!(!fit_trend(&[1.0]).exceeds(0.0, 1.0));
    }

    #[test]
    fn a_stall_at_the_end_is_no_trend() {
        let mut values: Vec<f64> = (0..200).map(|place| 0.01 * noise(place)).collect();
        values[195..198].fill(-3.0);
        assert!(fit_trend(&values).change.abs() < 0.01);
    }
}
