//! The film's file: one Parquet file, a row per event, zstd, with a checksum inside. docs/formats.md has the columns and the metadata.
//! It is written and read row group after row group, so that neither takes memory for all of it. What is read is untrusted: each value is
//! checked.

use std::collections::HashSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parquet::basic::Encoding;
use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::errors::Result as ParquetResult;
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::properties::WriterPropertiesBuilder;
use parquet::file::reader::ChunkReader;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{ColumnPath, TypePtr};

use super::error::Error;
use super::film::{Event, EventKind, FilmHeader, FilmRelation, Totals, decode, decode_verified, encode};
use crate::sealed_file::{
    Flaw, GroupReader, GroupWriter, Kind, PageLimits, Sealed, apply_checksum, as_io_error, build_schema, open_written,
    properties,
};
use host::files::Draft;
use host::units::{BlockRange, Bytes, Fork};
use postgres::{RelationName, RelationPath};

/// A row group ends at this many rows: some 30 MB in memory, and 10⁹ events have a footer of some 8 MB.
const ROWS_PER_GROUP: usize = 131_072;

/// The columns in the file's order, each with its type.
const COLUMNS: [(&str, Kind); 12] = [
    ("time_us", Kind::Long),
    ("database", Kind::Text),
    ("schema", Kind::Text),
    ("name", Kind::Text),
    ("path", Kind::Text),
    ("relfilenumber", Kind::Long),
    ("fork", Kind::Text),
    ("first_block", Kind::Long),
    ("blocks", Kind::Long),
    ("kind", Kind::Text),
    ("pid", Kind::Long),
    ("job_bytes", Kind::Long),
];

fn schema() -> ParquetResult<TypePtr> {
    build_schema("film", &COLUMNS)
}

/// Columns that are kept as their differences: times and bytes only grow, and by little, and a block is often near the one before. Of their
/// eight bytes zstd would keep half as much again (docs/films.md).
const DIFFERENCES: [&str; 3] = ["time_us", "first_block", "job_bytes"];

fn film_properties() -> ParquetResult<WriterPropertiesBuilder> {
    Ok(DIFFERENCES.iter().fold(properties()?, |properties, name| {
        properties.set_column_encoding(ColumnPath::from(*name), Encoding::DELTA_BINARY_PACKED)
    }))
}

/// Rows of one row group, split into columns: what the Parquet writer takes and the reader gives.
#[derive(Debug, Default)]
struct Columns {
    pub time_us: Vec<i64>,
    pub database: Vec<ByteArray>,
    pub schema: Vec<ByteArray>,
    pub name: Vec<ByteArray>,
    pub path: Vec<ByteArray>,
    pub relfilenumber: Vec<i64>,
    pub fork: Vec<ByteArray>,
    pub first_block: Vec<i64>,
    pub blocks: Vec<i64>,
    pub kind: Vec<ByteArray>,
    pub pid: Vec<i64>,
    pub job_bytes: Vec<i64>,
}

/// A relation's texts, which its rows share.
#[derive(Debug)]
struct RelationTexts {
    relation: Arc<FilmRelation>,
    texts: [ByteArray; 4],
}

impl RelationTexts {
    pub fn new(relation: &Arc<FilmRelation>) -> RelationTexts {
        let name = &relation.name;
        let path = relation.path.to_string();
        let texts = [&*name.database, &*name.schema, &*name.name, &*path].map(ByteArray::from);
        RelationTexts { relation: Arc::clone(relation), texts }
    }

    pub fn are_of(&self, relation: &Arc<FilmRelation>) -> bool {
        Arc::ptr_eq(&self.relation, relation)
    }
}

impl Columns {
    /// Adds an event of the relation whose texts these are.
    pub fn push(&mut self, event: &Event, relation: &RelationTexts) {
        let [database, schema, name, path] = relation.texts.clone();
        self.time_us.push(event.time.as_micros() as i64);
        self.database.push(database);
        self.schema.push(schema);
        self.name.push(name);
        self.path.push(path);
        self.relfilenumber.push(relation.relation.path.relfilenumber().into());
        self.fork.push(ByteArray::from(event.fork.name()));
        self.first_block.push(event.blocks.start as i64);
        self.blocks.push(event.blocks.blocks() as i64);
        self.kind.push(ByteArray::from(event.kind.name()));
        self.pid.push(event.pid.into());
        self.job_bytes.push(event.job_bytes.0 as i64);
    }

    pub fn len(&self) -> usize {
        self.time_us.len()
    }
}

/// A film that is being recorded. Dropping it leaves nothing behind.
pub struct FilmWriter {
    draft: Draft,
    path: PathBuf,
    writer: SerializedFileWriter<File>,
    columns: Columns,
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
        let failed = |error| Error::file("write", path, as_io_error(error));
        let file = draft.file().try_clone().map_err(|error| Error::file("write", path, error))?;
        let properties = Arc::new(film_properties().map_err(failed)?.build());
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
        let (totals, recorder_pid, databases) = (self.totals, self.recorder_pid, self.databases);
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

/// A name has at most 63 bytes, a path fewer than 100.
const PAGE_LIMITS: PageLimits = PageLimits { row_bytes: 128, last_page_bytes: None };

/// More relations than any cluster has that a film is worth recording on; a few hundred bytes of memory each.
const RELATIONS_MAX: usize = 1 << 18;

/// PostgreSQL's MaxBlockNumber is 2³² − 2.
const BLOCKS_MAX: u64 = u32::MAX as u64;

/// A film's file that matches its checksum. Its events are read when they are asked for.
#[derive(Debug)]
pub struct Film<S> {
    source: Arc<S>,
    path: PathBuf,
    sealed: Sealed,
    header: FilmHeader,
}

impl FilmHeader {
    /// Reads what a film's footer says of it, and nothing else: the file may be damaged.
    pub fn read_unverified(path: &Path) -> Result<FilmHeader, Error> {
        let header = open_written(path).and_then(|file| decode(&Sealed::read_unverified(&file)?));
        header.map_err(|flaw| Error::of_flaw(flaw, path))
    }
}

impl Film<File> {
    /// Opens a file and compares it with its checksum.
    pub fn open(path: &Path) -> Result<Film<File>, Error> {
        Film::new(open_written(path).map_err(|flaw| Error::of_flaw(flaw, path))?, path)
    }
}

impl<S: ChunkReader + 'static> Film<S> {
    /// A film in what is open already, or in memory; `path` is what errors call it.
    pub fn new(source: S, path: &Path) -> Result<Film<S>, Error> {
        let opened = Sealed::read(&source).and_then(|sealed| {
            let header = decode_verified(&sealed)?;
            let described = |error| Flaw::Failed { action: "describe", source: std::io::Error::other(error) };
            let rows = sealed.check_shape(&*schema().map_err(described)?, ROWS_PER_GROUP, "film")?;
            match rows == header.totals.events {
                true => Ok((sealed, header)),
                false => Err(not_its_totals()),
            }
        });
        let (sealed, header) = opened.map_err(|flaw| Error::of_flaw(flaw, path))?;
        Ok(Film { source: Arc::new(source), path: path.to_owned(), sealed, header })
    }

    pub fn header(&self) -> &FilmHeader {
        &self.header
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Passes every event to `visit`, in order, with memory for one row group at a time.
    ///
    /// # Errors
    /// When a value makes no sense, or the totals are not those of the header: what was visited by then is not to be trusted either.
    pub fn visit(&self, mut visit: impl FnMut(Event)) -> Result<(), Error> {
        self.visit_checked(&mut visit).map_err(|flaw| Error::of_flaw(flaw, &self.path))
    }

    fn visit_checked(&self, visit: &mut dyn FnMut(Event)) -> Result<(), Flaw> {
        let (mut decoder, mut totals) = (Decoder::default(), Totals::default());
        for group in self.sealed.parquet.row_groups() {
            let columns = self.read_group(group).map_err(Flaw::Contradiction)?;
            for row in 0..columns.len() {
                let event = decoder.decode(&columns, row);
                let event = event.map_err(|reason| Flaw::Contradiction(format!("row {}: {reason}", totals.events)))?;
                totals.add(&event, self.header.recorder_pid);
                visit(event);
            }
        }
        if totals == self.header.totals { Ok(()) } else { Err(not_its_totals()) }
    }

    #[cfg(test)]
    pub fn sealed_groups(&self) -> usize {
        self.sealed.parquet.num_row_groups()
    }

    fn read_group(&self, group: &RowGroupMetaData) -> Result<Columns, String> {
        let mut group = GroupReader::new(Arc::clone(&self.source), group, group.num_rows() as usize, PAGE_LIMITS);
        Ok(Columns {
            time_us: group.take_deltas()?,
            database: group.take_bytes()?,
            schema: group.take_bytes()?,
            name: group.take_bytes()?,
            path: group.take_bytes()?,
            relfilenumber: group.take_longs()?,
            fork: group.take_bytes()?,
            first_block: group.take_deltas()?,
            blocks: group.take_longs()?,
            kind: group.take_bytes()?,
            pid: group.take_longs()?,
            job_bytes: group.take_deltas()?,
        })
    }
}

fn not_its_totals() -> Flaw {
    Flaw::Contradiction("its rows do not add up to the totals of its metadata".to_owned())
}

/// Makes events of rows. Rows of one relation share what is said of it.
#[derive(Default)]
struct Decoder {
    relations: HashSet<Arc<FilmRelation>>,
    last: Option<([ByteArray; 4], Arc<FilmRelation>)>,
}

impl Decoder {
    fn decode(&mut self, columns: &Columns, row: usize) -> Result<Event, String> {
        let relation = self.relation(columns, row)?;
        if columns.relfilenumber[row] != i64::from(relation.path.relfilenumber()) {
            return Err(format!("relfilenumber {} is not that of {}", columns.relfilenumber[row], relation.path));
        }
        let (first, blocks) = (columns.first_block[row], columns.blocks[row]);
        let end = first.checked_add(blocks).filter(|_| first >= 0 && blocks > 0);
        let end = end.map(|end| end as u64).filter(|end| *end <= BLOCKS_MAX);
        let end = end.ok_or_else(|| format!("no relation has {blocks} blocks from {first}"))?;
        let not_negative = |what, value: i64| u64::try_from(value).map_err(|_| format!("{value} is no {what}"));
        Ok(Event {
            time: Duration::from_micros(not_negative("time", columns.time_us[row])?),
            relation,
            fork: decode_word(&columns.fork[row], "fork", Fork::from_name)?,
            blocks: BlockRange::new(first as u64, end),
            kind: decode_word(&columns.kind[row], "kind", EventKind::from_name)?,
            pid: u32::try_from(columns.pid[row]).map_err(|_| format!("{} is no pid", columns.pid[row]))?,
            job_bytes: Bytes(not_negative("number of bytes", columns.job_bytes[row])?),
        })
    }

    fn relation(&mut self, columns: &Columns, row: usize) -> Result<Arc<FilmRelation>, String> {
        let texts = [&columns.database[row], &columns.schema[row], &columns.name[row], &columns.path[row]];
        if let Some((last, relation)) = &self.last
            && last.iter().eq(texts)
        {
            return Ok(Arc::clone(relation));
        }
        let [database, schema, name, path] = texts.map(|value| text(value).map(str::to_owned));
        let name = RelationName { database: database?, schema: schema?, name: name? };
        let path: RelationPath = path?.parse().map_err(|error| format!("{error}"))?;
        let relation = FilmRelation { name, path };
        let relation = match self.relations.get(&relation) {
            Some(known) => Arc::clone(known),
            None if self.relations.len() == RELATIONS_MAX => {
                return Err(format!("it has more than {RELATIONS_MAX} relations"));
            }
            None => {
                let relation = Arc::new(relation);
                self.relations.insert(Arc::clone(&relation));
                relation
            }
        };
        // Copied: a slice would keep the page.
        let own = texts.map(|value| ByteArray::from(value.data().to_vec()));
        self.last = Some((own, Arc::clone(&relation)));
        Ok(relation)
    }
}

fn text(value: &ByteArray) -> Result<&str, String> {
    value.as_utf8().map_err(|_| "a text is not UTF-8".to_owned())
}

fn decode_word<T>(value: &ByteArray, what: &str, known: impl Fn(&str) -> Option<T>) -> Result<T, String> {
    let word = text(value)?;
    known(word).ok_or_else(|| format!("{word:?} is no {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File};
    use std::os::unix::fs::FileExt as _;
    use std::path::{Path, PathBuf};
    use std::sync::Arc;

    use bytes::Bytes as Memory;

    use crate::fixtures::map_of;
    use crate::sealed_file::mend;
    use crate::trace::error::Error;
    use crate::trace::film::{FilmHeader, Totals};
    use crate::trace::fixtures::{self, film_relation as relation};
    use crate::trace::{Event, EventKind, FilmRelation};
    use host::units::Bytes;

    fn event(millisecond: u64, relation: &Arc<FilmRelation>, first: u64, blocks: u64, kind: EventKind) -> Event {
        let job_bytes = Bytes(millisecond * 8192);
        Event { job_bytes, ..fixtures::event(millisecond, relation, first..first + blocks, kind) }
    }

    /// A file of these events.
    fn written(directory: &Path, events: impl Iterator<Item = Event>) -> PathBuf {
        let path = directory.join("film.parquet");
        let writer = fixtures::writer(&path);
        fixtures::place(fixtures::record(writer, &FilmHeader::for_tests(), events).draft, &path);
        path
    }

    fn read(path: &Path) -> Result<Vec<Event>, Error> {
        let film = Film::open(path)?;
        let mut events = Vec::new();
        film.visit(|event| events.push(event)).map(|()| events)
    }

    #[test]
    fn a_film_is_read_as_it_was_written() {
        let directory = tempfile::tempdir().unwrap();
        let (one, two) = (relation(1), relation(2));
        let own = Event { pid: std::process::id(), ..event(9, &two, 0, 2, EventKind::Fetched) };
        let events = vec![
            event(0, &two, 7, 1, EventKind::Buffers),
            event(1, &one, 4_294_967_294, 1, EventKind::Fetched),
            event(2, &two, 7, 100, EventKind::Requested),
            event(3, &one, 0, 5, EventKind::Fetched),
            own,
            event(9, &two, 7, 3, EventKind::Again),
        ];
        let path = written(directory.path(), events.clone().into_iter());
        assert_eq!(read(&path).unwrap(), events);
        let totals = Totals {
            events: 6,
            fetched_blocks: 6,
            requested_blocks: 100,
            again_blocks: 3,
            preloaded_blocks: 2,
            buffers_blocks: 1,
        };
        let databases = vec![one.name.database.clone()];
        let expected = FilmHeader { totals, databases, recorder_pid: std::process::id(), ..FilmHeader::for_tests() };
        assert_eq!(*Film::open(&path).unwrap().header(), expected);
        assert_eq!(FilmHeader::read_unverified(&path).unwrap(), expected);
    }

    #[test]
    fn a_film_with_holes_is_not_even_listed() {
        let directory = tempfile::tempdir().unwrap();
        let path = written(directory.path(), std::iter::empty());
        let film = fs::read(&path).unwrap();
        // A footer that is whole behind what was never written.
        let file = File::create(&path).unwrap();
        file.set_len(1 << 20).unwrap();
        file.write_all_at(&film, 1 << 20).unwrap();
        for read in [FilmHeader::read_unverified(&path).map(drop), Film::open(&path).map(drop)] {
            assert!(read.unwrap_err().to_string().contains("holes"));
        }
    }

    #[test]
    fn a_long_film_has_several_groups_and_an_empty_one_none() {
        let directory = tempfile::tempdir().unwrap();
        let one = relation(1);
        let count = ROWS_PER_GROUP as u64 * 2 + 3;
        let path = written(directory.path(), (0..count).map(|at| event(at / 100, &one, at, 1, EventKind::Fetched)));
        let film = Film::open(&path).unwrap();
        let mut next = 0;
        film.visit(|event| {
            assert_eq!(event.blocks.start, next);
            next += 1;
        })
        .unwrap();
        assert_eq!(next, count);
        assert_eq!(film.sealed_groups(), 3);
        let file_bytes = fs::metadata(&path).unwrap().len();
        assert!(file_bytes < count * 4, "{file_bytes} bytes for {count} events");
        fs::remove_file(&path).unwrap();
        assert_eq!(read(&written(directory.path(), std::iter::empty())).unwrap(), []);
    }

    #[test]
    fn a_touch_in_no_order_takes_four_bytes_at_most() {
        let directory = tempfile::tempdir().unwrap();
        let one = relation(1);
        // As an index leads through a table: four in a millisecond, each somewhere else.
        let events: Vec<Event> = (0..60_000_u64)
            .map(|at| Event {
                job_bytes: Bytes(at * 8192),
                ..event(at / 4, &one, at * 2_654_435_761 % 60_013, 1, EventKind::Fetched)
            })
            .collect();
        let bytes_of = |path: &Path| fs::metadata(path).unwrap().len();
        let path = written(directory.path(), events.iter().cloned());
        let bytes = bytes_of(&path);
        assert!(bytes < 4 * events.len() as u64, "{bytes} bytes");
        assert_eq!(read(&path).unwrap(), events);
    }

    #[test]
    fn numbers_of_any_size_are_read_as_they_were_written() {
        let directory = tempfile::tempdir().unwrap();
        let one = relation(1);
        let sizes = [0, 1, u64::MAX >> 1, 7, 1 << 62, 12_345, 3];
        let events: Vec<Event> = (0..1000)
            .map(|at| Event {
                job_bytes: Bytes(sizes[at % sizes.len()]),
                pid: if at % 3 == 0 { u32::MAX } else { at as u32 },
                ..event(
                    (at as u64 * 7919) % 1000,
                    &one,
                    4_294_967_294 - (at as u64 % 2) * 4_294_967_000,
                    1,
                    EventKind::Again,
                )
            })
            .collect();
        // Blocks of differences that are full and those that are not.
        for count in [1, 2, 65, 256, 257, 258, 1000] {
            let path = written(directory.path(), events[..count].iter().cloned());
            assert_eq!(read(&path).unwrap(), events[..count], "{count}");
            fs::remove_file(&path).unwrap();
        }
    }

    #[test]
    fn what_is_cut_off_or_changed_is_told_from_a_film() {
        let directory = tempfile::tempdir().unwrap();
        let path = written(directory.path(), (0..100).map(|at| event(at, &relation(1), at, 1, EventKind::Fetched)));
        let whole = fs::read(&path).unwrap();
        for (bytes, said) in [
            (&whole[..whole.len() / 2], "it was cut off, or changed"),
            (&whole[..0], "it is empty"),
            (&b"select 1; select 2;"[..], "not a Parquet file"),
        ] {
            fs::write(&path, bytes).unwrap();
            let error = read(&path).unwrap_err().to_string();
            assert!(error.contains(said) && error.contains("film.parquet"), "{error}");
        }
        // Wherever a byte is another one, it is found out before anything is believed.
        for at in (4..whole.len() - 8).step_by(97) {
            let mut changed = whole.clone();
            changed[at] ^= 0x20;
            assert!(Film::new(Memory::from(changed), &path).is_err(), "byte {at}");
        }
    }

    #[test]
    fn what_was_made_to_do_harm_gets_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let path = written(directory.path(), (0..100).map(|at| event(at, &relation(1), at, 1, EventKind::Fetched)));
        let whole = fs::read(&path).unwrap();
        // With its checksum put right, whatever stands there is an error or a film, and neither a panic nor the machine's memory.
        let mut refused = 0;
        for at in 4..whole.len() - 8 {
            let mut changed = whole.clone();
            changed[at] = changed[at].wrapping_add(1);
            let film = Film::new(Memory::from(mend(&changed)), &path);
            refused += usize::from(film.and_then(|film| film.visit(drop)).is_err());
        }
        assert!(refused > 100, "{refused} of {}", whole.len());
    }

    #[test]
    fn a_snapshot_is_no_film() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("snapshot.parquet");
        crate::Snapshot::new(map_of(Vec::new()), None).write(&path).unwrap();
        let error = read(&path).unwrap_err();
        assert!(matches!(error, Error::NotAFilm { .. }), "{error}");
    }
}
