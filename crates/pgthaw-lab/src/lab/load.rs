use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::cluster::{Lab, run_statement};
use super::generator::{Generator, LoadFigures, new_latencies};
use super::hosts::Fleet;
use super::launch::{Launch, Running, Start, Work, program_error, read_paces};
use super::server::connect;
use crate::study::{Error, Result, Sweep};
use host::linux::clock;
use observe::WORKLOAD_ROLE;
use pgbench::{PgbenchOutcome, parse_report};
use postgres::{Load, Pgbench, visit_transactions};

#[derive(Debug)]
struct NoLoad;

impl Generator for NoLoad {
    fn command(&self, _lab: &Lab, _asked: &Load) -> Result<String> {
        Ok(String::new())
    }

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

    fn finish(self: Box<Self>, load: &Load) -> Result<LoadFigures> {
        Ok(LoadFigures { latencies: new_latencies(load), outcome: PgbenchOutcome::default(), generators: None })
    }
}

#[derive(Debug)]
pub struct LocalPgbench {
    running: Running,
    logs: PathBuf,
}

impl LocalPgbench {
    /// Prepares pgbench, which starts when `go` is called. Its logs are below `directory`.
    pub fn ready(lab: &Lab, load: &Load, directory: &Path) -> Result<LocalPgbench> {
        let logs = directory.join("pgbench");
        std::fs::create_dir(&logs).map_err(|source| Error::file("create", &logs, source))?;
        let running = plan_load(lab, load, &logs)?.ready("pgbench", directory, None)?;
        Ok(LocalPgbench { running, logs })
    }

    pub fn read_report(&self) -> String {
        self.running.read_stdout()
    }
}

impl Generator for LocalPgbench {
    fn command(&self, lab: &Lab, asked: &Load) -> Result<String> {
        Ok(plan_load(lab, asked, &self.logs)?.render())
    }

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

    fn finish(self: Box<Self>, load: &Load) -> Result<LoadFigures> {
        let mut latencies = new_latencies(load);
        visit_transactions(&self.logs, |one| latencies.add(one))?;
        let report = self.read_report();
        let unfinished = || Error::Program { program: "pgbench", output: format!("invalid report: {report}") };
        let outcome = parse_report(&report).outcome.ok_or_else(unfinished)?;
        Ok(LoadFigures { latencies, outcome, generators: None })
    }
}

pub async fn ready_load(sweep: &Sweep, lab: &Lab, load: &Load, work: Work<'_>) -> Result<Box<dyn Generator>> {
    if sweep.is_idle() {
        return Ok(Box::new(NoLoad));
    }
    let Some((generators, listening)) = sweep.generators.as_ref().zip(lab.listening.as_ref()) else {
        return Ok(Box::new(LocalPgbench::ready(lab, load, work.directory)?));
    };
    let password = set_password(lab).await?;
    let connection = listening.connect_options(lab.database());
    Ok(Box::new(Fleet::ready(generators, load, &connection, &password, work)?))
}

pub fn plan_load(lab: &Lab, load: &Load, logs: &Path) -> Result<Launch> {
    let pgbench = Pgbench::find(&lab.programs, lab.workload_options())?;
    Ok(Launch::new(&pgbench.program, pgbench.load_arguments(load, logs)))
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
