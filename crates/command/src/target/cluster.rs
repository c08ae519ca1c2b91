//! A cluster that is meant, and what it tells of itself.

use cache::warm::Refusal;
use cache::{Databases, LastStart, Situation, Tiers};
use host::linux::page_cache::SystemPageCache;
use postgres::{DataDirectory, Database, Error, Server, ServerFacts, read_databases};

/// A cluster, by the ways that lead to it. At least one of `server` and `data_directory` is there.
#[derive(Debug)]
pub struct Target {
    /// `None`: its files alone.
    pub server: Option<Server>,
    /// Why not, of one that runs and does not let pgthaw in.
    pub server_refusal: Option<Error>,
    /// `None`: SQL alone.
    pub data_directory: Option<DataDirectory>,
    /// Why not.
    pub directory_refusal: Option<Refusal>,
    pub scope: Scope,
    /// What the user should know about the way that was taken.
    pub remarks: Vec<String>,
}

/// Which databases. The shared catalogs always belong to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    All,
    Databases(Vec<String>),
}

impl Scope {
    /// What `-d` means, as often as it was given.
    pub fn of(databases: &[String]) -> Scope {
        match databases {
            [] => Scope::All,
            names => Scope::Databases(names.to_vec()),
        }
    }

    /// Is this database meant? The shared catalogs' is empty.
    pub fn includes(&self, database: &str) -> bool {
        match self {
            Scope::All => true,
            Scope::Databases(names) => database.is_empty() || names.iter().any(|name| name == database),
        }
    }
}

/// The page cache of a directory's files, and of no others.
pub fn page_cache_of(directory: Option<&DataDirectory>) -> SystemPageCache {
    directory.map_or_else(SystemPageCache::new, |directory| SystemPageCache::of(&directory.files))
}

impl Target {
    /// The server's process as it is now, where it runs on this host.
    pub fn find_postmaster(&self) -> Option<u32> {
        let postmaster = self.data_directory.as_ref().and_then(DataDirectory::find_postmaster_pid);
        let told = self.server.as_ref().and_then(|server| server.facts.postmaster_pid);
        postmaster.or(told)
    }

    /// The cache of its files.
    pub fn page_cache(&self) -> SystemPageCache {
        page_cache_of(self.data_directory.as_ref())
    }

    /// What a directory is, by the server that runs in it.
    pub fn of_directory(
        directory: DataDirectory,
        server: Option<Server>,
        scope: Scope,
        remarks: Vec<String>,
    ) -> Target {
        let data_directory = Some(directory);
        Target { server, server_refusal: None, data_directory, directory_refusal: None, scope, remarks }
    }

    /// Closes the first connection, where it was kept.
    pub fn let_go(&mut self) {
        if let Some(server) = &mut self.server {
            server.let_go();
        }
    }

    /// The databases in the scope, by name. Without a server only their oids are known, which stand for the names.
    pub async fn databases(&self) -> Result<Vec<Database>, Error> {
        let mut databases = match (&self.server, &self.data_directory) {
            (Some(server), _) => {
                let mut connection = server.connect_to(&server.database).await?;
                let databases = read_databases(&mut connection).await?;
                server.give_back(connection);
                databases
            }
            (None, Some(directory)) => directory.list_databases()?,
            (None, None) => Vec::new(),
        };
        if let Scope::Databases(names) = &self.scope {
            let is_absent = |name: &&String| databases.iter().all(|database| database.name != **name);
            if let Some(name) = names.iter().find(is_absent) {
                let (database, cluster) = (name.clone(), self.address());
                return Err(match self.server {
                    Some(_) => Error::DatabaseMissing { database, cluster },
                    None => {
                        let oids: Vec<&str> = databases.iter().map(|known| known.name.as_str()).collect();
                        Error::DatabaseUnknown { database, cluster, oids: oids.join(", ") }
                    }
                });
            }
        }
        databases.retain(|database| self.scope.includes(&database.name));
        Ok(databases)
    }

    /// When its server was started.
    pub fn last_start(&self) -> LastStart {
        match (&self.data_directory, &self.server) {
            // A server that runs elsewhere, as in a container, shows in SQL alone.
            (_, Some(Server { started_at: Some(at), facts: ServerFacts { postmaster_pid: None, .. }, .. })) => {
                LastStart::At(*at)
            }
            (Some(directory), _) => last_start_of(directory),
            (None, Some(server)) => server.started_at.map_or(LastStart::Unknown, LastStart::At),
            (None, None) => LastStart::Unknown,
        }
    }

    /// What decides which snapshot is to be restored into `tiers`. Over SQL alone that is shared_buffers.
    pub async fn situation(&self, tiers: Tiers) -> Situation {
        let os = tiers.os && (self.data_directory.is_some() || !tiers.buffers);
        let databases = match (&self.data_directory, &self.server) {
            (Some(directory), _) => databases_of(directory),
            (None, Some(server)) => ask_databases(server).await.ok().flatten(),
            (None, None) => None,
        };
        Situation::now(self.last_start(), Tiers { os, ..tiers }).among(databases)
    }

    /// Which cluster it is.
    pub fn system_identifier(&self) -> Option<u64> {
        let of_server = self.server.as_ref().map(|server| server.facts.system_identifier);
        of_server.or(self.data_directory.as_ref().map(|directory| directory.system_identifier))
    }

    /// For messages: the server's address, or the directory.
    pub fn address(&self) -> String {
        match (&self.server, &self.data_directory) {
            (Some(server), _) => server.address.clone(),
            (None, Some(directory)) => directory.path.display().to_string(),
            (None, None) => String::new(),
        }
    }
}

async fn ask_databases(server: &Server) -> Result<Option<Databases>, Error> {
    let mut connection = server.connect_to(&server.database).await?;
    let databases = read_databases(&mut connection).await?;
    server.give_back(connection);
    Ok(Databases::of(databases.iter().map(|one| one.oid)))
}

/// Which databases have files; `None` where this user may not see that.
fn databases_of(directory: &DataDirectory) -> Option<Databases> {
    Databases::of(directory.list_databases().ok()?.iter().map(|one| one.oid))
}

/// What decides which snapshot is to be restored into `tiers`, by the directory alone.
pub fn situation_of(directory: &DataDirectory, tiers: Tiers) -> Situation {
    Situation::now(last_start_of(directory), tiers).among(databases_of(directory))
}

/// When the server of a directory was started, by the directory alone.
fn last_start_of(directory: &DataDirectory) -> LastStart {
    match directory.read_postmaster() {
        Some(postmaster) => postmaster.read_start().map_or(LastStart::Unknown, LastStart::At),
        None => LastStart::NotRunning,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_always_has_the_shared_catalogs() {
        let scope = Scope::Databases(vec!["shop".into()]);
        assert!(scope.includes("shop") && scope.includes("") && !scope.includes("shop2"));
        assert!(Scope::All.includes("anything"));
    }
}
