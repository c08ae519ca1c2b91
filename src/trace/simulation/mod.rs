//! How long a job would take with and without a preload: a pure function of what it will touch, what is cached and what the device
//! gives. docs/films.md has the model.
//!
//! The device serves one read after another; each costs its share of the reads per second and its bytes. Each of the job's processes asks
//! for the next piece, waits for what is missing, and works in between. A preload keeps a few reads waiting all the time, so that one of
//! the job's own stands behind them.

mod job;
mod moments;

use std::collections::BTreeMap;

use serde::Serialize;

pub use self::job::{DEPTH, Job};
use self::job::{Step, beside, seconds};
use self::moments::Simulation;
use super::fetching::{Fetching, fetched_blocks};
use super::touched::{Piece, Touched, count_in};
use crate::units::Bytes;
use crate::warm::DeviceProfile;
use crate::warm::plan::Read;

/// The part of a job's time that is not the device's is not taken for less than this, 0 to 1.
const OWN_SHARE_MIN: f64 = 0.05;

/// Steps in which a job's price is brought down to what it was: each gets nearer.
const CALIBRATIONS: usize = 5;

/// It is near enough by this part, 0 to 1.
const CALIBRATED: f64 = 0.01;

/// A job that waited for the device for less than this part of its time tells nothing of what a read costs, 0 to 1.
const WAITED_SHARE_MIN: f64 = 0.05;

/// A preload that gains less than this part of the job's time is left out, 0 to 1.
pub const GAIN_MIN: f64 = 0.1;

/// A way to bring what a job needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// The job fetches all by itself.
    Nothing,
    /// While the job runs, by file and position.
    Sorted,
    /// While the job runs, the same reads by when the job needs them.
    Region,
    /// Before the job runs.
    SetFirst,
    /// Just ahead of the job, as far as there is room.
    Windowed,
}

impl Way {
    /// The word for it in text and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Way::Nothing => "nothing",
            Way::Sorted => "sorted",
            Way::Region => "region",
            Way::SetFirst => "set_first",
            Way::Windowed => "windowed",
        }
    }
}

/// What a film tells of the run that it is of.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    pub seconds: f64,
    /// Reads of the device meanwhile, if they were counted.
    pub device_reads: Option<u64>,
    /// Was nothing, or nearly nothing, preloaded? Then all of the device's time was the job's.
    pub is_cold: bool,
    /// What was preloaded for it, in the same seconds.
    pub preloaded: Bytes,
}

impl Run {
    /// The same of a job that has only this part of it to do, 0 to 1.
    pub fn part(self, part: f64) -> Run {
        let device_reads = self.device_reads.map(|reads| (reads as f64 * part) as u64);
        let preloaded = Bytes((self.preloaded.0 as f64 * part) as u64);
        Run { seconds: self.seconds * part, device_reads, preloaded, ..self }
    }
}

/// What the device did for a job that found little cached.
#[derive(Clone, Copy, Debug, Default)]
struct Cold {
    blocks: u64,
    ahead_blocks: u64,
    /// For what the job waits for, and for what the kernel reads ahead of it.
    single_reads: f64,
    ahead_reads: f64,
}

impl Cold {
    fn new(touched: &Touched, fetching: Fetching) -> Cold {
        touched.pieces.iter().fold(Cold::default(), |mut sum, piece| {
            let blocks = fetched_blocks(touched, piece);
            let reads = fetching.priced_reads_of(blocks);
            sum.blocks += u64::from(blocks);
            if fetching.is_ahead(blocks) {
                sum.ahead_blocks += u64::from(blocks);
                sum.ahead_reads += reads;
            } else {
                sum.single_reads += reads;
            }
            sum
        })
    }

    /// The device, when it has done all of it within so many seconds: it gives no fewer reads and bytes than that takes, and works off
    /// as much of the one while it does the other; and who asked for one read after another waited no longer.
    fn prove(self, device: DeviceProfile, run_seconds: f64, block_size: u32) -> DeviceProfile {
        let (reads, bytes) = (self.single_reads + self.ahead_reads, self.blocks as f64 * f64::from(block_size));
        let reads_per_second = device.reads_per_second.max(reads / run_seconds);
        let bandwidth = (device.bandwidth.0 as f64).max(bytes / run_seconds);
        let (of_reads, of_bytes) = (reads / reads_per_second, bytes / bandwidth);
        let overlap = (of_reads + of_bytes - run_seconds) / of_reads.min(of_bytes).max(f64::MIN_POSITIVE);
        let overlap = overlap.clamp(device.overlap.clamp(0.0, 1.0), 1.0);
        let proven = DeviceProfile { reads_per_second, bandwidth: Bytes(bandwidth as u64), overlap, ..device };
        let left = (run_seconds - seconds(&proven, reads, bytes)).max(0.0) / self.single_reads.max(f64::MIN_POSITIVE);
        DeviceProfile { alone_seconds: proven.alone_seconds.min(1.0 / reads_per_second + left), ..proven }
    }

    /// The seconds that are the job's own of so many: spread evenly over its blocks, and hidden behind what is read ahead.
    fn own_seconds(self, run_seconds: f64, device: &DeviceProfile, block_size: u32) -> f64 {
        let bytes = |blocks: u64| blocks as f64 * f64::from(block_size);
        let single_seconds = seconds(device, self.single_reads, bytes(self.blocks - self.ahead_blocks))
            + self.single_reads * device.wait_seconds();
        let ahead_seconds = seconds(device, self.ahead_reads, bytes(self.ahead_blocks));
        let ahead_share = self.ahead_blocks as f64 / self.blocks.max(1) as f64;
        let own = (run_seconds - single_seconds - ahead_seconds) / (1.0 - ahead_share);
        if own * ahead_share <= ahead_seconds { own } else { run_seconds - single_seconds }
    }
}

impl Job {
    /// The job of a film that was recorded in `run`.
    pub fn new(touched: &Touched, run: Run, device: DeviceProfile, block_size: u32) -> Job {
        let fetching = Fetching::new(touched, run.device_reads.filter(|_| run.is_cold), block_size);
        let cold = Cold::new(touched, fetching);
        let least = run.seconds * OWN_SHARE_MIN;
        let proves = run.is_cold && run.seconds > 0.0;
        let (readers, at_once) = (steps_of_readers(touched), touched.at_once.max(1.0));
        let device = beside(device, at_once);
        let device = if proves { cold.prove(device, run.seconds - least, block_size) } else { device };
        // A job that was helped worked while it was brought what it needs, or afterwards: at least what is left of its time was its own.
        let own_seconds = match proves {
            true => cold.own_seconds(run.seconds, &device, block_size),
            false => cold.own_seconds(run.seconds - preload_seconds(&device, run.preloaded), &device, block_size),
        };
        let own_seconds = own_seconds.max(least);
        let step = |piece: &Piece, missing_blocks: u32| {
            let bytes = f64::from(missing_blocks) * f64::from(block_size);
            let priced = fetching.priced_reads_of(missing_blocks);
            let (reads, is_ahead) = (fetching.reads_of(missing_blocks).max(1), fetching.is_ahead(missing_blocks));
            let waits = if is_ahead { 0.0 } else { priced * device.wait_seconds() };
            Step { piece: *piece, missing_blocks, reads, seconds: seconds(&device, priced, bytes) + waits, is_ahead }
        };
        let cold_steps = touched.pieces.iter().map(|piece| step(piece, fetched_blocks(touched, piece))).collect();
        let blocks = touched.pieces.iter().map(|piece| u64::from(piece.blocks)).sum();
        let mut cheaper = 1.0;
        let order = by_position(touched);
        let mut job = Job { steps: cold_steps, order, blocks, own_seconds, readers, at_once, device, block_size };
        if proves {
            // What pieces cost one by one is not quite what they cost together: alone, and as cold, the job takes what it took.
            match job.fetches_at_once() {
                true => job.own_seconds *= (run.seconds / job.simulate_without_misses()).min(1.0),
                false => job.own_seconds = (own_seconds + run.seconds - job.simulate(&[])).max(least),
            }
            cheaper = job.make_cheaper(run.seconds);
        }
        let missing = |piece: &Piece| {
            piece.blocks - count_in(&touched.forks[piece.fork as usize].resident, piece.start, piece.blocks)
        };
        job.steps = touched.pieces.iter().map(|piece| step(piece, missing(piece))).collect();
        job.steps.iter_mut().for_each(|step| step.seconds *= cheaper);
        job
    }

    /// Pieces that are priced one by one cost more than together, where the device does of one what another leaves; and of several
    /// processes one works while another waits. Changes the price of all until the job takes what it took, and returns by which factor.
    fn make_cheaper(&mut self, run_seconds: f64) -> f64 {
        let mut cheaper = 1.0;
        // It would be sought until it is nought or endless, for it changes nothing.
        if self.steps.iter().map(|step| step.seconds).sum::<f64>() < WAITED_SHARE_MIN * run_seconds {
            return cheaper;
        }
        for _ in 0..CALIBRATIONS {
            let simulated = self.simulate(&[]);
            let is_alone = !self.fetches_at_once();
            if is_alone && simulated <= run_seconds || (simulated - run_seconds).abs() <= CALIBRATED * run_seconds {
                break;
            }
            let own = if is_alone { self.own_seconds.min(run_seconds) } else { 0.0 };
            let factor = (run_seconds - own) / (simulated - own);
            self.steps.iter_mut().for_each(|step| step.seconds *= factor);
            cheaper *= factor;
        }
        cheaper
    }

    /// The device as the job saw it.
    pub fn device(&self) -> DeviceProfile {
        self.device
    }

    /// Seconds in which it does not wait for the device.
    pub fn own_seconds(&self) -> f64 {
        self.own_seconds
    }

    /// Seconds that a list of reads takes.
    fn load_seconds(&self, reads: &[Read]) -> f64 {
        reads.iter().map(|read| self.read_seconds(read.range.blocks() as u32)).sum()
    }

    /// Seconds that it takes where it misses nothing: the longest of its processes has its own work.
    fn simulate_without_misses(&self) -> f64 {
        let steps = self.steps.iter().map(|step| Step { missing_blocks: 0, ..*step }).collect();
        Job { steps, ..self.clone() }.simulate(&[])
    }

    /// Seconds until the job ends, `reads` being brought in this order while it runs.
    pub fn simulate(&self, reads: &[Read]) -> f64 {
        Simulation::new(self, reads).run()
    }

    /// Seconds of a job for which these reads, that bring all it touches, were done before it began.
    pub fn simulate_set_first(&self, reads: &[Read]) -> f64 {
        self.load_seconds(reads) + self.own_seconds
    }
}

/// Seconds that a preload takes at least: of large reads it is the bytes that count.
fn preload_seconds(device: &DeviceProfile, bytes: Bytes) -> f64 {
    bytes.0 as f64 / device.bandwidth.0.max(1) as f64
}

/// The places of the pieces, by fork and position.
fn by_position(touched: &Touched) -> Vec<u32> {
    let mut order: Vec<u32> = (0..touched.pieces.len() as u32).collect();
    order.sort_unstable_by_key(|at| (touched.pieces[*at as usize].fork, touched.pieces[*at as usize].start));
    order
}

/// The steps of each process that has any, in order.
fn steps_of_readers(touched: &Touched) -> Vec<Vec<u32>> {
    let mut steps: BTreeMap<u8, Vec<u32>> = BTreeMap::new();
    for step in 0..touched.pieces.len() {
        let fetcher = touched.fetchers.get(step).copied().unwrap_or_default();
        steps.entry(fetcher).or_default().push(step as u32);
    }
    steps.into_values().collect()
}

#[cfg(test)]
mod tests {
    use roaring::RoaringBitmap;

    use super::*;
    use crate::postgres::RelationPath;
    use crate::trace::touched::TouchedFork;
    use crate::units::{BlockRange, Fork};

    const BLOCK: u32 = 8192;

    /// 1000 reads a second; bytes cost a tenth of a read for each block.
    fn device() -> DeviceProfile {
        let bandwidth = Bytes(10_000 * 8192);
        DeviceProfile { reads_per_second: 1000.0, bandwidth, overlap: 0.0, ..DeviceProfile::default() }
    }

    fn touched(pieces: &[(u32, u32)], resident: std::ops::Range<u32>) -> Touched {
        let mut fork = TouchedFork {
            relation: 0,
            path: RelationPath::Base { database_oid: 5, relfilenumber: 1 },
            fork: Fork::Main,
            blocks: 1 << 20,
            touched: RoaringBitmap::new(),
            found: RoaringBitmap::new(),
            resident: resident.collect(),
        };
        pieces.iter().for_each(|(start, blocks)| _ = fork.touched.insert_range(*start..start + blocks));
        let pieces = pieces.iter().map(|(start, blocks)| Piece { fork: 0, start: *start, blocks: *blocks }).collect();
        Touched { forks: vec![fork], pieces, ..Touched::default() }
    }

    fn job(touched: &Touched, seconds: f64) -> Job {
        Job::new(touched, Run { seconds, device_reads: None, is_cold: true, preloaded: Bytes(0) }, device(), BLOCK)
    }

    fn reads(ranges: impl Iterator<Item = (u64, u64)>) -> Vec<Read> {
        ranges.map(|(start, end)| Read { fork: 0, range: BlockRange::new(start, end) }).collect()
    }

    fn is_near(found: f64, expected: f64) {
        assert!((found / expected - 1.0).abs() < 0.02, "{found} is not {expected}");
    }

    /// An index loop: 10,000 single blocks in no order, in a table of 10,000 blocks; 11 s of device, 1 s of its own.
    fn index_loop() -> Touched {
        let pieces: Vec<(u32, u32)> = (0..10_000).map(|at| (at * 7919 % 10_000, 1)).collect();
        touched(&pieces, 0..0)
    }

    #[test]
    fn alone_a_job_takes_the_devices_time_and_its_own() {
        let job = job(&index_loop(), 12.0);
        is_near(job.simulate(&[]), 12.0);
    }

    #[test]
    fn an_index_loop_gains_by_large_reads() {
        let job = job(&index_loop(), 12.0);
        let sorted = reads((0..10_000).step_by(64).map(|start| (start, (start + 64).min(10_000))));
        // 157 reads and all bytes are 1.16 s.
        is_near(job.simulate_set_first(&sorted), 2.16);
        let with = job.simulate(&sorted);
        assert!(with < 3.0 && with > 1.1, "{with}");
    }

    #[test]
    fn what_a_read_alone_waits_is_not_the_jobs_own() {
        // 20,000 reads a second of many at once, and 1000 of one after another.
        let device = DeviceProfile { reads_per_second: 20_000.0, alone_seconds: 1e-3, ..device() };
        let run = |seconds| Run { seconds, device_reads: None, is_cold: true, preloaded: Bytes(0) };
        let own = |touched: &Touched, seconds| Job::new(touched, run(seconds), device, BLOCK).own_seconds();
        // The blocks' bytes are 1 s, the reads 10 s.
        is_near(own(&index_loop(), 13.0), 2.0);
        is_near(Job::new(&index_loop(), run(13.0), device, BLOCK).simulate(&[]), 13.0);
        // A film that was faster proves that it waited no longer.
        is_near(own(&index_loop(), 5.0), 0.25);
        // Four that ask at once wait at the same time.
        let fetchers = (0..10_000).map(|at: u32| (at % 4) as u8).collect();
        let four = Touched { fetchers, at_once: 4.0, ..index_loop() };
        is_near(Job::new(&four, run(4.0), device, BLOCK).simulate(&[]), 4.0);
        is_near(Job::new(&four, run(4.0), device, BLOCK).device().wait_seconds(), 1e-3 / 4.0 - 1.0 / 20_000.0);
        // What the kernel reads ahead waits for nothing.
        let scan = touched(&(0..625).map(|at| (at * 16, 16)).collect::<Vec<_>>(), 0..0);
        assert!(own(&scan, 3.0) > 1.9, "{}", own(&scan, 3.0));
    }

    #[test]
    fn of_several_processes_each_goes_its_own_way() {
        // In the preload's own order, as of a bitmap. One process is never ahead of it.
        let pieces: Vec<(u32, u32)> = (0..10_000).map(|at| (at * 2, 1)).collect();
        let ahead = reads((0..2500).map(|at| (at * 8, at * 8 + 7)));
        let with = |fetchers: Vec<u8>, at_once: f64| {
            let job = job(&Touched { fetchers, at_once, ..touched(&pieces, 0..0) }, 12.0);
            is_near(job.simulate(&[]), 12.0);
            (job.simulate(&ahead), job.simulate_set_first(&ahead))
        };
        let (one, one_first) = with(Vec::new(), 0.0);
        // Of four each has now a hundred of its own and now a single one: whoever had little to do gets ahead.
        let uneven =
            (0..10_000).map(|at: u32| if (at / 100).is_multiple_of(2) { (at / 200 % 4) as u8 } else { (at % 4) as u8 });
        let (four, four_first) = with(uneven.collect(), 4.0);
        assert!(four > 1.05 * one && four < 9.0, "{four} {one}");
        assert!((four_first / one_first - 1.0).abs() < 0.05, "{four_first} {one_first}");
        // One after the other they are as one.
        let (in_turn, _) = with((0..10_000).map(|at: u32| (at / 2500) as u8).collect(), 1.0);
        is_near(in_turn, one);
    }

    #[test]
    fn a_scan_gains_nothing() {
        let pieces: Vec<(u32, u32)> = (0..625).map(|at| (at * 16, 16)).collect();
        let job = job(&touched(&pieces, 0..0), 2.0);
        let sorted = reads((0..10_000).step_by(64).map(|start| (start, (start + 64).min(10_000))));
        let (alone, with) = (job.simulate(&[]), job.simulate(&sorted));
        is_near(alone, 2.0);
        assert!(with > alone * 0.9 && with <= alone * 1.05, "{with} of {alone}");
        assert!(job.simulate_set_first(&sorted) > with, "it waits for what it could use already");
    }

    #[test]
    fn what_is_cached_already_costs_nothing() {
        let whole = touched(&[(0, 1000), (5000, 1000)], 0..10_000);
        let job = Job::new(
            &whole,
            Run { seconds: 2.0, device_reads: Some(2000), is_cold: true, preloaded: Bytes(0) },
            device(),
            BLOCK,
        );
        assert!(job.simulate(&[]) < 0.11);
    }

    #[test]
    fn a_film_of_a_warm_run_tells_the_jobs_own_time() {
        let mut warm = index_loop();
        warm.forks[0].found.insert_range(0..10_000);
        // 11 s of device come on top where nothing is cached.
        is_near(job(&warm, 1.0).simulate(&[]), 12.0);
        let mut half = index_loop();
        half.forks[0].found.insert_range(0..5000);
        is_near(job(&half, 6.5).simulate(&[]), 12.0);
    }

    #[test]
    fn a_film_of_a_warm_run_of_several_processes_leaves_a_miss_its_price() {
        // One of three had most of the work: all of the job's time is the one's.
        for (busy, at_once) in [(8, 2.5), (4, 2.0), (10, 1.6)] {
            let fetchers = (0..10_000).map(|at: u32| if at % 10 < busy { 0 } else { (at % 2) as u8 + 1 }).collect();
            let mut warm = Touched { fetchers, at_once, ..index_loop() };
            warm.forks[0].found.insert_range(0..10_000);
            let alone = job(&warm, 1.0).simulate(&[]);
            assert!(alone > 10.9 && alone < 12.1, "{alone}: the device takes 11 s");
            warm.forks[0].resident.insert_range(0..10_000);
            let cached = job(&warm, 1.0).simulate(&[]);
            assert!(cached < 1.01, "{cached}");
        }
    }

    #[test]
    fn a_preload_in_the_wrong_place_makes_a_short_job_slower() {
        let job = job(&touched(&[(900_000, 1), (910_000, 1), (920_000, 1)], 0..0), 0.01);
        let useless = reads((0..10_000).step_by(64).map(|start| (start, start + 64)));
        assert!(job.simulate(&useless) > job.simulate(&[]) * 5.0);
    }

    #[test]
    fn a_film_that_was_faster_than_the_profile_proves_a_faster_device() {
        let job = job(&index_loop(), 1.0);
        is_near(job.simulate(&[]), 1.0);
        let warm = Job::new(
            &index_loop(),
            Run { seconds: 1.0, device_reads: Some(5), is_cold: false, preloaded: Bytes(0) },
            device(),
            BLOCK,
        );
        assert!(warm.simulate(&[]) > 10.0, "of one that was preloaded nothing follows for the device");
    }

    #[test]
    fn of_a_job_that_was_preloaded_what_was_not_the_preloads_is_its_own() {
        let mut helped = index_loop();
        helped.forks[0].found.insert_range(0..10_000);
        let preloaded = Bytes(10_000 * 8192);
        let of = |seconds| {
            let run = Run { seconds, device_reads: None, is_cold: false, preloaded };
            Job::new(&helped, run, device(), BLOCK)
        };
        // The preload takes a second.
        is_near(of(6.0).own_seconds(), 5.0);
        is_near(of(6.0).simulate(&[]), 16.0);
        is_near(of(1.0).own_seconds(), 0.05);
    }

    #[test]
    fn counted_reads_tell_read_ahead_from_single_blocks() {
        let pieces = touched(&[(0, 8), (100, 8)], 0..0);
        let reads = |counted| {
            let run = Run { seconds: 1.0, device_reads: Some(counted), is_cold: true, preloaded: Bytes(0) };
            Job::new(&pieces, run, device(), BLOCK).steps.iter().map(|step| step.reads).sum::<u32>()
        };
        assert_eq!((reads(16), reads(2), reads(1), reads(1000)), (16, 2, 2, 16));
    }

    /// TPC-H's Q11: every block is a piece of its own, and the kernel reads around a third of them.
    #[test]
    fn neighbours_that_come_together_cost_a_part_of_a_read_each() {
        let run = |reads| Run { seconds: 12.0, device_reads: Some(reads), is_cold: true, preloaded: Bytes(0) };
        let whole = reads((0..10_000).step_by(64).map(|start| (start, (start + 64).min(10_000))));
        // 7 s of 7,000 reads, 1 s of bytes: 4 s are the job's own. The preload takes 1.16 s.
        let job = Job::new(&index_loop(), run(7_000), device(), BLOCK);
        is_near(job.simulate(&[]), 12.0);
        is_near(job.simulate_set_first(&whole), 5.16);
        // A long stretch among them takes none of theirs: 2 s are reads, 1.25 s bytes.
        let mut pieces: Vec<(u32, u32)> = (0..2_000).map(|at| (20_000 + 10 * at, 1)).collect();
        pieces.extend((0..625).map(|at| (at * 16, 16)));
        let job = Job::new(&touched(&pieces, 0..0), run(2_625), device(), BLOCK);
        let single = job.steps.iter().find(|step| step.piece.blocks == 1).unwrap();
        is_near(single.seconds, 0.0011);
    }
}
