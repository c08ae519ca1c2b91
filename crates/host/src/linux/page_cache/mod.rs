//! The page cache, seen and changed file by file. A trait, so that a test can have a cluster of 2 TB, or lose a page at
//! the wrong moment (`fake`).

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

/// Counts of cachestat(2): `struct cachestat` of `include/uapi/linux/mman.h`. Pages that are still being read count as
/// cached.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageCounts {
    pub cached: u64,
    pub dirty: u64,
    pub writeback: u64,
    /// Evicted pages, and those evicted so recently that the working set does not fit.
    pub evicted: u64,
    pub recently_evicted: u64,
}

/// How often a page was read since it was cached, as far as the kernel knows. Active pages outlive those read once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Activity {
    /// Not at all: it was read ahead. Or nobody knows.
    Idle,
    /// Once.
    Referenced,
    /// Twice: it is on the active list.
    Active,
    /// More often.
    ActiveReferenced,
}

/// Reads a file in order into the cache, by the kernel's read-ahead in large folios, without copying.
pub trait InOrder {
    /// Reads the pages of `range`, which follows the last one, and waits for them. Returns fewer bytes at the end of
    /// the file; 0 past it.
    fn apply_read(&mut self, range: PageRange) -> Result<Bytes, Error>;
}

/// The machine's page cache, or a fake one.
pub trait PageCache: std::fmt::Debug + Send + Sync {
    /// Opens a file to look at its pages. `Ok(None)` when it does not exist: dropped relations and the end of a chain
    /// of segments are no errors.
    fn open(&self, path: &Path) -> Result<Option<Box<dyn CachedFile>>, Error>;

    fn page_bytes(&self) -> u64;

    /// How files of a file system ([`CachedFile::file_system`]) are read in order. `None` where the kernel's read-ahead
    /// is unknown, too long or too short. Asks the kernel each time.
    fn read_window(&self, file_system: u64) -> Option<Window>;

    /// Does [`CachedFile::visit_activity`] show often read pages? Tried on a scratch file: with the multi-generational
    /// LRU the flags say nothing. `Error::Unavailable` says why not.
    fn test_activity(&self) -> Result<(), Error>;
}

/// One open file of the page cache.
pub trait CachedFile: std::fmt::Debug + Send + Sync {
    fn size_bytes(&self) -> u64;

    /// Counts the cached pages of `range`, by cachestat or mincore.
    fn read_counts(&self, range: PageRange) -> Result<PageCounts, Error>;

    /// The cached pages of `range` as maximal runs in order, in bounded memory. `Error::ResidencyHidden` when the
    /// kernel would answer "all".
    fn read_resident(&self, range: PageRange) -> Result<Vec<PageRange>, Error>;

    /// Visits the activity of `range`, all cached, as maximal runs in order, without counting as a read.
    /// `Error::Unavailable` for all but root.
    fn visit_activity(&self, range: PageRange, visit: &mut dyn FnMut(PageRange, Activity)) -> Result<(), Error>;

    /// The file's extents on its device. `Error::File` where the file system hides them.
    fn read_extents(&self) -> Result<Vec<Extent>, Error>;

    /// Reads at `offset` through the page cache. Returns fewer bytes at the end of the file; 0 past it.
    fn apply_read(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, Error>;

    fn file_system(&self) -> u64;

    /// Opens the file again, to read long stretches in order.
    fn open_in_order(&self, window: Window) -> Result<Box<dyn InOrder>, Error>;

    /// Asks the kernel to drop the clean, unused pages of `range`. It may keep some: count again.
    fn apply_drop(&self, range: PageRange) -> Result<(), Error>;

    /// Syncs the file, then asks the kernel to drop all of its pages. It may keep some: count again.
    fn apply_evict(&self) -> Result<(), Error>;
}

// ---- residency ----

/// Pages counted before listing; the count of most windows is enough.
const WINDOW_BYTES: u64 = 32 << 20;

/// The cached pages of a file in order, as maximal runs. Counts window by window (cachestat, quick) and lists pages
/// (mincore) only of a window that is neither empty nor full.
///
/// A page that is still being read counts as cached in a full window only: measure when the reads are over.
pub fn read_resident_pages(file: &dyn CachedFile, page_bytes: u64) -> Result<Vec<PageRange>, Error> {
    let pages = file.size_bytes().div_ceil(page_bytes);
    let window_pages = WINDOW_BYTES / page_bytes;
    let mut runs = Vec::new();
    let mut start = 0;
    while start < pages {
        let window = PageRange::new(start, pages.min(start + window_pages));
        let cached = file.read_counts(window)?.cached;
        if cached >= window.pages() {
            append(&mut runs, window);
        } else if cached > 0 {
            file.read_resident(window)?.into_iter().for_each(|run| append(&mut runs, run));
        }
        start = window.end;
    }
    Ok(runs)
}

fn append(runs: &mut Vec<PageRange>, run: PageRange) {
    match runs.last_mut() {
        Some(last) if last.end == run.start => last.end = run.end,
        _ => runs.push(run),
    }
}

// ---- window ----
//
// The kernel's read-ahead for a sequential reader.

/// Longer windows gain little and outlast a stop. Far below /proc/sys/fs/pipe-max-size.
const WINDOW_MAX: Bytes = Bytes(256 << 10);

/// Below this reading in order gains little.
const WINDOW_MIN: Bytes = Bytes(64 << 10);

/// Touching a window's first page starts the next: at most the rest of one and one more are under way.
const WINDOWS_AHEAD: u64 = 2;

/// How far the kernel reads ahead at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    bytes: Bytes,
    /// POSIX_FADV_SEQUENTIAL is told, which makes it twice that of the disk.
    is_doubled: bool,
}

impl Window {
    /// The window for a read-ahead; `None` if too long or too short.
    pub fn of(read_ahead: Bytes) -> Option<Window> {
        let doubled = Bytes(2 * read_ahead.0);
        let is_doubled = doubled <= WINDOW_MAX;
        let bytes = if is_doubled { doubled } else { read_ahead };
        (WINDOW_MIN..=WINDOW_MAX).contains(&bytes).then_some(Window { bytes, is_doubled })
    }

    /// Bytes of one read: the largest folio of a window. No folio crosses a multiple of it, so each is used once.
    pub fn piece(self) -> Bytes {
        Bytes(1 << self.bytes.0.ilog2())
    }

    /// Beyond what was asked for, so much may come at most.
    pub fn reach(self) -> Bytes {
        Bytes(WINDOWS_AHEAD * self.bytes.0)
    }
}

// ---- drop caches ----

const SWITCH: &str = "/proc/sys/vm/drop_caches";

/// Syncs, then drops the page cache, directory entries and inodes of the whole machine. Only root may.
pub fn apply_drop_caches() -> Result<(), Error> {
    rustix::fs::sync();
    fs::write(SWITCH, "3").map_err(|error| Error::file("write to", Path::new(SWITCH), error))
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
