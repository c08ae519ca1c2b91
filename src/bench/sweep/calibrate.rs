//! What the load generator can do here: pgbench with an empty statement.

use std::path::Path;

use crate::bench::race::{Entrants, Gauged, run_race};
use crate::bench::warmer::{Contender, io_workers_serve};
use crate::bench::watch::Watched;
use crate::lab::{Error, Lab, Launch, LocalPgbench, Stop};
use crate::linux::Devices;
use crate::model::Facts;
use crate::observe::Cadence;
use crate::pgbench::{QueryMode, parse_outcome};
use crate::postgres::{Length, Load, Pgbench, Script, TransactionLog};
use crate::study::{CALIBRATION_SECONDS, Event, Events, GeneratorCalibration, LoadBegins, Strategy, Sweep};
use crate::units::Bytes;
use crate::verdict::{WarmGoal, busiest_thread};

/// The cheapest statement that there is: without one pgbench refuses a script.
const EMPTY_STATEMENT: &str = "SELECT;\n";

/// Runs the empty statement for each number of threads and each query mode of the study, with the most clients that it has.
pub fn calibrate_generator(
    lab: &Lab,
    sweep: &Sweep,
    directory: &Path,
    events: &Events,
    stop: &Stop,
) -> Result<Vec<GeneratorCalibration>, Error> {
    let clients = sweep.axes.clients.iter().copied().max().unwrap_or(1);
    let mut threads: Vec<u32> = sweep.axes.jobs.iter().map(|jobs| (*jobs).min(clients)).collect();
    threads.sort_unstable();
    threads.dedup();
    let run = |(jobs, query_mode)| {
        events.tell(Event::Step(format!(
            "trying what pgbench can do: an empty statement ({query_mode}), clients: {clients}, jobs: {jobs}"
        )));
        calibrate(lab, (clients, jobs, query_mode), directory, events, stop)
    };
    let modes = &sweep.axes.query_mode;
    threads.into_iter().flat_map(|jobs| modes.iter().map(move |mode| (jobs, *mode))).map(run).collect()
}

fn calibrate(
    lab: &Lab,
    (clients, jobs, query_mode): (u32, u32, QueryMode),
    directory: &Path,
    events: &Events,
    stop: &Stop,
) -> Result<GeneratorCalibration, Error> {
    let directory =
        tempfile::tempdir_in(directory).map_err(|source| Error::file("create a directory in", directory, source))?;
    let script = directory.path().join("empty.sql");
    std::fs::write(&script, EMPTY_STATEMENT).map_err(|source| Error::file("write", &script, source))?;
    let load = Load {
        scripts: vec![(Script::File(script), 1)],
        variables: Vec::new(),
        query_mode,
        clients,
        jobs,
        rate: None,
        latency_limit_ms: None,
        max_tries: 1,
        length: Length::Seconds(CALIBRATION_SECONDS),
        log: TransactionLog::Seconds,
    };
    let pgbench = Pgbench::find(&lab.programs, lab.workload_options())?;
    let arguments = pgbench.load_arguments(&load, &LocalPgbench::logs_in(directory.path()));
    let launch = Launch::new(pgbench.program(), arguments);
    let mut pgbench = LocalPgbench::ready(&launch, directory.path())?;
    let goal = WarmGoal { wanted_bytes: Bytes(0), block_size: Bytes(1), warm_tps: None, is_uniform: false };
    let entrants = Entrants {
        relations: Vec::new(),
        looker: None,
        generator: &mut pgbench,
        contender: Contender { strategy: Strategy::Nothing, launch: None },
        load_begins: LoadBegins::AtOnce,
        seconds: CALIBRATION_SECONDS,
        ends_by_itself: false,
        devices: Devices::default(),
        io_workers_serve: io_workers_serve(Strategy::Nothing),
        watched: Watched { goal, facts: Facts::default(), stops_when_steady: false },
        cadence: Cadence::Sparing,
        gauged: Some(Gauged { observer_pid: None }),
        time: None,
    };
    let measured = run_race(lab, entrants, None, directory.path(), events, stop)?;
    let (cpu_ratio, run_delay_ratio) = busiest_thread(&measured.os_samples);
    let tps = parse_outcome(&pgbench.read_report()).map_or(0.0, |outcome| outcome.tps);
    Ok(GeneratorCalibration { clients, jobs, query_mode, tps, cpu_ratio, run_delay_ratio })
}
