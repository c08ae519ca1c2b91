//! What a sweep and its trials leave behind: the types that the results store keeps.
//!
//! Field names are part of `--json` (docs/formats.md): add, never rename.

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
use observe::{DeviceUse, OsSample, WaitSample, Waits};
use pgbench::QueryMode;
use postgres::{ConfiguredSetting, ServerFacts, StatisticsDelta, keep_document, keep_setting, keep_text};

/// A run of a study, with the invocations that went on where it was interrupted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct SweepRun {
    /// Unique, sortable by time: `20261121-233005-4f2a`.
    pub id: String,
    pub started_at: Timestamp,
    /// `None` until every trial has ended.
    pub ended_at: Option<Timestamp>,
    pub pgthaw_version: String,
    /// `pgbench (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)`.
    pub pgbench_version: String,
    pub machine: Machine,
    pub server: ServerFacts,
    /// Every setting of the server before the first trial; a trial has its own beside them.
    #[cfg_attr(test, ts(skip))]
    pub configuration: Vec<ConfiguredSetting>,
    /// What the study asks, for people.
    pub question: String,
    /// SHA-256 of what the study file means: the same study has the same.
    pub digest: String,
    /// The study as it was understood.
    #[cfg_attr(test, ts(type = "unknown"))]
    pub study: serde_json::Value,
    /// Names of the axes with more than one value.
    pub varied: Vec<String>,
    pub points: u32,
    pub repeats: u32,
    /// Seed of the random order.
    pub seed: u64,
    /// How long its databases took to make.
    pub databases: Vec<DatabaseMaking>,
    /// What pgbench does here with an empty statement, for each number of threads.
    #[cfg_attr(test, ts(skip))]
    pub generator: Vec<GeneratorCalibration>,
    /// What speaks against the whole sweep.
    pub verdicts: Vec<MeasurementVerdict>,
    /// The same as texts.
    pub warnings: Vec<String>,
    /// What was found of a study of ways to warm before its trials; `None` of others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warmup: Option<WarmupFacts>,
    /// What it was imported from; `None`: pgthaw measured it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

impl SweepRun {
    /// Is it a study of ways to warm one server?
    pub fn is_warmup(&self) -> bool {
        self.study["is_warmup"] == true
    }

    /// Is the warmer all that varies?
    pub fn compares_warmers(&self) -> bool {
        self.varied == [STRATEGY]
    }

    /// Do its trials end when what is wanted is resident, on an idle server?
    pub fn is_idle(&self) -> bool {
        self.study["until"] == "resident"
    }

    /// What a study asks, in words; of a study of warmers that nobody gave a name, what it is about.
    pub fn subject(&self) -> String {
        if !self.question.is_empty() {
            return self.question.clone();
        }
        let Some(point) = self.axes().map(|axes| axes.point(0)) else { return String::new() };
        let (script, scale) = (point.script_name(), point.scale);
        match self.study["wanted_seconds"].as_u64() {
            _ if self.is_warmup() => format!("ways to warm: pgbench {script}, scale {scale}"),
            Some(seconds) if self.is_idle() => {
                let clients = counted(point.clients, "client");
                format!("residency of what {seconds} s of {script} with {clients} read from cold, scale {scale}")
            }
            None if self.is_idle() => format!("residency of everything, scale {scale}"),
            _ => String::new(),
        }
    }

    /// The axes as the study was understood; `None` where it was imported, or where somebody's edit left an axis without a value.
    pub fn axes(&self) -> Option<Axes> {
        serde_json::from_value(self.study["axes"].clone()).ok().filter(|axes: &Axes| axes.count() > 0)
    }
}

/// One repetition of one point.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct SweepTrial {
    pub sweep_id: String,
    /// The point's number, from 0, and what it is.
    pub number: u32,
    #[cfg_attr(test, ts(type = "Record<string, unknown>"))]
    pub point: Point,
    /// From 1.
    pub repeat: u32,
    /// Position in the random order, from 1.
    pub position: u32,
    pub started_at: Timestamp,
    /// With all that belongs to it, from the making of its start state on.
    pub ended_at: Option<Timestamp>,
    /// Measured right before the clock started; `None` when it did not come to that.
    pub start_state: Option<StartState>,
    /// pgbench's command.
    pub command: String,
    /// What warmed the server beside the load did; `None` where nothing did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategy_outcome: Option<StrategyOutcome>,
    /// How it got warm, of a trial that was asked to start cold; `None` of others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warming: Option<Warming>,
    /// The hosts that made the load; `None`: pgbench ran on this one.
    pub generators: Option<TrialGenerators>,
    /// Why there are no figures; `None` when it went well.
    pub failure: Option<String>,
    /// Seconds from the start of pgbench to its end.
    pub lasted_seconds: f64,
    /// By pgbench's own count: those that ended well, that failed, that were due too long ago.
    pub transactions: u64,
    pub failed: u64,
    pub skipped: u64,
    /// Those that were tried more than once, and how often in all.
    pub retried: u64,
    pub retries: u64,
    /// Of those that ended well, above the latency limit.
    pub late: u64,
    /// Transactions per second, without the time that the first connections took.
    pub tps: f64,
    /// Transactions of the slowest whole second.
    pub worst_second_tps: Option<f64>,
    /// Of the transactions of all scripts, as [`ScriptLatency::response`]; `None` when there are no figures.
    pub latency: Option<LatencyHistogram>,
    /// With a share of the transactions logged alone, `transactions` is by pgbench's own progress.
    #[cfg_attr(test, ts(skip))]
    pub samples: Vec<Sample>,
    /// What the machine did in each second.
    #[cfg_attr(test, ts(skip))]
    pub os_samples: Vec<OsSample>,
    /// What the server's processes were seen to wait for, in each second and over the whole trial.
    #[cfg_attr(test, ts(skip))]
    pub wait_samples: Vec<WaitSample>,
    #[cfg_attr(test, ts(skip))]
    pub waits: Waits,
    /// Where the time of the server's processes went; `None` where nobody looked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<TrialTime>,
    pub scripts: Vec<ScriptLatency>,
    /// What grew in the server's statistics views.
    pub statistics: StatisticsDelta,
    pub buffers_before: Vec<BufferUse>,
    pub buffers_after: Vec<BufferUse>,
    /// Those that ended within the trial, as the server logged them.
    pub checkpoints: Vec<Checkpoint>,
    /// The one that began within the trial and did not end in it.
    pub checkpoint_begun: Option<CheckpointBegun>,
    /// Whole cycles of checkpoints within the trial, from the beginning of one to that of the next, and transactions per
    /// second within them; `None` without a whole one.
    pub checkpoint_cycles: u32,
    pub cycle_tps: Option<f64>,
    /// Settings of the server that are not the default, name and value.
    pub settings: Vec<(String, String)>,
    /// Read from the device by anybody.
    pub device_read_bytes: Bytes,
    /// The file system that was made for it, as it was read back; `None` on the one that was there.
    #[cfg_attr(test, ts(skip))]
    pub file_system: Option<FileSystemFacts>,
    /// Each device that a part of the server had to itself, the rest first; none where all was on one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<TrialDevice>,
    /// The copy of the databases that it ran on; `None` where trials follow each other in one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fresh_copy: Option<FreshCopy>,
    /// As the server says it; `None` when it did not come to that.
    pub server_version: Option<String>,
    /// What speaks against the trial.
    pub verdicts: Vec<MeasurementVerdict>,
    /// The same as texts.
    pub warnings: Vec<String>,
}

/// What a device of a trial was, and what it did from its start to its end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct TrialDevice {
    /// `wal`, `slru`, `tables`, `indexes`; `rest` is the data directory without them, `log` what its file system has its log on.
    pub part: String,
    /// The name of its limits; `None` without any.
    pub disk: Option<String>,
    /// The device's name in /sys/block.
    pub device: String,
    /// Means over the seconds: requests and bytes per second, by anybody.
    pub reads_per_second: f64,
    pub read_bytes_per_second: f64,
    pub writes_per_second: f64,
    pub written_bytes_per_second: f64,
    /// `None` without a write.
    pub bytes_per_write: Option<f64>,
    /// Share of the time in which a request was under way.
    pub busy_ratio: f64,
    #[cfg_attr(test, ts(skip))]
    pub file_system: Option<FileSystemFacts>,
}

impl TrialDevice {
    /// Of a part that had this device to itself.
    pub fn new(
        part: &str,
        disk: Option<String>,
        device: &str,
        file_system: Option<FileSystemFacts>,
        seconds: &[OsSample],
    ) -> TrialDevice {
        let uses = || seconds.iter().filter_map(|second| second.parts.get(part));
        let mean = |of: fn(&DeviceUse) -> f64| uses().map(of).sum::<f64>() / uses().count().max(1) as f64;
        let (writes, written) = (mean(|one| one.writes as f64), mean(|one| one.written_bytes.0 as f64));
        TrialDevice {
            part: part.to_owned(),
            disk,
            device: device.to_owned(),
            reads_per_second: mean(|one| one.reads as f64),
            read_bytes_per_second: mean(|one| one.read_bytes.0 as f64),
            writes_per_second: writes,
            written_bytes_per_second: written,
            bytes_per_write: (writes > 0.0).then(|| written / writes),
            busy_ratio: mean(|one| one.busy_ratio),
            file_system,
        }
    }
}

/// The used buffers of one usage count, of the whole cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct BufferUse {
    /// 0 to 5.
    pub usage_count: u8,
    pub buffers: u64,
    pub dirty: u64,
}

/// A checkpoint that has not ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct CheckpointBegun {
    /// Seconds since the start of pgbench.
    pub began_after_seconds: f64,
    /// `time`, `wal`, `immediate force wait` …
    pub reason: String,
}

/// A checkpoint, as the server logs it. It writes for `write_seconds` from its beginning on, then synchronises for
/// `sync_seconds`, and what is left of `total_seconds` is the rest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Checkpoint {
    /// Seconds since the start of pgbench; below 0 when it began before.
    pub began_after_seconds: f64,
    pub ended_after_seconds: f64,
    /// `time`, `wal`, `immediate force wait` …: why it was made; empty when that was logged before the trial.
    pub reason: String,
    pub buffers: u64,
    pub write_seconds: f64,
    pub sync_seconds: f64,
    pub total_seconds: f64,
    pub sync_files: u64,
    /// Of one file's synchronisation.
    pub longest_sync_seconds: f64,
}

/// A trial without figures yet.
pub fn empty_trial(sweep_id: &str, point: &Point, turn: &Turn<u32>, started_at: Timestamp) -> SweepTrial {
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

/// Of fewer whole seconds none is called the worst.
const FEWEST_WHOLE_SECONDS: usize = 5;

/// Of the seconds between the first, in which the clients connect, and the last, in which they end. `None` where these are too
/// few, or all above the throughput of the trial: then what was slow is in the others.
pub fn compute_worst_second(samples: &[Sample], tps: f64) -> Option<f64> {
    let whole = samples.get(1..samples.len().checked_sub(1)?).filter(|whole| whole.len() >= FEWEST_WHOLE_SECONDS)?;
    let worst = whole.iter().map(|sample| sample.transactions).min()? as f64;
    (worst <= tps).then_some(worst)
}

/// What pgbench does with an empty statement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GeneratorCalibration {
    pub clients: u32,
    pub jobs: u32,
    pub query_mode: QueryMode,
    pub tps: f64,
    /// Of its busiest thread, median over the seconds: on a processor, and waiting for one.
    pub cpu_ratio: f64,
    pub run_delay_ratio: f64,
}

// ---- parts of a run and of its trials ----

impl Disk {
    /// Is a limit on writes asked for?
    pub fn limits_writes(&self) -> bool {
        self.wiops.is_some() || self.wbps.is_some()
    }

    /// How far the kernel reads ahead on it, on a device that is set to `own`.
    pub fn read_ahead_in_force(&self, own: Bytes) -> Bytes {
        self.read_ahead.filter(|_| self.read_ahead_not_enforced.is_none()).unwrap_or(own)
    }

    /// Is anything limited that can be?
    pub fn is_limited(&self) -> bool {
        let reads = self.not_enforced.is_none() && (self.riops.is_some() || self.rbps.is_some());
        reads || (self.writes_not_enforced.is_none() && self.limits_writes())
    }
}

/// The forecast for `nothing`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct StudyForecast {
    /// Transactions per second at the start, and when warm.
    pub cold_tps: f64,
    pub steady_tps: f64,
    /// Until half of `steady_tps`, and until fewer than 1 % of transactions read from the device, with what they are when
    /// device and processor are 15 % better or worse.
    pub to_50_seconds: Option<Span>,
    pub warm_after_seconds: Option<Span>,
}

/// The host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Machine {
    pub hostname: String,
    pub kernel: String,
    pub cpu_model: String,
    pub cores: u32,
    pub memory_bytes: Bytes,
    pub file_system: String,
    pub device: Device,
}

/// The block device that holds the data directory.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Device {
    /// `vda`, with its major and minor number.
    pub name: String,
    pub major_minor: String,
    pub rotational: bool,
    pub read_ahead_bytes: Bytes,
    /// Its model, empty where it tells none.
    pub model: String,
    /// The drivers from the disk up to its bus: of a disk behind a controller the last is the controller's.
    pub drivers: Vec<String>,
    /// `write back` or `write through`, as the kernel takes it; empty where it is not known.
    pub write_cache: String,
}

impl Device {
    /// One of which nothing is known but what it is called.
    pub fn nameless(name: &str) -> Device {
        Device { name: name.to_owned(), ..Device::default() }
    }
}

/// The limit on the device and its read-ahead, common to the server and to every strategy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Disk {
    /// `gp3`, `hdd`, `custom` or `native`.
    pub name: String,
    /// Reads per second; `None` is no limit.
    pub riops: Option<u64>,
    /// Read bytes per second; `None` is no limit.
    pub rbps: Option<Bytes>,
    /// Writes and written bytes per second; `None` is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wiops: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wbps: Option<Bytes>,
    /// Why the limit on writes is not in force, when one was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writes_not_enforced: Option<String>,
    /// Why the limit is not in force, when one was asked for.
    pub not_enforced: Option<String>,
    /// How far the kernel reads ahead of a reader; `None` is as the device is set on this machine.
    pub read_ahead: Option<Bytes>,
    /// Why the read-ahead is not in force, when one was asked for.
    pub read_ahead_not_enforced: Option<String>,
}

/// How cold it was when the clock started: measured, not intended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct StartState {
    /// Of the benchmark database's files, in the page cache.
    pub os_resident_bytes: Bytes,
    pub total_bytes: Bytes,
    /// `cold` (at most 1 % resident), `lukewarm`, `warm` (95 %) or `restored`.
    pub verdict: String,
}

/// A database is warm, and a snapshot restored, when this share of it is resident: the kernel may take some back at any
/// moment.
pub const WARM_START_SHARE: f64 = 0.95;
/// Of the database's files, at most this share may be resident in a cold start.
const COLD_SHARE: f64 = 0.01;

impl StartState {
    /// By what was measured.
    pub fn of(os_resident_bytes: Bytes, total_bytes: Bytes) -> StartState {
        let verdict = match os_resident_bytes.0 as f64 / total_bytes.0.max(1) as f64 {
            share if share >= WARM_START_SHARE => "warm",
            share if share <= COLD_SHARE => "cold",
            _ => "lukewarm",
        };
        StartState { os_resident_bytes, total_bytes, verdict: verdict.to_owned() }
    }
}

/// One second of a trial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// End of the second, since the start of pgbench; 1 for the first.
    pub second: u32,
    /// Milliseconds since the machine booted, and since 1970 UTC, when it was read.
    pub monotonic_ms: u64,
    pub wall_ms: i64,
    pub transactions: u64,
    /// Latency of these transactions in microseconds; `None` in a second without any.
    pub latency_us_mean: Option<f64>,
    pub latency_us_min: Option<u64>,
    pub latency_us_max: Option<u64>,
    /// Their standard deviation; `None` also where the source has no squares.
    pub latency_us_deviation: Option<f64>,
    /// Read from the device by the workload's own backends.
    pub foreground_read_bytes: Bytes,
    /// Read from the device by anybody.
    pub device_read_bytes: Bytes,
    pub device_reads: u64,
    /// Of the benchmark database's files, in the page cache.
    pub os_resident_bytes: Bytes,
}

/// What a strategy did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct StrategyOutcome {
    /// What was run, for people.
    pub command: String,
    /// Seconds from the start of pgbench to the command's end; `None` when it was still running at the end of the trial, or there is none.
    pub ended_after_seconds: Option<f64>,
    /// Read from the device by the strategy's own processes, where that is known.
    pub issued_bytes: Option<Bytes>,
    /// `None` when it went well.
    pub failure: Option<String>,
    /// The end of what it printed.
    pub output: String,
}

/// Where a relation was resident, before and after a trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct RelationResidency {
    pub relation: String,
    pub kind: String,
    pub total_bytes: Bytes,
    pub before: ResidencyStrip,
    pub after: ResidencyStrip,
    /// Meanwhile, where somebody looked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub course: Option<ResidencyCourse>,
}

/// How a relation got into the page cache, from the start of a trial on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct ResidencyCourse {
    /// Seconds from one look to the next; the first was so long after the start.
    pub step_seconds: u32,
    /// The share that was resident at each look, 0 to 1, to a thousandth.
    pub shares: Vec<f32>,
}

/// Looks that are kept of a trial: more than a page has pixels for are no use.
const COURSE_LOOKS: usize = 600;

impl ResidencyCourse {
    /// Of what was resident at the end of each second, of so many bytes.
    pub fn of(resident: &[Bytes], total: Bytes) -> Option<ResidencyCourse> {
        let step = resident.len().div_ceil(COURSE_LOOKS).max(1);
        let share = |bytes: &Bytes| (1000.0 * bytes.0 as f32 / total.0.max(1) as f32).round().min(1000.0) / 1000.0;
        let shares: Vec<f32> = resident.iter().skip(step - 1).step_by(step).map(share).collect();
        (!shares.is_empty()).then_some(ResidencyCourse { step_seconds: step as u32, shares })
    }
}

/// A relation cut into equal pieces from its first block to its last: the resident share of each, 0 to 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct ResidencyStrip {
    pub os: Vec<f32>,
    pub buffers: Vec<f32>,
}

/// What stands for the disk of a file system that has none.
pub const NO_DISK: &str = "none";

/// A name that sorts by time.
pub fn new_run_id(started_at: Timestamp) -> String {
    format!("{}-{:04x}", started_at.strftime("%Y%m%d-%H%M%S"), rand::random::<u16>())
}

/// What is found of a study of ways to warm before its first trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct WarmupFacts {
    /// As far as it is in force, or why not.
    pub disk: Disk,
    /// Of the benchmark's database, and what the page cache held of it when it was warm.
    pub database_bytes: Bytes,
    pub wanted_bytes: Bytes,
    /// Transactions per second of the warm server, without a limit; `None` when it served nothing.
    pub calibration_tps: Option<f64>,
    /// What the model says of a server that nothing warms. `None` when the device's figures are not known, or the workload
    /// is not pgbench's own.
    pub forecast: Option<StudyForecast>,
}

// ---- how a trial that began cold got warm ----

/// The way of a cold server to its full speed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Warming {
    #[serde(flatten)]
    pub figures: WarmingFigures,
    /// Read from the device by the workload's own backends in each tenth of a second from the start on: by these
    /// `warm_after_seconds` is dated within its second.
    pub foreground_tenths: Vec<Bytes>,
    /// Where the largest relations were resident, before and after.
    pub residency: Vec<RelationResidency>,
    /// Of a trial that ended when what is wanted was resident: what was seen of it meanwhile.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub looks: Vec<LoadSample>,
}

/// What is told of it beside other trials: enough to compute what depends on them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct WarmingFigures {
    /// Seconds that were measured, or waited for at most: what a time that was not reached is longer than.
    pub measured_seconds: u32,
    /// Seconds until fewer than 1 % of transactions read from the device, sustained to the end, to a tenth; `None`: not
    /// within the trial.
    pub warm_after_seconds: Option<f64>,
    /// Transactions served until it was warm; over the whole trial when it never was.
    pub served_until_warm: u64,
    /// Transactions served in the whole trial.
    pub served: u64,
    /// Transactions per second once it was warm: the median of its warm seconds. `None` when it never was.
    pub warm_tps: Option<f64>,
    /// Each second in which the throughput reached a level that it had not had before.
    pub climb: Vec<Climb>,
    /// What the page cache held of the database when it was warm. `None` where nobody looked: no snapshot was needed.
    pub wanted_bytes: Option<Bytes>,
    /// `wanted_bytes ÷ bandwidth`, or the best merging's seconds where reads are limited too: no warmer can be faster. `None` where
    /// one of them is not known, and of a script of one's own that may need a part of these bytes.
    pub bound_seconds: Option<f64>,
    /// What the model says of the curve; `None` when it cannot be judged, for the reason in `no_verdict`.
    pub judgement: Option<Judgement>,
    pub no_verdict: Option<String>,
    /// What came back, of a trial without a load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub brought: Option<Brought>,
    /// How long its job took, of a trial that ended with its transactions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<Job>,
}

/// So many transactions that somebody waits for, from a cold start on.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Job {
    /// That it has.
    pub transactions: u64,
    /// Seconds that the warmer took; `None` where there was none, or it had not ended before the load.
    pub warmer_seconds: Option<f64>,
    /// Seconds from the beginning of the load to its end.
    pub load_seconds: f64,
    /// Seconds from the start to the end of the load, those of a warmer before it included.
    pub whole_seconds: f64,
}

/// Fewer transactions than this draw no curve.
const CURVE_TRANSACTIONS: u64 = 1000;

impl Job {
    /// Does it have too few transactions to say how a throughput rose?
    pub fn is_without_curve(&self) -> bool {
        self.transactions < CURVE_TRANSACTIONS
    }
}

/// A new high of the throughput.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Climb {
    /// The end of the last second before, since the start of the workload.
    pub seconds: f64,
    /// The lesser of the second's transactions and of their running median over three seconds.
    pub tps: f64,
}

impl WarmingFigures {
    /// Seconds until the throughput, and its running median over three seconds with it, first reached so many transactions
    /// per second. `None` when it never did.
    pub fn seconds_to(&self, tps: f64) -> Option<f64> {
        self.climb.iter().find(|step| step.tps >= tps).map(|step| step.seconds)
    }
}

/// This share of what is wanted counts as "resident": the kernel may take a few pages back at any moment.
pub const RESIDENT_SHARE: f64 = 0.99;

/// How soon it was there, and at what cost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Brought {
    /// What the snapshot asks the page cache for, and in how many pieces it lies there.
    pub wanted_pages: u64,
    pub wanted_pieces: u64,
    /// What was in shared_buffers, and of it with a usage count of 3 or more.
    pub former_buffers_bytes: Bytes,
    pub former_hot_bytes: Bytes,
    /// The least that the disk allows; `None` on a disk without limits.
    pub bound: Option<Bound>,
    /// Seconds until [`RESIDENT_SHARE`] of what is wanted was seen resident, every page looked at; `None`: not within the trial,
    /// or the warmer leaves nothing in the page cache.
    pub resident_after_seconds: Option<f64>,
    /// Seconds until shared_buffers were back; of warmers that bring them back.
    pub buffers_after_seconds: Option<f64>,
    /// Wanted bytes that were resident when all was over, every page looked at again.
    pub resident_bytes: Bytes,
    /// Processor time of the warmer's own processes (not of the server's, which read for it).
    pub cpu_seconds: Option<f64>,
    /// By all under the limit; of the whole machine without one.
    pub device_reads: Option<u64>,
    /// Of fio: the bytes that it read, and the seconds that it says it took.
    pub own_bytes: Option<Bytes>,
    pub own_seconds: Option<f64>,
}

/// The best merging of all: no order of reads, no heat, nobody else who reads.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Bound {
    pub reads: u64,
    /// Gaps included.
    pub read_bytes: Bytes,
    pub seconds: f64,
}

/// One look at both tiers while a warmer is at work.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct LoadSample {
    pub seconds: f64,
    /// Wanted bytes that had been seen resident by then; at most, when it is not exact.
    pub resident_bytes: Bytes,
    pub is_exact: bool,
    /// Former buffers that were back, and hot ones as hot as before; of warmers that bring them back.
    pub buffers_bytes: Option<Bytes>,
    pub hot_bytes: Option<Bytes>,
}

// ---- secrets ----

/// What is recorded.
pub trait Record {
    /// Leaves out what may be secret ([`keep_text`]).
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
    }
}

impl Record for SweepTrial {
    fn hide_secrets(&mut self) {
        for settings in [&mut self.settings, &mut self.point.settings, &mut self.point.variables] {
            hide_settings(settings);
        }
        hide_texts([&mut self.command].into_iter().chain(&mut self.failure).chain(&mut self.warnings));
        hide_texts(self.file_system.iter_mut().flat_map(|own| &mut own.commands));
        hide_texts(self.devices.iter_mut().flat_map(|one| &mut one.file_system).flat_map(|own| &mut own.commands));
        self.strategy_outcome.iter_mut().for_each(Record::hide_secrets);
    }
}

fn hide_settings(settings: &mut [(String, String)]) {
    for (name, value) in settings {
        *value = keep_setting(name, std::mem::take(value));
    }
}

fn hide_texts<'a>(texts: impl IntoIterator<Item = &'a mut String>) {
    for text in texts {
        *text = keep_text(std::mem::take(text));
    }
}

// ---- checkpoints, as the server logs them ----

/// How the sweep's servers begin a line of their log: seconds since 1970 with milliseconds, and the process.
pub const LOG_LINE_PREFIX: &str = "%n [%p] ";

const STARTING: &str = "LOG:  checkpoint starting: ";
const COMPLETE: &str = "LOG:  checkpoint complete: ";

/// How a line about what autovacuum did goes on.
pub const AUTOVACUUM: [&str; 5] = [
    "automatic vacuum of table ",
    "automatic aggressive vacuum of table ",
    "automatic vacuum to prevent wraparound of table ",
    "automatic aggressive vacuum to prevent wraparound of table ",
    "automatic analyze of table ",
];

/// Is a line of the log of any use? A server may log each of its statements.
pub fn tells_of_trial(line: &str) -> bool {
    [STARTING, COMPLETE].into_iter().chain(AUTOVACUUM).any(|sign| line.contains(sign))
}

/// Reads the log's lines about checkpoints, by the clock of a workload that began at `start_unix`: those that ended, and the one that
/// began last and did not end.
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

/// `1763793000.123 [77] LOG:  checkpoint complete: wrote 1040 buffers (6.3%); …; write=1.001 s, sync=0.01 s, total=1.1 s;
/// sync files=9, longest=0.005 s, average=0.001 s; …`; from 18 on the buffers of the SLRU caches come after `buffers`.
fn parse_complete(line: &str, start_unix: i64) -> Option<Checkpoint> {
    let (head, said) = line.split_once(COMPLETE)?;
    let seconds = |name: &str| -> Option<f64> {
        let (_, rest) = said.split_once(&format!("{name}="))?;
        rest.split_once(" s")?.0.parse().ok()
    };
    let (ended_after_seconds, total_seconds) = (logged_after_seconds(head, start_unix)?, seconds("total")?);
    let (_, files) = said.split_once("sync files=")?;
    Some(Checkpoint {
        // Until it is known better.
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

    /// A second with so many transactions and so many bytes read by the workload.
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

    /// A trial that has no figures yet.
    pub fn trial() -> SweepTrial {
        let turn = Turn { point: 0, repeat: 1, position: 1 };
        empty_trial("1", &sweep("").unwrap().point(0), &turn, Timestamp::UNIX_EPOCH)
    }

    /// A sweep of nothing, as the store keeps it.
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
        // Too few, and none that is slower than the trial.
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
