use proptest::prelude::*;
use roaring::RoaringBitmap;

use super::*;

const GEOMETRY: Geometry = Geometry { block_size: 8192, segment_blocks: 700 };

fn wanted(blocks: u64, levels: Vec<RoaringBitmap>, resident: RoaringBitmap) -> WantedFork {
    let levels = levels.into_iter().enumerate().map(|(level, blocks)| (2f32.powi(level as i32), blocks)).collect();
    WantedFork { precedence: Precedence::ByHeat, is_index: false, blocks, levels, resident, places: Vec::new() }
}

fn any_blocks(end: u32) -> impl Strategy<Value = RoaringBitmap> {
    prop::collection::vec((0..end, 1..40u32), 0..40).prop_map(move |runs| {
        let mut blocks = RoaringBitmap::new();
        for (start, length) in runs {
            blocks.insert_range(start..(start + length).min(end));
        }
        blocks
    })
}

fn any_fork(levels: usize) -> impl Strategy<Value = WantedFork> {
    (1..3000u32).prop_flat_map(move |blocks| {
        (Just(blocks), prop::collection::vec(any_blocks(blocks), 1..=levels), any_blocks(blocks))
            .prop_map(|(blocks, levels, resident)| wanted(blocks.into(), levels, resident))
    })
}

fn any_device() -> impl Strategy<Value = DeviceProfile> {
    let overlap = prop_oneof![Just(0.0), Just(1.0), 0.0..=1.0];
    (50.0..20_000.0f64, 1u64..1000, 1u64..40, overlap).prop_map(|(reads_per_second, megabytes, blocks, overlap)| {
        DeviceProfile {
            reads_per_second,
            bandwidth: Bytes(megabytes << 20),
            largest_read: Bytes(blocks * 8192),
            overlap,
            ..DeviceProfile::default()
        }
    })
}

fn any_situation() -> impl Strategy<Value = Situation> {
    prop_oneof![Just(Situation::Alone), Just(Situation::Shared)]
}

fn all_reads(plan: &Plan) -> Vec<Read> {
    let mut scratch = Scratch::default();
    (0..plan.steps()).flat_map(|step| plan.reads(step, &mut scratch).to_vec()).collect()
}

fn missing(fork: &WantedFork) -> RoaringBitmap {
    let all = fork.levels.iter().fold(RoaringBitmap::new(), |all, (_, blocks)| all | blocks);
    all - &fork.resident
}

fn seconds(plan: &Plan, reads: &[Read]) -> f64 {
    let blocks: u64 = reads.iter().map(|read| read.range.blocks()).sum();
    match plan.situation {
        Situation::Alone => plan.device.seconds(reads.len() as u64, Bytes(blocks * 8192)),
        Situation::Shared => plan.priced_device().shared_seconds(reads.len() as u64, Bytes(blocks * 8192)),
    }
}

fn one_read_per_range(plan: &Plan, blocks_of: impl Fn(&WantedFork) -> RoaringBitmap) -> Vec<Read> {
    let mut reads = Vec::new();
    for slice in &plan.slices {
        let blocks = blocks_of(&plan.forks[slice.fork as usize]);
        let mut ranges = blocks.range(slice.start as u32..slice.end as u32);
        while let Some(range) = ranges.next_range() {
            let end = u64::from(*range.end()) + 1;
            for start in (u64::from(*range.start())..end).step_by(plan.largest_read_blocks() as usize) {
                let end = end.min(start + plan.largest_read_blocks());
                reads.push(Read { fork: slice.fork as usize, range: BlockRange::new(start, end) });
            }
        }
    }
    reads
}

fn everything(fork: &WantedFork) -> RoaringBitmap {
    let mut all = RoaringBitmap::new();
    all.insert_range(0..fork.blocks as u32);
    all - &fork.resident
}

fn count_ranges(fork: &WantedFork, largest_read: u64, segment_blocks: u64) -> u64 {
    let blocks = missing(fork);
    let mut ranges = blocks.iter();
    let mut reads = 0;
    while let Some(range) = ranges.next_range() {
        let (mut start, end) = (u64::from(*range.start()), u64::from(*range.end()) + 1);
        while start < end {
            let segment_end = (start / segment_blocks + 1) * segment_blocks;
            reads += (end.min(segment_end) - start).div_ceil(largest_read);
            start = end.min(segment_end);
        }
    }
    reads
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn every_missing_block_is_read_once(
        forks in prop::collection::vec(any_fork(4), 1..4), device in any_device(), situation in any_situation()
    ) {
        let plan = Plan::new(forks, GEOMETRY, device, situation, None);
        let mut read_blocks = vec![RoaringBitmap::new(); plan.forks.len()];
        let mut total = 0;
        for read in all_reads(&plan) {
            let blocks = &mut read_blocks[read.fork];
            let added = blocks.insert_range(read.range.start as u32..read.range.end as u32);
            prop_assert_eq!(added, read.range.blocks(), "no block is read twice");
            prop_assert!(read.range.blocks() <= plan.largest_read_blocks());
            prop_assert!(read.range.end <= plan.forks[read.fork].blocks);
            prop_assert_eq!(read.range.start / 700, (read.range.end - 1) / 700, "within one segment");
            total += added;
        }
        for (fork, read) in plan.forks.iter().zip(&read_blocks) {
            prop_assert!(missing(fork).is_subset(read));
            prop_assert!(read.is_disjoint(&fork.resident), "nothing resident is read");
        }
        let forecast = plan.forecast();
        prop_assert_eq!(forecast.read_bytes, Bytes(total * 8192));
        prop_assert_eq!(forecast.reads, all_reads(&plan).len() as u64);
        prop_assert_eq!(forecast.planned_blocks, plan.forks.iter().map(|fork| missing(fork).len()).sum::<u64>());
        prop_assert_eq!(plan.fork_forecasts.iter().map(|fork| fork.read_bytes).sum::<Bytes>(), forecast.read_bytes);
    }

    #[test]
    fn costs_no_more_than_the_simple_plans(
        forks in prop::collection::vec(any_fork(1), 1..4), device in any_device(), situation in any_situation()
    ) {
        let plan = Plan::new(forks, GEOMETRY, device, situation, None);
        let cost = seconds(&plan, &all_reads(&plan)) - 1e-9;
        prop_assert!(cost <= seconds(&plan, &one_read_per_range(&plan, missing)));
        prop_assert!(cost <= seconds(&plan, &one_read_per_range(&plan, everything)));
    }

    #[test]
    fn heat_order_costs_at_most_its_premium(
        forks in prop::collection::vec(any_fork(5), 1..3), device in any_device(), situation in any_situation()
    ) {
        let plan = Plan::new(forks, GEOMETRY, device, situation, None);
        let cost = seconds(&plan, &all_reads(&plan)) - 1e-9;
        let limit = 1.0 + HOTTEST_FIRST_PREMIUM;
        prop_assert!(cost <= limit * seconds(&plan, &one_read_per_range(&plan, missing)));
        prop_assert!(cost <= limit * seconds(&plan, &one_read_per_range(&plan, everything)));
    }

    #[test]
    fn slices_cut_no_range(fork in any_fork(1), device in any_device()) {
        let plan = Plan::new(vec![fork], GEOMETRY, device, Situation::Shared, None);
        let largest = plan.largest_read_blocks();
        let separate = one_read_per_range(&plan, missing).len() as u64;
        prop_assert_eq!(separate, count_ranges(&plan.forks[0], largest, 700));
    }

    #[test]
    fn a_budget_takes_the_head_of_the_same_order(
        forks in prop::collection::vec(any_fork(4), 1..4),
        device in any_device(),
        situation in any_situation(),
        budget in 0u64..4000
    ) {
        let whole = Plan::new(forks.clone(), GEOMETRY, device, Situation::Shared, None);
        let plan = Plan::new(forks, GEOMETRY, device, situation, Some(Bytes(budget * 8192)));
        let (all, reads) = (all_reads(&whole), all_reads(&plan));
        if plan.situation == Situation::Alone {
            prop_assert!(plan.forecast().over_budget_blocks == 0, "nothing is left out, so heat decides nothing");
            return Ok(());
        }
        prop_assert_eq!(&reads[..], &all[..reads.len()]);
        let forecast = plan.forecast();
        prop_assert!(forecast.read_bytes.0 <= budget * 8192);
        prop_assert_eq!(
            forecast.planned_blocks + forecast.over_budget_blocks, whole.forecast().planned_blocks
        );
        if let Some(next) = all.get(reads.len()) {
            prop_assert!(forecast.read_bytes.0 + next.range.blocks() * 8192 > budget * 8192, "as much as fits");
        }
    }

    #[test]
    fn merging_is_near_the_best_there_is(
        runs in prop::collection::vec((1u32..6, 1u32..30), 1..10), device in any_device()
    ) {
        let mut blocks = RoaringBitmap::new();
        let mut at = 0;
        for (length, gap) in &runs {
            blocks.insert_range(at..at + length);
            at += length + gap;
        }
        let device = DeviceProfile { largest_read: Bytes(8192 * 300), ..device };
        let forks = vec![wanted(at.into(), vec![blocks], RoaringBitmap::new())];
        let plan = Plan::new(forks, GEOMETRY, device, Situation::Alone, None);
        let best = (0..1u32 << (runs.len() - 1)).map(|merged| exhaustive(&runs, merged, &device));
        let best = best.min_by(f64::total_cmp).unwrap();
        prop_assert!(plan.forecast().seconds <= best * 1.1 + 1e-9, "{} against {best}", plan.forecast().seconds);
    }
}

/// Seconds if gaps in `merged` are read over.
fn exhaustive(runs: &[(u32, u32)], merged: u32, device: &DeviceProfile) -> f64 {
    let gaps = runs.iter().enumerate().take(runs.len() - 1);
    let over: u32 = gaps.filter(|(index, _)| merged & (1 << index) != 0).map(|(_, run)| run.1).sum();
    let blocks = over + runs.iter().map(|run| run.0).sum::<u32>();
    device.seconds(u64::from(runs.len() as u32 - merged.count_ones()), Bytes(u64::from(blocks) * 8192))
}

#[test]
fn no_gap_is_read_over_where_only_bytes_are_short() {
    let mut blocks = RoaringBitmap::new();
    (0..1000u32).for_each(|run| _ = blocks.insert_range(run * 11..run * 11 + 10));
    let device = DeviceProfile { overlap: 1.0, ..DeviceProfile::default() };
    let geometry = Geometry { block_size: 8192, segment_blocks: 131_072 };
    let forks = vec![wanted(11_000, vec![blocks], RoaringBitmap::new())];
    let plan = Plan::new(forks, geometry, device, Situation::Alone, None);
    let separate = one_read_per_range(&plan, missing);
    assert!(plan.forecast().seconds <= seconds(&plan, &separate), "{:?}", plan.forecast());
}

#[test]
fn a_plan_that_is_short_of_bytes_on_an_idle_device_reads_over_fewer_gaps() {
    let mut state = 1u64;
    let mut blocks = RoaringBitmap::new();
    for block in 0..200_000u32 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        if state >> 33 < (1 << 31) / 6 {
            blocks.insert(block);
        }
    }
    let geometry = Geometry { block_size: 8192, segment_blocks: 131_072 };
    let forecast = |overlap| {
        let device = DeviceProfile { overlap, ..DeviceProfile::default() };
        let forks = vec![wanted(200_000, vec![blocks.clone()], RoaringBitmap::new())];
        Plan::new(forks, geometry, device, Situation::Alone, None).forecast()
    };
    let (added, larger) = (forecast(0.0), forecast(1.0));
    assert!(larger.read_bytes < added.read_bytes && larger.reads > added.reads, "{added:?} {larger:?}");
    let idle = DeviceProfile { overlap: 1.0, ..DeviceProfile::default() };
    assert!(larger.seconds < 0.95 * idle.seconds(added.reads, added.read_bytes), "{added:?} {larger:?}");
}

#[test]
fn hot_slices_come_first_and_equal_ones_by_position() {
    let mut cold = RoaringBitmap::new();
    cold.insert_range(0..12_000);
    let mut hot = RoaringBitmap::new();
    hot.insert_range(8192..9216);
    let geometry = Geometry { block_size: 8192, segment_blocks: 131_072 };
    let plan = Plan::new(
        vec![wanted(12_000, vec![cold, hot], RoaringBitmap::new())],
        geometry,
        DeviceProfile::default(),
        Situation::Shared,
        None,
    );
    let reads = all_reads(&plan);
    assert_eq!(reads[0].range, BlockRange::new(8192, 8224));
    let rest: Vec<u64> = reads.iter().map(|read| read.range.start).skip_while(|start| *start >= 8192).collect();
    assert_eq!(rest[0], 0);
    assert!(rest.is_sorted());
    assert_eq!(plan.forecast().read_bytes, Bytes(12_000 * 8192));
}

#[test]
fn what_is_equally_hot_is_read_as_it_lies_on_a_device_that_seeks() {
    let all: RoaringBitmap = (0..4096).collect();
    let mut forks = vec![wanted(4096, vec![all], RoaringBitmap::new()); 3];
    let place = |first_block, device_bytes| Place { first_block, device_bytes };
    forks[0].places = vec![place(0, 1 << 30), place(2048, 1 << 29)];
    forks[1].places = vec![place(0, 1 << 20)];
    let geometry = Geometry { block_size: 8192, segment_blocks: 131_072 };
    let plan = Plan::new(forks, geometry, DeviceProfile::default(), Situation::Shared, None);
    let starts: Vec<(usize, u64)> = all_reads(&plan).iter().map(|read| (read.fork, read.range.start)).collect();
    let firsts = |fork: usize| starts.iter().position(|(of, _)| *of == fork).unwrap();
    assert_eq!((firsts(1), starts[firsts(0)], starts.last().unwrap().0), (0, (0, 2048), 2));
    assert_eq!(plan.forecast().planned_blocks, 3 * 4096);
}

#[test]
fn what_no_query_does_without_comes_first() {
    let few: RoaringBitmap = (0..64).collect();
    let mut forks: Vec<WantedFork> =
        (0..4).map(|level| wanted(64, vec![few.clone(); level + 1], RoaringBitmap::new())).collect();
    forks[0].precedence = Precedence::VisibilityMap;
    forks[1].precedence = Precedence::Catalog;
    forks[2].is_index = true;
    let geometry = Geometry { block_size: 8192, segment_blocks: 131_072 };
    let plan = Plan::new(forks, geometry, DeviceProfile::default(), Situation::Shared, None);
    let order: Vec<usize> = all_reads(&plan).iter().map(|read| read.fork).collect();
    assert_eq!(order[..5], [1, 1, 0, 0, 2]);
    assert_eq!(order.last(), Some(&2), "the rest of the index is colder than fork 3");
}

#[test]
fn on_a_device_that_seeks_a_small_file_is_as_dear_as_it_is() {
    let catalog =
        WantedFork { precedence: Precedence::Catalog, ..wanted(1, vec![(0..1).collect()], RoaringBitmap::new()) };
    let table = wanted(4096, vec![(0..4096).collect()], RoaringBitmap::new());
    let order = |places: bool, situation| {
        let mut forks = vec![table.clone(), catalog.clone()];
        let place = |device_bytes| vec![Place { first_block: 0, device_bytes }];
        if places {
            (forks[0].places, forks[1].places) = (place(1 << 30), place(0));
        }
        let geometry = Geometry { block_size: 8192, segment_blocks: 131_072 };
        let plan = Plan::new(forks, geometry, DeviceProfile::told(200.0, Bytes(87_000_000)), situation, None);
        all_reads(&plan).iter().map(|read| read.fork).collect::<Vec<_>>()
    };
    assert_eq!(order(false, Situation::Shared)[0], 1, "no query starts without it");
    assert_eq!(order(true, Situation::Shared).last(), Some(&1), "a seek for one block");
    assert_eq!(order(true, Situation::Alone)[0], 1, "one sweep");
}

#[test]
fn few_hot_blocks_scattered_among_cold_ones_get_a_pass_of_their_own() {
    let all: RoaringBitmap = (0..1024).collect();
    let hot: RoaringBitmap = (0..1024).step_by(200).collect();
    let levels = vec![(1.0, all), (64.0, hot.clone())];
    let fork = WantedFork { levels, ..wanted(1024, Vec::new(), RoaringBitmap::new()) };
    let geometry = Geometry { block_size: 8192, segment_blocks: 131_072 };
    let plan = Plan::new(vec![fork], geometry, DeviceProfile::default(), Situation::Shared, None);
    let first: RoaringBitmap = all_reads(&plan).iter().take(6).map(|read| read.range.start as u32).collect();
    assert_eq!(first, hot);
}

#[test]
fn beside_others_larger_gaps_are_read_over() {
    // A gap of seven costs more than a read alone, less than one beside a cold server.
    let scattered: RoaringBitmap = (0..4096).step_by(8).collect();
    let geometry = Geometry { block_size: 8192, segment_blocks: 131_072 };
    let device = DeviceProfile { overlap: 0.0, ..DeviceProfile::default() };
    let reads = |situation| {
        let fork = wanted(4096, vec![scattered.clone()], RoaringBitmap::new());
        Plan::new(vec![fork], geometry, device, situation, None).forecast().reads
    };
    assert_eq!((reads(Situation::Alone), reads(Situation::Shared)), (512, 128));
}

#[test]
fn of_what_is_equally_hot_indexes_come_first() {
    let all: RoaringBitmap = (0..4096).collect();
    let mut forks: Vec<WantedFork> = (0..2).map(|_| wanted(4096, vec![all.clone()], RoaringBitmap::new())).collect();
    forks[1].is_index = true;
    let order = |forks: &[WantedFork]| {
        let geometry = Geometry { block_size: 8192, segment_blocks: 131_072 };
        let plan = Plan::new(forks.to_vec(), geometry, DeviceProfile::default(), Situation::Shared, None);
        all_reads(&plan).iter().map(|read| read.fork).collect::<Vec<_>>()
    };
    assert!(order(&forks).is_sorted_by_key(|fork| 1 - fork), "a row is looked for by its index");
    forks[0].levels[0].0 = 4.0;
    let hotter = order(&forks);
    assert_eq!((hotter[0], hotter[1], hotter.last()), (1, 0, Some(&1)), "the head of the index, then the hotter table");
}
