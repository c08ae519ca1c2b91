use std::ops::Range;
use std::path::Path;

use roaring::RoaringBitmap;

use crate::warm::plan::{Geometry, Place};
use host::linux;
use host::linux::direct_read::Extent;
use host::linux::page_cache::{CachedFile, PageCache, read_resident_pages};
use host::units::{BlockRange, Bytes, Fork, PageRange};
use postgres::{DataDirectory, RelationPath};

#[derive(Clone, Copy, Debug)]
pub struct Files<'a> {
    pub cache: &'a dyn PageCache,
    pub directory: &'a Path,
    pub geometry: Geometry,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    pub blocks: u64,
    /// Cached blocks. Segment files that begin at or after the requested `end` are not examined.
    pub resident: RoaringBitmap,
}

#[derive(Debug, Default)]
pub struct Dropped {
    pub before_bytes: Bytes,
    pub after_bytes: Bytes,
    /// Dirty bytes that stayed cached; 0 if the kernel does not report them.
    pub unwritten_bytes: Bytes,
    /// All blocks of each contiguous run in which a page stayed cached.
    pub stayed: RoaringBitmap,
    /// The first error. Blocks that could not be examined because of it are not counted.
    pub error: Option<linux::Error>,
}

impl<'a> Files<'a> {
    pub fn of(cache: &'a dyn PageCache, directory: &'a DataDirectory) -> Files<'a> {
        let geometry = Geometry { block_size: directory.block_size, segment_blocks: directory.segment_blocks };
        Files { cache, directory: &directory.path, geometry }
    }

    pub fn open(&self, path: &RelationPath, fork: Fork, segment: u32) -> linux::Result<Option<Box<dyn CachedFile>>> {
        self.cache.open(&path.segment_file(self.directory, fork, segment))
    }

    /// Counts a fork's blocks, and finds cached ones in segment files that begin before block `end`.
    pub fn read_fork(&self, path: &RelationPath, fork: Fork, end: u64) -> linux::Result<Option<Found>> {
        let segment_blocks = u64::from(self.geometry.segment_blocks);
        let mut found: Option<Found> = None;
        for segment in 0.. {
            let Some(Found { blocks, resident }) = self.read_segment(path, fork, segment, end)? else { break };
            let fork = found.get_or_insert_default();
            fork.resident |= resident;
            fork.blocks = u64::from(segment) * segment_blocks + blocks;
            if blocks < segment_blocks {
                break;
            }
        }
        Ok(found)
    }

    /// Counts a segment file's blocks, and finds cached ones if the segment begins before block `end`.
    pub fn read_segment(&self, path: &RelationPath, fork: Fork, number: u32, end: u64) -> linux::Result<Option<Found>> {
        let Some(file) = self.open(path, fork, number)? else { return Ok(None) };
        let Geometry { block_size, segment_blocks } = self.geometry;
        let blocks = (file.size_bytes() / u64::from(block_size)).min(segment_blocks.into());
        let first = u64::from(number) * u64::from(segment_blocks);
        let resident = match first < end {
            true => read_resident_blocks(&*file, self.cache.page_bytes(), block_size.into(), first..first + blocks)?,
            false => RoaringBitmap::new(),
        };
        Ok(Some(Found { blocks, resident }))
    }

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

    /// In each contiguous run of a segment file, `choose` selects the pages to evict.
    pub fn drop_blocks(
        &self,
        path: &RelationPath,
        fork: Fork,
        blocks: &RoaringBitmap,
        choose: impl Fn(&dyn CachedFile, BlockRange) -> linux::Result<Vec<PageRange>>,
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
                // Continues after an error, because it only leaves blocks cached.
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

    fn sizes(&self) -> (u64, u64) {
        (self.geometry.block_size.into(), self.cache.page_bytes())
    }

    pub fn pages(&self, range: BlockRange) -> PageRange {
        let (block_size, page_bytes) = self.sizes();
        PageRange::new(range.start * block_size / page_bytes, (range.end * block_size).div_ceil(page_bytes))
    }

    pub fn blocks_with(&self, pages: PageRange) -> BlockRange {
        let (block_size, page_bytes) = self.sizes();
        BlockRange::new(pages.start * page_bytes / block_size, (pages.end * page_bytes).div_ceil(block_size))
    }

    pub fn pages_within(&self, range: BlockRange) -> PageRange {
        let (block_size, page_bytes) = self.sizes();
        let (start, end) = ((range.start * block_size).div_ceil(page_bytes), range.end * block_size / page_bytes);
        PageRange::new(start, end.max(start))
    }
}

/// `blocks`: the segment's block numbers in its fork.
pub fn read_resident_blocks(
    file: &dyn CachedFile,
    page_bytes: u64,
    block_size: u64,
    blocks: Range<u64>,
) -> linux::Result<RoaringBitmap> {
    let mut resident = RoaringBitmap::new();
    for pages in read_resident_pages(file, page_bytes)? {
        let whole = whole_blocks(pages, page_bytes, block_size, blocks.end - blocks.start);
        resident.insert_range(numbers(BlockRange::new(blocks.start + whole.start, blocks.start + whole.end)));
    }
    resident.optimize();
    Ok(resident)
}

/// Blocks that lie completely within `pages`. A page may be larger than a block.
fn whole_blocks(pages: PageRange, page_bytes: u64, block_size: u64, blocks: u64) -> BlockRange {
    let start = (pages.start * page_bytes).div_ceil(block_size);
    let end = (pages.end * page_bytes / block_size).min(blocks);
    BlockRange::new(start, end.max(start))
}

/// Clamps block numbers to u32. PostgreSQL's largest block number is 2³² − 2.
pub fn numbers(range: BlockRange) -> Range<u32> {
    let clamp = |block: u64| u32::try_from(block).unwrap_or(u32::MAX);
    clamp(range.start)..clamp(range.end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_larger_than_blocks_are_understood() {
        let of = |start, end| whole_blocks(PageRange::new(start, end), 65_536, 8192, 20);
        assert_eq!(of(0, 1), BlockRange::new(0, 8));
        assert_eq!(of(1, 3), BlockRange::new(8, 20), "the last page ends after the file");
    }
}
