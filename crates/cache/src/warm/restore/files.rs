//! The files of a fork: how long they are, what of them is cached, and a bounded number of open ones.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use roaring::RoaringBitmap;

use crate::warm::plan::{Geometry, Place};
use ::host::linux;
use ::host::linux::direct_read::Extent;
use ::host::linux::open_files::read_limit;
use ::host::linux::page_cache::{CachedFile, PageCache, PageCounts, read_resident_pages};
use ::host::units::{BlockRange, Bytes, Fork, PageRange};
use postgres::RelationPath;

/// Files that the engine keeps open. More than the threads that read, fewer than the usual limit on open files, 1024.
const OPEN_FILES_MAX: usize = 128;

/// The part of the files that may be open which it keeps at most: connections, directories and what is read in order need some too.
const OPEN_FILES_PART: u64 = 4;

/// How often and how long apart a file is opened again where no more may be open: whoever has others reads them to their end.
const OPEN_TRIES: u32 = 100;
const OPEN_PAUSE: Duration = Duration::from_millis(10);

/// Where the files are and how they are cut.
#[derive(Clone, Copy)]
pub struct Files<'a> {
    pub cache: &'a dyn PageCache,
    pub directory: &'a Path,
    pub geometry: Geometry,
}

impl std::fmt::Debug for Files<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Files").field("directory", &self.directory).finish_non_exhaustive()
    }
}

/// What a fork's files are like now.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    pub blocks: u64,
    /// The resident ones of the first blocks, as many as were asked about.
    pub resident: RoaringBitmap,
}

/// What became of blocks that were to be dropped.
#[derive(Debug, Default)]
pub struct Dropped {
    /// Bytes of them that were cached before, and after.
    pub before_bytes: Bytes,
    pub after_bytes: Bytes,
    /// Bytes of those that stayed and have yet to be written; 0 where the kernel does not tell.
    pub unwritten_bytes: Bytes,
    /// The runs of which something stayed.
    pub stayed: RoaringBitmap,
    /// The first thing that went wrong. What it was about stays, and is not counted.
    pub error: Option<linux::Error>,
}

impl Files<'_> {
    /// Opens one segment; `None` when it is gone.
    pub fn open(
        &self,
        path: &RelationPath,
        fork: Fork,
        segment: u32,
    ) -> Result<Option<Box<dyn CachedFile>>, linux::Error> {
        self.cache.open(&path.segment_file(self.directory, fork, segment))
    }

    /// Looks at a fork: its length, and the residency of its segments up to block `end`. `None` when it has no file.
    pub fn read_fork(&self, path: &RelationPath, fork: Fork, end: u64) -> Result<Option<Found>, linux::Error> {
        let segment_blocks = u64::from(self.geometry.segment_blocks);
        let mut found: Option<Found> = None;
        for segment in 0.. {
            let Some(file) = self.open(path, fork, segment)? else { break };
            let fork = found.get_or_insert_default();
            let first = u64::from(segment) * segment_blocks;
            let blocks = file.size_bytes() / u64::from(self.geometry.block_size);
            if first < end {
                for pages in read_resident_pages(&*file, self.cache.page_bytes())? {
                    let range = self.whole_blocks(pages, blocks);
                    fork.resident.insert_range(numbers(BlockRange::new(first + range.start, first + range.end)));
                }
            }
            fork.blocks = first + blocks;
            if blocks < segment_blocks {
                break;
            }
        }
        Ok(found)
    }

    /// Where a fork of so many blocks lies on its device; nothing of what cannot be told.
    pub fn read_places(&self, path: &RelationPath, fork: Fork, blocks: u64) -> Vec<Place> {
        let Geometry { block_size, segment_blocks } = self.geometry;
        let mut places = Vec::new();
        for segment in 0..blocks.div_ceil(segment_blocks.into()) as u32 {
            let Ok(Some(file)) = self.open(path, fork, segment) else { break };
            let first = u64::from(segment) * u64::from(segment_blocks);
            let place = |extent: Extent| Place {
                first_block: first + extent.start / u64::from(block_size),
                device_bytes: extent.device_start,
            };
            places.extend(file.read_extents().unwrap_or_default().into_iter().map(place));
        }
        places
    }

    /// Drops pages of a fork from the page cache: of each run of `blocks`, within its segment, those that `choose` names.
    pub fn drop_blocks(
        &self,
        path: &RelationPath,
        fork: Fork,
        blocks: &RoaringBitmap,
        choose: impl Fn(&dyn CachedFile, BlockRange) -> Result<Vec<PageRange>, linux::Error>,
    ) -> Dropped {
        let segment_blocks = u64::from(self.geometry.segment_blocks);
        let mut dropped = Dropped::default();
        let mut blocks = blocks.clone();
        while let Some(first) = blocks.min() {
            let segment = u64::from(first) / segment_blocks;
            let start = segment * segment_blocks;
            let mut within = blocks.clone();
            if let Ok(end) = u32::try_from(start + segment_blocks) {
                within.remove_range(end..);
            }
            blocks -= &within;
            let file = match self.open(path, fork, segment as u32) {
                Ok(Some(file)) => file,
                Ok(None) => continue,
                Err(error) => {
                    dropped.error.get_or_insert(error);
                    continue;
                }
            };
            let mut drop_pages = |pages: PageRange| {
                let bytes = |cached: u64| Bytes(cached * self.cache.page_bytes());
                let before = file.read_counts(pages)?.cached;
                file.apply_drop(pages)?;
                let after = file.read_counts(pages)?;
                dropped.before_bytes += bytes(before);
                dropped.after_bytes += bytes(after.cached);
                dropped.unwritten_bytes += bytes(after.dirty + after.writeback);
                Ok::<bool, linux::Error>(after.cached > 0)
            };
            let (mut stayed, mut error) = (RoaringBitmap::new(), None);
            let mut runs = within.iter();
            while let Some(blocks) = runs.next_range() {
                let run = BlockRange::new(u64::from(*blocks.start()) - start, u64::from(*blocks.end()) + 1 - start);
                let mut drop_all =
                    |all: Vec<PageRange>| all.into_iter().try_fold(false, |some, pages| Ok(drop_pages(pages)? || some));
                // The kernel keeps what it likes anyway: an error is no more than that.
                match choose(&*file, run).and_then(&mut drop_all) {
                    Ok(true) => _ = stayed.insert_range(blocks),
                    Ok(false) => {}
                    Err(failed) => _ = error.get_or_insert(failed),
                }
            }
            dropped.stayed |= stayed;
            dropped.error = dropped.error.or(error);
        }
        dropped
    }

    /// The pages that hold blocks of a segment.
    pub fn pages(&self, range: BlockRange) -> PageRange {
        let block_size = u64::from(self.geometry.block_size);
        let page_bytes = self.cache.page_bytes();
        PageRange::new(range.start * block_size / page_bytes, (range.end * block_size).div_ceil(page_bytes))
    }

    /// The blocks of a segment of which some page is in `pages`.
    pub fn blocks_with(&self, pages: PageRange) -> BlockRange {
        let block_size = u64::from(self.geometry.block_size);
        let page_bytes = self.cache.page_bytes();
        BlockRange::new(pages.start * page_bytes / block_size, (pages.end * page_bytes).div_ceil(block_size))
    }

    /// The pages that hold nothing but these blocks of a segment.
    pub fn pages_within(&self, range: BlockRange) -> PageRange {
        let block_size = u64::from(self.geometry.block_size);
        let page_bytes = self.cache.page_bytes();
        let (start, end) = ((range.start * block_size).div_ceil(page_bytes), range.end * block_size / page_bytes);
        PageRange::new(start, end.max(start))
    }

    /// The blocks of a segment of which every page is in `pages`.
    fn whole_blocks(&self, pages: PageRange, blocks: u64) -> BlockRange {
        let block_size = u64::from(self.geometry.block_size);
        let page_bytes = self.cache.page_bytes();
        let start = (pages.start * page_bytes).div_ceil(block_size);
        let end = (pages.end * page_bytes / block_size).min(blocks);
        BlockRange::new(start, end.max(start))
    }
}

/// Blocks as bitmaps know them. A relation has at most 2³² − 2 of them; a file that claims more is not PostgreSQL's.
pub fn numbers(range: BlockRange) -> std::ops::Range<u32> {
    let clamp = |block: u64| u32::try_from(block).unwrap_or(u32::MAX);
    clamp(range.start)..clamp(range.end)
}

/// Open segments, the least recently used closed first.
pub struct OpenFiles<'a> {
    files: Files<'a>,
    most: usize,
    /// Open files in the order of use, the latest last.
    open: Mutex<VecDeque<(SegmentKey, Arc<dyn CachedFile>)>>,
}

/// A fork's number in a plan, and the segment's.
type SegmentKey = (usize, u32);

impl<'a> OpenFiles<'a> {
    pub fn new(files: Files<'a>) -> OpenFiles<'a> {
        OpenFiles { files, most: most_of(read_limit()), open: Mutex::default() }
    }

    /// A segment of a fork, opened if it is not; `None` when it is gone.
    pub fn get(
        &self,
        key: SegmentKey,
        path: &RelationPath,
        fork: Fork,
    ) -> Result<Option<Arc<dyn CachedFile>>, linux::Error> {
        if let Some(file) = self.find(key) {
            return Ok(Some(file));
        }
        let Some(file) = self.open(key, path, fork)? else { return Ok(None) };
        let file: Arc<dyn CachedFile> = file.into();
        self.keep(key, Arc::clone(&file));
        Ok(Some(file))
    }

    /// Opens a segment. Where no more files may be open, those go that are kept, and who has one in use is waited for.
    fn open(
        &self,
        key: SegmentKey,
        path: &RelationPath,
        fork: Fork,
    ) -> Result<Option<Box<dyn CachedFile>>, linux::Error> {
        for _ in 0..OPEN_TRIES {
            match self.files.open(path, fork, key.1) {
                Err(error) if error.is_too_few_files() => {
                    let oldest = self.open.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
                    if oldest.is_none() {
                        std::thread::sleep(OPEN_PAUSE);
                    }
                }
                opened => return opened,
            }
        }
        self.files.open(path, fork, key.1)
    }

    fn find(&self, key: SegmentKey) -> Option<Arc<dyn CachedFile>> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let found = open.iter().rposition(|(other, _)| *other == key).and_then(|at| open.remove(at))?;
        let file = Arc::clone(&found.1);
        open.push_back(found);
        Some(file)
    }

    fn keep(&self, key: SegmentKey, file: Arc<dyn CachedFile>) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.len() >= self.most {
            open.pop_front();
        }
        open.push_back((key, file));
    }
}

/// How many to keep open where so many may be.
fn most_of(limit: u64) -> usize {
    (limit / OPEN_FILES_PART).clamp(1, OPEN_FILES_MAX as u64) as usize
}

// ---- read over ----
//
// Makes one read of what the page cache would split.
//
// The kernel reads around what is cached: a read of 256 kB with one cached page in its middle costs the device two reads.
// Beside live traffic the server's own misses scatter such pages over all that is still to be read. Where that leaves
// reads too short for the reads that the device has left, as many of those pages are dropped as bring it back into
// balance, a moment before they are read again with their neighbours: each costs its bytes a second time.

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
    use ::host::linux::page_cache::FakePageCache;

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
