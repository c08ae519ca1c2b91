//! Which way of reading fills the page cache fastest? Every engine does the same reads of one cold file, in random order, and
//! what counts is the time until all of it is *verified* to be resident: an engine whose calls return early gains nothing by
//! it. Beside it stands the processor time that its calls took.
//!
//! `cargo bench --bench fill_engines -- --megabytes 1500 --runs 22000 --riops 3000 --rbps 125MiB`
#![allow(clippy::print_stdout)]

use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use cache::warm::DeviceProfile;
use cache::warm::plan::{Geometry, Plan, Precedence, Scratch, Situation, WantedFork};
use clap::Parser;
use host::linux::block_device::read_block_device;
use host::linux::cgroup::{DeviceLimit, DiskLimit, ReadLimit, WriteLimit};
use host::linux::page_cache::{CachedFile, PageCache as _, SystemPageCache};
use host::linux::read_ahead::ReadAhead;
use host::units::{Bytes, PageRange};
use io_uring::{IoUring, opcode, types};
use rand::seq::SliceRandom as _;
use rand::{Rng as _, RngCore as _};
use roaring::RoaringBitmap;
use rustix::fs::{Advice, fadvise};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

const PAGE: u64 = 4096;
const BLOCK: u64 = 8192;

/// Bytes of a read of everything: what a restore plans for a common cloud volume.
const LARGEST_READ: usize = 256 << 10;

/// The most that is read ahead by one WILLNEED is the device's limit; more is silently cut.
const WILLNEED_MAX: u64 = 1 << 20;

/// An engine that has not filled the file by then never will. The kernel may take back what was read in between.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug, Parser)]
struct Arguments {
    /// Size of the file
    #[arg(long, default_value_t = 200)]
    megabytes: u64,
    /// Where the file is made: a directory on the disk to measure
    #[arg(long, default_value = "/var/tmp")]
    directory: PathBuf,
    /// Read so many runs of blocks, a fifth of the file in all, instead of everything
    #[arg(long)]
    runs: Option<u64>,
    #[arg(long, default_value_t = 3)]
    repeats: usize,
    /// Only engines whose name has this in it
    #[arg(long, default_value = "")]
    only: String,
    /// Limit the disk to so many reads a second
    #[arg(long)]
    riops: Option<u64>,
    /// Limit the disk to so many read bytes a second
    #[arg(long)]
    rbps: Option<Bytes>,
    /// Set the disk's read-ahead meanwhile
    #[arg(long)]
    read_ahead: Option<Bytes>,
    /// cargo bench says so
    #[arg(long, hide = true)]
    bench: bool,
}

/// What is to be read of the file, in order: offset and bytes of each read.
type Reads = Vec<(u64, usize)>;

#[derive(Clone, Copy, Debug)]
enum Engine {
    Pread { threads: usize },
    Uring { depth: usize },
    WillNeed { most: usize },
    PopulateRead { threads: usize },
}

impl Engine {
    fn all(read_ahead_bytes: u64) -> Vec<Engine> {
        let preads = [1, 4, 16].map(|threads| Engine::Pread { threads });
        let rings = [16, 64].map(|depth| Engine::Uring { depth });
        let populates = [1, 16].map(|threads| Engine::PopulateRead { threads });
        let will_need = Engine::WillNeed { most: read_ahead_bytes.clamp(4096, WILLNEED_MAX) as usize };
        preads.into_iter().chain(rings).chain(populates).chain([will_need]).collect()
    }

    fn name(self) -> String {
        match self {
            Engine::Pread { threads } => format!("pread, {threads} threads"),
            Engine::Uring { depth } => format!("io_uring, {depth} in flight"),
            Engine::WillNeed { most } => format!("WILLNEED of {} KiB at most", most >> 10),
            Engine::PopulateRead { threads } => format!("MADV_POPULATE_READ, {threads} threads"),
        }
    }

    fn fill(self, file: &File, reads: &Reads) -> anyhow::Result<()> {
        match self {
            Engine::Pread { threads } => {
                fadvise(file, 0, None, Advice::Random)?;
                on_threads(reads, threads, |(offset, bytes), buffer| {
                    buffer.resize(bytes, 0);
                    file.read_at(buffer, offset)?;
                    Ok(())
                })
            }
            Engine::Uring { depth } => {
                fadvise(file, 0, None, Advice::Random)?;
                fill_with_uring(file, reads, depth)
            }
            Engine::WillNeed { most } => reads.iter().try_for_each(|(offset, bytes)| {
                (0..*bytes).step_by(most).try_for_each(|at| {
                    let piece = std::num::NonZeroU64::new(most.min(bytes - at) as u64);
                    Ok(fadvise(file, offset + at as u64, piece, Advice::WillNeed)?)
                })
            }),
            Engine::PopulateRead { threads } => fill_with_populate(file, reads, threads),
        }
    }
}

/// Each thread takes the next read, as a restore does.
fn on_threads(
    reads: &Reads,
    threads: usize,
    apply: impl Fn((u64, usize), &mut Vec<u8>) -> anyhow::Result<()> + Sync,
) -> anyhow::Result<()> {
    let next = AtomicUsize::new(0);
    let work = || -> anyhow::Result<()> {
        let mut buffer = Vec::new();
        while let Some(read) = reads.get(next.fetch_add(1, Ordering::Relaxed)) {
            apply(*read, &mut buffer)?;
        }
        Ok(())
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().unwrap_or_else(|_| bail!("a reader panicked")))
    })
}

fn fill_with_uring(file: &File, reads: &Reads, depth: usize) -> anyhow::Result<()> {
    let largest = reads.iter().map(|(_, bytes)| *bytes).max().unwrap_or(0);
    let mut ring = IoUring::new(depth as u32).context("set up a ring")?;
    let mut buffers = vec![vec![0_u8; largest]; depth];
    let mut idle: Vec<usize> = (0..depth).collect();
    let mut rest = reads.iter().peekable();
    while rest.peek().is_some() || idle.len() < depth {
        while let Some(slot) = idle.pop() {
            let Some((offset, bytes)) = rest.next() else {
                idle.push(slot);
                break;
            };
            let read = opcode::Read::new(types::Fd(file.as_raw_fd()), buffers[slot].as_mut_ptr(), *bytes as u32);
            let entry = read.offset(*offset).build().user_data(slot as u64);
            // SAFETY: the file and the slot's buffer live until the loop has seen the completion of this read.
            unsafe { ring.submission().push(&entry) }.context("queue a read")?;
        }
        ring.submit_and_wait(1)?;
        for completion in ring.completion() {
            if completion.result() < 0 {
                return Err(std::io::Error::from_raw_os_error(-completion.result()).into());
            }
            idle.push(completion.user_data() as usize);
        }
    }
    Ok(())
}

fn fill_with_populate(file: &File, reads: &Reads, threads: usize) -> anyhow::Result<()> {
    let size = file.metadata()?.len() as usize;
    // SAFETY: the kernel chooses the address, so nothing else is touched; the file does not shrink meanwhile.
    let address = unsafe { mmap(ptr::null_mut(), size, ProtFlags::READ, MapFlags::SHARED, file, 0) }? as usize;
    let filled = on_threads(reads, threads, |(offset, bytes), _| {
        let start = (address + offset as usize) as *mut libc::c_void;
        // SAFETY: the range lies inside the mapping.
        match unsafe { libc::madvise(start, bytes, libc::MADV_POPULATE_READ) } {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error().into()),
        }
    });
    // SAFETY: this is the whole mapping, and nothing refers into it any more.
    unsafe { munmap(address as *mut libc::c_void, size) }?;
    filled
}

/// Everything, in order.
fn read_everything(bytes: u64) -> Reads {
    (0..bytes).step_by(LARGEST_READ).map(|offset| (offset, LARGEST_READ.min((bytes - offset) as usize))).collect()
}

/// So many runs of blocks at random, a fifth of the file in all, as the plan of a restore reads them.
fn read_scattered(bytes: u64, runs: u64) -> Reads {
    let blocks = (bytes / BLOCK) as u32;
    let wanted_of = |share: f64| (f64::from(blocks) / runs as f64 * share).max(1.0);
    let (run, gap) = (wanted_of(0.18), wanted_of(0.82));
    let mut wanted = RoaringBitmap::new();
    let mut at = 0;
    let mut random = rand::rng();
    let mut length = |mean: f64| 1 + (-random.random_range(f64::MIN_POSITIVE..1.0).ln() * (mean - 1.0)).round() as u32;
    while at < blocks {
        let end = (at + length(run)).min(blocks);
        wanted.insert_range(at..end);
        at = end + length(gap);
    }
    let fork = WantedFork {
        precedence: Precedence::ByHeat,
        is_index: false,
        blocks: blocks.into(),
        levels: vec![(1.0, wanted)],
        resident: RoaringBitmap::new(),
        places: Vec::new(),
    };
    let geometry = Geometry { block_size: BLOCK as u32, segment_blocks: 131_072 };
    let plan = Plan::new(vec![fork], geometry, DeviceProfile::default(), Situation::Shared, None);
    let mut scratch = Scratch::default();
    let reads = (0..plan.steps()).flat_map(|step| plan.reads(step, &mut scratch).to_vec());
    reads.map(|read| (read.range.start * BLOCK, (read.range.blocks() * BLOCK) as usize)).collect()
}

/// Seconds until all of `wanted` is resident; those after which the engine's own calls had returned, and the processor's by
/// then.
fn measure(engine: Engine, path: &Path, cached: &dyn CachedFile, reads: &Reads) -> anyhow::Result<[f64; 3]> {
    let mut wanted = RoaringBitmap::new();
    for (offset, bytes) in reads {
        wanted.insert_range((offset / PAGE) as u32..((offset + *bytes as u64) / PAGE) as u32);
    }
    cached.apply_evict()?;
    let warm = resident_pages(cached, &wanted)?;
    if warm * 100 > wanted.len() {
        bail!("{warm} of {} pages stayed: not a cold start", wanted.len());
    }
    let file = File::open(path)?;
    let (start, used) = (Instant::now(), cpu_seconds());
    engine.fill(&file, reads)?;
    let (returned, used) = (start.elapsed().as_secs_f64(), cpu_seconds() - used);
    // The kernel may take single pages back at any moment.
    while resident_pages(cached, &wanted)? * 1000 < wanted.len() * 995 {
        if start.elapsed() > PATIENCE {
            bail!("never resident: {} of {} pages", resident_pages(cached, &wanted)?, wanted.len());
        }
        thread::sleep(Duration::from_millis(5));
    }
    Ok([start.elapsed().as_secs_f64(), returned, used])
}

/// Processor time of this process and the kernel's work for it.
fn cpu_seconds() -> f64 {
    // SAFETY: all zeros is a valid rusage, and the call fills the one that it is given.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        usage
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 * 1e-6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

/// By mincore, which knows whether the data has arrived; cachestat counts pages that are still being read.
fn resident_pages(cached: &dyn CachedFile, wanted: &RoaringBitmap) -> anyhow::Result<u64> {
    let mut resident = RoaringBitmap::new();
    for run in cached.read_resident(PageRange::new(0, cached.size_bytes() / PAGE))? {
        resident.insert_range(run.start as u32..run.end as u32);
    }
    Ok(resident.intersection_len(wanted))
}

fn write_file(directory: &Path, bytes: u64) -> anyhow::Result<tempfile::NamedTempFile> {
    let mut file = tempfile::NamedTempFile::new_in(directory)?;
    let mut piece = vec![0; 1 << 20];
    for _ in 0..bytes >> 20 {
        rand::rng().fill_bytes(&mut piece);
        file.write_all(&piece)?;
    }
    file.as_file().sync_all()?;
    Ok(file)
}

/// Limits this process, as `bench warmup --disk` limits the server and the warmer.
fn limit_disk(arguments: &Arguments) -> anyhow::Result<Option<DiskLimit>> {
    let reads = ReadLimit { reads_per_second: arguments.riops, read_bytes_per_second: arguments.rbps };
    if reads == ReadLimit::default() {
        return Ok(None);
    }
    let number = read_block_device(&arguments.directory)?.number;
    let disk = DiskLimit::create(vec![DeviceLimit { number, reads, writes: WriteLimit::default() }], false, None)?;
    disk.join(std::process::id())?;
    Ok(Some(disk))
}

/// What one engine took, for each repeat: seconds until all was resident, until its calls had returned, of the processor.
#[derive(Debug)]
struct Timings {
    engine: Engine,
    repeats: Vec<[f64; 3]>,
}

impl Timings {
    fn sorted(&self, which: usize) -> Vec<f64> {
        let mut values: Vec<f64> = self.repeats.iter().map(|one| one[which]).collect();
        values.sort_by(f64::total_cmp);
        values
    }

    fn median(&self, which: usize) -> f64 {
        let values = self.sorted(which);
        values[values.len() / 2]
    }
}

fn print_timings(timings: &[Timings], bytes: u64) {
    let head = ["engine", "seconds", "fastest", "slowest", "returned", "MB/s", "CPU s/GB"];
    println!(
        "{:32} {:>8} {:>8} {:>8} {:>8} {:>8} {:>9}",
        head[0], head[1], head[2], head[3], head[4], head[5], head[6]
    );
    for one in timings {
        let (seconds, all) = (one.median(0), one.sorted(0));
        let (rate, cpu) = (bytes as f64 / 1e6 / seconds, one.median(2) / (bytes as f64 / 1e9));
        let (fastest, slowest, returned) = (all[0], all[all.len() - 1], one.median(1));
        let name = one.engine.name();
        println!("{name:32} {seconds:>8.3} {fastest:>8.3} {slowest:>8.3} {returned:>8.3} {rate:>8.0} {cpu:>9.3}");
    }
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let size = arguments.megabytes << 20;
    let _read_ahead = arguments.read_ahead.map(|asked| ReadAhead::set(&arguments.directory, asked)).transpose()?;
    let device = read_block_device(&arguments.directory)?;
    let file = write_file(&arguments.directory, size)?;
    let cache = SystemPageCache::new();
    let cached = cache.open(file.path())?.context("the file is gone")?;
    let _limit = limit_disk(&arguments)?;
    let reads = match arguments.runs {
        Some(runs) => read_scattered(size, runs),
        None => read_everything(size),
    };
    let bytes = reads.iter().map(|(_, bytes)| *bytes as u64).sum();
    let what = format!("{} in {} reads of a file of {}", Bytes(bytes), reads.len(), Bytes(size));
    println!("{what} on {}, read-ahead {}, {} repeats", device.name, device.read_ahead_bytes, arguments.repeats);

    let all = Engine::all(device.read_ahead_bytes.0).into_iter();
    let mut timings: Vec<Timings> = all.map(|engine| Timings { engine, repeats: Vec::new() }).collect();
    timings.retain(|one| one.engine.name().contains(&arguments.only));
    for _ in 0..arguments.repeats {
        // Random order: a drift of the device must not look like a difference of the engines.
        timings.shuffle(&mut rand::rng());
        for one in &mut timings {
            match measure(one.engine, file.path(), &*cached, &reads) {
                Ok(timing) => one.repeats.push(timing),
                Err(error) => println!("{}: {error:#}", one.engine.name()),
            }
        }
    }
    timings.retain(|one| !one.repeats.is_empty());
    timings.sort_by(|one, other| one.median(0).total_cmp(&other.median(0)));
    print_timings(&timings, bytes);
    Ok(())
}
