//! Entry points for `fuzz/`.

use std::path::Path;

use parquet::data_type::ByteArray;

use super::sealed_file::{Footer, ZEROS, compute_digest};
use super::snapshot_file::{Collector, Columns, read_snapshot_from};
use super::trace::{self, Film, FilmSummary, Touched};
use super::{Error, RelationMap, Snapshot};

const NAME: &str = "fuzzed.parquet";

pub fn mend(bytes: &[u8]) -> Vec<u8> {
    let mut mended = bytes.to_vec();
    let source = bytes::Bytes::copy_from_slice(bytes);
    let offset = Footer::read(&source).ok().and_then(|footer| footer.checksum_offset());
    if let Some((offset, digest)) = offset.and_then(|offset| Some((offset, compute_digest(&source, offset).ok()?))) {
        mended[offset as usize..][..ZEROS.len()].copy_from_slice(digest.as_bytes());
    }
    mended
}

pub fn read_mended(bytes: &[u8]) -> Result<Snapshot, Error> {
    let path = Path::new(NAME);
    read_snapshot_from(bytes::Bytes::from(mend(bytes)), path)
}

/// Also aggregates the events in every way.
pub fn read_mended_film(bytes: &[u8]) -> Result<FilmSummary, trace::Error> {
    let film = Film::new(bytes::Bytes::from(mend(bytes)), Path::new(NAME))?;
    Touched::read(&[&film], None::<&crate::Map>, true)?;
    FilmSummary::read(&film)
}

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

pub fn read_rows<'a>(rows: impl Iterator<Item = RawRow<'a>>) -> Result<Vec<RelationMap>, String> {
    let mut columns = Columns::default();
    let text = |bytes: &[u8]| ByteArray::from(bytes.to_vec());
    for row in rows {
        let texts =
            [row.database, row.schema, row.name, row.kind, row.parent, row.path, row.tablespace, row.fork, row.tier];
        columns.texts.iter_mut().zip(texts).for_each(|(column, value)| column.push(text(value)));
        let longs = [row.oid, row.relfilenumber, row.relation_blocks, row.blocks];
        columns.longs.iter_mut().zip(longs).for_each(|(column, value)| column.push(value));
        columns.booleans.push(row.is_system);
        columns.integers.push(row.heat);
        columns.bytes.push(ByteArray::from(row.bitmap));
    }
    let mut collector = Collector::default();
    collector.add_group(&columns)?;
    Ok(collector.relations)
}
