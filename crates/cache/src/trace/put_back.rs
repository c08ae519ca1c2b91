//! Restores the caches after a job: evicts only pages that the job loaded, and reloads only pages that it evicted. If
//! runs overlap, the last one restores the state from before the first.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{File, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use roaring::RoaringBitmap;
use serde::Serialize;
use tokio::time::sleep;

use super::error::{Error, Result};
use super::record::{Account, Came, runs};
use crate::files::Files;
use crate::read::key_of;
use crate::sealed_file::DRAFT_PREFIX;
use crate::snapshot_file::write_draft;
use crate::snapshot_store::lock_within;
use crate::warm::plan::Geometry;
use crate::warm::restore::{Answer, Host, Place, Request, Restore, RestoreOptions, SystemRoom};
use crate::warm::traffic::ServerTraffic;
use crate::warm::{Control, PlannedDevice, Refusal, Sharing, SkipReason, Unwatched};
use crate::{ForkMap, Map, MapInputs, RelationMap, Snapshot, TierState, Tiers, read_map_of};
use host::files::{Directory, FILE_MODE, has_foreign_owner, remove_abandoned_drafts};
use host::linux::cgroup::LeftCgroup;
use host::linux::page_cache::PageCache;
use host::units::{Bytes, Fork};
use postgres::{
    DataDirectory, Database, PG_BUFFERCACHE, PrewarmMode, Prewarmer, Relation, RelationPath, Server,
    apply_evict_buffers, read_buffers,
};

const CONNECTIONS: usize = 4;

/// Maximum rounds of loading. A round may evict buffers that the next must reload.
const ROUNDS: usize = 3;

const DETAILS_MAX: usize = 3;

/// Restoration of the caches after a job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, crate::JsonSchema)]
pub struct PutBack {
    /// Number of runs whose effects were undone: above 1 if earlier runs did not undo theirs.
    pub runs: usize,
    /// Bytes loaded by the job, requested by no other process, and cached at the job's end.
    pub brought_bytes: Bytes,
    /// Bytes of `brought_bytes` that are still cached.
    pub stayed_bytes: Bytes,
    /// Dirty bytes of `stayed_bytes`; 0 before Linux 6.5.
    pub unwritten_bytes: Bytes,
    /// Bytes loaded by the job and dirty in shared_buffers; later writes return them to the page cache. `None` if
    /// shared_buffers are not visible.
    pub buffers_unwritten_bytes: Option<Bytes>,
    /// Newly cached bytes that other processes certainly or possibly loaded or requested. They stay cached.
    pub unread_bytes: Bytes,
    /// Cached bytes before the job.
    pub cached_before_bytes: Bytes,
    /// Bytes that were evicted from the page cache.
    pub gone_bytes: Bytes,
    /// Bytes of `gone_bytes` that are restored.
    pub back_bytes: Bytes,
    /// Bytes that were evicted from shared_buffers. `None` if these are not visible.
    pub buffers_gone_bytes: Option<Bytes>,
    /// Bytes of `buffers_gone_bytes` that are restored.
    pub buffers_back_bytes: Option<Bytes>,
    pub seconds: f64,
    pub remarks: Vec<String>,
}

#[derive(Debug)]
pub struct PuttingBack<'a> {
    pub directory: &'a DataDirectory,
    pub server: Option<Server>,
    pub databases: &'a [Database],
    pub page_cache: Arc<dyn PageCache>,
    pub room: SystemRoom,
    pub device: PlannedDevice,
    pub control: Arc<Control>,
}

#[derive(Debug)]
pub struct EndedJob<'a> {
    pub before: &'a Map,
    pub account: Account,
}

impl PuttingBack<'_> {
    /// Evicts the job's pages, restores the caches recorded in `left`, and measures the result. `left` is `None` while
    /// another run is active.
    pub async fn run(self, left: Option<&Left>, mut job: Option<EndedJob<'_>>) -> Result<PutBack> {
        let started = Instant::now();
        let (runs, remarks) = left.map_or((0, Vec::new()), |left| (left.runs, left.remarks.clone()));
        let mut done = PutBack { runs, remarks, ..PutBack::default() };
        let first = left.and_then(|left| left.before.as_ref()).or(job.as_ref().map(|job| job.before));
        let Some(before) = first else { return Ok(done) };
        let mut now = self.read_now(before).await?;
        if let TierState::Unknown { reason } = &now.os {
            return Err(Error::NothingSeen(reason.clone()));
        }
        if let TierState::Unknown { reason } = &before.buffers {
            done.remarks.push(format!("shared_buffers were not visible: {reason}"));
        }
        let bytes = |blocks: u64| Bytes(blocks * u64::from(before.source.block_size));
        let brought = job.as_mut().map_or_else(Came::new, |job| compute_brought(job.before, &job.account.came()));
        done.remarks.extend(job.as_ref().and_then(|job| job.account.remark()));
        done.unread_bytes = bytes(count_unread(job.as_ref().map_or(before, |job| job.before), &brought, &now));
        let mut dropped = self.drop_brought(brought.clone(), &mut job, &mut done).await;
        (done.brought_bytes, done.stayed_bytes) = (dropped.brought_bytes, dropped.stayed_bytes);
        if left.is_none() {
            return Ok(done);
        }
        done.cached_before_bytes = bytes(before.os_blocks());
        let mut gone = compute_gone(before, &now);
        let (gone_os, gone_buffers) = (gone.os_blocks(), gone.buffer_blocks());
        for round in 0..ROUNDS {
            let missing = gone.buffer_blocks();
            if gone.relations.is_empty() || (round > 0 && missing == 0) {
                break;
            }
            // Blocks that did not fit in the page cache at first will not fit later.
            let forks = gone.relations.iter_mut().flat_map(|one| &mut one.forks);
            forks.filter(|_| round > 0).for_each(|fork| fork.os.clear());
            // Blocks for shared_buffers, and dirty buffers that they evict, pass through the page cache, so both are
            // evicted from it again.
            let passing = compute_brought(before, &compute_passing(&brought, &gone, &now));
            if missing > 0 {
                self.make_room(before, &brought, missing, &mut done).await;
            }
            self.bring_back(gone, bytes(missing), &mut done).await;
            dropped = self.drop_brought(passing, &mut job, &mut done).await;
            now = self.read_now(before).await?;
            gone = compute_gone(before, &now);
            if self.control.is_interrupted() || gone.buffer_blocks() >= missing {
                break;
            }
        }
        let sees_buffers = now.buffers == TierState::Measured;
        let back = |gone: u64, still: u64| bytes(gone.saturating_sub(still));
        (done.gone_bytes, done.back_bytes) = (bytes(gone_os), back(gone_os, gone.os_blocks()));
        done.buffers_gone_bytes = sees_buffers.then(|| bytes(gone_buffers));
        done.buffers_back_bytes = sees_buffers.then(|| back(gone_buffers, gone.buffer_blocks()));
        done.stayed_bytes = dropped.stayed_bytes.min(done.brought_bytes);
        done.unwritten_bytes = dropped.unwritten_bytes.min(done.stayed_bytes);
        done.buffers_unwritten_bytes = sees_buffers.then(|| bytes(count_dirty(&brought, &now)));
        done.seconds = started.elapsed().as_secs_f64();
        Ok(done)
    }

    async fn read_now(&self, before: &Map) -> Result<Map> {
        let with_buffers = before.buffers == TierState::Measured && self.server.is_some();
        let inputs = MapInputs {
            server: self.server.as_ref(),
            data_directory: Some(self.directory),
            ..MapInputs::of(&*self.page_cache, self.databases)
        };
        Ok(read_map_of(inputs, with_buffers).await?)
    }

    async fn drop_brought(&self, brought: Came, job: &mut Option<EndedJob<'_>>, done: &mut PutBack) -> Gone {
        let files = Files::of(&*self.page_cache, self.directory);
        let own = |blocks| match job {
            Some(job) => job.account.own_of(blocks),
            None => blocks,
        };
        let mut gone = drop_brought(files, brought, own, &self.control).await;
        done.remarks.append(&mut gone.remarks);
        gone
    }

    /// Evicts the job's least used buffers to make room for `missing` blocks. Otherwise the load would evict buffers
    /// from before the job. Does nothing before PostgreSQL 17.
    async fn make_room(&self, before: &Map, brought: &Came, missing: u64, done: &mut PutBack) {
        let Some(server) = &self.server else { return };
        let made = async {
            let mut connection = server.connect_with_extension(PG_BUFFERCACHE, &[]).await?;
            let kept: HashMap<_, RoaringBitmap> = before
                .forks()
                .map(|(relation, fork)| ((key_of(&relation.path), fork.fork), fork.all_buffers()))
                .collect();
            let brought: HashMap<_, _> =
                brought.iter().map(|((path, fork), blocks)| ((key_of(path), *fork), blocks)).collect();
            let (mut used, mut own, mut idle) = (0, Vec::new(), HashMap::<_, RoaringBitmap>::new());
            read_buffers(&mut connection, |buffer| {
                used += 1;
                let place = (buffer.relation(), buffer.fork);
                if kept.get(&place).is_none_or(|blocks| !blocks.contains(buffer.block)) {
                    let is_brought = brought.get(&place).is_some_and(|blocks| blocks.contains(buffer.block));
                    own.extend(is_brought.then_some((buffer.usage_count, buffer.id)));
                } else if buffer.usage_count == 0 {
                    idle.entry(place).or_default().insert(buffer.block);
                }
            })
            .await?;
            use_once(server, before, &idle).await;
            let facts = &server.facts;
            let free = (facts.shared_buffers_bytes.0 / u64::from(facts.block_size)).saturating_sub(used);
            own.sort_unstable();
            own.truncate(missing.saturating_sub(free) as usize);
            let ids: Vec<u32> = own.into_iter().map(|(.., id)| id).collect();
            apply_evict_buffers(&mut connection, &ids).await
        };
        // After an error, the server chooses which buffers to evict.
        if let Err(error) = made.await {
            done.remark(format!("shared_buffers were loaded without evicting the job's buffers first: {error}"));
        }
    }

    /// `buffers`: bytes missing from shared_buffers.
    async fn bring_back(&self, gone: Map, buffers: Bytes, done: &mut PutBack) {
        let geometry = Geometry::of(&gone.source);
        let tiers = Tiers { os: true, buffers: buffers > Bytes(0) };
        let options = RestoreOptions {
            device: self.device,
            threads: self.device.profile.depth as usize,
            sharing: Sharing::Fair,
            connections: CONNECTIONS,
            buffers_budget: Some(buffers),
            same_cluster: true,
            ..RestoreOptions::default()
        };
        let postmaster = self.directory.clone();
        let host = Host {
            page_cache: Arc::clone(&self.page_cache),
            room: Arc::new(self.room),
            traffic: Arc::new(ServerTraffic::new(move || postmaster.find_postmaster_pid())),
            control: Arc::clone(&self.control),
            watcher: Arc::new(Unwatched),
        };
        let place = Place { directory: self.directory.path.clone(), geometry };
        let server = self.server.clone().ok_or_else(|| Refusal::because(SkipReason::NoServer));
        let answer = async { Ok::<_, std::convert::Infallible>(Answer { server, remarks: Vec::new() }) };
        let Ok(receipt) = Restore::new(Request::new(gone, tiers), options, Ok(place), host).run(answer).await;
        let details: BTreeSet<&str> = receipt.skipped.iter().filter_map(|one| one.detail.as_deref()).collect();
        let details = details.into_iter().take(DETAILS_MAX).map(|detail| format!("partly restored: {detail}"));
        details.chain(receipt.remarks).for_each(|remark| done.remark(remark));
    }
}

impl PutBack {
    fn remark(&mut self, remark: String) {
        if !self.remarks.contains(&remark) {
            self.remarks.push(remark);
        }
    }
}

/// Returns `brought` and the blocks of `gone` that will pass through the page cache on their way to shared_buffers.
fn compute_passing(brought: &Came, gone: &Map, now: &Map) -> Came {
    let (mut passing, now) = (brought.clone(), forks_of(now));
    for (relation, fork) in gone.forks() {
        let mut blocks = fork.all_buffers();
        now.get(&(&relation.path, fork.fork)).into_iter().for_each(|now| blocks -= &now.os);
        *passing.entry((relation.path.clone(), fork.fork)).or_default() |= blocks;
    }
    passing
}

fn forks_of(map: &Map) -> HashMap<(&RelationPath, Fork), &ForkMap> {
    map.forks().map(|(relation, fork)| ((&relation.path, fork.fork), fork)).collect()
}

fn compute_brought(before: &Map, came: &Came) -> Came {
    let before = forks_of(before);
    let own = |(place, came): (&(RelationPath, Fork), &RoaringBitmap)| {
        let own = before.get(&(&place.0, place.1)).map_or_else(|| came.clone(), |before| came - &before.os);
        (!own.is_empty()).then(|| (place.clone(), own))
    };
    came.iter().filter_map(own).collect()
}

/// Raises the `idle` blocks' usage counts from 0. Otherwise, a load may replace them before it uses free buffers.
async fn use_once(server: &Server, before: &Map, idle: &HashMap<((u32, u32, u32), Fork), RoaringBitmap>) {
    let mut of_databases: BTreeMap<&str, Vec<(u32, Fork, &RoaringBitmap)>> = BTreeMap::new();
    for (relation, fork) in before.forks() {
        let Some(blocks) = idle.get(&(key_of(&relation.path), fork.fork)) else { continue };
        let database = &relation.name.database;
        let database = if database.is_empty() { &server.database } else { database };
        of_databases.entry(database).or_default().push((relation.oid, fork.fork, blocks));
    }
    for (database, forks) in of_databases {
        let Ok(connection) = server.connect_to(database).await else { continue };
        let Ok(mut prewarmer) = Prewarmer::open(connection).await else { continue };
        for (oid, fork, blocks) in forks {
            // Fails for a relation that was dropped meanwhile.
            let _ = prewarmer.apply_prewarm(oid, PrewarmMode::Buffer, fork, &runs(blocks), 1).await;
        }
    }
}

fn count_unread(before: &Map, came: &Came, now: &Map) -> u64 {
    let before = forks_of(before);
    let unread = |(relation, now): (&Relation, &ForkMap)| {
        let mut unread = now.os.clone();
        unread -= before.get(&(&relation.path, now.fork)).map_or(&RoaringBitmap::new(), |before| &before.os);
        unread.len() - came.get(&(relation.path.clone(), now.fork)).map_or(0, |came| unread.intersection_len(came))
    };
    now.forks().map(unread).sum()
}

fn count_dirty(brought: &Came, now: &Map) -> u64 {
    let now = forks_of(now);
    let of = |((path, fork), blocks): (&(RelationPath, Fork), &RoaringBitmap)| {
        Some(now.get(&(path, *fork))?.dirty.intersection_len(blocks))
    };
    brought.iter().filter_map(of).sum()
}

/// Blocks that were cached, but are not now, except those beyond the end of their file.
fn compute_gone(before: &Map, now: &Map) -> Map {
    let there = forks_of(now);
    let mut gone = Map { buffers: now.buffers.clone(), ..before.clone() };
    for RelationMap { relation, forks } in &mut gone.relations {
        let gone_of = |fork: &ForkMap| {
            let now = there.get(&(&relation.path, fork.fork))?;
            let end = u32::try_from(now.blocks).unwrap_or(u32::MAX);
            let minus = |before: &RoaringBitmap, now: &RoaringBitmap| {
                let mut gone = before - now;
                gone.remove_range(end..);
                gone
            };
            let buffered = now.all_buffers();
            let buffers = fork.buffers.each_ref().map(|level| minus(level, &buffered));
            let gone = ForkMap { os: minus(&fork.os, &now.os), buffers, ..ForkMap::empty(fork.fork, now.blocks) };
            (!gone.os.is_empty() || gone.buffers.iter().any(|level| !level.is_empty())).then_some(gone)
        };
        *forks = forks.iter().filter_map(gone_of).collect();
    }
    gone.relations.retain(|one| !one.forks.is_empty());
    gone
}

/// Minimum pause between eviction attempts. A pause is at least as long as an attempt, so attempts take half a
/// processor at most.
const PAUSE: Duration = Duration::from_millis(50);

/// After this time without progress, pgthaw gives up on unwritten pages.
const STUCK: Duration = Duration::from_secs(5);

/// Like `STUCK`, if no unwritten pages are known: kernels before 6.5 do not report them.
const STUCK_UNSEEN: Duration = Duration::from_millis(500);

#[derive(Debug, Default)]
struct Gone {
    brought_bytes: Bytes,
    stayed_bytes: Bytes,
    /// Dirty bytes of `stayed_bytes`.
    unwritten_bytes: Bytes,
    stayed: Came,
    remarks: Vec<String>,
}

/// Evicts blocks until no more can be evicted. `own` selects the blocks that are still the job's. Dirty pages (even
/// reads set hint bits) need several attempts: the first only makes the kernel write them. Never calls fsync, which
/// could hide a write error from the server.
async fn drop_brought(files: Files<'_>, brought: Came, mut own: impl FnMut(Came) -> Came, control: &Control) -> Gone {
    let mut last = Instant::now();
    let mut gone = try_once(files, own(brought), control);
    let mut took = last.elapsed();
    while !gone.stayed.is_empty() && !control.is_interrupted() {
        let stuck = if gone.unwritten_bytes > Bytes(0) { STUCK } else { STUCK_UNSEEN };
        if last.elapsed() > stuck {
            break;
        }
        sleep(PAUSE.max(took)).await;
        let begun = Instant::now();
        let mut next = try_once(files, own(std::mem::take(&mut gone.stayed)), control);
        took = begun.elapsed();
        if next.stayed_bytes < gone.stayed_bytes {
            last = Instant::now();
        }
        gone.remarks.append(&mut next.remarks);
        gone = Gone { brought_bytes: gone.brought_bytes, remarks: gone.remarks, ..next };
    }
    gone
}

fn try_once(files: Files<'_>, all: Came, control: &Control) -> Gone {
    let mut gone = Gone::default();
    for ((path, fork), blocks) in all.into_iter().take_while(|_| !control.is_interrupted()) {
        let dropped = files.drop_blocks(&path, fork, &blocks, |_, run| Ok(vec![files.pages(run)]));
        if let Some(error) = dropped.error {
            gone.remarks.push(format!("pages of {path} that the job loaded may still be cached: {error}"));
            continue;
        }
        gone.brought_bytes += dropped.before_bytes;
        gone.stayed_bytes += dropped.after_bytes;
        gone.unwritten_bytes += dropped.unwritten_bytes;
        if !dropped.stayed.is_empty() {
            gone.stayed.insert((path, fork), dropped.stayed);
        }
    }
    gone
}

const LOCK: &str = ".lock";
const BEFORE: &str = ".before.parquet";
const CGROUPS: &str = ".cgroups.json";
const RESTORE: &str = ".restore";
/// Maximum size of the file that lists a run's cgroups (two at most).
const CGROUPS_BYTES_MAX: u64 = 64 << 10;

/// Older state of a killed run is not restored.
const STALE: SignedDuration = SignedDuration::from_hours(24);

const TURN_TRIES: u32 = 20;
const TURN_PAUSE: Duration = Duration::from_millis(50);

/// Each run holds a lock and stores the cache contents from before the run. If it is killed, another run can restore
/// them. Pages of a killed run's job stay cached: others may use them.
#[derive(Debug)]
pub struct Journals {
    directory: Directory,
    system_identifier: u64,
}

#[derive(Debug)]
pub struct Journal {
    name: String,
    lock: File,
}

/// State left by ended runs. While this value exists, no other process cleans it up.
#[derive(Debug)]
pub struct Left {
    /// Cache contents before the first run; `None` if no usable record exists.
    pub before: Option<Map>,
    pub runs: usize,
    pub remarks: Vec<String>,
    names: Vec<String>,
    _turn: File,
}

impl Journals {
    /// # Errors
    /// If the directory cannot be created, or if pgthaw runs as root and another user owns it or a directory above it.
    /// That user could forge journals, which decide which pages are evicted and to which cgroups processes move.
    pub fn open(state: &Path, system_identifier: u64) -> Result<Journals> {
        let path = Journals::place(state, system_identifier);
        if has_foreign_owner(&path) {
            let source = io::Error::new(io::ErrorKind::PermissionDenied, "another user controls its content");
            return Err(Error::file("use", &path, source));
        }
        let directory = Directory::create(&path).map_err(|source| Error::file("create", &path, source))?;
        Ok(Journals { directory, system_identifier })
    }

    pub fn place(state: &Path, system_identifier: u64) -> PathBuf {
        state.join("runs").join(system_identifier.to_string())
    }

    fn failed(&self, action: &'static str) -> impl Fn(io::Error) -> Error {
        move |source| Error::file(action, self.directory.path(), source)
    }

    pub fn begin(&self, before: Option<&Map>) -> Result<Journal> {
        let journal = self.lock_new("", LOCK)?;
        if let Some(before) = before {
            let (name, path) = (format!("{}{BEFORE}", journal.name), self.path(&journal.name, BEFORE));
            let directory = self.directory.try_clone().map_err(self.failed("open"))?;
            let draft = write_draft(&Snapshot::new(before.clone(), None), directory, &path)?;
            // After a power failure the caches are empty, so the file would be useless.
            draft.without_sync().place_new(name).map_err(self.failed("create a file in"))?;
        }
        Ok(journal)
    }

    fn lock_new(&self, beginning: &str, ending: &str) -> Result<Journal> {
        let failed = self.failed("create a file in");
        loop {
            let name = format!("{beginning}{:016x}", rand::random::<u64>());
            let lock = self.directory.open_or_create(format!("{name}{ending}"), FILE_MODE).map_err(&failed)?;
            lock.lock().map_err(&failed)?;
            // Another process may have removed the file before it was locked.
            if self.directory.holds(format!("{name}{ending}"), &lock).map_err(&failed)? {
                return Ok(Journal { name, lock });
            }
        }
    }

    /// Marks this process as an active restore, removes the marker files of killed restores, and returns the pids of
    /// other active ones.
    pub fn begin_restore(&self) -> Result<(Journal, Vec<u32>)> {
        let own = self.lock_new(&format!("{}-", std::process::id()), RESTORE)?;
        let mut others = Vec::new();
        for name in self.names(RESTORE)?.into_iter().filter(|name| *name != own.name) {
            match self.is_locked(&name, RESTORE) {
                true => others.extend(name.split('-').next().and_then(|pid| pid.parse::<u32>().ok())),
                false => _ = self.directory.remove_file(format!("{name}{RESTORE}")),
            }
        }
        others.sort_unstable();
        Ok((own, others))
    }

    pub fn end_restore(&self, restoring: Journal) {
        let _ = self.directory.remove_file(format!("{}{RESTORE}", restoring.name));
    }

    /// Must run before a process moves into the `cgroups`, so that a later run can remove them.
    pub fn keep_cgroups(&self, journal: &Journal, cgroups: &[LeftCgroup]) -> Result<()> {
        let failed = self.failed("create a file in");
        let name = format!("{}{CGROUPS}", journal.name);
        let mut file = self.directory.open_or_create(&name, FILE_MODE).map_err(&failed)?;
        let text = serde_json::to_vec(cgroups).map_err(|error| failed(error.into()))?;
        file.write_all(&text).map_err(&failed)
    }

    /// Returns failures.
    pub fn remove_left_cgroups(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        let names = self.names(CGROUPS).unwrap_or_default();
        for name in names.into_iter().filter(|name| !self.is_locked(name, LOCK)) {
            let file = format!("{name}{CGROUPS}");
            let left = self.read_cgroups(&file).unwrap_or_else(|why| {
                remarks.push(format!("cannot read the cgroups of an earlier run: {why}"));
                Vec::new()
            });
            match left.iter().try_for_each(LeftCgroup::remove) {
                Ok(()) => _ = self.directory.remove_file(&file),
                Err(error) => remarks.push(format!("cannot remove a cgroup of an earlier run: {error}")),
            }
        }
        remarks
    }

    fn read_cgroups(&self, file: &str) -> Result<Vec<LeftCgroup>, io::Error> {
        let mut text = Vec::new();
        self.directory.open_file(file)?.take(CGROUPS_BYTES_MAX).read_to_end(&mut text)?;
        Ok(serde_json::from_slice(&text)?)
    }

    fn path(&self, name: &str, ending: &str) -> PathBuf {
        self.directory.path().join(format!("{name}{ending}"))
    }

    /// `None`: another run is active and will clean up.
    pub fn end(&self, journal: Journal) -> Result<Option<Left>> {
        self.collect(Some(journal))
    }

    /// Collects the state left by ended runs. `None` if there is none, or another run will clean up.
    pub fn take_left(&self) -> Result<Option<Left>> {
        if self.names(LOCK)?.is_empty() {
            return Ok(None);
        }
        Ok(self.collect(None)?.filter(|left| !left.names.is_empty()))
    }

    fn names(&self, ending: &str) -> Result<Vec<String>> {
        let entries = self.directory.entries().map_err(self.failed("list"))?;
        let name = |entry: host::files::Entry| Some(entry.name.to_str()?.strip_suffix(ending)?.to_owned());
        Ok(entries.into_iter().filter_map(name).collect())
    }

    fn is_locked(&self, name: &str, ending: &str) -> bool {
        let lock = self.directory.open_file(format!("{name}{ending}"));
        lock.is_ok_and(|lock| matches!(lock.try_lock(), Err(TryLockError::WouldBlock)))
    }

    /// `None` while a run is active. `own` is the run that just ended: it holds its lock until it is its turn.
    fn collect(&self, own: Option<Journal>) -> Result<Option<Left>> {
        let turn = self.directory.open_or_create("turn", FILE_MODE).map_err(self.failed("create a file in"))?;
        if !lock_within(&turn, TURN_TRIES, TURN_PAUSE).map_err(self.failed("lock a file in"))? {
            return Ok(None);
        }
        // Else `is_locked` would find this run active.
        let own = own.map(|Journal { name, lock }| {
            drop(lock);
            name
        });
        let names = self.names(LOCK)?;
        if names.iter().any(|name| self.is_locked(name, LOCK)) {
            return Ok(None);
        }
        let _ = remove_abandoned_drafts(&self.directory, DRAFT_PREFIX);
        let mut left = Left { before: None, runs: 0, remarks: Vec::new(), names: Vec::new(), _turn: turn };
        names.iter().for_each(|name| self.add(&mut left, name, own.as_ref() == Some(name)));
        Ok(Some(Left { names, ..left }))
    }

    fn add(&self, left: &mut Left, name: &str, is_own: bool) {
        let before = match Snapshot::read(&self.path(name, BEFORE)) {
            Ok(snapshot) if snapshot.map.source.system_identifier == self.system_identifier => snapshot.map,
            Ok(_) => return,
            Err(crate::Error::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => return,
            Err(error) => return left.remarks.push(format!("cannot clean up after an earlier run: {error}")),
        };
        let begun = before.taken_at;
        if !is_own && Timestamp::now().duration_since(begun) > STALE {
            return left.remarks.push(format!(
                "the caches are not restored to their state before the run of {begun:.0}: that is too long ago"
            ));
        }
        left.runs += 1;
        if left.before.as_ref().is_none_or(|first| before.taken_at < first.taken_at) {
            left.before = Some(before);
        }
    }

    pub fn forget(&self, left: Left) -> Result<()> {
        let endings = [CGROUPS, BEFORE, LOCK];
        let mut files = left.names.iter().flat_map(|name| endings.map(|ending| format!("{name}{ending}")));
        files.try_for_each(|file| match self.directory.remove_file(file) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => Err(self.failed("remove a file in")(source)),
            _ => Ok(()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{map_of, relation};

    fn fork(os: std::ops::Range<u32>, blocks: u64) -> ForkMap {
        ForkMap { os: os.collect(), ..ForkMap::empty(Fork::Main, blocks) }
    }

    #[test]
    fn only_what_is_there_and_not_cached_is_gone() {
        let mut buffered = fork(0..10, 100);
        buffered.buffers[3].insert_range(90..99);
        let before = map_of(vec![relation(1, buffered), relation(2, fork(0..10, 10)), relation(3, fork(0..5, 9))]);
        let now = map_of(vec![relation(1, fork(5..20, 95)), relation(3, fork(0..9, 9))]);
        let gone = compute_gone(&before, &now);
        assert_eq!((gone.relations.len(), gone.os_blocks(), gone.buffer_blocks()), (1, 5, 5));
    }

    #[test]
    fn what_was_cached_before_is_not_the_jobs() {
        let before = map_of(vec![relation(1, fork(0..10, 100))]);
        let place = |number| (relation(number, fork(0..0, 1)).relation.path, Fork::Main);
        let came = Came::from([(place(1), (5..20).collect()), (place(2), (0..3).collect())]);
        let brought = compute_brought(&before, &came);
        let blocks: u64 = brought.values().map(RoaringBitmap::len).sum();
        assert_eq!((brought.len(), blocks), (2, 13));
        let mut written = fork(0..30, 100);
        written.dirty.insert_range(8..15);
        assert_eq!(count_dirty(&brought, &map_of(vec![relation(1, written)])), 5);
        let mut buffered = fork(0..0, 100);
        buffered.buffers[1].insert_range(8..12);
        let passing = compute_passing(&came, &map_of(vec![relation(1, buffered)]), &map_of(Vec::new()));
        let passed = compute_brought(&before, &passing);
        assert_eq!(passed[&place(1)], (10..20).collect(), "of shared_buffers what was not in the page cache too");
        let made = map_of(vec![relation(1, fork(0..30, 100)), relation(3, fork(0..7, 7))]);
        assert_eq!(count_unread(&before, &came, &made), 10 + 7, "what nobody read and had not been there");
    }
}

#[cfg(test)]
mod brought_tests {
    use super::*;
    use crate::warm::plan::Geometry;
    use host::linux::page_cache::FakePageCache;
    use host::units::PageRange;
    use std::path::Path;

    const FILE: &str = "/data/base/5/1";
    const PATH: RelationPath = RelationPath::base(5, 1);

    async fn dropped(cache: &FakePageCache, blocks: impl IntoIterator<Item = u32>) -> Gone {
        let geometry = Geometry { block_size: 8192, segment_blocks: 40 };
        let files = Files { cache, directory: Path::new("/data"), geometry };
        let brought = Came::from([((PATH, Fork::Main), blocks.into_iter().collect())]);
        drop_brought(files, brought, |own| own, &Control::default()).await
    }

    fn cached(pages: u64) -> FakePageCache {
        let cache = FakePageCache::new();
        cache.insert(FILE, 100 * 8192, &[PageRange::new(0, pages)]);
        cache
    }

    #[tokio::test]
    async fn what_was_brought_is_dropped_and_what_stays_is_counted() {
        let cache = cached(100);
        cache.pin(Path::new(FILE), PageRange::new(20, 22));
        let gone = dropped(&cache, (5..20).chain(39..45).chain(60..61)).await;
        assert_eq!((gone.brought_bytes, gone.stayed_bytes), (Bytes(16 * 8192), Bytes(8192)));
        let expected = [PageRange::new(0, 10), PageRange::new(20, 22), PageRange::new(40, 78), PageRange::new(80, 100)];
        assert_eq!(cache.resident(Path::new(FILE)), expected);
    }

    #[tokio::test]
    async fn what_is_dirty_goes_when_it_is_written() {
        let cache = cached(100);
        cache.write(Path::new(FILE), PageRange::new(12, 70));
        let gone = dropped(&cache, 5..30).await;
        assert_eq!((gone.brought_bytes, gone.stayed_bytes, gone.unwritten_bytes.0), (Bytes(25 * 8192), Bytes(0), 0));
        assert_eq!(cache.resident(Path::new(FILE)), [PageRange::new(0, 10), PageRange::new(60, 100)]);
    }
}

#[cfg(test)]
mod journal_tests {
    use super::*;
    use crate::fixtures::{map_of, relation};

    fn map(second: i64, blocks: std::ops::Range<u32>) -> Map {
        let mut fork = ForkMap::empty(Fork::Main, 100);
        fork.os.insert_range(blocks);
        let now = Timestamp::now().as_second();
        Map { taken_at: Timestamp::from_second(now + second).unwrap(), ..map_of(vec![relation(1, fork)]) }
    }

    fn journals(state: &Path) -> Journals {
        Journals::open(state, map(0, 0..0).source.system_identifier).unwrap()
    }

    #[test]
    fn the_last_one_cleans_up_for_all_to_what_was_before_the_first() {
        let state = tempfile::tempdir().unwrap();
        let journals = journals(state.path());
        let (first, second) = (map(-9, 0..10), map(-5, 0..50));
        let one = journals.begin(Some(&first)).unwrap();
        let two = journals.begin(Some(&second)).unwrap();
        let neither = journals.begin(None).unwrap();
        assert!(journals.end(one).unwrap().is_none(), "others go on");
        assert!(journals.take_left().unwrap().is_none());
        assert!(journals.end(two).unwrap().is_none());
        let left = journals.end(neither).unwrap().unwrap();
        assert_eq!((left.runs, left.before.as_ref().unwrap().os_blocks()), (2, 10));
        journals.forget(left).unwrap();
        assert!(journals.take_left().unwrap().is_none());
    }

    #[test]
    fn what_a_killed_run_left_is_there_for_the_next_unless_it_is_old() {
        let state = tempfile::tempdir().unwrap();
        let journals = journals(state.path());
        let before = map(-4, 0..10);
        drop(journals.begin(Some(&before)).unwrap());
        let left = journals.take_left().unwrap().unwrap();
        assert_eq!((left.runs, left.before.is_some()), (1, true));
        drop(left);
        assert!(journals.take_left().unwrap().is_some(), "it is there until it is done");
        journals.forget(journals.take_left().unwrap().unwrap()).unwrap();
        // A run that ends normally may be old.
        let old = map(-90_000, 0..10);
        let left = journals.end(journals.begin(Some(&old)).unwrap()).unwrap().unwrap();
        assert!(left.before.is_some());
        journals.forget(left).unwrap();
        drop(journals.begin(Some(&old)).unwrap());
        let left = journals.take_left().unwrap().unwrap();
        assert!(left.before.is_none() && left.remarks[0].contains("too long ago"), "{left:?}");
    }

    #[test]
    fn root_obeys_no_journals_of_others() {
        needs_root!();
        let state = tempfile::tempdir().unwrap();
        let others = state.path().join("runs");
        std::fs::create_dir(&others).unwrap();
        std::os::unix::fs::chown(&others, Some(65_534), None).unwrap();
        let system_identifier = map(0, 0..0).source.system_identifier;
        let refused = Journals::open(state.path(), system_identifier).unwrap_err().to_string();
        assert!(refused.contains("another user controls its content"), "{refused}");
        let linked = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(&others, linked.path().join("runs")).unwrap();
        assert!(Journals::open(linked.path(), system_identifier).is_err());
        assert!(std::fs::read_dir(&others).unwrap().next().is_none(), "nothing was made there");
    }

    #[test]
    fn restores_at_once_know_of_each_other_and_no_run_waits_for_them() {
        let state = tempfile::tempdir().unwrap();
        let journals = journals(state.path());
        let own = std::process::id();
        let (killed, nobody) = journals.begin_restore().unwrap();
        drop(killed);
        let (one, none) = journals.begin_restore().unwrap();
        let (two, others) = journals.begin_restore().unwrap();
        assert_eq!((nobody, none, others), (vec![], vec![], vec![own]));
        let run = journals.begin(None).unwrap();
        assert!(journals.end(run).unwrap().is_some());
        journals.end_restore(one);
        journals.end_restore(two);
        assert!(journals.names(RESTORE).unwrap().is_empty());
        journals.forget(journals.take_left().unwrap().unwrap()).unwrap();
        std::fs::remove_file(journals.path("turn", "")).unwrap();
        assert!(journals.take_left().unwrap().is_none());
        assert!(journals.directory.entries().unwrap().is_empty(), "a restore alone leaves nothing");
    }

    #[test]
    fn cgroups_that_are_none_are_told_and_those_of_the_living_left() {
        let state = tempfile::tempdir().unwrap();
        let journals = journals(state.path());
        let journal = journals.begin(None).unwrap();
        let kept = r#"[{"directory": "/", "home": "/"}]"#;
        journals.keep_cgroups(&journal, &serde_json::from_str::<Vec<LeftCgroup>>(kept).unwrap()).unwrap();
        assert!(journals.remove_left_cgroups().is_empty(), "its run goes on");
        drop(journal);
        let remarks = journals.remove_left_cgroups();
        assert!(remarks[0].contains("cannot remove a cgroup"), "the root is none of ours: {remarks:?}");
        assert!(std::path::Path::new("/").exists());
        let path = std::fs::read_dir(journals.directory.path()).unwrap().flatten().map(|entry| entry.path());
        let path = path.into_iter().find(|path| path.to_string_lossy().ends_with(CGROUPS)).unwrap();
        std::fs::write(path, "{").unwrap();
        assert!(journals.remove_left_cgroups()[0].contains("cannot read the cgroups"));
        assert!(journals.remove_left_cgroups().is_empty(), "told once");
    }

    #[test]
    fn what_cannot_be_read_is_told_and_done_with() {
        let state = tempfile::tempdir().unwrap();
        let journals = journals(state.path());
        let killed = journals.begin(Some(&map(-4, 0..10))).unwrap();
        std::fs::write(journals.path(&killed.name, BEFORE), "PAR1").unwrap();
        drop(killed);
        let left = journals.take_left().unwrap().unwrap();
        assert!(left.before.is_none() && left.remarks[0].contains("cannot clean up"), "{left:?}");
    }
}
