//! Does throughput come back to the same dips again and again, as checkpoints make it?

use crate::model::statistics::{compute_autocorrelation, compute_median};

/// A period must be seen so often.
const FEWEST_PERIODS: usize = 3;

/// Dips that make a period of a run. Three have two intervals between them, and that these are alike happens by chance; where a period is
/// only to be averaged out, it does no harm.
pub(super) const FEWEST_DIPS: usize = 4;
pub(super) const AVERAGED_DIPS: usize = 3;

/// Fewer values cannot show a dip and a recovery.
const SHORTEST: usize = 3;

/// The autocorrelation one period later, and by how much it stands out above the least before it.
const LEAST_AUTOCORRELATION: f64 = 0.3;
const LEAST_PROMINENCE: f64 = 0.25;

/// Of n values without a period the autocorrelation has a standard error of 1 ÷ √n. One beyond so many is none of chance, though there
/// are many lags to choose from.
const ERRORS: f64 = 3.0;

/// The usual course of a period explains at least so much of the variance, and spans so much of the throughput.
const LEAST_EXPLAINED: f64 = 0.3;
const LEAST_SPAN: f64 = 0.08;

/// The period in values, where at least so many dips show it; `None` when there is none. `values` are shares of the level, without trend.
pub fn find_period(values: &[f64], fewest_dips: usize) -> Option<usize> {
    let longest = values.len() / FEWEST_PERIODS;
    let least_correlation = LEAST_AUTOCORRELATION.max(ERRORS / (values.len() as f64).sqrt());
    let correlations: Vec<f64> = (0..=longest + 1).map(|lag| compute_autocorrelation(values, lag)).collect();
    let mut least = f64::INFINITY;
    let mut best: Option<(usize, f64)> = None;
    for lag in 1..=longest {
        let correlation = correlations[lag];
        least = least.min(correlation);
        let is_top = correlation >= correlations[lag - 1] && correlation >= correlations[lag + 1];
        let stands_out = correlation >= least_correlation && correlation - least >= LEAST_PROMINENCE;
        // Multiples of a period are no better than the period itself, but for chance.
        let is_better = best.is_none_or(|(_, so_far)| correlation > so_far * 1.15);
        if lag >= SHORTEST && is_top && stands_out && is_better {
            best = Some((lag, correlation));
        }
    }
    let (period, _) = best?;
    let course = fold(values, period);
    let deepest = (0..period).min_by(|one, other| course[*one].total_cmp(&course[*other]))?;
    let dips = (values.len() - deepest).div_ceil(period);
    (dips >= fewest_dips && is_explained(values, &course)).then_some(period)
}

/// The usual course of a period.
fn fold(values: &[f64], period: usize) -> Vec<f64> {
    // A pause that fell somewhere once is not the course.
    let usual = |phase| compute_median(values.iter().skip(phase).step_by(period).copied().collect()).unwrap_or(0.0);
    (0..period).map(usual).collect()
}

/// Compares the usual course with what is left.
fn is_explained(values: &[f64], course: &[f64]) -> bool {
    let period = course.len();
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let total: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let left: f64 = values.iter().enumerate().map(|(place, value)| (value - course[place % period]).powi(2)).sum();
    let (n, p) = (values.len() as f64, period as f64);
    // Adjusted for the course having as many parameters as the period has values.
    let explained = 1.0 - (left / (n - p).max(1.0)) / (total / (n - 1.0).max(1.0));
    let span =
        course.iter().copied().fold(f64::NEG_INFINITY, f64::max) - course.iter().copied().fold(f64::INFINITY, f64::min);
    explained >= LEAST_EXPLAINED && span >= LEAST_SPAN
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(place: usize) -> f64 {
        f64::from((place as u32 * 7919) % 101) / 101.0 - 0.5
    }

    #[test]
    fn dips_that_come_back_have_a_period() {
        let dips = |place: usize| if place % 30 < 4 { 0.6 } else { 1.0 } + 0.1 * noise(place);
        assert_eq!(find_period(&(0..200).map(dips).collect::<Vec<_>>(), FEWEST_DIPS), Some(30));
        let wave = |place: usize| 1.0 + 0.2 * (place as f64 / 20.0 * std::f64::consts::TAU).sin();
        assert_eq!(find_period(&(0..100).map(wave).collect::<Vec<_>>(), FEWEST_DIPS), Some(20));
    }

    #[test]
    fn three_dips_are_two_intervals_and_no_period() {
        let dips = |place: usize| if place % 30 < 4 { 0.6 } else { 1.0 } + 0.1 * noise(place);
        let seen = |values: usize, dips_wanted| find_period(&(0..values).map(dips).collect::<Vec<_>>(), dips_wanted);
        assert_eq!((seen(90, FEWEST_DIPS), seen(90, AVERAGED_DIPS)), (None, Some(30)));
        assert_eq!(seen(96, FEWEST_DIPS), Some(30), "the fourth is there");
        // Of so few values chance has such intervals, however deep the dips are.
        let short = |place: usize| if place % 4 == 2 { 0.5 } else { 1.0 };
        for values in [14, 15] {
            assert_eq!(find_period(&(0..values).map(short).collect::<Vec<_>>(), AVERAGED_DIPS), None, "of {values}");
        }
        assert_eq!(find_period(&(0..24).map(short).collect::<Vec<_>>(), FEWEST_DIPS), Some(4), "these are six");
    }

    #[test]
    fn noise_single_dips_and_shallow_waves_have_none() {
        assert_eq!(
            find_period(&(0..300).map(|place| 1.0 + 0.2 * noise(place)).collect::<Vec<_>>(), AVERAGED_DIPS),
            None
        );
        let once = |place: usize| if (50..60).contains(&place) { 0.3 } else { 1.0 };
        assert_eq!(find_period(&(0..300).map(once).collect::<Vec<_>>(), AVERAGED_DIPS), None);
        let shallow = |place: usize| 1.0 + 0.02 * (place as f64 / 20.0 * std::f64::consts::TAU).sin();
        assert_eq!(find_period(&(0..300).map(shallow).collect::<Vec<_>>(), AVERAGED_DIPS), None);
        assert_eq!(find_period(&[1.0, 1.0], AVERAGED_DIPS), None);
    }
}
