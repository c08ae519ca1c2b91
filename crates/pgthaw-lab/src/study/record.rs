//! Parts of what a study and its trials leave behind.
//!
//! Field names are part of `--json` and of the report's data (docs/formats.md): add, never rename.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use host::units::Bytes;
use model::Span;

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
}
