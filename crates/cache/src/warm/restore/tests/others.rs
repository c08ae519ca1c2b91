use std::sync::Mutex;

use super::*;
use ::host::linux::page_cache::PageCache as _;

/// Every other block is wanted, so that one read is best.
fn every_other() -> (FakePageCache, RelationMap) {
    let cache = FakePageCache::new();
    cache.insert(file(1), 100 * BLOCK, &[]);
    let mut wanted = fork(100, 0..0);
    wanted.os.extend((0..100).step_by(2));
    (cache, relation(1, vec![wanted]))
}

#[tokio::test]
async fn what_was_read_over_is_let_go_again() {
    let (cache, wanted) = every_other();
    let receipt = run(restore(&cache, vec![wanted])).await;
    assert_eq!(cache.resident(&file(1)), (0..50).map(|at| pages(2 * at, 2 * at + 1)).collect::<Vec<_>>());
    let (os, memory) = (receipt.os.unwrap(), receipt.memory);
    assert_eq!(memory.read_over_bytes, Bytes(os.read_bytes.0 - 50 * BLOCK));
    assert!(memory.let_go_bytes == memory.read_over_bytes && memory.let_go_bytes > Bytes(20 * BLOCK));
    assert_eq!(os.resident_after_bytes, Some(Bytes(50 * BLOCK)));
}

#[tokio::test]
async fn what_the_server_brought_in_a_gap_stays() {
    let (cache, wanted) = every_other();
    cache.insert(file(1), 100 * BLOCK, &[pages(11, 12)]);
    let mut restore = restore(&cache, vec![wanted]);
    restore.host.watcher = on_phase(&cache, Phase::Reading, |cache| {
        let file = cache.open(&file(1)).unwrap().unwrap();
        file.apply_read(31 * BLOCK, &mut [0; BLOCK as usize]).unwrap();
    });
    let receipt = run(restore).await;
    let resident =
        |block: &u64| cache.resident(&file(1)).iter().any(|run| run.start <= 2 * *block && run.end >= 2 * *block + 2);
    assert_eq!((0..100).filter(|block| block % 2 == 1 && resident(block)).collect::<Vec<_>>(), [11, 31]);
    assert_eq!(receipt.memory.let_go_bytes, receipt.memory.read_over_bytes);
}

#[tokio::test]
async fn what_the_server_has_used_since_stays_where_there_is_traffic() {
    let (cache, wanted) = every_other();
    let mut restore = restore(&cache, vec![wanted]);
    restore.governor.note_traffic();
    restore.host.watcher = on_phase(&cache, Phase::Verifying, |cache| {
        let file = cache.open(&file(1)).unwrap().unwrap();
        file.apply_read(31 * BLOCK, &mut [0; BLOCK as usize]).unwrap();
    });
    let receipt = run(restore).await;
    assert!(cache.resident(&file(1)).contains(&pages(30, 33)));
    assert_eq!(receipt.memory.let_go_bytes, Bytes(receipt.memory.read_over_bytes.0 - BLOCK));
}

#[tokio::test]
async fn before_memory_is_short_what_was_read_over_goes() {
    // Room for all reads, then only for requested blocks.
    let cache = FakePageCache::new();
    cache.insert(file(1), 60_000 * BLOCK, &[]);
    let mut wanted = fork(60_000, 0..0);
    (0..60_000).step_by(6).for_each(|start| _ = wanted.os.insert_range(start..start + 3));
    let mut restore = restore(&cache, vec![relation(1, vec![wanted])]);
    restore.options.threads = 1;
    restore.host.room = Arc::new(Shrinks { first: Mutex::new(true), then: 31_000 * BLOCK });
    let receipt = run(restore).await;
    assert_eq!((receipt.stopped_by, skipped(&receipt)), (None, vec![]));
    assert_eq!(cache.resident(&file(1)).iter().map(|run| run.pages()).sum::<u64>(), 60_000);
    assert!(receipt.os.unwrap().read_bytes > Bytes(31_000 * BLOCK));
}

struct Shrinks {
    first: Mutex<bool>,
    then: u64,
}

impl Room for Shrinks {
    fn read_room(&self) -> Option<LoadableMemory> {
        let is_first = std::mem::take(&mut *self.first.lock().unwrap());
        (!is_first).then_some(LoadableMemory { bytes: Bytes(self.then), bound: MemoryBound::Machine })
    }

    fn idle_age(&self) -> Option<Duration> {
        None
    }
}

struct TheyCome(Arc<AtomicBool>);

impl Traffic for TheyCome {
    fn read_busy(&self) -> Option<Busy> {
        Some(Busy { running: if self.0.load(Ordering::Relaxed) { 8 } else { 0 }, waiting: 0 })
    }
}

#[tokio::test]
async fn the_rest_is_planned_again_when_others_come() {
    let cache = FakePageCache::new();
    let relations: Vec<RelationMap> = (1..3).map(|number| relation(number, vec![fork(30_000, 0..30_000)])).collect();
    (1..3).for_each(|number| cache.insert(file(number), 30_000 * BLOCK, &[]));
    let mut restore = restore(&cache, relations);
    let have_come = Arc::new(AtomicBool::new(false));
    restore.host.traffic = Arc::new(TheyCome(Arc::clone(&have_come)));
    restore.host.watcher = on_phase(&cache, Phase::Reading, move |_| have_come.store(true, Ordering::Relaxed));
    restore.options.max_rate = Some(Bytes(400 << 20));
    restore.governor = Governor::new(Sharing::Fair, 4, restore.options.max_rate, restore.options.device);
    let receipt = run(restore).await;
    assert!(receipt.traffic.flowing_seconds > 0.0);
    let os = receipt.os.unwrap();
    assert_eq!((os.read_bytes, os.resident_after_bytes), (Bytes(60_000 * BLOCK), Some(Bytes(60_000 * BLOCK))));
    assert_eq!((os.reads, receipt.traffic.replanned), (cache.calls().reads, 1));
}

#[tokio::test]
async fn where_no_more_files_may_be_open_that_is_said() {
    let cache = FakePageCache::new();
    cache.insert(file(1), 100 * BLOCK, &[]);
    cache.refuse(&file(1), FakeRefusal::TooFewFiles(u32::MAX));
    let receipt = run(restore(&cache, vec![relation(1, vec![fork(100, 0..100)])])).await;
    assert_eq!(skipped(&receipt), [(SkipReason::TooFewFiles, 100)]);
    assert_eq!(receipt.failure(), Some(::host::failure::ErrorKind::Failed));
}

#[tokio::test]
async fn what_was_read_is_looked_at_again_when_the_others_have_closed_their_files() {
    let cache = FakePageCache::new();
    cache.insert(file(1), 100 * BLOCK, &[]);
    let mut restore = restore(&cache, vec![relation(1, vec![fork(100, 0..100)])]);
    restore.host.watcher =
        on_phase(&cache, Phase::Verifying, |cache| cache.refuse(&file(1), FakeRefusal::TooFewFiles(1)));
    let receipt = run(restore).await;
    assert_eq!(skipped(&receipt), []);
    assert_eq!(receipt.os.unwrap().resident_after_bytes, Some(Bytes(100 * BLOCK)));
}

#[tokio::test]
async fn what_templates_had_of_shared_buffers_is_left_out_and_told() {
    let of = |number: u32, database: &str, blocks: u32| {
        let mut fork = fork(1000, 0..0);
        fork.buffers[1].insert_range(0..blocks);
        let mut relation = relation(number, vec![fork]);
        relation.relation.name.database = database.to_owned();
        relation
    };
    for (blocks, is_told) in [(200, true), (100, false)] {
        let cache = FakePageCache::new();
        let mut restore = restore(&cache, vec![of(1, "shop", 300), of(2, "template1", blocks)]);
        restore.request.tiers = Tiers { os: false, buffers: true };
        let receipt = run(restore).await;
        assert_eq!(receipt.buffers.unwrap().asked_bytes, Bytes(300 * BLOCK));
        assert_eq!(receipt.remarks.iter().any(|remark| remark.contains("template")), is_told, "{:?}", receipt.remarks);
    }
}
