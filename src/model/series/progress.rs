//! What pgbench prints: its `--progress` lines of every version, and the lines of its summary that tell something.

use super::Facts;
use super::number::parse_number;

/// Times above this are seconds since 1970 (`--progress-timestamp`), not since the start.
pub const EARLIEST_EPOCH: f64 = 1e8;

/// The year 5138: a time from here on was no clock's.
pub const LATEST_EPOCH: f64 = 1e11;

/// The time (the end of the interval) and the rate of a progress line; NaN where pgbench printed it.
///
/// Every version since 9.4 begins with `progress: 5.0 s, 4711.3 tps`, what follows differs: `lat 0.211 ms stddev 0.080`
/// (9.4), `lag`, `skipped` (9.5), `failed` and `retried` (15). The development versions of 2013 wrote `29.882 +- 18.185
/// ms lat`.
pub fn parse_progress(line: &str) -> Option<(f64, f64)> {
    let (_, figures) = line.split_once("progress:")?;
    let mut words = figures.split_whitespace();
    let number = |word: &str| parse_number(word.trim_end_matches(','));
    let time = number(words.next()?)?;
    words.next().filter(|unit| unit.trim_end_matches(',') == "s")?;
    let rate = number(words.next()?)?;
    words.next().filter(|unit| unit.trim_end_matches(',') == "tps")?;
    Some((time, rate))
}

/// Is this a progress line, whole or cut short?
pub fn is_progress(line: &str) -> bool {
    line.trim_start().starts_with("progress:")
}

/// Notes what a line tells beside its figures: a line of pgbench's summary, or a progress line.
pub fn note_fact(line: &str, facts: &mut Facts) {
    // pgbench tells how far behind its schedule it is only where `--rate` gave it one.
    facts.is_rate_limited |= line.starts_with("rate limit schedule lag:") || is_behind_schedule(line);
    let value = |name: &str| line.strip_prefix(name).and_then(|value| value.trim().parse().ok());
    facts.clients = value("number of clients:").or(facts.clients);
    facts.scale = value("scaling factor:").or(facts.scale);
    // pgbench tells a scale of 1 for scripts that have none.
    if line.strip_prefix("transaction type:").is_some_and(|kind| !kind.trim().starts_with("<builtin")) {
        facts.is_own_script = true;
    }
}

fn is_behind_schedule(line: &str) -> bool {
    line.contains("progress:") && line.split(", ").any(|figure| figure.starts_with("lag "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_lines_of_every_version() {
        for line in [
            "progress: 10.0 s, 33.4 tps, 29.882 +- 18.185 ms lat",
            "progress: 10.0 s, 33.4 tps, lat 29.882 ms stddev 18.185",
            "progress: 10.0 s, 33.4 tps, lat 29.882 ms stddev 18.185, lag 0.011 ms, 3 skipped",
            "progress: 10.0 s, 33.4 tps, lat 29.882 ms stddev 18.185, 0 failed",
            "progress: 10.0 s, 33.4 tps, lat 29.882 ms stddev 18.185, 0 failed, lag 0.2 ms, 1 skipped, 4 retried, 5 retries",
            "progress: 10,0 s, 33,4 tps, lat 29,882 ms stddev 18,185, 0 failed",
            "2026-11-22 03:00:01 pgbench[7]: progress: 10.0 s, 33.4 tps, lat 29.882 ms stddev 18.185",
        ] {
            assert_eq!(parse_progress(line), Some((10.0, 33.4)), "{line}");
        }
        let stamped = "progress: 1700000010.123 s, 33.4 tps, lat 29.882 ms stddev 18.185, 0 failed";
        assert_eq!(parse_progress(stamped), Some((1_700_000_010.123, 33.4)));
        let stalled = parse_progress("progress: 3.0 s, 0.0 tps, lat -nan ms stddev -nan").unwrap();
        assert_eq!(stalled, (3.0, 0.0));
    }

    #[test]
    fn a_line_that_was_cut_short_is_none() {
        for line in ["progress: 10.0 s, 33.", "progress: 10.0 s,", "progress:", "progress: 10.0 m, 3 tps", "tps = 12.3"]
        {
            assert_eq!(parse_progress(line), None, "{line}");
        }
    }

    #[test]
    fn the_summary_tells_clients_and_scale() {
        let mut facts = Facts::default();
        for line in ["transaction type: <builtin: select only>", "scaling factor: 100", "number of clients: 8"] {
            note_fact(line, &mut facts);
        }
        assert_eq!(facts, Facts { clients: Some(8), scale: Some(100), ..Facts::default() });
        // PostgreSQL 15 makes 163,935 and 27,422 pages of it.
        assert!((facts.pages().unwrap() / 191_357.0 - 1.0).abs() < 0.001);
        note_fact("transaction type: my.sql", &mut facts);
        assert_eq!(facts.pages(), None);
    }

    #[test]
    fn a_limited_rate_is_told_by_the_lag() {
        let is_limited = |line: &str| {
            let mut facts = Facts::default();
            note_fact(line, &mut facts);
            facts.is_rate_limited
        };
        assert!(is_limited("progress: 10.0 s, 33.4 tps, lat 29.882 ms stddev 18.185, lag 0.011 ms, 3 skipped"));
        assert!(is_limited("progress: 10.0 s, 33.4 tps, lat 29.882 ms stddev 18.185, 0 failed, lag 0.011 ms"));
        assert!(is_limited("rate limit schedule lag: avg 2.504 (max 128.034) ms"));
        assert!(!is_limited("progress: 10.0 s, 33.4 tps, lat 29.882 ms stddev 18.185, 0 failed"));
        assert!(!is_limited("number of transactions above the 50.0 ms latency limit: 3/9 (33.333%)"));
    }
}
