//! Reads every block of a volume made from a volume snapshot: a block's first read fetches it from remote storage.
//! Reads bypass the page cache, so that warm pages stay, and start with the hot blocks of a pgthaw snapshot. The next
//! run continues an interrupted one.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{io, thread};

use jiff::Timestamp;
use roaring::RoaringBitmap;
use serde::{Deserialize, Serialize};

use super::device_profile::file_name_of;
use super::restore::Governor;
use super::traffic::{Sharing, Traffic};
use super::{Control, Error, Phase, PlannedDevice, Result, TrafficReceipt, Watcher};
use crate::Map;
use crate::files::numbers;
use crate::warm::heat::{self, Evidence};
use host::failure::{ErrorKind, Explain as _};
use host::files::{FileType, Tree, read_at_most, write_whole};
use host::linux;
use host::linux::block_device::BlockDevice;
use host::linux::direct_read::{AlignedBuffer, DirectFile};
use host::linux::threads::{lock, on_threads};
use host::units::{BlockRange, Bytes};
use postgres::DataDirectory;

const READ: u64 = 1 << 20;
const KEEP_INTERVAL: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(20);
const FAILURES_MAX: usize = 20;

#[derive(Clone, Copy)]
pub struct Hydration<'a> {
    pub directory: &'a DataDirectory,
    pub hot: Option<&'a Map>,
    pub threads: usize,
    pub max_rate: Option<Bytes>,
    pub sharing: Sharing,
    pub device: PlannedDevice,
    pub traffic: &'a dyn Traffic,
    /// Without a server, even a gentle run uses full speed.
    pub has_server: bool,
    pub control: &'a Control,
    pub watcher: &'a dyn Watcher,
}

host::debug_by!(Hydration<'_>: directory);

/// Receipt of `hydrate`. The exit status is 3 if only permissions failed, 1 after other failures.
#[derive(Clone, Debug, Default, PartialEq, Serialize, crate::JsonSchema)]
pub struct HydrationReceipt {
    /// Files below the data directory.
    pub files: u64,
    /// Size of all files below the data directory.
    pub total_bytes: Bytes,
    /// Bytes read by earlier runs.
    pub done_before_bytes: Bytes,
    /// Bytes read by this run.
    pub read_bytes: Bytes,
    /// Bytes not read yet.
    pub left_bytes: Bytes,
    pub seconds: f64,
    /// Last save of an interrupted run, which this run continues.
    pub resumed_from: Option<Timestamp>,
    /// An earlier complete run: this run read nothing.
    pub finished_before: Option<FinishedRun>,
    /// Time of the snapshot that defines the hot blocks.
    pub snapshot_taken_at: Option<Timestamp>,
    pub failed_reads: u64,
    /// Failed reads for lack of permission.
    pub denied_reads: u64,
    /// The first failures.
    pub failures: Vec<HydrationFailure>,
    pub traffic: TrafficReceipt,
    pub is_interrupted: bool,
    pub remarks: Vec<String>,
}

impl HydrationReceipt {
    pub fn failure(&self) -> Option<ErrorKind> {
        match self.failed_reads {
            _ if self.is_interrupted => Some(ErrorKind::Interrupted),
            0 => None,
            failed if failed == self.denied_reads => Some(ErrorKind::Privilege),
            _ => Some(ErrorKind::Failed),
        }
    }
}

/// An earlier run that read everything.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, crate::JsonSchema)]
pub struct FinishedRun {
    /// End of the run.
    pub at: Timestamp,
    /// Device name in /sys/block.
    pub device: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, crate::JsonSchema)]
pub struct HydrationFailure {
    /// Relative to the data directory.
    pub path: String,
    pub detail: String,
}

struct Work<'a> {
    hydration: Hydration<'a>,
    chunks: &'a Chunks,
    governor: Governor,
    next: AtomicUsize,
    done: Vec<AtomicBool>,
    receipt: Mutex<HydrationReceipt>,
}

impl Hydration<'_> {
    /// Reads the chunks that `state` lacks and calls `keep` regularly. Blocks the thread.
    ///
    /// # Errors
    /// The directory cannot be listed, or `keep` fails.
    pub fn run<E: From<linux::Error>>(
        &self,
        state: &mut HydrationState,
        mut keep: impl FnMut(&HydrationState) -> Result<(), E>,
    ) -> Result<HydrationReceipt, E> {
        let started = Instant::now();
        let chunks = Chunks::list(self.directory, self.hot)?;
        let done: Vec<AtomicBool> = chunks.iter().map(|(path, chunk)| state.has(path, chunk).into()).collect();
        let bytes_of = |done: &[AtomicBool]| -> Bytes {
            let with = done.iter().zip(chunks.lengths()).filter(|(done, _)| done.load(Ordering::Relaxed));
            Bytes(with.map(|(_, bytes)| bytes).sum())
        };
        let (total_bytes, done_before_bytes) = (Bytes(chunks.lengths().sum()), bytes_of(&done));
        self.watcher.begin(Phase::Hydrating, total_bytes.0 - done_before_bytes.0);
        let receipt = HydrationReceipt {
            files: chunks.files.len() as u64,
            total_bytes,
            done_before_bytes,
            resumed_from: state.updated_at,
            finished_before: state.finished(),
            snapshot_taken_at: self.hot.map(|map| map.taken_at),
            ..HydrationReceipt::default()
        };
        // The governor learns how fast the device delivers unread blocks.
        let governor = Governor::new(self.sharing, self.threads.max(1), self.max_rate, self.device);
        if !self.has_server {
            governor.note_no_server();
        }
        let (chunks, next, receipt) = (&chunks, AtomicUsize::new(0), Mutex::new(receipt));
        let work = Work { hydration: *self, chunks, governor, next, done, receipt };
        if state.finished().is_none() {
            chunks.refused.iter().for_each(|(path, error)| work.fail(path, error));
            work.run_threads(|| {
                work.note(state);
                keep(state)
            })?;
        }
        Ok(HydrationReceipt {
            left_bytes: Bytes(total_bytes.0 - bytes_of(&work.done).0),
            seconds: started.elapsed().as_secs_f64(),
            traffic: work.governor.receipt(),
            is_interrupted: self.control.is_interrupted(),
            ..work.receipt.into_inner().unwrap_or_else(PoisonError::into_inner)
        })
    }
}

impl Work<'_> {
    /// Stops reading if `keep` fails.
    fn run_threads<E>(&self, mut keep: impl FnMut() -> Result<(), E>) -> Result<(), E> {
        let is_done = AtomicBool::new(false);
        thread::scope(|scope| {
            let threads = self.hydration.threads;
            let readers =
                thread::Builder::new().spawn_scoped(scope, move || on_threads(threads, |one| self.read_on(one)));
            let Ok(readers) = readers else {
                self.read_on(0);
                return keep();
            };
            // If the traffic watcher cannot start, reads do not yield to the server.
            let watch = || self.governor.watch(self.hydration.traffic, &is_done);
            let _ = thread::Builder::new().spawn_scoped(scope, watch);
            let mut kept_at = Instant::now();
            let mut kept = Ok(());
            while kept.is_ok() && !readers.is_finished() {
                thread::sleep(LOOK);
                if kept_at.elapsed() >= KEEP_INTERVAL {
                    kept = keep().inspect_err(|_| self.hydration.control.interrupt());
                    kept_at = Instant::now();
                }
            }
            is_done.store(true, Ordering::Relaxed);
            kept.and_then(|()| keep())
        })
    }

    fn goes_on(&self) -> bool {
        self.next.load(Ordering::Relaxed) < self.done.len() && !self.hydration.control.is_interrupted()
    }

    fn read_on(&self, thread: usize) {
        let mut buffer = AlignedBuffer::new(READ as usize);
        loop {
            self.governor.enter(thread, || self.goes_on());
            let at = self.next.fetch_add(1, Ordering::Relaxed);
            if at >= self.done.len() || self.hydration.control.is_interrupted() {
                return;
            }
            if self.done[at].load(Ordering::Relaxed) {
                continue;
            }
            let (path, chunk) = self.chunks.get(at);
            let range = chunk * CHUNK..chunk * CHUNK + self.chunks.length(at);
            match self.read_chunk(thread, path, range, &mut buffer) {
                Ok(is_whole) => self.done[at].store(is_whole, Ordering::Relaxed),
                Err(error) => self.fail(path, &error),
            }
        }
    }

    /// A missing file counts as read.
    fn read_chunk(
        &self,
        thread: usize,
        path: &str,
        range: Range<u64>,
        buffer: &mut AlignedBuffer,
    ) -> linux::Result<bool> {
        let file = match DirectFile::open_below(&self.hydration.directory.files, Path::new(path)) {
            Ok(file) => file,
            Err(linux::Error::File { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => return Ok(true),
            Err(error) => return Err(error),
        };
        for offset in range.clone().step_by(READ as usize) {
            self.governor.enter(thread, || self.goes_on());
            self.governor.pace.wait(Bytes(READ.min(range.end - offset)), self.hydration.control);
            if self.hydration.control.is_interrupted() {
                return Ok(false);
            }
            let bytes = file.read_at(offset, READ as usize, buffer)? as u64;
            lock(&self.receipt).read_bytes += Bytes(bytes);
            self.governor.advance(bytes);
            self.hydration.watcher.advance(bytes);
            if bytes < READ {
                break;
            }
        }
        Ok(true)
    }

    fn fail(&self, path: &str, error: &linux::Error) {
        let HydrationReceipt { failed_reads, denied_reads, failures, .. } = &mut *lock(&self.receipt);
        *failed_reads += 1;
        *denied_reads += u64::from(error.kind() == ErrorKind::Privilege);
        if failures.len() < FAILURES_MAX && failures.last().is_none_or(|last| last.path != path) {
            failures.push(HydrationFailure { path: path.to_owned(), detail: error.to_string() });
        }
    }

    fn note(&self, state: &mut HydrationState) {
        let done = self.chunks.iter().zip(&self.done).filter(|(_, done)| done.load(Ordering::Relaxed));
        state.set(done.map(|(chunk, _)| chunk));
        if self.chunks.refused.is_empty() && self.done.iter().all(|done| done.load(Ordering::Relaxed)) {
            state.is_finished = true;
        }
    }
}

// Stores which chunks were read, in a JSON file per data directory.

/// Maximum size of the progress file. A range takes 20 bytes: enough for millions of files.
const STATE_BYTES_MAX: u64 = 256 << 20;

const FORMAT: u32 = 1;

/// Progress of `hydrate`, in `$XDG_STATE_HOME/pgthaw/hydrated/SYSTEM_IDENTIFIER.DEVICE.FILESYSTEM-INODE.json`: identity
/// of the device, device number of the file system, inode of `PG_VERSION`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct HydrationState {
    /// Version of the format: 1.
    format: u32,
    place: Place,
    /// `None` before the first update.
    updated_at: Option<Timestamp>,
    /// Whether everything was read. Later runs then read nothing, because newly written blocks need no fetch.
    is_finished: bool,
    chunk_bytes: u64,
    /// Ranges of chunks read, by path below the data directory: first chunk, and the one after the last.
    files: BTreeMap<String, Vec<(u64, u64)>>,
}

/// Data directory that was read. With another one, `hydrate` starts anew.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
struct Place {
    /// Path without symbolic links.
    data_directory: String,
    device: String,
}

impl HydrationState {
    pub fn finished(&self) -> Option<FinishedRun> {
        let at = self.updated_at.filter(|_| self.is_finished)?;
        Some(FinishedRun { at, device: self.place.device.clone() })
    }

    pub fn has(&self, path: &str, chunk: u64) -> bool {
        self.files.get(path).is_some_and(|runs| runs.iter().any(|(start, end)| (*start..*end).contains(&chunk)))
    }

    pub fn set<'a>(&mut self, done: impl Iterator<Item = (&'a str, u64)>) {
        let mut chunks: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
        done.for_each(|(path, chunk)| chunks.entry(path).or_default().push(chunk));
        let runs_of = |mut chunks: Vec<u64>| {
            chunks.sort_unstable();
            let runs = chunks.chunk_by(|one, next| one + 1 == *next);
            runs.map(|run| (run[0], run[run.len() - 1] + 1)).collect()
        };
        self.files = chunks.into_iter().map(|(path, chunks)| (path.to_owned(), runs_of(chunks))).collect();
        self.updated_at = Some(Timestamp::now());
    }
}

#[derive(Clone, Debug)]
pub struct StateStore {
    path: PathBuf,
    place: Place,
}

impl StateStore {
    /// Finds progress by device, path, file system number and inode of PG_VERSION. If one differs, hydration starts
    /// over. Device identities are not unique: hypervisors may give all disks one serial number, and a copied logical
    /// volume keeps the original's.
    pub fn open(state: &Path, directory: &DataDirectory, device: &BlockDevice) -> linux::Result<StateStore> {
        let version = directory.files.root().facts_of("PG_VERSION");
        let version =
            version.map_err(|error| linux::Error::file("look at", &directory.path.join("PG_VERSION"), error))?;
        let identity = file_name_of(&device.identity);
        let (cluster, file_system, inode) = (directory.system_identifier, version.st_dev, version.st_ino);
        let path = state.join(format!("hydrated/{cluster}.{identity}.{file_system}-{inode}.json"));
        let data_directory = directory.path.to_string_lossy().into_owned();
        Ok(StateStore { path, place: Place { data_directory, device: device.name.clone() } })
    }

    pub fn begin(&self) -> HydrationState {
        let (place, files) = (self.place.clone(), BTreeMap::new());
        HydrationState { format: FORMAT, place, updated_at: None, is_finished: false, chunk_bytes: CHUNK, files }
    }

    /// Stored progress, empty if there is none for this place. A damaged file also yields a remark.
    pub fn read(&self) -> Result<(HydrationState, Option<String>)> {
        let text = match read_at_most(&self.path, STATE_BYTES_MAX) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((self.begin(), None)),
            Err(source) => return Err(self.failed("read", source)),
        };
        match serde_json::from_slice::<HydrationState>(&text) {
            Ok(state) if state.format != FORMAT || state.chunk_bytes != CHUNK => {
                Err(self.failed("use", io::Error::other("another version of pgthaw wrote it")))
            }
            Ok(state) if state.place.data_directory != self.place.data_directory => Ok((self.begin(), None)),
            Ok(state) => Ok((state, None)),
            Err(error) => {
                let path = self.path.display();
                let remark = format!("hydration started over, because its progress file {path} is damaged: {error}");
                Ok((self.begin(), Some(remark)))
            }
        }
    }

    /// Saves atomically and durably.
    pub fn keep(&self, state: &HydrationState) -> Result<()> {
        let failed = |source| self.failed("write", source);
        let text = serde_json::to_vec(state).map_err(io::Error::from).map_err(failed)?;
        write_whole(&self.path, &text).map_err(failed)
    }

    fn failed(&self, action: &'static str, source: io::Error) -> Error {
        Error::StateFile { action, what: "the hydration progress", path: self.path.clone(), source }
    }
}

/// Bytes per chunk. A chunk whose read was interrupted is read again.
pub const CHUNK: u64 = 8 << 20;

/// Maximum number of chunks: 256 TB. Sparse files may claim more than any disk, and each chunk costs memory.
const CHUNKS_MAX: u64 = 1 << 25;

#[derive(Debug, Default)]
pub struct Chunks {
    files: Vec<(String, u64)>,
    /// Index in `files`, and number of the chunk in the file.
    order: Vec<(u32, u32)>,
    pub refused: Vec<(String, linux::Error)>,
}

impl Chunks {
    /// Puts files needed at every server start first, then relations by heat, then the write-ahead log, which no query
    /// reads.
    pub fn list(directory: &DataDirectory, hot: Option<&Map>) -> linux::Result<Chunks> {
        let mut chunks = Chunks::default();
        chunks.walk(&directory.files, "")?;
        let Chunks { files, order, .. } = &mut chunks;
        files.sort();
        let total: u64 = files.iter().map(|(_, length)| length.div_ceil(CHUNK)).fold(0, u64::saturating_add);
        if total > CHUNKS_MAX {
            let much = format!("its files total more than {}, so some are sparse", Bytes(CHUNKS_MAX * CHUNK));
            return Err(linux::Error::file("hydrate", directory.files.path(), io::Error::other(much)));
        }
        for (number, (_, length)) in (0..).zip(&*files) {
            order.extend((0..length.div_ceil(CHUNK) as u32).map(|chunk| (number, chunk)));
        }
        let heat = hot.map(|map| Heat::of(map, directory));
        order.sort_by_cached_key(|(file, chunk)| {
            let path = &files[*file as usize].0;
            (class_of(path), heat.as_ref().map(|heat| Reverse(heat.class(path, *chunk))))
        });
        Ok(chunks)
    }

    pub fn get(&self, nth: usize) -> (&str, u64) {
        let (file, chunk) = self.order[nth];
        (&self.files[file as usize].0, chunk.into())
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        (0..self.order.len()).map(|nth| self.get(nth))
    }

    pub fn length(&self, nth: usize) -> u64 {
        let (file, chunk) = self.order[nth];
        CHUNK.min(self.files[file as usize].1 - u64::from(chunk) * CHUNK)
    }

    pub fn lengths(&self) -> impl Iterator<Item = u64> {
        (0..self.order.len()).map(|nth| self.length(nth))
    }
}

fn class_of(path: &str) -> u8 {
    match path.split('/').next() {
        Some("pg_wal") => 2,
        Some("base" | "pg_tblspc") => 1,
        _ => 0,
    }
}

impl Chunks {
    /// Follows links only where PostgreSQL creates them: tablespaces and pg_wal.
    fn walk(&mut self, root: &Tree, below: &str) -> linux::Result<()> {
        let listed = root.directory(below).and_then(|directory| Ok((directory.entries()?, directory)));
        let (entries, directory) = match listed {
            Ok(listed) => listed,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied && !below.is_empty() => {
                self.refused.push((below.to_owned(), linux::Error::file("list", &root.path().join(below), error)));
                return Ok(());
            }
            Err(error) => return Err(linux::Error::file("list", &root.path().join(below), error)),
        };
        // A tablespace may hold foreign entries, such as lost+found.
        let is_tablespace = Path::new(below).parent() == Some(Path::new("pg_tblspc"));
        for entry in entries {
            let Ok(name) = entry.name.clone().into_string() else { continue };
            if is_tablespace && !name.starts_with("PG_") {
                continue;
            }
            let path = if below.is_empty() { name } else { format!("{below}/{name}") };
            let is_ours = below == "pg_tblspc" || path == "pg_wal";
            match entry.kind {
                FileType::Directory => self.walk(root, &path)?,
                // Only links to directories are of use.
                FileType::Symlink if is_ours => match root.directory(&path) {
                    Err(error) if error.kind() == io::ErrorKind::NotADirectory => {}
                    _ => self.walk(root, &path)?,
                },
                FileType::RegularFile => {
                    let facts = directory.facts_of(&entry.name);
                    self.files.extend(facts.ok().map(|facts| (path, facts.st_size.cast_unsigned())));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

struct Heat<'a> {
    directory: &'a DataDirectory,
    /// Heat levels of each fork, by the path of its first segment file.
    levels: HashMap<String, Vec<(f32, RoaringBitmap)>>,
}

impl Heat<'_> {
    fn of<'a>(map: &Map, directory: &'a DataDirectory) -> Heat<'a> {
        let evidence = Evidence::of(map);
        let levels = map.forks().filter_map(|(relation, fork)| {
            let levels = heat::levels(fork, evidence, &(&fork.os | fork.all_buffers()));
            let path = || relation.path.segment_file(Path::new(""), fork.fork, 0).to_string_lossy().into_owned();
            (!levels.is_empty()).then(|| (path(), levels))
        });
        Heat { directory, levels: levels.collect() }
    }

    /// Class of similar heat, within which chunks are read by position.
    fn class(&self, path: &str, chunk: u32) -> i32 {
        let segment = path.rsplit_once('.').and_then(|(fork, segment)| Some((fork, segment.parse().ok()?)));
        let (fork, segment): (&str, u32) = segment.unwrap_or((path, 0));
        let segment_blocks = u64::from(self.directory.segment_blocks);
        let chunk_blocks = CHUNK / u64::from(self.directory.block_size);
        let start = u64::from(segment) * segment_blocks;
        let first = start + u64::from(chunk) * chunk_blocks;
        let blocks = numbers(BlockRange::new(first, (first + chunk_blocks).min(start + segment_blocks)));
        let heat =
            |(heat, level): &(f32, RoaringBitmap)| f64::from(*heat) * level.range_cardinality(blocks.clone()) as f64;
        let heat: f64 = self.levels.get(fork).into_iter().flatten().map(heat).sum();
        if heat > 0.0 { heat.log(1.5).floor() as i32 } else { i32::MIN }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::warm::Unwatched;
    use crate::warm::{DeviceProfile, ProfileSource};
    use host::linux::process::Busy;

    struct Waiting;

    impl Traffic for Waiting {
        fn read_busy(&self) -> Option<Busy> {
            Some(Busy { running: 0, waiting: 8 })
        }
    }

    #[test]
    fn beside_live_traffic_all_is_read_at_the_rate_and_with_no_thread_left_waiting() {
        let root = tempfile::tempdir_in("/var/tmp").unwrap();
        fs::write(root.path().join("PG_VERSION"), "15").unwrap();
        for name in ["1", "2", "3"] {
            fs::File::create(root.path().join(name)).unwrap().set_len(9 << 20).unwrap();
        }
        if let Err(error) = DirectFile::open(&root.path().join("1")) {
            untested!(machine: "{error}");
        }
        let directory = DataDirectory::pretend(root.path());
        let hydration = Hydration {
            directory: &directory,
            hot: None,
            threads: 16,
            max_rate: Some(Bytes(100 << 20)),
            device: PlannedDevice { profile: DeviceProfile::default(), source: ProfileSource::Default },
            sharing: Sharing::Fair,
            traffic: &Waiting,
            has_server: true,
            control: &Control::default(),
            watcher: &Unwatched,
        };
        let place = Place { data_directory: "/data".into(), device: "sda".into() };
        let mut state = StateStore { path: PathBuf::new(), place }.begin();
        let receipt = hydration.run(&mut state, |_| Ok::<(), linux::Error>(())).unwrap();
        assert_eq!(
            (receipt.read_bytes, receipt.left_bytes, receipt.failure()),
            (Bytes((27 << 20) + 2), Bytes(0), None)
        );
        assert!(receipt.traffic.waiting_seconds > 0.0, "{receipt:?}");
        assert!(state.finished().is_some());
    }
}

#[cfg(test)]
mod state_tests {
    use std::fs;

    use super::*;
    use host::linux::DeviceNumber;
    use host::units::Bytes;

    fn store(state: &Path, path: &Path) -> StateStore {
        fs::create_dir_all(path).unwrap();
        fs::write(path.join("PG_VERSION"), "15").unwrap();
        let directory = DataDirectory::pretend(path);
        let device = BlockDevice {
            name: "sda".into(),
            number: DeviceNumber { major: 8, minor: 0 },
            identity: "drive/0-2048".into(),
            is_rotational: false,
            read_ahead_bytes: Bytes(0),
            max_request_bytes: Bytes(0),
        };
        StateStore::open(state, &directory, &device).unwrap()
    }

    #[test]
    fn what_was_done_is_known_again() {
        let directory = tempfile::tempdir().unwrap();
        let store = store(&directory.path().join("state"), &directory.path().join("data"));
        let (mut state, _) = store.read().unwrap();
        assert_eq!((state.updated_at, state.has("base/5/1", 0), state.finished()), (None, false, None));
        state.set([("base/5/1", 3), ("base/5/2", 0), ("base/5/1", 1), ("base/5/1", 2)].into_iter());
        state.is_finished = true;
        store.keep(&state).unwrap();
        let (again, remark) = store.read().unwrap();
        assert_eq!((&again, remark), (&state, None));
        assert_eq!([0, 1, 3, 4].map(|chunk| again.has("base/5/1", chunk)), [false, true, true, false]);
        assert_eq!(again.finished().unwrap().device, "sda");
        fs::write(&store.path, "{\"format\": 1").unwrap();
        let (anew, remark) = store.read().unwrap();
        assert_eq!(anew, store.begin());
        assert!(remark.unwrap().contains("damaged"));
    }

    #[test]
    fn the_same_cluster_elsewhere_begins_anew_though_the_disks_have_one_serial_number() {
        let directory = tempfile::tempdir().unwrap();
        let (state, data) = (directory.path().join("state"), directory.path().join("data"));
        let one = store(&state, &data);
        let mut done = one.begin();
        done.set([("base/5/1", 0)].into_iter());
        one.keep(&done).unwrap();
        let another = store(&state, &directory.path().join("copy"));
        assert_eq!(another.read().unwrap().0, another.begin());
        // A mount elsewhere keeps the inode.
        fs::rename(&data, directory.path().join("moved")).unwrap();
        let moved = store(&state, &directory.path().join("moved"));
        assert_eq!(moved.path, one.path);
        assert_eq!(moved.read().unwrap().0, moved.begin());
    }
}

#[cfg(test)]
mod chunks_tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::fixtures::{map_of, relation};
    use crate::{ForkMap, TierState};
    use host::units::Fork;

    const MEGABYTE: u64 = 1 << 20;

    fn directory(root: &Path) -> DataDirectory {
        DataDirectory::pretend(root)
    }

    fn map(hot: std::ops::Range<u32>) -> Map {
        let mut fork = ForkMap::empty(Fork::Main, 3072);
        fork.os.insert_range(0..3072);
        fork.buffers[5].insert_range(hot);
        let map = map_of(vec![relation(2, fork)]);
        Map { buffers: TierState::Measured, ..map }
    }

    #[test]
    fn everything_is_listed_and_the_hot_part_comes_before_the_rest() {
        let root = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        let write = |path: &str, length: u64| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::File::create(path).unwrap().set_len(length).unwrap();
        };
        write("global/pg_control", 8192);
        write("base/5/1", 9 * MEGABYTE);
        write("base/5/2", 24 * MEGABYTE);
        write("base/5/2_vm", 8192);
        write("pg_wal/000000010000000000000001", 16 * MEGABYTE);
        fs::create_dir_all(elsewhere.path().join("PG_15_202209061/5")).unwrap();
        fs::write(elsewhere.path().join("PG_15_202209061/5/3"), "x").unwrap();
        fs::create_dir(elsewhere.path().join("lost+found")).unwrap();
        fs::write(elsewhere.path().join("lost+found/#12"), "x").unwrap();
        fs::create_dir_all(root.path().join("pg_tblspc")).unwrap();
        symlink(elsewhere.path(), root.path().join("pg_tblspc/16390")).unwrap();
        symlink("/etc", root.path().join("base/6")).unwrap();

        let chunks = Chunks::list(&directory(root.path()), Some(&map(1100..2000))).unwrap();
        let order: Vec<(&str, u64)> = chunks.iter().collect();
        assert_eq!(order[..2], [("global/pg_control", 0), ("base/5/2", 1)]);
        let cold = [("base/5/1", 0), ("base/5/1", 1), ("base/5/2_vm", 0), ("pg_tblspc/16390/PG_15_202209061/5/3", 0)];
        assert!(cold.iter().all(|one| order[4..8].contains(one)), "{order:?}");
        assert!(order[8..].iter().all(|(path, _)| class_of(path) == 2) && order.len() == 10, "{order:?}");
        assert_eq!(chunks.lengths().sum::<u64>(), 8192 * 2 + 49 * MEGABYTE + 1);
        assert_eq!(chunks.files.len(), 6);
    }

    #[test]
    fn later_segments_have_the_heat_of_their_own_blocks() {
        let root = tempfile::tempdir().unwrap();
        let directory = directory(root.path());
        let mut fork = ForkMap::empty(Fork::Main, 2 * 131_072);
        fork.buffers[5].insert_range(131_072 + 1024..131_072 + 2048);
        let map = Map { buffers: TierState::Measured, ..map_of(vec![relation(2, fork)]) };
        let heat = Heat::of(&map, &directory);
        assert!(heat.class("base/5/2.1", 1) > i32::MIN);
        let cold = [("base/5/2", 1), ("base/5/2.1", 0), ("base/5/2.2", 1), ("base/5/2.x", 1), ("base/5/2", 128)];
        assert!(cold.iter().all(|(path, chunk)| heat.class(path, *chunk) == i32::MIN));
    }

    #[test]
    fn files_with_holes_beyond_any_disk_are_refused_before_they_cost_memory() {
        let root = tempfile::tempdir_in("/var/tmp").unwrap();
        fs::create_dir_all(root.path().join("base/5")).unwrap();
        let file_bytes = 8 << 40;
        let hollow =
            |number: u64| fs::File::create(root.path().join(format!("base/5/{number}"))).unwrap().set_len(file_bytes);
        if hollow(0).is_err() {
            untested!(machine: "this file system has no such large files");
        }
        (1..=CHUNKS_MAX * CHUNK / file_bytes).for_each(|number| hollow(number).unwrap());
        let refused = Chunks::list(&directory(root.path()), None).unwrap_err().to_string();
        assert!(refused.contains("total more than 256 TB"), "{refused}");
    }
}
