//! pgbench's command lines, scripts and logs. pgbench logs whole wall-clock seconds: start it on a full second.

use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;

use serde::Serialize;

use super::programs::run;
use super::{ConnectOptions, Error, Programs, Result};
use ::pgbench::{BUILTIN_SCRIPTS, Intervals, LoggedTransaction, parse_interval, parse_transaction};
use host::files::{open_regular, read_at_most, read_text_at_most};

pub use ::pgbench::QueryMode;

/// Maximum size of a log: three months at 100 bytes per second.
const LOG_BYTES_MAX: u64 = 1 << 30;

#[derive(Clone, Debug)]
pub struct Pgbench {
    pub program: PathBuf,
    connection: ConnectOptions,
}

impl Pgbench {
    /// Searches the server's programs and PATH for pgbench, then the newest installed PostgreSQL, because pgbench works
    /// with any server version.
    pub fn find(programs: &Programs, connection: ConnectOptions) -> Result<Pgbench> {
        let newest = || Programs::find_all().iter().rev().find_map(|other| other.path("pgbench").ok());
        let program = programs.path("pgbench").or_else(|missing| newest().ok_or(missing))?;
        Ok(Pgbench { program, connection })
    }

    /// Uses the PATH of another machine, which runs the command lines.
    pub fn in_path(connection: ConnectOptions) -> Pgbench {
        Pgbench { program: "pgbench".into(), connection }
    }

    /// Each unit of `scale` is 100,000 accounts, about 15 MB.
    pub fn initialize_arguments(&self, scale: u32) -> Vec<OsString> {
        let mut arguments = to_arguments(["-i", "-q", "-s"]);
        arguments.push(scale.to_string().into());
        arguments.extend(self.connection_arguments());
        arguments
    }

    /// Omits vacuum, which would warm the table.
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

pub fn read_intervals(log_directory: &Path) -> Result<Intervals> {
    let mut merged = Intervals::new();
    for path in list_logs(log_directory)? {
        let text = read_text_at_most(&path, LOG_BYTES_MAX).map_err(|source| Error::file("read", &path, source))?;
        merge_log(&mut merged, &text)?;
    }
    Ok(merged)
}

fn list_logs(directory: &Path) -> Result<Vec<PathBuf>> {
    let listed = std::fs::read_dir(directory).and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect());
    listed.map_err(|source| Error::file("list", directory, source))
}

fn merge_log(merged: &mut Intervals, text: &str) -> Result<()> {
    for line in text.lines() {
        let (second, interval) = parse_interval(line).ok_or_else(|| not_a_log(line))?;
        merged.entry(second).or_default().merge(interval);
    }
    Ok(())
}

fn not_a_log(line: &str) -> Error {
    let output = format!("pgthaw cannot parse this line of pgbench's log: {line:?}");
    Error::Program { program: "pgbench".into(), output }
}

const LINE_BYTES_MAX: u64 = 4096;

/// In no particular order.
pub fn visit_transactions(log_directory: &Path, mut visit: impl FnMut(LoggedTransaction)) -> Result<()> {
    for path in list_logs(log_directory)? {
        let failed = |source| Error::file("read", &path, source);
        let mut reader = BufReader::new(open_regular(&path).map_err(failed)?);
        let mut line = String::new();
        while (&mut reader).take(LINE_BYTES_MAX).read_line(&mut line).map_err(failed)? > 0 {
            visit(parse_transaction(&line).ok_or_else(|| not_a_log(&line))?);
            line.clear();
        }
    }
    Ok(())
}

/// Such as `pgbench (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)`.
pub fn read_pgbench_version(program: &Path) -> Result<String> {
    Ok(run(Command::new(program).arg("--version"))?.trim().to_owned())
}

#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    pub scripts: Vec<(Script, u32)>,
    pub variables: Vec<(String, String)>,
    pub query_mode: QueryMode,
    pub clients: u32,
    /// Limited to `clients`.
    pub jobs: u32,
    /// Total transactions per second; `None`: unlimited.
    pub rate: Option<f64>,
    /// pgbench counts slower transactions. With a rate, it skips those that are overdue by more than this limit.
    pub latency_limit_ms: Option<f64>,
    /// Maximum tries after deadlocks and serialization failures; more than one requires pgbench 15.
    pub max_tries: u32,
    pub length: Length,
    pub log: TransactionLog,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    Seconds(u32),
    Transactions(u32),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TransactionLog {
    Seconds,
    /// Random share of the transactions: above 0, at most 1.
    Transactions(f64),
}

impl Load {
    pub fn new(clients: u32, jobs: u32, seconds: u32) -> Load {
        Load {
            scripts: Vec::new(),
            variables: Vec::new(),
            query_mode: QueryMode::default(),
            clients,
            jobs,
            rate: None,
            latency_limit_ms: None,
            max_tries: 1,
            length: Length::Seconds(seconds),
            log: TransactionLog::Seconds,
        }
    }

    fn arguments(&self, log_prefix: &Path) -> Vec<OsString> {
        let mut arguments = to_arguments(["-M", self.query_mode.name(), "-P", "1", "--log"]);
        match self.log {
            TransactionLog::Seconds => arguments.push("--aggregate-interval=1".into()),
            TransactionLog::Transactions(share) if share < 1.0 => {
                arguments.push(format!("--sampling-rate={share}").into());
            }
            TransactionLog::Transactions(_) => {}
        }
        let mut prefix = OsString::from("--log-prefix=");
        prefix.push(log_prefix);
        arguments.push(prefix);
        arguments.extend(self.scripts.iter().flat_map(|(script, weight)| script_arguments(script, *weight)));
        arguments
            .extend(self.variables.iter().flat_map(|(name, value)| ["-D".into(), format!("{name}={value}").into()]));
        arguments.extend(self.rate.into_iter().flat_map(|rate| ["-R".into(), OsString::from(rate.to_string())]));
        arguments.extend(self.latency_limit_ms.map(|limit| format!("--latency-limit={limit}").into()));
        if self.max_tries > 1 {
            arguments.push(format!("--max-tries={}", self.max_tries).into());
        }
        let length = match self.length {
            Length::Seconds(seconds) => ("-T", seconds),
            Length::Transactions(transactions) => ("-t", transactions),
        };
        for (option, value) in [("-c", self.clients), ("-j", self.jobs.min(self.clients)), length] {
            arguments.extend([option.into(), value.to_string().into()]);
        }
        arguments
    }
}

fn to_arguments<const N: usize>(words: [&str; N]) -> Vec<OsString> {
    words.map(OsString::from).to_vec()
}

/// pgbench parses text after the last `@` as a weight, so names with `@` need an explicit one.
fn script_arguments(script: &Script, weight: u32) -> [OsString; 2] {
    let (option, mut name) = match script {
        Script::Builtin(name) => ("-b", OsString::from(name)),
        Script::File(path) => ("-f", path.clone().into_os_string()),
    };
    if weight != 1 || name.to_string_lossy().contains('@') {
        name.push(format!("@{weight}"));
    }
    [option.into(), name]
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Script {
    Builtin(&'static str),
    File(PathBuf),
}

pub const SCRIPT_BYTES_MAX: u64 = 64 << 20;

const PAUSES: [&str; 3] = ["sleep", "shell", "setshell"];

#[derive(Clone, Debug, thiserror::Error)]
#[error("there is no file {}; pgbench's built-in scripts are {}", .0.display(), BUILTIN_SCRIPTS.join(", "))]
pub struct NoSuchScript(PathBuf);

impl Script {
    pub fn name(&self) -> String {
        match self {
            Script::Builtin(name) => (*name).to_owned(),
            Script::File(path) => path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned(),
        }
    }

    /// False for files, whose content is unknown.
    pub fn is_read_only(&self) -> bool {
        *self == Script::Builtin("select-only")
    }

    /// Whether a meta-command may pause, such as `\sleep`. True for an unreadable file.
    pub fn may_pause(&self) -> bool {
        match self {
            Script::Builtin(_) => false,
            Script::File(path) => {
                read_at_most(path, SCRIPT_BYTES_MAX).map_or(true, |text| has_pause(&String::from_utf8_lossy(&text)))
            }
        }
    }
}

fn has_pause(text: &str) -> bool {
    let commands = text.lines().filter_map(|line| line.trim_start().strip_prefix('\\'));
    commands.filter_map(|command| command.split_ascii_whitespace().next()).any(|name| PAUSES.contains(&name))
}

impl FromStr for Script {
    type Err = NoSuchScript;

    /// Requires an existing file, so that a study does not fail late.
    fn from_str(text: &str) -> Result<Script, Self::Err> {
        let file = PathBuf::from(text);
        match BUILTIN_SCRIPTS.into_iter().find(|name| *name == text) {
            Some(name) => Ok(Script::Builtin(name)),
            None if file.is_file() => Ok(Script::File(file)),
            None => Err(NoSuchScript(file)),
        }
    }
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
        let load = Load {
            scripts: vec![(Script::Builtin("select-only"), 1)],
            variables: Vec::new(),
            query_mode: QueryMode::default(),
            clients: 1,
            jobs: 2,
            rate: None,
            latency_limit_ms: None,
            max_tries: 1,
            length: Length::Seconds(20),
            log: TransactionLog::Seconds,
        };
        let arguments = pgbench.load_arguments(&load, Path::new("/tmp/logs"));
        let line = arguments.join(std::ffi::OsStr::new(" ")).into_string().unwrap();
        assert_eq!(
            line,
            "-n -M prepared -P 1 --log --aggregate-interval=1 --log-prefix=/tmp/logs/log -b select-only \
             -c 1 -j 1 -T 20 -h /tmp/s -p 5432 -U pgthaw_workload bench"
        );
    }
}

#[cfg(test)]
mod load_tests {
    use super::*;

    fn render(load: &Load) -> String {
        load.arguments(Path::new("/l/log")).join(std::ffi::OsStr::new(" ")).into_string().unwrap()
    }

    #[test]
    fn everything_has_its_option() {
        let load = Load {
            scripts: vec![(Script::Builtin("select-only"), 9), (Script::File("/s/a@b.sql".into()), 1)],
            variables: vec![("rows".into(), "10".into())],
            query_mode: QueryMode::Extended,
            clients: 8,
            jobs: 2,
            rate: Some(500.5),
            latency_limit_ms: Some(7.5),
            length: Length::Transactions(100),
            max_tries: 3,
            log: TransactionLog::Transactions(0.25),
        };
        assert_eq!(
            render(&load),
            "-M extended -P 1 --log --sampling-rate=0.25 --log-prefix=/l/log -b select-only@9 -f /s/a@b.sql@1 -D rows=10 -R 500.5 --latency-limit=7.5 --max-tries=3 -c 8 -j 2 -t 100"
        );
        let length = Length::Seconds(3);
        let whole = Load {
            log: TransactionLog::Transactions(1.0),
            length,
            rate: None,
            latency_limit_ms: None,
            max_tries: 1,
            ..load
        };
        let rendered = render(&whole);
        assert!(
            rendered.starts_with("-M extended -P 1 --log --log-prefix")
                && rendered.ends_with("-D rows=10 -c 8 -j 2 -T 3"),
            "{rendered}"
        );
    }
}

#[cfg(test)]
mod script_tests {
    use super::*;

    #[test]
    fn a_client_pauses_where_its_script_says_so() {
        for pausing in ["\\sleep 5 ms\n", "SELECT 1;\n  \\shell true\n", "\\setshell x echo 1\r\nSELECT :x;\r\n"] {
            assert!(has_pause(pausing), "{pausing}");
        }
        for busy in ["\\set x random(1, 9)\nSELECT :x;\n", "-- \\sleep 5\nSELECT pg_sleep(1);\n", "\\sleepy\n", ""] {
            assert!(!has_pause(busy), "{busy}");
        }
        assert!(Script::File("no/such/script.sql".into()).may_pause() && !Script::Builtin("tpcb-like").may_pause());
    }

    #[test]
    fn a_name_is_a_builtin_or_a_file() {
        assert_eq!("tpcb-like".parse::<Script>().unwrap(), Script::Builtin("tpcb-like"));
        assert!("no/such/script.sql".parse::<Script>().unwrap_err().to_string().contains("select-only"));
        assert_eq!(Script::File("scripts/hot.sql".into()).name(), "hot.sql");
    }
}
