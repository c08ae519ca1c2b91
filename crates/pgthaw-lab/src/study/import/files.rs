//! Groups files into trials: logs by names and client numbers, a log and its report by transaction counts.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, BufRead as _, Read as _};
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::text::{decode, note_cut};
use crate::study::error::{Error, Result};
use crate::study::finding::Finding;
use host::files::open_regular;
use host::units::counted;
use pgbench::{
    Beginning, LoggedTransaction, PgbenchReport, Prefix, Progress, TransactionEnd, parse_interval, parse_report,
    parse_transaction,
};

#[derive(Debug, Default)]
pub struct TrialFiles {
    pub label: String,
    pub server: Option<String>,
    pub report: Option<Named<PgbenchReport>>,
    pub log: Option<Log>,
    pub tools_seconds: Option<PathBuf>,
    /// Newest modification time of the files, used if the start time is unknown.
    pub written_at: Timestamp,
    pub findings: Vec<Finding>,
}

impl TrialFiles {
    pub fn clients(&self) -> Option<u32> {
        let (_, clients) = self.log.as_ref()?.holds.clients();
        (clients > 0).then_some(clients)
    }

    /// `None` for a single log: logs of other threads may be missing.
    pub fn threads(&self) -> Option<u32> {
        let logs = self.log.as_ref()?.paths.len() as u32;
        (logs > 1).then_some(logs)
    }
}

#[derive(Debug)]
pub struct Named<T> {
    pub paths: Vec<PathBuf>,
    pub written_at: Timestamp,
    pub holds: T,
}

pub type Log = Named<Survey>;

type Report = Named<PgbenchReport>;

impl<T> Named<T> {
    fn join(&mut self, other: Named<T>, add: impl FnOnce(&mut T, T)) {
        self.paths.extend(other.paths);
        self.written_at = self.written_at.max(other.written_at);
        add(&mut self.holds, other.holds);
    }
}

/// Groups the files of each directory separately, and all individually named files together.
pub fn find_trials(paths: &[PathBuf]) -> Result<Vec<TrialFiles>> {
    let (mut known, mut scopes, mut named) = (BTreeSet::new(), Vec::new(), Scope::default());
    let (directories, files): (Vec<_>, Vec<_>) = paths.iter().partition(|path| path.is_dir());
    for path in directories.into_iter().chain(files) {
        let is_any = match path.is_dir() {
            true => find_below(path, 0, &mut known, &mut scopes)?,
            false => named.add(path, &mut known)?,
        };
        if !is_any {
            return Err(Error::Import(format!("{} holds no result of pgbench", path.display())));
        }
    }
    scopes.push(named);
    let trials: Vec<Vec<TrialFiles>> = scopes.into_iter().map(divide).collect::<Result<_, _>>()?;
    Ok(trials.into_iter().flatten().collect())
}

fn divide(scope: Scope) -> Result<Vec<TrialFiles>> {
    let Scope { directory, is_tools, server, logs, reports, tables } = scope;
    let mut trials = match is_tools {
        true => vec![take_tools(logs, reports)],
        false => {
            let mut reports = join_progress(reports);
            // A file that the user named must be a result.
            reports.retain(|report| directory.is_none() || report.holds.is_result());
            pair(join_threads(logs), reports, directory.is_some())?
        }
    };
    match trials.as_mut_slice() {
        [one] => {
            one.tools_seconds = tables.into_iter().map(|(path, _)| path).next();
            one.label = directory.map_or(std::mem::take(&mut one.label), |directory| directory.display().to_string());
        }
        // If logs and reports belong to several trials or to none, each of pgbench-tools' files with figures per second
        // becomes a trial.
        _ => trials.extend(tables.into_iter().map(|(path, written_at)| TrialFiles {
            label: path.display().to_string(),
            written_at,
            tools_seconds: Some(path),
            ..TrialFiles::default()
        })),
    }
    trials.iter_mut().for_each(|trial| trial.server.clone_from(&server));
    Ok(trials)
}

pub fn name_files(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

fn trial_of(report: Option<Report>, log: Option<Log>) -> TrialFiles {
    let of_report = report.iter().map(|report| (report.paths.as_slice(), report.written_at));
    let of_log = log.iter().map(|log| (log.paths.as_slice(), log.written_at));
    let (paths, times): (Vec<_>, Vec<_>) = of_report.chain(of_log).unzip();
    let label = name_files(&paths.concat());
    let written_at = times.into_iter().max().unwrap_or_default();
    TrialFiles { label, written_at, report, log, ..TrialFiles::default() }
}

fn take_tools(logs: Vec<Log>, reports: Vec<Report>) -> TrialFiles {
    let (mut named, others): (Vec<_>, Vec<_>) =
        reports.into_iter().partition(|report| report.paths[0].ends_with(TOOLS_REPORT));
    let findings = others.iter().map(|other| Finding::Assumed {
        what: format!(
            "skipped {}, which is also a report: in a directory of pgbench-tools, pgthaw uses only {TOOLS_REPORT}",
            name_files(&other.paths)
        ),
        how: "import it separately".to_owned(),
    });
    // Logs of transactions are more detailed than logs of intervals.
    let is_fine = logs.iter().any(|log| !log.holds.is_of_intervals);
    let logs = logs.into_iter().filter(|log| log.holds.is_of_intervals != is_fine);
    TrialFiles { findings: findings.collect(), ..trial_of(named.pop(), logs.reduce(add_thread)) }
}

fn add_thread(mut run: Log, thread: Log) -> Log {
    run.join(thread, |all, one| all.merge(&one));
    run
}

fn split_packed(name: &str) -> (&str, &str) {
    name.strip_suffix(".gz").map_or((name, ""), |bare| (bare, ".gz"))
}

/// Path of the first thread's log: `pgbench_log.4711` for `pgbench_log.4711.1`.
pub fn first_thread(path: &Path) -> Option<PathBuf> {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let (name, packed) = split_packed(path.file_name()?.to_str()?);
    let (first, thread) = name.rsplit_once('.')?;
    let has_number = first.rsplit_once('.').is_some_and(|(_, process)| is_number(process));
    (is_number(thread) && has_number).then(|| path.with_file_name(format!("{first}{packed}")))
}

fn name_thread(first: &Path, thread: usize) -> PathBuf {
    let name = first.to_string_lossy();
    let (name, packed) = split_packed(&name);
    format!("{name}.{thread}{packed}").into()
}

pub fn threads_of(first: &Path) -> Vec<PathBuf> {
    let others = (1..1024).map(|thread| name_thread(first, thread));
    let others = others.filter(|other| first_thread(other).as_deref() == Some(first) && other.is_file());
    std::iter::once(first.to_owned()).chain(others).collect()
}

/// pgbench numbers threads' logs without gaps.
pub fn missing_thread(paths: &[PathBuf]) -> Option<String> {
    let first = paths.iter().find_map(|path| first_thread(path).filter(|first| paths.contains(first)))?;
    let others = paths.iter().filter(|path| first_thread(path).as_ref() == Some(&first)).count();
    let missing = (1..=others).map(|thread| name_thread(&first, thread)).find(|path| !paths.contains(path))?;
    Some(format!("{} is missing, and its transactions are not counted", missing.display()))
}

/// Joins the logs of each run: by names, or by overlapping times and disjoint clients.
fn join_threads(mut logs: Vec<Log>) -> Vec<Log> {
    let names: BTreeSet<PathBuf> = logs.iter().flat_map(|log| log.paths.clone()).collect();
    let first_of = |log: &Log| first_thread(&log.paths[0]).filter(|first| names.contains(first));
    // Every run has a client 0.
    let is_part = |log: &Log| !log.holds.is_of_intervals && !log.holds.has_first_client();
    // Sorts whole runs first, so that parts can join them.
    logs.sort_by_key(|log| if first_of(log).is_some() { 1 } else { 2 * u8::from(is_part(log)) });
    let mut runs: Vec<Log> = Vec::new();
    for log in logs {
        let (first, is_part) = (first_of(&log), is_part(&log));
        let may_join =
            |run: &Log| run.holds.is_of_intervals == log.holds.is_of_intervals && run.holds.overlaps(&log.holds);
        let has_name = |run: &Log| first.as_ref().is_some_and(|first| run.paths.contains(first));
        let lacks = |run: &Log| is_part && run.holds.has_first_client() && !run.holds.shares_clients(&log.holds);
        let named = runs.iter().position(|run| may_join(run) && has_name(run));
        let mut lacking = (0..runs.len()).filter(|place| may_join(&runs[*place]) && lacks(&runs[*place]));
        let only = lacking.next().filter(|_| lacking.next().is_none());
        match named.or(only) {
            Some(place) => runs[place].join(log, |all, one| all.merge(&one)),
            None => runs.push(log),
        }
    }
    runs.iter_mut().for_each(|run| run.paths.sort());
    runs.sort_by(|one, other| one.paths.cmp(&other.paths));
    runs
}

fn sum_progress(progress: &[Progress]) -> f64 {
    let beginning = Beginning::of(progress.iter().map(|one| (one.until_seconds, one.tps)));
    let mut before = beginning.map_or(0.0, |beginning| beginning.start_seconds);
    let mut transactions = 0.0;
    for one in progress {
        transactions += if one.tps.is_finite() { one.tps * (one.until_seconds - before) } else { 0.0 };
        before = one.until_seconds;
    }
    transactions
}

/// Whether progress lines and count agree, apart from rounding and a missing last line.
fn is_counted_by(progress: &[Progress], transactions: u64) -> bool {
    let (all, lines) = (transactions as f64, progress.len() as f64);
    lines > 0.0 && (sum_progress(progress) - all).abs() <= (0.02 + 1.0 / lines) * all
}

/// pgbench writes progress and report to different streams, perhaps to two files.
fn join_progress(reports: Vec<Report>) -> Vec<Report> {
    let (streams, mut reports): (Vec<Report>, Vec<Report>) =
        reports.into_iter().partition(|report| report.holds.outcome.is_none());
    let is_only = streams.len() == 1 && reports.len() == 1;
    let choices = choose_partners(streams.len(), reports.len(), |stream, report| {
        let (progress, report) = (&streams[stream].holds.progress, &reports[report].holds);
        let counted = report.outcome.filter(|_| report.progress.is_empty())?.transactions;
        match progress.is_empty() {
            true => is_only.then_some(0.0),
            false => is_counted_by(progress, counted).then(|| (sum_progress(progress) - counted as f64).abs()),
        }
    });
    let mut alone = Vec::new();
    for (stream, choice) in streams.into_iter().zip(choices) {
        match choice {
            Ok(Some(place)) => reports[place].join(stream, PgbenchReport::add_stream),
            _ => alone.push(stream),
        }
    }
    reports.extend(alone);
    reports.sort_by(|one, other| one.paths.cmp(&other.paths));
    reports
}

/// Finds mutually nearest pairs. An error contains two equally near candidates.
fn choose_partners(
    ones: usize,
    others: usize,
    distance: impl Fn(usize, usize) -> Option<f64>,
) -> Vec<Result<Option<usize>, [usize; 2]>> {
    let nearest = |count: usize, of: &dyn Fn(usize) -> Option<f64>| {
        let mut near: Vec<(f64, usize)> = (0..count).filter_map(|place| Some((of(place)?, place))).collect();
        near.sort_by(|one, other| one.0.total_cmp(&other.0));
        match near.as_slice() {
            [one, next, ..] if one.0 == next.0 => Err([one.1, next.1]),
            near => Ok(near.first().map(|one| one.1)),
        }
    };
    let choose = |one: usize| {
        let Some(other) = nearest(others, &|other| distance(one, other))? else { return Ok(None) };
        let back = nearest(ones, &|one| distance(one, other)).map_err(|_| [other, other])?;
        Ok(back.filter(|back| *back == one).map(|_| other))
    };
    (0..ones).map(choose).collect()
}

/// Distance of a partial log from a report, if their names match (`a.4711`, `a.out`) or no other files exist.
const PART_NAMED: f64 = 1e100;
/// Distance of other partial logs. Complete logs are nearer.
const PART_NAMELESS: f64 = 1e101;

fn pair(logs: Vec<Log>, reports: Vec<Report>, is_directory: bool) -> Result<Vec<TrialFiles>> {
    let is_only = logs.len() == 1 && reports.len() == 1;
    let distance = |log: usize, report: usize| {
        let (log, report) = (&logs[log], &reports[report]);
        let may_be = is_sample(log, report) || is_only && is_directory && log.holds.transactions <= count(report);
        let is_known = is_only || have_one_name(log, report);
        compute_distance(log, report).or(may_be.then_some(if is_known { PART_NAMED } else { PART_NAMELESS }))
    };
    let mut partners: Vec<Option<usize>> = Vec::new();
    for (log, choice) in choose_partners(logs.len(), reports.len(), distance).into_iter().enumerate() {
        let choice = choice.and_then(|report| match report {
            Some(report) if distance(log, report) == Some(PART_NAMELESS) => Err([report, report]),
            report => Ok(report),
        });
        partners.push(choice.map_err(|two| ambiguous(&logs[log], two.map(|report| &reports[report])))?);
    }
    let mut reports: Vec<Option<Report>> = reports.into_iter().map(Some).collect();
    let with_log = logs.into_iter().zip(partners);
    let with_log = with_log.map(|(log, report)| trial_of(report.and_then(|place| reports[place].take()), Some(log)));
    let mut trials: Vec<TrialFiles> = with_log.collect();
    trials.extend(reports.into_iter().flatten().map(|report| trial_of(Some(report), None)));
    Ok(trials)
}

fn ambiguous(log: &Log, reports: [&Report; 2]) -> Error {
    let [one, other] = reports.map(|report| name_files(&report.paths));
    let others = if one == other { one } else { format!("{one} or {other}") };
    Error::Unfit {
        problem: format!("cannot determine whether {} belongs to the same run as {others}", name_files(&log.paths)),
        remedy: "put each run's files into a directory of its own, and give the directories as arguments".to_owned(),
    }
}

fn count(report: &Report) -> u64 {
    report.holds.outcome.map_or_else(|| sum_progress(&report.holds.progress) as u64, |outcome| outcome.transactions)
}

/// Difference of the durations in seconds. `None` if log and report are from different runs.
fn compute_distance(log: &Log, report: &Report) -> Option<f64> {
    let survey = &log.holds;
    let (lasted, told) = (survey.lasted_seconds(), report.holds.lasted_seconds());
    let is_same = match report.holds.outcome {
        Some(outcome) if log.holds.is_of_intervals => {
            // Before PostgreSQL 15, intervals also count skipped transactions.
            let skipped = survey.transactions.saturating_sub(outcome.transactions).min(outcome.skipped);
            return compute_missing(survey, outcome.transactions.saturating_add(skipped), told?);
        }
        Some(outcome) => survey.transactions == outcome.transactions,
        None => is_counted_by(&report.holds.progress, survey.transactions),
    };
    let off = told.map_or(0.0, |told| (told - lasted).abs());
    // With a fixed number of transactions, all runs have equal counts, so the durations must match.
    let may_differ = report.holds.transactions.is_none() || told.is_none_or(|told| off <= tolerated_seconds(told));
    (is_same && may_differ).then_some(off)
}

/// Maximum share of a run's transactions in its last interval, which pgbench never logs.
const LAST_SHARE_MAX: f64 = 0.5;

/// Estimated seconds of the transactions missing in the log; `None` if too many.
fn compute_missing(survey: &Survey, transactions: u64, told_seconds: f64) -> Option<f64> {
    let missing = transactions.checked_sub(survey.transactions)? as f64 / transactions.max(1) as f64;
    let last = survey.width.map_or(LAST_SHARE_MAX, |width| width as f64 / told_seconds.max(1.0));
    (missing <= OFF_SHARE / 2.0 + last.min(LAST_SHARE_MAX)).then_some(missing * told_seconds)
}

const OFF_SECONDS: f64 = 2.0;
const OFF_SHARE: f64 = 0.1;

fn tolerated_seconds(lasted: f64) -> f64 {
    OFF_SECONDS.max(OFF_SHARE * lasted)
}

fn have_one_name(log: &Log, report: &Report) -> bool {
    let first = &log.paths[0];
    let log = first_thread(first).unwrap_or_else(|| first.clone()).with_extension("");
    report.paths.iter().any(|report| report.with_extension("") == log)
}

fn is_sample(log: &Log, report: &Report) -> bool {
    let survey = &log.holds;
    let (_, clients) = survey.clients();
    let lasted = survey.lasted_seconds();
    let is_as_long = |told: f64| (told - lasted).abs() <= tolerated_seconds(told);
    !survey.is_of_intervals
        && survey.transactions < count(report)
        && report.holds.clients.is_some_and(|told| clients <= told)
        && report.holds.lasted_seconds().is_some_and(is_as_long)
}

const REPORT_BYTES_MAX: u64 = 64 << 20;

const LINE_BYTES_MAX: u64 = 1 << 16;

/// Visits parsed lines; an unparsable one is an error. Skips a last line without newline. Returns whether the
/// compressed file was truncated.
pub fn for_each<T>(path: &Path, parse: impl Fn(&str) -> Option<T>, mut visit: impl FnMut(T)) -> Result<bool> {
    let failed = |source| Error::file("read", path, source);
    let mut lines = open_regular(path).and_then(decode).map_err(failed)?;
    let (mut line, mut number, mut is_cut) = (String::new(), 0, false);
    while note_cut((&mut lines).take(LINE_BYTES_MAX).read_line(&mut line), &mut is_cut).map_err(failed)? > 0 {
        number += 1;
        match parse(line.trim_end()) {
            _ if !line.ends_with('\n') => {}
            Some(meaning) => visit(meaning),
            None => {
                let text = line.trim_end().chars().take(80).collect::<String>();
                return Err(Error::Import(format!("cannot parse {}, line {number}: {text:?}", path.display())));
            }
        }
        line.clear();
    }
    Ok(is_cut)
}

const MICROSECONDS: i64 = 1_000_000;

/// One month. pgthaw derives no start time from a longer latency.
const LATENCY_US_MAX: u64 = 31 * 24 * 3600 * 1_000_000;

#[derive(Clone, Debug, Default)]
pub struct Survey {
    pub is_of_intervals: bool,
    pub is_cut: bool,
    pub transactions: u64,
    pub failed: u64,
    pub skipped: u64,
    pub scripts: u32,
    clients: BTreeMap<u32, Numbers>,
    /// Start of the first transaction and end of the last, in microseconds since 1970.
    pub span_us: Option<(i64, i64)>,
    /// Largest step back between the timestamps of two lines, in microseconds.
    pub back_us: i64,
    /// Length of an interval in seconds; `None` if there is only one.
    pub width: Option<i64>,
}

#[derive(Clone, Copy, Debug)]
struct Numbers {
    lines: u64,
    least: u64,
    most: u64,
}

impl Survey {
    pub fn of_transactions(path: &Path) -> Result<Survey> {
        let mut survey = Survey::default();
        let mut latest_us = i64::MIN;
        let is_cut = for_each(path, parse_transaction, |one| {
            let ended_us = one.second.saturating_mul(MICROSECONDS).saturating_add(i64::from(one.microsecond));
            survey.back_us = survey.back_us.max(latest_us.saturating_sub(ended_us));
            latest_us = latest_us.max(ended_us);
            survey.add(one, ended_us);
        })?;
        survey.is_cut = is_cut;
        if survey.clients().1 > CLIENTS_MAX {
            let most = CLIENTS_MAX - 1;
            let problem =
                format!("the log has a client number above {most}, but a server accepts at most {CLIENTS_MAX} clients");
            return Err(edited(path, &problem));
        }
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
        self.count(one.client, Numbers { lines: 1, least: one.number, most: one.number });
        self.widen(ended_us.saturating_sub_unsigned(took_us), ended_us);
    }

    fn count(&mut self, client: u32, numbers: Numbers) {
        let same = self.clients.entry(client).or_insert(Numbers { lines: 0, ..numbers });
        same.lines += numbers.lines;
        (same.least, same.most) = (same.least.min(numbers.least), same.most.max(numbers.most));
    }

    fn widen(&mut self, begun_us: i64, ended_us: i64) {
        let (begun, ended) = self.span_us.unwrap_or((begun_us, ended_us));
        self.span_us = Some((begun.min(begun_us), ended.max(ended_us)));
    }

    pub fn of_intervals(path: &Path) -> Result<Survey> {
        let mut survey = Survey { is_of_intervals: true, ..Survey::default() };
        let mut latest = i64::MIN;
        let is_cut = for_each(path, parse_interval, |(begun_at, interval)| {
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
        survey.is_cut = is_cut;
        // `last` is the start of the last interval.
        let width_us = survey.width.unwrap_or(1).saturating_mul(MICROSECONDS);
        survey.span_us = survey.span_us.map(|(begun, last)| (begun, last.saturating_add(width_us)));
        Ok(survey)
    }

    pub fn merge(&mut self, other: &Survey) {
        self.transactions = self.transactions.saturating_add(other.transactions);
        self.is_cut |= other.is_cut;
        self.failed += other.failed;
        self.skipped += other.skipped;
        self.scripts = self.scripts.max(other.scripts);
        for (client, numbers) in &other.clients {
            self.count(*client, *numbers);
        }
        other.span_us.into_iter().for_each(|(begun, ended)| self.widen(begun, ended));
        self.back_us = self.back_us.max(other.back_us);
        self.width = self.width.into_iter().chain(other.width).min();
    }

    pub fn lasted_seconds(&self) -> f64 {
        self.span_us.map_or(0.0, |(begun, ended)| ended.saturating_sub(begun) as f64 / MICROSECONDS as f64)
    }

    /// Microseconds from a full second to the first transaction's start. Seconds of the run start at this offset.
    pub fn offset_us(&self) -> i64 {
        self.span_us.map_or(0, |(begun_us, _)| begun_us.rem_euclid(MICROSECONDS))
    }

    pub fn begun_at(&self) -> Option<Timestamp> {
        Timestamp::from_microsecond(self.span_us?.0).ok()
    }

    /// First second, and the second after the last. Seconds begin at [`Survey::offset_us`].
    pub fn seconds(&self) -> Option<(i64, i64)> {
        let (begun_us, ended_us) = self.span_us?;
        let ended_us = ended_us.saturating_sub(self.offset_us());
        Some((begun_us.div_euclid(MICROSECONDS), ended_us.div_euclid(MICROSECONDS).saturating_add(1)))
    }

    /// Number of clients in the log, and that implied by the highest client number. Both are 0 for a log of intervals.
    pub fn clients(&self) -> (u32, u32) {
        (self.clients.len() as u32, self.clients.last_key_value().map_or(0, |(last, _)| last.saturating_add(1)))
    }

    pub fn has_first_client(&self) -> bool {
        self.clients.contains_key(&0)
    }

    pub fn shares_clients(&self, other: &Survey) -> bool {
        self.clients.keys().any(|client| other.clients.contains_key(client))
    }

    /// A log without lines overlaps with every log.
    pub fn overlaps(&self, other: &Survey) -> bool {
        let (Some((begun, ended)), Some((other_begun, other_ended))) = (self.span_us, other.span_us) else {
            return true;
        };
        begun <= other_ended && other_begun <= ended
    }

    /// Derives the number of transactions from the clients' sequence numbers, even if lines are missing.
    pub fn numbered(&self) -> u64 {
        let of = |numbers: &Numbers| numbers.lines.max((numbers.most - numbers.least).saturating_add(1));
        self.clients.values().map(of).fold(0, u64::saturating_add)
    }

    pub fn lines(&self) -> u64 {
        self.clients.values().map(|numbers| numbers.lines).sum()
    }
}

pub const TOOLS_REPORT: &str = "results.txt";
const TOOLS_SECONDS: &str = "collected,samples,min_latency,avg_latency,max_latency";

/// pgbench-tools uses `results/SERVER/TEST/`, formerly `results/TEST/`.
const TOOLS_RESULTS: &str = "results";

/// pgbench's default prefix, by which pgthaw recognises an empty log.
const LOG_PREFIX: &str = "pgbench_log.";

const REPORT_LINES: [&str; 4] = ["progress: ", "transaction type: ", "pgbench (", "pgbench: error: "];

#[derive(Debug, Default)]
struct Scope {
    /// `None` for individually named files.
    directory: Option<PathBuf>,
    is_tools: bool,
    /// Name of a pgbench-tools test's parent directory, usually a server.
    server: Option<String>,
    logs: Vec<Log>,
    reports: Vec<Report>,
    tables: Vec<(PathBuf, Timestamp)>,
}

/// Directory levels. pgbench-tools needs 2.
const DEPTH_MAX: usize = 8;

/// Returns whether the directory contains any result, even a known one.
fn find_below(directory: &Path, depth: usize, known: &mut BTreeSet<PathBuf>, found: &mut Vec<Scope>) -> Result<bool> {
    let failed = |source| Error::file("list", directory, source);
    let entries = fs::read_dir(directory).map_err(failed)?;
    let mut paths: Vec<PathBuf> = entries.map(|entry| Ok(entry.map_err(failed)?.path())).collect::<Result<_>>()?;
    paths.retain(|path| path.file_name().is_none_or(|name| !name.to_string_lossy().starts_with('.')));
    paths.sort();
    let (directories, files): (Vec<_>, Vec<_>) = paths.into_iter().partition(|path| path.is_dir());
    let is_tools = files.iter().any(|file| file.ends_with(TOOLS_REPORT));
    let mut scope = Scope { directory: Some(directory.to_owned()), is_tools, ..Scope::default() };
    let mut is_any = false;
    for file in files.iter().filter(|file| file.is_file()) {
        is_any |= scope.add(file, known)?;
    }
    if !scope.logs.is_empty() || !scope.reports.is_empty() {
        scope.server = if is_tools { read_server_name(directory) } else { None };
        found.push(scope);
    }
    if !is_tools && depth < DEPTH_MAX {
        for below in directories {
            is_any |= find_below(&below, depth + 1, known, found)?;
        }
    }
    Ok(is_any)
}

fn read_server_name(trial: &Path) -> Option<String> {
    let trial = fs::canonicalize(trial).ok()?;
    let name = trial.parent()?.file_name()?.to_string_lossy().into_owned();
    (name != TOOLS_RESULTS).then_some(name)
}

impl Scope {
    /// Skips a file whose canonical path is in `known`. Returns false for a file not from pgbench.
    fn add(&mut self, path: &Path, known: &mut BTreeSet<PathBuf>) -> Result<bool> {
        let metadata = open_regular(path).and_then(|file| file.metadata());
        let metadata = metadata.map_err(|source| Error::file("read", path, source))?;
        let written_at = metadata.modified().ok().and_then(|time| Timestamp::try_from(time).ok()).unwrap_or_default();
        let is_empty_log =
            metadata.len() == 0 && path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(LOG_PREFIX));
        let kind = if is_empty_log { Some(Kind::Transactions) } else { recognize(path)? };
        let Some(kind) = kind else { return Ok(false) };
        if !known.insert(fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())) {
            return Ok(true);
        }
        let paths = vec![path.to_owned()];
        match kind {
            Kind::Transactions => self.logs.push(Named { paths, written_at, holds: Survey::of_transactions(path)? }),
            Kind::Intervals => self.logs.push(Named { paths, written_at, holds: Survey::of_intervals(path)? }),
            Kind::Report => self.reports.push(Named { paths, written_at, holds: read_report(path)? }),
            Kind::ToolsSeconds => self.tables.push((path.to_owned(), written_at)),
        }
        Ok(true)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Transactions,
    Intervals,
    ToolsSeconds,
    Report,
}

/// Errors of truncated files, and of files that are not compressed.
const TORN: [io::ErrorKind; 3] =
    [io::ErrorKind::InvalidInput, io::ErrorKind::InvalidData, io::ErrorKind::UnexpectedEof];

fn recognize(path: &Path) -> Result<Option<Kind>> {
    let file = open_regular(path).map_err(|source| Error::file("open", path, source))?;
    let mut lines = Vec::new();
    let read = decode(file).and_then(|text| text.take(1 << 16).read_to_end(&mut lines));
    if let Some(source) = read.err().filter(|error| !TORN.contains(&error.kind())) {
        return Err(Error::file("read", path, source));
    }
    let mut prefix = Prefix::default();
    let mut lines =
        lines.split_inclusive(|byte| *byte == b'\n').take(200).map_while(|line| std::str::from_utf8(line).ok());
    Ok(lines.find_map(|line| recognize_line(prefix.strip(line.trim_end()))))
}

fn recognize_line(line: &str) -> Option<Kind> {
    match line {
        _ if parse_transaction(line).is_some() => Some(Kind::Transactions),
        _ if parse_interval(line).is_some() => Some(Kind::Intervals),
        TOOLS_SECONDS => Some(Kind::ToolsSeconds),
        _ => REPORT_LINES.iter().any(|said| line.starts_with(said)).then_some(Kind::Report),
    }
}

fn read_report(path: &Path) -> Result<PgbenchReport> {
    let failed = |source| Error::file("read", path, source);
    let (mut text, mut is_cut) = (Vec::new(), false);
    let read = open_regular(path).and_then(decode).map_err(failed)?.take(REPORT_BYTES_MAX).read_to_end(&mut text);
    note_cut(read, &mut is_cut).map_err(failed)?;
    let text = String::from_utf8_lossy(&text);
    // Progress lines do not show which of several reports they belong to.
    let mut prefix = Prefix::default();
    let is_count = |line: &&str| prefix.strip(line).starts_with("number of transactions actually processed: ");
    let reports = text.lines().filter(is_count).count();
    if reports > 1 {
        let problem =
            format!("{} holds {reports} reports: write each run of pgbench into its own file", path.display());
        return Err(Error::Import(problem));
    }
    let report = PgbenchReport { is_cut, ..parse_report(&text) };
    check_report(path, &report)?;
    Ok(report)
}

/// Upper limits from `option_parse_int` in pgbench.c and `MAX_BACKENDS` in postmaster.h.
const NUMBER_MAX: u32 = i32::MAX as u32;
const CLIENTS_MAX: u32 = 262_143;

fn check_report(path: &Path, report: &PgbenchReport) -> Result<()> {
    let figures = [
        ("scaling factor", report.scale, NUMBER_MAX),
        ("number of clients", report.clients, CLIENTS_MAX),
        ("number of threads", report.threads, CLIENTS_MAX),
        ("duration", report.seconds, NUMBER_MAX),
        ("number of transactions per client", report.transactions, NUMBER_MAX),
    ];
    let wrong = figures.into_iter().find_map(|(what, figure, most)| {
        let figure = figure.filter(|figure| !(1..=most).contains(figure))?;
        Some(format!("its {what} is {figure}, but pgbench accepts 1 to {most}"))
    });
    let more_threads = report.threads.zip(report.clients).filter(|(threads, clients)| threads > clients);
    let problem = wrong.or(more_threads.map(|(threads, clients)| {
        let (threads, clients) = (counted(threads, "thread"), counted(clients, "client"));
        format!("the report shows {threads} for {clients}, but pgbench never has more threads than clients")
    }));
    problem.map_or(Ok(()), |problem| Err(edited(path, &problem)))
}

fn edited(path: &Path, problem: &str) -> Error {
    Error::Unfit {
        problem: format!("{}: {problem}", path.display()),
        remedy: "import the file as pgbench wrote it: this file was edited or is damaged".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_known_by_the_name_of_the_first() {
        let of = |name: &str| first_thread(Path::new(name)).map(|first| first.display().to_string());
        assert_eq!(of("d/pgbench_log.4711.1").as_deref(), Some("d/pgbench_log.4711"));
        assert_eq!(of("d/pgbench_log.4711.1.gz").as_deref(), Some("d/pgbench_log.4711.gz"));
        assert_eq!(
            [of("pgbench_log.4711"), of("run.log"), of("run.1.log"), of("pgbench_log.1.x")],
            [const { None }; 4]
        );
    }

    #[test]
    fn the_nearest_is_the_partner_and_what_is_as_near_is_none() {
        let choose = |distances: &[[Option<f64>; 2]]| {
            let choices = choose_partners(distances.len(), 2, |one, other| distances[one][other]);
            let told = choices.into_iter().map(|choice| match choice {
                Ok(None) => "none".to_owned(),
                Ok(Some(place)) => place.to_string(),
                Err(_) => "several".to_owned(),
            });
            told.collect::<Vec<_>>()
        };
        assert_eq!(choose(&[[Some(0.1), Some(5.0)], [Some(6.0), Some(0.2)]]), ["0", "1"]);
        assert_eq!(choose(&[[Some(0.1), None], [Some(0.3), None]]), ["0", "none"]);
        assert_eq!(choose(&[[Some(0.1), Some(0.1)]]), ["several"]);
        assert_eq!(choose(&[[None, None]]), ["none"]);
    }
}

#[cfg(test)]
mod survey_tests {
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
            ("0 199 2241 0 1175850568 995598", Some(Kind::Transactions)),
            ("0 81 4621 0 1412881037 912698 3005", Some(Kind::Transactions)),
            ("3 0 failed 0 1499414498 84905 9", Some(Kind::Transactions)),
            ("1650260552 5178 26171317 177284491527 1136 44462 2647617 7321113867 0 9866", Some(Kind::Intervals)),
            ("1650260552 30 6000 1200800 40 900", Some(Kind::Intervals)),
            ("collected,samples,min_latency,avg_latency,max_latency", Some(Kind::ToolsSeconds)),
            ("progress: 1.0 s, 523.9 tps, lat 7.528 ms stddev 24.786, 0 failed", Some(Kind::Report)),
            ("transaction type: <builtin: select only>", Some(Kind::Report)),
            ("starting vacuum...end.", None),
            ("1 2 3 4 5 6", None),
            ("", None),
        ] {
            assert_eq!(recognize_line(line), kind, "{line}");
        }
    }
}
