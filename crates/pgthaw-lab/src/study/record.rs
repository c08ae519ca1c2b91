//! Records in `--json`: never rename fields.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::database::{DatabaseMaking, FreshCopy};
use super::finding::MeasurementVerdict;
use super::generators::TrialGenerators;
use super::latency::{LatencyHistogram, ScriptLatency};
use super::point::{Axes, Point, STRATEGY, Turn};
use host::linux::FileSystemFacts;
use host::units::{Bytes, counted};
use model::{Judgement, Span};
use observe::time::TrialTime;
use observe::{OsSample, WaitSample, Waits};
use pgbench::QueryMode;
use postgres::{
    BufferUse, ConfiguredSetting, ServerFacts, StatisticsDelta, keep_document, keep_record, keep_setting, keep_text,
};

/// One run of a study, including its continuations after interruptions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, crate::JsonSchema, crate::TS)]
pub struct SweepRun {
    /// Ids sort by start time: `20261121-233005-4f2a`.
    pub id: String,
    pub started_at: Timestamp,
    /// `None` while trials are missing.
    pub ended_at: Option<Timestamp>,
    pub pgthaw_version: String,
    /// Example: `pgbench (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)`.
    pub pgbench_version: String,
    pub machine: Machine,
    pub server: ServerFacts,
    /// Settings of the server before the first trial.
    #[ts(skip)]
    pub configuration: Vec<ConfiguredSetting>,
    pub question: String,
    /// SHA-256 of the parsed study, independent of its file's layout.
    pub digest: String,
    #[ts(type = "unknown")]
    pub study: serde_json::Value,
    /// Axes with more than one value.
    pub varied: Vec<String>,
    pub points: u32,
    /// Trials of each point.
    pub repeats: u32,
    /// Seed of the random order: a 64-bit number, which browsers round.
    pub seed: u64,
    /// Databases that the study created.
    pub databases: Vec<DatabaseMaking>,
    /// Throughput of pgbench with an empty statement, by number of threads.
    #[ts(skip)]
    pub generator: Vec<GeneratorCalibration>,
    pub verdicts: Vec<MeasurementVerdict>,
    /// The texts of the verdicts.
    pub warnings: Vec<String>,
    /// Only for studies of warmers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warmup: Option<WarmupFacts>,
    /// Source of an import; `None` if pgthaw measured the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

impl SweepRun {
    pub fn is_warmup(&self) -> bool {
        self.study["is_warmup"] == true
    }

    pub fn compares_warmers(&self) -> bool {
        self.varied == [STRATEGY]
    }

    /// Whether trials run no load and end when the page cache contains all pages of the snapshot.
    pub fn is_idle(&self) -> bool {
        self.study["until"] == "resident"
    }

    pub fn subject(&self) -> String {
        if !self.question.is_empty() {
            return self.question.clone();
        }
        let Some(point) = self.axes().map(|axes| axes.point(0)) else { return String::new() };
        let (script, scale) = (point.script_name(), point.scale);
        match self.study["wanted_seconds"].as_u64() {
            _ if self.is_warmup() => format!("ways to warm a server: pgbench {script}, scale {scale}"),
            Some(seconds) if self.is_idle() => {
                let clients = counted(point.clients, "client");
                format!("time to load the data that {clients} read in the first {seconds} s of {script}, scale {scale}")
            }
            None if self.is_idle() => format!("time to load the whole database, scale {scale}"),
            _ => String::new(),
        }
    }

    /// `None` for an import, or if a manual edit emptied an axis.
    pub fn axes(&self) -> Option<Axes> {
        serde_json::from_value(self.study["axes"].clone()).ok().filter(|axes: &Axes| axes.count() > 0)
    }
}

/// A trial: a repetition of a point. `tps` and the counts are pgbench's own.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, crate::JsonSchema, crate::TS)]
pub struct SweepTrial {
    pub sweep_id: String,
    /// The point's number, from 0.
    pub number: u32,
    #[ts(type = "Record<string, unknown>")]
    pub point: Point,
    /// From 1.
    pub repeat: u32,
    /// Position in the random order, from 1.
    pub position: u32,
    /// Start of the trial, including preparation of the start state.
    pub started_at: Timestamp,
    /// `None` if unknown.
    pub ended_at: Option<Timestamp>,
    /// State measured before the load started.
    pub start_state: Option<StartState>,
    /// pgbench's command line.
    pub command: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategy_outcome: Option<StrategyOutcome>,
    /// Only for trials with `start = "cold"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warming: Option<Warming>,
    /// `None` if pgbench ran on this host.
    pub generators: Option<TrialGenerators>,
    /// Why figures are missing or, in an import, are not used.
    pub failure: Option<String>,
    /// Duration of the load.
    pub lasted_seconds: f64,
    /// Transactions that were not skipped and did not fail.
    pub transactions: u64,
    pub failed: u64,
    /// Transactions that pgbench skipped, because they were already later than the latency limit.
    pub skipped: u64,
    /// Transactions that were tried more than once.
    pub retried: u64,
    pub retries: u64,
    /// Transactions above the latency limit.
    pub late: u64,
    /// Transactions per second, without initial connection time. For several hosts, all transactions ÷ the longest run.
    pub tps: f64,
    /// Transactions in the slowest second, without the first and last second. `None` if fewer than five seconds remain,
    /// or if the slowest exceeds `tps`.
    pub worst_second_tps: Option<f64>,
    /// Latency of all scripts.
    pub latency: Option<LatencyHistogram>,
    /// One sample per second. If pgbench logs only some transactions, the transaction counts come from its progress
    /// reports.
    #[ts(skip)]
    pub samples: Vec<Sample>,
    /// Use of the machine by second.
    #[ts(skip)]
    pub os_samples: Vec<OsSample>,
    /// Samples of server processes by second.
    #[ts(skip)]
    pub wait_samples: Vec<WaitSample>,
    /// Sampled waits of server processes over the whole trial.
    #[ts(skip)]
    pub waits: Waits,
    /// Where the server's time went; `None` if not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<TrialTime>,
    pub scripts: Vec<ScriptLatency>,
    pub statistics: StatisticsDelta,
    /// shared_buffers of the whole cluster before the load.
    pub buffers_before: Vec<BufferUse>,
    /// shared_buffers of the whole cluster after the load.
    pub buffers_after: Vec<BufferUse>,
    /// Checkpoints that ended in the trial, from the log.
    pub checkpoints: Vec<Checkpoint>,
    pub checkpoint_begun: Option<CheckpointBegun>,
    /// Whole checkpoint cycles, each from one checkpoint's start to the next.
    pub checkpoint_cycles: u32,
    /// Transactions per second in whole checkpoint cycles.
    pub cycle_tps: Option<f64>,
    /// The server's settings in force.
    pub settings: Vec<(String, String)>,
    /// Bytes read from the device, by all processes.
    pub device_read_bytes: Bytes,
    /// Actual properties of the file system created for the trial.
    #[ts(skip)]
    pub file_system: Option<FileSystemFacts>,
    /// Devices that hold the server's data, main device first; empty with only one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<TrialDevice>,
    /// `None` if trials share one database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fresh_copy: Option<FreshCopy>,
    pub server_version: Option<String>,
    pub verdicts: Vec<MeasurementVerdict>,
    /// The texts of the verdicts.
    pub warnings: Vec<String>,
}

/// A device with a part of the server's data. Figures include all processes and are means over the trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema, crate::TS)]
pub struct TrialDevice {
    /// `wal`, `slru`, `tables`, `indexes`, `rest` (the remaining data directory), or the log device of a part's file
    /// system: `log` for `rest`, `wal-log`, ….
    pub part: String,
    /// The disk's name in the study.
    pub disk: Option<String>,
    /// Name in /sys/block.
    pub device: String,
    pub reads_per_second: f64,
    pub read_bytes_per_second: f64,
    pub writes_per_second: f64,
    pub written_bytes_per_second: f64,
    pub bytes_per_write: Option<f64>,
    /// Share of time with a request in progress, 0 to 1.
    pub busy_ratio: f64,
    #[ts(skip)]
    pub file_system: Option<FileSystemFacts>,
}

/// A checkpoint that had not ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema, crate::TS)]
pub struct CheckpointBegun {
    /// From the start of the measurement to the start of the checkpoint.
    pub began_after_seconds: f64,
    pub reason: String,
}

/// A logged checkpoint. It writes for `write_seconds`, then synchronises for `sync_seconds`. `total_seconds` includes
/// other work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema, crate::TS)]
pub struct Checkpoint {
    /// From the start of the measurement to the start of the checkpoint; negative if the checkpoint began earlier.
    pub began_after_seconds: f64,
    /// From the start of the measurement to the end of the checkpoint.
    pub ended_after_seconds: f64,
    /// `time`, `wal`, `immediate force wait` …; empty if the checkpoint began before the trial.
    pub reason: String,
    /// Written buffers.
    pub buffers: u64,
    pub write_seconds: f64,
    pub sync_seconds: f64,
    pub total_seconds: f64,
    /// Number of flushed files.
    pub sync_files: u64,
    /// Longest flush of a file.
    pub longest_sync_seconds: f64,
}

pub fn empty_trial(sweep_id: &str, point: &Point, turn: &Turn, started_at: Timestamp) -> SweepTrial {
    SweepTrial {
        sweep_id: sweep_id.to_owned(),
        number: turn.point,
        point: point.clone(),
        repeat: turn.repeat,
        position: turn.position,
        started_at,
        ..SweepTrial::default()
    }
}

const FEWEST_WHOLE_SECONDS: usize = 5;

/// Ignores the first and last second, in which clients connect and disconnect. `None` if there are too few seconds, or
/// if the slowest second has more transactions than `tps`.
pub fn compute_worst_second(samples: &[Sample], tps: f64) -> Option<f64> {
    let whole = samples.get(1..samples.len().checked_sub(1)?).filter(|whole| whole.len() >= FEWEST_WHOLE_SECONDS)?;
    let worst = whole.iter().map(|sample| sample.transactions).min()? as f64;
    (worst <= tps).then_some(worst)
}

/// Measures pgbench with an empty statement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct GeneratorCalibration {
    pub clients: u32,
    pub jobs: u32,
    pub query_mode: QueryMode,
    pub tps: f64,
    /// Median share of time that pgbench's busiest thread was on a processor.
    pub cpu_ratio: f64,
    /// Median share of time that pgbench's busiest thread waited for a processor.
    pub run_delay_ratio: f64,
}

impl Disk {
    pub fn not_in_force(&self) -> impl Iterator<Item = (&'static str, &String)> {
        let asked = [
            ("limit", &self.not_enforced),
            ("limit on writes", &self.writes_not_enforced),
            ("read-ahead", &self.read_ahead_not_enforced),
        ];
        asked.into_iter().filter_map(|(what, reason)| Some((what, reason.as_ref()?)))
    }

    pub fn limits_writes(&self) -> bool {
        self.wiops.is_some() || self.wbps.is_some()
    }

    pub fn read_ahead_in_force(&self, own: Bytes) -> Bytes {
        self.read_ahead.filter(|_| self.read_ahead_not_enforced.is_none()).unwrap_or(own)
    }

    pub fn is_limited(&self) -> bool {
        let reads = self.not_enforced.is_none() && (self.riops.is_some() || self.rbps.is_some());
        reads || (self.writes_not_enforced.is_none() && self.limits_writes())
    }
}

/// Forecast of a cold trial without a warmer. Bounds of times assume a device and a processor 15 % better or worse.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema, crate::TS)]
pub struct StudyForecast {
    pub cold_tps: f64,
    pub steady_tps: f64,
    /// Seconds until the throughput is 50 % of `steady_tps`. `None` means never.
    pub to_50_seconds: Option<Span>,
    /// Seconds until fewer than 1 % of the transactions read from the device. `None` means never.
    pub warm_after_seconds: Option<Span>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, crate::JsonSchema, crate::TS)]
pub struct Machine {
    pub hostname: String,
    pub kernel: String,
    pub cpu_model: String,
    /// Number of processors.
    pub cores: u32,
    pub memory_bytes: Bytes,
    /// File system of the data directory.
    pub file_system: String,
    pub device: Device,
}

/// The device of the data directory.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, crate::JsonSchema, crate::TS)]
pub struct Device {
    pub name: String,
    /// Device number, such as `259:0`.
    pub major_minor: String,
    pub rotational: bool,
    pub read_ahead_bytes: Bytes,
    /// Empty if unknown.
    pub model: String,
    /// Kernel drivers from the disk up to its bus. Behind a controller, the last driver is the controller's.
    pub drivers: Vec<String>,
    /// `write back` or `write through`; empty if unknown.
    pub write_cache: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, crate::JsonSchema, crate::TS)]
pub struct Disk {
    /// `gp3`, `hdd`, `custom` or `native`.
    pub name: String,
    /// Reads per second. `None` is no limit.
    pub riops: Option<u64>,
    /// Bytes read per second. `None` is no limit.
    pub rbps: Option<Bytes>,
    /// Writes per second. `None` is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wiops: Option<u64>,
    /// Bytes written per second. `None` is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wbps: Option<Bytes>,
    /// Why a requested write limit is not in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writes_not_enforced: Option<String>,
    /// Why a requested read limit is not in force.
    pub not_enforced: Option<String>,
    /// Bytes of read-ahead. `None` keeps the device's own setting.
    pub read_ahead: Option<Bytes>,
    /// Why the requested read-ahead is not in force.
    pub read_ahead_not_enforced: Option<String>,
}

/// Cached part of the benchmark database before the measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema, crate::TS)]
pub struct StartState {
    pub os_resident_bytes: Bytes,
    pub total_bytes: Bytes,
    /// `cold` (at most 1 % resident), `lukewarm`, `warm` (95 %) or `restored`.
    pub verdict: String,
}

/// Minimum resident share of a warm database or restored snapshot: the kernel may evict pages.
pub const WARM_START_SHARE: f64 = 0.95;
/// Maximum resident share of a cold database.
const COLD_SHARE: f64 = 0.01;

impl StartState {
    pub fn of(os_resident_bytes: Bytes, total_bytes: Bytes) -> StartState {
        let verdict = match os_resident_bytes.0 as f64 / total_bytes.0.max(1) as f64 {
            share if share >= WARM_START_SHARE => "warm",
            share if share <= COLD_SHARE => "cold",
            _ => "lukewarm",
        };
        StartState { os_resident_bytes, total_bytes, verdict: verdict.to_owned() }
    }
}

/// A second of a trial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct Sample {
    /// Seconds from the start of the measurement to the end of this second: 1 for the first second.
    pub second: u32,
    /// Time since boot.
    pub monotonic_ms: u64,
    /// Time since 1970, UTC.
    pub wall_ms: i64,
    pub transactions: u64,
    /// `None` without transactions.
    pub latency_us_mean: Option<f64>,
    /// `None` without transactions.
    pub latency_us_min: Option<u64>,
    /// `None` without transactions.
    pub latency_us_max: Option<u64>,
    /// Standard deviation. `None` without transactions, or if no sum of squares was recorded.
    pub latency_us_deviation: Option<f64>,
    /// Bytes read from the device by the workload's backends.
    pub foreground_read_bytes: Bytes,
    /// Bytes read from the device, by all processes.
    pub device_read_bytes: Bytes,
    /// Reads of the device, by all processes.
    pub device_reads: u64,
    /// Bytes of the benchmark database in the page cache.
    pub os_resident_bytes: Bytes,
}

/// Outcome of a warmer, or of a job beside the load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, crate::JsonSchema, crate::TS)]
pub struct StrategyOutcome {
    pub command: String,
    /// Seconds from the start of the measurement. `None` if the command outlived the trial, or if there was none.
    pub ended_after_seconds: Option<f64>,
    /// Bytes that the strategy's own processes read from the device.
    pub issued_bytes: Option<Bytes>,
    pub failure: Option<String>,
    /// End of the command's output.
    pub output: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema, crate::TS)]
pub struct RelationResidency {
    pub relation: String,
    pub kind: String,
    pub total_bytes: Bytes,
    pub before: ResidencyStrip,
    pub after: ResidencyStrip,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub course: Option<ResidencyCourse>,
}

/// Cached share of a relation over time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema, crate::TS)]
pub struct ResidencyCourse {
    /// Seconds between samples, and from the trial's start to the first sample.
    pub step_seconds: u32,
    /// Share of the relation in the page cache, 0 to 1, rounded to a thousandth.
    pub shares: Vec<f32>,
}

const COURSE_LOOKS: usize = 600;

impl ResidencyCourse {
    pub fn of(resident: &[Bytes], total: Bytes) -> Option<ResidencyCourse> {
        let step = resident.len().div_ceil(COURSE_LOOKS).max(1);
        let share = |bytes: &Bytes| (1000.0 * bytes.0 as f32 / total.0.max(1) as f32).round().min(1000.0) / 1000.0;
        let shares: Vec<f32> = resident.iter().skip(step - 1).step_by(step).map(share).collect();
        (!shares.is_empty()).then_some(ResidencyCourse { step_seconds: step as u32, shares })
    }
}

/// Resident shares, 0 to 1, of equal pieces of the relation, from the first block to the last.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema, crate::TS)]
pub struct ResidencyStrip {
    /// In the page cache.
    pub os: Vec<f32>,
    /// In shared_buffers.
    pub buffers: Vec<f32>,
}

pub const NO_DISK: &str = "none";

pub fn new_run_id(started_at: Timestamp) -> String {
    format!("{}-{:04x}", started_at.strftime("%Y%m%d-%H%M%S"), rand::random::<u16>())
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema, crate::TS)]
pub struct WarmupFacts {
    pub disk: Disk,
    pub database_bytes: Bytes,
    /// Wanted bytes: the database's pages in the page cache when warm.
    pub wanted_bytes: Bytes,
    /// Throughput of the warm server without a disk limit.
    pub calibration_tps: Option<f64>,
    /// Forecast without a warmer. `None` if the device figures are unknown or the script is the user's own.
    pub forecast: Option<StudyForecast>,
}

/// Warm-up of a trial that starts cold. Durations and instants are seconds since the load began.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, crate::JsonSchema, crate::TS)]
pub struct Warming {
    #[serde(flatten)]
    pub figures: WarmingFigures,
    /// Bytes that the workload's backends read from the device in each tenth of a second. They determine the decimal of
    /// `warm_after_seconds`.
    pub foreground_tenths: Vec<Bytes>,
    pub residency: Vec<RelationResidency>,
    /// Samples of a trial that ended when all pages of the snapshot were resident.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub looks: Vec<LoadSample>,
}

/// Figures that comparisons with other trials need.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, crate::JsonSchema, crate::TS)]
pub struct WarmingFigures {
    /// Measured seconds; without a load, the trial's time limit. An event that did not occur takes longer than this.
    pub measured_seconds: u32,
    /// Seconds until warm: from then to the trial's end, fewer than 1 % of transactions read from the device. Rounded
    /// to a tenth.
    pub warm_after_seconds: Option<f64>,
    /// Transactions until warm; all of the trial if the server never became warm.
    pub served_until_warm: u64,
    pub served: u64,
    /// Median throughput after `warm_after_seconds`.
    pub warm_tps: Option<f64>,
    /// Successive maxima of throughput.
    pub climb: Vec<Climb>,
    /// Bytes in the page cache when warm. `None` if no snapshot was needed.
    pub wanted_bytes: Option<Bytes>,
    /// Seconds that any warmer needs at least: `brought.bound.seconds` if known, otherwise `wanted_bytes` ÷ the disk's
    /// bandwidth limit. `None` if unknown, or if the user's own script may need fewer bytes.
    pub bound_seconds: Option<f64>,
    /// Verdict on the throughput curve. If `None`, see `no_verdict`.
    pub judgement: Option<Judgement>,
    pub no_verdict: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub brought: Option<Brought>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<Job>,
}

/// A load that ends after a fixed number of transactions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema, crate::TS)]
pub struct Job {
    pub transactions: u64,
    /// Duration of the warmer; `None` without a warmer, or if the warmer outlived the load.
    pub warmer_seconds: Option<f64>,
    /// From the start of the load to its end.
    pub load_seconds: f64,
    /// From the cold start to the end of the load, including a warmer that ran before.
    pub whole_seconds: f64,
}

const CURVE_TRANSACTIONS: u64 = 1000;

impl Job {
    pub fn is_without_curve(&self) -> bool {
        self.transactions < CURVE_TRANSACTIONS
    }
}

/// A new maximum of throughput.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema, crate::TS)]
pub struct Climb {
    /// Start of the second with the maximum.
    pub seconds: f64,
    /// Transactions in this one-second interval, or their three-second running median, whichever is smaller.
    pub tps: f64,
}

impl WarmingFigures {
    /// Seconds until the throughput and its running median over three seconds first reached `tps`.
    pub fn seconds_to(&self, tps: f64) -> Option<f64> {
        self.climb.iter().find(|step| step.tps >= tps).map(|step| step.seconds)
    }
}

/// A complete warmer loads this share of the snapshot's pages: the kernel may evict some.
pub const RESIDENT_SHARE: f64 = 0.99;

/// Result of a warmer without a load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, crate::JsonSchema, crate::TS)]
pub struct Brought {
    /// Number of pages that the page cache should contain, according to the snapshot.
    pub wanted_pages: u64,
    /// Number of contiguous ranges in `wanted_pages`.
    pub wanted_pieces: u64,
    /// Contents of shared_buffers in the snapshot.
    pub former_buffers_bytes: Bytes,
    /// Contents of shared_buffers in the snapshot with usage count 3 or more.
    pub former_hot_bytes: Bytes,
    /// `None` unless the disk is limited.
    pub bound: Option<Bound>,
    /// Seconds until 99 % of the snapshot's pages were seen in the page cache. `None` if not reached, or for
    /// `fio-direct`.
    pub resident_after_seconds: Option<f64>,
    /// Seconds until 90 % of the snapshot's buffers were restored and 90 % of its hot buffers were hot again. Only for
    /// `pgthaw`.
    pub buffers_after_seconds: Option<f64>,
    /// Bytes of the snapshot that were resident at the end, with each page checked again.
    pub resident_bytes: Bytes,
    /// Processor time of the warmer's own processes.
    pub cpu_seconds: Option<f64>,
    /// Reads of all processes under the disk limit; without a limit, of the whole machine.
    pub device_reads: Option<u64>,
    /// Bytes reported by fio.
    pub own_bytes: Option<Bytes>,
    /// Seconds reported by fio.
    pub own_seconds: Option<f64>,
}

/// Fastest possible warmer: it also reads the gaps between wanted pages where this saves time. Ignores the order of
/// reads, hot pages and other readers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema, crate::TS)]
pub struct Bound {
    pub reads: u64,
    /// Includes gaps between the snapshot's pages.
    pub read_bytes: Bytes,
    pub seconds: f64,
}

/// A sample of a warmer without a load. Sampling uses up to a quarter of a processor.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema, crate::TS)]
pub struct LoadSample {
    pub seconds: f64,
    /// Bytes of the snapshot seen in the page cache; an upper limit unless `is_exact`.
    pub resident_bytes: Bytes,
    pub is_exact: bool,
    /// Bytes of restored buffers.
    pub buffers_bytes: Option<Bytes>,
    /// Bytes of the snapshot's hot buffers that are hot again.
    pub hot_bytes: Option<Bytes>,
}

pub trait Record {
    fn hide_secrets(&mut self);
}

impl Record for StrategyOutcome {
    fn hide_secrets(&mut self) {
        hide_texts([&mut self.command, &mut self.output].into_iter().chain(&mut self.failure));
    }
}

impl Record for SweepRun {
    fn hide_secrets(&mut self) {
        for setting in &mut self.configuration {
            setting.value = setting.value.take().map(|value| keep_setting(&setting.name, value));
        }
        keep_document(&mut self.study);
        hide_texts(self.warnings.iter_mut().chain([&mut self.question]).chain(&mut self.source));
        self.verdicts.iter_mut().for_each(keep_record);
    }
}

impl Record for Point {
    fn hide_secrets(&mut self) {
        hide_settings(&mut self.settings);
        hide_settings(&mut self.variables);
    }
}

impl Record for SweepTrial {
    fn hide_secrets(&mut self) {
        hide_settings(&mut self.settings);
        self.point.hide_secrets();
        hide_texts([&mut self.command].into_iter().chain(&mut self.failure).chain(&mut self.warnings));
        hide_texts(self.file_system.iter_mut().flat_map(|own| &mut own.commands));
        hide_texts(self.devices.iter_mut().flat_map(|one| &mut one.file_system).flat_map(|own| &mut own.commands));
        self.strategy_outcome.iter_mut().for_each(Record::hide_secrets);
        self.verdicts.iter_mut().for_each(keep_record);
    }
}

fn hide_settings(settings: &mut [(String, String)]) {
    for (name, value) in settings {
        *value = keep_setting(name, std::mem::take(value));
    }
}

pub fn hide_texts<'a>(texts: impl IntoIterator<Item = &'a mut String>) {
    for text in texts {
        *text = keep_text(std::mem::take(text));
    }
}

/// Time in seconds since 1970 with milliseconds, and process id.
pub const LOG_LINE_PREFIX: &str = "%n [%p] ";

const STARTING: &str = "LOG:  checkpoint starting: ";
const COMPLETE: &str = "LOG:  checkpoint complete: ";

pub const AUTOVACUUM: [&str; 5] = [
    "automatic vacuum of table ",
    "automatic aggressive vacuum of table ",
    "automatic vacuum to prevent wraparound of table ",
    "automatic aggressive vacuum to prevent wraparound of table ",
    "automatic analyze of table ",
];

/// Selects lines about checkpoints and autovacuum.
pub fn tells_of_trial(line: &str) -> bool {
    [STARTING, COMPLETE].into_iter().chain(AUTOVACUUM).any(|sign| line.contains(sign))
}

/// Returns the ended checkpoints, and the last checkpoint if it has not ended. Times are relative to `start_unix`.
pub fn parse_checkpoints(log: &str, start_unix: i64) -> (Vec<Checkpoint>, Option<CheckpointBegun>) {
    let (mut checkpoints, mut begun): (Vec<Checkpoint>, Option<CheckpointBegun>) = (Vec::new(), None);
    for line in log.lines() {
        if let Some((head, why)) = line.split_once(STARTING) {
            begun = logged_after_seconds(head, start_unix)
                .map(|began_after_seconds| CheckpointBegun { began_after_seconds, reason: why.trim().to_owned() });
        } else if let Some(mut ended) = parse_complete(line, start_unix) {
            if let Some(begun) = begun.take() {
                ended.reason = begun.reason;
                ended.began_after_seconds = begun.began_after_seconds;
            }
            checkpoints.push(ended);
        }
    }
    (checkpoints, begun)
}

fn logged_after_seconds(head: &str, start_unix: i64) -> Option<f64> {
    let unix: f64 = head.split_ascii_whitespace().next()?.parse().ok()?;
    Some(unix - start_unix as f64)
}

/// PostgreSQL 18 also reports SLRU buffers.
fn parse_complete(line: &str, start_unix: i64) -> Option<Checkpoint> {
    let (head, said) = line.split_once(COMPLETE)?;
    let seconds = |name: &str| -> Option<f64> {
        let (_, rest) = said.split_once(&format!("{name}="))?;
        rest.split_once(" s")?.0.parse().ok()
    };
    let (ended_after_seconds, total_seconds) = (logged_after_seconds(head, start_unix)?, seconds("total")?);
    let (_, files) = said.split_once("sync files=")?;
    Some(Checkpoint {
        // The caller replaces this value if the checkpoint's start was logged.
        began_after_seconds: ended_after_seconds - total_seconds,
        ended_after_seconds,
        reason: String::new(),
        buffers: said.strip_prefix("wrote ")?.split_once(' ')?.0.parse().ok()?,
        write_seconds: seconds("write")?,
        sync_seconds: seconds("sync")?,
        total_seconds,
        sync_files: files.split_once(',')?.0.parse().ok()?,
        longest_sync_seconds: seconds("longest")?,
    })
}

#[cfg(test)]
pub mod tests {
    use serde_json::json;

    use super::{compute_worst_second, empty_trial, *};
    use crate::study::point::Turn;
    use crate::study::spec::tests::sweep;

    pub fn sample(second: u32, transactions: u64, foreground_read_bytes: u64) -> Sample {
        Sample {
            second,
            monotonic_ms: u64::from(second) * 1000,
            wall_ms: i64::from(second) * 1000,
            transactions,
            latency_us_mean: None,
            latency_us_min: None,
            latency_us_max: None,
            latency_us_deviation: None,
            foreground_read_bytes: Bytes(foreground_read_bytes),
            device_read_bytes: Bytes(foreground_read_bytes),
            device_reads: 0,
            os_resident_bytes: Bytes(0),
        }
    }

    pub fn trial() -> SweepTrial {
        let turn = Turn { point: 0, repeat: 1, position: 1 };
        empty_trial("1", &sweep("").unwrap().point(0), &turn, Timestamp::UNIX_EPOCH)
    }

    pub fn run() -> SweepRun {
        let device = json!({
            "name": "vda", "major_minor": "254:0", "rotational": false, "read_ahead_bytes": 131_072, "model": "",
            "drivers": [], "write_cache": "",
        });
        let machine = json!({
            "hostname": "lab", "kernel": "6.18", "cpu_model": "", "cores": 2, "memory_bytes": 1_u64 << 34,
            "file_system": "ext4", "device": device,
        });
        let server = json!({
            "version_num": 150_018, "version": "15.18", "system_identifier": 1, "cluster_name": "pgthaw-lab",
            "block_size": 8192, "segment_blocks": 131_072, "shared_buffers_bytes": 1 << 27, "data_directory": null,
            "io_direct": false, "io_method": null, "in_recovery": false, "lsn": "", "timeline": 1, "role": "postgres",
            "is_superuser": true, "postmaster_pid": null,
        });
        let run = json!({
            "id": "1", "started_at": "2026-11-22T08:00:00Z", "ended_at": null, "pgthaw_version": "", "pgbench_version": "",
            "machine": machine, "server": server, "question": "", "digest": "", "study": {}, "varied": [], "points": 1,
            "repeats": 1, "seed": 7, "configuration": [], "databases": [], "generator": [], "verdicts": [], "warnings": [],
        });
        serde_json::from_value(run).unwrap()
    }

    #[test]
    fn a_document_with_an_empty_axis_has_none() {
        let study = sweep("kind = 'warmup'\n[points]\nstart = 'cold'\nseconds = 5\n").unwrap();
        let kept = SweepRun { study: serde_json::to_value(&study).unwrap(), ..run() };
        assert!(kept.axes().is_some() && kept.subject().contains("scale"), "{}", kept.subject());
        for axis in ["scale", "clients", "start", "strategy"] {
            let mut edited = kept.clone();
            edited.study["axes"][axis] = json!([]);
            assert!(edited.axes().is_none() && edited.subject() == edited.question, "{axis}");
        }
    }

    #[test]
    fn warm_is_nearly_all_and_cold_nearly_nothing() {
        let judge = |resident| StartState::of(Bytes(resident), Bytes(1000)).verdict;
        assert_eq!([0, 10, 11, 949, 950, 1000].map(judge), ["cold", "cold", "lukewarm", "lukewarm", "warm", "warm"]);
        assert_eq!(StartState::of(Bytes(0), Bytes(0)).verdict, "cold");
    }

    #[test]
    fn the_worst_second_is_a_whole_one() {
        let of = |counts: &[u64]| {
            let seconds: Vec<Sample> = (1..).zip(counts).map(|(second, count)| sample(second, *count, 0)).collect();
            compute_worst_second(&seconds, 45.0)
        };
        assert_eq!(of(&[1, 50, 40, 60, 50, 70, 2]), Some(40.0));
        assert_eq!(of(&[1, 50, 40, 60, 50, 2]), None);
        assert_eq!(of(&[1, 50, 46, 60, 50, 70, 2]), None);
        assert_eq!([of(&[1, 2]), of(&[1]), of(&[])], [None; 3]);
    }
}

#[cfg(test)]
mod log_tests {
    use super::*;

    #[test]
    fn a_checkpoint_has_the_reason_that_was_logged_before_it() {
        let log = "1000.100 [7] LOG:  checkpoint starting: time\n1000.200 [9] ERROR:  no checkpoint complete\n\
            1003.500 [7] LOG:  checkpoint complete: wrote 1040 buffers (6.3%); 0 WAL file(s) added, 0 removed, 3 recycled; \
            write=3.301 s, sync=0.050 s, total=3.400 s; sync files=9, longest=0.041 s, average=0.001 s; distance=1 kB\n\
            1009.000 [7] LOG:  checkpoint complete: wrote 1 buffers (0.0%), wrote 2 SLRU buffers; 0 WAL file(s) added, 0 \
            removed, 0 recycled; write=0.001 s, sync=0.002 s, total=0.003 s; sync files=1, longest=0.002 s, average=0 s\n";
        let (checkpoints, begun) = parse_checkpoints(log, 1000);
        assert_eq!(checkpoints.len(), 2);
        assert_eq!(begun, None);
        let first = &checkpoints[0];
        assert_eq!((first.reason.as_str(), first.buffers, first.write_seconds), ("time", 1040, 3.301));
        assert_eq!((first.ended_after_seconds, first.sync_seconds, first.longest_sync_seconds), (3.5, 0.05, 0.041));
        assert!((first.began_after_seconds - 0.1).abs() < 1e-6 && first.sync_files == 9, "{first:?}");
        assert_eq!((checkpoints[1].reason.as_str(), checkpoints[1].buffers), ("", 1));
        assert!((checkpoints[1].began_after_seconds - 8.997).abs() < 1e-6, "{checkpoints:?}");
    }

    #[test]
    fn lines_that_are_read_are_kept_and_no_others() {
        let lines = ["7 [7] LOG:  checkpoint starting: time", "7 [7] LOG:  automatic analyze of table \"b.public.x\""];
        assert!(lines.into_iter().all(tells_of_trial));
        let others = [
            "7 [7] LOG:  statement: SELECT 1",
            "\tpages: 0 removed",
            "7 [7] LOG:  checkpoints are occurring too often",
        ];
        assert!(!others.into_iter().any(tells_of_trial));
    }

    #[test]
    fn a_checkpoint_that_did_not_end_is_known_to_have_begun() {
        let begun = parse_checkpoints("1004.250 [7] LOG:  checkpoint starting: wal\n", 1000).1;
        assert_eq!(begun, Some(CheckpointBegun { began_after_seconds: 4.25, reason: "wal".into() }));
    }

    #[test]
    fn what_is_no_checkpoint_is_passed_over() {
        let log =
            "LOG:  checkpoint complete: wrote many buffers\n1 [2] LOG:  checkpoint complete: wrote 1 buffers (0%)\n";
        assert_eq!(parse_checkpoints(log, 0), (vec![], None));
    }
}
