//! What the model says before the trials: how long the server takes when nothing warms it but the workload.

use crate::study::{Calibration, StudyForecast, Sweep};
use host::linux::machine::count_cores;
use host::units::Bytes;
use model::{ColdStart, Device, PageClass, Popularity, Scenario, compute_hit_seconds, compute_outlook};
use postgres::pgbench::Script;

/// The table that pgbench's own scripts read, and its index.
const TABLE: &str = "public.pgbench_accounts";
const INDEX: &str = "public.pgbench_accounts_pkey";

/// Of an index, the share of its blocks that are not leaves: one in some hundred. They are read in the first instant.
const LEAF_SHARE: f64 = 1.0 - 1.0 / 256.0;

/// pgbench asks the catalogs about its tables before it runs a script of its own: in so many reads.
const PGBENCH_READS: f64 = 90.0;

/// Private memory of a server, and of each backend: seen as 1.5 to 3 MB of the latter.
const SERVER_BYTES: f64 = 12e6;
const BACKEND_BYTES: f64 = 2.5e6;

/// A cold start of a study of ways to warm, whose transactions choose from `classes`, where the kernel reads so far ahead.
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
    let cold = ColdStart {
        clients,
        classes,
        hit_seconds: compute_hit_seconds(warm_tps, clients.into(), cores),
        cores,
        device: device.clone(),
        read_ahead,
        block_bytes,
        buffers_pages: buffers / block_bytes,
        // Where there is no room the server has one page of it at a time.
        os_pages: (room / block_bytes).max(1.0),
        client_reads: if has_builtin_script(sweep) { PGBENCH_READS } else { 0.0 },
    };
    Ok(cold.scenario())
}

fn has_builtin_script(sweep: &Sweep) -> bool {
    sweep.scripts.values().flatten().all(|(script, _)| matches!(script, Script::Builtin(_)))
}

/// What the model says of a server that nothing warms; `None` where it is not known what is read. `relations` are the largest.
pub fn forecast_nothing(
    sweep: &Sweep,
    relations: &[(String, Bytes)],
    calibration: &Calibration,
    device: &Device,
    read_ahead: Bytes,
) -> Result<Option<StudyForecast>, model::Error> {
    let classes = make_pgbench_classes(relations, Bytes(calibration.facts.block_size.into()));
    let classes = classes.filter(|_| has_builtin_script(sweep) && calibration.tps.is_some());
    let cold = classes.map(|classes| describe_cold_start(sweep, calibration, device, read_ahead, classes));
    cold.transpose()?.map(|cold| compute_study_forecast(&cold)).transpose()
}

fn compute_study_forecast(scenario: &Scenario) -> Result<StudyForecast, model::Error> {
    let outlook = compute_outlook(scenario)?;
    Ok(StudyForecast {
        cold_tps: outlook.cold_tps,
        steady_tps: outlook.steady_tps,
        to_50_seconds: outlook.to_50_seconds,
        warm_after_seconds: outlook.warm_after_seconds,
    })
}

/// What pgbench's own scripts choose from: each transaction reads a row of the table by its index, all rows equally likely.
/// `None` where the tables, of which names and sizes are given, are not pgbench's.
fn make_pgbench_classes(relations: &[(String, Bytes)], block_size: Bytes) -> Option<Vec<PageClass>> {
    let pages = |name: &str| {
        let found = relations.iter().find(|(relation, _)| relation == name);
        found.map(|(_, bytes)| bytes.0 as f64 / block_size.0.max(1) as f64)
    };
    let class = |name: &str, pages: f64| PageClass {
        name: name.to_owned(),
        pages,
        accesses: 1.0,
        run_pages: 1.0,
        popularity: Popularity::Uniform,
        resident_share: 0.0,
    };
    Some(vec![class(TABLE, pages(TABLE)?), class(INDEX, pages(INDEX)? * LEAF_SHARE)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use host::linux::block_device::DEFAULT_READ_AHEAD;

    const BLOCK: Bytes = Bytes(8192);

    #[test]
    fn a_cold_start_takes_as_long_as_was_measured() {
        // Scale 100 on a disk of 3000 reads/s: half of the throughput after 53 s, measured (docs/journal).
        let relations = [(TABLE.to_owned(), Bytes(163_935 * 8192)), (INDEX.to_owned(), Bytes(27_422 * 8192))];
        let cold = ColdStart {
            clients: 8,
            classes: make_pgbench_classes(&relations, BLOCK).unwrap(),
            hit_seconds: compute_hit_seconds(65_000.0, 8.0, 2.0),
            cores: 2.0,
            device: Device::with_limits(3000.0, 131_072_000.0, 0.5e-3),
            read_ahead: DEFAULT_READ_AHEAD,
            block_bytes: 8192.0,
            buffers_pages: 32_768.0,
            os_pages: f64::INFINITY,
            client_reads: PGBENCH_READS,
        };
        let forecast = compute_study_forecast(&cold.scenario()).unwrap();
        let (half, warm) = (forecast.to_50_seconds.unwrap(), forecast.warm_after_seconds.unwrap());
        assert!((half.seconds / 53.0 - 1.0).abs() < 0.1 && warm.seconds > half.seconds, "{forecast:?}");
        assert!((forecast.steady_tps / 65_000.0 - 1.0).abs() < 0.01, "{forecast:?}");
    }

    #[test]
    fn other_tables_have_no_forecast() {
        assert_eq!(make_pgbench_classes(&[("public.mine".to_owned(), BLOCK)], BLOCK), None);
    }
}
