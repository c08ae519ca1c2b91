//! Reading a film: the footer, the checksum, then row group after row group, each value checked. The file is untrusted.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parquet::data_type::ByteArray;
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::reader::ChunkReader;

use super::ROWS_PER_GROUP;
use super::columns::{Columns, schema};
use super::header::{FilmHeader, Totals, decode, decode_verified};
use crate::cache::sealed_file::{Flaw, GroupReader, PageLimits, Sealed, open_written};
use crate::postgres::{RelationName, RelationPath};
use crate::trace::Error;
use crate::trace::event::{Event, EventKind, FilmRelation};
use crate::units::{BlockRange, Bytes, Fork};

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

impl Film<std::fs::File> {
    /// Opens a file and compares it with its checksum.
    pub fn open(path: &Path) -> Result<Film<std::fs::File>, Error> {
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

    /// Tells `visit` every event in order. Takes memory for one row group at a time.
    ///
    /// # Errors
    /// When a value makes no sense, or the totals are not those of the header: what was visited by then is not to be trusted either.
    pub fn visit(&self, mut visit: impl FnMut(Event)) -> Result<(), Error> {
        self.events().try_for_each(|event| event.map(&mut visit))
    }

    /// Every event in order, with memory for one row group at a time. The last may be an error, as of [`Film::visit`].
    pub fn events(&self) -> FilmEvents<'_, S> {
        FilmEvents {
            film: self,
            group: 0,
            columns: Columns::default(),
            row: 0,
            decoder: Decoder::default(),
            totals: Totals::default(),
            is_done: false,
        }
    }

    #[cfg(test)]
    pub fn sealed_groups(&self) -> usize {
        self.sealed.parquet.num_row_groups()
    }

    fn read_group(&self, group: &RowGroupMetaData) -> Result<Columns, String> {
        let mut group = GroupReader::new(Arc::clone(&self.source), group, group.num_rows() as usize, PAGE_LIMITS);
        Ok(Columns {
            time_us: group.take_longs_or_deltas()?,
            database: group.take_bytes()?,
            schema: group.take_bytes()?,
            name: group.take_bytes()?,
            path: group.take_bytes()?,
            relfilenumber: group.take_longs()?,
            fork: group.take_bytes()?,
            first_block: group.take_longs_or_deltas()?,
            blocks: group.take_longs()?,
            kind: group.take_bytes()?,
            pid: group.take_longs()?,
            job_bytes: group.take_longs_or_deltas()?,
        })
    }
}

/// The events of a film, one after the other.
pub struct FilmEvents<'a, S> {
    film: &'a Film<S>,
    /// The group that is read next.
    group: usize,
    columns: Columns,
    row: usize,
    decoder: Decoder,
    totals: Totals,
    is_done: bool,
}

impl<S> std::fmt::Debug for FilmEvents<'_, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FilmEvents").field("path", &self.film.path).field("group", &self.group).finish_non_exhaustive()
    }
}

impl<S: ChunkReader + 'static> FilmEvents<'_, S> {
    fn read_next(&mut self) -> Result<Option<Event>, Flaw> {
        while self.row == self.columns.len() {
            let Some(group) = self.film.sealed.parquet.row_groups().get(self.group) else {
                return match self.totals == self.film.header.totals {
                    true => Ok(None),
                    false => Err(not_its_totals()),
                };
            };
            self.columns = self.film.read_group(group).map_err(Flaw::Contradiction)?;
            (self.group, self.row) = (self.group + 1, 0);
        }
        let event = self.decoder.decode(&self.columns, self.row);
        let event = event.map_err(|reason| Flaw::Contradiction(format!("row {}: {reason}", self.totals.events)))?;
        self.row += 1;
        self.totals.add(&event, self.film.header.recorder_pid);
        Ok(Some(event))
    }
}

impl<S: ChunkReader + 'static> Iterator for FilmEvents<'_, S> {
    type Item = Result<Event, Error>;

    fn next(&mut self) -> Option<Result<Event, Error>> {
        if self.is_done {
            return None;
        }
        let event = self.read_next().map_err(|flaw| Error::of_flaw(flaw, &self.film.path)).transpose();
        self.is_done = !matches!(event, Some(Ok(_)));
        event
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
