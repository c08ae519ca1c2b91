//! Before the first trial: a cluster with the benchmark's tables, warmed by its own workload, and the snapshots that
//! the strategies need of that state.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use sqlx::postgres::PgConnection;

use super::options::Options;
use super::residency::{StripRelation, choose_strips};
use super::warmer::WarmSnapshots;
use crate::lab::{Error, Lab, Launch, Place, Stop, drop_benchmark, find_obstacle, run_pgbench, run_statement};
use crate::model::compute_median;
use crate::pgbench::{Said, parse_said};
use crate::postgres::pgbench::{Pgbench, Workload, read_intervals};
use crate::postgres::{
    PG_BUFFERCACHE, PG_PREWARM, Server, ServerFacts, apply_create_extension, read_activity, read_databases,
    read_installable_extensions, read_preloaded, read_settings,
};
use crate::study::{Calibration, DATABASE, Event, Events, STRATEGY_ROLE, Strategy, WORKLOAD_ROLE, size};
use crate::units::Bytes;

/// Shared buffers of a scratch cluster, unless the user says otherwise: so much of the database, within these limits.
const SHARED_BUFFERS_SHARE: u64 = 4;
const SHARED_BUFFERS_MIN: Bytes = Bytes(16 << 20);
const SHARED_BUFFERS_MAX: Bytes = Bytes(256 << 20);

/// Seconds that the workload runs on the warm server, to make its usage counts and to see its pace; no longer than a
/// trial.
pub const CALIBRATION_SECONDS: u32 = 5;

/// Seconds that it runs before every further trial.
const HISTORY_SECONDS: u32 = 3;

/// Everything that the trials need.
#[derive(Debug)]
pub struct Prepared {
    pub facts: ServerFacts,
    pub settings: Vec<(String, String)>,
    /// Those that can run here, in the order asked for; and the others with how to get them.
    pub strategies: Vec<Strategy>,
    pub skipped: Vec<(String, String)>,
    pub snapshots: WarmSnapshots,
    pub strips: Vec<StripRelation>,
    pub database_bytes: Bytes,
    pub wanted_bytes: Bytes,
    pub calibration: Calibration,
}

/// Prepares the cluster for one act; the server is running afterwards. The tables that an earlier act made are used
/// again. `directory` is the act's own, for logs and snapshots.
pub async fn prepare(
    options: &Options,
    lab: &mut Lab,
    directory: &Path,
    events: &Events,
    stop: &Stop,
) -> Result<Prepared, Error> {
    let preparation = Preparation { options, directory, events, stop };
    if lab.has_database() {
        preparation.forget_earlier(lab)?;
    }
    lab.start(None)?;
    stop.check()?;
    let (strategies, skipped) = preparation.prepare_database(lab).await?;
    preparation.restart(lab, &strategies)?;
    let calibration = preparation.warm(lab).await?;
    preparation.step("taking the snapshots of the warm state");
    let server = Server::connect(&lab.connect_options(DATABASE)).await?;
    let snapshots = WarmSnapshots::take(&strategies, lab, &server, directory).await?;
    let mut connection = server.connect_to(DATABASE).await?;
    run_statement(&mut connection, "write a checkpoint", "CHECKPOINT").await?;
    let (wanted_bytes, database_bytes) = lab.read_resident()?;
    Ok(Prepared {
        strips: choose_strips(lab).await?,
        settings: read_settings(&mut connection).await?,
        facts: server.facts.clone(),
        strategies,
        skipped,
        snapshots,
        database_bytes,
        wanted_bytes,
        calibration,
    })
}

/// The steps to a cluster with the benchmark's tables.
#[derive(Clone, Copy, Debug)]
pub struct Preparation<'a> {
    pub options: &'a Options,
    pub directory: &'a Path,
    pub events: &'a Events,
    pub stop: &'a Stop,
}

impl Preparation<'_> {
    /// Tells that a step begins.
    pub fn step(&self, what: impl Into<String>) {
        self.events.tell(Event::Step(what.into()));
    }

    /// What the trials of an earlier act left in memory would pass for the heat of this act's workload.
    fn forget_earlier(&self, lab: &mut Lab) -> Result<(), Error> {
        lab.stop()?;
        lab.apply_evict().map(drop)
    }

    /// The database with its tables, unless it is there. Says which strategies can run, and why the others cannot.
    pub async fn prepare_database(&self, lab: &mut Lab) -> Result<(Vec<Strategy>, Vec<(String, String)>), Error> {
        let server = Server::connect(&lab.connect_options("postgres")).await?;
        let mut connection = server.connect_to("postgres").await?;
        let extensions = read_installable_extensions(&mut connection).await?;
        let version_major = server.facts.version_num / 10_000;
        let obstacle = |strategy: Strategy| find_obstacle(strategy, &lab.programs, version_major, &extensions);
        let asked = &self.options.strategies;
        let skipped: BTreeMap<&str, String> =
            asked.iter().filter_map(|one| Some((one.name(), obstacle(*one)?))).collect();
        let strategies: Vec<Strategy> = asked.iter().copied().filter(|one| !skipped.contains_key(one.name())).collect();
        let skipped: Vec<(String, String)> =
            skipped.into_iter().map(|(name, remedy)| (name.to_owned(), remedy)).collect();
        if strategies.is_empty() {
            let reasons: Vec<&str> = skipped.iter().map(|(_, remedy)| remedy.as_str()).collect();
            return Err(Error::NoStrategy(reasons.join("; ")));
        }
        if !lab.has_database() {
            self.make_database(lab, &server, &mut connection, &extensions).await?;
            self.initialize(lab)?;
        }
        Ok((strategies, skipped))
    }

    /// Roles, database and extensions.
    async fn make_database(
        &self,
        lab: &mut Lab,
        server: &Server,
        connection: &mut PgConnection,
        extensions: &BTreeSet<String>,
    ) -> Result<(), Error> {
        if lab.is_borrowed() {
            lab.set_preloaded(read_preloaded(connection).await?);
            drop_benchmark(connection).await?;
        }
        for statement in [
            format!("CREATE ROLE {WORKLOAD_ROLE} LOGIN"),
            format!("CREATE ROLE {STRATEGY_ROLE} LOGIN SUPERUSER"),
            format!("CREATE DATABASE {DATABASE} OWNER {WORKLOAD_ROLE}"),
        ] {
            run_statement(connection, "make the benchmark's database", &statement).await?;
        }
        let databases = read_databases(connection).await?;
        if let Some(made) = databases.iter().find(|database| database.name == DATABASE) {
            lab.set_database_oid(made.oid);
        }
        let mut connection = server.connect_to(DATABASE).await?;
        for name in [PG_PREWARM, PG_BUFFERCACHE, "pgfincore"].into_iter().filter(|name| extensions.contains(*name)) {
            apply_create_extension(&mut connection, name).await?;
        }
        Ok(())
    }

    /// Makes pgbench's tables.
    fn initialize(&self, lab: &Lab) -> Result<(), Error> {
        let scale = self.options.scale;
        self.step(format!("making pgbench's tables, scale {scale} ({})", size::expected_bytes(scale)));
        let pgbench = Pgbench::find(&lab.programs, lab.workload_options())?;
        self.run_pgbench(Launch::new(pgbench.program(), pgbench.initialize_arguments(scale)), "initialize")
    }

    /// Restarts the server as the trials will find it; with autoprewarm when its snapshot has to be taken.
    pub fn restart(&self, lab: &mut Lab, strategies: &[Strategy]) -> Result<(), Error> {
        self.stop.check()?;
        lab.stop()?;
        lab.configure_autoprewarm(strategies.contains(&Strategy::Autoprewarm))?;
        lab.start(None)
    }

    /// Reads everything, then lets the workload make its own usage counts, and watches what it asks for.
    pub async fn warm(&self, lab: &Lab) -> Result<Calibration, Error> {
        self.step("warming: reading everything");
        lab.apply_read_all(|| !self.stop.is_requested())?;
        let seconds = CALIBRATION_SECONDS.min(self.options.workload.seconds);
        self.step(format!("warming: {seconds} s of the workload"));
        let logs = self.directory.join("calibration-logs");
        std::fs::create_dir(&logs).map_err(|source| Error::file("create", &logs, source))?;
        let workload = Workload { seconds, ..self.options.workload.clone() };
        let server = Server::connect(&lab.connect_options(DATABASE)).await?;
        let mut connection = server.connect_to(DATABASE).await?;
        let before = read_activity(&mut connection).await?;
        self.run_pgbench(launch_workload(lab, &workload, &logs)?, "calibration")?;
        let activity = read_activity(&mut connection).await?.since(&before);
        let intervals = read_intervals(&logs)?;
        let paces: Vec<f64> = intervals.values().map(|interval| interval.transactions as f64).collect();
        // The first and the last second are not whole ones.
        let whole = if paces.len() > 2 { &paces[1..paces.len() - 1] } else { &paces[..] };
        let tps = compute_median(whole.to_vec()).filter(|tps| *tps > 0.0);
        Ok(Calibration { tps, activity, facts: server.facts.clone() })
    }

    /// Runs pgbench to its end, and tells how far the tables are made.
    fn run_pgbench(&self, launch: Launch, name: &str) -> Result<(), Error> {
        run_pgbench(launch, name, self.directory, self.stop, |said| {
            if let Some(Said::Initialized(share)) = said.lines().map(parse_said).next_back() {
                self.events.tell(Event::StepShare(share));
            }
        })
    }
}

/// Gives the running server the history that the first trial's has: all read, then the workload for a while. Without it a
/// trial would follow on whatever the one before left: what the kernel holds for idle since long, what a virtual disk's
/// host has cached (docs/journal/2026-11-22-the-same-history.md).
pub fn repeat_history(lab: &Lab, workload: &Workload, directory: &Path, stop: &Stop) -> Result<(), Error> {
    lab.apply_read_all(|| !stop.is_requested())?;
    let workload = Workload { seconds: HISTORY_SECONDS.min(workload.seconds), ..workload.clone() };
    let logs =
        tempfile::tempdir_in(directory).map_err(|source| Error::file("create a directory in", directory, source))?;
    run_pgbench(launch_workload(lab, &workload, logs.path())?, "history", directory, stop, |_| ())
}

/// pgbench with a workload.
pub fn launch_workload(lab: &Lab, workload: &Workload, logs: &Path) -> Result<Launch, Error> {
    let pgbench = Pgbench::find(&lab.programs, lab.workload_options())?;
    Ok(Launch::new(pgbench.program(), pgbench.run_arguments(workload, logs)))
}

/// Settings of the cluster. A borrowed one keeps its own, but for what the user asks for. In a scratch cluster the
/// background's own doings are kept out of the trials; without WAL senders the load of the tables needs no WAL.
pub fn choose_settings(options: &Options) -> Vec<(&'static str, String)> {
    let database = size::expected_bytes(options.scale);
    let share = Bytes(database.0 / SHARED_BUFFERS_SHARE).clamp(SHARED_BUFFERS_MIN, SHARED_BUFFERS_MAX);
    let in_kilobytes = |bytes: Bytes| format!("{}kB", (bytes.0 >> 10).max(128));
    if let Place::Borrowed { .. } = options.place {
        return options.shared_buffers.map(|asked| ("shared_buffers", in_kilobytes(asked))).into_iter().collect();
    }
    vec![
        ("shared_buffers", in_kilobytes(options.shared_buffers.unwrap_or(share))),
        ("max_connections", (options.workload.clients + 20).to_string()),
        ("autovacuum", "off".into()),
        ("checkpoint_timeout", "1h".into()),
        ("max_wal_size", "8GB".into()),
        ("wal_level", "minimal".into()),
        ("max_wal_senders", "0".into()),
    ]
}
