//! Orders a plan's reads so that both budgets, reads and bytes, are always in use. A limited device grants them per 0.1
//! s, and leftovers are lost. So steps that cost mainly reads and steps that cost mainly bytes form two streams. The
//! next read comes from the stream whose budget is behind.

use std::collections::VecDeque;

use super::hot::Hot;
use super::{Plan, Read, Scratch, Situation, Step};

/// Maximum absolute value of `debt`, in seconds. The kernel's limiter drops unspent budget after 0.1 s, twice this
/// time.
const DEBT_MAX_SECONDS: f64 = 0.05;

/// During live traffic, maximum lead of one of the two streams over the other, in reads (4 s on a common volume). At
/// this lead, the leading stream waits, and its budget is lost. The limit is so high that no stream waits while
/// catalogs are read.
const SHARED_REACH_READS: f64 = 12_000.0;

#[derive(Debug)]
pub struct Mix<'a> {
    plan: &'a Plan,
    /// Steps whose main cost is the number of reads, and steps whose main cost is bytes.
    short: Stream,
    long: Stream,
    scratch: Scratch,
    /// Seconds that the reads so far need at the device's reads per second, minus the seconds that their bytes need at
    /// its bandwidth.
    debt: f64,
    begun: usize,
    hot: Option<Hot>,
    /// Whether adjacent reads may be joined. False if the device seeks, and false if its time for requests and its time
    /// for bytes add up.
    may_join: bool,
}

#[derive(Debug, Default)]
struct Stream {
    next: usize,
    /// Seconds of the plan before the current step.
    starts_at: f64,
    reads: VecDeque<Read>,
    seconds: f64,
    slice: usize,
}

impl Stream {
    fn find(&mut self, plan: &Plan, is_short: bool) -> bool {
        if self.reads.is_empty() {
            self.starts_at += std::mem::take(&mut self.seconds);
        }
        while self.reads.is_empty() && self.next < plan.steps() {
            let step = plan.step(self.next);
            if plan.is_short(step) == is_short {
                break;
            }
            self.starts_at += step.link.seconds;
            self.next += 1;
        }
        !self.reads.is_empty() || self.next < plan.steps()
    }
}

impl<'a> Mix<'a> {
    pub fn new(plan: &'a Plan) -> Mix<'a> {
        let (short, long) = Default::default();
        Mix {
            plan,
            short,
            long,
            scratch: Scratch::default(),
            debt: 0.0,
            begun: 0,
            hot: plan.hot(),
            may_join: !plan.seeks() && plan.device.overlap > 0.0,
        }
    }

    pub fn is_at_cold_rest(&self) -> bool {
        self.hot.is_some_and(|hot| hot.is_begun())
    }

    /// Next read, and its step's number, from 1. `read_worth`: factor on a read's cost, above 1 if the server also
    /// reads.
    pub fn next(&mut self, read_worth: f64) -> Option<(usize, Read)> {
        let (has_short, has_long) = (self.short.find(self.plan, true), self.long.find(self.plan, false));
        let ahead = self.short.starts_at - self.long.starts_at;
        let takes_short = match (has_short, has_long) {
            (false, false) => return None,
            (true, true) if ahead.abs() > self.reach_seconds() => ahead < 0.0,
            (true, true) => self.debt <= 0.0,
            (has_short, _) => has_short,
        };
        let stream = if takes_short { &mut self.short } else { &mut self.long };
        if stream.reads.is_empty() {
            stream.reads.extend(self.plan.reads(stream.next, &mut self.scratch));
            let link = &self.plan.step(stream.next).link;
            if let Some(hot) = &mut self.hot {
                hot.begin(link);
            }
            stream.seconds = link.seconds;
            stream.next += 1;
            self.begun += 1;
            stream.slice = self.begun;
        }
        let read = stream.reads.pop_front()?;
        let (of_reads, of_bytes) = self.plan.prices(1, read.range.blocks());
        self.debt = (self.debt + read_worth * of_reads - of_bytes).clamp(-DEBT_MAX_SECONDS, DEBT_MAX_SECONDS);
        Some((stream.slice, read))
    }

    /// Extends `read` by the adjacent reads that follow in its step, if `may_join`. Does nothing while short reads
    /// remain, because short and long reads alternate to use both budgets.
    pub fn join(&mut self, read: Read) -> Read {
        let mut joined = read;
        if !self.may_join || self.short.find(self.plan, true) {
            return joined;
        }
        let is_next = |next: &&Read, joined: &Read| next.fork == joined.fork && next.range.start == joined.range.end;
        while let Some(next) = self.long.reads.front().filter(|next| is_next(next, &joined)) {
            joined.range.end = next.range.end;
            self.long.reads.pop_front();
        }
        joined
    }

    /// Maximum lead of the stream `short` over the stream `long`, or the reverse, in seconds of the plan. 0 keeps the
    /// plan's order. It is 0 if the device's time for requests and its time for bytes add up, as on rotating disks.
    fn reach_seconds(&self) -> f64 {
        let device = &self.plan.device;
        match self.plan.situation {
            _ if device.overlap == 0.0 => 0.0,
            Situation::Alone => f64::INFINITY,
            Situation::Shared => SHARED_REACH_READS / device.reads_per_second,
        }
    }
}

impl Plan {
    fn step(&self, nth: usize) -> &Step {
        &self.steps[self.order[nth] as usize]
    }

    fn is_short(&self, step: &Step) -> bool {
        let (of_reads, of_bytes) = self.prices(step.link.cost.reads, step.link.cost.blocks);
        of_reads > of_bytes
    }

    /// Seconds for the number of reads, and seconds for the bytes.
    fn prices(&self, reads: u64, blocks: u64) -> (f64, f64) {
        let of_bytes = self.geometry.bytes(blocks).seconds_at(self.device.bandwidth);
        (reads as f64 / self.device.reads_per_second, of_bytes)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use roaring::RoaringBitmap;

    use super::*;
    use crate::warm::DeviceProfile;
    use crate::warm::plan::{Geometry, Precedence, WantedFork};
    use host::units::BlockRange;

    const GEOMETRY: Geometry = Geometry { block_size: 8192, segment_blocks: 131_072 };

    fn fork(blocks: u32, run: u32, gap: u32) -> WantedFork {
        let mut wanted = RoaringBitmap::new();
        (0..blocks).step_by((run + gap) as usize).for_each(|at| _ = wanted.insert_range(at..blocks.min(at + run)));
        WantedFork {
            precedence: Precedence::ByHeat,
            is_index: false,
            blocks: blocks.into(),
            levels: vec![(1.0, wanted)],
            resident: RoaringBitmap::new(),
            places: Vec::new(),
        }
    }

    fn of_heat(heat: f32, blocks: u32) -> WantedFork {
        let mut fork = fork(blocks, 1, 0);
        fork.levels[0].0 = heat;
        fork
    }

    fn any_fork() -> impl Strategy<Value = WantedFork> {
        (1..40_000u32, 1..60u32, 0..200u32).prop_map(|(blocks, run, gap)| fork(blocks, run, gap))
    }

    fn all_turns(plan: &Plan) -> Vec<(usize, Read)> {
        let mut mix = Mix::new(plan);
        std::iter::from_fn(|| mix.next(1.0)).collect()
    }

    /// A limited device: per 0.1 s, unspent budget is lost and an overdraft deducted from the next.
    fn simulate(plan: &Plan, reads: impl Iterator<Item = Read>) -> f64 {
        const TENTH: f64 = 0.1;
        let mut seconds = 0.0;
        let (mut left_of_reads, mut left_of_bytes) = (TENTH, TENTH);
        for read in reads {
            while left_of_reads <= 0.0 || left_of_bytes <= 0.0 {
                seconds += TENTH;
                (left_of_reads, left_of_bytes) = (left_of_reads.min(0.0) + TENTH, left_of_bytes.min(0.0) + TENTH);
            }
            let (of_reads, of_bytes) = plan.prices(1, read.range.blocks());
            (left_of_reads, left_of_bytes) = (left_of_reads - of_reads, left_of_bytes - of_bytes);
        }
        seconds + TENTH - left_of_reads.min(left_of_bytes).max(0.0)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn the_larger_budget_is_all_that_a_plan_takes(forks in prop::collection::vec(any_fork(), 1..12)) {
            let plan = Plan::new(forks, GEOMETRY, DeviceProfile::default(), Situation::Alone, None);
            let forecast = plan.forecast();
            let (of_reads, of_bytes) = plan.prices(forecast.reads, forecast.read_bytes.0 / 8192);
            let seconds = simulate(&plan, all_turns(&plan).into_iter().map(|turn| turn.1));
            prop_assert!(seconds <= 1.03 * of_reads.max(of_bytes) + 0.1, "{seconds}: {of_reads}, {of_bytes}");
        }

        #[test]
        fn every_read_goes_out_once(
            forks in prop::collection::vec(any_fork(), 1..6), is_alone: bool, read_worth in 1.0..3.0f64
        ) {
            let situation = if is_alone { Situation::Alone } else { Situation::Shared };
            let plan = Plan::new(forks, GEOMETRY, DeviceProfile::default(), situation, None);
            let mut mix = Mix::new(&plan);
            let mut mixed: Vec<Read> = std::iter::from_fn(|| mix.next(read_worth)).map(|turn| turn.1).collect();
            let mut scratch = Scratch::default();
            let mut planned: Vec<Read> =
                (0..plan.steps()).flat_map(|step| plan.reads(step, &mut scratch).to_vec()).collect();
            let place = |read: &Read| (read.fork, read.range.start);
            mixed.sort_by_key(place);
            planned.sort_by_key(place);
            prop_assert_eq!(mixed, planned);
        }
    }

    #[test]
    fn what_goes_on_in_a_slice_is_joined() {
        let plan = Plan::new(
            vec![fork(5000, 1, 0), fork(5000, 40, 60)],
            GEOMETRY,
            DeviceProfile::default(),
            Situation::Alone,
            None,
        );
        let single = all_turns(&plan).into_iter().map(|turn| turn.1);
        let mut mix = Mix::new(&plan);
        let joined: Vec<Read> = std::iter::from_fn(|| mix.next(1.0).map(|turn| mix.join(turn.1))).collect();
        let blocks = |reads: &mut dyn Iterator<Item = Read>| {
            let mut of_forks = [RoaringBitmap::new(), RoaringBitmap::new()];
            reads.for_each(|read| _ = of_forks[read.fork].insert_range(read.range.start as u32..read.range.end as u32));
            of_forks
        };
        assert_eq!(blocks(&mut joined.iter().copied()), blocks(&mut single.into_iter()));
        let of_first = joined.iter().filter(|read| read.fork == 0);
        assert_eq!(of_first.map(|read| read.range.blocks()).collect::<Vec<u64>>(), [1024, 1024, 1024, 1024, 904]);
    }

    #[test]
    fn in_the_plans_own_order_it_would_take_longer() {
        let forks = vec![fork(60_000, 1, 9), fork(40_000, 1, 0)];
        let plan = Plan::new(forks, GEOMETRY, DeviceProfile::default(), Situation::Alone, None);
        let mut scratch = Scratch::default();
        let in_order = (0..plan.steps()).flat_map(|step| plan.reads(step, &mut scratch).to_vec());
        let in_order = simulate(&plan, in_order.collect::<Vec<_>>().into_iter());
        let mixed = simulate(&plan, all_turns(&plan).into_iter().map(|turn| turn.1));
        assert!(mixed < 0.75 * in_order, "{mixed} {in_order}");
    }

    #[test]
    fn beside_others_nothing_comes_much_sooner_than_its_heat_says() {
        let mut hot = fork(400_000, 1, 19);
        hot.levels[0].0 = 1000.0;
        let last_hot = |situation| {
            let forks = vec![hot.clone(), fork(200_000, 1, 0)];
            let plan = Plan::new(forks, GEOMETRY, DeviceProfile::default(), situation, None);
            let turns = all_turns(&plan);
            let at = turns.iter().rposition(|turn| turn.1.fork == 0).unwrap();
            turns[..at].iter().filter(|turn| turn.1.fork == 1).map(|turn| turn.1.range.blocks()).sum::<u64>() * 8192
        };
        let (shared, alone) = (last_hot(Situation::Shared), last_hot(Situation::Alone));
        assert!(shared > 0 && shared <= (125 << 20) * 45 / 10 && shared < alone, "{shared} {alone}");
    }

    #[test]
    fn the_cold_rest_is_at_hand_when_what_is_hot_has_been_begun() {
        let begun_blocks = |forks: Vec<WantedFork>| {
            let plan = Plan::new(forks, GEOMETRY, DeviceProfile::default(), Situation::Shared, None);
            let (mut mix, mut begun) = (Mix::new(&plan), 0);
            while !mix.is_at_cold_rest() {
                begun += mix.next(1.0)?.1.range.blocks();
            }
            Some(begun)
        };
        let begun = begun_blocks(vec![of_heat(0.001, 150_000), of_heat(50.0, 2_700), of_heat(1.0, 16_400)]).unwrap();
        assert!((17_000..=19_100).contains(&begun), "{begun} of 19,100 hot ones");
        assert_eq!(begun_blocks(vec![of_heat(1.0, 150_000), of_heat(1.0, 16_400)]), None, "all are alike");
    }

    #[test]
    fn a_rest_that_is_planned_late_in_the_hot_part_knows_where_that_ends() {
        let forks = vec![of_heat(1.0, 150_000), of_heat(100.0, 19_200)];
        let plan = Plan::new(forks, GEOMETRY, DeviceProfile::default(), Situation::Alone, None);
        let begun_hot_blocks = |brought: u32| {
            let brought = [RoaringBitmap::new(), (0..brought).collect()];
            let rest = plan.rest(&brought, Situation::Shared);
            assert!(Hot::of(rest.ordered().map(|step| &step.link)).is_some() == brought[1].is_empty());
            let (mut mix, mut begun) = (Mix::new(&rest), 0);
            while !mix.is_at_cold_rest() {
                let (_, read) = mix.next(1.0).unwrap();
                begun += if read.fork == 1 { read.range.blocks() } else { 0 };
            }
            begun
        };
        assert!((17_000..=19_200).contains(&begun_hot_blocks(0)));
        assert!((50..=1200).contains(&begun_hot_blocks(18_000)), "too little is left for a drop of its own");
        assert_eq!(begun_hot_blocks(19_200), 0);
    }

    #[test]
    fn reads_of_two_forks_are_not_joined() {
        let plan = Plan::new(Vec::new(), GEOMETRY, DeviceProfile::default(), Situation::Alone, None);
        let read = |fork, start, end| Read { fork, range: BlockRange::new(start, end) };
        let joined = |fork| {
            let mut mix = Mix::new(&plan);
            mix.long.reads.push_back(read(1, 10, 20));
            mix.join(read(fork, 0, 10))
        };
        assert_eq!(joined(1), read(1, 0, 20));
        assert_eq!(joined(0), read(0, 0, 10));
    }

    #[test]
    fn a_head_that_seeks_keeps_to_the_plans_order() {
        let device = DeviceProfile { overlap: 0.0, ..DeviceProfile::default() };
        for situation in [Situation::Alone, Situation::Shared] {
            let forks = vec![fork(60_000, 1, 9), fork(40_000, 1, 0), fork(60_000, 1, 9)];
            let plan = Plan::new(forks, GEOMETRY, device, situation, None);
            let mut scratch = Scratch::default();
            let planned: Vec<Read> = (0..plan.steps()).flat_map(|at| plan.reads(at, &mut scratch).to_vec()).collect();
            let mixed: Vec<Read> = all_turns(&plan).into_iter().map(|turn| turn.1).collect();
            assert_eq!(mixed, planned);
        }
    }

    #[test]
    fn where_others_take_reads_too_more_of_ours_are_large() {
        let plan = Plan::new(
            vec![fork(60_000, 1, 9), fork(40_000, 1, 0)],
            GEOMETRY,
            DeviceProfile::default(),
            Situation::Alone,
            None,
        );
        let large = |read_worth| {
            let mut mix = Mix::new(&plan);
            (0..400).filter(|_| mix.next(read_worth).unwrap().1.fork == 1).count()
        };
        assert!(large(3.0) > 2 * large(1.0), "{} {}", large(3.0), large(1.0));
    }
}
