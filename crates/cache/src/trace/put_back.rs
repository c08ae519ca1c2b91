//! Puts the caches back to what they were before a job: only what it brought in goes, only what it pushed out comes back.
//!
//! Who reads a row first sets its hint bits, so that a job that only reads leaves dirty pages too. Asked to drop a dirty page the kernel begins
//! to write it, and keeps it; a moment later it can go. So what stayed is asked for again, as long as some of it goes. Nobody syncs: who asks
//! what became of a write may take its error away from the server.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use roaring::RoaringBitmap;
use serde::Serialize;
use tokio::time::sleep;

use super::error::Error;
use super::journal::Left;
use super::record::Came;
use crate::warm::plan::Geometry;
use crate::warm::restore::{Answer, Dropped, Files, Host, Place, Request, Restore, RestoreOptions, SystemRoom};
use crate::warm::traffic::ServerTraffic;
use crate::warm::{Control, PlannedDevice, Refusal, Sharing, SkipReason, TierReceipt, Unwatched};
use crate::{ForkMap, Map, MapInputs, RelationMap, TierState, Tiers, read_map_of};
use host::linux::page_cache::PageCache;
use host::units::{Bytes, Fork};
use postgres::{DataDirectory, Database, Relation, RelationPath, Server};

/// Connections that load shared_buffers.
const CONNECTIONS: usize = 4;

/// Causes that are told of what did not come back.
const DETAILS_MAX: usize = 3;

/// What was put back. Everything was measured afterwards.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PutBack {
    /// Runs that it was for: more than one when others had ended or were killed before.
    pub runs: usize,
    /// Bytes that the jobs had brought into the page cache and that were there at the end, and those that are still there.
    pub brought_bytes: Bytes,
    pub stayed_bytes: Bytes,
    /// Bytes of those that stayed and have yet to be written; 0 where the kernel does not tell.
    pub unwritten_bytes: Bytes,
    /// Bytes of what they brought that stand dirty in shared_buffers: the server writes them some time, and so they come into the page
    /// cache again. `None` where nobody could see.
    pub buffers_unwritten_bytes: Option<Bytes>,
    /// Bytes that are cached now, were not before the jobs, and that these were not seen to read: what they wrote, what others read and
    /// wrote, and what they read after a run was killed. They stay.
    pub unread_bytes: Bytes,
    /// Bytes that the page cache had before the jobs.
    pub cached_before_bytes: Bytes,
    /// Bytes of the page cache that were gone, and those that are back.
    pub gone_bytes: Bytes,
    pub back_bytes: Bytes,
    /// Bytes of shared_buffers that were gone, and those that are back; `None` where nobody could see.
    pub buffers_gone_bytes: Option<Bytes>,
    pub buffers_back_bytes: Option<Bytes>,
    pub seconds: f64,
    pub remarks: Vec<String>,
}

/// What is put back, and where.
pub struct PuttingBack<'a> {
    pub directory: &'a DataDirectory,
    /// `None`: the page cache alone.
    pub server: Option<Server>,
    pub databases: &'a [Database],
    pub page_cache: Arc<dyn PageCache>,
    /// Whose memory the page cache is charged to and looked at.
    pub room: SystemRoom,
    pub device: PlannedDevice,
    pub control: Arc<Control>,
}

impl std::fmt::Debug for PuttingBack<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PuttingBack").field("directory", &self.directory).finish_non_exhaustive()
    }
}

impl PuttingBack<'_> {
    /// Does it, and looks again.
    pub async fn run(self, left: &Left) -> Result<PutBack, Error> {
        let started = Instant::now();
        let mut done = PutBack { runs: left.runs, remarks: left.remarks.clone(), ..PutBack::default() };
        let Some(before) = &left.before else { return Ok(done) };
        let now = self.read_now(before).await?;
        if let TierState::Unknown { reason } = &now.os {
            return Err(Error::NothingSeen(reason.clone()));
        }
        if let TierState::Unknown { reason } = &before.buffers {
            done.remarks.push(format!("shared_buffers were not seen: {reason}"));
        }
        let bytes = |blocks: u64| Bytes(blocks * u64::from(before.source.block_size));
        let sees_buffers = now.buffers == TierState::Measured;
        done.unread_bytes = bytes(count_unread(before, &left.brought, &now));
        let mut dropped = self.drop_brought(before, &left.brought, &mut done).await;
        done.brought_bytes = dropped.brought_bytes;
        let gone = compute_gone(before, &now);
        done.cached_before_bytes = bytes(before.os_blocks());
        done.gone_bytes = bytes(gone.os_blocks());
        done.buffers_gone_bytes = sees_buffers.then(|| bytes(gone.buffer_blocks()));
        let brought_back = !gone.relations.is_empty();
        if brought_back {
            // What comes into shared_buffers passes through the page cache, and pushes out what the job made dirty there.
            let passing = compute_passing(&left.brought, &gone);
            self.bring_back(gone, sees_buffers, &mut done).await;
            dropped = self.drop_brought(before, &passing, &mut done).await;
        } else {
            done.buffers_back_bytes = done.buffers_gone_bytes;
        }
        // Of what passed through, too, something may have stayed.
        done.stayed_bytes = dropped.stayed_bytes.min(done.brought_bytes);
        done.unwritten_bytes = dropped.unwritten_bytes.min(done.stayed_bytes);
        let brought = compute_brought(before, &left.brought);
        let mut dirty = sees_buffers.then(|| count_dirty(&brought, &now));
        // The job has ended: what was not dirty by then is not made so any more.
        if brought_back && dirty > Some(0) {
            let now = self.read_now(before).await?;
            dirty = (now.buffers == TierState::Measured).then(|| count_dirty(&brought, &now));
        }
        done.buffers_unwritten_bytes = dirty.map(bytes);
        done.seconds = started.elapsed().as_secs_f64();
        Ok(done)
    }

    /// What is cached now, of shared_buffers too if it was seen before.
    async fn read_now(&self, before: &Map) -> Result<Map, Error> {
        let with_buffers = before.buffers == TierState::Measured && self.server.is_some();
        let inputs = MapInputs {
            server: self.server.as_ref(),
            data_directory: Some(self.directory),
            page_cache: &*self.page_cache,
            databases: self.databases,
            named: None,
            names: None,
            progress: &|_, _| (),
        };
        Ok(read_map_of(inputs, with_buffers).await?)
    }

    async fn drop_brought(&self, before: &Map, came: &Came, done: &mut PutBack) -> Gone {
        let geometry = Geometry { block_size: before.source.block_size, segment_blocks: before.source.segment_blocks };
        let files = Files { cache: &*self.page_cache, directory: &self.directory.path, geometry };
        let mut gone = drop_brought(files, compute_brought(before, came), &self.control).await;
        done.remarks.append(&mut gone.remarks);
        gone
    }

    /// Brings back what is gone, as a restore does, and takes its word for what is there then.
    async fn bring_back(&self, gone: Map, sees_buffers: bool, done: &mut PutBack) {
        let geometry = Geometry { block_size: gone.source.block_size, segment_blocks: gone.source.segment_blocks };
        let buffers_budget = done.buffers_gone_bytes;
        let tiers = Tiers { os: true, buffers: sees_buffers && buffers_budget > Some(Bytes(0)) };
        let options = RestoreOptions {
            device: self.device,
            seeks: false,
            threads: self.device.profile.depth as usize,
            sharing: Sharing::Fair,
            connections: CONNECTIONS,
            budget: None,
            buffers_budget,
            max_rate: None,
            create_extensions: false,
            no_double: false,
            is_dry_run: false,
            same_cluster: true,
            awaits_server: false,
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
        let back = |tier: Option<TierReceipt>| tier.and_then(|tier| tier.resident_after_bytes);
        // The page cache is asked for what shared_buffers had too, and that was not all gone from it.
        done.back_bytes = back(receipt.os).unwrap_or_default().min(done.gone_bytes);
        done.buffers_back_bytes = done.buffers_gone_bytes.map(|_| back(receipt.buffers).unwrap_or_default());
        let mut details: Vec<&str> = receipt.skipped.iter().filter_map(|one| one.detail.as_deref()).collect();
        details.sort_unstable();
        details.dedup();
        let details = details.into_iter().take(DETAILS_MAX).map(|detail| format!("not all came back: {detail}"));
        done.remarks.extend(details);
        done.remarks.extend(receipt.remarks);
    }
}

/// What came, with what comes into the page cache on its way into shared_buffers.
fn compute_passing(brought: &Came, gone: &Map) -> Came {
    let mut passing = brought.clone();
    for (relation, fork) in gone.forks() {
        *passing.entry((relation.path.clone(), fork.fork)).or_default() |= fork.all_buffers();
    }
    passing
}

/// What the jobs brought and nobody had cached before.
fn compute_brought<'a>(before: &Map, brought: &'a Came) -> Vec<Brought<'a>> {
    let cached: HashMap<(&RelationPath, Fork), &RoaringBitmap> =
        before.forks().map(|(relation, fork)| ((&relation.path, fork.fork), &fork.os)).collect();
    let own = |((path, fork), blocks): (&'a (RelationPath, Fork), &RoaringBitmap)| {
        let blocks = cached.get(&(path, *fork)).map_or_else(|| blocks.clone(), |before| blocks - *before);
        (!blocks.is_empty()).then_some(Brought { path, fork: *fork, blocks })
    };
    brought.iter().filter_map(own).collect()
}

/// Blocks that are cached now, and neither were before nor are the jobs' by what they read.
fn count_unread(before: &Map, brought: &Came, now: &Map) -> u64 {
    let cached_before = before.forks().map(|(relation, fork)| ((&relation.path, fork.fork), &fork.os));
    let mut known: HashMap<(&RelationPath, Fork), RoaringBitmap> = HashMap::new();
    for (key, blocks) in cached_before.chain(brought.iter().map(|((path, fork), blocks)| ((path, *fork), blocks))) {
        *known.entry(key).or_default() |= blocks;
    }
    let unread = |(relation, fork): (&Relation, &ForkMap)| match known.get(&(&relation.path, fork.fork)) {
        Some(known) => fork.os.difference_len(known),
        None => fork.os.len(),
    };
    now.forks().map(unread).sum()
}

/// Blocks of it that are dirty in shared_buffers now.
fn count_dirty(brought: &[Brought<'_>], now: &Map) -> u64 {
    let dirty: HashMap<(&RelationPath, Fork), &RoaringBitmap> =
        now.forks().map(|(relation, fork)| ((&relation.path, fork.fork), &fork.dirty)).collect();
    let of = |one: &Brought<'_>| Some(dirty.get(&(one.path, one.fork))?.intersection_len(&one.blocks));
    brought.iter().filter_map(of).sum()
}

/// What was cached before and is not now. What of it has no file any more is left out.
fn compute_gone(before: &Map, now: &Map) -> Map {
    let there: HashMap<(&RelationPath, Fork), &ForkMap> =
        now.forks().map(|(relation, fork)| ((&relation.path, fork.fork), fork)).collect();
    let gone_of = |relation: &RelationPath, fork: &ForkMap| {
        let now = there.get(&(relation, fork.fork))?;
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
    let relation = |one: &RelationMap| {
        let forks: Vec<ForkMap> = one.forks.iter().filter_map(|fork| gone_of(&one.relation.path, fork)).collect();
        (!forks.is_empty()).then(|| RelationMap { relation: one.relation.clone(), forks })
    };
    let relations = before.relations.iter().filter_map(relation).collect();
    Map { relations, buffers: now.buffers.clone(), ..before.clone() }
}

/// Time from one try to the next, beside what a try takes: half a processor at most.
const PAUSE: Duration = Duration::from_millis(50);

/// A device that writes nothing for so long is left alone.
const STUCK: Duration = Duration::from_secs(5);

/// The same where nothing is known to wait for the device. Kernels before 6.5 do not tell.
const STUCK_UNSEEN: Duration = Duration::from_millis(500);

/// Blocks of a fork that jobs brought.
#[derive(Clone, Debug)]
pub struct Brought<'a> {
    pub path: &'a RelationPath,
    pub fork: Fork,
    pub blocks: RoaringBitmap,
}

/// What became of them.
#[derive(Debug, Default)]
pub struct Gone {
    /// Bytes that were there, those that stayed, and those of them that have yet to be written.
    pub brought_bytes: Bytes,
    pub stayed_bytes: Bytes,
    pub unwritten_bytes: Bytes,
    /// Of which nothing is known, in words.
    pub remarks: Vec<String>,
}

/// Drops them, until nothing goes any more.
pub async fn drop_brought(files: Files<'_>, brought: Vec<Brought<'_>>, control: &Control) -> Gone {
    let mut gone = Gone::default();
    let mut left = try_once(files, brought, control, &mut gone);
    gone.brought_bytes = left.before_bytes;
    let mut last = Instant::now();
    while !left.stayed.is_empty() && !control.is_interrupted() {
        let stuck = if left.unwritten_bytes > Bytes(0) { STUCK } else { STUCK_UNSEEN };
        if last.elapsed() > stuck {
            break;
        }
        sleep(PAUSE.max(left.took)).await;
        let next = try_once(files, left.stayed, control, &mut gone);
        if next.after_bytes < left.after_bytes {
            last = Instant::now();
        }
        left = next;
    }
    (gone.stayed_bytes, gone.unwritten_bytes) = (left.after_bytes, left.unwritten_bytes);
    gone
}

/// What one try came to.
struct Tried<'a> {
    before_bytes: Bytes,
    after_bytes: Bytes,
    unwritten_bytes: Bytes,
    stayed: Vec<Brought<'a>>,
    took: Duration,
}

fn try_once<'a>(files: Files<'_>, all: Vec<Brought<'a>>, control: &Control, gone: &mut Gone) -> Tried<'a> {
    let (started, none) = (Instant::now(), Bytes(0));
    let mut tried = Tried {
        before_bytes: none,
        after_bytes: none,
        unwritten_bytes: none,
        stayed: Vec::new(),
        took: Duration::ZERO,
    };
    for one in all {
        if control.is_interrupted() {
            break;
        }
        let Dropped { before_bytes, after_bytes, unwritten_bytes, stayed, error } =
            files.drop_blocks(one.path, one.fork, &one.blocks, |_, run| Ok(vec![files.pages(run)]));
        if let Some(error) = error {
            gone.remarks.push(format!("what was brought in of {} may still be there: {error}", one.path));
            continue;
        }
        tried.before_bytes += before_bytes;
        tried.after_bytes += after_bytes;
        tried.unwritten_bytes += unwritten_bytes;
        tried.stayed.extend((!stayed.is_empty()).then_some(Brought { blocks: stayed, ..one }));
    }
    tried.took = started.elapsed();
    tried
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
        let came = |number| (relation(number, fork(0..0, 1)).relation.path, Fork::Main);
        let came = Came::from([(came(1), (5..20).collect()), (came(2), (0..3).collect())]);
        let brought = compute_brought(&before, &came);
        let blocks: u64 = brought.iter().map(|one| one.blocks.len()).sum();
        assert_eq!((brought.len(), blocks), (2, 13));
        let mut written = fork(0..30, 100);
        written.dirty.insert_range(8..15);
        assert_eq!(count_dirty(&brought, &map_of(vec![relation(1, written)])), 5);
        let mut buffered = fork(0..0, 100);
        buffered.buffers[1].insert_range(8..12);
        let passing = compute_passing(&came, &map_of(vec![relation(1, buffered)]));
        let passed = compute_brought(&before, &passing);
        assert_eq!(passed[0].blocks, (10..20).collect(), "of shared_buffers what was not in the page cache too");
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
    const PATH: RelationPath = RelationPath::Base { database_oid: 5, relfilenumber: 1 };

    /// Drops these blocks of a file of 100, in segments of 40.
    async fn dropped(cache: &FakePageCache, blocks: impl IntoIterator<Item = u32>) -> Gone {
        let geometry = Geometry { block_size: 8192, segment_blocks: 40 };
        let files = Files { cache, directory: Path::new("/data"), geometry };
        let brought = vec![Brought { path: &PATH, fork: Fork::Main, blocks: blocks.into_iter().collect() }];
        drop_brought(files, brought, &Control::default()).await
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
