//! Limits the number of open files, and drops cached pages that split reads.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::files::Files;
use ::host::linux;
use ::host::linux::open_files::read_limit;
use ::host::linux::page_cache::{CachedFile, PageCounts};
use ::host::linux::threads::lock;
use ::host::units::{Fork, PageRange};
use postgres::RelationPath;

/// Maximum number of files to keep open; the reading threads need fewer.
const OPEN_FILES_MAX: usize = 128;

/// Divisor of the process's limit on open files, because connections, directories and in-order reads need files too.
const OPEN_FILES_PART: u64 = 4;

/// Retries if the limit on open files is reached: other threads close files meanwhile.
const OPEN_TRIES: u32 = 100;
const OPEN_PAUSE: Duration = Duration::from_millis(10);

/// Open files, at most `most`: the least recently used is closed.
pub struct OpenFiles<'a> {
    files: Files<'a>,
    most: usize,
    /// In order of use.
    open: Mutex<VecDeque<(SegmentKey, Arc<dyn CachedFile>)>>,
}

type SegmentKey = (usize, u32);

impl<'a> OpenFiles<'a> {
    pub fn new(files: Files<'a>) -> OpenFiles<'a> {
        OpenFiles { files, most: most_of(read_limit()), open: Mutex::default() }
    }

    pub fn get(&self, key: SegmentKey, path: &RelationPath, fork: Fork) -> linux::Result<Option<Arc<dyn CachedFile>>> {
        {
            let mut open = lock(&self.open);
            if let Some(found) = open.iter().rposition(|(other, _)| *other == key).and_then(|at| open.remove(at)) {
                let file = Arc::clone(&found.1);
                open.push_back(found);
                return Ok(Some(file));
            }
        }
        let Some(file) = self.open(key, path, fork)? else { return Ok(None) };
        let file: Arc<dyn CachedFile> = file.into();
        let mut open = lock(&self.open);
        if open.len() >= self.most {
            open.pop_front();
        }
        open.push_back((key, Arc::clone(&file)));
        Ok(Some(file))
    }

    fn open(&self, key: SegmentKey, path: &RelationPath, fork: Fork) -> linux::Result<Option<Box<dyn CachedFile>>> {
        for _ in 0..OPEN_TRIES {
            match self.files.open(path, fork, key.1) {
                Err(error) if error.is_too_few_files() => {
                    let oldest = lock(&self.open).pop_front();
                    if oldest.is_none() {
                        std::thread::sleep(OPEN_PAUSE);
                    }
                }
                opened => return opened,
            }
        }
        self.files.open(path, fork, key.1)
    }
}

fn most_of(limit: u64) -> usize {
    (limit / OPEN_FILES_PART).clamp(1, OPEN_FILES_MAX as u64) as usize
}

// The kernel reads around cached pages: one such page splits a 256 kB read into two device reads. A busy server's
// misses scatter such pages everywhere. If short reads would make the device's reads per second the bottleneck, not
// its bytes per second, pgthaw drops just enough of these pages before a read.

/// Maximum absolute value of `credit`, as a number of reads of `needed_pages` each: half of the 300 reads that a common
/// device limit allows per 0.1 s.
const REMEMBERED_READS: f64 = 150.0;

#[derive(Debug)]
pub struct Splits {
    gap_pages: u64,
    /// Number of pages that all earlier device reads loaded, minus `needed_pages` for each of these reads.
    credit: Mutex<f64>,
}

impl Splits {
    pub fn new(gap_pages: u64) -> Splits {
        Splits { gap_pages, credit: Mutex::default() }
    }

    /// Drops runs of cached pages that split a read of `pages`, shortest first, until device reads average
    /// `needed_pages`. Drops nothing if any of `pages` is dirty: the kernel would write dirty pages at once, and keep
    /// them. Returns the number of pages it tried to drop.
    pub fn drop_from(
        &self,
        file: &dyn CachedFile,
        pages: PageRange,
        counts: PageCounts,
        cached: Vec<PageRange>,
        needed_pages: f64,
    ) -> linux::Result<u64> {
        if counts.cached >= pages.pages() || needed_pages == 0.0 {
            return Ok(0);
        }
        let mut splits = cached;
        splits.retain(|run| run.start > pages.start && run.end < pages.end);
        let missing = pages.pages().saturating_sub(counts.cached) as f64;
        let mut spare = missing - needed_pages * (splits.len() + 1) as f64;
        splits.retain(|run| run.pages() <= self.gap_pages && counts.dirty + counts.writeback == 0);
        splits.sort_by_key(|run| run.pages());
        let mut dropped = 0;
        for run in splits {
            if *lock(&self.credit) + spare >= 0.0 {
                break;
            }
            file.apply_drop(run)?;
            dropped += run.pages();
            spare += needed_pages + run.pages() as f64;
        }
        let most = needed_pages * REMEMBERED_READS;
        let mut credit = lock(&self.credit);
        *credit = (*credit + spare).clamp(-most, most);
        Ok(dropped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_the_files_that_may_be_open_is_kept() {
        assert_eq!([4, 64, 512, 1024, u64::MAX].map(most_of), [1, 16, 128, 128, 128]);
    }
}

#[cfg(test)]
mod read_over_tests {
    use std::path::Path;

    use super::*;
    use ::host::linux::page_cache::{FakePageCache, PageCache as _};

    /// Pages cached afterwards, of 64; pieces of up to four may go.
    fn left(resident: &[PageRange], dirty: u64, needed_pages: f64) -> Vec<PageRange> {
        left_with(resident, dirty, needed_pages, &Splits::new(4))
    }

    fn left_with(resident: &[PageRange], dirty: u64, needed_pages: f64, splits: &Splits) -> Vec<PageRange> {
        let cache = FakePageCache::new();
        let path = Path::new("/data/1");
        cache.insert(path, 64 * cache.page_bytes(), resident);
        let file = cache.open(path).unwrap().unwrap();
        let pages = PageRange::new(0, 64);
        let counts = PageCounts { dirty, ..file.read_counts(pages).unwrap() };
        splits.drop_from(&*file, pages, counts, file.read_resident(pages).unwrap(), needed_pages).unwrap();
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
        let splits = Splits::new(4);
        let left = |resident: &[PageRange]| left_with(resident, 0, 25.0, &splits);
        assert_eq!(left(&[]), []);
        assert_eq!(*lock(&splits.credit), 64.0 - 25.0);
        assert_eq!(left(&[one, other]), [one, other]);
        assert_eq!(*lock(&splits.credit), 39.0 + 62.0 - 75.0);
        assert_eq!(left(&[one, other]), [one, other]);
        assert_eq!(left(&[one, other]), [one, other]);
        assert_eq!(left(&[one, other]), [other], "it is used up");
        assert_eq!(*lock(&splits.credit), 63.0 - 50.0);
        assert_eq!(left(&[PageRange::new(0, 64)]), [PageRange::new(0, 64)]);
        assert_eq!(*lock(&splits.credit), 63.0 - 50.0, "nothing was read");
        (0..1000).for_each(|_| _ = left(&[]));
        assert_eq!(*lock(&splits.credit), 25.0 * REMEMBERED_READS, "what is long past does not count");
    }
}
