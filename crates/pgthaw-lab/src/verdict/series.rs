use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::study::{Checkpoint, Join, MEASURES, Sample, SweepTrial};
use model::{StallSpan, find_stalls};
use observe::{OsSample, WaitSample, Waits};
use postgres::Wait;

/// A trial's curves, one column each. Minima and maxima keep a stall of one second visible.
#[derive(Clone, Debug, Default, PartialEq, Serialize, crate::JsonSchema, crate::TS)]
pub struct TrialSeries {
    /// Number of seconds in a span.
    pub width: u32,
    /// End of each span in seconds since the start of pgbench.
    pub second: Vec<u32>,
    pub tps: Envelope,
    /// Microseconds. `None` in a span without transactions.
    pub latency_us_mean: Vec<Option<f64>>,
    pub latency_us_min: Vec<Option<u64>>,
    pub latency_us_max: Vec<Option<u64>>,
    pub latency_us_deviation: Vec<Option<f64>>,
    /// Bytes per second that the workload's own backends read from the device.
    pub foreground_read_bytes: Vec<f64>,
    /// Bytes per second that all processes read from the device.
    pub device_read_bytes: Envelope,
    /// Reads per second, by all processes.
    pub device_reads: Vec<f64>,
    /// Bytes of the benchmark database in the page cache: the minimum of each span.
    pub os_resident_bytes: Vec<u64>,
    /// Means of the columns in docs/measures.md. `read_await_us`, `write_await_us`, `dirty_bytes` and `writeback_bytes`
    /// are maxima. `device_writes`, `device_written_bytes` and `server_involuntary_switches` also exist with `_min` and
    /// `_max`. `None` without measurements of the machine.
    pub machine: Option<BTreeMap<String, Column>>,
    /// Most frequent first.
    pub waits: Vec<WaitSeries>,
    pub stalls: Vec<Stall>,
    pub flushes: Option<FlushFigures>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, crate::JsonSchema, crate::TS)]
pub struct Envelope {
    pub mean: Vec<f64>,
    pub min: Vec<f64>,
    pub max: Vec<f64>,
}

impl Envelope {
    fn push(&mut self, values: impl Iterator<Item = f64> + Clone) {
        self.mean.push(rounded_mean(values.clone()));
        self.min.push(values.clone().fold(f64::INFINITY, f64::min));
        self.max.push(values.fold(f64::NEG_INFINITY, f64::max));
    }
}

impl TrialSeries {
    pub fn new(trial: &SweepTrial, spans_max: u32) -> TrialSeries {
        let width = (trial.samples.len() as u32).div_ceil(spans_max.max(1)).max(1);
        let mut series = TrialSeries { width, ..TrialSeries::default() };
        trial.samples.chunks(width as usize).for_each(|span| series.push(span));
        if !trial.os_samples.is_empty() {
            let spans = spans_of(&series.second, &trial.os_samples, |sample| sample.second);
            series.machine = Some(compute_machine_series(&spans));
        }
        series.waits = compute_wait_series(&spans_of(&series.second, &trial.wait_samples, |sample| sample.second));
        let rates: Vec<f64> = trial.samples.iter().map(|sample| sample.transactions as f64).collect();
        series.stalls = find_stalls(&rates, 1).into_iter().map(|span| describe(trial, span)).collect();
        series.flushes = FlushFigures::of(trial);
        series
    }

    /// `span` must not be empty.
    fn push(&mut self, span: &[Sample]) {
        self.second.push(span.last().map_or(0, |sample| sample.second));
        self.tps.push(span.iter().map(|sample| sample.transactions as f64));
        self.latency_us_mean.push(mean_latency(span));
        self.latency_us_min.push(span.iter().filter_map(|sample| sample.latency_us_min).min());
        self.latency_us_max.push(span.iter().filter_map(|sample| sample.latency_us_max).max());
        self.latency_us_deviation.push(latency_deviation(span));
        self.foreground_read_bytes.push(rounded_mean(span.iter().map(|sample| sample.foreground_read_bytes.0 as f64)));
        self.device_read_bytes.push(span.iter().map(|sample| sample.device_read_bytes.0 as f64));
        self.device_reads.push(rounded_mean(span.iter().map(|sample| sample.device_reads as f64)));
        self.os_resident_bytes.push(span.iter().map(|sample| sample.os_resident_bytes.0).min().unwrap_or(0));
    }
}

/// `ends` has the last second of each span. Samples must be sorted by second.
fn spans_of<'a, T>(ends: &[u32], samples: &'a [T], second: impl Fn(&T) -> u32) -> Vec<&'a [T]> {
    let mut from = 0;
    let mut span = |end: &u32| {
        let until = from + samples[from..].partition_point(|sample| second(sample) <= *end);
        &samples[std::mem::replace(&mut from, until)..until]
    };
    ends.iter().map(&mut span).collect()
}

fn mean_latency(span: &[Sample]) -> Option<f64> {
    let served = span.iter().filter_map(|sample| Some((sample.latency_us_mean?, sample.transactions as f64)));
    let (sum, count) = served.fold((0.0, 0.0), |(sum, count), (mean, served)| (sum + mean * served, count + served));
    (count > 0.0).then(|| round(sum / count))
}

fn latency_deviation(span: &[Sample]) -> Option<f64> {
    let all = mean_latency(span)?;
    let served = span.iter().filter_map(|sample| Some((sample.latency_us_mean?, sample)));
    let (mut squares, mut count) = (0.0, 0.0);
    for (mean, sample) in served.filter(|(_, sample)| sample.transactions > 0) {
        let transactions = sample.transactions as f64;
        squares += transactions * (sample.latency_us_deviation?.powi(2) + (mean - all).powi(2));
        count += transactions;
    }
    Some(round((squares / count).sqrt()))
}

pub type Column = Vec<Option<f64>>;

/// Rounds to three decimals, to keep the page small.
fn round(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    (count > 0.0).then(|| sum / count)
}

fn rounded_mean(values: impl Iterator<Item = f64>) -> f64 {
    mean(values).map_or(0.0, round)
}

/// Values are `None` in a span without measurements.
fn compute_machine_series(spans: &[&[OsSample]]) -> BTreeMap<String, Column> {
    let mut series = BTreeMap::new();
    for measure in MEASURES {
        let Some(name) = measure.column else { continue };
        let of = measure.of;
        let values = || spans.iter().map(move |span| span.iter().filter_map(of));
        let most = || values().map(|span| span.reduce(f64::max).map(f64::round)).collect();
        let means = || values().map(|span| mean(span).map(round)).collect();
        series.insert(name.to_owned(), if measure.join == Join::Most { most() } else { means() });
        if measure.join == Join::Band {
            series.insert(format!("{name}_min"), values().map(|span| span.reduce(f64::min)).collect());
            series.insert(format!("{name}_max"), most());
        }
    }
    series
}

const KINDS_MAX: usize = 7;

#[derive(Clone, Debug, PartialEq, Serialize, crate::JsonSchema, crate::TS)]
pub struct WaitSeries {
    /// Class of wait events, such as `IO`. `None` means on a processor, or ready to run. `Others` is the sum of the
    /// other events.
    pub kind: Option<String>,
    pub event: Option<String>,
    /// Mean number of backends in each span.
    pub processes: Column,
}

type Event<'a> = (Option<&'a str>, Option<&'a str>);

fn compute_wait_series(spans: &[&[WaitSample]]) -> Vec<WaitSeries> {
    let spans: Vec<Waits> = spans.iter().map(|span| Waits::total(*span)).collect();
    let mut totals: BTreeMap<Event<'_>, u64> = BTreeMap::new();
    for (event, observed) in spans.iter().flat_map(events_of) {
        *totals.entry(event).or_default() += observed;
    }
    let mut kinds: Vec<Event<'_>> = totals.keys().copied().collect();
    kinds.sort_by_key(|event| std::cmp::Reverse(totals[event]));
    let shown = if kinds.len() > KINDS_MAX + 1 { KINDS_MAX } else { kinds.len() };
    let (own, left) = kinds.split_at(shown);
    let series = |(kind, event): Event<'_>, counted: &[Event<'_>]| WaitSeries {
        kind: kind.map(str::to_owned),
        event: event.map(str::to_owned),
        processes: spans.iter().map(|span| (span.looks > 0).then(|| round(mean_processes(span, counted)))).collect(),
    };
    let mut all: Vec<WaitSeries> = own.iter().map(|event| series(*event, &[*event])).collect();
    if !left.is_empty() {
        all.push(series((Some("Others"), None), left));
    }
    all
}

/// Events with their number of processes. Ignores background processes, which also wait when they are idle.
fn events_of(waits: &Waits) -> impl Iterator<Item = (Event<'_>, u64)> {
    let is_of_workload = |wait: &Wait| matches!(wait.backend.as_str(), "client backend" | "parallel worker");
    let own = waits.waits.iter().filter(move |one| is_of_workload(&one.wait));
    own.map(|one| ((one.wait.event_type.as_deref(), one.wait.event.as_deref()), one.observed.into()))
}

fn mean_processes(waits: &Waits, counted: &[Event<'_>]) -> f64 {
    let seen = events_of(waits).filter(|(event, _)| counted.contains(event));
    // Sums integers, because an empty sum of floats is -0.
    seen.map(|(_, observed)| observed).sum::<u64>() as f64 / f64::from(waits.looks.max(1))
}

/// A stall is compared with this many seconds before it.
const SECONDS_BEFORE: u32 = 30;

/// A wait explains a stall if the mean number of backends in this wait rises by at least this share of the clients.
const TELLING: f64 = 0.1;

#[derive(Clone, Debug, PartialEq, Serialize, crate::JsonSchema, crate::TS)]
pub struct Stall {
    /// The stall begins at the end of `from_second`.
    pub from_second: u32,
    pub until_second: u32,
    pub least_tps: f64,
    pub usual_tps: f64,
    /// Sentences about the stall: the wait that grew most, and what checkpoints did meanwhile.
    pub seen: Vec<String>,
}

fn describe(trial: &SweepTrial, span: StallSpan) -> Stall {
    let second = |place: usize| trial.samples.get(place).map_or(0, |sample| sample.second);
    let (from_second, until_second) = (second(span.steps.start).saturating_sub(1), second(span.steps.end - 1));
    let within = |from: u32, until: u32| {
        Waits::total(trial.wait_samples.iter().filter(|one| one.second > from && one.second <= until))
    };
    let before = within(from_second.saturating_sub(SECONDS_BEFORE), from_second);
    let wait = find_wait(&within(from_second, until_second), &before, trial.point.clients);
    let checkpoints = trial.checkpoints.iter().filter_map(|one| overlap(one, from_second, until_second));
    Stall {
        from_second,
        until_second,
        least_tps: span.least,
        usual_tps: span.usual,
        seen: wait.into_iter().chain(checkpoints).collect(),
    }
}

fn find_wait(during: &Waits, before: &Waits, clients: u32) -> Option<String> {
    let events: BTreeSet<Event<'_>> = events_of(during).map(|(event, _)| event).collect();
    let mean = |waits: &Waits, event| mean_processes(waits, &[event]);
    let both = events.into_iter().map(|event| (event, mean(during, event), mean(before, event)));
    let most = both.max_by(|one, other| (one.1 - one.2).total_cmp(&(other.1 - other.2)));
    let ((kind, event), now, earlier) = most.filter(|most| most.1 - most.2 >= TELLING * f64::from(clients))?;
    let what = match (kind, event) {
        (Some("Client"), _) => "waited for pgbench".to_owned(),
        (Some(kind), Some(event)) => format!("waited for {kind} {event}"),
        _ => "were running or ready to run".to_owned(),
    };
    Some(format!("{now:.1} of {clients} backends {what} ({earlier:.1} before)"))
}

fn overlap(checkpoint: &Checkpoint, from_second: u32, until_second: u32) -> Option<String> {
    let common = |begin: f64, end: f64| end.min(f64::from(until_second)) - begin.max(f64::from(from_second));
    let Checkpoint { ended_after_seconds: end, write_seconds, total_seconds, reason, .. } = checkpoint;
    let begin = end - total_seconds;
    let written = begin + write_seconds;
    let phases = [("wrote buffers", common(begin, written)), ("synchronised files", common(written, *end))];
    let did: Vec<&str> = phases.into_iter().filter(|(_, seconds)| *seconds > 0.0).map(|(phase, _)| phase).collect();
    let reason = if reason.is_empty() { String::new() } else { format!(" ({reason})") };
    (!did.is_empty()).then(|| format!("a checkpoint{reason} {}", did.join(" and ")))
}

/// PostgreSQL's default for commit_siblings.
const COMMIT_SIBLINGS: &str = "5";

/// Flushes of WAL, counted by the server and seen in samples.
#[derive(Clone, Debug, Default, PartialEq, Serialize, crate::JsonSchema, crate::TS)]
pub struct FlushFigures {
    /// From pg_stat_wal or pg_stat_io. `None` before PostgreSQL 14.
    pub per_second: Option<f64>,
    pub looks: u32,
    /// Samples that saw a flush in progress.
    pub seen: u32,
    /// Mean number of other transactions during a flush, as counted for `commit_siblings`.
    pub others: Option<f64>,
    pub commit_siblings: String,
}

impl FlushFigures {
    pub fn of(trial: &SweepTrial) -> Option<FlushFigures> {
        let flushes = trial.waits.flushes;
        let seconds = trial.lasted_seconds;
        let per_second = count_flushes(trial).filter(|_| seconds > 0.0).map(|count| count / seconds);
        let set = trial.settings.iter().find(|(name, _)| name == "commit_siblings").map(|(_, value)| value.clone());
        let figures = FlushFigures {
            per_second,
            looks: trial.waits.looks,
            seen: flushes.looks,
            others: (flushes.looks > 0).then(|| f64::from(flushes.others) / f64::from(flushes.looks)),
            commit_siblings: set.unwrap_or_else(|| COMMIT_SIBLINGS.to_owned()),
        };
        (per_second.is_some() || flushes.looks > 0).then_some(figures)
    }
}

/// pg_stat_wal counts WAL flushes until PostgreSQL 17, pg_stat_io since 18.
fn count_flushes(trial: &SweepTrial) -> Option<f64> {
    let own = trial.statistics.0.get("pg_stat_wal").into_iter().flatten();
    let of_wal = |key: &BTreeMap<String, String>| key.get("object").is_some_and(|object| object == "wal");
    let of_io = trial.statistics.0.get("pg_stat_io").into_iter().flatten().filter(|row| of_wal(&row.key));
    let counted =
        own.filter_map(|row| row.added.get("wal_sync")).chain(of_io.filter_map(|row| row.added.get("fsyncs")));
    counted.copied().reduce(|sum, added| sum + added)
}

#[cfg(test)]
mod tests {
    use super::*;
    use host::units::Bytes;

    fn second(second: u32, transactions: u64, latency: u64) -> Sample {
        Sample {
            second,
            monotonic_ms: 0,
            wall_ms: 0,
            transactions,
            latency_us_mean: (transactions > 0).then_some(latency as f64),
            latency_us_min: (transactions > 0).then_some(latency / 2),
            latency_us_max: (transactions > 0).then_some(latency * 2),
            latency_us_deviation: (transactions > 0).then_some(3.0),
            foreground_read_bytes: Bytes(0),
            device_read_bytes: Bytes(1000 * u64::from(second)),
            device_reads: 1,
            os_resident_bytes: Bytes(100 - u64::from(second)),
        }
    }

    #[test]
    fn a_stall_of_a_second_stays_visible_however_many_are_joined() {
        let mut series = TrialSeries { width: 3, ..TrialSeries::default() };
        series.push(&[second(1, 100, 10), second(2, 0, 0), second(3, 200, 40)]);
        assert_eq!(series.second, [3]);
        assert_eq!((series.tps.mean[0], series.tps.min[0], series.tps.max[0]), (100.0, 0.0, 200.0));
        assert_eq!((series.latency_us_min[0], series.latency_us_max[0]), (Some(5), Some(80)));
        assert_eq!(series.latency_us_mean[0], Some(30.0));
        // 100 around 10 and 200 around 40: variance 200 between the means and 9 within.
        assert_eq!(series.latency_us_deviation[0], Some(14.457));
        assert_eq!((series.device_read_bytes.max[0], series.os_resident_bytes[0]), (3000.0, 97));
        series.push(&[second(4, 0, 0)]);
        assert_eq!((series.latency_us_mean[1], series.latency_us_max[1]), (None, None));
    }

    #[test]
    fn samples_stand_in_the_span_of_their_second() {
        let spans = spans_of(&[3, 6, 9], &[1, 2, 3, 5, 8], |second| *second);
        assert_eq!(spans, [&[1, 2, 3][..], &[5], &[8]]);
        assert_eq!(spans_of(&[3, 6], &[5], |second| *second), [&[][..], &[5]]);
        assert_eq!((mean([2.0].into_iter()), mean([].into_iter())), (Some(2.0), None));
    }
}

#[cfg(test)]
mod waits_tests {
    use super::*;
    use observe::ObservedWait;

    fn sample(second: u32, seen: &[(&str, Option<&str>, u32)]) -> WaitSample {
        let waits = seen.iter().map(|(backend, event, observed)| ObservedWait {
            wait: Wait {
                backend: (*backend).into(),
                state: Some("active".into()),
                event_type: event.map(|_| "IO".into()),
                event: event.map(str::to_owned),
            },
            observed: *observed,
        });
        WaitSample { second, seen: Waits { looks: 4, waits: waits.collect(), ..Waits::default() } }
    }

    #[test]
    fn the_most_frequent_kinds_have_curves_and_the_rest_are_added_up() {
        let names: Vec<String> = (0..10).map(|number| format!("Event{number}")).collect();
        let mut seen: Vec<(&str, Option<&str>, u32)> =
            names.iter().map(|name| ("client backend", Some(name.as_str()), 4)).collect();
        seen.push(("client backend", None, 40));
        seen.push(("checkpointer", Some("DataFileSync"), 400));
        let (one, none) = ([sample(1, &seen)], []);
        let series = compute_wait_series(&[&one, &none]);
        assert_eq!(series.len(), KINDS_MAX + 1);
        assert_eq!((&series[0].event, &series[0].processes), (&None, &vec![Some(10.0), None]));
        let last = series.last().unwrap();
        assert_eq!((last.kind.as_deref(), last.processes[0]), (Some("Others"), Some(4.0)));
        assert!(compute_wait_series(&[&none]).is_empty());
    }
}

#[cfg(test)]
mod stall_tests {
    use super::*;
    use observe::{ObservedWait, Waits};
    use postgres::Wait;

    #[test]
    fn what_was_seen_is_named() {
        let sample = |second: u32, event: Option<&str>, observed: u32| WaitSample {
            second,
            seen: Waits {
                looks: 4,
                waits: vec![ObservedWait {
                    wait: Wait {
                        backend: "client backend".into(),
                        state: Some("active".into()),
                        event_type: event.map(|_| "LWLock".into()),
                        event: event.map(str::to_owned),
                    },
                    observed,
                }],
                ..Waits::default()
            },
        };
        let before = Waits::total(&(1..10).map(|second| sample(second, None, 32)).collect::<Vec<_>>());
        let during = |event| Waits::total(&[event]);
        let told = find_wait(&during(sample(10, Some("WALWrite"), 28)), &before, 8).unwrap();
        assert_eq!(told, "7.0 of 8 backends waited for LWLock WALWrite (0.0 before)");
        assert_eq!(find_wait(&during(sample(10, None, 33)), &before, 8), None);
        let checkpoint = Checkpoint {
            began_after_seconds: 10.0,
            ended_after_seconds: 20.0,
            reason: "time".into(),
            buffers: 1,
            write_seconds: 8.0,
            sync_seconds: 2.0,
            total_seconds: 10.0,
            sync_files: 1,
            longest_sync_seconds: 1.0,
        };
        assert_eq!(overlap(&checkpoint, 12, 14).unwrap(), "a checkpoint (time) wrote buffers");
        assert_eq!(overlap(&checkpoint, 18, 19).unwrap(), "a checkpoint (time) synchronised files");
        assert_eq!(overlap(&checkpoint, 20, 22), None);
    }
}

#[cfg(test)]
mod flushes_tests {
    use serde_json::json;

    use super::*;
    use crate::study::record::tests::trial;
    use observe::{Flushes, Waits};

    #[test]
    fn flushes_are_told_beside_commit_siblings() {
        assert_eq!(FlushFigures::of(&trial()), None);
        let waits = Waits { looks: 40, flushes: Flushes { looks: 10, others: 35 }, ..Waits::default() };
        let of = |statistics: serde_json::Value, settings: Vec<(String, String)>| {
            let statistics = serde_json::from_value(statistics).unwrap();
            FlushFigures::of(&crate::study::SweepTrial {
                lasted_seconds: 10.0,
                waits: waits.clone(),
                statistics,
                settings,
                ..trial()
            })
            .unwrap()
        };
        let of_wal_view = of(json!({ "pg_stat_wal": [{ "key": {}, "added": { "wal_sync": 500.0 } }] }), Vec::new());
        assert_eq!(
            (of_wal_view.per_second, of_wal_view.others, of_wal_view.commit_siblings.as_str()),
            (Some(50.0), Some(3.5), "5")
        );
        let row = |object: &str| json!({ "key": { "object": object }, "added": { "fsyncs": 300.0 } });
        let of_io_view = of(
            json!({ "pg_stat_io": [row("wal"), row("relation"), row("wal")] }),
            vec![("commit_siblings".into(), "9".into())],
        );
        assert_eq!(
            (of_io_view.per_second, of_io_view.seen, of_io_view.commit_siblings.as_str()),
            (Some(60.0), 10, "9")
        );
        assert_eq!(of(json!({}), Vec::new()).per_second, None);
    }
}
