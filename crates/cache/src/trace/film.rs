//! What a film is: events, and what it says of itself.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parquet::file::metadata::KeyValue;
use serde::Serialize;

use crate::MapSource;
use crate::sealed_file::{Flaw, Metadata, Sealed, encode_pairs, encode_source};
use host::units::{BlockRange, Bytes, Fork};
use postgres::{RelationName, RelationPath};

/// How blocks came into a film.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EventKind {
    /// Requested, and in the OS page cache before the film began, or brought by pgthaw.
    Requested,
    /// Requested again. Only of some blocks, chosen by a hash.
    Again,
    /// Came into the OS page cache; where requests are seen, also requested.
    Fetched,
    /// In shared_buffers before the job began. Whether it used them is not proven.
    Buffers,
}

impl EventKind {
    const ALL: [EventKind; 4] = [EventKind::Requested, EventKind::Again, EventKind::Fetched, EventKind::Buffers];

    pub fn name(self) -> &'static str {
        match self {
            EventKind::Requested => "requested",
            EventKind::Again => "again",
            EventKind::Fetched => "fetched",
            EventKind::Buffers => "buffers",
        }
    }

    pub fn from_name(name: &str) -> Option<EventKind> {
        EventKind::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FilmRelation {
    pub name: RelationName,
    pub path: RelationPath,
}

/// Neighbouring blocks of one fork, at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    pub time: Duration,
    pub relation: Arc<FilmRelation>,
    pub fork: Fork,
    pub blocks: BlockRange,
    pub kind: EventKind,
    /// The process that caused it; 0 where unknown.
    pub pid: u32,
    /// What the job had read by then, this included, cached or not; where only arrivals are seen, what it had fetched.
    pub job_bytes: Bytes,
}

/// The version of the format. A reader refuses any other.
pub const FORMAT_VERSION: u32 = 1;

const FORMAT: &str = "pgthaw.film_format_version";
const RECORDED_AT: &str = "pgthaw.recorded_at";
const LABEL: &str = "pgthaw.label";
const JOB: &str = "pgthaw.job";
const RECORDER: &str = "pgthaw.recorder";
const RECORDER_PID: &str = "pgthaw.recorder_pid";
const SECONDS: &str = "pgthaw.seconds";
const LOST_EVENTS: &str = "pgthaw.lost_events";
const EVENTS: &str = "pgthaw.events";
const REQUESTED_BLOCKS: &str = "pgthaw.requested_blocks";
const AGAIN_BLOCKS: &str = "pgthaw.again_blocks";
const SAMPLING: &str = "pgthaw.sampling";
const SAMPLED_UNIT_BLOCKS: &str = "pgthaw.sampled_unit_blocks";
const PROBE_RUNS: &str = "pgthaw.probe_runs";
const PROBE_NS: &str = "pgthaw.probe_ns";
const FETCHED_BLOCKS: &str = "pgthaw.fetched_blocks";
const PRELOADED_BLOCKS: &str = "pgthaw.preloaded_blocks";
const BUFFERS_BLOCKS: &str = "pgthaw.buffers_blocks";
const DEVICE_READS: &str = "pgthaw.device_reads";
const DEVICE_BYTES: &str = "pgthaw.device_bytes";
const FETCHED_AGAIN_BYTES: &str = "pgthaw.fetched_again_bytes";
const REQUESTED_BYTES: &str = "pgthaw.requested_bytes";
const WORKERS: &str = "pgthaw.workers";
const DATABASES: &str = "pgthaw.databases";
const REMARKS: &str = "pgthaw.remarks";

/// A film of which more than this part was preloaded says nothing of how long the job takes alone, 0 to 1.
const PRELOADED_SHARE_MAX: f64 = 0.1;

/// A job that fetched less than this part of its blocks by itself does not tell how it would fetch the others, 0 to 1.
const FETCHED_SHARE_MIN: f64 = 0.5;

/// What a film says of itself, without its events.
#[derive(Clone, Debug, PartialEq)]
pub struct FilmHeader {
    pub label: Option<String>,
    pub recorded_at: Timestamp,
    pub source: MapSource,
    /// The job's command; empty where there was none.
    pub job: String,
    /// How the events were seen, in words.
    pub recorder: String,
    /// The process that recorded: events that it caused itself bear its number.
    pub recorder_pid: u32,
    /// From the film's beginning to its end.
    pub seconds: f64,
    /// Events that were not seen, as far as they could be counted.
    pub lost_events: u64,
    /// Of which blocks every request is in the film; `None` where requests were not seen.
    pub sampling: Option<Sampled>,
    /// What seeing cost; `None` where nobody counted.
    pub probe: Option<ProbeShare>,
    pub totals: Totals,
    /// Reads of the cluster's device meanwhile, whoever issued them; `None` where there is no device.
    pub device_reads: Option<u64>,
    /// Bytes that the device delivered meanwhile.
    pub device_bytes: Option<Bytes>,
    /// What came for the job though it had come before, for memory was short; `None` where nobody counted.
    pub fetched_again: Option<Bytes>,
    /// What the job's sessions asked files for, cached or not. Where it is known, `job_bytes` of an event is the part of it by then,
    /// and no longer what had come.
    pub requested_bytes: Option<Bytes>,
    /// Parallel workers of the job's sessions, where they were counted.
    pub workers: Option<u64>,
    /// The databases that the job asked for something of, in that order.
    pub databases: Vec<String>,
    pub remarks: Vec<String>,
}

/// Of which blocks every request is told: those whose hash is below 2^32 divided by 2 to the power of `shift`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Sampled {
    pub shift: u32,
    /// Blocks that are told together, for they share a page.
    pub unit_blocks: u32,
}

/// What programs in the kernel cost while a film was recorded, by the kernel's own count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ProbeShare {
    pub runs: u64,
    pub total_ns: u64,
}

/// What the events of a film add up to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    pub events: u64,
    /// Blocks that the job, or somebody beside it, fetched.
    pub fetched_blocks: u64,
    /// Blocks that were asked for and were there.
    pub requested_blocks: u64,
    /// Blocks that were asked for again, of those of which that is told.
    pub again_blocks: u64,
    /// Blocks that pgthaw itself brought, for the job.
    pub preloaded_blocks: u64,
    /// Blocks that were in shared_buffers before: not proven.
    pub buffers_blocks: u64,
}

impl Totals {
    /// Adds an event of a film that the process `recorder_pid` records.
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

    /// Does the film know what shared_buffers had? They hold the catalogs at least.
    pub fn knows_buffers(&self) -> bool {
        self.buffers_blocks > 0
    }

    /// Blocks that a preload would bring. What pgthaw brought and the job then asked for is in the film as both.
    pub fn wanted_blocks(&self) -> u64 {
        self.fetched_blocks + self.found_blocks()
    }

    /// Blocks that the job did not have to fetch, for they had been brought or were there.
    pub fn found_blocks(&self) -> u64 {
        self.preloaded_blocks.max(self.requested_blocks)
    }

    /// Was so much preloaded that the job's time is not what it takes alone?
    pub fn is_preloaded(&self) -> bool {
        self.preloaded_blocks as f64 > self.wanted_blocks() as f64 * PRELOADED_SHARE_MAX
    }

    /// Did the job fetch so much by itself that the device's reads tell how it fetches?
    pub fn is_fetched(&self) -> bool {
        self.fetched_blocks > 0 && self.fetched_blocks as f64 >= self.wanted_blocks() as f64 * FETCHED_SHARE_MIN
    }
}

impl FilmHeader {
    pub fn duration(&self) -> Duration {
        Duration::try_from_secs_f64(self.seconds).unwrap_or_default()
    }

    /// Did the recorder bring this for the job? Where requests are seen, that says nothing of the job.
    pub fn is_brought(&self, event: &Event) -> bool {
        self.sampling.is_some() && event.kind == EventKind::Fetched && event.pid == self.recorder_pid
    }

    /// The database that the job asked first, where its name is known: without a server an oid stands for it.
    pub fn first_database(&self) -> Option<&str> {
        let is_oid = |name: &str| name.bytes().all(|byte| byte.is_ascii_digit());
        self.databases.first().map(String::as_str).filter(|name| !is_oid(name))
    }

    pub fn bytes(&self, blocks: u64) -> Bytes {
        Bytes(blocks.saturating_mul(self.source.block_size.into()))
    }
}

/// The header as the file's metadata.
pub fn encode(header: &FilmHeader) -> Vec<KeyValue> {
    let optional = |number: Option<u64>| number.map(|number| number.to_string()).unwrap_or_default();
    let Totals { events, fetched_blocks, requested_blocks, again_blocks, preloaded_blocks, buffers_blocks } =
        header.totals;
    let own = [
        (RECORDED_AT, header.recorded_at.to_string()),
        (LABEL, header.label.clone().unwrap_or_default()),
        (JOB, header.job.clone()),
        (RECORDER, header.recorder.clone()),
        (RECORDER_PID, header.recorder_pid.to_string()),
        (SECONDS, header.seconds.to_string()),
        (LOST_EVENTS, header.lost_events.to_string()),
        (EVENTS, events.to_string()),
        (SAMPLING, optional(header.sampling.map(|sampled| sampled.shift.into()))),
        (SAMPLED_UNIT_BLOCKS, optional(header.sampling.map(|sampled| sampled.unit_blocks.into()))),
        (PROBE_RUNS, optional(header.probe.map(|probe| probe.runs))),
        (PROBE_NS, optional(header.probe.map(|probe| probe.total_ns))),
        (FETCHED_BLOCKS, fetched_blocks.to_string()),
        (REQUESTED_BLOCKS, requested_blocks.to_string()),
        (AGAIN_BLOCKS, again_blocks.to_string()),
        (PRELOADED_BLOCKS, preloaded_blocks.to_string()),
        (BUFFERS_BLOCKS, buffers_blocks.to_string()),
        (DEVICE_READS, optional(header.device_reads)),
        (DEVICE_BYTES, optional(header.device_bytes.map(|bytes| bytes.0))),
        (FETCHED_AGAIN_BYTES, optional(header.fetched_again.map(|bytes| bytes.0))),
        (REQUESTED_BYTES, optional(header.requested_bytes.map(|bytes| bytes.0))),
        (WORKERS, optional(header.workers)),
        (DATABASES, serde_json::Value::from(header.databases.clone()).to_string()),
        (REMARKS, serde_json::Value::from(header.remarks.clone()).to_string()),
    ];
    let format = (FORMAT, FORMAT_VERSION.to_string());
    encode_pairs([format].into_iter().chain(encode_source(&header.source)).chain(own))
}

/// The header of a file that claims to be a film, with every value checked.
pub fn decode(sealed: &Sealed) -> Result<FilmHeader, Flaw> {
    let metadata = Metadata::new(sealed.key_values(), FORMAT, FORMAT_VERSION)?;
    let optional = |key| match metadata.text(key)? {
        "" => Ok(None),
        _ => metadata.number(key).map(Some),
    };
    let seconds: f64 = metadata.number(SECONDS)?;
    if !(0.0..1e9).contains(&seconds) {
        return Err(metadata.wrong(SECONDS));
    }
    Ok(FilmHeader {
        label: Some(metadata.text(LABEL)?).filter(|label| !label.is_empty()).map(str::to_owned),
        recorded_at: metadata.number(RECORDED_AT)?,
        source: metadata.decode_source()?,
        job: metadata.text(JOB)?.to_owned(),
        recorder: metadata.text(RECORDER)?.to_owned(),
        recorder_pid: metadata.number(RECORDER_PID)?,
        seconds,
        lost_events: metadata.number(LOST_EVENTS)?,
        sampling: match optional(SAMPLING)? {
            Some(shift) => {
                let shift = u32::try_from(shift).ok().filter(|shift| *shift < 32).ok_or(metadata.wrong(SAMPLING))?;
                let unit_blocks = metadata.number(SAMPLED_UNIT_BLOCKS)?;
                let is_possible = (1..=64).contains(&unit_blocks);
                Some(Sampled { shift, unit_blocks })
                    .filter(|_| is_possible)
                    .ok_or(metadata.wrong(SAMPLED_UNIT_BLOCKS))
                    .map(Some)?
            }
            None => None,
        },
        probe: optional(PROBE_RUNS)?.zip(optional(PROBE_NS)?).map(|(runs, total_ns)| ProbeShare { runs, total_ns }),
        totals: Totals {
            events: metadata.number(EVENTS)?,
            requested_blocks: metadata.number(REQUESTED_BLOCKS)?,
            again_blocks: metadata.number(AGAIN_BLOCKS)?,
            fetched_blocks: metadata.number(FETCHED_BLOCKS)?,
            preloaded_blocks: metadata.number(PRELOADED_BLOCKS)?,
            buffers_blocks: metadata.number(BUFFERS_BLOCKS)?,
        },
        device_reads: optional(DEVICE_READS)?,
        device_bytes: optional(DEVICE_BYTES)?.map(Bytes),
        fetched_again: optional(FETCHED_AGAIN_BYTES)?.map(Bytes),
        requested_bytes: optional(REQUESTED_BYTES)?.map(Bytes),
        workers: optional(WORKERS)?,
        databases: metadata.json(DATABASES)?,
        remarks: metadata.json(REMARKS)?,
    })
}

/// The header of a file that was compared with its checksum, which has to be the one that it names.
pub fn decode_verified(sealed: &Sealed) -> Result<FilmHeader, Flaw> {
    sealed.check_digest(&Metadata::new(sealed.key_values(), FORMAT, FORMAT_VERSION)?)?;
    decode(sealed)
}

#[cfg(any(test, feature = "fixtures"))]
impl FilmHeader {
    /// A header for films of tests.
    pub fn for_tests() -> FilmHeader {
        let map = crate::fixtures::map_of(Vec::new());
        FilmHeader {
            label: Some("nightly".into()),
            recorded_at: map.taken_at,
            source: map.source,
            job: "psql -f report.sql".into(),
            recorder: "by looking".into(),
            recorder_pid: 0,
            seconds: 2.5,
            lost_events: 3,
            sampling: Some(Sampled { shift: 2, unit_blocks: 1 }),
            probe: Some(ProbeShare { runs: 9, total_ns: 1800 }),
            totals: Totals::default(),
            device_reads: None,
            device_bytes: Some(Bytes(7)),
            fetched_again: Some(Bytes(3)),
            requested_bytes: Some(Bytes(9)),
            workers: None,
            databases: Vec::new(),
            remarks: vec!["one".into()],
        }
    }
}
