//! Writing: to a temporary name beside the file, made durable, then renamed.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use parquet::data_type::{BoolType, ByteArrayType, Int32Type, Int64Type};
use parquet::errors::Result as ParquetResult;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};

use super::columns::{Columns, schema};
use super::row::{Row, rows_of};
use super::{BITMAP_BYTES_PER_GROUP, ROWS_PER_GROUP, header};
use crate::sealed_file::{DRAFT_PREFIX, GroupWriter, apply_checksum, as_io_error, properties};
use crate::{Error, Snapshot};
use host::files::{Directory, Draft, FILE_MODE, as_owner_of, directory_of, remove_abandoned_drafts};

impl Snapshot {
    /// Writes the file at `path`, which must not exist yet, whole or not at all.
    pub fn write(&self, path: &Path) -> Result<(), Error> {
        self.write_with(path, |draft, name| draft.place_new(name))
    }

    /// Writes the file at `path`, in place of what is there, whole or not at all.
    pub fn replace(&self, path: &Path) -> Result<(), Error> {
        self.write_with(path, |draft, name| draft.place(name))
    }

    fn write_with(&self, path: &Path, place: impl FnOnce(Draft, &OsStr) -> io::Result<()> + Send) -> Result<(), Error> {
        as_owner_of(path, || {
            let parent = directory_of(path);
            let directory = Directory::open(parent).map_err(|source| Error::file("open", parent, source))?;
            let name =
                path.file_name().ok_or_else(|| Error::file("write", path, io::ErrorKind::IsADirectory.into()))?;
            // What a killed take left would stay for ever where none is kept.
            let _ = remove_abandoned_drafts(&directory, DRAFT_PREFIX);
            place(write_draft(self, directory, path)?, name).map_err(|error| match error.kind() {
                io::ErrorKind::AlreadyExists => Error::Exists(path.to_owned()),
                _ => Error::file("write", path, error),
            })
        })
        .unwrap_or_else(|source| Err(Error::file("act as the owner of", path, source)))
    }
}

/// Writes a file that has no name yet; `path` is what messages call it.
pub fn write_draft(snapshot: &Snapshot, directory: Directory, path: &Path) -> Result<Draft, Error> {
    let place = directory.path().to_owned();
    let draft = Draft::create(directory, DRAFT_PREFIX, FILE_MODE);
    let draft = draft.map_err(|source| Error::file("create a file in", &place, source))?;
    write_rows(snapshot, draft.file()).map_err(|error| Error::file("write", path, as_io_error(error)))?;
    apply_checksum(draft.file()).map_err(|flaw| flaw.of_snapshot(path))?;
    Ok(draft)
}

/// Writes a Parquet file whose checksum is still all zeros.
pub fn write_rows(snapshot: &Snapshot, file: &File) -> ParquetResult<()> {
    let properties = properties()?.set_key_value_metadata(Some(header::encode(&snapshot.header()))).build();
    let mut writer = SerializedFileWriter::new(file, schema()?, Arc::new(properties))?;
    let mut columns = Columns::default();
    let mut bitmap_bytes = 0;
    for row in snapshot.map.relations.iter().flat_map(rows_of) {
        let bitmap = encode_bitmap(&row)?;
        bitmap_bytes += bitmap.len();
        columns.push(&row, bitmap);
        if columns.len() == ROWS_PER_GROUP || bitmap_bytes >= BITMAP_BYTES_PER_GROUP {
            write_group(writer.next_row_group()?, &std::mem::take(&mut columns))?;
            bitmap_bytes = 0;
        }
    }
    if columns.len() > 0 {
        write_group(writer.next_row_group()?, &columns)?;
    }
    writer.close().map(|_| ())
}

fn encode_bitmap(row: &Row<'_>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(row.bitmap.serialized_size());
    row.bitmap.serialize_into(&mut bytes)?;
    Ok(bytes)
}

/// Writes the columns in the schema's order.
pub fn write_group<W: Write + Send>(group: SerializedRowGroupWriter<'_, W>, columns: &Columns) -> ParquetResult<()> {
    let mut group = GroupWriter::new(group);
    group.put::<ByteArrayType>(&columns.database)?;
    group.put::<ByteArrayType>(&columns.schema)?;
    group.put::<ByteArrayType>(&columns.name)?;
    group.put::<ByteArrayType>(&columns.kind)?;
    group.put::<Int64Type>(&columns.oid)?;
    group.put::<ByteArrayType>(&columns.parent)?;
    group.put::<ByteArrayType>(&columns.path)?;
    group.put::<Int64Type>(&columns.relfilenumber)?;
    group.put::<ByteArrayType>(&columns.tablespace)?;
    group.put::<BoolType>(&columns.is_system)?;
    group.put::<ByteArrayType>(&columns.fork)?;
    group.put::<Int64Type>(&columns.relation_blocks)?;
    group.put::<ByteArrayType>(&columns.tier)?;
    group.put::<Int32Type>(&columns.heat)?;
    group.put::<Int64Type>(&columns.blocks)?;
    group.put::<ByteArrayType>(&columns.bitmap)?;
    group.close()
}
