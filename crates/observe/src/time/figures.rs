//! Where the server's time went in a trial: per second and in total.
//!
//! Part of `--json`: never rename fields.

use std::ops::Add as _;

use serde::{Deserialize, Serialize};

use crate::budget::RefusedSource;
use crate::time::account::{Accounting, CLIENT_BACKEND, NamedStatistic, TimeShares, add_known};
use crate::time::names::class_until_18;
use crate::time::source::ProgramCost;

/// Default limit of the overhead, as a share of all processors. Above it, `waits` and `top` measure less, and a trial
/// stops measuring times.
pub const ACCOUNT_DEAR: f64 = 0.02;

/// Time of client backends and key figures of background processes, without pgthaw's own backends.
/// In a sample of one second, the values are rates per second. In the summary of a trial, they are totals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, crate::JsonSchema, crate::TS)]
pub struct TimeUse {
    /// Lifetime: the sum of the fields from `running_seconds` to `unknown_seconds`.
    pub lived_seconds: f64,
    /// On a processor. Includes time ready to run if `ready_seconds` is null.
    pub running_seconds: f64,
    /// Waiting for a processor. `None` if unknown.
    pub ready_seconds: Option<f64>,
    /// Waiting for the client.
    pub client_seconds: f64,
    pub lwlock_seconds: f64,
    /// Waiting for heavyweight locks.
    pub lock_seconds: f64,
    /// Waiting for reads and writes.
    pub io_seconds: f64,
    /// Waiting for any other event.
    pub other_seconds: f64,
    /// Off the processor without a wait event.
    pub no_event_seconds: f64,
    /// Off the processor, and the event could not be read.
    pub unknown_seconds: f64,
    /// Received commands.
    pub commands: f64,
    /// Ended commands.
    pub handled: f64,
    /// Time of ended commands, from receipt until the wait for the next one.
    pub handled_seconds: f64,
    pub lwlock_waits: f64,
    /// Number of waits for locks of shared statistics.
    pub statistics_waits: f64,
    pub statistics_seconds: f64,
    /// Backend status updates (pg_stat_activity). `None` if unreadable.
    pub activity_reports: Option<f64>,
    pub background_running_seconds: f64,
    pub background_ready_seconds: f64,
    /// Time that background processes waited for anything but a processor or new work.
    pub background_waiting_seconds: f64,
    /// Context switches to processes of the server.
    pub switches: f64,
    /// Time in a known state, as a share of all server processes' lifetime: about 1.
    pub explained_ratio: Option<f64>,
    /// Overhead of this measurement: BPF programs and pgthaw's own processor time.
    pub cost_seconds: f64,
    pub lost_processes: f64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, crate::JsonSchema, crate::TS)]
pub struct TimeFigures {
    /// `bpf`, `memory` or `sql` (docs/waits.md).
    pub source: String,
    pub length_seconds: f64,
    #[serde(flatten)]
    pub total: TimeUse,
    /// Lowest `explained_ratio` of any second.
    pub explained_ratio_min: Option<f64>,
    /// Highest `explained_ratio` of any second.
    pub explained_ratio_max: Option<f64>,
    /// Whether the measurement ended before the trial, because it exceeded its processor budget.
    pub is_cut_short: bool,
}

/// Server time in a trial, by use (docs/waits.md).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, crate::JsonSchema, crate::TS)]
pub struct TrialTime {
    #[serde(flatten)]
    pub figures: TimeFigures,
    pub refused: Vec<RefusedSource>,
    pub processes: u32,
    /// Sorted by total time, idle processes last.
    pub statistics: Vec<NamedStatistic>,
    /// Durations of client backends' commands, from their receipt.
    pub handled_statistic: Option<NamedStatistic>,
    /// How often the kernel did not report when a process got a processor and began to run.
    pub recovered: u64,
    /// Time of the runs counted in `recovered`.
    pub recovered_seconds: f64,
    /// Waits whose end the kernel did not report. Their time includes the following wait for a processor.
    pub wakes_missed: u64,
    /// Cost of BPF programs, by the kernel's count.
    pub programs: Vec<ProgramCost>,
    /// Processor time of pgthaw's thread that measures these times.
    pub own_cpu_seconds: f64,
}

impl TimeUse {
    /// False if times are sampled, which counts no commands.
    pub fn is_exact(&self) -> bool {
        self.ready_seconds.is_some()
    }

    /// Display names in stacking order. The values add up to the lifetime.
    pub fn kinds(&self) -> [(&'static str, f64); 9] {
        [
            ("on a processor", self.running_seconds),
            ("ready for one", self.ready_seconds.unwrap_or(0.0)),
            ("LWLock", self.lwlock_seconds),
            ("Lock", self.lock_seconds),
            ("IO", self.io_seconds),
            ("other events", self.other_seconds),
            ("no event", self.no_event_seconds),
            ("unknown", self.unknown_seconds),
            ("the client", self.client_seconds),
        ]
    }

    /// Sums everything but shares.
    pub fn add(&mut self, more: &TimeUse) {
        self.each_with(more, |sum, more| *sum += more);
        self.ready_seconds = add_known(self.ready_seconds, more.ready_seconds, f64::add);
        self.activity_reports = add_known(self.activity_reports, more.activity_reports, f64::add);
    }

    pub fn scale(&self, factor: f64) -> TimeUse {
        let mut scaled = *self;
        scaled.each_with(self, |value, of| *value = of * factor);
        TimeUse {
            ready_seconds: self.ready_seconds.map(|ready| ready * factor),
            activity_reports: self.activity_reports.map(|reports| reports * factor),
            ..scaled
        }
    }

    fn each_with(&mut self, other: &TimeUse, with: impl Fn(&mut f64, f64)) {
        let pairs = host::field_pairs!(self, other:
            lived_seconds, running_seconds, client_seconds, lwlock_seconds, lock_seconds, io_seconds,
            other_seconds, no_event_seconds, unknown_seconds, commands, handled, handled_seconds, lwlock_waits,
            statistics_waits, statistics_seconds, background_running_seconds, background_ready_seconds,
            background_waiting_seconds, switches, cost_seconds, lost_processes);
        pairs.into_iter().for_each(|(value, other)| with(value, other));
    }
}

impl TimeFigures {
    pub fn explained_seconds(&self) -> f64 {
        self.total.kinds().into_iter().map(|(_, seconds)| seconds).sum::<f64>() - self.total.unknown_seconds
    }

    pub fn reading_seconds(&self) -> f64 {
        (self.explained_seconds() - self.total.handled_seconds).max(0.0)
    }

    pub fn processors_used(&self) -> f64 {
        (self.total.running_seconds + self.total.background_running_seconds) / self.length_seconds
    }

    /// Processors needed if all time of commands, except LWLock waits, were processor time.
    pub fn processors_if_nothing_else(&self) -> f64 {
        (self.total.handled_seconds - self.total.lwlock_seconds).max(0.0) / self.length_seconds
    }

    /// Mean of the trials with the first one's source. Sources differ in which times they know.
    pub fn mean(trials: &[&TimeFigures]) -> Option<TimeFigures> {
        let first = trials.first()?;
        let alike: Vec<&&TimeFigures> = trials.iter().filter(|one| one.source == first.source).collect();
        let mut sum = TimeUse::default();
        alike.iter().for_each(|one| sum.add(&one.total));
        let share = 1.0 / alike.len() as f64;
        let mean = |of: fn(&TimeFigures) -> Option<f64>| {
            let known: Vec<f64> = alike.iter().filter_map(|one| of(one)).collect();
            (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
        };
        Some(TimeFigures {
            source: first.source.clone(),
            length_seconds: alike.iter().map(|one| one.length_seconds).sum::<f64>() * share,
            total: TimeUse { explained_ratio: mean(|one| one.total.explained_ratio), ..sum.scale(share) },
            explained_ratio_min: alike.iter().filter_map(|one| one.explained_ratio_min).reduce(f64::min),
            explained_ratio_max: alike.iter().filter_map(|one| one.explained_ratio_max).reduce(f64::max),
            is_cut_short: alike.iter().any(|one| one.is_cut_short),
        })
    }
}

/// Prefix of the shared statistics' locks since PostgreSQL 15, as in `PgStatsHash`.
const STATISTICS_LOCKS: &str = "PgStats";

/// Without `activity_reports`, `cost_seconds` and `lost_processes`.
pub fn compute_time_use(within: &Accounting) -> TimeUse {
    let own = within.span.clients;
    let seconds = |ns: u64| ns as f64 / 1e9;
    let background = |of: fn(&TimeShares) -> u64| seconds(of(&within.total).saturating_sub(of(&own)));
    let mut used = TimeUse {
        lived_seconds: seconds(own.lived_ns),
        running_seconds: seconds(own.running_ns),
        ready_seconds: within.total.ready_ns.map(|_| seconds(own.ready_ns.unwrap_or(0))),
        client_seconds: seconds(own.client_ns),
        no_event_seconds: seconds(own.no_event_ns),
        unknown_seconds: seconds(own.unknown_ns),
        commands: own.commands.unwrap_or(0) as f64,
        handled: own.handled.unwrap_or(0) as f64,
        handled_seconds: seconds(own.handled_ns.unwrap_or(0)),
        background_running_seconds: background(|all| all.running_ns),
        background_ready_seconds: background(|all| all.ready_ns.unwrap_or(0)),
        background_waiting_seconds: background(|all| all.client_ns + all.waiting_ns + all.no_event_ns + all.unknown_ns),
        switches: within.total.switches.unwrap_or(0) as f64,
        explained_ratio: within.total.explained(),
        ..TimeUse::default()
    };
    for (name, one) in within.span.statistics.iter().filter(|(name, _)| name.place == CLIENT_BACKEND) {
        let (part, detail, length) = (name.part.as_str(), name.detail.as_str(), seconds(one.total_ns));
        match class_until_18(part, detail) {
            "LWLock" => {
                used.lwlock_seconds += length;
                used.lwlock_waits += one.count as f64;
                if detail.starts_with(STATISTICS_LOCKS) {
                    used.statistics_seconds += length;
                    used.statistics_waits += one.count as f64;
                }
            }
            "Lock" => used.lock_seconds += length,
            "IO" => used.io_seconds += length,
            _ => {}
        }
    }
    let named = used.lwlock_seconds + used.lock_seconds + used.io_seconds;
    // Rounding can make the difference negative.
    used.other_seconds = (seconds(own.waiting_ns + own.idle_ns) - named).max(0.0);
    used
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_added_and_scaled() {
        let fields = || serde_json::to_value(TimeUse::default()).unwrap().as_object().unwrap().clone();
        let ones = fields().keys().map(|name| (name.clone(), 1.0.into())).collect::<serde_json::Map<_, _>>();
        let one: TimeUse = serde_json::from_value(ones.into()).unwrap();
        let mut sum = one;
        sum.add(&one);
        let double = one.scale(2.0);
        for (name, value) in serde_json::to_value(sum).unwrap().as_object().unwrap() {
            assert_eq!(value, if name == "explained_ratio" { 1.0 } else { 2.0 }, "{name}");
        }
        assert_eq!(double, sum);
    }

    #[test]
    fn of_several_trials_it_is_the_mean_and_their_extremes() {
        let of = |source: &str, running_seconds: f64, least: f64| TimeFigures {
            source: source.into(),
            length_seconds: 10.0,
            total: TimeUse {
                running_seconds,
                client_seconds: 35.0,
                handled_seconds: 30.0,
                explained_ratio: Some(least),
                ..TimeUse::default()
            },
            explained_ratio_min: Some(least),
            explained_ratio_max: Some(1.0),
            is_cut_short: source == "sql",
        };
        let (one, two, other) = (of("bpf", 4.0, 0.9), of("bpf", 6.0, 1.0), of("sql", 100.0, 0.5));
        let mean = TimeFigures::mean(&[&one, &two, &other]).unwrap();
        assert_eq!((mean.total.running_seconds, mean.processors_used(), mean.reading_seconds()), (5.0, 0.5, 10.0));
        assert_eq!((mean.total.explained_ratio, mean.explained_ratio_min), (Some(0.95), Some(0.9)));
        assert_eq!((mean.processors_if_nothing_else(), mean.total.is_exact()), (3.0, false));
        assert!(!mean.is_cut_short);
        assert_eq!(TimeFigures::mean(&[]), None);
    }
}
