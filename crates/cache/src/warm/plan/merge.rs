//! Chooses which gaps between the wanted blocks of a slice are read too, so that neighbouring reads merge. A gap costs
//! bytes and saves a read, so the best choice is the m shortest gaps. Every m is tried.

use super::cells::{Cells, Geometry, Run, Slices, WantedFork};
use crate::warm::DeviceProfile;

#[derive(Clone, Copy, Debug)]
pub struct Prices<'a> {
    pub device: &'a DeviceProfile,
    pub geometry: Geometry,
    /// In blocks.
    pub largest_read: u64,
    /// Gaps between wanted blocks that the plan reads too; `None` if each slice chooses its own.
    pub merging: Option<Merging>,
}

impl Prices<'_> {
    /// Device seconds while others use the device.
    pub fn seconds(&self, cost: Cost) -> f64 {
        self.device.shared_seconds(cost.reads, self.geometry.bytes(cost.blocks))
    }

    fn idle_seconds(&self, cost: Cost) -> f64 {
        self.device.seconds(cost.reads, self.geometry.bytes(cost.blocks))
    }

    /// Blocks transferred in the time of one read.
    fn price_blocks(&self) -> f64 {
        self.device.bandwidth.0 as f64 / self.device.reads_per_second / f64::from(self.geometry.block_size)
    }

    /// Returns the prices for the slice `cells`. Then subtracts the number of this slice's gaps of length `gap` from
    /// `ties`, the number of such gaps to read: later slices get the rest.
    pub fn next(&mut self, cells: &Cells) -> Self {
        let here = *self;
        if let Some(Merging { gap, ties: ties @ 1.. }) = &mut self.merging {
            let used = cells.runs(0).filter(|run| run.gap == Some(*gap)).count() as u32;
            *ties -= used.min(*ties);
        }
        here
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    pub reads: u64,
    pub blocks: u64,
}

impl Cost {
    fn add(&mut self, other: Cost) {
        self.reads += other.reads;
        self.blocks += other.blocks;
    }
}

/// Merges reads over all gaps shorter than `gap` blocks, and over the first `ties` gaps of exactly that length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Merging {
    gap: u16,
    ties: u32,
}

impl Merging {
    pub const NONE: Merging = Merging { gap: 0, ties: 0 };
    pub const ALL: Merging = Merging { gap: u16::MAX, ties: 0 };
}

pub fn choose(cells: &Cells, coldest: u8, prices: &Prices<'_>) -> (Merging, Cost) {
    if let Some(merging) = prices.merging {
        return (merging, cost(cells, coldest, merging, prices.largest_read));
    }
    let separate = cost(cells, coldest, Merging::NONE, prices.largest_read);
    // The estimate ignores that merged reads are split at the largest read size. So merging over no gap, or over all
    // gaps, may cost less than the merging that `estimate` chooses.
    let candidates = [Merging::NONE, estimate(cells, coldest, separate, prices), Merging::ALL];
    let costs = candidates.into_iter().map(|merging| (merging, cost(cells, coldest, merging, prices.largest_read)));
    costs.min_by(|a, b| prices.seconds(a.1).total_cmp(&prices.seconds(b.1))).unwrap_or((Merging::NONE, separate))
}

fn estimate(cells: &Cells, coldest: u8, separate: Cost, prices: &Prices<'_>) -> Merging {
    let mut gaps: Vec<u16> = cells.runs(coldest).filter_map(|run| run.gap).collect();
    gaps.sort_unstable();
    let mut cost = separate;
    let mut best = (prices.seconds(cost), 0);
    for (index, gap) in gaps.iter().enumerate() {
        cost.reads -= 1;
        cost.blocks += u64::from(*gap);
        let seconds = prices.seconds(cost);
        if seconds < best.0 {
            best = (seconds, index + 1);
        }
    }
    let Some(gap) = best.1.checked_sub(1).map(|last| gaps[last]) else { return Merging::NONE };
    let shorter = gaps.partition_point(|other| *other < gap);
    Merging { gap, ties: (best.1 - shorter) as u32 }
}

pub fn cost(cells: &Cells, coldest: u8, merging: Merging, largest_read: u64) -> Cost {
    let mut cost = Cost::default();
    for (start, end) in stretches(cells, coldest, merging) {
        cost.add(Cost { reads: (end - start).div_ceil(largest_read), blocks: end - start });
    }
    cost
}

/// The block ranges that result from `merging`, before they are split at the largest read size.
pub fn stretches(cells: &Cells, coldest: u8, merging: Merging) -> impl Iterator<Item = (u64, u64)> {
    let mut ties = merging.ties;
    let mut runs = cells.runs(coldest).peekable();
    std::iter::from_fn(move || {
        let Run { start, mut end, .. } = runs.next()?;
        let mut is_read_over = |run: &Run| {
            let is_tie = run.gap == Some(merging.gap) && ties > 0;
            ties -= u32::from(is_tie);
            is_tie || run.gap.is_some_and(|gap| gap < merging.gap)
        };
        while let Some(run) = runs.next_if(&mut is_read_over) {
            end = run.end;
        }
        Some((start, end))
    })
}

// ---- chain ----
//
// Levels of heat form a chain, hottest first. A link gets its own pass if it gains more heat per second than the next
// one; others are joined (chain decomposition of Smith's rule for least weighted completion time).

/// Two passes stay separate only if the first has at least this multiple of the second's heat per second, because
/// each pass adds reads, and live traffic needs the device too.
const PASS_GAIN_MIN: f64 = 2.0;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// Coldest heat level that is read; colder blocks only as part of gaps.
    pub coldest: u8,
    pub merging: Merging,
    pub cost: Cost,
    /// Number of wanted blocks that are read, including colder ones in gaps.
    pub wanted_blocks: u32,
    /// Sum over `wanted_blocks`.
    pub heat: f64,
    /// Device time of the whole pass, even if a budget drops reads.
    pub seconds: f64,
}

impl Link {
    pub fn density(&self) -> f64 {
        self.heat / self.seconds
    }
}

/// Returns a slice's passes, by decreasing heat per second. Returns a single pass if several passes would increase the
/// device time by more than the share `premium`.
pub fn links(slice: &Cells, heat: impl Fn(u8) -> f64, prices: &Prices<'_>, premium: f64) -> Vec<Link> {
    let levels: Vec<u8> = slice.levels().collect();
    let Some(coldest) = levels.last() else { return Vec::new() };
    let whole = link(slice, *coldest, &heat, prices);
    if levels.len() == 1 || premium == 0.0 {
        return vec![whole];
    }
    let chain = decompose(slice, &levels, &heat, prices);
    let seconds: f64 = chain.iter().map(|link| link.seconds).sum();
    if seconds > whole.seconds * (1.0 + premium) { vec![whole] } else { chain }
}

fn decompose(slice: &Cells, levels: &[u8], heat: &impl Fn(u8) -> f64, prices: &Prices<'_>) -> Vec<Link> {
    let mut links: Vec<Link> = Vec::new();
    for coldest in levels {
        loop {
            let mut cells = slice.clone();
            links.iter().for_each(|link| apply(link, &mut cells));
            let next = link(&cells, *coldest, heat, prices);
            if next.wanted_blocks == 0 {
                break;
            }
            if links.last().is_none_or(|last| next.density() * PASS_GAIN_MIN <= last.density()) {
                links.push(next);
                break;
            }
            links.pop();
        }
    }
    links
}

pub fn apply(link: &Link, cells: &mut Cells) {
    let stretches: Vec<(u64, u64)> = stretches(cells, link.coldest, link.merging).collect();
    stretches.into_iter().for_each(|(start, end)| cells.mark_resident(start, end));
}

fn link(cells: &Cells, coldest: u8, heat: &impl Fn(u8) -> f64, prices: &Prices<'_>) -> Link {
    let (merging, cost) = choose(cells, coldest, prices);
    let (mut wanted_blocks, mut gained) = (0, 0.0);
    for (start, end) in stretches(cells, coldest, merging) {
        for level in cells.levels_in(start, end) {
            wanted_blocks += 1;
            gained += heat(level);
        }
    }
    Link { coldest, merging, cost, wanted_blocks, heat: gained, seconds: prices.seconds(cost) }
}

// Chooses the gaps to read for a whole plan, on a device where the time for requests and the time for bytes overlap.
//
// Such a device takes about as long as the larger of the two. So a plan limited by bytes should read fewer gaps, and
// one limited by requests more.

/// Gaps longer than this are read all together or not at all.
const GAP_MAX: usize = 1024;

const ROUNDS: usize = 3;

/// `None` if the costs of reads and bytes add up: each slice then chooses its own.
pub fn choose_for_all(forks: &[WantedFork], prices: Prices<'_>, cells: &mut Cells) -> Option<Merging> {
    if prices.device.overlap == 0.0 {
        return None;
    }
    let mut gaps = Gaps { all: Cost::default(), lengths: vec![0; GAP_MAX + 1] };
    let (mut separate, mut joined) = (Cost::default(), Cost::default());
    for_each_slice(forks, &prices, cells, |cells| {
        gaps.add(cells);
        separate.add(cost(cells, 0, Merging::NONE, prices.largest_read));
        joined.add(cost(cells, 0, Merging::ALL, prices.largest_read));
    });
    let mut candidates = vec![(Merging::NONE, separate), (Merging::ALL, joined)];
    // Reading a gap saves nothing if the merged read exceeds the largest read size. Each round counts these cases.
    let mut unsaved_reads = 0;
    for _ in 0..ROUNDS {
        let (merging, reads) = gaps.choose(&prices, unsaved_reads);
        let (mut merged, mut turns) = (Cost::default(), Prices { merging: Some(merging), ..prices });
        for_each_slice(forks, &prices, cells, |cells| merged.add(choose(cells, 0, &turns.next(cells)).1));
        unsaved_reads += merged.reads.saturating_sub(reads);
        candidates.push((merging, merged));
    }
    let timed = candidates.into_iter().map(|(merging, cost)| (merging, prices.idle_seconds(cost)));
    timed.min_by(|one, other| one.1.total_cmp(&other.1)).map(|(merging, _)| merging)
}

fn for_each_slice(forks: &[WantedFork], prices: &Prices<'_>, cells: &mut Cells, mut visit: impl FnMut(&Cells)) {
    for (number, fork) in forks.iter().enumerate() {
        let mut slices = Slices::new(fork, number as u32, prices.geometry.segment_blocks, prices.largest_read);
        while slices.next(cells).is_some() {
            visit(cells);
        }
    }
}

#[derive(Debug)]
struct Gaps {
    /// One read per run.
    all: Cost,
    /// Number of gaps by length.
    lengths: Vec<u64>,
}

impl Gaps {
    fn add(&mut self, cells: &Cells) {
        for run in cells.runs(0) {
            self.all.add(Cost { reads: 1, blocks: run.end - run.start });
            if let Some(gap) = run.gap.map(usize::from).filter(|gap| *gap <= GAP_MAX) {
                self.lengths[gap] += 1;
            }
        }
    }

    /// Returns the best gaps to read, and the resulting number of reads. Each gap saves one read, but `unsaved_reads`
    /// reads are added, because merged reads above the largest read size are split.
    fn choose(&self, prices: &Prices<'_>, unsaved_reads: u64) -> (Merging, u64) {
        let Cost { mut reads, mut blocks } = self.all;
        reads += unsaved_reads;
        let mut best = (prices.idle_seconds(Cost { reads, blocks }), 0, 0, reads);
        for (length, count) in (0u16..).zip(&self.lengths) {
            // The time is least where the costs of reads and bytes are equal.
            let blocks_of_reads = reads as f64 * prices.price_blocks() - blocks as f64;
            let even = (blocks_of_reads / (prices.price_blocks() + f64::from(length))).clamp(0.0, *count as f64);
            for ties in [even.floor() as u64, even.ceil() as u64, *count] {
                let cost = Cost { reads: reads - ties, blocks: blocks + ties * u64::from(length) };
                let seconds = prices.idle_seconds(cost);
                if seconds < best.0 {
                    best = (seconds, length, ties, cost.reads);
                }
            }
            reads -= count;
            blocks += count * u64::from(length);
        }
        let (_, length, ties, reads) = best;
        (Merging { gap: length, ties: u32::try_from(ties).unwrap_or(u32::MAX) }, reads)
    }
}

#[cfg(test)]
mod balance_tests {
    use super::*;

    fn prices(device: &DeviceProfile) -> Prices<'_> {
        let geometry = Geometry { block_size: 8192, segment_blocks: 131_072 };
        Prices { device, geometry, largest_read: 32, merging: None }
    }

    fn scattered() -> Gaps {
        let mut lengths = vec![0; GAP_MAX + 1];
        (1..=64).for_each(|length| lengths[length] = 4000 >> (length / 4).min(12));
        Gaps { all: Cost { reads: lengths.iter().sum::<u64>() + 1000, blocks: 35_000 }, lengths }
    }

    #[test]
    fn a_plan_is_balanced_between_the_two_prices() {
        let device = DeviceProfile { overlap: 1.0, ..DeviceProfile::default() };
        let (Merging { gap: length, ties }, left) = scattered().choose(&prices(&device), 0);
        let ties = u64::from(ties);
        let gaps = scattered();
        let shorter: u64 = gaps.lengths[..usize::from(length)].iter().sum();
        let over =
            (0u64..).zip(&gaps.lengths[..usize::from(length)]).map(|(length, count)| length * count).sum::<u64>();
        assert_eq!(left, gaps.all.reads - shorter - ties);
        let reads = left as f64 / device.reads_per_second;
        let blocks = gaps.all.blocks + over + ties * u64::from(length);
        let bytes = host::units::Bytes(blocks * 8192).seconds_at(device.bandwidth);
        assert!((reads / bytes - 1.0).abs() < 0.001, "{reads} {bytes}");
    }

    #[test]
    fn prices_that_add_up_are_what_they_are() {
        let device = DeviceProfile { overlap: 0.0, ..DeviceProfile::default() };
        assert_eq!(choose_for_all(&[], prices(&device), &mut Cells::default()), None);
    }
}
