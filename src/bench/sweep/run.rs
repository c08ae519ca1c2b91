//! A sweep from its first trial to its last, or from where it was interrupted.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Instant;

use jiff::Timestamp;

use super::Earlier;
use super::calibrate::calibrate_generator;
use super::earlier::add_verdicts;
use super::start::{Snapshots, Starter};
use super::trial::TrialSetup;
use crate::lab::{
    Error, Place, ScriptCopies, Site, SiteKey, SiteMaker, SitesAsked, Stop, WorkDirectory, check_hosts, connect,
    describe_machine, remove_abandoned, repair_read_ahead,
};
use crate::linux::block_device::read_block_device;
use crate::linux::memory::pages_out_idle;
use crate::postgres::pgbench::{Pgbench, read_pgbench_version};
use crate::postgres::{Programs, ServerBuild, read_configuration};
use crate::study::{
    Disk, Event, Events, GeneratorCalibration, Record as _, Strategy, Sweep, SweepOpened, SweepRun, SweepTrial,
    SweepTrialStarted, TimeLeft, Turn, expected_seconds, plan_turns, texts_of,
};
use crate::verdict::compute_start_verdicts;

/// What is asked of a sweep.
#[derive(Debug)]
pub struct SweepOptions {
    /// Whoever runs it holds its [lock](crate::lab::SweepLock).
    pub id: String,
    pub programs: Programs,
    /// Where the cluster is made: on the disk that is measured.
    pub parent: PathBuf,
    pub sweep: Sweep,
    /// A run of the same sweep that did not get to its end.
    pub earlier: Option<Earlier>,
    /// Ids of all sweeps that did not: what killed runs have left of them stays.
    pub unfinished: BTreeSet<String>,
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
/// `Error::Interrupted` when it was stopped before the trials began; `Error::OtherGround` when it was begun with another
/// server or on another disk.
pub async fn run_sweep(options: SweepOptions, events: &Events, stop: &Stop) -> Result<SweepFinished, Error> {
    remove_abandoned(&Place::Scratch { parent: options.parent.clone() }, events);
    let directory = WorkDirectory::create()?;
    let asked = SitesAsked {
        id: &options.id,
        sweep: &options.sweep,
        programs: &options.programs,
        parent: &options.parent,
        unfinished: &options.unfinished,
    };
    let maker = SiteMaker::new(asked, directory.path(), events, stop)?;
    if let Some(earlier) = &options.earlier {
        earlier.check_ground(maker.first_programs(), &options.parent)?;
        if earlier.finished.len() as u32 >= options.sweep.trials() {
            // It was killed when nothing was left but to say so.
            maker.remove_left(true);
            let run = SweepRun { ended_at: Some(Timestamp::now()), ..earlier.run.clone() };
            return Ok(SweepFinished { run, trials: 0, failed: 0, is_interrupted: false });
        }
    }
    maker.remove_left(false);
    maker.check_room()?;
    repair_read_ahead(&options.parent, events);
    if let Some(generators) = &options.sweep.generators {
        events.tell(Event::Step("reaching the load generators".into()));
        for host in check_hosts(generators, directory.path(), stop)? {
            events.tell(Event::Remark(host));
        }
    }
    let earlier_seed = options.earlier.as_ref().map(|earlier| earlier.run.seed);
    let play = Play {
        options: &options,
        seed: earlier_seed.or(options.sweep.seed).unwrap_or_else(rand::random),
        started_at: Timestamp::now(),
        scripts: ScriptCopies::make(&options.sweep, directory.path())?,
        directory: directory.path(),
        events,
        stop,
    };
    let mut sites = BTreeMap::new();
    let played = play.run(&maker, &mut sites).await;
    // The first failure is the one to tell.
    let mut tidied = Ok(());
    for site in sites.into_values() {
        let finished = site.finish().await;
        tidied = tidied.and(finished);
    }
    let finished = played?;
    tidied.map(|()| finished)
}

type Sites = BTreeMap<SiteKey, Site>;

/// What stays the same while a sweep runs.
struct Play<'a> {
    options: &'a SweepOptions,
    seed: u64,
    started_at: Timestamp,
    scripts: ScriptCopies,
    directory: &'a Path,
    events: &'a Events,
    stop: &'a Stop,
}

impl Play<'_> {
    async fn run(&self, maker: &SiteMaker<'_>, sites: &mut Sites) -> Result<SweepFinished, Error> {
        let sweep = &self.options.sweep;
        let mut run = self.options.earlier.as_ref().map(|earlier| earlier.run.clone());
        let mut is_kept = run.is_some();
        let mut snapshots = BTreeMap::new();
        for key in SiteKey::all(sweep) {
            let site = sites.entry(key.clone()).or_insert(maker.open(&key).await?);
            let known = match run.take() {
                Some(run) => run,
                None => {
                    let run = self.describe(site).await?;
                    is_kept = self.keep(&run).await;
                    run
                }
            };
            let known = run.insert(known);
            // What is not kept nobody comes back for.
            if is_kept {
                site.outlive();
            }
            maker.fill(site).await?;
            // Of other hosts that would say nothing.
            if known.generator.is_empty() && sweep.generators.is_none() {
                known.generator = self.calibrate(site)?;
            }
            let taken = self.take_snapshots(site).await?;
            site.rest()?;
            snapshots.insert(key, taken);
        }
        let Some(mut run) = run else { unreachable!("every axis has a value") };
        let found = compute_start_verdicts(sweep, &disks_of(sites, sweep), &builds_of(sites), pages_out_idle());
        add_verdicts(&mut run.verdicts, found);
        run.warnings = texts_of(&run.verdicts);
        let (machine, generator) = (run.machine.clone(), run.generator.clone());
        self.events.tell(Event::SweepStarted(Box::new(run.clone())));
        let setup = TrialSetup {
            sweep_id: &self.options.id,
            sweep,
            scripts: &self.scripts,
            snapshots: &snapshots,
            machine: &machine,
            generator: &generator,
            directory: self.directory,
            events: self.events,
            stop: self.stop,
        };
        let mut finished = SweepFinished { run: run.clone(), trials: 0, failed: 0, is_interrupted: false };
        match self.run_trials(sites, &setup, &mut finished).await {
            Ok(()) => run.ended_at = Some(Timestamp::now()),
            Err(Error::Interrupted) => finished.is_interrupted = true,
            Err(error) => return Err(error),
        }
        Ok(SweepFinished { run, ..finished })
    }

    async fn run_trials(
        &self,
        sites: &mut Sites,
        setup: &TrialSetup<'_>,
        finished: &mut SweepFinished,
    ) -> Result<(), Error> {
        let turns = plan_turns(setup.sweep, self.seed);
        let is_done = |turn: &Turn<u32>| {
            let earlier = self.options.earlier.as_ref();
            earlier.is_some_and(|earlier| earlier.finished.contains(&(turn.point, turn.repeat)))
        };
        let all = turns.len() as u32;
        let left: Vec<Turn<u32>> = turns.into_iter().filter(|turn| !is_done(turn)).collect();
        let expected = |turn: &Turn<u32>| {
            let point = setup.sweep.point(turn.point);
            expected_seconds(&point, &setup.sweep.disk(&point))
        };
        let mut expected_left: f64 = left.iter().map(expected).sum();
        let mut time_left = TimeLeft::default();
        let mut last: Option<SiteKey> = None;
        for turn in &left {
            let (began, point) = (Instant::now(), setup.sweep.point(turn.point));
            self.events.tell(Event::SweepTrialStarted(SweepTrialStarted {
                label: point.render(&setup.sweep.axes.varied()),
                repeat: turn.repeat,
                position: turn.position,
                trials: all,
                seconds: point.seconds,
                left: time_left.left(expected_left),
            }));
            let key = SiteKey::of(&point);
            // One server runs at a time.
            let other = last.replace(key.clone()).filter(|last| *last != key);
            other.and_then(|other| sites.get_mut(&other)).map_or(Ok(()), Site::rest)?;
            let Some(site) = sites.get_mut(&key) else { unreachable!("every point has a site") };
            let trial = setup.run(site, turn).await?;
            finished.trials += 1;
            finished.failed += u32::from(trial.failure.is_some());
            site.note_running(&point, trial.failure.is_some());
            self.tell_end(trial);
            expected_left -= expected(turn);
            time_left.learn(expected(turn), began.elapsed());
        }
        Ok(())
    }

    fn tell_end(&self, mut trial: SweepTrial) {
        trial.hide_secrets();
        self.events.tell(Event::SweepTrialEnded(Box::new(trial)));
    }

    /// Has the sweep kept before anything is made that takes long; `false` when nobody keeps it.
    async fn keep(&self, run: &SweepRun) -> bool {
        let (opened, mut kept) = SweepOpened::new(run.clone());
        self.events.tell(Event::SweepOpened(opened));
        kept.recv().await.is_some()
    }

    /// Of the warm state, for points that start restored, and for strategies that bring it back.
    async fn take_snapshots(&self, site: &mut Site) -> Result<Snapshots, Error> {
        let sweep = &self.options.sweep;
        let mut snapshots = Snapshots::new();
        let strategies = sweep.strategies();
        if strategies == [Strategy::Nothing] {
            return Ok(snapshots);
        }
        for (key, database) in &site.databases {
            self.stop.check()?;
            self.events.tell(Event::Step(format!("taking the snapshot of the warm state, {}", key.render())));
            site.lab.use_database(&database.name, database.oid);
            let starter = Starter {
                device: None,
                device_use: site.device_use,
                snapshots: &Snapshots::new(),
                directory: self.directory,
                stop: self.stop,
            };
            let load = self.scripts.of(&sweep.load(&sweep.point(0)));
            let snapshot = starter.take_snapshot(&mut site.lab, key, &load, &strategies).await?;
            snapshots.insert(key.clone(), snapshot);
        }
        Ok(snapshots)
    }

    fn calibrate(&self, site: &mut Site) -> Result<Vec<GeneratorCalibration>, Error> {
        if let Some(database) = site.databases.values().next() {
            site.lab.use_database(&database.name, database.oid);
        }
        calibrate_generator(&site.lab, &self.options.sweep, self.directory, self.events, self.stop)
    }

    async fn describe(&self, site: &Site) -> Result<SweepRun, Error> {
        let sweep = &self.options.sweep;
        let (server, mut connection) = connect(&site.lab).await?;
        let pgbench = Pgbench::find(&site.lab.programs, site.lab.workload_options())?;
        let device = read_block_device(&self.options.parent).ok();
        let mut run = SweepRun {
            id: self.options.id.clone(),
            started_at: self.started_at,
            ended_at: None,
            pgthaw_version: env!("CARGO_PKG_VERSION").to_owned(),
            pgbench_version: read_pgbench_version(pgbench.program())?,
            machine: describe_machine(&self.options.parent, device.as_ref())?,
            server: server.facts,
            configuration: read_configuration(&mut connection).await?,
            question: sweep.question.clone(),
            digest: sweep.digest(),
            study: serde_json::to_value(sweep).unwrap_or_else(|_| unreachable!("maps of text become JSON")),
            varied: sweep.axes.varied(),
            points: sweep.points(),
            repeats: sweep.repeats,
            seed: self.seed,
            generator: Vec::new(),
            warnings: Vec::new(),
            verdicts: Vec::new(),
            source: None,
        };
        run.hide_secrets();
        Ok(run)
    }
}

/// Every disk of every site.
fn disks_of(sites: &Sites, sweep: &Sweep) -> BTreeMap<String, Disk> {
    let disks = sites.iter().flat_map(|(key, site)| site.disks.iter().map(move |(disk, found)| (key, disk, found)));
    disks.map(|(key, disk, found)| (key.name_disk(disk, sweep), found.clone())).collect()
}

/// How each server of the study was built.
fn builds_of(sites: &Sites) -> BTreeMap<String, ServerBuild> {
    sites.iter().map(|(key, site)| (key.server.clone(), site.build.clone())).collect()
}
