//! How such a file is written.

use std::io::Write;

use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::DataType;
use parquet::errors::{ParquetError, Result};
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesBuilder, WriterVersion};
use parquet::file::writer::SerializedRowGroupWriter;

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
