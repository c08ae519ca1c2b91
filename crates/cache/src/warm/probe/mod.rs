//! Measures a data directory's device with reads of relation files that bypass the page cache. The start of each phase
//! does not count, because limiters allow bursts. No block is read twice while unread ones remain: caches below the
//! device would serve the second read.

mod store;

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rand::seq::SliceRandom as _;
use serde::{Deserialize, Serialize};

use super::device_profile::{DeviceProfile, READ_PRICE_SHARE_MAX};
use super::{Control, Error, Result};
use host::files::Tree;
use host::linux;
use host::linux::direct_read::{AlignedBuffer, DirectFile};
use host::linux::open_files::read_limit;
use host::linux::threads::{lock, on_threads};
use host::units::{Bytes, Fork};
use postgres::DataDirectory;

pub use store::{DeviceRecord, ProfileStore, StoredDevice};

/// A probe's time limit, unless the device hangs.
pub const PROBE_TIME: Duration = Duration::from_secs(10);

const DEPTHS: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];
/// Reads in flight for large reads. A few suffice to reach the bandwidth, and many would delay a stop.
const LARGE_DEPTHS: std::ops::RangeInclusive<u32> = 4..=16;

/// Maximum (time, bytes) of one phase, as shares of the whole probe's time and bytes. The times of all phases sum to
/// only 0.78, because a limiter may delay the last reads of a phase.
const DEPTH_SHARE: (f64, f64) = (0.045, 0.02);
const SIZE_SHARE: (f64, f64) = (0.045, 0.07);
const SEQUENTIAL_SHARE: (f64, f64) = (0.15, 0.36);

struct Running<'a> {
    deck: &'a Deck,
    budget: Bytes,
    control: &'a Control,
    progress: &'a dyn Fn(&str, u64, u64),
    done: u64,
    reads: u64,
    read_bytes: u64,
}

/// Reads at most `budget` bytes. `progress` gets the phase, the number of phases done, and that of all phases. `None`
/// if interrupted.
///
/// # Errors
/// Too little data, no support for direct reads, or too few completed reads.
pub fn probe_device(
    directory: &Tree,
    files: &[SampleFile],
    budget: Bytes,
    control: &Control,
    progress: &dyn Fn(&str, u64, u64),
) -> Result<Option<Measurement>> {
    let started = Instant::now();
    let deck = Deck::new(directory, files)?;
    let mut running = Running { deck: &deck, budget, control, progress, done: 0, reads: 0, read_bytes: 0 };
    let Some(by_depth) = running.measure_depths()? else { return Ok(None) };
    let small = summarize_depths(&by_depth);
    let large_depth = small.depth.clamp(*LARGE_DEPTHS.start(), *LARGE_DEPTHS.end());
    let Some(by_size) = running.measure_sizes(large_depth, small.reads_per_second)? else { return Ok(None) };
    let sequential = running.run("reads in order", &deck.sequential, large_depth, SEQUENTIAL_SHARE)?;
    let Some(sequential) = sequential else { return Ok(None) };
    let sequential_bandwidth = Bytes((sequential.reads_per_second * deck.sequential.read_bytes as f64) as u64);
    let profile = compute_profile(small, &by_size, sequential_bandwidth);
    let alone = by_depth[0];
    Ok(Some(Measurement {
        profile,
        latency_us_p50: alone.latency_us_p50,
        latency_us_p99: alone.latency_us_p99,
        sequential_bandwidth,
        fit: fit_prices(&by_size, &profile),
        profile_error_ratio_max: compute_error_ratio(&by_size, &profile),
        by_depth,
        by_size,
        reads: running.reads,
        read_bytes: Bytes(running.read_bytes),
        seconds: started.elapsed().as_secs_f64(),
        has_read_twice: deck.has_read_twice(),
    }))
}

impl Running<'_> {
    fn measure_depths(&mut self) -> Result<Option<Vec<DepthPoint>>> {
        let mut points: Vec<DepthPoint> = Vec::new();
        for depth in DEPTHS {
            let Some(point) = self.run_random(0, depth, DEPTH_SHARE)? else { return Ok(None) };
            points.push(point);
            if is_flat(&points) {
                break;
            }
        }
        Ok(Some(points))
    }

    fn measure_sizes(&mut self, depth: u32, small_per_second: f64) -> Result<Option<Vec<SizePoint>>> {
        let mut points = vec![SizePoint { read_bytes: Bytes(SIZES[0]), reads_per_second: small_per_second }];
        for (nth, size) in SIZES.into_iter().enumerate().skip(1) {
            let Some(point) = self.run_random(nth, depth, SIZE_SHARE)? else { return Ok(None) };
            points.push(SizePoint { read_bytes: Bytes(size), reads_per_second: point.reads_per_second });
        }
        Ok(Some(points))
    }

    /// Random reads of the `nth` size.
    fn run_random(&mut self, nth: usize, depth: u32, share: (f64, f64)) -> Result<Option<DepthPoint>> {
        let what = format!("random reads of {}, {depth} at a time", Bytes(SIZES[nth]));
        self.run(&what, &self.deck.random[nth], depth, share)
    }

    fn run(
        &mut self,
        what: &str,
        places: &Places,
        depth: u32,
        (time, bytes): (f64, f64),
    ) -> Result<Option<DepthPoint>> {
        let (deck, control) = (self.deck, self.control);
        let steps = DEPTHS.len() + SIZES.len();
        (self.progress)(what, self.done, steps as u64);
        self.done += 1;
        let (started, time) = (Instant::now(), PROBE_TIME.mul_f64(time));
        let budget = (self.budget.0 as f64 * bytes) as u64;
        let (reserved_bytes, read_bytes) = (AtomicU64::new(0), AtomicU64::new(0));
        let failure: Mutex<Option<linux::Error>> = Mutex::default();
        let is_over = || control.is_interrupted() || started.elapsed() >= time;
        let reserve = || reserved_bytes.fetch_add(places.read_bytes, Ordering::Relaxed) + places.read_bytes <= budget;
        let done = on_threads(depth as usize, |_| {
            let size = places.read_bytes as usize;
            let mut buffer = AlignedBuffer::new(size);
            let mut completions = Vec::new();
            while !is_over() && reserve() {
                let place = places.take();
                let began = started.elapsed();
                match deck.open[place.file as usize].read_at(place.offset, size, &mut buffer) {
                    Ok(bytes) => {
                        read_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
                        let ended = started.elapsed();
                        let took = (ended - began).as_secs_f64();
                        completions.push(Completion { ended: ended.as_secs_f64(), took });
                    }
                    Err(error) => {
                        lock(&failure).get_or_insert(error);
                        break;
                    }
                }
            }
            completions
        });
        let mut completions: Vec<Completion> = done.into_iter().filter_map(Result::ok).flatten().collect();
        let failure = failure.into_inner().unwrap_or_else(PoisonError::into_inner);
        // A failure counts only if nothing was read: a relation may be dropped meanwhile.
        if let Some(error) = failure.filter(|_| completions.is_empty()) {
            return Err(error.into());
        }
        self.reads += completions.len() as u64;
        self.read_bytes += read_bytes.into_inner();
        if control.is_interrupted() {
            return Ok(None);
        }
        compute_speed(depth, &mut completions).map(Some).ok_or_else(|| Error::TooFewReads(what.to_owned()))
    }
}

// Large relation files, cut into chunks and dealt to the phases.

/// Also the size of the reads in order.
const CHUNK: u64 = 1 << 20;
/// Sizes of the random reads, the small reads first. Each size reads its own chunks of the files.
const SIZES: [u64; 8] = [8 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20];
/// Maximum files, all open at once; half of `ulimit -n` if that is less.
const FILES_MAX: u64 = 256;
const CHUNKS_MIN: usize = 16;
/// Sequential reads get a third of the chunks, small reads a sixth of the rest.
const SEQUENTIAL_PART: usize = 3;
const SMALL_PART: usize = 6;
/// Maximum number of chunks for each read size. Each chunk is cut into reads of this size. The limit saves memory,
/// because the position of each read takes 16 bytes.
const CHUNKS_PER_SIZE_MAX: usize = 4096;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SampleFile {
    pub path: PathBuf,
    pub size: Bytes,
}

pub fn find_sample_files(directory: &DataDirectory) -> Result<Vec<SampleFile>> {
    let root = directory.files.root().facts();
    let own = root.map_err(|source| linux::Error::file("look at", &directory.path, source))?.st_dev;
    let mut files = Vec::new();
    for relation in directory.scan(&mut Vec::new())? {
        for segment in 0.. {
            let path = relation.path.segment_file(Path::new(""), Fork::Main, segment);
            let Some(facts) = directory.files.open_file(&path).and_then(|file| file.metadata()).ok() else { break };
            if facts.dev() == own && facts.len() >= CHUNK {
                files.push(SampleFile { path, size: Bytes(facts.len()) });
            }
        }
    }
    files.sort_by_key(|file| std::cmp::Reverse(file.size));
    files.truncate((read_limit() / 2).min(FILES_MAX) as usize);
    files.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(files)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    file: u32,
    offset: u64,
}

/// Positions of reads of one size, each used once before any repeats.
#[derive(Debug)]
struct Places {
    read_bytes: u64,
    places: Vec<Place>,
    next: AtomicUsize,
}

impl Places {
    fn new(read_bytes: u64, places: Vec<Place>) -> Places {
        Places { read_bytes, places, next: AtomicUsize::new(0) }
    }

    pub fn take(&self) -> Place {
        self.places[self.next.fetch_add(1, Ordering::Relaxed) % self.places.len()]
    }
}

struct Deck {
    open: Vec<DirectFile>,
    sequential: Places,
    /// In the order of `SIZES`.
    random: Vec<Places>,
}

impl Deck {
    pub fn new(directory: &Tree, files: &[SampleFile]) -> Result<Deck> {
        let of_file = |(file, sample): (usize, &SampleFile)| {
            (0..sample.size.0 / CHUNK).map(move |at| Place { file: file as u32, offset: at * CHUNK })
        };
        let mut chunks: Vec<Place> = files.iter().enumerate().flat_map(of_file).collect();
        if chunks.len() < CHUNKS_MIN {
            let found = files.iter().map(|file| file.size).sum();
            return Err(Error::TooLittleToProbe { found, needed: Bytes(CHUNKS_MIN as u64 * CHUNK) });
        }
        let open: Result<_, _> = files.iter().map(|file| DirectFile::open_below(directory, &file.path)).collect();
        let sequential = chunks.split_off(chunks.len() - chunks.len() / SEQUENTIAL_PART);
        chunks.shuffle(&mut rand::rng());
        let random = (0..SIZES.len()).map(|nth| deal(&chunks, nth)).collect();
        Ok(Deck { open: open?, sequential: Places::new(CHUNK, sequential), random })
    }

    pub fn has_read_twice(&self) -> bool {
        let has_wrapped = |places: &Places| places.next.load(Ordering::Relaxed) > places.places.len();
        self.random.iter().chain([&self.sequential]).any(has_wrapped)
    }
}

/// Positions of random reads of the `nth` size. Of the shuffled `chunks`, the first are for small reads, then an equal
/// number for each larger size.
fn deal(chunks: &[Place], nth: usize) -> Places {
    let (size, small) = (SIZES[nth], chunks.len() / SMALL_PART);
    let share = (chunks.len() - small) / (SIZES.len() - 1);
    let (start, length) = if nth == 0 { (0, small) } else { (small + (nth - 1) * share, share.max(1)) };
    let end = (start + length.clamp(1, CHUNKS_PER_SIZE_MAX)).min(chunks.len());
    let cut = |chunk: &Place| {
        let Place { file, offset } = *chunk;
        (0..CHUNK / size).map(move |at| Place { file, offset: offset + at * size })
    };
    let mut places: Vec<Place> = chunks[start.min(end - 1)..end].iter().flat_map(cut).collect();
    places.shuffle(&mut rand::rng());
    Places::new(size, places)
}

/// Unmeasured time at the start of each phase, at most the share `DISCARDED_RATIO` of the phase. The
/// kernel's limiter (blk-throttle) works in slices of 100 ms. At first it allows the reads of more than two slices at
/// once.
const DISCARDED: Duration = Duration::from_millis(200);
const DISCARDED_RATIO: f64 = 0.25;

/// An interval counts as a pause between bursts if it is longer than `PAUSE_RATIO` times the median interval, and
/// longer than `PAUSE_MIN` seconds.
const PAUSE_RATIO: f64 = 10.0;
const PAUSE_MIN: f64 = 0.01;

/// A read's end, in seconds since the phase began, and its duration.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Completion {
    ended: f64,
    took: f64,
}

fn compute_speed(depth: u32, completions: &mut [Completion]) -> Option<DepthPoint> {
    completions.sort_by(|one, other| one.ended.total_cmp(&other.ended));
    let last = completions.last()?.ended;
    let discarded = DISCARDED.as_secs_f64().min(last * DISCARDED_RATIO);
    let first = completions.partition_point(|one| one.ended <= discarded).min(completions.len().saturating_sub(2));
    let counted = &completions[first..];
    let mut latencies: Vec<f64> = counted.iter().map(|one| one.took * 1e6).collect();
    latencies.sort_by(f64::total_cmp);
    let percentile = |share: f64| latencies.get(((latencies.len() as f64 - 1.0) * share).round() as usize).copied();
    let ends: Vec<f64> = counted.iter().map(|one| one.ended).collect();
    Some(DepthPoint {
        depth,
        reads_per_second: compute_rate(&ends)?,
        latency_us_p50: percentile(0.5)?,
        latency_us_p99: percentile(0.99)?,
    })
}

/// Reads per second. If reads come in bursts, only the bursts between the first and last pause count.
fn compute_rate(ends: &[f64]) -> Option<f64> {
    let (mut from, mut to) = (0, ends.len().checked_sub(1)?);
    let mut distances: Vec<f64> = ends.windows(2).map(|pair| pair[1] - pair[0]).collect();
    distances.sort_by(f64::total_cmp);
    let pause = PAUSE_MIN.max(distances.get(distances.len() / 2)? * PAUSE_RATIO);
    let starts: Vec<usize> = (1..ends.len()).filter(|at| ends[*at] - ends[at - 1] > pause).collect();
    if let [first, .., last] = starts[..]
        // Pauses that span less than half of the time are single stalls, not gaps between bursts.
        && ends[last] - ends[first] > (ends[to] - ends[from]) / 2.0
    {
        (from, to) = (first, last);
    }
    let seconds = ends[to] - ends[from];
    (seconds > 0.0).then(|| (to - from) as f64 / seconds)
}

/// Result of a probe. Rates exclude the start of each phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct Measurement {
    /// The profile that restore plans use.
    pub profile: DeviceProfile,
    /// Median latency of small reads, one at a time.
    pub latency_us_p50: f64,
    /// 99th percentile of the latency of small reads, one at a time.
    pub latency_us_p99: f64,
    /// Bytes per second of 1 MiB reads.
    pub sequential_bandwidth: Bytes,
    /// Random reads of 8 KiB, by number of reads in flight.
    pub by_depth: Vec<DepthPoint>,
    /// Random reads by size. Above 8 KiB, `profile.depth` reads are in flight, but at least 4 and at most 16.
    pub by_size: Vec<SizePoint>,
    /// Costs whose sum fits `by_size` best: `seconds = reads ÷ reads_per_second + bytes ÷ bandwidth`.
    pub fit: Fit,
    /// Largest error of `profile` on `by_size`, relative to the measured time.
    pub profile_error_ratio_max: f64,
    pub reads: u64,
    pub read_bytes: Bytes,
    pub seconds: f64,
    /// Whether some blocks were read twice, because there were too few. Caches below the device may have answered.
    pub has_read_twice: bool,
}

/// Random reads of 8 KiB at one depth.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct DepthPoint {
    /// Reads in flight.
    pub depth: u32,
    pub reads_per_second: f64,
    pub latency_us_p50: f64,
    pub latency_us_p99: f64,
}

/// Random reads of one size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct SizePoint {
    pub read_bytes: Bytes,
    pub reads_per_second: f64,
}

impl SizePoint {
    pub fn bandwidth(&self) -> Bytes {
        Bytes((self.reads_per_second * self.read_bytes.0 as f64) as u64)
    }
}

/// Cost of reads, by number and by bytes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct Fit {
    pub reads_per_second: f64,
    /// Bytes per second.
    pub bandwidth: Bytes,
    /// Largest error, relative to the measured time.
    pub error_ratio_max: f64,
}

/// Rates above this share of the best one count as equal, because measurements vary by as much.
const AS_GOOD_AS_BEST: f64 = 0.9;
/// Minimum gain (as a factor) that justifies more reads in flight.
const GAIN_MIN: f64 = 1.05;

fn is_flat(points: &[DepthPoint]) -> bool {
    let [.., before, _, _] = points else { return false };
    points[points.len() - 2..].iter().all(|later| later.reads_per_second < before.reads_per_second * GAIN_MIN)
}

/// A profile of small reads only.
fn summarize_depths(points: &[DepthPoint]) -> DeviceProfile {
    let best = choose_best(points.iter().map(|point| point.reads_per_second));
    let first_good = points.iter().find(|point| point.reads_per_second >= best * AS_GOOD_AS_BEST);
    let depth = first_good.map_or(1, |point| point.depth);
    // The median, because one pause would distort a mean.
    let alone = points.iter().find(|point| point.depth == 1);
    let alone_seconds = alone.map_or(0.0, |point| point.latency_us_p50 / 1e6);
    DeviceProfile { reads_per_second: best, depth, alone_seconds, ..DeviceProfile::default() }
}

/// Median of the three best rates: the best may be luck.
fn choose_best(rates: impl Iterator<Item = f64>) -> f64 {
    let mut rates: Vec<f64> = rates.collect();
    rates.sort_by(|one, other| other.total_cmp(one));
    rates.get(1.min(rates.len().saturating_sub(1))).copied().unwrap_or(0.0)
}

/// `by_size` begins with the small reads.
fn compute_profile(small: DeviceProfile, by_size: &[SizePoint], sequential: Bytes) -> DeviceProfile {
    let at_random = Bytes(choose_best(by_size.iter().map(|point| point.bandwidth().0 as f64)) as u64);
    let bandwidth = sequential.max(at_random).max(Bytes(1));
    let is_enough = |point: &&SizePoint| {
        let read_price = 1.0 / small.reads_per_second;
        let is_fast = point.bandwidth().0 as f64 >= at_random.0 as f64 * AS_GOOD_AS_BEST;
        is_fast && read_price <= point.read_bytes.seconds_at(bandwidth) * READ_PRICE_SHARE_MAX
    };
    let largest = by_size.iter().find(is_enough).or(by_size.last());
    let largest_read = largest.map_or(small.largest_read, |point| point.read_bytes);
    let added = DeviceProfile { bandwidth, largest_read, overlap: 0.0, ..small };
    DeviceProfile { overlap: fit_overlap(by_size, &added), ..added }
}

/// Least-squares fit of `DeviceProfile::overlap`, by relative errors.
fn fit_overlap(points: &[SizePoint], added: &DeviceProfile) -> f64 {
    let (mut top, mut bottom) = (0.0, 0.0);
    for point in points {
        let smaller = (1.0 / added.reads_per_second).min(point.read_bytes.seconds_at(added.bandwidth));
        let (over, smaller) =
            (added.seconds(1, point.read_bytes) * point.reads_per_second - 1.0, smaller * point.reads_per_second);
        top += over * smaller;
        bottom += smaller * smaller;
    }
    if bottom > 0.0 { (top / bottom).clamp(0.0, 1.0) } else { 0.0 }
}

/// Fits a read's seconds, `a + b × bytes`, by least squares of the relative errors. Returns the profile's costs unless
/// `a` and `b` are positive.
fn fit_prices(points: &[SizePoint], profile: &DeviceProfile) -> Fit {
    // With a point's time t, minimizes Σ (a u + b v − 1)² for u = 1 ÷ t and v = bytes ÷ t.
    let (mut uu, mut uv, mut vv, mut u_sum, mut v_sum) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for point in points {
        let u = point.reads_per_second;
        let v = u * point.read_bytes.0 as f64;
        uu += u * u;
        uv += u * v;
        vv += v * v;
        u_sum += u;
        v_sum += v;
    }
    let determinant = uu * vv - uv * uv;
    let (a, b) = ((u_sum * vv - v_sum * uv) / determinant, (v_sum * uu - u_sum * uv) / determinant);
    let is_sound = [a, b].iter().all(|price| price.is_finite() && *price > 0.0);
    let (reads_per_second, bandwidth) =
        if is_sound { (1.0 / a, Bytes((1.0 / b) as u64)) } else { (profile.reads_per_second, profile.bandwidth) };
    let fitted = DeviceProfile { reads_per_second, bandwidth, overlap: 0.0, ..*profile };
    Fit { reads_per_second, bandwidth, error_ratio_max: compute_error_ratio(points, &fitted) }
}

fn compute_error_ratio(points: &[SizePoint], profile: &DeviceProfile) -> f64 {
    let error = |point: &SizePoint| (profile.seconds(1, point.read_bytes) * point.reads_per_second - 1.0).abs();
    points.iter().map(error).fold(0.0, f64::max)
}

#[cfg(test)]
mod files_tests {
    use std::collections::BTreeSet;

    use super::*;

    fn sample(directory: &tempfile::TempDir, megabytes: u64) -> SampleFile {
        let name = megabytes.to_string();
        let file = std::fs::File::create(directory.path().join(&name)).unwrap();
        file.set_len(megabytes * CHUNK + 5000).unwrap();
        SampleFile { path: name.into(), size: Bytes(megabytes * CHUNK + 5000) }
    }

    #[test]
    fn no_block_is_in_two_phases() {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let files = [sample(&directory, 40), sample(&directory, 50)];
        let deck = Deck::new(&Tree::open(directory.path(), &[]).unwrap(), &files).unwrap();
        let mut seen = BTreeSet::new();
        let mut check = |places: &Places| {
            let size = places.read_bytes;
            for place in &places.places {
                assert!(place.offset + size <= files[place.file as usize].size.0);
                let chunks = place.offset / CHUNK..(place.offset + size).div_ceil(CHUNK);
                chunks.for_each(|chunk| assert!(seen.insert((size, place.file, chunk)) || size < CHUNK));
            }
        };
        deck.random.iter().for_each(&mut check);
        check(&deck.sequential);
        let chunks = |size: u64| -> BTreeSet<(u32, u64)> {
            seen.iter().filter(|(of, _, _)| *of == size).map(|(_, file, chunk)| (*file, *chunk)).collect()
        };
        assert!(chunks(8192).is_disjoint(&chunks(16 << 10)) && chunks(64 << 10).is_disjoint(&chunks(CHUNK)));
        assert_eq!(chunks(8192).len(), 10);
        assert!(!deck.has_read_twice());
        (0..11 * 128).for_each(|_| _ = deck.random[0].take());
        assert!(deck.has_read_twice());
    }

    #[test]
    fn too_little_is_refused() {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let tree = Tree::open(directory.path(), &[]).unwrap();
        assert!(matches!(Deck::new(&tree, &[sample(&directory, 15)]), Err(Error::TooLittleToProbe { .. })));
    }
}

#[cfg(test)]
mod phase_tests {
    use super::*;

    fn completion(ended: f64) -> Completion {
        Completion { ended, took: 0.001 }
    }

    #[test]
    fn the_burst_at_the_beginning_does_not_count() {
        let burst = (0..300).map(|at| completion(0.1 + f64::from(at) * 1e-6));
        let steady = (0..=900).map(|at| completion(0.15 + f64::from(at) / 1000.0));
        let mut completions: Vec<Completion> = burst.chain(steady).collect();
        completions.reverse();
        let speed = compute_speed(1, &mut completions).unwrap();
        assert!((speed.reads_per_second - 1000.0).abs() < 1.0, "{speed:?}");
        assert!((speed.latency_us_p99 - 1000.0).abs() < 1.0, "{speed:?}");
    }

    #[test]
    fn a_limiters_bursts_are_counted_whole() {
        let burst = |tenth: u32, reads: u32| (0..reads).map(move |at| f64::from(tenth) / 10.0 + f64::from(at) * 8e-5);
        let ends: Vec<f64> = burst(0, 377)
            .chain(burst(1, 520))
            .chain((2..6).flat_map(|tenth| burst(tenth, 300)))
            .chain(burst(6, 4))
            .collect();
        let speed = compute_speed(1, &mut ends.into_iter().map(completion).collect::<Vec<_>>()).unwrap();
        assert!((speed.reads_per_second - 3000.0).abs() < 1.0, "{speed:?}");
    }

    #[test]
    fn a_stall_belongs_to_the_time() {
        let ends: Vec<f64> = (0..500).map(|at| f64::from(at) / 1000.0 + if at < 250 { 0.0 } else { 0.1 }).collect();
        let rate = compute_rate(&ends).unwrap();
        assert!((rate - 833.0).abs() < 2.0, "{rate}");
    }

    #[test]
    fn a_pause_in_few_reads_leaves_a_speed() {
        let mut completions = [0.001, 0.002, 0.003, 0.103].map(completion);
        let speed = compute_speed(1, &mut completions).unwrap();
        assert!((speed.reads_per_second - 10.0).abs() < 1e-6, "{speed:?}");
    }

    #[test]
    fn a_short_phase_loses_a_quarter() {
        let mut completions: Vec<Completion> = (1..=100).map(|at| completion(f64::from(at) / 10_000.0)).collect();
        let speed = compute_speed(1, &mut completions).unwrap();
        assert!((speed.reads_per_second - 10_000.0).abs() < 1.0, "{speed:?}");
        assert_eq!(compute_speed(1, &mut []), None);
        assert_eq!(compute_speed(1, &mut completions[..1]), None);
    }
}

#[cfg(test)]
mod fit_tests {
    use super::*;

    const RATE: f64 = 3000.0;
    const BANDWIDTH: Bytes = Bytes(131_072_000);

    fn depth_points(rates: &[f64]) -> Vec<DepthPoint> {
        let point = |(nth, rate): (usize, &f64)| DepthPoint {
            depth: 1 << nth,
            reads_per_second: *rate,
            latency_us_p50: 1.0,
            latency_us_p99: 1.0,
        };
        rates.iter().enumerate().map(point).collect()
    }

    fn size_points(seconds: impl Fn(u64) -> f64) -> Vec<SizePoint> {
        let point = |size: &u64| SizePoint { read_bytes: Bytes(*size), reads_per_second: 1.0 / seconds(*size) };
        SIZES.iter().map(point).collect()
    }

    #[test]
    fn the_useful_depth_is_the_first_that_is_good() {
        let points = depth_points(&[100.0, 190.0, 370.0, 690.0, 700.0, 650.0]);
        assert!(is_flat(&points) && !is_flat(&points[..5]));
        let small = summarize_depths(&points);
        assert_eq!((small.depth, small.reads_per_second, small.alone_seconds), (8, 690.0, 1e-6));
        assert!(!is_flat(&points[..2]));
    }

    #[test]
    fn additive_prices_are_found_again() {
        let points = size_points(|bytes| 1.0 / RATE + Bytes(bytes).seconds_at(BANDWIDTH));
        let fit = fit_prices(&points, &DeviceProfile::default());
        assert!((fit.reads_per_second - RATE).abs() < 1.0, "{fit:?}");
        let exact = DeviceProfile { reads_per_second: RATE, bandwidth: BANDWIDTH, ..DeviceProfile::default() };
        assert!(fit_overlap(&points, &exact) < 1e-6);
        assert!(fit.bandwidth.0.abs_diff(BANDWIDTH.0) < 1000 && fit.error_ratio_max < 1e-6, "{fit:?}");
    }

    #[test]
    fn a_limiter_takes_the_larger_price_and_the_fit_says_how_far_off_it_is() {
        let points = size_points(|bytes| (1.0 / RATE).max(Bytes(bytes).seconds_at(BANDWIDTH)));
        let small = DeviceProfile { reads_per_second: RATE, depth: 2, ..DeviceProfile::default() };
        let profile = compute_profile(small, &points, Bytes(130_000_000));
        assert_eq!((profile.reads_per_second, profile.largest_read, profile.depth), (RATE, Bytes(256 << 10), 2));
        assert!(profile.bandwidth.0.abs_diff(BANDWIDTH.0) < 10, "{profile:?}");
        let fit = fit_prices(&points, &profile);
        let own = |overlap| compute_error_ratio(&points, &DeviceProfile { overlap, ..profile });
        let added = own(0.0);
        assert!(
            fit.error_ratio_max < added && (0.1..0.5).contains(&fit.error_ratio_max) && added > 0.6,
            "{fit:?} {added}"
        );
        assert!(profile.overlap > 0.99 && own(profile.overlap) < 0.01, "{profile:?}");
    }

    #[test]
    fn what_makes_no_sense_falls_back_on_the_profile() {
        let points = size_points(|_| 0.001);
        let profile = DeviceProfile::default();
        let fit = fit_prices(&points, &profile);
        assert!(fit.reads_per_second > 0.0 && fit.bandwidth.0 > 0, "{fit:?}");
        assert_eq!(fit_prices(&[], &profile).reads_per_second, profile.reads_per_second);
    }
}
