//! Forecasts a job's run time with and without a preload from its film, the cached blocks and the device. The device
//! serves one read at a time, which takes 1 ÷ reads per second, plus bytes ÷ bandwidth (docs/films.md).

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use serde::Serialize;

use super::film::FilmHeader;
use super::touched::{Piece, Touched, count_in};
use crate::warm::DeviceProfile;
use crate::warm::plan::Read;
use host::units::Bytes;

/// Minimum share of own work in a job's run time; during the rest, the job waits for the device.
const OWN_SHARE_MIN: f64 = 0.05;

const CALIBRATIONS: usize = 5;

/// Relative error at which calibration stops.
const CALIBRATED: f64 = 0.01;

/// A run that spent a smaller share of its time on the device does not show the cost of a read.
const WAITED_SHARE_MIN: f64 = 0.05;

/// Minimum gain that justifies a preload, as a share of the run time without it.
pub const GAIN_MIN: f64 = 0.1;

/// How pgthaw preloads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, crate::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// It does not preload.
    #[default]
    Nothing,
    /// Preloads while the job runs, ordered by file and position.
    Sorted,
    /// Preloads while the job runs, in order of first use.
    Region,
    /// Preloads everything before the job starts.
    SetFirst,
    /// Preloads just ahead of the job, as far as memory allows.
    Windowed,
}

/// If the device delivered a smaller share of the fetched bytes, other devices hold some blocks.
const DELIVERED_MIN: f64 = 0.5;

/// If the kernel also reads blocks around requested ones (read-around), a device delivers up to this multiple of the
/// bytes that the job fetched.
const AROUND_MAX: f64 = 1.5;

/// A smaller share of refetched bytes is ignored: read-ahead of two processes can cause it.
const AGAIN_MIN: f64 = 0.01;

/// Basis for the cost of a page cache miss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, crate::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PriceSource {
    /// Device reads were counted; the job fetched each block once.
    Counted,
    /// Device reads were counted, but some blocks were fetched again, because memory was scarce.
    CountedAgain,
    /// Device reads were not counted, or other devices hold blocks.
    NotCounted,
    /// Most blocks were cached, and the few device reads do not show the cost of a miss.
    Warm,
    /// pgthaw had preloaded most blocks.
    Preloaded,
    /// The device delivered more than the job can have requested.
    Others,
}

#[derive(Clone, Copy, Debug)]
pub struct Run {
    pub seconds: f64,
    /// Number of device reads; `None` unless `source` is `Counted` or `CountedAgain`.
    pub device_reads: Option<u64>,
    /// Almost nothing was preloaded, so all device time was the job's.
    pub is_cold: bool,
    pub preloaded: Bytes,
    /// Mean fetches per fetched block; above 1 if memory was short.
    pub fetches: f64,
    pub source: PriceSource,
}

impl Run {
    pub fn of(header: &FilmHeader) -> Run {
        let totals = &header.totals;
        let fetched = header.bytes(totals.fetched_blocks).0 as f64;
        // Bytes fetched again that exceed the repeated requests come from read-around.
        let sampled = header.sampling.map_or(1.0, |sampled| f64::from(sampled.shift).exp2());
        let requested_again = header.bytes(totals.again_blocks).0 as f64 * sampled;
        let again = header.fetched_again.map_or(0.0, |again| again.0 as f64).min(requested_again);
        let (missed, delivered) = (fetched + again, header.device_bytes.unwrap_or_default().0 as f64);
        let missed_blocks = missed / f64::from(header.source.block_size);
        let source = match header.device_reads {
            _ if totals.is_preloaded() => PriceSource::Preloaded,
            _ if !totals.is_fetched() => PriceSource::Warm,
            None => PriceSource::NotCounted,
            _ if delivered < DELIVERED_MIN * missed => PriceSource::NotCounted,
            Some(reads) if delivered > AROUND_MAX * missed && reads as f64 > missed_blocks => PriceSource::Others,
            _ if again > AGAIN_MIN * fetched => PriceSource::CountedAgain,
            _ => PriceSource::Counted,
        };
        let tells = matches!(source, PriceSource::Counted | PriceSource::CountedAgain);
        let (seconds, device_reads) = (header.seconds, header.device_reads.filter(|_| tells));
        let (is_cold, preloaded) = (!totals.is_preloaded(), header.bytes(totals.preloaded_blocks));
        let fetches = if fetched > 0.0 { missed / fetched } else { 1.0 };
        Run { seconds, device_reads, is_cold, preloaded, fetches, source }
    }

    pub fn part(self, part: f64) -> Run {
        let device_reads = self.device_reads.map(|reads| (reads as f64 * part) as u64);
        let preloaded = Bytes((self.preloaded.0 as f64 * part) as u64);
        Run { seconds: self.seconds * part, device_reads, preloaded, ..self }
    }
}

/// Concurrent reads of a preload. The job's reads queue behind them.
pub const DEPTH: usize = 4;

/// A job is parallel if at least this many processes fetch concurrently on average.
const SEVERAL: f64 = 1.5;

#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    steps: Vec<Step>,
    /// Indexes of `steps`, sorted by fork and position.
    order: Vec<u32>,
    blocks: u64,
    /// Seconds in which the job does not wait for the device.
    pub own_seconds: f64,
    /// Indexes of the `steps` of each process, in order.
    readers: Vec<Vec<u32>>,
    at_once: f64,
    /// Device profile, adjusted to the job's parallelism and the speed that the film proves.
    pub device: DeviceProfile,
    block_size: u32,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Step {
    piece: Piece,
    missing_blocks: u32,
    reads: u32,
    seconds: f64,
    is_ahead: bool,
}

fn seconds(device: &DeviceProfile, reads: f64, bytes: f64) -> f64 {
    let (of_reads, of_bytes) = (reads / device.reads_per_second, bytes / device.bandwidth.0.max(1) as f64);
    of_reads + of_bytes - device.overlap * of_reads.min(of_bytes)
}

const READ_AHEAD_BYTES: u64 = 128 << 10;

/// Read size assumed for read-ahead. Larger reads are not assumed to save anything.
const LARGE_READ_BYTES: u64 = 512 << 10;

/// If a larger share of the blocks in long runs is read one by one, long runs do not count as read ahead.
const AHEAD_SINGLES_MAX: f64 = 0.1;

#[derive(Clone, Copy, Debug)]
pub struct Fetching {
    /// Share of blocks that are read one by one: in runs too short for read-ahead, and in longer runs.
    short_singles: f64,
    long_singles: f64,
    ahead_blocks: u32,
    large_blocks: f64,
}

impl Fetching {
    /// Divides the device reads, counted while the job ran cold, between short and long ranges of adjacent blocks. Long
    /// ranges first get the fewest reads that can load them. Then short ranges get up to one read per block (fewer with
    /// read-around). Long ranges get the rest. Without a count, short ranges are assumed to be read block by block, and
    /// long ranges with read-ahead.
    pub fn new(touched: &Touched, counted_reads: Option<u64>, block_size: u32) -> Fetching {
        let ahead_blocks = (READ_AHEAD_BYTES / u64::from(block_size)).max(1) as u32;
        let (mut short_blocks, mut long_blocks, mut long_fewest) = (0, 0, 0);
        for blocks in touched.pieces.iter().map(|piece| fetched_blocks(touched, piece)) {
            if blocks >= ahead_blocks {
                long_blocks += u64::from(blocks);
                long_fewest += u64::from(blocks.div_ceil(ahead_blocks));
            } else {
                short_blocks += u64::from(blocks);
            }
        }
        let left = counted_reads.map_or(short_blocks, |reads| reads.saturating_sub(long_fewest));
        let of_short = left.min(short_blocks);
        let of_long = (left - of_short).min(long_blocks - long_fewest);
        let part = |reads: u64, blocks: u64, none: f64| if blocks > 0 { reads as f64 / blocks as f64 } else { none };
        let short_singles = part(of_short, short_blocks, 1.0);
        let long_singles = part(of_long, long_blocks - long_fewest, 0.0);
        let large_blocks = (LARGE_READ_BYTES / u64::from(block_size)) as f64;
        Fetching { short_singles, long_singles, ahead_blocks, large_blocks }
    }

    fn is_long(self, blocks: u32) -> bool {
        blocks >= self.ahead_blocks
    }

    /// Number of reads of `blocks` adjacent blocks that the job waits for.
    pub fn reads_of(self, blocks: u32) -> u32 {
        let ahead = f64::from(blocks.div_ceil(self.ahead_blocks));
        let reads = match self.is_long(blocks) {
            true => ahead + self.long_singles * (f64::from(blocks) - ahead),
            false => self.short_singles * f64::from(blocks),
        };
        reads.round() as u32
    }

    pub fn priced_reads_of(self, blocks: u32) -> f64 {
        let large = f64::from(blocks) / self.large_blocks;
        match self.is_long(blocks) {
            true => large + self.long_singles * (f64::from(blocks) - large),
            false => large.max(self.short_singles * f64::from(blocks)),
        }
    }

    pub fn is_ahead(self, blocks: u32) -> bool {
        self.is_long(blocks) && self.long_singles <= AHEAD_SINGLES_MAX
    }
}

pub fn fetched_blocks(touched: &Touched, piece: &Piece) -> u32 {
    piece.blocks - count_in(&touched.forks[piece.fork as usize].found, piece.start, piece.blocks)
}

#[derive(Clone, Copy, Debug, Default)]
struct Cold {
    blocks: f64,
    ahead_blocks: f64,
    /// Number of reads that the job waits for, and of reads ahead.
    single_reads: f64,
    ahead_reads: f64,
}

impl Cold {
    fn new(touched: &Touched, fetching: Fetching, fetches: f64) -> Cold {
        touched.pieces.iter().fold(Cold::default(), |mut sum, piece| {
            let once = fetched_blocks(touched, piece);
            let (blocks, reads) = (f64::from(once) * fetches, fetching.priced_reads_of(once) * fetches);
            sum.blocks += blocks;
            if fetching.is_ahead(once) {
                sum.ahead_blocks += blocks;
                sum.ahead_reads += reads;
            } else {
                sum.single_reads += reads;
            }
            sum
        })
    }

    /// Raises the device's reads per second, bandwidth and overlap to the values that this run proves, and lowers the
    /// latency of a single read.
    fn prove(self, device: DeviceProfile, run_seconds: f64, block_size: u32) -> DeviceProfile {
        let (reads, bytes) = (self.single_reads + self.ahead_reads, self.blocks * f64::from(block_size));
        let reads_per_second = device.reads_per_second.max(reads / run_seconds);
        let bandwidth = (device.bandwidth.0 as f64).max(bytes / run_seconds);
        let (of_reads, of_bytes) = (reads / reads_per_second, bytes / bandwidth);
        let overlap = (of_reads + of_bytes - run_seconds) / of_reads.min(of_bytes).max(f64::MIN_POSITIVE);
        let overlap = overlap.clamp(device.overlap.clamp(0.0, 1.0), 1.0);
        let proven = DeviceProfile { reads_per_second, bandwidth: Bytes(bandwidth as u64), overlap, ..device };
        let left = (run_seconds - seconds(&proven, reads, bytes)).max(0.0) / self.single_reads.max(f64::MIN_POSITIVE);
        DeviceProfile { alone_seconds: proven.alone_seconds.min(1.0 / reads_per_second + left), ..proven }
    }

    /// Seconds in which the job does not wait for the device, spread evenly over all blocks. They overlap with
    /// read-ahead.
    fn own_seconds(self, run_seconds: f64, device: &DeviceProfile, block_size: u32) -> f64 {
        let bytes = |blocks: f64| blocks * f64::from(block_size);
        let single_seconds = seconds(device, self.single_reads, bytes(self.blocks - self.ahead_blocks))
            + self.single_reads * device.wait_seconds();
        let ahead_seconds = seconds(device, self.ahead_reads, bytes(self.ahead_blocks));
        let ahead_share = self.ahead_blocks / self.blocks.max(1.0);
        let own = (run_seconds - single_seconds - ahead_seconds) / (1.0 - ahead_share);
        if own * ahead_share <= ahead_seconds { own } else { run_seconds - single_seconds }
    }
}

impl Job {
    pub fn new(touched: &Touched, run: Run, device: DeviceProfile, block_size: u32) -> Job {
        let once = |reads: u64| (reads as f64 / run.fetches) as u64;
        let fetching = Fetching::new(touched, run.device_reads.filter(|_| run.is_cold).map(once), block_size);
        let cold = Cold::new(touched, fetching, run.fetches);
        let least = run.seconds * OWN_SHARE_MIN;
        let proves = run.is_cold && run.seconds > 0.0;
        let (readers, at_once) = (steps_of_readers(touched), touched.at_once.max(1.0));
        // While one of several processes waits, the device serves the others.
        let device = DeviceProfile { alone_seconds: device.alone_seconds / at_once, ..device };
        let device = if proves { cold.prove(device, run.seconds - least, block_size) } else { device };
        // The job may have waited while the preload ran, so only the remaining time is certainly the job's own work.
        let preload_seconds = if proves { 0.0 } else { run.preloaded.0 as f64 / device.bandwidth.0.max(1) as f64 };
        let own_seconds = cold.own_seconds(run.seconds - preload_seconds, &device, block_size);
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
        let mut order: Vec<u32> = (0..touched.pieces.len() as u32).collect();
        order.sort_unstable_by_key(|at| (touched.pieces[*at as usize].fork, touched.pieces[*at as usize].start));
        let mut job = Job { steps: cold_steps, order, blocks, own_seconds, readers, at_once, device, block_size };
        if proves {
            job.fetch_each(run.fetches);
            // The computed costs of single fetches add up to more than the run took, so they are scaled to the run.
            match job.fetches_at_once() {
                true => {
                    // Without fetches, the busiest process's own work remains.
                    let steps = job.steps.iter().map(|step| Step { missing_blocks: 0, ..*step }).collect();
                    let without_misses = Job { steps, ..job.clone() }.simulate(&[]);
                    job.own_seconds *= (run.seconds / without_misses).min(1.0);
                }
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

    fn fetch_each(&mut self, times: f64) {
        for step in &mut self.steps {
            step.reads = (f64::from(step.reads) * times).round().max(1.0) as u32;
            step.seconds *= times;
        }
    }

    /// Run time in seconds without a preload if each missing block is fetched `times` times.
    pub fn simulate_fetching(&self, times: f64) -> f64 {
        let mut job = self.clone();
        job.fetch_each(times);
        job.simulate(&[])
    }

    /// How many times longer the recorded run took than its simulation, at least 1. Parallel processes also wait for
    /// each other, and only one of them sorts and aggregates.
    pub fn longer_than_simulated(&self, run: Run, has_fetched: bool) -> f64 {
        let simulated = self.simulate_fetching(if has_fetched { run.fetches } else { 0.0 });
        if run.is_cold && simulated > 0.0 { (run.seconds / simulated).max(1.0) } else { 1.0 }
    }

    /// Mean device reads, and mean seconds waited, per missing block.
    pub fn price(&self) -> (f64, f64) {
        let sum = |of: &dyn Fn(&Step) -> f64| self.steps.iter().map(of).sum::<f64>();
        let missing = sum(&|step| f64::from(step.missing_blocks)).max(1.0);
        let reads = sum(&|step| if step.missing_blocks > 0 { f64::from(step.reads) } else { 0.0 });
        (reads / missing, sum(&|step| step.seconds) / missing)
    }

    /// Scales the costs of all fetches until the simulation takes `run_seconds`, because the cost of a single fetch
    /// ignores overlaps. Returns the factor.
    fn make_cheaper(&mut self, run_seconds: f64) -> f64 {
        let mut cheaper = 1.0;
        // If all fetches take less than `WAITED_SHARE_MIN` of the run, the factor on their costs would diverge.
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

    /// Run time in seconds with a preload of `reads` during the job.
    pub fn simulate(&self, reads: &[Read]) -> f64 {
        Simulation::new(self, reads).run()
    }

    /// Run time in seconds, including all `reads` before the job starts.
    pub fn simulate_set_first(&self, reads: &[Read]) -> f64 {
        let load_seconds: f64 = reads.iter().map(|read| self.read_seconds(read.range.blocks() as u32)).sum();
        load_seconds + self.own_seconds
    }

    fn fetches_at_once(&self) -> bool {
        self.at_once >= SEVERAL
    }

    fn block_seconds(&self) -> f64 {
        self.own_seconds * self.at_once / self.blocks.max(1) as f64
    }

    /// Minimum run time with any preload: the time in which the busiest process does not wait for the device.
    pub fn least_seconds(&self) -> f64 {
        let blocks = |steps: &Vec<u32>| steps.iter().map(|at| u64::from(self.steps[*at as usize].piece.blocks)).sum();
        let most: u64 = self.readers.iter().map(blocks).max().unwrap_or_default();
        (self.block_seconds() * most as f64).min(self.own_seconds)
    }

    fn read_seconds(&self, blocks: u32) -> f64 {
        seconds(&self.device, 1.0, f64::from(blocks) * f64::from(self.block_size))
    }
}

fn steps_of_readers(touched: &Touched) -> Vec<Vec<u32>> {
    let mut steps: BTreeMap<u8, Vec<u32>> = BTreeMap::new();
    for step in 0..touched.pieces.len() {
        let fetcher = touched.fetchers.get(step).copied().unwrap_or_default();
        steps.entry(fetcher).or_default().push(step as u32);
    }
    steps.into_values().collect()
}

#[derive(Clone, Copy)]
enum Waiting {
    Preload(usize),
    Own(usize, f64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    NotYet,
    OnItsWay,
    Done,
}

#[derive(Clone, Copy)]
enum Reader {
    Works(f64),
    Fetches(usize, u32),
    /// Waits until the preload or read-ahead has fetched the step with this index.
    Waits(usize),
}

struct Simulation<'a> {
    job: &'a Job,
    readers: Vec<Reader>,
    /// Position of each process's next step in its list in `Job::readers`.
    next: Vec<usize>,
    begun: usize,
    clock: f64,
    reads: &'a [Read],
    by_position: Vec<u32>,
    /// Reads that cover each step, as a range of `by_position`.
    covers: Vec<(u32, u32)>,
    states: Vec<State>,
    taken: Vec<u32>,
    queue: VecDeque<Waiting>,
    /// Number of queued reads of the preload, and index of the next read to queue.
    preloads: usize,
    next_read: usize,
    /// How often a process needed blocks that the preload was already reading.
    met_on_its_way: u64,
    /// Steps that the kernel reads ahead; true once cached.
    ahead: BTreeMap<usize, bool>,
    now: f64,
}

impl<'a> Simulation<'a> {
    pub fn new(job: &'a Job, reads: &'a [Read]) -> Simulation<'a> {
        let mut by_position: Vec<u32> = (0..reads.len() as u32).collect();
        by_position.sort_unstable_by_key(|at| (reads[*at as usize].fork, reads[*at as usize].range.start));
        let (states, taken) = (vec![State::NotYet; reads.len()], vec![0; reads.len()]);
        let covers = cover(job, reads, &by_position);
        Simulation {
            job,
            readers: vec![Reader::Works(0.0); job.readers.len()],
            next: vec![0; job.readers.len()],
            begun: 0,
            clock: 0.0,
            reads,
            by_position,
            covers,
            states,
            taken,
            queue: VecDeque::new(),
            preloads: 0,
            met_on_its_way: 0,
            next_read: 0,
            ahead: BTreeMap::new(),
            now: 0.0,
        }
    }

    pub fn run(mut self) -> f64 {
        loop {
            self.fill();
            let served_at = self.queue.front().map(|first| self.now + self.seconds(*first));
            match self.next_to_ask() {
                Some((reader, clock)) if served_at.is_none_or(|served_at| clock <= served_at) => {
                    let step = self.job.readers[reader][self.next[reader]] as usize;
                    self.next[reader] += 1;
                    self.begun += 1;
                    self.clock = clock;
                    self.begin(reader, step, clock);
                }
                next if served_at.is_some() && (next.is_some() || self.is_anybody_waiting()) => self.serve_first(),
                _ => break,
            }
        }
        let end = |reader: &Reader| if let Reader::Works(until) = reader { *until } else { 0.0 };
        self.readers.iter().map(end).fold(0.0, f64::max)
    }

    /// Next process to request a step, and the time of the request. If n steps precede a process's first step in the
    /// film, the process starts when n steps have begun.
    fn next_to_ask(&self) -> Option<(usize, f64)> {
        let asks = |(place, reader): (usize, &Reader)| match (reader, self.job.readers[place].get(self.next[place])) {
            (Reader::Works(until), Some(step)) => Some((place, *until, *step as usize)),
            _ => None,
        };
        let asking = || self.readers.iter().enumerate().filter_map(asks);
        let has_come = |place: usize, step: usize| self.next[place] > 0 || step <= self.begun;
        let earliest = asking().filter(|(place, _, step)| has_come(*place, *step));
        let earliest = earliest.min_by(|one, other| one.1.total_cmp(&other.1));
        // If no process waits and none may start yet, the earliest step starts.
        let next = || asking().filter(|_| !self.is_anybody_waiting()).min_by_key(|(_, _, step)| *step);
        let (place, until, _) = earliest.or_else(next)?;
        Some((place, if self.next[place] > 0 { until } else { self.clock }))
    }

    fn is_anybody_waiting(&self) -> bool {
        self.readers.iter().any(|reader| !matches!(reader, Reader::Works(_)))
    }

    fn begin(&mut self, reader: usize, at: usize, clock: f64) {
        let step = self.job.steps[at];
        if step.missing_blocks == 0 {
            return self.work(reader, at, clock);
        }
        match self.ahead.get(&at) {
            Some(false) => return self.readers[reader] = Reader::Waits(at),
            Some(true) => {
                self.ahead.remove(&at);
                return self.work(reader, at, clock);
            }
            None => {}
        }
        let covering = self.covering(at);
        let is_brought = !covering.is_empty() && covering.clone().all(|place| self.is_on_its_way(place));
        if is_brought && self.is_there(at) {
            return self.work(reader, at, clock);
        }
        if is_brought && self.waits_for_what_comes() {
            return self.readers[reader] = Reader::Waits(at);
        }
        self.take(covering, step.missing_blocks);
        self.push_own(at, clock);
        self.readers[reader] = Reader::Fetches(at, step.reads);
    }

    /// Whether a process waits for blocks that the preload is reading. In a parallel job, it fetches them itself every
    /// second time (docs/films.md).
    fn waits_for_what_comes(&mut self) -> bool {
        self.met_on_its_way += 1;
        !self.job.fetches_at_once() || self.met_on_its_way.is_multiple_of(2)
    }

    fn work(&mut self, reader: usize, at: usize, clock: f64) {
        if let Some(next) = self.job.readers[reader].get(self.next[reader]) {
            self.read_ahead(*next as usize, clock);
        }
        let own_seconds = self.job.block_seconds();
        self.readers[reader] = Reader::Works(clock + own_seconds * f64::from(self.job.steps[at].piece.blocks));
    }

    fn read_ahead(&mut self, at: usize, clock: f64) {
        let Some(step) = self.job.steps.get(at).filter(|step| step.is_ahead && step.missing_blocks > 0) else { return };
        let covering = self.covering(at);
        if self.ahead.contains_key(&at) || covering.clone().any(|place| self.is_on_its_way(place)) {
            return;
        }
        self.take(covering, step.missing_blocks);
        self.ahead.insert(at, false);
        self.push(Waiting::Own(at, step.seconds), clock);
    }

    fn push_own(&mut self, at: usize, clock: f64) {
        let step = self.job.steps[at];
        self.push(Waiting::Own(at, step.seconds / f64::from(step.reads)), clock);
    }

    fn push(&mut self, waiting: Waiting, clock: f64) {
        if self.queue.is_empty() {
            self.now = self.now.max(clock);
        }
        self.queue.push_back(waiting);
    }

    fn fill(&mut self) {
        while self.preloads < DEPTH && self.next_read < self.reads.len() {
            let at = self.next_read;
            self.next_read += 1;
            if u64::from(self.taken[at]) < self.reads[at].range.blocks() {
                self.queue.push_back(Waiting::Preload(at));
                self.states[at] = State::OnItsWay;
                self.preloads += 1;
            }
        }
    }

    fn seconds(&self, waiting: Waiting) -> f64 {
        match waiting {
            Waiting::Preload(at) => self.job.read_seconds(self.reads[at].range.blocks() as u32 - self.taken[at]),
            Waiting::Own(_, seconds) => seconds,
        }
    }

    fn serve_first(&mut self) {
        let Some(first) = self.queue.pop_front() else { return };
        self.now += self.seconds(first);
        match first {
            Waiting::Preload(at) => {
                self.states[at] = State::Done;
                self.preloads -= 1;
                // The preload's next reads are queued before those of woken processes.
                self.fill();
                self.wake();
            }
            Waiting::Own(step, _) => {
                self.fill();
                match self.ahead.get_mut(&step) {
                    Some(is_there) => {
                        *is_there = true;
                        self.wake();
                    }
                    None => self.go_on(step),
                }
            }
        }
    }

    fn wake(&mut self) {
        for place in 0..self.readers.len() {
            let Reader::Waits(at) = self.readers[place] else { continue };
            let is_there = match self.ahead.get(&at) {
                Some(is_there) => *is_there,
                None => self.is_there(at),
            };
            if is_there {
                self.ahead.remove(&at);
                self.work(place, at, self.now);
            }
        }
    }

    fn go_on(&mut self, step: usize) {
        let fetches = |reader: &Reader| matches!(reader, Reader::Fetches(at, _) if *at == step);
        let Some(place) = self.readers.iter().position(fetches) else { return };
        match self.readers[place] {
            Reader::Fetches(at, left) if left > 1 => {
                self.readers[place] = Reader::Fetches(at, left - 1);
                self.push_own(at, self.now);
            }
            _ => self.work(place, step, self.now),
        }
    }

    fn is_there(&self, at: usize) -> bool {
        self.covering(at).all(|place| self.states[self.by_position[place] as usize] == State::Done)
    }

    fn is_on_its_way(&self, place: usize) -> bool {
        self.states[self.by_position[place] as usize] != State::NotYet
    }

    fn take(&mut self, covering: Range<usize>, blocks: u32) {
        for place in covering {
            let read = self.by_position[place] as usize;
            let rest = self.reads[read].range.blocks() as u32 - self.taken[read];
            self.taken[read] += if self.states[read] == State::Done { 0 } else { blocks.min(rest) };
        }
    }

    fn covering(&self, at: usize) -> Range<usize> {
        self.covers.get(at).map_or(0..0, |(first, last)| *first as usize..*last as usize)
    }
}

fn cover(job: &Job, reads: &[Read], by_position: &[u32]) -> Vec<(u32, u32)> {
    if reads.is_empty() {
        return Vec::new();
    }
    let read = |place: usize| by_position.get(place).map(|at| &reads[*at as usize]);
    let mut covers = vec![(0, 0); job.steps.len()];
    let mut first = 0;
    for at in &job.order {
        let Piece { fork, start, blocks } = job.steps[*at as usize].piece;
        let (fork, start, end) = (fork as usize, u64::from(start), u64::from(start + blocks));
        while read(first).is_some_and(|read| (read.fork, read.range.end) <= (fork, start)) {
            first += 1;
        }
        let mut last = first;
        while read(last).is_some_and(|read| (read.fork, read.range.start) < (fork, end)) {
            last += 1;
        }
        covers[*at as usize] = (first as u32, last as u32);
    }
    covers
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::film::Totals;
    use crate::trace::touched::TouchedFork;
    use host::units::{BlockRange, Fork};
    use postgres::RelationPath;
    use roaring::RoaringBitmap;

    const BLOCK: u32 = 8192;

    const RUN: Run = Run {
        seconds: 1.0,
        device_reads: None,
        is_cold: true,
        preloaded: Bytes(0),
        fetches: 1.0,
        source: PriceSource::NotCounted,
    };

    fn device() -> DeviceProfile {
        let bandwidth = Bytes(10_000 * 8192);
        DeviceProfile { reads_per_second: 1000.0, bandwidth, overlap: 0.0, ..DeviceProfile::default() }
    }

    fn touched(pieces: &[(u32, u32)], resident: std::ops::Range<u32>) -> Touched {
        let mut fork = TouchedFork {
            relation: 0,
            path: RelationPath::base(5, 1),
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
        Job::new(touched, Run { seconds, device_reads: None, is_cold: true, ..RUN }, device(), BLOCK)
    }

    fn reads(ranges: impl Iterator<Item = (u64, u64)>) -> Vec<Read> {
        ranges.map(|(start, end)| Read { fork: 0, range: BlockRange::new(start, end) }).collect()
    }

    fn is_near(found: f64, expected: f64) {
        assert!((found / expected - 1.0).abs() < 0.02, "{found} is not {expected}");
    }

    /// Random single blocks: 11 s of device time, 1 s of own work.
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
        is_near(job.simulate_set_first(&sorted), 2.16);
        let with = job.simulate(&sorted);
        assert!(with < 3.0 && with > 1.1, "{with}");
    }

    #[test]
    fn what_a_read_alone_waits_is_not_the_jobs_own() {
        let device = DeviceProfile { reads_per_second: 20_000.0, alone_seconds: 1e-3, ..device() };
        let run = |seconds| Run { seconds, device_reads: None, is_cold: true, ..RUN };
        let own = |touched: &Touched, seconds| Job::new(touched, run(seconds), device, BLOCK).own_seconds;
        is_near(own(&index_loop(), 13.0), 2.0);
        is_near(Job::new(&index_loop(), run(13.0), device, BLOCK).simulate(&[]), 13.0);
        is_near(own(&index_loop(), 5.0), 0.25);
        let fetchers = (0..10_000).map(|at: u32| (at % 4) as u8).collect();
        let four = Touched { fetchers, at_once: 4.0, ..index_loop() };
        is_near(Job::new(&four, run(4.0), device, BLOCK).simulate(&[]), 4.0);
        is_near(Job::new(&four, run(4.0), device, BLOCK).device.wait_seconds(), 1e-3 / 4.0 - 1.0 / 20_000.0);
        let scan = touched(&(0..625).map(|at| (at * 16, 16)).collect::<Vec<_>>(), 0..0);
        assert!(own(&scan, 3.0) > 1.9, "{}", own(&scan, 3.0));
    }

    #[test]
    fn of_several_processes_each_goes_its_own_way() {
        let pieces: Vec<(u32, u32)> = (0..10_000).map(|at| (at * 2, 1)).collect();
        let ahead = reads((0..2500).map(|at| (at * 8, at * 8 + 7)));
        let with = |fetchers: Vec<u8>, at_once: f64| {
            let job = job(&Touched { fetchers, at_once, ..touched(&pieces, 0..0) }, 12.0);
            is_near(job.simulate(&[]), 12.0);
            (job.simulate(&ahead), job.simulate_set_first(&ahead))
        };
        let (one, one_first) = with(Vec::new(), 0.0);
        let uneven =
            (0..10_000).map(|at: u32| if (at / 100).is_multiple_of(2) { (at / 200 % 4) as u8 } else { (at % 4) as u8 });
        let (four, four_first) = with(uneven.collect(), 4.0);
        assert!(four > 1.05 * one && four < 9.0, "{four} {one}");
        assert!((four_first / one_first - 1.0).abs() < 0.05, "{four_first} {one_first}");
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
        let job =
            Job::new(&whole, Run { seconds: 2.0, device_reads: Some(2000), is_cold: true, ..RUN }, device(), BLOCK);
        assert!(job.simulate(&[]) < 0.11);
    }

    #[test]
    fn a_film_of_a_warm_run_tells_the_jobs_own_time() {
        let mut warm = index_loop();
        warm.forks[0].found.insert_range(0..10_000);
        is_near(job(&warm, 1.0).simulate(&[]), 12.0);
        let mut half = index_loop();
        half.forks[0].found.insert_range(0..5000);
        is_near(job(&half, 6.5).simulate(&[]), 12.0);
    }

    #[test]
    fn a_film_of_a_warm_run_of_several_processes_leaves_a_miss_its_price() {
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
            Run { seconds: 1.0, device_reads: Some(5), is_cold: false, ..RUN },
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
            let run = Run { seconds, device_reads: None, is_cold: false, preloaded, ..RUN };
            Job::new(&helped, run, device(), BLOCK)
        };
        is_near(of(6.0).own_seconds, 5.0);
        is_near(of(6.0).simulate(&[]), 16.0);
        is_near(of(1.0).own_seconds, 0.05);
    }

    #[test]
    fn counted_reads_tell_read_ahead_from_single_blocks() {
        let pieces = touched(&[(0, 8), (100, 8)], 0..0);
        let reads = |counted| {
            let run = Run { seconds: 1.0, device_reads: Some(counted), is_cold: true, ..RUN };
            Job::new(&pieces, run, device(), BLOCK).steps.iter().map(|step| step.reads).sum::<u32>()
        };
        assert_eq!((reads(16), reads(2), reads(1), reads(1000)), (16, 2, 2, 16));
    }

    /// As TPC-H's Q11: single blocks, a third fetched by read-around.
    #[test]
    fn neighbours_that_come_together_cost_a_part_of_a_read_each() {
        let run = |reads| Run { seconds: 12.0, device_reads: Some(reads), is_cold: true, ..RUN };
        let whole = reads((0..10_000).step_by(64).map(|start| (start, (start + 64).min(10_000))));
        // Reads take 7 s, bytes 1 s, own work 4 s.
        let job = Job::new(&index_loop(), run(7_000), device(), BLOCK);
        is_near(job.simulate(&[]), 12.0);
        is_near(job.simulate_set_first(&whole), 5.16);
        let mut pieces: Vec<(u32, u32)> = (0..2_000).map(|at| (20_000 + 10 * at, 1)).collect();
        pieces.extend((0..625).map(|at| (at * 16, 16)));
        let job = Job::new(&touched(&pieces, 0..0), run(2_625), device(), BLOCK);
        let single = job.steps.iter().find(|step| step.piece.blocks == 1).unwrap();
        is_near(single.seconds, 0.0011);
    }

    #[test]
    fn what_covers_a_step_is_found_in_one_pass() {
        let piece = |at: u32| Piece { fork: at % 2, start: at * 7919 % 1000, blocks: 1 + at % 9 };
        let job = Job {
            steps: (0..300)
                .map(|at| Step { piece: piece(at), missing_blocks: 1, reads: 1, seconds: 0.0, is_ahead: false })
                .collect(),
            ..Job::new(
                &Touched::default(),
                Run { seconds: 1.0, device_reads: None, is_cold: true, ..RUN },
                DeviceProfile::default(),
                8192,
            )
        };
        let mut order: Vec<u32> = (0..300).collect();
        order.sort_by_key(|at| (piece(*at).fork, piece(*at).start));
        let job = Job { order, ..job };
        let reads: Vec<Read> = [1, 0]
            .into_iter()
            .flat_map(|fork| (0..60).map(move |at| Read { fork, range: BlockRange::new(at * 17, at * 17 + 11) }))
            .collect();
        let simulation = Simulation::new(&job, &reads);
        for (at, step) in job.steps.iter().enumerate() {
            let Piece { fork, start, blocks } = step.piece;
            let has_part = |read: &&Read| {
                read.fork == fork as usize
                    && read.range.start < u64::from(start + blocks)
                    && read.range.end > u64::from(start)
            };
            let expected: Vec<Read> = reads.iter().filter(has_part).copied().collect();
            let found = simulation.covering(at).map(|place| reads[simulation.by_position[place] as usize]);
            assert_eq!(found.collect::<Vec<Read>>(), expected, "{:?}", step.piece);
        }
    }

    /// 1000 blocks, a 1 ms read each, in a run of 3 s.
    fn looped() -> (Touched, DeviceProfile, Run) {
        let pieces: Vec<(u32, u32)> = (0..1000).map(|at| (at * 7 % 1000 * 2, 1)).collect();
        let (reads_per_second, bandwidth) = (1e12, Bytes(1 << 50));
        let device = DeviceProfile { reads_per_second, bandwidth, alone_seconds: 1e-3, ..DeviceProfile::default() };
        (touched(&pieces, 0..0), device, Run { seconds: 3.0, device_reads: Some(1000), ..RUN })
    }

    #[test]
    fn less_memory_costs_a_read_each_time() {
        let (touched, device, run) = looped();
        let job = Job::new(&touched, run, device, BLOCK);
        is_near(job.own_seconds, 2.0);
        is_near(job.simulate_fetching(1.0), 3.0);
        is_near(job.simulate_fetching(5.0), 7.0);
        is_near(job.price().0, 1.0);
        is_near(job.price().1, 1e-3);
        let lacking = Run { seconds: 7.0, device_reads: Some(5000), fetches: 5.0, ..run };
        let job = Job::new(&touched, lacking, device, BLOCK);
        is_near(job.own_seconds, 2.0);
        is_near(job.simulate_fetching(1.0), 3.0);
        is_near(job.simulate_fetching(5.0), 7.0);
    }

    #[test]
    fn limits_hold_and_a_faster_run_proves_a_faster_device() {
        let (touched, device, run) = looped();
        let slow = Job::new(&touched, run, DeviceProfile { reads_per_second: 500.0, ..device }, BLOCK);
        is_near(slow.price().1, 2e-3);
        let fast = Job::new(&touched, Run { seconds: 0.5, ..run }, device, BLOCK);
        is_near(fast.own_seconds, 0.025);
        is_near(fast.simulate_fetching(1.0), 0.5);
    }

    #[test]
    fn a_warm_run_tells_the_jobs_own_time_and_its_stretches_the_reads() {
        let (mut touched, device, run) = looped();
        touched.forks[0].found.insert_range(0..2000);
        let warm = Run { seconds: 2.0, device_reads: None, source: PriceSource::Warm, ..run };
        let job = Job::new(&touched, warm, device, BLOCK);
        is_near(job.own_seconds, 2.0);
        is_near(job.simulate_fetching(1.0), 3.0);
        let mut scan = self::touched(&(0..10).map(|at| (at * 100, 100)).collect::<Vec<_>>(), 0..0);
        scan.forks[0].found.insert_range(0..1000);
        let job = Job::new(&scan, warm, device, BLOCK);
        is_near(job.simulate_fetching(1.0), 2.0);
        assert!((62.0..=70.1).contains(&(job.price().0 * 1000.0)), "{:?}", job.price());
    }

    #[test]
    fn what_the_device_did_for_others_or_around_a_block_is_told_apart() {
        let blocks = |blocks: u64| Some(Bytes(blocks * u64::from(BLOCK)));
        let of = |reads: u64, delivered: u64, again: u64, change: &dyn Fn(&mut Totals)| {
            let mut totals = Totals { fetched_blocks: 1000, again_blocks: 10_000, ..Totals::default() };
            change(&mut totals);
            let (device_reads, device_bytes, fetched_again) = (Some(reads), blocks(delivered), blocks(again));
            let run =
                Run::of(&FilmHeader { totals, device_reads, device_bytes, fetched_again, ..FilmHeader::for_tests() });
            (run.source, run.device_reads, run.fetches)
        };
        let same = |_: &mut Totals| ();
        assert_eq!(of(1000, 1000, 0, &same), (PriceSource::Counted, Some(1000), 1.0));
        assert_eq!(of(700, 1400, 2, &same), (PriceSource::Counted, Some(700), 1.002), "around them");
        assert_eq!(of(700, 9000, 0, &same).0, PriceSource::Counted, "larger reads, and no more of them than blocks");
        assert_eq!(of(3000, 3000, 2000, &same), (PriceSource::CountedAgain, Some(3000), 3.0));
        assert_eq!(of(9000, 9000, 0, &same), (PriceSource::Others, None, 1.0));
        assert_eq!(of(9, 9, 0, &same).0, PriceSource::NotCounted, "they lie on another disk");
        assert_eq!(of(9, 1000, 0, &|totals| totals.preloaded_blocks = 200).0, PriceSource::Preloaded);
        let warm = of(9, 1000, 0, &|totals| totals.requested_blocks = 13_000);
        assert_eq!((warm.0, warm.1), (PriceSource::Warm, None), "few may have been read ahead");
    }
}
