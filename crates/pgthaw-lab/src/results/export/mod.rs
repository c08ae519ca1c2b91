//! Results as tables for other programs: CSV, JSON and Parquet, read from the documented views.
//!
//! Studies are read and written one after the other, so that a large store needs the memory of its largest one.

mod csv;
mod json;
mod table;

use std::io::Write;
use std::path::Path;
use std::str::FromStr;

pub use table::ExportTable;

use super::database::{Query, Row};
use super::{Error, Store};
use command::table::{self as rows_of, Cell, ExportColumn, ExportFile, Kind, ParquetRows, RowWriter};
use postgres::keep_text;

/// What can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportFormat {
    Csv,
    Json,
    Parquet,
}

impl ExportFormat {
    pub const ALL: [ExportFormat; 3] = [ExportFormat::Csv, ExportFormat::Json, ExportFormat::Parquet];

    /// As files of it end.
    pub fn name(self) -> &'static str {
        match self {
            ExportFormat::Csv => "csv",
            ExportFormat::Json => "json",
            ExportFormat::Parquet => "parquet",
        }
    }
}

impl FromStr for ExportFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<ExportFormat, String> {
        let found = ExportFormat::ALL.into_iter().find(|format| format.name() == text);
        found.ok_or_else(|| format!("it is one of {}", ExportFormat::ALL.map(ExportFormat::name).join(", ")))
    }
}

impl Store {
    /// Writes the rows of a table that belong to these studies. Tells how many there were.
    pub async fn export<W: Write + Send + 'static>(
        &self,
        table: ExportTable,
        ids: &[String],
        format: ExportFormat,
        output: W,
    ) -> Result<u64, Error> {
        let failed = |source: std::io::Error| rows_of::Error::Export(source);
        let mut writer: Box<dyn RowWriter> = match format {
            ExportFormat::Csv => Box::new(csv::CsvRows::new(table, output).map_err(failed)?),
            ExportFormat::Json => Box::new(json::JsonRows::new(table, output)),
            ExportFormat::Parquet => {
                Box::new(ParquetRows::new("results", table.columns(), &[], output).map_err(failed)?)
            }
        };
        let mut exported = 0;
        for id in ids {
            let query = Query::new(table.query()).bind(id);
            let rows = self.read(query, |row| cells_of(table, row)).await?;
            exported += rows.len() as u64;
            writer.write(rows).map_err(failed)?;
        }
        writer.finish().map_err(failed)?;
        Ok(exported)
    }

    /// The same to a file, which is there whole or not at all. A device or a pipe is written to.
    pub async fn export_to_file(
        &self,
        table: ExportTable,
        ids: &[String],
        format: ExportFormat,
        path: &Path,
    ) -> Result<u64, Error> {
        let file = ExportFile::open(path, "--output FILE")?;
        let rows = self.export(table, ids, format, file.output()?).await;
        let rows = rows.map_err(|error| match error {
            Error::Table(error) => Error::Table(file.told(error)),
            other => other,
        })?;
        file.place()?;
        Ok(rows)
    }
}

fn cells_of(table: ExportTable, row: &Row) -> Result<Vec<Cell>, sqlx::Error> {
    let cell = |column: &ExportColumn| {
        Ok(match column.kind {
            Kind::Text => Cell::Text(row.text(column.name)?.map(keep_text)),
            Kind::Integer => Cell::Integer(row.integer(column.name)?),
            Kind::Float => Cell::Float(row.try_get(column.name)?),
        })
    };
    table.columns().iter().map(cell).collect()
}
