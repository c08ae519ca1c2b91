//! How long a job would take with and without a preload: a pure function of what it will touch, what is cached and what the device
//! gives. docs/films.md has the model.
//!
//! The device serves one read after another; each costs its share of the reads per second and its bytes. The job asks for one piece
//! after another, waits for what is missing, and works in between. A preload keeps a few reads waiting all the time, so that one of the
//! job's own stands behind them.

use std::collections::VecDeque;

use serde::Serialize;

use super::fetching::{Fetching, fetched_blocks};
use super::touched::{Piece, Touched};
use crate::units::Bytes;
use crate::warm::DeviceProfile;
use crate::warm::plan::Read;

/// Reads of a preload that are under way at once.
pub const DEPTH: usize = 4;

/// The part of a job's time that is not the device's is not taken for less than this, 0 to 1.
const OWN_SHARE_MIN: f64 = 0.05;

/// Steps in which a job's price is brought down to what it was: each gets nearer.
const CALIBRATIONS: usize = 5;

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

/// What a job will do.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// The pieces that it touches, in order.
    steps: Vec<Step>,
    /// Blocks of all of them.
    blocks: u64,
    /// Seconds in which it does not wait for the device.
    own_seconds: f64,
    /// The device as the job saw it: never slower than the film proves.
    device: DeviceProfile,
    block_size: u32,
}

/// A piece, with what the job needs to fetch it alone.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Step {
    piece: Piece,
    /// Blocks of it that are not cached.
    missing_blocks: u32,
    /// Reads that they take one after another, and the device's seconds for all of them.
    reads: u32,
    seconds: f64,
    /// The kernel reads it ahead, while the job works on what came before.
    is_ahead: bool,
}

/// What a film tells of the run that it is of.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    pub seconds: f64,
    /// Reads of the device meanwhile, if they were counted.
    pub device_reads: Option<u64>,
    /// Was nothing, or nearly nothing, preloaded? Then all of the device's time was the job's.
    pub is_cold: bool,
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
    /// as much of the one while it does the other.
    fn prove(self, device: DeviceProfile, seconds: f64, block_size: u32) -> DeviceProfile {
        let (reads, bytes) = (self.single_reads + self.ahead_reads, self.blocks as f64 * f64::from(block_size));
        let reads_per_second = device.reads_per_second.max(reads / seconds);
        let bandwidth = (device.bandwidth.0 as f64).max(bytes / seconds);
        let (of_reads, of_bytes) = (reads / reads_per_second, bytes / bandwidth);
        let overlap = (of_reads + of_bytes - seconds) / of_reads.min(of_bytes).max(f64::MIN_POSITIVE);
        let overlap = overlap.clamp(device.overlap.clamp(0.0, 1.0), 1.0);
        DeviceProfile { reads_per_second, bandwidth: Bytes(bandwidth as u64), overlap, ..device }
    }

    /// The seconds that are the job's own of so many: spread evenly over its blocks, and hidden behind what is read ahead.
    fn own_seconds(self, run_seconds: f64, device: &DeviceProfile, block_size: u32) -> f64 {
        let bytes = |blocks: u64| blocks as f64 * f64::from(block_size);
        let single_seconds = seconds(device, self.single_reads, bytes(self.blocks - self.ahead_blocks));
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
        let device = if proves { cold.prove(device, run.seconds - least, block_size) } else { device };
        let own_seconds = if proves { cold.own_seconds(run.seconds, &device, block_size).max(least) } else { least };
        let step = |piece: &Piece, missing_blocks: u32| {
            let bytes = f64::from(missing_blocks) * f64::from(block_size);
            let seconds = seconds(&device, fetching.priced_reads_of(missing_blocks), bytes);
            let (reads, is_ahead) = (fetching.reads_of(missing_blocks).max(1), fetching.is_ahead(missing_blocks));
            Step { piece: *piece, missing_blocks, reads, seconds, is_ahead }
        };
        let cold_steps = touched.pieces.iter().map(|piece| step(piece, fetched_blocks(touched, piece))).collect();
        let blocks = touched.pieces.iter().map(|piece| u64::from(piece.blocks)).sum();
        let mut cheaper = 1.0;
        let mut job = Job { steps: cold_steps, blocks, own_seconds, device, block_size };
        if proves {
            // What pieces cost one by one is not quite what they cost together: alone, and as cold, the job takes what it took.
            job.own_seconds = (own_seconds + run.seconds - job.simulate(&[])).max(least);
            cheaper = job.make_cheaper(run.seconds);
        }
        let missing = |piece: &Piece| {
            let resident = &touched.forks[piece.fork as usize].resident;
            piece.blocks - resident.range_cardinality(piece.start..piece.start + piece.blocks) as u32
        };
        job.steps = touched.pieces.iter().map(|piece| step(piece, missing(piece))).collect();
        job.steps.iter_mut().for_each(|step| step.seconds *= cheaper);
        job
    }

    /// Pieces that are priced one by one cost more than together, where the device does of one what another leaves: makes all of them
    /// cheaper until the job takes no longer than it took, and returns by which factor, 0 to 1.
    fn make_cheaper(&mut self, run_seconds: f64) -> f64 {
        let mut cheaper = 1.0;
        for _ in 0..CALIBRATIONS {
            let simulated = self.simulate(&[]);
            if simulated <= run_seconds {
                break;
            }
            let own = self.own_seconds.min(run_seconds);
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

    /// Seconds that one read of so many blocks takes.
    fn read_seconds(&self, blocks: u32) -> f64 {
        seconds(&self.device, 1.0, f64::from(blocks) * f64::from(self.block_size))
    }

    /// Seconds that a list of reads takes.
    fn load_seconds(&self, reads: &[Read]) -> f64 {
        reads.iter().map(|read| self.read_seconds(read.range.blocks() as u32)).sum()
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

/// [`DeviceProfile::seconds`], of a part of a read too.
fn seconds(device: &DeviceProfile, reads: f64, bytes: f64) -> f64 {
    let (of_reads, of_bytes) = (reads / device.reads_per_second, bytes / device.bandwidth.0.max(1) as f64);
    of_reads + of_bytes - device.overlap * of_reads.min(of_bytes)
}

/// What waits for the device.
#[derive(Clone, Copy)]
enum Waiting {
    /// A read of the preload, by its place.
    Preload(usize),
    /// A read of the job's own, for a step, and its seconds.
    Own(usize, f64),
}

/// One run of the job, moment by moment.
struct Simulation<'a> {
    job: &'a Job,
    reads: &'a [Read],
    /// Places in `reads`, by fork and position.
    by_position: Vec<u32>,
    /// Which reads of the preload are done, and how many blocks of each the job had fetched by itself.
    is_done: Vec<bool>,
    taken: Vec<u32>,
    queue: VecDeque<Waiting>,
    next_read: usize,
    /// The step that is being read ahead, and the last one that was.
    ahead: Option<usize>,
    was_ahead: Option<usize>,
    /// When the device is done with what stood first.
    now: f64,
}

impl<'a> Simulation<'a> {
    fn new(job: &'a Job, reads: &'a [Read]) -> Simulation<'a> {
        let mut by_position: Vec<u32> = (0..reads.len() as u32).collect();
        by_position.sort_unstable_by_key(|at| (reads[*at as usize].fork, reads[*at as usize].range.start));
        let (is_done, taken) = (vec![false; reads.len()], vec![0; reads.len()]);
        let queue = VecDeque::new();
        Simulation {
            job,
            reads,
            by_position,
            is_done,
            taken,
            queue,
            next_read: 0,
            ahead: None,
            was_ahead: None,
            now: 0.0,
        }
    }

    fn run(mut self) -> f64 {
        let own_seconds = self.job.own_seconds / self.job.blocks.max(1) as f64;
        let mut clock = 0.0;
        for (at, step) in self.job.steps.iter().enumerate() {
            if step.missing_blocks > 0 {
                self.serve_until(clock);
                clock = clock.max(self.fetch(at, clock));
            }
            self.read_ahead(at + 1, clock);
            clock += own_seconds * f64::from(step.piece.blocks);
        }
        clock
    }

    /// Lets the device work until then.
    fn serve_until(&mut self, clock: f64) {
        loop {
            self.fill();
            let Some(first) = self.queue.front() else { break };
            if self.now + self.seconds(*first) > clock {
                break;
            }
            self.serve_first();
        }
        if self.queue.is_empty() {
            self.now = self.now.max(clock);
        }
    }

    /// Has the kernel read a step ahead, if it would, and nobody else brings it.
    fn read_ahead(&mut self, at: usize, clock: f64) {
        let Some(step) = self.job.steps.get(at).filter(|step| step.is_ahead && step.missing_blocks > 0) else { return };
        let covering = self.covering(step.piece);
        if covering.clone().any(|place| self.is_on_its_way(place)) {
            return;
        }
        self.serve_until(clock);
        self.take(covering, step.missing_blocks);
        self.queue.push_back(Waiting::Own(at, step.seconds));
        self.ahead = Some(at);
    }

    /// Keeps the preload's reads waiting.
    fn fill(&mut self) {
        while self.queue.len() < DEPTH && self.next_read < self.reads.len() {
            let at = self.next_read;
            self.next_read += 1;
            // The job has had all of it.
            if u64::from(self.taken[at]) < self.reads[at].range.blocks() {
                self.queue.push_back(Waiting::Preload(at));
            }
        }
    }

    fn seconds(&self, waiting: Waiting) -> f64 {
        match waiting {
            Waiting::Preload(at) => self.job.read_seconds(self.reads[at].range.blocks() as u32 - self.taken[at]),
            Waiting::Own(_, seconds) => seconds,
        }
    }

    /// The first one is done; tells the step that it was for, if it was the job's.
    fn serve_first(&mut self) -> Option<usize> {
        let first = self.queue.pop_front()?;
        self.now += self.seconds(first);
        // Behind what waits already, as readers come back when they are done.
        self.fill();
        match first {
            Waiting::Preload(at) => {
                self.is_done[at] = true;
                None
            }
            Waiting::Own(step, _) => {
                if self.ahead == Some(step) {
                    (self.ahead, self.was_ahead) = (None, Some(step));
                }
                Some(step)
            }
        }
    }

    /// Has the job wait for a step from `clock` on, and returns when it is there.
    fn fetch(&mut self, at: usize, clock: f64) -> f64 {
        let step = self.job.steps[at];
        if self.ahead == Some(at) {
            while self.ahead == Some(at) {
                self.serve_first();
            }
            return self.now;
        }
        if self.was_ahead == Some(at) {
            return clock;
        }
        let covering = self.covering(step.piece);
        let is_there = |this: &Self| covering.clone().all(|place| this.is_done[this.by_position[place] as usize]);
        if !covering.is_empty() && is_there(self) {
            return clock;
        }
        if !covering.is_empty() && covering.clone().all(|place| self.is_on_its_way(place)) {
            while !is_there(self) {
                self.serve_first();
            }
            return self.now;
        }
        self.take(covering, step.missing_blocks);
        for _ in 0..step.reads {
            self.queue.push_back(Waiting::Own(at, step.seconds / f64::from(step.reads)));
            while self.serve_first() != Some(at) {}
        }
        self.now
    }

    /// Is a read of the preload, by its place by position, done or waiting?
    fn is_on_its_way(&self, place: usize) -> bool {
        let read = self.by_position[place] as usize;
        self.is_done[read] || self.queue.iter().any(|one| matches!(one, Waiting::Preload(other) if *other == read))
    }

    /// The job fetches so many blocks by itself that these reads, by position, would have brought.
    fn take(&mut self, covering: std::ops::Range<usize>, blocks: u32) {
        for place in covering {
            let read = self.by_position[place] as usize;
            let rest = self.reads[read].range.blocks() as u32 - self.taken[read];
            self.taken[read] += if self.is_done[read] { 0 } else { blocks.min(rest) };
        }
    }

    /// Which reads of the preload, by position, have a part in a piece.
    fn covering(&self, piece: Piece) -> std::ops::Range<usize> {
        let (start, end) = (u64::from(piece.start), u64::from(piece.start + piece.blocks));
        let fork = piece.fork as usize;
        let read = |at: &u32| &self.reads[*at as usize];
        let first = self.by_position.partition_point(|at| (read(at).fork, read(at).range.end) <= (fork, start));
        let last = self.by_position.partition_point(|at| (read(at).fork, read(at).range.start) < (fork, end));
        first..last.max(first)
    }
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
        Job::new(touched, Run { seconds, device_reads: None, is_cold: true }, device(), BLOCK)
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
        let job = Job::new(&whole, Run { seconds: 2.0, device_reads: Some(2000), is_cold: true }, device(), BLOCK);
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
    fn a_preload_in_the_wrong_place_makes_a_short_job_slower() {
        let job = job(&touched(&[(900_000, 1), (910_000, 1), (920_000, 1)], 0..0), 0.01);
        let useless = reads((0..10_000).step_by(64).map(|start| (start, start + 64)));
        assert!(job.simulate(&useless) > job.simulate(&[]) * 5.0);
    }

    #[test]
    fn a_film_that_was_faster_than_the_profile_proves_a_faster_device() {
        let job = job(&index_loop(), 1.0);
        is_near(job.simulate(&[]), 1.0);
        let warm =
            Job::new(&index_loop(), Run { seconds: 1.0, device_reads: Some(5), is_cold: false }, device(), BLOCK);
        assert!(warm.simulate(&[]) > 10.0, "of one that was preloaded nothing follows for the device");
    }

    #[test]
    fn counted_reads_tell_read_ahead_from_single_blocks() {
        let pieces = touched(&[(0, 8), (100, 8)], 0..0);
        let reads = |counted| {
            let run = Run { seconds: 1.0, device_reads: Some(counted), is_cold: true };
            Job::new(&pieces, run, device(), BLOCK).steps.iter().map(|step| step.reads).sum::<u32>()
        };
        assert_eq!((reads(16), reads(2), reads(1), reads(1000)), (16, 2, 2, 16));
    }

    /// TPC-H's Q11: every block is a piece of its own, and the kernel reads around a third of them.
    #[test]
    fn neighbours_that_come_together_cost_a_part_of_a_read_each() {
        let run = |reads| Run { seconds: 12.0, device_reads: Some(reads), is_cold: true };
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
