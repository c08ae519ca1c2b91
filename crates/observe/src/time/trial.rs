//! What was added up of a trial, or of one of its seconds, as it is kept.

use std::time::Duration;

use super::account::{Accounting, PGTHAW, is_idle};
use super::source::ProbeCost;
use crate::gauges::ServerPart;
use crate::open::RefusedSource;
use crate::statistic::Statistic;
use crate::time::{RefusedTime, TimeFigures, TimeProgram, TimeStatistic, TimeUse, TrialTime};

/// What is known of the looking itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct Looking {
    /// Of programs in the kernel, and of the thread that reads.
    pub cost_ns: u64,
    /// Of client backends to pg_stat_activity.
    pub reports: Option<f64>,
    /// Processes that were not followed.
    pub lost: u64,
}

/// Locks of the statistics that backends share, since PostgreSQL 15: `PgStatsDSA`, `PgStatsHash`, `PgStatsData`.
const STATISTICS_LOCKS: &str = "PgStats";

/// What all of the span was, of client backends and of the background.
pub fn compute_time_use(within: &Accounting, looking: &Looking) -> TimeUse {
    let clients = ServerPart::ClientBackend.name();
    let own = within.places.get(clients).copied().unwrap_or_default();
    let seconds = |ns: u64| ns as f64 / 1e9;
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
        activity_reports: looking.reports,
        switches: within.total.switches.unwrap_or(0) as f64,
        explained_ratio: within.total.explained(),
        cost_seconds: seconds(looking.cost_ns),
        lost_processes: looking.lost as f64,
        ..TimeUse::default()
    };
    let background = within.places.iter().filter(|(place, _)| place.as_str() != clients && place.as_str() != PGTHAW);
    for (_, one) in background {
        used.background_running_seconds += seconds(one.running_ns);
        used.background_ready_seconds += seconds(one.ready_ns.unwrap_or(0));
        used.background_waiting_seconds += seconds(one.client_ns + one.waiting_ns + one.no_event_ns + one.unknown_ns);
    }
    for (name, one) in within.statistics.iter().filter(|(name, _)| name.place == clients) {
        let (part, detail, length) = (name.part.as_str(), name.detail.as_str(), seconds(one.total_ns));
        match part {
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
    used.other_seconds =
        seconds(own.waiting_ns + own.idle_ns) - used.lwlock_seconds - used.lock_seconds - used.io_seconds;
    // The difference of sums of other roundings.
    used.other_seconds = used.other_seconds.max(0.0);
    used
}

/// The whole of a trial.
pub fn describe_trial(
    figures: TimeFigures,
    whole: Accounting,
    refused: &[RefusedSource],
    cost: ProbeCost,
    own_cpu: Duration,
) -> TrialTime {
    let (imperfect, processes) = (whole.imperfect, whole.processes);
    let handled = whole.handled.get(ServerPart::ClientBackend.name());
    let handled_statistic = handled.map(|one| keep("client backend::command::handled".to_owned(), one));
    let mut named: Vec<_> = whole.statistics.into_iter().collect();
    named.sort_by_key(|(name, one)| {
        (name.place == PGTHAW || is_idle(&name.part, &name.detail), std::cmp::Reverse(one.total_ns))
    });
    let refused = refused
        .iter()
        .map(|one| RefusedTime { source: one.source.name().to_owned(), reason: one.reason.clone() })
        .collect();
    let programs = cost.programs.into_iter();
    TrialTime {
        figures,
        refused,
        processes,
        statistics: named.iter().map(|(name, one)| keep(name.to_string(), one)).collect(),
        handled_statistic,
        recovered: imperfect.recovered,
        recovered_seconds: imperfect.recovered_ns as f64 / 1e9,
        wakes_missed: imperfect.wakes_missed,
        programs: programs.map(|one| TimeProgram { name: one.name, runs: one.runs, total_ns: one.total_ns }).collect(),
        own_cpu_seconds: own_cpu.as_secs_f64(),
    }
}

fn keep(name: String, one: &Statistic) -> TimeStatistic {
    let used = one.histogram.iter().rposition(|count| *count > 0).map_or(0, |last| last + 1);
    TimeStatistic {
        name,
        count: one.count,
        total_ns: one.total_ns,
        min_ns: one.min_ns,
        max_ns: one.max_ns,
        histogram: one.histogram[..used].to_vec(),
    }
}
