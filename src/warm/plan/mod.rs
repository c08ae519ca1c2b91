//! Which reads to issue, and in which order: a pure function of what is wanted, what is resident and what the device
//! can give. docs/plan.md has the cost model and the reasons.
//!
//! A plan of 2 TB has to fit in memory, so it keeps *steps*, each a few megabytes of one fork, and computes the reads of
//! a step when they are asked for ([`Plan::reads`]).

mod balance;
mod cells;
mod chain;
mod merge;
mod slices;
mod wanted;

#[cfg(test)]
mod tests;

use std::cmp::Reverse;

use serde::Serialize;

use balance::{Pricing, choose_balance};
use cells::Cells;
use chain::Link;
use merge::Cost;
use slices::{Slice, Slices};

pub use wanted::{Geometry, MAX_LEVELS, Place, Precedence, WantedFork};

use super::DeviceProfile;
use crate::units::{BlockRange, Bytes};

/// One read of one segment of one fork.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    /// Index in [`Plan::forks`].
    pub fork: usize,
    pub range: BlockRange,
}

/// What a plan says of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Forecast {
    /// Reads that the device will see.
    pub reads: u64,
    /// Bytes that it will deliver, those of gaps included.
    pub read_bytes: Bytes,
    /// Seconds that it needs when nobody else uses it.
    pub seconds: f64,
    /// Wanted blocks that were resident already.
    pub resident_blocks: u64,
    /// Wanted blocks that the reads bring.
    pub planned_blocks: u64,
    /// Wanted blocks for which the budget had no room.
    pub over_budget_blocks: u64,
}

impl Forecast {
    /// Adds what comes afterwards.
    pub fn add(&mut self, later: &Forecast) {
        self.reads += later.reads;
        self.read_bytes += later.read_bytes;
        self.seconds += later.seconds;
        self.resident_blocks += later.resident_blocks;
        self.planned_blocks += later.planned_blocks;
        self.over_budget_blocks += later.over_budget_blocks;
    }
}

/// What the plan says of one fork.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ForkForecast {
    pub read_bytes: Bytes,
    pub planned_blocks: u64,
}

/// The part of the device's time that reading hot blocks first may cost on top.
const HOTTEST_FIRST_PREMIUM: f64 = 0.2;

/// One pass over one slice of a fork.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Step {
    slice: u32,
    precedence: Precedence,
    link: Link,
}

/// The ordered reads of a restore.
#[derive(Debug)]
pub struct Plan {
    forks: Vec<WantedFork>,
    geometry: Geometry,
    device: DeviceProfile,
    slices: Vec<Slice>,
    /// Steps by place: those of a slice stand together, in the order in which they must be done.
    steps: Vec<Step>,
    /// Indexes of `steps`, in the order of the plan.
    order: Vec<u32>,
    forecast: Forecast,
    fork_forecasts: Vec<ForkForecast>,
}

/// Room for computing the reads of one step after another.
#[derive(Debug, Default)]
pub struct Scratch {
    cells: Cells,
    reads: Vec<Read>,
}

impl Plan {
    /// Plans the reads that bring from `device` what is wanted of `forks` and not resident yet, hottest first and at
    /// most `budget` bytes. Forks are told apart by their index; give them in the order of their places on the device.
    pub fn new(forks: Vec<WantedFork>, geometry: Geometry, device: DeviceProfile, budget: Option<Bytes>) -> Plan {
        let mut plan = Plan {
            forks,
            geometry,
            device,
            slices: Vec::new(),
            steps: Vec::new(),
            order: Vec::new(),
            forecast: Forecast::default(),
            fork_forecasts: Vec::new(),
        };
        let mut scratch = Scratch::default();
        plan.cut_into_steps(&mut scratch.cells);
        plan.order_steps();
        if let Some(budget) = budget {
            plan.apply_budget(budget, &mut scratch);
        }
        plan.compute_forecast();
        plan
    }

    /// The forks that were given, in their order.
    pub fn forks(&self) -> &[WantedFork] {
        &self.forks
    }

    /// How the files that it reads are cut.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// What the device delivers in the time that one read costs on top.
    pub fn gap_bytes(&self) -> Bytes {
        Bytes((self.device.bandwidth.0 as f64 / self.device.reads_per_second) as u64)
    }

    /// How many stretches of reads it has, in order.
    pub fn steps(&self) -> usize {
        self.order.len()
    }

    /// What it says of itself.
    pub fn forecast(&self) -> Forecast {
        self.forecast
    }

    /// The reads of the `nth` step, by position.
    pub fn reads<'a>(&self, nth: usize, scratch: &'a mut Scratch) -> &'a [Read] {
        let index = self.order[nth] as usize;
        let step = self.steps[index];
        let slice = self.slices[step.slice as usize];
        let Scratch { cells, reads } = scratch;
        cells.fill(&self.forks[slice.fork as usize], slice.start, slice.end);
        let earlier = self.steps[..index].iter().rev().take_while(|other| other.slice == step.slice).count();
        self.steps[index - earlier..index].iter().for_each(|other| chain::apply(&other.link, cells));
        reads.clear();
        let largest = self.largest_read_blocks();
        merge::for_each_read(cells, step.link.coldest, step.link.merging, largest, |start, end| {
            let range = BlockRange::new(slice.start + u64::from(start), slice.start + u64::from(end));
            reads.push(Read { fork: slice.fork as usize, range });
        });
        reads.truncate(step.link.cost.reads as usize);
        reads
    }

    /// What it says of one fork.
    pub fn fork_forecast(&self, fork: usize) -> ForkForecast {
        self.fork_forecasts[fork]
    }

    fn ordered(&self) -> impl Iterator<Item = &Step> {
        self.order.iter().map(|index| &self.steps[*index as usize])
    }

    fn bytes(&self, blocks: u64) -> Bytes {
        Bytes(blocks * u64::from(self.geometry.block_size))
    }

    fn largest_read_blocks(&self) -> u32 {
        let blocks = self.device.largest_read.0 / u64::from(self.geometry.block_size);
        blocks.clamp(1, slices::MAX_READ_BLOCKS.into()) as u32
    }

    /// Cuts all forks into slices and these into steps. Where the prices overlap what each slice pays for its hottest blocks
    /// does not bound what the whole pays, so it is looked at, and less is paid where it is too much.
    fn cut_into_steps(&mut self, cells: &mut Cells) {
        let (device, geometry, largest_read) = (self.device, self.geometry, self.largest_read_blocks());
        let pricing = Pricing { device: &device, geometry, largest_read, balance: balance::Balance::ByPrice };
        let (balance, seconds) = choose_balance(&self.forks, pricing, cells);
        for premium in [HOTTEST_FIRST_PREMIUM, HOTTEST_FIRST_PREMIUM / 2.0, 0.0] {
            let mut pricing = Pricing { balance, ..pricing };
            self.slices.clear();
            self.steps.clear();
            self.forecast.resident_blocks = 0;
            for fork in 0..self.forks.len() {
                self.add_fork(fork, &mut pricing, premium, cells);
            }
            if self.steps_seconds() <= seconds * (1.0 + HOTTEST_FIRST_PREMIUM) {
                break;
            }
        }
    }

    /// Seconds that the idle device takes for all steps.
    fn steps_seconds(&self) -> f64 {
        let costs = self.steps.iter().map(|step| (u64::from(step.link.cost.reads), u64::from(step.link.cost.blocks)));
        let (reads, blocks) = costs.fold((0, 0), |sum, cost| (sum.0 + cost.0, sum.1 + cost.1));
        self.device.seconds(reads, self.bytes(blocks))
    }

    /// Cuts a fork into slices and each slice into steps.
    fn add_fork(&mut self, fork: usize, pricing: &mut Pricing<'_>, premium: f64, cells: &mut Cells) {
        let wanted = &self.forks[fork];
        let heat = |level: u8| f64::from(wanted.levels[usize::from(level)].0);
        let mut slices = Slices::new(wanted, fork as u32, self.geometry.segment_blocks, pricing.largest_read);
        while let Some(slice) = slices.next(cells) {
            self.forecast.resident_blocks += cells.resident_wanted;
            let precedence = if slice.is_head { Precedence::IndexHead } else { wanted.precedence };
            let links = chain::links(cells, heat, &pricing.next(cells), premium);
            if !links.is_empty() {
                let number = self.slices.len() as u32;
                self.slices.push(slice);
                self.steps.extend(links.into_iter().map(|link| Step { slice: number, precedence, link }));
            }
        }
    }

    fn order_steps(&mut self) {
        let place = |slice: &Slice| self.forks[slice.fork as usize].place_of(slice.start, self.geometry.block_size);
        let places: Vec<u64> = match self.forks.iter().any(|fork| !fork.places.is_empty()) {
            true => self.slices.iter().map(place).collect(),
            false => Vec::new(),
        };
        // Steps are kept by fork and block, so their index orders them where no place does.
        let key = |index: &u32| {
            let step = &self.steps[*index as usize];
            let place = places.get(step.slice as usize);
            (step.precedence, Reverse(density_class(step.link.density())), place, *index)
        };
        let mut order: Vec<u32> = (0..self.steps.len() as u32).collect();
        order.sort_unstable_by_key(key);
        self.order = order;
    }

    /// Keeps of the order what is within the budget. The last step may lose some of its reads.
    fn apply_budget(&mut self, budget: Bytes, scratch: &mut Scratch) {
        let mut left_blocks = budget.0 / u64::from(self.geometry.block_size);
        let mut fits = |index: &u32| {
            let left = left_blocks.checked_sub(self.steps[*index as usize].link.cost.blocks.into());
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

    /// The first reads of the `nth` step, as many as `left_blocks` has room for.
    fn trim(&self, nth: usize, mut left_blocks: u64, scratch: &mut Scratch) -> Link {
        let step = self.steps[self.order[nth] as usize];
        let start = self.slices[step.slice as usize].start;
        let mut trimmed = Link { cost: Cost::default(), wanted_blocks: 0, ..step.link };
        self.reads(nth, scratch);
        for read in &scratch.reads {
            let Some(left) = left_blocks.checked_sub(read.range.blocks()) else { break };
            left_blocks = left;
            trimmed.cost.reads += 1;
            trimmed.cost.blocks += read.range.blocks() as u32;
            let (from, to) = ((read.range.start - start) as u32, (read.range.end - start) as u32);
            scratch.cells.count_levels(from, to, |_| trimmed.wanted_blocks += 1);
        }
        trimmed
    }

    fn compute_forecast(&mut self) {
        let mut sum = self.forecast;
        let mut of_forks = vec![ForkForecast::default(); self.forks.len()];
        for step in self.ordered() {
            let bytes = self.bytes(step.link.cost.blocks.into());
            sum.reads += u64::from(step.link.cost.reads);
            sum.read_bytes += bytes;
            sum.planned_blocks += u64::from(step.link.wanted_blocks);
            let of_fork = &mut of_forks[self.slices[step.slice as usize].fork as usize];
            of_fork.read_bytes += bytes;
            of_fork.planned_blocks += u64::from(step.link.wanted_blocks);
        }
        sum.seconds = self.device.seconds(sum.reads, sum.read_bytes);
        self.forecast = sum;
        self.fork_forecasts = of_forks;
    }
}

/// Densities that are nearly the same count as the same, so that what is equally hot is read by position.
fn density_class(density: f64) -> i32 {
    density.log(1.5).floor() as i32
}
