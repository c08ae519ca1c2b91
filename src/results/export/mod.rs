//! Results as tables for other programs: CSV, JSON and Parquet, read from the documented views.
//!
//! Studies are read and written one after the other, so that a large store needs the memory of its largest one.

mod csv;
mod json;
mod parquet;
mod table;

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::str::FromStr;

use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::Errno;

pub use table::{ExportColumn, ExportTable};

use table::{Cell, Kind, RowWriter};

use super::database::{Query, Row};
use super::error::WRITE_EXPORT;
use super::{Error, Store};
use crate::files::{Draft, as_owner_of, directory_of, draft_beside};
use crate::postgres::keep_text;

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
        let failed = |source: std::io::Error| Error::Export(source);
        let mut writer: Box<dyn RowWriter> = match format {
            ExportFormat::Csv => Box::new(csv::CsvRows::new(table, output).map_err(failed)?),
            ExportFormat::Json => Box::new(json::JsonRows::new(table, output)),
            ExportFormat::Parquet => Box::new(parquet::ParquetRows::new(table, output).map_err(failed)?),
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
        let failed = |source| Error::File { action: WRITE_EXPORT, path: path.to_owned(), source };
        let told = |error| if let Error::Export(source) = error { failed(source) } else { error };
        // Where everybody may put a name it says nothing of who decides.
        let place = if is_shared(path) { directory_of(path) } else { path };
        let opened = as_owner_of(place, || open_target(path)).and_then(|opened| opened).map_err(failed)?;
        let (target, draft) = match opened {
            Target::Stream(file) => {
                return self.export(table, ids, format, BufWriter::new(file)).await.map_err(told);
            }
            Target::File(target, draft) => (target, draft),
        };
        let file = draft.file().try_clone().map_err(failed)?;
        let rows = self.export(table, ids, format, BufWriter::new(file)).await.map_err(told)?;
        draft.place(target).map_err(failed)?;
        Ok(rows)
    }
}

/// Where an export goes.
enum Target {
    /// A device or a pipe.
    Stream(File),
    /// A draft, and the name that it gets.
    File(OsString, Draft),
}

fn open_target(path: &Path) -> io::Result<Target> {
    let is_shared = is_shared(path);
    // Behind a link the file itself is replaced; where everybody may put a link, the link.
    let target = if is_shared { path.to_owned() } else { path.canonicalize().unwrap_or_else(|_| path.to_owned()) };
    match std::fs::symlink_metadata(&target) {
        Ok(facts) if is_shared && (facts.is_file() || facts.is_symlink()) => {}
        Ok(facts) if facts.is_dir() => return Err(ErrorKind::IsADirectory.into()),
        Ok(facts) if !facts.is_file() => {
            // A pipe that nobody reads from is no place (ENXIO); it is not waited for.
            let flags = OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW;
            let file = OpenOptions::new()
                .write(true)
                .custom_flags(flags.bits().cast_signed())
                .open(&target)
                .map_err(no_reader)?;
            if file.metadata()?.is_file() {
                return Err(io::Error::other("it was exchanged for a file meanwhile"));
            }
            fcntl_setfl(&file, OFlags::empty())?;
            return Ok(Target::Stream(file));
        }
        _ => {}
    }
    let name = target.file_name().ok_or(ErrorKind::IsADirectory)?.to_owned();
    // A directory that was mistyped is not made.
    std::fs::metadata(directory_of(&target))?;
    Ok(Target::File(name, draft_beside(&target)?))
}

/// May everybody put something beside this file?
fn is_shared(path: &Path) -> bool {
    std::fs::metadata(directory_of(path)).is_ok_and(|facts| facts.mode() & 0o002 != 0)
}

fn no_reader(error: io::Error) -> io::Error {
    match Errno::from_io_error(&error) {
        Some(Errno::NXIO) => io::Error::new(ErrorKind::BrokenPipe, "nobody reads from this pipe"),
        _ => error,
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
