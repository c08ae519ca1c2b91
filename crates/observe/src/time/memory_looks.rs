//! Looks at the wait event in the memory of each of the server's processes, and at whether the process runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use super::event_word::EventWord;
use super::looks::{Doing, LookSums, Seen};
use super::source::{Reading, Tier, TimeSource, WaitEvent};
use crate::Error;
use host::linux::clock::{read_monotonic, read_own_cpu_time};
use host::linux::process::{read_activity, read_children};

/// So often processes are looked at, unless that costs too much.
pub const LOOKS_PER_SECOND: f64 = 50.0;

/// It is looked once a second at least, whatever that costs.
const LONGEST_INTERVAL: Duration = Duration::from_secs(1);

/// New processes are looked for this often, and at each look where looks are fewer.
const LISTED_FOR: Duration = Duration::from_millis(200);

/// A thread that looks. Dropping it ends it.
#[derive(Debug)]
pub struct MemoryLooks {
    sums: LookSums,
    interval_ms: Arc<AtomicU64>,
    /// Processor time of the first look, without that of finding the processes, which is not done for each.
    look_cost: Duration,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl MemoryLooks {
    /// Looks at the server of this postmaster from now on.
    pub fn start(postmaster_pid: u32) -> Result<MemoryLooks, Error> {
        let word = EventWord::find(postmaster_pid)?;
        // Who may not read one of them may read none.
        word.read(postmaster_pid)?;
        let (sums, stop) = (LookSums::default(), Arc::new(AtomicBool::new(false)));
        let interval_ms = Arc::new(AtomicU64::new((1e3 / LOOKS_PER_SECOND) as u64));
        let (to_add, stopped, interval) = (sums.clone(), Arc::clone(&stop), Arc::clone(&interval_ms));
        let pids = list(postmaster_pid);
        let cpu_before = read_own_cpu_time();
        to_add.add(read_monotonic().as_nanos() as u64, look(&pids, word));
        let look_cost = read_own_cpu_time().saturating_sub(cpu_before);
        let run = move || {
            let (mut pids, mut listed_at) = (list(postmaster_pid), read_monotonic());
            while !stopped.load(Ordering::Relaxed) {
                let now = read_monotonic();
                if now.saturating_sub(listed_at) >= LISTED_FOR {
                    (pids, listed_at) = (list(postmaster_pid), now);
                }
                to_add.add(now.as_nanos() as u64, look(&pids, word));
                // Who ends it wakes it.
                std::thread::park_timeout(Duration::from_millis(interval.load(Ordering::Relaxed)));
            }
        };
        let thread = std::thread::Builder::new().name("waits".into()).spawn(run).map_err(Error::Thread)?;
        Ok(MemoryLooks { sums, interval_ms, look_cost, stop, thread: Some(thread) })
    }

    /// Looks so seldom that this costs no more processors than these, by what the first look cost; how often a second from now on. As
    /// with [`TimeSource::look_less`] there are bounds.
    pub fn look_within(&mut self, processors: f64) -> f64 {
        let interval = interval_within(self.look_cost, processors);
        self.interval_ms.store(interval.as_millis() as u64, Ordering::Relaxed);
        1.0 / interval.as_secs_f64()
    }
}

/// From look to look, where each costs so much.
fn interval_within(look_cost: Duration, processors: f64) -> Duration {
    let seconds = look_cost.as_secs_f64() / processors.max(f64::MIN_POSITIVE);
    let millis = (1e3 * seconds).clamp(1e3 / LOOKS_PER_SECOND, LONGEST_INTERVAL.as_millis() as f64);
    Duration::from_millis(millis as u64)
}

impl TimeSource for MemoryLooks {
    fn tier(&self) -> Tier {
        Tier::Memory
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

impl Drop for MemoryLooks {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

fn list(postmaster_pid: u32) -> Vec<u32> {
    let children = read_children(postmaster_pid).unwrap_or_default();
    children.into_iter().chain([postmaster_pid]).collect()
}

fn look(pids: &[u32], word: EventWord) -> Vec<Seen> {
    let look_at = |pid: &u32| {
        // A process may end at any time.
        let activity = read_activity(*pid).ok()?;
        let doing = match activity.is_running {
            // One that was woken still has its event.
            true => Doing::Running,
            false => Doing::Waiting(word.read(*pid).map_or(WaitEvent::Unknown, WaitEvent::Number)),
        };
        Some((*pid, activity.start_ticks, doing))
    };
    pids.iter().filter_map(look_at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_as_many_looks_as_may_be_paid_for() {
        let look = Duration::from_micros(500);
        let millis = |processors| interval_within(look, processors).as_millis();
        assert_eq!([1.0, 0.025, 0.005, 0.0005, 0.0].map(millis), [20, 20, 100, 1000, 1000]);
    }
}
