//! Would the server wait for the device whatever a restore does?

use std::thread;
use std::time::{Duration, Instant};

use crate::units::Bytes;
use crate::warm::traffic::Traffic;

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

#[cfg(test)]
mod tests {
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
            fn read_busy(&self) -> Option<crate::linux::process::Busy> {
                None
            }
        }
        let mut appetite = Appetite { before: None, may_flow: false };
        appetite.look(&Unseen, 3000.0);
        assert!(appetite.may_flow);
    }
}
