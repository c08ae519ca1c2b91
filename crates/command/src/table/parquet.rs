//! Parquet: a row group for each run, every column optional, compressed with zstd.

use std::io::{self, Write};
use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, Type as PhysicalType, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::Type;

use super::{Cell, ExportColumn, Kind, RowWriter};

/// Rows as columns.
#[allow(missing_debug_implementations)]
pub struct ParquetRows<W: Write + Send> {
    writer: SerializedFileWriter<W>,
}

impl<W: Write + Send> ParquetRows<W> {
    /// Begins a table of this name; `facts` are what the file says of itself.
    pub fn new(
        name: &str,
        columns: &[ExportColumn],
        facts: &[(&str, String)],
        output: W,
    ) -> io::Result<ParquetRows<W>> {
        let mut writer = open(name, columns, output).map_err(io::Error::other)?;
        for (key, text) in facts {
            writer.append_key_value_metadata(KeyValue::new((*key).to_owned(), text.clone()));
        }
        Ok(ParquetRows { writer })
    }
}

impl<W: Write + Send> RowWriter for ParquetRows<W> {
    fn write(&mut self, rows: Vec<Vec<Cell>>) -> io::Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let mut group = self.writer.next_row_group().map_err(io::Error::other)?;
        for place in 0..rows[0].len() {
            write_column(&mut group, rows.iter().map(|row| &row[place])).map_err(io::Error::other)?;
        }
        group.close().map(drop).map_err(io::Error::other)
    }

    fn finish(self: Box<Self>) -> io::Result<()> {
        self.writer.close().map(drop).map_err(io::Error::other)
    }
}

fn open<W: Write + Send>(name: &str, columns: &[ExportColumn], output: W) -> ParquetResult<SerializedFileWriter<W>> {
    let columns = columns.iter().map(|column| {
        let (physical, logical) = match column.kind {
            Kind::Text => (PhysicalType::BYTE_ARRAY, Some(LogicalType::String)),
            Kind::Integer => (PhysicalType::INT64, None),
            Kind::Float => (PhysicalType::DOUBLE, None),
        };
        let column = Type::primitive_type_builder(column.name, physical).with_repetition(Repetition::OPTIONAL);
        column.with_logical_type(logical).build().map(Arc::new)
    });
    let columns = columns.collect::<ParquetResult<Vec<_>>>()?;
    let schema = Type::group_type_builder(name).with_fields(columns).build()?;
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(3)?))
        .set_created_by(format!("pgthaw version {}", env!("CARGO_PKG_VERSION")));
    SerializedFileWriter::new(output, Arc::new(schema), Arc::new(properties.build()))
}

fn write_column<'a, W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    cells: impl Iterator<Item = &'a Cell> + Clone,
) -> ParquetResult<()> {
    match cells.clone().next() {
        Some(Cell::Text(_)) => put::<ByteArrayType, _>(group, cells, |cell| match cell {
            Cell::Text(text) => text.as_deref().map(ByteArray::from),
            _ => None,
        }),
        Some(Cell::Integer(_)) => put::<Int64Type, _>(group, cells, |cell| match cell {
            Cell::Integer(number) => *number,
            _ => None,
        }),
        Some(Cell::Float(_)) => put::<DoubleType, _>(group, cells, |cell| match cell {
            Cell::Float(number) => *number,
            _ => None,
        }),
        None => Ok(()),
    }
}

/// Values that are there, and for every row whether it has one.
fn put<'a, T: DataType, W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    cells: impl Iterator<Item = &'a Cell>,
    value_of: impl Fn(&Cell) -> Option<T::T>,
) -> ParquetResult<()> {
    let all: Vec<Option<T::T>> = cells.map(value_of).collect();
    let is_there: Vec<i16> = all.iter().map(|value| i16::from(value.is_some())).collect();
    let values: Vec<T::T> = all.into_iter().flatten().collect();
    let missing = || ParquetError::General("more columns than the schema has".into());
    let mut column = group.next_column()?.ok_or_else(missing)?;
    column.typed::<T>().write_batch(&values, Some(&is_there), None)?;
    column.close()
}
