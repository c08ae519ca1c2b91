use std::fmt::Display;
use std::path::PathBuf;

use jiff::{SignedDuration, Timestamp};
use sha2::{Digest as _, Sha256};

use super::axis::render_mix;
use super::error::{Error, Result};
use super::finding::Finding;
use super::point::{
    CONNECT, DEFAULT_DATABASE, DEFAULT_SERVER, FIXED_AXES, NATIVE, NOTHING, Point, StartAsked, TOGETHER, Turn,
};
use super::record::{Device, Machine, SweepRun, SweepTrial, compute_worst_second, empty_trial, new_run_id};
use super::spec::render_digest;
use model::Facts;
use pgbench::{BUILTIN_SCRIPTS, PgbenchOutcome, PgbenchReport, QueryMode};
use postgres::ServerFacts;

mod files;
mod seconds;
mod text;

use files::{Survey, TrialFiles, find_trials, name_files};
pub use files::{first_thread, missing_thread, threads_of};
use seconds::{Measured, read_trial};
pub use text::{decode, note_cut};

#[derive(Debug)]
pub struct Imported {
    pub run: SweepRun,
    pub trials: Vec<SweepTrial>,
    pub facts: Vec<Facts>,
}

pub fn read_import(options: &ImportOptions) -> Result<Imported> {
    let (mut all, mut meanings) = (Vec::new(), Vec::new());
    for files in find_trials(&options.paths)? {
        let report = files.report.as_ref().map(|report| report.holds.clone()).unwrap_or_default();
        check_given(options, &files.label, &report)?;
        if report.seconds.is_none() {
            let log = files.log.as_ref().map(|log| log.holds.lasted_seconds()).filter(|seconds| *seconds > 0.0);
            check_seconds(options, &files.label, log)?;
        }
        let seconds = report.seconds.or(options.seconds);
        let measured = read_trial(&files, seconds, has_rate(options, &files, &report))?;
        let is_dated = measured.started_at.is_some();
        let (trial, facts) = describe_trial(options, &files, &report, measured)?;
        meanings.push(compute_meaning(&trial, is_dated));
        all.push((trial, facts, report.version));
    }
    all.sort_by(|(one, ..), (other, ..)| (one.started_at, &one.command).cmp(&(other.started_at, &other.command)));
    if all.is_empty() {
        return Err(Error::Import(format!("{} holds no result of pgbench", name_files(&options.paths))));
    }
    let version = all.iter().rev().find_map(|(_, _, version)| version.clone());
    let (mut trials, facts): (Vec<SweepTrial>, Vec<Facts>) =
        all.into_iter().map(|(trial, facts, _)| (trial, facts)).unzip();
    if options.rate.is_some() && trials.iter().all(|trial| trial.point.rate.is_none()) {
        return Err(Error::Unfit {
            problem: format!("rate= is given, but {} shows that no rate was requested", name_files(&options.paths)),
            remedy: "omit rate=: with a rate, pgbench would have reported the schedule lag".to_owned(),
        });
    }
    // Makes the digest independent of the order of the paths.
    meanings.sort();
    let digest = render_digest(&meanings.concat());
    number_trials(&mut trials, options.rate.is_none());
    let run = describe_run(options, &trials, digest, version);
    trials.iter_mut().for_each(|trial| trial.sweep_id.clone_from(&run.id));
    Ok(Imported { run, trials, facts })
}

/// Digest of a trial, without names and modification times.
fn compute_meaning(trial: &SweepTrial, is_dated: bool) -> Vec<u8> {
    let point = Point { server: DEFAULT_SERVER.to_owned(), ..trial.point.clone() };
    let nameless = SweepTrial {
        command: String::new(),
        verdicts: Vec::new(),
        started_at: if is_dated { trial.started_at } else { Timestamp::UNIX_EPOCH },
        ended_at: None,
        point,
        ..trial.clone()
    };
    let text = serde_json::to_vec(&nameless).unwrap_or_else(|_| unreachable!("records become JSON"));
    Sha256::digest(text).to_vec()
}

/// pgbench's reports and progress show --rate; a log alone does not.
fn has_rate(options: &ImportOptions, files: &TrialFiles, report: &PgbenchReport) -> bool {
    let tells = report.outcome.is_some() || !report.progress.is_empty();
    // Without a report, only skipped transactions prove a rate: the last column may be lag or retries.
    let has_skipped = files.log.as_ref().is_some_and(|log| log.holds.skipped > 0);
    report.has_rate || has_skipped || options.rate.is_some() && !tells
}

fn describe_trial(
    options: &ImportOptions,
    files: &TrialFiles,
    report: &PgbenchReport,
    mut measured: Measured,
) -> Result<(SweepTrial, Facts)> {
    let seconds = measured.samples.len() as u32;
    if report.outcome.is_none() && seconds == 0 && files.log.is_none() {
        return Err(Error::Import(format!("{} holds no result of pgbench", files.label)));
    }
    let counted = count_transactions(files, report, &measured);
    let asked_seconds = report.seconds.or(options.seconds).map(f64::from);
    let logged_seconds = measured.lasted_seconds.unwrap_or(f64::from(seconds));
    let known_seconds = asked_seconds.or((seconds > 0).then_some(logged_seconds));
    let lasted_seconds = known_seconds.or(report.lasted_seconds()).unwrap_or_default();
    let told_seconds = measured.told_seconds.unwrap_or(lasted_seconds);
    let tps = match counted.tps {
        told if told > 0.0 => told,
        _ if told_seconds > 0.0 => counted.transactions as f64 / told_seconds,
        _ => 0.0,
    };
    let due = counted.transactions.saturating_add(counted.failed).saturating_add(counted.skipped);
    if has_rate(options, files, report) {
        check_rate(options, &files.label, report, due, lasted_seconds)?;
    }
    let abort = report.is_unfinished().then_some(Finding::RunAborted {
        aborted_clients: report.aborted_clients,
        clients: report.clients,
        transactions: counted.transactions,
        asked_transactions: report.asked_transactions,
    });
    // As in a study, an aborted run is a failed trial, not a repeat.
    let failure = abort.as_ref().map(ToString::to_string);
    measured.findings.extend(abort);
    measured.findings.extend(files.findings.iter().cloned());
    let log = files.log.as_ref();
    let is_cut = report.is_cut || log.is_some_and(|log| log.holds.is_cut);
    let cut = is_cut.then(|| format!("{} is truncated: only the existing part was read", files.label));
    let missing = cut.into_iter().chain(log.and_then(|log| missing_thread(&log.paths)));
    let how = "import the complete files of the run".to_owned();
    measured.findings.extend(missing.map(|what| Finding::Assumed { what, how: how.clone() }));
    let (point, facts) = describe_point(options, files, report, (due, lasted_seconds), &mut measured);
    let started_at = measured.started_at.unwrap_or(files.written_at);
    let turn = Turn { point: 0, repeat: 1, position: 1 };
    let trial = SweepTrial {
        ended_at: started_at.checked_add(SignedDuration::try_from_secs_f64(lasted_seconds).unwrap_or_default()).ok(),
        command: files.label.clone(),
        failure,
        lasted_seconds,
        transactions: counted.transactions,
        failed: counted.failed,
        skipped: counted.skipped,
        retried: counted.retried,
        retries: counted.retries,
        late: counted.late,
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

fn count_transactions(files: &TrialFiles, report: &PgbenchReport, measured: &Measured) -> PgbenchOutcome {
    let by_log = files.log.as_ref().map(|log| {
        let Survey { transactions, failed, skipped, .. } = log.holds;
        PgbenchOutcome { transactions, failed, skipped, ..PgbenchOutcome::default() }
    });
    let by_seconds = || PgbenchOutcome {
        transactions: measured.samples.iter().map(|sample| sample.transactions).fold(0, u64::saturating_add),
        ..PgbenchOutcome::default()
    };
    // Unlike a log that is a sample, the progress reports count all transactions.
    let is_sample = measured.findings.iter().any(|finding| matches!(finding, Finding::LogPartial { .. }));
    report.outcome.or(by_log.filter(|_| !is_sample || report.progress.is_empty())).unwrap_or_else(by_seconds)
}

fn describe_point(
    options: &ImportOptions,
    files: &TrialFiles,
    report: &PgbenchReport,
    (due, lasted_seconds): (u64, f64),
    measured: &mut Measured,
) -> (Point, Facts) {
    let script = if report.mix.len() > 1 { Some(render_mix(&report.mix)) } else { report.script.clone() };
    let (clients, scale) = (options.clients.or(report.clients).or(files.clients()), options.scale.or(report.scale));
    let has_rate = has_rate(options, files, report);
    let findings = &mut measured.findings;
    let due_per_second = due as f64 / lasted_seconds.max(1.0);
    let served = report.outcome.map(|outcome| outcome.tps).filter(|tps| *tps > 0.0).unwrap_or(due_per_second);
    let missed = report.missed_rate(served).filter(|_| has_rate);
    let point = Point {
        scale: known("scale", scale, 1, findings),
        clients: known("clients", clients, 1, findings),
        jobs: known("jobs", options.jobs.or(report.threads).or(files.threads()), 1, findings),
        script: options.script.clone().or(script).unwrap_or_else(|| "unknown".to_owned()),
        rate: if has_rate { choose_rate(options, missed.unwrap_or(due_per_second), findings) } else { None },
        // Simple is pgbench's default.
        query_mode: known("query_mode", options.query_mode.or(report.query_mode), QueryMode::Simple, findings),
        seconds: report.transactions.is_none().then(|| lasted_seconds.round().max(1.0) as u32),
        transactions: report.transactions,
        start: options.start.unwrap_or(StartAsked::AsIs),
        disk: NATIVE.to_owned(),
        file_system: NATIVE.to_owned(),
        server: files.server.clone().unwrap_or_else(|| DEFAULT_SERVER.to_owned()),
        latency_limit_ms: report.latency_limit_ms,
        strategy: NOTHING.to_owned(),
        database: DEFAULT_DATABASE.to_owned(),
        places: TOGETHER.to_owned(),
        connect: options.connect || report.connects.unwrap_or(false),
        ..Point::default()
    };
    let is_own_script = !BUILTIN_SCRIPTS.contains(&point.script.as_str());
    let is_rate_limited = has_rate && missed.is_none();
    (point, Facts { clients, scale, is_rate_limited, is_own_script, ..Facts::default() })
}

fn known<T: Display>(option: &str, said: Option<T>, otherwise: T, findings: &mut Vec<Finding>) -> T {
    said.unwrap_or_else(|| {
        let name = match option {
            "clients" => "number of clients".to_owned(),
            "jobs" => "number of pgbench's threads".to_owned(),
            _ => option.replace('_', " "),
        };
        let what = format!("the {name} is not in the imported files: pgthaw assumes {otherwise}");
        findings.push(Finding::Assumed { what, how: format!("import again with {option}=") });
        otherwise
    })
}

/// pgbench does not report the requested rate.
fn choose_rate(options: &ImportOptions, due_per_second: f64, findings: &mut Vec<Finding>) -> Option<f64> {
    if options.rate.is_some() {
        return options.rate;
    }
    let rate = round_rate(due_per_second);
    let what = format!(
        "the files do not show the requested rate: pgthaw assumes the rate at which transactions were scheduled, about {rate} per second"
    );
    findings.push(Finding::Assumed { what, how: "import again with rate=".to_owned() });
    (rate > 0.0).then_some(due_per_second)
}

fn round_rate(rate: f64) -> f64 {
    format!("{rate:.1e}").parse().unwrap_or(rate)
}

fn number_trials(trials: &mut [SweepTrial], is_rate_assumed: bool) {
    // Point, requested seconds of its first trial, and number of its trials.
    let mut points: Vec<(Point, Option<u32>, u32)> = Vec::new();
    for (position, trial) in (1..).zip(trials) {
        let asked_seconds = trial.point.seconds.take();
        let due = trial.transactions.saturating_add(trial.failed).saturating_add(trial.skipped);
        let is_same = |(point, seconds, _): &(Point, Option<u32>, u32)| {
            are_as_long(*seconds, asked_seconds)
                && are_one_rate(point.rate, trial.point.rate, due)
                && *point == Point { rate: point.rate, ..trial.point.clone() }
        };
        let number = points.iter().position(is_same).unwrap_or_else(|| {
            points.push((trial.point.clone(), asked_seconds, 0));
            points.len() - 1
        });
        let (point, seconds, repeats) = &mut points[number];
        *repeats += 1;
        trial.point.seconds = *seconds;
        trial.point.rate = point.rate.map(|rate| if is_rate_assumed { round_rate(rate) } else { rate });
        (trial.number, trial.repeat, trial.position) = (number as u32, *repeats, position);
    }
}

/// A log's length varies by a second or two.
fn are_as_long(one: Option<u32>, other: Option<u32>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => one.abs_diff(other) <= (one / 50).clamp(1, 2),
        _ => one == other,
    }
}

/// pgbench schedules transactions at random.
fn are_one_rate(one: Option<f64>, other: Option<f64>, due: u64) -> bool {
    match one.zip(other) {
        Some((one, other)) => (one / other - 1.0).abs() <= SAME_RATE.max(SCATTER * (2.0 / due.max(1) as f64).sqrt()),
        None => one == other,
    }
}

fn describe_run(options: &ImportOptions, trials: &[SweepTrial], digest: String, version: Option<String>) -> SweepRun {
    let started_at = trials.first().map_or(Timestamp::UNIX_EPOCH, |trial| trial.started_at);
    let ended_at = trials.iter().map(|trial| trial.ended_at.unwrap_or(trial.started_at)).max();
    let sources = name_files(&options.paths);
    let version = version.unwrap_or_default();
    let unknown = || "unknown".to_owned();
    let unchecked = Finding::Assumed {
        what: "imported: the start state was not checked, and the server, the machine and its reads are unknown".into(),
        how: "measure with `pgthaw bench` to record these facts".into(),
    };
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
            file_system: unknown(),
            device: Device { name: unknown(), ..Device::default() },
            ..Machine::default()
        },
        server: ServerFacts { version: unknown(), block_size: 8192, segment_blocks: 131_072, ..ServerFacts::default() },
        question: options.question.clone().unwrap_or_else(|| format!("imported from {sources}")),
        digest,
        varied: compute_varied(trials),
        points: trials.iter().map(|trial| trial.number + 1).max().unwrap_or_default(),
        repeats: trials.iter().map(|trial| trial.repeat).max().unwrap_or_default(),
        verdicts: vec![unchecked.into()],
        source: Some(sources),
        ..SweepRun::default()
    }
}

fn compute_varied(trials: &[SweepTrial]) -> Vec<String> {
    let differs = |axis: &&str| trials.windows(2).any(|two| two[0].point.value(axis) != two[1].point.value(axis));
    let axes = FIXED_AXES.iter().map(|axis| axis.name).chain([CONNECT]);
    axes.filter(differs).map(str::to_owned).collect()
}

/// The report's script name and scale are reliable only for built-in scripts.
pub fn check_given(options: &ImportOptions, label: &str, report: &PgbenchReport) -> Result<()> {
    let is_builtin = report.script.as_deref().is_some_and(|script| BUILTIN_SCRIPTS.contains(&script));
    let scale = report.scale.filter(|_| is_builtin);
    let script = report.script.clone().filter(|_| is_builtin);
    let tell = |connects| if connects { "a connection for each transaction" } else { "one for each client" };
    let (connect, connects) = (options.connect.then(|| tell(true)), report.connects.map(tell));
    let contradictions = [
        contradict("clients", options.clients, report.clients),
        contradict("jobs", options.jobs, report.threads),
        contradict("scale", options.scale, scale),
        contradict("script", options.script.clone(), script),
        contradict("query_mode", options.query_mode, report.query_mode),
        contradict("seconds", options.seconds, report.seconds),
        contradict("connect", connect, connects),
    ];
    let clients = options.clients.or(report.clients);
    let jobs = options.jobs.zip(clients).filter(|(jobs, clients)| jobs > clients);
    let more_jobs = jobs
        .map(|(jobs, clients)| format!("jobs= is {jobs}, but pgbench has no more threads than its {clients} clients"));
    contradictions.into_iter().flatten().chain(more_jobs).next().map_or(Ok(()), |said| Err(refuse(label, &said)))
}

fn contradict<T: Display + PartialEq>(option: &str, given: Option<T>, said: Option<T>) -> Option<String> {
    let (given, said) = given.zip(said).filter(|(given, said)| given != said)?;
    Some(format!("{option}= is {given}, but pgbench's report shows {said}"))
}

fn refuse(label: &str, said: &str) -> Error {
    Error::Unfit {
        problem: format!("{label}: {said}"),
        remedy: "omit this KEY=VALUE, or import these files in another command".to_owned(),
    }
}

/// Transactions in flight finish after the requested duration.
const LONGER_SECONDS: f64 = 2.0;

/// The requested duration may exceed twice the log's by this: a run may stall.
const SILENT_SECONDS: f64 = 60.0;

pub fn check_seconds(options: &ImportOptions, label: &str, log_seconds: Option<f64>) -> Result<()> {
    let Some((seconds, log)) = options.seconds.map(f64::from).zip(log_seconds) else { return Ok(()) };
    if log > seconds + LONGER_SECONDS || seconds > 2.0 * log + SILENT_SECONDS {
        return Err(refuse(label, &format!("seconds= is {seconds}, but the log lasts {log:.1} s")));
    }
    Ok(())
}

/// Tolerated deviation from the requested rate: this share, or if larger, this many standard deviations.
const OFF_SHARE: f64 = 0.1;
const SCATTER: f64 = 3.0;

/// Tolerated relative difference between the rates of repeats, because a rate may be an estimate.
const SAME_RATE: f64 = 0.03;

/// Minimum ratio of reported schedule lag to that expected under overload.
const LAG_SHARE: f64 = 0.5;

/// Rejects `rate=` if pgbench scheduled more transactions per second, or fewer with too small a schedule lag for an
/// overloaded server.
fn check_rate(options: &ImportOptions, label: &str, report: &PgbenchReport, due: u64, seconds: f64) -> Result<()> {
    let Some(rate) = options.rate.filter(|_| due > 0 && seconds > 0.0) else { return Ok(()) };
    let due_per_second = due as f64 / seconds;
    let off = OFF_SHARE.max(SCATTER / (due as f64).sqrt());
    if due_per_second > rate * (1.0 + off) {
        let said =
            format!("rate= is {rate} transactions per second, but about {due_per_second:.0} per second were scheduled");
        return Err(refuse(label, &said));
    }
    let behind_ms = 1000.0 * seconds * (1.0 - due_per_second / rate);
    match report.lag_ms_max {
        Some(lag_ms) if due_per_second < rate * (1.0 - off) && lag_ms < LAG_SHARE * behind_ms => {
            let said = format!(
                "rate= is {rate} transactions per second, but only {due_per_second:.0} were scheduled, and none began more than {lag_ms:.0} ms late"
            );
            Err(refuse(label, &said))
        }
        _ => Ok(()),
    }
}

#[derive(Clone, Debug, Default)]
pub struct ImportOptions {
    pub paths: Vec<PathBuf>,
    pub question: Option<String>,
    pub scale: Option<u32>,
    pub clients: Option<u32>,
    /// pgbench's threads (`-j`).
    pub jobs: Option<u32>,
    pub script: Option<String>,
    pub query_mode: Option<QueryMode>,
    pub seconds: Option<u32>,
    pub connect: bool,
    /// Requested rate per second. Ignored for trials without a rate.
    pub rate: Option<f64>,
    pub start: Option<StartAsked>,
}
