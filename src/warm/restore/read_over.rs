//! Makes one read of what the page cache would split.
//!
//! The kernel reads around what is cached: a read of 256 kB with one cached page in its middle costs the device two reads.
//! Beside live traffic the server's own misses scatter such pages over all that is still to be read. Where a device takes
//! less time for the page's bytes than for one more read, the page is dropped a moment before it is read again with its
//! neighbours.

use crate::linux;
use crate::linux::page_cache::{CachedFile, PageCounts};
use crate::units::PageRange;

/// Drops what is cached in the midst of `pages` in pieces of at most `gap_pages`, so that the next read of `pages` is one.
/// `counts` are those of `pages`. Leaves alone what is being written: it could not go anyway, and asking would make the
/// kernel write it out at once. Returns the pages that it asked for.
pub fn drop_splits(
    file: &dyn CachedFile,
    pages: PageRange,
    counts: PageCounts,
    gap_pages: u64,
) -> Result<u64, linux::Error> {
    if gap_pages == 0 || counts.cached == 0 || counts.dirty + counts.writeback > 0 {
        return Ok(0);
    }
    let mut dropped = 0;
    for run in file.read_resident(pages)? {
        let is_split = run.start > pages.start && run.end < pages.end;
        if is_split && run.pages() <= gap_pages {
            file.apply_drop(run)?;
            dropped += run.pages();
        }
    }
    Ok(dropped)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::linux::page_cache::{FakePageCache, PageCache as _};

    /// What stays cached of 64 pages, of which `resident` are, when pieces of up to four pages are read over.
    fn left(resident: &[PageRange], dirty: u64) -> Vec<PageRange> {
        let cache = FakePageCache::new();
        let path = Path::new("/data/1");
        cache.insert(path, 64 * cache.page_bytes(), resident);
        let file = cache.open(path).unwrap().unwrap();
        let pages = PageRange::new(0, 64);
        let counts = PageCounts { dirty, ..file.read_counts(pages).unwrap() };
        drop_splits(&*file, pages, counts, 4).unwrap();
        cache.resident(path)
    }

    #[test]
    fn only_short_pieces_in_the_midst_of_a_read_are_dropped() {
        let [edge, short, long, end] =
            [(0, 2), (10, 14), (20, 30), (62, 64)].map(|(start, end)| PageRange::new(start, end));
        assert_eq!(left(&[edge, short, long, end], 0), [edge, long, end]);
        assert_eq!(left(&[edge, short, long, end], 1), [edge, short, long, end], "the kernel would write it out");
    }
}
