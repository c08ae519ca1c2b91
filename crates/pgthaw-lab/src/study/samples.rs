//! Joins what pgbench counted with what the sampler read, second by second.

use super::record::Sample;
use observe::Second;
use pgbench::Intervals;

/// The samples of a trial whose workload started at `start_unix` (whole seconds since 1970). pgbench logs by whole
/// seconds of the wall clock, and the trial starts on one, so that its line for `start_unix` is the first second. A
/// second without a line served nothing: a cold server may not serve a single transaction for seconds.
pub fn compute_samples(seconds: &[Second], intervals: &Intervals, start_unix: i64) -> Vec<Sample> {
    (1..).zip(seconds).map(|(second, reading)| compute_sample(second, reading, intervals, start_unix)).collect()
}

fn compute_sample(second: u32, reading: &Second, intervals: &Intervals, start_unix: i64) -> Sample {
    let logged = intervals.get(&(start_unix + i64::from(second) - 1)).copied().unwrap_or_default();
    let has_any = logged.transactions > 0;
    Sample {
        second,
        monotonic_ms: reading.monotonic.as_millis() as u64,
        wall_ms: reading.wall_ms,
        transactions: logged.transactions,
        latency_us_mean: logged.latency_us_mean(),
        latency_us_min: has_any.then_some(logged.latency_us_min),
        latency_us_max: has_any.then_some(logged.latency_us_max),
        latency_us_deviation: logged.latency_us_deviation(),
        foreground_read_bytes: reading.counters.workload_read_bytes,
        device_read_bytes: reading.counters.device_read_bytes,
        device_reads: reading.counters.device_reads,
        os_resident_bytes: reading.os_resident_bytes,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use host::units::Bytes;
    use observe::Counters;
    use pgbench::Interval;

    #[test]
    fn a_second_without_a_line_served_nothing() {
        let reading = Second {
            monotonic: Duration::from_millis(61_002),
            wall_ms: 1_000_002,
            lateness: Duration::from_millis(2),
            counters: Counters { workload_read_bytes: Bytes(8192), ..Counters::default() },
            os_resident_bytes: Bytes(4096),
        };
        let interval = Interval {
            transactions: 4,
            latency_us_sum: 100.0,
            latency_us_squares: 3000.0,
            latency_us_min: 10,
            latency_us_max: 40,
        };
        // The first second served nothing; a line from before the start is not ours.
        let intervals = Intervals::from([(999, interval), (1001, interval)]);
        let samples = compute_samples(&[reading, reading], &intervals, 1000);
        assert_eq!((samples[0].second, samples[0].transactions, samples[0].latency_us_max), (1, 0, None));
        assert_eq!((samples[1].transactions, samples[1].latency_us_mean), (4, Some(25.0)));
        assert_eq!(samples[1].latency_us_deviation, Some(125.0_f64.sqrt()));
        assert_eq!(samples[1].foreground_read_bytes, Bytes(8192));
        assert_eq!(samples[1].monotonic_ms, 61_002);
    }
}
