use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::mpsc::{Sender, UnboundedSender};

use super::point::Until;
use super::record::{Brought, LoadSample, Sample, StrategyOutcome, SweepRun, SweepTrial};
use host::units::Bytes;
use observe::time::TrialTime;
use observe::{OsSample, OthersUse, Second};
use pgbench::Intervals;
use postgres::{Activity, ServerFacts, keep_text};

#[derive(Clone, Debug)]
pub enum Event {
    Step(String),
    /// Completed share of the current step, 0 to 1.
    StepShare(f64),
    Remark(String),
    Calibrated(Box<Calibration>),
    Second(LiveSecond),
    /// A sweep begins. The receiver sends on `kept` once it has stored the sweep, which can then be resumed.
    SweepOpened {
        run: Box<SweepRun>,
        kept: Sender<()>,
    },
    SweepStarted(Box<SweepRun>),
    SweepTrialStarted(SweepTrialStarted),
    SweepTrialEnded(Box<SweepTrial>),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema, crate::TS)]
pub struct SweepTrialStarted {
    /// The point's values on the axes that vary.
    pub label: String,
    /// Number of this repeat, from 1 to `repeats`.
    pub repeat: u32,
    #[serde(skip)]
    pub repeats: u32,
    /// Number of this trial, from 1 to `trials`. Includes trials of earlier invocations of the study.
    pub position: u32,
    pub trials: u32,
    /// `None` if a number of transactions ends the trial.
    pub seconds: Option<u32>,
    #[serde(skip)]
    pub until: Option<Until>,
    /// Estimate at the trial's start: seconds until this study, and any studies after it, end.
    pub left_seconds: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema, crate::TS)]
pub struct LiveSecond {
    /// From 1.
    pub second: u32,
    pub tps: Option<f64>,
    pub device_read_bytes: Bytes,
    pub os_resident_bytes: Bytes,
    #[serde(skip)]
    pub until_warm: UntilWarm,
}

#[derive(Clone, Debug)]
pub struct Events(pub UnboundedSender<Event>);

impl Events {
    pub fn tell(&self, event: Event) {
        let event = match event {
            Event::Step(text) => Event::Step(keep_text(text)),
            Event::Remark(text) => Event::Remark(keep_text(text)),
            Event::SweepTrialStarted(trial) => {
                Event::SweepTrialStarted(SweepTrialStarted { label: keep_text(trial.label), ..trial })
            }
            other => other,
        };
        // The study continues without a listener.
        let _ = self.0.send(event);
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum UntilWarm {
    /// The time cannot be estimated, or not yet.
    #[default]
    Unknown,
    Seconds(f64),
    /// Fewer than 1 % of transactions read from the device in the last three seconds.
    Warm,
}

/// Figures of the warm server without a disk limit.
#[derive(Clone, Debug)]
pub struct Calibration {
    pub tps: Option<f64>,
    pub activity: Activity,
    pub facts: ServerFacts,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Part of the outcome that the results store keeps.
    pub told: StrategyOutcome,
    pub cpu: Option<Duration>,
    /// Bytes and seconds that fio reports; `None` for other warmers.
    pub own: Option<(Bytes, f64)>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seen {
    /// Only its fields about residency.
    pub brought: Brought,
    pub looks: Vec<LoadSample>,
}

#[derive(Debug)]
pub struct Measured {
    /// In whole seconds.
    pub start_unix: i64,
    /// Since boot.
    pub start_monotonic: Duration,
    pub seconds: Vec<Second>,
    /// Bytes read by the workload in each tenth of a second.
    pub foreground_tenths: Vec<Bytes>,
    /// Transactions per second in pgbench's progress.
    pub progress: Vec<f64>,
    pub load_began_after: Duration,
    pub ended_after: Duration,
    pub outcome: Outcome,
    /// Resident bytes of relations in the report's residency diagram, at the start and after each second.
    pub relations: Vec<Vec<Bytes>>,
    /// Processors used by pgbench in each second.
    pub generator_shares: Vec<f64>,
    pub os_samples: Vec<OsSample>,
    pub time: Option<TrialTime>,
    /// Bytes read under the disk limit before the trial's start.
    pub head_start_bytes: Option<Bytes>,
    /// Progress of a warmer on an idle server; `None` for trials with a load.
    pub seen: Option<Seen>,
    /// Other processes' use of the machine; `None` if /proc is unreadable.
    pub others: Option<OthersUse>,
}

/// A second without a logged line had no transaction: trial and logged seconds start together.
pub fn compute_samples(seconds: &[Second], intervals: &Intervals, start_unix: i64) -> Vec<Sample> {
    let sample = |(second, reading): (u32, &Second)| {
        let logged = intervals.get(&(start_unix + i64::from(second) - 1)).copied().unwrap_or_default();
        let has_any = logged.transactions > 0;
        Sample {
            second,
            monotonic_ms: reading.monotonic.as_millis() as u64,
            wall_ms: reading.wall_ms,
            transactions: logged.transactions,
            latency_us_mean: logged.latency_us_mean(),
            latency_us_min: has_any.then_some(logged.latency_us_min),
            latency_us_max: has_any.then_some(logged.latency_us_max),
            latency_us_deviation: logged.latency_us_deviation(),
            foreground_read_bytes: reading.counters.workload_read_bytes,
            device_read_bytes: reading.counters.device_read_bytes,
            device_reads: reading.counters.device_reads,
            os_resident_bytes: reading.os_resident_bytes,
        }
    };
    (1..).zip(seconds).map(sample).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use host::units::Bytes;
    use observe::Counters;
    use pgbench::Interval;

    #[test]
    fn a_second_without_a_line_served_nothing() {
        let reading = Second {
            monotonic: Duration::from_millis(61_002),
            wall_ms: 1_000_002,
            lateness: Duration::from_millis(2),
            counters: Counters { workload_read_bytes: Bytes(8192), ..Counters::default() },
            os_resident_bytes: Bytes(4096),
        };
        let interval = Interval {
            transactions: 4,
            latency_us_sum: 100.0,
            latency_us_squares: 3000.0,
            latency_us_min: 10,
            latency_us_max: 40,
        };
        let intervals = Intervals::from([(999, interval), (1001, interval)]);
        let samples = compute_samples(&[reading, reading], &intervals, 1000);
        assert_eq!((samples[0].second, samples[0].transactions, samples[0].latency_us_max), (1, 0, None));
        assert_eq!((samples[1].transactions, samples[1].latency_us_mean), (4, Some(25.0)));
        assert_eq!(samples[1].latency_us_deviation, Some(125.0_f64.sqrt()));
        assert_eq!(samples[1].foreground_read_bytes, Bytes(8192));
        assert_eq!(samples[1].monotonic_ms, 61_002);
    }
}
