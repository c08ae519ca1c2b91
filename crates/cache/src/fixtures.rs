#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::{DatabaseBlocks, ForkMap, Lookups, Map, MapSource, RelationMap, Snapshot, SnapshotHeader, TierState};
use crate::trace::{FilmHeader, ProbeShare, Sampled};
use host::units::{Bytes, Fork};
use postgres::{Relation, RelationKind, RelationName, RelationPath};

pub fn map_of(relations: Vec<RelationMap>) -> Map {
    Map {
        taken_at: "2026-11-21T23:30:05.123456Z".parse().unwrap(),
        source: MapSource {
            system_identifier: 7_123_456_789_012_345_678,
            version_num: 150_018,
            block_size: 8192,
            segment_blocks: 131_072,
            data_directory: None,
            lsn: "0/1A2B3C4".to_owned(),
            timeline: 1,
        },
        os: TierState::Measured,
        buffers: TierState::Unknown { reason: "pg_buffercache is missing in \"app\"".to_owned() },
        os_heat: Default::default(),
        relations,
        empty: Vec::new(),
        partitioned: Vec::new(),
        lookups: Default::default(),
        remarks: vec!["database \"template0\" was left out".to_owned()],
    }
}

/// Header by timestamp and cached blocks; `None` for an unmeasured tier.
pub fn header(second: i64, os: Option<u64>, buffers: Option<u64>) -> SnapshotHeader {
    let state = |blocks: Option<u64>| match blocks {
        Some(_) => TierState::Measured,
        None => TierState::Unknown { reason: "not seen".to_owned() },
    };
    SnapshotHeader {
        taken_at: Timestamp::from_second(second).unwrap(),
        os: state(os),
        buffers: state(buffers),
        os_blocks: os.unwrap_or(0),
        buffer_blocks: buffers.unwrap_or(0),
        ..Snapshot::new(map_of(Vec::new()), None).header()
    }
}

/// `databases`: oid, name, blocks of the page cache, blocks of shared_buffers.
pub fn header_of_databases(second: i64, databases: &[(u32, &str, u64, u64)]) -> SnapshotHeader {
    let (os, buffers) = databases.iter().fold((0, 0), |(os, buffers), one| (os + one.2, buffers + one.3));
    let database = |&(oid, name, os_blocks, buffers_blocks): &(u32, &str, u64, u64)| DatabaseBlocks {
        oid,
        name: name.to_owned(),
        os_blocks,
        buffers_blocks,
    };
    SnapshotHeader { databases: databases.iter().map(database).collect(), ..header(second, Some(os), Some(buffers)) }
}

pub fn relation(number: u32, fork: ForkMap) -> RelationMap {
    let path = RelationPath::base(5, number);
    let name =
        RelationName { database: "app".to_owned(), schema: "public".to_owned(), name: format!("relation_{number}") };
    let relation = Relation {
        name,
        kind: RelationKind::Table,
        oid: number,
        path,
        tablespace: "pg_default".to_owned(),
        parent: None,
        is_system: false,
    };
    RelationMap { relation, forks: vec![fork] }
}

pub fn third_resident(blocks: u32) -> ForkMap {
    let mut fork = ForkMap::empty(Fork::Main, blocks.into());
    fork.os = (0..blocks).step_by(3).collect();
    fork
}

impl FilmHeader {
    pub fn for_tests() -> FilmHeader {
        let map = map_of(Vec::new());
        FilmHeader {
            label: Some("nightly".into()),
            recorded_at: map.taken_at,
            source: map.source,
            job: "psql -f report.sql".into(),
            recorder: "by looking".into(),
            seconds: 2.5,
            lost_events: 3,
            sampling: Some(Sampled { shift: 2, unit_blocks: 1 }),
            probe: Some(ProbeShare { runs: 9, total_ns: 1800 }),
            device_bytes: Some(Bytes(7)),
            fetched_again: Some(Bytes(3)),
            requested_bytes: Some(Bytes(9)),
            remarks: vec!["one".into()],
            ..FilmHeader::default()
        }
    }
}

impl Lookups {
    pub fn of_database(name: &str, blocks: impl IntoIterator<Item = (u32, u64)>) -> Lookups {
        Lookups(BTreeMap::from([(name.to_owned(), blocks.into_iter().collect())]))
    }
}
