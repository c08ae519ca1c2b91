//! How far a host's clock is ahead of this one's.

/// A question to a host and its answer, by this host's clock and by the other's, in nanoseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundTrip {
    pub asked_ns: i64,
    pub there_ns: i64,
    pub answered_ns: i64,
}

impl RoundTrip {
    fn took_ns(self) -> i64 {
        self.answered_ns - self.asked_ns
    }
}

/// What the round trips tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockOffset {
    /// By how much the other clock is ahead.
    pub offset_ns: i64,
    /// It is at most so far from that: the answer was given at some moment between question and answer.
    pub uncertainty_ns: i64,
}

impl ClockOffset {
    /// From the quickest round trip, for it leaves the least room; `None` without any.
    pub fn compute(trips: &[RoundTrip]) -> Option<ClockOffset> {
        let quickest = trips.iter().filter(|trip| trip.took_ns() >= 0).min_by_key(|trip| trip.took_ns())?;
        let middle_ns = quickest.asked_ns + quickest.took_ns() / 2;
        Some(ClockOffset {
            offset_ns: quickest.there_ns - middle_ns,
            uncertainty_ns: quickest.took_ns() - quickest.took_ns() / 2,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_quickest_round_trip_decides() {
        let trip = |asked_ns, there_ns, answered_ns| RoundTrip { asked_ns, there_ns, answered_ns };
        let trips = [trip(0, 9_000, 8_000), trip(10_000, 15_400, 11_000), trip(20_000, 26_000, 24_000)];
        assert_eq!(ClockOffset::compute(&trips), Some(ClockOffset { offset_ns: 4_900, uncertainty_ns: 500 }));
        assert_eq!(ClockOffset::compute(&[]), None);
        // The clock was set back meanwhile.
        assert_eq!(ClockOffset::compute(&[trip(5, 0, 4)]), None);
    }

    proptest! {
        /// Wherever on its way the answer was given, the true offset is within the uncertainty.
        #[test]
        fn the_true_offset_is_never_outside(
            offset in -10_000_000_000i64..10_000_000_000,
            ways in prop::collection::vec((0i64..5_000_000, 0i64..5_000_000), 1..20),
        ) {
            let trips: Vec<RoundTrip> = (1..).zip(&ways).map(|(place, (there, back))| {
                let asked_ns = place * 1_000_000_000;
                RoundTrip { asked_ns, there_ns: asked_ns + there + offset, answered_ns: asked_ns + there + back }
            }).collect();
            let found = ClockOffset::compute(&trips).unwrap();
            prop_assert!((found.offset_ns - offset).abs() <= found.uncertainty_ns, "{:?}", found);
        }
    }
}
