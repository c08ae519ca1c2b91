//! Which gaps to read over, within one slice.
//!
//! A gap costs its bytes and saves a read. So the best choice is always "the m shortest gaps", and all m are tried.

use super::cells::Cells;
use crate::units::Bytes;
use crate::warm::DeviceProfile;

/// What a read costs here.
#[derive(Clone, Copy, Debug)]
pub struct Prices<'a> {
    pub device: &'a DeviceProfile,
    /// Bytes of a block.
    pub block_size: u32,
    /// Blocks of the largest read.
    pub largest_read: u32,
    /// The gaps to read over, where that is decided for the whole plan.
    pub merging: Option<Merging>,
}

impl Prices<'_> {
    /// Seconds of the device, for whoever shares it.
    pub fn seconds(&self, cost: Cost) -> f64 {
        let bytes = Bytes(u64::from(cost.blocks) * u64::from(self.block_size));
        self.device.shared_seconds(cost.reads.into(), bytes)
    }
}

/// Reads, and the blocks that they deliver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    pub reads: u32,
    pub blocks: u32,
}

/// The gaps to read over: all that are shorter than `gap` blocks, and of those of exactly that length the first `ties`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Merging {
    gap: u16,
    ties: u16,
}

impl Merging {
    /// One read per run.
    pub const NONE: Merging = Merging { gap: 0, ties: 0 };
    /// Over every gap.
    pub const ALL: Merging = Merging { gap: u16::MAX, ties: 0 };

    /// Over the gaps shorter than `gap` blocks, and the first `ties` of that length.
    pub fn up_to(gap: u16, ties: u64) -> Merging {
        Merging { gap, ties: u16::try_from(ties).unwrap_or(u16::MAX) }
    }
}

/// The choice that takes the device the least time, and its cost.
pub fn choose(cells: &Cells, coldest: u8, prices: &Prices<'_>) -> (Merging, Cost) {
    if let Some(merging) = prices.merging {
        return (merging, cost(cells, coldest, merging, prices.largest_read));
    }
    let separate = cost(cells, coldest, Merging::NONE, prices.largest_read);
    // The estimate does not know how the largest read cuts what was merged, so the two extremes compete too: the
    // outcome is then never above either.
    let candidates = [Merging::NONE, estimate(cells, coldest, separate, prices), Merging::ALL];
    let costs = candidates.into_iter().map(|merging| (merging, cost(cells, coldest, merging, prices.largest_read)));
    costs.min_by(|a, b| prices.seconds(a.1).total_cmp(&prices.seconds(b.1))).unwrap_or((Merging::NONE, separate))
}

/// The best number of shortest gaps, taking every gap for one read saved.
fn estimate(cells: &Cells, coldest: u8, separate: Cost, prices: &Prices<'_>) -> Merging {
    let mut gaps: Vec<u16> = cells.runs(coldest).filter_map(|run| run.gap).collect();
    gaps.sort_unstable();
    let mut cost = separate;
    let mut best = (prices.seconds(cost), 0);
    for (index, gap) in gaps.iter().enumerate() {
        cost.reads -= 1;
        cost.blocks += u32::from(*gap);
        let seconds = prices.seconds(cost);
        if seconds < best.0 {
            best = (seconds, index + 1);
        }
    }
    let Some(gap) = best.1.checked_sub(1).map(|last| gaps[last]) else { return Merging::NONE };
    let shorter = gaps.partition_point(|other| *other < gap);
    Merging { gap, ties: (best.1 - shorter) as u16 }
}

/// What the reads cost, exactly.
pub fn cost(cells: &Cells, coldest: u8, merging: Merging, largest_read: u32) -> Cost {
    let mut cost = Cost::default();
    for_each_stretch(cells, coldest, merging, |start, end| {
        cost.reads += (end - start).div_ceil(largest_read);
        cost.blocks += end - start;
    });
    cost
}

/// Visits the reads by position, each `[start, end)`.
pub fn for_each_read(cells: &Cells, coldest: u8, merging: Merging, largest_read: u32, mut visit: impl FnMut(u32, u32)) {
    for_each_stretch(cells, coldest, merging, |start, end| {
        for first in (start..end).step_by(largest_read as usize) {
            visit(first, end.min(first + largest_read));
        }
    });
}

/// Visits the stretches of blocks to read without a break, before they are cut to the largest read.
pub fn for_each_stretch(cells: &Cells, coldest: u8, merging: Merging, mut visit: impl FnMut(u32, u32)) {
    let mut ties = merging.ties;
    let mut stretch: Option<(u32, u32)> = None;
    for run in cells.runs(coldest) {
        let is_tie = run.gap == Some(merging.gap) && ties > 0;
        ties -= u16::from(is_tie);
        let is_read_over = is_tie || run.gap.is_some_and(|gap| gap < merging.gap);
        stretch = match stretch {
            Some((start, _)) if is_read_over => Some((start, run.end)),
            Some((start, end)) => {
                visit(start, end);
                Some((run.start, run.end))
            }
            None => Some((run.start, run.end)),
        };
    }
    if let Some((start, end)) = stretch {
        visit(start, end);
    }
}
