//! What of a volume was touched already: a JSON file for each cluster in its place.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::chunks::CHUNK;
use crate::files::{read_at_most, write_whole};
use crate::linux;
use crate::linux::block_device::BlockDevice;
use crate::postgres::DataDirectory;
use crate::warm::Error;

/// A range of chunks takes twenty bytes: this is a volume with millions of files.
const STATE_BYTES_MAX: u64 = 256 << 20;

/// The version of the format. A greater one is not read.
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
            Ok(state) if state.format > FORMAT || state.chunk_bytes != CHUNK => {
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
    use crate::linux::block_device::DeviceNumber;
    use crate::units::Bytes;

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
