//! The load of one trial: pgbench here, or the hosts of `[generators]`; counted the same way.

use std::path::Path;

use super::fleet::{Fleet, FleetTask, merge_outcomes};
use crate::lab::cluster::{Lab, run_statement};
use crate::lab::error::Error;
use crate::lab::generator::{Generator, LocalPgbench, NoLoad};
use crate::lab::launch::{Launch, Stop};
use crate::lab::server::connect;
use crate::study::{Generators, Latencies, TrialGenerators};
use observe::WORKLOAD_ROLE;
use pgbench::{PgbenchOutcome, parse_outcome};
use postgres::{Load, Pgbench, visit_transactions};

/// Load that is ready to start, runs, or has ended.
#[derive(Debug)]
pub enum TrialLoad {
    Nothing(NoLoad),
    Here(LocalPgbench),
    Hosts(Fleet),
}

/// What the load did, by its own account.
#[derive(Debug)]
pub struct LoadFigures {
    pub latencies: Latencies,
    pub outcome: PgbenchOutcome,
    /// `None`: pgbench ran here.
    pub generators: Option<TrialGenerators>,
}

impl TrialLoad {
    /// Makes the load ready against the lab's running server.
    pub async fn ready(
        lab: &Lab,
        load: &Load,
        generators: Option<&Generators>,
        directory: &Path,
        stop: &Stop,
    ) -> Result<TrialLoad, Error> {
        if let Some((generators, listening)) = generators.zip(lab.listening()) {
            let password = set_password(lab).await?;
            let connection = listening.connect_options(lab.database());
            let task = FleetTask { generators, load, connection, password: &password, directory, stop };
            return Ok(TrialLoad::Hosts(Fleet::ready(&task)?));
        }
        Ok(TrialLoad::Here(LocalPgbench::ready(&plan_launch(lab, load, directory)?, directory)?))
    }

    /// What is run, by the names that the study has for the scripts of this load: `asked` is the same before they were copied.
    pub fn command(&self, lab: &Lab, asked: &Load, directory: &Path) -> Result<String, Error> {
        match self {
            TrialLoad::Nothing(_) => Ok(String::new()),
            TrialLoad::Here(_) => Ok(plan_launch(lab, asked, directory)?.render()),
            TrialLoad::Hosts(fleet) => Ok(fleet.command()),
        }
    }

    /// What the race starts and listens to.
    pub fn generator(&mut self) -> &mut dyn Generator {
        match self {
            TrialLoad::Nothing(nothing) => nothing,
            TrialLoad::Here(pgbench) => pgbench,
            TrialLoad::Hosts(fleet) => fleet,
        }
    }

    /// Counts what it did. The race is over.
    pub fn finish(self, load: &Load) -> Result<LoadFigures, Error> {
        let scripts: Vec<String> = load.scripts.iter().map(|(script, _)| script.name()).collect();
        let new = || Latencies::new(scripts.clone(), load.rate.is_some());
        let mut latencies = new();
        match self {
            TrialLoad::Nothing(_) => {
                Ok(LoadFigures { latencies, outcome: PgbenchOutcome::default(), generators: None })
            }
            TrialLoad::Here(pgbench) => {
                visit_transactions(pgbench.logs(), |one| latencies.add(one))?;
                let report = pgbench.read_report();
                let unfinished = || Error::Program { program: "pgbench", output: format!("its report is: {report}") };
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

/// pgbench on this host.
fn plan_launch(lab: &Lab, load: &Load, directory: &Path) -> Result<Launch, Error> {
    let pgbench = Pgbench::find(&lab.programs, lab.workload_options())?;
    let arguments = pgbench.load_arguments(load, &LocalPgbench::logs_in(directory));
    Ok(Launch::new(pgbench.program(), arguments))
}

/// A password that nobody knows but the hosts of this trial.
async fn set_password(lab: &Lab) -> Result<String, Error> {
    let password = format!("{:032x}", rand::random::<u128>());
    let (_, mut connection) = connect(lab).await?;
    // Before 14 another method is the default.
    run_statement(&mut connection, "choose SCRAM", "SET password_encryption = 'scram-sha-256'").await?;
    let statement = format!("ALTER ROLE {WORKLOAD_ROLE} PASSWORD '{password}'");
    run_statement(&mut connection, "set the workload's password", &statement).await?;
    Ok(password)
}
