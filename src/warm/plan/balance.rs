//! Which of a device's two prices a whole plan is short of, and what a read is worth then.
//!
//! A device that does one thing while it does the other takes about as long as the larger sum of a plan's prices. A plan that
//! is short of bytes should read over fewer gaps than the prices by themselves say, one that is short of reads over more.

use super::cells::Cells;
use super::slices::Slices;
use super::{Geometry, WantedFork};
use crate::units::Bytes;
use crate::warm::DeviceProfile;

/// Longer gaps are never read over for the sake of balance alone.
const GAP_MAX: usize = 64;

/// A read is never worth less or more than this: the server's own misses need reads and bytes, of which an idle device knows
/// nothing.
const WORTH: std::ops::RangeInclusive<f64> = 0.5..=4.0;

/// The runs of all that is wanted, and the gaps between them.
#[derive(Debug)]
struct Gaps {
    runs: u64,
    blocks: u64,
    /// Gaps by their length in blocks.
    lengths: [u64; GAP_MAX + 1],
}

/// What a read is worth to a plan, as a multiple of its own price: 1 on a device whose prices add up, where no plan is short
/// of one of them.
pub fn choose_read_worth(
    forks: &[WantedFork],
    geometry: Geometry,
    device: &DeviceProfile,
    largest_read: u32,
    cells: &mut Cells,
) -> f64 {
    if device.overlap == 0.0 {
        return 1.0;
    }
    let mut gaps = Gaps { runs: 0, blocks: 0, lengths: [0; GAP_MAX + 1] };
    for (number, fork) in forks.iter().enumerate() {
        let mut slices = Slices::new(fork, number as u32, geometry.segment_blocks, largest_read);
        while slices.next(cells).is_some() {
            gaps.add(cells);
        }
    }
    let own_price = device.bandwidth.0 as f64 / device.reads_per_second / f64::from(geometry.block_size);
    let longest = gaps.choose_longest(geometry.block_size, device);
    longest.map_or(1.0, |longest| ((longest as f64 + 0.5) / own_price).clamp(*WORTH.start(), *WORTH.end()))
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

    /// The longest gap to read over. `None` where there is nothing to choose.
    fn choose_longest(&self, block_size: u32, device: &DeviceProfile) -> Option<usize> {
        let (mut reads, mut blocks) = (self.runs, self.blocks);
        let mut best = (f64::INFINITY, None);
        for (length, count) in self.lengths.iter().enumerate() {
            reads -= count;
            blocks += count * length as u64;
            let seconds = device.seconds(reads, Bytes(blocks * u64::from(block_size)));
            if seconds < best.0 {
                best = (seconds, Some(length));
            }
        }
        best.1.filter(|_| self.lengths.iter().any(|count| *count > 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As scattered as may be: gaps of every length, the shorter the more.
    fn scattered() -> Gaps {
        let lengths = std::array::from_fn(|length| if length == 0 { 0 } else { 4000 >> (length / 4).min(12) });
        Gaps { runs: lengths.iter().sum::<u64>() + 1000, blocks: 35_000, lengths }
    }

    #[test]
    fn a_plan_is_balanced_between_the_two_prices() {
        let device = DeviceProfile { overlap: 1.0, ..DeviceProfile::default() };
        let longest = scattered().choose_longest(8192, &device).unwrap();
        let seconds = |longest: usize| {
            let gaps = scattered();
            let over = &gaps.lengths[..=longest];
            let blocks: u64 = over.iter().enumerate().map(|(length, count)| length as u64 * count).sum();
            let reads = (gaps.runs - over.iter().sum::<u64>()) as f64 / device.reads_per_second;
            (reads, Bytes((gaps.blocks + blocks) * 8192).seconds_at(device.bandwidth))
        };
        let larger = |(reads, bytes): (f64, f64)| reads.max(bytes);
        assert!((0..=GAP_MAX).all(|other| larger(seconds(longest)) <= larger(seconds(other))), "{longest}");
        let (reads, bytes) = seconds(longest);
        assert!((reads / bytes - 1.0).abs() < 0.3, "{reads} {bytes}");
    }

    #[test]
    fn prices_that_add_up_are_what_they_are() {
        let worth = choose_read_worth(
            &[],
            Geometry { block_size: 8192, segment_blocks: 131_072 },
            &DeviceProfile::default(),
            32,
            &mut Cells::default(),
        );
        assert_eq!(worth, 1.0);
        let nothing = Gaps { runs: 3, blocks: 300, lengths: [0; GAP_MAX + 1] };
        assert_eq!(nothing.choose_longest(8192, &DeviceProfile::default()), None);
    }
}
