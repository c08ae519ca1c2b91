//! A sweep from its first trial to its last, or from where it was interrupted.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Instant;

use jiff::Timestamp;

use super::Sweep;
use super::forecast::{TimeLeft, expected_seconds};
use super::plan::{plan_sweep, plan_turns};
use super::prepare::{OpenLab, ScaleDatabase, make_databases, open_lab};
use super::record::{SweepRun, SweepTrial};
use super::server::connect;
use super::start::{StartAsked, Starter, WarmSnapshot};
use super::trial::TrialSetup;
use super::verdict::{GeneratorCalibration, calibrate_generator, compute_start_verdicts, texts_of};
use crate::bench::disk::choose_in_force;
use crate::bench::event::{Event, Events, SweepTrialStarted};
use crate::bench::lab::Lab;
use crate::bench::order::Turn;
use crate::bench::stop::Stop;
use crate::bench::tournament::{describe_machine, new_run_id, repair_read_ahead};
use crate::bench::work_directory::{WorkDirectory, sweep_abandoned};
use crate::bench::{Disk, Error, Place};
use crate::linux::block_device::{BlockDevice, read_block_device};
use crate::postgres::pgbench::{Pgbench, read_pgbench_version};
use crate::postgres::{Programs, read_configuration};
use crate::units::Bytes;

/// What is asked of a sweep.
#[derive(Debug)]
pub struct SweepOptions {
    pub programs: Programs,
    /// Where the cluster is made: on the disk that is measured.
    pub parent: PathBuf,
    pub sweep: Sweep,
    /// A run of the same sweep that did not get to its end.
    pub earlier: Option<Earlier>,
}

/// What an interrupted run has left.
#[derive(Clone, Debug)]
pub struct Earlier {
    pub run: SweepRun,
    /// Number and repeat of the trials that were kept.
    pub finished: BTreeSet<(u32, u32)>,
}

/// A sweep that ended, or was stopped.
#[derive(Debug)]
pub struct SweepFinished {
    pub run: SweepRun,
    /// Of this invocation.
    pub trials: u32,
    pub failed: u32,
    pub is_interrupted: bool,
}

/// Runs what is left of a sweep, and blocks its thread while a server starts or a trial runs: give it a thread of its
/// own. Trials are told as events when they end. Whatever happens, the server and its cluster are gone afterwards.
///
/// # Errors
/// `Error::Interrupted` when it was stopped before the trials began.
pub async fn run_sweep(options: SweepOptions, events: &Events, stop: &Stop) -> Result<SweepFinished, Error> {
    sweep_abandoned(&Place::Scratch { parent: options.parent.clone() }, events);
    let directory = WorkDirectory::create()?;
    let earlier = options.earlier.as_ref();
    let seed = earlier.map(|earlier| earlier.run.seed).or(options.sweep.seed).unwrap_or_else(rand::random);
    plan_sweep(&options.sweep, seed, &options.parent)?.check_room(&options.parent)?;
    repair_read_ahead(&options.parent, events);
    let started_at = Timestamp::now();
    let id = earlier.map_or_else(|| new_run_id(started_at), |earlier| earlier.run.id.clone());
    events.tell(Event::Step("making a scratch cluster".into()));
    let clients_max = options.sweep.axes.clients.iter().copied().max().unwrap_or(1);
    let OpenLab { mut lab, is_adopted, claim: _claim } =
        open_lab(&options.programs, &options.parent, &id, clients_max)?;
    if is_adopted {
        events.tell(Event::Remark("a run that was killed has left its cluster: it is used again".into()));
    }
    let play = Play { options: &options, id, seed, started_at, directory: directory.path(), events, stop };
    let played = play.run(&mut lab).await;
    // The first failure is the one to tell.
    let tidied = lab.finish(false).await;
    let finished = played?;
    tidied.map(|_| finished)
}

/// What stays the same while a sweep runs.
struct Play<'a> {
    options: &'a SweepOptions,
    id: String,
    seed: u64,
    started_at: Timestamp,
    directory: &'a Path,
    events: &'a Events,
    stop: &'a Stop,
}

impl Play<'_> {
    async fn run(&self, lab: &mut Lab) -> Result<SweepFinished, Error> {
        let sweep = &self.options.sweep;
        let device = read_block_device(&self.options.parent).ok();
        let disks = self.find_disks();
        let databases = make_databases(self.options, lab, self.directory, self.events, self.stop).await?;
        let mut run = match &self.options.earlier {
            Some(earlier) => earlier.run.clone(),
            None => self.describe(lab, device.as_ref(), &disks).await?,
        };
        if run.generator.is_empty() {
            run.generator = self.calibrate(lab, &databases)?;
        }
        let (machine, generator) = (run.machine.clone(), run.generator.clone());
        self.events.tell(Event::SweepStarted(Box::new(run.clone())));
        let snapshots = self.take_snapshots(lab, &databases).await?;
        let setup = TrialSetup {
            sweep_id: &self.id,
            sweep,
            device: device.map(|device| device.number),
            block_size: Bytes(run.server.block_size.into()),
            machine: &machine,
            generator: &generator,
            databases: &databases,
            snapshots: &snapshots,
            disks: &disks,
            directory: self.directory,
            events: self.events,
            stop: self.stop,
        };
        let mut finished = SweepFinished { run: run.clone(), trials: 0, failed: 0, is_interrupted: false };
        match self.run_trials(lab, &setup, &mut finished).await {
            Ok(()) => run.ended_at = Some(Timestamp::now()),
            Err(Error::Interrupted) => finished.is_interrupted = true,
            Err(error) => return Err(error),
        }
        Ok(SweepFinished { run, ..finished })
    }

    async fn run_trials(
        &self,
        lab: &mut Lab,
        setup: &TrialSetup<'_>,
        finished: &mut SweepFinished,
    ) -> Result<(), Error> {
        let turns = plan_turns(setup.sweep, self.seed);
        let is_done = |turn: &Turn<u32>| {
            let earlier = self.options.earlier.as_ref();
            earlier.is_some_and(|earlier| earlier.finished.contains(&(turn.strategy, turn.repeat)))
        };
        let all = turns.len() as u32;
        let left: Vec<Turn<u32>> = turns.into_iter().filter(|turn| !is_done(turn)).collect();
        let expected = |turn: &Turn<u32>| {
            let point = setup.sweep.point(turn.strategy);
            expected_seconds(&point, &setup.sweep.disk(&point))
        };
        let mut expected_left: f64 = left.iter().map(expected).sum();
        let mut time_left = TimeLeft::default();
        let mut running: Option<Vec<(String, String)>> = None;
        for turn in &left {
            let (began, point) = (Instant::now(), setup.sweep.point(turn.strategy));
            self.events.tell(Event::SweepTrialStarted(SweepTrialStarted {
                label: point.render(&setup.sweep.axes.varied()),
                repeat: turn.repeat,
                position: turn.position,
                trials: all,
                seconds: point.seconds,
                left: time_left.left(expected_left),
            }));
            let trial = setup.run(lab, turn, running.as_deref()).await?;
            finished.trials += 1;
            finished.failed += u32::from(trial.failure.is_some());
            // After a failure nobody knows how the server runs.
            running = trial.failure.is_none().then(|| point.settings.clone());
            self.tell_end(trial);
            expected_left -= expected(turn);
            time_left.learn(expected(turn), began.elapsed());
        }
        Ok(())
    }

    fn tell_end(&self, trial: SweepTrial) {
        self.events.tell(Event::SweepTrialEnded(Box::new(trial)));
    }

    /// Each disk of the study, or why it cannot be had.
    fn find_disks(&self) -> BTreeMap<String, Disk> {
        let find = |(name, disk): (&String, &Disk)| (name.clone(), choose_in_force(&self.options.parent, disk.clone()));
        let disks: BTreeMap<String, Disk> = self.options.sweep.disks.iter().map(find).collect();
        for (name, disk) in &disks {
            for reason in [&disk.not_enforced, &disk.read_ahead_not_enforced].into_iter().flatten() {
                self.events.tell(Event::Remark(format!("the disk {name} is not in force: {reason}")));
            }
        }
        disks
    }

    /// Of the warm state, for the scales of points that start restored.
    async fn take_snapshots(
        &self,
        lab: &mut Lab,
        databases: &BTreeMap<u32, ScaleDatabase>,
    ) -> Result<BTreeMap<u32, WarmSnapshot>, Error> {
        let sweep = &self.options.sweep;
        let mut snapshots = BTreeMap::new();
        if !sweep.axes.start.contains(&StartAsked::Restored) {
            return Ok(snapshots);
        }
        for (scale, database) in databases {
            self.stop.check()?;
            self.events.tell(Event::Step(format!("taking the snapshot of the warm state, scale {scale}")));
            lab.use_database(&database.name, database.oid);
            let starter =
                Starter { device: None, snapshots: &BTreeMap::new(), directory: self.directory, stop: self.stop };
            let load = sweep.load(&sweep.point(0));
            snapshots.insert(*scale, starter.take_snapshot(lab, *scale, &load).await?);
        }
        Ok(snapshots)
    }

    fn calibrate(
        &self,
        lab: &mut Lab,
        databases: &BTreeMap<u32, ScaleDatabase>,
    ) -> Result<Vec<GeneratorCalibration>, Error> {
        if let Some(database) = databases.values().next() {
            lab.use_database(&database.name, database.oid);
        }
        calibrate_generator(lab, &self.options.sweep, self.directory, self.events, self.stop)
    }

    async fn describe(
        &self,
        lab: &Lab,
        device: Option<&BlockDevice>,
        disks: &BTreeMap<String, Disk>,
    ) -> Result<SweepRun, Error> {
        let sweep = &self.options.sweep;
        let (server, mut connection) = connect(lab).await?;
        let pgbench = Pgbench::find(&lab.programs, lab.workload_options())?;
        let configuration = read_configuration(&mut connection).await?;
        let verdicts = compute_start_verdicts(sweep, disks, &configuration);
        Ok(SweepRun {
            id: self.id.clone(),
            started_at: self.started_at,
            ended_at: None,
            pgthaw_version: env!("CARGO_PKG_VERSION").to_owned(),
            pgbench_version: read_pgbench_version(pgbench.program())?,
            machine: describe_machine(&self.options.parent, device)?,
            server: server.facts,
            configuration,
            question: sweep.question.clone(),
            digest: sweep.digest(),
            study: serde_json::to_value(sweep).unwrap_or_else(|_| unreachable!("maps of text become JSON")),
            varied: sweep.axes.varied(),
            points: sweep.points(),
            repeats: sweep.repeats,
            seed: self.seed,
            generator: Vec::new(),
            warnings: texts_of(&verdicts),
            verdicts,
            source: None,
        })
    }
}
