//! Records a film: a thread that looks several times a second, and writes what it sees.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use roaring::RoaringBitmap;

use super::attend::Progress;
use super::error::Error;
use super::film::{Event, EventKind, FilmHeader, FilmRelation, ProbeShare};
use super::film_file::FilmWriter;
use super::source::{JobSeen, Source, SourceEnd, Touch, runs};
use crate::{Map, TierState};
use host::files::Draft;
use host::linux::block_device::{DeviceCounters, Devices};
use host::linux::read_monotonic;
use host::linux::ready::{Going, Over};
use host::units::{Bytes, Fork};
use postgres::RelationPath;

/// What came, by file and fork.
pub type Came = BTreeMap<(RelationPath, Fork), RoaringBitmap>;

/// A film that was recorded: its file, which is to be placed, and what it says of itself.
#[derive(Debug)]
pub struct Recorded {
    pub draft: Draft,
    pub header: FilmHeader,
    /// Were server processes of its command seen?
    pub job_seen: JobSeen,
    /// What was taken for the command's without having been seen to be; it stands in the header too.
    pub guessed: Vec<String>,
}

/// A film that is being recorded, by a thread of its own. Dropping it ends that, and leaves nothing behind.
#[derive(Debug)]
pub struct Recording {
    going: Going,
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
    end: SourceEnd,
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
        let begin = Going::begin();
        let (going, over) = begin.map_err(|source| Error::NothingSeen(format!("no pipe can be made: {source}")))?;
        let came = Arc::new(Mutex::new(Came::new()));
        let looking = Looking {
            writer,
            source,
            came: Arc::clone(&came),
            block_size: map.source.block_size.into(),
            job_bytes: Bytes(0),
            progress: Arc::clone(&progress),
            started: Instant::now(),
            begun: read_monotonic(),
            last: Duration::ZERO,
        };
        let header = FilmHeader { recorder: looking.source.describe(), ..header };
        let started = looking.started;
        let thread = thread::Builder::new().spawn(move || looking.run(&over));
        let thread = thread.map_err(|source| Error::NothingSeen(format!("no thread can be started: {source}")))?;
        let before = devices.read().ok().flatten();
        Ok(Recording { going, thread, came, started, header, devices, before, progress })
    }

    /// What came so far: whoever asks may look at it until it lets go.
    pub fn came(&self) -> Arc<Mutex<Came>> {
        Arc::clone(&self.came)
    }

    /// Takes the film's name from it, for its command failed: what that would have needed is not known, and no other is to go by it.
    pub fn without_name(mut self) -> Recording {
        if let Some(label) = self.header.label.take() {
            self.header.remarks.push(format!(
                "it is not called {label}, for its command failed: what that would have needed is not known"
            ));
        }
        self
    }

    /// Looks a last time, and ends the film.
    pub fn end(self) -> Result<Recorded, Error> {
        let seconds = self.started.elapsed().as_secs_f64();
        let after = self.devices.read().ok().flatten();
        drop(self.going);
        let Taken { writer, end } = self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        let device = self.before.zip(after);
        let requested = self.progress.requested();
        let header = FilmHeader {
            requested_bytes: requested,
            workers: requested.map(|_| self.progress.workers_seen.load(Ordering::Relaxed) as u64),
            seconds,
            lost_events: end.lost_events,
            sampling: end.sampling,
            fetched_again: end.fetched_again,
            probe: end.cost.map(|(runs, total_ns)| ProbeShare { runs, total_ns }),
            remarks: self.header.remarks.into_iter().chain(end.remarks).chain(end.guessed.iter().cloned()).collect(),
            device_reads: device.map(|(before, after)| after.reads.saturating_sub(before.reads)),
            device_bytes: device.map(|(before, after)| Bytes(after.read_bytes.0.saturating_sub(before.read_bytes.0))),
            ..self.header
        };
        let (draft, header) = writer.finish(&header)?;
        Ok(Recorded { draft, header, job_seen: end.job_seen, guessed: end.guessed })
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
    /// The same moment by the monotonic clock.
    begun: Duration,
    /// When the last event was, since then.
    last: Duration,
}

impl Looking {
    /// Looks again and again until it is over, and once more.
    fn run(mut self, over: &Over) -> Result<Taken, Error> {
        let mut took = Duration::ZERO;
        while self.source.wait(took, over) {
            let begun = Instant::now();
            self.look(|source, visit| source.look(visit))?;
            took = begun.elapsed();
        }
        let end = self.look(|source, visit| source.end(visit))?;
        Ok(Taken { end, writer: self.writer })
    }

    fn look<T>(
        &mut self,
        look: impl FnOnce(&mut dyn Source, &mut dyn FnMut(Touch)) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let now = self.started.elapsed();
        let requested = self.progress.requested();
        let mut touches = Vec::new();
        let seen = look(&mut *self.source, &mut |touch| touches.push(touch))?;
        let mut came = self.came.lock().unwrap_or_else(PoisonError::into_inner);
        for Touch { relation, fork, blocks, kind, pid, at, job_bytes, is_of_film, came: has_come } in touches {
            if has_come {
                let key = (relation.path.clone(), fork);
                came.entry(key).or_default().insert_range(blocks.start as u32..blocks.end as u32);
            }
            if !is_of_film {
                continue;
            }
            // A preload is paced by what sessions ask files for: where that is known, a film has the same measure.
            let own_count = if pid == std::process::id() { 0 } else { blocks.blocks() * self.block_size };
            let read = requested.or(job_bytes).unwrap_or(self.job_bytes + Bytes(own_count));
            self.job_bytes = self.job_bytes.max(read);
            // What was told late, or by another processor, is not before what stands there already.
            let time = at.map_or(now, |at| at.saturating_sub(self.begun)).max(self.last);
            self.last = time;
            self.writer.push(&Event { time, relation, fork, blocks, kind, pid, job_bytes: self.job_bytes })?;
        }
        Ok(seen)
    }
}
