//! What a run and its trials leave behind: the types that the results store keeps and the report draws.
//!
//! Field names are part of `--json` and of the report's data (docs/formats.md): add, never rename.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::sweep::DatabaseMaking;
use crate::model::{Judgement, Span};
use crate::pgbench::QueryMode;
use crate::postgres::ServerFacts;
use crate::units::Bytes;

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

/// One invocation of `bench warmup`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Run {
    /// Unique, sortable by time: `20261121-233005-4f2a`.
    pub id: String,
    pub started_at: Timestamp,
    /// `None` while it runs, or when it was killed.
    pub ended_at: Option<Timestamp>,
    pub pgthaw_version: String,
    pub machine: Machine,
    pub server: ServerFacts,
    /// Settings of the server that are not the default, name and value.
    pub settings: Vec<(String, String)>,
    pub study: Study,
    /// Transactions per second when steady: the median over all warm seconds of all trials that got warm (of the
    /// calibration when none did). Known at the end of the run.
    pub steady_tps: Option<f64>,
    /// What the run says against its own measurement, each with its remedy.
    pub warnings: Vec<String>,
    /// How long its database took to make; empty where nobody kept it.
    #[serde(default)]
    pub databases: Vec<DatabaseMaking>,
}

/// The host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Device {
    /// `vda`, with its major and minor number.
    pub name: String,
    pub major_minor: String,
    pub rotational: bool,
    pub read_ahead_bytes: Bytes,
    /// Its model, empty where it tells none or nobody kept it.
    #[serde(default)]
    pub model: String,
    /// The drivers from the disk up to its bus: of a disk behind a controller the last is the controller's.
    #[serde(default)]
    pub drivers: Vec<String>,
    /// `write back` or `write through`, as the kernel takes it; empty where it is not known.
    #[serde(default)]
    pub write_cache: String,
}

impl Device {
    /// One of which nothing is known but what it is called.
    pub fn nameless(name: &str) -> Device {
        Device {
            name: name.to_owned(),
            major_minor: String::new(),
            rotational: false,
            read_ahead_bytes: Bytes(0),
            model: String::new(),
            drivers: Vec::new(),
            write_cache: String::new(),
        }
    }
}

/// What was asked to be measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Study {
    /// What the study is about, where somebody gave it a name.
    #[serde(default)]
    pub title: Option<String>,
    pub scale: u32,
    pub clients: u32,
    pub jobs: u32,
    /// `select-only`, `tpcb-like`, `simple-update`, or a file's name.
    pub script: String,
    /// How clients hand over their statements; `None` where nobody kept it.
    #[serde(default)]
    #[cfg_attr(test, ts(as = "Option<String>"))]
    pub query_mode: Option<QueryMode>,
    /// Seconds that each trial lasts, or with `until_steady` that it lasts at most.
    pub seconds: u32,
    /// Does a trial end when the verdict over it is steady?
    #[serde(default)]
    pub until_steady: bool,
    pub repeats: u32,
    /// In the order given; the order of the trials is random.
    pub strategies: Vec<String>,
    /// Strategies that were asked for and cannot run here, with how to get them.
    pub skipped_strategies: Vec<(String, String)>,
    pub disk: Disk,
    /// Seed of the random order.
    pub seed: u64,
    /// Bytes of the relations of the benchmark database.
    pub database_bytes: Bytes,
    /// Bytes that the snapshot of the warm state has in the OS page cache.
    pub wanted_bytes: Bytes,
    /// `wanted_bytes ÷ bandwidth`: no warmer can be faster. `None` on the native disk, whose bandwidth is not known.
    pub bound_seconds: Option<f64>,
    pub start_state: String,
    /// What the model said before the trials of a server that nothing warms. `None` when the device's figures are not known,
    /// or the workload is not pgbench's own.
    #[serde(default)]
    pub forecast: Option<StudyForecast>,
    /// Memory of the server in a trial, shared memory and page cache included; `None` is no limit.
    #[serde(default)]
    pub memory: Option<Bytes>,
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
    #[serde(default)]
    pub read_ahead: Option<Bytes>,
    /// Why the read-ahead is not in force, when one was asked for.
    #[serde(default)]
    pub read_ahead_not_enforced: Option<String>,
}

/// One repetition of one strategy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Trial {
    pub run_id: String,
    pub strategy: String,
    /// From 1.
    pub repeat: u32,
    /// Position in the random order, from 1.
    pub position: u32,
    pub started_at: Timestamp,
    pub start_state: StartState,
    #[cfg_attr(test, ts(skip))]
    pub samples: Vec<Sample>,
    pub outcome: StrategyOutcome,
    /// Seconds until fewer than 1 % of transactions read from the device, sustained to the end, to a tenth; `None`: not
    /// within the trial.
    pub warm_after_seconds: Option<f64>,
    /// Seconds until 50, 90 and 95 % of the run's steady throughput (median over a few seconds); set at the run's end.
    pub to_50_seconds: Option<f64>,
    pub to_90_seconds: Option<f64>,
    pub to_95_seconds: Option<f64>,
    /// Transactions served until it was warm; over the whole trial when it never was.
    pub served_until_warm: u64,
    pub served: u64,
    /// Read from the device by anybody, over the whole trial.
    pub device_read_bytes: Bytes,
    pub residency: Vec<RelationResidency>,
    pub warnings: Vec<String>,
    /// Read from the device by the workload's own backends in each tenth of a second from the start on: by these
    /// `warm_after_seconds` is dated within its second.
    #[serde(default)]
    pub foreground_tenths: Vec<Bytes>,
    /// What the model says of its curve: the verdict, and the fit where one applies. `None` when it cannot be judged, and
    /// of a trial that an older pgthaw kept.
    #[serde(default)]
    pub judgement: Option<Judgement>,
    /// Why it cannot be judged.
    #[serde(default)]
    pub no_verdict: Option<String>,
}

/// How cold it was when the clock started: measured, not intended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct StartState {
    /// Of the benchmark database's files, in the page cache.
    pub os_resident_bytes: Bytes,
    pub total_bytes: Bytes,
    /// `cold` (at most 1 % resident) or `lukewarm`.
    pub verdict: String,
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
    /// Their standard deviation; `None` also where nobody kept their squares.
    #[serde(default)]
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
    #[serde(default)]
    pub output: String,
}

impl StrategyOutcome {
    /// That of a server which nothing warmed.
    pub fn of_nothing() -> StrategyOutcome {
        StrategyOutcome {
            command: String::new(),
            ended_after_seconds: None,
            issued_bytes: None,
            failure: None,
            output: String::new(),
        }
    }
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

#[cfg(test)]
pub mod tests {
    //! Small records for the tests of the pure parts.

    use super::*;

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

    /// A trial of these samples, with nothing concluded yet.
    pub fn trial(strategy: &str, repeat: u32, samples: Vec<Sample>) -> Trial {
        let served = samples.iter().map(|one| one.transactions).sum();
        Trial {
            run_id: "20261121-233005-4f2a".into(),
            strategy: strategy.into(),
            repeat,
            position: 1,
            started_at: Timestamp::UNIX_EPOCH,
            start_state: StartState { os_resident_bytes: Bytes(0), total_bytes: Bytes(0), verdict: "cold".into() },
            device_read_bytes: samples.iter().map(|one| one.device_read_bytes).sum(),
            samples,
            outcome: StrategyOutcome::of_nothing(),
            warm_after_seconds: None,
            to_50_seconds: None,
            to_90_seconds: None,
            to_95_seconds: None,
            served_until_warm: served,
            served,
            residency: Vec::new(),
            warnings: Vec::new(),
            foreground_tenths: Vec::new(),
            judgement: None,
            no_verdict: None,
        }
    }
}
