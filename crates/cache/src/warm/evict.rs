//! Evicts relations from shared_buffers, if the server can, and from the page cache, without root. A checkpoint comes
//! first, so that dirty buffers are not written into the page cache later. Cached pages are counted right after
//! eviction, because the next query loads catalogs again.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use serde::Serialize;

use super::plan::Geometry;
use super::{Control, Error, Phase, Result, Watcher};
use crate::files::Files;
use crate::read::key_of;
use crate::{ForkMap, Map, RelationMap, TierState, Tiers};
use host::failure::Explain as _;
use host::linux;
use host::linux::page_cache::{PageCache, PageCounts, apply_drop_caches};
use host::linux::threads::map_on_threads;
use host::units::{Bytes, Fork, PageRange};
use postgres::{
    PG_BUFFERCACHE, PgConnection, Relation, RelationName, Server, apply_checkpoint, apply_evict_buffers,
    can_evict_buffers, read_buffers,
};

#[derive(Clone, Copy)]
pub struct Eviction<'a> {
    pub map: &'a Map,
    pub tiers: Tiers,
    /// Evicts every buffer, not only those of `map`.
    pub is_whole_cluster: bool,
    pub drop_caches: bool,
    pub is_dry_run: bool,
    pub server: Option<&'a Server>,
    pub directory: Option<&'a Path>,
    pub page_cache: &'a dyn PageCache,
    pub control: &'a Control,
    pub watcher: &'a dyn Watcher,
}

host::debug_by!(Eviction<'_>: tiers);

impl Eviction<'_> {
    /// # Errors
    /// Page cache contents are unknown, a statement fails, or `drop_caches` is refused.
    pub async fn run(self) -> Result<EvictReceipt> {
        let mut receipt = EvictReceipt { is_dry_run: self.is_dry_run, ..EvictReceipt::default() };
        // All refusals come before the first change.
        let hidden = |reason: &str| Err(Error::OsTierHidden { reason: reason.to_owned() });
        let directory = match (&self.map.os, self.directory) {
            _ if !self.tiers.os => None,
            (TierState::Unknown { reason }, _) => return hidden(reason),
            (TierState::Measured, None) => return hidden("the data directory is unknown"),
            (TierState::Measured, directory) => directory,
        };
        receipt.os =
            directory.map(|_| EvictedTier { resident_before_bytes: self.os_bytes(), resident_after_bytes: None });
        let connection = if self.tiers.buffers { self.open_buffers(&mut receipt).await? } else { None };
        if self.is_dry_run {
            return Ok(receipt);
        }
        if let Some(server) = self.server {
            // Later writes of dirty buffers would cache their pages again. A refusal only adds a remark.
            let mut connection = server.connect_to(&server.database).await?;
            if let Err(error) = apply_checkpoint(&mut connection).await {
                let remark = format!("{error}: the next checkpoint will bring dirty buffers back into the page cache");
                receipt.remarks.push(remark);
            }
        }
        if let Some(connection) = connection {
            self.evict_buffers(connection, &mut receipt).await?;
        }
        if let Some(directory) = directory {
            if self.drop_caches {
                apply_drop_caches()?;
            }
            evict_os(&self, directory, &mut receipt);
        }
        receipt.is_interrupted = self.control.is_interrupted();
        Ok(receipt)
    }

    /// Returns no connection if the server is stopped or cannot evict buffers.
    async fn open_buffers(&self, receipt: &mut EvictReceipt) -> Result<Option<PgConnection>> {
        let resident_before_bytes = self.buffer_bytes();
        let tier = receipt.buffers.insert(EvictedTier { resident_before_bytes, resident_after_bytes: None });
        let Some(server) = self.server else {
            receipt.remarks.push("the server is not running: shared_buffers are empty when it starts".to_owned());
            tier.resident_after_bytes = Some(Bytes(0));
            return Ok(None);
        };
        let databases = self.map.relations.iter().map(|one| one.relation.name.database.clone());
        let databases: Vec<String> = databases.collect::<BTreeSet<_>>().into_iter().collect();
        let mut connection = server.connect_with_extension(PG_BUFFERCACHE, &databases).await?;
        if can_evict_buffers(&mut connection, &server.facts).await? {
            return Ok(Some(connection));
        }
        receipt.buffers_stay = true;
        tier.resident_after_bytes = resident_before_bytes;
        receipt.remarks.push(format!(
            "shared_buffers cannot be evicted: this needs PostgreSQL 17 with pg_buffercache 1.5 (this is {}); restart the server, or give --tier os",
            server.facts.version
        ));
        Ok(None)
    }

    async fn evict_buffers(&self, mut connection: PgConnection, receipt: &mut EvictReceipt) -> Result<()> {
        let relations = self.map.relations.iter().map(|one| (key_of(&one.relation.path), 0));
        let mut after: HashMap<(u32, u32, u32), u64> = relations.collect();
        let mut chosen = Vec::new();
        read_buffers(&mut connection, |buffer| {
            let is_meant = self.is_whole_cluster || after.contains_key(&buffer.relation());
            chosen.extend(is_meant.then_some(buffer.id));
        })
        .await?;
        apply_evict_buffers(&mut connection, &chosen).await?;
        read_buffers(&mut connection, |buffer| {
            after.get_mut(&buffer.relation()).into_iter().for_each(|blocks| *blocks += 1);
        })
        .await?;
        let stay = |one: &RelationMap| {
            let blocks = *after.get(&key_of(&one.relation.path)).filter(|blocks| **blocks > 0)?;
            Some(BuffersStay { name: one.relation.name.clone(), bytes: self.bytes(blocks) })
        };
        receipt.buffers_stayed = self.map.relations.iter().filter_map(stay).collect();
        receipt.buffers_stayed.sort_by_key(|stay| Reverse(stay.bytes));
        if let Some(tier) = &mut receipt.buffers {
            tier.resident_after_bytes = Some(self.bytes(after.values().sum()));
        }
        Ok(())
    }

    pub fn os_bytes(&self) -> Option<Bytes> {
        (self.map.os == TierState::Measured).then(|| self.bytes(self.map.os_blocks()))
    }

    pub fn buffer_bytes(&self) -> Option<Bytes> {
        (self.map.buffers == TierState::Measured).then(|| self.bytes(self.map.buffer_blocks()))
    }

    pub fn bytes(&self, blocks: u64) -> Bytes {
        Bytes(blocks * u64::from(self.map.source.block_size))
    }
}

const THREADS: usize = 4;

fn evict_os(eviction: &Eviction<'_>, directory: &Path, receipt: &mut EvictReceipt) {
    let files = Files { cache: eviction.page_cache, directory, geometry: Geometry::of(&eviction.map.source) };
    let forks: Vec<(&Relation, &ForkMap)> = eviction.map.forks().collect();
    eviction.watcher.begin(Phase::Evicting, forks.len() as u64);
    let outcomes = map_on_threads(forks.len(), THREADS, |at| {
        eviction.watcher.advance(1);
        let (relation, fork) = forks[at];
        (!eviction.control.is_interrupted()).then(|| evict_fork(files, relation, fork))
    });
    let mut after = Bytes(0);
    for ((relation, fork), outcome) in forks.into_iter().zip(outcomes) {
        let before = eviction.bytes(fork.os.len());
        let (left, stay) = match outcome {
            Some(Ok(left)) => {
                let bytes = Bytes(left.cached * eviction.page_cache.page_bytes());
                (Some(bytes), why(eviction, left).map(|reason| (bytes, reason, None)))
            }
            Some(Err(error)) => (None, Some((before, StayReason::Refused, Some(error.with_hint())))),
            None => (None, None),
        };
        after += left.unwrap_or(before);
        if let Some((bytes, reason, detail)) = stay {
            receipt.stayed.push(Stay { name: relation.name.clone(), fork: fork.fork, bytes, reason, detail });
        }
        if before.0 > 0 {
            let (name, fork) = (relation.name.clone(), fork.fork);
            let evicted = EvictedFork { name, fork, resident_before_bytes: before, resident_after_bytes: left };
            receipt.relations.push(evicted);
        }
    }
    receipt.os = Some(EvictedTier { resident_before_bytes: eviction.os_bytes(), resident_after_bytes: Some(after) });
}

fn evict_fork(files: Files<'_>, relation: &Relation, fork: &ForkMap) -> linux::Result<PageCounts> {
    let mut left = PageCounts::default();
    for segment in 0.. {
        let Some(file) = files.open(&relation.path, fork.fork, segment)? else { break };
        file.apply_evict()?;
        let pages = file.size_bytes().div_ceil(files.cache.page_bytes());
        let counts = file.read_counts(PageRange::new(0, pages))?;
        left.cached += counts.cached;
        left.dirty += counts.dirty;
        left.writeback += counts.writeback;
    }
    Ok(left)
}

fn why(eviction: &Eviction<'_>, left: PageCounts) -> Option<StayReason> {
    match left {
        PageCounts { cached: 0, .. } => None,
        PageCounts { dirty: 1.., .. } => Some(StayReason::Dirty),
        PageCounts { writeback: 1.., .. } => Some(StayReason::Writeback),
        _ if eviction.server.is_some() => Some(StayReason::ServerRuns),
        _ => Some(StayReason::InUse),
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, crate::JsonSchema)]
pub struct EvictReceipt {
    pub is_dry_run: bool,
    /// The page cache. `None` if not requested.
    pub os: Option<EvictedTier>,
    /// shared_buffers. `None` if not requested.
    pub buffers: Option<EvictedTier>,
    /// Whether the requested eviction of shared_buffers is impossible on this server. The exit status is then 3.
    pub buffers_stay: bool,
    /// Forks that had cached pages.
    pub relations: Vec<EvictedFork>,
    /// Pages that stayed in the page cache.
    pub stayed: Vec<Stay>,
    /// Relations with blocks left in shared_buffers, largest first. Empty if the server cannot evict.
    pub buffers_stayed: Vec<BuffersStay>,
    pub is_interrupted: bool,
    pub remarks: Vec<String>,
}

/// Cached bytes of a tier. A field is `None` if it was not measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, crate::JsonSchema)]
pub struct EvictedTier {
    pub resident_before_bytes: Option<Bytes>,
    pub resident_after_bytes: Option<Bytes>,
}

/// Bytes of a fork in the page cache.
#[derive(Clone, Debug, PartialEq, Serialize, crate::JsonSchema)]
pub struct EvictedFork {
    #[serde(flatten)]
    pub name: RelationName,
    pub fork: Fork,
    pub resident_before_bytes: Bytes,
    pub resident_after_bytes: Option<Bytes>,
}

#[derive(Clone, Debug, PartialEq, Serialize, crate::JsonSchema)]
pub struct Stay {
    #[serde(flatten)]
    pub name: RelationName,
    pub fork: Fork,
    pub bytes: Bytes,
    pub reason: StayReason,
    /// Cause and remedy, as a sentence.
    pub detail: Option<String>,
}

/// A relation with blocks that stayed in shared_buffers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, crate::JsonSchema)]
pub struct BuffersStay {
    #[serde(flatten)]
    pub name: RelationName,
    pub bytes: Bytes,
}

/// Why pages stay cached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, crate::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StayReason {
    /// Not written yet.
    Dirty,
    /// Being written.
    Writeback,
    /// The running server read the page again or was using it.
    ServerRuns,
    /// Another process has the page mapped or locked.
    InUse,
    /// The kernel refused the eviction.
    Refused,
}

#[cfg(test)]
mod os_tests {
    use std::path::PathBuf;

    use super::*;
    use crate::Tiers;
    use crate::fixtures::{self, map_of};
    use crate::warm::{Control, Unwatched};
    use crate::{Map, RelationMap};
    use host::linux::page_cache::{FakePageCache, FakeRefusal};
    use host::units::Fork;

    fn relation(relfilenumber: u32, blocks: u32) -> RelationMap {
        let mut fork = ForkMap::empty(Fork::Main, blocks.into());
        fork.os.insert_range(0..blocks);
        fixtures::relation(relfilenumber, fork)
    }

    async fn evict(cache: &FakePageCache, map: &Map, is_dry_run: bool) -> EvictReceipt {
        let eviction = Eviction {
            map,
            tiers: Tiers { os: true, buffers: false },
            is_whole_cluster: false,
            drop_caches: false,
            is_dry_run,
            server: None,
            directory: Some(Path::new("/data")),
            page_cache: cache,
            control: &Control::default(),
            watcher: &Unwatched,
        };
        eviction.run().await.unwrap()
    }

    fn file(name: &str) -> PathBuf {
        Path::new("/data/base/5").join(name)
    }

    #[tokio::test]
    async fn all_segments_go_and_what_stays_is_told() {
        let cache = FakePageCache::new();
        cache.insert(file("1"), 131_072 * 8192, &[PageRange::new(0, 262_144)]);
        cache.insert(file("1.1"), 8192, &[PageRange::new(0, 2)]);
        cache.insert(file("2"), 10 * 8192, &[PageRange::new(0, 20)]);
        cache.pin(&file("2"), PageRange::new(4, 6));
        cache.insert(file("3"), 8192, &[PageRange::new(0, 2)]);
        cache.refuse(&file("3"), FakeRefusal::Open);
        let map = map_of(vec![relation(1, 131_073), relation(2, 10), relation(3, 1)]);
        let receipt = evict(&cache, &map, false).await;
        assert!(cache.resident(&file("1")).is_empty() && cache.resident(&file("1.1")).is_empty());
        let stayed: Vec<_> =
            receipt.stayed.iter().map(|stay| (&stay.name.name[..], stay.bytes.0, stay.reason)).collect();
        assert_eq!(stayed, [("relation_2", 8192, StayReason::InUse), ("relation_3", 8192, StayReason::Refused)]);
        let os = receipt.os.unwrap();
        assert_eq!(os.resident_before_bytes, Some(Bytes(131_084 * 8192)));
        assert_eq!(os.resident_after_bytes, Some(Bytes(2 * 8192)));
    }

    #[tokio::test]
    async fn a_dry_run_evicts_nothing() {
        let cache = FakePageCache::new();
        cache.insert(file("1"), 8192, &[PageRange::new(0, 2)]);
        let receipt = evict(&cache, &map_of(vec![relation(1, 1)]), true).await;
        assert_eq!(receipt.os.unwrap().resident_before_bytes, Some(Bytes(8192)));
        assert_eq!(cache.calls().evictions, 0);
    }
}
