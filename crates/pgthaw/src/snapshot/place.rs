use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use tokio::time::timeout;

use crate::{ConnectionArguments, Target, find_directory, is_served_invisibly, situation_of};
use cache::{
    BEST, Chosen, Generation, LastStart, Selected, Situation, Snapshot, SnapshotHeader, SnapshotStore, Tiers, is_path,
};
use host::linux::own_program::home_of;

const ANSWERS_WITHIN: Duration = Duration::from_secs(2);

/// Where snapshots are kept.
#[derive(Clone, Debug, Default, Args)]
pub struct SnapshotsArguments {
    /// Directory of the snapshots [default: pgthaw/snapshots in $XDG_STATE_HOME if set; else /var/lib/pgthaw if writable; else in ~/.local/state]
    #[arg(long = "dir", value_name = "DIRECTORY", env = "PGTHAW_SNAPSHOTS", hide_short_help = true)]
    pub directory: Option<PathBuf>,
}

impl SnapshotsArguments {
    /// Adds a given `--dir` to the commands that pgthaw suggests.
    pub fn open(&self) -> SnapshotStore {
        if let Some(directory) = &self.directory {
            terminal::complete_commands_with_store(directory);
        }
        SnapshotStore::open(self.directory.clone())
    }

    /// Rejects a snapshot of another cluster unless `may_be_other`.
    pub fn read(
        &self,
        name: &str,
        connection: &ConnectionArguments,
        cluster: u64,
        situation: &Situation,
        may_be_other: bool,
    ) -> Result<Chosen, cache::Error> {
        let chosen = self.open().read(name, cluster, situation).map_err(|error| self.with_owners(error, connection))?;
        match chosen.snapshot.map.source.system_identifier {
            snapshot if snapshot != cluster && !may_be_other => {
                Err(cache::Error::OtherCluster { path: chosen.selected.holding.path, snapshot, cluster })
            }
            _ => Ok(chosen),
        }
    }

    pub fn with_owners(&self, error: cache::Error, connection: &ConnectionArguments) -> cache::Error {
        match (error, self.find_owners(connection)) {
            (cache::Error::NoSnapshot(directory), Some(elsewhere)) => {
                cache::Error::KeptElsewhere { directory, elsewhere }
            }
            (error, _) => error,
        }
    }

    pub fn remark_owners(
        &self,
        connection: &ConnectionArguments,
        taken: &SnapshotHeader,
        situation: &Situation,
    ) -> Option<String> {
        let elsewhere = self.find_owners(connection)?;
        let store = SnapshotStore::open(Some(elsewhere));
        let (candidates, _) = store.read_candidates(taken.source.system_identifier).ok()?;
        let better = candidates.select_over(taken, situation)?.holding;
        let directory = postgres::quote_argument(&store.root().display().to_string());
        Some(format!(
            "the server's owner has a better snapshot ({}: warmer, or newer and as warm): `pgthaw restore --dir {directory}`",
            better.name
        ))
    }

    /// Another directory that has snapshots of the cluster: that of the server's owner, else /var/lib/pgthaw.
    pub fn find_owners(&self, connection: &ConnectionArguments) -> Option<PathBuf> {
        if self.directory.is_some() {
            return None;
        }
        let directory = find_directory(connection).ok().flatten()?;
        let of_owner = home_of(directory.owner_uid).map(|home| SnapshotStore::in_home(&home));
        let has_some = |store: &SnapshotStore| {
            store.root() != self.open().root()
                && store.read_generations(directory.system_identifier).is_ok_and(|some| !some.is_empty())
        };
        of_owner.into_iter().chain([SnapshotStore::of_machine()]).find(has_some).map(|store| store.root().to_owned())
    }
}

/// Options for the snapshot directory, and for the connection to the server whose snapshots are meant.
#[derive(Debug, Default, Args)]
pub struct SnapshotPlace {
    #[command(flatten)]
    pub snapshots: SnapshotsArguments,

    #[command(flatten)]
    pub connection: ConnectionArguments,
}

#[derive(Clone, Debug, Default)]
pub struct KnownSituation(Option<(u64, Situation)>);

impl KnownSituation {
    pub fn of(&self, system_identifier: u64) -> Situation {
        let known = self.0.as_ref().filter(|(known, _)| *known == system_identifier);
        known.map_or_else(|| Situation::now(LastStart::Unknown, Tiers::BOTH), |(_, situation)| situation.clone())
    }
}

impl SnapshotPlace {
    pub async fn read(&self, name: &str) -> anyhow::Result<Snapshot> {
        Ok(if is_path(name) { Snapshot::read(Path::new(name))? } else { self.find_to_read(name).await?.read()? })
    }

    pub async fn choose(&self) -> anyhow::Result<Chosen> {
        let store = self.snapshots.open();
        let cluster = self.find_cluster(&store).await?;
        let situation = self.ask_situation().await?.0.of(cluster);
        let chosen = self.snapshots.read(BEST, &self.connection, cluster, &situation, true)?;
        chosen.remarks.iter().for_each(|remark| terminal::print_remark(&format!("note: {remark}")));
        Ok(chosen)
    }

    /// If the server does not answer, the beginning of a name must be unique among all clusters.
    pub async fn find_to_read(&self, name: &str) -> anyhow::Result<Generation> {
        match self.find(name).await {
            Err(error) if error.is::<postgres::Error>() => self.snapshots.open().find_beginning(name).ok_or(error),
            found => found,
        }
    }

    /// Connects to the server only for a shortened name.
    pub async fn find(&self, name: &str) -> anyhow::Result<Generation> {
        let store = self.snapshots.open();
        if let Some(called) = store.find_whole_name(name) {
            return Ok(called);
        }
        let chosen = if name == BEST { Some(self.choose().await?.selected.holding.name) } else { None };
        let cluster = self.find_cluster(&store).await?;
        let found = store.find(chosen.as_deref().unwrap_or(name), cluster);
        Ok(found.map_err(|error| self.snapshots.with_owners(error, &self.connection))?)
    }

    pub async fn select(&self, cluster: u64) -> anyhow::Result<Option<Selected>> {
        let (candidates, _) = self.snapshots.open().read_candidates(cluster)?;
        Ok(candidates.select(&self.ask_situation().await?.0.of(cluster)))
    }

    /// Reads the data directory, else queries the server. Returns the query's error only if options name the server.
    pub async fn ask_situation(&self) -> Result<(KnownSituation, Option<anyhow::Error>), postgres::Error> {
        if let Some(directory) = find_directory(&self.connection)?
            && !is_served_invisibly(&directory, &self.connection).await
        {
            let situation = situation_of(&directory, Tiers::BOTH);
            return Ok((KnownSituation(Some((directory.system_identifier, situation))), None));
        }
        let ask = async {
            let target = Target::open(&self.connection).await?;
            let Some(cluster) = target.system_identifier() else { return Ok(None) };
            let situation = target.situation(Tiers::BOTH).await;
            // The list assumes a restore into both tiers.
            Ok(Some((cluster, Situation { tiers: Tiers::BOTH, ..situation })))
        };
        Ok(match timeout(ANSWERS_WITHIN, ask).await {
            Ok(Ok(known)) => (KnownSituation(known), None),
            Ok(Err(error)) => (KnownSituation(None), Some(error).filter(|_| self.connection.names_server())),
            Err(_) => (KnownSituation(None), None),
        })
    }

    /// Queries the server only if options name it, or if there are several clusters.
    pub async fn find_cluster(&self, store: &SnapshotStore) -> anyhow::Result<u64> {
        match store.read_clusters()?.as_slice() {
            [] => {
                let none = cache::Error::NoSnapshot(store.root().to_owned());
                Err(self.snapshots.with_owners(none, &self.connection).into())
            }
            [only] if !self.connection.names_cluster() => Ok(*only),
            _ => Ok(Target::open(&self.connection).await?.system_identifier().unwrap_or_default()),
        }
    }
}
