//! The first touch of every block of a volume that was made from a volume snapshot: until then each read of it fetches the
//! block from far away. Everything below the data directory is read once, past the page cache, so that nothing that is warm
//! is pushed out by it; what a snapshot of pgthaw's knows to be hot comes first. What was done is kept, and not done again
//! after an interruption.

mod chunks;

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{io, thread};

use chunks::{CHUNK, Chunks};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::restore::Governor;
use super::traffic::{Sharing, Traffic};
use super::{Control, Error, Phase, PlannedDevice, TrafficReceipt, Watcher};
use crate::Map;
use host::failure::{ErrorKind, Explain as _};
use host::files::{read_at_most, write_whole};
use host::linux;
use host::linux::block_device::BlockDevice;
use host::linux::direct_read::{AlignedBuffer, DirectFile};
use host::linux::threads::on_threads;
use host::units::Bytes;
use postgres::DataDirectory;

/// Bytes of one read.
const READ: u64 = 1 << 20;
/// How often what was done is kept: this much is done again after a power failure.
const KEEP_INTERVAL: Duration = Duration::from_secs(5);
/// How often to look whether all is done.
const LOOK: Duration = Duration::from_millis(20);
/// Failures that are told one by one.
const FAILURES_MAX: usize = 20;

/// One hydration.
#[derive(Clone, Copy)]
pub struct Hydration<'a> {
    pub directory: &'a DataDirectory,
    /// What is hot, of the same cluster; `None`: by path alone.
    pub hot: Option<&'a Map>,
    pub threads: usize,
    /// Bytes per second.
    pub max_rate: Option<Bytes>,
    /// How the device is shared with live traffic.
    pub sharing: Sharing,
    /// What it gives, as far as it was probed.
    pub device: PlannedDevice,
    pub traffic: &'a dyn Traffic,
    /// Does a server answer? Beside none there is nobody to be gentle with.
    pub has_server: bool,
    pub control: &'a Control,
    pub watcher: &'a dyn Watcher,
}

impl std::fmt::Debug for Hydration<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hydration").field("directory", &self.directory).finish_non_exhaustive()
    }
}

/// What was done.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HydrationReceipt {
    pub files: u64,
    pub total_bytes: Bytes,
    /// Bytes that earlier runs read.
    pub done_before_bytes: Bytes,
    pub read_bytes: Bytes,
    pub left_bytes: Bytes,
    pub seconds: f64,
    /// When the earlier run was that this one goes on with.
    pub resumed_from: Option<Timestamp>,
    /// The earlier run that touched everything: this one read nothing.
    pub finished_before: Option<FinishedRun>,
    /// When the snapshot was taken that says what is hot.
    pub snapshot_taken_at: Option<Timestamp>,
    /// Reads that failed: the first of them one by one.
    pub failed_reads: u64,
    /// Failed reads that this user may not do.
    pub denied_reads: u64,
    pub failures: Vec<HydrationFailure>,
    /// What the server did meanwhile, and what was left to it.
    pub traffic: TrafficReceipt,
    pub is_interrupted: bool,
    pub remarks: Vec<String>,
}

impl HydrationReceipt {
    /// What kept it from its end.
    pub fn failure(&self) -> Option<ErrorKind> {
        match self {
            HydrationReceipt { is_interrupted: true, .. } => Some(ErrorKind::Interrupted),
            HydrationReceipt { failed_reads: 0, .. } => None,
            HydrationReceipt { failed_reads, denied_reads, .. } if failed_reads == denied_reads => {
                Some(ErrorKind::Privilege)
            }
            _ => Some(ErrorKind::Failed),
        }
    }
}

/// A run that touched every block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FinishedRun {
    pub at: Timestamp,
    /// The device's name in /sys/block.
    pub device: String,
}

/// A file that could not be read, or a directory that could not be listed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HydrationFailure {
    /// Below the data directory.
    pub path: String,
    pub detail: String,
}

/// What the threads share.
struct Work<'a> {
    hydration: Hydration<'a>,
    chunks: &'a Chunks,
    governor: Governor,
    next: AtomicUsize,
    /// Is each chunk done?
    done: Vec<AtomicBool>,
    read_bytes: AtomicU64,
    failed_reads: AtomicU64,
    denied_reads: AtomicU64,
    failures: Mutex<Vec<HydrationFailure>>,
}

impl Hydration<'_> {
    /// Reads what `state` does not have yet, nothing when it is finished, and tells `keep` now and then how far it is. Blocks.
    ///
    /// # Errors
    /// When the directory cannot be listed, or when `keep` fails.
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
        let finished_before = state.finished().map(|(at, device)| FinishedRun { at, device: device.to_owned() });
        let total_bytes = Bytes(chunks.lengths().sum());
        let done_before_bytes = bytes_of(&done);
        let resumed_from = state.resumed_from();
        self.watcher.begin(Phase::Hydrating, total_bytes.0 - done_before_bytes.0);
        let work = Work {
            hydration: *self,
            chunks: &chunks,
            governor: self.governor(),
            next: AtomicUsize::new(0),
            done,
            read_bytes: AtomicU64::new(0),
            failed_reads: AtomicU64::new(0),
            denied_reads: AtomicU64::new(0),
            failures: Mutex::default(),
        };
        if finished_before.is_none() {
            chunks.refused.iter().for_each(|(path, error)| work.fail(path, error));
            work.run_threads(|| {
                work.note(state);
                keep(state)
            })?;
        }
        Ok(HydrationReceipt {
            files: chunks.files() as u64,
            total_bytes,
            done_before_bytes,
            read_bytes: Bytes(work.read_bytes.load(Ordering::Relaxed)),
            left_bytes: Bytes(total_bytes.0 - bytes_of(&work.done).0),
            seconds: started.elapsed().as_secs_f64(),
            resumed_from,
            finished_before,
            snapshot_taken_at: self.hot.map(|map| map.taken_at),
            traffic: work.governor.receipt(),
            failed_reads: work.failed_reads.into_inner(),
            denied_reads: work.denied_reads.into_inner(),
            failures: work.failures.into_inner().unwrap_or_else(PoisonError::into_inner),
            is_interrupted: self.control.is_interrupted(),
            remarks: Vec::new(),
        })
    }

    /// What a volume gives that has not been read yet is learnt on the way.
    fn governor(&self) -> Governor {
        let governor = Governor::new(self.sharing, self.threads.max(1), self.max_rate, self.device);
        if !self.has_server {
            governor.note_no_server();
        }
        governor
    }
}

impl Work<'_> {
    /// Reads until all is done or the user stops it; calls `keep` meanwhile and at the end. A failure to keep what was done
    /// stops the reads too.
    fn run_threads<E>(&self, mut keep: impl FnMut() -> Result<(), E>) -> Result<(), E> {
        let is_done = AtomicBool::new(false);
        thread::scope(|scope| {
            let threads = self.hydration.threads;
            let readers =
                thread::Builder::new().spawn_scoped(scope, move || on_threads(threads, |one| self.read_on(one)));
            let Ok(readers) = readers else {
                // Not one thread is to be had: it is all read by this one.
                self.read_on(0);
                return keep();
            };
            // Without it nobody is yielded to.
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

    /// Is there a chunk that no thread took? Then who took one may wait until it may go on.
    fn goes_on(&self) -> bool {
        self.next.load(Ordering::Relaxed) < self.done.len() && !self.hydration.control.is_interrupted()
    }

    /// One thread's life.
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

    /// Was all of it read? A file that is gone needs nothing any more.
    fn read_chunk(
        &self,
        thread: usize,
        path: &str,
        range: Range<u64>,
        buffer: &mut AlignedBuffer,
    ) -> Result<bool, linux::Error> {
        let file = match DirectFile::open_below(&self.hydration.directory.files, Path::new(path)) {
            Ok(file) => file,
            Err(linux::Error::File { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => return Ok(true),
            Err(error) => return Err(error),
        };
        for offset in range.clone().step_by(READ as usize) {
            self.governor.enter(thread, || self.goes_on());
            self.governor.wait(Bytes(READ.min(range.end - offset)), self.hydration.control);
            if self.hydration.control.is_interrupted() {
                return Ok(false);
            }
            let bytes = file.read_at(offset, READ as usize, buffer)? as u64;
            self.read_bytes.fetch_add(bytes, Ordering::Relaxed);
            self.governor.advance(bytes);
            self.hydration.watcher.advance(bytes);
            if bytes < READ {
                break;
            }
        }
        Ok(true)
    }

    fn fail(&self, path: &str, error: &linux::Error) {
        self.failed_reads.fetch_add(1, Ordering::Relaxed);
        if error.kind() == ErrorKind::Privilege {
            self.denied_reads.fetch_add(1, Ordering::Relaxed);
        }
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        if failures.len() < FAILURES_MAX && failures.last().is_none_or(|last| last.path != path) {
            failures.push(HydrationFailure { path: path.to_owned(), detail: error.to_string() });
        }
    }

    /// Adds what is done to the state.
    fn note(&self, state: &mut HydrationState) {
        let done = self.chunks.iter().zip(&self.done).filter(|(_, done)| done.load(Ordering::Relaxed));
        state.set(done.map(|(chunk, _)| chunk));
        if self.chunks.refused.is_empty() && self.done.iter().all(|done| done.load(Ordering::Relaxed)) {
            state.finish();
        }
    }
}

// ---- state ----
//
// What of a volume was touched already: a JSON file for each cluster in its place.

/// A range of chunks takes twenty bytes: this is a volume with millions of files.
const STATE_BYTES_MAX: u64 = 256 << 20;

/// The version of the format. No other is read.
const FORMAT: u32 = 1;

/// How far a hydration is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HydrationState {
    format: u32,
    place: Place,
    updated_at: Option<Timestamp>,
    /// Was everything read that there was? It is not gone on with: what was written since was touched by being written.
    is_finished: bool,
    chunk_bytes: u64,
    /// The chunks that were read of each file below the data directory, as `[start, end)`, in order.
    files: BTreeMap<String, Vec<(u64, u64)>>,
}

/// Where a cluster is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Place {
    /// The directory's path without links.
    data_directory: String,
    /// The device's name at that time, as in /sys/block.
    device: String,
}

impl HydrationState {
    /// Nothing is done.
    fn new(place: Place) -> HydrationState {
        let files = BTreeMap::new();
        HydrationState { format: FORMAT, place, updated_at: None, is_finished: false, chunk_bytes: CHUNK, files }
    }

    #[cfg(test)]
    pub fn for_tests() -> HydrationState {
        HydrationState::new(Place { data_directory: "/data".into(), device: "sda".into() })
    }

    /// When everything had been read, and the name of the device; `None` when that has not been.
    pub fn finished(&self) -> Option<(Timestamp, &str)> {
        self.updated_at.filter(|_| self.is_finished).map(|at| (at, self.place.device.as_str()))
    }

    /// Everything has been read.
    pub fn finish(&mut self) {
        self.is_finished = true;
    }

    /// Was this chunk read?
    pub fn has(&self, path: &str, chunk: u64) -> bool {
        self.files.get(path).is_some_and(|runs| runs.iter().any(|(start, end)| (*start..*end).contains(&chunk)))
    }

    /// When something was last done; `None` when nothing is.
    pub fn resumed_from(&self) -> Option<Timestamp> {
        self.updated_at
    }

    /// These chunks were read, and no others.
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

/// Where the state of one cluster is kept.
#[derive(Clone, Debug)]
pub struct StateStore {
    path: PathBuf,
    place: Place,
}

impl StateStore {
    /// The state of a cluster in its place, in the directory `state` of pgthaw. What a device calls itself does not tell
    /// volumes apart everywhere, as many hypervisors give all disks one serial number and the identity of a logical volume is
    /// copied with it. So the cluster's path, its file system's device number and the inode of PG_VERSION count too: when one
    /// of them differs, all begins anew. A copy that has all of them in common is not found out.
    pub fn open(state: &Path, directory: &DataDirectory, device: &BlockDevice) -> Result<StateStore, linux::Error> {
        let version = directory.files.root().facts_of("PG_VERSION");
        let version =
            version.map_err(|error| linux::Error::file("look at", &directory.path.join("PG_VERSION"), error))?;
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_');
        let mut identity: String = device.identity.chars().map(|one| if is_plain(one) { one } else { '_' }).collect();
        identity.truncate(150);
        let (cluster, file_system, inode) = (directory.system_identifier, version.st_dev, version.st_ino);
        let path = state.join(format!("hydrated/{cluster}.{identity}.{file_system}-{inode}.json"));
        let data_directory = directory.path.to_string_lossy().into_owned();
        Ok(StateStore { path, place: Place { data_directory, device: device.name.clone() } })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Nothing is done.
    pub fn begin(&self) -> HydrationState {
        HydrationState::new(self.place.clone())
    }

    /// What was done; nothing when there is no file, or one of another place. Also what to tell the user when the file is
    /// damaged: all begins anew then, which only takes longer.
    pub fn read(&self) -> Result<(HydrationState, Option<String>), Error> {
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
                Ok((
                    self.begin(),
                    Some(format!("all began anew, as {path}, which says what was done, is damaged: {error}")),
                ))
            }
        }
    }

    /// Keeps what was done, whole or not at all, also when the power fails.
    pub fn keep(&self, state: &HydrationState) -> Result<(), Error> {
        let failed = |source| self.failed("write", source);
        let text = serde_json::to_vec(state).map_err(io::Error::from).map_err(failed)?;
        write_whole(&self.path, &text).map_err(failed)
    }

    fn failed(&self, action: &'static str, source: io::Error) -> Error {
        Error::HydrationFile { action, path: self.path.clone(), source }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::warm::Unwatched;
    use crate::warm::{DeviceProfile, ProfileSource};
    use host::linux::process::Busy;

    /// A server whose processes all wait for the disk.
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
        let mut state = HydrationState::for_tests();
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
    use host::linux::block_device::DeviceNumber;
    use host::units::Bytes;

    /// A store for a cluster at `path`, on a disk with a serial number that all have.
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
        assert_eq!((state.resumed_from(), state.has("base/5/1", 0), state.finished()), (None, false, None));
        state.set([("base/5/1", 3), ("base/5/2", 0), ("base/5/1", 1), ("base/5/1", 2)].into_iter());
        state.finish();
        store.keep(&state).unwrap();
        let (again, remark) = store.read().unwrap();
        assert_eq!((&again, remark), (&state, None));
        assert_eq!([0, 1, 3, 4].map(|chunk| again.has("base/5/1", chunk)), [false, true, true, false]);
        assert_eq!(again.finished().unwrap().1, "sda");
        fs::write(store.path(), "{\"format\": 1").unwrap();
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
        // Mounted elsewhere the inode is the same.
        fs::rename(&data, directory.path().join("moved")).unwrap();
        let moved = store(&state, &directory.path().join("moved"));
        assert_eq!(moved.path(), one.path());
        assert_eq!(moved.read().unwrap().0, moved.begin());
    }
}
