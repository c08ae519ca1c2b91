//! Removing a cluster so that a kill at any moment leaves nothing that looks like one.

use std::io;
use std::path::Path;

use super::owner::{DATA, LOG};
use crate::files::{Directory, OwnDirectory};
use crate::postgres::owner_mark::remove_marked;

/// What a data directory is called while it is removed.
const REMOVED: &str = "removed";

/// Does the directory of a scratch cluster hold a whole one?
pub fn has_cluster(directory: &Path) -> bool {
    let data = Directory::open_itself(directory).and_then(|directory| directory.subdirectory(DATA));
    data.and_then(|data| data.open_file("PG_VERSION")).is_ok()
}

/// Removes the directory of a stopped scratch cluster. Whoever is killed meanwhile leaves no half of a cluster that might be taken
/// over, and what says whose it was goes last.
///
/// # Errors
/// `PermissionDenied` for a directory of another user.
pub fn remove_cluster(directory: &Path) -> io::Result<()> {
    remove_own_cluster(&OwnDirectory::open(directory)?)
}

/// [`remove_cluster`] of one that is open.
pub(super) fn remove_own_cluster(own: &OwnDirectory) -> io::Result<()> {
    // Without a data directory the rest is to be removed all the same.
    let _ = own.directory().rename(DATA, REMOVED);
    let _ = own.directory().remove_file(LOG);
    remove_marked(own)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn half_of_a_cluster_is_none_and_is_removed() {
        let parent = tempfile::tempdir().unwrap();
        let directory = parent.path().join("pgthaw-lab-x");
        for name in ["data", "removed"] {
            fs::create_dir_all(directory.join(name).join("base")).unwrap();
            fs::write(directory.join(name).join("PG_VERSION"), "15").unwrap();
        }
        assert!(has_cluster(&directory));
        fs::rename(directory.join("data"), directory.join("other")).unwrap();
        assert!(!has_cluster(&directory));
        fs::rename(directory.join("other"), directory.join("data")).unwrap();
        remove_cluster(&directory).unwrap();
        assert!(!directory.exists());
    }
}
