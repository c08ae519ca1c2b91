//! A scratch cluster with the benchmark's tables, warmed by its own workload.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use sqlx::postgres::PgConnection;

use super::options::LoadingOptions;
use crate::lab::{Error, Lab, Launch, Stop, find_obstacle, run_pgbench, run_statement};
use crate::pgbench::{Said, parse_said};
use crate::postgres::pgbench::{Pgbench, Workload};
use crate::postgres::{
    PG_BUFFERCACHE, PG_PREWARM, Server, apply_create_extension, read_databases, read_installable_extensions,
};
use crate::study::{DATABASE, Event, Events, Loader, STRATEGY_ROLE, Strategy, WORKLOAD_ROLE, size};

/// The steps to a cluster with the benchmark's tables.
#[derive(Clone, Copy, Debug)]
pub struct Preparation<'a> {
    pub options: &'a LoadingOptions,
    pub directory: &'a Path,
    pub events: &'a Events,
    pub stop: &'a Stop,
}

impl Preparation<'_> {
    /// Tells that a step begins.
    pub fn step(&self, what: impl Into<String>) {
        self.events.tell(Event::Step(what.into()));
    }

    /// The database with its tables. Says which loaders' strategies can run, and why the others cannot.
    pub async fn prepare_database(&self, lab: &mut Lab) -> Result<(Vec<Strategy>, Vec<(String, String)>), Error> {
        let server = Server::connect(&lab.connect_options("postgres")).await?;
        let mut connection = server.connect_to("postgres").await?;
        let extensions = read_installable_extensions(&mut connection).await?;
        let version_major = server.facts.version_num / 10_000;
        let obstacle = |strategy: Strategy| find_obstacle(strategy, &lab.programs, version_major, &extensions);
        let asked: Vec<Strategy> = self.options.loaders.iter().copied().map(Loader::strategy).collect();
        let skipped: BTreeMap<&str, String> =
            asked.iter().filter_map(|one| Some((one.name(), obstacle(*one)?))).collect();
        let strategies: Vec<Strategy> = asked.iter().copied().filter(|one| !skipped.contains_key(one.name())).collect();
        let skipped: Vec<(String, String)> =
            skipped.into_iter().map(|(name, remedy)| (name.to_owned(), remedy)).collect();
        if strategies.is_empty() {
            let reasons: Vec<&str> = skipped.iter().map(|(_, remedy)| remedy.as_str()).collect();
            return Err(Error::NoStrategy(reasons.join("; ")));
        }
        make_database(lab, &server, &mut connection, &extensions).await?;
        self.initialize(lab)?;
        Ok((strategies, skipped))
    }

    /// Makes pgbench's tables.
    fn initialize(&self, lab: &Lab) -> Result<(), Error> {
        let scale = self.options.scale;
        self.step(format!("making pgbench's tables, scale {scale} ({})", size::expected_bytes(scale)));
        let pgbench = Pgbench::find(&lab.programs, lab.workload_options())?;
        self.run_pgbench(Launch::new(pgbench.program(), pgbench.initialize_arguments(scale)), "initialize")
    }

    /// Reads everything, then lets the workload make its own usage counts.
    pub fn warm(&self, lab: &Lab) -> Result<(), Error> {
        self.step("warming: reading everything");
        lab.apply_read_all(|| !self.stop.is_requested())?;
        let workload = &self.options.workload;
        self.step(format!("warming: {} s of the workload", workload.seconds));
        let logs = self.directory.join("warm-logs");
        std::fs::create_dir(&logs).map_err(|source| Error::file("create", &logs, source))?;
        self.run_pgbench(launch_workload(lab, workload, &logs)?, "warm")
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

/// Roles, database and extensions.
async fn make_database(
    lab: &mut Lab,
    server: &Server,
    connection: &mut PgConnection,
    extensions: &BTreeSet<String>,
) -> Result<(), Error> {
    for statement in [
        format!("CREATE ROLE {WORKLOAD_ROLE} LOGIN"),
        format!("CREATE ROLE {STRATEGY_ROLE} LOGIN SUPERUSER"),
        format!("CREATE DATABASE {DATABASE} OWNER {WORKLOAD_ROLE}"),
    ] {
        run_statement(connection, "make the benchmark's database", &statement).await?;
    }
    let databases = read_databases(connection).await?;
    if let Some(made) = databases.iter().find(|database| database.name == DATABASE) {
        lab.use_database(DATABASE, made.oid);
    }
    let mut connection = server.connect_to(DATABASE).await?;
    for name in [PG_PREWARM, PG_BUFFERCACHE, "pgfincore"].into_iter().filter(|name| extensions.contains(*name)) {
        apply_create_extension(&mut connection, name).await?;
    }
    Ok(())
}

/// pgbench with a workload.
pub fn launch_workload(lab: &Lab, workload: &Workload, logs: &Path) -> Result<Launch, Error> {
    let pgbench = Pgbench::find(&lab.programs, lab.workload_options())?;
    Ok(Launch::new(pgbench.program(), pgbench.run_arguments(workload, logs)))
}

/// Settings of the cluster: the background's own doings are kept out of the trials.
pub fn choose_settings(options: &LoadingOptions) -> Vec<(&'static str, String)> {
    let mut settings = size::scratch_settings(options.scale, options.shared_buffers);
    settings.push(("max_connections", (options.workload.clients + 20).to_string()));
    settings.push(("autovacuum", "off".into()));
    settings
}
