//! The OS tier: every segment of every file, written out, dropped, and counted again.

use std::path::Path;

use super::eviction::Eviction;
use super::receipt::{EvictReceipt, EvictedFork, EvictedTier, Stay, StayReason};
use crate::cache::ForkMap;
use crate::failure::Explain as _;
use crate::linux;
use crate::linux::page_cache::{CachedFile, PageCounts};
use crate::postgres::Relation;
use crate::units::{Bytes, PageRange};
use crate::warm::Phase;
use crate::warm::threads::map_on_threads;

/// Files that are written out at a time.
const THREADS: usize = 4;

/// What is still cached of a fork.
#[derive(Clone, Copy, Debug, Default)]
struct Left {
    bytes: Bytes,
    is_dirty: bool,
    is_writeback: bool,
}

/// Evicts the files of the map's relations.
pub fn evict(eviction: &Eviction<'_>, directory: &Path, receipt: &mut EvictReceipt) {
    let forks: Vec<(&Relation, &ForkMap)> = eviction.map.forks().collect();
    eviction.watcher.begin(Phase::Evicting, forks.len() as u64);
    let outcomes = map_on_threads(forks.len(), THREADS, |at| {
        eviction.watcher.advance(1);
        let (relation, fork) = forks[at];
        (!eviction.control.is_interrupted()).then(|| evict_fork(eviction, directory, relation, fork))
    });
    let mut after = Bytes(0);
    for ((relation, fork), outcome) in forks.into_iter().zip(outcomes) {
        let before = eviction.bytes(fork.os.len());
        let (left, stay) = match outcome {
            Some(Ok(left)) => (Some(left.bytes), why(eviction, left).map(|reason| (left.bytes, reason, None))),
            Some(Err(error)) => (None, Some((before, StayReason::Refused, Some(told(&error))))),
            None => (None, None),
        };
        after += left.unwrap_or(before);
        if let Some((bytes, reason, detail)) = stay {
            receipt.stayed.push(Stay { name: relation.name.clone(), fork: fork.fork, bytes, reason, detail });
        }
        if before.0 > 0 {
            let (name, fork) = (relation.name.clone(), fork.fork);
            receipt.relations.push(EvictedFork {
                name,
                fork,
                resident_before_bytes: before,
                resident_after_bytes: left,
            });
        }
    }
    receipt.os = Some(EvictedTier { resident_after_bytes: Some(after), ..EvictedTier::before(eviction.os_bytes()) });
}

/// What failed, and what to do about it.
fn told(error: &linux::Error) -> String {
    let hint = error.hint().map(|hint| format!(" ({hint})")).unwrap_or_default();
    format!("{error}{hint}")
}

/// Evicts all segments of a fork, and counts what is left.
fn evict_fork(
    eviction: &Eviction<'_>,
    directory: &Path,
    relation: &Relation,
    fork: &ForkMap,
) -> Result<Left, linux::Error> {
    let mut left = Left::default();
    for segment in 0.. {
        let path = relation.path.segment_file(directory, fork.fork, segment);
        let Some(file) = eviction.page_cache.open(&path)? else { break };
        file.apply_evict()?;
        let counts = count(&*file, eviction.page_cache.page_bytes())?;
        left.bytes += Bytes(counts.cached * eviction.page_cache.page_bytes());
        left.is_dirty |= counts.dirty > 0;
        left.is_writeback |= counts.writeback > 0;
    }
    Ok(left)
}

fn count(file: &dyn CachedFile, page_bytes: u64) -> Result<PageCounts, linux::Error> {
    file.read_counts(PageRange::new(0, file.size_bytes().div_ceil(page_bytes)))
}

fn why(eviction: &Eviction<'_>, left: Left) -> Option<StayReason> {
    match left {
        Left { bytes: Bytes(0), .. } => None,
        Left { is_dirty: true, .. } => Some(StayReason::Dirty),
        Left { is_writeback: true, .. } => Some(StayReason::Writeback),
        _ if eviction.server.is_some() => Some(StayReason::ServerRuns),
        _ => Some(StayReason::InUse),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::cache::Tiers;
    use crate::cache::fixtures::{self, map_of};
    use crate::cache::{Map, RelationMap};
    use crate::linux::page_cache::{FakePageCache, FakeRefusal};
    use crate::units::Fork;
    use crate::warm::{Control, Unwatched};

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
