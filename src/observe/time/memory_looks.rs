//! Looks at the wait event in the memory of each of the server's processes, and at whether the process runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use super::event_word::EventWord;
use super::looks::{Doing, LookSums, Seen};
use super::source::{Reading, Tier, TimeSource, WaitEvent};
use crate::linux::process::{read_activity, read_children};
use crate::linux::read_monotonic;
use crate::observe::Error;

/// Fifty looks a second.
const INTERVAL: Duration = Duration::from_millis(20);

/// New processes are looked for at every so many looks.
const LOOKS_UNTIL_LISTED: u32 = 10;

/// A thread that looks. Dropping it ends it.
#[derive(Debug)]
pub struct MemoryLooks {
    sums: LookSums,
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
        let (to_add, stopped) = (sums.clone(), Arc::clone(&stop));
        to_add.add(read_monotonic().as_nanos() as u64, look(&list(postmaster_pid), word));
        let run = move || {
            let mut pids = Vec::new();
            for looks in (0..LOOKS_UNTIL_LISTED).cycle() {
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                if looks == 0 {
                    pids = list(postmaster_pid);
                }
                to_add.add(read_monotonic().as_nanos() as u64, look(&pids, word));
                std::thread::sleep(INTERVAL);
            }
        };
        let thread = std::thread::Builder::new().name("waits".into()).spawn(run).map_err(Error::Thread)?;
        Ok(MemoryLooks { sums, stop, thread: Some(thread) })
    }
}

impl TimeSource for MemoryLooks {
    fn tier(&self) -> Tier {
        Tier::Memory
    }

    fn read(&mut self) -> Result<Reading, Error> {
        Ok(self.sums.read())
    }
}

impl Drop for MemoryLooks {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
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
