//! Access to the page cache by file, through traits: tests simulate 2 TB or lost pages.

use std::fs;
use std::path::Path;

use super::Error;
use super::direct_read::Extent;
use crate::units::{Bytes, PageRange};

mod fake;
mod kernel;
mod system;
#[cfg(test)]
mod system_tests;

pub use fake::{FakeCalls, FakePageCache, FakeRefusal};
pub use system::{SystemPageCache, VisibilityTest, test_visibility};

/// `struct cachestat` of `include/uapi/linux/mman.h`. Pages still being read count as cached.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageCounts {
    pub cached: u64,
    pub dirty: u64,
    pub writeback: u64,
    /// Many recently evicted pages mean that the working set does not fit.
    pub evicted: u64,
    pub recently_evicted: u64,
}

/// Number of reads of a page since it was cached. Active pages stay longer than those read once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Activity {
    /// Not read since it was cached (read-ahead), or unknown.
    Idle,
    /// Read once.
    Referenced,
    /// Read twice: on the kernel's active list.
    Active,
    /// Read more than twice.
    ActiveReferenced,
}

/// Loads a file sequentially by the kernel's read-ahead, in large folios and without copying.
pub trait InOrder {
    /// `range` must follow that of the previous call. Returns fewer bytes at the end of the file; 0 past it.
    fn apply_read(&mut self, range: PageRange) -> Result<Bytes, Error>;
}

pub trait PageCache: std::fmt::Debug + Send + Sync {
    /// `None` if the file does not exist: dropped relations and the end of a segment chain are no errors.
    fn open(&self, path: &Path) -> Result<Option<Box<dyn CachedFile>>, Error>;

    fn page_bytes(&self) -> u64;

    /// `None` if read-ahead is unknown, too long or too short. Queries the kernel each time.
    fn read_window(&self, file_system: u64) -> Option<Window>;

    /// Tests whether `visit_activity` shows frequent reads. With the multi-generational LRU it does not.
    fn test_activity(&self) -> Result<(), Error>;
}

pub trait CachedFile: std::fmt::Debug + Send + Sync {
    fn size_bytes(&self) -> u64;

    fn read_counts(&self, range: PageRange) -> Result<PageCounts, Error>;

    /// Returns maximal runs in order. `Error::ResidencyHidden` if the kernel would report all as cached.
    fn read_resident(&self, range: PageRange) -> Result<Vec<PageRange>, Error>;

    /// Visits runs in order, without counting as a read. All of `range` must be cached. `Error::Unavailable`
    /// without root.
    fn visit_activity(&self, range: PageRange, visit: &mut dyn FnMut(PageRange, Activity)) -> Result<(), Error>;

    /// `Error::File` if the file system hides extents.
    fn read_extents(&self) -> Result<Vec<Extent>, Error>;

    /// Returns fewer bytes at the end of the file; 0 past it.
    fn apply_read(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, Error>;

    fn file_system(&self) -> u64;

    fn open_in_order(&self, window: Window) -> Result<Box<dyn InOrder>, Error>;

    /// Drops clean, unused pages. The kernel may keep some: count afterwards.
    fn apply_drop(&self, range: PageRange) -> Result<(), Error>;

    /// Syncs, then drops all pages. The kernel may keep some: count afterwards.
    fn apply_evict(&self) -> Result<(), Error>;
}

/// Few ranges of this size are partly cached, so counting their pages mostly suffices.
const WINDOW_BYTES: u64 = 32 << 20;

/// Returns maximal runs in order. Calls mincore only for windows that cachestat counts as partly cached. A page still
/// being read counts only in a full window, so measure after the reads.
pub fn read_resident_pages(file: &dyn CachedFile, page_bytes: u64) -> Result<Vec<PageRange>, Error> {
    let pages = PageRange::new(0, file.size_bytes().div_ceil(page_bytes));
    let mut runs = Vec::new();
    for window in pages.parts(WINDOW_BYTES / page_bytes) {
        let cached = file.read_counts(window)?.cached;
        if cached >= window.pages() {
            append(&mut runs, window);
        } else if cached > 0 {
            file.read_resident(window)?.into_iter().for_each(|run| append(&mut runs, run));
        }
    }
    Ok(runs)
}

/// Joins overlapping and adjacent runs. `run` must not start before the last one.
pub fn append(runs: &mut Vec<PageRange>, run: PageRange) {
    match runs.last_mut() {
        Some(last) if run.start <= last.end => last.end = last.end.max(run.end),
        _ => runs.push(run),
    }
}

/// Longer read-ahead gains little, delays a stop, and may exceed /proc/sys/fs/pipe-max-size.
const WINDOW_MAX: Bytes = Bytes(256 << 10);

/// Shorter read-ahead gains little.
const WINDOW_MIN: Bytes = Bytes(64 << 10);

/// Touching a window's first page starts the next, so two can be in flight.
const WINDOWS_AHEAD: u64 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    bytes: Bytes,
    /// POSIX_FADV_SEQUENTIAL doubles the disk's read-ahead.
    is_doubled: bool,
}

impl Window {
    pub fn of(read_ahead: Bytes) -> Option<Window> {
        let doubled = Bytes(2 * read_ahead.0);
        let is_doubled = doubled <= WINDOW_MAX;
        let bytes = if is_doubled { doubled } else { read_ahead };
        (WINDOW_MIN..=WINDOW_MAX).contains(&bytes).then_some(Window { bytes, is_doubled })
    }

    /// Largest folio of a window. No folio crosses a multiple of this size.
    pub fn piece(self) -> Bytes {
        Bytes(1 << self.bytes.0.ilog2())
    }

    /// Maximum bytes loaded beyond a request.
    pub fn reach(self) -> Bytes {
        Bytes(WINDOWS_AHEAD * self.bytes.0)
    }
}

pub(super) const DROP_CACHES: &str = "/proc/sys/vm/drop_caches";

/// Drops page cache, directory entries and inodes. Needs root.
pub fn apply_drop_caches() -> Result<(), Error> {
    rustix::fs::sync();
    fs::write(DROP_CACHES, "3").map_err(|error| Error::file("write to", Path::new(DROP_CACHES), error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_fits_into_a_pipe() {
        let of = |read_ahead: u64| {
            Window::of(Bytes(read_ahead << 10)).map(|window| (window.bytes.0 >> 10, window.is_doubled))
        };
        assert_eq!([0, 16, 32, 128].map(of), [None, None, Some((64, true)), Some((256, true))]);
        assert_eq!([192, 256, 512].map(of), [Some((192, false)), Some((256, false)), None]);
    }
}
