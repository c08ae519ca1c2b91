//! The seconds of a trial as they are drawn: joined to spans where there are many, with the ends of each span kept.

mod column;
mod flushes;
mod machine;
mod stall;
mod waits;

use std::collections::BTreeMap;

use serde::Serialize;

pub use flushes::FlushFigures;
pub use stall::{Stall, compute_stalls};
pub use waits::{WaitSeries, compute_wait_series};

use column::{Column, mean, round};
use machine::compute_machine_series;

use crate::study::{Sample, SweepTrial};

/// A trial's curves, column by column. In spans of more than a second each has its least and its most beside its mean: a
/// stall of one second stays visible however many are joined.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct TrialSeries {
    /// Seconds that a span joins.
    pub width: u32,
    /// The end of each span, since the start of pgbench.
    pub second: Vec<u32>,
    /// Transactions per second.
    pub tps: Envelope,
    /// Microseconds; nothing in a span without any transaction.
    pub latency_us_mean: Vec<Option<f64>>,
    pub latency_us_min: Vec<Option<u64>>,
    pub latency_us_max: Vec<Option<u64>>,
    pub latency_us_deviation: Vec<Option<f64>>,
    /// Bytes per second, by the workload's own backends and by anybody.
    pub foreground_read_bytes: Vec<f64>,
    pub device_read_bytes: Envelope,
    pub device_reads: Vec<f64>,
    /// At its least, because it is what has gone that matters.
    pub os_resident_bytes: Vec<u64>,
    /// The columns of [`crate::study::MEASURES`]; `None` when the machine was not gauged.
    pub machine: Option<BTreeMap<String, Column>>,
    /// What the workload's backends did; nothing when nobody looked.
    pub waits: Vec<WaitSeries>,
    pub stalls: Vec<Stall>,
    /// Of the log, over the whole trial.
    pub flushes: Option<FlushFigures>,
}

/// A quantity over the seconds of each span.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Envelope {
    pub mean: Vec<f64>,
    pub min: Vec<f64>,
    pub max: Vec<f64>,
}

impl Envelope {
    fn push(&mut self, values: impl Iterator<Item = f64> + Clone) {
        self.mean.push(mean(values.clone()));
        self.min.push(values.clone().fold(f64::INFINITY, f64::min));
        self.max.push(values.fold(f64::NEG_INFINITY, f64::max));
    }
}

impl TrialSeries {
    /// The curves in at most so many spans.
    pub fn new(trial: &SweepTrial, spans_max: u32) -> TrialSeries {
        let width = (trial.samples.len() as u32).div_ceil(spans_max.max(1)).max(1);
        let mut series = TrialSeries { width, ..TrialSeries::default() };
        for span in trial.samples.chunks(width as usize) {
            series.push(span);
        }
        if !trial.os_samples.is_empty() {
            let spans = spans_of(&series.second, &trial.os_samples, |sample| sample.second);
            series.machine = Some(compute_machine_series(&spans));
        }
        series.waits = compute_wait_series(&spans_of(&series.second, &trial.wait_samples, |sample| sample.second));
        series.stalls = compute_stalls(trial);
        series.flushes = FlushFigures::of(trial);
        series
    }

    /// `span` has a second at least.
    fn push(&mut self, span: &[Sample]) {
        self.second.push(span.last().map_or(0, |sample| sample.second));
        self.tps.push(span.iter().map(|sample| sample.transactions as f64));
        self.latency_us_mean.push(mean_latency(span));
        self.latency_us_min.push(span.iter().filter_map(|sample| sample.latency_us_min).min());
        self.latency_us_max.push(span.iter().filter_map(|sample| sample.latency_us_max).max());
        self.latency_us_deviation.push(latency_deviation(span));
        self.foreground_read_bytes.push(mean(span.iter().map(|sample| sample.foreground_read_bytes.0 as f64)));
        self.device_read_bytes.push(span.iter().map(|sample| sample.device_read_bytes.0 as f64));
        self.device_reads.push(mean(span.iter().map(|sample| sample.device_reads as f64)));
        self.os_resident_bytes.push(span.iter().map(|sample| sample.os_resident_bytes.0).min().unwrap_or(0));
    }
}

/// What belongs to each span, by the seconds at which the spans end. Samples are in order.
fn spans_of<'a, T>(ends: &[u32], samples: &'a [T], second: impl Fn(&T) -> u32) -> Vec<&'a [T]> {
    let mut from = 0;
    let mut span = |end: &u32| {
        let until = from + samples[from..].partition_point(|sample| second(sample) <= *end);
        &samples[std::mem::replace(&mut from, until)..until]
    };
    ends.iter().map(&mut span).collect()
}

/// Of the transactions, wherever in the span they were.
fn mean_latency(span: &[Sample]) -> Option<f64> {
    let served = span.iter().filter_map(|sample| Some((sample.latency_us_mean?, sample.transactions as f64)));
    let (sum, count) = served.fold((0.0, 0.0), |(sum, count), (mean, served)| (sum + mean * served, count + served));
    (count > 0.0).then(|| round(sum / count))
}

/// The same of their standard deviation: within the seconds, and between them. Nothing where one is not known.
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

#[cfg(test)]
mod tests {
    use super::column::mean_of;
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
        // Of 100 around 10 and 200 around 40: 200 between the means, and 9 within.
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
        assert_eq!(mean_of(&[1.0, 2.0], |value| (*value > 1.0).then_some(*value)), Some(2.0));
    }
}
