//! A forecast from numbers alone, without any server.

use super::arguments::PredictArguments;
use super::base::{Base, Knees, Steepest};
use super::hardware::read_cores;
use command::DEFAULT_LATENCY_SECONDS;
use host::units::counted;
use model::{Device, Error, PageClass, Popularity, Server, WarmUp, Workload};

/// Blocks are PostgreSQL's default: bare numbers do not say.
const BLOCK_BYTES: f64 = 8192.0;

/// The numbers as a workload and a server.
pub fn make_base(arguments: &PredictArguments) -> Result<Base, Error> {
    let hit = arguments.hit.ok_or(Error::IdleServer)?;
    let clients = arguments.clients.unwrap_or(1);
    let latency = match arguments.miss {
        Some(cold_seconds) if cold_seconds < hit => {
            return Err(Error::ColdFasterThanWarm { cold_seconds, hit_seconds: hit });
        }
        // What one missing page adds; a transaction that lacks a page of each relation reads them one after the other.
        Some(read) => read - hit,
        None if arguments.riops.is_none() => return Err(Error::NoDevice),
        None => DEFAULT_LATENCY_SECONDS,
    };
    let popularity = arguments.popularity.as_ref().map_or(Popularity::Uniform, |told| told.0.clone());
    let class = |(place, pages): (usize, &f64)| PageClass {
        name: format!("relation {}", place + 1),
        pages: *pages,
        accesses: 1.0,
        run_pages: 1.0,
        popularity: popularity.clone(),
        resident_share: 0.0,
    };
    let workload = Workload {
        clients,
        classes: arguments.pages.iter().enumerate().map(class).collect(),
        hit_seconds: hit,
        copy_seconds: 0.0,
        read_seconds: 0.0,
        read_ahead_pages: arguments.read_ahead.map_or(1.0, |bytes| bytes.0 as f64 / BLOCK_BYTES),
        startup_reads: 0.0,
    };
    workload.check()?;
    let cores = read_cores(arguments);
    let bandwidth = arguments.rbps.map_or(f64::INFINITY, |rbps| rbps.0 as f64);
    let server = Server {
        device: Device::with_limits(arguments.riops.unwrap_or(f64::INFINITY), bandwidth, latency),
        cores,
        buffers_pages: f64::INFINITY,
        os_pages: arguments.memory.map_or(f64::INFINITY, |memory| memory.0 as f64 / BLOCK_BYTES),
        block_bytes: BLOCK_BYTES,
    };
    server.check()?;
    let is_closed_form = clients == 1 && popularity == Popularity::Uniform && arguments.riops.is_none();
    let knees = arguments.miss.filter(|_| is_closed_form).map(|cold| find_knees(arguments, cold, hit)).transpose()?;
    Ok(Base {
        snapshot: None,
        assumptions: assumptions(arguments, clients, latency, cores),
        has_bandwidth: arguments.rbps.is_some(),
        workload,
        server,
        knees,
        restore: None,
    })
}

fn find_knees(arguments: &PredictArguments, cold: f64, hit: f64) -> Result<Knees, Error> {
    let steepest = |curve: WarmUp| Steepest {
        by_transaction: curve.steepest_by_transaction(),
        by_second: curve.steepest_by_second(),
    };
    Ok(Knees {
        simple: steepest(WarmUp::simple(arguments.pages.iter().sum(), cold, hit)?),
        parallel: steepest(WarmUp::parallel(&arguments.pages, cold, hit)?),
    })
}

fn assumptions(arguments: &PredictArguments, clients: u32, latency: f64, cores: f64) -> Vec<String> {
    let limit = |limit: Option<String>| limit.unwrap_or("no limit".to_owned());
    vec![
        format!(
            "a transaction reads one block of each of {}, all cold at the start",
            counted(arguments.pages.len(), "relation")
        ),
        format!(
            "a read takes {:.3} ms; reads per second: {}; bytes per second: {}",
            latency * 1e3,
            limit(arguments.riops.map(|riops| riops.to_string())),
            limit(arguments.rbps.map(|rbps| rbps.to_string()))
        ),
        format!("{} on {cores} processors; blocks of 8 kB", counted(clients as usize, "client")),
    ]
}
