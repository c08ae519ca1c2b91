//! Takes out of the page cache what is in shared_buffers: there it serves nobody until its buffer is gone.

use roaring::RoaringBitmap;

use super::files::Files;
use crate::postgres::RelationPath;
use crate::units::Fork;
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
        let dropped = files.drop_blocks(&one.path, one.fork, &one.blocks, |_, run| Ok(vec![files.pages(run)]));
        sums.cached_before_bytes += dropped.before_bytes;
        sums.cached_after_bytes += dropped.after_bytes;
    }
    sums
}
