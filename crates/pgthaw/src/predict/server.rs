//! Input of a forecast from a running or stopped server: sizes from the catalog or files, block
//! popularity from the snapshot.

use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use roaring::RoaringBitmap;

use super::arguments::PredictArguments;
use crate::Target;
use crate::snapshot::snapshot_text::{prefix, render_selected};
use cache::warm::plan::{Geometry, Plan, Scratch, Situation};
use cache::warm::{DeviceProfile, Evidence};
use cache::{BEST, Chosen, Map, RelationMap, Selected, Tiers};
use command::workload::{WantedClass, levels_of, make_classes, wanted_of, what_it_says};
use command::{read_ahead_bytes, read_device_with};
use host::linux::machine::{count_cores, read_memory};
use host::linux::process;
use host::units::{Bytes, Fork, counted};
use model::{
    ColdRestart, Error, Numbers, READ_CPU_SECONDS, RESTORE_BEGINS_SECONDS, RESTORE_DEPTH, STARTUP_READS, Scenario,
    WarmStep, Warmer, Workload, compute_hit_seconds,
};
use postgres::{
    Activity, DataDirectory, RelationActivity, RelationKind, RowCounts, Server, read_activity, read_configured_setting,
    read_statements,
};
use terminal::Progress;

#[derive(Debug)]
pub struct ServerForecast {
    pub restart: ColdRestart,
    pub snapshot: Option<Selected>,
    pub restore: Option<RestoreInput>,
}

#[derive(Debug)]
pub struct RestoreInput {
    wanted: Vec<WantedClass>,
    geometry: Geometry,
}

pub async fn forecast(arguments: &PredictArguments, figures: &Numbers, shows_progress: bool) -> Result<ServerForecast> {
    let target = Target::open(&arguments.connection).await?;
    match (&target.server, &target.data_directory) {
        (Some(server), _) => forecast_running(arguments, figures, &target, server, shows_progress).await,
        (None, Some(directory)) => forecast_stopped(arguments, figures, &target, directory).await,
        (None, None) => bail!(Error::NoServer),
    }
}

struct Known {
    activity: Activity,
    snapshot: Option<Chosen>,
    clients: u32,
    hit_seconds: f64,
    cores: f64,
    geometry: Geometry,
}

impl Known {
    fn forecast(self, target: &Target, figures: &Numbers, mut assumptions: Vec<String>) -> Result<ServerForecast> {
        let is_local = target.server.as_ref().is_none_or(Server::is_local_socket);
        let block_bytes = f64::from(self.geometry.block_size);
        let memory_pages = read_memory_pages(figures, is_local, block_bytes, &mut assumptions);
        let buffers_pages = read_buffers_bytes(target).map_or(f64::INFINITY, |bytes| bytes.0 as f64 / block_bytes);
        let directory = target.data_directory.as_ref().map(|directory| &*directory.path);
        let server = target.data_directory.as_ref().and_then(DataDirectory::find_postmaster_pid);
        let (device, described) = read_device_with(figures.riops, figures.rbps, directory, server)?;
        let read_ahead = read_ahead_bytes(figures.read_ahead, directory.filter(|_| is_local));
        assumptions.extend([described, format!("the kernel reads ahead by up to {read_ahead}")]);
        let map = self.snapshot.as_ref().map(|chosen| &chosen.snapshot.map);
        let made = make_classes(&self.activity, map, figures.popularity.as_ref())?;
        assumptions.extend(made.describe());
        let workload = Workload {
            clients: self.clients,
            classes: made.classes,
            hit_seconds: self.hit_seconds,
            read_seconds: READ_CPU_SECONDS,
            read_ahead_pages: read_ahead.0 as f64 / block_bytes,
            startup_reads: STARTUP_READS,
        };
        let mut server =
            model::Server { device, cores: self.cores, buffers_pages, os_pages: memory_pages, block_bytes };
        server.divide_memory(memory_pages, buffers_pages)?;
        workload.check()?;
        server.check()?;
        let wanted = map.map(|map| wanted_of(&workload.classes, &self.activity, map));
        let wanted = wanted.filter(|wanted| !wanted.is_empty());
        Ok(ServerForecast {
            restart: ColdRestart { workload, server, assumptions, knees: None, has_bandwidth: true },
            restore: wanted.map(|wanted| RestoreInput { wanted, geometry: self.geometry }),
            snapshot: self.snapshot.map(|chosen| chosen.selected),
        })
    }
}

/// `None` if there is no snapshot, or none that contains blocks.
///
/// # Errors
/// If there are snapshots, but none is readable.
async fn read_heat(arguments: &PredictArguments, target: &Target) -> Result<Option<Chosen>, cache::Error> {
    let Some(cluster) = target.system_identifier() else { return Ok(None) };
    match arguments.snapshots.open().read(BEST, cluster, &target.situation(Tiers::BOTH).await) {
        Err(cache::Error::NoSnapshot(_) | cache::Error::NothingHeld { .. }) => Ok(None),
        read => read.map(Some),
    }
}

fn describe_snapshot(what: &str, chosen: &Chosen) -> Vec<String> {
    let lines = prefix(what, render_selected(&chosen.selected)).into_iter().map(|line| line.trim().to_owned());
    lines.chain(chosen.remarks.iter().cloned()).collect()
}

fn read_memory_pages(figures: &Numbers, is_local: bool, block_bytes: f64, assumptions: &mut Vec<String>) -> f64 {
    let here = is_local.then(read_memory).and_then(Result::ok).map(|memory| memory.total_bytes);
    match figures.memory.or(here) {
        Some(memory) => {
            assumptions.push(format!("{memory} of memory for caching"));
            memory.0 as f64 / block_bytes
        }
        None => {
            assumptions.push("all data fits into memory (memory=SIZE sets a limit)".to_owned());
            f64::INFINITY
        }
    }
}

/// Number of samples of the active clients.
const LOOKS: u32 = 10;

/// pgthaw skips sessions that were idle for longer: there may be thousands.
const RECENTLY: Duration = Duration::from_secs(1);

/// Only every fifth sample includes long-lived sessions: there may be thousands of them.
const LOOKS_OF_LASTING: u32 = 5;

/// If fewer transactions are observed, the forecast uses cumulative statistics.
const FEWEST_TRANSACTIONS: u64 = 200;

struct Watched {
    activity: Activity,
    /// Transactions per second and active clients; `None` if idle.
    pace: Option<(f64, f64)>,
    /// Describes device reads that a warm server would not need; `None` if the server is warm.
    cold_reads: Option<String>,
}

async fn forecast_running(
    arguments: &PredictArguments,
    figures: &Numbers,
    target: &Target,
    server: &Server,
    shows_progress: bool,
) -> Result<ServerForecast> {
    let watched = watch(server, arguments.seconds, shows_progress).await?;
    let (snapshot, unread) = match read_heat(arguments, target).await {
        Ok(snapshot) => (snapshot, None),
        Err(error) => (None, Some(format!("no snapshot of this cluster can be read: {error}"))),
    };
    let cores = figures.cores.unwrap_or_else(count_cores);
    let pace = watched.pace.map(|(tps, clients)| (tps, figures.clients.map_or(clients, f64::from).max(1.0)));
    let told_clients = || figures.clients.unwrap_or_else(|| pace.map_or(1, |(_, n)| n.round() as u32));
    let told = figures.hit_seconds(told_clients().into(), cores);
    let statements = if pace.is_none() && told.is_none() {
        read_statements(&mut server.connect_to(&server.database).await?).await?
    } else {
        None
    };
    let (hit_seconds, clients) = match (told, pace, &statements) {
        (Some(hit), ..) => (hit, told_clients()),
        (None, Some((tps, _)), _) if watched.cold_reads.is_some() => {
            bail!(Error::ColdServer { tps, reads: watched.cold_reads.unwrap_or_default() })
        }
        (None, Some((tps, clients)), _) => (compute_hit_seconds(tps, clients, cores), clients.round() as u32),
        (None, None, Some(statements)) => (statements.seconds, told_clients()),
        (None, None, None) => bail!(Error::IdleDatabase { database: server.database.clone() }),
    };
    let mut assumptions = vec![describe_pace(&watched, &server.database, arguments.seconds)];
    assumptions.extend(statements.map(|statements| {
        format!(
            "each of the {:.0} calls in pg_stat_statements counts as one transaction of {:.3} ms (mean, without waits for reads)",
            statements.calls,
            statements.seconds * 1e3
        )
    }));
    assumptions.extend(match (&snapshot, &figures.popularity) {
        (None, Some(_)) => vec!["popularity of rows as given".to_owned()],
        (Some(chosen), told) => describe_snapshot(what_it_says(&chosen.snapshot.map, told.is_some()), chosen),
        (None, None) => {
            let why = unread.as_deref().unwrap_or("there is no snapshot of this cluster");
            vec![format!("all blocks of a relation are equally popular: {why}")]
        }
    });
    assumptions.extend([describe_warm(clients, hit_seconds, cores), describe_normal(told.is_some(), &watched)]);
    let geometry = Geometry { block_size: server.facts.block_size, segment_blocks: server.facts.segment_blocks };
    let known = Known { activity: watched.activity, snapshot, clients, hit_seconds, cores, geometry };
    known.forecast(target, figures, assumptions)
}

async fn watch(server: &Server, seconds: u32, shows_progress: bool) -> Result<Watched> {
    let mut connection = server.connect_to(&server.database).await?;
    let before = read_activity(&mut connection, RECENTLY).await?;
    let progress = Progress::steps("watching", LOOKS.into(), shows_progress);
    let started = Instant::now();
    let mut clients = 0;
    let mut now = before.clone();
    let is_here = server.facts.postmaster_pid.is_some();
    let mut reads = DeviceReads::new(if is_here { &before.sessions } else { &[] });
    for look in 1..=LOOKS {
        tokio::time::sleep(Duration::from_secs(seconds.into()) / LOOKS).await;
        now = read_activity(&mut connection, started.elapsed() + RECENTLY).await?;
        clients += now.clients;
        if is_here {
            reads.look(&now.sessions, look % LOOKS_OF_LASTING == 0);
        }
        progress.advance(1);
    }
    progress.finish();
    let elapsed = started.elapsed().as_secs_f64();
    let activity = now.since(&before);
    if activity.transactions < FEWEST_TRANSACTIONS {
        return Ok(Watched { activity: now, pace: None, cold_reads: None });
    }
    let pace = Some((activity.transactions as f64 / elapsed, f64::from(clients) / f64::from(LOOKS)));
    let cold_reads = describe_cold_reads(&activity, reads.bytes(), server.facts.block_size.into());
    Ok(Watched { activity, pace, cold_reads })
}

fn describe_pace(watched: &Watched, database: &str, seconds: u32) -> String {
    match watched.pace {
        Some((tps, clients)) => format!(
            "requests to the database \"{database}\" were observed for {seconds} s: {tps:.0} tps, {clients:.1} active clients"
        ),
        None => format!("the database \"{database}\" is idle: the forecast uses its cumulative statistics"),
    }
}

fn describe_warm(clients: u32, hit_seconds: f64, cores: f64) -> String {
    let clients = counted(clients, "client");
    format!("{clients}, a warm transaction takes {:.3} ms on one of {cores} processors", hit_seconds * 1e3)
}

fn describe_normal(is_told: bool, watched: &Watched) -> String {
    match (is_told, &watched.cold_reads, watched.pace) {
        (true, Some(reads), _) => {
            format!("the server is not warm: {reads}; the normal throughput is calculated from the given hit= or tps=")
        }
        (true, None, _) => "the server's normal throughput is calculated from the given hit= or tps=".to_owned(),
        (false, _, Some(_)) => "the server is warm now, so the observed throughput is its normal one".to_owned(),
        (false, _, None) => "the server's normal throughput is that of the calls in pg_stat_statements".to_owned(),
    }
}

/// Maximum blocks per transaction that a warm server reads from the device.
const DEVICE_READS: f64 = 0.01;

/// Maximum share of blocks that a warm server misses in shared_buffers, if device reads are not visible.
const READ_SHARE: f64 = 0.05;

#[derive(Debug)]
struct DeviceReads {
    looks: HashMap<u32, (u64, u64)>,
}

impl DeviceReads {
    fn new(sessions: &[(u32, bool)]) -> DeviceReads {
        let look = |(pid, _): &(u32, bool)| Some((*pid, process::read_fetched_bytes(*pid).ok()?.0));
        DeviceReads { looks: sessions.iter().filter_map(look).map(|(pid, bytes)| (pid, (bytes, bytes))).collect() }
    }

    /// A session that was idle at the beginning counts from its first look.
    fn look(&mut self, sessions: &[(u32, bool)], is_lasting_too: bool) {
        for (pid, is_new) in sessions {
            let lasts = self.looks.get(pid).is_some_and(|(first, _)| *first > 0);
            if lasts && !is_lasting_too {
                continue;
            }
            let Ok(bytes) = process::read_fetched_bytes(*pid) else { continue };
            self.looks.entry(*pid).or_insert((if *is_new { 0 } else { bytes.0 }, 0)).1 = bytes.0;
        }
    }

    fn bytes(&self) -> Option<u64> {
        let fetched = || self.looks.values().map(|(first, last)| last.saturating_sub(*first)).sum();
        (!self.looks.is_empty()).then(fetched)
    }
}

/// `device_bytes` are the bytes that the clients read from the device. If unknown, uses the blocks missing in
/// shared_buffers.
fn describe_cold_reads(activity: &Activity, device_bytes: Option<u64>, block_bytes: f64) -> Option<String> {
    let Some(bytes) = device_bytes else {
        let asked = (activity.blocks_hit + activity.blocks_read).max(1);
        let share = activity.blocks_read as f64 / asked as f64;
        return (share > READ_SHARE).then(|| {
            format!(
                "{:.0} % of the blocks that the server's clients requested were not in shared_buffers (the page cache is not visible from here)",
                100.0 * share
            )
        });
    };
    let blocks = bytes as f64 / block_bytes / activity.transactions.max(1) as f64;
    (blocks > DEVICE_READS)
        .then(|| format!("a transaction of the server's clients reads {blocks:.2} blocks from the device"))
}

/// Blocks per transaction unless given: a table's block and an index leaf.
const ACCESSES: f64 = 2.0;

/// Assumed number of transactions, high enough that a rarely read relation also gets requests.
const TRANSACTIONS: f64 = 1e6;

/// If fewer lookups were counted, the forecast weights relations by size (`Division::Kinds`).
const FEWEST_LOOKUPS: u64 = 1000;

/// Maximum number of segments of a relation: 32 TB in files of 1 GB.
const MOST_SEGMENTS: u32 = 32_768;

async fn forecast_stopped(
    arguments: &PredictArguments,
    figures: &Numbers,
    target: &Target,
    directory: &DataDirectory,
) -> Result<ServerForecast> {
    let chosen = read_heat(arguments, target).await?.ok_or(Error::NoServer)?;
    let cores = figures.cores.unwrap_or_else(count_cores);
    let clients = figures.clients.unwrap_or(1);
    let hit_seconds = figures.hit_seconds(clients.into(), cores).ok_or(Error::StoppedServer)?;
    let accesses = figures.accesses.unwrap_or(ACCESSES);
    let (activity, division) = guess_activity(&chosen.snapshot.map, directory, accesses);
    let mut assumptions = vec![format!(
        "the server is not running, so pgthaw assumes that a transaction requests {} from the {} whose cached blocks the snapshot lists, {}",
        counted(accesses, "block"),
        counted(activity.relations.len(), "relation"),
        division.words()
    )];
    let what = what_it_says(&chosen.snapshot.map, figures.popularity.is_some());
    assumptions.extend(describe_snapshot(what, &chosen));
    assumptions.push(describe_warm(clients, hit_seconds, cores));
    let geometry = Geometry { block_size: directory.block_size, segment_blocks: directory.segment_blocks };
    let known = Known { activity, snapshot: Some(chosen), clients, hit_seconds, cores, geometry };
    known.forecast(target, figures, assumptions)
}

/// Size of shared_buffers. Without a server, runs `postgres -C`.
pub fn read_buffers_bytes(target: &Target) -> Option<Bytes> {
    if let Some(server) = &target.server {
        return Some(server.facts.shared_buffers_bytes);
    }
    let directory = target.data_directory.as_ref()?;
    let text = read_configured_setting(directory, "shared_buffers").ok()?;
    let blocks = text.parse::<u32>().ok().map(u64::from);
    blocks.map(|blocks| Bytes(blocks * u64::from(directory.block_size))).or_else(|| text.parse().ok())
}

/// How a forecast distributes requests over relations; `words` describes each way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Division {
    Lookups,
    /// Lookups were not counted.
    Heat,
    /// Too few lookups were counted.
    Kinds,
}

impl Division {
    fn of(map: &Map, warm: &[(&RelationMap, f64)]) -> Division {
        let lookups: Option<Vec<u64>> = warm.iter().map(|(one, _)| map.lookups.of(&one.relation)).collect();
        match lookups {
            None => Division::Heat,
            Some(counted) if counted.iter().fold(0, |sum: u64, one| sum.saturating_add(*one)) < FEWEST_LOOKUPS => {
                Division::Kinds
            }
            Some(_) => Division::Lookups,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Division::Lookups => "in proportion to the lookups in each relation before the snapshot",
            Division::Heat => "in proportion to the heat of each relation (how often its blocks were used)",
            Division::Kinds => {
                "half from tables and half from indexes, each half in proportion to the relations' sizes (the snapshot counts too few lookups to show each relation's share of requests)"
            }
        }
    }

    fn weights(self, map: &Map, warm: &[(&RelationMap, f64)]) -> Vec<f64> {
        let blocks = |one: &RelationMap| one.main_fork().map_or(0.0, |fork| fork.blocks as f64);
        let is_index = |one: &RelationMap| one.relation.kind == RelationKind::Index;
        let of_kind = |wanted| warm.iter().map(|(one, _)| *one).filter(move |one| is_index(one) == wanted);
        let kinds = [false, true].map(|wanted| of_kind(wanted).map(blocks).sum::<f64>());
        let weight = |(one, heat): &(&RelationMap, f64)| match self {
            Division::Lookups => map.lookups.of(&one.relation).unwrap_or(0) as f64,
            Division::Heat => *heat,
            Division::Kinds => blocks(one) / kinds[usize::from(is_index(one))].max(1.0),
        };
        warm.iter().map(weight).collect()
    }
}

fn guess_activity(map: &Map, directory: &DataDirectory, accesses: f64) -> (Activity, Division) {
    let evidence = Evidence::of(map);
    let heat = |relation: &RelationMap| -> f64 {
        let Some(main) = relation.main_fork() else { return 0.0 };
        levels_of(main, evidence).iter().map(|(heat, blocks)| f64::from(*heat) * blocks.len() as f64).sum()
    };
    let warm: Vec<(&RelationMap, f64)> = map
        .relations
        .iter()
        .filter(|relation| !relation.relation.is_system)
        .map(|relation| (relation, heat(relation)))
        .filter(|(_, heat)| *heat > 0.0)
        .collect();
    let division = Division::of(map, &warm);
    let weights = division.weights(map, &warm);
    let total: f64 = weights.iter().sum();
    let relations = warm.iter().zip(weights).map(|((one, _), weight)| {
        let requests = (TRANSACTIONS * accesses * weight / total.max(f64::MIN_POSITIVE)) as u64;
        let relation = &one.relation;
        RelationActivity {
            oid: relation.oid,
            schema: relation.name.schema.clone(),
            name: relation.name.name.clone(),
            kind: relation.kind,
            blocks: read_blocks(one, directory),
            requests,
            // Counts only index leaves, because the upper levels are warm at once.
            scans: if relation.kind == RelationKind::Index { requests } else { 0 },
            // Assumes one block request per row.
            rows: RowCounts { fetched: requests, ..RowCounts::default() },
            table: None,
            access_method: String::new(),
            tuples: None,
        }
    });
    let activity =
        Activity { transactions: TRANSACTIONS as u64, relations: relations.collect(), ..Activity::default() };
    (activity, division)
}

/// Number of blocks in the files, or in the snapshot if the files are gone.
fn read_blocks(relation: &RelationMap, directory: &DataDirectory) -> u64 {
    let path = &relation.relation.path;
    let size = |segment| {
        let file = path.segment_file(Path::new(""), Fork::Main, segment);
        directory.files.facts_of(&file).ok().map(|facts| facts.st_size as u64)
    };
    let bytes: u64 = (0..MOST_SEGMENTS).map_while(size).sum();
    match bytes / u64::from(directory.block_size) {
        0 => relation.main_fork().map_or(0, |fork| fork.blocks),
        blocks => blocks,
    }
}

/// Number of steps in a simulated restore. Each stands for many reads: a restore may have millions.
const PIECES: f64 = 200.0;

/// Simulates the restore; `None` if it reads nothing.
pub fn plan_warmer(scenario: &Scenario, restore: &RestoreInput) -> Option<Warmer> {
    let (wanted, device) = (&restore.wanted, &scenario.server.device);
    let profile = DeviceProfile {
        reads_per_second: device.reads_per_second.min(f64::MAX),
        bandwidth: Bytes(device.bandwidth.min(u64::MAX as f64) as u64),
        ..DeviceProfile::default()
    };
    let forks = wanted.iter().map(|one| one.fork.clone()).collect();
    let plan = Plan::new(forks, restore.geometry, profile, Situation::Shared, None);
    let forecast = plan.forecast();
    if forecast.reads == 0 {
        return None;
    }
    let mut pieces = Pieces::new(wanted, forecast.reads as f64 / PIECES);
    let mut scratch = Scratch::default();
    for step in 0..plan.steps() {
        for read in plan.reads(step, &mut scratch) {
            pieces.add(read.fork, read.range.start as u32..read.range.end as u32);
        }
    }
    pieces.flush();
    // Classes that are not in `wanted` are inner index pages. A restore reads these with the hottest blocks.
    let is_inner = |class: &usize| wanted.iter().all(|one| one.class != *class);
    let inner = (0..scenario.workload.classes.len()).filter(is_inner);
    let mut steps: Vec<WarmStep> = inner.map(|class| WarmStep { class, bin: None, share: 1.0, reads: 1.0 }).collect();
    steps.append(&mut pieces.steps);
    let read_bytes = forecast.read_bytes.0 as f64 / forecast.reads as f64;
    Some(Warmer { steps, depth: RESTORE_DEPTH, read_bytes, begins_after_seconds: RESTORE_BEGINS_SECONDS })
}

/// Combines a restore's reads into steps, and counts the blocks of each step by fork and heat.
struct Pieces<'a> {
    wanted: &'a [WantedClass],
    reads_each: f64,
    brought: Vec<RoaringBitmap>,
    counts: Vec<Vec<u64>>,
    reads: f64,
    steps: Vec<WarmStep>,
}

impl<'a> Pieces<'a> {
    fn new(wanted: &'a [WantedClass], reads_each: f64) -> Pieces<'a> {
        Pieces {
            brought: vec![RoaringBitmap::new(); wanted.len()],
            counts: wanted.iter().map(|one| vec![0; one.fork.levels.len()]).collect(),
            wanted,
            reads_each,
            reads: 0.0,
            steps: Vec::new(),
        }
    }

    fn add(&mut self, fork: usize, range: std::ops::Range<u32>) {
        let mut blocks = RoaringBitmap::new();
        blocks.insert_range(range);
        blocks -= &self.brought[fork];
        for (count, (_, level)) in self.counts[fork].iter_mut().zip(&self.wanted[fork].fork.levels) {
            *count += level.intersection_len(&blocks);
        }
        self.brought[fork] |= blocks;
        self.reads += 1.0;
        if self.reads >= self.reads_each {
            self.flush();
        }
    }

    fn flush(&mut self) {
        let total: u64 = self.counts.iter().flatten().sum();
        if total == 0 {
            return;
        }
        for (one, counts) in self.wanted.iter().zip(&mut self.counts) {
            for (level, count) in counts.iter_mut().enumerate().filter(|(_, count)| **count > 0) {
                self.steps.push(WarmStep {
                    class: one.class,
                    // `levels` are sorted coldest first, popularity bins hottest first. The last bin has the blocks
                    // that are not restored.
                    bin: Some(one.fork.levels.len() - 1 - level),
                    share: *count as f64 / one.fork.levels[level].1.len() as f64,
                    reads: self.reads * *count as f64 / total as f64,
                });
                *count = 0;
            }
        }
        self.reads = 0.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cache::Lookups;
    use cache::fixtures::{map_of, relation, third_resident};
    use cache::warm::plan::{Precedence, WantedFork};
    use model::{Bin, Device, PageClass, Popularity, Server, Workload};

    #[test]
    fn what_the_device_gives_is_cold_and_what_the_page_cache_gives_is_not() {
        let activity = Activity { transactions: 1000, blocks_hit: 3000, blocks_read: 1000, ..Activity::default() };
        let cold = |activity: &Activity, bytes| describe_cold_reads(activity, bytes, 8192.0);
        assert_eq!(cold(&activity, Some(0)), None);
        assert_eq!(cold(&activity, Some(10 * 8192)), None);
        assert!(cold(&activity, Some(500 * 8192)).unwrap().contains("reads 0.50 blocks from the device"));
        assert!(cold(&activity, None).unwrap().starts_with("25 % of the blocks"));
        assert_eq!(cold(&Activity { blocks_read: 100, ..activity }, None), None);
    }

    #[test]
    fn processes_that_cannot_be_looked_at_say_nothing() {
        let mut reads = DeviceReads::new(&[]);
        assert_eq!(reads.bytes(), None);
        reads.look(&[(std::process::id(), false)], false);
        assert!(reads.bytes().is_some());
    }

    #[test]
    fn what_is_asked_for_is_divided_by_what_is_known_best() {
        let index = |mut one: RelationMap| {
            one.relation.kind = RelationKind::Index;
            one
        };
        let relations = [
            relation(1, third_resident(900)),
            relation(2, third_resident(100)),
            index(relation(3, third_resident(200))),
        ];
        let divide = |lookups: Lookups| {
            let mut map = map_of(relations.to_vec());
            map.lookups = lookups;
            let warm: Vec<(&RelationMap, f64)> = relations.iter().map(|one| (one, 7.0)).collect();
            let division = Division::of(&map, &warm);
            (division, division.weights(&map, &warm))
        };
        let counted = |blocks: [u64; 3]| Lookups::of_database("app", [1, 2, 3].into_iter().zip(blocks));
        assert_eq!(divide(Lookups::default()), (Division::Heat, vec![7.0; 3]));
        assert_eq!(divide(counted([0, 3, 0])), (Division::Kinds, vec![0.9, 0.1, 1.0]));
        assert_eq!(divide(counted([0, 1000, 2000])), (Division::Lookups, vec![0.0, 1000.0, 2000.0]));
    }

    #[test]
    fn what_is_hot_comes_first_and_each_level_once() {
        let levels = vec![(1.0_f32, (0..9000).collect::<RoaringBitmap>()), (50.0, (9000..10_000).collect())];
        let bins = vec![Bin { pages: 1000.0, weight: 50.0 }, Bin { pages: 9000.0, weight: 1.0 }];
        let class = PageClass {
            name: "t".into(),
            pages: 10_000.0,
            accesses: 1.0,
            run_pages: 1.0,
            popularity: Popularity::Measured(bins),
        };
        let fork = WantedFork {
            precedence: Precedence::ByHeat,
            is_index: false,
            blocks: 10_000,
            levels,
            resident: RoaringBitmap::new(),
            places: Vec::new(),
        };
        let wanted = WantedClass { class: 0, fork };
        let device = Device::with_limits(3000.0, 131_072_000.0, 0.5e-3);
        let geometry = Geometry { block_size: 8192, segment_blocks: 131_072 };
        let server =
            Server { device, cores: 1.0, buffers_pages: f64::INFINITY, os_pages: f64::INFINITY, block_bytes: 8192.0 };
        let workload = Workload {
            clients: 1,
            classes: vec![class],
            hit_seconds: 0.1e-3,
            read_seconds: 0.0,
            read_ahead_pages: 1.0,
            startup_reads: 0.0,
        };
        let cold = Scenario { name: String::new(), workload, server, warmer: None };
        let warmer = plan_warmer(&cold, &RestoreInput { wanted: vec![wanted], geometry }).unwrap();
        assert_eq!(warmer.steps[0].bin, Some(0));
        for bin in [0, 1] {
            let share: f64 = warmer.steps.iter().filter(|step| step.bin == Some(bin)).map(|step| step.share).sum();
            assert!((share - 1.0).abs() < 1e-9, "{bin}: {share}");
        }
        let bytes = warmer.steps.iter().map(|step| step.reads).sum::<f64>() * warmer.read_bytes;
        assert!((bytes / (10_000.0 * 8192.0) - 1.0).abs() < 0.01, "{bytes}");
    }
}
