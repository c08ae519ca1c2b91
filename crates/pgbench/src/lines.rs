use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// Seconds since the start or, with `--progress-timestamp`, since 1970.
    pub until_seconds: f64,
    /// Transactions per second; may be NaN.
    pub tps: f64,
    /// `None` if no transaction ended.
    pub latency_ms_mean: Option<f64>,
    /// Only with `--rate`.
    pub lag_ms_mean: Option<f64>,
}

/// Parses a progress line; accepts a log prefix. `None` if the line is truncated.
///
/// Starts with `progress: 5.0 s, 4711.3 tps` since 9.4. Then follow `lat 0.211 ms stddev 0.080` (9.4), `lag`, `skipped`
/// (9.5), `failed`, `retried` (15). In 2013: `29.882 +- 18.185 ms lat`. Some locales use a decimal comma.
pub fn parse_progress(line: &str) -> Option<Progress> {
    let (_, figures) = line.split_once("progress:")?;
    let words: Vec<&str> = figures.split_whitespace().map(|word| word.trim_end_matches(',')).collect();
    let [until, "s", tps, "tps", rest @ ..] = words.as_slice() else { return None };
    let latency = match rest {
        ["lat", mean, "ms", ..] | [mean, "+-", _, "ms", "lat", ..] => parse_number(mean),
        _ => None,
    };
    let lag = rest.iter().position(|word| *word == "lag").and_then(|place| rest.get(place + 1));
    Some(Progress {
        until_seconds: parse_number(until)?,
        tps: parse_number(tps)?,
        latency_ms_mean: latency.filter(|latency| latency.is_finite()),
        lag_ms_mean: lag.map(|lag| parse_number(lag).filter(|lag| lag.is_finite()).unwrap_or(0.0)),
    })
}

pub fn is_progress(line: &str) -> bool {
    line.trim_start().starts_with("progress:")
}

/// Number of intervals after which a first progress line counts as late.
const LATE: f64 = 1.5;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Beginning {
    /// Start of the first interval and length of every interval.
    pub start_seconds: f64,
    pub width_seconds: f64,
    /// Time before `start_seconds` in which pgbench connected.
    pub connecting_seconds: f64,
    /// Time before `start_seconds` for which the file has no lines.
    pub missing_seconds: f64,
}

impl Beginning {
    /// `lines`: each line's end and rate. A late first line without transactions covers the connection phase; with
    /// transactions, the file lacks its beginning.
    pub fn of(lines: impl Iterator<Item = (f64, f64)>) -> Option<Beginning> {
        let first: Vec<(f64, f64)> = lines.take(3).collect();
        let (until, tps) = *first.first()?;
        let width_seconds = match first.as_slice() {
            [.., (before, _), (last, _)] if last > before => last - before,
            _ => until,
        };
        let start_seconds = until - width_seconds;
        let of_width = Beginning { start_seconds, width_seconds, ..Beginning::default() };
        let is_late = until > LATE * width_seconds;
        Some(match tps > 0.0 {
            _ if until >= super::EARLIEST_EPOCH || until <= 0.0 => of_width,
            _ if !is_late => Beginning { width_seconds: until, ..Beginning::default() },
            true => Beginning { missing_seconds: start_seconds, ..of_width },
            false => Beginning { start_seconds: until, connecting_seconds: until, ..of_width },
        })
    }
}

/// Share of loaded rows (0 to 1), from `200000 of 5000000 tuples (4%) done`.
pub fn parse_loaded_share(line: &str) -> Option<f64> {
    let (percent, _) = line.split_once(" tuples (")?.1.split_once('%')?;
    percent.parse::<f64>().ok().map(|percent| percent / 100.0)
}

/// Accepts a decimal comma and any spelling of `nan`.
pub fn parse_number(text: &str) -> Option<f64> {
    let text = text.trim();
    text.parse().ok().or_else(|| {
        let is_nan = matches!(text.trim_start_matches('-').to_ascii_lowercase().as_str(), "nan" | "");
        // With several commas, the number is ambiguous.
        match text.matches(',').count() {
            _ if is_nan && !text.is_empty() => Some(f64::NAN),
            1 if !text.contains('.') => text.replace(',', ".").parse().ok(),
            _ => None,
        }
    })
}

/// Name and duration in seconds of a step of `pgbench -i`.
pub type Step = (String, f64);

/// Parses `done in 0.35 s (drop tables 0.00 s, create tables 0.01 s, …).`, printed since pgbench 13.
pub fn parse_initialized(line: &str) -> Option<Vec<Step>> {
    let (_, said) = line.strip_prefix("done in ")?.split_once(" s (")?;
    let (steps, _) = said.split_once(')')?;
    steps.split(", ").map(parse_step).collect()
}

/// `client-side generate 0.20 s`
fn parse_step(text: &str) -> Option<Step> {
    let (name, seconds) = text.strip_suffix(" s")?.rsplit_once(' ')?;
    let seconds = parse_number(seconds).filter(|seconds| seconds.is_finite() && *seconds >= 0.0)?;
    Some((name.to_owned(), seconds))
}

// Aggregated log. In PostgreSQL 13 to 19, six columns are the same; others depend on version and `--rate`.

/// Transactions that ended within a second of wall-clock time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Interval {
    pub transactions: u64,
    pub latency_us_sum: f64,
    /// Sum of the squares of the latencies; 0 if not recorded.
    pub latency_us_squares: f64,
    pub latency_us_min: u64,
    pub latency_us_max: u64,
}

impl Interval {
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

    pub fn latency_us_mean(&self) -> Option<f64> {
        (self.transactions > 0).then(|| self.latency_us_sum / self.transactions as f64)
    }

    pub fn latency_us_deviation(&self) -> Option<f64> {
        compute_deviation(self.transactions as f64, self.latency_us_sum, self.latency_us_squares)
    }
}

/// `None` without values, or if their squares were not recorded.
pub fn compute_deviation(count: f64, sum: f64, squares: f64) -> Option<f64> {
    let mean = sum / count;
    let is_known = count > 0.0 && (squares > 0.0 || sum == 0.0);
    // Rounding can make the variance of equal values negative.
    is_known.then(|| (squares / count - mean * mean).max(0.0).sqrt())
}

/// By second since 1970; missing seconds had no transactions.
pub type Intervals = BTreeMap<i64, Interval>;

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

// The log in PostgreSQL 13 to 19: `client number latency script seconds microseconds [lag]`.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoggedTransaction {
    pub client: u32,
    /// Sequence number among the client's transactions.
    pub number: u64,
    /// Script number, from 0.
    pub script: u32,
    pub second: i64,
    pub microsecond: u32,
    pub ended: TransactionEnd,
}

impl LoggedTransaction {
    /// Converts the end to a clock that is `microseconds` behind.
    pub fn by_clock_behind(self, microseconds: i64) -> LoggedTransaction {
        let ended_us = self.second.saturating_mul(1_000_000).saturating_add(i64::from(self.microsecond));
        let ended_us = ended_us.saturating_sub(microseconds);
        LoggedTransaction {
            second: ended_us.div_euclid(1_000_000),
            microsecond: ended_us.rem_euclid(1_000_000) as u32,
            ..self
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionEnd {
    /// With `--rate`, latency counts from the scheduled time. Otherwise ignore `lag_us`: with `--max-tries`, it is the
    /// number of retries.
    Answered { latency_us: u64, lag_us: u64 },
    /// Failed after all retries.
    Failed,
    /// Too late to start.
    Skipped,
}

pub fn parse_transaction(line: &str) -> Option<LoggedTransaction> {
    let mut columns = line.split_ascii_whitespace();
    let (client, number) = (columns.next()?.parse().ok()?, columns.next()?.parse().ok()?);
    let latency = columns.next()?;
    let (script, second) = (columns.next()?.parse().ok()?, parse_second(columns.next()?)?);
    let microsecond = columns.next()?.parse().ok().filter(|microsecond| *microsecond < 1_000_000)?;
    let ended = match latency {
        "skipped" => TransactionEnd::Skipped,
        // Since PostgreSQL 15: `failed` or the kind of failure.
        word if word.starts_with(|first: char| first.is_ascii_alphabetic()) => TransactionEnd::Failed,
        number => TransactionEnd::Answered {
            latency_us: number.parse().ok()?,
            lag_us: columns.next().map_or(Some(0), |lag| lag.parse().ok())?,
        },
    };
    Some(LoggedTransaction { client, number, script, second, microsecond, ended })
}

/// Accepts seconds of the years 2001 to 5138.
fn parse_second(word: &str) -> Option<i64> {
    word.parse().ok().filter(|second| (1_000_000_000..100_000_000_000).contains(second))
}

#[cfg(test)]
mod progress_tests {
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
            let progress = parse_progress(line).unwrap();
            assert_eq!((progress.until_seconds, progress.tps), (10.0, 33.4), "{line}");
            assert_eq!(progress.latency_ms_mean, Some(29.882), "{line}");
            assert_eq!(progress.lag_ms_mean.is_some(), line.contains("lag "), "{line}");
        }
        let stamped = "progress: 1700000010.123 s, 33.4 tps, lat 29.882 ms stddev 18.185, 0 failed";
        assert_eq!(parse_progress(stamped).unwrap().until_seconds, 1_700_000_010.123);
        let stalled = parse_progress("progress: 3.0 s, 0.0 tps, lat -nan ms stddev -nan");
        assert_eq!(stalled, Some(Progress { until_seconds: 3.0, tps: 0.0, latency_ms_mean: None, lag_ms_mean: None }));
    }

    #[test]
    fn a_line_that_was_cut_short_is_none() {
        for line in [
            "progress: 10.0 s, 33.",
            "progress: 10.0 s, 33.4",
            "progress: 10.0 s,",
            "progress:",
            "progress: 10.0 m, 3 tps",
            "tps = 12.3",
        ] {
            assert_eq!(parse_progress(line), None, "{line}");
        }
    }

    #[test]
    fn a_late_first_line_is_one_of_connecting_or_of_a_file_without_its_beginning() {
        let of = |lines: &[(f64, f64)]| {
            let Beginning { start_seconds, width_seconds, connecting_seconds, missing_seconds } =
                Beginning::of(lines.iter().copied()).unwrap();
            (start_seconds, width_seconds, connecting_seconds, missing_seconds)
        };
        assert_eq!(of(&[(5.0, 9.0), (10.0, 9.0), (15.0, 9.0)]), (0.0, 5.0, 0.0, 0.0));
        assert_eq!(of(&[(5.0, 0.0)]), (0.0, 5.0, 0.0, 0.0), "nothing says that it is late");
        assert_eq!(of(&[(2.5, 0.0), (3.0, 9.0), (4.0, 9.0)]), (2.5, 1.0, 2.5, 0.0));
        assert_eq!(of(&[(501.0, 9.0), (502.0, 9.0), (503.0, 9.0)]), (500.0, 1.0, 0.0, 500.0));
        assert_eq!(of(&[(1.7e9 + 10.0, 9.0), (1.7e9 + 20.0, 9.0)]), (1.7e9, 10.0, 0.0, 0.0));
    }

    #[test]
    fn tells_progress_from_tables_that_are_made() {
        assert_eq!(parse_loaded_share("progress: 5.0 s, 12345.6 tps, lat 0.643 ms stddev 0.101"), None);
        let initialize = "200000 of 5000000 tuples (4%) done (elapsed 5.10 s, remaining 120.00 s)";
        assert_eq!((is_progress(initialize), parse_loaded_share(initialize)), (false, Some(0.04)));
        let of_table = "200000 of 400000 tuples (50%) of pgbench_accounts done (elapsed 0.10 s";
        assert_eq!(parse_loaded_share(of_table), Some(0.5));
        assert_eq!(parse_loaded_share("pgbench: error: connection to server failed"), None);
    }
}

#[cfg(test)]
mod number_tests {
    use super::*;

    #[test]
    fn reads_points_and_commas() {
        assert_eq!(parse_number("4711.5"), Some(4711.5));
        assert_eq!(parse_number(" 4711,5 "), Some(4711.5));
        assert_eq!(parse_number("1,234,567"), None);
        assert_eq!(parse_number("1,234.5"), None);
        assert_eq!(parse_number(""), None);
        assert!(parse_number("-nan").unwrap().is_nan() && parse_number("NaN").unwrap().is_nan());
    }
}

#[cfg(test)]
mod initialized_tests {
    use super::*;

    #[test]
    fn steps_have_their_seconds() {
        let line = "done in 0.35 s (drop tables 0.00 s, create tables 0.01 s, client-side generate 0.20 s, vacuum 0.05 s, primary keys 0.08 s).";
        let steps = parse_initialized(line).unwrap();
        assert_eq!(steps.len(), 5);
        assert_eq!(steps[2], ("client-side generate".to_owned(), 0.2));
        assert_eq!(parse_initialized("done in 1,5 s (vacuum 1,50 s).").unwrap(), [("vacuum".to_owned(), 1.5)]);
        for other in
            ["done.", "vacuuming...", "done in 0.35 s", "done in 0.35 s (vacuum)", "done in 0.35 s (vacuum nan s)"]
        {
            assert_eq!(parse_initialized(other), None, "{other}");
        }
    }
}

#[cfg(test)]
mod interval_tests {
    use super::*;

    fn merged(lines: [&str; 3]) -> Interval {
        let mut all = Interval::default();
        lines.iter().for_each(|line| all.merge(parse_interval(line).unwrap().1));
        all
    }

    #[test]
    fn lines_are_the_same_in_every_version() {
        // 13 and 14 write the last columns only with --rate.
        let newer = "1650260552 10 1000 100400 80 120 0 0 0 0 0 0 0 0 0";
        let (second, interval) = parse_interval(newer).unwrap();
        assert_eq!((second, interval.transactions, interval.latency_us_mean()), (1_650_260_552, 10, Some(100.0)));
        // 19 adds other failures (`--continue-on-error`).
        let of_19 = "1795849957 12 1301 150300 80 131 0 0 0 0 0 0 0 0 0 49";
        assert_eq!(parse_interval(of_19).unwrap().1.transactions, 12);
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

#[cfg(test)]
mod transaction_tests {
    use super::*;

    #[test]
    fn lines_of_all_kinds_are_read() {
        let answered = |latency_us, lag_us| TransactionEnd::Answered { latency_us, lag_us };
        let ended = |line| parse_transaction(line).unwrap().ended;
        assert_eq!(
            parse_transaction("0 199 2241 1 1175850568 995598\n").unwrap(),
            LoggedTransaction {
                client: 0,
                number: 199,
                script: 1,
                second: 1_175_850_568,
                microsecond: 995_598,
                ended: answered(2241, 0)
            }
        );
        assert_eq!(ended("0 81 4621 0 1412881037 912698 3005\n"), answered(4621, 3005));
        assert_eq!(ended("0 83 skipped 0 1412881037 914578 5217\n"), TransactionEnd::Skipped);
        assert_eq!(ended("3 0 failed 0 1499414498 84905 9\n"), TransactionEnd::Failed);
        for torn in [
            "0 199 22",
            "",
            "0 1 -5 0 1700000001 1",
            "0 1 5 x 1700000001 1",
            "0 1 5 0 7 1",
            "0 1 5 0 1700000001 1000000",
        ] {
            assert_eq!(parse_transaction(torn), None, "{torn}");
        }
    }

    #[test]
    fn another_clock_may_put_it_into_another_second() {
        let logged = parse_transaction("0 199 2241 1 1700000100 200000\n").unwrap();
        let at = |behind| {
            let moved = logged.by_clock_behind(behind);
            (moved.second, moved.microsecond)
        };
        assert_eq!(
            [at(0), at(200_001), at(-800_000), at(3_000_000)],
            [(100, 200_000), (99, 999_999), (101, 0), (97, 200_000)].map(|(second, us)| (1_700_000_000 + second, us))
        );
        assert_eq!(logged.by_clock_behind(7).ended, logged.ended);
    }
}
