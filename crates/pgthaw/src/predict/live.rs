//! A forecast for a running server: what its clients ask for is watched, sizes come from its catalog, heat from the snapshot that
//! a restore would take.

use std::time::{Duration, Instant};

use anyhow::bail;

use super::arguments::PredictArguments;
use super::base::Base;
use super::hardware::{read_cores, read_memory_pages};
use super::known::{Known, describe_snapshot, read_heat};
use super::reads::{DeviceReads, describe_cold_reads};
use crate::Target;
use cache::warm::plan::Geometry;
use command::workload::what_it_says;
use host::units::counted;
use model::{Error, compute_hit_seconds};
use postgres::{Activity, Server, read_activity, read_statements};
use terminal::Progress;

/// Looks at the clients at work while it watches.
const LOOKS: u32 = 10;

/// Fewer transactions say nothing: then what the statistics have gathered so far is taken.
const FEWEST_TRANSACTIONS: u64 = 200;

/// What was watched.
struct Watched {
    activity: Activity,
    /// Transactions per second, and clients at work; `None` of an idle server.
    pace: Option<(f64, f64)>,
    /// What it reads that a warm server would not; `None` of a warm or an idle one.
    cold_reads: Option<String>,
}

/// The server that is connected to, with its workload as it is now.
pub async fn make_base(
    arguments: &PredictArguments,
    target: &Target,
    server: &Server,
    shows_progress: bool,
) -> anyhow::Result<Base> {
    let watched = watch(server, arguments.observe, shows_progress).await?;
    let (snapshot, unread) = match read_heat(arguments, target).await {
        Ok(snapshot) => (snapshot, None),
        Err(error) => (None, Some(format!("no snapshot of this cluster can be read: {error}"))),
    };
    let cores = read_cores(arguments);
    let pace = watched.pace.map(|(tps, clients)| (tps, arguments.clients.map_or(clients, f64::from).max(1.0)));
    let told_clients = || arguments.clients.unwrap_or_else(|| pace.map_or(1, |(_, n)| n.round() as u32));
    let told = arguments.told_hit_seconds(told_clients().into(), cores);
    let statements = if pace.is_none() && told.is_none() {
        read_statements(&mut server.connect_to(&server.database).await?).await?
    } else {
        None
    };
    let (hit_seconds, clients) = match (told, pace, &statements) {
        (Some(hit), ..) => (hit, told_clients()),
        (None, Some((tps, _)), _) if watched.cold_reads.is_some() => {
            bail!(Error::ColdServer { tps, reads: watched.cold_reads.unwrap_or_default() })
        }
        (None, Some((tps, clients)), _) => (compute_hit_seconds(tps, clients, cores), clients.round() as u32),
        (None, None, Some(statements)) => (statements.seconds, told_clients()),
        (None, None, None) => bail!(Error::IdleDatabase { database: server.database.clone() }),
    };
    let mut assumptions = vec![describe_pace(&watched, &server.database, arguments.observe)];
    assumptions.extend(statements.map(|statements| {
        format!(
            "a transaction is one of the {:.0} statements of pg_stat_statements, {:.3} ms without what they waited for reads",
            statements.calls,
            statements.seconds * 1e3
        )
    }));
    assumptions.extend(match (&snapshot, &arguments.popularity) {
        (None, Some(_)) => vec!["popularity as told".to_owned()],
        (Some(chosen), told) => describe_snapshot(what_it_says(&chosen.snapshot.map, told.is_some()), chosen),
        (None, None) => {
            let why = unread.as_deref().unwrap_or("there is no snapshot of this cluster");
            vec![format!("all blocks of a relation equally popular: {why}")]
        }
    });
    assumptions.extend([
        format!(
            "{}, a warm transaction takes {:.3} ms of one of {cores} processors",
            counted(clients as usize, "client"),
            hit_seconds * 1e3
        ),
        describe_normal(told.is_some(), &watched),
    ]);
    let block_bytes = f64::from(server.facts.block_size);
    let memory = read_memory_pages(arguments, server.is_local_socket(), block_bytes, &mut assumptions);
    let known = Known {
        activity: watched.activity,
        snapshot,
        clients,
        hit_seconds,
        cores,
        memory_pages: memory,
        buffers_pages: server.facts.shared_buffers_bytes.0 as f64 / block_bytes,
        geometry: Geometry { block_size: server.facts.block_size, segment_blocks: server.facts.segment_blocks },
        directory: target.data_directory.as_ref().map(|directory| directory.path.clone()),
        is_local: server.is_local_socket(),
    };
    known.make_base(arguments, assumptions)
}

async fn watch(server: &Server, seconds: u32, shows_progress: bool) -> anyhow::Result<Watched> {
    let mut connection = server.connect_to(&server.database).await?;
    let before = read_activity(&mut connection).await?;
    let progress = Progress::steps("watching", LOOKS.into(), shows_progress);
    let started = Instant::now();
    let mut clients = 0;
    let mut now = before.clone();
    // Of a server elsewhere the processes are none of this machine.
    let is_here = server.facts.postmaster_pid.is_some();
    let mut reads = DeviceReads::new(if is_here { &before.pids } else { &[] });
    for _ in 0..LOOKS {
        tokio::time::sleep(Duration::from_secs(seconds.into()) / LOOKS).await;
        now = read_activity(&mut connection).await?;
        clients += now.clients;
        if is_here {
            reads.look(&now.pids);
        }
        progress.advance(1);
    }
    progress.finish();
    let elapsed = started.elapsed().as_secs_f64();
    let activity = now.since(&before);
    if activity.transactions < FEWEST_TRANSACTIONS {
        return Ok(Watched { activity: now, pace: None, cold_reads: None });
    }
    let pace = Some((activity.transactions as f64 / elapsed, f64::from(clients) / f64::from(LOOKS)));
    let cold_reads = describe_cold_reads(&activity, reads.bytes(), server.facts.block_size.into());
    Ok(Watched { activity, pace, cold_reads })
}

fn describe_pace(watched: &Watched, database: &str, seconds: u32) -> String {
    match watched.pace {
        Some((tps, clients)) => {
            format!(
                "what clients of the database \"{database}\" ask for was watched for {seconds} s: {tps:.0} tps, {clients:.1} clients at work"
            )
        }
        None => format!(
            "the database \"{database}\" is idle: what clients ask for is what its statistics have counted so far"
        ),
    }
}

fn describe_normal(is_told: bool, watched: &Watched) -> String {
    match (is_told, &watched.cold_reads, watched.pace) {
        (true, Some(reads), _) => format!("the server is not warm: {reads}; its normal throughput is as told"),
        (true, None, _) => "its normal throughput is as told".to_owned(),
        (false, _, Some(_)) => "it is warm now, and this is its normal throughput".to_owned(),
        (false, _, None) => "its normal throughput is that of these statements".to_owned(),
    }
}
