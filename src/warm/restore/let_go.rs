//! Lets go of what was read over: what stood in a gap came because that was cheaper than one more read, and nobody asked for it.

use roaring::RoaringBitmap;

use super::files::{Files, ForkFile};
use crate::linux;
use crate::linux::page_cache::{Activity, CachedFile};
use crate::units::{BlockRange, Bytes, PageRange};
use crate::warm::plan::WantedFork;
use crate::warm::receipt::MemoryReceipt;

/// Blocks that a restore brought, and whose they may be by now.
pub struct ReadOver<'a> {
    pub files: Files<'a>,
    /// The files and what is wanted of them, in the plan's order.
    pub forks: &'a [ForkFile],
    pub wanted: &'a [WantedFork],
    /// Somebody may have used meanwhile what was brought.
    pub may_be_used: bool,
}

impl ReadOver<'_> {
    /// Drops what is in `brought` and not wanted, and takes it out of there. What somebody has used since stays, and all of it where
    /// that cannot be seen.
    pub fn let_go(&self, brought: &mut [RoaringBitmap]) -> MemoryReceipt {
        let over = brought.iter_mut().zip(self.wanted).map(|(brought, fork)| {
            let over = fork.levels.iter().fold(brought.clone(), |over, (_, wanted)| over - wanted);
            *brought -= &over;
            over
        });
        let over: Vec<RoaringBitmap> = over.collect();
        let blocks: u64 = over.iter().map(RoaringBitmap::len).sum();
        let read_over_bytes = Bytes(blocks * u64::from(self.files.geometry.block_size));
        let mut sums = MemoryReceipt { read_over_bytes, ..MemoryReceipt::default() };
        if blocks == 0 || (self.may_be_used && self.files.cache.test_activity().is_err()) {
            return sums;
        }
        for (file, over) in self.forks.iter().zip(&over) {
            // What cannot be opened or seen stays, and is not counted.
            let dropped = self.files.drop_blocks(&file.path, file.fork, over, |file, run| self.choose(file, run));
            sums.let_go_bytes += Bytes(dropped.before_bytes.0.saturating_sub(dropped.after_bytes.0));
        }
        sums
    }

    /// The pages of a run to drop.
    fn choose(&self, file: &dyn CachedFile, run: BlockRange) -> Result<Vec<PageRange>, linux::Error> {
        let pages = self.files.pages_within(run);
        if !self.may_be_used {
            return Ok(vec![pages]);
        }
        let mut unused = Vec::new();
        for run in file.read_resident(pages)? {
            // What was read to bring it is one use.
            file.visit_activity(run, &mut |run, activity| {
                unused.extend((activity < Activity::Active).then_some(run));
            })?;
        }
        Ok(unused)
    }
}
