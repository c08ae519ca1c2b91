//! A snapshot's Parquet file (docs/formats.md), zstd-compressed, with a checksum. It has a row per relation, fork, tier
//! and heat.

#[cfg(test)]
mod hostile_tests;
#[cfg(test)]
mod tests;
use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use parquet::data_type::ByteArray;
use parquet::errors::Result as ParquetResult;
use parquet::file::metadata::{KeyValue, RowGroupMetaData};
use parquet::file::reader::ChunkReader;
use parquet::file::writer::SerializedFileWriter;
use roaring::RoaringBitmap;
use serde::Serialize;

use crate::sealed_file::{
    self, DRAFT_PREFIX, Flaw, GroupReader, Kind, Metadata, PageLimits, Sealed, apply_checksum, as_io_error,
    build_schema, decode_word, encode_pairs, encode_source, open_written, properties,
};
use crate::{Error, ForkMap, Map, RelationMap, Snapshot, SnapshotHeader, TierState, USAGE_COUNTS};
use host::files::{Directory, Draft, FILE_MODE, as_owner_of, directory_of, remove_abandoned_drafts};
use host::units::Fork;
use postgres::{Relation, RelationName, RelationPath};

const FORMAT_VERSION: u32 = 1;

const ROWS_PER_GROUP: usize = 16_384;

const BITMAP_BYTES_PER_GROUP: usize = 8 << 20;

const FORMAT: &str = "pgthaw.format_version";
const TAKEN_AT: &str = "pgthaw.taken_at";
const LABEL: &str = "pgthaw.label";
const OS_TIER: &str = "pgthaw.os_tier";
const BUFFERS_TIER: &str = "pgthaw.buffers_tier";
const OS_HEAT: &str = "pgthaw.os_heat";
const REMARKS: &str = "pgthaw.remarks";
const RELATIONS: &str = "pgthaw.relations";
const EMPTY: &str = "pgthaw.empty";
const PARTITIONED: &str = "pgthaw.partitioned";
const LOOKUPS: &str = "pgthaw.lookups";
const OS_BLOCKS: &str = "pgthaw.os_blocks";
const BUFFER_BLOCKS: &str = "pgthaw.buffers_blocks";
const DATABASES: &str = "pgthaw.databases";

const MEASURED: &str = "measured";
const UNKNOWN: &str = "unknown: ";

fn encode_header(header: &SnapshotHeader) -> Vec<KeyValue> {
    let own = [
        (TAKEN_AT, header.taken_at.to_string()),
        (LABEL, header.label.clone().unwrap_or_default()),
        (OS_TIER, encode_tier(&header.os)),
        (BUFFERS_TIER, encode_tier(&header.buffers)),
        (OS_HEAT, header.os_heat.name().to_owned()),
        (REMARKS, encode_json(&header.remarks)),
        (RELATIONS, header.relations.to_string()),
        (EMPTY, encode_json(&header.empty)),
        (PARTITIONED, encode_json(&header.partitioned)),
        (LOOKUPS, encode_json(&header.lookups)),
        (OS_BLOCKS, header.os_blocks.to_string()),
        (BUFFER_BLOCKS, header.buffer_blocks.to_string()),
        (DATABASES, encode_json(&header.databases)),
    ];
    let format = (FORMAT, FORMAT_VERSION.to_string());
    encode_pairs([format].into_iter().chain(encode_source(&header.source)).chain(own))
}

/// Cannot fail, because values are only text and numbers.
fn encode_json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

pub fn encode_tier(state: &TierState) -> String {
    match state {
        TierState::Measured => MEASURED.to_owned(),
        TierState::Unknown { reason } => format!("{UNKNOWN}{reason}"),
    }
}

fn decode_header(sealed: &Sealed) -> Result<SnapshotHeader, Flaw> {
    let metadata = sealed.metadata(FORMAT, FORMAT_VERSION)?;
    Ok(SnapshotHeader {
        label: Some(metadata.text(LABEL)?).filter(|label| !label.is_empty()).map(str::to_owned),
        taken_at: metadata.number(TAKEN_AT)?,
        source: metadata.decode_source()?,
        os: decode_tier(&metadata, OS_TIER)?,
        buffers: decode_tier(&metadata, BUFFERS_TIER)?,
        os_heat: metadata.number(OS_HEAT)?,
        remarks: metadata.json(REMARKS)?,
        relations: metadata.number(RELATIONS)?,
        empty: metadata.json(EMPTY)?,
        partitioned: metadata.json(PARTITIONED)?,
        lookups: metadata.json(LOOKUPS)?,
        os_blocks: metadata.number(OS_BLOCKS)?,
        buffer_blocks: metadata.number(BUFFER_BLOCKS)?,
        databases: metadata.json(DATABASES)?,
    })
}

fn decode_tier(metadata: &Metadata<'_>, key: &str) -> Result<TierState, Flaw> {
    parse_tier(metadata.text(key)?).ok_or_else(|| metadata.wrong(key))
}

pub fn parse_tier(text: &str) -> Option<TierState> {
    let unknown = || Some(TierState::Unknown { reason: text.strip_prefix(UNKNOWN)?.to_owned() });
    (text == MEASURED).then_some(TierState::Measured).or_else(unknown)
}

pub const OS: &str = "os";
pub const BUFFERS: &str = "buffers";
/// Tier of a row for a fork without cached blocks: it records that the fork exists, and its size.
pub const NONE: &str = "none";

#[derive(Debug)]
pub struct Row<'a> {
    pub relation: &'a RelationMap,
    pub fork: &'a ForkMap,
    pub tier: &'static str,
    pub heat: u8,
    pub bitmap: RoaringBitmap,
}

pub fn rows_of(relation: &RelationMap) -> impl Iterator<Item = Row<'_>> {
    relation.forks.iter().flat_map(move |fork| {
        let levels = fork.buffers.iter().enumerate().map(|(heat, bitmap)| (BUFFERS, heat as u8, bitmap.clone()));
        let rest = fork.os_heat.values().fold(fork.os.clone(), |rest, blocks| rest - blocks);
        let of_heat = fork.os_heat.iter().map(|(heat, bitmap)| (OS, *heat, bitmap.clone()));
        let mut rows: Vec<(&str, u8, RoaringBitmap)> =
            [(OS, 0, rest)].into_iter().chain(of_heat).chain(levels).collect();
        rows.retain(|(_, _, bitmap)| !bitmap.is_empty());
        if rows.is_empty() {
            rows.push((NONE, 0, RoaringBitmap::new()));
        }
        rows.into_iter().map(move |(tier, heat, mut bitmap)| {
            bitmap.optimize();
            Row { relation, fork, tier, heat, bitmap }
        })
    })
}

const COLUMNS: [(&str, Kind); 16] = [
    ("database", Kind::Text),
    ("schema", Kind::Text),
    ("name", Kind::Text),
    ("kind", Kind::Text),
    ("oid", Kind::Long),
    ("parent", Kind::Text),
    ("path", Kind::Text),
    ("relfilenumber", Kind::Long),
    ("tablespace", Kind::Text),
    ("is_system", Kind::Boolean),
    ("fork", Kind::Text),
    ("relation_blocks", Kind::Long),
    ("tier", Kind::Text),
    ("heat", Kind::Integer),
    ("blocks", Kind::Long),
    ("bitmap", Kind::Bytes),
];

pub type Columns = sealed_file::Columns<9, 4>;

impl Columns {
    pub fn push(&mut self, row: &Row<'_>, bitmap: Vec<u8>) {
        let Relation { name, kind, oid, path, tablespace, parent, is_system } = &row.relation.relation;
        let parent = parent.as_deref().unwrap_or_default();
        let (file, fork) = (path.to_string(), row.fork.fork.name());
        let texts: [&str; 9] =
            [&name.database, &name.schema, &name.name, kind.name(), parent, &file, tablespace, fork, row.tier];
        self.texts.iter_mut().zip(texts).for_each(|(column, text)| column.push(text.into()));
        let longs = [i64::from(*oid), path.relfilenumber.into(), row.fork.blocks as i64, row.bitmap.len() as i64];
        self.longs.iter_mut().zip(longs).for_each(|(column, number)| column.push(number));
        self.booleans.push(*is_system);
        self.integers.push(row.heat.into());
        self.bytes.push(ByteArray::from(bitmap));
    }
}

impl Snapshot {
    /// The file is untrusted.
    pub fn read(path: &Path) -> Result<Snapshot, Error> {
        read_snapshot_from(open(path)?, path)
    }

    /// Writes completely or not at all; `path` must not exist.
    pub fn write(&self, path: &Path) -> Result<(), Error> {
        as_owner_of(path, || {
            let parent = directory_of(path);
            let directory = Directory::open(parent).map_err(|source| Error::file("open", parent, source))?;
            let name =
                path.file_name().ok_or_else(|| Error::file("write", path, io::ErrorKind::IsADirectory.into()))?;
            // Outside a store, nothing else removes unfinished files of killed processes.
            let _ = remove_abandoned_drafts(&directory, DRAFT_PREFIX);
            write_draft(self, directory, path)?.place_new(name).map_err(|error| match error.kind() {
                io::ErrorKind::AlreadyExists => Error::Exists(path.to_owned()),
                _ => Error::file("write", path, error),
            })
        })
        .unwrap_or_else(|source| Err(Error::file("act as the owner of", path, source)))
    }
}

pub fn create_draft(directory: Directory) -> Result<Draft, Error> {
    let place = directory.path().to_owned();
    let draft = Draft::create(directory, DRAFT_PREFIX, FILE_MODE);
    draft.map_err(|source| Error::file("create a file in", &place, source))
}

pub fn write_draft(snapshot: &Snapshot, directory: Directory, path: &Path) -> Result<Draft, Error> {
    let draft = create_draft(directory)?;
    write_rows(snapshot, draft.file()).map_err(|error| Error::file("write", path, as_io_error(error)))?;
    apply_checksum(draft.file()).map_err(|flaw| Error::of_flaw(flaw, path))?;
    Ok(draft)
}

fn write_rows(snapshot: &Snapshot, file: &File) -> ParquetResult<()> {
    let properties = properties(&COLUMNS)?.set_key_value_metadata(Some(encode_header(&snapshot.header()))).build();
    let mut writer = SerializedFileWriter::new(file, build_schema("snapshot", &COLUMNS)?, Arc::new(properties))?;
    let mut columns = Columns::default();
    let mut bitmap_bytes = 0;
    for row in snapshot.map.relations.iter().flat_map(rows_of) {
        let mut bitmap = Vec::with_capacity(row.bitmap.serialized_size());
        row.bitmap.serialize_into(&mut bitmap)?;
        bitmap_bytes += bitmap.len();
        columns.push(&row, bitmap);
        if columns.len() == ROWS_PER_GROUP || bitmap_bytes >= BITMAP_BYTES_PER_GROUP {
            std::mem::take(&mut columns).write(&COLUMNS, writer.next_row_group()?)?;
            bitmap_bytes = 0;
        }
    }
    if columns.len() > 0 {
        columns.write(&COLUMNS, writer.next_row_group()?)?;
    }
    writer.close().map(|_| ())
}

/// Memory that any snapshot may take, in addition to the limit per byte of its file.
const MEMORY_BYTES: u64 = 48 << 20;

/// Limit of memory per byte of the file. A relation takes a dozen bytes in the file, and 500 in memory; zstd hardly
/// shrinks bitmaps. A restore takes four times as much, for its report on each relation.
const MEMORY_BYTES_PER_FILE_BYTE: u64 = 48;

/// Maximum memory of any snapshot: some millions of relations.
const MAX_MEMORY_BYTES: u64 = 2 << 30;

/// Memory per row: a fork's eight bitmaps and, every few rows, a relation and its names.
const ROW_MEMORY_BYTES: u64 = 320;

const CONTAINER_MEMORY_BYTES: u64 = 64;

/// A name has at most 63 bytes, a path fewer than 100. The last bitmap may be of the largest relation: 2³² blocks in
/// 65,536 Roaring containers of 8 KiB, each with an 8-byte header.
const PAGE_LIMITS: PageLimits =
    PageLimits { row_bytes: 1024, last_page_bytes: Some(BITMAP_BYTES_PER_GROUP as u64 + 65_536 * (8192 + 8) + 16) };

/// PostgreSQL's MaxBlockNumber is 2³² − 2.
const MAX_RELATION_BLOCKS: u64 = u32::MAX as u64;

impl SnapshotHeader {
    /// Reads only the footer.
    pub fn read_unverified(path: &Path) -> Result<SnapshotHeader, Error> {
        let header = Sealed::read_unverified(&open(path)?).and_then(|sealed| decode_header(&sealed));
        header.map_err(|flaw| Error::of_flaw(flaw, path))
    }

    /// Verifies the checksum, but reads no rows.
    pub fn read(path: &Path) -> Result<SnapshotHeader, Error> {
        verify(&open(path)?, path).map(|(header, _)| header)
    }
}

pub fn read_snapshot_from<S: ChunkReader + 'static>(source: S, path: &Path) -> Result<Snapshot, Error> {
    let (header, sealed) = verify(&source, path)?;
    let room =
        MEMORY_BYTES.saturating_add(source.len().saturating_mul(MEMORY_BYTES_PER_FILE_BYTE)).min(MAX_MEMORY_BYTES);
    let rows = sealed.check_shape("snapshot", &COLUMNS, ROWS_PER_GROUP).map_err(|flaw| Error::of_flaw(flaw, path))?;
    let most = room / ROW_MEMORY_BYTES;
    if rows > most {
        let reason = format!("it has {rows} rows, but may have at most {most}");
        return Err(Error::of_flaw(Flaw::TooLarge(reason), path));
    }
    let relations = read_relations(path, Arc::new(source), sealed.parquet.row_groups(), room)?;
    let SnapshotHeader { taken_at, source, os, buffers, os_heat, empty, partitioned, lookups, remarks, label, .. } =
        header.clone();
    let map = Map { taken_at, source, os, buffers, os_heat, relations, empty, partitioned, lookups, remarks };
    let snapshot = Snapshot::new(map, label);
    if snapshot.header() != header {
        let reason = "its rows do not add up to the totals of its metadata".to_owned();
        return Err(Error::of_flaw(Flaw::Contradiction(reason), path));
    }
    Ok(snapshot)
}

fn verify(source: &impl ChunkReader, path: &Path) -> Result<(SnapshotHeader, Sealed), Error> {
    let verified = Sealed::read(source).and_then(|sealed| Ok((decode_header(&sealed)?, sealed)));
    verified.map_err(|flaw| Error::of_flaw(flaw, path))
}

fn read_relations<S: ChunkReader + 'static>(
    path: &Path,
    source: Arc<S>,
    groups: &[RowGroupMetaData],
    room: u64,
) -> Result<Vec<RelationMap>, Error> {
    let wrong = |reason| Error::of_flaw(Flaw::Contradiction(reason), path);
    let check = |rows: u64, bitmaps: u64| {
        let over = [("rows", rows), ("bitmaps", bitmaps)].into_iter().find(|(_, taken)| *taken > room);
        over.map_or(Ok(()), |(what, taken)| {
            let reason =
                format!("its {what} take {taken} bytes of memory, but a file of its size may take at most {room}");
            Err(Error::of_flaw(Flaw::TooLarge(reason), path))
        })
    };
    let mut collector = Collector::default();
    for group in groups {
        let mut reader = GroupReader::new(&source, group, PAGE_LIMITS);
        let (rows, bitmaps) = reader.compute_unpacked_bytes().map_err(wrong)?;
        check(collector.row_bytes + rows, collector.bitmap_bytes + bitmaps)?;
        let columns = Columns::read(&COLUMNS, &mut reader).map_err(wrong)?;
        collector.add_group(&columns).map_err(wrong)?;
        check(collector.row_bytes, collector.bitmap_bytes)?;
    }
    Ok(collector.relations)
}

/// The rows of a relation, and of a fork, must be adjacent.
#[derive(Default)]
pub struct Collector {
    pub relations: Vec<RelationMap>,
    paths: HashSet<RelationPath>,
    /// Memory of the rows and of their bitmaps.
    row_bytes: u64,
    bitmap_bytes: u64,
    rows: u64,
}

impl Collector {
    pub fn is_full(&self) -> bool {
        self.row_bytes + self.bitmap_bytes > MAX_MEMORY_BYTES
    }

    pub fn add_group(&mut self, columns: &Columns) -> Result<(), String> {
        (0..columns.len())
            .try_for_each(|row| self.add(columns, row).map_err(|reason| format!("row {}: {reason}", self.rows)))
    }

    fn add(&mut self, columns: &Columns, row: usize) -> Result<(), String> {
        self.rows += 1;
        let texts = columns.texts.each_ref().map(|column| text(&column[row]));
        let [database, schema, name, kind, parent, path, tablespace, fork, tier] = texts;
        let [oid, relfilenumber, relation_blocks, blocks] = columns.longs.each_ref().map(|column| column[row]);
        let path: RelationPath = path?.parse().map_err(|error| format!("{error}"))?;
        if relfilenumber != i64::from(path.relfilenumber) {
            return Err(format!("relfilenumber {relfilenumber} does not match {path}"));
        }
        let relation = Relation {
            name: RelationName { database: database?.to_owned(), schema: schema?.to_owned(), name: name?.to_owned() },
            kind: decode_word(kind?, "kind", |word| word.parse().ok())?,
            oid: u32::try_from(oid).map_err(|_| format!("{oid} is no oid"))?,
            path,
            tablespace: tablespace?.to_owned(),
            parent: Some(parent?).filter(|name| !name.is_empty()).map(str::to_owned),
            is_system: columns.booleans[row],
        };
        let (heat, bitmap) = (columns.integers[row], columns.bytes[row].data());
        self.add_blocks_of(relation, (fork?, relation_blocks), (tier?, heat), (bitmap, Some(blocks)))
    }

    /// Adds the blocks of a fork in one tier with one heat. `count`: their number, if it is stored too.
    pub fn add_blocks_of(
        &mut self,
        relation: Relation,
        (fork, relation_blocks): (&str, i64),
        (tier, heat): (&str, i32),
        (bytes, count): (&[u8], Option<i64>),
    ) -> Result<(), String> {
        if self.relations.last().is_none_or(|last| last.relation != relation) {
            self.begin_relation(relation)?;
        }
        let fork = decode_word(fork, "fork", Fork::from_name)?;
        let fork_blocks = u64::try_from(relation_blocks).ok().filter(|blocks| *blocks <= MAX_RELATION_BLOCKS);
        let fork_blocks = fork_blocks.ok_or_else(|| format!("no relation has {relation_blocks} blocks"))?;
        let bitmap = decode_bitmap(bytes, count, fork_blocks)?;
        // Page cache blocks with heat are in two bitmaps: `os` and `os_heat`.
        let copies = if heat > 0 { 2 } else { 1 };
        let containers = u64::from(bitmap.statistics().n_containers) * CONTAINER_MEMORY_BYTES;
        self.row_bytes += ROW_MEMORY_BYTES;
        self.bitmap_bytes += copies * (bytes.len() as u64 + containers);
        let relation = self.relations.last_mut().ok_or("it belongs to no relation")?;
        let fork = find_fork(&mut relation.forks, fork, fork_blocks)?;
        add_blocks(fork, tier, heat, bitmap)
    }

    fn begin_relation(&mut self, relation: Relation) -> Result<(), String> {
        let name = &relation.name;
        let parent = relation.parent.as_ref().map_or(0, String::len);
        let texts = [&name.database, &name.schema, &name.name, &relation.tablespace].map(String::len);
        self.row_bytes += (size_of::<RelationMap>() + parent + texts.iter().sum::<usize>()) as u64;
        if !self.paths.insert(relation.path.clone()) {
            return Err(format!("{} appears twice", relation.path));
        }
        self.relations.push(RelationMap { relation, forks: Vec::new() });
        Ok(())
    }
}

fn text(value: &ByteArray) -> Result<&str, String> {
    value.as_utf8().map_err(|_| "a text is not UTF-8".to_owned())
}

/// `count`: number of blocks that the bitmap must have.
pub fn decode_bitmap(bytes: &[u8], count: Option<i64>, relation_blocks: u64) -> Result<RoaringBitmap, String> {
    let mut rest = bytes;
    let mut bitmap = RoaringBitmap::deserialize_from(&mut rest).map_err(|error| format!("its bitmap: {error}"))?;
    if !rest.is_empty() {
        return Err(format!("{} bytes follow its bitmap", rest.len()));
    }
    if let Some(count) = count.filter(|count| bitmap.len() != *count as u64) {
        return Err(format!("its bitmap has {} blocks instead of {count}", bitmap.len()));
    }
    if bitmap.max().is_some_and(|last| u64::from(last) >= relation_blocks) {
        return Err(format!("its bitmap reaches past the relation's {relation_blocks} blocks"));
    }
    bitmap.optimize();
    Ok(bitmap)
}

/// Appends `fork` if it is not the last one. Forks must be in PostgreSQL's order.
fn find_fork(forks: &mut Vec<ForkMap>, fork: Fork, blocks: u64) -> Result<&mut ForkMap, String> {
    match forks.last() {
        Some(last) if last.fork == fork && last.blocks != blocks => {
            return Err(format!("fork {fork} has {blocks} blocks, and had {} before", last.blocks));
        }
        Some(last) if last.fork > fork => return Err(format!("fork {fork} comes after {}", last.fork)),
        Some(last) if last.fork == fork => {}
        _ => {
            // Most relations have one fork, and a vector reserves four.
            forks.reserve_exact(1);
            forks.push(ForkMap::empty(fork, blocks));
        }
    }
    forks.last_mut().ok_or_else(|| "there is no fork".to_owned())
}

/// A block has only one heat per tier.
fn add_blocks(fork: &mut ForkMap, tier: &str, heat: i32, bitmap: RoaringBitmap) -> Result<(), String> {
    let heat = u8::try_from(heat).map_err(|_| format!("{heat} is no heat"))?;
    let (level, others) = match tier {
        NONE if bitmap.is_empty() => return Ok(()),
        OS => (&mut fork.os, RoaringBitmap::new()),
        BUFFERS if usize::from(heat) < USAGE_COUNTS => {
            let others = fork.all_buffers();
            (&mut fork.buffers[usize::from(heat)], others)
        }
        BUFFERS => return Err(format!("{heat} is no usage count")),
        _ => return Err(format!("{tier:?} is no tier")),
    };
    if !level.is_disjoint(&bitmap) || !others.is_disjoint(&bitmap) {
        return Err(format!("a block is in tier {tier} twice"));
    }
    if tier == OS && heat > 0 {
        *fork.os_heat.entry(heat).or_default() |= &bitmap;
    }
    match level.is_empty() {
        true => *level = bitmap,
        false => *level |= bitmap,
    }
    Ok(())
}

fn open(path: &Path) -> Result<File, Error> {
    open_written(path).map_err(|flaw| Error::of_flaw(flaw, path))
}
