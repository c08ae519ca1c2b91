//! What is named, and what each file of it holds: by its text, not by its name.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::survey::Survey;
use crate::files::open_regular;
use crate::pgbench::{PgbenchReport, parse_interval, parse_report, parse_transaction};
use crate::study::error::Error;
use crate::units::counted;

/// By these pgbench-tools knows a trial's directory.
pub const TOOLS_REPORT: &str = "results.txt";
const TOOLS_SECONDS: &str = "collected,samples,min_latency,avg_latency,max_latency";

/// Its directory of results: `results/SERVER/TEST/`, formerly `results/TEST/`.
const TOOLS_RESULTS: &str = "results";

/// How a log's name begins unless pgbench is told otherwise. One without a line is known by it alone.
const LOG_PREFIX: &str = "pgbench_log.";

/// How lines begin that pgbench prints.
const REPORT_LINES: [&str; 4] = ["progress: ", "transaction type: ", "pgbench (", "pgbench: error: "];

/// Of a text that is no log: a report with a day of progress has less.
const REPORT_BYTES_MAX: u64 = 64 << 20;

/// Files that were found beside each other.
#[derive(Debug)]
pub struct Scope {
    /// Their directory; `None` of those that are named one by one.
    pub directory: Option<PathBuf>,
    /// Is it a trial of pgbench-tools?
    pub is_tools: bool,
    /// What pgbench-tools calls the server, which may be a set of tests of it.
    pub server: Option<String>,
    pub parts: Vec<Part>,
}

/// A file with a result of pgbench, or a part of one.
#[derive(Debug)]
pub struct Part {
    pub path: PathBuf,
    /// When it was changed.
    pub written_at: Timestamp,
    pub holds: Holds,
}

/// What a file holds.
#[derive(Debug)]
pub enum Holds {
    /// Logs of single transactions, and of intervals.
    Transactions(Survey),
    Intervals(Survey),
    /// pgbench-tools' table of seconds.
    ToolsSeconds,
    /// pgbench's report, its progress, what it had to say of errors, or all of it.
    Report(Box<PgbenchReport>),
}

/// What the paths hold: each directory with results by itself, and all files that are named. What is named twice is there once.
pub fn find_scopes(paths: &[PathBuf]) -> Result<Vec<Scope>, Error> {
    let mut known = BTreeSet::new();
    let mut scopes = Vec::new();
    let (directories, files): (Vec<_>, Vec<_>) = paths.iter().partition(|path| path.is_dir());
    for directory in directories {
        if !find_below(directory, 0, &mut known, &mut scopes)? {
            return Err(holds_nothing(directory));
        }
    }
    let mut named = Scope { directory: None, is_tools: false, server: None, parts: Vec::new() };
    for file in files {
        let part = read_part(file)?.ok_or_else(|| holds_nothing(file))?;
        named.parts.extend(known.insert(identify(file)).then_some(part));
    }
    scopes.extend((!named.parts.is_empty()).then_some(named));
    Ok(scopes)
}

fn holds_nothing(path: &Path) -> Error {
    Error::Import(format!("{} holds no result of pgbench", path.display()))
}

/// The same of a file, by whichever way it is named.
fn identify(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// pgbench-tools nests two levels: the server's name, and the trial's number.
const DEPTH_MAX: usize = 8;

/// Is there any result, known already or not?
fn find_below(
    directory: &Path,
    depth: usize,
    known: &mut BTreeSet<PathBuf>,
    found: &mut Vec<Scope>,
) -> Result<bool, Error> {
    let failed = |source| Error::file("list", directory, source);
    let entries = fs::read_dir(directory).map_err(failed)?;
    let mut paths: Vec<PathBuf> =
        entries.map(|entry| Ok(entry.map_err(failed)?.path())).collect::<Result<_, Error>>()?;
    paths.retain(|path| !is_hidden(path));
    paths.sort();
    let (directories, files): (Vec<_>, Vec<_>) = paths.into_iter().partition(|path| path.is_dir());
    let is_tools = files.iter().any(|file| file.ends_with(TOOLS_REPORT));
    let (mut parts, mut is_any) = (Vec::new(), false);
    // A pipe among them is none of pgbench's.
    for file in files.iter().filter(|file| file.is_file()) {
        if let Some(part) = read_part(file)? {
            is_any = true;
            parts.extend(known.insert(identify(file)).then_some(part));
        }
    }
    if parts.iter().any(|part| !matches!(part.holds, Holds::ToolsSeconds)) {
        let server = if is_tools { read_server_name(directory) } else { None };
        found.push(Scope { directory: Some(directory.to_owned()), is_tools, server, parts });
    }
    // Below a trial of pgbench-tools there are none.
    if !is_tools && depth < DEPTH_MAX {
        for below in directories {
            is_any |= find_below(&below, depth + 1, known, found)?;
        }
    }
    Ok(is_any)
}

/// By the directory that the trial's is in.
fn read_server_name(trial: &Path) -> Option<String> {
    let trial = fs::canonicalize(trial).ok()?;
    let name = trial.parent()?.file_name()?.to_string_lossy().into_owned();
    (name != TOOLS_RESULTS).then_some(name)
}

/// `None` of a file with something else.
fn read_part(path: &Path) -> Result<Option<Part>, Error> {
    let file = open_regular(path).map_err(|source| Error::file("read", path, source))?;
    let metadata = file.metadata().map_err(|source| Error::file("read", path, source))?;
    let written_at = metadata.modified().ok().and_then(|time| Timestamp::try_from(time).ok());
    let is_empty_log =
        metadata.len() == 0 && path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(LOG_PREFIX));
    let kind = if is_empty_log { Kind::Transactions } else { recognize(path)? };
    let holds = match kind {
        Kind::Transactions => {
            let survey = Survey::of_transactions(path)?;
            check_clients(path, &survey)?;
            Holds::Transactions(survey)
        }
        Kind::Intervals => Holds::Intervals(Survey::of_intervals(path)?),
        Kind::ToolsSeconds => Holds::ToolsSeconds,
        Kind::Report => Holds::Report(Box::new(read_report(path)?)),
        Kind::Other => return Ok(None),
    };
    let written_at = written_at.unwrap_or(Timestamp::UNIX_EPOCH);
    Ok(Some(Part { path: path.to_owned(), written_at, holds }))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Transactions,
    Intervals,
    ToolsSeconds,
    Report,
    Other,
}

/// By the first lines.
fn recognize(path: &Path) -> Result<Kind, Error> {
    let file = open_regular(path).map_err(|source| Error::file("open", path, source))?;
    let mut head = BufReader::new(file.take(1 << 16));
    let mut line = Vec::new();
    for _ in 0..200 {
        line.clear();
        head.read_until(b'\n', &mut line).map_err(|source| Error::file("read", path, source))?;
        let Ok(text) = std::str::from_utf8(&line) else { return Ok(Kind::Other) };
        if text.is_empty() {
            break;
        }
        let kind = recognize_line(text.trim_end());
        if kind != Kind::Other {
            return Ok(kind);
        }
    }
    Ok(Kind::Other)
}

fn recognize_line(line: &str) -> Kind {
    if parse_transaction(line).is_some() {
        Kind::Transactions
    } else if parse_interval(line).is_some() {
        Kind::Intervals
    } else if line == TOOLS_SECONDS {
        Kind::ToolsSeconds
    } else if REPORT_LINES.iter().any(|said| line.starts_with(said)) {
        Kind::Report
    } else {
        Kind::Other
    }
}

fn read_report(path: &Path) -> Result<PgbenchReport, Error> {
    let failed = |source| Error::file("read", path, source);
    let mut text = Vec::new();
    open_regular(path).map_err(failed)?.take(REPORT_BYTES_MAX).read_to_end(&mut text).map_err(failed)?;
    let text = String::from_utf8_lossy(&text);
    // Of several nobody knows whose progress and whose logs are whose.
    let reports = text.lines().filter(|line| line.starts_with("number of transactions actually processed: ")).count();
    if reports > 1 {
        let path = path.display();
        return Err(Error::Import(format!(
            "{path} holds {reports} reports: write each run of pgbench into a file of its own"
        )));
    }
    let report = parse_report(&text);
    check_report(path, &report)?;
    Ok(report)
}

/// pgbench takes no greater number (`option_parse_int` in pgbench.c), and no server more clients (`MAX_BACKENDS` in postmaster.h).
const NUMBER_MAX: u32 = i32::MAX as u32;
const CLIENTS_MAX: u32 = 262_143;

/// Refuses what no pgbench was run with.
fn check_report(path: &Path, report: &PgbenchReport) -> Result<(), Error> {
    let figures = [
        ("scaling factor", report.scale, NUMBER_MAX),
        ("number of clients", report.clients, CLIENTS_MAX),
        ("number of threads", report.threads, CLIENTS_MAX),
        ("duration", report.seconds, NUMBER_MAX),
        ("number of transactions per client", report.transactions, NUMBER_MAX),
    ];
    let wrong = figures.into_iter().find_map(|(what, figure, most)| {
        let figure = figure.filter(|figure| !(1..=most).contains(figure))?;
        Some(format!("its {what} is {figure}, and pgbench takes 1 to {most}"))
    });
    let more_threads = report.threads.zip(report.clients).filter(|(threads, clients)| threads > clients);
    let more_threads = || {
        more_threads.map(|(threads, clients)| {
            format!(
                "it has {} for {}, and pgbench never more than clients",
                counted(threads, "thread"),
                counted(clients, "client")
            )
        })
    };
    match wrong.or_else(more_threads) {
        Some(problem) => Err(edited(path, &problem)),
        None => Ok(()),
    }
}

fn check_clients(path: &Path, survey: &Survey) -> Result<(), Error> {
    let (_, clients) = survey.clients();
    if clients > CLIENTS_MAX {
        let problem =
            format!("it numbers clients beyond {}, and no server takes more than {CLIENTS_MAX}", CLIENTS_MAX - 1);
        return Err(edited(path, &problem));
    }
    Ok(())
}

fn edited(path: &Path, problem: &str) -> Error {
    Error::Unfit {
        problem: format!("{}: {problem}", path.display()),
        remedy: "import the file as pgbench wrote it: this one was edited, or damaged".to_owned(),
    }
}

/// Files that a name with a dot hides are not looked at.
fn is_hidden(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_known_by_what_it_holds() {
        for (line, kind) in [
            ("0 199 2241 0 1175850568 995598", Kind::Transactions),
            ("0 81 4621 0 1412881037 912698 3005", Kind::Transactions),
            ("3 0 failed 0 1499414498 84905 9", Kind::Transactions),
            ("1650260552 5178 26171317 177284491527 1136 44462 2647617 7321113867 0 9866", Kind::Intervals),
            ("1650260552 30 6000 1200800 40 900", Kind::Intervals),
            ("collected,samples,min_latency,avg_latency,max_latency", Kind::ToolsSeconds),
            ("progress: 1.0 s, 523.9 tps, lat 7.528 ms stddev 24.786, 0 failed", Kind::Report),
            ("transaction type: <builtin: select only>", Kind::Report),
            ("starting vacuum...end.", Kind::Other),
            ("1 2 3 4 5 6", Kind::Other),
            ("", Kind::Other),
        ] {
            assert_eq!(recognize_line(line), kind, "{line}");
        }
    }
}
