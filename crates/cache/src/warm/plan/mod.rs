//! Plans reads and their order: a pure function of wanted blocks, resident blocks and the device (docs/plan.md). A
//! plan of 2 TB must fit in memory, so it stores *steps* of a few megabytes and computes their reads on demand.

mod cells;
mod hot;
mod merge;
mod mix;

#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::ops::Add as _;

use roaring::RoaringBitmap;
use serde::Serialize;

use cells::{Cells, Slice, Slices};
use hot::Hot;
use merge::{Cost, Link, Prices, choose_for_all};

pub use cells::{Geometry, Place, Precedence, WantedFork};
pub use mix::Mix;

use super::DeviceProfile;
use host::units::{BlockRange, Bytes};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    /// Index in `Plan::forks`.
    pub fork: usize,
    pub range: BlockRange,
}

/// Forecast of a plan for the page cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, crate::JsonSchema)]
pub struct Forecast {
    pub reads: u64,
    /// Bytes to read, gaps included.
    pub read_bytes: Bytes,
    /// Time that the device needs.
    pub seconds: f64,
    /// Requested blocks that are already cached.
    pub resident_blocks: u64,
    /// Blocks to read.
    pub planned_blocks: u64,
    /// Requested blocks that exceed the budget.
    pub over_budget_blocks: u64,
}

impl Forecast {
    pub fn add(&mut self, later: &Forecast) {
        *self = host::fieldwise!(Forecast, self.add(later):
            reads, read_bytes, seconds, resident_blocks, planned_blocks, over_budget_blocks);
    }
}

/// While others use the device, reading hot blocks first may add this share of device time.
const HOTTEST_FIRST_PREMIUM: f64 = 0.2;

/// Factor on the cost of a read while others use the device. Eight clients with uncached rows issue two of three
/// reads, so fewer, larger reads load hot blocks sooner.
const SHARED_READ_WORTH: f64 = 3.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Situation {
    /// Nobody else uses the device: the costs of reads and bytes overlap, and hot blocks may be read with the rest.
    Alone,
    /// Others use the device time that the plan saves, and clients wait for the hottest blocks.
    Shared,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Step {
    slice: u32,
    precedence: Precedence,
    link: Link,
}

#[derive(Debug)]
pub struct Plan {
    forks: Vec<WantedFork>,
    geometry: Geometry,
    device: DeviceProfile,
    pub(crate) situation: Situation,
    slices: Vec<Slice>,
    /// Sorted by position. The steps of a slice are adjacent, in the order of execution.
    steps: Vec<Step>,
    order: Vec<u32>,
    /// Least heat per second in the hot part of the plan that this one continues.
    earlier_hot_least: Option<f64>,
    forecast: Forecast,
    pub(crate) fork_forecasts: Vec<Forecast>,
}

#[derive(Debug, Default)]
pub struct Scratch {
    cells: Cells,
    reads: Vec<Read>,
}

impl Plan {
    /// Plans reads of at most `budget` bytes, hottest first. Forks must be in device order.
    pub fn new(
        forks: Vec<WantedFork>,
        geometry: Geometry,
        device: DeviceProfile,
        situation: Situation,
        budget: Option<Bytes>,
    ) -> Plan {
        let mut plan = Plan {
            forks,
            geometry,
            device,
            situation,
            slices: Vec::new(),
            steps: Vec::new(),
            order: Vec::new(),
            earlier_hot_least: None,
            forecast: Forecast::default(),
            fork_forecasts: Vec::new(),
        };
        let mut scratch = Scratch::default();
        plan.cut_into_steps(&mut scratch.cells);
        let planned_bytes = geometry.bytes(plan.steps.iter().map(|step| step.link.cost.blocks).sum());
        if let Some(budget) = budget.filter(|budget| planned_bytes > *budget) {
            // The blocks beyond the budget must be the coldest ones.
            if situation == Situation::Alone {
                plan.situation = Situation::Shared;
                plan.cut_into_steps(&mut scratch.cells);
            }
            plan.apply_budget(budget, &mut scratch);
        }
        plan.compute_forecast();
        plan
    }

    pub fn rest(&self, brought: &[RoaringBitmap], situation: Situation) -> Plan {
        let mut forks = self.forks.clone();
        forks.iter_mut().zip(brought).for_each(|(fork, brought)| fork.resident |= brought);
        let earlier_hot_least = self.earlier_hot_least.or_else(|| self.hot().map(|hot| hot.least));
        Plan { earlier_hot_least, ..Plan::new(forks, self.geometry, self.device, situation, None) }
    }

    fn hot(&self) -> Option<Hot> {
        let links = || self.ordered().map(|step| &step.link);
        Hot::of(links()).or_else(|| self.earlier_hot_least.map(|least| Hot::left_of(least, links())))
    }

    pub fn forks(&self) -> &[WantedFork] {
        &self.forks
    }

    /// Bytes delivered in the time of one read.
    pub fn gap_bytes(&self) -> Bytes {
        Bytes((self.device.bandwidth.0 as f64 / self.device.reads_per_second) as u64)
    }

    fn priced_device(&self) -> DeviceProfile {
        let worth = match self.situation {
            Situation::Alone => 1.0,
            Situation::Shared => SHARED_READ_WORTH,
        };
        DeviceProfile { reads_per_second: self.device.reads_per_second / worth, ..self.device }
    }

    pub fn steps(&self) -> usize {
        self.order.len()
    }

    pub fn forecast(&self) -> Forecast {
        self.forecast
    }

    pub fn reads<'a>(&self, nth: usize, scratch: &'a mut Scratch) -> &'a [Read] {
        let index = self.order[nth] as usize;
        let step = self.steps[index];
        let slice = self.slices[step.slice as usize];
        let Scratch { cells, reads } = scratch;
        cells.fill(&self.forks[slice.fork as usize], slice.start, slice.end);
        let earlier = self.steps[..index].iter().rev().take_while(|other| other.slice == step.slice).count();
        self.steps[index - earlier..index].iter().for_each(|other| merge::apply(&other.link, cells));
        reads.clear();
        let largest = self.largest_read_blocks();
        for (start, end) in merge::stretches(cells, step.link.coldest, step.link.merging) {
            let (start, end) = (slice.start + start, slice.start + end);
            let ranges = (start..end).step_by(largest as usize);
            let ranges = ranges.map(|first| BlockRange::new(first, end.min(first + largest)));
            reads.extend(ranges.map(|range| Read { fork: slice.fork as usize, range }));
        }
        reads.truncate(step.link.cost.reads as usize);
        reads
    }

    fn ordered(&self) -> impl Iterator<Item = &Step> {
        self.order.iter().map(|index| &self.steps[*index as usize])
    }

    pub fn largest_read_blocks(&self) -> u64 {
        let blocks = self.device.largest_read.0 / u64::from(self.geometry.block_size);
        blocks.clamp(1, cells::MAX_READ_BLOCKS)
    }

    fn cut_into_steps(&mut self, cells: &mut Cells) {
        (self.slices, self.steps, self.forecast) = Default::default();
        let (device, geometry, largest_read) = (self.priced_device(), self.geometry, self.largest_read_blocks());
        let mut prices = Prices { device: &device, geometry, largest_read, merging: None };
        let premium = match self.situation {
            Situation::Alone => {
                prices.merging = choose_for_all(&self.forks, prices, cells);
                0.0
            }
            Situation::Shared => HOTTEST_FIRST_PREMIUM,
        };
        for (fork, wanted) in (0..).zip(&self.forks) {
            let heat = |level: u8| f64::from(wanted.levels[usize::from(level)].0);
            let mut slices = Slices::new(wanted, fork, geometry.segment_blocks, largest_read);
            while let Some(slice) = slices.next(cells) {
                self.forecast.resident_blocks += cells.resident_wanted;
                let precedence = if slice.is_head { Precedence::IndexHead } else { wanted.precedence };
                let links = merge::links(cells, heat, &prices.next(cells), premium);
                if !links.is_empty() {
                    let slice_number = self.slices.len() as u32;
                    self.slices.push(slice);
                    self.steps.extend(links.into_iter().map(|link| Step { slice: slice_number, precedence, link }));
                }
            }
        }
        self.order_steps();
    }

    fn seeks(&self) -> bool {
        self.forks.iter().any(|fork| !fork.places.is_empty())
    }

    fn order_steps(&mut self) {
        let place = |slice: &Slice| self.forks[slice.fork as usize].place_of(slice.start, self.geometry.block_size);
        // On a device that seeks, a small file takes as long as megabytes, so precedence is ignored. If nobody else
        // uses the device, one sweep suffices.
        let seeks = self.seeks();
        let is_one_sweep = seeks && self.situation == Situation::Alone;
        let places: Vec<u64> = if seeks { self.slices.iter().map(place).collect() } else { Vec::new() };
        // At equal heat, indexes come first: each lookup needs them. The last key orders steps by fork and block.
        let is_table = |step: &Step| !self.forks[self.slices[step.slice as usize].fork as usize].is_index;
        let key = |index: &u32| {
            let step = &self.steps[*index as usize];
            let precedence = (!seeks).then_some(step.precedence);
            // Steps of similar heat per second are read by position.
            let class = (!is_one_sweep).then(|| Reverse(step.link.density().log(1.5).floor() as i32));
            let is_table = (!seeks).then(|| is_table(step));
            (precedence, class, is_table, places.get(step.slice as usize), *index)
        };
        let mut order: Vec<u32> = (0..self.steps.len() as u32).collect();
        order.sort_unstable_by_key(key);
        self.order = order;
    }

    fn apply_budget(&mut self, budget: Bytes, scratch: &mut Scratch) {
        let mut left_blocks = budget.0 / u64::from(self.geometry.block_size);
        let mut fits = |index: &u32| {
            let left = left_blocks.checked_sub(self.steps[*index as usize].link.cost.blocks);
            left_blocks = left.unwrap_or(left_blocks);
            left.is_some()
        };
        let Some(cut) = self.order.iter().position(|index| !fits(index)) else { return };
        let index = self.order[cut] as usize;
        let trimmed = self.trim(cut, left_blocks, scratch);
        let rest = self.order[cut..].iter().map(|index| u64::from(self.steps[*index as usize].link.wanted_blocks));
        self.forecast.over_budget_blocks = rest.sum::<u64>() - u64::from(trimmed.wanted_blocks);
        self.order.truncate(cut + usize::from(trimmed.cost.reads > 0));
        self.steps[index].link = trimmed;
    }

    fn trim(&self, nth: usize, mut left_blocks: u64, scratch: &mut Scratch) -> Link {
        let step = self.steps[self.order[nth] as usize];
        let start = self.slices[step.slice as usize].start;
        let mut trimmed = Link { cost: Cost::default(), wanted_blocks: 0, ..step.link };
        self.reads(nth, scratch);
        for read in &scratch.reads {
            let Some(left) = left_blocks.checked_sub(read.range.blocks()) else { break };
            left_blocks = left;
            trimmed.cost.reads += 1;
            trimmed.cost.blocks += read.range.blocks();
            let levels = scratch.cells.levels_in(read.range.start - start, read.range.end - start);
            trimmed.wanted_blocks += levels.count() as u32;
        }
        trimmed
    }

    fn compute_forecast(&mut self) {
        let mut sum = self.forecast;
        let mut of_forks = vec![Forecast::default(); self.forks.len()];
        for Step { slice, link, .. } in self.ordered() {
            let of_step = Forecast {
                reads: link.cost.reads,
                read_bytes: self.geometry.bytes(link.cost.blocks),
                planned_blocks: link.wanted_blocks.into(),
                ..Forecast::default()
            };
            sum.add(&of_step);
            of_forks[self.slices[*slice as usize].fork as usize].add(&of_step);
        }
        sum.seconds = match self.situation {
            Situation::Alone => self.device.seconds(sum.reads, sum.read_bytes),
            Situation::Shared => self.device.shared_seconds(sum.reads, sum.read_bytes),
        };
        self.forecast = sum;
        self.fork_forecasts = of_forks;
    }
}
