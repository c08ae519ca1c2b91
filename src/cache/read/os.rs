//! The OS tier: the page cache as the kernel shows it, segment by segment, over a few threads.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use roaring::RoaringBitmap;

use super::{MapInputs, unknown_for};
use crate::cache::{ForkMap, RelationMap, TierState};
use crate::failure::Explain as _;
use crate::linux;
use crate::linux::page_cache::{CachedFile, PageCache, read_resident_pages};
use crate::linux::threads::on_threads;
use crate::units::{BlockRange, Fork, PageRange};

/// More threads than this gain nothing: the kernel's own locks are the limit.
const THREADS_MAX: usize = 8;

/// May this process see what is cached of the cluster's files? A small file of its owner tells.
pub fn probe(inputs: &MapInputs<'_>) -> TierState {
    let Some(directory) = inputs.data_directory else {
        return TierState::Unknown { reason: "there is no data directory to look at".to_owned() };
    };
    let look = || -> Result<(), linux::Error> {
        if let Some(file) = inputs.page_cache.open(&directory.path.join("PG_VERSION"))? {
            file.read_resident(PageRange::new(0, 1))?;
        }
        Ok(())
    };
    match look().map_err(unknown_for) {
        Ok(()) => TierState::Measured,
        Err(Ok(unknown)) => unknown,
        Err(Err(error)) => TierState::Unknown { reason: error.to_string() },
    }
}

/// Finds the forks of every relation, their sizes and their resident blocks. A file that cannot be looked at is
/// remarked on and counts as not resident.
pub fn read_os_tier(inputs: &MapInputs<'_>, relations: &mut [RelationMap], remarks: &mut Vec<String>) {
    let Some(directory) = inputs.data_directory else { return };
    let walk = Walk {
        cache: inputs.page_cache,
        directory: &directory.path,
        block_size: directory.block_size.into(),
        segment_blocks: directory.segment_blocks.into(),
        relations,
        queue: Mutex::new((0..relations.len()).rev().map(Job::first).collect()),
        unfinished: AtomicUsize::new(relations.len()),
        progress: inputs.progress,
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX);
    let found = on_threads(threads, |_| walk.work()).into_iter().filter_map(Result::ok);
    let mut found = found.fold(Found::default(), Found::join);
    found.pieces.sort_unstable_by_key(|piece| (piece.relation, piece.fork, piece.segment));
    let segment_blocks = walk.segment_blocks;
    for piece in found.pieces {
        let first_block = u64::from(piece.segment) * segment_blocks;
        add_piece(&mut relations[piece.relation].forks, piece, first_block);
    }
    if let Some(first) = found.failures.first() {
        let hint = first.hint().map(|hint| format!(" ({hint})")).unwrap_or_default();
        remarks.push(format!("{} files could not be looked at: {first}{hint}", found.failures.len()));
    }
}

/// One segment of one fork to look at.
#[derive(Clone, Copy, Debug)]
struct Job {
    relation: usize,
    fork: Fork,
    segment: u32,
}

impl Job {
    /// Where a relation begins. Its other forks and segments follow from it.
    fn first(relation: usize) -> Job {
        Job { relation, fork: Fork::Main, segment: 0 }
    }
}

/// What one segment holds.
struct Piece {
    relation: usize,
    fork: Fork,
    segment: u32,
    blocks: u64,
    /// Resident blocks, by their numbers in the fork.
    resident: RoaringBitmap,
}

/// Pieces come in the order of forks and segments.
fn add_piece(forks: &mut Vec<ForkMap>, piece: Piece, first_block: u64) {
    if forks.last().is_none_or(|last| last.fork != piece.fork) {
        forks.push(ForkMap::empty(piece.fork, 0));
    }
    if let Some(fork) = forks.last_mut() {
        fork.blocks = first_block + piece.blocks;
        fork.os |= piece.resident;
    }
}

#[derive(Default)]
struct Found {
    pieces: Vec<Piece>,
    failures: Vec<linux::Error>,
}

impl Found {
    fn join(mut self, other: Found) -> Found {
        self.pieces.extend(other.pieces);
        self.failures.extend(other.failures);
        self
    }
}

/// The walk over all files. Jobs lead to more jobs, so that the segments of one large relation are shared out too.
struct Walk<'a> {
    cache: &'a dyn PageCache,
    directory: &'a Path,
    block_size: u64,
    segment_blocks: u64,
    relations: &'a [RelationMap],
    /// The last is taken first: what was begun is ended before something new is begun.
    queue: Mutex<Vec<Job>>,
    /// Jobs in the queue or being worked on.
    unfinished: AtomicUsize,
    progress: &'a (dyn Fn(usize, usize) + Sync),
}

impl Walk<'_> {
    /// Works until every job is done.
    fn work(&self) -> Found {
        let mut found = Found::default();
        while self.unfinished.load(Ordering::Acquire) > 0 {
            let Some(job) = self.lock_queue().pop() else {
                // Somebody else's job may lead to more.
                std::thread::sleep(Duration::from_micros(50));
                continue;
            };
            match self.look(job) {
                Ok(Some(piece)) if piece.blocks > 0 => found.pieces.push(piece),
                Ok(_) => {}
                Err(error) => found.failures.push(error),
            }
            self.unfinished.fetch_sub(1, Ordering::Release);
        }
        found
    }

    fn look(&self, job: Job) -> Result<Option<Piece>, linux::Error> {
        let relation = &self.relations[job.relation].relation;
        if job.fork == Fork::Main && job.segment == 0 {
            (self.progress)(job.relation, self.relations.len());
            self.add_jobs(Fork::ALL.into_iter().skip(1).map(|fork| Job { fork, ..job }));
        }
        let path = relation.path.segment_file(self.directory, job.fork, job.segment);
        let Some(file) = self.cache.open(&path)? else { return Ok(None) };
        let blocks = (file.size_bytes() / self.block_size).min(self.segment_blocks);
        if blocks == self.segment_blocks {
            self.add_jobs([Job { segment: job.segment + 1, ..job }]);
        }
        let first_block = u64::from(job.segment) * self.segment_blocks;
        let resident = self.read_resident_blocks(&*file, first_block, blocks)?;
        Ok(Some(Piece { relation: job.relation, fork: job.fork, segment: job.segment, blocks, resident }))
    }

    fn read_resident_blocks(
        &self,
        file: &dyn CachedFile,
        first_block: u64,
        blocks: u64,
    ) -> Result<RoaringBitmap, linux::Error> {
        let page_bytes = self.cache.page_bytes();
        let mut resident = RoaringBitmap::new();
        for pages in read_resident_pages(file, page_bytes)? {
            let range = compute_blocks(pages, page_bytes, self.block_size, blocks);
            if !range.is_empty() {
                resident.insert_range((first_block + range.start) as u32..=(first_block + range.end - 1) as u32);
            }
        }
        resident.optimize();
        Ok(resident)
    }

    fn add_jobs(&self, jobs: impl IntoIterator<Item = Job>) {
        let mut queue = self.lock_queue();
        let before = queue.len();
        queue.extend(jobs);
        // While the adding job is unfinished the count cannot reach 0.
        self.unfinished.fetch_add(queue.len() - before, Ordering::Release);
    }

    fn lock_queue(&self) -> MutexGuard<'_, Vec<Job>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The blocks of which every page is in a run of pages. A page may be larger than a block, too.
fn compute_blocks(pages: PageRange, page_bytes: u64, block_size: u64, blocks: u64) -> BlockRange {
    let start = (pages.start * page_bytes).div_ceil(block_size);
    let end = (pages.end * page_bytes / block_size).min(blocks);
    BlockRange::new(start, end)
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::cache::fixtures::relation;
    use crate::linux::page_cache::{FakePageCache, FakeRefusal};
    use crate::postgres::DataDirectory;

    const SEGMENT_BLOCKS: u64 = 100;
    const BLOCK: u64 = 8192;

    fn directory() -> DataDirectory {
        DataDirectory {
            block_size: BLOCK as u32,
            segment_blocks: SEGMENT_BLOCKS as u32,
            ..DataDirectory::pretend("/data")
        }
    }

    fn inputs<'a>(cache: &'a FakePageCache, directory: &'a DataDirectory) -> MapInputs<'a> {
        MapInputs {
            server: None,
            data_directory: Some(directory),
            page_cache: cache,
            databases: &[],
            named: None,
            names: None,
            progress: &|_, _| (),
        }
    }

    /// Relations base/5/1 and on, looked at through a fake cache.
    fn look(cache: &FakePageCache, relations: u32) -> (Vec<RelationMap>, Vec<String>) {
        let unread = |number| RelationMap { forks: Vec::new(), ..relation(number, ForkMap::empty(Fork::Main, 1)) };
        let mut relations: Vec<RelationMap> = (1..=relations).map(unread).collect();
        let mut remarks = Vec::new();
        read_os_tier(&inputs(cache, &directory()), &mut relations, &mut remarks);
        (relations, remarks)
    }

    fn blocks(fork: &ForkMap) -> Vec<u32> {
        fork.os.iter().collect()
    }

    #[test]
    fn a_block_is_resident_when_all_of_its_pages_are() {
        let cache = FakePageCache::new();
        let pages = [PageRange::new(1, 4), PageRange::new(6, 9), PageRange::new(11, 12), PageRange::new(18, 20)];
        cache.insert("/data/base/5/1", 10 * BLOCK, &pages);
        let (relations, remarks) = look(&cache, 1);
        assert_eq!(blocks(&relations[0].forks[0]), [1, 3, 9]);
        assert_eq!(remarks, Vec::<String>::new());
    }

    #[test]
    fn forks_and_segments_belong_together() {
        let cache = FakePageCache::new();
        let segment = SEGMENT_BLOCKS * BLOCK;
        let first = [PageRange::new(0, 2)];
        cache.insert("/data/base/5/1", segment, &first);
        cache.insert("/data/base/5/1.1", segment, &[PageRange::new(0, 200)]);
        cache.insert("/data/base/5/1.2", 5 * BLOCK, &[PageRange::new(8, 10)]);
        cache.insert("/data/base/5/1.3", 5 * BLOCK, &first);
        cache.insert("/data/base/5/1_vm", BLOCK, &first);
        cache.insert("/data/base/5/1_init", 0, &[]);
        cache.insert("/data/base/5/3", segment, &[]);
        let (relations, _) = look(&cache, 3);
        let forks: Vec<(Fork, u64)> = relations[0].forks.iter().map(|fork| (fork.fork, fork.blocks)).collect();
        assert_eq!(forks, [(Fork::Main, 205), (Fork::Vm, 1)], "a segment after a short one is not part of the fork");
        assert_eq!(blocks(&relations[0].forks[0]), [vec![0], (100..200).collect(), vec![204]].concat());
        assert!(relations[1].forks.is_empty(), "a relation dropped meanwhile has no forks");
        assert_eq!(relations[2].forks[0].blocks, SEGMENT_BLOCKS);
    }

    #[test]
    fn pages_larger_than_blocks_are_understood() {
        let of = |start, end| compute_blocks(PageRange::new(start, end), 65_536, 8192, 20);
        assert_eq!(of(0, 1), BlockRange::new(0, 8));
        assert_eq!(of(1, 3), BlockRange::new(8, 20), "the last page ends after the file");
    }

    #[test]
    fn a_full_or_empty_file_is_only_counted() {
        let cache = FakePageCache::new();
        cache.insert("/data/base/5/1", 50 * BLOCK, &[PageRange::new(0, 100)]);
        cache.insert("/data/base/5/2", 50 * BLOCK, &[]);
        let (relations, _) = look(&cache, 2);
        assert_eq!(relations[0].forks[0].os.len(), 50);
        assert_eq!((cache.calls().counts, cache.calls().lists), (2, 0));
    }

    #[test]
    fn a_file_that_cannot_be_looked_at_is_remarked_on() {
        let cache = FakePageCache::new();
        for number in 1..=3 {
            cache.insert(format!("/data/base/5/{number}"), 50 * BLOCK, &[PageRange::new(0, 100)]);
        }
        cache.refuse(Path::new("/data/base/5/2"), FakeRefusal::Residency);
        let (relations, remarks) = look(&cache, 3);
        let resident: Vec<u64> = relations.iter().map(|one| one.forks.iter().map(|fork| fork.os.len()).sum()).collect();
        assert_eq!(resident, [50, 0, 50]);
        assert!(remarks[0].starts_with("1 files could not be looked at"), "{remarks:?}");
    }

    #[test]
    fn who_may_not_see_the_cache_is_told_so() {
        let cache = FakePageCache::new();
        let directory = directory();
        cache.insert("/data/PG_VERSION", 3, &[]);
        assert_eq!(probe(&inputs(&cache, &directory)), TierState::Measured);
        cache.refuse(Path::new("/data/PG_VERSION"), FakeRefusal::Residency);
        let TierState::Unknown { reason } = probe(&inputs(&cache, &directory)) else { panic!("it was measured") };
        assert!(reason.contains("run pgthaw as the owner"), "{reason}");
        let blind = MapInputs { data_directory: None, ..inputs(&cache, &directory) };
        assert!(matches!(probe(&blind), TierState::Unknown { .. }));
    }
}
