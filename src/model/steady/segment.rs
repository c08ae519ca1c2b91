//! Levels of a series, and since when the last of them lasts.

use std::ops::Range;

/// Penalty of a further level, in variances times the logarithm of the number of values. The variance is one that the noise
/// of whole levels has, so autocorrelation is in it.
const PENALTY: f64 = 6.0;

/// A dip that lasts a smaller share of the series than this and recovers does not end a level.
const DIP_SHARE: f64 = 0.1;

/// Cuts the values where their mean changes: the least sum of squares plus penalty, exactly, in n² steps.
pub fn find_segments(values: &[f64], sigma: f64) -> Vec<Range<usize>> {
    let n = values.len();
    let sums = prefix_sums(values, |value| value);
    let squares = prefix_sums(values, |value| value * value);
    let variance = sigma.max(1e-3).powi(2);
    let cost = |from: usize, to: usize| {
        let sum = sums[to] - sums[from];
        (squares[to] - squares[from] - sum * sum / (to - from) as f64) / variance
    };
    let penalty = PENALTY * (n.max(2) as f64).ln();
    let mut best = vec![0.0; n + 1];
    let mut cut = vec![0; n + 1];
    for to in 1..=n {
        let costs = (0..to).map(|from| (best[from] + cost(from, to) + penalty, from));
        (best[to], cut[to]) = costs.min_by(|one, other| one.0.total_cmp(&other.0)).unwrap_or((0.0, 0));
    }
    let mut segments = Vec::new();
    let mut end = n;
    while end > 0 {
        segments.push(cut[end]..end);
        end = cut[end];
    }
    segments.reverse();
    segments
}

fn prefix_sums(values: &[f64], of: impl Fn(f64) -> f64) -> Vec<f64> {
    let mut sums = Vec::with_capacity(values.len() + 1);
    sums.push(0.0);
    for value in values {
        sums.push(sums[sums.len() - 1] + of(*value));
    }
    sums
}

/// Where the stretch begins that has kept the level of the end: `mean` gives the level of a segment, as the logarithm of its
/// share of the end's. `tolerance` says by how much the level of so many values may differ, below the end's or above it.
pub fn find_tail_start(
    segments: &[Range<usize>],
    mean: impl Fn(&Range<usize>) -> f64,
    tolerance: impl Fn(usize, bool) -> f64,
) -> usize {
    let length = segments.last().map_or(0, |last| last.end);
    let is_same = |segment: &Range<usize>| mean(segment).abs() <= tolerance(segment.len(), mean(segment) > 0.0);
    let most_dip = (length as f64 * DIP_SHARE) as usize;
    let mut start = length;
    let mut skipped = 0;
    for segment in segments.iter().rev() {
        if is_same(segment) {
            start = segment.start;
            skipped = 0;
        } else {
            skipped += segment.len();
            if mean(segment) > 0.0 || skipped > most_dip {
                break;
            }
        }
    }
    start
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(levels: &[(f64, usize)]) -> Vec<f64> {
        let wiggle = |place: usize| if place.is_multiple_of(2) { 0.01 } else { -0.01 };
        let values = levels.iter().flat_map(|(level, count)| std::iter::repeat_n(*level, *count));
        values.enumerate().map(|(place, value)| value + wiggle(place)).collect()
    }

    fn tail_start(values: &[f64]) -> usize {
        let mean = |segment: &Range<usize>| values[segment.clone()].iter().sum::<f64>() / segment.len() as f64;
        find_tail_start(&find_segments(values, 0.01), mean, |_, _| 0.05)
    }

    #[test]
    fn levels_are_found_where_they_change() {
        let values = steps(&[(-2.0, 30), (-1.0, 20), (0.0, 50)]);
        assert_eq!(find_segments(&values, 0.01), [0..30, 30..50, 50..100]);
        assert_eq!(find_segments(&steps(&[(0.0, 100)]), 0.01).len(), 1);
    }

    #[test]
    fn the_tail_reaches_back_over_dips_that_recover() {
        assert_eq!(tail_start(&steps(&[(-2.0, 30), (0.0, 30), (-0.5, 5), (0.0, 35)])), 30);
        assert_eq!(tail_start(&steps(&[(-0.5, 5), (0.0, 95)])), 5, "what it began with is no dip");
        assert_eq!(tail_start(&steps(&[(0.0, 30), (-0.5, 30), (0.0, 40)])), 60, "long ones end it");
        assert_eq!(tail_start(&steps(&[(0.3, 50), (0.0, 50)])), 50, "it was faster before");
    }
}
