//! Which snapshot to restore, and where its files are: known before the server answers, if at all possible, so that a
//! cold server keeps nobody waiting.

use std::collections::HashSet;
use std::sync::Arc;

use anyhow::bail;

use super::RestoreArguments;
use crate::{Scope, Target, describe, find_directory, page_cache_of, situation_of};
use cache::warm::plan::Geometry;
use cache::warm::restore::{Answer, Place, Request};
use cache::warm::traffic::{ServerTraffic, Traffic};
use cache::warm::{self, Refusal, SkipReason};
use cache::{BEST, Chosen, Map, NEWEST, Selected, Situation, Snapshot};
use host::linux::page_cache::SystemPageCache;
use postgres::{DataDirectory, Server};

/// Where the snapshot's files are.
pub struct Source {
    cluster: u64,
    /// The data directory of this cluster, where it is known before the server answers.
    pub directory: Option<DataDirectory>,
    /// Why there is no directory.
    directory_refusal: Option<Refusal>,
    /// Did a server run in the directory when it was looked at?
    had_server: bool,
    pub is_same_cluster: bool,
    /// `None`: nobody has asked the server yet.
    target: Option<Target>,
    remarks: Vec<String>,
}

/// Finds the snapshot, and asks the server only when there is no other way.
pub async fn find(arguments: &RestoreArguments) -> anyhow::Result<(Snapshot, Selected, Source)> {
    if !arguments.other_cluster
        && let Some(directory) = find_directory(&arguments.connection)?
    {
        let cluster = directory.system_identifier;
        let situation = situation_of(&directory, arguments.tiers());
        let (snapshot, selected, remarks) = read(arguments, cluster, &situation)?;
        let had_server = directory.read_postmaster().is_some();
        let (directory, target) = (Some(directory), None);
        let source =
            Source { cluster, directory, directory_refusal: None, had_server, is_same_cluster: true, target, remarks };
        return Ok((snapshot, selected, source));
    }
    let mut target = Target::open(&arguments.connection).await?;
    let Some(cluster) = target.system_identifier() else { bail!("there is neither a server nor a data directory") };
    let situation = target.situation(arguments.tiers()).await;
    let (snapshot, selected, remarks) = read(arguments, cluster, &situation)?;
    let is_same_cluster = snapshot.map.source.system_identifier == cluster;
    let (directory, directory_refusal) = (target.data_directory.take(), target.directory_refusal.take());
    let (had_server, target) = (target.server.is_some(), Some(target));
    let source = Source { cluster, directory, directory_refusal, had_server, is_same_cluster, target, remarks };
    Ok((snapshot, selected, source))
}

/// The snapshot, and what to tell of it and of others.
fn read(
    arguments: &RestoreArguments,
    cluster: u64,
    situation: &Situation,
) -> Result<(Snapshot, Selected, Vec<String>), cache::Error> {
    let RestoreArguments { snapshots, connection, other_cluster, .. } = arguments;
    let chosen = snapshots.read(arguments.snapshot_name(), connection, cluster, situation, *other_cluster)?;
    let Chosen { snapshot, selected, mut remarks, .. } = chosen;
    if matches!(arguments.snapshot_name(), BEST | NEWEST) {
        remarks.extend(snapshots.remark_owners(connection, &snapshot.header(), situation));
    }
    Ok((snapshot, selected, remarks))
}

/// Is it that nothing was ever kept of this cluster?
pub fn is_none_kept(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(cache::Error::NoSnapshot(_)))
}

impl Source {
    /// The server's process, when it runs here.
    pub fn postmaster_pid(&self) -> Option<u32> {
        self.directory.as_ref()?.find_postmaster_pid()
    }

    /// May the server read past the page cache? Something speaks for it; the server knows.
    pub fn may_bypass_page_cache(&self) -> bool {
        self.directory.as_ref().is_some_and(|directory| directory.mentions("debug_io_direct"))
    }

    /// What the server's processes do, when it runs here.
    pub fn traffic(&self) -> Arc<dyn Traffic> {
        let directory = self.directory.clone();
        Arc::new(ServerTraffic::new(move || directory.as_ref()?.find_postmaster_pid()))
    }

    /// The cache of its files.
    pub fn page_cache(&self) -> SystemPageCache {
        page_cache_of(self.directory.as_ref())
    }

    /// Where the files are.
    pub fn place(&self) -> Result<Place, Refusal> {
        match &self.directory {
            Some(directory) => Ok(Place {
                directory: directory.path.clone(),
                geometry: Geometry { block_size: directory.block_size, segment_blocks: directory.segment_blocks },
            }),
            None => {
                let unknown = || Refusal::because(SkipReason::NoDataDirectory);
                Err(self.directory_refusal.clone().unwrap_or_else(unknown))
            }
        }
    }

    /// What of the snapshot is meant.
    pub fn request(&mut self, snapshot: Snapshot, arguments: &RestoreArguments) -> anyhow::Result<Request> {
        let here = self.directory.as_ref().map(|directory| directory.block_size);
        let mut map = snapshot.map;
        let block_size = map.source.block_size;
        if let Some(here) = here.filter(|here| *here != block_size) {
            return Err(warm::Error::BlockSize { snapshot: block_size, cluster: here }.into());
        }
        let places = map.select(&arguments.selection.selection())?;
        let databases = arguments.connection.databases()?;
        self.remarks.extend(remark_unknown(&databases, &map));
        let scope = Scope::of(&databases);
        let mut places = places.into_iter().peekable();
        let mut at = 0;
        map.relations.retain(|one| {
            let is_selected = places.next_if_eq(&at).is_some();
            at += 1;
            is_selected && scope.includes(&one.relation.name.database)
        });
        Ok(Request::new(map, arguments.tiers()))
    }

    /// The server's answer, which may take a while.
    ///
    /// # Errors
    /// When the server turns out to be another cluster's, or nothing can be done without one that answers.
    pub async fn server(mut self, arguments: &RestoreArguments) -> anyhow::Result<Answer> {
        let of_snapshots = std::mem::take(&mut self.remarks);
        let mut answer = self.ask(arguments).await?;
        answer.remarks.splice(0..0, of_snapshots);
        Ok(answer)
    }

    async fn ask(mut self, arguments: &RestoreArguments) -> anyhow::Result<Answer> {
        let target = match self.target.take() {
            Some(target) => target,
            None => match Target::open(&arguments.connection).await {
                Ok(target) => target,
                Err(error) if arguments.tiers().os && is_about_connecting(&error) => {
                    let remarks = vec![format!("the server was not asked: {}", describe(&error))];
                    return Ok(Answer { server: Err(self.why_unanswered(error.downcast_ref())), remarks });
                }
                Err(error) => return Err(error),
            },
        };
        let Target { server, server_refusal, remarks, .. } = target;
        let Some(server) = server else {
            return Ok(Answer { server: Err(self.why_unanswered(server_refusal.as_ref())), remarks });
        };
        require_cluster(&server, self.cluster, &self.directory)?;
        Ok(Answer { server: Ok(server), remarks })
    }

    /// A server that is not there is a matter of course as long as none was there.
    fn why_unanswered(&self, error: Option<&postgres::Error>) -> Refusal {
        let runs = self.had_server || self.postmaster_pid().is_some();
        match error {
            Some(error) if runs || !error.is_server_gone() => Refusal::of(error),
            None if runs => Refusal::with_detail(SkipReason::ServerGone, "the server that ran was stopped"),
            _ => Refusal::because(SkipReason::NoServer),
        }
    }
}

/// Which of the databases that were named the snapshot has nothing of: what it holds as a whole is no measure of them.
fn remark_unknown(databases: &[String], map: &Map) -> Option<String> {
    let known: HashSet<&str> = map.relations.iter().map(|one| one.relation.name.database.as_str()).collect();
    let unknown: Vec<&str> = databases.iter().map(String::as_str).filter(|name| !known.contains(name)).collect();
    let alone =
        if unknown.len() == databases.len() { "; all that is asked for is of the catalogs that all share" } else { "" };
    let noun = if unknown.len() == 1 { "database" } else { "databases" };
    (!unknown.is_empty()).then(|| {
        let names = unknown.join(", ");
        format!("the snapshot knows nothing of {noun} {names}, made since or not looked at{alone}")
    })
}

fn require_cluster(server: &Server, cluster: u64, directory: &Option<DataDirectory>) -> Result<(), postgres::Error> {
    match directory {
        Some(directory) if server.facts.system_identifier != cluster => Err(postgres::Error::OtherCluster {
            path: directory.path.clone(),
            directory: cluster,
            server: server.facts.system_identifier,
            address: server.address.clone(),
        }),
        _ => Ok(()),
    }
}

/// Nobody answered, or nobody was let in: the files can be read all the same.
fn is_about_connecting(error: &anyhow::Error) -> bool {
    match error.downcast_ref() {
        Some(error @ (postgres::Error::Connect { .. } | postgres::Error::ConnectTimeout { .. })) => {
            // A database that is not there was named by mistake.
            !error.is_closed_database()
        }
        _ => false,
    }
}
