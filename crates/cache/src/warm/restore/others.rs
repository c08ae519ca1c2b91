//! What the server fetches from the device beside a restore, and what that leaves.

use std::thread;
use std::time::{Duration, Instant};

use super::pace::Rate;
use crate::warm::traffic::Traffic;
use ::host::units::Bytes;

/// How often it is asked what the server fetches.
const INTERVAL: Duration = Duration::from_millis(100);

/// A restore goes on: others take no more than the rest of its part.
const LEFT_MIN: f64 = 0.25;

/// A cold server's misses take more of the reads than that. What they leave is never reckoned to be less than this part.
const LEFT_READS_MIN: f64 = 0.1;

/// Others that take more than this part of the device's reads are short of the device themselves, and wait whatever a restore leaves.
const SHORT_ABOVE: f64 = 0.5;

/// What others fetch.
#[derive(Debug, Default)]
pub struct Others {
    /// When it was asked last, and what was fetched by then.
    before: Option<(Instant, Bytes)>,
    /// Bytes per second, of late; `None` before it was asked twice.
    rate: Option<f64>,
}

impl Others {
    /// Asks, unless it was asked a moment ago. Returns the bytes that came since the last time; what a process fetched that has ended since
    /// is not known.
    pub fn look(&mut self, traffic: &dyn Traffic) -> u64 {
        self.look_at(traffic, Instant::now())
    }

    fn look_at(&mut self, traffic: &dyn Traffic, now: Instant) -> u64 {
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

    /// Others that fetch so many bytes a second.
    #[cfg(test)]
    pub fn fetching(rate: f64) -> Others {
        Others { before: None, rate: Some(rate) }
    }

    fn bytes_per_second(&self) -> f64 {
        self.rate.unwrap_or(0.0)
    }

    /// Reads per second, of late.
    pub fn reads_per_second(&self) -> f64 {
        self.bytes_per_second() / MISS_BYTES
    }

    /// Bytes that each read of a restore has to bring, so that of its part of the device the bytes run out and not the reads. The part
    /// is meant for all: what others take of it is theirs.
    pub fn balance(&self, all: Rate) -> Bytes {
        let Some(reads) = all.reads else { return Bytes(0) };
        let left_reads = left_of(reads, self.reads_per_second(), LEFT_READS_MIN).max(1.0);
        Bytes((self.leave(all).bytes.0 as f64 / left_reads) as u64)
    }

    /// Are they short of a device of so many reads a second, themselves?
    pub fn are_short(&self, reads_per_second: f64) -> bool {
        self.reads_per_second() > reads_per_second * SHORT_ABOVE
    }

    /// What is left to a restore of a rate that is meant for all: the server's own misses are part of it, in bytes and in reads.
    /// Otherwise the two of them saturate the device, and each miss waits for that.
    pub fn leave(&self, all: Rate) -> Rate {
        Rate {
            bytes: Bytes(left_of(all.bytes.0 as f64, self.bytes_per_second(), LEFT_MIN).max(1.0) as u64),
            reads: all.reads.map(|reads| left_of(reads, self.reads_per_second(), LEFT_MIN)),
        }
    }
}

/// What others leave of `all`, this part of it at least.
fn left_of(all: f64, others: f64, least: f64) -> f64 {
    (all - others).max(all * least)
}

// ---- appetite ----
//
// Would the server wait for the device whatever a restore does?

/// Over so long it is told what a miss costs the server of its processors.
const SPAN: Duration = Duration::from_millis(200);

/// A server that would ask for so many times what the device serves, if it never waited, waits whatever a restore does. It is reckoned
/// to have all processors, and has some of them only.
const MISSES_MAX: f64 = 4.0;

/// What a miss fetches at least.
pub const MISS_BYTES: f64 = 8192.0;

/// How much the server would ask of the device if it never waited for it: it works for so long between two misses.
#[derive(Debug)]
pub struct Appetite {
    /// When it was asked last, what was fetched and worked by then.
    before: Option<(Instant, Bytes, Duration)>,
    pub may_flow: bool,
}

impl Default for Appetite {
    fn default() -> Appetite {
        Appetite { before: None, may_flow: true }
    }
}

impl Appetite {
    /// Looks whether a device of so many reads a second could ever be enough.
    pub fn look(&mut self, traffic: &dyn Traffic, reads_per_second: f64) {
        if self.before.is_some_and(|(at, ..)| at.elapsed() < SPAN) {
            return;
        }
        let Some((fetched, work)) = traffic.read_fetched().zip(traffic.read_work()) else {
            return *self = Appetite::default();
        };
        if let Some((_, fetched_before, work_before)) = self.before {
            let fetched = Bytes(fetched.0.saturating_sub(fetched_before.0));
            let processors = thread::available_parallelism().map_or(1, usize::from);
            self.may_flow = may_flow(fetched, work.saturating_sub(work_before), processors, reads_per_second);
        }
        self.before = Some((Instant::now(), fetched, work));
    }
}

/// May a server flow that has fetched so much while it worked for so long, if it had so many processors for itself?
fn may_flow(fetched: Bytes, worked: Duration, processors: usize, reads_per_second: f64) -> bool {
    let misses = fetched.0 as f64 / MISS_BYTES;
    misses * processors as f64 <= MISSES_MAX * reads_per_second * worked.as_secs_f64()
}

// ---- given ----
//
// What the device has given, to a restore and to the server beside it.

/// What the device has given.
#[derive(Clone, Copy, Debug, Default)]
pub struct Given {
    /// Bytes to this restore, and its reads.
    pub read_bytes: u64,
    pub reads: u64,
    /// Bytes to the server.
    pub others_bytes: u64,
}

impl Given {
    /// To all.
    pub fn bytes(self) -> u64 {
        self.read_bytes + self.others_bytes
    }

    /// Since `before`, which is earlier.
    pub fn since(self, before: Given) -> Given {
        Given {
            read_bytes: self.read_bytes - before.read_bytes,
            reads: self.reads - before.reads,
            others_bytes: self.others_bytes - before.others_bytes,
        }
    }

    /// The device's reads, as far as can be told.
    pub fn device_reads(self) -> f64 {
        self.reads as f64 + self.others_bytes as f64 / MISS_BYTES
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::Mutex;

    use super::*;
    use ::host::linux::process::Busy;

    /// Bytes that were fetched so far; `None`: nobody knows.
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
        assert_eq!(others.look_at(&server, at(0)), 0, "what was before is not known");
        server.set(Some(5000));
        assert_eq!(others.look_at(&server, at(0)), 0, "it was asked a moment ago");
        assert_eq!(others.look_at(&server, at(1)), 4000);
        server.set(Some(3000));
        assert_eq!(others.look_at(&server, at(2)), 0, "a process took what it fetched along");
        server.set(None);
        assert_eq!((others.look_at(&server, at(3)), others.rate), (0, None));
        server.set(Some(1000));
        others.look_at(&server, at(4));
        server.set(Some(820_200));
        others.look_at(&server, at(5));
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
            others.look_at(&server, start + INTERVAL * tenths);
            others.leave(all)
        };
        fetch(0, 0);
        // 1000 misses a second, for long enough.
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
        let mut appetite = Appetite { before: None, may_flow: false };
        appetite.look(&Unseen, 3000.0);
        assert!(appetite.may_flow);
    }
}
