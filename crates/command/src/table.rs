//! Tables for other programs: typed columns, cells and the output file.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, Type as PhysicalType, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::Type;
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::Errno;

use host::failure::{ErrorKind, Explain, FullDisk};
use host::files::{Draft, as_owner_of, directory_of, draft_beside};

#[derive(Clone, Copy, Debug)]
pub struct ExportColumn {
    pub name: &'static str,
    pub kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Text,
    Integer,
    Float,
}

/// Value in a row; `None` is SQL's NULL.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    Text(Option<String>),
    Integer(Option<i64>),
    Float(Option<f64>),
}

pub trait RowWriter {
    fn write(&mut self, rows: Vec<Vec<Cell>>) -> std::io::Result<()>;
    fn finish(self: Box<Self>) -> std::io::Result<()>;
}

impl ExportColumn {
    /// Parses a list such as `name:text count:integer share:float`.
    pub fn parse_list(list: &'static str) -> impl Iterator<Item = ExportColumn> {
        list.split(' ').map(|column| match column.split_once(':') {
            Some((name, "text")) => ExportColumn { name, kind: Kind::Text },
            Some((name, "integer")) => ExportColumn { name, kind: Kind::Integer },
            Some((name, "float")) => ExportColumn { name, kind: Kind::Float },
            _ => unreachable!("{column:?} is no name and kind"),
        })
    }
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot export to {}: {source}", path.display())]
    ExportTo { path: PathBuf, option: &'static str, source: std::io::Error },
    #[error("cannot write the export: {0}")]
    Export(std::io::Error),
}

impl Explain for Error {
    fn kind(&self) -> ErrorKind {
        match self {
            Error::ExportTo { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => ErrorKind::Privilege,
            Error::ExportTo { .. } | Error::Export(_) => ErrorKind::Failed,
        }
    }

    fn hint(&self) -> Option<String> {
        None
    }

    fn full_disk(&self) -> Option<FullDisk> {
        let Error::ExportTo { path, option, source } = self else { return None };
        FullDisk::of_file(source, path, Some(option))
    }
}

// A file appears whole or not at all. Writes to a device or pipe are direct.

/// Export that is not yet visible. Dropping it leaves no file.
#[derive(Debug)]
pub struct ExportFile {
    path: PathBuf,
    option: &'static str,
    target: Target,
}

#[derive(Debug)]
enum Target {
    Stream(File),
    File(OsString, Draft),
}

impl ExportFile {
    /// Opens the target with its owner's rights.
    pub fn open(path: &Path, option: &'static str) -> Result<ExportFile, Error> {
        // In a world-writable directory, uses the rights of the directory's owner, because anyone may have created the
        // target.
        let place = if is_shared(path) { directory_of(path) } else { path };
        let opened = as_owner_of(place, || open_target(path)).and_then(|opened| opened);
        let target = opened.map_err(|source| Error::ExportTo { path: path.to_owned(), option, source })?;
        Ok(ExportFile { path: path.to_owned(), option, target })
    }

    /// `facts` become the file's metadata.
    pub fn write_parquet(
        self,
        name: &str,
        columns: &[ExportColumn],
        facts: &[(&str, String)],
        rows: Vec<Vec<Cell>>,
    ) -> Result<(), Error> {
        let writer = ParquetRows::new(name, columns, facts, self.output()?).map(Box::new);
        let written = writer.and_then(|mut writer| {
            writer.write(rows)?;
            writer.finish()
        });
        written.map_err(|source| self.failed(source))?;
        self.place()
    }

    pub fn output(&self) -> Result<BufWriter<File>, Error> {
        let file = match &self.target {
            Target::Stream(file) => file,
            Target::File(_, draft) => draft.file(),
        };
        Ok(BufWriter::new(file.try_clone().map_err(|source| self.failed(source))?))
    }

    pub fn told(&self, error: Error) -> Error {
        if let Error::Export(source) = error { self.failed(source) } else { error }
    }

    fn failed(&self, source: io::Error) -> Error {
        Error::ExportTo { path: self.path.clone(), option: self.option, source }
    }

    pub fn place(self) -> Result<(), Error> {
        let ExportFile { path, option, target } = self;
        match target {
            Target::Stream(_) => Ok(()),
            Target::File(name, draft) => draft.place(name).map_err(|source| Error::ExportTo { path, option, source }),
        }
    }
}

fn open_target(path: &Path) -> io::Result<Target> {
    let is_shared = is_shared(path);
    // Replaces a link's target, but in a world-writable directory the link itself.
    let target = if is_shared { path.to_owned() } else { path.canonicalize().unwrap_or_else(|_| path.to_owned()) };
    match std::fs::symlink_metadata(&target) {
        Ok(facts) if is_shared && (facts.is_file() || facts.is_symlink()) => {}
        Ok(facts) if facts.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
        Ok(facts) if !facts.is_file() => {
            // Opening a pipe without a reader fails (ENXIO) instead of blocking.
            let flags = OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW;
            let file = OpenOptions::new()
                .write(true)
                .custom_flags(flags.bits().cast_signed())
                .open(&target)
                .map_err(no_reader)?;
            if file.metadata()?.is_file() {
                return Err(io::Error::other("the device or pipe was replaced by a regular file in the meantime"));
            }
            fcntl_setfl(&file, OFlags::empty())?;
            return Ok(Target::Stream(file));
        }
        _ => {}
    }
    let name = target.file_name().ok_or(io::ErrorKind::IsADirectory)?.to_owned();
    // Fails for a missing directory: it may be mistyped.
    std::fs::metadata(directory_of(&target))?;
    Ok(Target::File(name, draft_beside(&target)?))
}

fn is_shared(path: &Path) -> bool {
    std::fs::metadata(directory_of(path)).is_ok_and(|facts| facts.mode() & 0o002 != 0)
}

fn no_reader(error: io::Error) -> io::Error {
    match Errno::from_io_error(&error) {
        Some(Errno::NXIO) => io::Error::new(io::ErrorKind::BrokenPipe, "no process reads from this pipe"),
        _ => error,
    }
}

// ---- parquet ----

#[allow(missing_debug_implementations)]
pub struct ParquetRows<W: Write + Send> {
    writer: SerializedFileWriter<W>,
}

impl<W: Write + Send> ParquetRows<W> {
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
