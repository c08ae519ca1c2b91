//! Which snapshot to restore, and where its files are: known before the server answers, if at all possible, so that a
//! cold server keeps nobody waiting.

use anyhow::bail;

use super::RestoreArguments;
use crate::cache::{self, Snapshot, SnapshotStore};
use crate::commands::{Scope, Target};
use crate::postgres::{self, DataDirectory, Server};
use crate::warm;
use crate::warm::plan::Geometry;
use crate::warm::restore::{Answer, Place, Request};

/// Where the snapshot's files are.
pub struct Source {
    cluster: u64,
    directory: Option<DataDirectory>,
    is_same_cluster: bool,
    /// `None`: nobody has asked the server yet.
    target: Option<Target>,
}

/// Finds the snapshot, and asks the server only when there is no other way.
pub async fn find(arguments: &RestoreArguments) -> anyhow::Result<(Snapshot, Source)> {
    let store = arguments.snapshots.open();
    if !arguments.other_cluster
        && let Some(directory) = find_directory(arguments)?
    {
        let snapshot = read(arguments, &store, directory.system_identifier)?;
        require_same(arguments, &store, &snapshot, directory.system_identifier)?;
        let cluster = directory.system_identifier;
        return Ok((snapshot, Source { cluster, directory: Some(directory), is_same_cluster: true, target: None }));
    }
    let mut target = Target::open(&arguments.connection).await?;
    let Some(cluster) = target.system_identifier() else { bail!("there is neither a server nor a data directory") };
    let snapshot = read(arguments, &store, cluster)?;
    let is_same_cluster = snapshot.map.source.system_identifier == cluster;
    if !arguments.other_cluster {
        require_same(arguments, &store, &snapshot, cluster)?;
    }
    let directory = target.data_directory.take();
    Ok((snapshot, Source { cluster, directory, is_same_cluster, target: Some(target) }))
}

fn read(arguments: &RestoreArguments, store: &SnapshotStore, cluster: u64) -> Result<Snapshot, cache::Error> {
    Snapshot::read(&store.resolve(&arguments.snapshot, cluster)?)
}

/// A snapshot of another cluster says nothing about this one's files.
fn require_same(
    arguments: &RestoreArguments,
    store: &SnapshotStore,
    snapshot: &Snapshot,
    cluster: u64,
) -> Result<(), cache::Error> {
    match snapshot.map.source.system_identifier {
        same if same == cluster => Ok(()),
        other => {
            let path = store.resolve(&arguments.snapshot, cluster)?;
            Err(cache::Error::OtherCluster { path, snapshot: other, cluster })
        }
    }
}

/// The data directory, when it can be known without asking the server.
fn find_directory(arguments: &RestoreArguments) -> Result<Option<DataDirectory>, postgres::Error> {
    match &arguments.connection.data_dir {
        Some(path) => DataDirectory::open(path).map(Some),
        None => {
            Ok(arguments.connection.connect_options().socket_file().and_then(|file| DataDirectory::of_socket(&file)))
        }
    }
}

impl Source {
    pub fn is_same_cluster(&self) -> bool {
        self.is_same_cluster
    }

    /// The server's process, when it runs here.
    pub fn postmaster_pid(&self) -> Option<u32> {
        Some(self.directory.as_ref()?.read_postmaster()?.pid)
    }

    /// Where the files are.
    pub fn place(&self) -> Option<Place> {
        self.directory.as_ref().map(|directory| Place {
            directory: directory.path.clone(),
            geometry: Geometry { block_size: directory.block_size, segment_blocks: directory.segment_blocks },
        })
    }

    /// What of the snapshot is meant.
    pub fn request(&self, snapshot: Snapshot, arguments: &RestoreArguments) -> anyhow::Result<Request> {
        let here = self.directory.as_ref().map(|directory| directory.block_size);
        let mut map = snapshot.map;
        let block_size = map.source.block_size;
        if let Some(here) = here.filter(|here| *here != block_size) {
            return Err(warm::Error::BlockSize { snapshot: block_size, cluster: here }.into());
        }
        let places = arguments.selection.selection().find(map.relations.iter().map(|one| &one.relation))?;
        let scope = Scope::of(&arguments.connection.databases);
        let mut places = places.into_iter().peekable();
        let mut at = 0;
        map.relations.retain(|one| {
            let is_selected = places.next_if_eq(&at).is_some();
            at += 1;
            is_selected && scope.includes(&one.relation.name.database)
        });
        Ok(Request::new(map, arguments.tier.tiers()))
    }

    /// The server's answer, which may take a while.
    ///
    /// # Errors
    /// When the server turns out to be another cluster's, or nothing can be done without one that answers.
    pub async fn server(self, arguments: &RestoreArguments) -> anyhow::Result<Answer> {
        if let Some(target) = self.target {
            return Ok(Answer { server: target.server, remarks: target.remarks });
        }
        match Target::open(&arguments.connection).await {
            Ok(Target { server, remarks, .. }) => {
                server.as_ref().map_or(Ok(()), |server| require_cluster(server, self.cluster, &self.directory))?;
                Ok(Answer { server, remarks })
            }
            Err(error) if arguments.tier.tiers().os && is_about_connecting(&error) => {
                Ok(Answer { server: None, remarks: vec![format!("the server was not asked: {error:#}")] })
            }
            Err(error) => Err(error),
        }
    }
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
    matches!(error.downcast_ref(), Some(postgres::Error::Connect { .. } | postgres::Error::ConnectTimeout { .. }))
}
