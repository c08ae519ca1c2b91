//! pgbench's log files: `--log` with `--aggregate-interval`, and without.

use super::MOST_RATE;
use super::number::parse_number;
use super::progress::{EARLIEST_EPOCH, LATEST_EPOCH};

/// A line of a log.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LogLine {
    /// Start of an interval in seconds since 1970, and the transactions in it.
    Interval { start: f64, transactions: f64 },
    /// The end of one transaction in seconds since 1970.
    Transaction { end: f64 },
}

/// `interval_start num_transactions sum_latency sum_latency_2 min_latency max_latency …`; more columns follow in newer
/// versions.
pub fn parse_interval(line: &str) -> Option<LogLine> {
    let mut words = line.split_ascii_whitespace();
    let start = words.next().and_then(parse_time_of_log)?;
    let transactions = words.next().and_then(parse_number).filter(|count| (0.0..=MOST_RATE).contains(count))?;
    // Four latencies at least.
    words.nth(3)?;
    Some(LogLine::Interval { start, transactions })
}

/// `client_id transaction_no time script_no time_epoch time_us …`, where `time` is a word when the transaction was
/// skipped or failed.
pub fn parse_transaction(line: &str) -> Option<LogLine> {
    let mut words = line.split_ascii_whitespace();
    words.next()?.parse::<u32>().ok()?;
    words.next()?.parse::<u64>().ok()?;
    let latency = words.next()?;
    words.next()?.parse::<u32>().ok()?;
    let seconds = words.next().and_then(parse_time_of_log)?;
    let microseconds: u32 = words.next()?.parse().ok().filter(|us| *us < 1_000_000)?;
    let is_served = latency.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    is_served.then_some(LogLine::Transaction { end: seconds + f64::from(microseconds) / 1e6 })
}

/// Seconds since 1970.
fn parse_time_of_log(word: &str) -> Option<f64> {
    parse_number(word).filter(|seconds| *seconds > EARLIEST_EPOCH && *seconds < LATEST_EPOCH)
}

/// Transactions that failed or were skipped are lines of a log too.
pub fn is_unserved(line: &str) -> bool {
    matches!(line.split_ascii_whitespace().nth(2), Some("skipped" | "failed" | "serialization" | "deadlock"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_both_kinds() {
        let interval = "1345828501 5601 1542744 483552416 61 2573";
        assert_eq!(parse_interval(interval), Some(LogLine::Interval { start: 1_345_828_501.0, transactions: 5601.0 }));
        assert_eq!(parse_transaction(interval), None);
        let newer = "1649114136 5815 27552565 177846919143 1078 21716 0 0 0 0 0 0 0 0 0 0";
        assert!(parse_interval(newer).is_some());
        let transaction = "0 199 2241 0 1175850568 995598";
        assert_eq!(parse_transaction(transaction), Some(LogLine::Transaction { end: 1_175_850_568.995_598 }));
        assert_eq!(parse_interval(transaction), None);
        let skipped = "0 81 skipped 0 1412881037 914578 217";
        assert!(parse_transaction(skipped).is_none() && is_unserved(skipped));
    }
}
