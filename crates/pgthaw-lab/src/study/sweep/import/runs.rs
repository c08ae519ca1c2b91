//! Which files belong to which trial: threads' logs by their names and by their clients, a log and a report by what they count.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::survey::Survey;
use super::survey::{Holds, Part, Scope, TOOLS_REPORT, find_scopes};
use crate::study::error::Error;
use crate::study::finding::Finding;
use pgbench::{PgbenchReport, Progress};

/// The files of one trial.
#[derive(Debug, Default)]
pub struct TrialFiles {
    /// What was named, or found below it.
    pub label: String,
    /// What pgbench-tools calls the server.
    pub server: Option<String>,
    pub report: Option<Named<PgbenchReport>>,
    /// Logs of threads, all of one kind.
    pub log: Option<Log>,
    pub tools_seconds: Option<PathBuf>,
    /// When the newest of them was changed: stands for a start that nothing tells.
    pub written_at: Timestamp,
    pub findings: Vec<Finding>,
}

impl TrialFiles {
    /// As many as the log names, or a log of its kind must have.
    pub fn clients(&self) -> Option<u32> {
        let (_, clients) = self.log.as_ref()?.holds.survey.clients();
        (clients > 0).then_some(clients)
    }

    /// As many as have logs, where there are several: one may be all there is of it.
    pub fn threads(&self) -> Option<u32> {
        let logs = self.log.as_ref()?.paths.len() as u32;
        (logs > 1).then_some(logs)
    }
}

/// What files hold.
#[derive(Debug)]
pub struct Named<T> {
    pub paths: Vec<PathBuf>,
    pub written_at: Timestamp,
    pub holds: T,
}

/// The log of one run.
pub type Log = Named<Logged>;

/// What a log holds.
#[derive(Debug)]
pub struct Logged {
    /// Or transactions one by one.
    pub is_of_intervals: bool,
    pub survey: Survey,
}

type Report = Named<PgbenchReport>;

/// The trials of the paths.
pub fn find_trials(paths: &[PathBuf]) -> Result<Vec<TrialFiles>, Error> {
    let mut trials = Vec::new();
    for scope in find_scopes(paths)? {
        trials.extend(divide(scope)?);
    }
    Ok(trials)
}

fn divide(scope: Scope) -> Result<Vec<TrialFiles>, Error> {
    let Scope { directory, is_tools, server, parts } = scope;
    let (mut logs, mut reports, mut tables) = (Vec::new(), Vec::new(), Vec::new());
    for Part { path, written_at, holds } in parts {
        let paths = vec![path];
        let log = |is_of_intervals, survey| Named {
            paths: paths.clone(),
            written_at,
            holds: Logged { is_of_intervals, survey },
        };
        match holds {
            Holds::Transactions(survey) => logs.push(log(false, survey)),
            Holds::Intervals(survey) => logs.push(log(true, survey)),
            Holds::Report(report) => reports.push(Named { paths, written_at, holds: *report }),
            Holds::ToolsSeconds => tables.push(Named { paths, written_at, holds: () }),
        }
    }
    let mut trials = match is_tools {
        true => vec![take_tools(logs, reports)],
        false => {
            let mut reports = join_progress(reports);
            // What is named has to be a result; beside others it is passed over, as what is none of pgbench's.
            reports.retain(|report| directory.is_none() || report.holds.is_result());
            pair(join_threads(logs), reports, directory.is_some())?
        }
    };
    match trials.as_mut_slice() {
        [one] => {
            one.tools_seconds = tables.into_iter().map(|mut table| table.paths.remove(0)).next();
            let named = directory.iter().map(|directory| directory.display().to_string());
            one.label = named.chain([one.label.clone()]).next().unwrap_or_default();
        }
        // A table says nothing of which of several it is.
        _ => trials.extend(tables.into_iter().map(|mut table| TrialFiles {
            label: render(&table.paths),
            written_at: table.written_at,
            tools_seconds: Some(table.paths.remove(0)),
            ..TrialFiles::default()
        })),
    }
    trials.iter_mut().for_each(|trial| trial.server.clone_from(&server));
    Ok(trials)
}

fn render(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

fn trial_of(report: Option<Report>, log: Option<Log>) -> TrialFiles {
    let of_report = report.iter().map(|report| (report.paths.as_slice(), report.written_at));
    let of_log = log.iter().map(|log| (log.paths.as_slice(), log.written_at));
    let (paths, times): (Vec<_>, Vec<_>) = of_report.chain(of_log).unzip();
    let label = render(&paths.concat());
    let written_at = times.into_iter().max().unwrap_or_default();
    TrialFiles { label, written_at, report, log, ..TrialFiles::default() }
}

/// A directory of pgbench-tools is one trial, whose report has a name.
fn take_tools(logs: Vec<Log>, reports: Vec<Report>) -> TrialFiles {
    let (mut named, others): (Vec<_>, Vec<_>) =
        reports.into_iter().partition(|report| report.paths[0].ends_with(TOOLS_REPORT));
    let findings = others.iter().map(|other| Finding::Assumed {
        what: format!(
            "{} is a report too, and was left out: {TOOLS_REPORT} is the one of pgbench-tools",
            render(&other.paths)
        ),
        how: "import it by itself".to_owned(),
    });
    let findings = findings.collect();
    // Transactions are finer than intervals.
    let is_fine = logs.iter().any(|log| !log.holds.is_of_intervals);
    let logs = logs.into_iter().filter(|log| log.holds.is_of_intervals != is_fine);
    TrialFiles { findings, ..trial_of(named.pop(), logs.reduce(merge)) }
}

fn merge(mut one: Log, other: Log) -> Log {
    one.paths.extend(other.paths);
    one.written_at = one.written_at.max(other.written_at);
    one.holds.survey.merge(&other.holds.survey);
    one
}

/// The log that this one continues by its name: pgbench calls them `pgbench_log.4711`, `pgbench_log.4711.1`, `pgbench_log.4711.2`.
fn first_thread(path: &Path) -> Option<PathBuf> {
    let has_number = |path: &Path| {
        path.extension().is_some_and(|number| number.to_string_lossy().bytes().all(|byte| byte.is_ascii_digit()))
    };
    let first = path.with_extension("");
    (has_number(path) && has_number(&first)).then_some(first)
}

/// Logs of the threads of one run: by their names, or by clients that are not in the other, at the same time.
fn join_threads(logs: Vec<Log>) -> Vec<Log> {
    let names: BTreeSet<PathBuf> = logs.iter().flat_map(|log| log.paths.clone()).collect();
    let (mut runs, mut parts): (Vec<Log>, Vec<Log>) = (Vec::new(), Vec::new());
    for log in logs {
        let first = first_thread(&log.paths[0]).filter(|first| names.contains(first));
        let is_thread = |run: &Log| {
            first.as_ref().is_some_and(|first| run.paths.contains(first))
                && run.holds.is_of_intervals == log.holds.is_of_intervals
                && run.holds.survey.overlaps(&log.holds.survey)
        };
        match runs.iter().position(is_thread) {
            Some(place) => {
                let run = runs.swap_remove(place);
                runs.push(merge(run, log));
            }
            // Every run has a first client.
            None if log.holds.is_of_intervals || log.holds.survey.has_first_client() => runs.push(log),
            None => parts.push(log),
        }
    }
    for part in parts {
        let is_rest = |run: &&mut Log| {
            !run.holds.is_of_intervals
                && run.holds.survey.has_first_client()
                && run.holds.survey.overlaps(&part.holds.survey)
                && !run.holds.survey.shares_clients(&part.holds.survey)
        };
        let mut places = (0..runs.len()).filter(|place| is_rest(&&mut runs[*place]));
        match (places.next(), places.next()) {
            (Some(place), None) => {
                let run = runs.swap_remove(place);
                runs.push(merge(run, part));
            }
            _ => runs.push(part),
        }
    }
    runs.iter_mut().for_each(|run| run.paths.sort());
    runs.sort_by(|one, other| one.paths.cmp(&other.paths));
    runs
}

/// The transactions that progress tells of.
fn sum_progress(progress: &[Progress]) -> f64 {
    let [first, ..] = progress else { return 0.0 };
    let step = progress.get(1).map_or(first.until_seconds, |second| second.until_seconds - first.until_seconds);
    let mut before = first.until_seconds - step;
    let mut transactions = 0.0;
    for one in progress {
        transactions += if one.tps.is_finite() { one.tps * (one.until_seconds - before) } else { 0.0 };
        before = one.until_seconds;
    }
    transactions
}

/// Progress has one digit behind the point, and its last line may be missing.
fn is_counted_by(progress: &[Progress], transactions: u64) -> bool {
    let (all, lines) = (transactions as f64, progress.len() as f64);
    lines > 0.0 && (sum_progress(progress) - all).abs() <= (0.02 + 1.0 / lines) * all
}

/// pgbench tells its progress on another stream than its report: one file for each is one run.
fn join_progress(reports: Vec<Report>) -> Vec<Report> {
    let (streams, mut reports): (Vec<Report>, Vec<Report>) =
        reports.into_iter().partition(|report| report.holds.outcome.is_none());
    let is_only = streams.len() == 1 && reports.len() == 1;
    let choices = choose_partners(streams.len(), reports.len(), |stream, report| {
        let (progress, report) = (&streams[stream].holds.progress, &reports[report].holds);
        let counted = report.outcome.filter(|_| report.progress.is_empty())?.transactions;
        match progress.is_empty() {
            // Messages alone.
            true => is_only.then_some(0.0),
            false => is_counted_by(progress, counted).then(|| (sum_progress(progress) - counted as f64).abs()),
        }
    });
    let mut alone = Vec::new();
    for (stream, choice) in streams.into_iter().zip(choices) {
        let Choice::One(place) = choice else {
            alone.push(stream);
            continue;
        };
        let report = &mut reports[place];
        report.paths.extend(stream.paths);
        report.written_at = report.written_at.max(stream.written_at);
        report.holds.add_stream(stream.holds);
    }
    reports.extend(alone);
    reports.sort_by(|one, other| one.paths.cmp(&other.paths));
    reports
}

/// Whose partner something is.
enum Choice {
    None,
    One(usize),
    /// These are as near as each other.
    Several([usize; 2]),
}

/// Of each of the first kind the nearest of the second kind, if it is the nearest of that too.
fn choose_partners(ones: usize, others: usize, distance: impl Fn(usize, usize) -> Option<f64>) -> Vec<Choice> {
    let nearest = |count: usize, of: &dyn Fn(usize) -> Option<f64>| {
        let mut near: Vec<(f64, usize)> = (0..count).filter_map(|place| Some((of(place)?, place))).collect();
        near.sort_by(|one, other| one.0.total_cmp(&other.0));
        match near.as_slice() {
            [] => Choice::None,
            [one, next, ..] if one.0 == next.0 => Choice::Several([one.1, next.1]),
            [one, ..] => Choice::One(one.1),
        }
    };
    let choose = |one: usize| match nearest(others, &|other| distance(one, other)) {
        Choice::One(other) => match nearest(ones, &|one| distance(one, other)) {
            Choice::One(back) if back != one => Choice::None,
            Choice::Several(_) => Choice::Several([other, other]),
            _ => Choice::One(other),
        },
        choice => choice,
    };
    (0..ones).map(choose).collect()
}

/// Logs and reports of the same runs, and those that stand alone.
fn pair(logs: Vec<Log>, reports: Vec<Report>, is_directory: bool) -> Result<Vec<TrialFiles>, Error> {
    let choices =
        choose_partners(logs.len(), reports.len(), |log, report| compute_distance(&logs[log], &reports[report]));
    let mut partners: BTreeMap<usize, usize> = BTreeMap::new();
    for (log, choice) in choices.into_iter().enumerate() {
        match choice {
            Choice::None => {}
            Choice::One(report) => drop(partners.insert(log, report)),
            Choice::Several([one, other]) => return Err(ambiguous(&logs[log], [&reports[one], &reports[other]])),
        }
    }
    if let ([log], [report]) = (logs.as_slice(), reports.as_slice())
        && partners.is_empty()
        && log.holds.survey.transactions <= count(report)
        && (is_directory || !log.holds.is_of_intervals && is_sample(log, report))
    {
        partners.insert(0, 0);
    }
    pair_samples(&logs, &reports, &mut partners)?;
    let mut reports: Vec<Option<Report>> = reports.into_iter().map(Some).collect();
    let with_log = logs.into_iter().enumerate().map(|(place, log)| {
        let report = partners.get(&place).and_then(|report| reports[*report].take());
        trial_of(report, Some(log))
    });
    let mut trials: Vec<TrialFiles> = with_log.collect();
    trials.extend(reports.into_iter().flatten().map(|report| trial_of(Some(report), None)));
    Ok(trials)
}

/// Gives a log that is a part of its run the report of the same name, as of `--log-prefix=a` and `> a.out`.
fn pair_samples(logs: &[Log], reports: &[Report], partners: &mut BTreeMap<usize, usize>) -> Result<(), Error> {
    for (place, log) in logs.iter().enumerate().filter(|(_, log)| !log.holds.is_of_intervals) {
        let is_free = |report: &usize| !partners.values().any(|taken| taken == report);
        let is_whole = partners.contains_key(&place);
        let may_be = (0..reports.len()).filter(|report| !is_whole && is_sample(log, &reports[*report]));
        let may_be: Vec<usize> = may_be.filter(is_free).collect();
        let mut named = may_be.iter().filter(|report| have_one_name(log, &reports[**report]));
        match (named.next(), named.next(), may_be.as_slice()) {
            (Some(report), None, _) => drop(partners.insert(place, *report)),
            (.., []) => {}
            (.., [one, others @ ..]) => {
                return Err(ambiguous(log, [&reports[*one], &reports[*others.first().unwrap_or(one)]]));
            }
        }
    }
    Ok(())
}

fn ambiguous(log: &Log, reports: [&Report; 2]) -> Error {
    let [one, other] = reports.map(|report| render(&report.paths));
    let others = if one == other { one } else { format!("{one} or {other}") };
    Error::Unfit {
        problem: format!("{} may be of the same run as {others}: what they hold does not tell", render(&log.paths)),
        remedy: "put the files of each run into a directory of its own, and name the directories".to_owned(),
    }
}

fn count(report: &Report) -> u64 {
    report.holds.outcome.map_or_else(|| sum_progress(&report.holds.progress) as u64, |outcome| outcome.transactions)
}

/// How far the times are apart that a log and a report with as many transactions tell of, in seconds; `None`: they are of two runs.
fn compute_distance(log: &Log, report: &Report) -> Option<f64> {
    let survey = &log.holds.survey;
    let (lasted, told) = (survey.lasted_seconds(), report.holds.lasted_seconds());
    let is_same = match report.holds.outcome {
        Some(outcome) if log.holds.is_of_intervals => {
            // Before 15 intervals count what was skipped too.
            let skipped = survey.transactions.saturating_sub(outcome.transactions).min(outcome.skipped);
            return compute_missing(survey, outcome.transactions.saturating_add(skipped), told?);
        }
        Some(outcome) => survey.transactions == outcome.transactions,
        None => is_counted_by(&report.holds.progress, survey.transactions),
    };
    let off = told.map_or(0.0, |told| (told - lasted).abs());
    // Runs that were asked for so many transactions all have as many.
    let may_differ = report.holds.transactions.is_none() || told.is_none_or(|told| off <= tolerated_seconds(told));
    (is_same && may_differ).then_some(off)
}

/// More than this does not end in the interval that pgbench ends in.
const LAST_SHARE_MAX: f64 = 0.5;

/// Seconds' worth of so many transactions that the log does not hold. pgbench logs no interval that it ends in.
fn compute_missing(survey: &Survey, transactions: u64, told_seconds: f64) -> Option<f64> {
    let missing = transactions.checked_sub(survey.transactions)? as f64 / transactions.max(1) as f64;
    let last = survey.width.map_or(LAST_SHARE_MAX, |width| width as f64 / told_seconds.max(1.0));
    (missing <= OFF_SHARE / 2.0 + last.min(LAST_SHARE_MAX)).then_some(missing * told_seconds)
}

/// Seconds that a log may be shorter or longer than its run, and the share of it.
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

/// Does the log look as if it held a part of the transactions that the report counts?
fn is_sample(log: &Log, report: &Report) -> bool {
    let survey = &log.holds.survey;
    let (_, clients) = survey.clients();
    let lasted = survey.lasted_seconds();
    let is_as_long = |told: f64| (told - lasted).abs() <= tolerated_seconds(told);
    survey.transactions < count(report)
        && report.holds.clients.is_some_and(|told| clients <= told)
        && report.holds.lasted_seconds().is_some_and(is_as_long)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_known_by_the_name_of_the_first() {
        let of = |name: &str| first_thread(Path::new(name)).map(|first| first.display().to_string());
        assert_eq!(of("d/pgbench_log.4711.1").as_deref(), Some("d/pgbench_log.4711"));
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
                Choice::None => "none".to_owned(),
                Choice::One(place) => place.to_string(),
                Choice::Several(_) => "several".to_owned(),
            });
            told.collect::<Vec<_>>()
        };
        assert_eq!(choose(&[[Some(0.1), Some(5.0)], [Some(6.0), Some(0.2)]]), ["0", "1"]);
        assert_eq!(choose(&[[Some(0.1), None], [Some(0.3), None]]), ["0", "none"]);
        assert_eq!(choose(&[[Some(0.1), Some(0.1)]]), ["several"]);
        assert_eq!(choose(&[[None, None]]), ["none"]);
    }
}
