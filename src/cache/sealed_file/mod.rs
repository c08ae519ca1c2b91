//! A Parquet file of pgthaw's own, whatever its rows are: zstd, one page per column and row group, plainly encoded but for numbers
//! that are kept as their differences, with a checksum inside.
//!
//! What is written is plain Parquet that any reader takes. What is read is less, and deliberately so, because such a file is
//! untrusted input. Whatever decides on memory is checked before memory is asked for.

mod checksum;
mod pages;

use std::collections::HashMap;
use std::io;
use std::io::Write;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use checksum::Footer;
use parquet::basic::{Compression, LogicalType, Repetition, Type as PhysicalType, ZstdLevel};
use parquet::data_type::DataType;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{KeyValue, ParquetMetaData, ParquetMetaDataReader};
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesBuilder, WriterVersion};
use parquet::file::reader::ChunkReader;
use parquet::file::writer::SerializedRowGroupWriter;
use parquet::schema::types::{Type, TypePtr};
use serde::de::DeserializeOwned;

use super::{Error, MapSource};

#[cfg(any(test, fuzzing))]
pub use checksum::{ZEROS, mend};
pub use checksum::{apply_checksum, as_io_error, open_written};
pub use pages::{GroupReader, PageLimits};

/// A file's footer as the library has it, and what in it vouches for the file.
#[derive(Debug)]
pub struct Sealed {
    pub parquet: ParquetMetaData,
    /// The digest that the file was found to have; `None` when it has no place for one, or was not looked at.
    digest: Option<String>,
}

impl Sealed {
    /// Reads the footer alone: the file may be damaged.
    pub fn read_unverified(source: &impl ChunkReader) -> Result<Sealed, Flaw> {
        Ok(Sealed { parquet: decode_footer(&Footer::read(source)?)?, digest: None })
    }

    /// Reads the footer, and compares the file with its checksum.
    pub fn read(source: &impl ChunkReader) -> Result<Sealed, Flaw> {
        let footer = Footer::read(source)?;
        let digest = checksum::verify(source, &footer)?;
        Ok(Sealed { parquet: decode_footer(&footer)?, digest })
    }

    /// What the file says of itself, in the footer.
    pub fn key_values(&self) -> &[KeyValue] {
        self.parquet.file_metadata().key_value_metadata().map_or(&[], Vec::as_slice)
    }

    /// Is the checksum that was found the one that the metadata have?
    pub fn check_digest(&self, metadata: &Metadata<'_>) -> Result<(), Flaw> {
        match self.digest.as_deref() == Some(metadata.text(checksum::KEY)?) {
            true => Ok(()),
            false => Err(Flaw::Damaged("its checksum is not where it belongs".into())),
        }
    }

    /// Are these the columns, and has every row group 1 to `rows_max` rows? Returns the rows of all. `what` such a file is, is said
    /// where it is none.
    pub fn check_shape(&self, expected: &Type, rows_max: usize, what: &str) -> Result<u64, Flaw> {
        if self.parquet.file_metadata().schema() != expected {
            return Err(Flaw::NotOne(format!("its columns are not those of a {what}")));
        }
        let mut rows = self.parquet.row_groups().iter().map(|group| group.num_rows());
        if !rows.clone().all(|rows| (1..=rows_max as i64).contains(&rows)) {
            return Err(Flaw::Contradiction(format!("a row group has not 1 to {rows_max} rows")));
        }
        Ok(rows.by_ref().map(|rows| rows as u64).sum())
    }
}

fn decode_footer(footer: &Footer) -> Result<ParquetMetaData, Flaw> {
    pages::FOOTER.check(&footer.bytes).map_err(|what| {
        let reason = format!("its footer has what pgthaw does not write: {what}");
        match footer.checksum_offset() {
            Some(_) => Flaw::Damaged(reason),
            None => Flaw::NotOne(reason),
        }
    })?;
    ParquetMetaDataReader::decode_metadata(&footer.bytes)
        .map_err(|error| Flaw::Damaged(format!("its footer cannot be read: {error}")))
}

// ---- columns ----

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Text,
    Bytes,
    Boolean,
    Integer,
    Long,
}

/// The schema of a file whose columns have these names and types, in this order.
pub fn build_schema(name: &str, columns: &[(&str, Kind)]) -> Result<TypePtr> {
    let fields = columns.iter().map(|(name, kind)| column_type(name, *kind).map(Arc::new));
    let fields = fields.collect::<Result<Vec<TypePtr>>>()?;
    Ok(Arc::new(Type::group_type_builder(name).with_fields(fields).build()?))
}

fn column_type(name: &str, kind: Kind) -> Result<Type> {
    let (physical, logical) = match kind {
        Kind::Text => (PhysicalType::BYTE_ARRAY, Some(LogicalType::String)),
        Kind::Bytes => (PhysicalType::BYTE_ARRAY, None),
        Kind::Boolean => (PhysicalType::BOOLEAN, None),
        Kind::Integer => (PhysicalType::INT32, None),
        Kind::Long => (PhysicalType::INT64, None),
    };
    Type::primitive_type_builder(name, physical)
        .with_repetition(Repetition::REQUIRED)
        .with_logical_type(logical)
        .build()
}

// ---- flaw ----

/// What is wrong with a file. Whoever reads it knows what it should be, and its path.
#[derive(Debug)]
pub enum Flaw {
    /// It is something else.
    NotOne(String),
    /// It was one.
    Damaged(String),
    /// Its content cannot be.
    Contradiction(String),
    /// Another version of pgthaw wrote it.
    OtherFormat { found: u32, known: u32 },
    /// It would take too much memory.
    TooLarge(String),
    /// What could not be done (a verb, such as "read").
    Failed { action: &'static str, source: io::Error },
}

impl Flaw {
    /// The error of a snapshot file.
    pub fn of_snapshot(self, path: &Path) -> Error {
        let path = path.to_owned();
        match self {
            Flaw::NotOne(reason) => Error::NotASnapshot { path, reason },
            Flaw::Damaged(reason) => Error::Damaged { path, reason },
            Flaw::Contradiction(reason) => Error::Contradiction { path, reason },
            Flaw::OtherFormat { found, known } => Error::OtherFormat { path, found, known },
            Flaw::TooLarge(reason) => Error::TooLarge { path, reason },
            Flaw::Failed { action, source } => Error::File { action, path, source },
        }
    }
}

// ---- metadata ----

const SYSTEM_IDENTIFIER: &str = "pgthaw.system_identifier";
const VERSION_NUM: &str = "pgthaw.postgres_version_num";
const BLOCK_SIZE: &str = "pgthaw.block_size";
const SEGMENT_BLOCKS: &str = "pgthaw.segment_blocks";
const LSN: &str = "pgthaw.lsn";
const TIMELINE: &str = "pgthaw.timeline";

/// Keys and texts as the file's metadata. The checksum's place comes last.
pub fn encode_pairs<'a>(pairs: impl IntoIterator<Item = (&'a str, String)>) -> Vec<KeyValue> {
    let seal = (checksum::KEY, checksum::ZEROS.to_string());
    pairs.into_iter().chain([seal]).map(|(key, value)| KeyValue::new(key.to_owned(), value)).collect()
}

/// Which cluster the file is of, as metadata.
pub fn encode_source(source: &MapSource) -> [(&'static str, String); 6] {
    [
        (SYSTEM_IDENTIFIER, source.system_identifier.to_string()),
        (VERSION_NUM, source.version_num.to_string()),
        (BLOCK_SIZE, source.block_size.to_string()),
        (SEGMENT_BLOCKS, source.segment_blocks.to_string()),
        (LSN, source.lsn.clone()),
        (TIMELINE, source.timeline.to_string()),
    ]
}

/// The metadata of a file that claims to be one of pgthaw's.
#[derive(Debug)]
pub struct Metadata<'a> {
    values: HashMap<&'a str, &'a str>,
}

impl<'a> Metadata<'a> {
    /// The metadata, when the `format` that they name is the one that this pgthaw writes.
    pub fn new(pairs: &'a [KeyValue], format: &str, known: u32) -> Result<Metadata<'a>, Flaw> {
        let values = pairs.iter().map(|pair| (pair.key.as_str(), pair.value.as_deref().unwrap_or_default()));
        let metadata = Metadata { values: values.collect() };
        if !metadata.values.contains_key(format) {
            return Err(Flaw::NotOne("it is a Parquet file without pgthaw's metadata".to_owned()));
        }
        match metadata.number(format)? {
            found if found != known => Err(Flaw::OtherFormat { found, known }),
            _ => Ok(metadata),
        }
    }

    /// Which cluster the file is of, with every value checked.
    pub fn decode_source(&self) -> Result<MapSource, Flaw> {
        let source = MapSource {
            system_identifier: self.number(SYSTEM_IDENTIFIER)?,
            version_num: self.number(VERSION_NUM)?,
            block_size: self.number(BLOCK_SIZE)?,
            segment_blocks: self.number(SEGMENT_BLOCKS)?,
            data_directory: None,
            lsn: self.text(LSN)?.to_owned(),
            timeline: self.number(TIMELINE)?,
        };
        // PostgreSQL's configure allows 1 to 32 kB.
        if !source.block_size.is_power_of_two() || !(1024..=32_768).contains(&source.block_size) {
            return Err(self.wrong(BLOCK_SIZE));
        }
        if source.segment_blocks == 0 {
            return Err(self.wrong(SEGMENT_BLOCKS));
        }
        Ok(source)
    }

    /// The text of a key that has to be there.
    pub fn text(&self, key: &str) -> Result<&'a str, Flaw> {
        self.values.get(key).copied().ok_or_else(|| self.wrong(key))
    }

    /// A number, a time or the like that has to be there.
    pub fn number<T: FromStr>(&self, key: &str) -> Result<T, Flaw> {
        self.text(key)?.parse().map_err(|_| self.wrong(key))
    }

    /// A value as JSON that has to be there.
    pub fn json<T: DeserializeOwned>(&self, key: &str) -> Result<T, Flaw> {
        serde_json::from_str(self.text(key)?).map_err(|_| self.wrong(key))
    }

    /// The flaw of a key whose value is missing or none.
    pub fn wrong(&self, key: &str) -> Flaw {
        Flaw::Contradiction(format!("its metadata {key} is missing or makes no sense"))
    }
}

// ---- write ----

/// How the names of files begin that are being written.
pub const DRAFT_PREFIX: &str = ".pgthaw-taking-";

/// One page per column and row group, plainly encoded: what the reader insists on, but for columns of a film. zstd finds the repeated names.
pub fn properties() -> Result<WriterPropertiesBuilder> {
    let one_page = i32::MAX as usize;
    Ok(WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_1_0)
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(3)?))
        .set_dictionary_enabled(false)
        .set_statistics_enabled(EnabledStatistics::None)
        .set_offset_index_disabled(true)
        .set_data_page_size_limit(one_page)
        .set_data_page_row_count_limit(one_page)
        .set_created_by(format!("pgthaw version {}", env!("CARGO_PKG_VERSION"))))
}

/// A row group whose columns are put one after the other, in the schema's order.
pub struct GroupWriter<'a, W: Write>(SerializedRowGroupWriter<'a, W>);

impl<W: Write> std::fmt::Debug for GroupWriter<'_, W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GroupWriter").finish_non_exhaustive()
    }
}

impl<'a, W: Write + Send> GroupWriter<'a, W> {
    pub fn new(group: SerializedRowGroupWriter<'a, W>) -> GroupWriter<'a, W> {
        GroupWriter(group)
    }

    /// Writes the next column.
    pub fn put<T: DataType>(&mut self, values: &[T::T]) -> Result<()> {
        let mut column =
            self.0.next_column()?.ok_or_else(|| ParquetError::General("more columns than the schema has".into()))?;
        column.typed::<T>().write_batch(values, None, None)?;
        column.close()
    }

    /// Ends the group.
    pub fn close(self) -> Result<()> {
        self.0.close().map(|_| ())
    }
}
