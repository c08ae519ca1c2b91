//! Writes pgthaw's JSON Schemas. Parts that a command combines have their shape here. tests/all/schemas.rs checks real
//! outputs.
#![allow(dead_code)]

use std::path::PathBuf;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use crate::agent::AgentStatus;
use crate::map::rows::RowsTable;
use crate::predict::Prediction;
use crate::predict::job_text::JobPrediction;
use cache::trace::{FilmHeader, Moment, RelationTouches, RunReceipt};
use cache::warm::Receipt;
use cache::warm::evict::EvictReceipt;
use cache::warm::hydrate::{HydrationReceipt, HydrationState};
use cache::warm::probe::DeviceRecord;
use cache::{DatabaseBlocks, Lookups, MapSource, Selected, SnapshotHeader, TierState};
use host::failure::{Capability, ErrorKind, Missing};
use host::schema_fixture::{check_schemas, schema_of};
use host::units::Fork;
use observe::time::TimeReport;
use observe::top::{RecordHead, TopFrame};
use postgres::{PartitionedTable, Relation, RelationKind, RelationName};

/// A failure, on standard error.
#[derive(Serialize, JsonSchema)]
struct Failure {
    error: String,
    /// The exit status: `failed` is 1, `usage` 2, `privilege` 3, `interrupted` 130 after Ctrl-C and 143 after SIGTERM.
    kind: ErrorKind,
    /// What to do next.
    hint: Option<String>,
}

/// The verdict first, then the checks.
#[derive(Serialize, JsonSchema)]
#[serde(transparent)]
struct Doctor(Vec<Checked>);

#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
enum Checked {
    Verdict(DoctorVerdict),
    Check(Capability),
}

/// Whether both tiers of all tablespaces can be saved and restored.
#[derive(Serialize, JsonSchema)]
struct DoctorVerdict {
    name: VerdictName,
    group: VerdictName,
    ok: bool,
    detail: String,
    /// The remedies of `missing`.
    remedy: Option<String>,
    /// Tiers that can be saved.
    snapshot: Vec<TierName>,
    /// Tiers that can be restored.
    restore: Vec<TierName>,
    /// Obstacles, without their consequences.
    missing: Vec<Missing>,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum VerdictName {
    Verdict,
}

/// `os` is the page cache, `buffers` shared_buffers.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum TierName {
    Os,
    Buffers,
}

/// Cached blocks by relation.
#[derive(Serialize, JsonSchema)]
struct MapOutput {
    taken_at: Timestamp,
    source: MapSource,
    os: TierState,
    buffers: TierState,
    /// All requested relations together, regardless of `--top`.
    totals: ResidencyOutput,
    by: By,
    /// Number of requested relations, regardless of `--top`.
    relation_count: u64,
    /// Largest first, system catalogs included.
    relations: Vec<MapEntry>,
    remarks: Vec<String>,
}

/// Unit of `relations`.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum By {
    Relation,
    Partition,
    Table,
}

#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
enum MapEntry {
    Relation(MapRelation),
    Group(MapGroup),
}

#[derive(Serialize, JsonSchema)]
struct MapRelation {
    #[serde(flatten)]
    relation: Relation,
    forks: Vec<MapFork>,
    #[serde(flatten)]
    residency: ResidencyOutput,
}

/// A sum of relations, by `--by partition` or `--by table`.
#[derive(Serialize, JsonSchema)]
struct MapGroup {
    #[serde(flatten)]
    name: RelationName,
    kind: GroupKind,
    is_system: bool,
    /// Number of partitions; null if the table is not partitioned.
    partitions: Option<u64>,
    /// Summed relations as `schema.name`.
    members: Vec<String>,
    #[serde(flatten)]
    residency: ResidencyOutput,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum GroupKind {
    PartitionedTable,
    #[serde(untagged)]
    Relation(RelationKind),
}

#[derive(Serialize, JsonSchema)]
struct MapFork {
    fork: Fork,
    /// Share of blocks in the page cache (0 to 1), of 40 equal parts of the fork.
    os_bar: Vec<f64>,
    /// Share of blocks in shared_buffers (0 to 1), of the same parts.
    buffers_bar: Vec<f64>,
    #[serde(flatten)]
    residency: ResidencyOutput,
}

/// Numbers of blocks. null means that the tier was not measured.
#[derive(Serialize, JsonSchema)]
struct ResidencyOutput {
    blocks: u64,
    bytes: u64,
    /// Blocks with all their pages in the page cache.
    os_blocks: Option<u64>,
    buffers_blocks: Option<u64>,
    /// Dirty blocks in shared_buffers.
    dirty_blocks: Option<u64>,
    /// Blocks in both tiers.
    both_blocks: Option<u64>,
    /// Number of buffers with usage count 0 to 5.
    usage_counts: Option<[u64; 6]>,
}

/// A new snapshot.
#[derive(Serialize, JsonSchema)]
struct SnapshotTaken {
    path: PathBuf,
    file_bytes: u64,
    header: SnapshotHeader,
    /// Names of the snapshots that `--keep` dropped.
    dropped: Vec<String>,
    /// A snapshot that `restore` prefers, or that is clearly warmer.
    warmer: Option<WarmerSnapshot>,
    /// The snapshot that `pgthaw restore` uses now. null with `--output`, or if all snapshots are empty.
    restore: Option<Selected>,
}

#[derive(Serialize, JsonSchema)]
struct WarmerSnapshot {
    name: String,
    path: PathBuf,
    os_blocks: u64,
    buffers_blocks: u64,
}

/// Stored snapshots.
#[derive(Serialize, JsonSchema)]
struct SnapshotList {
    /// Newest of each cluster first.
    snapshots: Vec<SnapshotListed>,
}

#[derive(Serialize, JsonSchema)]
struct SnapshotListed {
    name: String,
    system_identifier: String,
    path: PathBuf,
    file_bytes: Option<u64>,
    /// null if the file is unreadable.
    header: Option<SnapshotHeader>,
    error: Option<String>,
    /// Set only for the snapshot of a cluster that `pgthaw restore` uses.
    restore: Option<Selected>,
}

/// Checked snapshots. The exit status is that of the first defective file: 1 if damaged, 2 if it is no snapshot.
#[derive(Serialize, JsonSchema)]
struct SnapshotsVerified {
    snapshots: Vec<SnapshotVerified>,
}

#[derive(Serialize, JsonSchema)]
struct SnapshotVerified {
    path: PathBuf,
    is_whole: bool,
    error: Option<String>,
}

/// A dropped snapshot.
#[derive(Serialize, JsonSchema)]
struct SnapshotDropped {
    dropped: [String; 1],
    /// The cluster's snapshot that `pgthaw restore` uses now.
    restore: Option<Selected>,
}

/// What changed since a snapshot.
#[derive(Serialize, JsonSchema)]
struct SnapshotDiff {
    /// The compared snapshot; by default the one that `pgthaw restore` uses. null for a file.
    snapshot: Option<Selected>,
    block_size: u32,
    os: Option<TierChange>,
    buffers: Option<TierChange>,
    /// Unchanged relations included.
    relations: Vec<RelationChange>,
}

/// Numbers of blocks. A rewritten relation keeps none, because its block numbers have a new meaning. null if one side was not
/// measured.
#[derive(Serialize, JsonSchema)]
struct TierChange {
    gained_blocks: u64,
    lost_blocks: u64,
    kept_blocks: u64,
}

#[derive(Serialize, JsonSchema)]
struct RelationChange {
    #[serde(flatten)]
    name: RelationName,
    kind: RelationKind,
    change: Change,
    forks: Vec<ForkChange>,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Change {
    New,
    Gone,
    Rewritten,
    Grown,
    Truncated,
    Same,
}

#[derive(Serialize, JsonSchema)]
struct ForkChange {
    fork: Fork,
    blocks_before: Option<u64>,
    blocks_after: Option<u64>,
    os: Option<TierChange>,
    buffers: Option<TierChange>,
}

/// The receipt. Fields `resident_*` are measured.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
enum Restore {
    Receipt(Box<Receipt>),
    Nothing(NoSnapshot),
}

/// `restore any` found no snapshot.
#[derive(Serialize, JsonSchema)]
struct NoSnapshot {
    snapshot: (),
    remarks: Vec<String>,
}

/// The header of a film, printed by `film record`, and by `run --record-only` on standard error.
#[derive(Serialize, JsonSchema)]
struct FilmPrinted {
    path: PathBuf,
    system_identifier: String,
    version_num: u32,
    block_size: u32,
    /// WAL position at the start.
    lsn: String,
    timeline: u32,
    #[serde(flatten)]
    header: FilmHeader,
}

/// Stored films.
#[derive(Serialize, JsonSchema)]
struct FilmList {
    /// Newest of each cluster first.
    films: Vec<FilmListed>,
}

#[derive(Serialize, JsonSchema)]
struct FilmListed {
    name: String,
    path: PathBuf,
    /// From the name of the directory.
    system_identifier: String,
    /// null if the file is unreadable.
    header: Option<FilmPrinted>,
    error: Option<String>,
}

/// A film by relation and time.
#[derive(Serialize, JsonSchema)]
struct FilmShown {
    header: FilmPrinted,
    /// Most blocks first.
    relations: Vec<RelationTouches>,
    /// 20 at equal intervals up to the film's end.
    moments: Vec<Moment>,
    /// Misses by memory size. null if requests were not recorded.
    curve: Option<ShownCurve>,
}

/// Requests that miss the page cache, by its size.
#[derive(Serialize, JsonSchema)]
struct ShownCurve {
    #[serde(flatten)]
    curve: cache::trace::MissRatioCurve,
    /// Least page cache, in blocks, that misses at most 1 % of repeated requests; 0 if any suffices.
    sufficient_blocks: u64,
}

/// Dropped films.
#[derive(Serialize, JsonSchema)]
struct FilmDropped {
    dropped: Vec<String>,
}

/// Metadata of a snapshot's Parquet file, all as text. For metadata that hold JSON, this schema describes the parsed
/// values.
#[derive(Serialize, JsonSchema)]
struct SnapshotMetadata {
    /// Version of the format: `1`.
    #[serde(rename = "pgthaw.format_version")]
    format_version: String,
    #[serde(rename = "pgthaw.system_identifier")]
    system_identifier: String,
    /// `server_version_num`.
    #[serde(rename = "pgthaw.postgres_version_num")]
    postgres_version_num: String,
    #[serde(rename = "pgthaw.block_size")]
    block_size: String,
    #[serde(rename = "pgthaw.segment_blocks")]
    segment_blocks: String,
    #[serde(rename = "pgthaw.lsn")]
    lsn: String,
    #[serde(rename = "pgthaw.timeline")]
    timeline: String,
    /// Missing if unknown or not UTF-8.
    #[serde(rename = "pgthaw.data_directory", default, skip_serializing_if = "Option::is_none")]
    data_directory: Option<String>,
    #[serde(rename = "pgthaw.taken_at")]
    taken_at: Timestamp,
    /// Empty without a label.
    #[serde(rename = "pgthaw.label")]
    label: String,
    /// `measured`, or `unknown: ` and the reason.
    #[serde(rename = "pgthaw.os_tier")]
    os_tier: String,
    /// `measured`, or `unknown: ` and the reason.
    #[serde(rename = "pgthaw.buffers_tier")]
    buffers_tier: String,
    #[serde(rename = "pgthaw.os_heat")]
    os_heat: cache::HeatSource,
    /// Number of relations.
    #[serde(rename = "pgthaw.relations")]
    relations: String,
    #[serde(rename = "pgthaw.os_blocks")]
    os_blocks: String,
    #[serde(rename = "pgthaw.buffers_blocks")]
    buffers_blocks: String,
    /// SHA-256 of the file with these 64 digits as zeros.
    #[serde(rename = "pgthaw.sha256")]
    sha256: String,
    #[serde(rename = "pgthaw.remarks")]
    remarks: Vec<String>,
    /// Relations without blocks, except system relations.
    #[serde(rename = "pgthaw.empty")]
    empty: Vec<Relation>,
    /// Partitioned tables.
    #[serde(rename = "pgthaw.partitioned")]
    partitioned: Vec<PartitionedTable>,
    /// Databases, without shared catalogs.
    #[serde(rename = "pgthaw.databases")]
    databases: Vec<DatabaseBlocks>,
    /// By database, then by `pg_class.oid`: blocks looked up since the statistics began, a lower bound. Relations without
    /// lookups and databases not queried are missing.
    #[serde(rename = "pgthaw.lookups")]
    lookups: Lookups,
}

/// A row of a snapshot's Parquet file: a relation, fork, tier and heat. The metadata `pgthaw.format_version` is 1.
#[derive(Serialize, JsonSchema)]
struct SnapshotRow {
    database: String,
    schema: String,
    name: String,
    kind: RelationKind,
    /// `pg_class.oid`, or 0.
    oid: i64,
    /// As in a map; empty if there is none.
    parent: String,
    /// First segment of the main fork, below the data directory.
    path: String,
    /// Last part of `path`.
    relfilenumber: i64,
    /// Name of the tablespace.
    tablespace: String,
    /// Whether the relation is PostgreSQL's own.
    is_system: bool,
    fork: Fork,
    /// Size of the fork in blocks.
    relation_blocks: i64,
    tier: RowTier,
    /// 0 to 255. In `buffers` it is the usage count, in `os` it depends on the metadata `pgthaw.os_heat`.
    heat: i32,
    blocks: i64,
    /// Block numbers, as a Roaring bitmap in the portable format.
    bitmap: Vec<u8>,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum RowTier {
    /// The page cache.
    Os,
    /// shared_buffers.
    Buffers,
    /// No block of the fork is resident.
    None,
}

/// A row of a film's Parquet file: adjacent blocks of a fork at one moment. The metadata `pgthaw.film_format_version` is 1.
#[derive(Serialize, JsonSchema)]
struct FilmRow {
    /// Time since the start of the film.
    time_us: i64,
    database: String,
    schema: String,
    name: String,
    /// As in a snapshot.
    path: String,
    /// As in a snapshot.
    relfilenumber: i64,
    fork: Fork,
    first_block: i64,
    /// Number of blocks.
    blocks: i64,
    kind: FilmEvent,
    /// Process id; 0 if unknown, `recorder_pid` for preloads.
    pid: i64,
    /// Bytes that the job requested from files so far. If the header's `requested_bytes` is null, bytes read; without
    /// `sampling`, bytes loaded.
    job_bytes: i64,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum FilmEvent {
    /// Already cached, or preloaded.
    Requested,
    /// Loaded into the page cache; also requested unless the header's `sampling` is null.
    Fetched,
    /// Repeated request for a sampled block.
    Again,
    /// In shared_buffers at the start, perhaps not used by the job.
    Buffers,
}

/// A row of the Parquet file of `waits --parquet`. Columns `bucket_00` to `bucket_31` (int64) are the `histogram` of a statistic, null
/// for a `second`. Metadata, as text: `pgthaw.waits_format_version` (1), `pgthaw.source`, `pgthaw.by`, `pgthaw.length_ns`,
/// `pgthaw.processes`, `pgthaw.explained`.
#[derive(Serialize, JsonSchema)]
struct WaitsRow {
    kind: WaitsRowKind,
    /// Number of the second, from 1. Only for `second`.
    second: Option<i64>,
    /// End of the second. Only for `second`.
    until_ns: Option<i64>,
    /// First part of the name, by `--by`. Not for `second`.
    who: Option<String>,
    /// Second part of the name. Not for `second`.
    part: Option<String>,
    /// Third part of the name. Not for `second`.
    detail: Option<String>,
    /// `who::part::detail`. For `second` it is `lived` or one of its kinds: `running`, `ready`, `client`, `idle`,
    /// `waiting`, `no_event`, `unknown`; also `commands`, `handled`.
    name: String,
    /// Number of waits or commands, 0 if unknown. For `second`, processes (`lived`), switches to a processor
    /// (`running`) or commands (`commands`, `handled`).
    count: Option<i64>,
    /// Total time. null for `commands`.
    total_ns: Option<i64>,
    /// Shortest wait or command.
    min_ns: Option<i64>,
    /// Longest wait or command.
    max_ns: Option<i64>,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum WaitsRowKind {
    /// One of `statistics` in `waits --json`.
    Statistic,
    /// One of `handled_by`.
    Command,
    /// One kind of time of all processes in a second.
    Second,
}

#[test]
fn the_schemas_are_those_of_the_types() {
    check_schemas(&[
        schema_of::<Failure>("error", 1, "A failure with --json"),
        schema_of::<Doctor>("doctor", 1, "pgthaw doctor --json"),
        schema_of::<DeviceRecord>("doctor-probe", 1, "pgthaw doctor --probe --json, and the stored probe of a device"),
        schema_of::<MapOutput>("map", 1, "pgthaw map --json, pgthaw snapshot show --json"),
        schema_of::<RowsTable>("map-rows", 1, "pgthaw map --rows --json"),
        schema_of::<SnapshotTaken>("snapshot-take", 1, "pgthaw snapshot take --json"),
        schema_of::<SnapshotList>("snapshot-list", 1, "pgthaw snapshot list --json"),
        schema_of::<SnapshotsVerified>("snapshot-list-verify", 1, "pgthaw snapshot list --verify --json"),
        schema_of::<SnapshotDropped>("snapshot-drop", 1, "pgthaw snapshot drop --json"),
        schema_of::<SnapshotDiff>("snapshot-diff", 1, "pgthaw snapshot diff --json"),
        schema_of::<SnapshotMetadata>("snapshot-metadata", 1, "JSON in the metadata of a snapshot's file"),
        schema_of::<SnapshotRow>("snapshot-row", 1, "A row of a snapshot's file"),
        schema_of::<FilmRow>("film-row", 1, "A row of a film's file"),
        schema_of::<WaitsRow>("waits-row", 1, "A row of pgthaw waits --parquet"),
        schema_of::<Restore>("restore", 1, "pgthaw restore --json"),
        schema_of::<HydrationReceipt>("hydrate", 1, "pgthaw hydrate --json"),
        schema_of::<HydrationState>("hydrated", 1, "The stored progress of pgthaw hydrate"),
        schema_of::<EvictReceipt>("evict", 1, "pgthaw evict --json"),
        schema_of::<FilmPrinted>("film-record", 1, "pgthaw film record --json, pgthaw run --record-only --json"),
        schema_of::<FilmList>("film-list", 1, "pgthaw film show --json"),
        schema_of::<FilmShown>("film-show", 1, "pgthaw film show FILM --json"),
        schema_of::<FilmDropped>("film-drop", 1, "pgthaw film drop --json"),
        schema_of::<FilmHeader>("film-metadata", 1, "The metadata pgthaw.film of a film's file"),
        schema_of::<RunReceipt>("run", 1, "pgthaw run --json"),
        schema_of::<Prediction>("predict", 1, "pgthaw predict --json"),
        schema_of::<JobPrediction>("predict-film", 1, "pgthaw predict --film FILM --json"),
        schema_of::<TimeReport>("waits", 1, "pgthaw waits --json"),
        schema_of::<TopFrame>("top", 1, "pgthaw top --json, and a step of a record"),
        schema_of::<AgentStatus>("agent-status", 1, "pgthaw agent status --json"),
        schema_of::<RecordHead>("top-record", 1, "The first line of a record of pgthaw top"),
    ]);
}
