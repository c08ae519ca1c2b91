//! A Parquet file of pgthaw's own, whatever its rows are: zstd, one page per column and row group, plainly encoded but for numbers
//! that are kept as their differences, with a checksum inside.
//!
//! What is written is plain Parquet that any reader takes. What is read is less, and deliberately so, because such a file is
//! untrusted input. Whatever decides on memory is checked before memory is asked for.

mod checksum;
mod columns;
mod deltas;
mod flaw;
mod metadata;
mod pages;
mod thrift;
mod write;

#[cfg(any(test, fuzzing))]
pub use checksum::{ZEROS, mend};
pub use checksum::{apply_checksum, as_io_error, open_written};
pub use columns::{Kind, build_schema};
pub use flaw::Flaw;
pub use metadata::{Metadata, encode_pairs, encode_source};
pub use pages::{GroupReader, PageLimits};
pub use write::{DRAFT_PREFIX, GroupWriter, properties};

use parquet::file::metadata::{KeyValue, ParquetMetaData, ParquetMetaDataReader};
use parquet::file::reader::ChunkReader;
use parquet::schema::types::Type;

use checksum::Footer;

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
    thrift::FOOTER.check(&footer.bytes).map_err(|what| {
        let reason = format!("its footer has what pgthaw does not write: {what}");
        match footer.checksum_offset() {
            Some(_) => Flaw::Damaged(reason),
            None => Flaw::NotOne(reason),
        }
    })?;
    ParquetMetaDataReader::decode_metadata(&footer.bytes)
        .map_err(|error| Flaw::Damaged(format!("its footer cannot be read: {error}")))
}
