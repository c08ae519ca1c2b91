//! From the files of a trial to its seconds and latencies: from the finest that there is.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::files::TrialFiles;
use crate::files::open_regular;
use crate::pgbench::{Interval, Intervals, PgbenchReport, Progress, TransactionEnd, parse_interval, parse_transaction};
use crate::study::error::Error;
use crate::study::finding::Finding;
use crate::study::record::Sample;
use crate::study::sweep::histogram::{LatencyHistogram, ScriptLatency};
use crate::study::sweep::latency::Latencies;
use crate::units::Bytes;

/// A trial that lasts longer was put together of several.
const SECONDS_MAX: i64 = 31 * 24 * 3600;

/// So many seconds may be told by files of no size, and by each of their bytes: a line of 40 bytes that stands for an hour is
/// believed. Every second takes memory, whatever little was written of it.
const SECONDS_MIN: u64 = 10_000;
const SECONDS_PER_BYTE: u64 = 1000;

/// pgbench takes at most so many scripts (MAX_SCRIPTS in pgbench.c).
const SCRIPTS_MAX: u32 = 128;

/// What the files say of the time.
#[derive(Debug, Default)]
pub struct Measured {
    pub started_at: Option<Timestamp>,
    pub samples: Vec<Sample>,
    pub latency: Option<LatencyHistogram>,
    pub scripts: Vec<ScriptLatency>,
    /// As many as the log names.
    pub clients: Option<u32>,
    /// Does the log tell that transactions were due at times?
    pub has_rate: bool,
    /// Is a second what was counted within it, and not a part of a longer interval?
    pub is_by_second: bool,
    /// What speaks against it already.
    pub findings: Vec<Finding>,
}

/// Reads the trial. `has_rate`: is it known that transactions were due at times, whatever the log tells of it?
pub fn read_trial(files: &TrialFiles, has_rate: bool) -> Result<Measured, Error> {
    let report = files.report.as_ref().map(|(_, report)| report);
    if !files.transactions.is_empty() {
        return read_transactions(&files.transactions, report, has_rate);
    }
    if !files.intervals.is_empty() {
        return read_intervals(&files.intervals);
    }
    if let Some(path) = &files.tools_seconds {
        return read_tools_seconds(path);
    }
    let path = files.report.as_ref().map(|(path, _)| std::slice::from_ref(path));
    Ok(report
        .map_or_else(Measured::default, |report| from_progress(&report.progress, longest(path.unwrap_or_default()))))
}

fn read_transactions(paths: &[PathBuf], report: Option<&PgbenchReport>, mut has_rate: bool) -> Result<Measured, Error> {
    // Without a report only transactions that were due too long ago tell of a rate: the last column is the waiting or the
    // retries.
    let (mut scripts, mut clients) = (0, 0);
    for_each(paths, parse_transaction, |one| {
        scripts = scripts.max(one.script.saturating_add(1));
        clients = clients.max(one.client.saturating_add(1));
        has_rate |= one.ended == TransactionEnd::Skipped;
    })?;
    if scripts > SCRIPTS_MAX {
        return Err(Error::Import(format!("{}: pgbench has no {scripts} scripts", paths[0].display())));
    }
    let mix = report.map(|report| report.mix.as_slice()).unwrap_or_default();
    let names = match (scripts, report.and_then(|report| report.script.clone())) {
        (1, Some(name)) if mix.is_empty() => vec![name],
        _ if mix.len() >= scripts as usize => mix.iter().map(|(name, _)| name.clone()).collect(),
        _ => (0..scripts).map(|place| format!("script {place}")).collect(),
    };
    let mut latencies = Latencies::new(names, has_rate);
    for_each(paths, parse_transaction, |one| latencies.add(one))?;
    let measured = from_intervals(&latencies.intervals, 1, paths)?;
    Ok(Measured {
        latency: Some(latencies.overall()),
        scripts: latencies.scripts(),
        clients: Some(clients),
        has_rate,
        ..measured
    })
}

fn read_intervals(paths: &[PathBuf]) -> Result<Measured, Error> {
    let mut intervals = Intervals::new();
    for_each(paths, parse_interval, |(begun_at, interval)| intervals.entry(begun_at).or_default().merge(interval))?;
    let width =
        intervals.keys().zip(intervals.keys().skip(1)).map(|(one, next)| next.saturating_sub(*one)).min().unwrap_or(1);
    from_intervals(&intervals, width, paths)
}

/// A line of them is short.
const LINE_BYTES_MAX: u64 = 1 << 16;

/// Shows what each line of the files means. One that means nothing is told, unless it is the torn end of a file.
fn for_each<T>(paths: &[PathBuf], parse: impl Fn(&str) -> Option<T>, mut visit: impl FnMut(T)) -> Result<(), Error> {
    for path in paths {
        let failed = |source| Error::file("read", path, source);
        let mut lines = BufReader::new(open_regular(path).map_err(failed)?);
        let (mut line, mut number) = (String::new(), 0);
        while (&mut lines).take(LINE_BYTES_MAX).read_line(&mut line).map_err(failed)? > 0 {
            number += 1;
            match parse(line.trim_end()) {
                Some(meaning) => visit(meaning),
                None if !line.ends_with('\n') => {}
                None => {
                    let text = line.trim_end().chars().take(80).collect::<String>();
                    return Err(Error::Import(format!("{}, line {number} makes no sense: {text:?}", path.display())));
                }
            }
            line.clear();
        }
    }
    Ok(())
}

/// How long a trial may have lasted of which no more than this is told.
fn longest(paths: &[PathBuf]) -> i64 {
    let bytes: u64 = paths.iter().filter_map(|path| Some(path.metadata().ok()?.len())).sum();
    let seconds = SECONDS_MIN + bytes.saturating_mul(SECONDS_PER_BYTE);
    i64::try_from(seconds).map_or(SECONDS_MAX, |seconds| seconds.min(SECONDS_MAX))
}

/// Intervals of so many seconds. A wide one is spread over its seconds.
fn from_intervals(intervals: &Intervals, width: i64, paths: &[PathBuf]) -> Result<Measured, Error> {
    let (Some((first, _)), Some((last, _))) = (intervals.first_key_value(), intervals.last_key_value()) else {
        return Ok(Measured::default());
    };
    let end = last.saturating_add(width);
    let seconds = end.saturating_sub(*first);
    if width < 1 || seconds > longest(paths) {
        let path = paths.first().map_or(Path::new(""), PathBuf::as_path).display();
        return Err(Error::Import(format!("{path} lasts {seconds} s: these are logs of several runs")));
    }
    let mut samples: Vec<Sample> = (0..seconds).map(|second| empty_sample(second, *first)).collect();
    for (begun_at, interval) in intervals {
        let place = (begun_at - first) as usize;
        let room = &mut samples[place..(place + width as usize).min(seconds as usize)];
        spread(interval, room);
    }
    let gaps = intervals.keys().zip(intervals.keys().skip(1)).map(|(one, next)| (one + width - first, next - first));
    let findings = [(width > 1).then(|| find_spread(width as f64)), find_gaps(gaps, &samples)];
    Ok(Measured {
        started_at: Timestamp::from_second(*first).ok(),
        samples,
        is_by_second: width == 1,
        findings: findings.into_iter().flatten().collect(),
        ..Measured::default()
    })
}

fn find_spread(seconds: f64) -> Finding {
    Finding::Assumed {
        what: format!(
            "logged by intervals of {seconds} s, which are spread over their seconds: there is no worst second"
        ),
        how: "let pgbench tell each second (--progress=1, --aggregate-interval=1)".to_owned(),
    }
}

/// A stretch in which fewer transactions than this would have ended, by the mean, may be without one by chance.
const EXPECTED_MIN: f64 = 20.0;

/// Stretches of which nothing is told, each from one second after the start to another.
fn find_gaps(stretches: impl Iterator<Item = (i64, i64)>, samples: &[Sample]) -> Option<Finding> {
    let transactions: f64 = samples.iter().map(|sample| sample.transactions as f64).sum();
    let per_second = transactions / samples.len().max(1) as f64;
    let is_told = |(from, until): &(i64, i64)| (until - from) as f64 * per_second >= EXPECTED_MIN;
    let gaps: Vec<(i64, i64)> = stretches.filter(|(from, until)| from < until).filter(is_told).collect();
    let (from, until) = gaps.iter().max_by_key(|(from, until)| (until - from, -from))?;
    Some(Finding::LogGaps {
        seconds: gaps.iter().map(|(from, until)| (until - from) as u32).sum(),
        of_seconds: samples.len() as u32,
        longest_seconds: (until - from) as u32,
        longest_after_seconds: *from as u32,
    })
}

/// As even as whole transactions are.
fn spread(interval: &Interval, seconds: &mut [Sample]) {
    let width = seconds.len() as u128;
    let counted_until = |place: u128| (u128::from(interval.transactions) * place / width) as u64;
    for (place, second) in (0..).zip(seconds) {
        second.transactions = counted_until(place + 1) - counted_until(place);
        second.latency_us_mean = interval.latency_us_mean();
        let has_any = interval.transactions > 0;
        second.latency_us_min = has_any.then_some(interval.latency_us_min);
        second.latency_us_max = has_any.then_some(interval.latency_us_max);
    }
}

/// A second, from 0, of a trial that began at this second since 1970.
fn empty_sample(second: i64, begun_at: i64) -> Sample {
    Sample {
        second: second as u32 + 1,
        monotonic_ms: (second as u64 + 1) * 1000,
        wall_ms: begun_at.saturating_add(second + 1).saturating_mul(1000),
        transactions: 0,
        latency_us_mean: None,
        latency_us_min: None,
        latency_us_max: None,
        foreground_read_bytes: Bytes(0),
        device_read_bytes: Bytes(0),
        device_reads: 0,
        os_resident_bytes: Bytes(0),
    }
}

/// pgbench-tools' table: second since 1970, transactions, and latencies in milliseconds.
fn read_tools_seconds(path: &Path) -> Result<Measured, Error> {
    let mut intervals = Intervals::new();
    let parse = |line: &str| match line.starts_with("collected") {
        true => Some(None),
        false => parse_tools_second(line).map(Some),
    };
    let paths = [path.to_owned()];
    for_each(&paths, parse, |second| intervals.extend(second))?;
    from_intervals(&intervals, 1, &paths)
}

fn parse_tools_second(line: &str) -> Option<(i64, Interval)> {
    let columns: Vec<f64> = line.split(',').map(|column| column.trim().parse().ok()).collect::<Option<_>>()?;
    let [second, transactions, min, mean, max] = columns.as_slice() else { return None };
    let interval = Interval {
        transactions: *transactions as u64,
        latency_us_sum: mean * 1000.0 * transactions,
        latency_us_min: (min * 1000.0) as u64,
        latency_us_max: (max * 1000.0) as u64,
    };
    Some((*second as i64, interval))
}

/// The lines of `--progress`, however far apart, of the first `seconds_max` seconds.
fn from_progress(progress: &[Progress], seconds_max: i64) -> Measured {
    let Some(first) = progress.first() else { return Measured::default() };
    // With --progress-timestamp the time is since 1970, and the first interval is as long as the second.
    let is_dated = first.until_seconds > 1e9;
    let step = progress.get(1).map_or(first.until_seconds, |second| second.until_seconds - first.until_seconds);
    let start = if is_dated { (first.until_seconds - step).round() } else { 0.0 };
    let begun_at = if is_dated { start as i64 } else { 0 };
    let mut samples: Vec<Sample> = Vec::new();
    let mut gaps = Vec::new();
    for one in progress {
        let until = (one.until_seconds - start).round();
        if until > seconds_max as f64 || until <= samples.len() as f64 {
            continue;
        }
        let from = samples.len();
        // pgbench tells late rather than early: a line that stands for twice the time follows on others that are missing.
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
    let findings = [(step.round() > 1.0).then(|| find_spread(step.round())), find_gaps(gaps.into_iter(), &samples)];
    Measured {
        started_at: is_dated.then(|| Timestamp::from_second(begun_at).ok()).flatten(),
        is_by_second: step.round() <= 1.0,
        findings: findings.into_iter().flatten().collect(),
        samples,
        ..Measured::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(measured: &Measured) -> Vec<u64> {
        measured.samples.iter().map(|sample| sample.transactions).collect()
    }

    fn write(directory: &Path, name: &str, text: &str) -> PathBuf {
        let path = directory.join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    #[test]
    fn wide_intervals_are_spread_without_losing_any() {
        let directory = tempfile::tempdir().unwrap();
        let one = write(directory.path(), "log.1", "1650260550 10 1000 0 80 120\n1650260555 7 700 0 90 110\n");
        let other = write(directory.path(), "log.1.1", "1650260550 1 50 0 50 50\n1650260555 0 0");
        let measured = read_intervals(&[one, other]).unwrap();
        assert_eq!(measured.samples.len(), 10);
        assert_eq!(counts(&measured).iter().sum::<u64>(), 18);
        assert!(!measured.is_by_second && measured.findings[0].sentence().contains("5 s"), "{:?}", measured.findings);
        assert_eq!(measured.samples[0].latency_us_min, Some(50));
    }

    #[test]
    fn transactions_become_seconds_and_latencies() {
        let directory = tempfile::tempdir().unwrap();
        let log = write(
            directory.path(),
            "pgbench_log.7",
            "0 0 100 0 1650260550 1\n1 0 300 0 1650260550 2\n0 1 failed 1 1650260552 3\n1 1 500 1 1650260552 4\n",
        );
        let measured = read_transactions(&[log], None, false).unwrap();
        assert_eq!(counts(&measured), [2, 0, 1]);
        assert_eq!((measured.clients, measured.scripts.len()), (Some(2), 2));
        assert_eq!((measured.scripts[1].failed, measured.latency.unwrap().count), (1, 3));
        assert_eq!(measured.started_at.unwrap().as_second(), 1_650_260_550);
    }

    #[test]
    fn only_what_chance_does_not_explain_is_a_gap() {
        let of = |seconds: &[i64], per_second: u64| {
            let interval = Interval { transactions: per_second, ..Interval::default() };
            let intervals: Intervals = seconds.iter().map(|second| (1_650_260_550 + second, interval)).collect();
            from_intervals(&intervals, 1, &[]).unwrap().findings
        };
        let gap = Finding::LogGaps { seconds: 3, of_seconds: 8, longest_seconds: 2, longest_after_seconds: 5 };
        assert_eq!(of(&[0, 1, 2, 4, 7], 100), [gap]);
        assert!(of(&[0, 1, 2, 4, 7], 10).is_empty() && of(&[0, 1, 2, 3], 100).is_empty());
        let line = |until_seconds| Progress { until_seconds, tps: 100.0, latency_ms_mean: None, has_lag: false };
        let progress = from_progress(&[1.0, 2.0, 3.1, 6.0, 7.0].map(line), SECONDS_MAX);
        let gap = Finding::LogGaps { seconds: 2, of_seconds: 7, longest_seconds: 2, longest_after_seconds: 3 };
        assert_eq!(progress.findings, [gap]);
    }

    #[test]
    fn logs_that_are_years_apart_are_not_of_one_run() {
        let directory = tempfile::tempdir().unwrap();
        let log = write(directory.path(), "a", "0 0 1 0 1175850568 1\n0 1 1 0 99999999999 1\n");
        assert!(
            read_transactions(std::slice::from_ref(&log), None, false)
                .unwrap_err()
                .to_string()
                .contains("several runs")
        );
        std::fs::write(&log, "0 0 1 0 1175850568 1\nhello\n0 1 1 0 1175850568 1\n").unwrap();
        assert!(
            read_transactions(&[log], None, false)
                .unwrap_err()
                .to_string()
                .contains("line 2 makes no sense: \"hello\"")
        );
    }

    #[test]
    fn progress_is_spread_too_dated_or_not() {
        let line = |until_seconds, tps| Progress { until_seconds, tps, latency_ms_mean: Some(2.0), has_lag: false };
        let measured = from_progress(&[line(1.0, 10.0), line(2.0, 20.4), line(3.0, 0.0)], SECONDS_MAX);
        assert_eq!((counts(&measured), measured.is_by_second), (vec![10, 20, 0], true));
        let measured = from_progress(&[line(5.0, 10.0), line(10.0, 20.0)], SECONDS_MAX);
        assert_eq!((measured.samples.len(), counts(&measured).iter().sum::<u64>()), (10, 150));
        let measured = from_progress(&[line(1_650_260_555.3, 10.0), line(1_650_260_560.3, 20.0)], SECONDS_MAX);
        assert_eq!((measured.samples.len(), measured.started_at.unwrap().as_second()), (10, 1_650_260_550));
        assert!(from_progress(&[line(1e300, 1.0)], SECONDS_MAX).samples.is_empty());
    }
}
