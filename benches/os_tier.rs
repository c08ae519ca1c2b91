//! What does the OS tier of the map cost beyond the system calls that it cannot do without? Maps a data directory and
//! compares that with a bare walk: open, fstat, cachestat, and mincore of what is neither empty nor full, by one
//! thread, with the files' names known beforehand and nothing kept. Goal: at most 1.5 times the bare walk.
//!
//! `cargo bench --bench os_tier -- --scale 100`, or `-- --data-dir DIRECTORY` for one that exists.
#![allow(clippy::print_stdout)]

use std::collections::BTreeSet;
use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;
use std::{io, ptr};

use anyhow::{Context as _, ensure};
use cache::{Map, MapInputs, read_map};
use clap::Parser;
use host::linux::page_cache::{PageCache as _, SystemPageCache};
use host::units::{Bytes, Fork};
use postgres::pgbench::Pgbench;
use postgres::{DataDirectory, Database, Programs, ScratchCluster, StopMode};

const GOAL: f64 = 1.5;

/// Of a half resident file every other piece of this size is read.
const PIECE_BYTES: usize = 1 << 20;

#[derive(Debug, Parser)]
struct Arguments {
    /// A data directory to map; without it one is made
    #[arg(long)]
    data_dir: Option<PathBuf>,
    /// pgbench's scale of the one that is made: about 15 MB each
    #[arg(long, default_value_t = 100)]
    scale: u32,
    #[arg(long, default_value_t = 11)]
    repeats: usize,
    /// Evict half of the files and measure again; not only for scratch clusters, so ask for it
    #[arg(long)]
    half: bool,
    /// cargo bench says so
    #[arg(long, hide = true)]
    bench: bool,
}

/// A stopped cluster with pgbench's tables.
fn create_cluster(scale: u32) -> anyhow::Result<ScratchCluster> {
    let programs = Programs::find(None)?;
    let mut cluster = ScratchCluster::create(&programs, Path::new("/var/tmp"), &[("fsync", "off")])?;
    cluster.start()?;
    let pgbench = Pgbench::find(&programs, cluster.connect_options("postgres"))?;
    let made = Command::new(&pgbench.program).args(pgbench.initialize_arguments(scale)).output()?;
    ensure!(made.status.success(), "pgbench: {}", String::from_utf8_lossy(&made.stderr));
    cluster.stop(StopMode::Fast)?;
    Ok(cluster)
}

/// Every file of every relation.
fn list_files(directory: &DataDirectory) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for relation in directory.scan(&mut Vec::new())? {
        for fork in Fork::ALL {
            let segments = (0..).map(|segment| relation.path.segment_file(&directory.path, fork, segment));
            files.extend(segments.take_while(|file| file.exists()));
        }
    }
    Ok(files)
}

/// `struct cachestat` of `include/uapi/linux/mman.h`.
#[repr(C)]
#[derive(Default)]
struct Cachestat {
    cached: u64,
    others: [u64; 4],
}

/// Resident pages of a file.
fn walk_file(path: &Path, page_bytes: u64) -> io::Result<u64> {
    const SYS_CACHESTAT: libc::c_long = 451;
    let file = File::open(path)?;
    let size = file.metadata()?.len();
    let (range, mut found) = ([0_u64; 2], Cachestat::default());
    // SAFETY: both have the kernel's layout and outlive the call.
    let status = unsafe { libc::syscall(SYS_CACHESTAT, file.as_raw_fd(), range.as_ptr(), &raw mut found, 0) };
    if status != 0 {
        return Err(io::Error::last_os_error());
    }
    let pages = size.div_ceil(page_bytes);
    if found.cached == 0 || found.cached >= pages {
        return Ok(found.cached);
    }
    let mut residency = vec![0_u8; pages as usize];
    // SAFETY: the kernel chooses the address; the mapping is only asked about, and unmapped before the function ends.
    unsafe {
        let address =
            libc::mmap(ptr::null_mut(), size as usize, libc::PROT_NONE, libc::MAP_SHARED, file.as_raw_fd(), 0);
        if address == libc::MAP_FAILED || libc::mincore(address, size as usize, residency.as_mut_ptr()) != 0 {
            return Err(io::Error::last_os_error());
        }
        libc::munmap(address, size as usize);
    }
    Ok(residency.iter().filter(|byte| **byte & 1 == 1).count() as u64)
}

/// Seconds of one bare walk, and the resident pages.
fn measure_walk(files: &[PathBuf], page_bytes: u64) -> anyhow::Result<(f64, u64)> {
    let start = Instant::now();
    let pages = files.iter().map(|file| walk_file(file, page_bytes)).sum::<io::Result<u64>>()?;
    Ok((start.elapsed().as_secs_f64(), pages))
}

/// Seconds of one map, and the map.
async fn measure_map(directory: &DataDirectory, databases: &[Database]) -> anyhow::Result<(f64, Map)> {
    let start = Instant::now();
    let map = read_map(MapInputs {
        server: None,
        data_directory: Some(directory),
        page_cache: &SystemPageCache::new(),
        databases,
        named: None,
        names: None,
        progress: &|_, _| (),
    })
    .await?;
    Ok((start.elapsed().as_secs_f64(), map))
}

/// Compares the two in turns, so that both see the same machine.
async fn compare(state: &str, directory: &DataDirectory, repeats: usize) -> anyhow::Result<()> {
    let files = list_files(directory)?;
    let oids: BTreeSet<u32> =
        directory.scan(&mut Vec::new())?.iter().map(|relation| relation.path.database_oid).collect();
    let database = |oid: u32| Database { oid, name: oid.to_string(), allows_connections: false };
    let databases: Vec<Database> = oids.into_iter().filter(|oid| *oid != 0).map(database).collect();
    let page_bytes = SystemPageCache::new().page_bytes();
    let (mut bare, mut mapped, mut resident) = (Vec::new(), Vec::new(), (0, 0));
    for _ in 0..repeats {
        let (seconds, pages) = measure_walk(&files, page_bytes)?;
        bare.push(seconds);
        let (seconds, map) = measure_map(directory, &databases).await?;
        mapped.push(seconds);
        resident = (pages * page_bytes, map.os_blocks() * u64::from(directory.block_size));
    }
    bare.sort_by(f64::total_cmp);
    mapped.sort_by(f64::total_cmp);
    let (bare, mapped) = (bare[repeats / 2], mapped[repeats / 2]);
    println!(
        "{state}: {} files, {} resident ({} in whole blocks): bare walk {:.1} ms, map {:.1} ms, ratio {:.2} (goal {GOAL})",
        files.len(),
        Bytes(resident.0),
        Bytes(resident.1),
        bare * 1e3,
        mapped * 1e3,
        mapped / bare
    );
    Ok(())
}

fn read_all(files: &[PathBuf]) -> io::Result<()> {
    files.iter().try_for_each(|file| io::copy(&mut File::open(file)?, &mut io::sink()).map(drop))
}

/// Evicts all, then reads every other piece.
fn read_half(files: &[PathBuf]) -> anyhow::Result<()> {
    let cache = SystemPageCache::new();
    let mut piece = vec![0; PIECE_BYTES];
    for path in files {
        cache.open(path)?.context("a file is gone")?.apply_evict()?;
        let file = File::open(path)?;
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::Random)?;
        for offset in (0..file.metadata()?.len()).step_by(2 * PIECE_BYTES) {
            file.read_at(&mut piece, offset)?;
        }
    }
    Ok(())
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let cluster = if arguments.data_dir.is_none() { Some(create_cluster(arguments.scale)?) } else { None };
    let path = arguments.data_dir.or_else(|| Some(cluster.as_ref()?.data_directory())).context("no data directory")?;
    let directory = DataDirectory::open(&path)?;
    let files = list_files(&directory)?;
    read_all(&files)?;
    compare("fully resident", &directory, arguments.repeats).await?;
    if arguments.half {
        read_half(&files)?;
        compare("half resident", &directory, arguments.repeats).await?;
    }
    Ok(())
}
