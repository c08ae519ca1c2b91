//! How hot a block is, relative to the others, as far as a snapshot knows.

use roaring::RoaringBitmap;

use crate::cache::{ForkMap, USAGE_COUNTS};

/// A block that was in the page cache alone: somebody used it once, or it was read ahead.
const OS_ONLY: f32 = 1.0;

/// The heat of a buffer by its usage count. Low counts differ by chance, also where all blocks are used equally often,
/// and say little. 5 is as far as PostgreSQL counts, and stands for anything above it too: the inner pages of an index
/// have it, and whatever is used again before the clock sweep comes round.
const BY_USAGE_COUNT: [f32; USAGE_COUNTS] = [1.0, 1.5, 2.0, 4.0, 8.0, 32.0];

/// The blocks that `wanted` asks for, by heat, coldest first.
pub fn levels(fork: &ForkMap, wanted: &RoaringBitmap) -> Vec<(f32, RoaringBitmap)> {
    let in_buffers = fork.all_buffers();
    let mut levels = vec![(OS_ONLY, wanted - in_buffers)];
    levels.extend(BY_USAGE_COUNT.into_iter().zip(&fork.buffers).map(|(heat, blocks)| (heat, blocks & wanted)));
    levels.retain(|(_, blocks)| !blocks.is_empty());
    levels
}

/// The heat of an average block of `levels`.
pub fn mean(levels: &[(f32, RoaringBitmap)]) -> f32 {
    let blocks: u64 = levels.iter().map(|(_, blocks)| blocks.len()).sum();
    let heat: f64 = levels.iter().map(|(heat, blocks)| f64::from(*heat) * blocks.len() as f64).sum();
    (heat / blocks.max(1) as f64) as f32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Fork;

    #[test]
    fn usage_counts_make_levels() {
        let mut fork = ForkMap::empty(Fork::Main, 100);
        fork.os.insert_range(0..10);
        fork.buffers[0].insert(3);
        fork.buffers[5].insert_range(8..12);
        let levels = levels(&fork, &fork.os);
        let found: Vec<_> = levels.iter().map(|(heat, blocks)| (*heat, blocks.len())).collect();
        assert_eq!(found, [(1.0, 7), (1.0, 1), (32.0, 2)]);
        assert_eq!(mean(&levels), (7.0 + 1.0 + 64.0) / 10.0);
    }
}
