//! The tournament: every strategy from the same proven cold state, in random order, under the same limit.

use std::path::Path;

use jiff::Timestamp;

use super::forecast::{compute_study_forecast, describe_cold_start, make_pgbench_classes};
use super::options::{Options, find_device, set_read_ahead};
use super::preparation::{Prepared, choose_settings, prepare};
use super::residency::StripRelation;
use super::trial::TrialSetup;
use crate::lab::{
    Error, Lab, Place, Stop, WorkDirectory, describe_machine, remove_abandoned, repair_read_ahead, tell_disk_remarks,
};
use crate::linux::block_device::BlockDevice;
use crate::linux::memory::pages_out_idle;
use crate::linux::read_ahead::ReadAhead;
use crate::postgres::pgbench::Script;
use crate::study::{
    Event, Events, Finished, NOTHING, Record as _, Run, Study, StudyForecast, Trial, compute_bound_seconds, new_run_id,
    plan_order,
};
use crate::units::Bytes;
use crate::verdict::{WarmGoal, describe_workload, judge_trial, throughput, warn_of_short_trials};

/// Seconds around a trial, for stopping, evicting, starting and repeating its history; and of an act's preparation: what is
/// expected of acts that have not begun.
const EXPECTED_TRIAL_OVERHEAD: u32 = 5;
const EXPECTED_PREPARATION: u32 = 15;

/// Runs a tournament of one or more acts, which share place, disk and tables and each have their own workload, strategies
/// and run, and blocks its thread while a server starts or a trial runs: give it a thread of its own. Whatever
/// happens, the server, the limit and, unless it is kept, the cluster are gone afterwards; a lab server whose cluster
/// was borrowed runs again.
///
/// # Errors
/// `Error::Interrupted` when it was stopped before the trials began. Trials that ended before a failure were told as
/// events.
pub async fn run_tournament(mut acts: Vec<Options>, events: &Events, stop: &Stop) -> Result<Vec<Finished>, Error> {
    let mut device = None;
    for act in &mut acts {
        device = find_device(act);
    }
    let Some(options) = acts.first() else { return Ok(Vec::new()) };
    remove_abandoned(&options.place, events);
    let directory = WorkDirectory::create()?;
    repair_read_ahead(options.place.directory(), events);
    tell_disk_remarks(&options.disk, events);
    events.tell(Event::Step(match &options.place {
        Place::Scratch { .. } => "making a scratch cluster".into(),
        Place::Borrowed { .. } => "stopping the lab server, to run its cluster behind a private socket".into(),
    }));
    let settings = choose_settings(options);
    let settings: Vec<(&str, &str)> = settings.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let mut lab = Lab::open(&options.programs, &options.place, &settings)?;
    let played = play_acts(&acts, &mut lab, device.as_ref(), directory.path(), events, stop).await;
    let kept = lab.finish(options.is_kept && played.is_ok()).await;
    // The first failure is the one to tell.
    let (mut played, kept) = (played?, kept?);
    played.iter_mut().for_each(|act| act.kept.clone_from(&kept));
    Ok(played)
}

/// One act after the other, until one is interrupted.
async fn play_acts(
    acts: &[Options],
    lab: &mut Lab,
    device: Option<&BlockDevice>,
    directory: &Path,
    events: &Events,
    stop: &Stop,
) -> Result<Vec<Finished>, Error> {
    let mut played: Vec<Finished> = Vec::new();
    for (number, act) in (1..).zip(acts) {
        if let (2.., Some(title)) = (acts.len(), &act.title) {
            events.tell(Event::Remark(format!("act {number} of {}: {title}", acts.len())));
        }
        let directory = directory.join(format!("act-{number}"));
        std::fs::create_dir(&directory).map_err(|source| Error::file("create", &directory, source))?;
        let later_seconds = acts[number..].iter().map(expected_seconds).sum();
        match play(act, lab, device, &directory, later_seconds, events, stop).await {
            Ok(finished) => {
                events.tell(Event::RunEnded(Box::new(finished.clone())));
                played.push(finished);
            }
            // Stopped while the next act was prepared: those before are whole.
            Err(Error::Interrupted) if !played.is_empty() => {
                played.iter_mut().for_each(|act| act.is_interrupted = true);
            }
            Err(error) => return Err(error),
        }
        if played.iter().any(|act| act.is_interrupted) {
            break;
        }
    }
    Ok(played)
}

pub fn expected_seconds(act: &Options) -> u32 {
    let trials = act.strategies.len() as u32 * act.repeats;
    EXPECTED_PREPARATION + trials * (act.workload.seconds + EXPECTED_TRIAL_OVERHEAD)
}

/// Prepares the cluster for an act and runs its trials in it.
async fn play(
    options: &Options,
    lab: &mut Lab,
    device: Option<&BlockDevice>,
    directory: &Path,
    later_seconds: u32,
    events: &Events,
    stop: &Stop,
) -> Result<Finished, Error> {
    let started_at = Timestamp::now();
    let prepared = prepare(options, lab, directory, events, stop).await?;
    // From here on, because files keep the read-ahead that they were opened with and each trial starts the server
    // anew; until the trials end, because a borrowed cluster's own server has to open its files with the device's own.
    let read_ahead = set_read_ahead(options)?;
    events.tell(Event::Calibrated(Box::new(prepared.calibration.clone())));
    let mut run = describe_run(options, &prepared, device, started_at)?;
    let Study { forecast, strategies, seconds, until_steady, .. } = &run.study;
    let short =
        forecast.as_ref().and_then(|forecast| warn_of_short_trials(forecast, strategies, *seconds, *until_steady));
    if let Some(warning) = short {
        events.tell(Event::Remark(warning.clone()));
        run.warnings.push(warning);
    }
    run.hide_secrets();
    events.tell(Event::RunStarted(Box::new(run.clone())));
    let turns = plan_order(&prepared.strategies, options.repeats, options.seed);
    let setup = TrialSetup {
        run_id: &run.id,
        study: &run.study,
        goal: describe_goal(&prepared, &run.study),
        workload: &options.workload,
        disk: &options.disk,
        memory: options.memory,
        device: device.map(|device| device.number),
        block_size: Bytes(prepared.facts.block_size.into()),
        snapshots: &prepared.snapshots,
        strips: &prepared.strips,
        directory,
        trials: turns.len() as u32,
        later_seconds,
        events,
        stop,
    };
    let mut trials = Vec::new();
    let mut is_interrupted = false;
    for turn in &turns {
        match setup.run(lab, turn).await {
            Ok(mut trial) => {
                judge_trial(&run, &mut trial);
                trial.hide_secrets();
                events.tell(Event::TrialEnded(Box::new(trial.clone())));
                trials.push(trial);
            }
            Err(Error::Interrupted) => {
                is_interrupted = true;
                break;
            }
            Err(error) => return Err(error),
        }
    }
    read_ahead.map_or(Ok(()), ReadAhead::put_back)?;
    conclude(&mut run, &mut trials, prepared.calibration.tps);
    Ok(Finished { run, trials, is_interrupted, kept: None })
}

/// What is known before the first trial.
fn describe_run(
    options: &Options,
    prepared: &Prepared,
    device: Option<&BlockDevice>,
    started_at: Timestamp,
) -> Result<Run, Error> {
    let workload = &options.workload;
    let machine = describe_machine(options.place.directory(), device)?;
    let forecast = forecast_nothing(options, prepared)?;
    Ok(Run {
        id: new_run_id(started_at),
        started_at,
        ended_at: None,
        pgthaw_version: env!("CARGO_PKG_VERSION").to_owned(),
        machine,
        server: prepared.facts.clone(),
        settings: prepared.settings.clone(),
        study: Study {
            title: options.title.clone(),
            scale: options.scale,
            clients: workload.clients,
            jobs: workload.jobs,
            script: workload.script.name(),
            seconds: workload.seconds,
            until_steady: options.until_steady,
            repeats: options.repeats,
            strategies: prepared.strategies.iter().map(|strategy| strategy.name().to_owned()).collect(),
            skipped_strategies: prepared.skipped.clone(),
            disk: options.disk.clone(),
            seed: options.seed,
            database_bytes: prepared.database_bytes,
            wanted_bytes: prepared.wanted_bytes,
            bound_seconds: compute_bound_seconds(&options.disk, prepared.wanted_bytes),
            start_state:
                "cold: all read and the workload run, then stopped, its files evicted and measured, then started".into(),
            forecast,
            memory: options.memory,
        },
        steady_tps: None,
        warnings: compute_run_warnings(options, prepared),
    })
}

/// What the model says of a server that nothing warms, where enough is known.
fn forecast_nothing(options: &Options, prepared: &Prepared) -> Result<Option<StudyForecast>, Error> {
    let is_builtin = matches!(options.workload.script, Script::Builtin(_));
    let device = options.device.as_ref().filter(|_| is_builtin && options.disk.not_enforced.is_none());
    let relations: Vec<(String, Bytes)> = prepared.strips.iter().map(StripRelation::size).collect();
    let classes = make_pgbench_classes(&relations, Bytes(prepared.facts.block_size.into()));
    let (Some(device), Some(_), Some(classes)) = (device, prepared.calibration.tps, classes) else { return Ok(None) };
    let cold = describe_cold_start(options, &prepared.calibration, device, classes)?;
    Ok(Some(compute_study_forecast(&cold)?))
}

/// When a trial is warm, as far as that can be told while it runs.
fn describe_goal(prepared: &Prepared, study: &Study) -> WarmGoal {
    WarmGoal {
        wanted_bytes: prepared.wanted_bytes,
        block_size: Bytes(prepared.facts.block_size.into()),
        warm_tps: prepared.calibration.tps,
        is_uniform: !describe_workload(study, NOTHING).is_own_script,
    }
}

fn compute_run_warnings(options: &Options, prepared: &Prepared) -> Vec<String> {
    let mut warnings = Vec::new();
    if let Some(reason) = &options.disk.not_enforced {
        warnings.push(format!("the disk {} is not in force: {reason}", options.disk.name));
    }
    if let Some(reason) = &options.disk.read_ahead_not_enforced {
        warnings.push(format!("the read-ahead of the disk {} is not in force: {reason}", options.disk.name));
    }
    if options.repeats < 2 {
        warnings.push("one trial per strategy shows no spread: --repeats 3".into());
    }
    if options.until_steady {
        warnings.push("trials ended when they were steady: what was served in all is of different durations".into());
    }
    let pages_out_idle = pages_out_idle();
    if prepared.wanted_bytes.0 < prepared.database_bytes.0 * 9 / 10 {
        let why = if pages_out_idle { "the kernel pages out what is idle" } else { "memory is short" };
        warnings.push(format!(
            "the warm state holds {} of {} only: {why}, choose a smaller --scale",
            prepared.wanted_bytes, prepared.database_bytes
        ));
    }
    if pages_out_idle {
        warnings.push(
            "the kernel pages out memory that was idle for a while (DAMON): what was loaded may go again within the trial"
                .into(),
        );
    }
    warnings
}

/// What is known only when all trials are there: the steady level, and when each trial reached shares of it.
fn conclude(run: &mut Run, trials: &mut [Trial], calibration_tps: Option<f64>) {
    run.ended_at = Some(Timestamp::now());
    run.steady_tps = throughput::compute_steady_tps(trials).or(calibration_tps);
    let Some(steady) = run.steady_tps else { return };
    for trial in trials {
        let reached = |share| throughput::compute_seconds_to(&trial.samples, share, steady);
        let (to_50, to_90, to_95) = (reached(0.50), reached(0.90), reached(0.95));
        (trial.to_50_seconds, trial.to_90_seconds, trial.to_95_seconds) = (to_50, to_90, to_95);
        judge_trial(run, trial);
    }
}
