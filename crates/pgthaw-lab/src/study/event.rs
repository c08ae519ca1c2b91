//! What a study tells whoever watches it.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::mpsc::{Sender, UnboundedSender};

use super::point::Until;
use super::record::{Job, LoadSample, Sample, StrategyOutcome, SweepRun, SweepTrial};
use host::units::Bytes;
use observe::time::TrialTime;
use observe::{OsSample, OthersUse, Second};
use pgbench::Intervals;
use postgres::{Activity, ServerFacts, keep_text};

/// Something that happened.
#[derive(Clone, Debug)]
pub enum Event {
    /// A step of the preparation begins; in words for people.
    Step(String),
    /// How much of the step is done, 0 to 1.
    StepShare(f64),
    /// Something to know, that is no reason to stop.
    Remark(String),
    /// What the warm server showed, before the first trial.
    Calibrated(Box<Calibration>),
    Second(LiveSecond),
    /// A sweep is known by its name, before anything that takes long. Whoever keeps it says so by `kept`: from then on it goes on after a
    /// kill.
    SweepOpened {
        run: Box<SweepRun>,
        kept: Sender<()>,
    },
    /// Its trials begin; one of them begins, and ends.
    SweepStarted(Box<SweepRun>),
    SweepTrialStarted(SweepTrialStarted),
    SweepTrialEnded(Box<SweepTrial>),
}

/// A trial of a sweep begins: first of all its start state is made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct SweepTrialStarted {
    /// The point, by what varies.
    pub label: String,
    /// From 1, of `repeats`.
    pub repeat: u32,
    #[serde(skip)]
    pub repeats: u32,
    /// From 1, of `trials`, those that ended earlier included.
    pub position: u32,
    pub trials: u32,
    /// Seconds that it lasts; `None` when it ends by its transactions.
    pub seconds: Option<u32>,
    /// What ends it before, if anything does.
    #[serde(skip)]
    pub until: Option<Until>,
    /// Until the whole sweep is over, and those that follow it.
    pub left_seconds: f64,
}

/// A second of a trial, for a live display: what is kept comes with the trial's end.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct LiveSecond {
    /// From 0, which is the start.
    pub second: u32,
    /// Transactions per second; `None` until pgbench says something.
    pub tps: Option<f64>,
    /// Read from the device in this second.
    pub device_read_bytes: Bytes,
    pub os_resident_bytes: Bytes,
    #[serde(skip)]
    pub until_warm: UntilWarm,
}

/// Where events go. Nobody has to listen.
#[derive(Clone, Debug)]
pub struct Events(UnboundedSender<Event>);

impl Events {
    pub fn to(sender: UnboundedSender<Event>) -> Events {
        Events(sender)
    }

    pub fn tell(&self, event: Event) {
        let event = match event {
            Event::Step(text) => Event::Step(keep_text(text)),
            Event::Remark(text) => Event::Remark(keep_text(text)),
            Event::SweepTrialStarted(trial) => {
                Event::SweepTrialStarted(SweepTrialStarted { label: keep_text(trial.label), ..trial })
            }
            other => other,
        };
        // The listener may have gone; the study goes on.
        let _ = self.0.send(event);
    }
}

/// The answer.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum UntilWarm {
    /// Too early to say, or nothing says it.
    #[default]
    Unknown,
    /// About so many seconds.
    Seconds(f64),
    /// Fewer than 1 % of transactions read from the device in the last three seconds.
    Warm,
}

/// The workload on the warm server, without a limit.
#[derive(Clone, Debug)]
pub struct Calibration {
    /// Transactions per second; `None` when it served nothing.
    pub tps: Option<f64>,
    /// What it asked for meanwhile.
    pub activity: Activity,
    pub facts: ServerFacts,
}

// ---- what a race measured ----

/// What a strategy did.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// As it is kept.
    pub told: StrategyOutcome,
    /// Processor time of its own processes.
    pub cpu: Option<Duration>,
    /// Bytes and seconds, by its own account; of fio.
    pub own: Option<(Bytes, f64)>,
}

/// What was seen of what is wanted while it came back.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seen {
    pub resident_after_seconds: Option<f64>,
    pub buffers_after_seconds: Option<f64>,
    /// When all was over, every page looked at again.
    pub resident_bytes: Bytes,
    pub looks: Vec<LoadSample>,
}

/// What was measured.
#[derive(Debug)]
pub struct Measured {
    /// The start, in whole seconds since 1970.
    pub start_unix: i64,
    /// The same, since the machine booted.
    pub start_monotonic: Duration,
    pub seconds: Vec<Second>,
    /// Read by the workload in each tenth of a second.
    pub foreground_tenths: Vec<Bytes>,
    /// Transactions in each second, as pgbench said meanwhile.
    pub progress: Vec<f64>,
    /// When the load began, since the start.
    pub load_began_after: Duration,
    /// When pgbench was over, since the start.
    pub ended_after: Duration,
    pub outcome: Outcome,
    /// What was resident at the start and at the end of each second, of each relation that has a strip.
    pub relations: Vec<Vec<Bytes>>,
    /// Processors that pgbench used in each second.
    pub generator_shares: Vec<f64>,
    /// What the machine did; nothing where it was not gauged.
    pub os_samples: Vec<OsSample>,
    /// Where the time of the server's processes went; `None` where nobody looked.
    pub time: Option<TrialTime>,
    /// Read by everybody under the limit from the server's start on until the clock started; `None` without a limit.
    pub head_start_bytes: Option<Bytes>,
    /// What was seen of what is wanted, beside a warmer of an idle server.
    pub seen: Option<Seen>,
    /// What everybody else had of the machine; `None` where the kernel does not tell.
    pub others: Option<OthersUse>,
}

impl Measured {
    /// What somebody waited for whose transactions ended the trial.
    pub fn job(&self, transactions: u64) -> Job {
        let load = self.ended_after.saturating_sub(self.load_began_after);
        Job {
            transactions,
            warmer_seconds: self.outcome.told.ended_after_seconds,
            load_seconds: load.as_secs_f64(),
            whole_seconds: self.ended_after.as_secs_f64(),
        }
    }
}

/// The samples of a trial whose workload started at `start_unix` (whole seconds since 1970). pgbench logs by whole
/// seconds of the wall clock, and the trial starts on one, so that its line for `start_unix` is the first second. A
/// second without a line served nothing: a cold server may not serve a single transaction for seconds.
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
        // The first second served nothing; a line from before the start is not ours.
        let intervals = Intervals::from([(999, interval), (1001, interval)]);
        let samples = compute_samples(&[reading, reading], &intervals, 1000);
        assert_eq!((samples[0].second, samples[0].transactions, samples[0].latency_us_max), (1, 0, None));
        assert_eq!((samples[1].transactions, samples[1].latency_us_mean), (4, Some(25.0)));
        assert_eq!(samples[1].latency_us_deviation, Some(125.0_f64.sqrt()));
        assert_eq!(samples[1].foreground_read_bytes, Bytes(8192));
        assert_eq!(samples[1].monotonic_ms, 61_002);
    }
}
