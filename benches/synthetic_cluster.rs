//! A cluster of 100,000 relations and 2 TB with 250 million resident pages, through the fake page cache: how long do map
//! and snapshot take, and how much memory? And the plan that brings all of it back, after a restart that left nothing?
//! Goals: 10 seconds and 300 MB; 5 seconds and 1 GB.
//!
//! `cargo bench --bench synthetic_cluster`
#![allow(clippy::print_stdout)]

use std::fmt::Display;
use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use cache::warm::plan::{Forecast, Geometry};
use cache::warm::restore::{Answer, Host, Place, Request, Restore, RestoreOptions};
use cache::warm::traffic::{Sharing, Traffic};
use cache::warm::{
    Control, DeviceProfile, PlannedDevice, ProfileSource, Receipt, Refusal, Room, SkipReason, Unwatched,
};
use cache::{Map, MapInputs, Snapshot, Tiers, read_map};
use clap::Parser;
use host::linux::machine::LoadableMemory;
use host::linux::page_cache::FakePageCache;
use host::linux::process::Busy;
use host::units::{Bytes, PageRange};
use postgres::{DataDirectory, Database};
use procfs::process::Process;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

const GOAL_SECONDS: f64 = 10.0;
const GOAL_BYTES: Bytes = Bytes(300_000_000);

const PLAN_GOAL_SECONDS: f64 = 5.0;
const PLAN_GOAL_BYTES: Bytes = Bytes(1_000_000_000);

const BLOCK_BYTES: u32 = 8192;

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

/// Half of the segments are resident, a fifth not, the others in pieces: what a server with more data than memory leaves
/// behind.
fn resident_pages(random: &mut StdRng, pages: u64) -> Vec<PageRange> {
    match random.random_range(0..10) {
        0..5 => vec![PageRange::new(0, pages)],
        5..7 => Vec::new(),
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

/// Makes the relations' files: empty ones on disk, for the directory to be listed, and large ones in both fake caches, of
/// which `cold` has none of their pages. Returns the bytes of all.
fn create_relations(cache: &FakePageCache, cold: &FakePageCache, root: &Path, relations: u64) -> anyhow::Result<u64> {
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
            cache.insert(file.clone(), bytes, &resident);
            cold.insert(file, bytes, &[]);
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

/// A machine without end, and without a server.
struct Nobody;

impl Room for Nobody {
    fn read_room(&self) -> Option<LoadableMemory> {
        None
    }

    fn idle_age(&self) -> Option<Duration> {
        None
    }
}

impl Traffic for Nobody {
    fn read_busy(&self) -> Option<Busy> {
        None
    }
}

/// Looks at the cold cluster and plans to bring all of the snapshot back, as `pgthaw restore --dry-run` does.
async fn plan(map: Map, cold: FakePageCache, directory: &DataDirectory) -> anyhow::Result<Receipt> {
    let DataDirectory { path, block_size, segment_blocks, .. } = directory.clone();
    let options = RestoreOptions {
        seeks: false,
        device: PlannedDevice { profile: DeviceProfile::default(), source: ProfileSource::Default },
        threads: 4,
        sharing: Sharing::default(),
        connections: 1,
        budget: None,
        buffers_budget: None,
        max_rate: None,
        create_extensions: false,
        no_double: false,
        is_dry_run: true,
        same_cluster: true,
        awaits_server: false,
    };
    let host = Host {
        page_cache: Arc::new(cold),
        room: Arc::new(Nobody),
        traffic: Arc::new(Nobody),
        control: Arc::new(Control::default()),
        watcher: Arc::new(Unwatched),
    };
    let place = Place { directory: path, geometry: Geometry { block_size, segment_blocks } };
    let request = Request::new(map, Tiers { os: true, buffers: false });
    let no_server = Answer { server: Err(Refusal::because(SkipReason::NoServer)), remarks: Vec::new() };
    Restore::new(request, options, Ok(place), host).run(async { anyhow::Ok(no_server) }).await
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let root = tempfile::tempdir_in("/var/tmp")?;
    let cache = FakePageCache::new();
    let cold = FakePageCache::new();
    let total = create_relations(&cache, &cold, root.path(), arguments.relations)?;
    let (_, of_fake) = read_memory()?;
    println!("{} relations, {}; the fake page caches themselves take {of_fake}", arguments.relations, Bytes(total));

    let directory = DataDirectory {
        path: root.path().to_owned(),
        version_major: 15,
        system_identifier: 7,
        block_size: BLOCK_BYTES,
        segment_blocks: (SEGMENT_BYTES / u64::from(BLOCK_BYTES)) as u32,
        owner_uid: 0,
        files: DataDirectory::open_files(root.path())?,
        last_found: std::sync::Arc::default(),
    };
    let databases = [Database { oid: DATABASE_OID, name: "synthetic".into(), allows_connections: false }];
    let start = Instant::now();
    let inputs = MapInputs {
        server: None,
        data_directory: Some(&directory),
        page_cache: &cache,
        databases: &databases,
        named: None,
        names: None,
        progress: &|_, _| (),
    };
    let map = read_map(inputs).await?;
    let mapped = start.elapsed().as_secs_f64();
    let blocks = (map.forks().map(|(_, fork)| fork.blocks).sum::<u64>(), map.os_blocks());
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
    let start = Instant::now();
    let map = Snapshot::read(&file)?.map;
    let read = start.elapsed().as_secs_f64();
    let receipt = plan(map, cold, &directory).await?;
    let planned = start.elapsed().as_secs_f64() - read;
    let (plan_peak, _) = read_memory()?;
    let Forecast { reads, read_bytes, seconds: lasts, .. } = receipt.forecast;
    println!(
        "plan {planned:.2} s, after reading the snapshot for {read:.2} s: {reads} reads, {read_bytes}, {lasts:.0} s"
    );
    let goals = [
        told(format!("map and snapshot {seconds:.2} s"), seconds < GOAL_SECONDS, format!("{GOAL_SECONDS} s")),
        told(format!("their peak memory {peak}, with the fake page caches"), peak < GOAL_BYTES, GOAL_BYTES),
        told(format!("plan {planned:.2} s"), planned < PLAN_GOAL_SECONDS, format!("{PLAN_GOAL_SECONDS} s")),
        told(format!("its peak memory {plan_peak}, with all of these"), plan_peak < PLAN_GOAL_BYTES, PLAN_GOAL_BYTES),
    ];
    anyhow::ensure!(!arguments.check || goals == [true; 4], "a goal was missed");
    Ok(())
}

/// Prints whether a goal is met.
fn told(what: String, is_met: bool, goal: impl Display) -> bool {
    println!("{what}: goal {goal} {}", if is_met { "met" } else { "MISSED" });
    is_met
}
