//! What a sweep and its trials leave behind: the types that the results store keeps.
//!
//! Field names are part of `--json` (docs/formats.md): add, never rename.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::database::DatabaseMaking;
use super::database::FreshCopy;
use super::generators::TrialGenerators;
use super::histogram::{LatencyHistogram, ScriptLatency};
use super::point::{Axes, Point, STRATEGY};
use super::warming::Warming;
use super::warmup::WarmupFacts;
use crate::study::finding::MeasurementVerdict;
use crate::study::order::Turn;
use crate::study::record::{Machine, Sample, StartState, StrategyOutcome};
use host::linux::FileSystemFacts;
use host::units::{Bytes, counted};
use observe::time::TrialTime;
use observe::{DeviceUse, OsSample, WaitSample, Waits};
use pgbench::QueryMode;
use postgres::{ConfiguredSetting, ServerFacts, StatisticsDelta};

/// A run of a study, with the invocations that went on where it was interrupted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
        ended_at: None,
        start_state: None,
        command: String::new(),
        strategy_outcome: None,
        warming: None,
        generators: None,
        failure: None,
        lasted_seconds: 0.0,
        transactions: 0,
        failed: 0,
        skipped: 0,
        retried: 0,
        retries: 0,
        late: 0,
        tps: 0.0,
        worst_second_tps: None,
        latency: None,
        samples: Vec::new(),
        os_samples: Vec::new(),
        wait_samples: Vec::new(),
        waits: Waits::default(),
        time: None,
        scripts: Vec::new(),
        statistics: StatisticsDelta::default(),
        buffers_before: Vec::new(),
        buffers_after: Vec::new(),
        checkpoints: Vec::new(),
        checkpoint_begun: None,
        checkpoint_cycles: 0,
        cycle_tps: None,
        settings: Vec::new(),
        device_read_bytes: Bytes(0),
        file_system: None,
        devices: Vec::new(),
        fresh_copy: None,
        server_version: None,
        verdicts: Vec::new(),
        warnings: Vec::new(),
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

#[cfg(test)]
pub mod tests {
    use serde_json::json;

    use super::{compute_worst_second, empty_trial, *};
    use crate::study::order::Turn;
    use crate::study::record::tests::sample;
    use crate::study::sweep::spec::tests::sweep;

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
