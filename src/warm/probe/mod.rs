//! Measures what the device of a data directory can give: reads of existing relation files past the page cache, nothing
//! written, within a time and a number of bytes.
//!
//! Threads read, as many as reads are to be in flight: that needs nothing of the kernel, and a device that they cannot
//! saturate is not what a restore waits for. The first moments of each phase do not count, because limiters let a burst
//! through; no block is read twice while there are others, because caches below the device would answer.

mod phase;
mod store;

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use phase::{Phase, Speed};
use rand::seq::SliceRandom as _;

use super::{Control, Error};
use crate::files::Tree;
use crate::linux;
use crate::linux::direct_read::DirectFile;
use crate::linux::open_files::read_limit;
use crate::postgres::DataDirectory;
use crate::units::{Bytes, Fork};

pub use phase::{DepthPoint, Fit, Measurement, SizePoint};
pub use store::{DeviceRecord, ProfileStore, StoredDevice, StoredLimit};

/// What a probe may take at most, unless its device hangs.
pub const PROBE_TIME: Duration = Duration::from_secs(10);

/// Small reads: a block's usual size.
const SMALL_READ: u64 = 8 << 10;
/// Small reads in flight.
const DEPTHS: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];
/// Bytes of a read in order.
const SEQUENTIAL_READ: u64 = 1 << 20;
/// Large reads in flight: few are enough, many would take long to stop.
const LARGE_DEPTHS: std::ops::RangeInclusive<u32> = 4..=16;

/// The share of the time and of the bytes that each phase has. The bytes' are 1 together; the time's stay well below, as
/// the last reads of a phase may wait for a limiter.
const DEPTH_SHARE: (f64, f64) = (0.045, 0.02);
const SIZE_SHARE: (f64, f64) = (0.045, 0.07);
const SEQUENTIAL_SHARE: (f64, f64) = (0.15, 0.36);

/// One probe.
pub struct Probe<'a> {
    /// The data directory.
    pub directory: &'a Tree,
    /// What to read of.
    pub files: &'a [SampleFile],
    /// Bytes that it may read.
    pub budget: Bytes,
    pub control: &'a Control,
    /// Is told what is done next, after how many of how many steps.
    pub progress: &'a dyn Fn(&str, u64, u64),
}

impl std::fmt::Debug for Probe<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Probe").field("files", &self.files).field("budget", &self.budget).finish_non_exhaustive()
    }
}

/// What the phases share.
struct Running<'a> {
    probe: &'a Probe<'a>,
    deck: Deck,
    done: u64,
    reads: u64,
    read_bytes: u64,
}

impl Probe<'_> {
    /// Measures. `None` when the user stopped it.
    ///
    /// # Errors
    /// When there is too little to read, or when the files cannot be read directly.
    pub fn run(&self) -> Result<Option<Measurement>, Error> {
        let started = Instant::now();
        let mut running =
            Running { probe: self, deck: Deck::new(self.directory, self.files)?, done: 0, reads: 0, read_bytes: 0 };
        let Some(by_depth) = running.measure_depths()? else { return Ok(None) };
        let small = phase::summarize_depths(&by_depth);
        let large_depth = small.depth.clamp(*LARGE_DEPTHS.start(), *LARGE_DEPTHS.end());
        let Some(by_size) = running.measure_sizes(large_depth, small.reads_per_second)? else { return Ok(None) };
        let Some(sequential) = running.measure_sequential(large_depth)? else { return Ok(None) };
        let sequential_bandwidth = Bytes((sequential.reads_per_second * SEQUENTIAL_READ as f64) as u64);
        let profile = phase::compute_profile(small, &by_size, sequential_bandwidth);
        let alone = by_depth[0];
        Ok(Some(Measurement {
            profile,
            latency_us_p50: alone.latency_us_p50,
            latency_us_p99: alone.latency_us_p99,
            sequential_bandwidth,
            fit: phase::fit_prices(&by_size, &profile),
            profile_error_ratio_max: phase::compute_error_ratio(&by_size, &profile),
            by_depth,
            by_size,
            reads: running.reads,
            read_bytes: Bytes(running.read_bytes),
            seconds: started.elapsed().as_secs_f64(),
            has_read_twice: running.deck.has_read_twice(),
        }))
    }
}

impl Running<'_> {
    /// Small reads with more and more in flight, until more does not help.
    fn measure_depths(&mut self) -> Result<Option<Vec<DepthPoint>>, Error> {
        let mut points: Vec<DepthPoint> = Vec::new();
        for depth in DEPTHS {
            let what = format!("random reads of {}, {depth} at a time", Bytes(SMALL_READ));
            let Some(speed) = self.run(&what, Phase::random(SMALL_READ, depth), DEPTH_SHARE)? else { return Ok(None) };
            points.push(DepthPoint {
                depth,
                reads_per_second: speed.reads_per_second,
                latency_us_p50: speed.latency_us_p50,
                latency_us_p99: speed.latency_us_p99,
            });
            if phase::is_flat(&points) {
                break;
            }
        }
        Ok(Some(points))
    }

    fn measure_sizes(&mut self, depth: u32, small_per_second: f64) -> Result<Option<Vec<SizePoint>>, Error> {
        let mut points = vec![SizePoint { read_bytes: Bytes(SMALL_READ), reads_per_second: small_per_second }];
        for size in SIZES {
            let what = format!("random reads of {}, {depth} at a time", Bytes(size));
            let Some(speed) = self.run(&what, Phase::random(size, depth), SIZE_SHARE)? else { return Ok(None) };
            points.push(SizePoint { read_bytes: Bytes(size), reads_per_second: speed.reads_per_second });
        }
        Ok(Some(points))
    }

    fn measure_sequential(&mut self, depth: u32) -> Result<Option<Speed>, Error> {
        self.run("reads in order", Phase::sequential(SEQUENTIAL_READ, depth), SEQUENTIAL_SHARE)
    }

    /// Runs a phase with its share of the time and of the bytes. `None` when the user stopped it.
    fn run(&mut self, what: &str, phase: Phase, (time, bytes): (f64, f64)) -> Result<Option<Speed>, Error> {
        let steps = DEPTHS.len() + SIZES.len() + 1;
        (self.probe.progress)(what, self.done, steps as u64);
        self.done += 1;
        let budget = (self.probe.budget.0 as f64 * bytes) as u64;
        let done = phase.run(&self.deck, PROBE_TIME.mul_f64(time), budget, self.probe.control)?;
        self.reads += done.reads;
        self.read_bytes += done.read_bytes;
        if self.probe.control.is_interrupted() {
            return Ok(None);
        }
        done.speed.map(Some).ok_or(Error::TooFewReads(what.to_owned()))
    }
}

// ---- files ----
//
// What a probe reads: large files of relations, cut into chunks that are dealt out like cards.

/// Bytes of a chunk: the largest read.
const CHUNK: u64 = 1 << 20;
/// Larger reads at random places than the small ones, each with chunks of its own.
const SIZES: [u64; 7] = [16 << 10, 32 << 10, 64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20];
/// Files that are read of, the largest ones, half as many as may be open at most: all are open at a time.
const FILES_MAX: u64 = 256;
/// Fewer chunks than this say little.
const CHUNKS_MIN: usize = 16;
/// The part of the chunks that is kept for reading in order, and of the others that for small reads.
const SEQUENTIAL_PART: usize = 3;
const SMALL_PART: usize = 6;
/// Chunks that are cut for one size of read: a read's place takes 16 bytes of memory.
const CHUNKS_PER_SIZE_MAX: usize = 4096;

/// A file to read of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SampleFile {
    /// Below the data directory.
    pub path: PathBuf,
    pub size: Bytes,
}

/// The largest files of relations that are on the device of the data directory itself, in the order of their paths.
pub fn find_sample_files(directory: &DataDirectory) -> Result<Vec<SampleFile>, Error> {
    let root = directory.files.root().facts();
    let own = root.map_err(|source| linux::Error::file("look at", &directory.path, source))?.st_dev;
    let mut files = Vec::new();
    for relation in directory.scan()? {
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

/// Where a read begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    pub file: u32,
    pub offset: u64,
}

/// Places for reads of one size, each taken once until all were.
#[derive(Debug)]
struct Places {
    places: Vec<Place>,
    next: AtomicUsize,
}

impl Places {
    fn new(places: Vec<Place>) -> Places {
        Places { places, next: AtomicUsize::new(0) }
    }

    /// The next place.
    pub fn take(&self) -> Place {
        self.places[self.next.fetch_add(1, Ordering::Relaxed) % self.places.len()]
    }

    fn has_wrapped(&self) -> bool {
        self.next.load(Ordering::Relaxed) > self.places.len()
    }
}

/// The chunks of the files, dealt out so that no two phases read the same.
struct Deck {
    open: Vec<DirectFile>,
    sequential: Places,
    /// Chunks in random order; those for small reads first, then as many for each larger size.
    chunks: Vec<Place>,
    /// Places of reads, by the size of the read.
    random: Mutex<BTreeMap<u64, Arc<Places>>>,
}

impl Deck {
    /// Opens the files and shuffles.
    pub fn new(directory: &Tree, files: &[SampleFile]) -> Result<Deck, Error> {
        let mut chunks = chunks_of(files);
        if chunks.len() < CHUNKS_MIN {
            let found = files.iter().map(|file| file.size).sum();
            return Err(Error::TooLittleToProbe { found, needed: Bytes(CHUNKS_MIN as u64 * CHUNK) });
        }
        let open: Result<_, _> = files.iter().map(|file| DirectFile::open_below(directory, &file.path)).collect();
        let sequential = chunks.split_off(chunks.len() - chunks.len() / SEQUENTIAL_PART);
        chunks.shuffle(&mut rand::rng());
        Ok(Deck { open: open?, sequential: Places::new(sequential), chunks, random: Mutex::default() })
    }

    pub fn file(&self, place: Place) -> &DirectFile {
        &self.open[place.file as usize]
    }

    /// Places in order, a chunk apart.
    pub fn sequential(&self) -> &Places {
        &self.sequential
    }

    /// Places at random for reads of `size` bytes, which goes on where it stopped when it is asked for again.
    pub fn random(&self, size: u64) -> Arc<Places> {
        let mut random = self.random.lock().unwrap_or_else(PoisonError::into_inner);
        let dealt = random.len();
        Arc::clone(random.entry(size).or_insert_with(|| Arc::new(self.deal(dealt, size))))
    }

    /// The places in the `nth` share of the chunks. The first share is the one for small reads.
    fn deal(&self, nth: usize, size: u64) -> Places {
        let small = self.chunks.len() / SMALL_PART;
        let share = (self.chunks.len() - small) / SIZES.len();
        let (start, length) = if nth == 0 { (0, small) } else { (small + (nth - 1) * share, share.max(1)) };
        let end = (start + length.clamp(1, CHUNKS_PER_SIZE_MAX)).min(self.chunks.len());
        let chunks = &self.chunks[start.min(end - 1)..end];
        let cut =
            |chunk: &Place| (0..CHUNK / size).map(|at| Place { offset: chunk.offset + at * size, ..*chunk }).collect();
        let mut places: Vec<Place> = chunks.iter().flat_map(|chunk| -> Vec<Place> { cut(chunk) }).collect();
        places.shuffle(&mut rand::rng());
        Places::new(places)
    }

    /// Was there too little for what was read?
    pub fn has_read_twice(&self) -> bool {
        let random = self.random.lock().unwrap_or_else(PoisonError::into_inner);
        self.sequential.has_wrapped() || random.values().any(|places| places.has_wrapped())
    }
}

/// Every whole chunk, file after file.
fn chunks_of(files: &[SampleFile]) -> Vec<Place> {
    let numbered = files.iter().enumerate();
    let of_file = |(file, sample): (usize, &SampleFile)| {
        (0..sample.size.0 / CHUNK).map(move |at| Place { file: file as u32, offset: at * CHUNK })
    };
    numbered.flat_map(of_file).collect()
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
        let mut check = |places: &Places, size: u64| {
            for place in &places.places {
                assert!(place.offset + size <= files[place.file as usize].size.0);
                let chunks = place.offset / CHUNK..(place.offset + size).div_ceil(CHUNK);
                chunks.for_each(|chunk| assert!(seen.insert((size, place.file, chunk)) || size < CHUNK));
            }
        };
        check(&deck.random(8192), 8192);
        SIZES.iter().for_each(|size| check(&deck.random(*size), *size));
        check(&deck.sequential, CHUNK);
        let chunks = |size: u64| -> BTreeSet<(u32, u64)> {
            seen.iter().filter(|(of, _, _)| *of == size).map(|(_, file, chunk)| (*file, *chunk)).collect()
        };
        assert!(chunks(8192).is_disjoint(&chunks(16 << 10)) && chunks(64 << 10).is_disjoint(&chunks(CHUNK)));
        assert_eq!(chunks(8192).len(), 10);
        assert!(!deck.has_read_twice());
        (0..11 * 128).for_each(|_| _ = deck.random(8192).take());
        assert!(deck.has_read_twice());
    }

    #[test]
    fn too_little_is_refused() {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let tree = Tree::open(directory.path(), &[]).unwrap();
        assert!(matches!(Deck::new(&tree, &[sample(&directory, 15)]), Err(Error::TooLittleToProbe { .. })));
    }
}
