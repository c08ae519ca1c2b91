//! Observes live traffic and decides the restore's share of the device (docs/decisions/below-saturation.md).

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde::Serialize;

use host::linux::process::{
    Busy, count_busy, is_alive, read_fetched_bytes, read_listed_children, read_run_time, read_title,
};
use host::linux::threads::lock;
use host::units::Bytes;
use postgres::background_kind;

pub const LOOK_INTERVAL: Duration = Duration::from_millis(25);

/// Number of samples of busy processes to keep: half a second.
const LOOKS: usize = 20;

/// Interval between experiments, which lower the rate to test whether the restore makes traffic wait. Traffic needs the
/// hot blocks, so until they are read, a lower rate delays traffic.
const EXPERIMENT_INTERVAL: Duration = Duration::from_secs(2);

/// Interval between experiments once the hot blocks are read, because experiments then hardly delay traffic. Each
/// failure after the first doubles the interval, up to the maximum.
const COLD_EXPERIMENT_INTERVAL: Duration = Duration::from_millis(500);
const EXPERIMENT_INTERVAL_MAX: Duration = Duration::from_secs(4);

/// Time for queued reads to drain before a measurement.
const EXPERIMENT_SETTLES: Duration = Duration::from_millis(150);

const EXPERIMENT_LASTS: Duration = Duration::from_millis(250);

/// Durations for the experiment of `try_soon`, which starts while the last hot blocks are still being read.
const SURE_EXPERIMENT_SETTLES: Duration = Duration::from_millis(300);
const SURE_EXPERIMENT_LASTS: Duration = Duration::from_millis(500);

/// Minimum restore reads in flight while traffic waits. With fewer, bandwidth stays unused, because the server's misses
/// use up most of the device's reads per second (docs/decisions/reads-in-flight.md).
const SHARED_DEPTH_MIN: usize = 6;

/// Minimum restore reads in flight while the full bandwidth is in use.
const REACHED_DEPTH_MIN: usize = 4;

/// Initial number of restore reads in flight. More would slow the server, but not speed up the restore.
const SHARED_DEPTH_FIRST: usize = 8;

/// Maximum restore reads in flight while traffic flows (`Load::Flowing`): it has few misses then.
const FLOWING_DEPTH: usize = 4;

/// Maximum restore reads in flight while traffic waits. With more, the server gets next to nothing of the device.
const SHARED_DEPTH_MAX: usize = 13;

/// If the server gets a smaller share of the device's reads per second, the restore keeps fewer reads in flight.
/// Without a restore, a server with a cold cache would get nearly all.
const OTHERS_SHARE_MIN: f64 = 0.35;

/// If the server gets a larger share, the restore keeps more reads in flight. A faster restore ends the server's misses
/// sooner.
const OTHERS_SHARE_MAX: f64 = 0.5;

/// If less than this share of the bandwidth is in use, the server's misses slow the restore: each miss costs a device
/// read and splits a read of the restore.
const PUSHED_BELOW: f64 = 0.92;

/// Bandwidth share of a gentle restore. Large reads at this rate use few reads per second.
const GENTLE_SHARE: f64 = 0.3;

/// Traffic counts as flowing, no longer waiting, once less than this share of its busy processes waits for the disk.
const FLOWS_BELOW: f64 = 0.55;

/// Traffic counts as waiting, no longer flowing, once more than this share of its busy processes waits for the disk.
const WAITS_ABOVE: f64 = 0.75;

/// If fewer processes per sample are busy on average, traffic is idle.
const IDLE_BELOW: f64 = 0.1;

/// Maximum observed processes. If there are more, every nth is observed.
const PROCESSES_MAX: usize = 32;

/// Processes that wait for the disk whenever they work.
const WRITERS: [&str; 3] = ["checkpointer", "background writer", "walwriter"];

const BACKENDS_INTERVAL: Duration = Duration::from_millis(250);

const MANY_BACKENDS_INTERVAL: Duration = Duration::from_secs(1);

/// How a restore shares the device with the server's traffic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, crate::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Sharing {
    /// Full speed, regardless of traffic.
    FullSpeed,
    /// Full speed, or slightly less if at this lower speed most busy server processes run instead of waiting for the
    /// disk.
    #[default]
    Fair,
    /// A small share beside traffic.
    Gentle,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Load {
    #[default]
    Idle,
    /// Most of the busy server processes wait for the disk, and would presumably wait beside a slower restore too.
    Waiting,
    /// Most of the busy server processes do not wait for the disk, or an experiment is in progress.
    Flowing,
}

pub trait Traffic: Send + Sync {
    /// Current activity; `None` if no server is visible on this host.
    fn read_busy(&self) -> Option<Busy>;

    /// CPU time of the living processes; `None` if unknown.
    fn read_work(&self) -> Option<Duration> {
        None
    }

    /// Bytes fetched by the living processes; `None` if unknown.
    fn read_fetched(&self) -> Option<Bytes> {
        None
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowed {
    pub depth: usize,
    /// Bytes per second; `None` is unlimited.
    pub rate: Option<Bytes>,
}

/// Samples of busy processes. Times are relative to the first sample.
#[derive(Debug, Default)]
pub struct Looks {
    /// The latest samples, at most `LOOKS`.
    samples: VecDeque<Busy>,
    load: Load,
    experiment_at: Duration,
    is_experiment: bool,
    is_sure: bool,
    is_due: bool,
    failures: u32,
    /// Interval between experiments, before failures double it.
    interval: Duration,
}

impl Looks {
    pub fn beginning(load: Load) -> Looks {
        Looks { load, interval: EXPERIMENT_INTERVAL, ..Looks::default() }
    }

    /// Makes the next experiment start as soon as traffic waits. Called when nearly all hot blocks have been read: then
    /// a slower restore should end the waits.
    pub fn try_soon(&mut self) {
        (self.is_due, self.failures, self.interval) = (true, 0, COLD_EXPERIMENT_INTERVAL);
    }

    pub fn is_sure(&self) -> bool {
        self.is_experiment && self.is_sure
    }

    /// While traffic waits, starts an experiment after `try_soon`, or at intervals if a slower restore could end the
    /// waits (`may_flow`).
    pub fn add(&mut self, now: Duration, busy: Busy, may_flow: bool) -> Load {
        if self.is_experiment {
            return self.experiment(now, busy);
        }
        let (share, is_idle) = self.look(busy);
        self.load = match self.load {
            _ if is_idle && self.samples.len() == LOOKS => Load::Idle,
            load if is_idle => load,
            Load::Flowing if share <= WAITS_ABOVE => Load::Flowing,
            _ if share < FLOWS_BELOW => Load::Flowing,
            _ => Load::Waiting,
        };
        let doublings = self.failures.saturating_sub(1).min(8);
        let interval = (self.interval * 2_u32.pow(doublings)).min(EXPERIMENT_INTERVAL_MAX);
        let is_time = may_flow && now >= self.experiment_at + interval;
        if self.load == Load::Waiting && (self.is_due || is_time) {
            self.is_sure = std::mem::take(&mut self.is_due);
            (self.is_experiment, self.experiment_at) = (true, now);
            return Load::Flowing;
        }
        self.load
    }

    fn experiment(&mut self, now: Duration, busy: Busy) -> Load {
        let (settles, lasts) = match self.is_sure {
            true => (SURE_EXPERIMENT_SETTLES, SURE_EXPERIMENT_LASTS),
            false => (EXPERIMENT_SETTLES, EXPERIMENT_LASTS),
        };
        if now < self.experiment_at + settles {
            self.samples.clear();
            return Load::Flowing;
        }
        let (share, _) = self.look(busy);
        if now >= self.experiment_at + lasts {
            self.is_experiment = false;
            (self.load, self.failures) =
                if share < FLOWS_BELOW { (Load::Flowing, 0) } else { (Load::Waiting, self.failures + 1) };
            return self.load;
        }
        Load::Flowing
    }

    fn look(&mut self, busy: Busy) -> (f64, bool) {
        self.samples.push_front(busy);
        self.samples.truncate(LOOKS);
        let sum = |part: fn(&Busy) -> u32| f64::from(self.samples.iter().map(part).sum::<u32>());
        let (waiting, running) = (sum(|busy| busy.waiting), sum(|busy| busy.running));
        (waiting / (waiting + running), waiting + running < IDLE_BELOW * self.samples.len() as f64)
    }
}

/// Restore reads in flight while traffic waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedDepth(usize);

impl Default for SharedDepth {
    fn default() -> SharedDepth {
        SharedDepth(SHARED_DEPTH_FIRST)
    }
}

impl SharedDepth {
    /// Adapts the number of reads. `share`: share of the bandwidth in use. `others_share`: the server's share of the
    /// device's reads per second.
    pub fn adapt(&mut self, share: f64, others_share: f64, threads: usize) {
        let most = SHARED_DEPTH_MAX.min(threads);
        self.0 = match self.0 {
            // The server reads little, so it is not the reason for unused bandwidth.
            depth if others_share < OTHERS_SHARE_MIN => {
                let least = if share < PUSHED_BELOW { SHARED_DEPTH_MIN } else { REACHED_DEPTH_MIN };
                (depth - depth.div_ceil(3)).max(least).min(most)
            }
            depth if share < PUSHED_BELOW => (depth + depth.div_ceil(2)).min(most),
            depth if others_share > OTHERS_SHARE_MAX => (depth + 1).min(most),
            depth => depth,
        };
    }

    pub fn is_most(self, threads: usize) -> bool {
        self.0 >= SHARED_DEPTH_MAX.min(threads)
    }
}

impl Sharing {
    /// `share`: share of the device's bandwidth that restore and server may use together. It applies to `Sharing::Fair`
    /// while traffic flows.
    pub fn allow(self, load: Load, bandwidth: Bytes, shared: SharedDepth, threads: usize, share: f64) -> Allowed {
        let depth = threads.min(shared.0);
        let rate = |share: f64| Some(Bytes(((bandwidth.0 as f64 * share) as u64).max(1)));
        match (self, load) {
            (Sharing::FullSpeed, _) | (_, Load::Idle) => Allowed { depth: threads, rate: None },
            (Sharing::Gentle, _) => Allowed { depth: 1, rate: rate(GENTLE_SHARE) },
            (Sharing::Fair, Load::Flowing) => Allowed { depth: depth.min(FLOWING_DEPTH), rate: rate(share) },
            (Sharing::Fair, Load::Waiting) => Allowed { depth, rate: None },
        }
    }
}

pub struct ServerTraffic<'a> {
    postmaster: Box<dyn Fn() -> Option<u32> + Send + Sync + 'a>,
    backends: Mutex<Backends>,
}

#[derive(Debug, Default)]
struct Backends {
    read_at: Option<Instant>,
    pids: Option<Vec<u32>>,
    step: usize,
}

host::debug_by!(ServerTraffic<'_>: backends);

impl<'a> ServerTraffic<'a> {
    /// `postmaster` is called repeatedly: the server may start during the restore.
    pub fn new(postmaster: impl Fn() -> Option<u32> + Send + Sync + 'a) -> ServerTraffic<'a> {
        ServerTraffic { postmaster: Box::new(postmaster), backends: Mutex::default() }
    }
}

impl Traffic for ServerTraffic<'_> {
    fn read_busy(&self) -> Option<Busy> {
        let mut backends = lock(&self.backends);
        let is_many = backends.pids.as_ref().is_some_and(|pids| pids.len() * 2 > PROCESSES_MAX);
        let interval = if is_many { MANY_BACKENDS_INTERVAL } else { BACKENDS_INTERVAL };
        if backends.read_at.is_none_or(|at| at.elapsed() >= interval) {
            let (pids, step) = (self.postmaster)().and_then(read_backends).unzip();
            *backends = Backends { read_at: Some(Instant::now()), pids, step: step.unwrap_or(1) };
        }
        backends.pids.as_deref().map(count_busy)
    }

    fn read_work(&self) -> Option<Duration> {
        let backends = lock(&self.backends);
        let pids = backends.pids.as_deref()?;
        Some(pids.iter().filter_map(|pid| read_run_time(*pid).ok()).sum())
    }

    fn read_fetched(&self) -> Option<Bytes> {
        let backends = lock(&self.backends);
        let fetched: Bytes = backends.pids.as_deref()?.iter().filter_map(|pid| read_fetched_bytes(*pid).ok()).sum();
        Some(Bytes(fetched.0 * backends.step as u64))
    }
}

/// Server processes to observe (every nth, without `WRITERS`), and n. Skipping keeps idle connections cheap.
fn read_backends(postmaster: u32) -> Option<(Vec<u32>, usize)> {
    let pids = read_listed_children(postmaster).ok().filter(|_| is_alive(postmaster))?;
    let step = pids.len().div_ceil(PROCESSES_MAX).max(1);
    let mut pids: Vec<u32> = pids.into_iter().step_by(step).collect();
    pids.retain(|pid| {
        let title = read_title(*pid).unwrap_or_default();
        !background_kind(&title).is_some_and(|kind| WRITERS.contains(&kind))
    });
    Some((pids, step))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BANDWIDTH: Bytes = Bytes(100_000_000);

    fn watch(looks: &mut Looks, from_ms: u64, to_ms: u64, busy: impl Fn(Load) -> Busy) -> Vec<Load> {
        let mut load = Load::Waiting;
        let times = (from_ms..to_ms).step_by(LOOK_INTERVAL.as_millis() as usize);
        times
            .map(|now| {
                load = looks.add(Duration::from_millis(now), busy(load), true);
                load
            })
            .collect()
    }

    fn busy(waiting: u32, running: u32) -> Busy {
        Busy { running, waiting }
    }

    #[test]
    fn an_opinion_takes_half_a_second_to_change() {
        let nothing_is_tried_before = Duration::from_secs(60);
        let mut looks = Looks { experiment_at: nothing_is_tried_before, ..Looks::beginning(Load::Waiting) };
        assert_eq!(watch(&mut looks, 0, 600, |_| busy(8, 0)).last(), Some(&Load::Waiting));
        assert_eq!(watch(&mut looks, 600, 650, |_| busy(1, 7)).last(), Some(&Load::Waiting));
        assert_eq!(watch(&mut looks, 650, 950, |_| busy(1, 7)).last(), Some(&Load::Flowing));
        assert_eq!(watch(&mut looks, 950, 1950, |_| busy(5, 3)).last(), Some(&Load::Flowing), "neither: as before");
        assert_eq!(watch(&mut looks, 1950, 2100, |_| busy(8, 0)).last(), Some(&Load::Flowing));
        assert!(watch(&mut looks, 2100, 2500, |_| busy(8, 0)).contains(&Load::Waiting));
        assert_eq!(watch(&mut looks, 2500, 4000, |_| busy(0, 0)).last(), Some(&Load::Idle));
    }

    #[test]
    fn a_server_that_has_only_just_been_looked_at_is_not_idle() {
        let mut looks = Looks::beginning(Load::Waiting);
        assert_eq!(watch(&mut looks, 0, 475, |_| busy(0, 0)).last(), Some(&Load::Waiting));
        assert_eq!(watch(&mut looks, 475, 525, |_| busy(0, 0)).last(), Some(&Load::Idle));
    }

    #[test]
    fn traffic_that_waits_because_of_us_is_found_out_after_two_seconds() {
        let because_of_us = |load| if load == Load::Flowing { busy(0, 8) } else { busy(8, 0) };
        let loads = watch(&mut Looks::beginning(Load::Waiting), 0, 4000, because_of_us);
        let flows_at = loads.iter().rposition(|load| *load == Load::Waiting).unwrap() * 25;
        assert!((1900..2100).contains(&flows_at), "{flows_at}");
    }

    #[test]
    fn traffic_that_waits_anyway_is_tried_more_and_more_rarely() {
        let loads = watch(&mut Looks::beginning(Load::Waiting), 0, 20_000, |_| busy(8, 0));
        let tried = |range: std::ops::Range<usize>| loads[range].iter().filter(|load| **load == Load::Flowing).count();
        assert_eq!(tried(0..80), 0, "in the first two seconds what is hot comes");
        assert!((10..=20).contains(&tried(80..200)), "{} of the next three", tried(80..200));
        assert!((10..=40).contains(&tried(400..800)), "{} of the last ten", tried(400..800));
        assert!(loads.iter().all(|load| *load != Load::Idle));
    }

    #[test]
    fn it_is_tried_at_once_and_for_longer_when_what_is_hot_has_been_read() {
        let look = |looks: &mut Looks, now, busy| looks.add(Duration::from_millis(now), busy, false);
        let mut looks = Looks::beginning(Load::Waiting);
        assert_eq!(look(&mut looks, 1000, busy(8, 0)), Load::Waiting);
        looks.try_soon();
        assert!(look(&mut looks, 1025, busy(8, 0)) == Load::Flowing && looks.is_sure());
        assert!((1050..1525).step_by(25).all(|now| look(&mut looks, now, busy(8, 0)) == Load::Flowing));
        assert!(look(&mut looks, 1525, busy(8, 0)) == Load::Waiting && !looks.is_sure(), "after half a second");
        assert_eq!(
            looks.add(Duration::from_millis(1550), busy(8, 0), true),
            Load::Flowing,
            "its misses are few by now"
        );
        assert!(!looks.is_sure());
        let mut looks = Looks::beginning(Load::Waiting);
        looks.try_soon();
        assert!((0..300).step_by(25).all(|now| look(&mut looks, now, busy(8, 0)) == Load::Flowing));
        let settled = (300..3000).step_by(25).map(|now| look(&mut looks, now, busy(0, 8)));
        assert!(settled.into_iter().all(|load| load == Load::Flowing), "what is still on its way does not count");
    }

    #[test]
    fn traffic_that_cannot_flow_is_not_tried() {
        let mut looks = Looks::beginning(Load::Waiting);
        let times = (0..20_000).step_by(LOOK_INTERVAL.as_millis() as usize).map(Duration::from_millis);
        assert!(times.map(|now| looks.add(now, busy(8, 0), false)).all(|load| load == Load::Waiting));
    }

    #[test]
    fn who_flows_is_left_a_little_and_who_waits_is_left_nothing() {
        let fair = |load| Sharing::Fair.allow(load, BANDWIDTH, SharedDepth::default(), 16, 0.9);
        assert_eq!(fair(Load::Idle), Allowed { depth: 16, rate: None });
        assert_eq!(fair(Load::Waiting), Allowed { depth: SHARED_DEPTH_FIRST, rate: None });
        assert_eq!(fair(Load::Flowing), Allowed { depth: FLOWING_DEPTH, rate: Some(Bytes(90_000_000)) });
    }

    #[test]
    fn gentle_yields_to_any_traffic_and_full_speed_to_none() {
        let depth = SharedDepth::default();
        for load in [Load::Waiting, Load::Flowing] {
            assert_eq!(Sharing::Gentle.allow(load, BANDWIDTH, depth, 16, 0.9).rate, Some(Bytes(30_000_000)));
            assert_eq!(Sharing::FullSpeed.allow(load, BANDWIDTH, depth, 16, 0.9), Allowed { depth: 16, rate: None });
        }
        assert_eq!(Sharing::Gentle.allow(Load::Idle, BANDWIDTH, depth, 16, 0.9), Allowed { depth: 16, rate: None });
    }

    #[test]
    fn as_many_reads_are_in_flight_as_keep_the_bandwidth_up_and_leave_others_theirs() {
        let mut depth = SharedDepth::default();
        let mut adapt = |share: f64, others_share: f64, times: usize| {
            (0..times).for_each(|_| depth.adapt(share, others_share, 16));
            depth.0
        };
        assert_eq!(adapt(1.0, 0.3, 1), 5);
        assert_eq!(adapt(1.0, 0.1, 5), 4);
        assert_eq!(adapt(1.0, 0.4, 5), 4, "they have their part");
        assert_eq!(adapt(1.0, 0.6, 4), 8, "they split what is still to be read");
        assert_eq!(adapt(0.8, 0.4, 1), 12, "bytes are left over");
        assert_eq!(adapt(0.8, 0.9, 9), 13);
        assert_eq!(adapt(0.8, 0.1, 9), 6, "others do not take the reads that are missing");
        let mut few = SharedDepth::default();
        few.adapt(0.1, 0.4, 4);
        assert_eq!(few.0, 4);
        few.adapt(0.1, 0.0, 4);
        assert_eq!(few.0, 4, "there are no more threads");
    }

    #[test]
    fn there_is_always_a_floor() {
        let slow = Sharing::Gentle.allow(Load::Waiting, Bytes(1), SharedDepth::default(), 1, 0.9);
        assert_eq!(slow, Allowed { depth: 1, rate: Some(Bytes(1)) });
    }

    #[test]
    fn a_server_that_does_not_run_is_no_traffic() {
        assert_eq!(ServerTraffic::new(|| None).read_busy(), None);
        assert_eq!(ServerTraffic::new(|| Some(u32::MAX)).read_busy(), None);
        let own = std::process::id();
        let traffic = ServerTraffic::new(move || Some(own));
        assert_eq!(traffic.read_work(), None, "nobody has looked yet");
        assert!(traffic.read_busy().is_some(), "it runs, and serves nobody");
        assert!(traffic.read_work().is_some());
    }
}
