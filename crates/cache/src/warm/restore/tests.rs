//! The OS tier on a simulated machine.

mod others;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use roaring::RoaringBitmap;

use super::*;
use crate::warm::plan::Geometry;
use crate::warm::receipt::FoundAs;
use crate::warm::traffic::{Sharing, Traffic};
use crate::warm::{Control, DeviceProfile, Phase, PlannedDevice, ProfileSource, Room, Unwatched, Watcher};
use crate::{ForkMap, Map, MapSource, RelationMap, TierState, Tiers};
use ::host::linux::direct_read::Extent;
use ::host::linux::machine::{LoadableMemory, MemoryBound};
use ::host::linux::page_cache::{FakePageCache, FakeRefusal};
use ::host::linux::process::Busy;
use ::host::units::{Fork, PageRange};
use postgres::{Relation, RelationKind, RelationName, RelationPath};

const DIRECTORY: &str = "/data";
const BLOCK: u64 = 8192;

fn relation(relfilenumber: u32, forks: Vec<ForkMap>) -> RelationMap {
    let name = format!("t{relfilenumber}");
    RelationMap {
        relation: Relation {
            name: RelationName { database: "shop".into(), schema: "public".into(), name },
            kind: RelationKind::Table,
            oid: relfilenumber,
            path: RelationPath::base(5, relfilenumber),
            tablespace: "pg_default".into(),
            parent: None,
            is_system: false,
        },
        forks,
    }
}

fn fork(blocks: u64, resident: std::ops::Range<u32>) -> ForkMap {
    let mut fork = ForkMap::empty(Fork::Main, blocks);
    fork.os.insert_range(resident);
    fork
}

fn request(relations: Vec<RelationMap>) -> Request {
    let map = Map {
        taken_at: Timestamp::UNIX_EPOCH,
        source: MapSource {
            system_identifier: 7,
            version_num: 150_000,
            block_size: BLOCK as u32,
            segment_blocks: 131_072,
            data_directory: Some(DIRECTORY.into()),
            lsn: String::new(),
            timeline: 1,
        },
        os: TierState::Measured,
        buffers: TierState::Measured,
        os_heat: Default::default(),
        relations,
        empty: Vec::new(),
        partitioned: Vec::new(),
        lookups: Default::default(),
        remarks: Vec::new(),
    };
    Request::new(map, Tiers { os: true, buffers: false })
}

struct Endless;

impl Room for Endless {
    fn read_room(&self) -> Option<LoadableMemory> {
        None
    }

    fn idle_age(&self) -> Option<Duration> {
        None
    }
}

struct NoServer;

impl Traffic for NoServer {
    fn read_busy(&self) -> Option<Busy> {
        None
    }
}

struct AllWait;

impl Traffic for AllWait {
    fn read_busy(&self) -> Option<Busy> {
        Some(Busy { running: 0, waiting: 8 })
    }
}

struct Only(u64);

impl Room for Only {
    fn read_room(&self) -> Option<LoadableMemory> {
        Some(LoadableMemory { bytes: Bytes(self.0), bound: MemoryBound::Cgroup })
    }

    fn idle_age(&self) -> Option<Duration> {
        None
    }
}

fn options() -> RestoreOptions {
    RestoreOptions {
        device: PlannedDevice { profile: DeviceProfile::default(), source: ProfileSource::Default },
        seeks: false,
        threads: 4,
        sharing: Sharing::default(),
        connections: 1,
        budget: None,
        buffers_budget: None,
        max_rate: None,
        create_extensions: false,
        no_double: false,
        is_dry_run: false,
        same_cluster: true,
        awaits_server: false,
    }
}

fn restore(cache: &FakePageCache, relations: Vec<RelationMap>) -> Restore {
    restore_with(cache, relations, options())
}

fn restore_with(cache: &FakePageCache, relations: Vec<RelationMap>, options: RestoreOptions) -> Restore {
    let place =
        Place { directory: DIRECTORY.into(), geometry: Geometry { block_size: BLOCK as u32, segment_blocks: 131_072 } };
    let host = Host {
        page_cache: Arc::new(cache.clone()),
        room: Arc::new(Endless),
        traffic: Arc::new(NoServer),
        control: Arc::new(Control::default()),
        watcher: Arc::new(Unwatched),
    };
    Restore::new(request(relations), options, Ok(place), host)
}

fn no_server() -> Answer {
    Answer { server: Err(Refusal::because(SkipReason::NoServer)), remarks: Vec::new() }
}

async fn run(restore: Restore) -> Receipt {
    restore.run(async { Ok::<_, std::convert::Infallible>(no_server()) }).await.unwrap()
}

fn file(relfilenumber: u32) -> PathBuf {
    Path::new(DIRECTORY).join(format!("base/5/{relfilenumber}"))
}

fn pages(start: u64, end: u64) -> PageRange {
    PageRange::new(start * 2, end * 2)
}

fn skipped(receipt: &Receipt) -> Vec<(SkipReason, u64)> {
    receipt.skipped.iter().map(|one| (one.reason, one.blocks)).collect()
}

#[tokio::test]
async fn what_is_missing_is_read_and_nothing_else() {
    let cache = FakePageCache::new();
    cache.insert(file(1), 1000 * BLOCK, &[pages(0, 100)]);
    cache.insert(file(2), 1000 * BLOCK, &[]);
    let receipt = run(restore(&cache, vec![relation(1, vec![fork(1000, 0..500)]), relation(2, vec![])])).await;
    assert_eq!(cache.resident(&file(1)), [pages(0, 500)]);
    assert_eq!(cache.resident(&file(2)), []);
    let os = receipt.os.unwrap();
    assert_eq!(os.asked_bytes, Bytes(500 * BLOCK));
    assert_eq!(os.resident_before_bytes, Some(Bytes(100 * BLOCK)));
    assert_eq!(os.resident_after_bytes, Some(Bytes(500 * BLOCK)));
    assert_eq!(os.read_bytes, Bytes(400 * BLOCK));
    assert_eq!(os.reads, 400_u64.div_ceil(32));
    assert_eq!((receipt.forecast.reads, receipt.forecast.read_bytes), (os.reads, os.read_bytes));
    assert_eq!((receipt.skipped.len(), receipt.stopped_by), (0, None));
    assert_eq!(receipt.relations[0].found, FoundAs::SameFile);
}

#[tokio::test]
async fn long_stretches_are_read_in_order_where_nobody_is_to_be_spared() {
    let read = async |max_rate: Option<Bytes>| {
        let cache = FakePageCache::new();
        cache.insert(file(1), 4000 * BLOCK, &[pages(600, 605)]);
        cache.insert(file(2), 4000 * BLOCK, &[]);
        let scattered = RoaringBitmap::from_sorted_iter((0..4000).step_by(100)).unwrap();
        let mut second = fork(4000, 0..0);
        second.os = scattered;
        let relations = vec![relation(1, vec![fork(4000, 0..3000)]), relation(2, vec![second])];
        let os = run(restore_with(&cache, relations, RestoreOptions { max_rate, ..options() })).await.os.unwrap();
        assert_eq!(os.resident_after_bytes, Some(Bytes(3040 * BLOCK)));
        assert_eq!(cache.resident(&file(1)), [pages(0, 3000)]);
        (cache.calls().in_order_reads, os.reads, os.read_bytes)
    };
    let (in_order, reads, read_bytes) = read(None).await;
    assert_eq!(read_bytes, Bytes(3035 * BLOCK));
    assert!(in_order > 3000 / 32 / 2, "a window each: {in_order}");
    let (limited, reads_of_their_size, _) = read(Some(Bytes(1 << 40))).await;
    assert_eq!(limited, 0);
    assert!(reads.abs_diff(reads_of_their_size) < 10, "{reads} {reads_of_their_size}");
}

#[tokio::test]
async fn a_stretch_that_is_not_read_in_order_costs_no_file_and_one_question() {
    let stretches = |blocks: u32| (1..=5).map(|oid| relation(oid, vec![fork(4000, 0..blocks)])).collect();
    let calls = async |blocks: u32, is_hidden: bool| {
        let cache = FakePageCache::new();
        (1..=5).for_each(|oid| cache.insert(file(oid), 4000 * BLOCK, &[]));
        if is_hidden {
            cache.hide_read_ahead();
        }
        let os = run(restore(&cache, stretches(blocks))).await.os.unwrap();
        assert_eq!(os.resident_after_bytes, Some(Bytes(5 * u64::from(blocks) * BLOCK)));
        cache.calls()
    };
    let (long, short, hidden) = (calls(4000, false).await, calls(70, false).await, calls(4000, true).await);
    assert!(long.in_order_opens > 0 && long.in_order_reads > long.in_order_opens, "{long:?}");
    assert_eq!((short.in_order_opens, hidden.in_order_opens, hidden.in_order_reads), (0, 0, 0), "{short:?} {hidden:?}");
    assert!([long, short, hidden].iter().all(|calls| calls.windows == 1), "{long:?} {short:?} {hidden:?}");
}

#[tokio::test]
async fn what_cannot_be_read_in_order_is_told_as_any_read() {
    let cache = FakePageCache::new();
    cache.insert(file(1), 4000 * BLOCK, &[]);
    cache.refuse(&file(1), FakeRefusal::Read);
    let mut restore = restore(&cache, vec![relation(1, vec![fork(4000, 0..4000)])]);
    let told = Arc::new(AtomicU64::new(0));
    let begun = Arc::clone(&told);
    restore.host.watcher = on_read(move |before| _ = begun.fetch_max(before, Ordering::Relaxed));
    let receipt = run(restore).await;
    assert_eq!(skipped(&receipt), [(SkipReason::ReadFailed, 4000)]);
    assert_eq!(receipt.os.unwrap().read_bytes, Bytes(0));
    assert_eq!(told.load(Ordering::Relaxed), 2 * 4000 - 32, "each block is told of once each time, and a read has 32");
}

#[tokio::test]
async fn what_was_read_ahead_of_a_stretch_that_is_left_is_counted() {
    let cache = FakePageCache::new();
    cache.insert(file(1), 4000 * BLOCK, &[]);
    let relations = vec![relation(1, vec![fork(4000, 0..4000)])];
    let mut restore = restore_with(&cache, relations, RestoreOptions { threads: 1, ..options() });
    let control = Arc::clone(&restore.host.control);
    restore.host.watcher = on_read(move |before| {
        if before >= 320 {
            control.interrupt()
        }
    });
    let receipt = run(restore).await;
    assert_eq!(receipt.stopped_by, Some(StopReason::Interrupted));
    let os = receipt.os.unwrap();
    assert_eq!(cache.resident(&file(1)), [pages(0, 320 + 32 + 64)], "two windows are read ahead");
    assert_eq!((os.resident_after_bytes, os.read_bytes), (Some(Bytes(416 * BLOCK)), Bytes(416 * BLOCK)));
}

#[tokio::test]
async fn a_restore_ends_though_some_threads_never_had_a_turn() {
    let cache = FakePageCache::new();
    cache.insert(file(1), 100 * BLOCK, &[]);
    let mut restore = restore(&cache, vec![relation(1, vec![fork(100, 0..100)])]);
    restore.host.traffic = Arc::new(AllWait);
    restore.options.threads = 64;
    let receipt = tokio::time::timeout(Duration::from_secs(60), run(restore)).await.expect("it hangs");
    assert_eq!(receipt.os.unwrap().read_bytes, Bytes(100 * BLOCK));
}

#[test]
fn a_server_that_answers_and_cannot_be_seen_is_told_of() {
    let told = |sharing, traffic: Arc<dyn Traffic>, has_answered| {
        let mut restore = restore(&FakePageCache::new(), vec![]);
        (restore.options.sharing, restore.host.traffic) = (sharing, traffic);
        restore.remark_unseen(has_answered).unwrap_or_default()
    };
    assert!(told(Sharing::Fair, Arc::new(NoServer), true).contains("was ignored; --pace 50MB limits"));
    assert!(told(Sharing::Gentle, Arc::new(NoServer), true).contains("all the time"));
    assert_eq!(told(Sharing::FullSpeed, Arc::new(NoServer), true), "");
    assert_eq!(told(Sharing::Fair, Arc::new(NoServer), false), "");
    assert_eq!(told(Sharing::Fair, Arc::new(AllWait), true), "");
}

#[tokio::test]
async fn a_dry_run_reads_nothing() {
    let cache = FakePageCache::new();
    cache.insert(file(1), 1000 * BLOCK, &[]);
    let mut restore = restore(&cache, vec![relation(1, vec![fork(1000, 0..1000)])]);
    restore.options.is_dry_run = true;
    let receipt = run(restore).await;
    assert_eq!(receipt.forecast.read_bytes, Bytes(1000 * BLOCK));
    assert_eq!(cache.calls().reads, 0);
}

#[tokio::test]
async fn grown_and_truncated_relations_are_told_apart() {
    let cache = FakePageCache::new();
    cache.insert(file(1), 150 * BLOCK, &[]);
    cache.insert(file(2), 60 * BLOCK, &[]);
    let relations = vec![relation(1, vec![fork(100, 0..100)]), relation(2, vec![fork(100, 50..100)])];
    let receipt = run(restore(&cache, relations)).await;
    assert_eq!(cache.resident(&file(1)), [pages(0, 100)]);
    assert_eq!(cache.resident(&file(2)), [pages(50, 60)]);
    assert_eq!(receipt.relations[0].grown_blocks, 50);
    assert_eq!(skipped(&receipt), [(SkipReason::Truncated, 40)]);
}

#[tokio::test]
async fn without_a_server_a_file_that_is_gone_is_said_to_be() {
    let cache = FakePageCache::new();
    let receipt = run(restore(&cache, vec![relation(1, vec![fork(100, 0..10)])])).await;
    assert_eq!(skipped(&receipt), [(SkipReason::FileGone, 10)]);
    assert_eq!(receipt.os.unwrap().asked_bytes, Bytes(10 * BLOCK));
}

#[tokio::test]
async fn refusals_are_told_with_their_reason() {
    let cache = FakePageCache::new();
    for (number, refusal) in [(1, FakeRefusal::Open), (2, FakeRefusal::Residency), (3, FakeRefusal::Read)] {
        cache.insert(file(number), 100 * BLOCK, &[]);
        cache.refuse(&file(number), refusal);
    }
    let receipt = run(restore(&cache, (1..4).map(|number| relation(number, vec![fork(100, 0..100)])).collect())).await;
    let reasons: Vec<_> = receipt.skipped.iter().map(|one| (one.reason, one.blocks, one.detail.is_some())).collect();
    let refused = (SkipReason::NoPermission, 100, true);
    assert_eq!(reasons, [refused, refused, (SkipReason::ReadFailed, 100, true)]);
}

#[tokio::test]
async fn a_device_that_seeks_is_read_as_the_files_lie() {
    let cache = FakePageCache::new();
    let relations: Vec<RelationMap> = (1..4).map(|number| relation(number, vec![fork(1000, 0..1000)])).collect();
    for (number, device_start) in [(1, 3 << 30), (2, 1 << 30), (3, 2 << 30)] {
        cache.insert(file(number), 1000 * BLOCK, &[]);
        cache.place(&file(number), &[Extent { start: 0, device_start, bytes: 1000 * BLOCK }]);
    }
    let mut restore = restore(&cache, relations);
    (restore.options.threads, restore.options.seeks) = (1, true);
    let other = cache.clone();
    let order = Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen = Arc::clone(&order);
    restore.host.watcher = on_read(move |_| {
        let cached = (1..4).filter(|number| !other.resident(&file(*number)).is_empty()).collect::<Vec<u32>>();
        seen.lock().unwrap().push(cached);
    });
    run(restore).await;
    let mut order = order.lock().unwrap().clone();
    order.dedup();
    assert_eq!(order, [vec![], vec![2], vec![2, 3], vec![1, 2, 3]]);
}

struct OnPhase<F>(FakePageCache, Phase, F);

impl<F: Fn(&FakePageCache) + Send + Sync> Watcher for OnPhase<F> {
    fn begin(&self, phase: Phase, _total: u64) {
        if phase == self.1 {
            (self.2)(&self.0);
        }
    }

    fn advance(&self, _amount: u64) {}
}

fn on_phase(
    cache: &FakePageCache,
    phase: Phase,
    act: impl Fn(&FakePageCache) + Send + Sync + 'static,
) -> Arc<dyn Watcher> {
    Arc::new(OnPhase(cache.clone(), phase, act))
}

#[tokio::test]
async fn pages_that_do_not_stay_are_read_once_more() {
    let cache = FakePageCache::new();
    cache.insert(file(1), 100 * BLOCK, &[]);
    let mut restore = restore(&cache, vec![relation(1, vec![fork(100, 0..100)])]);
    let lost_once = std::sync::Once::new();
    restore.host.watcher = on_phase(&cache, Phase::Verifying, move |cache| {
        lost_once.call_once(|| cache.lose(&file(1), pages(10, 20)));
    });
    let receipt = run(restore).await;
    let os = receipt.os.unwrap();
    assert_eq!(os.resident_after_bytes, os.resident_before_bytes.map(|_| os.asked_bytes));
    assert_eq!(os.read_bytes, Bytes(110 * BLOCK));
    assert_eq!(skipped(&receipt), []);
}

#[tokio::test]
async fn pages_that_never_stay_are_told() {
    let cache = FakePageCache::new();
    cache.insert(file(1), 100 * BLOCK, &[]);
    let mut restore = restore(&cache, vec![relation(1, vec![fork(100, 0..100)])]);
    restore.host.watcher = on_phase(&cache, Phase::Verifying, |cache| cache.lose(&file(1), pages(10, 20)));
    let receipt = run(restore).await;
    assert_eq!(skipped(&receipt), [(SkipReason::DidNotStay, 10)]);
    assert_eq!(receipt.os.unwrap().resident_after_bytes, Some(Bytes(90 * BLOCK)));
}

struct OnRead<F>(AtomicU64, F);

impl<F: Fn(u64) + Send + Sync> Watcher for OnRead<F> {
    fn begin(&self, _phase: Phase, _total: u64) {}

    fn advance(&self, amount: u64) {
        let before = self.0.fetch_add(amount, Ordering::Relaxed);
        if amount >= BLOCK {
            (self.1)(before / BLOCK);
        }
    }
}

fn on_read(act: impl Fn(u64) + Send + Sync + 'static) -> Arc<dyn Watcher> {
    Arc::new(OnRead(AtomicU64::new(0), act))
}

#[tokio::test]
async fn what_is_gone_when_the_next_slice_is_read_is_read_again_before_the_end() {
    let cache = FakePageCache::new();
    cache.insert(file(1), 8192 * BLOCK, &[]);
    let mut restore = restore(&cache, vec![relation(1, vec![fork(8192, 0..8192)])]);
    restore.options.threads = 1;
    let other = cache.clone();
    let lost_once = std::sync::Once::new();
    restore.host.watcher = on_read(move |before| match before {
        1024..2048 => lost_once.call_once(|| other.lose(&file(1), pages(0, 64))),
        6144.. => assert_eq!(other.resident(&file(1))[0].start, 0, "it is back before the end is read"),
        _ => {}
    });
    let receipt = run(restore).await;
    assert_eq!(receipt.memory.reread_bytes, Bytes(64 * BLOCK));
    assert_eq!(receipt.os.unwrap().read_bytes, Bytes((8192 + 64) * BLOCK));
    assert_eq!((skipped(&receipt), receipt.stopped_by), (vec![], None));
}

#[tokio::test]
async fn a_restore_stops_when_what_it_loads_is_taken_back() {
    // Unreported room for 20,000 blocks, oldest evicted first.
    let cache = FakePageCache::new();
    cache.insert(file(1), 100_000 * BLOCK, &[]);
    let mut restore = restore(&cache, vec![relation(1, vec![fork(100_000, 0..100_000)])]);
    restore.options.threads = 1;
    let other = cache.clone();
    restore.host.watcher = on_read(move |before| other.lose(&file(1), pages(0, before.saturating_sub(20_000))));
    let receipt = run(restore).await;
    assert_eq!(receipt.stopped_by, Some(StopReason::Evicted));
    let read = receipt.os.unwrap().read_bytes.0 / BLOCK;
    assert!((20_000..60_000).contains(&read), "{read}");
    assert_eq!(receipt.skipped[0].reason, SkipReason::NoMemory);
}

#[tokio::test]
async fn a_file_that_shrinks_meanwhile_is_truncated() {
    let cache = FakePageCache::new();
    cache.insert(file(1), 100 * BLOCK, &[]);
    let mut restore = restore(&cache, vec![relation(1, vec![fork(100, 0..100)])]);
    restore.host.watcher = on_phase(&cache, Phase::Reading, |cache| cache.resize(&file(1), 30 * BLOCK));
    let receipt = run(restore).await;
    assert_eq!(skipped(&receipt), [(SkipReason::Truncated, 70)]);
}

#[tokio::test]
async fn a_file_that_goes_meanwhile_is_gone() {
    let cache = FakePageCache::new();
    cache.insert(file(1), 100 * BLOCK, &[]);
    let mut restore = restore(&cache, vec![relation(1, vec![fork(100, 0..100)])]);
    restore.host.watcher = on_phase(&cache, Phase::Reading, |cache| cache.remove(&file(1)));
    let receipt = run(restore).await;
    assert_eq!(skipped(&receipt), [(SkipReason::FileGone, 100)]);
}

#[tokio::test]
async fn what_live_traffic_reads_first_is_not_read_again() {
    let cache = FakePageCache::new();
    cache.insert(file(1), 64 * BLOCK, &[]);
    let mut restore = restore(&cache, vec![relation(1, vec![fork(64, 0..64)])]);
    restore.host.watcher = on_phase(&cache, Phase::Reading, |cache| {
        cache.insert(file(1), 64 * BLOCK, &[pages(0, 40)]);
    });
    let os = run(restore).await.os.unwrap();
    assert_eq!((os.reads, os.read_bytes), (1, Bytes(24 * BLOCK)));
}

#[tokio::test]
async fn a_budget_is_kept_and_memory_is_one() {
    let whole = || {
        let cache = FakePageCache::new();
        cache.insert(file(1), 128 * BLOCK, &[]);
        restore(&cache, vec![relation(1, vec![fork(128, 0..128)])])
    };
    let mut with_budget = whole();
    with_budget.options.budget = Some(Bytes(32 * BLOCK));
    assert_eq!(skipped(&run(with_budget).await), [(SkipReason::OverBudget, 96)]);
    let mut without_room = whole();
    without_room.host.room = Arc::new(Only(70 * BLOCK));
    let receipt = run(without_room).await;
    assert_eq!(skipped(&receipt), [(SkipReason::NoMemory, 64)]);
    assert_eq!(receipt.stopped_by, Some(StopReason::NoMemory));
    assert_eq!((receipt.memory.room_bytes, receipt.memory.bound), (Some(Bytes(70 * BLOCK)), Some(MemoryBound::Cgroup)));
    assert_eq!(receipt.os.unwrap().resident_after_bytes, Some(Bytes(64 * BLOCK)));
}

#[tokio::test]
async fn memory_that_shared_buffers_will_take_is_left_to_them() {
    let read_beside = |buffers: std::ops::Range<u32>, budget: Option<u64>| async move {
        let cache = FakePageCache::new();
        cache.insert(file(1), 1024 * BLOCK, &[]);
        let mut one = fork(1024, 0..1024);
        one.buffers[5] = buffers.collect::<RoaringBitmap>();
        let mut restore = restore(&cache, vec![relation(1, vec![one])]);
        (restore.request.tiers.buffers, restore.host.room) = (true, Arc::new(Only(1000 * BLOCK)));
        assert_eq!(restore.reserved(), Bytes(0), "no server runs");
        restore.host.traffic = Arc::new(AllWait);
        restore.options.buffers_budget = budget.map(|blocks| Bytes(blocks * BLOCK));
        run(restore).await.os.unwrap().read_bytes.0 / BLOCK
    };
    let nothing_reserved = read_beside(0..0, None).await;
    let reserved = read_beside(0..320, None).await;
    assert!((900..=960).contains(&nothing_reserved), "{nothing_reserved}");
    assert!((580..=640).contains(&reserved), "{reserved}");
    let budgeted = read_beside(0..320, Some(64)).await;
    assert!((840..=900).contains(&budgeted), "{budgeted}");
    let most = read_beside(0..800, None).await;
    assert!((750..=810).contains(&most), "what goes to shared_buffers is read in large reads all the same: {most}");
}

#[tokio::test]
async fn an_interrupted_restore_gives_its_receipt() {
    let cache = FakePageCache::new();
    cache.insert(file(1), 100 * BLOCK, &[]);
    let mut restore = restore(&cache, vec![relation(1, vec![fork(100, 0..100)])]);
    let control = Arc::clone(&restore.host.control);
    restore.host.watcher = on_phase(&cache, Phase::Reading, move |_| control.interrupt());
    let receipt = run(restore).await;
    assert_eq!(receipt.stopped_by, Some(StopReason::Interrupted));
    assert_eq!(skipped(&receipt), [(SkipReason::Interrupted, 100)]);
    assert_eq!(cache.calls().reads, 0);
}

#[tokio::test]
async fn what_was_in_shared_buffers_alone_is_read_for_the_buffers_tier() {
    let cache = FakePageCache::new();
    cache.insert(file(1), 100 * BLOCK, &[]);
    let mut one = fork(100, 0..10);
    one.buffers[5] = (50..60).collect::<RoaringBitmap>();
    let mut restore = restore(&cache, vec![relation(1, vec![one])]);
    restore.request.tiers.buffers = true;
    let receipt = run(restore).await;
    assert_eq!(cache.resident(&file(1)), [pages(0, 10), pages(50, 60)]);
    assert_eq!(skipped(&receipt), [(SkipReason::NoServer, 10)]);
    assert_eq!(receipt.buffers.unwrap().asked_bytes, Bytes(10 * BLOCK));
}

#[tokio::test]
async fn all_segments_and_forks_are_read() {
    let cache = FakePageCache::new();
    let segment = 131_072 * BLOCK;
    cache.insert(file(1), segment, &[]);
    cache.insert(Path::new(DIRECTORY).join("base/5/1.1"), 100 * BLOCK, &[]);
    cache.insert(Path::new(DIRECTORY).join("base/5/1_vm"), BLOCK, &[]);
    let mut vm = fork(1, 0..1);
    vm.fork = Fork::Vm;
    let main = fork(131_172, 131_070..131_172);
    let receipt = run(restore(&cache, vec![relation(1, vec![main, vm])])).await;
    assert_eq!(cache.resident(&file(1)), [pages(131_070, 131_072)]);
    assert_eq!(cache.resident(&Path::new(DIRECTORY).join("base/5/1.1")), [pages(0, 100)]);
    let os = receipt.os.unwrap();
    assert_eq!((os.resident_after_bytes, os.asked_bytes), (Some(Bytes(103 * BLOCK)), Bytes(103 * BLOCK)));
}

#[tokio::test]
async fn hot_blocks_are_read_twice_and_others_once() {
    let cache = FakePageCache::new();
    cache.insert(file(1), 100 * BLOCK, &[]);
    let mut wanted = fork(100, 0..60);
    wanted.buffers[5].insert_range(10..20);
    wanted.buffers[2].insert_range(30..40);
    let receipt = run(restore(&cache, vec![relation(1, vec![wanted])])).await;
    assert_eq!(cache.resident(&file(1)), [pages(0, 60)]);
    assert_eq!(cache.active(&file(1)), [pages(10, 20)]);
    assert_eq!(receipt.os.unwrap().read_bytes, Bytes(60 * BLOCK), "what was read again is no device's work");
}
