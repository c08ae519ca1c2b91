//! pgbench's log of intervals, a line for each second in which a transaction ended. The first six columns are the same in 13 to
//! 18; what follows depends on the version and on `--rate`.

use std::collections::BTreeMap;

use super::parse_second;

/// What ended in one second of the wall clock.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Interval {
    pub transactions: u64,
    /// Sum of the transactions' latencies, in microseconds.
    pub latency_us_sum: f64,
    /// Sum of their squares; 0 where nobody kept it.
    pub latency_us_squares: f64,
    pub latency_us_min: u64,
    pub latency_us_max: u64,
}

impl Interval {
    /// Adds what another thread served in the same second.
    pub fn merge(&mut self, other: Interval) {
        if other.transactions == 0 {
            return;
        }
        let is_first = self.transactions == 0;
        self.latency_us_min =
            if is_first { other.latency_us_min } else { self.latency_us_min.min(other.latency_us_min) };
        self.latency_us_max = self.latency_us_max.max(other.latency_us_max);
        self.transactions = self.transactions.saturating_add(other.transactions);
        self.latency_us_sum += other.latency_us_sum;
        self.latency_us_squares += other.latency_us_squares;
    }

    /// Mean latency in microseconds; `None` without any transaction.
    pub fn latency_us_mean(&self) -> Option<f64> {
        (self.transactions > 0).then(|| self.latency_us_sum / self.transactions as f64)
    }

    /// Their standard deviation.
    pub fn latency_us_deviation(&self) -> Option<f64> {
        compute_deviation(self.transactions as f64, self.latency_us_sum, self.latency_us_squares)
    }
}

/// The standard deviation of so many figures, of all of them: the root of the mean square without the square of the mean. `None`
/// without any figure, and where their squares are not known.
pub fn compute_deviation(count: f64, sum: f64, squares: f64) -> Option<f64> {
    let mean = sum / count;
    let is_known = count > 0.0 && (squares > 0.0 || sum == 0.0);
    // Of equal figures rounding may leave something below 0.
    is_known.then(|| (squares / count - mean * mean).max(0.0).sqrt())
}

/// Seconds since 1970 to what ended in that second. A second without a line served nothing.
pub type Intervals = BTreeMap<i64, Interval>;

/// Understands a line of a log of intervals: when it began, and what ended in it.
///
/// `interval_start transactions sum_latency sum_latency_2 min_latency max_latency …`
pub fn parse_interval(line: &str) -> Option<(i64, Interval)> {
    let columns: Vec<&str> = line.split_ascii_whitespace().collect();
    let [second, transactions, sum, squares, min, max, ..] = columns.as_slice() else { return None };
    let interval = Interval {
        transactions: transactions.parse().ok()?,
        latency_us_sum: sum.parse().ok()?,
        latency_us_squares: squares.parse().ok()?,
        latency_us_min: min.parse().ok()?,
        latency_us_max: max.parse().ok()?,
    };
    Some((parse_second(second)?, interval))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged(lines: [&str; 3]) -> Interval {
        let mut all = Interval::default();
        lines.iter().for_each(|line| all.merge(parse_interval(line).unwrap().1));
        all
    }

    #[test]
    fn lines_are_the_same_in_every_version() {
        // 15 and later: all columns always. 13 and 14: the last ones with --rate only.
        let newer = "1650260552 10 1000 100400 80 120 0 0 0 0 0 0 0 0 0";
        let (second, interval) = parse_interval(newer).unwrap();
        assert_eq!((second, interval.transactions, interval.latency_us_mean()), (1_650_260_552, 10, Some(100.0)));
        let older = "1345828501 5601 1542744 483552416 61 2573";
        assert_eq!(parse_interval(older).unwrap().1.transactions, 5601);
        assert_eq!(interval.latency_us_deviation(), Some(40.0_f64.sqrt()));
        assert_eq!(Interval { latency_us_squares: 0.0, ..interval }.latency_us_deviation(), None);
        assert_eq!(Interval::default().latency_us_deviation(), None);
    }

    #[test]
    fn an_empty_second_of_one_thread_does_not_become_the_minimum() {
        let all = merged(["1650260553 0 0 0 0 0", "1650260553 2 100 0 40 60", "1650260553 0 0 0 0 0"]);
        assert_eq!(all.latency_us_min, 40);
    }

    #[test]
    fn a_torn_line_is_none_and_so_is_one_of_another_log() {
        let transaction = "0 199 2241 0 1175850568 995598";
        for line in ["1650260552 10 1000", "x 1 1 1 1 1", "1650260552 -1 1 1 1 1", "7 1 1 1 1 1", transaction] {
            assert_eq!(parse_interval(line), None, "{line}");
        }
    }
}
