use std::path::Path;

use jiff::Timestamp;
use tokio::runtime::Handle;

use super::race::{Entrants, Watched, run_race};
use super::residency::{describe_residency, read_strips};
use super::resident::{Looker, compute_bound};
use super::start::{Snapshots, Started, Starter, WarmSnapshot, warm_key};
use super::warmer::plan_launch;
use crate::lab::{
    CONTROL_DATABASE, GroundFacts, Lab, LoadFigures, Look, ScriptCopies, Site, SiteKey, Work, connect, read_final_look,
    read_look, read_tables, read_unchanged, ready_load,
};
use crate::study::{
    Brought, DatabaseKey, Disk, Error, Exceeded, Job, Measured, Point, RelationResidency, ResidencyStrip, Result,
    Sample, StartAsked, Strategy, Sweep, SweepRun, SweepTrial, Turn, Until, Warming, WarmingFigures,
    compute_bound_seconds, compute_samples, compute_worst_second, empty_trial, parse_checkpoints, tells_of_trial,
    texts_of,
};
use crate::verdict::{Circumstances, WarmGoal, compute_cycles, compute_trial_verdicts, compute_warming, judge_samples};
use host::failure::Explain as _;
use host::linux::read_ahead::ReadAhead;
use host::units::Bytes;
use model::Judgement;
use observe::time::{ACCOUNT_DEAR, TimeSampler, TimedServer, WaitNames};
use observe::{Cadence, WaitSample, WaitSampler, Waits, open_time_source};
use postgres::pgbench::Length;
use postgres::{Server, ServerStatistics, apply_no_session_limits, read_backend_pid};

/// Time limit in seconds of a trial that runs a fixed number of transactions.
const PATIENCE_SECONDS: u32 = 24 * 3600;

#[derive(Debug)]
pub struct TrialSetup<'a> {
    pub run: &'a SweepRun,
    pub sweep: &'a Sweep,
    pub scripts: &'a ScriptCopies,
    pub snapshots: &'a Snapshots,
    pub work: Work<'a>,
}

pub struct Measurement {
    started: Started,
    command: String,
    file_systems: GroundFacts,
    measured: Measured,
    figures: LoadFigures,
    waits: Vec<WaitSample>,
    before: Look,
    after: Look,
    tables: ServerStatistics,
    log: String,
    /// Residency after the trial, in the order of `started.strips`.
    strips: Vec<ResidencyStrip>,
}

impl TrialSetup<'_> {
    /// Failures of pgbench or the server belong to the trial; any other failure ends the sweep.
    pub async fn run(&self, site: &mut Site, turn: &Turn) -> Result<SweepTrial> {
        let point = self.sweep.point(turn.point);
        let started_at = Timestamp::now();
        let mut trial = empty_trial(&self.run.id, &point, turn, started_at);
        match self.measure(site, &point).await {
            Ok(measurement) => self.conclude(&mut trial, measurement, site),
            Err(error) if is_of_trial(&error) => trial.failure = Some(error.to_string()),
            Err(error) => return Err(error),
        }
        trial.ended_at = Some(Timestamp::now());
        Ok(trial)
    }

    async fn measure(&self, site: &mut Site, point: &Point) -> Result<Measurement> {
        if let Some(database) = site.databases.get(&DatabaseKey::of(point)) {
            site.lab.use_database(&database.name, database.oid);
        }
        let (asked, disk) = (self.sweep.load(point), self.disk(site, point));
        let load = self.scripts.of(&asked);
        let warm = self.warm(point);
        let starter = Starter { sweep: self.sweep, warm, work: self.work };
        let (mut started, (read_aheads, limit)) = starter.make(site, point, &load, &disk).await?;
        let mut file_systems = site.read_file_systems()?;
        started.findings.append(&mut file_systems.deviations);
        let (site, lab, strategy) = (&*site, &site.lab, point.strategy());
        let before = read_look(lab).await?;
        self.place_job(point, &disk)?;
        let directory = self.work.make_temporary()?;
        let work = Work { directory: directory.path(), ..self.work };
        let mut running_load = ready_load(self.sweep, lab, &load, work).await?;
        let command = running_load.command(lab, &asked)?;
        let (server, mut observer) = connect(lab).await?;
        let observer_pid = read_backend_pid(&mut observer).await?;
        let names = WaitNames::of_server(server.facts.version_num, &mut observer).await;
        let time = self.open_time(lab, observer_pid, names)?;
        let looks = WaitSampler::start(observer);
        let launch = warm.map_or(Ok(None), |warm| plan_launch(strategy, lab, &warm.snapshots, &disk))?;
        let is_own_script = self.sweep.has_own_script(point);
        let goal = WarmGoal {
            wanted_bytes: warm.map_or(started.state.total_bytes, |warm| warm.wanted),
            block_size: site.block_size,
            warm_tps: warm.and_then(|warm| warm.calibration.tps),
            is_uniform: !is_own_script,
        };
        let stops_when_steady = self.sweep.until == Some(Until::Steady);
        let entrants = Entrants {
            generator: &mut *running_load,
            strategy,
            launch,
            load_begins: point.load_begins,
            seconds: point.seconds.unwrap_or(PATIENCE_SECONDS),
            ends_by_itself: matches!(load.length, Length::Transactions(_)),
            devices: site.devices.clone(),
            watched: Watched { goal, facts: point.facts(is_own_script), stops_when_steady },
            relations: started.strips.iter().map(|(one, _)| one.first_segment(&lab.data_directory())).collect(),
            looker: self.open_looker(lab, point).await?,
            // A cold server has spare processors, and its reads are the subject of the study.
            cadence: if point.start == StartAsked::Cold { Cadence::Close } else { Cadence::Sparing },
            observer_pid: Some(observer_pid),
            time,
        };
        let measured = run_race(lab, entrants, limit, work)?;
        let waits = looks.stop(measured.start_monotonic, measured.seconds.len() as u32).await;
        read_aheads.into_iter().try_for_each(ReadAhead::put_back)?;

        let figures = running_load.finish(&load)?;
        let strips = read_strips(lab, &started.strips).await?;
        let after = read_final_look(lab).await?;
        let log = lab.cluster.log_since(before.log_bytes, tells_of_trial)?;
        let tables = read_tables(lab).await?;
        Ok(Measurement { started, command, file_systems, measured, figures, waits, before, after, tables, log, strips })
    }

    /// Restores the job's films, so that trials start equal. Fails if the study's files changed.
    fn place_job(&self, point: &Point, disk: &Disk) -> Result<()> {
        let Some(warm) = self.warm(point).filter(|_| point.strategy().runs_job()) else { return Ok(()) };
        self.sweep.job.iter().try_for_each(|word| read_unchanged(self.sweep, Path::new(word)).map(drop))?;
        warm.snapshots.place_films(disk)
    }

    fn open_time(&self, lab: &Lab, observer_pid: u32, names: WaitNames) -> Result<Option<TimeSampler>> {
        if self.sweep.time == Some(false) {
            return Ok(None);
        }
        let (runtime, postmaster_pid) = (Handle::current(), lab.postmaster_pid());
        let options = lab.cluster.connect_options(CONTROL_DATABASE);
        // Polled only without a local source: queries would count for the trial.
        let connection = async move {
            let server = Server::connect(&options).await?;
            let mut connection = server.connect_to(&server.database).await?;
            apply_no_session_limits(&mut connection).await?;
            Ok(connection)
        };
        let open = move || runtime.block_on(open_time_source(None, Some(postmaster_pid), connection, None));
        let budget = self.sweep.time.is_none().then(|| ACCOUNT_DEAR * f64::from(self.run.machine.cores));
        let server = TimedServer { postmaster_pid, observer_pid: Some(observer_pid), names, budget };
        Ok(Some(TimeSampler::open(server, open)?))
    }

    async fn open_looker(&self, lab: &Lab, point: &Point) -> Result<Option<Looker>> {
        let Some(warm) = self.warm(point).filter(|_| self.sweep.is_idle()) else { return Ok(None) };
        let (_, connection) = connect(lab).await?;
        Looker::open(&warm.snapshots.wanted, &lab.page_cache, point.strategy(), connection).await.map(Some)
    }

    fn warm(&self, point: &Point) -> Option<&WarmSnapshot> {
        self.snapshots.get(&warm_key(self.sweep, point))
    }

    fn disk(&self, site: &Site, point: &Point) -> Disk {
        site.disks.get(&point.disk).cloned().unwrap_or_else(|| self.sweep.disk(point))
    }

    fn conclude(&self, trial: &mut SweepTrial, done: Measurement, site: &Site) {
        let Measurement { started, file_systems, measured, before, after, .. } = done;
        let LoadFigures { latencies, outcome, generators } = done.figures;
        let seconds = compute_samples(&measured.seconds, &latencies.intervals, measured.start_unix);
        let disk = self.disk(site, &trial.point);
        trial.samples = with_progress(seconds.clone(), &measured.progress, self.sweep.logged_share);
        trial.os_samples.clone_from(&measured.os_samples);
        trial.waits = Waits::total(&done.waits);
        trial.wait_samples = done.waits;
        trial.time.clone_from(&measured.time);
        trial.device_read_bytes = seconds.iter().map(|second| second.device_read_bytes).sum();
        trial.start_state = Some(started.state);
        trial.command = done.command;
        trial.generators = generators;
        trial.lasted_seconds = measured.ended_after.as_secs_f64();
        trial.latency = (!self.sweep.is_idle()).then(|| latencies.overall());
        trial.scripts = latencies.scripts();
        trial.devices = site.describe_devices(&trial.point, &file_systems, &trial.os_samples);
        trial.file_system = file_systems.own;
        trial.fresh_copy = started.fresh_copy;
        trial.server_version = Some(after.version);
        trial.statistics = after.statistics.since(&before.statistics).and(done.tables.since(&started.tables));
        trial.buffers_before = before.buffers;
        trial.buffers_after = after.buffers;
        (trial.checkpoints, trial.checkpoint_begun) = parse_checkpoints(&done.log, measured.start_unix);
        trial.settings = after.settings;
        (trial.transactions, trial.failed, trial.skipped) = (outcome.transactions, outcome.failed, outcome.skipped);
        (trial.retried, trial.retries) = (outcome.retried, outcome.retries);
        trial.late = outcome.late;
        trial.tps = outcome.tps;
        trial.worst_second_tps = compute_worst_second(&trial.samples, trial.tps);
        let job = note_job(trial, &measured);
        (trial.checkpoint_cycles, trial.cycle_tps) = compute_cycles(trial);
        let has_strategy = trial.point.strategy() != Strategy::Nothing;
        trial.strategy_outcome = has_strategy.then(|| measured.outcome.told.clone());
        let facts = trial.point.facts(self.sweep.has_own_script(&trial.point));
        let judgement = judge_samples(&trial.samples, Some(site.block_size), facts).map_err(|error| error.to_string());
        if trial.point.start == StartAsked::Cold {
            let residency = describe_residency(started.strips, done.strips, &measured.relations);
            let mut warming = self.describe_warming(trial, &measured, site, residency, judgement.clone());
            warming.figures.job = job;
            trial.warming = Some(warming);
        }
        let load = self.scripts.of(&self.sweep.load(&trial.point));
        let (threads, query_mode) = (trial.point.jobs.min(trial.point.clients), trial.point.query_mode);
        let circumstances = Circumstances {
            start: started.findings,
            disk: &disk,
            parts: site.limits(&disk),
            may_end_early: self.sweep.until.is_some(),
            disk_name: SiteKey::of(&trial.point).name_disk(&trial.point.disk, self.sweep),
            seconds: &seconds,
            measured: &measured,
            judgement: judgement.ok(),
            may_pause: load.scripts.iter().any(|(script, _)| script.may_pause()),
            calibration: self.run.generator.iter().find(|one| one.jobs == threads && one.query_mode == query_mode),
            exceeded: self.exceeded(&trial.point, after.shared_buffers),
            log: &done.log,
            tables_before: &started.tables,
            tables_after: &done.tables,
            processors: self.run.machine.cores,
            memory: self.memory(&trial.point),
        };
        trial.verdicts = compute_trial_verdicts(trial, circumstances);
        trial.warnings = texts_of(&trial.verdicts);
    }

    fn describe_warming(
        &self,
        trial: &SweepTrial,
        measured: &Measured,
        site: &Site,
        residency: Vec<RelationResidency>,
        judgement: Result<Judgement, String>,
    ) -> Warming {
        let warm = self.warm(&trial.point);
        let wanted_bytes = warm.map(|warm| warm.wanted);
        let disk = self.disk(site, &trial.point);
        // Several devices may read at once, so the limit of one is no bound.
        let disk = if site.part_disks().is_empty() { disk } else { Disk { riops: None, rbps: None, ..disk } };
        if let Some((warm, seen)) = warm.zip(measured.seen.as_ref()) {
            let (wanted, own) = (&warm.snapshots.wanted, measured.outcome.own);
            let bound = compute_bound(wanted, &disk);
            let blocks = |blocks: u64| Bytes(blocks * wanted.block_bytes);
            let brought = Brought {
                wanted_pages: wanted.pages(),
                wanted_pieces: wanted.pieces(),
                former_buffers_bytes: blocks(wanted.former.blocks),
                former_hot_bytes: blocks(wanted.former.hot_blocks),
                bound,
                cpu_seconds: measured.outcome.cpu.map(|cpu| cpu.as_secs_f64()),
                device_reads: Some(measured.seconds.iter().map(|second| second.counters.device_reads).sum()),
                own_bytes: own.map(|(bytes, _)| bytes),
                own_seconds: own.map(|(_, seconds)| seconds),
                resident_after_seconds: seen.brought.resident_after_seconds,
                buffers_after_seconds: seen.brought.buffers_after_seconds,
                resident_bytes: seen.brought.resident_bytes,
            };
            let bound_seconds = bound.map(|bound| bound.seconds);
            let figures = WarmingFigures {
                measured_seconds: trial.point.seconds.unwrap_or_default(),
                wanted_bytes: Some(wanted.bytes()),
                bound_seconds: bound_seconds.or_else(|| compute_bound_seconds(&disk, wanted.bytes())),
                brought: Some(brought),
                ..WarmingFigures::default()
            };
            return Warming { figures, residency, looks: seen.looks.clone(), ..Warming::default() };
        }
        let needed_bytes = wanted_bytes.filter(|_| self.sweep.needs_all_cached(&trial.point));
        let tenths = measured.foreground_tenths.clone();
        let mut warming = compute_warming(&trial.samples, tenths, site.block_size, judgement);
        warming.residency = residency;
        warming.figures.wanted_bytes = wanted_bytes;
        warming.figures.bound_seconds = needed_bytes.and_then(|needed| compute_bound_seconds(&disk, needed));
        warming
    }

    fn memory(&self, point: &Point) -> Bytes {
        point.memory.map_or(self.run.machine.memory_bytes, |limit| limit.min(self.run.machine.memory_bytes))
    }

    fn exceeded(&self, point: &Point, shared_buffers: Bytes) -> Vec<(Exceeded, Bytes)> {
        let meant = self.sweep.exceeds.iter().filter(|(_, from)| point.scale >= **from);
        let size = |cache: Exceeded| match cache {
            Exceeded::SharedBuffers => shared_buffers,
            Exceeded::Memory => self.memory(point),
        };
        meant.map(|(cache, _)| (*cache, size(*cache))).collect()
    }
}

/// A very short trial has no meaningful worst second.
fn note_job(trial: &mut SweepTrial, measured: &Measured) -> Option<Job> {
    trial.point.transactions_of_client()?;
    let job = Job {
        transactions: trial.transactions,
        warmer_seconds: measured.outcome.told.ended_after_seconds,
        load_seconds: measured.ended_after.saturating_sub(measured.load_began_after).as_secs_f64(),
        whole_seconds: measured.ended_after.as_secs_f64(),
    };
    if job.is_without_curve() {
        trial.worst_second_tps = None;
        trial.device_read_bytes = measured.others.as_ref().map_or(trial.device_read_bytes, |all| all.device_read_bytes);
    }
    Some(job)
}

/// True if later trials are unaffected: a study's settings may block pgthaw's own sessions.
fn is_of_trial(error: &Error) -> bool {
    use postgres::Error::{Connect, ConnectTimeout, Program, Query};
    error.full_disk().is_none()
        && matches!(
            error,
            Error::Program { .. }
                | Error::Generator { .. }
                | Error::Setting(_)
                | Error::Postgres(Program { .. } | Query { .. } | Connect { .. } | ConnectTimeout { .. })
        )
}

/// If pgbench logged only a share of the transactions, uses its progress instead.
fn with_progress(mut seconds: Vec<Sample>, progress: &[f64], logged_share: f64) -> Vec<Sample> {
    if logged_share < 1.0 {
        for (second, told) in seconds.iter_mut().zip(progress.iter().chain(std::iter::repeat(&0.0))) {
            second.transactions = told.round() as u64;
        }
    }
    seconds
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::record::tests::sample;

    #[test]
    fn what_a_server_refuses_belongs_to_the_trial_and_what_the_machine_does_to_the_sweep() {
        let refused = || sqlx::Error::Protocol("canceling statement due to statement timeout".into());
        let query = postgres::Error::Query { action: "vacuum", source: refused() };
        let connect = postgres::Error::Connect { address: "/tmp:5432".into(), source: refused() };
        let timeout = postgres::Error::ConnectTimeout { address: "/tmp:5432".into(), seconds: 10 };
        for error in [query, connect, timeout] {
            assert!(is_of_trial(&Error::Postgres(error)));
        }
        let full = Error::file("write", Path::new("/x"), std::io::ErrorKind::StorageFull.into());
        let said = Error::Program { program: "pgbench", output: "ERROR:  x: No space left on device".into() };
        assert!(!is_of_trial(&full) && !is_of_trial(&said) && !is_of_trial(&Error::Interrupted));
    }

    #[test]
    fn of_a_sampled_log_the_progress_counts() {
        let seconds = [sample(1, 3, 0), sample(2, 4, 0)];
        let kept = with_progress(seconds.to_vec(), &[30.4], 0.1);
        assert_eq!(kept.iter().map(|one| one.transactions).collect::<Vec<_>>(), [30, 0]);
        let kept = with_progress(seconds.to_vec(), &[30.4], 1.0);
        assert_eq!(kept.iter().map(|one| one.transactions).collect::<Vec<_>>(), [3, 4]);
    }
}
