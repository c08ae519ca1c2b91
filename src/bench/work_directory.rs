//! Where a study keeps logs and snapshots while it runs, and what earlier ones left that were killed.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::event::{Event, Events};
use super::{Error, Place};
use crate::postgres::{OwnerMark, remove_abandoned};

/// A directory that is gone when the study is.
#[derive(Debug)]
pub struct WorkDirectory {
    directory: TempDir,
    _mark: OwnerMark,
}

impl WorkDirectory {
    /// Makes one in the system's directory for temporary files.
    pub fn create() -> Result<WorkDirectory, Error> {
        let make = || {
            let directory = tempfile::Builder::new().prefix("pgthaw-bench-").tempdir()?;
            let mark = OwnerMark::place(directory.path())?;
            Ok(WorkDirectory { directory, _mark: mark })
        };
        make().map_err(|source| Error::file("create a directory in", &std::env::temp_dir(), source))
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }
}

/// Removes what killed studies left where this one works, and tells it.
pub fn sweep_abandoned(place: &Place, events: &Events) {
    let mut parents = vec![std::env::temp_dir(), PathBuf::from("/tmp")];
    if let Place::Scratch { parent } = place {
        parents.push(parent.clone());
    }
    parents.sort();
    parents.dedup();
    for directory in parents.iter().flat_map(|parent| remove_abandoned(parent)) {
        events.tell(Event::Remark(format!("a run that was killed had left {}: it is removed", directory.display())));
    }
}
