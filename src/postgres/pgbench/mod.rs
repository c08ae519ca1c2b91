//! pgbench: its command lines, and what it writes.
//!
//! Every thread writes a log of its own, a line per second in which a transaction ended. The first six columns are the
//! same in 13 to 18 (what follows depends on the version and on `--rate`), and the seconds are whole seconds of the
//! wall clock whenever the run began: start pgbench on one, and its lines are the run's seconds.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

mod load;
mod outcome;
mod report;
mod script;
mod transactions;

pub use load::{Length, Load, TransactionLog, Workload};
pub use outcome::{PgbenchOutcome, parse_outcome, read_pgbench_version};
pub use report::{PgbenchReport, Progress, parse_report};
pub use script::{BUILTIN_SCRIPTS, NoSuchScript, SCRIPT_BYTES_MAX, Script};
pub use transactions::{LoggedTransaction, TransactionEnd, parse_transaction, visit_transactions};

use super::{ConnectOptions, Error, Programs};
use crate::files::read_text_at_most;
use load::to_arguments;

/// Bytes that a thread's log of intervals may have: a line of 100 bytes a second for three months.
const LOG_BYTES_MAX: u64 = 1 << 30;

/// pgbench, and the database that it works in.
#[derive(Clone, Debug)]
pub struct Pgbench {
    program: PathBuf,
    connection: ConnectOptions,
}

impl Pgbench {
    /// The pgbench beside the server's programs or in PATH; else that of the newest installation that has one, for
    /// some packages have the server alone and pgbench talks to any version.
    pub fn find(programs: &Programs, connection: ConnectOptions) -> Result<Pgbench, Error> {
        let newest = || Programs::find_all().iter().rev().find_map(|other| other.path("pgbench").ok());
        let program = programs.path("pgbench").or_else(|missing| newest().ok_or(missing))?;
        Ok(Pgbench { program, connection })
    }

    /// The one in PATH: for arguments that are not used here.
    pub fn in_path(connection: ConnectOptions) -> Pgbench {
        Pgbench { program: "pgbench".into(), connection }
    }

    /// The program's file.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Arguments that make pgbench's tables at `scale` (100,000 accounts, about 15 MB, each).
    pub fn initialize_arguments(&self, scale: u32) -> Vec<OsString> {
        let mut arguments = to_arguments(["-i", "-q", "-s"]);
        arguments.push(scale.to_string().into());
        arguments.extend(self.connection_arguments());
        arguments
    }

    /// Arguments that run `workload` once, logging each second into `log_directory`.
    pub fn run_arguments(&self, workload: &Workload, log_directory: &Path) -> Vec<OsString> {
        self.load_arguments(&Load::from(workload), log_directory)
    }

    /// Arguments that run `load` once, logging into `log_directory`. Prepared statements, for the planner is not what is
    /// measured; no vacuum before, for it would warm the table.
    pub fn load_arguments(&self, load: &Load, log_directory: &Path) -> Vec<OsString> {
        let mut arguments = to_arguments(["-n", "-M", "prepared", "-P", "1", "--log"]);
        arguments.extend(load.arguments(&log_directory.join("log")));
        arguments.extend(self.connection_arguments());
        arguments
    }

    fn connection_arguments(&self) -> Vec<OsString> {
        let connection = &self.connection;
        let port = connection.port.map(|port| port.to_string());
        let options = [("-h", &connection.host), ("-p", &port), ("-U", &connection.user)];
        let given = options.into_iter().filter_map(|(option, value)| Some((option, value.as_ref()?)));
        let mut arguments: Vec<OsString> = given.flat_map(|(option, value)| [option.into(), value.into()]).collect();
        arguments.extend(connection.database.as_ref().map(OsString::from));
        arguments
    }
}

/// What ended in one second of the wall clock.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Interval {
    pub transactions: u64,
    /// Sum of the transactions' latencies, in microseconds.
    pub latency_us_sum: f64,
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
    }

    /// Mean latency in microseconds; `None` without any transaction.
    pub fn latency_us_mean(&self) -> Option<f64> {
        (self.transactions > 0).then(|| self.latency_us_sum / self.transactions as f64)
    }
}

/// Seconds since 1970 to what ended in that second. A second without a line served nothing.
pub type Intervals = BTreeMap<i64, Interval>;

/// Reads the logs of all threads.
pub fn read_intervals(log_directory: &Path) -> Result<Intervals, Error> {
    let failed = |action, path: &Path, source| Error::File { action, path: path.to_owned(), source };
    let entries = std::fs::read_dir(log_directory).map_err(|source| failed("list", log_directory, source))?;
    let mut merged = Intervals::new();
    for entry in entries {
        let path = entry.map_err(|source| failed("list", log_directory, source))?.path();
        let text = read_text_at_most(&path, LOG_BYTES_MAX).map_err(|source| failed("read", &path, source))?;
        merge_log(&mut merged, &text)?;
    }
    Ok(merged)
}

/// Adds one thread's log.
fn merge_log(merged: &mut Intervals, text: &str) -> Result<(), Error> {
    for line in text.lines() {
        let output = || format!("this line of its log makes no sense: {line:?}");
        let (second, interval) =
            parse_interval(line).ok_or_else(|| Error::Program { program: "pgbench".into(), output: output() })?;
        merged.entry(second).or_default().merge(interval);
    }
    Ok(())
}

/// Understands a line of a log of intervals: when it began, and what ended in it.
///
/// `interval_start transactions sum_latency sum_latency_2 min_latency max_latency …`
pub fn parse_interval(line: &str) -> Option<(i64, Interval)> {
    let columns: Vec<&str> = line.split_ascii_whitespace().collect();
    let [second, transactions, sum, _squares, min, max, ..] = columns.as_slice() else { return None };
    let interval = Interval {
        transactions: transactions.parse().ok()?,
        latency_us_sum: sum.parse().ok()?,
        latency_us_min: min.parse().ok()?,
        latency_us_max: max.parse().ok()?,
    };
    Some((second.parse().ok()?, interval))
}

/// What a line of pgbench's standard error is.
#[derive(Clone, Debug, PartialEq)]
pub enum Said {
    /// `progress: 5.0 s, 12345.6 tps, lat 0.6 ms stddev 0.1`: seconds since its start, and transactions per second since
    /// the line before.
    Throughput {
        until_seconds: f64,
        tps: f64,
    },
    /// `200000 of 5000000 tuples (4%) done`: the share of the tables that is made, 0 to 1.
    Initialized(f64),
    Other,
}

/// Understands a line of standard error.
pub fn parse_said(line: &str) -> Said {
    if let Some(progress) = line.strip_prefix("progress: ") {
        let figure = |unit: &str| progress.split(", ").find_map(|part| part.strip_suffix(unit)?.parse().ok());
        let figures = figure(" s").zip(figure(" tps"));
        return figures.map_or(Said::Other, |(until_seconds, tps)| Said::Throughput { until_seconds, tps });
    }
    let percent = line.split_once(" tuples (").and_then(|(_, rest)| rest.split_once('%'));
    percent
        .and_then(|(percent, _)| percent.parse::<f64>().ok())
        .map_or(Said::Other, |percent| Said::Initialized(percent / 100.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> ConnectOptions {
        let text = |text: &str| Some(text.to_owned());
        ConnectOptions {
            host: text("/tmp/s"),
            port: Some(5432),
            user: text("pgthaw_workload"),
            database: text("bench"),
            ..ConnectOptions::default()
        }
    }

    #[test]
    fn merges_the_logs_of_all_threads_whatever_the_version() {
        let mut merged = Intervals::new();
        // 15 and later: all columns always. 13 and 14: the last ones with --rate only.
        merge_log(
            &mut merged,
            "1650260552 10 1000 100400 80 120 0 0 0 0 0 0 0 0 0\n1650260554 5 500 5 90 110 0 0 0 0 0 0 0 0 0\n",
        )
        .unwrap();
        merge_log(&mut merged, "1650260552 30 6000 1200800 40 900\n1650260553 0 0 0 0 0\n").unwrap();
        let first = merged[&1_650_260_552];
        assert_eq!((first.transactions, first.latency_us_min, first.latency_us_max), (40, 40, 900));
        assert_eq!(first.latency_us_mean(), Some(175.0));
        assert_eq!(merged[&1_650_260_553].latency_us_mean(), None);
        assert_eq!(merged[&1_650_260_554].transactions, 5);
    }

    #[test]
    fn an_empty_second_of_one_thread_does_not_become_the_minimum() {
        let mut merged = Intervals::new();
        merge_log(&mut merged, "7 0 0 0 0 0\n7 2 100 0 40 60\n7 0 0 0 0 0\n").unwrap();
        assert_eq!(merged[&7].latency_us_min, 40);
    }

    #[test]
    fn a_torn_line_is_an_error() {
        for line in ["1650260552 10 1000", "x 1 1 1 1 1", "1 -1 1 1 1 1"] {
            assert!(merge_log(&mut Intervals::new(), line).is_err(), "{line}");
        }
    }

    #[test]
    fn understands_progress() {
        let old = "progress: 5.0 s, 12345.6 tps, lat 0.643 ms stddev 0.101";
        assert_eq!(parse_said(old), Said::Throughput { until_seconds: 5.0, tps: 12345.6 });
        let stalled = "progress: 1.0 s, 0.0 tps, lat -nan ms stddev -nan, 0 failed";
        assert_eq!(parse_said(stalled), Said::Throughput { until_seconds: 1.0, tps: 0.0 });
        let initialize = "200000 of 5000000 tuples (4%) done (elapsed 5.10 s, remaining 120.00 s)";
        assert_eq!(parse_said(initialize), Said::Initialized(0.04));
        // 14 and later name the table.
        assert_eq!(
            parse_said("200000 of 400000 tuples (50%) of pgbench_accounts done (elapsed 0.10 s"),
            Said::Initialized(0.5)
        );
        assert_eq!(parse_said("pgbench: error: connection to server failed"), Said::Other);
    }

    #[test]
    fn asks_for_what_is_measured() {
        let pgbench = Pgbench { program: "pgbench".into(), connection: options() };
        let workload = Workload { script: Script::Builtin("select-only"), clients: 1, jobs: 2, seconds: 20, scale: 1 };
        let arguments = pgbench.run_arguments(&workload, Path::new("/tmp/logs"));
        let line = arguments.join(std::ffi::OsStr::new(" ")).into_string().unwrap();
        assert_eq!(
            line,
            "-n -M prepared -P 1 --log --aggregate-interval=1 --log-prefix=/tmp/logs/log -b select-only \
             -c 1 -j 1 -T 20 -h /tmp/s -p 5432 -U pgthaw_workload bench"
        );
    }
}
