//! Records a film: a thread that looks several times a second, and writes what it sees.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use roaring::RoaringBitmap;

use super::Error;
use super::attend::Progress;
use super::event::{Event, EventKind, FilmRelation};
use super::film::{FilmHeader, FilmWriter};
use super::polling::runs;
use super::source::{Source, Touch};
use crate::cache::{Map, TierState};
use crate::files::Draft;
use crate::linux::block_device::{DeviceCounters, Devices};
use crate::postgres::RelationPath;
use crate::units::{Bytes, Fork};

/// Time from look to look at least ...
const INTERVAL: Duration = Duration::from_millis(100);

/// ... and as a multiple of what a look takes: a twentieth of a processor at most.
const INTERVAL_LOOKS: u32 = 20;

/// What came, by file and fork.
pub type Came = BTreeMap<(RelationPath, Fork), RoaringBitmap>;

/// A film that was recorded: its file, which is to be placed, and what it says of itself.
#[derive(Debug)]
pub struct Recorded {
    pub draft: Draft,
    pub header: FilmHeader,
}

/// A film that is being recorded, by a thread of its own. Dropping it ends that, and leaves nothing behind.
#[derive(Debug)]
pub struct Recording {
    end: Sender<()>,
    thread: JoinHandle<Result<Taken, Error>>,
    came: Arc<Mutex<Came>>,
    started: Instant,
    header: FilmHeader,
    devices: Devices,
    before: Option<DeviceCounters>,
    progress: Arc<Progress>,
}

/// What the thread hands back.
#[derive(Debug)]
struct Taken {
    writer: FilmWriter,
    lost_events: u64,
}

impl Recording {
    /// Begins a film of what `source` sees. `map` is what was cached before; what of it was in shared_buffers comes first.
    /// `header` says all that is known by now. How far the job is goes by `progress` where somebody attends it.
    pub fn begin(
        mut writer: FilmWriter,
        source: Box<dyn Source>,
        map: &Map,
        header: FilmHeader,
        devices: Devices,
        progress: Arc<Progress>,
    ) -> Result<Recording, Error> {
        write_buffers(&mut writer, map)?;
        let (end, ended) = channel();
        let came = Arc::new(Mutex::new(Came::new()));
        let looking = Looking {
            writer,
            source,
            came: Arc::clone(&came),
            block_size: map.source.block_size.into(),
            job_bytes: Bytes(0),
            progress: Arc::clone(&progress),
            started: Instant::now(),
        };
        let header = FilmHeader { recorder: looking.source.describe(), ..header };
        let started = looking.started;
        let thread = thread::Builder::new()
            .spawn(move || looking.run(|interval| ended.recv_timeout(interval) == Err(RecvTimeoutError::Timeout)));
        let thread = thread.map_err(|source| Error::NothingSeen(format!("no thread can be started: {source}")))?;
        let before = devices.read().ok().flatten();
        Ok(Recording { end, thread, came, started, header, devices, before, progress })
    }

    /// What came so far: whoever asks may look at it until it lets go.
    pub fn came(&self) -> Arc<Mutex<Came>> {
        Arc::clone(&self.came)
    }

    /// Looks a last time, and ends the film.
    pub fn end(self) -> Result<Recorded, Error> {
        let seconds = self.started.elapsed().as_secs_f64();
        let after = self.devices.read().ok().flatten();
        drop(self.end);
        let Taken { writer, lost_events } =
            self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        let device = self.before.zip(after);
        let requested = self.progress.requested();
        let header = FilmHeader {
            requested_bytes: requested,
            workers: requested.map(|_| self.progress.workers_seen.load(Ordering::Relaxed) as u64),
            seconds,
            lost_events,
            device_reads: device.map(|(before, after)| after.reads.saturating_sub(before.reads)),
            device_bytes: device.map(|(before, after)| Bytes(after.read_bytes.0.saturating_sub(before.read_bytes.0))),
            ..self.header
        };
        let (draft, header) = writer.finish(&header)?;
        Ok(Recorded { draft, header })
    }
}

/// What was in shared_buffers before, at the beginning of the film.
fn write_buffers(writer: &mut FilmWriter, map: &Map) -> Result<(), Error> {
    if map.buffers != TierState::Measured {
        return Ok(());
    }
    for one in &map.relations {
        let relation = Arc::new(FilmRelation { name: one.relation.name.clone(), path: one.relation.path.clone() });
        for fork in &one.forks {
            for blocks in runs(&fork.all_buffers()) {
                writer.push(&Event {
                    time: Duration::ZERO,
                    relation: Arc::clone(&relation),
                    fork: fork.fork,
                    blocks,
                    kind: EventKind::Buffers,
                    pid: 0,
                    job_bytes: Bytes(0),
                })?;
            }
        }
    }
    Ok(())
}

/// What the thread works with.
struct Looking {
    writer: FilmWriter,
    source: Box<dyn Source>,
    came: Arc<Mutex<Came>>,
    block_size: u64,
    job_bytes: Bytes,
    progress: Arc<Progress>,
    started: Instant,
}

impl Looking {
    /// Looks as long as `wait` says, after an interval, that it goes on, and once more.
    fn run(mut self, wait: impl Fn(Duration) -> bool) -> Result<Taken, Error> {
        let mut interval = INTERVAL;
        while wait(interval) {
            let begun = Instant::now();
            self.look()?;
            interval = INTERVAL.max(begun.elapsed() * INTERVAL_LOOKS);
        }
        self.look()?;
        Ok(Taken { lost_events: self.source.lost_events(), writer: self.writer })
    }

    fn look(&mut self) -> Result<(), Error> {
        let time = self.started.elapsed();
        let requested = self.progress.requested();
        let mut touches = Vec::new();
        self.source.look(&mut |touch| touches.push(touch))?;
        if touches.is_empty() {
            return Ok(());
        }
        let mut came = self.came.lock().unwrap_or_else(PoisonError::into_inner);
        for Touch { relation, fork, blocks, kind, pid, is_read_over } in touches {
            let key = (relation.path.clone(), fork);
            came.entry(key).or_default().insert_range(blocks.start as u32..blocks.end as u32);
            if is_read_over {
                continue;
            }
            match requested {
                Some(requested) => self.job_bytes = self.job_bytes.max(requested),
                None if pid != std::process::id() => self.job_bytes += Bytes(blocks.blocks() * self.block_size),
                None => {}
            }
            self.writer.push(&Event { time, relation, fork, blocks, kind, pid, job_bytes: self.job_bytes })?;
        }
        Ok(())
    }
}
