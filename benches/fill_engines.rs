//! Which way of reading fills the page cache fastest? Fills one cold file by every engine, in random order, and prints
//! the seconds until all of it is *verified* to be resident: an engine whose calls return early gains nothing by it.
//!
//! `cargo bench --bench fill_engines -- --megabytes 1500 --riops 3000 --rbps 125MiB`
#![allow(clippy::print_stdout)]

use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use clap::Parser;
use io_uring::{IoUring, opcode, types};
use pgthaw::linux::block_device::read_block_device;
use pgthaw::linux::cgroup::{DiskLimit, ReadLimit};
use pgthaw::linux::page_cache::{CachedFile, PageCache as _, SystemPageCache};
use pgthaw::units::{Bytes, PageRange};
use rand::RngCore as _;
use rand::seq::SliceRandom as _;
use rustix::fs::{Advice, fadvise};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// Bytes of one MADV_POPULATE_READ: the call cannot be interrupted.
const POPULATE_BYTES: u64 = 16 << 20;

/// The most that is read ahead by one WILLNEED is the device's limit; more is silently cut.
const WILLNEED_MAX: u64 = 1 << 20;

/// An engine that has not filled the file by then never will.
const PATIENCE: Duration = Duration::from_secs(120);

/// Reads under way at a time in the ring.
const DEPTH: usize = 32;

#[derive(Debug, Parser)]
struct Arguments {
    /// Size of the file
    #[arg(long, default_value_t = 200)]
    megabytes: u64,
    /// Where the file is made: a directory on the disk to measure
    #[arg(long, default_value = "/var/tmp")]
    directory: PathBuf,
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
    /// cargo bench says so
    #[arg(long, hide = true)]
    bench: bool,
}

#[derive(Clone, Copy, Debug)]
enum Engine {
    Pread { threads: u64, bytes: u64 },
    Uring { bytes: u64 },
    WillNeed { bytes: u64 },
    PopulateRead,
}

impl Engine {
    fn all(read_ahead_bytes: u64) -> Vec<Engine> {
        let sizes = [64 << 10, 256 << 10, 1 << 20];
        let preads = [1, 4, 8].into_iter().flat_map(|threads| sizes.map(|bytes| Engine::Pread { threads, bytes }));
        let others = [Engine::WillNeed { bytes: read_ahead_bytes.min(WILLNEED_MAX) }, Engine::PopulateRead];
        preads.chain(sizes.map(|bytes| Engine::Uring { bytes })).chain(others).collect()
    }

    fn name(self) -> String {
        match self {
            Engine::Pread { threads, bytes } => format!("pread {threads} x {} KiB", bytes >> 10),
            Engine::Uring { bytes } => format!("io_uring {DEPTH} x {} KiB", bytes >> 10),
            Engine::WillNeed { bytes } => format!("WILLNEED {} KiB", bytes >> 10),
            Engine::PopulateRead => "MADV_POPULATE_READ".into(),
        }
    }

    fn fill(self, file: &File, size: u64) -> anyhow::Result<()> {
        match self {
            Engine::Pread { threads, bytes } => fill_with_pread(file, size, threads, bytes),
            Engine::Uring { bytes } => fill_with_uring(file, size, bytes),
            Engine::WillNeed { bytes } => fill_with_willneed(file, size, bytes),
            Engine::PopulateRead => fill_with_populate(file, size),
        }
    }
}

fn fill_with_pread(file: &File, size: u64, threads: u64, bytes: u64) -> anyhow::Result<()> {
    let next = AtomicU64::new(0);
    let work = || -> anyhow::Result<()> {
        let mut buffer = vec![0; bytes as usize];
        loop {
            let offset = next.fetch_add(bytes, Ordering::Relaxed);
            if offset >= size {
                return Ok(());
            }
            file.read_at(&mut buffer, offset)?;
        }
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().unwrap_or_else(|_| bail!("a reader panicked")))
    })
}

fn fill_with_uring(file: &File, size: u64, bytes: u64) -> anyhow::Result<()> {
    let mut ring = IoUring::new(DEPTH as u32).context("set up a ring")?;
    let mut buffers = vec![vec![0_u8; bytes as usize]; DEPTH];
    let mut idle: Vec<usize> = (0..DEPTH).collect();
    let mut offset = 0;
    while offset < size || idle.len() < DEPTH {
        while offset < size
            && let Some(slot) = idle.pop()
        {
            let read = opcode::Read::new(types::Fd(file.as_raw_fd()), buffers[slot].as_mut_ptr(), bytes as u32);
            let entry = read.offset(offset).build().user_data(slot as u64);
            // SAFETY: the file and the slot's buffer live until the loop has seen the completion of this read.
            unsafe { ring.submission().push(&entry) }.context("queue a read")?;
            offset += bytes;
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

fn fill_with_willneed(file: &File, size: u64, bytes: u64) -> anyhow::Result<()> {
    for offset in (0..size).step_by(bytes as usize) {
        fadvise(file, offset, std::num::NonZeroU64::new(bytes), Advice::WillNeed)?;
    }
    Ok(())
}

fn fill_with_populate(file: &File, size: u64) -> anyhow::Result<()> {
    // SAFETY: the kernel chooses the address, so nothing else is touched; the file does not shrink meanwhile.
    let address = unsafe { mmap(ptr::null_mut(), size as usize, ProtFlags::READ, MapFlags::SHARED, file, 0) }?;
    let filled = (0..size).step_by(POPULATE_BYTES as usize).try_for_each(|offset| {
        let bytes = POPULATE_BYTES.min(size - offset) as usize;
        // SAFETY: the range lies inside the mapping.
        let status = unsafe { libc::madvise(address.byte_add(offset as usize), bytes, libc::MADV_POPULATE_READ) };
        if status == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
    });
    // SAFETY: this is the whole mapping, and nothing refers into it any more.
    unsafe { munmap(address, size as usize) }?;
    Ok(filled?)
}

/// Seconds until the whole file is resident, and the seconds after which the engine's own calls had returned.
fn measure(engine: Engine, path: &Path, cached: &dyn CachedFile, pages: u64) -> anyhow::Result<(f64, f64)> {
    cached.apply_evict()?;
    let warm = resident_pages(cached, pages)?;
    if warm * 100 > pages {
        bail!("{warm} of {pages} pages stayed: not a cold start");
    }
    let file = File::open(path)?;
    let start = Instant::now();
    engine.fill(&file, cached.size_bytes())?;
    let returned = start.elapsed().as_secs_f64();
    // The kernel may take single pages back at any moment.
    while resident_pages(cached, pages)? * 1000 < pages * 995 {
        if start.elapsed() > PATIENCE {
            bail!("never resident: {} of {pages} pages", resident_pages(cached, pages)?);
        }
        thread::sleep(Duration::from_millis(5));
    }
    Ok((start.elapsed().as_secs_f64(), returned))
}

/// By mincore, which knows whether the data has arrived; cachestat counts pages that are still being read.
fn resident_pages(cached: &dyn CachedFile, pages: u64) -> anyhow::Result<u64> {
    Ok(cached.read_resident(PageRange::new(0, pages))?.iter().map(|run| run.pages()).sum())
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
    let limit = ReadLimit { reads_per_second: arguments.riops, read_bytes_per_second: arguments.rbps };
    if limit == ReadLimit::default() {
        return Ok(None);
    }
    let disk = DiskLimit::create(read_block_device(&arguments.directory)?.number, limit)?;
    disk.join(std::process::id())?;
    Ok(Some(disk))
}

/// What one engine took, a value for each repeat.
#[derive(Debug)]
struct Timings {
    engine: Engine,
    /// Seconds until the whole file was resident.
    resident: Vec<f64>,
    /// Seconds until the engine's own calls had returned.
    returned: Vec<f64>,
}

impl Timings {
    fn new(engine: Engine) -> Timings {
        Timings { engine, resident: Vec::new(), returned: Vec::new() }
    }

    fn sort(&mut self) {
        self.resident.sort_by(f64::total_cmp);
        self.returned.sort_by(f64::total_cmp);
    }

    /// Medians, once sorted.
    fn typical(&self) -> (f64, f64) {
        (self.resident[self.resident.len() / 2], self.returned[self.returned.len() / 2])
    }
}

fn print_timings(timings: &[Timings], bytes: u64) {
    println!("{:24} {:>10} {:>10} {:>9} {:>9} {:>9}", "engine", "seconds", "MB/s", "fastest", "slowest", "returned");
    for one in timings {
        let (typical, returned) = one.typical();
        let (fastest, slowest) = (one.resident[0], one.resident[one.resident.len() - 1]);
        let rate = bytes as f64 / 1e6 / typical;
        println!("{:24} {typical:>10.3} {rate:>10.0} {fastest:>9.3} {slowest:>9.3} {returned:>9.3}", one.engine.name());
    }
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let bytes = arguments.megabytes << 20;
    let device = read_block_device(&arguments.directory)?;
    let file = write_file(&arguments.directory, bytes)?;
    let cache = SystemPageCache::new();
    let cached = cache.open(file.path())?.context("the file is gone")?;
    let pages = bytes / cache.page_bytes();
    let _limit = limit_disk(&arguments)?;
    println!("{} of a file on {}, read-ahead {}", Bytes(bytes), device.name, device.read_ahead_bytes);

    let mut timings: Vec<Timings> = Engine::all(device.read_ahead_bytes.0).into_iter().map(Timings::new).collect();
    timings.retain(|one| one.engine.name().contains(&arguments.only));
    for _ in 0..arguments.repeats {
        // Random order: a drift of the device must not look like a difference of the engines.
        timings.shuffle(&mut rand::rng());
        for one in &mut timings {
            match measure(one.engine, file.path(), &*cached, pages) {
                Ok((resident, returned)) => {
                    one.resident.push(resident);
                    one.returned.push(returned);
                }
                Err(error) => println!("{}: {error:#}", one.engine.name()),
            }
        }
    }
    timings.retain(|one| !one.resident.is_empty());
    timings.iter_mut().for_each(Timings::sort);
    timings.sort_by(|one, other| one.typical().0.total_cmp(&other.typical().0));
    print_timings(&timings, bytes);
    Ok(())
}
