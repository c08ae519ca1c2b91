//! pgbench's log of single transactions: `client number latency script seconds microseconds [lag]`, the same in 13 to 18.

use super::parse_second;

/// One line of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoggedTransaction {
    pub client: u32,
    /// Each client counts its own.
    pub number: u64,
    /// Place of the script among those that were given, from 0.
    pub script: u32,
    /// When the transaction ended: seconds since 1970, and below it microseconds of that second.
    pub second: i64,
    pub microsecond: u32,
    pub ended: TransactionEnd,
}

impl LoggedTransaction {
    /// The transaction by a clock that is so many microseconds behind the one of the log.
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

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionEnd {
    /// The transaction was answered after `latency_us` microseconds: under a rate since it was due, of which it began `lag_us` late.
    /// Without a rate `lag_us` means nothing: where transactions are tried again, the number of retries stands there.
    Answered { latency_us: u64, lag_us: u64 },
    /// The transaction failed, after all its retries.
    Failed,
    /// The transaction was due so long ago that it was not begun.
    Skipped,
}

/// Understands a line of the log.
pub fn parse_transaction(line: &str) -> Option<LoggedTransaction> {
    let mut columns = line.split_ascii_whitespace();
    let (client, number) = (columns.next()?.parse().ok()?, columns.next()?.parse().ok()?);
    let latency = columns.next()?;
    let (script, second) = (columns.next()?.parse().ok()?, parse_second(columns.next()?)?);
    let microsecond = columns.next()?.parse().ok().filter(|microsecond| *microsecond < 1_000_000)?;
    let ended = match latency {
        "skipped" => TransactionEnd::Skipped,
        // 15 and later: `failed`, or what failed.
        word if word.starts_with(|first: char| first.is_ascii_alphabetic()) => TransactionEnd::Failed,
        number => TransactionEnd::Answered {
            latency_us: number.parse().ok()?,
            lag_us: columns.next().map_or(Some(0), |lag| lag.parse().ok())?,
        },
    };
    Some(LoggedTransaction { client, number, script, second, microsecond, ended })
}

#[cfg(test)]
mod tests {
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
