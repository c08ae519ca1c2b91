use std::path::{Path, PathBuf};
use std::sync::Arc;

use host::files::Tree;

use super::DataDirectory;
use super::data_directory::DOORS;

impl DataDirectory {
    /// For a fake page cache or foreign files; 1 GB segments.
    pub fn pretend(path: impl Into<PathBuf>) -> DataDirectory {
        let path = path.into();
        let place = if path.is_dir() { &path } else { Path::new("/") };
        let files = Tree::open(place, DOORS).unwrap_or_else(|error| panic!("{}: {error}", place.display()));
        DataDirectory {
            version_major: 15,
            system_identifier: 7,
            block_size: 8192,
            segment_blocks: 131_072,
            owner_uid: files.owner(),
            files: Arc::new(files),
            last_found: Arc::default(),
            path,
        }
    }
}
