//! Takes out of the page cache what is in shared_buffers: there it serves nobody until its buffer is gone.

use roaring::RoaringBitmap;

use super::files::Files;
use crate::linux;
use crate::postgres::RelationPath;
use crate::units::{BlockRange, Bytes, Fork};
use crate::warm::receipt::NoDouble;

/// Blocks of a fork that are in shared_buffers, as was measured.
#[derive(Clone, Debug)]
pub struct Buffered {
    pub path: RelationPath,
    pub fork: Fork,
    pub blocks: RoaringBitmap,
}

/// Drops the pages of `buffered` and counts them before and after. What cannot be opened stays, and is not counted.
pub fn apply_no_double(files: &Files<'_>, buffered: &[Buffered]) -> NoDouble {
    let mut sums = NoDouble::default();
    for one in buffered {
        // The kernel keeps what it likes anyway: an error is no more than that.
        _ = drop_fork(files, one, &mut sums);
    }
    sums
}

fn drop_fork(files: &Files<'_>, one: &Buffered, sums: &mut NoDouble) -> Result<(), linux::Error> {
    let segment_blocks = u64::from(files.geometry.segment_blocks);
    let mut blocks = one.blocks.clone();
    while let Some(first) = blocks.min() {
        let segment = u64::from(first) / segment_blocks;
        let start = segment * segment_blocks;
        let end = start + segment_blocks;
        let mut within = blocks.clone();
        if let Ok(end) = u32::try_from(end) {
            within.remove_range(end..);
        }
        blocks -= &within;
        let Some(file) = files.open(&one.path, one.fork, segment as u32)? else { continue };
        let mut runs = within.iter();
        while let Some(run) = runs.next_range() {
            let run = BlockRange::new(u64::from(*run.start()) - start, u64::from(*run.end()) + 1 - start);
            let pages = files.pages(run);
            let bytes = |cached: u64| Bytes(cached * files.cache.page_bytes());
            let before = file.read_counts(pages)?.cached;
            file.apply_drop(pages)?;
            sums.cached_before_bytes += bytes(before);
            sums.cached_after_bytes += bytes(file.read_counts(pages)?.cached);
        }
    }
    Ok(())
}
