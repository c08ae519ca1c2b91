//! Where the median of a few trials lies: the bootstrap's interval, over every resample that there can be. Pure.

use serde::Serialize;

use super::statistics::{MIN_PAIRS, compute_left_out};

/// Share of the resamples whose medians the interval holds.
const LEVEL: f64 = 0.95;

/// An interval around a median of trials, between two of their figures.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct MedianInterval {
    pub low: f64,
    pub high: f64,
    /// How often such an interval holds the true median, 0 to 1, whatever the distribution: 0.75 of three trials.
    pub coverage: f64,
}

impl MedianInterval {
    /// Of every figure divided by `divisor`.
    pub fn divided_by(self, divisor: f64) -> MedianInterval {
        MedianInterval { low: self.low / divisor, high: self.high / divisor, ..self }
    }
}

/// The interval that holds the medians of 95 % of all resamples of these figures, its ends moved outwards to figures that
/// were measured; `None` of fewer than three.
///
/// A resample of n figures takes each with the same chance, n times. How often its median is which of them depends on
/// their order alone, so nothing is drawn: all resamples are counted. The bootstrap promises more than it holds (0.88 of
/// seven figures, 0.93 of eight), so its ends move outwards until the binomial distribution says 0.95, as far as there are
/// figures: from six on.
pub fn compute_median_interval(mut figures: Vec<f64>) -> Option<MedianInterval> {
    let count = figures.len();
    if count < MIN_PAIRS {
        return None;
    }
    figures.sort_by(f64::total_cmp);
    // By symmetry as many places are left out at the one end as at the other.
    let (left_out, coverage) = compute_left_out(count);
    let left_out_by_resamples = count_left_out(count);
    let (left_out, coverage) = match left_out_by_resamples < left_out {
        true => (left_out_by_resamples, compute_coverage(count, left_out_by_resamples)),
        false => (left_out, coverage),
    };
    Some(MedianInterval { low: figures[left_out], high: figures[count - 1 - left_out], coverage })
}

/// How many figures lie below the interval: beyond them are the medians of at most 2.5 % of the resamples.
fn count_left_out(count: usize) -> usize {
    let places: Vec<usize> = (1..count / 2).collect();
    places.partition_point(|place| share_of_medians_below(count, *place) <= (1.0 - LEVEL) / 2.0)
}

/// The share of the resamples whose median is below the figure at `place`, from 0 in their order: at least half of what was
/// drawn is. (Of an even count the lower one of the two in the middle counts.)
fn share_of_medians_below(count: usize, place: usize) -> f64 {
    tail(count, count.div_ceil(2), place as f64 / count as f64)
}

/// How often the true median lies between the figures of which so many lie beyond at each end.
fn compute_coverage(count: usize, left_out: usize) -> f64 {
    1.0 - 2.0 * tail(count, count - left_out, 0.5)
}

/// The chance that at least so many of `count` coins show heads, for a chance of each strictly between 0 and 1.
fn tail(count: usize, heads: usize, chance: f64) -> f64 {
    let (head, other) = (chance.ln(), (1.0 - chance).ln());
    // From all heads downwards: of each number of heads its choices are those of the one before, times a ratio.
    let mut choices = 0.0_f64;
    let mut sum = 0.0;
    for tails in 0..=count - heads {
        let shown = count - tails;
        sum += (choices + shown as f64 * head + tails as f64 * other).exp();
        choices += (shown as f64 / (tails + 1) as f64).ln();
    }
    sum
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{Rng as _, SeedableRng as _};

    use super::*;

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
    fn all_resamples_are_as_many_drawn_ones_say() {
        let mut random = StdRng::seed_from_u64(5);
        for count in [7, 12, 20] {
            let place = count / 3;
            let mut is_below = || {
                let mut drawn: Vec<usize> = (0..count).map(|_| random.random_range(0..count)).collect();
                drawn.sort_unstable();
                drawn[(count - 1) / 2] < place
            };
            let below = (0..20_000).filter(|_| is_below()).count() as f64 / 20_000.0;
            let told = share_of_medians_below(count, place);
            assert!((below - told).abs() < 0.01, "{count}: {below} drawn, {told} told");
        }
    }

    #[test]
    fn the_interval_holds_the_true_median_as_often_as_it_says() {
        let mut random = StdRng::seed_from_u64(6);
        for count in [3, 8, 12, 20, 101] {
            let coverage = places(count).2;
            let mut holds = || {
                // Skewed, as latencies are; its median is 1.
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
}
