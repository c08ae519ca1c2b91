//! Heat from the kernel's page flags, file by file, over a few threads.

use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use super::levels::{HeatInputs, HeatOfForks, Levels, tidy};
use crate::cache::{ForkMap, Map};
use crate::linux;
use crate::linux::page_cache::{Activity, PageCache};
use crate::linux::threads::on_threads;
use crate::postgres::Relation;
use crate::units::PageRange;

/// More threads than this gain nothing: the kernel's own locks are the limit.
const THREADS_MAX: usize = 8;

/// The heat of every fork's cached blocks: the [`Activity`] as a number. `None` when this process may not see it, or when
/// the kernel keeps no such account.
pub fn read(map: &Map, inputs: &HeatInputs<'_>) -> Option<HeatOfForks> {
    let directory = inputs.data_directory?;
    inputs.page_cache.test_activity().ok()?;
    let look = Look {
        cache: inputs.page_cache,
        directory: &directory.path,
        block_size: directory.block_size.into(),
        segment_blocks: directory.segment_blocks.into(),
    };
    let forks: Vec<(&Relation, &ForkMap)> = map.forks().collect();
    let heat: Vec<Mutex<Levels>> = forks.iter().map(|_| Mutex::default()).collect();
    let next = AtomicUsize::new(0);
    let take = || {
        let at = next.fetch_add(1, Ordering::Relaxed);
        forks.get(at).map(|(relation, fork)| (at, *relation, *fork))
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX);
    let done = on_threads(threads, |_| {
        while let Some((at, relation, fork)) = take() {
            // What went away meanwhile, or cannot be opened, has no heat.
            let levels = look.read_fork(relation, fork).unwrap_or_default();
            *heat[at].lock().unwrap_or_else(PoisonError::into_inner) = levels;
        }
    });
    done.into_iter().for_each(|done| done.unwrap_or_else(|panic| resume_unwind(panic)));
    Some(heat.into_iter().map(|levels| levels.into_inner().unwrap_or_else(PoisonError::into_inner)).collect())
}

/// Where the files are and how they are cut.
struct Look<'a> {
    cache: &'a dyn PageCache,
    directory: &'a Path,
    block_size: u64,
    segment_blocks: u64,
}

impl Look<'_> {
    fn read_fork(&self, relation: &Relation, fork: &ForkMap) -> Result<Levels, linux::Error> {
        let mut levels: Levels = BTreeMap::new();
        let mut ranges = fork.os.iter();
        let mut rest = ranges.next_range();
        let mut segment = None;
        while let Some(range) = rest {
            let (start, end) = (u64::from(*range.start()), u64::from(*range.end()) + 1);
            let number = start / self.segment_blocks;
            let cut = end.min((number + 1) * self.segment_blocks);
            if segment.as_ref().is_none_or(|(open, _)| *open != number) {
                let path = relation.path.segment_file(self.directory, fork.fork, number as u32);
                segment = Some((number, self.cache.open(&path)?));
            }
            if let Some((_, Some(file))) = &segment {
                let first = number * self.segment_blocks;
                file.visit_activity(self.pages(start - first, cut - first), &mut |pages, activity| {
                    self.add(&mut levels, first, pages, activity);
                })?;
            }
            rest = if cut < end { Some(cut as u32..=(end - 1) as u32) } else { ranges.next_range() };
        }
        Ok(tidy(levels, fork))
    }

    /// The pages of the blocks `[start, end)` of a segment.
    fn pages(&self, start: u64, end: u64) -> PageRange {
        let page_bytes = self.cache.page_bytes();
        PageRange::new(start * self.block_size / page_bytes, (end * self.block_size).div_ceil(page_bytes))
    }

    /// A block is as hot as the hottest of its pages.
    fn add(&self, levels: &mut Levels, first: u64, pages: PageRange, activity: Activity) {
        let page_bytes = self.cache.page_bytes();
        let start = first + pages.start * page_bytes / self.block_size;
        let end = first + (pages.end * page_bytes).div_ceil(self.block_size);
        levels.entry(activity as u8).or_default().insert_range(start as u32..end as u32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::fixtures::{map_of, relation};
    use crate::linux::page_cache::FakePageCache;
    use crate::postgres::DataDirectory;
    use crate::units::Fork;

    #[test]
    fn what_was_read_again_is_hotter() {
        let cache = FakePageCache::new();
        let directory = DataDirectory { segment_blocks: 100, ..DataDirectory::pretend("/data") };
        // Blocks 40 to 110 are cached, of two segments; 90 to 105 were read again, of block 50 one page.
        cache.insert("/data/base/5/1", 100 * 8192, &[PageRange::new(80, 200)]);
        cache.insert("/data/base/5/1.1", 20 * 8192, &[PageRange::new(0, 20)]);
        let again = |path: &str, block: u64, bytes: usize| {
            let file = cache.open(path.as_ref()).unwrap().unwrap();
            file.apply_read(block * 8192, &mut vec![0; bytes]).unwrap();
        };
        again("/data/base/5/1", 90, 10 * 8192);
        again("/data/base/5/1", 50, 10);
        again("/data/base/5/1.1", 0, 5 * 8192);
        let mut fork = ForkMap::empty(Fork::Main, 120);
        fork.os.insert_range(40..110);
        let map = map_of(vec![relation(1, fork)]);
        let inputs = HeatInputs {
            server: None,
            data_directory: Some(&directory),
            page_cache: &cache,
            databases: &[],
            earlier: &[],
        };
        let heat = read(&map, &inputs).unwrap();
        let active: Vec<u32> = [50].into_iter().chain(90..105).collect();
        assert_eq!(heat[0][&(Activity::Active as u8)].iter().collect::<Vec<_>>(), active);
        assert_eq!(heat[0][&(Activity::Referenced as u8)].len(), 70 - 16);
    }
}
