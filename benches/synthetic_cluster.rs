//! A cluster of 100,000 relations and 2 TB, through the fake page cache: how long do map and snapshot take, and how
//! much memory? Goals: 10 seconds, 300 MB.
//!
//! `cargo bench --bench synthetic_cluster`
#![allow(clippy::print_stdout)]

use std::fs::{self, File};
use std::path::Path;
use std::time::Instant;

use anyhow::Context as _;
use clap::Parser;
use pgthaw::cache::{MapInputs, Snapshot, read_map};
use pgthaw::linux::page_cache::FakePageCache;
use pgthaw::postgres::{ClusterState, DataDirectory, Database};
use pgthaw::units::{Bytes, PageRange};
use procfs::process::Process;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

const GOAL_SECONDS: f64 = 10.0;
const GOAL_BYTES: Bytes = Bytes(300_000_000);

const PAGE_BYTES: u64 = 4096;
const SEGMENT_BYTES: u64 = 1 << 30;
const DATABASE_OID: u32 = 16_384;
const FIRST_RELFILENUMBER: u64 = 16_385;

#[derive(Debug, Parser)]
struct Arguments {
    #[arg(long, default_value_t = 100_000)]
    relations: u64,
    /// Exit with status 1 when a goal is missed
    #[arg(long)]
    check: bool,
    /// cargo bench says so
    #[arg(long, hide = true)]
    bench: bool,
}

/// Of a thousand relations one is large, ten are middling and the rest small, as in clusters with many tables: 2 TB of
/// 100,000 in all.
fn size_of(relation: u64) -> u64 {
    match relation % 1000 {
        0 => 10 << 30,
        1..=10 => 500 << 20,
        _ => 4400 << 10,
    }
}

/// A third of the segments is resident, a third not, a third in pieces: what a server with more data than memory
/// leaves behind.
fn resident_pages(random: &mut StdRng, pages: u64) -> Vec<PageRange> {
    match random.random_range(0..3) {
        0 => vec![PageRange::new(0, pages)],
        1 => Vec::new(),
        _ => {
            let mut runs = Vec::new();
            let mut start = random.random_range(0..512);
            while start < pages {
                let end = (start + 2 * random.random_range(1..64)).min(pages);
                runs.push(PageRange::new(start, end));
                start = end + 2 * random.random_range(64..512);
            }
            runs
        }
    }
}

/// Makes the relations' files: empty ones on disk, for the directory to be listed, and large ones in the fake cache.
/// Returns the bytes of all.
fn create_relations(cache: &FakePageCache, root: &Path, relations: u64) -> anyhow::Result<u64> {
    let mut random = StdRng::seed_from_u64(20_261_121);
    let base = root.join(format!("base/{DATABASE_OID}"));
    fs::create_dir_all(&base)?;
    let mut total = 0;
    for relation in 0..relations {
        let path = base.join((FIRST_RELFILENUMBER + relation).to_string());
        File::create(&path)?;
        let size = size_of(relation);
        for (segment, offset) in (0..size).step_by(SEGMENT_BYTES as usize).enumerate() {
            let bytes = SEGMENT_BYTES.min(size - offset);
            let resident = resident_pages(&mut random, bytes.div_ceil(PAGE_BYTES));
            let file = if segment == 0 { path.clone() } else { path.with_extension(segment.to_string()) };
            cache.insert(file, bytes, &resident);
        }
        total += size;
    }
    Ok(total)
}

/// The most memory that this process had so far, and what it has now.
fn read_memory() -> anyhow::Result<(Bytes, Bytes)> {
    let status = Process::myself()?.status()?;
    let bytes = |kilobytes: Option<u64>| kilobytes.map(|kilobytes| Bytes(kilobytes << 10)).context("no VmHWM");
    Ok((bytes(status.vmhwm)?, bytes(status.vmrss)?))
}

fn verdict(is_met: bool) -> &'static str {
    if is_met { "met" } else { "MISSED" }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let root = tempfile::tempdir_in("/var/tmp")?;
    let cache = FakePageCache::new();
    let total = create_relations(&cache, root.path(), arguments.relations)?;
    let (_, of_fake) = read_memory()?;
    println!("{} relations, {}; the fake page cache itself takes {of_fake}", arguments.relations, Bytes(total));

    let directory = DataDirectory {
        path: root.path().to_owned(),
        version_major: 15,
        system_identifier: 7,
        state: ClusterState::InProduction,
        block_size: 8192,
        segment_blocks: (SEGMENT_BYTES / 8192) as u32,
        owner_uid: 0,
    };
    let databases = [Database { oid: DATABASE_OID, name: "synthetic".into(), allows_connections: false }];
    let start = Instant::now();
    let inputs = MapInputs {
        server: None,
        data_directory: Some(&directory),
        page_cache: &cache,
        databases: &databases,
        names: None,
        progress: &|_, _| (),
    };
    let map = read_map(inputs).await?;
    let mapped = start.elapsed().as_secs_f64();
    let blocks = (map.blocks(), map.os_blocks());
    let file = root.path().join("snapshot.parquet");
    Snapshot::new(map, None).write(&file)?;
    let seconds = start.elapsed().as_secs_f64();
    let (peak, _) = read_memory()?;
    println!(
        "map {mapped:.2} s: {} blocks, {} resident; snapshot {:.2} s: {}",
        blocks.0,
        blocks.1,
        seconds - mapped,
        Bytes(file.metadata()?.len())
    );
    let goals = [seconds < GOAL_SECONDS, peak < GOAL_BYTES];
    println!("together {seconds:.2} s: goal {GOAL_SECONDS} s {}", verdict(goals[0]));
    println!("peak memory {peak}, the fake page cache among it: goal {GOAL_BYTES} {}", verdict(goals[1]));
    anyhow::ensure!(!arguments.check || goals == [true, true], "a goal was missed");
    Ok(())
}
