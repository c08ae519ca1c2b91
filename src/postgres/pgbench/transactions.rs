//! pgbench's log of single transactions: `client number latency script seconds microseconds [lag]`, the same in 13 to 18.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;

use super::Error;
use crate::files::open_regular;

/// One line of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoggedTransaction {
    pub client: u32,
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

/// A line is short.
const LINE_BYTES_MAX: u64 = 4096;

/// Shows every transaction in the logs of all threads, in no order.
pub fn visit_transactions(log_directory: &Path, mut visit: impl FnMut(LoggedTransaction)) -> Result<(), Error> {
    let failed = |action, path: &Path, source| Error::File { action, path: path.to_owned(), source };
    let entries = std::fs::read_dir(log_directory).map_err(|source| failed("list", log_directory, source))?;
    for entry in entries {
        let path = entry.map_err(|source| failed("list", log_directory, source))?.path();
        let mut reader = BufReader::new(open_regular(&path).map_err(|source| failed("open", &path, source))?);
        let mut line = String::new();
        while (&mut reader).take(LINE_BYTES_MAX).read_line(&mut line).map_err(|source| failed("read", &path, source))?
            > 0
        {
            let output = || format!("this line of its log makes no sense: {line:?}");
            visit(
                parse_transaction(&line)
                    .ok_or_else(|| Error::Program { program: "pgbench".into(), output: output() })?,
            );
            line.clear();
        }
    }
    Ok(())
}

/// Understands a line of the log.
pub fn parse_transaction(line: &str) -> Option<LoggedTransaction> {
    let mut columns = line.split_ascii_whitespace();
    let (client, _number) = (columns.next()?.parse().ok()?, columns.next()?);
    let latency = columns.next()?;
    let (script, second) = (columns.next()?.parse().ok()?, columns.next()?.parse().ok()?);
    let microsecond = columns.next()?.parse().ok()?;
    let ended = match latency {
        "skipped" => TransactionEnd::Skipped,
        // 15 and later: `failed`, or what failed.
        word if word.starts_with(|first: char| first.is_ascii_alphabetic()) => TransactionEnd::Failed,
        number => TransactionEnd::Answered {
            latency_us: number.parse().ok()?,
            lag_us: columns.next().map_or(Some(0), |lag| lag.parse().ok())?,
        },
    };
    Some(LoggedTransaction { client, script, second, microsecond, ended })
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
                script: 1,
                second: 1_175_850_568,
                microsecond: 995_598,
                ended: answered(2241, 0)
            }
        );
        assert_eq!(ended("0 81 4621 0 1412881037 912698 3005\n"), answered(4621, 3005));
        assert_eq!(ended("0 83 skipped 0 1412881037 914578 5217\n"), TransactionEnd::Skipped);
        assert_eq!(ended("3 0 failed 0 1499414498 84905 9\n"), TransactionEnd::Failed);
        for torn in ["0 199 22", "", "0 1 -5 0 1 1", "0 1 5 x 1 1"] {
            assert_eq!(parse_transaction(torn), None, "{torn}");
        }
    }

    #[test]
    fn another_clock_may_put_it_into_another_second() {
        let logged = parse_transaction("0 199 2241 1 100 200000\n").unwrap();
        let at = |behind| {
            let moved = logged.by_clock_behind(behind);
            (moved.second, moved.microsecond)
        };
        assert_eq!(
            [at(0), at(200_001), at(-800_000), at(3_000_000)],
            [(100, 200_000), (99, 999_999), (101, 0), (97, 200_000)]
        );
        assert_eq!(logged.by_clock_behind(7).ended, logged.ended);
    }

    #[test]
    fn all_files_are_visited() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("log.1"), "0 0 10 0 100 1\n0 1 20 0 100 2\n").unwrap();
        std::fs::write(directory.path().join("log.1.1"), "1 0 30 0 101 1\n").unwrap();
        let mut seconds = Vec::new();
        visit_transactions(directory.path(), |one| seconds.push(one.second)).unwrap();
        seconds.sort_unstable();
        assert_eq!(seconds, [100, 100, 101]);
    }
}
