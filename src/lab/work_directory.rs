//! Where a study keeps logs and snapshots while it runs, and what earlier ones left that were killed.

use std::path::{Path, PathBuf};

use super::cluster::Place;
use super::error::Error;
use crate::postgres::{self, MarkedDirectory};
use crate::study::{Event, Events};

/// A directory that is gone when the study is.
#[derive(Debug)]
pub struct WorkDirectory(MarkedDirectory);

impl WorkDirectory {
    /// Makes one in the system's directory for temporary files.
    pub fn create() -> Result<WorkDirectory, Error> {
        let parent = std::env::temp_dir();
        let made = MarkedDirectory::create("pgthaw-bench-", &parent);
        made.map(WorkDirectory).map_err(|source| Error::file("create a directory in", &parent, source))
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

/// Removes what killed studies left where this one works, and tells it.
pub fn remove_abandoned(place: &Place, events: &Events) {
    let mut parents = vec![std::env::temp_dir(), PathBuf::from("/tmp")];
    if let Place::Scratch { parent } = place {
        parents.push(parent.clone());
    }
    parents.sort();
    parents.dedup();
    for directory in parents.iter().flat_map(|parent| postgres::remove_abandoned(parent)) {
        events.tell(Event::Remark(format!("a run that was killed had left {}: it is removed", directory.display())));
    }
}
