//! Which files belong to which trial, and what each of them is: by what it holds, not by its name.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use crate::files::open_regular;
use crate::pgbench::{PgbenchReport, parse_interval, parse_report, parse_transaction};
use crate::study::error::Error;

/// By these pgbench-tools knows a trial's directory.
const TOOLS_REPORT: &str = "results.txt";
const TOOLS_SECONDS: &str = "collected,samples,min_latency,avg_latency,max_latency";

/// Its directory of results: `results/SERVER/TEST/`, formerly `results/TEST/`.
const TOOLS_RESULTS: &str = "results";

/// Of a text that is no log: a report with a day of progress has less.
const REPORT_BYTES_MAX: u64 = 64 << 20;

/// The files of one trial.
#[derive(Debug)]
pub struct TrialFiles {
    /// What was named, or found below it.
    pub path: PathBuf,
    /// What pgbench-tools calls the server, which may be a set of tests of it.
    pub server: Option<String>,
    pub report: Option<(PathBuf, PgbenchReport)>,
    /// Logs of single transactions, of intervals, and pgbench-tools' table of seconds.
    pub transactions: Vec<PathBuf>,
    pub intervals: Vec<PathBuf>,
    pub tools_seconds: Option<PathBuf>,
    /// When the newest of them was changed: stands for a start that nothing tells.
    pub written_at: Timestamp,
}

/// The trials of a path: a file is one, so is a directory with files of pgbench; any other is looked through.
pub fn find_trials(path: &Path) -> Result<Vec<TrialFiles>, Error> {
    if !path.is_dir() {
        // To say what is wrong with it.
        open_regular(path).map_err(|source| Error::file("read", path, source))?;
        return Ok(vec![collect(path, vec![path.to_owned()])?]);
    }
    let mut found = Vec::new();
    find_below(path, 0, &mut found)?;
    if found.is_empty() {
        return Err(Error::Import(format!("{} holds no result of pgbench", path.display())));
    }
    Ok(found)
}

/// pgbench-tools nests two levels: the server's name, and the trial's number.
const DEPTH_MAX: usize = 8;

fn find_below(directory: &Path, depth: usize, found: &mut Vec<TrialFiles>) -> Result<(), Error> {
    let failed = |source| Error::file("list", directory, source);
    let entries = fs::read_dir(directory).map_err(failed)?;
    let mut paths: Vec<PathBuf> =
        entries.map(|entry| Ok(entry.map_err(failed)?.path())).collect::<Result<_, Error>>()?;
    paths.retain(|path| !is_hidden(path));
    paths.sort();
    let (directories, files): (Vec<_>, Vec<_>) = paths.into_iter().partition(|path| path.is_dir());
    let has_report = files.iter().any(|file| file.ends_with(TOOLS_REPORT));
    let trial = collect(directory, files)?;
    if trial.is_any() {
        let server = if has_report { read_server_name(directory) } else { None };
        found.push(TrialFiles { server, ..trial });
    }
    // Below a trial of pgbench-tools there are none.
    if !has_report && depth < DEPTH_MAX {
        for below in directories {
            find_below(&below, depth + 1, found)?;
        }
    }
    Ok(())
}

/// By the directory that the trial's is in.
fn read_server_name(trial: &Path) -> Option<String> {
    let trial = fs::canonicalize(trial).ok()?;
    let name = trial.parent()?.file_name()?.to_string_lossy().into_owned();
    (name != TOOLS_RESULTS).then_some(name)
}

fn collect(path: &Path, files: Vec<PathBuf>) -> Result<TrialFiles, Error> {
    let mut trial = TrialFiles {
        path: path.to_owned(),
        server: None,
        report: None,
        transactions: Vec::new(),
        intervals: Vec::new(),
        tools_seconds: None,
        written_at: Timestamp::UNIX_EPOCH,
    };
    for file in files {
        let failed = |source| Error::file("read", &file, source);
        let metadata = fs::metadata(&file).map_err(failed)?;
        // A pipe among them is none of pgbench's.
        let kind = if metadata.is_file() { recognize(&file)? } else { Kind::Other };
        if kind == Kind::Other {
            continue;
        }
        let written_at = metadata.modified().ok().and_then(|time| Timestamp::try_from(time).ok());
        trial.written_at = trial.written_at.max(written_at.unwrap_or(Timestamp::UNIX_EPOCH));
        match kind {
            Kind::Transactions => trial.transactions.push(file),
            Kind::Intervals => trial.intervals.push(file),
            Kind::ToolsSeconds => trial.tools_seconds = Some(file),
            Kind::Report if trial.report.is_none() => {
                let report = read_report(&file)?;
                trial.report = Some((file, report));
            }
            Kind::Report | Kind::Other => {}
        }
    }
    Ok(trial)
}

impl TrialFiles {
    fn is_any(&self) -> bool {
        self.report.is_some() || !self.transactions.is_empty() || !self.intervals.is_empty()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Transactions,
    Intervals,
    ToolsSeconds,
    /// pgbench's report, its progress, or both.
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
    } else if ["progress: ", "transaction type: ", "pgbench ("].iter().any(|said| line.starts_with(said)) {
        Kind::Report
    } else {
        Kind::Other
    }
}

fn read_report(path: &Path) -> Result<PgbenchReport, Error> {
    let failed = |source| Error::file("read", path, source);
    let mut text = Vec::new();
    open_regular(path).map_err(failed)?.take(REPORT_BYTES_MAX).read_to_end(&mut text).map_err(failed)?;
    Ok(parse_report(&String::from_utf8_lossy(&text)))
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
