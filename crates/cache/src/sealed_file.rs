//! Parquet files in pgthaw's own layout, with a checksum inside. Files are untrusted: pgthaw reads only this layout and
//! checks sizes before allocating memory.

use std::array;
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::io::{BufReader, Read as _, Write};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use parquet::basic::{Compression, Encoding, LogicalType, Repetition, Type as PhysicalType, ZstdLevel};
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::column::reader::ColumnReaderImpl;
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{
    ColumnChunkMetaData, KeyValue, ParquetMetaData, ParquetMetaDataReader, RowGroupMetaData,
};
use parquet::file::page_index::offset_index::PageLocation;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesBuilder, WriterVersion};
use parquet::file::reader::ChunkReader;
use parquet::file::serialized_reader::SerializedPageReader;
use parquet::file::writer::SerializedRowGroupWriter;
use parquet::schema::types::{ColumnPath, Type, TypePtr};
use rustix::fs::{SeekFrom, seek};
use serde::de::DeserializeOwned;
use sha2::{Digest as _, Sha256};

use super::MapSource;
use host::files::open_regular;

#[derive(Debug)]
pub struct Sealed {
    pub parquet: ParquetMetaData,
    /// `None` if not verified.
    digest: Option<Option<String>>,
}

impl Sealed {
    pub fn read_unverified(source: &impl ChunkReader) -> Result<Sealed, Flaw> {
        Ok(Sealed { parquet: decode_footer(&Footer::read(source)?)?, digest: None })
    }

    pub fn read(source: &impl ChunkReader) -> Result<Sealed, Flaw> {
        let footer = Footer::read(source)?;
        let digest = Some(verify(source, &footer)?);
        Ok(Sealed { parquet: decode_footer(&footer)?, digest })
    }

    pub fn metadata(&self, format: &str, known: u32) -> Result<Metadata<'_>, Flaw> {
        let pairs = self.parquet.file_metadata().key_value_metadata().into_iter().flatten();
        let values = pairs.map(|pair| (pair.key.as_str(), pair.value.as_deref().unwrap_or_default()));
        let metadata = Metadata { values: values.collect() };
        if !metadata.values.contains_key(format) {
            return Err(Flaw::NotOne("it is a Parquet file without pgthaw's metadata".to_owned()));
        }
        match (metadata.number(format)?, &self.digest) {
            (found, _) if found != known => Err(Flaw::OtherFormat { found, known }),
            (_, Some(digest)) if digest.as_deref() != Some(metadata.text(KEY)?) => {
                Err(Flaw::Damaged("its checksum is misplaced".into()))
            }
            _ => Ok(metadata),
        }
    }

    /// Checks the columns and that every row group has 1 to `rows_max` rows. Returns the number of rows. `what` names
    /// the kind of file in errors.
    pub fn check_shape(&self, what: &str, columns: &[(&str, Kind)], rows_max: usize) -> Result<u64, Flaw> {
        let expected = build_schema(what, columns)
            .map_err(|error| Flaw::Failed { action: "describe", source: io::Error::other(error) })?;
        if self.parquet.file_metadata().schema() != &*expected {
            return Err(Flaw::NotOne(format!("its columns are not those of a {what}")));
        }
        let rows = self.parquet.row_groups().iter().map(|group| group.num_rows());
        if !rows.clone().all(|rows| (1..=rows_max as i64).contains(&rows)) {
            return Err(Flaw::Contradiction(format!("a row group does not have 1 to {rows_max} rows")));
        }
        Ok(rows.map(|rows| rows as u64).sum())
    }
}

fn decode_footer(footer: &Footer) -> Result<ParquetMetaData, Flaw> {
    check_thrift(&footer.bytes).map_err(|what| {
        let reason = format!("its footer is not as pgthaw writes it: {what}");
        match footer.checksum_offset() {
            Some(_) => Flaw::Damaged(reason),
            None => Flaw::NotOne(reason),
        }
    })?;
    ParquetMetaDataReader::decode_metadata(&footer.bytes)
        .map_err(|error| Flaw::Damaged(format!("its footer cannot be read: {error}")))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Text,
    Bytes,
    Boolean,
    Integer,
    Long,
    /// Stored as differences, because the values grow slowly or are often near the previous one. Plain encoding takes
    /// 1.5 times the space.
    Delta,
}

pub fn build_schema(name: &str, columns: &[(&str, Kind)]) -> Result<TypePtr> {
    let field = |(name, kind): &(&str, Kind)| {
        let (physical, logical) = match kind {
            Kind::Text => (PhysicalType::BYTE_ARRAY, Some(LogicalType::String)),
            Kind::Bytes => (PhysicalType::BYTE_ARRAY, None),
            Kind::Boolean => (PhysicalType::BOOLEAN, None),
            Kind::Integer => (PhysicalType::INT32, None),
            Kind::Long | Kind::Delta => (PhysicalType::INT64, None),
        };
        let field = Type::primitive_type_builder(name, physical).with_repetition(Repetition::REQUIRED);
        field.with_logical_type(logical).build().map(Arc::new)
    };
    let fields = columns.iter().map(field).collect::<Result<Vec<TypePtr>>>()?;
    Ok(Arc::new(Type::group_type_builder(name).with_fields(fields).build()?))
}

#[derive(Debug)]
pub enum Flaw {
    NotOne(String),
    Damaged(String),
    Contradiction(String),
    OtherFormat { found: u32, known: u32 },
    TooLarge(String),
    Failed { action: &'static str, source: io::Error },
}

impl Flaw {
    pub fn told(&self, what: &str, path: &Path) -> String {
        let path = path.display();
        match self {
            Flaw::NotOne(reason) => format!("{path} is not a {what}: {reason}"),
            Flaw::Damaged(reason) => format!("{what} {path} is damaged: {reason}"),
            Flaw::Contradiction(reason) => format!("{what} {path} is inconsistent: {reason}"),
            Flaw::OtherFormat { found, known } => {
                format!("{what} {path} has format {found}, but this pgthaw reads format {known}")
            }
            Flaw::TooLarge(reason) => format!("{what} {path} is too large: {reason}"),
            Flaw::Failed { action, source } => format!("cannot {action} {path}: {source}"),
        }
    }

    /// True if the file is damaged or not of the expected kind, so another file may be readable.
    pub fn is_damage(&self) -> bool {
        matches!(self, Flaw::NotOne(_) | Flaw::Damaged(_) | Flaw::Contradiction(_))
    }
}

const SYSTEM_IDENTIFIER: &str = "pgthaw.system_identifier";
const VERSION_NUM: &str = "pgthaw.postgres_version_num";
const BLOCK_SIZE: &str = "pgthaw.block_size";
const SEGMENT_BLOCKS: &str = "pgthaw.segment_blocks";
const LSN: &str = "pgthaw.lsn";
const TIMELINE: &str = "pgthaw.timeline";
/// Missing if unknown or not UTF-8.
const DATA_DIRECTORY: &str = "pgthaw.data_directory";

/// Builds a file's metadata, with a placeholder for the checksum at the end.
pub fn encode_pairs<'a>(pairs: impl IntoIterator<Item = (&'a str, String)>) -> Vec<KeyValue> {
    let seal = (KEY, ZEROS.to_string());
    pairs.into_iter().chain([seal]).map(|(key, value)| KeyValue::new(key.to_owned(), value)).collect()
}

pub fn encode_source(source: &MapSource) -> impl Iterator<Item = (&'static str, String)> {
    let directory = source.data_directory.as_deref().and_then(Path::to_str);
    let pairs = [
        (SYSTEM_IDENTIFIER, source.system_identifier.to_string()),
        (VERSION_NUM, source.version_num.to_string()),
        (BLOCK_SIZE, source.block_size.to_string()),
        (SEGMENT_BLOCKS, source.segment_blocks.to_string()),
        (LSN, source.lsn.clone()),
        (TIMELINE, source.timeline.to_string()),
    ];
    pairs.into_iter().chain(directory.map(|directory| (DATA_DIRECTORY, directory.to_owned())))
}

#[derive(Debug)]
pub struct Metadata<'a> {
    values: HashMap<&'a str, &'a str>,
}

impl<'a> Metadata<'a> {
    pub fn decode_source(&self) -> Result<MapSource, Flaw> {
        let source = MapSource {
            system_identifier: self.number(SYSTEM_IDENTIFIER)?,
            version_num: self.number(VERSION_NUM)?,
            block_size: self.number(BLOCK_SIZE)?,
            segment_blocks: self.number(SEGMENT_BLOCKS)?,
            data_directory: self.values.get(DATA_DIRECTORY).map(PathBuf::from),
            lsn: self.text(LSN)?.to_owned(),
            timeline: self.number(TIMELINE)?,
        };
        // PostgreSQL can be built with blocks of 1 to 32 kB.
        if !source.block_size.is_power_of_two() || !(1024..=32_768).contains(&source.block_size) {
            return Err(self.wrong(BLOCK_SIZE));
        }
        if source.segment_blocks == 0 {
            return Err(self.wrong(SEGMENT_BLOCKS));
        }
        Ok(source)
    }

    pub fn text(&self, key: &str) -> Result<&'a str, Flaw> {
        self.values.get(key).copied().ok_or_else(|| self.wrong(key))
    }

    pub fn number<T: FromStr>(&self, key: &str) -> Result<T, Flaw> {
        self.text(key)?.parse().map_err(|_| self.wrong(key))
    }

    pub fn json<T: DeserializeOwned>(&self, key: &str) -> Result<T, Flaw> {
        serde_json::from_str(self.text(key)?).map_err(|_| self.wrong(key))
    }

    pub fn wrong(&self, key: &str) -> Flaw {
        Flaw::Contradiction(format!("the value of {key} in its metadata is missing or invalid"))
    }
}

pub const DRAFT_PREFIX: &str = ".pgthaw-taking-";

/// Layout that the reader requires: one page per column and row group, plain encoding except for `Kind::Delta`.
pub fn properties(columns: &[(&str, Kind)]) -> Result<WriterPropertiesBuilder> {
    let one_page = i32::MAX as usize;
    let properties = WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_1_0)
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(3)?))
        .set_dictionary_enabled(false)
        .set_statistics_enabled(EnabledStatistics::None)
        .set_offset_index_disabled(true)
        .set_data_page_size_limit(one_page)
        .set_data_page_row_count_limit(one_page)
        .set_created_by(format!("pgthaw version {}", env!("CARGO_PKG_VERSION")));
    let deltas = columns.iter().filter(|(_, kind)| *kind == Kind::Delta);
    Ok(deltas.fold(properties, |properties, (name, _)| {
        properties.set_column_encoding(ColumnPath::from(*name), Encoding::DELTA_BINARY_PACKED)
    }))
}

/// A row group's columns by type, in the file's order.
#[derive(Debug)]
pub struct Columns<const TEXTS: usize, const LONGS: usize> {
    pub texts: [Vec<ByteArray>; TEXTS],
    pub longs: [Vec<i64>; LONGS],
    pub booleans: Vec<bool>,
    pub integers: Vec<i32>,
    pub bytes: Vec<ByteArray>,
}

impl<const TEXTS: usize, const LONGS: usize> Default for Columns<TEXTS, LONGS> {
    fn default() -> Self {
        let (texts, longs) = (array::from_fn(|_| Vec::new()), array::from_fn(|_| Vec::new()));
        Columns { texts, longs, booleans: Vec::new(), integers: Vec::new(), bytes: Vec::new() }
    }
}

impl<const TEXTS: usize, const LONGS: usize> Columns<TEXTS, LONGS> {
    pub fn len(&self) -> usize {
        self.longs[0].len()
    }

    pub fn write<W: Write + Send>(
        &self,
        columns: &[(&str, Kind)],
        mut group: SerializedRowGroupWriter<'_, W>,
    ) -> Result<()> {
        let (mut texts, mut longs) = (self.texts.iter(), self.longs.iter());
        for (_, kind) in columns {
            match kind {
                Kind::Text => put_column::<ByteArrayType, W>(&mut group, texts.next())?,
                Kind::Long | Kind::Delta => put_column::<Int64Type, W>(&mut group, longs.next())?,
                Kind::Boolean => put_column::<BoolType, W>(&mut group, Some(&self.booleans))?,
                Kind::Integer => put_column::<Int32Type, W>(&mut group, Some(&self.integers))?,
                Kind::Bytes => put_column::<ByteArrayType, W>(&mut group, Some(&self.bytes))?,
            }
        }
        group.close().map(drop)
    }

    pub fn read<S: ChunkReader + 'static>(
        columns: &[(&str, Kind)],
        group: &mut GroupReader<'_, S>,
    ) -> Result<Self, String> {
        let (mut texts, mut longs, mut read) = (Vec::new(), Vec::new(), Columns::default());
        for (_, kind) in columns {
            match kind {
                Kind::Text => texts.push(group.take_bytes()?),
                Kind::Long => longs.push(group.take_plain::<Int64Type>()?),
                Kind::Delta => longs.push(group.take_deltas()?),
                Kind::Boolean => read.booleans = group.take_plain::<BoolType>()?,
                Kind::Integer => read.integers = group.take_plain::<Int32Type>()?,
                Kind::Bytes => read.bytes = group.take_bytes()?,
            }
        }
        let (texts, longs) = texts.try_into().ok().zip(longs.try_into().ok()).ok_or("it has other columns")?;
        Ok(Columns { texts, longs, ..read })
    }
}

fn put_column<T: DataType, W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    values: Option<&Vec<T::T>>,
) -> Result<()> {
    let other = || ParquetError::General("the schema has other columns".into());
    let (mut column, values) = group.next_column()?.zip(values).ok_or_else(other)?;
    column.typed::<T>().write_batch(values, None, None)?;
    column.close()
}

// SHA-256 of the file, with its own 64 digits read as zeros. It is the last key of the metadata, so any Parquet reader
// accepts the file. The checksum detects damage, not forgery.

const KEY: &str = "pgthaw.sha256";

pub const ZEROS: &str = "0000000000000000000000000000000000000000000000000000000000000000";

const MAGIC: &[u8; 4] = b"PAR1";

/// Maximum size of a footer, which takes about 1 kB per row group: some 8 MB for a film of 10⁹ events.
const MAX_FOOTER_BYTES: u64 = 16 << 20;

pub fn apply_checksum(file: &File) -> Result<(), Flaw> {
    let missing = || Flaw::Damaged("its footer has no checksum".into());
    let offset = Footer::read(file)?.checksum_offset().ok_or_else(missing)?;
    let write = |digest: String| file.write_all_at(digest.as_bytes(), offset);
    compute_digest(file, offset).and_then(write).map_err(|source| Flaw::Failed { action: "write", source })
}

/// Opens a regular file; a pipe would block. Rejects sparse files: pgthaw writes no holes, and hashing them could take
/// hours.
pub fn open_written(path: &Path) -> Result<File, Flaw> {
    let file = open_regular(path).map_err(|source| Flaw::Failed { action: "open", source })?;
    let size = file.metadata().map_err(|source| Flaw::Failed { action: "look at", source })?.len();
    // A file system without SEEK_HOLE reports no holes.
    match size > 0 && seek(&file, SeekFrom::Hole(0)).is_ok_and(|first| first < size) {
        true => Err(Flaw::Damaged("it is sparse: parts of it were never written".into())),
        false => Ok(file),
    }
}

fn verify(source: &impl ChunkReader, footer: &Footer) -> Result<Option<String>, Flaw> {
    let Some(offset) = footer.checksum_offset() else { return Ok(None) };
    let start = (offset - footer.offset) as usize;
    let written = footer.bytes.get(start..start + ZEROS.len()).unwrap_or_default();
    let digest = compute_digest(source, offset).map_err(|source| Flaw::Failed { action: "read", source })?;
    if written != digest.as_bytes() {
        return Err(Flaw::Damaged("its content does not match its checksum".to_owned()));
    }
    Ok(Some(digest))
}

/// The footer's thrift bytes, without the trailing length and magic number.
#[derive(Debug)]
pub struct Footer {
    offset: u64,
    pub bytes: Vec<u8>,
}

impl Footer {
    pub fn read(source: &impl ChunkReader) -> Result<Footer, Flaw> {
        let read = |start, length| {
            source.get_bytes(start, length).map_err(|error| Flaw::Failed { action: "read", source: as_io_error(error) })
        };
        let not_one = |reason: &str| Flaw::NotOne(reason.into());
        let size = source.len();
        match size {
            0 => return Err(not_one("it is empty")),
            1..12 => return Err(not_one("it is too short")),
            _ => {}
        }
        if *read(0, MAGIC.len())? != *MAGIC {
            return Err(not_one("it is not a Parquet file"));
        }
        let tail = read(size - 8, 8)?;
        let (length, magic) = tail.split_at(4);
        if magic != MAGIC {
            return Err(Flaw::Damaged(
                "it begins but does not end like a Parquet file; it was truncated, or its end was changed".into(),
            ));
        }
        let length = u64::from(u32::from_le_bytes([length[0], length[1], length[2], length[3]]));
        if length > MAX_FOOTER_BYTES || length + 12 > size {
            return Err(Flaw::Damaged(format!("its footer cannot have {length} bytes")));
        }
        let offset = size - 8 - length;
        let bytes = read(offset, length as usize)?.to_vec();
        Ok(Footer { offset, bytes })
    }

    /// Finds the checksum after the last `marker`, because the label of a snapshot may contain the same bytes.
    pub fn checksum_offset(&self) -> Option<u64> {
        // Bytes before the checksum in thrift's compact form: key, type "binary" and length.
        let marker = [KEY.as_bytes(), &[0x18, ZEROS.len() as u8]].concat();
        let found = self.bytes.windows(marker.len()).rposition(|window| window == marker)? + marker.len();
        (found + ZEROS.len() <= self.bytes.len()).then_some(self.offset + found as u64)
    }
}

/// SHA-256 in lower-case hexadecimal, with the 64 bytes at `zeroed` read as zeros.
pub fn compute_digest(source: &impl ChunkReader, zeroed: u64) -> io::Result<String> {
    let mut reader = BufReader::with_capacity(1 << 20, source.get_read(0).map_err(as_io_error)?);
    let mut hasher = Sha256::new();
    io::copy(&mut reader.by_ref().take(zeroed), &mut hasher)?;
    io::copy(&mut reader.by_ref().take(ZEROS.len() as u64), &mut io::sink())?;
    hasher.update(ZEROS);
    io::copy(&mut reader, &mut hasher)?;
    Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

pub fn decode_word<T>(word: &str, what: &str, known: impl Fn(&str) -> Option<T>) -> Result<T, String> {
    known(word).ok_or_else(|| format!("{word:?} is no {what}"))
}

/// Unwraps I/O errors, because some, such as a full disk, have their own hint.
pub fn as_io_error(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(inner) => match inner.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(other) => io::Error::other(other),
        },
        other => io::Error::other(other),
    }
}

// Checks each column's page before the Parquet library reads it, because the library skips any number of unknown thrift
// fields, decompresses to any announced size, and trusts the lengths of texts and delta blocks.

/// Lower bound of a page's size limit: delta encoding may pad a page with few rows to this size.
const PAGE_BYTES_MIN: u64 = 1024;

const PAGE_HEADER_BYTES: u64 = 64;

/// Maximum number of values in a block of the delta encoding. No writer makes larger blocks.
const BLOCK_MAX: u64 = 1 << 16;

#[derive(Clone, Copy, Debug)]
pub struct PageLimits {
    pub row_bytes: u64,
    pub last_page_bytes: Option<u64>,
}

#[derive(Debug)]
pub struct GroupReader<'a, S> {
    source: Arc<S>,
    group: &'a RowGroupMetaData,
    rows: usize,
    limits: PageLimits,
    next_column: usize,
}

impl<'a, S: ChunkReader + 'static> GroupReader<'a, S> {
    /// The group's number of rows must have been checked.
    pub fn new(source: &Arc<S>, group: &'a RowGroupMetaData, limits: PageLimits) -> GroupReader<'a, S> {
        let (source, rows) = (Arc::clone(source), group.num_rows() as usize);
        GroupReader { source, group, rows, limits, next_column: 0 }
    }

    /// Uncompressed bytes of all columns but the last, and of the last one, which has the bitmaps.
    pub fn compute_unpacked_bytes(&self) -> Result<(u64, u64), String> {
        let columns = self.group.columns().iter().enumerate();
        let unpacked = columns.map(|(place, column)| {
            let (_, unpacked) =
                self.locate_page(column, self.max_bytes(place)).map_err(|reason| in_column(column, reason))?;
            Ok(unpacked)
        });
        let mut unpacked = unpacked.collect::<Result<Vec<u64>, String>>()?;
        let bitmaps = unpacked.pop().unwrap_or_default();
        Ok((unpacked.iter().sum(), bitmaps))
    }

    fn take_bytes(&mut self) -> Result<Vec<ByteArray>, String> {
        self.take::<ByteArrayType>(Encoding::PLAIN, |page, rows| {
            let mut rest = page;
            for _ in 0..rows {
                let (length, behind) = rest.split_at_checked(4)?;
                let length = u32::from_le_bytes(length.try_into().ok()?);
                rest = behind.get(length as usize..)?;
            }
            Some(())
        })
    }

    fn take_plain<T: DataType>(&mut self) -> Result<Vec<T::T>, String> {
        self.take::<T>(Encoding::PLAIN, |_, _| Some(()))
    }

    fn take_deltas(&mut self) -> Result<Vec<i64>, String> {
        self.take::<Int64Type>(Encoding::DELTA_BINARY_PACKED, |page, rows| {
            let (block_values, rest) = take_varint(page)?;
            let (parts, rest) = take_varint(rest)?;
            let (count, _) = take_varint(rest)?;
            (block_values <= BLOCK_MAX && parts <= BLOCK_MAX && count == rows as u64).then_some(())
        })
    }

    /// `check` returns `None` if the decompressed page cannot be decoded.
    fn take<T: DataType>(
        &mut self,
        encoding: Encoding,
        check: impl Fn(&[u8], usize) -> Option<()>,
    ) -> Result<Vec<T::T>, String> {
        let max_bytes = self.max_bytes(self.next_column);
        let column = self.group.columns().get(self.next_column).ok_or("a column is missing")?;
        self.next_column += 1;
        let values = self.read_page(column, max_bytes, encoding).and_then(|page| {
            let too_few = || format!("the column's data page does not contain {} values", self.rows);
            check(page.buffer(), self.rows).ok_or_else(too_few)?;
            let mut reader = ColumnReaderImpl::<T>::new(column.column_descr_ptr(), Box::new(OnePage(Some(page))));
            let mut values = Vec::with_capacity(self.rows);
            let read = reader.read_records(self.rows, None, None, &mut values).map_err(|error| error.to_string())?;
            if read.0 == self.rows && values.len() == self.rows { Ok(values) } else { Err(too_few()) }
        });
        values.map_err(|reason| in_column(column, reason))
    }

    fn max_bytes(&self, place: usize) -> u64 {
        let is_last = place + 1 == self.group.num_columns();
        let of_last = self.limits.last_page_bytes.filter(|_| is_last);
        of_last.unwrap_or((self.rows as u64 * self.limits.row_bytes).max(PAGE_BYTES_MIN))
    }

    fn read_page(&self, column: &ColumnChunkMetaData, max_bytes: u64, expected: Encoding) -> Result<Page, String> {
        let (location, _) = self.locate_page(column, max_bytes)?;
        let pages = SerializedPageReader::new(Arc::clone(&self.source), column, self.rows, Some(vec![location]));
        match pages.and_then(|mut pages| pages.get_next_page()).map_err(|error| error.to_string())? {
            Some(page @ Page::DataPage { num_values, encoding, .. })
                if num_values as usize == self.rows && encoding == expected =>
            {
                Ok(page)
            }
            _ => Err("the column is not one Parquet page with all rows in the encoding that pgthaw uses".to_owned()),
        }
    }

    fn locate_page(&self, column: &ColumnChunkMetaData, max_bytes: u64) -> Result<(PageLocation, u64), String> {
        let file_bytes = self.source.len();
        let offset = u64::try_from(column.data_page_offset()).map_err(|_| "its offset in the file is negative")?;
        let bytes = u64::try_from(column.compressed_size()).map_err(|_| "it has a negative size")?;
        if !matches!(column.compression(), Compression::ZSTD(_)) || column.dictionary_page_offset().is_some() {
            return Err("the column is not stored as pgthaw stores it: with zstd, without a dictionary".to_owned());
        }
        if offset.checked_add(bytes).is_none_or(|end| end > file_bytes) {
            return Err("the column's data reaches past the end of the file".to_owned());
        }
        let header = self.source.get_bytes(offset, bytes.min(PAGE_HEADER_BYTES) as usize);
        let header = header.map_err(|error| error.to_string())?;
        check_thrift(&header).map_err(|what| format!("its page header is not as pgthaw writes it: {what}"))?;
        // The first two thrift fields are the page type and the uncompressed size.
        let after_type = take_number(&header).ok_or("its page has no header")?.1;
        let (unpacked, _) = take_number(after_type).ok_or("its page has no size")?;
        if unpacked > max_bytes || bytes > max_bytes + 1024 {
            return Err(format!("its {bytes} bytes unpack to {unpacked} bytes, but at most {max_bytes} are allowed"));
        }
        let compressed_page_size = i32::try_from(bytes).map_err(|_| "it is too large")?;
        Ok((PageLocation { offset: offset as i64, compressed_page_size, first_row_index: 0 }, unpacked))
    }
}

struct OnePage(Option<Page>);

impl Iterator for OnePage {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Result<Page>> {
        self.0.take().map(Ok)
    }
}

impl PageReader for OnePage {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        Ok(self.0.take())
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        Ok(None)
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.0 = None;
        Ok(())
    }
}

fn in_column(column: &ColumnChunkMetaData, reason: String) -> String {
    format!("column {}: {reason}", column.column_path().string())
}

/// Reads a thrift field: a byte 0x15 (next field, i32) and a zigzag varint.
fn take_number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (zigzag, rest) = take_varint(bytes.strip_prefix(&[0x15])?)?;
    (zigzag % 2 == 0 && zigzag <= u64::from(u32::MAX)).then_some((zigzag / 2, rest))
}

fn take_varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let length = bytes.iter().take(10).position(|byte| byte & 0x80 == 0)? + 1;
    let value = bytes[..length].iter().rev().fold(0, |value, byte| value << 7 | u64::from(byte & 0x7f));
    Some((value, &bytes[length..]))
}

// Checks thrift's compact form before the library reads it. Booleans in a list take no bytes: 5 bytes can announce 2³¹
// of them, and nested lists would keep the library busy for years. pgthaw writes no booleans. Format:
// <https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md>.

/// Maximum nesting; pgthaw writes five levels.
const DEPTH_MAX: u32 = 16;

fn check_thrift(bytes: &[u8]) -> Result<(), String> {
    skip_thrift(12, bytes, DEPTH_MAX).map(drop)
}

/// `kind` 4 to 6 is a number, 8 a text, 9 a list, 12 a struct.
fn skip_thrift(kind: u8, bytes: &[u8], depth: u32) -> Result<&[u8], String> {
    let too_short = || "too few bytes".to_owned();
    match kind {
        4..=6 => Ok(take_varint(bytes).ok_or_else(too_short)?.1),
        8 => {
            let (length, rest) = take_varint(bytes).ok_or_else(too_short)?;
            usize::try_from(length).ok().and_then(|length| rest.get(length..)).ok_or_else(too_short)
        }
        9 if depth > 0 => {
            let (head, mut rest) = bytes.split_first().ok_or_else(too_short)?;
            let mut count = u64::from(head >> 4);
            if count == 15 {
                (count, rest) = take_varint(rest).ok_or_else(too_short)?;
            }
            (0..count).try_fold(rest, |rest, _| skip_thrift(head & 15, rest, depth - 1))
        }
        12 if depth > 0 => {
            let mut bytes = bytes;
            loop {
                let (head, rest) = bytes.split_first().ok_or_else(too_short)?;
                match (head >> 4, head & 15) {
                    _ if *head == 0 => return Ok(rest),
                    // Long form of a field header: the field number jumps back or by more than 15.
                    (0, _) => return Err("a field out of order".to_owned()),
                    (_, kind) => bytes = skip_thrift(kind, rest, depth - 1)?,
                }
            }
        }
        kind => Err(format!("a value of unknown type {kind}, or values nested too deeply")),
    }
}

#[cfg(test)]
mod thrift_tests {
    use super::*;

    #[test]
    fn what_takes_a_byte_for_all_that_it_holds_is_taken_and_nothing_else() {
        let whole = [0x18, 2, b'o', b'k', 0x26, 0x80, 1, 0x19, 0x25, 7, 9, 0x1c, 0, 0, 99];
        check_thrift(&whole).unwrap();
        assert_eq!(skip_thrift(12, &whole, DEPTH_MAX).unwrap(), [99]);
        for end in 0..whole.len() - 1 {
            assert!(check_thrift(&whole[..end]).is_err(), "{end}");
        }
        let refused: [(&[u8], &str); 5] = [
            (&[0x11, 0], "a value of unknown type 1"),
            // Claims 2³¹ − 1 booleans, then lists of such lists.
            (&[0x49, 0xf1, 0xff, 0xff, 0xff, 0xff, 7, 0], "a value of unknown type 1"),
            (&[0x49, 0xe9, 0xf1, 0xff, 0xff, 0xff, 0xff, 7, 0], "a value of unknown type 1"),
            // Claims 2⁶⁴ − 1 numbers.
            (&[0x49, 0xf5, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0], "too few bytes"),
            // The first field again: 0x02 is 1 in the long form.
            (&[0x18, 0, 0x08, 2, 0, 0], "a field out of order"),
        ];
        for (bytes, reason) in refused {
            assert!(check_thrift(bytes).unwrap_err().contains(reason), "{bytes:x?}");
        }
        assert!(check_thrift(&[0x1c; 1000]).unwrap_err().contains("too deep"));
    }
}
