//! The page cache, seen and changed file by file.
//!
//! Behind a trait so that a cluster of 2 TB, or a page that the kernel takes back at the wrong moment, can be had in a
//! test (`fake`). Nothing here knows what a block is.

mod cachestat;
mod drop_caches;
mod fake;
mod in_order;
mod mincore;
mod page_flags;
mod residency;
mod system;
#[cfg(test)]
mod system_tests;
mod window;

use std::path::Path;

use super::Error;
use super::extents::Extent;
use crate::units::{Bytes, PageRange};

pub use drop_caches::apply_drop_caches;
pub use fake::{FakeCalls, FakePageCache, FakeRefusal};
pub use residency::read_resident_pages;
pub use system::{SystemPageCache, VisibilityTest, test_visibility};
pub use window::Window;

/// How much of a range is cached, as cachestat(2) counts it. Pages whose data is still on its way count as cached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageCounts {
    pub cached: u64,
    pub dirty: u64,
    pub writeback: u64,
    /// Pages that were evicted, ever, and of these the ones that were evicted so lately that reading them again means
    /// the working set does not fit.
    pub evicted: u64,
    pub recently_evicted: u64,
}

/// How often a cached page was read since it came, as far as the kernel keeps account of it. A page of the active list
/// outlives one that was read once.
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

/// A file that is read in order for the sake of the cache alone. The kernel reads ahead for it, in large folios, and no byte is copied.
pub trait InOrder {
    /// Brings the pages of `range`, which begins where the last one ended. Returns when all have come. Fewer bytes at the end of the
    /// file; 0 past it.
    fn apply_read(&mut self, range: PageRange) -> Result<Bytes, Error>;
}

/// The machine's page cache, or a fake one.
pub trait PageCache: std::fmt::Debug + Send + Sync {
    /// Opens a file to look at its pages. `Ok(None)` when there is no such file, so that a relation dropped meanwhile
    /// and the end of a chain of segments are no errors.
    fn open(&self, path: &Path) -> Result<Option<Box<dyn CachedFile>>, Error>;

    /// Bytes of a page.
    fn page_bytes(&self) -> u64;

    /// How files of a file system ([`CachedFile::file_system`]) are read in order. `None` where it is not known how far the kernel reads ahead
    /// there, or where it would be too far or hardly at all. Asks the kernel each time.
    fn read_window(&self, file_system: u64) -> Option<Window>;

    /// Does [`CachedFile::visit_activity`] tell pages that were read often from others? Tried, not deduced: with some ways
    /// of ageing pages (the multi-generational LRU) the kernel's flags say nothing. `Error::Unavailable` says why not.
    fn test_activity(&self) -> Result<(), Error>;
}

/// One open file of the page cache.
pub trait CachedFile: std::fmt::Debug + Send + Sync {
    /// The file's length when it was opened.
    fn size_bytes(&self) -> u64;

    /// Counts the cached pages of `range` (cachestat, or mincore where the kernel has no cachestat).
    fn read_counts(&self, range: PageRange) -> Result<PageCounts, Error>;

    /// The cached pages of `range` in order, as maximal runs. Looks through windows of bounded size, so that a large
    /// range costs no memory. `Error::ResidencyHidden` when the kernel would answer "all" for lack of privilege.
    fn read_resident(&self, range: PageRange) -> Result<Vec<PageRange>, Error>;

    /// How often the pages of `range` were read, all of which are cached: maximal runs in order, told to `visit`. Looking
    /// does not count as reading. `Error::Unavailable` for all but root.
    fn visit_activity(&self, range: PageRange, visit: &mut dyn FnMut(PageRange, Activity)) -> Result<(), Error>;

    /// Where on its device the file lies. `Error::File` where the file system does not tell.
    fn read_extents(&self) -> Result<Vec<Extent>, Error>;

    /// Reads `buffer.len()` bytes at `offset` through the page cache, for the sake of the cache. Fewer at the end of
    /// the file; 0 past it (the file was truncated meanwhile).
    fn apply_read(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, Error>;

    /// The number of its file system, as stat(2) has it.
    fn file_system(&self) -> u64;

    /// Opens the file once more, to read long stretches of it in order by the window of its file system.
    fn open_in_order(&self, window: Window) -> Result<Box<dyn InOrder>, Error>;

    /// Asks the kernel to drop the pages of `range` that are clean and that nobody uses. It may keep some: count again.
    fn apply_drop(&self, range: PageRange) -> Result<(), Error>;

    /// Writes the file's dirty pages out (fdatasync), then asks the kernel to drop all of its pages. The kernel may
    /// keep some: count again.
    fn apply_evict(&self) -> Result<(), Error>;
}
