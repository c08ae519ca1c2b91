use std::ops::Sub as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::warm::traffic::Traffic;
use crate::warm::{Control, PlannedDevice, ProfileSource};
use ::host::linux::threads::{count_processors, lock};
use ::host::units::Bytes;

const LOOK: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub struct Pace {
    max_rate: Option<Bytes>,
    turns: Mutex<Turns>,
    in_flight: AtomicU64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    pub bytes: Bytes,
    /// `None` is unlimited.
    pub reads: Option<f64>,
}

#[derive(Debug)]
struct Turns {
    /// Requested rate, and that rate capped by the user's limit.
    asked: Option<Rate>,
    rate: Option<Rate>,
    /// Times from which the limits on bytes and on reads permit the next read.
    bytes_free_at: Instant,
    reads_free_at: Instant,
}

impl Pace {
    pub fn new(max_rate: Option<Bytes>) -> Pace {
        let (rate, now) = (max_rate.map(|bytes| Rate { bytes, reads: None }), Instant::now());
        Pace {
            max_rate,
            turns: Mutex::new(Turns { asked: None, rate, bytes_free_at: now, reads_free_at: now }),
            in_flight: AtomicU64::new(0),
        }
    }

    pub fn read<T>(&self, bytes: Bytes, read: impl FnOnce() -> T) -> T {
        self.in_flight.fetch_add(bytes.0, Ordering::Relaxed);
        let done = read();
        self.in_flight.fetch_sub(bytes.0, Ordering::Relaxed);
        done
    }

    /// Sets the rate; `None` applies only the user's limit. Rescales the wait until the next read to the new rate. If
    /// the previous rate was `None`, the next read waits at least as long as the bytes in flight take at the new rate,
    /// because a saturated device would otherwise stay saturated.
    pub fn set_rate(&self, asked: Option<Rate>) {
        let rate = match (asked, self.max_rate) {
            (Some(rate), max) => Some(Rate { bytes: max.map_or(rate.bytes, |max| max.min(rate.bytes)), ..rate }),
            (None, max) => max.map(|bytes| Rate { bytes, reads: None }),
        };
        let mut turns = lock(&self.turns);
        if turns.rate != rate {
            let now = Instant::now();
            let [bytes, reads] = turns.rescaled(rate, now);
            let begun = rate.filter(|_| turns.asked.is_none() && asked.is_some());
            let under_way =
                begun.map_or(0.0, |rate| Bytes(self.in_flight.load(Ordering::Relaxed)).seconds_at(rate.bytes));
            turns.bytes_free_at = now + bytes.max(Duration::from_secs_f64(under_way));
            turns.reads_free_at = now + reads;
        }
        (turns.asked, turns.rate) = (asked, rate);
    }

    pub fn has_rate(&self) -> bool {
        lock(&self.turns).rate.is_some()
    }

    pub fn wait(&self, bytes: Bytes, control: &Control) {
        let Some(turn) = self.take_turn(bytes) else { return };
        while control.os_stopped_by().is_none() {
            match turn.saturating_duration_since(Instant::now()) {
                Duration::ZERO => return,
                left => thread::sleep(left.min(LOOK)),
            }
        }
    }

    /// Waits until `bytes` may be read; returns false if interrupted.
    pub async fn wait_async(&self, bytes: Bytes, control: &Control) -> bool {
        if let Some(turn) = self.take_turn(bytes) {
            return control.unless_interrupted(tokio::time::sleep_until(turn.into())).await.is_some();
        }
        true
    }

    /// Time at which the read may start. Time that passed without reads is lost.
    fn take_turn(&self, bytes: Bytes) -> Option<Instant> {
        let mut turns = lock(&self.turns);
        let rate = turns.rate?;
        let turn = turns.bytes_free_at.max(turns.reads_free_at).max(Instant::now());
        turns.bytes_free_at = turns.bytes_free_at.max(turn) + Duration::from_secs_f64(bytes.seconds_at(rate.bytes));
        if let Some(reads) = rate.reads {
            turns.reads_free_at = turns.reads_free_at.max(turn) + Duration::from_secs_f64(1.0 / reads);
        }
        Some(turn)
    }
}

impl Turns {
    fn rescaled(&self, rate: Option<Rate>, now: Instant) -> [Duration; 2] {
        let left = |free_at: Instant| free_at.saturating_duration_since(now);
        let scaled = |left: Duration, ratio: Option<f64>| ratio.map_or(Duration::ZERO, |ratio| left.mul_f64(ratio));
        let (old, new) = (self.rate, rate);
        let bytes = old.zip(new).map(|(old, new)| old.bytes.0 as f64 / new.bytes.0.max(1) as f64);
        let reads = old.and_then(|old| old.reads).zip(new.and_then(|new| new.reads)).map(|(old, new)| old / new);
        [scaled(left(self.bytes_free_at), bytes), scaled(left(self.reads_free_at), reads)]
    }
}

// ---- bandwidth ----
//
// The bandwidth of the device's profile, until reads at full speed show a different bandwidth.

/// Minimum share of the known bandwidth at which the rate of a time span counts as a measurement. A lower rate results
/// from small files.
const SHARE_MIN: f64 = 0.25;

/// Minimum ratio of measured to known bandwidth that counts as faster: a limiter allows bursts after a lull.
const FASTER_RATIO: f64 = 1.1;

#[derive(Debug, Default)]
pub struct Bandwidth {
    /// Bytes per second.
    pub bytes: Bytes,
    /// `bytes` was configured, probed or measured, so traffic does not lower it.
    is_measured: bool,
    before: Option<Bytes>,
    /// Rate of the previous time span, if its reads were large and undisturbed.
    undisturbed: Option<Bytes>,
    /// Rate of the previous time span, if its reads were large and ran in the situation `Beside::OthersPushed`.
    pushed: Option<Bytes>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beside {
    Nobody,
    /// Server processes are busy, but more reads in flight would not speed up the restore.
    OthersPushed,
}

impl Bandwidth {
    pub fn new(device: PlannedDevice) -> Bandwidth {
        Bandwidth {
            bytes: device.profile.bandwidth,
            is_measured: device.source != ProfileSource::Default,
            ..Bandwidth::default()
        }
    }

    /// Changes `bytes` after two successive time spans that were both undisturbed, or both faster than `bytes` by
    /// `FASTER_RATIO`. One fast time span may be a limiter's burst after a lull. If `bytes` is still the profile's
    /// default, one undisturbed time span suffices. Two successive time spans with `OthersPushed` can lower the default
    /// to the faster of their rates. `achieved` is the rate of all users. `beside` is `None` if the reads were small,
    /// and if busy server processes may have lowered the rate.
    pub fn learn(&mut self, achieved: Bytes, beside: Option<Beside>) {
        let is_measurement = achieved.seconds_at(self.bytes) >= SHARE_MIN;
        let now = |like| (is_measurement && beside == Some(like)).then_some(achieved);
        let sustained = self.before.replace(achieved).map_or(Bytes(0), |before| before.min(achieved));
        let undisturbed = (std::mem::replace(&mut self.undisturbed, now(Beside::Nobody)), self.undisturbed);
        let pushed = (std::mem::replace(&mut self.pushed, now(Beside::OthersPushed)), self.pushed);
        if let (Some(before), Some(now)) = undisturbed {
            (self.bytes, self.is_measured) = (before.max(now), true);
        } else if sustained.seconds_at(self.bytes) > FASTER_RATIO {
            self.bytes = sustained;
        } else if self.is_measured {
        } else if let (_, Some(now)) = undisturbed {
            (self.bytes, self.is_measured) = (now, true);
        } else if let (Some(before), Some(now)) = pushed {
            (self.bytes, self.is_measured) = (before.max(now).min(self.bytes), true);
        }
    }
}

// ---- the server's share of the device, and the rest for the restore ----

const INTERVAL: Duration = Duration::from_millis(100);

const LEFT_MIN: f64 = 0.25;

/// Minimum share of the device's reads per second that `balance` assumes for the restore: a cold server's misses leave
/// few reads to it.
const LEFT_READS_MIN: f64 = 0.1;

/// If the server uses more than this share of the device's reads per second, the server waits for the device, however
/// slowly the restore reads.
const SHORT_ABOVE: f64 = 0.5;

#[derive(Debug, Default)]
pub struct Others {
    before: Option<(Instant, Bytes)>,
    /// Bytes per second in the last interval.
    rate: Option<f64>,
}

impl Others {
    /// Bytes that the server fetched since the last query. The number is too low if server processes ended meanwhile,
    /// and 0 if the last query was less than `INTERVAL` ago.
    pub fn look(&mut self, traffic: &dyn Traffic, now: Instant) -> u64 {
        if self.before.is_some_and(|(at, _)| now.saturating_duration_since(at) < INTERVAL) {
            return 0;
        }
        let Some(fetched) = traffic.read_fetched() else {
            *self = Others::default();
            return 0;
        };
        let Some((at, before)) = self.before.replace((now, fetched)) else { return 0 };
        let more = fetched.0.saturating_sub(before.0);
        let rate = more as f64 / now.saturating_duration_since(at).as_secs_f64();
        self.rate = Some(self.rate.map_or(rate, |before| (before + rate) / 2.0));
        more
    }

    pub fn reads_per_second(&self) -> f64 {
        self.rate.unwrap_or(0.0) / MISS_BYTES
    }

    /// Read size above which the restore reaches its limit of bytes before its limit of reads. `all` is the rate of the
    /// restore and the server together.
    pub fn balance(&self, all: Rate) -> Bytes {
        let Some(reads) = all.reads else { return Bytes(0) };
        let left_reads = left_of(reads, self.reads_per_second(), LEFT_READS_MIN).max(1.0);
        Bytes((self.leave(all).bytes.0 as f64 / left_reads) as u64)
    }

    pub fn are_short(&self, reads_per_second: f64) -> bool {
        self.reads_per_second() > reads_per_second * SHORT_ABOVE
    }

    /// Subtracts the server's misses from `all`. Otherwise server and restore would saturate the device, and each miss
    /// would wait.
    pub fn leave(&self, all: Rate) -> Rate {
        Rate {
            bytes: Bytes(left_of(all.bytes.0 as f64, self.rate.unwrap_or(0.0), LEFT_MIN).max(1.0) as u64),
            reads: all.reads.map(|reads| left_of(reads, self.reads_per_second(), LEFT_MIN)),
        }
    }
}

fn left_of(all: f64, others: f64, least: f64) -> f64 {
    (all - others).max(all * least)
}

// Determines whether the server waits for the device regardless of the restore.

const SPAN: Duration = Duration::from_millis(200);

/// A server with an estimated demand above this multiple of the device's reads per second always waits. The estimate
/// is high: it assumes that the server has all CPUs.
const MISSES_MAX: f64 = 4.0;

/// Minimum bytes of a cache miss.
pub const MISS_BYTES: f64 = 8192.0;

/// Reads that the server would demand without waits, estimated from its CPU time between misses.
#[derive(Debug, Default)]
pub struct Appetite {
    /// Last query: time, bytes fetched, CPU time.
    before: Option<(Instant, Bytes, Duration)>,
    pub cannot_flow: bool,
}

impl Appetite {
    pub fn look(&mut self, traffic: &dyn Traffic, reads_per_second: f64) {
        if self.before.is_some_and(|(at, ..)| at.elapsed() < SPAN) {
            return;
        }
        let Some((fetched, work)) = traffic.read_fetched().zip(traffic.read_work()) else {
            return *self = Appetite::default();
        };
        if let Some((_, fetched_before, work_before)) = self.before {
            let fetched = Bytes(fetched.0.saturating_sub(fetched_before.0));
            let processors = count_processors();
            self.cannot_flow = !may_flow(fetched, work.saturating_sub(work_before), processors, reads_per_second);
        }
        self.before = Some((Instant::now(), fetched, work));
    }
}

fn may_flow(fetched: Bytes, worked: Duration, processors: usize, reads_per_second: f64) -> bool {
    let misses = fetched.0 as f64 / MISS_BYTES;
    misses * processors as f64 <= MISSES_MAX * reads_per_second * worked.as_secs_f64()
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Given {
    pub read_bytes: u64,
    pub reads: u64,
    pub others_bytes: u64,
}

impl Given {
    pub fn bytes(self) -> u64 {
        self.read_bytes + self.others_bytes
    }

    pub fn since(self, before: Given) -> Given {
        host::fieldwise!(Given, self.sub(before): read_bytes, reads, others_bytes)
    }

    /// Number of reads by restore and server, assuming that each read of the server has `MISS_BYTES`.
    pub fn device_reads(self) -> f64 {
        self.reads as f64 + self.others_bytes as f64 / MISS_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_as_far_apart_as_the_rate_says() {
        let pace = Pace::new(Some(Bytes(1000)));
        let first = pace.take_turn(Bytes(3000)).unwrap();
        assert_eq!(pace.take_turn(Bytes(3000)).unwrap(), first + Duration::from_secs(3));
        assert_eq!(pace.take_turn(Bytes(3000)).unwrap(), first + Duration::from_secs(6));
    }

    fn bytes(bytes: u64) -> Option<Rate> {
        Some(Rate { bytes: Bytes(bytes), reads: None })
    }

    #[test]
    fn what_was_handed_out_counts_at_a_new_rate() {
        let pace = Pace::new(None);
        assert_eq!(pace.take_turn(Bytes(1 << 40)), None);
        pace.set_rate(bytes(1));
        let first = pace.take_turn(Bytes(50_000)).unwrap();
        pace.set_rate(bytes(1000));
        let wait = pace.take_turn(Bytes(1)).unwrap() - first;
        assert!((50.0..51.0).contains(&wait.as_secs_f64()), "{wait:?}");
        pace.set_rate(None);
        assert_eq!(pace.take_turn(Bytes(1)), None);
    }

    #[test]
    fn what_is_under_way_counts_when_a_rate_comes_after_none() {
        let pace = Pace::new(None);
        let before = Instant::now();
        let turn = pace.read(Bytes(3000), || {
            pace.set_rate(bytes(1000));
            pace.take_turn(Bytes(1)).unwrap()
        });
        assert!(turn - before >= Duration::from_secs(3));
        let pace = Pace::new(Some(Bytes(1 << 40)));
        let turn = pace.read(Bytes(3000), || {
            pace.set_rate(bytes(1000));
            pace.take_turn(Bytes(1)).unwrap()
        });
        assert!(turn - before >= Duration::from_secs(3), "the user's limit is above the device");
        let pace = Pace::new(None);
        pace.read(Bytes(1 << 40), || ());
        pace.set_rate(bytes(1000));
        assert!(pace.take_turn(Bytes(1)).unwrap() <= Instant::now(), "it is done");
    }

    #[test]
    fn the_dearer_of_bytes_and_reads_decides() {
        let pace = Pace::new(None);
        pace.set_rate(Some(Rate { bytes: Bytes(1000), reads: Some(2.0) }));
        let first = pace.take_turn(Bytes(1)).unwrap();
        assert_eq!(pace.take_turn(Bytes(3000)).unwrap(), first + Duration::from_millis(500));
        assert_eq!(pace.take_turn(Bytes(1)).unwrap(), first + Duration::from_millis(3500));
    }

    #[test]
    fn the_users_limit_holds_whatever_is_asked_for() {
        let pace = Pace::new(Some(Bytes(10)));
        pace.set_rate(bytes(1000));
        let first = pace.take_turn(Bytes(10)).unwrap();
        assert_eq!(pace.take_turn(Bytes(10)).unwrap(), first + Duration::from_secs(1));
        pace.set_rate(None);
        assert!(pace.take_turn(Bytes(10)).is_some());
    }

    #[tokio::test]
    async fn an_interrupted_turn_does_not_come() {
        let control = Control::default();
        assert!(Pace::new(None).wait_async(Bytes(1 << 40), &control).await);
        let pace = Pace::new(Some(Bytes(1)));
        assert!(pace.wait_async(Bytes(1 << 30), &control).await, "the first need not wait");
        control.interrupt();
        assert!(!pace.wait_async(Bytes(1), &control).await);
    }

    #[test]
    fn who_is_to_stop_does_not_wait() {
        let control = Control::default();
        control.interrupt();
        let pace = Pace::new(Some(Bytes(1)));
        pace.wait(Bytes(1 << 30), &control);
        pace.wait(Bytes(1 << 30), &control);
    }
}

#[cfg(test)]
mod bandwidth_tests {
    use super::*;
    use crate::warm::DeviceProfile;

    fn new(source: ProfileSource) -> Bandwidth {
        Bandwidth::new(PlannedDevice { profile: DeviceProfile::default(), source })
    }

    #[test]
    fn a_stretch_of_small_files_is_no_measurement_of_the_device() {
        let mut bandwidth = new(ProfileSource::Default);
        let default = bandwidth.bytes;
        bandwidth.learn(Bytes(0), Some(Beside::Nobody));
        bandwidth.learn(Bytes(1_000_000), Some(Beside::Nobody));
        assert_eq!(bandwidth.bytes, default, "a restore never comes to a stop");
        bandwidth.learn(Bytes(100_000_000), None);
        assert_eq!(bandwidth.bytes, default, "small reads are short of something else");
        bandwidth.learn(Bytes(90_000_000), Some(Beside::Nobody));
        assert_eq!(bandwidth.bytes, Bytes(90_000_000), "measured on the device itself");
        bandwidth.learn(Bytes(80_000_000), None);
        assert_eq!(bandwidth.bytes, Bytes(90_000_000));
        bandwidth.learn(Bytes(2_000_000_000), None);
        assert_eq!(bandwidth.bytes, Bytes(90_000_000), "after a lull a limit gives more at first");
        bandwidth.learn(Bytes(1_900_000_000), None);
        assert_eq!(bandwidth.bytes, Bytes(1_900_000_000));
    }

    #[test]
    fn what_others_leave_is_not_the_devices_bandwidth() {
        let mut bandwidth = new(ProfileSource::Default);
        let default = bandwidth.bytes;
        (0..5).for_each(|_| bandwidth.learn(Bytes(90_000_000), None));
        bandwidth.learn(Bytes(80_000_000), Some(Beside::OthersPushed));
        bandwidth.learn(Bytes(90_000_000), None);
        bandwidth.learn(Bytes(80_000_000), Some(Beside::OthersPushed));
        assert_eq!(bandwidth.bytes, default, "one stretch is no proof");
        bandwidth.learn(Bytes(85_000_000), Some(Beside::OthersPushed));
        assert_eq!(bandwidth.bytes, Bytes(85_000_000), "more reads would have brought no more");
        (0..5).for_each(|_| bandwidth.learn(Bytes(60_000_000), Some(Beside::OthersPushed)));
        assert_eq!(bandwidth.bytes, Bytes(85_000_000));
    }

    #[test]
    fn a_limit_lets_a_little_more_through_now_and_then() {
        let mut bandwidth = new(ProfileSource::Default);
        let default = bandwidth.bytes;
        (0..5).for_each(|_| bandwidth.learn(Bytes(default.0 * 107 / 100), None));
        assert_eq!(bandwidth.bytes, default);
    }

    #[test]
    fn what_was_told_of_the_device_is_not_forgotten_beside_traffic() {
        let mut bandwidth = new(ProfileSource::Told);
        let told = bandwidth.bytes;
        (0..3).for_each(|_| bandwidth.learn(Bytes(told.0 / 2), Some(Beside::OthersPushed)));
        assert_eq!(bandwidth.bytes, told);
        (0..2).for_each(|_| bandwidth.learn(Bytes(told.0 * 2), None));
        assert_eq!(bandwidth.bytes, Bytes(told.0 * 2));
    }

    #[test]
    fn a_bandwidth_that_is_no_longer_there_is_forgotten_when_nobody_disturbs() {
        let mut bandwidth = new(ProfileSource::Told);
        let told = bandwidth.bytes;
        let (half, tenth) = (told.0 / 2, told.0 / 10);
        let (nobody, others) = (Some(Beside::Nobody), None);
        for (achieved, beside) in [(half, nobody), (half, others), (half, nobody), (tenth, nobody), (half, nobody)] {
            bandwidth.learn(Bytes(achieved), beside);
            assert_eq!(bandwidth.bytes, told, "one stretch, or one of small files, is no proof");
        }
        bandwidth.learn(Bytes(half - 1), nobody);
        assert_eq!(bandwidth.bytes, Bytes(half), "the faster of two");
        (0..2).for_each(|_| bandwidth.learn(told, others));
        assert_eq!(bandwidth.bytes, told);
    }
}

#[cfg(test)]
mod others_tests {
    use std::cell::Cell;
    use std::sync::Mutex;

    use super::*;
    use ::host::linux::process::Busy;

    impl Others {
        pub fn fetching(rate: f64) -> Others {
            Others { before: None, rate: Some(rate) }
        }
    }

    struct Fetching(Mutex<Cell<Option<u64>>>);

    impl Fetching {
        fn set(&self, bytes: Option<u64>) {
            self.0.lock().unwrap().set(bytes);
        }
    }

    impl Traffic for Fetching {
        fn read_busy(&self) -> Option<Busy> {
            None
        }
        fn read_fetched(&self) -> Option<Bytes> {
            self.0.lock().unwrap().get().map(Bytes)
        }
    }

    #[test]
    fn what_came_since_the_last_look_is_told() {
        let server = Fetching(Mutex::new(Cell::new(Some(1000))));
        let (mut others, start) = (Others::default(), Instant::now());
        let at = |tenths: u32| start + INTERVAL * tenths;
        assert_eq!(others.look(&server, at(0)), 0, "what was before is not known");
        server.set(Some(5000));
        assert_eq!(others.look(&server, at(0)), 0, "it was asked a moment ago");
        assert_eq!(others.look(&server, at(1)), 4000);
        server.set(Some(3000));
        assert_eq!(others.look(&server, at(2)), 0, "a process took what it fetched along");
        server.set(None);
        assert_eq!((others.look(&server, at(3)), others.rate), (0, None));
        server.set(Some(1000));
        others.look(&server, at(4));
        server.set(Some(820_200));
        others.look(&server, at(5));
        assert_eq!(others.reads_per_second().round(), 1000.0, "what is seen first is believed");
    }

    #[test]
    fn the_servers_own_misses_are_part_of_what_a_restore_takes() {
        let server = Fetching(Mutex::new(Cell::new(Some(0))));
        let (mut others, start) = (Others::default(), Instant::now());
        let all = Rate { bytes: Bytes(100_000_000), reads: Some(3000.0) };
        assert_eq!(others.leave(all), all);
        let mut fetch = |tenths: u32, bytes: u64| {
            server.set(Some(bytes));
            others.look(&server, start + INTERVAL * tenths);
            others.leave(all)
        };
        fetch(0, 0);
        let beside = (1..20).map(|tenths| fetch(tenths, u64::from(tenths) * 819_200)).last().unwrap();
        assert!((91_700_000..91_900_000).contains(&beside.bytes.0), "{beside:?}");
        assert!((1999.0..2001.0).contains(&beside.reads.unwrap()), "{beside:?}");
        assert_eq!(fetch(20, 1 << 40), Rate { bytes: Bytes(25_000_000), reads: Some(750.0) }, "a restore goes on");
        assert!(others.are_short(3000.0) && !Others::default().are_short(3000.0));
    }
}

#[cfg(test)]
mod appetite_tests {
    use super::*;

    #[test]
    fn who_hardly_works_between_two_misses_waits_in_any_case() {
        let of_misses =
            |misses: u64, worked_ms| may_flow(Bytes(misses * 8192), Duration::from_millis(worked_ms), 2, 3000.0);
        assert!(!of_misses(1000, 20), "it would ask for 100,000 a second");
        assert!(of_misses(1000, 500), "for 4000, of which its clients' processors take some");
        assert!(of_misses(0, 0), "who does nothing waits for nothing");
    }

    #[test]
    fn of_whom_nothing_is_seen_anything_may_be() {
        struct Unseen;
        impl Traffic for Unseen {
            fn read_busy(&self) -> Option<::host::linux::process::Busy> {
                None
            }
        }
        let mut appetite = Appetite { before: None, cannot_flow: true };
        appetite.look(&Unseen, 3000.0);
        assert!(!appetite.cannot_flow);
    }
}
