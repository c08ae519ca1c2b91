//! The whole machine's caches at once. Only root may, and everybody on the machine feels it.

use std::fs;
use std::path::Path;

use crate::linux::Error;

const SWITCH: &str = "/proc/sys/vm/drop_caches";

/// Writes all dirty pages out, then drops the page cache, the directory entries and the inodes of all file systems.
pub fn apply_drop_caches() -> Result<(), Error> {
    rustix::fs::sync();
    fs::write(SWITCH, "3").map_err(|error| Error::file("write to", Path::new(SWITCH), error))
}
