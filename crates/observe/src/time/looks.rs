//! Samples the activity of processes. Each sample adds the time since the previous sample to the activity that it sees.
//! A reading between two samples adds the time until then to the activity of the last sample.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sqlx::postgres::PgConnection;
use tokio::sync::oneshot;
use tokio::time::{MissedTickBehavior, interval};

use crate::Error;
use crate::sampler::{Sampling, wait_until};
use crate::statistic::Statistic;
use crate::time::event_word::EventWord;
use crate::time::source::{LOOK, ProcessTimes, Reading, Tier, TimeSource, WaitEvent};
use host::failure::Explain as _;
use host::linux::clock::{read_monotonic, read_own_cpu_time};
use host::linux::process::{StateFile, read_listed_children};
use host::linux::threads::lock;
use postgres::{Session, read_backend_pid, read_sessions};

/// Event that a process waits for. `None`: running or ready.
type Doing = Option<WaitEvent>;

/// Pid, start time and activity of a process.
pub(super) type Seen = (u32, u64, Doing);

#[derive(Clone, Debug, Default)]
pub(super) struct LookSums(Arc<Mutex<Sums>>);

/// Consistent even after a panic.
#[derive(Debug, Default)]
struct Sums {
    at_ns: u64,
    processes: HashMap<(u32, u64), (ProcessTimes, Doing)>,
    failure: Option<String>,
}

impl LookSums {
    /// A process missing in `seen` ended at its previous sample.
    pub fn add(&self, at_ns: u64, seen: Vec<Seen>) {
        let mut sums = lock(&self.0);
        let before = sums.at_ns;
        let at_ns = at_ns.max(before);
        let elapsed = at_ns - before;
        sums.at_ns = at_ns;
        let there: HashSet<(u32, u64)> = seen.iter().map(|(pid, birth, _)| (*pid, *birth)).collect();
        for (_, (process, _)) in sums.processes.iter_mut().filter(|(key, _)| !there.contains(key)) {
            process.ended_ns.get_or_insert(before);
        }
        for (pid, birth, doing) in seen {
            let new = || ProcessTimes { pid, birth, started_ns: at_ns, ..ProcessTimes::default() };
            let (process, last) = sums.processes.entry((pid, birth)).or_insert_with(|| (new(), doing.clone()));
            // Activity before the first sample of a process is unknown.
            let elapsed = if process.started_ns == at_ns { 0 } else { elapsed };
            charge(process, &doing, elapsed);
            *last = doing;
        }
    }

    /// Charges the time since the last sample as unknown.
    pub fn add_failed(&self, at_ns: u64) {
        let sums = lock(&self.0);
        let there = sums.processes.values().filter(|(process, _)| process.ended_ns.is_none());
        let unseen = there.map(|(process, _)| (process.pid, process.birth, Some(WaitEvent::Unknown))).collect();
        drop(sums);
        self.add(at_ns, unseen);
    }

    /// Reads the sums as of `at_ns`. Assumes that each process has kept the activity of its last sample until then. So
    /// readings are evenly spaced, even if samples are not.
    pub fn read_until(&self, at_ns: u64) -> Reading {
        let mut sums = lock(&self.0);
        let elapsed = at_ns.saturating_sub(sums.at_ns);
        sums.at_ns += elapsed;
        for (process, doing) in sums.processes.values_mut().filter(|(process, _)| process.ended_ns.is_none()) {
            charge(process, doing, elapsed);
        }
        let processes = sums.processes.values().map(|(process, _)| process.clone()).collect();
        sums.processes.retain(|_, (process, _)| process.ended_ns.is_none());
        Reading { at_ns: sums.at_ns, processes, ..Reading::default() }
    }

    /// Reads the sums as of the last sample.
    pub fn read(&self) -> Reading {
        self.read_until(0)
    }
}

fn charge(process: &mut ProcessTimes, doing: &Doing, elapsed: u64) {
    let Some(event) = doing else {
        process.running_ns += elapsed;
        return;
    };
    let more = Statistic::of_time(0, elapsed);
    match process.waits.iter_mut().find(|(known, _)| known == event) {
        Some((_, sum)) => sum.merge(&more),
        None => process.waits.push((event.clone(), more)),
    }
}

pub const LOOKS_PER_SECOND: f64 = 100.0;

const LONGEST_INTERVAL: Duration = Duration::from_secs(1);

const LISTED_FOR: Duration = Duration::from_millis(200);

/// Dropping it stops the thread.
#[derive(Debug)]
pub struct MemoryLooks {
    sums: LookSums,
    interval_ms: Arc<AtomicU64>,
    /// Processor time of the first sample, without the listing of processes.
    look_cost: Duration,
    word: EventWord,
    _looking: Sampling<()>,
}

impl MemoryLooks {
    pub fn start(postmaster_pid: u32) -> Result<MemoryLooks, Error> {
        let word = EventWord::find(postmaster_pid)?;
        // If the postmaster is readable, all processes are.
        word.read(postmaster_pid)?;
        let sums = LookSums::default();
        let interval_ms = Arc::new(AtomicU64::new((1e3 / LOOKS_PER_SECOND) as u64));
        let (to_add, interval) = (sums.clone(), Arc::clone(&interval_ms));
        let mut watched = WatchedProcesses { word, open: BTreeMap::new() };
        watched.list(postmaster_pid);
        let cpu_before = read_own_cpu_time();
        to_add.add(read_monotonic().as_nanos() as u64, watched.look());
        let look_cost = read_own_cpu_time().saturating_sub(cpu_before);
        let _looking = Sampling::start("waits", move |stopped| {
            let mut listed_at = read_monotonic();
            loop {
                let now = read_monotonic();
                if now.saturating_sub(listed_at) >= LISTED_FOR {
                    watched.list(postmaster_pid);
                    listed_at = now;
                }
                to_add.add(now.as_nanos() as u64, watched.look());
                let interval = Duration::from_millis(interval.load(Ordering::Relaxed));
                if !wait_until(read_monotonic() + interval, stopped) {
                    return;
                }
            }
        })?;
        Ok(MemoryLooks { sums, interval_ms, look_cost, word, _looking })
    }

    /// Limits the processor use, estimated from the first sample. Returns the samples per second.
    pub fn look_within(&mut self, processors: f64) -> f64 {
        let interval = interval_within(self.look_cost, processors);
        self.interval_ms.store(interval.as_millis() as u64, Ordering::Relaxed);
        1.0 / interval.as_secs_f64()
    }
}

fn interval_within(look_cost: Duration, processors: f64) -> Duration {
    let seconds = look_cost.as_secs_f64() / processors.max(f64::MIN_POSITIVE);
    let millis = (1e3 * seconds).clamp(1e3 / LOOKS_PER_SECOND, LONGEST_INTERVAL.as_millis() as f64);
    Duration::from_millis(millis as u64)
}

impl TimeSource for MemoryLooks {
    fn tier(&self) -> Tier {
        Tier::Memory
    }

    fn event_word(&self) -> Option<EventWord> {
        Some(self.word)
    }

    fn read(&mut self) -> Result<Reading, Error> {
        Ok(self.sums.read_until(read_monotonic().as_nanos() as u64))
    }

    fn look_less(&mut self) -> Option<f64> {
        let longer_ms = 2 * self.interval_ms.load(Ordering::Relaxed);
        if longer_ms > LONGEST_INTERVAL.as_millis() as u64 {
            return None;
        }
        self.interval_ms.store(longer_ms, Ordering::Relaxed);
        Some(1e3 / longer_ms as f64)
    }

    fn look_at_most(&mut self, looks_per_second: f64) {
        let interval_ms = (1e3 / looks_per_second).min(LONGEST_INTERVAL.as_millis() as f64) as u64;
        self.interval_ms.fetch_max(interval_ms, Ordering::Relaxed);
    }
}

/// A server's processes, with open files, so that a sample opens none.
#[derive(Debug)]
struct WatchedProcesses {
    word: EventWord,
    /// By pid, with the last known pointer to the event number.
    open: BTreeMap<u32, (StateFile, u64)>,
}

impl WatchedProcesses {
    fn list(&mut self, postmaster_pid: u32) {
        let children = read_listed_children(postmaster_pid).unwrap_or_default();
        let pids: BTreeSet<u32> = children.into_iter().chain([postmaster_pid]).collect();
        self.open.retain(|pid, (state, _)| pids.contains(pid) && state.is_running().is_some());
        for pid in pids {
            let Ok(pointer) = self.word.read_pointer(pid) else { continue };
            match self.open.entry(pid) {
                Entry::Occupied(known) => known.into_mut().1 = pointer,
                Entry::Vacant(place) => {
                    let _ = StateFile::open(pid).map(|state| place.insert((state, pointer)));
                }
            }
        }
    }

    fn look(&self) -> Vec<Seen> {
        let look_at = |(pid, (state, pointer)): (&u32, &(StateFile, u64))| {
            let is_running = state.is_running()?;
            // Ignores the event of a running process, because a woken process still shows it.
            let event = || self.word.read_at(*pid, *pointer).map_or(WaitEvent::Unknown, WaitEvent::Number);
            Some((*pid, state.start_ticks, (!is_running).then(event)))
        };
        self.open.iter().filter_map(look_at).collect()
    }
}

const INTERVAL: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub struct SqlLooks {
    sums: LookSums,
    /// Stops the sampling with an own connection. `None`: samples the sessions that `Watch` queries anyway.
    own: Option<oneshot::Sender<()>>,
}

impl SqlLooks {
    /// Samples until the server is gone. Counts the sampling queries in `own`.
    pub async fn start(
        mut connection: PgConnection,
        own: Option<OwnTransactions>,
    ) -> Result<SqlLooks, postgres::Error> {
        let (sums, (stop, mut stopped)) = (LookSums::default(), oneshot::channel::<()>());
        let to_add = sums.clone();
        let own_pid = read_backend_pid(&mut connection).await?;
        to_add.add(read_monotonic().as_nanos() as u64, seen(read_sessions(&mut connection).await?, own_pid));
        tokio::spawn(async move {
            let mut ticks = interval(INTERVAL);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                tokio::select! {
                    _ = &mut stopped => return,
                    _ = ticks.tick() => {}
                }
                let asked = own.as_ref().map(OwnTransactions::begin);
                let sessions = read_sessions(&mut connection).await;
                drop(asked);
                let at_ns = read_monotonic().as_nanos() as u64;
                match sessions {
                    Ok(sessions) => to_add.add(at_ns, seen(sessions, own_pid)),
                    Err(error) if error.is_server_gone() => {
                        lock(&to_add.0).failure = Some(error.with_hint());
                        return;
                    }
                    // `Watch` reports why its own queries fail.
                    Err(_) => to_add.add_failed(at_ns),
                }
            }
        });
        Ok(SqlLooks { sums, own: Some(stop) })
    }

    /// Samples the sessions that `Watch` queries anyway.
    pub fn share(sessions: Vec<Session>) -> SqlLooks {
        let sums = LookSums::default();
        sums.add(read_monotonic().as_nanos() as u64, seen(sessions, 0));
        SqlLooks { sums, own: None }
    }
}

impl TimeSource for SqlLooks {
    fn tier(&self) -> Tier {
        Tier::Sql
    }

    fn read(&mut self) -> Result<Reading, Error> {
        Ok(self.sums.read())
    }

    fn failure(&self) -> Option<String> {
        lock(&self.sums.0).failure.clone()
    }

    fn ask_every(&self) -> Duration {
        if self.own.is_some() { LOOK } else { LONGEST_INTERVAL }
    }

    fn see(&mut self, sessions: Option<&[Session]>) {
        let at_ns = read_monotonic().as_nanos() as u64;
        match sessions {
            _ if self.own.is_some() => {}
            Some(sessions) => self.sums.add(at_ns, seen(sessions.to_vec(), 0)),
            None => self.sums.add_failed(at_ns),
        }
    }
}

fn seen(sessions: Vec<Session>, own_pid: u32) -> Vec<Seen> {
    let see = |session: Session| {
        let doing = match (session.event_type, session.event) {
            (Some(class), Some(event)) => Some(WaitEvent::Named(class, event)),
            // This role may not see the activity.
            _ if session.backend.is_none() => Some(WaitEvent::Unknown),
            _ => None,
        };
        (session.pid, session.started_us, doing)
    };
    sessions.into_iter().filter(|session| session.pid != own_pid).map(see).collect()
}

/// Counts of pgthaw's statements (transactions). Clones share the counts.
#[derive(Clone, Debug, Default)]
pub struct OwnTransactions(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    begun: AtomicU64,
    ended: AtomicU64,
}

#[derive(Debug)]
#[must_use]
pub struct OwnStatement(OwnTransactions);

impl OwnTransactions {
    pub fn begin(&self) -> OwnStatement {
        self.0.begun.fetch_add(1, Ordering::Relaxed);
        OwnStatement(self.clone())
    }

    pub fn add(&self, count: u64) {
        self.0.begun.fetch_add(count, Ordering::Relaxed);
        self.0.ended.fetch_add(count, Ordering::Relaxed);
    }

    /// Number of pgthaw's statements that have begun, and that have ended. While these numbers differ, it is uncertain
    /// how many statements the server has counted.
    pub fn counts(&self) -> (u64, u64) {
        (self.0.begun.load(Ordering::Relaxed), self.0.ended.load(Ordering::Relaxed))
    }
}

impl Drop for OwnStatement {
    fn drop(&mut self) {
        self.0.0.ended.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_look_stands_for_the_time_since_the_one_before() {
        let sums = LookSums::default();
        let lock = || Some(WaitEvent::Named("Lock".into(), "tuple".into()));
        sums.add(1000, vec![(1, 5, lock())]);
        sums.add(1100, vec![(1, 5, lock()), (2, 6, None)]);
        sums.add(1300, vec![(2, 6, None)]);
        let reading = sums.read();
        let of = |pid| reading.processes.iter().find(|one| one.pid == pid).unwrap().clone();
        assert_eq!((reading.at_ns, of(1).ended_ns, of(2).ended_ns), (1300, Some(1100), None));
        assert_eq!((of(1).waits[0].1.total_ns, of(1).waits[0].1.count), (100, 0));
        assert_eq!((of(2).running_ns, of(2).started_ns), (200, 1100));
        assert_eq!(sums.read().processes.len(), 1, "who has ended is told once");
    }

    #[test]
    fn what_a_failed_look_would_have_seen_is_not_known() {
        let sums = LookSums::default();
        let lock = || Some(WaitEvent::Named("Lock".into(), "tuple".into()));
        sums.add(1000, vec![(1, 5, lock()), (2, 6, None)]);
        sums.add(1100, vec![(1, 5, lock())]);
        sums.add_failed(1300);
        sums.add(1400, vec![(1, 5, lock())]);
        let reading = sums.read();
        assert_eq!((reading.at_ns, reading.processes.len()), (1400, 2));
        let one = reading.processes.iter().find(|one| one.pid == 1).unwrap();
        let waited = |event| one.waits_for(&event).total_ns;
        assert_eq!((waited(lock().unwrap()), waited(WaitEvent::Unknown), one.running_ns), (200, 200, 0));
    }

    #[test]
    fn a_reading_between_two_looks_is_until_its_own_instant() {
        let sums = LookSums::default();
        let lock = || Some(WaitEvent::Named("Lock".into(), "tuple".into()));
        sums.add(1000, vec![(1, 5, lock())]);
        let mut read_at = Vec::new();
        let mut read = |at_ns, waited, ran| {
            let reading = sums.read_until(at_ns);
            let one = &reading.processes[0];
            assert_eq!((one.waits[0].1.total_ns, one.running_ns), (waited, ran), "at {at_ns}");
            read_at.push(reading.at_ns);
        };
        sums.add(1640, vec![(1, 5, lock())]);
        read(2000, 1000, 0);
        sums.add(2280, vec![(1, 5, None)]);
        sums.add(2920, vec![(1, 5, None)]);
        read(3000, 1000, 1000);
        assert_eq!(read_at, [2000, 3000]);
        sums.add(3560, Vec::new());
        let ended = sums.read_until(4000);
        assert_eq!((ended.at_ns, ended.processes[0].ended_ns, ended.processes[0].running_ns), (4000, Some(3000), 1000));
    }
}

#[cfg(test)]
mod memory_looks_tests {
    use super::*;

    #[test]
    fn there_are_as_many_looks_as_may_be_paid_for() {
        let look = Duration::from_micros(500);
        let millis = |processors| interval_within(look, processors).as_millis();
        assert_eq!([1.0, 0.025, 0.005, 0.0005, 0.0].map(millis), [10, 20, 100, 1000, 1000]);
    }
}
