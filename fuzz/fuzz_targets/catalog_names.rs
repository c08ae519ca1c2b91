//! Rows of a hostile server's catalogs, and names and patterns that somebody looks for among them.
#![no_main]

use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use cache::{HeatSource, Selection, compute_identities};
use postgres::{PartitionedTable, Relation, RelationKind, RelationName};
use pgthaw_fuzz::map_of;

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    rows: Vec<CatalogRow<'a>>,
    partitioned: Vec<(&'a str, &'a str)>,
    patterns: Vec<&'a str>,
    schema: Option<&'a str>,
}

#[derive(Arbitrary, Debug)]
struct CatalogRow<'a> {
    relkind: u8,
    path: &'a str,
    number: u16,
    schema: &'a [u8],
    name: &'a [u8],
    parent: Option<&'a str>,
    is_system: bool,
}

impl CatalogRow<'_> {
    fn relation(&self) -> Option<Relation> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let usual = || format!("base/5/{}", self.number);
        let path = if self.path.is_empty() { usual() } else { self.path.to_owned() };
        Some(Relation {
            name: RelationName { database: "app".into(), schema: text(self.schema), name: text(self.name) },
            kind: RelationKind::from_relkind(b"ritmSv"[usize::from(self.relkind) % 6].into())?,
            oid: self.number.into(),
            path: path.parse().ok()?,
            tablespace: "pg_default".into(),
            parent: self.parent.map(str::to_owned),
            is_system: self.is_system,
        })
    }
}

fuzz_target!(|input: Input<'_>| {
    let relations: Vec<Relation> = input.rows.iter().take(16).filter_map(CatalogRow::relation).collect();
    let table = |(name, parent): &(&str, &str)| PartitionedTable {
        name: RelationName { database: "app".into(), schema: "public".into(), name: (*name).into() },
        parent: Some((*parent).into()),
    };
    let mut map = map_of(Vec::new(), HeatSource::None);
    map.partitioned = input.partitioned.iter().take(8).map(table).collect();
    map.empty = relations;
    assert_eq!(compute_identities(map.every_relation()).len(), map.empty.len());
    let selection = Selection {
        relations: input.patterns.iter().take(3).map(|pattern| (*pattern).to_owned()).collect(),
        schema: input.schema.map(str::to_owned),
    };
    if let Ok(places) = selection.find(map.empty.iter(), &map.partitioned) {
        assert!(places.is_sorted() && places.iter().all(|place| *place < map.empty.len()));
    }
});
