//! Limits the engine's threads and rate, so that live traffic keeps its share.

#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use super::pace::{Appetite, Bandwidth, Beside, Given, Others, Pace, Rate};
use crate::warm::plan::Situation;
use crate::warm::receipt::TrafficReceipt;
use crate::warm::traffic::{Allowed, LOOK_INTERVAL, Load, Looks, SharedDepth, Sharing, Traffic};
use crate::warm::{DeviceProfile, PlannedDevice, ProfileSource};
use ::host::linux::process::Busy;
use ::host::linux::threads::lock;
use ::host::units::Bytes;

/// Length of a full-speed bandwidth measurement.
const BANDWIDTH_SPAN: Duration = Duration::from_millis(500);

/// Time skipped before a bandwidth measurement: rate limiters allow bursts at first.
const BURST_SPAN: Duration = Duration::from_millis(200);

const SHORTAGE_SPAN: Duration = Duration::from_millis(200);

/// A bandwidth measured while others use the device counts only if all reads together are below this share of the
/// device's reads per second.
const READS_USED_MAX: f64 = 0.5;

/// If less reading time than this is left, a restore beside waiting traffic uses all threads.
const LAST_STRETCH: Duration = Duration::from_millis(1500);

/// Below this share of the bandwidth, reads per second are the bottleneck, not bytes.
const SHORT_OF_READS_RATIO: f64 = 0.85;

/// Limits `read_worth`: the cost of a read is at most this share of a largest read's transfer time. The rest is for
/// small reads.
const LARGEST_READ_COST_MAX: f64 = 0.85;
const READ_WORTH_STEP: f64 = 1.25;

/// Above this share of the bandwidth, bytes per second are the bottleneck.
const SHORT_OF_BYTES_RATIO: f64 = 0.92;

/// A gentle restore assumes traffic for this long: the server may just have started.
const GENTLE_PATIENCE: Duration = Duration::from_secs(1);

/// Traffic is assumed once the busy processes of successive samples add up to this number. An idle sample subtracts 1.
/// One busy process reaches it in 0.2 s; this restore's own backend is busy for less.
const BUSY_MIN: u32 = 8;

const LOOK: Duration = Duration::from_millis(10);

#[derive(Debug)]
pub struct Governor {
    sharing: Sharing,
    threads: usize,
    pub pace: Pace,
    device: DeviceProfile,
    /// Whether the device's profile was configured or probed.
    is_told: bool,
    is_limited: bool,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    depth: usize,
    given: Given,
    /// Bytes of the plan not yet started.
    left_bytes: u64,
    /// If reads have more bytes than this, bytes are the bottleneck, not reads.
    needed_per_read: Bytes,
    read_worth: f64,
    /// Whether the reads of all hot blocks have started.
    is_cold_rest: bool,
    is_alone: bool,
    had_traffic: bool,
    has_no_server: bool,
    is_seen: bool,
    bandwidth: Bandwidth,
    shared_depth: SharedDepth,
    climb: Climb,
    others: Others,
    /// Highest observed reads per second, of all users.
    most_reads: f64,
    was_short_of_reads: bool,
    receipt: TrafficReceipt,
}

/// Time over which a bandwidth is measured, and the totals at its start.
#[derive(Clone, Copy)]
struct Span {
    start: Instant,
    before: Given,
    /// A limit gives more at first.
    is_burst: bool,
}

/// Small reads measure something else than the device's bandwidth, and so do reads that others crowd out.
fn measured_beside(load: Load, is_large: bool, is_pushed: bool) -> Option<Beside> {
    match load {
        _ if !is_large => None,
        Load::Idle => Some(Beside::Nobody),
        _ => is_pushed.then_some(Beside::OthersPushed),
    }
}

impl Governor {
    pub fn new(sharing: Sharing, threads: usize, max_rate: Option<Bytes>, device: PlannedDevice) -> Governor {
        let bandwidth = device.profile.bandwidth;
        let allowed = sharing.allow(Load::Waiting, bandwidth, SharedDepth::default(), threads, SHARE_MAX);
        let governor = Governor {
            sharing,
            threads,
            pace: Pace::new(max_rate),
            device: device.profile,
            is_told: device.source != ProfileSource::Default,
            is_limited: max_rate.is_some(),
            seen: Mutex::new(Seen {
                left_bytes: u64::MAX,
                read_worth: 1.0,
                bandwidth: Bandwidth::new(device),
                receipt: TrafficReceipt { sharing, ..TrafficReceipt::default() },
                ..Seen::default()
            }),
        };
        governor.apply(allowed);
        governor
    }

    /// Waits until the `thread`th thread may read, or `goes_on` is false.
    pub fn enter(&self, thread: usize, goes_on: impl Fn() -> bool) {
        while thread >= self.lock().depth && goes_on() {
            thread::sleep(LOOK);
        }
    }

    pub fn needed_per_read(&self) -> Bytes {
        self.lock().needed_per_read
    }

    pub fn read_worth(&self) -> f64 {
        self.lock().read_worth
    }

    pub fn situation(&self) -> Situation {
        if self.lock().is_alone { Situation::Alone } else { Situation::Shared }
    }

    /// Long runs of blocks may be read in order if nobody else uses the device, and no rate is set.
    pub fn may_read_in_order(&self) -> bool {
        self.situation() == Situation::Alone && !self.pace.has_rate()
    }

    pub fn had_traffic(&self) -> bool {
        self.lock().had_traffic
    }

    /// Expects other users of the device if several processes are busy. A single one may be this restore's own backend.
    pub fn begin(&self, traffic: &dyn Traffic) {
        let Busy { running, waiting } = traffic.read_busy().unwrap_or_default();
        let is_alone = self.sharing != Sharing::Gentle && running + waiting <= 1;
        let mut seen = self.lock();
        seen.is_alone = is_alone;
        if !is_alone {
            // While the cache is cold, the server's misses take most of the reads.
            seen.read_worth = self.read_worth_max();
        }
    }

    fn read_worth_max(&self) -> f64 {
        let DeviceProfile { reads_per_second, bandwidth, largest_read, .. } = self.device;
        (largest_read.seconds_at(bandwidth) * LARGEST_READ_COST_MAX * reads_per_second).max(1.0)
    }

    pub fn begin_pass(&self) {
        self.lock().is_cold_rest = false;
    }

    pub fn begin_plan(&self, bytes: Bytes) {
        self.lock().left_bytes = bytes.0;
    }

    pub fn note_cold_rest(&self) {
        self.lock().is_cold_rest = true;
    }

    pub fn take(&self, bytes: u64) {
        let mut seen = self.lock();
        seen.left_bytes = seen.left_bytes.saturating_sub(bytes);
    }

    pub fn advance(&self, read: u64) {
        let mut seen = self.lock();
        seen.given.read_bytes += read;
        seen.given.reads += u64::from(read > 0);
    }

    pub fn watch(&self, traffic: &dyn Traffic, is_done: &AtomicBool) {
        let mut looks = Looks::beginning(match self.situation() {
            Situation::Alone => Load::Idle,
            Situation::Shared => Load::Waiting,
        });
        let (mut window, mut stretch, mut seen_busy, mut is_cold_rest) = (None, None, 0_u32, false);
        let mut appetite = Appetite::default();
        let started = Instant::now();
        let mut looked_at = started;
        while !is_done.load(Ordering::Relaxed) {
            if !is_cold_rest && self.lock().is_cold_rest {
                is_cold_rest = true;
                looks.try_soon();
            }
            let (load, busy) = self.look(&mut looks, started.elapsed(), !appetite.cannot_flow, traffic);
            let load = if looks.is_sure() { load } else { self.reconsider(load) };
            seen_busy = if busy == 0 { seen_busy.saturating_sub(1) } else { (seen_busy + busy).min(BUSY_MIN) };
            self.judge_situation(load, seen_busy);
            self.climb(load, started.elapsed(), traffic);
            self.count_others(traffic);
            appetite.look(traffic, self.device.reads_per_second);
            let allowed = self.allow(load);
            window = self.measure(window, load, allowed);
            stretch = self.judge_shortage(stretch, load, allowed);
            self.count(load, allowed, looked_at.elapsed());
            looked_at = Instant::now();
            thread::sleep(LOOK_INTERVAL);
        }
    }

    fn count_others(&self, traffic: &dyn Traffic) {
        // Queries without the lock: reading /proc is slow, and the reading threads need the lock.
        let mut others = std::mem::take(&mut self.lock().others);
        let more = others.look(traffic, Instant::now());
        let mut seen = self.lock();
        seen.given.others_bytes += more;
        seen.others = others;
    }

    pub fn note_no_server(&self) {
        self.lock().has_no_server = true;
    }

    /// Whether the server's processes were ever visible; false if they are in another pid namespace.
    pub fn has_seen_server(&self) -> bool {
        self.lock().is_seen
    }

    /// Returns the load and the number of busy processes. In a gentle restore, treats idle traffic as waiting until the
    /// server is visible and `GENTLE_PATIENCE` is over.
    fn look(&self, looks: &mut Looks, now: Duration, may_flow: bool, traffic: &dyn Traffic) -> (Load, u32) {
        let busy = traffic.read_busy();
        let mut seen = self.lock();
        seen.is_seen |= busy.is_some();
        let is_trusted = seen.has_no_server || (seen.is_seen && now >= GENTLE_PATIENCE);
        let busy = busy.unwrap_or_default();
        let load = match looks.add(now, busy, may_flow) {
            Load::Idle if self.sharing == Sharing::Gentle && !is_trusted => Load::Waiting,
            load => load,
        };
        (load, busy.running + busy.waiting)
    }

    /// Ignores short activity: a change of situation causes a new plan.
    fn judge_situation(&self, load: Load, seen_busy: u32) {
        let mut seen = self.lock();
        if load == Load::Idle {
            seen.is_alone = true;
        } else if seen_busy >= BUSY_MIN {
            if std::mem::take(&mut seen.is_alone) {
                seen.read_worth = self.read_worth_max();
            }
            seen.had_traffic = true;
        }
    }

    pub fn note_replan(&self) {
        self.lock().receipt.replanned += 1;
    }

    fn climb(&self, load: Load, now: Duration, traffic: &dyn Traffic) {
        let work = if load == Load::Flowing { traffic.read_work() } else { None };
        let mut seen = self.lock();
        match work {
            Some(work) => seen.climb.add(now, work),
            None => seen.climb.pause(),
        }
        if load == Load::Flowing && self.sharing == Sharing::Fair {
            let (share, gain) = seen.climb.chosen();
            (seen.receipt.flowing_share, seen.receipt.flowing_gain) = (Some(share), Some(gain));
        }
    }

    /// Treats flowing traffic that takes most reads as waiting, because an early finish helps it more.
    fn reconsider(&self, load: Load) -> Load {
        let reads = self.expected_reads();
        let is_short = self.sharing == Sharing::Fair && self.lock().others.are_short(reads);
        if load == Load::Flowing && is_short { Load::Waiting } else { load }
    }

    /// The profile's read rate, scaled up if the device's bandwidth proved higher. Without a configured or probed
    /// profile, at most the highest rate observed while reads were the bottleneck.
    fn expected_reads(&self) -> f64 {
        let seen = self.lock();
        let faster = seen.bandwidth.bytes.seconds_at(self.device.bandwidth).max(1.0);
        let shown = if seen.was_short_of_reads && !self.is_told { seen.most_reads } else { f64::INFINITY };
        shown.min(self.device.reads_per_second * faster)
    }

    pub fn receipt(&self) -> TrafficReceipt {
        self.lock().receipt
    }

    fn allow(&self, load: Load) -> Allowed {
        let (mut allowed, left) = {
            let Seen { bandwidth, shared_depth, climb, left_bytes, .. } = &*self.lock();
            let allowed = self.sharing.allow(load, bandwidth.bytes, *shared_depth, self.threads, climb.share());
            (allowed, Bytes(*left_bytes).seconds_at(bandwidth.bytes))
        };
        if (self.sharing, load) == (Sharing::Fair, Load::Waiting) && left < LAST_STRETCH.as_secs_f64() {
            allowed.depth = self.threads;
        }
        self.apply(allowed);
        allowed
    }

    fn apply(&self, allowed: Allowed) {
        let bandwidth = self.lock().bandwidth.bytes;
        let bytes = allowed.rate.unwrap_or(bandwidth);
        let reads = (self.sharing != Sharing::Gentle).then(|| self.expected_reads() * bytes.seconds_at(bandwidth));
        let part = Rate { bytes, reads };
        let mut seen = self.lock();
        seen.depth = allowed.depth;
        // If the user set a rate, it is the bottleneck, not the reads.
        seen.needed_per_read = if self.is_limited { Bytes(0) } else { seen.others.balance(part) };
        // The server's misses use the share too, except in a gentle restore, whose share is small already.
        let left = if part.reads.is_none() { part } else { seen.others.leave(part) };
        self.pace.set_rate(allowed.rate.map(|_| left));
    }

    fn measure(&self, span: Option<Span>, load: Load, allowed: Allowed) -> Option<Span> {
        if allowed.rate.is_some() {
            return None;
        }
        let now = self.lock().given;
        let next = |is_burst| Some(Span { start: Instant::now(), before: now, is_burst });
        let Some(Span { start, before, is_burst }) = span else { return next(true) };
        let elapsed = start.elapsed();
        if is_burst && elapsed >= BURST_SPAN {
            return next(false);
        }
        if is_burst || elapsed < BANDWIDTH_SPAN {
            return span;
        }
        let given = now.since(before);
        let achieved = Bytes((given.bytes() as f64 / elapsed.as_secs_f64()) as u64);
        let used = given.device_reads() / elapsed.as_secs_f64();
        let mut seen = self.lock();
        let is_pushed = seen.shared_depth.is_most(self.threads) && used < READS_USED_MAX * self.device.reads_per_second;
        seen.bandwidth.learn(achieved, measured_beside(load, self.are_large(given), is_pushed));
        next(false)
    }

    /// Adapts the cost of a read and the reads in flight. Takes and returns the start of a time span, and the totals at
    /// that time.
    fn judge_shortage(
        &self,
        stretch: Option<(Instant, Given)>,
        load: Load,
        allowed: Allowed,
    ) -> Option<(Instant, Given)> {
        let now = self.lock().given;
        let bandwidth = self.lock().bandwidth.bytes;
        let next = Some((Instant::now(), now));
        if self.is_limited || allowed.rate.is_some_and(|rate| rate.seconds_at(bandwidth) < SHORT_OF_READS_RATIO) {
            self.lock().read_worth = 1.0;
            return None;
        }
        let Some((start, before)) = stretch else { return next };
        let elapsed = start.elapsed();
        if elapsed < SHORTAGE_SPAN {
            return stretch;
        }
        let given = now.since(before);
        let share = given.bytes() as f64 / (bandwidth.0 as f64 * elapsed.as_secs_f64());
        let (reads, worth) = (given.device_reads() / elapsed.as_secs_f64(), self.worth_after(share));
        let mut seen = self.lock();
        seen.read_worth = worth;
        // A limiter may stall for 0.1 s, so the highest rate counts. A stall shows no shortage of reads.
        seen.most_reads = seen.most_reads.max(reads);
        seen.was_short_of_reads |= reads > 0.0 && share < SHORT_OF_READS_RATIO;
        drop(seen);
        if load == Load::Waiting {
            let expected_reads = self.expected_reads();
            let mut seen = self.lock();
            let others_share = seen.others.reads_per_second() / expected_reads;
            seen.shared_depth.adapt(share, others_share, self.threads);
        }
        next
    }

    /// New `read_worth` after a time span in which reads used `share` of the bandwidth.
    fn worth_after(&self, share: f64) -> f64 {
        let worth = self.read_worth();
        match self.situation() {
            Situation::Alone => 1.0,
            _ if share < SHORT_OF_READS_RATIO => (worth * READ_WORTH_STEP).min(self.read_worth_max()),
            _ if share > SHORT_OF_BYTES_RATIO => (worth / READ_WORTH_STEP).max(1.0),
            _ => worth,
        }
    }

    /// Only large, unlimited reads show the bandwidth.
    fn are_large(&self, given: Given) -> bool {
        !self.is_limited && given.reads > 0 && given.read_bytes / given.reads >= self.device.largest_read.0 / 2
    }

    fn count(&self, load: Load, allowed: Allowed, lasted: Duration) {
        let mut seen = self.lock();
        let bandwidth = seen.bandwidth.bytes;
        let receipt = &mut seen.receipt;
        let seconds = lasted.as_secs_f64();
        match load {
            Load::Idle => {}
            Load::Waiting => receipt.waiting_seconds += seconds,
            Load::Flowing => receipt.flowing_seconds += seconds,
        }
        if let Some(rate) = allowed.rate {
            receipt.yielded_seconds += seconds;
            receipt.cost_seconds += seconds * (1.0 - rate.seconds_at(bandwidth)).max(0.0);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        lock(&self.seen)
    }
}

// Chooses the bandwidth share beside flowing traffic that maximizes the server's work.
//
// Users' throughput is invisible, so CPU time is the measure. A transaction needs the same CPU time whether or not it
// waited. pgthaw tries another share every other second.

/// Largest share; the rest keeps the device unsaturated (docs/decisions/below-saturation.md).
pub const SHARE_MAX: f64 = 0.93;
const SHARE_MIN: f64 = 0.3;
/// Ratio of neighbouring shares.
const STEP: f64 = 0.75;

const STRETCH: Duration = Duration::from_secs(1);

/// A smaller share is kept if the server then does more than this multiple of its work.
const GAIN_MIN: f64 = 1.05;
/// A larger share is kept if the server then does at least this multiple.
const LOSS_MAX: f64 = 0.97;

#[derive(Debug)]
pub struct Climb {
    share: f64,
    tried: Option<f64>,
    is_down: bool,
    /// Start of the current time span, and the server's CPU time by then.
    stretch: Option<(Duration, Duration)>,
    /// Mean busy CPUs at the chosen share, and at the largest.
    work: f64,
    work_at_most: f64,
}

impl Default for Climb {
    fn default() -> Climb {
        Climb { share: SHARE_MAX, tried: None, is_down: true, stretch: None, work: 0.0, work_at_most: 0.0 }
    }
}

impl Climb {
    pub fn share(&self) -> f64 {
        self.tried.unwrap_or(self.share)
    }

    /// The share, and the server's work relative to the largest share.
    pub fn chosen(&self) -> (f64, f64) {
        (self.share, if self.work_at_most > 0.0 { self.work / self.work_at_most } else { 1.0 })
    }

    pub fn pause(&mut self) {
        (self.tried, self.stretch) = (None, None);
    }

    pub fn add(&mut self, now: Duration, work: Duration) {
        let Some((began, before)) = self.stretch else {
            self.stretch = Some((now, work));
            return;
        };
        // The CPU time of an ended process is lost.
        let Some(worked) = work.checked_sub(before) else { return self.pause() };
        let lasted = now.saturating_sub(began);
        if lasted >= STRETCH {
            self.stretch = Some((now, work));
            self.judge(worked.as_secs_f64() / lasted.as_secs_f64());
        }
    }

    fn judge(&mut self, work: f64) {
        if self.share() == SHARE_MAX {
            self.work_at_most = work;
        }
        let Some(tried) = self.tried.take() else {
            self.work = work;
            let other = if self.is_down { self.share * STEP } else { self.share / STEP };
            let other = other.clamp(SHARE_MIN, SHARE_MAX);
            if other == self.share {
                self.is_down = !self.is_down;
            } else {
                self.tried = Some(other);
            }
            return;
        };
        let is_better = if self.is_down { work > self.work * GAIN_MIN } else { work >= self.work * LOSS_MAX };
        if is_better {
            (self.share, self.work) = (tried, work);
        } else {
            self.is_down = !self.is_down;
        }
    }
}

#[cfg(test)]
mod climb_tests {
    use super::*;

    /// `work_beside(share)` is the number of busy CPUs.
    fn after_a_minute(work_beside: impl Fn(f64) -> f64) -> Climb {
        let (mut climb, mut work) = (Climb::default(), Duration::ZERO);
        for look in 0..2400u32 {
            work += Duration::from_secs_f64(work_beside(climb.share()) * 0.025);
            climb.add(Duration::from_millis(25) * look, work);
        }
        climb
    }

    #[test]
    fn whom_a_restore_does_not_hurt_it_does_not_yield_to() {
        let climb = after_a_minute(|_| 1.5);
        assert_eq!(climb.chosen(), (SHARE_MAX, 1.0));
    }

    #[test]
    fn less_is_taken_as_long_as_the_server_gains() {
        let (share, gain) = after_a_minute(|share| if share > 0.75 { 0.8 } else { 1.6 }).chosen();
        assert!((0.65..0.75).contains(&share) && (gain - 2.0).abs() < 0.1, "{share} {gain}");
        let (share, _) = after_a_minute(|share| 2.0 - share).chosen();
        assert!(share < 0.5, "{share}");
    }

    #[test]
    fn what_was_given_is_taken_back_when_the_server_has_no_use_for_it() {
        let mut climb = after_a_minute(|share| 2.0 - share);
        let (mut work, from) = (Duration::from_secs(1000), Duration::from_secs(100));
        climb.pause();
        for look in 0..2400u32 {
            work += Duration::from_millis(10);
            climb.add(from + Duration::from_millis(25) * look, work);
        }
        assert_eq!(climb.chosen().0, SHARE_MAX);
    }

    #[test]
    fn a_process_that_ends_is_no_work_undone() {
        let mut climb = Climb::default();
        climb.add(Duration::ZERO, Duration::from_secs(9));
        climb.add(STRETCH, Duration::from_secs(3));
        assert_eq!((climb.share(), climb.chosen()), (SHARE_MAX, (SHARE_MAX, 1.0)));
    }
}
