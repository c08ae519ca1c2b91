use std::path::{Path, PathBuf};
use std::time::Duration;

use super::cluster::{Lab, run_statement};
use super::error::{Error, Result};
use super::hosts::{Fleet, merge_outcomes};
use super::launch::{Generator, Launch, Running, Start, Work, program_error, read_paces};
use super::server::connect;
use crate::study::{Generators, Latencies, TrialGenerators};
use host::linux::clock;
use observe::WORKLOAD_ROLE;
use pgbench::{PgbenchOutcome, parse_outcome};
use postgres::{Load, Pgbench, visit_transactions};

#[derive(Debug)]
pub struct NoLoad;

impl Generator for NoLoad {
    fn announce(&mut self, _start: Start) -> Result<Vec<u32>> {
        Ok(Vec::new())
    }

    fn poll(&mut self) -> Result<Option<Duration>> {
        Ok(Some(clock::read_monotonic()))
    }

    fn end_early(&mut self) {}

    fn read_paces(&self) -> Vec<f64> {
        Vec::new()
    }

    fn failure(&self) -> Error {
        Error::Program { program: "pgbench", output: "it was not started".to_owned() }
    }
}

const LOGS: &str = "pgbench";

#[derive(Debug)]
pub struct LocalPgbench {
    running: Running,
    logs: PathBuf,
}

impl LocalPgbench {
    /// Prepares pgbench, which starts when `go` is called. Its logs are below `directory`.
    pub fn ready(lab: &Lab, load: &Load, directory: &Path) -> Result<LocalPgbench> {
        let logs = directory.join(LOGS);
        std::fs::create_dir(&logs).map_err(|source| Error::file("create", &logs, source))?;
        let running = plan_load(lab, load, &logs)?.ready("pgbench", directory, None)?;
        Ok(LocalPgbench { running, logs })
    }

    pub fn read_report(&self) -> String {
        self.running.read_stdout()
    }
}

impl Generator for LocalPgbench {
    fn announce(&mut self, _start: Start) -> Result<Vec<u32>> {
        Ok(vec![self.running.pid()])
    }

    fn go(&mut self) {
        self.running.go();
    }

    fn poll(&mut self) -> Result<Option<Duration>> {
        match self.running.poll() {
            Some(ended) if !ended.status.success() => Err(self.failure()),
            ended => Ok(ended.map(|ended| ended.at)),
        }
    }

    fn end_early(&mut self) {
        self.running.ring_alarm();
    }

    fn read_paces(&self) -> Vec<f64> {
        read_paces(&self.running.read_stderr())
    }

    fn failure(&self) -> Error {
        program_error("pgbench", &self.running)
    }
}

#[derive(Debug)]
pub enum TrialLoad {
    Nothing(NoLoad),
    Here(LocalPgbench),
    Hosts(Fleet),
}

#[derive(Debug)]
pub struct LoadFigures {
    pub latencies: Latencies,
    pub outcome: PgbenchOutcome,
    /// `None` if pgbench ran on this host.
    pub generators: Option<TrialGenerators>,
}

impl TrialLoad {
    pub async fn ready(lab: &Lab, load: &Load, generators: Option<&Generators>, work: Work<'_>) -> Result<TrialLoad> {
        if let Some((generators, listening)) = generators.zip(lab.listening.as_ref()) {
            let password = set_password(lab).await?;
            let connection = listening.connect_options(lab.database());
            return Ok(TrialLoad::Hosts(Fleet::ready(generators, load, &connection, &password, work)?));
        }
        Ok(TrialLoad::Here(LocalPgbench::ready(lab, load, work.directory)?))
    }

    /// `asked` names the user's scripts, not their copies.
    pub fn command(&self, lab: &Lab, asked: &Load, directory: &Path) -> Result<String> {
        match self {
            TrialLoad::Nothing(_) => Ok(String::new()),
            TrialLoad::Here(_) => Ok(plan_load(lab, asked, &directory.join(LOGS))?.render()),
            TrialLoad::Hosts(fleet) => Ok(fleet.command()),
        }
    }

    pub fn generator(&mut self) -> &mut dyn Generator {
        match self {
            TrialLoad::Nothing(nothing) => nothing,
            TrialLoad::Here(pgbench) => pgbench,
            TrialLoad::Hosts(fleet) => fleet,
        }
    }

    pub fn finish(self, load: &Load) -> Result<LoadFigures> {
        let scripts: Vec<String> = load.scripts.iter().map(|(script, _)| script.name()).collect();
        let new = || Latencies::new(scripts.clone(), load.rate.is_some());
        let mut latencies = new();
        match self {
            TrialLoad::Nothing(_) => {
                Ok(LoadFigures { latencies, outcome: PgbenchOutcome::default(), generators: None })
            }
            TrialLoad::Here(pgbench) => {
                visit_transactions(&pgbench.logs, |one| latencies.add(one))?;
                let report = pgbench.read_report();
                let unfinished = || Error::Program { program: "pgbench", output: format!("invalid report: {report}") };
                let outcome = parse_outcome(&report).ok_or_else(unfinished)?;
                Ok(LoadFigures { latencies, outcome, generators: None })
            }
            TrialLoad::Hosts(fleet) => {
                let members = fleet.finish(new)?;
                members.iter().for_each(|member| latencies.merge(&member.latencies));
                let outcomes: Vec<PgbenchOutcome> = members.iter().map(|member| member.outcome).collect();
                let hosts = members.into_iter().map(|member| member.generator).collect();
                let generators = Some(TrialGenerators::new(hosts));
                Ok(LoadFigures { latencies, outcome: merge_outcomes(&outcomes), generators })
            }
        }
    }
}

pub fn plan_load(lab: &Lab, load: &Load, logs: &Path) -> Result<Launch> {
    let pgbench = Pgbench::find(&lab.programs, lab.workload_options())?;
    Ok(Launch::new(pgbench.program(), pgbench.load_arguments(load, logs)))
}

/// A random password, known only to this trial's hosts.
async fn set_password(lab: &Lab) -> Result<String> {
    let password = format!("{:032x}", rand::random::<u128>());
    let (_, mut connection) = connect(lab).await?;
    // The default before PostgreSQL 14 is md5.
    run_statement(&mut connection, "choose SCRAM", "SET password_encryption = 'scram-sha-256'").await?;
    let statement = format!("ALTER ROLE {WORKLOAD_ROLE} PASSWORD '{password}'");
    run_statement(&mut connection, "set the workload's password", &statement).await?;
    Ok(password)
}
