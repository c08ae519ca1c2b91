//! pgbench as a program: its command lines, its scripts, and the files that it writes.
//!
//! Every thread writes a log of its own. The seconds in it are whole seconds of the wall clock whenever the run began: start
//! pgbench on one, and its lines are the run's seconds.

use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::Command;

mod load;
mod script;

pub use load::{Length, Load, TransactionLog, Workload};
pub use script::{NoSuchScript, SCRIPT_BYTES_MAX, Script};

use super::{ConnectOptions, Error, Programs};
use crate::files::{open_regular, read_text_at_most};
pub use crate::pgbench::QueryMode;
use crate::pgbench::{Intervals, LoggedTransaction, parse_interval, parse_transaction};
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

    /// Arguments that run `load` once, logging into `log_directory`. No vacuum before, for it would warm the table.
    pub fn load_arguments(&self, load: &Load, log_directory: &Path) -> Vec<OsString> {
        let mut arguments = to_arguments(["-n"]);
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

/// `pgbench (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)`: the line in which the program names itself.
pub fn read_pgbench_version(program: &Path) -> Result<String, Error> {
    let failed = |output: String| Error::Program { program: "pgbench".into(), output };
    let output = Command::new(program).arg("--version").output().map_err(|source| failed(source.to_string()))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
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
    fn a_torn_line_is_an_error() {
        for line in ["1650260552 10 1000", "x 1 1 1 1 1", "1650260552 -1 1 1 1 1"] {
            assert!(merge_log(&mut Intervals::new(), line).is_err(), "{line}");
        }
    }

    #[test]
    fn all_files_are_visited() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("log.1"), "0 0 10 0 1700000100 1\n0 1 20 0 1700000100 2\n").unwrap();
        std::fs::write(directory.path().join("log.1.1"), "1 0 30 0 1700000101 1\n").unwrap();
        let mut seconds = Vec::new();
        visit_transactions(directory.path(), |one| seconds.push(one.second)).unwrap();
        seconds.sort_unstable();
        assert_eq!(seconds, [100, 100, 101].map(|second| 1_700_000_000 + second));
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
