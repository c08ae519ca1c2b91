//! A restore as the model's warmer: the reads that the planner would issue, in its order.

use roaring::RoaringBitmap;

use cache::warm::DeviceProfile;
use cache::warm::plan::{Geometry, Plan, Precedence, Scratch, Situation, WantedFork};
use command::workload::WantedClass;
use host::units::Bytes;
use model::{Device, PageClass, WarmStep, Warmer};

/// A restore's reads in flight beside live traffic (docs/plan.md).
pub const RESTORE_DEPTH: u32 = 4;

/// Until a restore's first read: the program starts, reads the snapshot and plans.
pub const RESTORE_BEGINS_SECONDS: f64 = 0.1;

/// The model is told of so many pieces of a plan: a plan may have millions of reads.
const PIECES: f64 = 200.0;

/// `None` when nothing is wanted.
pub fn plan_warmer(
    classes: &[PageClass],
    wanted: &[WantedClass],
    device: &Device,
    geometry: Geometry,
) -> Option<Warmer> {
    let fork = |one: &WantedClass| WantedFork {
        precedence: Precedence::ByHeat,
        is_index: one.is_index,
        blocks: one.blocks,
        levels: one.levels.clone(),
        resident: RoaringBitmap::new(),
        places: Vec::new(),
    };
    let profile = DeviceProfile {
        reads_per_second: device.reads_per_second.min(f64::MAX),
        bandwidth: Bytes(device.bandwidth.min(u64::MAX as f64) as u64),
        ..DeviceProfile::default()
    };
    let plan = Plan::new(wanted.iter().map(fork).collect(), geometry, profile, Situation::Shared, None);
    let forecast = plan.forecast();
    if forecast.reads == 0 {
        return None;
    }
    let mut pieces = Pieces::new(wanted, forecast.reads as f64 / PIECES);
    let mut scratch = Scratch::default();
    for step in 0..plan.steps() {
        for read in plan.reads(step, &mut scratch) {
            pieces.add(read.fork, read.range.start as u32..read.range.end as u32);
        }
    }
    pieces.flush();
    let mut steps = inner_pages_first(classes, wanted);
    steps.append(&mut pieces.steps);
    let read_bytes = forecast.read_bytes.0 as f64 / forecast.reads as f64;
    Some(Warmer { steps, depth: RESTORE_DEPTH, read_bytes, begins_after_seconds: RESTORE_BEGINS_SECONDS })
}

/// Classes that no fork stands for are inner pages of indexes, which are read with what is hottest.
fn inner_pages_first(classes: &[PageClass], wanted: &[WantedClass]) -> Vec<WarmStep> {
    let is_wanted = |class: usize| wanted.iter().any(|one| one.class == class);
    let all = (0..classes.len()).filter(|class| !is_wanted(*class));
    all.map(|class| WarmStep { class, bin: None, share: 1.0, reads: 1.0 }).collect()
}

/// Reads that follow each other, counted by the bins that they bring.
struct Pieces<'a> {
    wanted: &'a [WantedClass],
    reads_each: f64,
    /// What was brought already of each fork.
    brought: Vec<RoaringBitmap>,
    /// Blocks of this piece, by fork and level.
    counts: Vec<Vec<u64>>,
    reads: f64,
    steps: Vec<WarmStep>,
}

impl<'a> Pieces<'a> {
    fn new(wanted: &'a [WantedClass], reads_each: f64) -> Pieces<'a> {
        Pieces {
            brought: vec![RoaringBitmap::new(); wanted.len()],
            counts: wanted.iter().map(|one| vec![0; one.levels.len()]).collect(),
            wanted,
            reads_each,
            reads: 0.0,
            steps: Vec::new(),
        }
    }

    fn add(&mut self, fork: usize, range: std::ops::Range<u32>) {
        let mut blocks = RoaringBitmap::new();
        blocks.insert_range(range);
        blocks -= &self.brought[fork];
        for (count, (_, level)) in self.counts[fork].iter_mut().zip(&self.wanted[fork].levels) {
            *count += level.intersection_len(&blocks);
        }
        self.brought[fork] |= blocks;
        self.reads += 1.0;
        if self.reads >= self.reads_each {
            self.flush();
        }
    }

    fn flush(&mut self) {
        let total: u64 = self.counts.iter().flatten().sum();
        if total == 0 {
            return;
        }
        for (one, counts) in self.wanted.iter().zip(&mut self.counts) {
            for (level, count) in counts.iter_mut().enumerate().filter(|(_, count)| **count > 0) {
                self.steps.push(WarmStep {
                    class: one.class,
                    // Levels are coldest first, bins hottest first, and what was not wanted comes after them.
                    bin: Some(one.levels.len() - 1 - level),
                    share: *count as f64 / one.levels[level].1.len() as f64,
                    reads: self.reads * *count as f64 / total as f64,
                });
                *count = 0;
            }
        }
        self.reads = 0.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{Bin, Popularity};

    #[test]
    fn what_is_hot_comes_first_and_each_level_once() {
        let levels = vec![(1.0_f32, (0..9000).collect::<RoaringBitmap>()), (50.0, (9000..10_000).collect())];
        let bins = vec![Bin { pages: 1000.0, weight: 50.0 }, Bin { pages: 9000.0, weight: 1.0 }];
        let class = PageClass {
            name: "t".into(),
            pages: 10_000.0,
            accesses: 1.0,
            run_pages: 1.0,
            popularity: Popularity::Measured(bins),
            resident_share: 0.0,
        };
        let wanted = [WantedClass { class: 0, blocks: 10_000, is_index: false, levels }];
        let device = Device::with_limits(3000.0, 131_072_000.0, 0.5e-3);
        let geometry = Geometry { block_size: 8192, segment_blocks: 131_072 };
        let warmer = plan_warmer(&[class], &wanted, &device, geometry).unwrap();
        assert_eq!(warmer.steps[0].bin, Some(0));
        for bin in [0, 1] {
            let share: f64 = warmer.steps.iter().filter(|step| step.bin == Some(bin)).map(|step| step.share).sum();
            assert!((share - 1.0).abs() < 1e-9, "{bin}: {share}");
        }
        let bytes = warmer.steps.iter().map(|step| step.reads).sum::<f64>() * warmer.read_bytes;
        assert!((bytes / (10_000.0 * 8192.0) - 1.0).abs() < 0.01, "{bytes}");
    }
}
