//! Before the first trial: the tables, the state that is wanted back, and the snapshots of it.

use std::path::Path;

use super::buffers::FormerBuffers;
use super::options::{LoadingOptions, WantedSource};
use super::preparation::{Preparation, launch_workload};
use super::wanted::{WantedFile, find_wanted};
use crate::bench::warmer::WarmSnapshots;
use crate::cache::Snapshot;
use crate::lab::{Error, Lab, Stop, find_program, run_pgbench, run_statement};
use crate::linux::page_cache::PageCache as _;
use crate::postgres::{PG_BUFFERCACHE, Server, ServerFacts, apply_create_extension, read_settings};
use crate::study::{DATABASE, Events, Loader, Strategy};
use crate::units::Bytes;
use crate::warm::traffic::Sharing;

/// Where the buffers are looked at from: not the database whose files are counted.
pub const OTHER_DATABASE: &str = "postgres";

/// Everything that the trials need.
#[derive(Debug)]
pub struct PreparedLoading {
    pub facts: ServerFacts,
    pub settings: Vec<(String, String)>,
    /// Those that can run here, in the order asked for; and the others with how to get them.
    pub loaders: Vec<Loader>,
    pub skipped: Vec<(String, String)>,
    pub snapshots: WarmSnapshots,
    pub wanted: Vec<WantedFile>,
    pub former: FormerBuffers,
    pub database_bytes: Bytes,
}

/// Prepares the cluster; the server is running afterwards. `directory` is for logs and snapshots.
pub async fn prepare_loading(
    options: &LoadingOptions,
    lab: &mut Lab,
    directory: &Path,
    events: &Events,
    stop: &Stop,
) -> Result<PreparedLoading, Error> {
    let preparation = Preparation { options, directory, events, stop };
    lab.start(None)?;
    stop.check()?;
    let (strategies, skipped_strategies) = preparation.prepare_database(lab).await?;
    let skipped = find_obstacles(&options.loaders, &skipped_strategies);
    let can_run = |loader: &Loader| !skipped.iter().any(|(name, _)| name == loader.name());
    let loaders: Vec<Loader> = options.loaders.iter().copied().filter(can_run).collect();
    if loaders.is_empty() {
        let reasons: Vec<&str> = skipped.iter().map(|(_, how)| how.as_str()).collect();
        return Err(Error::NoStrategy(reasons.join("; ")));
    }
    let server = Server::connect(&lab.connect_options(OTHER_DATABASE)).await?;
    apply_create_extension(&mut server.connect_to(OTHER_DATABASE).await?, PG_BUFFERCACHE).await?;
    match options.wanted {
        WantedSource::Everything => {
            stop.check()?;
            lab.stop()?;
            lab.configure_autoprewarm(false)?;
            lab.start(None)?;
            preparation.warm(lab)?;
        }
        WantedSource::Script => run_from_cold(&preparation, lab)?,
    }
    preparation.step("taking the snapshots");
    let server = Server::connect(&lab.connect_options(DATABASE)).await?;
    // What is wanted is pgthaw's snapshot, whoever loads it.
    let mut taken = vec![Strategy::Pgthaw(Sharing::Fair)];
    taken.extend(strategies.into_iter().filter(|strategy| *strategy == Strategy::Pgfincore));
    let snapshots = WarmSnapshots::take(&taken, lab, &server, directory).await?;
    let mut connection = server.connect_to(DATABASE).await?;
    run_statement(&mut connection, "write a checkpoint", "CHECKPOINT").await?;
    let map = Snapshot::read(&snapshots.pgthaw_file())?.map;
    let wanted = find_wanted(&map, &lab.data_directory(), lab.page_cache().page_bytes());
    if wanted.is_empty() {
        return Err(Error::NothingWanted);
    }
    Ok(PreparedLoading {
        settings: read_settings(&mut connection).await?,
        facts: server.facts.clone(),
        loaders,
        skipped,
        snapshots,
        wanted,
        former: FormerBuffers::of(&map),
        database_bytes: lab.read_resident()?.1,
    })
}

/// Restarts the server on a cold cache and runs the workload, without any limit: what it read is what is wanted.
fn run_from_cold(preparation: &Preparation<'_>, lab: &mut Lab) -> Result<(), Error> {
    let Preparation { options, directory, stop, .. } = *preparation;
    let workload = &options.workload;
    preparation.step(format!("{} s of {} from a cold start", workload.seconds, workload.script.name()));
    lab.stop()?;
    lab.configure_autoprewarm(false)?;
    lab.apply_evict()?;
    lab.start(None)?;
    let logs = directory.join("wanted-logs");
    std::fs::create_dir(&logs).map_err(|source| Error::file("create", &logs, source))?;
    run_pgbench(launch_workload(lab, workload, &logs)?, "wanted", directory, stop, |_| ())
}

/// The loaders that cannot run here, with how to get them.
fn find_obstacles(asked: &[Loader], skipped_strategies: &[(String, String)]) -> Vec<(String, String)> {
    let obstacle = |loader: Loader| {
        let strategy = loader.strategy().name();
        let of_strategy = skipped_strategies.iter().find(|(name, _)| name == strategy).map(|(_, how)| how.clone());
        of_strategy.or_else(|| loader.is_fio().then(|| find_program("fio")).flatten())
    };
    asked.iter().filter_map(|loader| Some((loader.name().to_owned(), obstacle(*loader)?))).collect()
}
