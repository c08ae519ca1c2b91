//! Reads all counters once per second on an absolute schedule, in a thread of its own.

use std::fmt;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use super::Error;
use super::backends::BackendReads;
use super::series::Reading;
use crate::Counters;
use host::linux::block_device::Devices;
use host::linux::clock;
use host::linux::page_cache::CachedFile;
use host::units::{Bytes, PageRange};

/// The workload's reads are looked at so often.
const TICKS_PER_SECOND: u32 = 10;
const TICK: Duration = Duration::from_millis(100);

/// For so many ticks new backends are looked for at each; later at full seconds only.
const SEARCH_TICKS: u32 = 3 * TICKS_PER_SECOND;

/// How closely is looked: looking takes processor time from what is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cadence {
    /// At the workload's reads each tenth of a second, at residency each second: of a server that gets warm.
    Close,
    /// At everything once a second, and at residency as seldom as keeps its counting within a share of the time.
    Sparing,
}

/// Counting what is resident takes at most this share of one processor with [`Cadence::Sparing`].
const RESIDENCY_SHARE: f64 = 0.005;

/// Where the counters are.
pub struct Sources {
    /// Where there is none (tmpfs) its reads count as 0.
    pub devices: Devices,
    pub backends: BackendReads,
    /// The files whose residency is counted, each with the place of its relation among those that are counted on their own.
    pub files: Vec<(Option<usize>, Box<dyn CachedFile>)>,
    /// How many those are.
    pub relations: usize,
    pub page_bytes: u64,
    pub cadence: Cadence,
}

/// What was resident when it was counted last.
#[derive(Clone, Debug, Default)]
struct Resident {
    bytes: Bytes,
    /// Of each relation that is counted on its own.
    relations: Vec<Bytes>,
    /// Until this monotonic instant it stands for what is.
    good_until: Duration,
}

impl fmt::Debug for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sources").field("devices", &self.devices).field("files", &self.files.len()).finish()
    }
}

impl Sources {
    /// Reads every counter now, and residency when its turn has come.
    fn read(&mut self, resident: &mut Resident) -> Result<Reading, Error> {
        let device = self.devices.read()?.unwrap_or_default();
        let backends = self.backends.read()?;
        let monotonic = clock::read_monotonic();
        let counters = Counters {
            device_read_bytes: device.read_bytes,
            device_reads: device.reads,
            workload_read_bytes: backends.workload_read_bytes,
            strategy_read_bytes: backends.strategy_read_bytes,
        };
        if monotonic >= resident.good_until {
            *resident = self.count_resident()?;
        }
        Ok(Reading { monotonic, wall_ms: clock::read_wall_ms(), counters, os_resident_bytes: resident.bytes })
    }

    fn count_resident(&self) -> Result<Resident, Error> {
        let began = clock::read_monotonic();
        let (bytes, relations) = self.read_resident()?;
        let ended = clock::read_monotonic();
        let good_for = match self.cadence {
            Cadence::Close => Duration::ZERO,
            Cadence::Sparing => ended.saturating_sub(began).div_f64(RESIDENCY_SHARE),
        };
        Ok(Resident { bytes, relations, good_until: began + good_for })
    }

    /// Bytes of the files that are in the page cache, and of them those of each relation that is counted on its own.
    fn read_resident(&self) -> Result<(Bytes, Vec<Bytes>), Error> {
        let mut all = Bytes(0);
        let mut relations = vec![Bytes(0); self.relations];
        for (relation, file) in &self.files {
            let range = PageRange::new(0, file.size_bytes().div_ceil(self.page_bytes));
            let bytes = file.read_counts(range)?.cached * self.page_bytes;
            all.0 += bytes;
            if let Some(own) = relation.and_then(|place| relations.get_mut(place)) {
                own.0 += bytes;
            }
        }
        Ok((all, relations))
    }
}

/// What was read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Readings {
    /// At the start and at the end of each second.
    pub seconds: Vec<Reading>,
    /// What of each relation was resident then; nothing where none is counted on its own.
    pub relations: Vec<Vec<Bytes>>,
    /// What the workload's backends had read so far, at the start and at the end of each tenth of a second: the instant
    /// at which a server gets warm lies within a second.
    pub workload: Vec<(Duration, Bytes)>,
}

/// The thread that reads. Dropping it stops it at its next tick.
#[derive(Debug)]
pub struct Sampler {
    thread: JoinHandle<Result<Readings, Error>>,
    stop: Sender<()>,
}

impl Sampler {
    /// Reads at `start` (a monotonic instant) and at the end of each of `seconds` seconds, and tells `on_reading`. The
    /// schedule is absolute: a late reading does not delay the next one.
    pub fn start(
        sources: Sources,
        start: Duration,
        seconds: u32,
        on_reading: impl FnMut(&Reading) + Send + 'static,
    ) -> Result<Sampler, Error> {
        let (stop, stopped) = channel();
        let work = move || sample(sources, start, seconds, on_reading, &stopped);
        let thread = std::thread::Builder::new().spawn(work).map_err(Error::Thread)?;
        Ok(Sampler { thread, stop })
    }

    /// Ends before the schedule does, and returns the readings so far.
    pub fn stop(self) -> Result<Readings, Error> {
        let Sampler { thread, stop } = self;
        drop(stop);
        join(thread)
    }

    /// Waits for the last reading and returns all of them.
    pub fn finish(self) -> Result<Readings, Error> {
        join(self.thread)
    }
}

fn join(thread: JoinHandle<Result<Readings, Error>>) -> Result<Readings, Error> {
    // A panic in the thread is a defect, not a state to go on from.
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn sample(
    mut sources: Sources,
    start: Duration,
    seconds: u32,
    mut on_reading: impl FnMut(&Reading),
    stopped: &Receiver<()>,
) -> Result<Readings, Error> {
    let (mut readings, mut resident) = (Readings::default(), Resident::default());
    let step = match sources.cadence {
        Cadence::Close => 1,
        Cadence::Sparing => TICKS_PER_SECOND,
    };
    for tick in (0..=seconds * TICKS_PER_SECOND).step_by(step as usize) {
        if !wait_until(start + TICK * tick, stopped) {
            break;
        }
        let is_full_second = tick % TICKS_PER_SECOND == 0;
        let workload_read_bytes = if is_full_second {
            let reading = sources.read(&mut resident)?;
            on_reading(&reading);
            readings.seconds.push(reading);
            if sources.relations > 0 {
                readings.relations.push(resident.relations.clone());
            }
            reading.counters.workload_read_bytes
        } else if tick < SEARCH_TICKS {
            sources.backends.read()?.workload_read_bytes
        } else {
            sources.backends.read_known();
            sources.backends.totals().workload_read_bytes
        };
        readings.workload.push((clock::read_monotonic(), workload_read_bytes));
    }
    Ok(readings)
}

/// False when it was stopped before.
pub(super) fn wait_until(instant: Duration, stopped: &Receiver<()>) -> bool {
    let left = instant.saturating_sub(clock::read_monotonic());
    stopped.recv_timeout(left) == Err(RecvTimeoutError::Timeout)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BackendRole, compute_seconds};
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
        let sampler = Sampler::start(sources(Vec::new()), start, 1, |_| {}).unwrap();
        let readings = sampler.finish().unwrap();
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
        // Good for two hundred times what the count took, and no longer.
        assert_eq!(counted.bytes, Bytes(1 << 20));
        assert!(counted.good_until > now && counted.good_until < now + Duration::from_secs(60));
        let readings = Sampler::start(sparing, now, 1, |_| {}).unwrap().finish().unwrap();
        assert_eq!((readings.seconds.len(), readings.workload.len()), (2, 2));
        assert_eq!(readings.seconds[0].os_resident_bytes, Bytes(1 << 20));
    }

    #[test]
    fn it_can_be_stopped_before_its_schedule() {
        let far_away = clock::read_monotonic() + Duration::from_secs(3600);
        let sampler = Sampler::start(sources(Vec::new()), far_away, 3600, |_| panic!("nothing is due")).unwrap();
        assert_eq!(sampler.stop().unwrap(), Readings::default());
    }

    #[test]
    fn counts_what_is_in_the_page_cache() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), vec![1; 1 << 20]).unwrap();
        let cached = SystemPageCache::new().open(file.path()).unwrap().unwrap();
        let of_another = SystemPageCache::new().open(file.path()).unwrap().unwrap();
        let mut sources = sources(vec![cached]);
        sources.files.push((None, of_another));
        assert_eq!(sources.read_resident().unwrap(), (Bytes(2 << 20), vec![Bytes(1 << 20)]));
    }
}
