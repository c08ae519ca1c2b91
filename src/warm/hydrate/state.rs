//! What of a volume was touched already: a JSON file for each cluster and device.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::chunks::CHUNK;
use crate::warm::Error;

/// The version of the format. A greater one is not read.
const FORMAT: u32 = 1;

/// How far a hydration is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HydrationState {
    format: u32,
    updated_at: Option<Timestamp>,
    chunk_bytes: u64,
    /// Of each file below the data directory the chunks that were read, as `[start, end)`, in order.
    files: BTreeMap<String, Vec<(u64, u64)>>,
}

impl HydrationState {
    /// Nothing is done.
    pub fn new() -> HydrationState {
        HydrationState { format: FORMAT, updated_at: None, chunk_bytes: CHUNK, files: BTreeMap::new() }
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

impl Default for HydrationState {
    fn default() -> HydrationState {
        HydrationState::new()
    }
}

/// Where states are kept.
#[derive(Clone, Debug)]
pub struct StateStore {
    path: PathBuf,
}

impl StateStore {
    /// The state of a cluster on a device, in the directory `state` of pgthaw: another volume of the same cluster begins
    /// anew.
    pub fn open(state: &Path, system_identifier: u64, device_identity: &str) -> StateStore {
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_');
        let mut device: String = device_identity.chars().map(|one| if is_plain(one) { one } else { '_' }).collect();
        device.truncate(150);
        StateStore { path: state.join(format!("hydrated/{system_identifier}.{device}.json")) }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What was done; nothing when there is no file.
    pub fn read(&self) -> Result<HydrationState, Error> {
        let text = match fs::read(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(HydrationState::new()),
            Err(source) => return Err(self.failed("read", source)),
        };
        match serde_json::from_slice::<HydrationState>(&text) {
            Ok(state) if state.format <= FORMAT && state.chunk_bytes == CHUNK => Ok(state),
            Ok(_) => Err(self.failed("use", io::Error::other("another version of pgthaw wrote it"))),
            Err(error) => Err(self.failed("use", error.into())),
        }
    }

    /// Keeps what was done, whole or not at all.
    pub fn keep(&self, state: &HydrationState) -> Result<(), Error> {
        let directory = self.path.parent().unwrap_or(Path::new("."));
        let failed = |source| self.failed("write", source);
        fs::create_dir_all(directory).map_err(failed)?;
        let temporary = tempfile::NamedTempFile::new_in(directory).map_err(failed)?;
        let text = serde_json::to_vec(state).map_err(io::Error::from).map_err(failed)?;
        fs::write(temporary.path(), text).map_err(failed)?;
        temporary.persist(&self.path).map(drop).map_err(|error| failed(error.error))
    }

    fn failed(&self, action: &'static str, source: io::Error) -> Error {
        Error::HydrationFile { action, path: self.path.clone(), source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_done_is_known_again() {
        let directory = tempfile::tempdir().unwrap();
        let store = StateStore::open(directory.path(), 7, "vol-1/2");
        let mut state = store.read().unwrap();
        assert_eq!((state.resumed_from(), state.has("base/5/1", 0)), (None, false));
        state.set([("base/5/1", 3), ("base/5/2", 0), ("base/5/1", 1), ("base/5/1", 2)].into_iter());
        store.keep(&state).unwrap();
        let again = store.read().unwrap();
        assert_eq!(again, state);
        assert_eq!([0, 1, 3, 4].map(|chunk| again.has("base/5/1", chunk)), [false, true, true, false]);
        assert!(StateStore::open(directory.path(), 7, "vol-2").read().unwrap().resumed_from().is_none());
        fs::write(store.path(), "{}").unwrap();
        assert!(store.read().unwrap_err().to_string().contains("cannot use"));
    }
}
