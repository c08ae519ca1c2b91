//! Results that others measured: pgbench's logs, its progress and its report, and directories of pgbench-tools.
//!
//! Everything becomes one sweep, whose points are what the reports say was run. What only pgthaw measures is not there:
//! the start state, what was read, the server's statistics.

mod files;
mod seconds;

use std::collections::BTreeMap;
use std::path::PathBuf;

use jiff::Timestamp;
use sha2::{Digest as _, Sha256};

use files::{TrialFiles, find_trials};
use seconds::{Measured, read_trial};

use super::point::{DEFAULT_DATABASE, DEFAULT_SERVER, NATIVE, Point};
use super::record::{SweepRun, SweepTrial, compute_worst_second, empty_trial};
use super::start::StartAsked;
use crate::pgbench::PgbenchReport;
use crate::postgres::ServerFacts;
use crate::study::error::Error;
use crate::study::order::Turn;
use crate::study::record::{Device, Machine, new_run_id};
use crate::study::strategy::NOTHING;
use crate::units::Bytes;

/// What is imported, and what is known of it beside what the files say.
#[derive(Clone, Debug, Default)]
pub struct ImportOptions {
    /// Files, and directories with the files of one trial or of many.
    pub paths: Vec<PathBuf>,
    pub question: Option<String>,
    pub scale: Option<u32>,
    pub clients: Option<u32>,
    pub script: Option<String>,
}

/// What is kept of it.
#[derive(Debug)]
pub struct Imported {
    pub run: SweepRun,
    pub trials: Vec<SweepTrial>,
}

/// Reads what others measured.
pub fn read_import(options: &ImportOptions) -> Result<Imported, Error> {
    let mut trials = Vec::new();
    let mut digest = Sha256::new();
    let mut versions = Vec::new();
    for path in &options.paths {
        for files in find_trials(path)? {
            let measured = read_trial(&files)?;
            let report = files.report.as_ref().map(|(_, report)| report.clone()).unwrap_or_default();
            versions.extend(report.version.clone());
            trials.push(describe_trial(options, &files, &report, measured)?);
        }
    }
    trials.sort_by_key(|trial| trial.started_at);
    number_trials(&mut trials);
    for trial in &trials {
        let meaning = serde_json::to_vec(trial).unwrap_or_else(|_| unreachable!("records become JSON"));
        digest.update(meaning);
    }
    let digest: String = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    let run = describe_run(options, &trials, digest, versions.pop());
    trials.iter_mut().for_each(|trial| trial.sweep_id.clone_from(&run.id));
    Ok(Imported { run, trials })
}

fn describe_trial(
    options: &ImportOptions,
    files: &TrialFiles,
    report: &PgbenchReport,
    measured: Measured,
) -> Result<SweepTrial, Error> {
    let mut warnings = measured.warnings;
    let mut known = |what: &str, given: Option<u32>, said: Option<u32>, otherwise: u32| {
        given.or(said).unwrap_or_else(|| {
            warnings
                .push(format!("the {what} is not in what was imported: {otherwise} stands for it; --{what} says it"));
            otherwise
        })
    };
    let scale = known("scale", options.scale, report.scale, 1);
    let clients = known("clients", options.clients, report.clients.or(measured.clients), 1);
    let seconds = measured.samples.len() as u32;
    let outcome = report.outcome.unwrap_or_default();
    let counted: u64 = measured.samples.iter().map(|sample| sample.transactions).fold(0, u64::saturating_add);
    let transactions = if report.outcome.is_some() { outcome.transactions } else { counted };
    let tps = if outcome.tps > 0.0 { outcome.tps } else { counted as f64 / f64::from(seconds.max(1)) };
    if transactions == 0 && seconds == 0 {
        return Err(Error::Import(format!("{} holds no result of pgbench", files.path.display())));
    }
    let server = files.server.clone().unwrap_or_else(|| DEFAULT_SERVER.to_owned());
    let point = Point { server, ..describe_point(options, report, (scale, clients), seconds) };
    let started_at = measured.started_at.unwrap_or(files.written_at);
    // The sweep, and which of its trials it is, are known when all are read.
    let turn = Turn { point: 0, repeat: 1, position: 1 };
    Ok(SweepTrial {
        command: files.path.display().to_string(),
        lasted_seconds: f64::from(report.seconds.unwrap_or(seconds)),
        transactions,
        failed: outcome.failed,
        skipped: outcome.skipped,
        retried: outcome.retried,
        retries: outcome.retries,
        late: outcome.late,
        tps,
        worst_second_tps: compute_worst_second(&measured.samples, tps).filter(|_| measured.is_by_second),
        latency: measured.latency,
        samples: measured.samples,
        scripts: measured.scripts,
        warnings,
        ..empty_trial("", &point, &turn, started_at)
    })
}

/// What was measured, as far as it is known; `seconds` are those that have figures.
fn describe_point(
    options: &ImportOptions,
    report: &PgbenchReport,
    (scale, clients): (u32, u32),
    seconds: u32,
) -> Point {
    Point {
        scale,
        clients,
        jobs: report.threads.unwrap_or(1),
        script: options.script.clone().or_else(|| report.script.clone()).unwrap_or_else(|| "unknown".to_owned()),
        rate: None,
        seconds: if report.transactions.is_some() { None } else { report.seconds.or(Some(seconds)) },
        transactions: report.transactions,
        start: StartAsked::AsIs,
        disk: NATIVE.to_owned(),
        file_system: NATIVE.to_owned(),
        server: DEFAULT_SERVER.to_owned(),
        latency_limit_ms: None,
        strategy: NOTHING.to_owned(),
        database: DEFAULT_DATABASE.to_owned(),
        variables: Vec::new(),
        settings: Vec::new(),
        side: None,
    }
}

/// Points by what they are, in the order in which they come first; trials of one point are its repeats.
fn number_trials(trials: &mut [SweepTrial]) {
    let mut points: BTreeMap<String, (u32, u32)> = BTreeMap::new();
    for (place, trial) in trials.iter_mut().enumerate() {
        let next = points.len() as u32;
        // Whether a trial was asked for a duration or lasted as long is no difference.
        let key = format!("{:?}", Point { seconds: None, ..trial.point.clone() });
        let (number, repeats) = points.entry(key).or_insert((next, 0));
        *repeats += 1;
        (trial.number, trial.repeat, trial.position) = (*number, *repeats, place as u32 + 1);
    }
}

fn describe_run(options: &ImportOptions, trials: &[SweepTrial], digest: String, version: Option<String>) -> SweepRun {
    let started_at = trials.first().map_or(Timestamp::UNIX_EPOCH, |trial| trial.started_at);
    let ended_at = trials.iter().map(|trial| trial.started_at).max();
    let sources: Vec<String> = options.paths.iter().map(|path| path.display().to_string()).collect();
    let version = version.unwrap_or_default();
    let unknown = || "unknown".to_owned();
    SweepRun {
        id: new_run_id(started_at),
        started_at,
        ended_at,
        pgthaw_version: env!("CARGO_PKG_VERSION").to_owned(),
        pgbench_version: if version.is_empty() { unknown() } else { format!("pgbench (PostgreSQL) {version}") },
        machine: Machine {
            hostname: unknown(),
            kernel: unknown(),
            cpu_model: unknown(),
            cores: 0,
            memory_bytes: Bytes(0),
            file_system: unknown(),
            device: Device {
                name: unknown(),
                major_minor: String::new(),
                rotational: false,
                read_ahead_bytes: Bytes(0),
            },
        },
        server: unknown_server(),
        configuration: Vec::new(),
        question: options.question.clone().unwrap_or_else(|| format!("imported from {}", sources.join(", "))),
        digest,
        study: serde_json::Value::Null,
        varied: compute_varied(trials),
        points: trials.iter().map(|trial| trial.number + 1).max().unwrap_or_default(),
        repeats: trials.iter().map(|trial| trial.repeat).max().unwrap_or_default(),
        seed: 0,
        generator: Vec::new(),
        verdicts: Vec::new(),
        warnings: vec![
            "imported: nobody checked the start state, and neither server nor machine nor what was read is known"
                .into(),
        ],
        warmup: None,
        source: Some(sources.join(", ")),
    }
}

fn unknown_server() -> ServerFacts {
    ServerFacts {
        version_num: 0,
        version: "unknown".into(),
        system_identifier: 0,
        cluster_name: String::new(),
        block_size: 8192,
        segment_blocks: 131_072,
        shared_buffers_bytes: Bytes(0),
        data_directory: None,
        io_direct: false,
        io_method: None,
        in_recovery: false,
        lsn: String::new(),
        timeline: 0,
        role: String::new(),
        is_superuser: false,
        postmaster_pid: None,
    }
}

/// Names of what the points differ in.
fn compute_varied(trials: &[SweepTrial]) -> Vec<String> {
    let axes = ["scale", "clients", "jobs", "script", "transactions", "server"];
    let differs = |axis: &&str| {
        let mut values: Vec<Option<String>> = trials.iter().map(|trial| trial.point.value(axis)).collect();
        values.sort();
        values.dedup();
        values.len() > 1
    };
    axes.into_iter().filter(differs).map(str::to_owned).collect()
}
