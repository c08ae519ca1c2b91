//! Reads all counters once per second on an absolute schedule, in a thread of its own.

use std::fmt;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use super::Error;
use super::backends::BackendReads;
use super::series::{Counters, Reading};
use crate::linux::block_device::{DeviceNumber, read_device_counters};
use crate::linux::clock;
use crate::linux::page_cache::CachedFile;
use crate::units::{Bytes, PageRange};

/// Where the counters are.
pub struct Sources {
    /// The disk that holds the data directory; `None` where there is none (tmpfs), whose reads then count as 0.
    pub device: Option<DeviceNumber>,
    pub backends: BackendReads,
    /// The files whose residency is counted.
    pub files: Vec<Box<dyn CachedFile>>,
    pub page_bytes: u64,
}

impl fmt::Debug for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sources").field("device", &self.device).field("files", &self.files.len()).finish()
    }
}

impl Sources {
    /// Reads every counter now.
    pub fn read(&mut self) -> Result<Reading, Error> {
        let device = self.device.map(read_device_counters).transpose()?.unwrap_or_default();
        let backends = self.backends.read()?;
        let monotonic = clock::read_monotonic();
        let counters = Counters {
            device_read_bytes: device.read_bytes,
            device_reads: device.reads,
            workload_read_bytes: backends.workload_read_bytes,
            strategy_read_bytes: backends.strategy_read_bytes,
        };
        Ok(Reading { monotonic, wall_ms: clock::read_wall_ms(), counters, os_resident_bytes: self.read_resident()? })
    }

    /// Bytes of the files that are in the page cache.
    pub fn read_resident(&self) -> Result<Bytes, Error> {
        let mut pages = 0;
        for file in &self.files {
            let range = PageRange::new(0, file.size_bytes().div_ceil(self.page_bytes));
            pages += file.read_counts(range)?.cached;
        }
        Ok(Bytes(pages * self.page_bytes))
    }
}

/// The thread that reads. Dropping it without [`Sampler::finish`] stops it at its next tick.
#[derive(Debug)]
pub struct Sampler {
    thread: JoinHandle<Result<Vec<Reading>, Error>>,
    _stop: Sender<()>,
}

impl Sampler {
    /// Reads at `start` (a monotonic instant) and at the end of each of `seconds` seconds, and tells `on_reading`. The
    /// schedule is absolute: a late reading does not delay the next one.
    pub fn start(
        mut sources: Sources,
        start: Duration,
        seconds: u32,
        mut on_reading: impl FnMut(&Reading) + Send + 'static,
    ) -> Sampler {
        let (stop, stopped) = channel();
        let sample = move || {
            let mut readings = Vec::with_capacity(seconds as usize + 1);
            for second in 0..=seconds {
                if !wait_until(start + Duration::from_secs(second.into()), &stopped) {
                    break;
                }
                let reading = sources.read()?;
                on_reading(&reading);
                readings.push(reading);
            }
            Ok(readings)
        };
        Sampler { thread: std::thread::spawn(sample), _stop: stop }
    }

    /// Waits for the last reading and returns all of them.
    pub fn finish(self) -> Result<Vec<Reading>, Error> {
        // A panic in the thread is a defect, not a state to go on from.
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    /// Ends the thread without its remaining readings.
    pub fn cancel(self) {
        let Sampler { thread, _stop } = self;
        drop(_stop);
        // What it read is not wanted.
        let _ = thread.join();
    }
}

/// False when it was stopped before.
fn wait_until(instant: Duration, stopped: &Receiver<()>) -> bool {
    let left = instant.saturating_sub(clock::read_monotonic());
    stopped.recv_timeout(left) == Err(RecvTimeoutError::Timeout)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linux::page_cache::{PageCache as _, SystemPageCache};
    use crate::observe::{BackendRole, compute_seconds};

    fn sources(files: Vec<Box<dyn CachedFile>>) -> Sources {
        let backends = BackendReads::new(std::process::id(), BackendRole::Workload);
        Sources { device: None, backends, files, page_bytes: SystemPageCache::new().page_bytes() }
    }

    #[test]
    fn reads_at_the_start_and_at_the_end_of_each_second() {
        let start = clock::read_monotonic();
        let sampler = Sampler::start(sources(Vec::new()), start, 1, |_| {});
        let readings = sampler.finish().unwrap();
        assert_eq!(readings.len(), 2);
        assert!(readings[1].monotonic - start >= Duration::from_secs(1));
        assert_eq!(compute_seconds(&readings, start, 1).len(), 1);
    }

    #[test]
    fn cancelling_does_not_wait_for_the_schedule() {
        let far_away = clock::read_monotonic() + Duration::from_secs(3600);
        Sampler::start(sources(Vec::new()), far_away, 3600, |_| panic!("nothing is due")).cancel();
    }

    #[test]
    fn counts_what_is_in_the_page_cache() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), vec![1; 1 << 20]).unwrap();
        let cached = SystemPageCache::new().open(file.path()).unwrap().unwrap();
        assert_eq!(sources(vec![cached]).read_resident().unwrap(), Bytes(1 << 20));
    }
}
