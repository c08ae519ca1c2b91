//! Fills the page cache: measures, plans, reads, measures again, and rereads lost blocks once.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use roaring::RoaringBitmap;

use super::engine::{Engine, Outcome, let_go};
use super::governor::Governor;
use super::request::{Entry, Missing, Planned, RestoreOptions, Row, State, count_resident, end_of};
use crate::files::{Files, Found};
use crate::warm::plan::{Forecast, Plan, WantedFork};
use crate::warm::receipt::{FoundAs, MemoryReceipt, NoDouble, SkipReason, StopReason};
use crate::warm::{Host, Phase, Refusal};
use ::host::failure::{ErrorKind, Explain as _};
use ::host::linux::machine::LoadableMemory;
use ::host::linux::threads::map_on_threads;
use ::host::units::{Bytes, Fork};
use postgres::RelationPath;

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

#[derive(Clone, Copy)]
pub struct OsTier<'a> {
    pub files: Files<'a>,
    pub options: &'a RestoreOptions,
    pub governor: &'a Governor,
    pub host: &'a Host,
    /// Memory reserved for shared_buffers, not in use yet.
    pub reserved: Bytes,
}

struct Job {
    plan: Plan,
    planning: Duration,
    planned: Vec<Planned>,
    resident_bytes: Bytes,
    over_budget: SkipReason,
}

impl OsTier<'_> {
    pub fn measure(&self, entries: Vec<Entry>) -> Vec<Measured> {
        self.look(entries, &|| self.host.control.os_stopped_by().map(|reason| reason.skip_reason()))
    }

    pub fn look(&self, entries: Vec<Entry>, stop: &(dyn Fn() -> Option<SkipReason> + Sync)) -> Vec<Measured> {
        self.host.watcher.begin(Phase::Measuring, entries.len() as u64);
        let forks: Vec<(&Entry, u64)> = entries.iter().map(|entry| (entry, entry.asks.end())).collect();
        let states = self.read_forks(&forks, stop);
        entries.into_iter().zip(states).collect()
    }

    pub fn load(&self, mut measured: Vec<Measured>, budget: Option<Bytes>) -> Pass {
        // Files created in sequence tend to be adjacent on disk.
        measured.sort_by(|(one, _), (other, _)| (&one.path, one.fork).cmp(&(&other.path, other.fork)));
        let mut rows = Vec::new();
        let (mut planned, mut forks) = (Vec::new(), Vec::new());
        for (entry, state) in measured {
            match present(&entry, state) {
                State::There(found) => {
                    let (one, fork) = entry.prepare(found);
                    planned.push(one);
                    forks.push(fork);
                }
                // The file was in the catalog, so the relation was dropped meanwhile.
                State::Missing => rows.push(entry.absent_row(&Refusal::because(SkipReason::Dropped))),
                State::Refused(why) => rows.push(entry.absent_row(&why)),
            }
        }
        self.place(&planned, &mut forks);
        let resident_bytes = self.files.geometry.bytes(planned.iter().map(|one| one.resident_before).sum());
        let room = self.host.room.read_room();
        let (budget, over_budget) = self.allow(budget, room, resident_bytes);
        self.governor.begin(&*self.host.traffic);
        let started = Instant::now();
        let plan =
            Plan::new(forks, self.files.geometry, self.options.device.profile, self.governor.situation(), budget);
        let planning = started.elapsed();
        let job = Job { plan, planning, planned, resident_bytes, over_budget };
        let mut pass = if self.options.is_dry_run { job.forecast() } else { self.execute(&job) };
        pass.rows.append(&mut rows);
        pass.memory.room_bytes = room.map(|room| room.bytes);
        pass.memory.bound = room.map(|room| room.bound);
        pass
    }

    fn place(&self, planned: &[Planned], forks: &mut [WantedFork]) {
        if !self.options.seeks {
            return;
        }
        let places = map_on_threads(planned.len(), self.options.threads, |at| {
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
        let lost = job.lost_blocks(&found);
        if lost > 0 && self.host.control.os_stopped_by().is_none() {
            let mut again = self.read(job, &self.plan_again(job, &found, self.files.geometry.bytes(lost)));
            again.memory.reread_bytes = again.read_bytes();
            outcome.add(again);
            found = self.verify(job);
        }
        let seconds = started.elapsed().as_secs_f64();
        let mut memory = outcome.memory;
        let forks = (&job.planned[..], job.plan.forks());
        memory.add(let_go(self.files, forks, self.governor.had_traffic(), &mut outcome.brought));
        let rows = job.rows(&found, &outcome, self.host.control.os_stopped_by().map(|reason| reason.skip_reason()));
        if job.over_budget == SkipReason::NoMemory && job.plan.forecast().over_budget_blocks > 0 {
            self.host.control.stop_os(StopReason::NoMemory);
        }
        Pass {
            forecast: job.plan.forecast(),
            reads: outcome.reads,
            read_bytes: outcome.read_bytes(),
            seconds,
            rows,
            memory,
        }
    }

    fn read(&self, job: &Job, plan: &Plan) -> Outcome {
        self.host.watcher.begin(Phase::Reading, plan.forecast().read_bytes.0);
        self.governor.begin_pass();
        let is_done = AtomicBool::new(false);
        thread::scope(|scope| {
            // If the traffic watcher cannot start, reads do not yield to the server.
            let _ = thread::Builder::new().spawn_scoped(scope, || self.governor.watch(&*self.host.traffic, &is_done));
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                let mut outcome = self.read_planned(job, plan, job.planning, Bytes(0));
                while outcome.is_outdated {
                    let started = Instant::now();
                    self.governor.note_replan();
                    let rest = plan.rest(&outcome.brought, self.governor.situation());
                    let read_bytes = outcome.read_bytes();
                    outcome.add(self.read_planned(job, &rest, started.elapsed(), read_bytes));
                }
                outcome
            }));
            // Ends the traffic watcher: the scope waits for it, even after a panic.
            is_done.store(true, Ordering::Relaxed);
            outcome.unwrap_or_else(|panic| resume_unwind(panic))
        })
    }

    fn read_planned(&self, job: &Job, plan: &Plan, planning: Duration, read_bytes: Bytes) -> Outcome {
        let Self { files, options, governor, host, .. } = *self;
        let (forks, resident_bytes) = (&job.planned[..], job.resident_bytes + read_bytes);
        Engine { plan, planning, forks, files, threads: options.threads, governor, host, resident_bytes }.run()
    }

    /// Measures again, because later reads may have evicted pages of earlier ones.
    fn verify(&self, job: &Job) -> Vec<State> {
        self.host.watcher.begin(Phase::Verifying, job.planned.len() as u64);
        let forks = job.planned.iter().zip(job.plan.forks());
        let forks: Vec<(&Entry, u64)> = forks.map(|(one, fork)| (&one.entry, end_of(&fork.levels))).collect();
        self.read_forks(&forks, &|| None)
    }

    /// `stop` returns why the remaining forks are skipped. Works in parallel, because on a cold disk each fork costs a
    /// metadata read.
    fn read_forks(&self, forks: &[(&Entry, u64)], stop: &(dyn Fn() -> Option<SkipReason> + Sync)) -> Vec<State> {
        let mut states = map_on_threads(forks.len(), self.options.threads, |at| {
            let state = match stop() {
                Some(reason) => State::Refused(Refusal::because(reason)),
                None => read_fork(&self.files, forks[at]),
            };
            self.host.watcher.advance(1);
            state
        });
        // Retries one by one, now that other threads have closed their files.
        for (state, fork) in states.iter_mut().zip(forks) {
            if matches!(state, State::Refused(why) if why.reason == SkipReason::TooFewFiles) {
                *state = read_fork(&self.files, *fork);
            }
        }
        states
    }

    fn plan_again(&self, job: &Job, found: &[State], lost: Bytes) -> Plan {
        let mut forks = job.plan.forks().to_vec();
        for (fork, state) in forks.iter_mut().zip(found) {
            match state {
                State::There(found) => {
                    fork.blocks = fork.blocks.min(found.blocks);
                    fork.resident.clone_from(&found.resident);
                }
                State::Missing | State::Refused(_) => fork.levels.clear(),
            }
        }
        Plan::new(forks, self.files.geometry, self.options.device.profile, self.governor.situation(), Some(lost))
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
            Bytes(spare_reserved(all, self.reserved).0.saturating_sub(resident_bytes.0))
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
    fn lost_blocks(&self, found: &[State]) -> u64 {
        (0..self.planned.len()).map(|fork| self.missing(fork, &found[fork]).1).sum()
    }

    fn missing(&self, fork: usize, state: &State) -> (u64, u64) {
        let State::There(found) = state else { return (0, 0) };
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
            let read_bytes = outcome.fork_bytes[fork];
            match &found[fork] {
                State::There(now) => {
                    let (over_budget, lost) = self.missing(fork, &found[fork]);
                    let failure = outcome.failures.get(&fork);
                    let reason = failure.map(|failure| failure.reason).or(stopped);
                    let shrunk = lost_to_truncation(&self.plan.forks()[fork].levels, now.blocks);
                    let missing: Vec<Missing> = vec![
                        (self.over_budget, over_budget, None),
                        (SkipReason::Truncated, shrunk.min(lost), None),
                        (
                            reason.unwrap_or(SkipReason::DidNotStay),
                            lost - shrunk.min(lost),
                            failure.and_then(|failure| failure.detail.clone()),
                        ),
                    ];
                    one.row(Some(one.wanted_blocks - over_budget - lost), read_bytes, missing)
                }
                State::Missing => {
                    let detail = Some("the file disappeared during the restore".to_owned());
                    one.row(Some(0), read_bytes, vec![(SkipReason::FileGone, one.wanted_blocks, detail)])
                }
                State::Refused(why) => {
                    one.row(None, read_bytes, vec![(why.reason, one.wanted_blocks, why.detail.clone())])
                }
            }
        };
        self.planned.iter().enumerate().map(row).collect()
    }
}

/// PostgreSQL creates all but the main fork on demand: a missing one is empty.
fn present(entry: &Entry, state: State) -> State {
    match state {
        State::Missing if entry.found == FoundAs::WholeRewritten && entry.fork != Fork::Main => {
            State::There(Found::default())
        }
        state => state,
    }
}

fn lost_to_truncation(levels: &[(f32, roaring::RoaringBitmap)], blocks: u64) -> u64 {
    let Ok(end) = u32::try_from(blocks) else { return 0 };
    levels.iter().map(|(_, wanted)| wanted.range_cardinality(end..)).sum()
}

fn read_fork(files: &Files<'_>, (entry, end): (&Entry, u64)) -> State {
    match files.read_fork(&entry.path, entry.fork, end) {
        Ok(Some(found)) => State::There(found),
        Ok(None) => State::Missing,
        Err(error) if error.kind() == ErrorKind::Privilege => {
            State::Refused(Refusal::with_detail(SkipReason::NoPermission, error.to_string()))
        }
        Err(error) => State::Refused(Refusal::of_read(&error)),
    }
}

// Drops cached pages that are also in shared_buffers: they are useless until the buffer is evicted.

#[derive(Clone, Debug)]
pub struct Buffered {
    pub path: RelationPath,
    pub fork: Fork,
    pub blocks: RoaringBitmap,
}

/// Files that cannot be opened are not counted.
pub fn apply_no_double(files: &Files<'_>, buffered: &[Buffered]) -> NoDouble {
    let mut sums = NoDouble::default();
    for one in buffered {
        let dropped = files.drop_blocks(&one.path, one.fork, &one.blocks, |_, run| Ok(vec![files.pages(run)]));
        sums.cached_before_bytes += dropped.before_bytes;
        sums.cached_after_bytes += dropped.after_bytes;
    }
    sums
}
