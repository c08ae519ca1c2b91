//! Makes one read of what the page cache would split.
//!
//! The kernel reads around what is cached: a read of 256 kB with one cached page in its middle costs the device two reads.
//! Beside live traffic the server's own misses scatter such pages over all that is still to be read. Where that leaves
//! reads too short for the reads that the device has left, as many of those pages are dropped as bring it back into
//! balance, a moment before they are read again with their neighbours: each costs its bytes a second time.

use std::sync::{Mutex, PoisonError};

use crate::linux;
use crate::linux::page_cache::{CachedFile, PageCounts};
use crate::units::PageRange;

/// What reads brought too much or too little is remembered for so many of them: a limit counts by the tenth of a second, and a common
/// one has 300 reads in that.
const REMEMBERED_READS: f64 = 150.0;

/// Pages by which the reads so far brought more than they had to, or less.
#[derive(Debug, Default)]
pub struct Credit(Mutex<f64>);

impl Credit {
    fn pages(&self) -> f64 {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads have brought so many more than the `needed_pages` of each, or less.
    fn add(&self, pages: f64, needed_pages: f64) {
        let mut credit = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let most = needed_pages * REMEMBERED_READS;
        *credit = (*credit + pages).clamp(-most, most);
    }
}

/// What the reads of a stretch may be split by, and have to bring.
#[derive(Clone, Copy, Debug)]
pub struct Splitting<'a> {
    /// Longer pieces stay.
    pub gap_pages: u64,
    /// What each read has to bring, in the mean.
    pub needed_pages: f64,
    pub credit: &'a Credit,
}

/// Drops pieces that are cached in the midst of `pages`, the shortest first, until this read of `pages` and those before it bring what
/// they need to. `counts` are those of `pages`, and `cached` what is cached of them. Leaves alone what is being written: it could not go anyway, and asking would make the
/// kernel write it out at once. Returns the pages that it asked for.
pub fn drop_splits(
    file: &dyn CachedFile,
    pages: PageRange,
    counts: PageCounts,
    cached: Vec<PageRange>,
    splitting: Splitting<'_>,
) -> Result<u64, linux::Error> {
    let Splitting { gap_pages, needed_pages, credit } = splitting;
    // Others were quicker, or reads are not what anybody is short of.
    if counts.cached >= pages.pages() || needed_pages == 0.0 {
        return Ok(0);
    }
    let mut splits = cached;
    splits.retain(|run| run.start > pages.start && run.end < pages.end);
    let missing = pages.pages().saturating_sub(counts.cached) as f64;
    let mut spare = missing - needed_pages * (splits.len() + 1) as f64;
    splits.retain(|run| run.pages() <= gap_pages && counts.dirty + counts.writeback == 0);
    splits.sort_by_key(|run| run.pages());
    let mut dropped = 0;
    for run in splits {
        if credit.pages() + spare >= 0.0 {
            break;
        }
        file.apply_drop(run)?;
        dropped += run.pages();
        spare += needed_pages + run.pages() as f64;
    }
    credit.add(spare, needed_pages);
    Ok(dropped)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::linux::page_cache::{FakePageCache, PageCache as _};

    /// What stays cached of 64 pages, of which `resident` are, when pieces of up to four pages are read over for reads of `needed_pages`.
    fn left(resident: &[PageRange], dirty: u64, needed_pages: f64) -> Vec<PageRange> {
        left_with(resident, dirty, needed_pages, &Credit::default())
    }

    fn left_with(resident: &[PageRange], dirty: u64, needed_pages: f64, credit: &Credit) -> Vec<PageRange> {
        let cache = FakePageCache::new();
        let path = Path::new("/data/1");
        cache.insert(path, 64 * cache.page_bytes(), resident);
        let file = cache.open(path).unwrap().unwrap();
        let pages = PageRange::new(0, 64);
        let counts = PageCounts { dirty, ..file.read_counts(pages).unwrap() };
        let splitting = Splitting { gap_pages: 4, needed_pages, credit };
        drop_splits(&*file, pages, counts, file.read_resident(pages).unwrap(), splitting).unwrap();
        cache.resident(path)
    }

    fn ranges<const N: usize>(ranges: [(u64, u64); N]) -> [PageRange; N] {
        ranges.map(|(start, end)| PageRange::new(start, end))
    }

    #[test]
    fn only_short_pieces_in_the_midst_of_a_read_are_dropped() {
        let [edge, short, long, end] = ranges([(0, 2), (10, 14), (20, 30), (62, 64)]);
        assert_eq!(left(&[edge, short, long, end], 0, 64.0), [edge, long, end]);
        assert_eq!(left(&[edge, short, long, end], 1, 64.0), [edge, short, long, end], "the kernel would write it out");
    }

    #[test]
    fn as_few_are_dropped_as_make_reads_long_enough() {
        let [two, one, three] = ranges([(10, 12), (30, 31), (50, 53)]);
        // 58 pages in four reads; then 59 in three, 61 in two, 64 in one.
        let left = |needed_pages| left(&[two, one, three], 0, needed_pages);
        assert_eq!(left(14.5), [two, one, three]);
        assert_eq!(left(15.0), [two, three], "the shortest first");
        assert_eq!(left(20.0), [three]);
        assert_eq!(left(31.0), []);
        assert_eq!(left(0.0), [two, one, three], "nobody is short of reads");
    }

    #[test]
    fn what_a_read_brings_too_much_another_may_bring_too_little() {
        let [one, other] = ranges([(20, 21), (40, 41)]);
        let credit = Credit::default();
        // 62 pages in three reads.
        let left = |resident: &[PageRange]| left_with(resident, 0, 25.0, &credit);
        assert_eq!(left(&[]), []);
        assert_eq!(credit.pages(), 64.0 - 25.0);
        assert_eq!(left(&[one, other]), [one, other]);
        assert_eq!(credit.pages(), 39.0 + 62.0 - 75.0);
        assert_eq!(left(&[one, other]), [one, other]);
        assert_eq!(left(&[one, other]), [one, other]);
        assert_eq!(left(&[one, other]), [other], "it is used up");
        assert_eq!(credit.pages(), 63.0 - 50.0);
        assert_eq!(left(&[PageRange::new(0, 64)]), [PageRange::new(0, 64)]);
        assert_eq!(credit.pages(), 63.0 - 50.0, "nothing was read");
        (0..1000).for_each(|_| _ = left(&[]));
        assert_eq!(credit.pages(), 25.0 * REMEMBERED_READS, "what is long past does not count");
    }
}
