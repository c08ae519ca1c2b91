//! A quantity over repeats: its middle, its ends, and what chance leaves open. Pure.

use std::cmp::Ordering;

use serde::Serialize;

use super::bootstrap::{MedianInterval, compute_median_interval};

/// The middle and the ends of one quantity over the repeats. A repeat that did not get there counts as longer than
/// every one that did, so the median is `None` when half of them or more did not, and `max` when any did not.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Spread {
    pub median: Option<f64>,
    pub min: Option<f64>,
    pub max: Option<f64>,
    /// Repeats that got there.
    pub reached: u32,
    pub repeats: u32,
    /// Of the median; `None` of fewer than three repeats, and where one did not get there.
    pub interval: Option<MedianInterval>,
}

impl Spread {
    /// The spread of values of which the missing ones lie beyond all others.
    pub fn of(values: impl IntoIterator<Item = Option<f64>>) -> Spread {
        let mut sorted: Vec<Option<f64>> = values.into_iter().collect();
        sorted.sort_by(|a, b| missing_last(*a, *b));
        let count = sorted.len();
        let median = match count {
            0 => None,
            // The mean of the two in the middle, which are one and the same when the count is odd.
            _ => sorted[(count - 1) / 2].zip(sorted[count / 2]).map(|(low, high)| (low + high) / 2.0),
        };
        Spread {
            median,
            min: sorted.first().copied().flatten(),
            max: sorted.last().copied().flatten(),
            reached: sorted.iter().flatten().count() as u32,
            repeats: count as u32,
            interval: sorted.into_iter().collect::<Option<Vec<f64>>>().and_then(compute_median_interval),
        }
    }

    /// The same spread of every value divided by `divisor`.
    pub fn divided_by(self, divisor: f64) -> Spread {
        let divide = |value: Option<f64>| value.map(|value| value / divisor);
        let interval = self.interval.map(|interval| interval.divided_by(divisor));
        Spread { median: divide(self.median), min: divide(self.min), max: divide(self.max), interval, ..self }
    }
}

/// Orders as numbers, `None` after all of them.
pub fn missing_last(a: Option<f64>, b: Option<f64>) -> Ordering {
    match (a, b) {
        (Some(a), Some(b)) => a.total_cmp(&b),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => Ordering::Equal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
