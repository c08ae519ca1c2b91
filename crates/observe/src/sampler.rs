//! Reads a trial's counters every second on an absolute schedule, in a thread.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::Error;
use host::linux::block_device::Devices;
use host::linux::page_cache::CachedFile;
use host::linux::{clock, process};
use host::units::{Bytes, PageRange};

const TICKS_PER_SECOND: u32 = 10;
const TICK: Duration = Duration::from_millis(100);

/// Until this tick, every tick searches for new backends. Later only full seconds do.
const SEARCH_TICKS: u32 = 3 * TICKS_PER_SECOND;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cadence {
    /// For a warming server: reads counters every tenth of a second, and counts cached pages every second.
    Close,
    /// Reads counters every second, and counts cached pages as rarely as their cost requires.
    Sparing,
}

/// Maximum share of one processor for counting cached pages, with `Cadence::Sparing`.
const RESIDENCY_SHARE: f64 = 0.005;

#[derive(Debug)]
pub struct Sources {
    /// Without a device (tmpfs), reads count as 0.
    pub devices: Devices,
    pub backends: BackendReads,
    /// Files whose cached pages are counted. A file's number is the position of its relation in
    /// `Resident::relations`. `None`: the relation has no count of its own.
    pub files: Vec<(Option<usize>, Box<dyn CachedFile>)>,
    pub relations: usize,
    pub page_bytes: u64,
    pub cadence: Cadence,
}

#[derive(Clone, Debug, Default)]
struct Resident {
    bytes: Bytes,
    relations: Vec<Bytes>,
    /// Monotonic instant of the next count.
    good_until: Duration,
}

impl Sources {
    fn read(&mut self, resident: &mut Resident) -> Result<Reading, Error> {
        let device = self.devices.read()?.unwrap_or_default();
        let backends = self.backends.read()?;
        let monotonic = clock::read_monotonic();
        let counters = Counters { device_read_bytes: device.read_bytes, device_reads: device.reads, ..backends };
        if monotonic >= resident.good_until {
            *resident = self.count_resident()?;
        }
        Ok(Reading { monotonic, wall_ms: clock::read_wall_ms(), counters, os_resident_bytes: resident.bytes })
    }

    fn count_resident(&self) -> Result<Resident, Error> {
        let began = clock::read_monotonic();
        let (mut all, mut relations) = (Bytes(0), vec![Bytes(0); self.relations]);
        for (relation, file) in &self.files {
            let range = PageRange::new(0, file.size_bytes().div_ceil(self.page_bytes));
            let bytes = Bytes(file.read_counts(range)?.cached * self.page_bytes);
            all += bytes;
            if let Some(own) = relation.and_then(|place| relations.get_mut(place)) {
                *own += bytes;
            }
        }
        let cost = clock::read_monotonic().saturating_sub(began);
        let good_for = if self.cadence == Cadence::Close { Duration::ZERO } else { cost.div_f64(RESIDENCY_SHARE) };
        Ok(Resident { bytes: all, relations, good_until: began + good_for })
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Readings {
    /// At the start and each second's end.
    pub seconds: Vec<Reading>,
    pub relations: Vec<Vec<Bytes>>,
    /// Total bytes read by the workload's backends, every tenth of a second.
    pub workload: Vec<(Duration, Bytes)>,
}

/// Dropping this stops the thread at the next tick.
#[derive(Debug)]
pub struct Sampling<T> {
    thread: JoinHandle<T>,
    stop: Sender<()>,
}

impl<T: Send + 'static> Sampling<T> {
    pub(crate) fn start(
        name: &str,
        work: impl FnOnce(&Receiver<()>) -> T + Send + 'static,
    ) -> Result<Sampling<T>, Error> {
        let (stop, stopped) = channel();
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || work(&stopped));
        Ok(Sampling { thread: thread.map_err(Error::Thread)?, stop })
    }

    pub fn finish(self, is_early: bool) -> T {
        let Sampling { thread, stop } = self;
        let _stop = (!is_early).then_some(stop);
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

/// Reads at `start` (monotonic) and at each second's end.
pub fn sample_counters(
    mut sources: Sources,
    start: Duration,
    seconds: u32,
    mut on_reading: impl FnMut(&Reading) + Send + 'static,
) -> Result<Sampling<Result<Readings, Error>>, Error> {
    Sampling::start("counters", move |stopped| {
        let (mut readings, mut resident) = (Readings::default(), Resident::default());
        let step = if sources.cadence == Cadence::Close { 1 } else { TICKS_PER_SECOND };
        for tick in (0..=seconds * TICKS_PER_SECOND).step_by(step as usize) {
            if !wait_until(start + TICK * tick, stopped) {
                break;
            }
            let counters = if tick % TICKS_PER_SECOND == 0 {
                let reading = sources.read(&mut resident)?;
                on_reading(&reading);
                readings.seconds.push(reading);
                if sources.relations > 0 {
                    readings.relations.push(resident.relations.clone());
                }
                reading.counters
            } else if tick < SEARCH_TICKS {
                sources.backends.read()?
            } else {
                sources.backends.read_known();
                sources.backends.totals()
            };
            readings.workload.push((clock::read_monotonic(), counters.workload_read_bytes));
        }
        Ok(readings)
    })
}

pub(crate) fn wait_until(instant: Duration, stopped: &Receiver<()>) -> bool {
    let left = instant.saturating_sub(clock::read_monotonic());
    stopped.recv_timeout(left) == Err(RecvTimeoutError::Timeout)
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counters {
    pub device_read_bytes: Bytes,
    pub device_reads: u64,
    pub workload_read_bytes: Bytes,
    pub strategy_read_bytes: Bytes,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Second {
    /// When the closing reading was taken.
    pub monotonic: Duration,
    pub wall_ms: i64,
    pub lateness: Duration,
    pub counters: Counters,
    pub os_resident_bytes: Bytes,
}

impl Counters {
    pub fn since(self, earlier: Counters) -> Counters {
        self.with(earlier, |now, before| now.saturating_sub(before))
    }

    fn with(self, other: Counters, combine: impl Fn(u64, u64) -> u64) -> Counters {
        let bytes = |a: Bytes, b: Bytes| Bytes(combine(a.0, b.0));
        Counters {
            device_read_bytes: bytes(self.device_read_bytes, other.device_read_bytes),
            device_reads: combine(self.device_reads, other.device_reads),
            workload_read_bytes: bytes(self.workload_read_bytes, other.workload_read_bytes),
            strategy_read_bytes: bytes(self.strategy_read_bytes, other.strategy_read_bytes),
        }
    }
}

/// Counters at one instant. They never decrease.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reading {
    /// Since boot.
    pub monotonic: Duration,
    pub wall_ms: i64,
    pub counters: Counters,
    /// Current bytes, not a counter.
    pub os_resident_bytes: Bytes,
}

/// Interpolates linearly between readings, so a late reading neither loses nor duplicates bytes. Omits seconds after
/// the last reading.
pub fn compute_seconds(readings: &[Reading], start: Duration, seconds: u32) -> Vec<Second> {
    let ends = (1..=seconds).map(|second| start + Duration::from_secs(second.into()));
    let counters_at = |instant: Duration| {
        let (before, after, share) = find_around(readings, |reading| reading.monotonic, instant)?;
        Some((before.counters.with(after.counters, |from, to| between(from, to, share)), after))
    };
    let mut previous = counters_at(start).map(|(counters, _)| counters).unwrap_or_default();
    ends.map_while(|end| {
        let (counters, closing) = counters_at(end)?;
        let within = counters.since(previous);
        previous = counters;
        Some(Second {
            monotonic: closing.monotonic,
            wall_ms: closing.wall_ms,
            lateness: closing.monotonic - end,
            counters: within,
            os_resident_bytes: closing.os_resident_bytes,
        })
    })
    .collect()
}

/// Bytes in each tenth of a second; 0 after the last reading.
pub fn compute_tenths(readings: &[(Duration, Bytes)], start: Duration, seconds: u32) -> Vec<Bytes> {
    let at = |tenth: u32| match find_around(readings, |(at, _)| *at, start + TICK * tenth) {
        Some(((_, from), (_, to), share)) => Bytes(between(from.0, to.0, share)),
        None => readings.last().map_or(Bytes(0), |last| last.1),
    };
    (0..seconds * 10).map(|tenth| Bytes(at(tenth + 1).0.saturating_sub(at(tenth).0))).collect()
}

/// The readings around `instant`, and its position between them, 0 to 1. Before the first reading, both are the first.
/// `None` after the last.
fn find_around<T>(readings: &[T], at: impl Fn(&T) -> Duration, instant: Duration) -> Option<(&T, &T, f64)> {
    let index = readings.partition_point(|reading| at(reading) < instant);
    let (before, after) = (readings.get(index.saturating_sub(1))?, readings.get(index)?);
    let span = (at(after) - at(before)).as_secs_f64();
    let share = if span > 0.0 { (instant - at(before)).as_secs_f64() / span } else { 1.0 };
    Some((before, after, share))
}

fn between(from: u64, to: u64, share: f64) -> u64 {
    from + (to.saturating_sub(from) as f64 * share).round() as u64
}

// A process's title shows its role (`postgres: lab: pgthaw_workload bench [local] SELECT`), and /proc its fetched
// bytes. Unlike pg_stat_activity, neither makes a cold server read its catalogs.
//
// With `io_method = worker` (PostgreSQL 18), shared io workers read for scans, but not for the workload's index
// lookups. If the trial's warm-up strategy runs SQL that scans, reads of io workers count as the strategy's. Otherwise
// they count as the workload's.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackendRole {
    Workload,
    /// Includes its parallel workers, and autoprewarm.
    Strategy,
    IoWorker,
    /// Includes backends without a role yet.
    Other,
}

/// Bytes fetched by backends, including ended ones.
#[derive(Debug)]
pub struct BackendReads {
    postmaster_pid: u32,
    io_workers_serve: BackendRole,
    seen: HashMap<u32, (BackendRole, Bytes)>,
}

impl BackendReads {
    pub fn new(postmaster_pid: u32, io_workers_serve: BackendRole) -> BackendReads {
        BackendReads { postmaster_pid, io_workers_serve, seen: HashMap::new() }
    }

    pub fn read(&mut self) -> Result<Counters, Error> {
        for pid in process::read_children(self.postmaster_pid)? {
            let (Ok(read_bytes), Ok(title)) = (process::read_fetched_bytes(pid), process::read_title(pid)) else {
                continue;
            };
            let known = self.seen.get(&pid).map(|(role, _)| *role).filter(|role| *role != BackendRole::Other);
            self.seen.insert(pid, (known.unwrap_or_else(|| classify(&title)), read_bytes));
        }
        Ok(self.totals())
    }

    /// Reads known backends again, to follow short-lived ones cheaply.
    pub fn read_known(&mut self) {
        for (pid, (_, read_bytes)) in &mut self.seen {
            *read_bytes = process::read_fetched_bytes(*pid).unwrap_or(*read_bytes);
        }
    }

    /// Without the device's counters.
    pub fn totals(&self) -> Counters {
        let serves = |role| if role == BackendRole::IoWorker { self.io_workers_serve } else { role };
        let total = |role| self.seen.values().filter(|one| serves(one.0) == role).map(|one| one.1).sum();
        Counters {
            workload_read_bytes: total(BackendRole::Workload),
            strategy_read_bytes: total(BackendRole::Strategy),
            ..Counters::default()
        }
    }
}

/// Ends the strategy's backends, like pg_terminate_backend(). A backend notices a lost client only when it sends.
pub fn apply_end_strategy_backends(postmaster_pid: u32) {
    let is_strategy = |pid: &u32| process::read_title(*pid).is_ok_and(|title| title.contains(STRATEGY_ROLE));
    let children = process::read_children(postmaster_pid).unwrap_or_default();
    children.into_iter().filter(is_strategy).for_each(process::terminate);
}

fn classify(title: &str) -> BackendRole {
    let mut words = title.split_ascii_whitespace();
    if words.any(|word| word == WORKLOAD_ROLE) {
        BackendRole::Workload
    } else if [STRATEGY_ROLE, "autoprewarm", "parallel worker"].iter().any(|sign| title.contains(sign)) {
        BackendRole::Strategy
    } else if title.contains("io worker") {
        BackendRole::IoWorker
    } else {
        BackendRole::Other
    }
}

/// pgbench's role, which only the workload uses.
pub const WORKLOAD_ROLE: &str = "pgthaw_workload";

pub const STRATEGY_ROLE: &str = "pgthaw_strategy";

#[cfg(test)]
mod tests {
    use super::*;
    use host::linux::page_cache::{PageCache as _, SystemPageCache};

    fn sources(files: Vec<Box<dyn CachedFile>>) -> Sources {
        let backends = BackendReads::new(std::process::id(), BackendRole::Workload);
        let page_bytes = SystemPageCache::new().page_bytes();
        let files = files.into_iter().map(|file| (Some(0), file)).collect();
        Sources { devices: Devices::default(), backends, files, relations: 1, page_bytes, cadence: Cadence::Close }
    }

    #[test]
    fn reads_at_the_start_and_at_the_end_of_each_second() {
        let start = clock::read_monotonic();
        let sampler = sample_counters(sources(Vec::new()), start, 1, |_| {}).unwrap();
        let readings = sampler.finish(false).unwrap();
        assert_eq!(readings.seconds.len(), 2);
        assert_eq!(readings.workload.len(), 11);
        assert!(readings.seconds[1].monotonic - start >= Duration::from_secs(1));
        assert_eq!(compute_seconds(&readings.seconds, start, 1).len(), 1);
    }

    #[test]
    fn sparing_looks_once_a_second_and_counts_seldom() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), vec![1; 1 << 20]).unwrap();
        let cached = SystemPageCache::new().open(file.path()).unwrap().unwrap();
        let sparing = Sources { cadence: Cadence::Sparing, ..sources(vec![cached]) };
        let counted = sparing.count_resident().unwrap();
        let now = clock::read_monotonic();
        assert_eq!(counted.bytes, Bytes(1 << 20));
        assert!(counted.good_until > now && counted.good_until < now + Duration::from_secs(60));
        let readings = sample_counters(sparing, now, 1, |_| {}).unwrap().finish(false).unwrap();
        assert_eq!((readings.seconds.len(), readings.workload.len()), (2, 2));
        assert_eq!(readings.seconds[0].os_resident_bytes, Bytes(1 << 20));
    }

    #[test]
    fn it_can_be_stopped_before_its_schedule() {
        let far_away = clock::read_monotonic() + Duration::from_secs(3600);
        let sampler = sample_counters(sources(Vec::new()), far_away, 3600, |_| panic!("nothing is due")).unwrap();
        assert_eq!(sampler.finish(true).unwrap(), Readings::default());
    }

    #[test]
    fn counts_what_is_in_the_page_cache() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), vec![1; 1 << 20]).unwrap();
        let cached = SystemPageCache::new().open(file.path()).unwrap().unwrap();
        let of_another = SystemPageCache::new().open(file.path()).unwrap().unwrap();
        let mut sources = sources(vec![cached]);
        sources.files.push((None, of_another));
        let Resident { bytes, relations, .. } = sources.count_resident().unwrap();
        assert_eq!((bytes, relations), (Bytes(2 << 20), vec![Bytes(1 << 20)]));
    }
}

#[cfg(test)]
mod series_tests {
    use super::*;

    const START: Duration = Duration::from_secs(1000);

    fn reading(after_ms: i64, bytes: u64) -> Reading {
        let monotonic = Duration::from_millis((1_000_000 + after_ms) as u64);
        let counters = Counters { device_read_bytes: Bytes(bytes), ..Counters::default() };
        Reading { monotonic, wall_ms: after_ms, counters, os_resident_bytes: Bytes(bytes) }
    }

    fn bytes(seconds: &[Second]) -> Vec<u64> {
        seconds.iter().map(|second| second.counters.device_read_bytes.0).collect()
    }

    #[test]
    fn readings_on_time_are_differences() {
        let readings = [reading(0, 50), reading(1000, 150), reading(2000, 150), reading(3000, 450)];
        assert_eq!(bytes(&compute_seconds(&readings, START, 3)), [100, 0, 300]);
    }

    #[test]
    fn a_late_reading_keeps_its_true_time_and_its_surplus_goes_where_it_belongs() {
        let readings = [reading(0, 0), reading(1500, 150), reading(2000, 200)];
        let seconds = compute_seconds(&readings, START, 2);
        assert_eq!(bytes(&seconds), [100, 100]);
        assert_eq!(seconds[0].lateness, Duration::from_millis(500));
        assert_eq!(seconds[0].wall_ms, 1500);
        assert_eq!(seconds[1].lateness, Duration::ZERO);
    }

    #[test]
    fn seconds_without_a_reading_share_the_next_and_nothing_is_lost() {
        let readings = [reading(0, 0), reading(1000, 100), reading(4000, 700)];
        let seconds = compute_seconds(&readings, START, 4);
        assert_eq!(bytes(&seconds), [100, 200, 200, 200]);
        assert_eq!(seconds[1].lateness, Duration::from_secs(2));
    }

    #[test]
    fn what_was_read_before_the_start_does_not_count() {
        let readings = [reading(-500, 100), reading(500, 200), reading(1000, 300)];
        assert_eq!(bytes(&compute_seconds(&readings, START, 1)), [150]);
    }

    #[test]
    fn tenths_add_up_to_what_was_read() {
        let at = |ms: u64| START + Duration::from_millis(ms);
        let readings = [(at(0), Bytes(40)), (at(105), Bytes(145)), (at(300), Bytes(145)), (at(1000), Bytes(215))];
        let tenths: Vec<u64> = compute_tenths(&readings, START, 1).into_iter().map(|bytes| bytes.0).collect();
        assert_eq!(tenths[..4], [100, 5, 0, 10]);
        assert_eq!(tenths.iter().sum::<u64>(), 175);
        assert_eq!(compute_tenths(&readings, START, 2)[10..], [Bytes(0); 10]);
        assert_eq!(compute_tenths(&[], START, 1), [Bytes(0); 10]);
    }

    #[test]
    fn seconds_after_the_last_reading_are_unknown() {
        assert_eq!(compute_seconds(&[reading(0, 0), reading(1000, 1)], START, 5).len(), 1);
        assert!(compute_seconds(&[], START, 5).is_empty());
    }
}

#[cfg(test)]
mod backends_tests {
    use super::*;

    #[test]
    fn a_title_says_whom_a_process_serves() {
        for (title, role) in [
            ("postgres: pgthaw-lab: pgthaw_workload bench [local] SELECT", BackendRole::Workload),
            ("postgres: pgthaw_workload bench 127.0.0.1(40522) idle", BackendRole::Workload),
            ("postgres: pgthaw-lab: pgthaw_strategy bench [local] SELECT", BackendRole::Strategy),
            ("postgres: pgthaw-lab: parallel worker for PID 4711", BackendRole::Strategy),
            ("postgres: pgthaw-lab: autoprewarm worker", BackendRole::Strategy),
            ("postgres: pgthaw-lab: io worker 2", BackendRole::IoWorker),
            ("postgres: pgthaw-lab: checkpointer", BackendRole::Other),
            ("postgres: pgthaw-lab: postgres postgres [local] idle", BackendRole::Other),
        ] {
            assert_eq!(classify(title), role, "{title}");
        }
    }

    #[test]
    fn io_workers_count_for_whom_they_serve() {
        let mut reads = BackendReads::new(1, BackendRole::Strategy);
        reads.seen.insert(2, (BackendRole::Workload, Bytes(10)));
        reads.seen.insert(3, (BackendRole::IoWorker, Bytes(200)));
        reads.seen.insert(4, (BackendRole::Other, Bytes(3000)));
        let expected = |workload, strategy| Counters {
            workload_read_bytes: Bytes(workload),
            strategy_read_bytes: Bytes(strategy),
            ..Counters::default()
        };
        assert_eq!(reads.totals(), expected(10, 200));
        reads.io_workers_serve = BackendRole::Workload;
        assert_eq!(reads.totals(), expected(210, 0));
    }

    #[test]
    fn a_server_that_is_gone_has_no_backends() {
        let mut reads = BackendReads::new(u32::MAX >> 1, BackendRole::Workload);
        assert_eq!(reads.read().unwrap(), Counters::default());
    }
}
