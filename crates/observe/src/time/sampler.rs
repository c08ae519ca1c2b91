use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use crate::Error;
use crate::budget::RefusedSource;
use crate::gauges::OsSample;
use crate::sampler::{Sampling, wait_until};
use crate::time::account::{Accounting, By, CLIENT_BACKEND, NamedStatistic, StatisticName};
use crate::time::figures::{TimeFigures, TimeUse, TrialTime, compute_time_use};
use crate::time::names::WaitNames;
use crate::time::roster::Roster;
use crate::time::source::{ProcessTimes, Reading, TimeSource};
use host::linux::clock::{read_monotonic, read_thread_cpu_time};
use host::linux::foreign_memory::{find_variable, read_pointed};
use host::linux::process::read_children;

/// New backends are polled more often at first, to miss fewer status updates.
const COMING: Duration = Duration::from_secs(3);
const COMING_LOOK: Duration = Duration::from_millis(100);

#[derive(Clone, Debug)]
pub struct TimedServer {
    pub postmaster_pid: u32,
    pub observer_pid: Option<u32>,
    pub names: WaitNames,
    /// Processors that the observation may use.
    pub budget: Option<f64>,
}

#[derive(Clone, Debug, Default)]
pub struct TimeSamples {
    seconds: BTreeMap<u32, (TimeUse, BTreeMap<String, f64>)>,
    /// `None` if no source opened or no time was measured.
    pub trial: Option<TrialTime>,
}

impl TimeSamples {
    pub fn add_to(&self, samples: &mut [OsSample]) {
        for sample in samples {
            let Some((time, waited)) = self.seconds.get(&sample.second) else { continue };
            sample.time = Some(*time);
            sample.waited.clone_from(waited);
        }
    }
}

/// Consecutive seconds above the budget that end the observation.
const SECONDS_ABOVE: u32 = 3;

/// Start of the measurement on the monotonic clock, and its length in seconds.
type Schedule = (Duration, u32);

/// Dropping it stops the thread at the next tick.
#[derive(Debug)]
pub struct TimeSampler {
    sampling: Sampling<TimeSamples>,
    /// Closes when the source is open or has failed.
    opening: Receiver<Infallible>,
    begin: Sender<Schedule>,
}

impl TimeSampler {
    pub fn open(
        server: TimedServer,
        open: impl FnOnce() -> Result<(Box<dyn TimeSource>, Vec<RefusedSource>), Error> + Send + 'static,
    ) -> Result<TimeSampler, Error> {
        let ((begin, begins), (is_opening, opening)) = (channel(), channel());
        let sampling = Sampling::start("time", move |stopped| {
            let opened = open();
            drop(is_opening);
            let reports = ActivityReports::of(server.postmaster_pid);
            let (Ok((source, refused)), Ok(schedule)) = (opened, begins.recv()) else { return TimeSamples::default() };
            let roster = Roster::of_trial(server.postmaster_pid, server.observer_pid);
            Looker { server, source, refused, reports, roster }.look_on(schedule, stopped)
        })?;
        Ok(TimeSampler { sampling, opening, begin })
    }

    /// Called before the trial, so that its seconds exclude the opening.
    pub fn wait_until_open(&self) {
        let Err(_closed) = self.opening.recv();
    }

    /// Makes the thread read the processes' times at `start` (monotonic clock) and at the end of each second.
    pub fn begin(&self, start: Duration, seconds: u32) {
        // If the thread has ended, it has reported why.
        let _ = self.begin.send((start, seconds));
    }

    pub fn finish(self, is_early: bool) -> TimeSamples {
        // Else a thread that never began would wait forever.
        drop(self.begin);
        self.sampling.finish(is_early)
    }
}

struct Looker {
    server: TimedServer,
    source: Box<dyn TimeSource>,
    refused: Vec<RefusedSource>,
    reports: Option<ActivityReports>,
    roster: Roster,
}

impl Looker {
    fn look_on(mut self, (start, seconds): Schedule, stopped: &Receiver<()>) -> TimeSamples {
        let mut found = TimeSamples::default();
        if !self.wait(Duration::ZERO, start, stopped) {
            return found;
        }
        let Ok(mut before) = self.source.read() else { return found };
        let names = self.server.names.clone();
        let mut whole = Accounting::begin(before.clone(), By::Kind, names.clone());
        let (cost_at_start, cpu_at_start) = (self.source.cost().unwrap_or_default(), read_thread_cpu_time());
        let (mut cost, mut cpu) = (cost_at_start.clone(), cpu_at_start);
        let mut total = TimeUse::default();
        let mut explained: Vec<f64> = Vec::new();
        let mut second = read_monotonic().saturating_sub(start).as_secs() as u32 + 1;
        let (mut is_whole, mut above) = (true, 0);
        while is_whole && second <= seconds && above < SECONDS_ABOVE {
            is_whole = self.wait(start, start + Duration::from_secs(second.into()), stopped);
            let Ok(reading) = self.source.read() else { break };
            self.roster.learn(&reading.processes, &[]);
            let mut within = Accounting::begin(before, By::Kind, names.clone());
            within.add(reading.clone(), |process| self.roster.who(process));
            let (cost_now, cpu_now) = (self.source.cost().unwrap_or_default(), read_thread_cpu_time());
            let cost_ns = cost_now.since(&cost).total_ns() + (cpu_now - cpu).as_nanos() as u64;
            let used = TimeUse {
                activity_reports: self.take_reports(&reading),
                cost_seconds: cost_ns as f64 / 1e9,
                lost_processes: reading.lost.saturating_sub(whole.span.imperfect.lost_processes) as f64,
                ..compute_time_use(&within)
            };
            whole.add(reading.clone(), |process| self.roster.who(process));
            total.add(&used);
            if is_whole {
                explained.extend(used.explained_ratio);
                let per_second = 1e9 / within.length_ns().max(1) as f64;
                let used = used.scale(per_second);
                let is_above = self.server.budget.is_some_and(|budget| used.cost_seconds > budget);
                above = if is_above { above + 1 } else { 0 };
                found.seconds.insert(second, (used, compute_waited(&within, per_second)));
            }
            (before, cost, cpu) = (reading, cost_now, cpu_now);
            second = (read_monotonic().saturating_sub(start).as_secs() as u32).max(second) + 1;
        }
        whole.finish();
        total.explained_ratio = whole.total.explained();
        let figures = TimeFigures {
            source: self.source.tier().name().to_owned(),
            length_seconds: whole.length_ns() as f64 / 1e9,
            total,
            explained_ratio_min: explained.iter().copied().reduce(f64::min),
            explained_ratio_max: explained.iter().copied().reduce(f64::max),
            is_cut_short: above == SECONDS_ABOVE,
        };
        let imperfect = whole.span.imperfect;
        let commands = || StatisticName::of_commands(CLIENT_BACKEND.to_owned());
        found.trial = (whole.length_ns() > 0).then(|| TrialTime {
            figures,
            refused: self.refused,
            processes: whole.processes,
            statistics: NamedStatistic::all_of(whole.span.statistics),
            handled_statistic: whole.handled.get(CLIENT_BACKEND).map(|one| NamedStatistic::new(commands(), *one)),
            recovered: imperfect.recovered,
            recovered_seconds: imperfect.recovered_ns as f64 / 1e9,
            wakes_missed: imperfect.wakes_missed,
            programs: cost.since(&cost_at_start).programs,
            own_cpu_seconds: (cpu - cpu_at_start).as_secs_f64(),
        });
        found
    }

    fn wait(&mut self, start: Duration, instant: Duration, stopped: &Receiver<()>) -> bool {
        while let Some(reports) = &mut self.reports {
            let next = read_monotonic() + COMING_LOOK;
            if next >= instant || next >= start + COMING {
                break;
            }
            if !wait_until(next, stopped) {
                return false;
            }
            reports.look();
        }
        wait_until(instant, stopped)
    }

    fn take_reports(&mut self, reading: &Reading) -> Option<f64> {
        let serving = |process: &&ProcessTimes| self.roster.who(process).kind == CLIENT_BACKEND;
        let pids: Vec<u32> = reading.processes.iter().filter(serving).map(|process| process.pid).collect();
        let reports = self.reports.as_mut()?;
        reports.look();
        Some(reports.take(|pid| pids.contains(&pid)))
    }
}

/// Seconds that client backends waited, by `class::event`.
fn compute_waited(within: &Accounting, per_second: f64) -> BTreeMap<String, f64> {
    let of_clients = within.span.statistics.iter().filter(|(name, _)| name.place == CLIENT_BACKEND);
    let waits = of_clients.filter(|(name, statistic)| name.part != "processor" && statistic.total_ns > 0);
    let seconds = |ns: u64| (ns as f64 * per_second / 1e3).round() / 1e6;
    waits.map(|(name, one)| (format!("{}::{}", name.part, name.detail), seconds(one.total_ns))).collect()
}

// Each status update increments the first number of a backend's entry twice: `st_changecount`, defined in
// `src/include/utils/backend_status.h` (PostgreSQL 13: `src/include/pgstat.h`). It is odd during the update.

const ENTRY: &str = "MyBEEntry";

#[derive(Debug)]
pub struct ActivityReports {
    postmaster_pid: u32,
    address: u64,
    /// By pid: the last value of the process's `st_changecount`, and its increase since the last `take`.
    counted: HashMap<u32, (u32, u32)>,
}

impl ActivityReports {
    /// `None` if memory or symbols are unreadable.
    pub fn of(postmaster_pid: u32) -> Option<ActivityReports> {
        let address = find_variable(postmaster_pid, ENTRY).ok()?;
        let is_readable = |pid: &u32| read_pointed(*pid, address, 0).is_ok();
        let children = read_children(postmaster_pid).ok()?;
        let reports = ActivityReports { postmaster_pid, address, counted: HashMap::new() };
        children.iter().any(is_readable).then_some(reports)
    }

    /// Reads each process's counter of status updates. Updates before pgthaw's first reading of a process are unknown.
    pub fn look(&mut self) {
        for pid in read_children(self.postmaster_pid).unwrap_or_default() {
            let Ok(Some(now)) = read_pointed(pid, self.address, 0) else { continue };
            let (before, steps) = self.counted.get(&pid).copied().unwrap_or((now, 0));
            // The pid may be reused.
            let added = Some(now.wrapping_sub(before)).filter(|added| *added < u32::MAX / 2).unwrap_or(0);
            self.counted.insert(pid, (now, steps.saturating_add(added)));
        }
    }

    pub fn take(&mut self, is_meant: impl Fn(u32) -> bool) -> f64 {
        let mut taken = 0.0;
        for (pid, (_, steps)) in &mut self.counted {
            let steps = std::mem::take(steps);
            if is_meant(*pid) {
                taken += f64::from(steps) / 2.0;
            }
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_is_no_postmaster_has_none() {
        assert!(ActivityReports::of(std::process::id()).is_none());
    }

    #[test]
    fn two_steps_are_one_report_and_are_taken_once() {
        let counted = HashMap::from([(1, (10, 6)), (2, (7, 1000))]);
        let mut reports = ActivityReports { postmaster_pid: 0, address: 0, counted };
        assert_eq!((reports.take(|pid| pid == 1), reports.take(|_| true)), (3.0, 0.0));
    }
}
