//! Fills the page cache: measures, plans, reads, measures again, and rereads lost blocks once.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::engine::{self, Outcome};
use super::request::{Entry, Planned, Row, State, count_resident, end_of};
use super::task::{OsTier, Restore};
use crate::files::{Files, Found};
use crate::warm::plan::{Forecast, Plan, WantedFork};
use crate::warm::receipt::{FoundAs, MemoryReceipt, SkipReason, StopReason};
use crate::warm::{Phase, Refusal};
use ::host::failure::{ErrorKind, Explain as _};
use ::host::linux::machine::LoadableMemory;
use ::host::linux::threads::map_on_threads;
use ::host::units::{Bytes, Fork};

/// Share of the available memory to fill: the server needs memory as well.
const ROOM_RATIO: f64 = 0.95;

pub type Measured = (Entry, State);

#[derive(Debug, Default)]
pub struct Pass {
    pub forecast: Forecast,
    pub reads: u64,
    /// Planned bytes in a dry run.
    pub read_bytes: Bytes,
    /// Seconds from the first read until residency was verified.
    pub seconds: f64,
    pub rows: Vec<Row>,
    pub memory: MemoryReceipt,
}

struct Job {
    plan: Plan,
    planning: Duration,
    planned: Vec<Planned>,
    resident_bytes: Bytes,
    over_budget: SkipReason,
}

impl OsTier<'_> {
    /// With `may_stop`, skips the remaining forks when the restore stops.
    pub fn measure(&self, entries: Vec<Entry>, may_stop: bool) -> Vec<Measured> {
        self.restore.host.watcher.begin(Phase::Measuring, entries.len() as u64);
        let forks: Vec<(&Entry, u64)> = entries.iter().map(|entry| (entry, entry.asks.end())).collect();
        let states = self.read_forks(&forks, may_stop);
        entries.into_iter().zip(states).collect()
    }

    pub fn load(&self, mut measured: Vec<Measured>, budget: Option<Bytes>) -> Pass {
        // Files created in sequence tend to be adjacent on disk.
        measured.sort_by(|(one, _), (other, _)| (&one.path, one.fork).cmp(&(&other.path, other.fork)));
        let mut rows = Vec::new();
        let (mut planned, mut forks) = (Vec::new(), Vec::new());
        for (entry, state) in measured {
            // The file was in the catalog, so the relation was dropped meanwhile.
            let dropped = || Refusal::because(SkipReason::Dropped);
            // PostgreSQL creates all but the main fork on demand: a missing one is empty.
            let is_empty = entry.found == FoundAs::WholeRewritten && entry.fork != Fork::Main;
            match state.and_then(|found| found.or(is_empty.then(Found::default)).ok_or_else(dropped)) {
                Ok(found) => {
                    let (one, fork) = entry.prepare(found);
                    planned.push(one);
                    forks.push(fork);
                }
                Err(why) => rows.push(entry.absent_row(&why)),
            }
        }
        self.place(&planned, &mut forks);
        let resident_bytes = self.files.geometry.bytes(planned.iter().map(|one| one.resident_before).sum());
        let room = self.restore.host.room.read_room();
        let (budget, over_budget) = self.allow(budget, room, resident_bytes);
        self.restore.governor.begin(&*self.restore.host.traffic);
        let started = Instant::now();
        let plan = self.plan(forks, budget);
        let job = Job { plan, planning: started.elapsed(), planned, resident_bytes, over_budget };
        let mut pass = if self.restore.options.is_dry_run { job.forecast() } else { self.execute(&job) };
        pass.rows.append(&mut rows);
        pass.memory.room_bytes = room.map(|room| room.bytes);
        pass.memory.bound = room.map(|room| room.bound);
        pass
    }

    fn plan(&self, forks: Vec<WantedFork>, budget: Option<Bytes>) -> Plan {
        let Restore { governor, options, .. } = self.restore;
        Plan::new(forks, self.files.geometry, options.device.profile, governor.situation(), budget)
    }

    fn place(&self, planned: &[Planned], forks: &mut [WantedFork]) {
        if !self.restore.options.seeks {
            return;
        }
        let places = map_on_threads(planned.len(), self.restore.options.threads, |at| {
            let Planned { entry, blocks, wanted_blocks, resident_before, .. } = &planned[at];
            match wanted_blocks > resident_before {
                true => self.files.read_places(&entry.path, entry.fork, *blocks),
                false => Vec::new(),
            }
        });
        forks.iter_mut().zip(places).for_each(|(fork, places)| fork.places = places);
    }

    fn execute(&self, job: &Job) -> Pass {
        let started = Instant::now();
        let mut outcome = self.read(job, &job.plan);
        let mut found = self.verify(job);
        let lost: u64 = (0..found.len()).map(|fork| job.missing(fork, &found[fork]).1).sum();
        if lost > 0 && self.restore.host.control.os_stopped_by().is_none() {
            let mut forks = job.plan.forks().to_vec();
            for (fork, state) in forks.iter_mut().zip(found) {
                match state {
                    Ok(Some(found)) => (fork.blocks, fork.resident) = (fork.blocks.min(found.blocks), found.resident),
                    Ok(None) | Err(_) => fork.levels.clear(),
                }
            }
            let plan = self.plan(forks, Some(self.files.geometry.bytes(lost)));
            let mut again = self.read(job, &plan);
            again.memory.reread_bytes = again.read_bytes();
            outcome.add(again);
            found = self.verify(job);
        }
        let seconds = started.elapsed().as_secs_f64();
        let (forecast, reads, read_bytes) = (job.plan.forecast(), outcome.reads, outcome.read_bytes());
        let mut memory = outcome.memory;
        memory.add(self.let_go(&job.planned, &job.plan, &mut outcome.brought));
        let rows =
            job.rows(&found, &outcome, self.restore.host.control.os_stopped_by().map(|reason| reason.skip_reason()));
        if job.over_budget == SkipReason::NoMemory && forecast.over_budget_blocks > 0 {
            self.restore.host.control.stop_os(StopReason::NoMemory);
        }
        Pass { forecast, reads, read_bytes, seconds, rows, memory }
    }

    fn read(&self, job: &Job, plan: &Plan) -> Outcome {
        let Restore { governor, host, .. } = self.restore;
        host.watcher.begin(Phase::Reading, plan.forecast().read_bytes.0);
        governor.begin_pass();
        let is_done = AtomicBool::new(false);
        thread::scope(|scope| {
            // If the traffic watcher cannot start, reads do not yield to the server.
            let _ = thread::Builder::new().spawn_scoped(scope, || governor.watch(&*host.traffic, &is_done));
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                let mut outcome = engine::run(self, &job.planned, plan, job.planning, job.resident_bytes);
                while outcome.is_outdated {
                    let started = Instant::now();
                    governor.note_replan();
                    let rest = plan.rest(&outcome.brought, governor.situation());
                    let resident_bytes = job.resident_bytes + outcome.read_bytes();
                    outcome.add(engine::run(self, &job.planned, &rest, started.elapsed(), resident_bytes));
                }
                outcome
            }));
            // Ends the traffic watcher: the scope waits for it, even after a panic.
            is_done.store(true, Ordering::Relaxed);
            outcome.unwrap_or_else(|panic| resume_unwind(panic))
        })
    }

    /// Measures again, because later reads may have evicted pages of earlier ones.
    fn verify(&self, job: &Job) -> Vec<State> {
        self.restore.host.watcher.begin(Phase::Verifying, job.planned.len() as u64);
        let forks = job.planned.iter().zip(job.plan.forks());
        let forks: Vec<(&Entry, u64)> = forks.map(|(one, fork)| (&one.entry, end_of(&fork.levels))).collect();
        self.read_forks(&forks, false)
    }

    /// Works in parallel, because on a cold disk each fork costs a metadata read.
    fn read_forks(&self, forks: &[(&Entry, u64)], may_stop: bool) -> Vec<State> {
        let mut states = map_on_threads(forks.len(), self.restore.options.threads, |at| {
            let state = match self.restore.host.control.os_stopped_by() {
                Some(reason) if may_stop => Err(Refusal::because(reason.skip_reason())),
                _ => read_fork(&self.files, forks[at]),
            };
            self.restore.host.watcher.advance(1);
            state
        });
        // Retries one by one, now that other threads have closed their files.
        for (state, fork) in states.iter_mut().zip(forks) {
            if state.as_ref().is_err_and(|why| why.reason == SkipReason::TooFewFiles) {
                *state = read_fork(&self.files, *fork);
            }
        }
        states
    }

    /// Returns the smaller of the budget and the available memory, and the skip reason for blocks beyond this limit.
    fn allow(
        &self,
        budget: Option<Bytes>,
        room: Option<LoadableMemory>,
        resident_bytes: Bytes,
    ) -> (Option<Bytes>, SkipReason) {
        let left = room.map(|room| {
            let all = Bytes((room.bytes.0 as f64 * ROOM_RATIO) as u64);
            Bytes(spare_reserved(all, self.restore.reserved()).0.saturating_sub(resident_bytes.0))
        });
        match left {
            Some(left) if budget.is_none_or(|budget| left < budget) => (Some(left), SkipReason::NoMemory),
            _ => (budget, SkipReason::OverBudget),
        }
    }
}

/// Part of the memory `all` that the page cache may fill: the rest after `reserved` for shared_buffers. If the rest is
/// smaller than `reserved`, the page cache may fill as much as `reserved` (at most `all`). The kernel may then evict
/// the page cache's copies of blocks that are also in shared_buffers.
fn spare_reserved(all: Bytes, reserved: Bytes) -> Bytes {
    Bytes(all.0.saturating_sub(reserved.0)).max(all.min(reserved))
}

impl Job {
    fn missing(&self, fork: usize, state: &State) -> (u64, u64) {
        let Ok(Some(found)) = state else { return (0, 0) };
        let one = &self.planned[fork];
        let over_budget = one.wanted_blocks - one.resident_before - self.plan.fork_forecasts[fork].planned_blocks;
        let missing = one.wanted_blocks - count_resident(&self.plan.forks()[fork].levels, &found.resident);
        let over_budget = over_budget.min(missing);
        (over_budget, missing - over_budget)
    }

    fn forecast(&self) -> Pass {
        let row = |(fork, one): (usize, &Planned)| {
            let forecast = self.plan.fork_forecasts[fork];
            let over_budget = one.wanted_blocks - one.resident_before - forecast.planned_blocks;
            one.row(None, forecast.read_bytes, vec![(self.over_budget, over_budget, None)])
        };
        let rows = self.planned.iter().enumerate().map(row).collect();
        let forecast = self.plan.forecast();
        Pass { forecast, read_bytes: forecast.read_bytes, rows, ..Pass::default() }
    }

    fn rows(&self, found: &[State], outcome: &Outcome, stopped: Option<SkipReason>) -> Vec<Row> {
        let row = |(fork, one): (usize, &Planned)| {
            let (resident_after, skips) = match &found[fork] {
                Ok(Some(now)) => {
                    let (over_budget, lost) = self.missing(fork, &found[fork]);
                    let failure = outcome.failures.get(&fork);
                    let reason = failure.map(|failure| failure.reason).or(stopped).unwrap_or(SkipReason::DidNotStay);
                    let shrunk = lost_to_truncation(&self.plan.forks()[fork].levels, now.blocks).min(lost);
                    let skips = vec![
                        (self.over_budget, over_budget, None),
                        (SkipReason::Truncated, shrunk, None),
                        (reason, lost - shrunk, failure.and_then(|failure| failure.detail.clone())),
                    ];
                    (Some(one.wanted_blocks - over_budget - lost), skips)
                }
                Ok(None) => {
                    let detail = Some("the file disappeared during the restore".to_owned());
                    (Some(0), vec![(SkipReason::FileGone, one.wanted_blocks, detail)])
                }
                Err(why) => (None, vec![(why.reason, one.wanted_blocks, why.detail.clone())]),
            };
            one.row(resident_after, outcome.fork_bytes[fork], skips)
        };
        self.planned.iter().enumerate().map(row).collect()
    }
}

fn lost_to_truncation(levels: &[(f32, roaring::RoaringBitmap)], blocks: u64) -> u64 {
    let Ok(end) = u32::try_from(blocks) else { return 0 };
    levels.iter().map(|(_, wanted)| wanted.range_cardinality(end..)).sum()
}

fn read_fork(files: &Files<'_>, (entry, end): (&Entry, u64)) -> State {
    files.read_fork(&entry.path, entry.fork, end).map_err(|error| match error.kind() {
        ErrorKind::Privilege => Refusal::with_detail(SkipReason::NoPermission, error.to_string()),
        _ => Refusal::of_read(&error),
    })
}
