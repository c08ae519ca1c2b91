//! A forecast for a running server: what its clients ask for is watched, sizes come from its catalog, heat from its newest
//! snapshot.

use std::time::{Duration, Instant};

use anyhow::bail;

use super::classes::make_classes;
use super::hardware::{read_device, read_memory_pages};
use super::{Base, PredictArguments};
use crate::cache::{Map, NEWEST};
use crate::commands::Target;
use crate::model::{Server as ModelServer, Workload};
use crate::postgres::{Activity, Server, read_activity};
use crate::terminal::Progress;

/// Looks at the clients at work while it watches.
const LOOKS: u32 = 10;

/// Fewer transactions say nothing: then what the statistics have gathered so far is taken.
const FEWEST_TRANSACTIONS: u64 = 200;

/// What was watched.
struct Watched {
    activity: Activity,
    /// Transactions per second, and clients at work; `None` of an idle server.
    pace: Option<(f64, f64)>,
}

/// The server that is connected to, with its workload as it is now.
pub async fn make_base(arguments: &PredictArguments, shows_progress: bool) -> anyhow::Result<Base> {
    let target = Target::open(&arguments.connection).await?;
    let Some(server) = &target.server else {
        bail!(crate::model::Error::NoServer);
    };
    let watched = watch(server, arguments.observe, shows_progress).await?;
    let snapshot = read_heat(arguments, server);
    let cores = arguments.cores.unwrap_or_else(|| std::thread::available_parallelism().map_or(1.0, |n| n.get() as f64));
    let pace = watched.pace.map(|(tps, clients)| (tps, arguments.clients.map_or(clients, f64::from).max(1.0)));
    let (hit_seconds, clients) = match (arguments.hit, pace) {
        (Some(hit), pace) => (hit, arguments.clients.unwrap_or_else(|| pace.map_or(1, |(_, n)| n.round() as u32))),
        (None, Some((tps, clients))) => (clients.min(cores) / tps, clients.round() as u32),
        (None, None) => bail!(crate::model::Error::IdleServer),
    };
    let classes = make_classes(&watched.activity, snapshot.as_ref(), arguments.popularity.as_ref());
    let mut assumptions = vec![
        describe_pace(&watched, arguments.observe),
        match (&snapshot, &arguments.popularity) {
            (_, Some(_)) => "popularity as told".to_owned(),
            (Some(map), None) => {
                format!("popularity by the snapshot of {}", map.taken_at.strftime("%Y-%m-%d %H:%M UTC"))
            }
            (None, None) => "all blocks of a relation equally popular: there is no snapshot of this cluster".to_owned(),
        },
        format!("{clients} clients, a warm transaction takes {:.3} ms of one of {cores} processors", hit_seconds * 1e3),
        "it is warm now, and this is its normal throughput".to_owned(),
    ];
    let block_bytes = f64::from(server.facts.block_size);
    let (device, described) = read_device(arguments, target.data_directory.as_ref().map(|directory| &*directory.path))?;
    assumptions.push(described);
    let memory = read_memory_pages(arguments, server, block_bytes, &mut assumptions);
    let workload =
        Workload { clients, classes, hit_seconds, copy_seconds: 0.0, read_seconds: 0.0, read_ahead_pages: 1.0 };
    workload.check()?;
    let model = ModelServer { device, cores, buffers_pages: f64::INFINITY, os_pages: memory, block_bytes };
    model.check()?;
    Ok(Base { workload, server: model, assumptions, knees: None, has_bandwidth: true })
}

async fn watch(server: &Server, seconds: u32, shows_progress: bool) -> anyhow::Result<Watched> {
    let mut connection = server.connect_to(&server.database).await?;
    let before = read_activity(&mut connection).await?;
    let progress = Progress::steps("watching", LOOKS.into(), shows_progress);
    let started = Instant::now();
    let mut clients = 0;
    let mut now = before.clone();
    for _ in 0..LOOKS {
        tokio::time::sleep(Duration::from_secs(seconds.into()) / LOOKS).await;
        now = read_activity(&mut connection).await?;
        clients += now.clients;
        progress.advance(1);
    }
    progress.finish();
    let elapsed = started.elapsed().as_secs_f64();
    let activity = now.since(&before);
    if activity.transactions < FEWEST_TRANSACTIONS {
        return Ok(Watched { activity: now, pace: None });
    }
    let pace = Some((activity.transactions as f64 / elapsed, f64::from(clients) / f64::from(LOOKS)));
    Ok(Watched { activity, pace })
}

fn describe_pace(watched: &Watched, seconds: u32) -> String {
    match watched.pace {
        Some((tps, clients)) => {
            format!("what clients ask for was watched for {seconds} s: {tps:.0} tps, {clients:.1} clients at work")
        }
        None => "the server is idle: what clients ask for is what its statistics have counted so far".to_owned(),
    }
}

/// The newest snapshot, where there is one that can be read: a forecast is made without it too.
fn read_heat(arguments: &PredictArguments, server: &Server) -> Option<Map> {
    let store = arguments.snapshots.open();
    let chosen = store.read(NEWEST, server.facts.system_identifier).ok()?;
    Some(chosen.snapshot.map)
}
