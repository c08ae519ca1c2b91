//! What a log says of itself, read through once: how much it holds, of whom, and from when to when.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use crate::study::error::Error;
use host::files::open_regular;
use host::units::counted;
use pgbench::{LoggedTransaction, PgbenchReport, TransactionEnd, parse_interval, parse_report, parse_transaction};

/// A line of a log is short.
const LINE_BYTES_MAX: u64 = 1 << 16;

/// Shows what each line of a file means. One that means nothing is told. The last one counts where it ends as a line does: one that is
/// torn may still look like another.
pub fn for_each<T>(path: &Path, parse: impl Fn(&str) -> Option<T>, mut visit: impl FnMut(T)) -> Result<(), Error> {
    let failed = |source| Error::file("read", path, source);
    let mut lines = BufReader::new(open_regular(path).map_err(failed)?);
    let (mut line, mut number) = (String::new(), 0);
    while (&mut lines).take(LINE_BYTES_MAX).read_line(&mut line).map_err(failed)? > 0 {
        number += 1;
        match parse(line.trim_end()) {
            _ if !line.ends_with('\n') => {}
            Some(meaning) => visit(meaning),
            None => {
                let text = line.trim_end().chars().take(80).collect::<String>();
                return Err(Error::Import(format!("{}, line {number} makes no sense: {text:?}", path.display())));
            }
        }
        line.clear();
    }
    Ok(())
}

const MICROSECONDS: i64 = 1_000_000;

/// A transaction that took longer, a month, is none that began when its log says.
const LATENCY_US_MAX: u64 = 31 * 24 * 3600 * 1_000_000;

/// A log, or several of one run.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    /// Transactions that ended well, that failed, and that were due too long ago.
    pub transactions: u64,
    pub failed: u64,
    pub skipped: u64,
    /// As many as it names.
    pub scripts: u32,
    clients: BTreeMap<u32, Numbers>,
    /// From the beginning of the first transaction to the end of the last, in microseconds since 1970; of intervals their own.
    /// `None` of a log without a line.
    pub span_us: Option<(i64, i64)>,
    /// How far back the time goes from one line to a later one at most, in microseconds.
    pub back_us: i64,
    /// Seconds that an interval lasts; `None` where it has but one.
    pub width: Option<i64>,
}

/// Of one client: how many lines there are, and from which to which number they run.
#[derive(Clone, Copy, Debug)]
struct Numbers {
    lines: u64,
    least: u64,
    most: u64,
}

impl Survey {
    /// Of a log of transactions.
    pub fn of_transactions(path: &Path) -> Result<Survey, Error> {
        let mut survey = Survey::default();
        let mut latest_us = i64::MIN;
        for_each(path, parse_transaction, |one| {
            let ended_us = one.second.saturating_mul(MICROSECONDS).saturating_add(i64::from(one.microsecond));
            survey.back_us = survey.back_us.max(latest_us.saturating_sub(ended_us));
            latest_us = latest_us.max(ended_us);
            survey.add(one, ended_us);
        })?;
        Ok(survey)
    }

    fn add(&mut self, one: LoggedTransaction, ended_us: i64) {
        let took_us = match one.ended {
            TransactionEnd::Answered { latency_us, .. } if latency_us <= LATENCY_US_MAX => latency_us,
            _ => 0,
        };
        match one.ended {
            TransactionEnd::Answered { .. } => self.transactions += 1,
            TransactionEnd::Failed => self.failed += 1,
            TransactionEnd::Skipped => self.skipped += 1,
        }
        self.scripts = self.scripts.max(one.script.saturating_add(1));
        let none = Numbers { lines: 0, least: one.number, most: one.number };
        let numbers = self.clients.entry(one.client).or_insert(none);
        numbers.lines += 1;
        (numbers.least, numbers.most) = (numbers.least.min(one.number), numbers.most.max(one.number));
        self.widen(ended_us.saturating_sub_unsigned(took_us), ended_us);
    }

    fn widen(&mut self, begun_us: i64, ended_us: i64) {
        let (begun, ended) = self.span_us.unwrap_or((begun_us, ended_us));
        self.span_us = Some((begun.min(begun_us), ended.max(ended_us)));
    }

    /// Of a log of intervals.
    pub fn of_intervals(path: &Path) -> Result<Survey, Error> {
        let mut survey = Survey::default();
        let mut latest = i64::MIN;
        for_each(path, parse_interval, |(begun_at, interval)| {
            let step = begun_at.saturating_sub(latest);
            if latest != i64::MIN && step > 0 {
                survey.width = Some(survey.width.map_or(step, |width| width.min(step)));
            }
            survey.back_us = survey.back_us.max(latest.saturating_sub(begun_at).saturating_mul(MICROSECONDS));
            latest = latest.max(begun_at);
            survey.transactions = survey.transactions.saturating_add(interval.transactions);
            let begun_us = begun_at.saturating_mul(MICROSECONDS);
            survey.widen(begun_us, begun_us);
        })?;
        // The last one begins there.
        let width_us = survey.width.unwrap_or(1).saturating_mul(MICROSECONDS);
        survey.span_us = survey.span_us.map(|(begun, last)| (begun, last.saturating_add(width_us)));
        Ok(survey)
    }

    /// Adds what another thread of the same run logged.
    pub fn merge(&mut self, other: &Survey) {
        self.transactions = self.transactions.saturating_add(other.transactions);
        self.failed += other.failed;
        self.skipped += other.skipped;
        self.scripts = self.scripts.max(other.scripts);
        for (client, numbers) in &other.clients {
            let same = self.clients.entry(*client).or_insert(Numbers { lines: 0, ..*numbers });
            same.lines += numbers.lines;
            (same.least, same.most) = (same.least.min(numbers.least), same.most.max(numbers.most));
        }
        other.span_us.into_iter().for_each(|(begun, ended)| self.widen(begun, ended));
        self.back_us = self.back_us.max(other.back_us);
        self.width = self.width.into_iter().chain(other.width).min();
    }

    /// How long it lasted.
    pub fn lasted_seconds(&self) -> f64 {
        self.span_us.map_or(0.0, |(begun, ended)| ended.saturating_sub(begun) as f64 / MICROSECONDS as f64)
    }

    /// Microseconds of its second in which the first transaction began: whole seconds of the run begin there.
    pub fn offset_us(&self) -> i64 {
        self.span_us.map_or(0, |(begun_us, _)| begun_us.rem_euclid(MICROSECONDS))
    }

    /// When the first transaction began.
    pub fn begun_at(&self) -> Option<Timestamp> {
        Timestamp::from_microsecond(self.span_us?.0).ok()
    }

    /// From which second until which, by a clock that is [`Survey::offset_us`] behind.
    pub fn seconds(&self) -> Option<(i64, i64)> {
        let (begun_us, ended_us) = self.span_us?;
        let ended_us = ended_us.saturating_sub(self.offset_us());
        Some((begun_us.div_euclid(MICROSECONDS), ended_us.div_euclid(MICROSECONDS).saturating_add(1)))
    }

    /// As many clients as it names, and as many as there must have been; both 0 of intervals, which name none.
    pub fn clients(&self) -> (u32, u32) {
        (self.clients.len() as u32, self.clients.last_key_value().map_or(0, |(last, _)| last.saturating_add(1)))
    }

    pub fn has_first_client(&self) -> bool {
        self.clients.contains_key(&0)
    }

    /// Has it clients that the other has too?
    pub fn shares_clients(&self, other: &Survey) -> bool {
        self.clients.keys().any(|client| other.clients.contains_key(client))
    }

    /// Did one begin before the other ended? A log without a line may be of any time.
    pub fn overlaps(&self, other: &Survey) -> bool {
        let (Some((begun, ended)), Some((other_begun, other_ended))) = (self.span_us, other.span_us) else {
            return true;
        };
        begun <= other_ended && other_begun <= ended
    }

    /// As many transactions as the clients have numbered: each counts its own, without a gap. More than the lines where a part of them
    /// is not there.
    pub fn numbered(&self) -> u64 {
        let of = |numbers: &Numbers| numbers.lines.max((numbers.most - numbers.least).saturating_add(1));
        self.clients.values().map(of).fold(0, u64::saturating_add)
    }

    /// All lines, of transactions.
    pub fn lines(&self) -> u64 {
        self.clients.values().map(|numbers| numbers.lines).sum()
    }
}

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

    fn of(text: &str) -> Survey {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        std::fs::write(&path, text).unwrap();
        match parse_transaction(text.lines().next().unwrap()) {
            Some(_) => Survey::of_transactions(&path).unwrap(),
            None => Survey::of_intervals(&path).unwrap(),
        }
    }

    #[test]
    fn a_log_begins_with_its_first_transaction_not_with_the_end_of_it() {
        let survey = of("0 1 7500000 0 1650260558 0\n1 1 9000000 0 1650260559 500000\n0 2 failed 0 1650260560 0\n");
        assert_eq!((survey.transactions, survey.failed, survey.clients()), (2, 1, (2, 2)));
        assert_eq!((survey.lasted_seconds(), survey.back_us), (9.5, 0));
    }

    #[test]
    fn numbers_tell_of_lines_that_are_not_there() {
        let whole = of("0 1 5 0 1650260550 0\n0 2 5 0 1650260550 1\n1 7 5 0 1650260550 2\n");
        assert_eq!((whole.lines(), whole.numbered()), (3, 3));
        let sampled = of("0 1 5 0 1650260550 0\n0 12 5 0 1650260550 1\n1 7 5 0 1650260550 2\n");
        assert_eq!((sampled.lines(), sampled.numbered()), (3, 13));
    }

    #[test]
    fn time_that_goes_back_is_seen_in_both_kinds_of_log() {
        assert_eq!(of("0 1 5 0 1650260553 0\n0 2 5 0 1650260550 500000\n0 3 5 0 1650260551 0\n").back_us, 2_500_000);
        assert_eq!(of("1650260553 1 5 0 5 5\n1650260550 1 5 0 5 5\n").back_us, 3_000_000);
    }

    #[test]
    fn threads_whose_intervals_begin_apart_have_the_same_width() {
        let mut one = of("1650260550 10 50 0 5 5\n1650260560 10 50 0 5 5\n");
        one.merge(&of("1650260551 10 50 0 5 5\n"));
        assert_eq!((one.width, one.transactions, one.lasted_seconds()), (Some(10), 30, 20.0));
    }

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
