//! Entries for `fuzz/`: snapshot files in memory, and rows as one could hold them.

use std::path::Path;

use parquet::data_type::ByteArray;

use super::sealed_file::mend;
use super::snapshot_file::{Columns, collect, read_snapshot_from};
use super::{Error, RelationMap, Snapshot};

/// What errors call a file in memory.
const NAME: &str = "fuzzed.parquet";

/// Reads a file after its checksum was put right.
pub fn read_mended(bytes: &[u8]) -> Result<Snapshot, Error> {
    let path = Path::new(NAME);
    read_snapshot_from(bytes::Bytes::from(mend(bytes)), path)
}

/// A row of a file.
#[derive(Debug)]
pub struct RawRow<'a> {
    pub database: &'a [u8],
    pub schema: &'a [u8],
    pub name: &'a [u8],
    pub kind: &'a [u8],
    pub oid: i64,
    pub parent: &'a [u8],
    pub path: &'a [u8],
    pub relfilenumber: i64,
    pub tablespace: &'a [u8],
    pub is_system: bool,
    pub fork: &'a [u8],
    pub relation_blocks: i64,
    pub tier: &'a [u8],
    pub heat: i32,
    pub blocks: i64,
    pub bitmap: Vec<u8>,
}

/// Makes relations of rows, with every check of a file's.
pub fn read_rows<'a>(rows: impl Iterator<Item = RawRow<'a>>) -> Result<Vec<RelationMap>, String> {
    let mut columns = Columns::default();
    let text = |bytes: &[u8]| ByteArray::from(bytes.to_vec());
    for row in rows {
        columns.database.push(text(row.database));
        columns.schema.push(text(row.schema));
        columns.name.push(text(row.name));
        columns.kind.push(text(row.kind));
        columns.oid.push(row.oid);
        columns.parent.push(text(row.parent));
        columns.path.push(text(row.path));
        columns.relfilenumber.push(row.relfilenumber);
        columns.tablespace.push(text(row.tablespace));
        columns.is_system.push(row.is_system);
        columns.fork.push(text(row.fork));
        columns.relation_blocks.push(row.relation_blocks);
        columns.tier.push(text(row.tier));
        columns.heat.push(row.heat);
        columns.blocks.push(row.blocks);
        columns.bitmap.push(ByteArray::from(row.bitmap));
    }
    collect(&columns)
}
