//! What the checks of a host are made on.

use std::path::PathBuf;
use std::sync::Arc;

use crate::files::Tree;
use crate::linux::page_cache::SystemPageCache;

/// What the checks are made on.
#[derive(Clone, Debug, Default)]
pub struct HostTarget {
    /// The directory that holds the data; `None` when it is not known or not readable.
    pub data_directory: Option<PathBuf>,
    /// A file in it that is representative of the others, and not empty.
    pub data_file: Option<PathBuf>,
    /// The data directory when it is PostgreSQL's: what is opened of it is opened through this.
    pub files: Option<Arc<Tree>>,
    /// The server's process, when it runs on this host.
    pub server_pid: Option<u32>,
}

impl HostTarget {
    /// The page cache of its files.
    pub fn page_cache(&self) -> SystemPageCache {
        self.files.as_ref().map_or_else(SystemPageCache::new, SystemPageCache::of)
    }
}
