//! Results that others measured: pgbench's logs, its progress and its report, and directories of pgbench-tools.
//!
//! Everything becomes one sweep, whose points are what the reports say was run. What only pgthaw measures is not there:
//! the start state, what was read, the server's statistics.

mod files;
mod seconds;

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::PathBuf;

use jiff::{SignedDuration, Timestamp};
use sha2::{Digest as _, Sha256};

use files::{TrialFiles, find_trials};
use seconds::{Measured, read_trial};

use super::axis::render_mix;
use super::point::{DEFAULT_DATABASE, DEFAULT_SERVER, FIXED_AXES, NATIVE, Point};
use super::record::{SweepRun, SweepTrial, compute_worst_second, empty_trial};
use super::start::{LoadBegins, StartAsked};
use crate::model::Facts;
use crate::pgbench::{BUILTIN_SCRIPTS, PgbenchReport, QueryMode};
use crate::postgres::ServerFacts;
use crate::study::error::Error;
use crate::study::finding::Finding;
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
    pub query_mode: Option<QueryMode>,
    /// Transactions per second that were asked for, of all trials but those whose files tell that there was no rate.
    pub rate: Option<f64>,
    pub start: Option<StartAsked>,
}

/// What is kept of it.
#[derive(Debug)]
pub struct Imported {
    pub run: SweepRun,
    pub trials: Vec<SweepTrial>,
    /// What judges of the trials' curves have to know, trial by trial.
    pub facts: Vec<Facts>,
}

/// Reads what others measured.
pub fn read_import(options: &ImportOptions) -> Result<Imported, Error> {
    let mut all = Vec::new();
    let mut digest = Sha256::new();
    let mut versions = Vec::new();
    for path in &options.paths {
        for files in find_trials(path)? {
            let report = files.report.as_ref().map(|(_, report)| report.clone()).unwrap_or_default();
            let measured = read_trial(&files, has_rate(options, &report))?;
            versions.extend(report.version.clone());
            all.push(describe_trial(options, &files, &report, measured)?);
        }
    }
    all.sort_by_key(|(trial, _)| trial.started_at);
    let (mut trials, facts): (Vec<SweepTrial>, Vec<Facts>) = all.into_iter().unzip();
    number_trials(&mut trials);
    for trial in &trials {
        let meaning = serde_json::to_vec(trial).unwrap_or_else(|_| unreachable!("records become JSON"));
        digest.update(meaning);
    }
    let digest: String = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    let run = describe_run(options, &trials, digest, versions.pop());
    trials.iter_mut().for_each(|trial| trial.sweep_id.clone_from(&run.id));
    Ok(Imported { run, trials, facts })
}

/// Were transactions due at times, by the report or by who imports it? pgbench's report and its progress tell of every rate.
fn has_rate(options: &ImportOptions, report: &PgbenchReport) -> bool {
    let tells = report.outcome.is_some() || !report.progress.is_empty();
    report.has_rate || options.rate.is_some() && !tells
}

fn describe_trial(
    options: &ImportOptions,
    files: &TrialFiles,
    report: &PgbenchReport,
    mut measured: Measured,
) -> Result<(SweepTrial, Facts), Error> {
    let seconds = measured.samples.len() as u32;
    if report.outcome.is_none() && seconds == 0 {
        return Err(Error::Import(format!("{} holds no result of pgbench", files.path.display())));
    }
    let outcome = report.outcome.unwrap_or_default();
    let counted: u64 = measured.samples.iter().map(|sample| sample.transactions).fold(0, u64::saturating_add);
    let transactions = if report.outcome.is_some() { outcome.transactions } else { counted };
    let tps = if outcome.tps > 0.0 { outcome.tps } else { counted as f64 / f64::from(seconds.max(1)) };
    let lasted_seconds = match report.seconds.or((seconds > 0).then_some(seconds)) {
        Some(seconds) => f64::from(seconds),
        None if tps > 0.0 => transactions as f64 / tps,
        None => 0.0,
    };
    let due = transactions.saturating_add(outcome.failed).saturating_add(outcome.skipped);
    let due_per_second = due as f64 / lasted_seconds.max(1.0);
    let facts = Facts {
        clients: options.clients.or(report.clients).or(measured.clients),
        scale: options.scale.or(report.scale),
        is_rate_limited: measured.has_rate || has_rate(options, report),
        ..Facts::default()
    };
    let point = describe_point(options, report, due_per_second, &mut measured);
    let point = Point { server: files.server.clone().unwrap_or(point.server), ..point };
    let facts = Facts { is_own_script: !BUILTIN_SCRIPTS.contains(&point.script.as_str()), ..facts };
    let started_at = measured.started_at.unwrap_or(files.written_at);
    // The sweep, and which of its trials it is, are known when all are read.
    let turn = Turn { point: 0, repeat: 1, position: 1 };
    let trial = SweepTrial {
        ended_at: started_at.checked_add(SignedDuration::try_from_secs_f64(lasted_seconds).unwrap_or_default()).ok(),
        command: files.path.display().to_string(),
        lasted_seconds,
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
        verdicts: measured.findings.into_iter().map(Into::into).collect(),
        ..empty_trial("", &point, &turn, started_at)
    };
    Ok((trial, facts))
}

/// What was measured, as far as it is known. What stands for something that is not known is told among the findings.
fn describe_point(
    options: &ImportOptions,
    report: &PgbenchReport,
    due_per_second: f64,
    measured: &mut Measured,
) -> Point {
    let seconds = measured.samples.len() as u32;
    let script = match report.mix.len() {
        0 | 1 => report.script.clone(),
        _ => Some(render_mix(&report.mix)),
    };
    let clients = options.clients.or(report.clients).or(measured.clients);
    let has_rate = measured.has_rate || has_rate(options, report);
    let findings = &mut measured.findings;
    Point {
        scale: known("scale", options.scale.or(report.scale), 1, findings),
        clients: known("clients", clients, 1, findings),
        jobs: report.threads.unwrap_or(1),
        script: options.script.clone().or(script).unwrap_or_else(|| "unknown".to_owned()),
        rate: if has_rate { choose_rate(options, due_per_second, findings) } else { None },
        // pgbench's own default.
        query_mode: known("query-mode", options.query_mode.or(report.query_mode), QueryMode::Simple, findings),
        seconds: if report.transactions.is_some() { None } else { report.seconds.or(Some(seconds)) },
        transactions: report.transactions,
        total_transactions: None,
        start: options.start.unwrap_or(StartAsked::AsIs),
        disk: NATIVE.to_owned(),
        file_system: NATIVE.to_owned(),
        server: DEFAULT_SERVER.to_owned(),
        latency_limit_ms: report.latency_limit_ms,
        strategy: NOTHING.to_owned(),
        load_begins: LoadBegins::AtOnce,
        database: DEFAULT_DATABASE.to_owned(),
        memory: None,
        variables: Vec::new(),
        settings: Vec::new(),
        side: None,
    }
}

/// What is known of it, or what stands for it, which is told.
fn known<T: Display>(option: &str, said: Option<T>, otherwise: T, findings: &mut Vec<Finding>) -> T {
    said.unwrap_or_else(|| {
        let what = format!("the {} is not in what was imported: {otherwise} stands for it", option.replace('-', " "));
        findings.push(Finding::Assumed { what, how: format!("--{option} says it") });
        otherwise
    })
}

/// No report says which rate was asked for. What was due stands for it, in two digits, so that repeats are of one point.
fn choose_rate(options: &ImportOptions, due_per_second: f64, findings: &mut Vec<Finding>) -> Option<f64> {
    if options.rate.is_some() {
        return options.rate;
    }
    let rate: f64 = format!("{due_per_second:.1e}").parse().ok().filter(|rate| *rate > 0.0)?;
    let what = format!(
        "a rate was asked for that the files do not say: what was due, about {rate} transactions per second, stands for it"
    );
    findings.push(Finding::Assumed { what, how: "--rate says it".to_owned() });
    Some(rate)
}

/// What a point has become known by, how long its first trial was asked to last, and how many trials it has.
struct NumberedPoint {
    seconds: Option<u32>,
    number: u32,
    repeats: u32,
}

/// Points by what they are, in the order in which they come first; trials of one point are its repeats.
fn number_trials(trials: &mut [SweepTrial]) {
    let mut points: BTreeMap<String, Vec<NumberedPoint>> = BTreeMap::new();
    let mut next = 0;
    for (position, trial) in (1..).zip(trials) {
        let seconds = trial.point.seconds;
        let alike = points.entry(format!("{:?}", Point { seconds: None, ..trial.point.clone() })).or_default();
        let place = alike.iter().position(|one| are_as_long(one.seconds, seconds)).unwrap_or_else(|| {
            alike.push(NumberedPoint { seconds, number: next, repeats: 0 });
            next += 1;
            alike.len() - 1
        });
        let point = &mut alike[place];
        point.repeats += 1;
        trial.point.seconds = point.seconds;
        (trial.number, trial.repeat, trial.position) = (point.number, point.repeats, position);
    }
}

/// A log ends with its last transaction, so that one without a report may seem to be a second or two longer or shorter.
fn are_as_long(one: Option<u32>, other: Option<u32>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => one.abs_diff(other) <= (one / 50).clamp(1, 2),
        _ => one == other,
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
        verdicts: vec![
            Finding::Assumed {
                what:
                    "imported: nobody checked the start state, and neither server nor machine nor what was read is known"
                        .to_owned(),
                how: "measure with `pgthaw bench sweep` what has to be known".to_owned(),
            }
            .into(),
        ],
        warnings: Vec::new(),
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
    let differs = |axis: &&str| {
        let mut values: Vec<Option<String>> = trials.iter().map(|trial| trial.point.value(axis)).collect();
        values.sort();
        values.dedup();
        values.len() > 1
    };
    FIXED_AXES.into_iter().filter(differs).map(str::to_owned).collect()
}
