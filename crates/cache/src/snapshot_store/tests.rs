//! Contents and order of a store.

use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt as _, symlink};

use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::*;
use crate::{ForkMap, Map, MapSource, RelationMap, TierState};
use host::units::Fork;
use postgres::{Relation, RelationKind, RelationName};

fn snapshot(second: i64, label: Option<&str>) -> Snapshot {
    let source = MapSource {
        system_identifier: 42,
        version_num: 150_018,
        block_size: 8192,
        segment_blocks: 131_072,
        data_directory: None,
        lsn: String::new(),
        timeline: 1,
    };
    let map = Map {
        taken_at: Timestamp::from_second(second).unwrap(),
        source,
        os: TierState::Measured,
        buffers: TierState::Measured,
        os_heat: Default::default(),
        relations: Vec::new(),
        empty: Vec::new(),
        partitioned: Vec::new(),
        lookups: Default::default(),
        remarks: Vec::new(),
    };
    Snapshot::new(map, label.map(str::to_owned))
}

fn store() -> (tempfile::TempDir, SnapshotStore) {
    let directory = tempfile::tempdir().unwrap();
    let store = SnapshotStore::open(Some(directory.path().join("deep/snapshots")));
    (directory, store)
}

fn names(store: &SnapshotStore) -> Vec<String> {
    store.read_generations(42).unwrap().into_iter().map(|one| one.name).collect()
}

#[test]
fn the_one_taken_last_is_first_and_names_may_be_cut_short() {
    let (_directory, store) = store();
    for (second, label) in [(1_700_000_000, None), (1_700_000_100, Some("nightly")), (1_699_000_000, None)] {
        store.keep(&snapshot(second, label)).unwrap();
    }
    let kept = ["20231103-082640.000.3", "20231114-221500.000.2-nightly", "20231114-221320.000.1"];
    assert_eq!(names(&store), kept, "whatever the clock said");
    let found = |name: &str| store.find(name, 42).map(|one| one.name);
    assert_eq!(found("newest").unwrap(), "20231103-082640.000.3");
    assert_eq!(found("newest~1").unwrap(), "20231114-221500.000.2-nightly");
    assert_eq!(found("20231103").unwrap(), "20231103-082640.000.3");
    assert!(matches!(found("20231114"), Err(Error::AmbiguousSnapshot { .. })));
    for unknown in ["2024", "newest~3", "newest~-1", "newest~", "..", "*", " "] {
        assert!(matches!(found(unknown), Err(Error::UnknownSnapshot { .. })), "{unknown}");
    }
    assert!(matches!(store.find("newest", 43), Err(Error::NoSnapshot(_))));
    assert_eq!(store.read_clusters().unwrap(), [42]);
}

#[test]
fn an_empty_name_is_no_beginning() {
    let (_directory, store) = store();
    store.keep(&snapshot(1_700_000_000, None)).unwrap();
    assert!(matches!(store.find("", 42), Err(Error::UnknownSnapshot { .. })));
}

#[test]
fn two_of_one_millisecond_both_live() {
    let (_directory, store) = store();
    let [one, other] = [0, 0].map(|_| store.keep(&snapshot(1_700_000_000, Some("x"))).unwrap());
    assert_eq!(names(&store), [other.name, one.name]);
}

#[test]
fn takes_at_once_all_live() {
    let (_directory, store) = store();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..10 {
                    let kept = store.keep(&snapshot(1_700_000_000, None)).unwrap();
                    store.prune(&kept, 100, None).unwrap();
                }
            });
        }
    });
    let kept = names(&store);
    assert_eq!(kept.len(), 40);
    let numbers = store.read_generations(42).unwrap();
    assert!(numbers.windows(2).all(|two| two[0].order().0 == two[1].order().0 + 1), "{kept:?}");
}

#[test]
fn takes_and_prunes_at_once_leave_what_is_to_be_kept() {
    let (_directory, store) = store();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..10 {
                    let kept = store.keep(&snapshot(1_700_000_000, None)).unwrap();
                    store.prune(&kept, 3, None).unwrap();
                }
            });
        }
    });
    let kept = names(&store);
    assert!(kept.contains(&"20231114-221320.000.40".to_owned()) && kept.len() >= 3, "{kept:?}");
}

#[test]
fn a_clock_that_is_set_back_costs_no_snapshot() {
    let (_directory, store) = store();
    let ahead = [0, 1].map(|second| store.keep(&snapshot(2_000_000_000 + second, None)).unwrap().name);
    for second in 0..4 {
        let taken = store.keep(&snapshot(1_700_000_000 + second, None)).unwrap();
        store.prune(&taken, 2, None).unwrap();
        assert_eq!(names(&store)[0], taken.name, "the one just taken is the newest");
    }
    assert_eq!(names(&store).len(), 2);
    assert!(!names(&store).contains(&ahead[1]));
}

#[test]
fn a_primary_and_its_standby_on_one_host_leave_each_other_theirs() {
    let (_directory, store) = store();
    let taken = |second: i64, directory: &str| {
        let mut one = snapshot(1_700_000_000 + second, Some("agent"));
        one.map.source.data_directory = Some(directory.into());
        store.keep(&one).unwrap()
    };
    let first = [taken(0, "/a"), taken(1, "/b"), taken(2, "/a"), taken(3, "/a")];
    let dropped = store.prune(&first[3], 1, None).unwrap();
    assert_eq!(dropped.len(), 2, "{dropped:?}");
    assert_eq!(names(&store), [&*first[3].name, &first[1].name]);
}

#[test]
fn names_without_a_number_come_before_those_that_have_one() {
    let (_directory, store) = store();
    let kept = store.keep(&snapshot(1_600_000_000, None)).unwrap();
    let directory = kept.path.parent().unwrap();
    for older in ["20231114-221320.000", "20231114-221320.000-2024.5", "20991231-000000.000-x", "mine", "x-y.1.z"] {
        fs::copy(&kept.path, directory.join(format!("{older}.parquet"))).unwrap();
    }
    let newest = store.keep(&snapshot(1_500_000_000, None)).unwrap();
    let by_name = ["x-y.1.z", "mine", "20991231-000000.000-x", "20231114-221320.000-2024.5", "20231114-221320.000"];
    assert_eq!(names(&store), [&[&*newest.name, &*kept.name], &by_name[..]].concat());
    assert_eq!(store.read_generations(42).unwrap()[5].label(), Some("2024.5"));
    assert_eq!(store.prune(&newest, 1, None).unwrap().len(), 4, "those with a label stay");
    fs::copy(&newest.path, directory.join("20231114-221320.000.99999999999999999999.parquet")).unwrap();
    assert!(store.keep(&snapshot(0, None)).unwrap().name.ends_with(".3"));
}

#[test]
fn what_is_no_file_is_listed_not_read_and_can_go() {
    let (directory, store) = store();
    let kept = store.keep(&snapshot(1_700_000_000, None)).unwrap();
    let place = kept.path.parent().unwrap();
    let elsewhere = directory.path().join("elsewhere.parquet");
    fs::copy(&kept.path, &elsewhere).unwrap();
    symlink(&elsewhere, place.join("20300101-000000.000.7.parquet")).unwrap();
    mknodat(CWD, place.join("20300101-000000.000.8.parquet"), FileType::Fifo, Mode::RUSR, 0).unwrap();
    fs::create_dir(place.join("20300101-000000.000.9.parquet")).unwrap();
    let listed = store.read_generations(42).unwrap();
    let why = |one: &Generation| one.read_header().unwrap_err().to_string();
    assert!(why(&listed[0]).ends_with("it is a directory"), "{}", why(&listed[0]));
    assert!(why(&listed[1]).ends_with("it is a pipe, a socket or a device"), "{}", why(&listed[1]));
    assert!(why(&listed[2]).ends_with("it is a symbolic link"), "{}", why(&listed[2]));
    assert!(listed[3].read().is_ok() && listed[2].read().is_err() && listed[1].read_unverified().is_err());
    store.forget(&listed[1]).unwrap();
    store.forget(&listed[2]).unwrap();
    assert!(elsewhere.exists(), "only the link went");
    assert!(store.forget(&listed[0]).is_err(), "what is in it is nobody's snapshot");
    let taken = store.keep(&snapshot(1_700_000_001, None)).unwrap();
    assert!(taken.name.ends_with(".10"));
}

#[test]
fn a_cluster_elsewhere_is_not_written_to() {
    let (directory, store) = store();
    let elsewhere = directory.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    fs::create_dir_all(store.root()).unwrap();
    symlink(&elsewhere, store.root().join("42")).unwrap();
    for other in ["042", "+42", "42x", "4 2"] {
        fs::create_dir(store.root().join(other)).unwrap();
    }
    assert_eq!(store.read_clusters().unwrap(), Vec::<u64>::new());
    assert!(store.keep(&snapshot(1_700_000_000, None)).is_err());
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
}

#[test]
fn root_takes_one_in_a_store_of_another_as_he() {
    needs_root!();
    const NOBODY: u32 = 65_534;
    let place = tempfile::tempdir().unwrap();
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let (his, roots) = (place.path().join("his"), place.path().join("roots"));
    for directory in [&his, &roots] {
        fs::create_dir(directory).unwrap();
    }
    fs::set_permissions(&roots, fs::Permissions::from_mode(0o700)).unwrap();
    std::os::unix::fs::chown(&his, Some(NOBODY), Some(NOBODY)).unwrap();
    let store = SnapshotStore::open(Some(his.join("snapshots")));
    let kept = store.keep(&snapshot(1_700_000_000, None)).unwrap();
    let owner = |path: &Path| std::os::unix::fs::MetadataExt::uid(&fs::metadata(path).unwrap());
    assert_eq!([owner(&kept.path), owner(kept.path.parent().unwrap()), owner(store.root())], [NOBODY; 3]);
    fs::rename(store.root(), his.join("away")).unwrap();
    symlink(&roots, store.root()).unwrap();
    std::os::unix::fs::lchown(store.root(), Some(NOBODY), Some(NOBODY)).unwrap();
    assert!(store.keep(&snapshot(1_700_000_001, None)).is_err());
    fs::create_dir(roots.join("42")).unwrap();
    let wanted = roots.join("42/20231114-221320.000.1.parquet");
    fs::write(&wanted, "").unwrap();
    assert!(store.forget(&kept).is_err());
    assert!(wanted.exists() && fs::read_dir(roots.join("42")).unwrap().count() == 1);
}

#[test]
fn only_the_same_label_is_pruned() {
    let (_directory, store) = store();
    for second in 0..5 {
        store.keep(&snapshot(1_700_000_000 + second, None)).unwrap();
        store.keep(&snapshot(1_700_000_000 + second, Some("keep-me"))).unwrap();
    }
    let generations = store.read_generations(42).unwrap();
    assert_eq!(store.prune(&generations[1], 2, None).unwrap().len(), 3);
    assert_eq!(names(&store).iter().filter(|name| name.ends_with("-keep-me")).count(), 5);
    assert_eq!(store.prune(&generations[2], 0, None).unwrap().len(), 3, "the one just taken always stays");
    let ends: Vec<String> = names(&store).iter().map(|name| name["20231114-221324.000".len()..].to_owned()).collect();
    assert_eq!(ends, [".10-keep-me", ".9", ".8-keep-me", ".7"]);
}

fn warm_snapshot(second: i64, blocks: u32) -> Snapshot {
    let mut snapshot = snapshot(second, None);
    let mut fork = ForkMap::empty(Fork::Main, 1000);
    fork.os.insert_range(0..blocks);
    let name = RelationName { database: "shop".into(), schema: "public".into(), name: "orders".into() };
    let relation = Relation {
        name,
        kind: RelationKind::Table,
        oid: 16384,
        path: "base/5/16384".parse().unwrap(),
        tablespace: "pg_default".into(),
        parent: None,
        is_system: false,
    };
    snapshot.map.relations.push(RelationMap { relation, forks: vec![fork] });
    snapshot
}

#[test]
fn cold_snapshots_do_not_push_out_the_warm_one() {
    let (_directory, store) = store();
    let keep = |second: i64, blocks| store.keep(&warm_snapshot(1_700_000_000 + second, blocks)).unwrap();
    let warm = [(0, 900), (1, 1000), (2, 980)].map(|(second, blocks)| keep(second, blocks));
    for minute in 0..20 {
        let taken = keep(60 * (minute + 1), 10 + minute as u32 % 3);
        store.prune(&taken, 7, None).unwrap();
        assert!(names(&store).contains(&warm[2].name), "the newest of the warmest stays");
    }
    assert_eq!(names(&store).len(), 8, "and it alone");
    store.prune(&keep(2000, 700), 7, None).unwrap();
    assert!(names(&store).contains(&warm[2].name), "nearly as warm is more than this");
    store.prune(&keep(2060, 800), 7, None).unwrap();
    assert_eq!(names(&store).len(), 7, "warm again, the old one may go");
}

#[test]
fn a_warm_one_of_another_label_stays_for_itself() {
    let (_directory, store) = store();
    let labelled = |second: i64, blocks, label: &str| {
        let mut snapshot = warm_snapshot(1_700_000_000 + second, blocks);
        snapshot.label = Some(label.to_owned());
        store.keep(&snapshot).unwrap()
    };
    let (by_hand, timer) = (labelled(0, 1000, "by-hand"), labelled(1, 990, "timer"));
    for minute in 1..10 {
        store.prune(&labelled(60 * minute, 10, "timer"), 3, None).unwrap();
    }
    assert_eq!(names(&store).len(), 5);
    assert!(names(&store).contains(&by_hand.name) && names(&store).contains(&timer.name));
}

#[test]
fn a_damaged_snapshot_does_not_push_out_the_warm_one_either() {
    let (_directory, store) = store();
    let keep = |second: i64, blocks| store.keep(&warm_snapshot(1_700_000_000 + second, blocks)).unwrap();
    let (_, damaged, newest) = (keep(0, 1000), keep(1, 900), keep(2, 10));
    let mut bytes = fs::read(&damaged.path).unwrap();
    bytes[10] ^= 1;
    fs::write(&damaged.path, bytes).unwrap();
    let claimed = SnapshotHeader::read_unverified(&damaged.path).unwrap().resident_blocks();
    assert_eq!(claimed, 900, "its footer is whole");
    assert_eq!(store.prune(&newest, 2, None).unwrap(), []);
    assert_eq!(store.prune(&keep(3, 20), 2, None).unwrap(), [damaged], "what cannot be restored is not spared");
}

#[test]
fn what_a_killed_take_left_is_swept_however_young() {
    let (_directory, store) = store();
    let kept = store.keep(&snapshot(1_700_000_000, None)).unwrap();
    let directory = kept.path.parent().unwrap();
    let make = |name: &str| File::create(directory.join(name)).unwrap();
    make(".pgthaw-taking-dead");
    let alive = make(".pgthaw-taking-alive");
    alive.lock().unwrap();
    store.keep(&snapshot(1_700_000_001, None)).unwrap();
    assert!(!directory.join(".pgthaw-taking-dead").exists() && directory.join(".pgthaw-taking-alive").exists());
    assert_eq!(names(&store).len(), 2, "drafts are no generations");
}
