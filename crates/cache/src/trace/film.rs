//! A film (the block requests of a job) and its Parquet file (docs/formats.md). The file is written and read by row
//! group to limit memory.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parquet::data_type::ByteArray;
use parquet::file::metadata::KeyValue;
use parquet::file::reader::ChunkReader;
use parquet::file::writer::SerializedFileWriter;
use serde::{Deserialize, Serialize};

use super::error::Error;
use crate::MapSource;
use crate::sealed_file::{
    self, Flaw, GroupReader, Kind, PageLimits, Sealed, apply_checksum, as_io_error, build_schema, decode_word,
    encode_pairs, encode_source, open_written, properties,
};
use host::files::Draft;
use host::units::{BlockRange, Bytes, Fork};
use postgres::{Relation, RelationName, RelationPath, keep_text};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, strum::EnumString, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum EventKind {
    /// Requested blocks that pgthaw had loaded, or that were cached before the recording.
    Requested,
    /// Blocks requested again; recorded only for a sample chosen by a hash.
    Again,
    /// Blocks loaded into the page cache. If requests are visible, only requested or preloaded blocks.
    Fetched,
    /// Blocks in shared_buffers before the job; whether it used them is unknown.
    Buffers,
}

host::named!(EventKind);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, crate::JsonSchema)]
pub struct FilmRelation {
    #[serde(flatten)]
    pub name: RelationName,
    pub path: RelationPath,
}

impl FilmRelation {
    pub fn of(relation: &Relation) -> Arc<FilmRelation> {
        Arc::new(FilmRelation { name: relation.name.clone(), path: relation.path.clone() })
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    pub time: Duration,
    pub relation: Arc<FilmRelation>,
    pub fork: Fork,
    pub blocks: BlockRange,
    pub kind: EventKind,
    /// Process that requested or fetched the blocks; 0 if unknown.
    pub pid: u32,
    /// Bytes that the job had requested, including these blocks; fetched bytes if requests are not visible.
    pub job_bytes: Bytes,
}

pub const FORMAT_VERSION: u32 = 1;

const FORMAT: &str = "pgthaw.film_format_version";

const HEADER: &str = "pgthaw.film";

/// If a larger share of the needed blocks was preloaded, the run time is not that of the job alone.
const PRELOADED_SHARE_MAX: f64 = 0.1;

/// If a smaller share of the needed blocks was fetched, a film does not show how the job fetches.
const FETCHED_SHARE_MIN: f64 = 0.5;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct FilmHeader {
    /// Value of `--label`.
    pub label: Option<String>,
    pub recorded_at: Timestamp,
    /// Stored under separate metadata keys.
    #[serde(skip)]
    pub source: MapSource,
    /// The command without secrets; empty without a command.
    pub job: String,
    /// Description of the method that recorded the events.
    pub recorder: String,
    /// pid of pgthaw. Events that pgthaw caused have this pid.
    pub recorder_pid: u32,
    pub seconds: f64,
    /// Events lost because the kernel's buffer was full.
    pub lost_events: u64,
    /// The sample of blocks whose requests are all recorded. `None` if requests were not visible.
    pub sampling: Option<Sampled>,
    /// Cost of the BPF programs. `None` if the kernel does not count it.
    pub probe: Option<ProbeShare>,
    pub totals: Totals,
    /// Reads of the cluster's device, by all processes. `None` without a device.
    pub device_reads: Option<u64>,
    /// Bytes read from the cluster's device, by all processes. `None` without a device.
    pub device_bytes: Option<Bytes>,
    /// Bytes fetched for the job that had been fetched before. `None` if not counted.
    #[serde(rename = "fetched_again_bytes")]
    pub fetched_again: Option<Bytes>,
    /// Bytes requested from files by the job's sessions. If known, the events' `job_bytes` counts these bytes.
    pub requested_bytes: Option<Bytes>,
    /// Number of parallel workers; `None` if not counted.
    pub workers: Option<u64>,
    /// Databases in order of first use.
    pub databases: Vec<String>,
    pub remarks: Vec<String>,
    /// Not stored in the file.
    #[serde(skip)]
    pub job_seen: JobSeen,
    /// Processes attributed to the command without proof; also in the remarks.
    #[serde(skip)]
    pub guessed: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum JobSeen {
    /// The recording method cannot distinguish processes, or the film is not of a command.
    #[default]
    Unknown,
    Yes,
    /// The job was not seen; no process read anything.
    No,
    /// The job was not seen; the film has all reads of the cluster.
    Everybody,
}

#[derive(Debug)]
pub struct Recorded {
    pub draft: Draft,
    pub header: FilmHeader,
}

/// A sample of blocks whose requests are all recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
pub struct Sampled {
    /// The sample contains one of every 2^`shift` blocks.
    pub shift: u32,
    /// Number of adjacent blocks that the sample counts as one.
    pub unit_blocks: u32,
}

/// Cost of the BPF programs, by the kernel's count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
pub struct ProbeShare {
    pub runs: u64,
    /// Total run time.
    pub total_ns: u64,
}

/// Blocks of a film by kind of event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
pub struct Totals {
    pub events: u64,
    /// Blocks loaded into the page cache for the job, or for other processes during the job.
    pub fetched_blocks: u64,
    /// Requested blocks that were already cached.
    pub requested_blocks: u64,
    /// Blocks, of those in the sample, that were requested more than once.
    pub again_blocks: u64,
    /// Blocks loaded by pgthaw for the job.
    pub preloaded_blocks: u64,
    /// Blocks in shared_buffers at the start, perhaps not used by the job.
    pub buffers_blocks: u64,
}

impl Totals {
    pub fn add(&mut self, event: &Event, recorder_pid: u32) {
        self.events += 1;
        let sum = match event.kind {
            EventKind::Buffers => &mut self.buffers_blocks,
            EventKind::Fetched if event.pid == recorder_pid => &mut self.preloaded_blocks,
            EventKind::Fetched => &mut self.fetched_blocks,
            EventKind::Requested => &mut self.requested_blocks,
            EventKind::Again => &mut self.again_blocks,
        };
        *sum += event.blocks.blocks();
    }

    pub fn event_blocks(&self) -> u64 {
        let Totals { fetched_blocks, requested_blocks, again_blocks, preloaded_blocks, buffers_blocks, .. } = *self;
        let all = [fetched_blocks, requested_blocks, again_blocks, preloaded_blocks, buffers_blocks];
        all.into_iter().fold(0, u64::saturating_add)
    }

    pub fn wanted_blocks(&self) -> u64 {
        self.fetched_blocks + self.found_blocks()
    }

    /// The larger count, because blocks that were preloaded and then requested are in both counts.
    pub fn found_blocks(&self) -> u64 {
        self.preloaded_blocks.max(self.requested_blocks)
    }

    pub fn is_preloaded(&self) -> bool {
        self.preloaded_blocks as f64 > self.wanted_blocks() as f64 * PRELOADED_SHARE_MAX
    }

    pub fn is_fetched(&self) -> bool {
        self.fetched_blocks > 0 && self.fetched_blocks as f64 >= self.wanted_blocks() as f64 * FETCHED_SHARE_MIN
    }
}

impl FilmHeader {
    /// Reads only the footer.
    pub fn read_unverified(path: &Path) -> Result<FilmHeader, Error> {
        let header = open_written(path).and_then(|file| decode(&Sealed::read_unverified(&file)?));
        header.map_err(|flaw| Error::of_flaw(flaw, path))
    }

    /// True for blocks that pgthaw fetched, if requests are visible: such an event does not show that the job needs the
    /// blocks.
    pub fn is_brought(&self, event: &Event) -> bool {
        self.sampling.is_some() && event.kind == EventKind::Fetched && event.pid == self.recorder_pid
    }

    /// `None` if the film has only the database's oid, as without a server.
    pub fn first_database(&self) -> Option<&str> {
        let is_oid = |name: &str| name.bytes().all(|byte| byte.is_ascii_digit());
        self.databases.first().map(String::as_str).filter(|name| !is_oid(name))
    }

    pub fn bytes(&self, blocks: u64) -> Bytes {
        Bytes(blocks.saturating_mul(self.source.block_size.into()))
    }
}

fn encode(header: &FilmHeader) -> Result<Vec<KeyValue>, serde_json::Error> {
    let own = [(FORMAT, FORMAT_VERSION.to_string()), (HEADER, serde_json::to_string(header)?)];
    Ok(encode_pairs(own.into_iter().chain(encode_source(&header.source))))
}

fn decode(sealed: &Sealed) -> Result<FilmHeader, Flaw> {
    let metadata = sealed.metadata(FORMAT, FORMAT_VERSION)?;
    let mut header = FilmHeader { source: metadata.decode_source()?, ..metadata.json(HEADER)? };
    // Older versions of pgthaw stored the command with its passwords.
    header.job = keep_text(header.job);
    let is_possible = |sampled: &Sampled| sampled.shift < 32 && (1..=64).contains(&sampled.unit_blocks);
    let can_add_up = header.totals.event_blocks() < 1 << 62;
    match (0.0..1e9).contains(&header.seconds) && can_add_up && header.sampling.as_ref().is_none_or(is_possible) {
        true => Ok(header),
        false => Err(metadata.wrong(HEADER)),
    }
}

/// Rows per group: about 30 MB in memory.
const ROWS_PER_GROUP: usize = 131_072;

const COLUMNS: [(&str, Kind); 12] = [
    ("time_us", Kind::Delta),
    ("database", Kind::Text),
    ("schema", Kind::Text),
    ("name", Kind::Text),
    ("path", Kind::Text),
    ("relfilenumber", Kind::Long),
    ("fork", Kind::Text),
    ("first_block", Kind::Delta),
    ("blocks", Kind::Long),
    ("kind", Kind::Text),
    ("pid", Kind::Long),
    ("job_bytes", Kind::Delta),
];

type Columns = sealed_file::Columns<6, 6>;

type RelationTexts = (Arc<FilmRelation>, [ByteArray; 4]);

fn texts_of(relation: &FilmRelation) -> [ByteArray; 4] {
    let FilmRelation { name, path } = relation;
    [&*name.database, &*name.schema, &*name.name, &*path.to_string()].map(ByteArray::from)
}

impl Columns {
    fn push(&mut self, event: &Event, texts: &[ByteArray; 4]) {
        let longs = [
            event.time.as_micros() as i64,
            event.relation.path.relfilenumber.into(),
            event.blocks.start as i64,
            event.blocks.blocks() as i64,
            event.pid.into(),
            event.job_bytes.0 as i64,
        ];
        self.longs.iter_mut().zip(longs).for_each(|(column, value)| column.push(value));
        let own = [event.fork.name(), event.kind.name()].map(ByteArray::from);
        self.texts.iter_mut().zip(texts.iter().cloned().chain(own)).for_each(|(column, value)| column.push(value));
    }
}

/// Dropping the writer leaves no file.
pub struct FilmWriter {
    draft: Draft,
    path: PathBuf,
    writer: SerializedFileWriter<File>,
    columns: Columns,
    last: Option<RelationTexts>,
    recorder_pid: u32,
    totals: Totals,
    databases: Vec<String>,
}

host::debug_by!(FilmWriter: draft, totals);

impl FilmWriter {
    pub fn begin(draft: Draft, path: &Path) -> Result<FilmWriter, Error> {
        let failed = |error| Error::file("write", path, as_io_error(error));
        let file = draft.file().try_clone().map_err(|error| Error::file("write", path, error))?;
        let properties = Arc::new(properties(&COLUMNS).map_err(failed)?.build());
        let schema = build_schema("film", &COLUMNS).map_err(failed)?;
        let writer = SerializedFileWriter::new(file, schema, properties).map_err(failed)?;
        let (columns, totals, databases) = Default::default();
        let (path, recorder_pid) = (path.to_owned(), std::process::id());
        Ok(FilmWriter { draft, path, writer, columns, last: None, recorder_pid, totals, databases })
    }

    pub fn push(&mut self, event: &Event) -> Result<(), Error> {
        let last = self.last.take().filter(|(relation, _)| Arc::ptr_eq(relation, &event.relation));
        let last = last.unwrap_or_else(|| (Arc::clone(&event.relation), texts_of(&event.relation)));
        self.columns.push(event, &last.1);
        self.last = Some(last);
        let database = &event.relation.name.database;
        if event.kind != EventKind::Buffers && !database.is_empty() && !self.databases.contains(database) {
            self.databases.push(database.clone());
        }
        self.totals.add(event, self.recorder_pid);
        if self.columns.len() == ROWS_PER_GROUP {
            self.write_group()?;
        }
        Ok(())
    }

    fn write_group(&mut self) -> Result<(), Error> {
        let columns = std::mem::take(&mut self.columns);
        let written = self.writer.next_row_group().and_then(|group| columns.write(&COLUMNS, group));
        written.map_err(|error| Error::file("write", &self.path, as_io_error(error)))
    }

    /// Replaces totals, recorder pid and databases of `header`.
    pub fn finish(mut self, header: FilmHeader) -> Result<Recorded, Error> {
        if self.columns.len() > 0 {
            self.write_group()?;
        }
        let (totals, recorder_pid, databases) = (self.totals, self.recorder_pid, self.databases);
        let header = FilmHeader { totals, recorder_pid, databases, job: keep_text(header.job), ..header };
        let pairs = encode(&header).map_err(|error| Error::file("write", &self.path, error.into()))?;
        pairs.into_iter().for_each(|pair| self.writer.append_key_value_metadata(pair));
        self.writer.close().map_err(|error| Error::file("write", &self.path, as_io_error(error)))?;
        apply_checksum(self.draft.file()).map_err(|flaw| Error::of_flaw(flaw, &self.path))?;
        Ok(Recorded { draft: self.draft, header })
    }
}

/// A name has at most 63 bytes, a path fewer than 100.
const PAGE_LIMITS: PageLimits = PageLimits { row_bytes: 128, last_page_bytes: None };
const TEXT_BYTES_MAX: usize = 256;

/// More relations than any film needs. Each takes 1.3 kB of memory.
const RELATIONS_MAX: usize = 1 << 17;

/// Limits on a film's events and blocks: a base, plus a number per byte of the file. Without them, reading a
/// small malicious file could take very long.
const EVENTS_MAX: (u64, u64) = (1 << 18, 16);
const BLOCKS_MAX_OF_FILM: (u64, u64) = (1 << 28, 1 << 14);

/// Maximum memory of block sets. Up to three copies exist.
const SET_BYTES_MAX: u64 = 48 << 20;

/// Memory of a set per 2^16 blocks: two-byte numbers or a bitmap, plus overhead.
const STRETCH_BYTES: u64 = 8192;
const STRETCH_OWN_BYTES: u64 = 64;

/// PostgreSQL's MaxBlockNumber is 2³² − 2.
const BLOCKS_MAX: u64 = u32::MAX as u64;

#[derive(Debug)]
pub struct Film<S> {
    source: Arc<S>,
    path: PathBuf,
    sealed: Sealed,
    header: FilmHeader,
}

impl Film<File> {
    pub fn open(path: &Path) -> Result<Film<File>, Error> {
        Film::new(open_written(path).map_err(|flaw| Error::of_flaw(flaw, path))?, path)
    }
}

impl<S: ChunkReader + 'static> Film<S> {
    pub fn new(source: S, path: &Path) -> Result<Film<S>, Error> {
        let opened = Sealed::read(&source).and_then(|sealed| {
            let header = decode(&sealed)?;
            let rows = sealed.check_shape("film", &COLUMNS, ROWS_PER_GROUP)?;
            if rows != header.totals.events {
                return Err(not_its_totals());
            }
            let file_bytes = source.len();
            let counted = [("events", rows, EVENTS_MAX), ("blocks", header.totals.event_blocks(), BLOCKS_MAX_OF_FILM)];
            for (what, count, (any, of_byte)) in counted {
                if count > any.saturating_add(file_bytes.saturating_mul(of_byte)) {
                    return Err(Flaw::TooLarge(format!("{count} {what} in {}", Bytes(file_bytes))));
                }
            }
            Ok((sealed, header))
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

    /// Passes each event in order to `visit`, with one row group in memory.
    ///
    /// # Errors
    /// If a value is invalid or totals contradict the header. Events already visited are then not trustworthy.
    pub fn visit(&self, mut visit: impl FnMut(Event)) -> Result<(), Error> {
        self.visit_checked(&mut visit).map_err(|flaw| Error::of_flaw(flaw, &self.path))
    }

    fn visit_checked(&self, visit: &mut dyn FnMut(Event)) -> Result<(), Flaw> {
        let (mut decoder, mut totals, mut sets) = (Decoder::default(), Totals::default(), Sets::default());
        for group in self.sealed.parquet.row_groups() {
            let mut group = GroupReader::new(&self.source, group, PAGE_LIMITS);
            let columns = Columns::read(&COLUMNS, &mut group).map_err(Flaw::Contradiction)?;
            for row in 0..columns.len() {
                let event = decoder.decode(&columns, row);
                let event = event.map_err(|reason| Flaw::Contradiction(format!("row {}: {reason}", totals.events)))?;
                totals.add(&event, self.header.recorder_pid);
                if totals.event_blocks() > self.header.totals.event_blocks() {
                    return Err(not_its_totals());
                }
                sets.add(&event).map_err(Flaw::TooLarge)?;
                visit(event);
            }
        }
        if totals == self.header.totals { Ok(()) } else { Err(not_its_totals()) }
    }
}

fn not_its_totals() -> Flaw {
    Flaw::Contradiction("its rows do not add up to the totals of its metadata".to_owned())
}

#[derive(Default)]
struct Sets {
    stretches: HashMap<(usize, Fork, u64), u64>,
    bytes: u64,
}

impl Sets {
    fn add(&mut self, event: &Event) -> Result<(), String> {
        let (relation, BlockRange { start, end }) = (Arc::as_ptr(&event.relation).addr(), event.blocks);
        for stretch in start >> 16..=(end - 1) >> 16 {
            let blocks = end.min((stretch + 1) << 16) - start.max(stretch << 16);
            let bytes = self.stretches.entry((relation, event.fork, stretch)).or_default();
            let before = *bytes;
            *bytes = (before.max(STRETCH_OWN_BYTES) + 2 * blocks).min(STRETCH_OWN_BYTES + STRETCH_BYTES);
            self.bytes += *bytes - before;
        }
        let is_held = self.bytes <= SET_BYTES_MAX;
        is_held.then_some(()).ok_or_else(|| format!("its blocks take more than {} of memory", Bytes(SET_BYTES_MAX)))
    }
}

#[derive(Default)]
struct Decoder {
    relations: HashSet<Arc<FilmRelation>>,
    last: Option<RelationTexts>,
}

impl Decoder {
    fn decode(&mut self, columns: &Columns, row: usize) -> Result<Event, String> {
        let [database, schema, name, path, fork, kind] = columns.texts.each_ref().map(|column| &column[row]);
        let [time_us, relfilenumber, first, blocks, pid, job_bytes] =
            columns.longs.each_ref().map(|column| column[row]);
        let relation = self.relation([database, schema, name, path])?;
        if relfilenumber != i64::from(relation.path.relfilenumber) {
            return Err(format!("relfilenumber {relfilenumber} does not match {}", relation.path));
        }
        let end = first.checked_add(blocks).filter(|_| first >= 0 && blocks > 0);
        let end = end.map(|end| end as u64).filter(|end| *end <= BLOCKS_MAX);
        let end = end.ok_or_else(|| format!("invalid range of blocks: {blocks} from block {first} on"))?;
        let not_negative = |what, value: i64| u64::try_from(value).map_err(|_| format!("{value} is no {what}"));
        Ok(Event {
            time: Duration::from_micros(not_negative("time", time_us)?),
            relation,
            fork: decode_word(text(fork)?, "fork", Fork::from_name)?,
            blocks: BlockRange::new(first as u64, end),
            kind: decode_word(text(kind)?, "kind", |word| word.parse().ok())?,
            pid: u32::try_from(pid).map_err(|_| format!("{pid} is no pid"))?,
            job_bytes: Bytes(not_negative("number of bytes", job_bytes)?),
        })
    }

    fn relation(&mut self, texts: [&ByteArray; 4]) -> Result<Arc<FilmRelation>, String> {
        if let Some((relation, last)) = &self.last
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
        // Copies the texts, because a slice would keep the page in memory.
        let own = texts.map(|value| ByteArray::from(value.data().to_vec()));
        self.last = Some((Arc::clone(&relation), own));
        Ok(relation)
    }
}

fn text(value: &ByteArray) -> Result<&str, String> {
    let text = value.as_utf8().ok().filter(|text| text.len() <= TEXT_BYTES_MAX);
    text.ok_or_else(|| format!("a text is not UTF-8, or longer than {TEXT_BYTES_MAX} bytes"))
}

#[cfg(test)]
mod film_file_tests {
    use super::*;
    use std::fs::{self, File};
    use std::os::unix::fs::FileExt as _;
    use std::path::{Path, PathBuf};
    use std::sync::Arc;

    use bytes::Bytes as Memory;

    use crate::fixtures::map_of;
    use crate::fuzzing::{mend, read_mended_film};
    use crate::trace::error::Error;
    use crate::trace::film::{FilmHeader, Totals};
    use crate::trace::fixtures::{self, film_relation as relation};
    use crate::trace::{Event, EventKind, FilmRelation};
    use host::units::Bytes;

    fn event(millisecond: u64, relation: &Arc<FilmRelation>, first: u64, blocks: u64, kind: EventKind) -> Event {
        let job_bytes = Bytes(millisecond * 8192);
        Event { job_bytes, ..fixtures::event(millisecond, relation, first..first + blocks, kind) }
    }

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
    fn a_film_tells_no_secret_of_its_job_whoever_wrote_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("film.parquet");
        for (written, there) in [("PGPASSWORD=geheim psql", ""), ("PGPASSWORM=geheim psql", "PGPASSWORD=geheim psql")] {
            let told = FilmHeader { job: written.into(), ..FilmHeader::for_tests() };
            fixtures::film(&path, &told, std::iter::empty());
            let mut bytes = fs::read(&path).unwrap();
            let at = |bytes: &[u8], what: &str| bytes.windows(what.len()).position(|one| one == what.as_bytes());
            if let Some(at) = at(&bytes, written) {
                bytes[at..at + there.len()].copy_from_slice(there.as_bytes());
            }
            assert_eq!(at(&bytes, "geheim").is_some(), !there.is_empty());
            let film = Film::new(Memory::from(mend(&bytes)), &path).unwrap();
            assert_eq!(film.header().job, "PGPASSWORD=(not kept: it may hold a password) psql");
            fs::remove_file(&path).unwrap();
        }
    }

    #[test]
    fn a_film_with_holes_is_not_even_listed() {
        let directory = tempfile::tempdir().unwrap();
        let path = written(directory.path(), std::iter::empty());
        let film = fs::read(&path).unwrap();
        let file = File::create(&path).unwrap();
        file.set_len(1 << 20).unwrap();
        file.write_all_at(&film, 1 << 20).unwrap();
        for read in [FilmHeader::read_unverified(&path).map(drop), Film::open(&path).map(drop)] {
            assert!(read.unwrap_err().to_string().contains("sparse"));
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
        assert_eq!(film.sealed.parquet.num_row_groups(), 3);
        let file_bytes = fs::metadata(&path).unwrap().len();
        assert!(file_bytes < count * 4, "{file_bytes} bytes for {count} events");
        fs::remove_file(&path).unwrap();
        assert_eq!(read(&written(directory.path(), std::iter::empty())).unwrap(), []);
    }

    #[test]
    fn a_touch_in_no_order_takes_four_bytes_at_most() {
        let directory = tempfile::tempdir().unwrap();
        let one = relation(1);
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
            (&whole[..whole.len() / 2], "it was truncated, or its end"),
            (&whole[..0], "it is empty"),
            (&b"select 1; select 2;"[..], "not a Parquet file"),
        ] {
            fs::write(&path, bytes).unwrap();
            let error = read(&path).unwrap_err().to_string();
            assert!(error.contains(said) && error.contains("film.parquet"), "{error}");
        }
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
        let mut refused = 0;
        for at in 4..whole.len() - 8 {
            let mut changed = whole.clone();
            changed[at] = changed[at].wrapping_add(1);
            refused += usize::from(read_mended_film(&changed).is_err());
        }
        assert!(refused > 100, "{refused} of {}", whole.len());
    }

    #[test]
    fn a_snapshot_is_no_film() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("snapshot.parquet");
        crate::Snapshot::new(map_of(Vec::new()), None).write(&path).unwrap();
        let error = read(&path).unwrap_err();
        assert!(matches!(error, Error::Flawed { flaw: Flaw::NotOne(_), .. }), "{error}");
    }
}
