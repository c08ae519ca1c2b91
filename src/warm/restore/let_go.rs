//! Lets go of what was read over: what stood in a gap came because that was cheaper than one more read, and nobody asked for it.

use roaring::RoaringBitmap;

use super::files::{Files, ForkFile};
use crate::linux;
use crate::linux::page_cache::{Activity, CachedFile};
use crate::postgres::RelationPath;
use crate::units::{BlockRange, Bytes, Fork, PageRange};
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
            drop_blocks(
                &self.files,
                &file.path,
                file.fork,
                over,
                |file, run| self.choose(file, run),
                |before, after| {
                    sums.let_go_bytes += Bytes(before.0.saturating_sub(after.0));
                },
            );
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

/// Drops pages of a fork: of each run of `blocks`, within its segment, those that `choose` names. Tells `count` how many bytes of them
/// were cached before and are after. What cannot be opened or seen stays, and is not counted.
pub fn drop_blocks(
    files: &Files<'_>,
    path: &RelationPath,
    fork: Fork,
    blocks: &RoaringBitmap,
    choose: impl Fn(&dyn CachedFile, BlockRange) -> Result<Vec<PageRange>, linux::Error>,
    mut count: impl FnMut(Bytes, Bytes),
) {
    let segment_blocks = u64::from(files.geometry.segment_blocks);
    let mut blocks = blocks.clone();
    while let Some(first) = blocks.min() {
        let segment = u64::from(first) / segment_blocks;
        let start = segment * segment_blocks;
        let mut within = blocks.clone();
        if let Ok(end) = u32::try_from(start + segment_blocks) {
            within.remove_range(end..);
        }
        blocks -= &within;
        let Ok(Some(file)) = files.open(path, fork, segment as u32) else { continue };
        let mut drop_pages = |pages: PageRange| {
            let bytes = |cached: u64| Bytes(cached * files.cache.page_bytes());
            let before = file.read_counts(pages)?.cached;
            file.apply_drop(pages)?;
            count(bytes(before), bytes(file.read_counts(pages)?.cached));
            Ok::<(), linux::Error>(())
        };
        let mut runs = within.iter();
        while let Some(run) = runs.next_range() {
            let run = BlockRange::new(u64::from(*run.start()) - start, u64::from(*run.end()) + 1 - start);
            // The kernel keeps what it likes anyway: an error is no more than that.
            let _ = choose(&*file, run).and_then(|all| all.into_iter().try_for_each(&mut drop_pages));
        }
    }
}
