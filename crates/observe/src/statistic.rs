//! Count, total, extremes and histogram of one named wait.
//!
//! Part of `--json`: never rename fields.

use serde::{Deserialize, Serialize};

pub const BUCKETS: usize = 32;

/// The first bucket is below 2^10 ns = 1.024 µs.
const FIRST_BUCKET_BITS: u32 = 10;

/// Statistic of waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema, crate::TS)]
pub struct Statistic {
    /// Number of waits; 0 if only their time is known, as from sampling.
    pub count: u64,
    pub total_ns: u64,
    /// Shortest wait. In `top`, it may be the lower limit of the wait's bucket. `None` if lengths are unknown.
    pub min_ns: Option<u64>,
    /// Longest wait, at most the length of the observation. At most `total_ns`, except in `top`, where the wait may
    /// have begun before the step. It may be the upper limit of the wait's bucket: at most twice the true length,
    /// except in the first and the last bucket.
    pub max_ns: Option<u64>,
    /// Number of waits by bucket. Bucket 0 ends at 1024 ns, bucket n begins at 2^(9+n) ns, and the last is unlimited.
    #[ts(skip)]
    pub histogram: [u64; BUCKETS],
}

impl Statistic {
    /// Statistic of waits whose single lengths are unknown.
    pub fn of_time(count: u64, total_ns: u64) -> Statistic {
        Statistic { count, total_ns, ..Statistic::default() }
    }

    /// Counts a length without adding it to the total.
    pub fn count(&mut self, length_ns: u64) {
        self.min_ns = Some(self.min_ns.map_or(length_ns, |min| min.min(length_ns)));
        self.max_ns = self.max_ns.max(Some(length_ns));
        self.count += 1;
        self.histogram[bucket_of(length_ns)] += 1;
    }

    pub fn merge(&mut self, other: &Statistic) {
        self.min_ns = self.min_ns.into_iter().chain(other.min_ns).min();
        self.max_ns = self.max_ns.max(other.max_ns);
        let add = |sum: &mut u64, more| *sum = sum.saturating_add(more);
        add(&mut self.count, other.count);
        add(&mut self.total_ns, other.total_ns);
        self.histogram.iter_mut().zip(other.histogram).for_each(|(sum, more)| add(sum, more));
    }

    /// Increase since `earlier`. An unchanged minimum or maximum is estimated from the histogram.
    pub fn since(&self, earlier: &Statistic) -> Statistic {
        let mut histogram = self.histogram;
        histogram.iter_mut().zip(earlier.histogram).for_each(|(sum, before)| *sum = sum.saturating_sub(before));
        let shortest = histogram.iter().position(|count| *count > 0).map(lower_bound);
        let longest = histogram.iter().rposition(|count| *count > 0).map(upper_bound);
        let is_shorter = self.min_ns.zip(earlier.min_ns).is_some_and(|(now, before)| now < before);
        Statistic {
            count: self.count.saturating_sub(earlier.count),
            total_ns: self.total_ns.saturating_sub(earlier.total_ns),
            min_ns: if is_shorter { self.min_ns } else { shortest.and(shortest.max(self.min_ns)) },
            max_ns: if self.max_ns > earlier.max_ns { self.max_ns } else { longest.min(self.max_ns) },
            histogram,
        }
    }

    /// Subtracts `before_ns` from one wait: the time that this wait lasted before the observation began. Which wait
    /// this was is unknown, so the shortest wait of at least `least_ns` is assumed.
    pub fn shorten_one(&mut self, least_ns: u64, before_ns: u64) {
        let first = bucket_of(least_ns);
        let Some(bucket) = (first..BUCKETS).find(|bucket| self.histogram[*bucket] > 0) else { return };
        let longest_ns = self.max_ns.unwrap_or(u64::MAX);
        let length_ns = upper_bound(bucket).min(longest_ns).saturating_sub(before_ns);
        self.histogram[bucket] -= 1;
        let longest = self.histogram.iter().rposition(|count| *count > 0);
        // If no other wait is in the shortened wait's bucket or a higher one, this wait was the longest.
        if longest.is_none_or(|longest| longest < bucket) {
            self.max_ns = longest.map(upper_bound).max(Some(length_ns));
        }
        self.min_ns = self.min_ns.map(|min| min.min(length_ns));
        self.histogram[bucket_of(length_ns)] += 1;
    }

    pub fn bound(&mut self, longest_ns: u64) {
        let last = bucket_of(longest_ns);
        self.histogram[last] = self.histogram[last..].iter().sum();
        self.histogram[last + 1..].fill(0);
        self.max_ns = self.max_ns.map(|max| max.min(longest_ns));
        self.min_ns = self.min_ns.map(|min| min.min(longest_ns));
    }

    pub fn average_ns(&self) -> Option<u64> {
        self.total_ns.checked_div(self.count)
    }

    /// Quantile `share` (0 to 1): the upper limit of its bucket, or `max_ns`. At most twice the true value, except in
    /// the first and the last bucket. `None` if lengths are unknown.
    pub fn quantile_ns(&self, share: f64) -> Option<u64> {
        let counted = self.histogram.iter().fold(0_u64, |sum, count| sum.saturating_add(*count));
        let wanted = (counted as f64 * share).ceil().max(1.0) as u64;
        let mut seen = 0;
        let bucket = self.histogram.iter().position(|count| {
            seen = count.saturating_add(seen);
            seen >= wanted
        })?;
        Some(upper_bound(bucket).min(self.max_ns?))
    }
}

fn bucket_of(length_ns: u64) -> usize {
    let bits = (u64::BITS - (length_ns >> FIRST_BUCKET_BITS).leading_zeros()) as usize;
    bits.min(BUCKETS - 1)
}

fn lower_bound(bucket: usize) -> u64 {
    if bucket == 0 { 0 } else { 1 << (FIRST_BUCKET_BITS as usize + bucket - 1) }
}

/// Nanoseconds. The last bucket is unlimited.
pub(super) fn upper_bound(bucket: usize) -> u64 {
    if bucket == BUCKETS - 1 { u64::MAX } else { 1 << (FIRST_BUCKET_BITS as usize + bucket) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(lengths: &[u64]) -> Statistic {
        let mut statistic = Statistic::default();
        for length in lengths {
            statistic.total_ns += length;
            statistic.count(*length);
        }
        statistic
    }

    #[test]
    fn a_length_that_is_not_known_is_told_as_null() {
        let lasts = Statistic::of_time(0, 3_000_000);
        let told = serde_json::to_value(lasts).unwrap();
        assert!(told["min_ns"].is_null() && told["max_ns"].is_null(), "{told}");
        assert_eq!(serde_json::from_value::<Statistic>(told).unwrap(), lasts);
        let ended = serde_json::to_value(of(&[0, 500])).unwrap();
        assert_eq!((&ended["min_ns"], &ended["max_ns"]), (&0.into(), &500.into()));
    }

    #[test]
    fn buckets_are_powers_of_two_and_the_last_takes_the_rest() {
        for (length, bucket) in
            [(0, 0), (1023, 0), (1024, 1), (2047, 1), (2048, 2), (1 << 39, 30), (1 << 40, 31), (u64::MAX, 31)]
        {
            assert_eq!(bucket_of(length), bucket, "{length}");
            assert!(lower_bound(bucket) <= length && length <= upper_bound(bucket), "{length}");
        }
    }

    #[test]
    fn a_quantile_is_not_below_and_at_most_twice_what_it_is() {
        let lengths: Vec<u64> = (1..=100).map(|n| n * 10_000).collect();
        let p99 = of(&lengths).quantile_ns(0.99).unwrap();
        assert!((990_000..=1_000_000).contains(&p99), "{p99}: the longest bounds it");
        let p50 = of(&lengths).quantile_ns(0.5).unwrap();
        assert!((500_000..1_000_000).contains(&p50), "{p50}");
        assert_eq!(Statistic::of_time(5, 100).quantile_ns(0.99), None);
        assert_eq!((Statistic::of_time(5, 100).average_ns(), Statistic::of_time(0, 9).average_ns()), (Some(20), None));
    }

    #[test]
    fn the_one_that_had_begun_before_is_counted_without_what_was_before() {
        let mut waits = of(&[50_000, 60_000, 13_000_000]);
        waits.shorten_one(10_500_000, 10_000_000);
        assert_eq!((waits.count, waits.max_ns, waits.min_ns), (3, Some(3_000_000), Some(50_000)));
        assert_eq!((waits.histogram[bucket_of(13_000_000)], waits.histogram[bucket_of(3_000_000)]), (0, 1));
        let mut waits = of(&[13_000_000, 500_000_000]);
        waits.shorten_one(10_500_000, 10_000_000);
        assert_eq!((waits.max_ns, waits.histogram.iter().sum::<u64>()), (Some(500_000_000), 2));
        assert!((3_000_000..=6_777_216).contains(&waits.min_ns.unwrap()), "{waits:?}");
        let none = Statistic::of_time(4, 100);
        let mut same = none;
        same.shorten_one(10, 5);
        assert_eq!(same, none, "where no length is known there is none to shorten");
    }

    #[test]
    fn none_is_longer_than_what_bounds_them() {
        let mut waits = of(&[50_000, 13_000_000, 14_000_000]);
        waits.bound(6_000_000);
        assert_eq!((waits.count, waits.max_ns, waits.min_ns), (3, Some(6_000_000), Some(50_000)));
        assert_eq!(waits.histogram[bucket_of(6_000_000)], 2);
        let mut whole = of(&[50_000]);
        whole.bound(u64::MAX);
        assert_eq!(whole, of(&[50_000]));
    }

    proptest! {
        #[test]
        fn parts_are_the_whole(first in prop::collection::vec(1_u64..1 << 42, 0..20), second in prop::collection::vec(1_u64..1 << 42, 0..20)) {
            let whole = of(&[&first[..], &second[..]].concat());
            let mut merged = of(&first);
            merged.merge(&of(&second));
            prop_assert_eq!(merged, whole);
            let rest = whole.since(&of(&first));
            let expected = of(&second);
            prop_assert_eq!((rest.count, rest.total_ns, rest.histogram), (expected.count, expected.total_ns, expected.histogram));
            if !second.is_empty() {
                prop_assert!(rest.max_ns >= expected.max_ns && rest.min_ns <= expected.min_ns);
            }
        }
    }
}
