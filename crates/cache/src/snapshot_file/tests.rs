use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use roaring::RoaringBitmap;

use super::*;
use crate::fixtures::{map_of, relation, third_resident};
use crate::{Error, ForkMap, Lookups, RelationMap, Snapshot, SnapshotHeader, USAGE_COUNTS};
use host::units::Fork;
use postgres::{Relation, RelationKind, RelationName, RelationPath};

pub fn written(relations: u32) -> (tempfile::TempDir, PathBuf, Snapshot) {
    let relations = (1..=relations).map(|number| relation(number, third_resident(1000))).collect();
    let snapshot = Snapshot::new(map_of(relations), Some("before upgrade".to_owned()));
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("one.parquet");
    snapshot.write(&path).unwrap();
    (directory, path, snapshot)
}

fn any_bitmap(blocks: u32) -> impl Strategy<Value = RoaringBitmap> {
    let runs = prop::collection::vec((0..blocks.max(1), 1..5000_u32), 0..6);
    let single = prop::collection::vec(0..blocks.max(1), 0..200);
    (runs, single).prop_map(move |(runs, single)| {
        let mut bitmap: RoaringBitmap = single.into_iter().collect();
        runs.iter().for_each(|(start, length)| {
            bitmap.insert_range(*start..start.saturating_add(*length));
        });
        bitmap.remove_range(blocks..);
        bitmap.optimize();
        bitmap
    })
}

fn any_fork(fork: Fork) -> impl Strategy<Value = ForkMap> {
    prop_oneof![Just(0_u32), 1..200_000_u32, Just(u32::MAX)].prop_flat_map(move |blocks| {
        (any_bitmap(blocks), prop::collection::vec(any_bitmap(blocks), USAGE_COUNTS)).prop_map(move |(os, levels)| {
            let mut map = ForkMap { os, ..ForkMap::empty(fork, blocks.into()) };
            let mut warm: RoaringBitmap = map.os.iter().filter(|block| block % 3 == 0).collect();
            warm.optimize();
            if !warm.is_empty() {
                map.os_heat.insert(200, warm);
            }
            for (heat, level) in levels.into_iter().enumerate() {
                let mut level = level - map.all_buffers();
                level.optimize();
                map.buffers[heat] = level;
            }
            map
        })
    })
}

prop_compose! {
    fn any_relation(number: u32)(
        database in ".{0,12}", schema in ".{1,12}", name in ".{1,70}", parent in prop::option::of(".{1,12}"),
        kind in 0..6_usize, oid: u32, tablespace_oid: u32, is_system: bool, place in 0..3_u8,
        forks in (any_fork(Fork::Main), prop::option::of(any_fork(Fork::Fsm)), prop::option::of(any_fork(Fork::Init))),
    ) -> RelationMap {
        use RelationKind::*;
        let path = match place {
            0 => RelationPath::base(0, number),
            1 => RelationPath::base(oid, number),
            _ => format!("pg_tblspc/{tablespace_oid}/PG_15_202209061/{oid}/{number}").parse().unwrap(),
        };
        let kind = [Table, Index, Toast, MaterializedView, Sequence, Unknown][kind];
        let name = RelationName { database, schema, name };
        let relation = Relation { name, kind, oid, path, tablespace: "space".to_owned(), parent, is_system };
        RelationMap { relation, forks: [Some(forks.0), forks.1, forks.2].into_iter().flatten().collect() }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn what_is_written_is_read(
        first in any_relation(1), second in any_relation(2), third in any_relation(u32::MAX),
        label in prop::option::of("[a-z]{1,9}"), looked_up in prop::collection::vec(any::<(u32, u64)>(), 0..4),
    ) {
        let mut map = map_of(vec![first, second]);
        map.empty = if third.relation.is_system { Vec::new() } else { vec![third.relation] };
        map.lookups = Lookups::of_database("app", looked_up);
        let snapshot = Snapshot::new(map, label);
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("one.parquet");
        snapshot.write(&path).unwrap();
        prop_assert_eq!(Snapshot::read(&path).unwrap(), snapshot.clone());
        prop_assert_eq!(SnapshotHeader::read(&path).unwrap(), snapshot.header());
    }
}

#[test]
fn many_row_groups_are_read() {
    let relations = (1..=ROWS_PER_GROUP as u32 * 2 + 1).map(|number| relation(number, third_resident(8)));
    let snapshot = Snapshot::new(map_of(relations.collect()), None);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("one.parquet");
    snapshot.write(&path).unwrap();
    assert_eq!(Snapshot::read(&path).unwrap(), snapshot);
}

#[test]
fn a_map_without_relations_is_kept_too() {
    let (_directory, path, snapshot) = written(0);
    assert_eq!(Snapshot::read(&path).unwrap(), snapshot);
}

#[test]
fn an_existing_file_is_not_replaced() {
    let (directory, path, snapshot) = written(3);
    assert!(matches!(snapshot.write(&path), Err(Error::Exists(_))));
    assert_eq!(Snapshot::read(&path).unwrap(), snapshot);
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "no temporary file stays");
}

#[test]
fn every_flipped_bit_is_found() {
    let (_directory, path, _) = written(20);
    let good = fs::read(&path).unwrap();
    let mut bad = good.clone();
    for byte in (0..good.len()).step_by(7).chain(good.len() - 300..good.len()) {
        bad[byte] ^= 1 << (byte % 8);
        fs::write(&path, &bad).unwrap();
        assert!(Snapshot::read(&path).is_err(), "byte {byte} of {}", good.len());
        bad[byte] = good[byte];
    }
}

#[test]
fn a_flipped_bit_is_called_damage() {
    let (_directory, path, _) = written(20);
    let mut bytes = fs::read(&path).unwrap();
    bytes[100] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let error = Snapshot::read(&path).unwrap_err();
    assert!(matches!(error, Error::Flawed { flaw: Flaw::Damaged(_), .. }), "{error}");
    assert!(error.to_string().contains("checksum"), "{error}");
}

#[test]
fn every_truncation_is_found() {
    let (_directory, path, _) = written(20);
    let good = fs::read(&path).unwrap();
    for length in (0..good.len()).step_by(13).chain(good.len() - 12..good.len()) {
        fs::write(&path, &good[..length]).unwrap();
        assert!(Snapshot::read(&path).is_err(), "{length} of {}", good.len());
        assert!(SnapshotHeader::read(&path).is_err(), "{length} of {}", good.len());
    }
}

#[test]
fn what_is_no_snapshot_is_told_why() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("one.parquet");
    let refusal = |content: &[u8]| {
        fs::write(&path, content).unwrap();
        Snapshot::read(&path).unwrap_err().to_string()
    };
    assert!(refusal(b"").contains("is empty"));
    assert!(refusal(b"PAR1").contains("too short"));
    assert!(refusal(&[0; 4096]).contains("not a Parquet file"));
    assert!(refusal(b"#!/bin/sh\nrm -rf /\n").contains("not a Parquet file"));
    let missing = Snapshot::read(Path::new("/no/such/file")).unwrap_err();
    assert!(matches!(missing, Error::File { action: "open", .. }), "{missing}");
}
