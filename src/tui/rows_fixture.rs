//! A map for the tests of the live screen.

use crate::cache::{ForkMap, Map, MapSource, RelationMap, TierState};
use crate::postgres::{PartitionedTable, Relation, RelationKind, RelationName, RelationPath};
use crate::units::Fork;

fn relation(
    number: u32,
    schema: &str,
    name: &str,
    kind: RelationKind,
    parent: Option<&str>,
    blocks: u32,
) -> RelationMap {
    let mut fork = ForkMap::empty(Fork::Main, blocks.into());
    fork.os.insert_range(0..blocks / 2);
    fork.buffers[3].insert_range(0..blocks / 4);
    let relation = Relation {
        name: RelationName { database: "app".into(), schema: schema.into(), name: name.into() },
        kind,
        oid: number,
        path: RelationPath::Base { database_oid: 5, relfilenumber: number },
        tablespace: "pg_default".into(),
        parent: parent.map(str::to_owned),
        is_system: schema == "pg_catalog",
    };
    RelationMap { relation, forks: vec![fork] }
}

/// A partitioned table of two partitions, one of which has an index; a table; a catalog.
pub fn map() -> Map {
    use RelationKind::{Index, Table};
    let source = MapSource {
        system_identifier: 7,
        version_num: 150_018,
        block_size: 8192,
        segment_blocks: 131_072,
        data_directory: None,
        lsn: String::new(),
        timeline: 1,
    };
    let name = RelationName { database: "app".into(), schema: "public".into(), name: "orders".into() };
    Map {
        taken_at: jiff::Timestamp::UNIX_EPOCH,
        source,
        os: TierState::Measured,
        buffers: TierState::Measured,
        os_heat: Default::default(),
        relations: vec![
            relation(1, "pg_catalog", "pg_class", Table, None, 20),
            relation(2, "public", "lone", Table, None, 40),
            relation(3, "public", "orders_1", Table, Some("public.orders"), 200),
            relation(4, "public", "orders_1_pkey", Index, Some("public.orders_1"), 10),
            relation(5, "public", "orders_2", Table, Some("public.orders"), 1000),
        ],
        empty: Vec::new(),
        partitioned: vec![PartitionedTable { name, parent: None }],
        lookups: Default::default(),
        remarks: Vec::new(),
    }
}

/// The map with 30 blocks more, and 5 fewer of the partitions, in the page cache.
pub fn grown(mut map: Map) -> Map {
    map.relations[4].forks[0].os.insert_range(500..530);
    map.relations[2].forks[0].os.remove_range(0..5);
    map
}
