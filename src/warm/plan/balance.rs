//! Which gaps a whole plan reads over, on a device that does one thing while it does the other.
//!
//! Such a device takes about as long as the larger of a plan's two prices. A plan that is short of bytes should read over fewer
//! gaps than the prices by themselves say, one that is short of reads over more. Of all gaps the m shortest are always the best m
//! to read over, so all m are tried; what the largest read makes of that is computed exactly, and both extremes compete with it.

use super::cells::Cells;
use super::merge::{self, Cost, Merging, Prices};
use super::slices::Slices;
use super::wanted::{Geometry, WantedFork};
use crate::units::Bytes;
use crate::warm::DeviceProfile;

/// Longer gaps are read over with all others or not at all.
const GAP_MAX: usize = 1024;

/// How often a choice is made, each time with what came of the one before.
const ROUNDS: usize = 3;

/// Which gaps to read over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Balance {
    /// Those that save more than they cost: the prices add up, and no plan is short of one of them.
    ByPrice,
    None,
    All,
    /// Those shorter than `length` blocks, and by position the first `ties` of exactly that length.
    UpTo {
        length: u16,
        ties: u64,
    },
}

/// Prices slice by slice, in their order.
#[derive(Clone, Copy, Debug)]
pub struct Pricing<'a> {
    pub device: &'a DeviceProfile,
    pub geometry: Geometry,
    /// Blocks of the largest read.
    pub largest_read: u32,
    pub balance: Balance,
}

impl<'a> Pricing<'a> {
    /// The prices of the next slice.
    pub fn next(&mut self, cells: &Cells) -> Prices<'a> {
        let merging = match &mut self.balance {
            Balance::ByPrice => None,
            Balance::None => Some(Merging::NONE),
            Balance::All => Some(Merging::ALL),
            Balance::UpTo { length, ties } => {
                let merging = Merging::up_to(*length, *ties);
                let here = cells.runs(0).filter(|run| run.gap == Some(*length)).count() as u64;
                *ties -= here.min(*ties);
                Some(merging)
            }
        };
        let block_size = self.geometry.block_size;
        Prices { device: self.device, block_size, largest_read: self.largest_read, merging }
    }

    /// Blocks that the device delivers for the price of one read.
    fn price_blocks(&self) -> f64 {
        self.device.bandwidth.0 as f64 / self.device.reads_per_second / f64::from(self.geometry.block_size)
    }

    fn seconds(&self, reads: u64, blocks: u64) -> f64 {
        self.device.seconds(reads, Bytes(blocks * u64::from(self.geometry.block_size)))
    }
}

/// What takes the idle device the least time. Where the prices add up each slice finds out by itself.
pub fn choose_balance(forks: &[WantedFork], pricing: Pricing<'_>, cells: &mut Cells) -> Balance {
    if pricing.device.overlap == 0.0 {
        return Balance::ByPrice;
    }
    let mut gaps = Gaps::default();
    let (mut separate, mut joined) = (Total::default(), Total::default());
    for_each_slice(forks, &pricing, cells, |cells| {
        gaps.add(cells);
        separate.add(merge::cost(cells, 0, Merging::NONE, pricing.largest_read));
        joined.add(merge::cost(cells, 0, Merging::ALL, pricing.largest_read));
    });
    let mut candidates = vec![(Balance::None, separate), (Balance::All, joined)];
    // What is read over is cut to the largest read, so a gap does not always save one: by how much it did not is known afterwards.
    let mut unsaved_reads = 0;
    for _ in 0..ROUNDS {
        let (balance, reads) = gaps.choose(&pricing, unsaved_reads);
        let (mut balanced, mut turns) = (Total::default(), Pricing { balance, ..pricing });
        for_each_slice(forks, &pricing, cells, |cells| balanced.add(merge::choose(cells, 0, &turns.next(cells)).1));
        unsaved_reads += balanced.reads.saturating_sub(reads);
        candidates.push((balance, balanced));
    }
    let timed = candidates.into_iter().map(|(balance, total)| (balance, pricing.seconds(total.reads, total.blocks)));
    timed.min_by(|one, other| one.1.total_cmp(&other.1)).map_or(Balance::ByPrice, |(balance, _)| balance)
}

fn for_each_slice(forks: &[WantedFork], pricing: &Pricing<'_>, cells: &mut Cells, mut visit: impl FnMut(&Cells)) {
    for (number, fork) in forks.iter().enumerate() {
        let mut slices = Slices::new(fork, number as u32, pricing.geometry.segment_blocks, pricing.largest_read);
        while slices.next(cells).is_some() {
            visit(cells);
        }
    }
}

/// What a whole plan costs.
#[derive(Clone, Copy, Debug, Default)]
struct Total {
    reads: u64,
    blocks: u64,
}

impl Total {
    fn add(&mut self, cost: Cost) {
        self.reads += u64::from(cost.reads);
        self.blocks += u64::from(cost.blocks);
    }
}

/// The runs of all that is wanted, and the gaps between them.
#[derive(Debug)]
struct Gaps {
    runs: u64,
    blocks: u64,
    /// Gaps by their length in blocks.
    lengths: Vec<u64>,
}

impl Default for Gaps {
    fn default() -> Gaps {
        Gaps { runs: 0, blocks: 0, lengths: vec![0; GAP_MAX + 1] }
    }
}

impl Gaps {
    fn add(&mut self, cells: &Cells) {
        for run in cells.runs(0) {
            self.runs += 1;
            self.blocks += u64::from(run.end - run.start);
            if let Some(gap) = run.gap.map(usize::from).filter(|gap| *gap <= GAP_MAX) {
                self.lengths[gap] += 1;
            }
        }
    }

    /// The best number of shortest gaps, taking every gap for one read saved but for `unsaved_reads` in all; and the reads that are left.
    fn choose(&self, pricing: &Pricing<'_>, unsaved_reads: u64) -> (Balance, u64) {
        let (mut reads, mut blocks) = (self.runs + unsaved_reads, self.blocks);
        let mut best = (pricing.seconds(reads, blocks), 0, 0, reads);
        for (length, count) in (0u16..).zip(&self.lengths) {
            // Within one length the larger price falls until it is the smaller one.
            let blocks_of_reads = reads as f64 * pricing.price_blocks() - blocks as f64;
            let even = (blocks_of_reads / (pricing.price_blocks() + f64::from(length))).clamp(0.0, *count as f64);
            for ties in [even.floor() as u64, even.ceil() as u64, *count] {
                let seconds = pricing.seconds(reads - ties, blocks + ties * u64::from(length));
                if seconds < best.0 {
                    best = (seconds, length, ties, reads - ties);
                }
            }
            reads -= count;
            blocks += count * u64::from(length);
        }
        let (_, length, ties, reads) = best;
        (Balance::UpTo { length, ties }, reads)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pricing(device: &DeviceProfile) -> Pricing<'_> {
        let geometry = Geometry { block_size: 8192, segment_blocks: 131_072 };
        Pricing { device, geometry, largest_read: 32, balance: Balance::ByPrice }
    }

    /// As scattered as may be: gaps of every length up to 64, the shorter the more.
    fn scattered() -> Gaps {
        let mut gaps = Gaps::default();
        (1..=64).for_each(|length| gaps.lengths[length] = 4000 >> (length / 4).min(12));
        Gaps { runs: gaps.lengths.iter().sum::<u64>() + 1000, blocks: 35_000, ..gaps }
    }

    #[test]
    fn a_plan_is_balanced_between_the_two_prices() {
        let device = DeviceProfile { overlap: 1.0, ..DeviceProfile::default() };
        let (Balance::UpTo { length, ties }, left) = scattered().choose(&pricing(&device), 0) else {
            panic!("not balanced")
        };
        let gaps = scattered();
        let shorter: u64 = gaps.lengths[..usize::from(length)].iter().sum();
        let over =
            (0u64..).zip(&gaps.lengths[..usize::from(length)]).map(|(length, count)| length * count).sum::<u64>();
        assert_eq!(left, gaps.runs - shorter - ties);
        let reads = left as f64 / device.reads_per_second;
        let blocks = gaps.blocks + over + ties * u64::from(length);
        let bytes = Bytes(blocks * 8192).seconds_at(device.bandwidth);
        assert!((reads / bytes - 1.0).abs() < 0.001, "{reads} {bytes}");
    }

    #[test]
    fn prices_that_add_up_are_what_they_are() {
        let device = DeviceProfile { overlap: 0.0, ..DeviceProfile::default() };
        assert_eq!(choose_balance(&[], pricing(&device), &mut Cells::default()), Balance::ByPrice);
    }
}
