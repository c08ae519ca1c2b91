use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::files::{Log, Survey, TrialFiles, for_each};
use crate::study::error::{Error, Result};
use crate::study::finding::Finding;
use crate::study::latency::{Latencies, LatencyHistogram, ScriptLatency};
use crate::study::record::Sample;
use pgbench::{
    Beginning, EARLIEST_EPOCH, Interval, Intervals, PgbenchReport, Progress, compute_deviation, parse_interval,
    parse_transaction,
};

const SECONDS_MAX: i64 = 31 * 24 * 3600;

/// Maximum length of a log in seconds: `SECONDS_MIN` plus `SECONDS_PER_BYTE` × file size.
const SECONDS_MIN: u64 = 10_000;
const SECONDS_PER_BYTE: u64 = 1000;

/// MAX_SCRIPTS in pgbench.c.
const SCRIPTS_MAX: u32 = 128;

#[derive(Debug, Default)]
pub struct Measured {
    pub started_at: Option<Timestamp>,
    pub samples: Vec<Sample>,
    pub latency: Option<LatencyHistogram>,
    pub scripts: Vec<ScriptLatency>,
    /// Time in the log from the first transaction's start to the last one's end.
    pub lasted_seconds: Option<f64>,
    /// Seconds that `samples` cover; `None` if they cover the whole run.
    pub told_seconds: Option<f64>,
    /// False if samples are estimates.
    pub is_by_second: bool,
    pub findings: Vec<Finding>,
}

/// `seconds` is the requested duration.
pub fn read_trial(files: &TrialFiles, seconds: Option<u32>, has_rate: bool) -> Result<Measured> {
    let report = files.report.as_ref().map(|report| &report.holds);
    let paths = files.report.as_ref().map(|report| report.paths.as_slice()).unwrap_or_default();
    let by_progress =
        || from_progress(report.map(|report| report.progress.as_slice()).unwrap_or_default(), seconds, longest(paths));
    let Some(log) = &files.log else {
        return match &files.tools_seconds {
            Some(path) => read_tools_seconds(path),
            None => Ok(by_progress()),
        };
    };
    let partial = find_partial(&log.holds, report);
    let mut measured = match log.holds.is_of_intervals {
        true => read_intervals(log, seconds.or_else(|| Some(report?.lasted_seconds()? as u32)))?,
        false => read_transactions(log, report, seconds.filter(|_| partial.is_none()), has_rate)?,
    };
    if partial.is_some() && report.is_some_and(|report| !report.progress.is_empty()) {
        let Measured { samples, is_by_second, findings, told_seconds, .. } = by_progress();
        measured = Measured { samples, is_by_second, findings, told_seconds, ..measured };
    } else if partial.is_some() {
        measured.is_by_second = false;
    }
    measured.findings.extend(partial);
    measured.findings.extend(find_back(log.holds.back_us as f64 / 1e6));
    Ok(measured)
}

/// A log with less than this share of transactions is partial.
const PARTIAL_SHARE: f64 = 0.99;

fn find_partial(survey: &Survey, report: Option<&PgbenchReport>) -> Option<Finding> {
    let (clients, of_clients) = survey.clients();
    let counted = report.and_then(|report| report.outcome).map(|outcome| outcome.transactions);
    let numbered = survey.transactions.saturating_add(survey.numbered().saturating_sub(survey.lines()));
    let transactions = counted.unwrap_or(numbered);
    // pgbench does not log its last interval.
    let last = survey.width.zip(report.and_then(PgbenchReport::lasted_seconds));
    let last_share = last.map_or(0.0, |(width, lasted)| width as f64 / lasted.max(1.0));
    let is_told =
        (survey.transactions as f64) < (PARTIAL_SHARE - last_share) * transactions as f64 || clients < of_clients;
    is_told.then_some(Finding::LogPartial { logged: survey.transactions, transactions, clients, of_clients })
}

/// Smaller backward clock steps do not distort counts per second.
const BACK_SECONDS: f64 = 0.5;

fn find_back(seconds: f64) -> Option<Finding> {
    (seconds > BACK_SECONDS).then_some(Finding::ClockSetBack { seconds })
}

/// `seconds` is the requested duration. A complete log covers all of it.
fn read_transactions(
    log: &Log,
    report: Option<&PgbenchReport>,
    seconds: Option<u32>,
    has_rate: bool,
) -> Result<Measured> {
    let survey = &log.holds;
    let scripts = survey.scripts;
    if scripts > SCRIPTS_MAX {
        let path = log.paths[0].display();
        let problem = format!("{path}: the log refers to {scripts} scripts, but pgbench accepts at most {SCRIPTS_MAX}");
        return Err(Error::Import(problem));
    }
    let mix = report.map(|report| report.mix.as_slice()).unwrap_or_default();
    let names = match (scripts, report.and_then(|report| report.script.clone())) {
        (1, Some(name)) if mix.is_empty() => vec![name],
        _ if mix.len() >= scripts as usize => mix.iter().map(|(name, _)| name.clone()).collect(),
        _ => (0..scripts).map(|place| format!("script {place}")).collect(),
    };
    let mut latencies = Latencies::new(names, has_rate);
    for path in &log.paths {
        for_each(path, parse_transaction, |one| latencies.add(one.by_clock_behind(survey.offset_us())))?;
    }
    let Some(mut extent) = survey.seconds() else { return Ok(Measured::default()) };
    let until = extent.1.max(extent.0.saturating_add(seconds.unwrap_or_default().into()));
    let counted = report.and_then(|report| report.outcome).map(|outcome| outcome.transactions);
    if counted.is_some_and(|counted| survey.transactions >= counted) {
        // The log is complete, so no transaction ended after its last line.
        extent.1 = until;
    }
    let measured = from_intervals(&latencies.intervals, 1, extent, until, &log.paths)?;
    Ok(Measured {
        latency: Some(latencies.overall()),
        scripts: latencies.scripts(),
        lasted_seconds: Some(survey.lasted_seconds()),
        started_at: survey.begun_at(),
        ..measured
    })
}

fn read_intervals(log: &Log, seconds: Option<u32>) -> Result<Measured> {
    let mut intervals = Intervals::new();
    for path in &log.paths {
        for_each(path, parse_interval, |(begun_at, interval)| {
            intervals.entry(begun_at).or_default().merge(interval);
        })?;
    }
    let (Some((first, _)), Some((last, _))) = (intervals.first_key_value(), intervals.last_key_value()) else {
        return Ok(Measured::default());
    };
    // A single interval may cover the whole run.
    let width = log.holds.width.or(seconds.map(i64::from));
    let asked = seconds.map_or(i64::MAX, |seconds| first.saturating_add(seconds.into()));
    let end = last.saturating_add(width.unwrap_or(1)).min(asked.max(last.saturating_add(1)));
    let until = if seconds.is_some() { asked.max(end) } else { end };
    let mut measured = from_intervals(&intervals, width.unwrap_or(1), (*first, end), until, &log.paths)?;
    measured.findings.extend(width.is_none().then(|| Finding::Assumed {
        what: "the log has one interval of unknown length: pgthaw assumes 1 s".to_owned(),
        how: "import again with seconds= set to the time that pgbench ran".to_owned(),
    }));
    Ok(measured)
}

fn longest(paths: &[PathBuf]) -> i64 {
    let bytes: u64 = paths.iter().filter_map(|path| Some(path.metadata().ok()?.len())).sum();
    let seconds = SECONDS_MIN + bytes.saturating_mul(SECONDS_PER_BYTE);
    i64::try_from(seconds).map_or(SECONDS_MAX, |seconds| seconds.min(SECONDS_MAX))
}

/// Figures of one second, taken from each interval in proportion to their overlap.
#[derive(Clone, Debug, Default)]
struct Second {
    transactions: u64,
    weight: f64,
    latency_us_sum: f64,
    latency_us_squares: f64,
    latency_us_min: Option<u64>,
    latency_us_max: Option<u64>,
    is_told: bool,
}

impl Second {
    fn to_sample(&self, second: i64, begun_at: i64) -> Sample {
        Sample {
            transactions: self.transactions,
            latency_us_mean: (self.weight > 0.0).then(|| self.latency_us_sum / self.weight),
            latency_us_min: self.latency_us_min,
            latency_us_max: self.latency_us_max,
            latency_us_deviation: compute_deviation(self.weight, self.latency_us_sum, self.latency_us_squares),
            ..empty_sample(second, begun_at)
        }
    }
}

/// Seconds that a log may lack at either end: it began late, or transactions were in flight.
const END_SECONDS: i64 = 1;

/// `extent` is the log's first second and its end, since 1970. `until` is the end of the trial.
fn from_intervals(
    intervals: &Intervals,
    width: i64,
    extent: (i64, i64),
    until: i64,
    paths: &[PathBuf],
) -> Result<Measured> {
    let (first, end) = extent;
    let lasted = end.saturating_sub(first);
    if width < 1 || lasted > longest(paths) {
        let path = paths.first().map_or(Path::new(""), PathBuf::as_path).display();
        return Err(Error::Import(format!("{path} covers {lasted} s: it is from several runs")));
    }
    let mut seconds = vec![Second::default(); lasted.max(0) as usize];
    for (begun_at, interval) in intervals {
        let place = (begun_at - first) as usize;
        let until = place.saturating_add(width as usize).min(seconds.len());
        spread(interval, seconds.get_mut(place..until).unwrap_or_default());
    }
    // Seconds before the first record or after the last are not gaps: transactions were in flight.
    let begins = seconds.iter().position(|second| second.is_told).unwrap_or(0);
    let ends = seconds.iter().rposition(|second| second.is_told).map_or(0, |last| last + 1);
    let mut gaps = Vec::new();
    let mut from = begins as i64;
    for stretch in seconds[begins..ends].chunk_by(|one, next| one.is_told == next.is_told) {
        let until = from + stretch.len() as i64;
        gaps.extend((!stretch[0].is_told).then_some((from, until)));
        from = until;
    }
    let samples: Vec<Sample> = (0..).zip(&seconds).map(|(second, one)| one.to_sample(second, first)).collect();
    // pgbench never writes its last interval.
    let has_end = until.saturating_sub(end) <= END_SECONDS.max(width);
    let asked = if has_end { lasted } else { until - first };
    let measured = conclude(samples, width as f64, gaps, asked);
    let told_seconds = (until - end > END_SECONDS).then_some(lasted as f64);
    Ok(Measured { started_at: Timestamp::from_second(first).ok(), told_seconds, ..measured })
}

/// `asked` exceeds the number of samples if the log lacks the run's end.
fn conclude(samples: Vec<Sample>, width: f64, mut gaps: Vec<(i64, i64)>, asked: i64) -> Measured {
    let lasted = samples.len() as i64;
    gaps.push((lasted, asked));
    let spread = (width > 1.0).then(|| Finding::Assumed {
        what: format!(
            "the log has one value for each {width} s: pgthaw assumes an equal rate in all of these seconds, and shows no worst second"
        ),
        how: "make pgbench report each second (--progress=1, --aggregate-interval=1)".to_owned(),
    });
    Measured {
        is_by_second: width <= 1.0,
        told_seconds: (asked > lasted).then_some(lasted as f64),
        findings: spread.into_iter().chain(find_gaps(gaps, &samples, asked)).collect(),
        samples,
        ..Measured::default()
    }
}

/// With fewer expected transactions, a gap may be chance.
const EXPECTED_MIN: f64 = 20.0;

fn find_gaps(mut gaps: Vec<(i64, i64)>, samples: &[Sample], of_seconds: i64) -> Option<Finding> {
    let transactions: f64 = samples.iter().map(|sample| sample.transactions as f64).sum();
    let per_second = transactions / samples.len().max(1) as f64;
    gaps.retain(|(from, until)| from < until && (until - from) as f64 * per_second >= EXPECTED_MIN);
    let (from, until) = gaps.iter().max_by_key(|(from, until)| (until - from, -from))?;
    Some(Finding::LogGaps {
        seconds: gaps.iter().map(|(from, until)| (until - from) as u32).sum(),
        of_seconds: of_seconds as u32,
        longest_seconds: (until - from) as u32,
        longest_after_seconds: *from as u32,
    })
}

fn spread(interval: &Interval, seconds: &mut [Second]) {
    let width = seconds.len() as u128;
    let counted_until = |place: u128| (u128::from(interval.transactions) * place / width) as u64;
    let has_any = interval.transactions > 0;
    for (place, second) in (0..).zip(seconds) {
        let share = counted_until(place + 1) - counted_until(place);
        second.transactions = second.transactions.saturating_add(share);
        second.weight += interval.transactions as f64 / width as f64;
        second.latency_us_sum += interval.latency_us_sum / width as f64;
        second.latency_us_squares += interval.latency_us_squares / width as f64;
        let (min, max) = (interval.latency_us_min, interval.latency_us_max);
        second.latency_us_min = second.latency_us_min.into_iter().chain(has_any.then_some(min)).min();
        second.latency_us_max = second.latency_us_max.into_iter().chain(has_any.then_some(max)).max();
        second.is_told = true;
    }
}

/// `second` counts from 0, which is `begun_at`, in seconds since 1970 (0 if unknown).
fn empty_sample(second: i64, begun_at: i64) -> Sample {
    Sample {
        second: second as u32 + 1,
        monotonic_ms: (second as u64 + 1) * 1000,
        wall_ms: begun_at.saturating_add(second + 1).saturating_mul(1000),
        ..Sample::default()
    }
}

/// Columns: second since 1970, transactions, latencies in milliseconds.
fn read_tools_seconds(path: &Path) -> Result<Measured> {
    let mut intervals = Intervals::new();
    let parse =
        |line: &str| if line.starts_with("collected") { Some(None) } else { parse_tools_second(line).map(Some) };
    let (mut latest, mut back) = (i64::MIN, 0);
    for_each(path, parse, |second| {
        let at = second.map_or(latest, |(at, _)| at);
        back = back.max(latest.saturating_sub(at));
        latest = latest.max(at);
        intervals.extend(second);
    })?;
    let (Some((first, _)), Some((last, _))) = (intervals.first_key_value(), intervals.last_key_value()) else {
        return Ok(Measured::default());
    };
    let extent = (*first, last.saturating_add(1));
    let mut measured = from_intervals(&intervals, 1, extent, extent.1, &[path.to_owned()])?;
    measured.findings.extend(find_back(back as f64));
    Ok(measured)
}

fn parse_tools_second(line: &str) -> Option<(i64, Interval)> {
    let columns: Vec<f64> = line.split(',').map(|column| column.trim().parse().ok()).collect::<Option<_>>()?;
    let [second, transactions, min, mean, max] = columns.as_slice() else { return None };
    let interval = Interval {
        transactions: *transactions as u64,
        latency_us_sum: mean * 1000.0 * transactions,
        latency_us_squares: 0.0,
        latency_us_min: (min * 1000.0) as u64,
        latency_us_max: (max * 1000.0) as u64,
    };
    Some((*second as i64, interval))
}

fn from_progress(progress: &[Progress], seconds: Option<u32>, seconds_max: i64) -> Measured {
    let Some(beginning) = Beginning::of(progress.iter().map(|one| (one.until_seconds, one.tps))) else {
        return Measured::default();
    };
    let (step, is_dated) = (beginning.width_seconds, beginning.start_seconds > EARLIEST_EPOCH);
    let start = if is_dated { beginning.start_seconds.round() } else { beginning.start_seconds };
    let begun_at = if is_dated { start as i64 } else { 0 };
    let mut samples: Vec<Sample> = Vec::new();
    let mut gaps = Vec::new();
    let (mut latest, mut back) = (f64::NEG_INFINITY, 0.0_f64);
    for one in progress {
        back = back.max(latest - one.until_seconds);
        latest = latest.max(one.until_seconds);
        let until = (one.until_seconds - start).round();
        if until > seconds_max as f64 || until <= samples.len() as f64 {
            continue;
        }
        let from = samples.len();
        // pgbench may report late. An interval of two steps means missing lines.
        if until - from as f64 >= 2.0 * step.max(1.0) {
            gaps.push((from as i64, (until - step) as i64));
        }
        samples.extend((from as i64..until as i64).map(|second| empty_sample(second, begun_at)));
        let width = (samples.len() - from) as f64;
        let transactions = (one.tps * width).round() as u64;
        for (place, second) in (0_u64..).zip(&mut samples[from..]) {
            let share = |count: u64| (transactions as f64 * count as f64 / width).floor() as u64;
            second.transactions = share(place + 1) - share(place);
            second.latency_us_mean = one.latency_ms_mean.map(|latency| latency * 1000.0);
        }
    }
    // A run may end between two lines.
    let before = if is_dated { 0 } else { start as i64 };
    let (lasted, asked) = (samples.len() as i64, (i64::from(seconds.unwrap_or_default()) - before).min(seconds_max));
    let has_end = ((asked - lasted) as f64) < 2.0 * step.max(1.0);
    let mut measured = conclude(samples, step.round(), gaps, if has_end { lasted } else { asked });
    measured.findings.extend(find_back(back));
    let left_out =
        [("pgbench was connecting", beginning.connecting_seconds), ("the file lacks them", beginning.missing_seconds)];
    measured.findings.extend(left_out.into_iter().filter(|(_, seconds)| *seconds > 0.0).map(|(why, seconds)| {
        let what = format!("the first {seconds:.1} s of the run are omitted: {why}");
        Finding::Assumed { what, how: "no action needed if only the rest of the run matters".to_owned() }
    }));
    Measured { started_at: is_dated.then(|| Timestamp::from_second(begun_at).ok()).flatten(), ..measured }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pgbench::PgbenchOutcome;

    fn counts(measured: &Measured) -> Vec<u64> {
        measured.samples.iter().map(|sample| sample.transactions).collect()
    }

    fn write(directory: &Path, name: &str, text: &str) -> PathBuf {
        let path = directory.join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    fn log(paths: Vec<PathBuf>, is_of_intervals: bool) -> Log {
        let survey = |path: &PathBuf| match is_of_intervals {
            true => Survey::of_intervals(path).unwrap(),
            false => Survey::of_transactions(path).unwrap(),
        };
        let mut whole = survey(&paths[0]);
        paths[1..].iter().for_each(|path| whole.merge(&survey(path)));
        Log { paths, written_at: Timestamp::UNIX_EPOCH, holds: whole }
    }

    #[test]
    fn wide_intervals_are_spread_without_losing_any() {
        let directory = tempfile::tempdir().unwrap();
        let one = write(directory.path(), "log.1", "1650260550 10 1000 0 80 120\n1650260555 7 700 0 90 110\n");
        let other = write(directory.path(), "log.1.1", "1650260550 1 50 0 50 50\n1650260555 0 0");
        let measured = read_intervals(&log(vec![one, other], true), None).unwrap();
        assert_eq!(measured.samples.len(), 10);
        assert_eq!(counts(&measured).iter().sum::<u64>(), 18);
        assert!(!measured.is_by_second && measured.findings[0].to_string().contains("5 s"), "{:?}", measured.findings);
        assert_eq!((measured.samples[0].latency_us_min, measured.samples[0].latency_us_max), (Some(50), Some(120)));
        assert_eq!(measured.samples[0].latency_us_mean, Some(1050.0 / 11.0));
    }

    #[test]
    fn threads_whose_intervals_begin_in_two_seconds_do_not_shorten_a_run() {
        let directory = tempfile::tempdir().unwrap();
        let one = write(directory.path(), "log.1", "1650260550 100 50 0 5 5\n1650260560 3 50 0 5 5\n");
        let other = write(directory.path(), "log.1.1", "1650260551 100 50 0 5 5\n");
        let both = log(vec![one.clone(), other], true);
        let measured = read_intervals(&both, Some(10)).unwrap();
        assert_eq!((measured.samples.len(), counts(&measured).iter().sum::<u64>()), (11, 203));
        assert!(measured.findings.iter().all(|finding| finding.kind() == "assumed"), "{:?}", measured.findings);
        let single = log(vec![write(directory.path(), "log.2", "1650260550 100 50 0 5 5\n")], true);
        assert_eq!(read_intervals(&single, Some(10)).unwrap().samples.len(), 10);
        let assumed = read_intervals(&single, None).unwrap();
        assert!(assumed.samples.len() == 1 && assumed.findings[0].remedy(true).contains("seconds="));
        assert_eq!(read_intervals(&log(vec![one], true), None).unwrap().samples.len(), 20);
    }

    #[test]
    fn transactions_become_seconds_and_latencies() {
        let directory = tempfile::tempdir().unwrap();
        let file = write(
            directory.path(),
            "pgbench_log.7",
            "0 0 100 0 1650260550 1\n1 0 300 0 1650260550 2\n0 1 failed 1 1650260552 3\n1 1 500 1 1650260552 4\n",
        );
        let measured = read_transactions(&log(vec![file], false), None, None, false).unwrap();
        assert_eq!(counts(&measured), [2, 0, 1]);
        assert_eq!(measured.scripts.len(), 2);
        assert_eq!((measured.scripts[1].failed, measured.latency.unwrap().count), (1, 3));
        assert_eq!(measured.started_at.unwrap().as_microsecond(), 1_650_260_549_999_702);
    }

    #[test]
    fn a_run_is_as_long_as_it_was_though_few_transactions_ended() {
        let directory = tempfile::tempdir().unwrap();
        let file = write(directory.path(), "a", "0 1 7500000 0 1650260558 0\n0 2 1100000 0 1650260559 100000\n");
        let few = log(vec![file], false);
        let measured = read_transactions(&few, None, None, false).unwrap();
        assert_eq!((counts(&measured), measured.lasted_seconds), (vec![0, 0, 0, 0, 0, 0, 0, 1, 1], Some(8.6)));
        assert!(measured.findings.is_empty(), "{:?}", measured.findings);
        let report = |transactions| PgbenchReport {
            outcome: Some(PgbenchOutcome { transactions, ..PgbenchOutcome::default() }),
            ..PgbenchReport::default()
        };
        let seconds = |transactions| {
            let measured = read_transactions(&few, Some(&report(transactions)), Some(20), false).unwrap();
            (measured.samples.len(), measured.told_seconds)
        };
        assert_eq!((seconds(2), seconds(3)), ((20, None), (9, Some(9.0))));
    }

    #[test]
    fn only_what_chance_does_not_explain_is_a_gap() {
        let of = |seconds: &[i64], per_second: u64| {
            let interval = Interval { transactions: per_second, ..Interval::default() };
            let intervals: Intervals = seconds.iter().map(|second| (1_650_260_550 + second, interval)).collect();
            let extent = (1_650_260_550, 1_650_260_551 + seconds.last().unwrap());
            from_intervals(&intervals, 1, extent, extent.1, &[]).unwrap().findings
        };
        let gap = Finding::LogGaps { seconds: 3, of_seconds: 8, longest_seconds: 2, longest_after_seconds: 5 };
        assert_eq!(of(&[0, 1, 2, 4, 7], 100), [gap]);
        assert!(of(&[0, 1, 2, 4, 7], 10).is_empty() && of(&[0, 1, 2, 3], 100).is_empty());
        let line = |until_seconds| Progress { until_seconds, tps: 100.0, latency_ms_mean: None, lag_ms_mean: None };
        let progress = from_progress(&[1.0, 2.0, 3.1, 6.0, 7.0].map(line), None, SECONDS_MAX);
        let gap = Finding::LogGaps { seconds: 2, of_seconds: 7, longest_seconds: 2, longest_after_seconds: 3 };
        assert_eq!(progress.findings, [gap]);
        let ended = from_progress(&[1.0, 2.0, 3.0].map(line), Some(10), SECONDS_MAX);
        let gap = Finding::LogGaps { seconds: 7, of_seconds: 10, longest_seconds: 7, longest_after_seconds: 3 };
        assert_eq!((ended.findings, ended.samples.len(), ended.told_seconds), (vec![gap], 3, Some(3.0)));
        let twice = from_progress(&[1.0, 2.0, 1.0, 2.0].map(line), Some(2), SECONDS_MAX);
        assert_eq!(twice.findings, [Finding::ClockSetBack { seconds: 1.0 }]);
    }

    #[test]
    fn logs_that_are_years_apart_are_not_of_one_run() {
        let directory = tempfile::tempdir().unwrap();
        let path = write(directory.path(), "a", "0 0 1 0 1175850568 1\n0 1 1 0 99999999999 1\n");
        let apart = read_transactions(&log(vec![path.clone()], false), None, None, false).unwrap_err();
        assert!(apart.to_string().contains("several runs"), "{apart}");
        std::fs::write(&path, "0 0 1 0 1175850568 1\nhello\n0 1 1 0 1175850568 1\n").unwrap();
        let torn = Survey::of_transactions(&path).unwrap_err();
        assert!(torn.to_string().contains("line 2: \"hello\""), "{torn}");
    }

    #[test]
    fn progress_is_spread_too_dated_or_not() {
        let line = |until_seconds, tps| Progress { until_seconds, tps, latency_ms_mean: Some(2.0), lag_ms_mean: None };
        let measured = from_progress(&[line(1.0, 10.0), line(2.0, 20.4), line(3.0, 0.0)], None, SECONDS_MAX);
        assert_eq!((counts(&measured), measured.is_by_second), (vec![10, 20, 0], true));
        let measured = from_progress(&[line(5.0, 10.0), line(10.0, 20.0)], None, SECONDS_MAX);
        assert_eq!((measured.samples.len(), counts(&measured).iter().sum::<u64>()), (10, 150));
        let measured = from_progress(&[line(1_650_260_555.3, 10.0), line(1_650_260_560.3, 20.0)], None, SECONDS_MAX);
        assert_eq!((measured.samples.len(), measured.started_at.unwrap().as_second()), (10, 1_650_260_550));
        assert!(from_progress(&[line(1e300, 1.0)], None, SECONDS_MAX).samples.is_empty());
    }
}
