//! A run of loaders: prepared once, then all loaders in each of the rounds, in random order.

use std::path::{Path, PathBuf};
use std::time::Instant;

use jiff::Timestamp;

use super::bound::compute_bound;
use super::options::{LoadingOptions, RESIDENT_SHARE, WantedSource};
use super::preparation::choose_settings;
use super::prepare::{PreparedLoading, prepare_loading};
use super::ranges::write_list;
use super::trial::LoadSetup;
use super::wanted::count_pages;
use crate::lab::{
    Error, Lab, Place, Stop, WorkDirectory, choose_in_force, describe_machine, remove_abandoned, repair_read_ahead,
    tell_disk_remarks,
};
use crate::linux::block_device::{BlockDevice, read_block_device};
use crate::linux::memory::pages_out_idle;
use crate::linux::page_cache::PageCache as _;
use crate::linux::read_ahead::ReadAhead;
use crate::study::{
    Event, Events, LoadStarted, LoadingRun, LoadingStudy, LoadingTrial, Record as _, new_run_id, plan_order,
};
use crate::units::Bytes;

/// A run that ended, or was stopped after its preparation.
#[derive(Debug)]
pub struct LoadingFinished {
    pub run: LoadingRun,
    pub trials: Vec<LoadingTrial>,
    pub is_interrupted: bool,
    /// The cluster's directory, when it was kept.
    pub kept: Option<PathBuf>,
}

/// Runs loaders on a scratch cluster, and blocks its thread meanwhile. Whatever happens, the server, the limit and, unless
/// it is kept, the cluster are gone afterwards.
///
/// # Errors
/// `Error::Interrupted` when it was stopped before the trials began.
pub async fn run_loading(mut options: LoadingOptions, events: &Events, stop: &Stop) -> Result<LoadingFinished, Error> {
    let place = Place::Scratch { parent: options.parent.clone() };
    remove_abandoned(&place, events);
    let directory = WorkDirectory::create()?;
    repair_read_ahead(&options.parent, events);
    options.disk = choose_in_force(&options.parent, options.disk);
    let device = read_block_device(&options.parent).ok();
    tell_disk_remarks(&options.disk, events);
    events.tell(Event::Step("making a scratch cluster".into()));
    let settings = choose_settings(&options);
    let settings: Vec<(&str, &str)> = settings.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let mut lab = Lab::open(&options.programs, &place, &settings)?;
    let played = play(&options, &mut lab, device.as_ref(), directory.path(), events, stop).await;
    let kept = lab.finish(options.is_kept && played.is_ok()).await;
    // The first failure is the one to tell.
    Ok(LoadingFinished { kept: played.as_ref().map_or(Ok(None), |_| kept)?, ..played? })
}

/// Prepares the cluster and runs the trials in it.
async fn play(
    options: &LoadingOptions,
    lab: &mut Lab,
    device: Option<&BlockDevice>,
    directory: &Path,
    events: &Events,
    stop: &Stop,
) -> Result<LoadingFinished, Error> {
    let started_at = Timestamp::now();
    let prepared = prepare_loading(options, lab, directory, events, stop).await?;
    // Files keep the read-ahead that they were opened with, and each trial starts the server anew.
    let asked = options.disk.read_ahead.filter(|_| options.disk.read_ahead_not_enforced.is_none());
    let read_ahead = asked.map(|asked| ReadAhead::set(&options.parent, asked)).transpose()?;
    let mut run = describe_run(options, lab, &prepared, device, started_at)?;
    for (name, how) in &prepared.skipped {
        events.tell(Event::Remark(format!("without {name}: {how}")));
    }
    let range_list = directory.join("ranges");
    write_list(&range_list, &prepared.wanted, lab.page_cache().page_bytes())?;
    events.tell(Event::LoadingStarted(Box::new(run.clone())));
    let setup = LoadSetup {
        prepared: &prepared,
        disk: &options.disk,
        device: device.map(|device| device.number),
        directory,
        range_list,
        block_bytes: prepared.facts.block_size.into(),
        patience: options.patience,
        events,
        stop,
    };
    let turns = plan_order(&prepared.loaders, options.rounds, options.seed);
    let began = Instant::now();
    let mut trials = Vec::new();
    let mut is_interrupted = false;
    for turn in &turns {
        let (ended, all) = (turn.position - 1, turns.len() as u32);
        let left = began.elapsed().checked_div(ended).map(|each| each * (all - ended));
        let started =
            LoadStarted { loader: turn.point.name(), round: turn.repeat, position: turn.position, trials: all, left };
        events.tell(Event::LoadStarted(started));
        match setup.run(lab, turn).await {
            Ok(mut trial) => {
                trial.hide_secrets();
                events.tell(Event::LoadEnded(Box::new(trial.clone())));
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
    run.ended_at = Some(Timestamp::now());
    Ok(LoadingFinished { run, trials, is_interrupted, kept: None })
}

/// What is known before the first trial.
fn describe_run(
    options: &LoadingOptions,
    lab: &Lab,
    prepared: &PreparedLoading,
    device: Option<&BlockDevice>,
    started_at: Timestamp,
) -> Result<LoadingRun, Error> {
    let LoadingOptions { wanted, patience, workload, disk, .. } = options;
    let page_bytes = lab.page_cache().page_bytes();
    let block_bytes = u64::from(prepared.facts.block_size);
    let wanted_pages = count_pages(&prepared.wanted);
    let script = workload.script.name();
    Ok(LoadingRun {
        id: new_run_id(started_at),
        started_at,
        ended_at: None,
        pgthaw_version: env!("CARGO_PKG_VERSION").to_owned(),
        machine: describe_machine(&options.parent, device)?,
        server: prepared.facts.clone(),
        settings: prepared.settings.clone(),
        study: LoadingStudy {
            scale: options.scale,
            script: (*wanted == WantedSource::Script).then_some(script),
            script_seconds: workload.seconds,
            clients: workload.clients,
            rounds: options.rounds,
            loaders: prepared.loaders.iter().map(|loader| loader.name().to_owned()).collect(),
            skipped_loaders: prepared.skipped.clone(),
            disk: disk.clone(),
            seed: options.seed,
            database_bytes: prepared.database_bytes,
            wanted_bytes: Bytes(wanted_pages * page_bytes),
            wanted_pages,
            wanted_pieces: prepared.wanted.iter().map(|file| file.runs.len() as u64).sum(),
            resident_share: RESIDENT_SHARE,
            former_buffers_bytes: Bytes(prepared.former.blocks * block_bytes),
            former_hot_bytes: Bytes(prepared.former.hot_blocks * block_bytes),
            bound: compute_bound(&prepared.wanted, page_bytes, disk),
            patience_seconds: patience.as_secs() as u32,
        },
        warnings: warn(options),
    })
}

fn warn(options: &LoadingOptions) -> Vec<String> {
    let mut warnings = Vec::new();
    let disk = &options.disk;
    if let Some(reason) = &disk.not_enforced {
        warnings.push(format!("the disk {} is not in force: {reason}", disk.name));
    }
    if let Some(reason) = &disk.read_ahead_not_enforced {
        warnings.push(format!("the read-ahead of the disk {} is not in force: {reason}", disk.name));
    }
    if options.rounds < 6 {
        warnings.push("fewer than six rounds leave a ratio's interval too narrow: --repeats 6".into());
    }
    if pages_out_idle() {
        warnings
            .push("the kernel pages out memory that was idle for a while (DAMON): what was loaded may go again".into());
    }
    warnings
}
