//! Writing a film while it is recorded: a row group at a time, into a file that has no name yet.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::data_type::{ByteArrayType, Int64Type};
use parquet::errors::Result as ParquetResult;
use parquet::file::properties::WriterPropertiesBuilder;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};

use super::ROWS_PER_GROUP;
use super::columns::{Columns, RelationTexts, film_properties, schema};
use super::header::{FilmHeader, Totals, encode};
use crate::cache::sealed_file::{GroupWriter, apply_checksum, as_io_error};
use crate::files::Draft;
use crate::trace::Error;
use crate::trace::event::{Event, EventKind};

/// A film that is being recorded. Dropping it leaves nothing behind.
pub struct FilmWriter {
    draft: Draft,
    /// What messages call it.
    path: PathBuf,
    writer: SerializedFileWriter<File>,
    columns: Columns,
    /// The texts of the relation of the last event.
    texts: Option<RelationTexts>,
    recorder_pid: u32,
    totals: Totals,
    /// Those that the job asked for something of, in that order.
    databases: Vec<String>,
}

impl std::fmt::Debug for FilmWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FilmWriter").field("draft", &self.draft).field("totals", &self.totals).finish_non_exhaustive()
    }
}

impl FilmWriter {
    /// Begins a film in `draft`, recorded by this process; `path` is what messages call it.
    pub fn begin(draft: Draft, path: &Path) -> Result<FilmWriter, Error> {
        let properties = film_properties().map_err(|error| Error::file("write", path, as_io_error(error)))?;
        FilmWriter::begin_as(draft, path, properties)
    }

    /// The same, written in this way.
    pub(super) fn begin_as(
        draft: Draft,
        path: &Path,
        properties: WriterPropertiesBuilder,
    ) -> Result<FilmWriter, Error> {
        let failed = |error| Error::file("write", path, as_io_error(error));
        let file = draft.file().try_clone().map_err(|error| Error::file("write", path, error))?;
        let properties = Arc::new(properties.build());
        let writer = SerializedFileWriter::new(file, schema().map_err(failed)?, properties).map_err(failed)?;
        let (columns, path, recorder_pid) = (Columns::default(), path.to_owned(), std::process::id());
        Ok(FilmWriter {
            draft,
            path,
            writer,
            columns,
            texts: None,
            recorder_pid,
            totals: Totals::default(),
            databases: Vec::new(),
        })
    }

    /// What was written so far.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Adds an event. Those of one relation had better be neighbours.
    pub fn push(&mut self, event: &Event) -> Result<(), Error> {
        let texts = self.texts.take().filter(|texts| texts.are_of(&event.relation));
        let texts = texts.unwrap_or_else(|| RelationTexts::new(&event.relation));
        self.columns.push(event, &texts);
        self.add_database(event);
        self.texts = Some(texts);
        self.totals.add(event, self.recorder_pid);
        if self.columns.len() == ROWS_PER_GROUP {
            self.write_group()?;
        }
        Ok(())
    }

    fn add_database(&mut self, event: &Event) {
        let database = &event.relation.name.database;
        if event.kind != EventKind::Buffers && !database.is_empty() && !self.databases.contains(database) {
            self.databases.push(database.clone());
        }
    }

    fn write_group(&mut self) -> Result<(), Error> {
        let columns = std::mem::take(&mut self.columns);
        let written = self.writer.next_row_group().and_then(|group| write_group(group, &columns));
        written.map_err(|error| Error::file("write", &self.path, as_io_error(error)))
    }

    /// Ends the film, which says of itself what `header` says, but for its totals and who recorded it. The file is ready to be placed.
    pub fn finish(mut self, header: &FilmHeader) -> Result<(Draft, FilmHeader), Error> {
        if self.columns.len() > 0 {
            self.write_group()?;
        }
        let (totals, recorder_pid, databases) = (self.totals, self.recorder_pid, Some(self.databases));
        let header = FilmHeader { totals, recorder_pid, databases, ..header.clone() };
        encode(&header).into_iter().for_each(|pair| self.writer.append_key_value_metadata(pair));
        self.writer.close().map_err(|error| Error::file("write", &self.path, as_io_error(error)))?;
        apply_checksum(self.draft.file()).map_err(|flaw| Error::of_flaw(flaw, &self.path))?;
        Ok((self.draft, header))
    }
}

/// Writes the columns in the schema's order.
fn write_group(group: SerializedRowGroupWriter<'_, File>, columns: &Columns) -> ParquetResult<()> {
    let mut group = GroupWriter::new(group);
    group.put::<Int64Type>(&columns.time_us)?;
    group.put::<ByteArrayType>(&columns.database)?;
    group.put::<ByteArrayType>(&columns.schema)?;
    group.put::<ByteArrayType>(&columns.name)?;
    group.put::<ByteArrayType>(&columns.path)?;
    group.put::<Int64Type>(&columns.relfilenumber)?;
    group.put::<ByteArrayType>(&columns.fork)?;
    group.put::<Int64Type>(&columns.first_block)?;
    group.put::<Int64Type>(&columns.blocks)?;
    group.put::<ByteArrayType>(&columns.kind)?;
    group.put::<Int64Type>(&columns.pid)?;
    group.put::<Int64Type>(&columns.job_bytes)?;
    group.close()
}
