//! From readings of counters at their true times to what happened in each second.

use std::time::Duration;

use host::units::Bytes;

/// What was read from the device so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counters {
    /// By anybody.
    pub device_read_bytes: Bytes,
    pub device_reads: u64,
    /// By the workload's own backends.
    pub workload_read_bytes: Bytes,
    /// By the server's processes on behalf of the strategy.
    pub strategy_read_bytes: Bytes,
}

/// One second of the run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Second {
    /// When the reading that closed this second was really taken.
    pub monotonic: Duration,
    pub wall_ms: i64,
    /// How long after the second's end that was.
    pub lateness: Duration,
    /// What was read within the second.
    pub counters: Counters,
    /// At the second's end.
    pub os_resident_bytes: Bytes,
}

impl Counters {
    /// What was added since `earlier`.
    pub fn since(self, earlier: Counters) -> Counters {
        self.with(earlier, |now, before| now.saturating_sub(before))
    }

    /// The counters after `share` (0 to 1) of the way from here to `later`.
    pub fn towards(self, later: Counters, share: f64) -> Counters {
        self.with(later, |from, to| from + (to.saturating_sub(from) as f64 * share).round() as u64)
    }

    fn with(self, other: Counters, combine: impl Fn(u64, u64) -> u64) -> Counters {
        let bytes = |a: Bytes, b: Bytes| Bytes(combine(a.0, b.0));
        Counters {
            device_read_bytes: bytes(self.device_read_bytes, other.device_read_bytes),
            device_reads: combine(self.device_reads, other.device_reads),
            workload_read_bytes: bytes(self.workload_read_bytes, other.workload_read_bytes),
            strategy_read_bytes: bytes(self.strategy_read_bytes, other.strategy_read_bytes),
        }
    }
}

/// All counters, read together. Counters only grow; the time is when they were read, however late that was.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reading {
    /// Since the machine booted.
    pub monotonic: Duration,
    /// Milliseconds since 1970 UTC.
    pub wall_ms: i64,
    pub counters: Counters,
    /// In the page cache now: a level, not a counter.
    pub os_resident_bytes: Bytes,
}

/// What happened in each of the first `seconds` seconds since `start`. A counter between two readings is taken to have
/// grown evenly, so that a late reading's surplus falls to the second it belongs to and no byte is lost or counted
/// twice; seconds without a reading of their own share what the next one brought. Seconds after the last reading are
/// left out.
pub fn compute_seconds(readings: &[Reading], start: Duration, seconds: u32) -> Vec<Second> {
    let ends = (1..=seconds).map(|second| start + Duration::from_secs(second.into()));
    let mut previous = counters_at(readings, start).unwrap_or_default();
    ends.map_while(|end| {
        let counters = counters_at(readings, end)?;
        let closing = readings.iter().find(|reading| reading.monotonic >= end)?;
        let within = counters.since(previous);
        previous = counters;
        Some(Second {
            monotonic: closing.monotonic,
            wall_ms: closing.wall_ms,
            lateness: closing.monotonic - end,
            counters: within,
            os_resident_bytes: closing.os_resident_bytes,
        })
    })
    .collect()
}

/// What was read in each tenth of the first `seconds` seconds since `start`, from a counter that was read about so often.
/// As in [`compute_seconds`], growth between two readings is taken to be even. Tenths after the last reading are 0.
pub fn compute_tenths(readings: &[(Duration, Bytes)], start: Duration, seconds: u32) -> Vec<Bytes> {
    let at = |tenth: u32| bytes_at(readings, start + Duration::from_millis(100) * tenth);
    (0..seconds * 10).map(|tenth| Bytes(at(tenth + 1).0.saturating_sub(at(tenth).0))).collect()
}

fn bytes_at(readings: &[(Duration, Bytes)], instant: Duration) -> Bytes {
    let after = readings.partition_point(|(at, _)| *at < instant);
    let Some((later, to)) = readings.get(after) else { return readings.last().map_or(Bytes(0), |last| last.1) };
    let Some((earlier, from)) = after.checked_sub(1).map(|before| readings[before]) else { return *to };
    let share = (instant - earlier).as_secs_f64() / (*later - earlier).as_secs_f64();
    Bytes(from.0 + (to.0.saturating_sub(from.0) as f64 * share).round() as u64)
}

/// The counters at an instant, between the readings around it. `None` after the last reading.
fn counters_at(readings: &[Reading], instant: Duration) -> Option<Counters> {
    let index = readings.iter().position(|reading| reading.monotonic >= instant)?;
    let after = &readings[index];
    let Some(before) = index.checked_sub(1).map(|before| &readings[before]) else { return Some(after.counters) };
    let span = (after.monotonic - before.monotonic).as_secs_f64();
    let share = if span > 0.0 { instant.saturating_sub(before.monotonic).as_secs_f64() / span } else { 1.0 };
    Some(before.counters.towards(after.counters, share))
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Duration = Duration::from_secs(1000);

    /// A reading so many milliseconds after the start, when the device has delivered so many bytes.
    fn reading(after_ms: i64, bytes: u64) -> Reading {
        let monotonic = Duration::from_millis((1_000_000 + after_ms) as u64);
        let counters = Counters { device_read_bytes: Bytes(bytes), ..Counters::default() };
        Reading { monotonic, wall_ms: after_ms, counters, os_resident_bytes: Bytes(bytes) }
    }

    fn bytes(seconds: &[Second]) -> Vec<u64> {
        seconds.iter().map(|second| second.counters.device_read_bytes.0).collect()
    }

    #[test]
    fn readings_on_time_are_differences() {
        let readings = [reading(0, 50), reading(1000, 150), reading(2000, 150), reading(3000, 450)];
        assert_eq!(bytes(&compute_seconds(&readings, START, 3)), [100, 0, 300]);
    }

    #[test]
    fn a_late_reading_keeps_its_true_time_and_its_surplus_goes_where_it_belongs() {
        let readings = [reading(0, 0), reading(1500, 150), reading(2000, 200)];
        let seconds = compute_seconds(&readings, START, 2);
        assert_eq!(bytes(&seconds), [100, 100]);
        assert_eq!(seconds[0].lateness, Duration::from_millis(500));
        assert_eq!(seconds[0].wall_ms, 1500);
        assert_eq!(seconds[1].lateness, Duration::ZERO);
    }

    #[test]
    fn seconds_without_a_reading_share_the_next_and_nothing_is_lost() {
        let readings = [reading(0, 0), reading(1000, 100), reading(4000, 700)];
        let seconds = compute_seconds(&readings, START, 4);
        assert_eq!(bytes(&seconds), [100, 200, 200, 200]);
        assert_eq!(seconds[1].lateness, Duration::from_secs(2));
    }

    #[test]
    fn what_was_read_before_the_start_does_not_count() {
        let readings = [reading(-500, 100), reading(500, 200), reading(1000, 300)];
        assert_eq!(bytes(&compute_seconds(&readings, START, 1)), [150]);
    }

    #[test]
    fn tenths_add_up_to_what_was_read() {
        let at = |ms: u64| START + Duration::from_millis(ms);
        let readings = [(at(0), Bytes(40)), (at(105), Bytes(145)), (at(300), Bytes(145)), (at(1000), Bytes(215))];
        let tenths: Vec<u64> = compute_tenths(&readings, START, 1).into_iter().map(|bytes| bytes.0).collect();
        assert_eq!(tenths[..4], [100, 5, 0, 10]);
        assert_eq!(tenths.iter().sum::<u64>(), 175);
        assert_eq!(compute_tenths(&readings, START, 2)[10..], [Bytes(0); 10]);
        assert_eq!(compute_tenths(&[], START, 1), [Bytes(0); 10]);
    }

    #[test]
    fn seconds_after_the_last_reading_are_unknown() {
        assert_eq!(compute_seconds(&[reading(0, 0), reading(1000, 1)], START, 5).len(), 1);
        assert!(compute_seconds(&[], START, 5).is_empty());
    }
}
