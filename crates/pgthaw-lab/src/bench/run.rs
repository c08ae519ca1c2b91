use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Instant;

use jiff::Timestamp;
use tokio::sync::mpsc::channel;

use super::race::{Entrants, Watched, run_race};
use super::start::{Snapshots, Starter, WarmSnapshot, warm_key};
use super::trial::TrialSetup;
use crate::lab::{
    Earlier, FreshDatabase, Lab, LocalPgbench, Place, ScriptCopies, Site, SiteKey, SiteMaker, Stop, SweepOptions, Work,
    check_hosts, connect, describe_machine, make_databases, remove_abandoned, repair_read_ahead,
};
use crate::study::{
    CALIBRATION_SECONDS, Calibration, DatabaseMaking, Disk, Error, Event, Events, Finding, GeneratorCalibration,
    LoadBegins, MeasurementVerdict, NO_DISK, Point, Record as _, Result, Strategy, StudyForecast, Sweep, SweepRun,
    SweepTrialStarted, TimeLeft, Turn, WarmupFacts, plan_turns, texts_of, uniform_class,
};
use crate::verdict::{WarmGoal, busiest_thread, compute_start_verdicts};
use host::linux::Devices;
use host::linux::block_device::read_block_device;
use host::linux::machine::{count_cores, pages_out_idle, read_file_system};
use host::units::Bytes;
use model::{
    Device, Facts, Outlook, PageClass, READ_CPU_SECONDS, STARTUP_READS, Scenario, Server, Workload,
    compute_hit_seconds, compute_outlook,
};
use observe::Cadence;
use pgbench::parse_report;
use postgres::pgbench::read_pgbench_version;
use postgres::{Load, MarkedDirectory, Pgbench, Programs, Script, read_configuration};

#[derive(Debug)]
pub struct SweepFinished {
    pub run: SweepRun,
    pub trials: u32,
    pub failed: u32,
    pub is_interrupted: bool,
    pub kept: Option<PathBuf>,
}

/// Blocks the calling thread. Sweeps in the same place share clusters and databases. Always stops the servers, removes
/// clusters that are not kept, and restarts a borrowed lab server.
///
/// # Errors
/// `Error::Interrupted` if stopped before the first trials; `Error::OtherGround` if a sweep began with another server
/// or disk.
pub async fn run_sweeps(all: &[SweepOptions], events: &Events, stop: &Stop) -> Result<Vec<SweepFinished>> {
    let temporary = std::env::temp_dir();
    let directory = MarkedDirectory::create("pgthaw-bench-", &temporary);
    let directory = directory.map_err(|source| Error::file("create a directory in", &temporary, source))?;
    let mut sites = Sites::new();
    let work = Work { directory: directory.path(), events, stop };
    let played = run_each(all, &mut sites, work).await;
    let is_kept = played.is_ok() && all.iter().any(|options| options.asked.is_kept);
    let mut tidied: Result<Option<PathBuf>> = Ok(None);
    for site in sites.into_values() {
        let finished = site.finish(is_kept).await;
        tidied = tidied.and_then(|kept| Ok(kept.or(finished?)));
    }
    // Repeats this clean-up: at the start, a killed run's server may still have been stopping.
    all.iter().for_each(|options| remove_abandoned(&options.asked.place, events));
    let (mut played, kept) = (played?, tidied?);
    played.iter_mut().for_each(|finished| finished.kept.clone_from(&kept));
    Ok(played)
}

type Sites = BTreeMap<SiteKey, Site>;

async fn run_each(all: &[SweepOptions], sites: &mut Sites, work: Work<'_>) -> Result<Vec<SweepFinished>> {
    let mut played: Vec<SweepFinished> = Vec::new();
    for (number, options) in (1..).zip(all) {
        if all.len() > 1 {
            work.remark(format!("study {number} of {}: {}", all.len(), options.asked.sweep.question));
        }
        let later_seconds = all[number..].iter().map(|later| later.asked.sweep.expected_seconds()).sum();
        match run_one(options, later_seconds, sites, work).await {
            Ok(finished) => played.push(finished),
            // The user stopped a later sweep's preparation; the earlier sweeps are complete.
            Err(Error::Interrupted) if !played.is_empty() => {
                played.iter_mut().for_each(|finished| finished.is_interrupted = true);
            }
            Err(error) => return Err(error),
        }
        if played.iter().any(|finished| finished.is_interrupted) {
            break;
        }
    }
    Ok(played)
}

async fn run_one(
    options: &SweepOptions,
    later_seconds: f64,
    sites: &mut Sites,
    work: Work<'_>,
) -> Result<SweepFinished> {
    remove_abandoned(&options.asked.place, work.events);
    let maker = SiteMaker::new(options, work)?;
    if let Some(earlier) = &options.earlier {
        earlier.check_ground(maker.first_programs(), &options.asked.place)?;
        let can_run = |point: &Point| !is_left_out(&earlier.run, point);
        if earlier.finished.len() >= plan_turns(&options.asked.sweep, 0, can_run).len() {
            maker.remove_left(true);
            let run = SweepRun { ended_at: Some(Timestamp::now()), ..earlier.run.clone() };
            return Ok(SweepFinished { run, trials: 0, failed: 0, is_interrupted: false, kept: None });
        }
    }
    if sites.is_empty() {
        maker.remove_left(false);
        maker.check_room()?;
    }
    repair_read_ahead(options.asked.place.directory(), work.events);
    if let Some(generators) = &options.asked.sweep.generators {
        work.step("connecting to the load generators");
        check_hosts(generators, work)?.into_iter().for_each(|host| work.remark(host));
    }
    let earlier_seed = options.earlier.as_ref().map(|earlier| earlier.run.seed);
    let play = Play {
        options,
        seed: earlier_seed.or(options.asked.sweep.seed).unwrap_or_else(rand::random),
        started_at: Timestamp::now(),
        scripts: ScriptCopies::make(&options.asked.sweep, work.directory)?,
        later_seconds,
        work,
    };
    play.run(&maker, sites).await
}

struct Play<'a> {
    options: &'a SweepOptions,
    seed: u64,
    started_at: Timestamp,
    scripts: ScriptCopies,
    later_seconds: f64,
    work: Work<'a>,
}

impl Play<'_> {
    async fn run(&self, maker: &SiteMaker<'_>, sites: &mut Sites) -> Result<SweepFinished> {
        let sweep = &self.options.asked.sweep;
        let mut run = self.options.earlier.as_ref().map(|earlier| earlier.run.clone());
        let mut is_kept = run.is_some();
        let mut snapshots = Snapshots::new();
        for key in SiteKey::all(sweep) {
            let site = match sites.entry(key.clone()) {
                Entry::Vacant(place) => place.insert(maker.open(&key).await?),
                Entry::Occupied(site) => {
                    let site = site.into_mut();
                    maker.use_again(site).await?;
                    site
                }
            };
            let known = match run.take() {
                Some(run) => run,
                None => {
                    let run = self.describe(site).await?;
                    // The sweep is stored before any slow preparation.
                    let (kept, mut heard) = channel(1);
                    self.work.events.tell(Event::SweepOpened { run: Box::new(run.clone()), kept });
                    // `None`: no receiver stores the sweep.
                    is_kept = heard.recv().await.is_some();
                    run
                }
            };
            let known = run.insert(known);
            // An unstored sweep cannot be resumed.
            if is_kept && self.options.goes_on {
                site.lab.cluster.outlive_owner();
            }
            site.databases = make_databases(sweep, &mut site.lab, self.work).await?;
            note_making(&mut known.databases, &key, site);
            // Calibration excludes load generators on other hosts.
            if known.generator.is_empty() && sweep.generators.is_none() && !sweep.is_warmup && !sweep.is_idle() {
                if let Some(database) = site.databases.values().next() {
                    site.lab.use_database(&database.name, database.oid);
                }
                known.generator = calibrate_generator(&site.lab, sweep, self.work)?;
            }
            self.take_snapshots(&key, site, &mut snapshots).await?;
            site.rest()?;
            if sweep.fresh_copy {
                site.fresh = Some(FreshDatabase::keep(&site.lab, self.work)?);
            }
        }
        let Some(mut run) = run else { unreachable!("every axis has a value") };
        self.add_found(&mut run, sites, &snapshots)?;
        self.work.events.tell(Event::SweepStarted(Box::new(run.clone())));
        let scripts = &self.scripts;
        let setup = TrialSetup { run: &run, sweep, scripts, snapshots: &snapshots, work: self.work };
        let mut finished = SweepFinished { run: run.clone(), trials: 0, failed: 0, is_interrupted: false, kept: None };
        match self.run_trials(sites, &setup, &mut finished).await {
            Ok(()) => finished.run.ended_at = Some(Timestamp::now()),
            Err(Error::Interrupted) => finished.is_interrupted = true,
            Err(error) => return Err(error),
        }
        Ok(finished)
    }

    async fn run_trials(&self, sites: &mut Sites, setup: &TrialSetup<'_>, finished: &mut SweepFinished) -> Result<()> {
        let sweep = setup.sweep;
        let turns =
            plan_turns(sweep, self.seed, |point| sites.get(&SiteKey::of(point)).is_none_or(|site| site.can_run(point)));
        let is_done = |turn: &Turn| {
            let earlier = self.options.earlier.as_ref();
            earlier.is_some_and(|earlier| earlier.finished.contains(&(turn.point, turn.repeat)))
        };
        let all = turns.len() as u32;
        let left: Vec<Turn> = turns.into_iter().filter(|turn| !is_done(turn)).collect();
        let expected = |turn: &Turn| sweep.expected_seconds_of(&sweep.point(turn.point));
        let mut expected_left: f64 = left.iter().map(expected).sum::<f64>() + self.later_seconds;
        let mut time_left = TimeLeft::default();
        let mut last: Option<SiteKey> = None;
        for turn in &left {
            let (began, point) = (Instant::now(), sweep.point(turn.point));
            self.work.events.tell(Event::SweepTrialStarted(SweepTrialStarted {
                label: point.render(&sweep.varied()),
                repeat: turn.repeat,
                repeats: sweep.repeats,
                position: turn.position,
                trials: all,
                seconds: point.seconds,
                until: sweep.until,
                left_seconds: time_left.left(expected_left).as_secs_f64(),
            }));
            let key = SiteKey::of(&point);
            let other = last.replace(key.clone()).filter(|last| *last != key);
            other.and_then(|other| sites.get_mut(&other)).map_or(Ok(()), Site::rest)?;
            let Some(site) = sites.get_mut(&key) else { unreachable!("every point has a site") };
            let mut trial = setup.run(site, turn).await?;
            finished.trials += 1;
            finished.failed += u32::from(trial.failure.is_some());
            site.note_running(&point, trial.failure.is_some());
            trial.hide_secrets();
            self.work.events.tell(Event::SweepTrialEnded(Box::new(trial)));
            expected_left -= expected(turn);
            time_left.learn(expected(turn), began.elapsed());
        }
        Ok(())
    }

    fn add_found(&self, run: &mut SweepRun, sites: &Sites, snapshots: &Snapshots) -> Result<()> {
        let sweep = &self.options.asked.sweep;
        if sweep.is_warmup && run.warmup.is_none() {
            run.warmup = self.describe_warmup(run, sites, snapshots)?;
        }
        let disks = sites.iter().flat_map(|(key, site)| site.disks.iter().map(move |(disk, found)| (key, disk, found)));
        let disks = disks.map(|(key, disk, found)| (key.name_disk(disk, sweep), found.clone())).collect();
        let builds = sites.iter().map(|(key, site)| (key.server.clone(), site.build.clone())).collect();
        let mut found = compute_start_verdicts(sweep, &disks, &builds, pages_out_idle());
        let left_out: BTreeMap<&str, &String> =
            sites.values().flat_map(|site| &site.left_out).map(|(name, how)| (*name, how)).collect();
        found.extend(left_out.into_iter().map(|(strategy, how)| {
            MeasurementVerdict::from(Finding::StrategyLeftOut { strategy: strategy.to_owned(), how: how.clone() })
        }));
        run.verdicts.retain(|verdict| !matches!(verdict.finding, Finding::StrategyLeftOut { .. }));
        add_verdicts(&mut run.verdicts, found);
        run.warnings = texts_of(&run.verdicts);
        Ok(())
    }

    fn describe_warmup(&self, run: &SweepRun, sites: &Sites, snapshots: &Snapshots) -> Result<Option<WarmupFacts>> {
        let (sweep, point) = (&self.options.asked.sweep, self.options.asked.sweep.point(0));
        let key = SiteKey::of(&point);
        let (Some(warm), Some(site)) = (snapshots.get(&warm_key(sweep, &point)), sites.get(&key)) else {
            return Ok(None);
        };
        let disk = site.disks.get(&point.disk).cloned().unwrap_or_else(|| sweep.disk(&point));
        let device = self.options.asked.device.as_ref().filter(|_| disk.not_enforced.is_none());
        let read_ahead = disk.read_ahead_in_force(run.machine.device.read_ahead_bytes);
        let forecast = device.map(|device| forecast_nothing(sweep, warm, device, read_ahead)).transpose()?.flatten();
        Ok(Some(WarmupFacts {
            disk,
            database_bytes: warm.database_bytes,
            wanted_bytes: warm.wanted,
            calibration_tps: warm.calibration.tps,
            forecast,
        }))
    }

    async fn take_snapshots(&self, on: &SiteKey, site: &mut Site, snapshots: &mut Snapshots) -> Result<()> {
        let sweep = &self.options.asked.sweep;
        let mut strategies = sweep.strategies();
        strategies.retain(|strategy| !site.left_out.contains_key(strategy.name()));
        if strategies == [Strategy::Nothing] && !sweep.is_warmup {
            return Ok(());
        }
        let starter = Starter { sweep, warm: None, work: self.work };
        let disks = site.disks.iter().filter(|(name, _)| sweep.axes.disk.contains(*name));
        let disks: Vec<Disk> = disks.map(|(_, disk)| disk.clone()).collect();
        // A database has one warm state, or one for each script.
        let scripts = if sweep.is_script_wanted { &sweep.axes.script[..] } else { &sweep.axes.script[..1] };
        for (key, database) in &site.databases.clone() {
            site.lab.use_database(&database.name, database.oid);
            for script in scripts.iter().cloned() {
                let point = Point { script, database: key.name.clone(), scale: key.scale, ..sweep.point(0) };
                self.work.stop.check()?;
                let (.., script) = warm_key(sweep, &point);
                let of = script.as_ref().map_or_else(String::new, |script| format!(", {script}"));
                self.work.step(format!("warming the server and taking its snapshots: {}{of}", key.render()));
                let load = self.scripts.of(&sweep.load(&point));
                let mut taken = starter.take_snapshot(&mut site.lab, key, &load, &strategies).await?;
                if sweep.axes.strategies().any(Strategy::reads_film) {
                    self.work.step(format!("recording the job from a cold start: {}", key.render()));
                    starter.record_films(site, &mut taken, &disks)?;
                }
                self.work.events.tell(Event::Calibrated(Box::new(taken.calibration.clone())));
                snapshots.insert((on.clone(), key.clone(), script), taken);
            }
        }
        Ok(())
    }

    async fn describe(&self, site: &Site) -> Result<SweepRun> {
        let (sweep, directory) = (&self.options.asked.sweep, self.options.asked.place.directory());
        let (server, mut connection) = connect(&site.lab).await?;
        let pgbench = Pgbench::find(&site.lab.programs, site.lab.workload_options())?;
        let mut run = SweepRun {
            id: self.options.id.clone(),
            started_at: self.started_at,
            pgthaw_version: env!("CARGO_PKG_VERSION").to_owned(),
            pgbench_version: read_pgbench_version(&pgbench.program)?,
            machine: describe_machine(directory)?,
            server: server.facts,
            configuration: read_configuration(&mut connection).await?,
            question: sweep.question.clone(),
            digest: sweep.digest(),
            study: serde_json::to_value(sweep).unwrap_or_else(|_| unreachable!("maps of text become JSON")),
            varied: sweep.varied(),
            points: sweep.points(),
            repeats: sweep.repeats,
            seed: self.seed,
            ..SweepRun::default()
        };
        run.hide_secrets();
        Ok(run)
    }
}

fn note_making(known: &mut Vec<DatabaseMaking>, site: &SiteKey, made: &Site) {
    for (key, database) in &made.databases {
        let Some((seconds, steps)) = database.making.clone() else { continue };
        let making = DatabaseMaking {
            database: key.name.clone(),
            scale: key.scale,
            file_system: site.file_system.clone(),
            server: site.server.clone(),
            seconds,
            steps,
        };
        let name =
            |one: &DatabaseMaking| (one.database.clone(), one.scale, one.file_system.clone(), one.server.clone());
        // A resumed study may have recreated this database.
        known.retain(|one| name(one) != name(&making));
        known.push(making);
    }
}

fn is_left_out(run: &SweepRun, point: &Point) -> bool {
    let is_it =
        |left: &Finding| matches!(left, Finding::StrategyLeftOut { strategy, .. } if *strategy == point.strategy);
    run.verdicts.iter().any(|verdict| is_it(&verdict.finding))
}

impl Earlier {
    /// Rejects another server or disk than that of the earlier trials. A borrowed cluster is identified by its
    /// directory.
    pub fn check_ground(&self, programs: &Programs, place: &Place) -> Result<()> {
        let parent = place.directory();
        let disk = read_block_device(parent).map_or_else(|_| NO_DISK.to_owned(), |device| device.name);
        let file_system = read_file_system(parent);
        let (machine, server) = (&self.run.machine, &self.run.server);
        let (cluster, was) = match place {
            Place::Scratch { .. } => (None, None),
            Place::Borrowed { data_directory } => {
                (Some(data_directory.path.as_path()), server.data_directory.as_deref())
            }
        };
        let now = render_ground(&programs.version()?.text, &disk, &file_system, cluster);
        let began = render_ground(&server.version, &machine.device.name, &machine.file_system, was);
        if now == began { Ok(()) } else { Err(Error::OtherGround { id: self.run.id.clone(), began, now }) }
    }
}

fn render_ground(version: &str, disk: &str, file_system: &str, cluster: Option<&Path>) -> String {
    let disk = if disk == NO_DISK { "no disk" } else { disk };
    let cluster = cluster.map(|directory| format!(" in {}", directory.display())).unwrap_or_default();
    format!("PostgreSQL {version} on {disk} ({file_system}){cluster}")
}

pub fn add_verdicts(verdicts: &mut Vec<MeasurementVerdict>, found: Vec<MeasurementVerdict>) {
    for verdict in found {
        if !verdicts.contains(&verdict) {
            verdicts.push(verdict);
        }
    }
}

/// The cheapest statement, because pgbench rejects an empty script.
const EMPTY_STATEMENT: &str = "SELECT;\n";

pub fn calibrate_generator(lab: &Lab, sweep: &Sweep, work: Work<'_>) -> Result<Vec<GeneratorCalibration>> {
    let clients = sweep.axes.clients.iter().copied().max().unwrap_or(1);
    let threads: BTreeSet<u32> = sweep.axes.jobs.iter().map(|jobs| (*jobs).min(clients)).collect();
    let modes = &sweep.axes.query_mode;
    let of = |jobs| Load::new(clients, jobs, CALIBRATION_SECONDS);
    let each =
        threads.into_iter().flat_map(|jobs| modes.iter().map(move |mode| Load { query_mode: *mode, ..of(jobs) }));
    each.map(|load| calibrate(lab, load, work)).collect()
}

fn calibrate(lab: &Lab, load: Load, work: Work<'_>) -> Result<GeneratorCalibration> {
    let Load { clients, jobs, query_mode, .. } = load;
    work.step(format!("calibrating pgbench with an empty statement ({query_mode}), clients: {clients}, jobs: {jobs}"));
    let directory = work.make_temporary()?;
    let script = directory.path().join("empty.sql");
    std::fs::write(&script, EMPTY_STATEMENT).map_err(|source| Error::file("write", &script, source))?;
    let load = Load { scripts: vec![(Script::File(script), 1)], ..load };
    let mut pgbench = LocalPgbench::ready(lab, &load, directory.path())?;
    let goal = WarmGoal { wanted_bytes: Bytes(0), block_size: Bytes(1), warm_tps: None, is_uniform: false };
    let entrants = Entrants {
        relations: Vec::new(),
        looker: None,
        generator: &mut pgbench,
        strategy: Strategy::Nothing,
        launch: None,
        load_begins: LoadBegins::AtOnce,
        seconds: CALIBRATION_SECONDS,
        ends_by_itself: false,
        devices: Devices::default(),
        watched: Watched { goal, facts: Facts::default(), stops_when_steady: false },
        cadence: Cadence::Sparing,
        observer_pid: None,
        time: None,
    };
    let measured = run_race(lab, entrants, None, Work { directory: directory.path(), ..work })?;
    let (cpu_ratio, run_delay_ratio) = busiest_thread(&measured.os_samples);
    let tps = parse_report(&pgbench.read_report()).outcome.map_or(0.0, |outcome| outcome.tps);
    Ok(GeneratorCalibration { clients, jobs, query_mode, tps, cpu_ratio, run_delay_ratio })
}

const TABLE: &str = "public.pgbench_accounts";
const INDEX: &str = "public.pgbench_accounts_pkey";

/// Share of leaf blocks in an index. The other blocks, about one in 256, are cached early.
const LEAF_SHARE: f64 = 1.0 - 1.0 / 256.0;

/// Catalog blocks that pgbench's clients read before a built-in script.
const PGBENCH_READS: f64 = 90.0;

/// Private memory of the server and of a backend. Backends were observed to use 1.5 to 3 MB.
const SERVER_BYTES: f64 = 12e6;
const BACKEND_BYTES: f64 = 2.5e6;

pub fn describe_cold_start(
    sweep: &Sweep,
    calibration: &Calibration,
    device: &Device,
    read_ahead: Bytes,
    classes: Vec<PageClass>,
) -> Result<Scenario, model::Error> {
    let warm_tps = calibration.tps.ok_or(model::Error::IdleServer)?;
    let clients = sweep.point(0).clients;
    let block_bytes = f64::from(calibration.facts.block_size);
    let buffers = calibration.facts.shared_buffers_bytes.0 as f64;
    let private = SERVER_BYTES + BACKEND_BYTES * f64::from(clients);
    let room = sweep.memory.map_or(f64::INFINITY, |memory| memory.0 as f64 - buffers - private);
    let cores = count_cores();
    let workload = Workload {
        clients,
        classes,
        hit_seconds: compute_hit_seconds(warm_tps, clients.into(), cores),
        read_seconds: READ_CPU_SECONDS,
        read_ahead_pages: read_ahead.0 as f64 / block_bytes,
        startup_reads: STARTUP_READS + if has_builtin_script(sweep) { PGBENCH_READS } else { 0.0 },
    };
    // Without free memory, the server has room for one page at a time.
    let (buffers_pages, os_pages) = (buffers / block_bytes, (room / block_bytes).max(1.0));
    let server = Server { device: device.clone(), cores, buffers_pages, os_pages, block_bytes };
    Ok(Scenario::cold_restart(workload, server))
}

fn has_builtin_script(sweep: &Sweep) -> bool {
    sweep.scripts.values().flatten().all(|(script, _)| matches!(script, Script::Builtin(_)))
}

/// Forecasts a cold start without a warmer. `None` for the user's own scripts.
fn forecast_nothing(
    sweep: &Sweep,
    warm: &WarmSnapshot,
    device: &Device,
    read_ahead: Bytes,
) -> Result<Option<StudyForecast>, model::Error> {
    let calibration = &warm.calibration;
    let classes = make_pgbench_classes(&warm.relations, Bytes(calibration.facts.block_size.into()));
    let classes = classes.filter(|_| has_builtin_script(sweep) && calibration.tps.is_some());
    let cold = classes.map(|classes| describe_cold_start(sweep, calibration, device, read_ahead, classes));
    cold.transpose()?.map(|cold| compute_study_forecast(&cold)).transpose()
}

fn compute_study_forecast(scenario: &Scenario) -> Result<StudyForecast, model::Error> {
    let Outlook { cold_tps, steady_tps, to_50_seconds, warm_after_seconds, .. } = compute_outlook(scenario)?;
    Ok(StudyForecast { cold_tps, steady_tps, to_50_seconds, warm_after_seconds })
}

/// Assumes that each row is read with the same probability, through the index. `None` without pgbench's tables.
fn make_pgbench_classes(relations: &[(String, Bytes)], block_size: Bytes) -> Option<Vec<PageClass>> {
    let pages = |name: &str| {
        let found = relations.iter().find(|(relation, _)| relation == name);
        found.map(|(_, bytes)| bytes.0 as f64 / block_size.0.max(1) as f64)
    };
    Some(vec![uniform_class(TABLE, pages(TABLE)?), uniform_class(INDEX, pages(INDEX)? * LEAF_SHARE)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::Finding;

    #[test]
    fn what_is_found_anew_is_told_and_the_rest_is_told_once() {
        let not_in_force = || {
            let what = "the limit of the disk gp3".to_owned();
            MeasurementVerdict::from(Finding::NotInForce { what, reason: "it needs root".into() })
        };
        let mut verdicts = vec![MeasurementVerdict::from(Finding::OneRepeat)];
        add_verdicts(&mut verdicts, vec![Finding::OneRepeat.into(), not_in_force()]);
        assert_eq!(verdicts, [Finding::OneRepeat.into(), not_in_force()]);
    }
}

#[cfg(test)]
mod forecast_tests {
    use super::*;
    use host::linux::block_device::DEFAULT_READ_AHEAD;

    const BLOCK: Bytes = Bytes(8192);

    #[test]
    fn a_cold_start_takes_as_long_as_was_measured() {
        // At scale 100, half of the throughput was measured after 53 s.
        let relations = [(TABLE.to_owned(), Bytes(163_935 * 8192)), (INDEX.to_owned(), Bytes(27_422 * 8192))];
        let workload = Workload {
            clients: 8,
            classes: make_pgbench_classes(&relations, BLOCK).unwrap(),
            hit_seconds: compute_hit_seconds(65_000.0, 8.0, 2.0),
            read_seconds: READ_CPU_SECONDS,
            read_ahead_pages: DEFAULT_READ_AHEAD.0 as f64 / 8192.0,
            startup_reads: STARTUP_READS + PGBENCH_READS,
        };
        let server = Server {
            device: Device::with_limits(3000.0, 131_072_000.0, 0.5e-3),
            cores: 2.0,
            buffers_pages: 32_768.0,
            os_pages: f64::INFINITY,
            block_bytes: 8192.0,
        };
        let forecast = compute_study_forecast(&Scenario::cold_restart(workload, server)).unwrap();
        let (half, warm) = (forecast.to_50_seconds.unwrap(), forecast.warm_after_seconds.unwrap());
        assert!((half.seconds / 53.0 - 1.0).abs() < 0.1 && warm.seconds > half.seconds, "{forecast:?}");
        assert!((forecast.steady_tps / 65_000.0 - 1.0).abs() < 0.01, "{forecast:?}");
    }

    #[test]
    fn other_tables_have_no_forecast() {
        assert_eq!(make_pgbench_classes(&[("public.mine".to_owned(), BLOCK)], BLOCK), None);
    }
}
