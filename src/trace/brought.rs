//! Drops what jobs brought into the page cache, and waits for what has to be written before it can go.
//!
//! Who reads a row first sets its hint bits, so that a job that only reads leaves dirty pages too. Asked to drop one the kernel begins to
//! write it, and keeps it; a moment later it can go. So what stayed is asked for again, as long as some of it goes. Nobody syncs: who asks
//! what became of a write may take its error away from the server.

use std::time::{Duration, Instant};

use roaring::RoaringBitmap;
use tokio::time::sleep;

use crate::postgres::RelationPath;
use crate::units::{Bytes, Fork};
use crate::warm::Control;
use crate::warm::restore::{Dropped, Files};

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
    use std::path::Path;

    use super::*;
    use crate::linux::page_cache::FakePageCache;
    use crate::units::PageRange;
    use crate::warm::plan::Geometry;

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
