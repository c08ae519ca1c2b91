//! Accounts for the time of the server's processes in each second of a trial, in a thread of its own.

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use super::account::{Accounting, By, PGTHAW, POSTMASTER, Who};
use super::activity::ActivityReports;
use super::names::WaitNames;
use super::source::{ProbeCost, ProcessTimes, Reading, TimeSource};
use super::trial::{Looking, compute_time_use, describe_trial};
use crate::Error;
use crate::OsSample;
use crate::gauges::ServerPart;
use crate::open::RefusedSource;
use crate::sampler::wait_until;
use crate::time::{TimeFigures, TimeUse, TrialTime};
use host::linux::clock::{read_monotonic, read_thread_cpu_time};
use host::linux::process::read_title;

/// For so long backends come, whose reports are counted from when they are seen first.
const COMING: Duration = Duration::from_secs(3);
const COMING_LOOK: Duration = Duration::from_millis(100);

/// Whose time it is.
#[derive(Clone, Copy, Debug)]
pub struct TimedServer {
    pub postmaster_pid: u32,
    /// The backend that serves pgthaw's own looks.
    pub observer_pid: Option<u32>,
    /// `server_version_num`.
    pub version_num: u32,
    /// Processors that the looking may take; `None`: as many as it does.
    pub budget: Option<f64>,
}

/// What was found, second by second.
#[derive(Clone, Debug, Default)]
pub struct TimeSamples {
    seconds: BTreeMap<u32, (TimeUse, BTreeMap<String, f64>)>,
    /// `None` where there was no source, or it ended before the first second did.
    pub trial: Option<TrialTime>,
}

impl TimeSamples {
    /// Adds to what the machine did what the server's processes did in the same second.
    pub fn add_to(&self, samples: &mut [OsSample]) {
        for sample in samples {
            let Some((time, waited)) = self.seconds.get(&sample.second) else { continue };
            sample.time = Some(*time);
            sample.waited.clone_from(waited);
        }
    }
}

/// So many seconds have to be above the budget, one after the other, until the looking ends.
const SECONDS_ABOVE: u32 = 3;

/// When to look, from when on and for how many seconds.
type Schedule = (Duration, u32);

/// The thread that looks. Dropping it ends it at its next tick.
#[derive(Debug)]
pub struct TimeSampler {
    thread: JoinHandle<TimeSamples>,
    /// Is closed when the source is open, or cannot be had.
    opening: Receiver<Infallible>,
    begin: Sender<Schedule>,
    stop: Sender<()>,
}

impl TimeSampler {
    /// Opens the source in its thread, by `open`, while the trial is prepared.
    pub fn open(
        server: TimedServer,
        open: impl FnOnce() -> Result<(Box<dyn TimeSource>, Vec<RefusedSource>), Error> + Send + 'static,
    ) -> Result<TimeSampler, Error> {
        let ((begin, begins), (stop, stopped), (is_opening, opening)) = (channel(), channel(), channel());
        let work = move || {
            let opened = open();
            drop(is_opening);
            let reports = ActivityReports::of(server.postmaster_pid);
            // Nobody begins where the trial failed before its start.
            let (Ok((source, refused)), Ok(schedule)) = (opened, begins.recv()) else { return TimeSamples::default() };
            let looker = Looker { server, source, refused, reports, parts: HashMap::new() };
            looker.look_on(schedule, &stopped)
        };
        let thread = std::thread::Builder::new().name("time".into()).spawn(work).map_err(Error::Thread)?;
        Ok(TimeSampler { thread, opening, begin, stop })
    }

    /// Waits until the source is open or cannot be had: what opening it costs belongs to no second of a trial.
    pub fn wait_until_open(&self) {
        let Err(_closed) = self.opening.recv();
    }

    /// Looks at `start` (a monotonic instant) and at the end of each of `seconds` seconds.
    pub fn begin(&self, start: Duration, seconds: u32) {
        // A thread that is gone has told why already.
        let _ = self.begin.send((start, seconds));
    }

    /// Ends before the schedule does, and returns what there is.
    pub fn stop(self) -> TimeSamples {
        let TimeSampler { thread, stop, .. } = self;
        drop(stop);
        join(thread)
    }

    /// Waits for the last look, and returns all of them.
    pub fn finish(self) -> TimeSamples {
        join(self.thread)
    }
}

fn join(thread: JoinHandle<TimeSamples>) -> TimeSamples {
    // A panic in the thread is a defect, not a state to go on from.
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

struct Looker {
    server: TimedServer,
    source: Box<dyn TimeSource>,
    refused: Vec<RefusedSource>,
    reports: Option<ActivityReports>,
    /// Who the processes are, as far as they had said it.
    parts: HashMap<(u32, u64), ServerPart>,
}

impl Looker {
    fn look_on(mut self, (start, seconds): Schedule, stopped: &Receiver<()>) -> TimeSamples {
        let mut found = TimeSamples::default();
        if !self.wait(Duration::ZERO, start, stopped) {
            return found;
        }
        let Ok(mut before) = self.source.read() else { return found };
        let names = WaitNames::of_version(self.server.version_num);
        let mut whole = Accounting::begin(before.clone(), By::Kind, names.clone());
        let (cost_at_start, cpu_at_start) = (self.source.cost(), read_thread_cpu_time());
        let (mut cost, mut cpu) = (cost_at_start.clone(), cpu_at_start);
        let mut total = TimeUse::default();
        let mut explained: Vec<f64> = Vec::new();
        let mut second = read_monotonic().saturating_sub(start).as_secs() as u32 + 1;
        let (mut is_whole, mut above) = (true, 0);
        while is_whole && second <= seconds && above < SECONDS_ABOVE {
            is_whole = self.wait(start, start + Duration::from_secs(second.into()), stopped);
            let Ok(reading) = self.source.read() else { break };
            self.learn(&reading.processes);
            let mut within = Accounting::begin(before, By::Kind, names.clone());
            within.add(reading.clone(), |process| self.who(process));
            let (cost_now, cpu_now) = (self.source.cost(), read_thread_cpu_time());
            let looking = Looking {
                cost_ns: total_ns(&cost_now).saturating_sub(total_ns(&cost)) + (cpu_now - cpu).as_nanos() as u64,
                reports: self.take_reports(&reading),
                lost: reading.lost.saturating_sub(whole.imperfect.lost_processes),
            };
            let used = compute_time_use(&within, &looking);
            whole.add(reading.clone(), |process| self.who(process));
            total.add(&used);
            // What is left over when the trial ends early belongs to the whole alone.
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
        let own_cpu = cpu - cpu_at_start;
        found.trial = (whole.length_ns() > 0)
            .then(|| describe_trial(figures, whole, &self.refused, since(cost, cost_at_start), own_cpu));
        found
    }

    /// Until the instant, counting reports of backends that have just come. False when it was stopped before.
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

    /// Learns who the processes are; one that has not said it yet is asked again.
    fn learn(&mut self, processes: &[ProcessTimes]) {
        for process in processes {
            let key = (process.pid, process.birth);
            let is_known = self.parts.get(&key).is_some_and(|part| *part != ServerPart::Other);
            if is_known || process.ended_ns.is_some() {
                continue;
            }
            let part = match self.server.observer_pid == Some(process.pid) {
                true => ServerPart::Observer,
                false => read_title(process.pid).map_or(ServerPart::Other, |title| ServerPart::of_title(&title)),
            };
            self.parts.insert(key, part);
        }
    }

    fn who(&self, process: &ProcessTimes) -> Who {
        let kind = match self.parts.get(&(process.pid, process.birth)) {
            _ if process.pid == self.server.postmaster_pid => POSTMASTER,
            Some(ServerPart::Observer) => PGTHAW,
            Some(part) => part.name(),
            // One that came and went between two looks, and served a client.
            None if process.commands > 0 => ServerPart::ClientBackend.name(),
            None => ServerPart::Other.name(),
        };
        Who { kind: kind.to_owned(), ..Who::default() }
    }

    fn take_reports(&mut self, reading: &Reading) -> Option<f64> {
        let serving =
            |process: &&ProcessTimes| self.parts.get(&(process.pid, process.birth)) == Some(&ServerPart::ClientBackend);
        let pids: Vec<u32> = reading.processes.iter().filter(serving).map(|process| process.pid).collect();
        let reports = self.reports.as_mut()?;
        reports.look();
        Some(reports.take(|pid| pids.contains(&pid)))
    }
}

/// Seconds within a second that client backends waited, by `class::event`.
fn compute_waited(within: &Accounting, per_second: f64) -> BTreeMap<String, f64> {
    let of_clients = within.statistics.iter().filter(|(name, _)| name.place == ServerPart::ClientBackend.name());
    let waits = of_clients.filter(|(name, statistic)| name.part != "processor" && statistic.total_ns > 0);
    let seconds = |ns: u64| (ns as f64 * per_second / 1e3).round() / 1e6;
    waits.map(|(name, one)| (format!("{}::{}", name.part, name.detail), seconds(one.total_ns))).collect()
}

fn total_ns(cost: &Option<ProbeCost>) -> u64 {
    cost.as_ref().map_or(0, ProbeCost::total_ns)
}

/// What was added to the cost of each program.
fn since(cost: Option<ProbeCost>, earlier: Option<ProbeCost>) -> ProbeCost {
    let (mut cost, earlier) = (cost.unwrap_or_default(), earlier.unwrap_or_default());
    for program in &mut cost.programs {
        let Some(before) = earlier.programs.iter().find(|before| before.name == program.name) else { continue };
        program.runs -= before.runs;
        program.total_ns -= before.total_ns;
    }
    cost
}
