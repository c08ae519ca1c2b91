//! What the user means: a running server, a data directory, or both, and which of its databases.

use std::io;
use std::path::Path;

use super::ConnectionArguments;
use crate::failure::Explain as _;
use crate::postgres::{ConnectOptions, DataDirectory, Database, Error, Postmaster, Server, read_databases};

/// A cluster, by the ways that lead to it. At least one of `server` and `data_directory` is there.
#[derive(Debug)]
pub struct Target {
    /// `None`: its files alone.
    pub server: Option<Server>,
    /// `None`: SQL alone.
    pub data_directory: Option<DataDirectory>,
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
    /// Is this database meant? The shared catalogs' is empty.
    pub fn includes(&self, database: &str) -> bool {
        match self {
            Scope::All => true,
            Scope::Databases(names) => database.is_empty() || names.iter().any(|name| name == database),
        }
    }
}

impl Target {
    /// Finds out what the arguments mean, and opens it.
    pub async fn open(arguments: &ConnectionArguments) -> anyhow::Result<Target> {
        let scope = match arguments.databases.as_slice() {
            [] => Scope::All,
            names => Scope::Databases(names.to_vec()),
        };
        let target = match &arguments.data_dir {
            Some(path) if arguments.names_server() => open_both(arguments, path, scope).await?,
            Some(path) => open_directory(arguments, path, scope).await?,
            None => open_server(arguments, scope).await?,
        };
        Ok(target)
    }

    /// The databases in the scope, by name. Without a server only their oids are known, which stand for the names.
    pub async fn databases(&self) -> Result<Vec<Database>, Error> {
        let mut databases = match (&self.server, &self.data_directory) {
            (Some(server), _) => read_databases(&mut server.connect_to(&server.database).await?).await?,
            (None, Some(directory)) => directory.list_databases()?,
            (None, None) => Vec::new(),
        };
        if let Scope::Databases(names) = &self.scope {
            let is_absent = |name: &&String| databases.iter().all(|database| database.name != **name);
            if let Some(name) = names.iter().find(is_absent) {
                return Err(Error::DatabaseMissing { database: name.clone(), cluster: self.address() });
            }
        }
        databases.retain(|database| self.scope.includes(&database.name));
        Ok(databases)
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

/// The server and the directory are both named: they must be the same cluster.
async fn open_both(arguments: &ConnectionArguments, path: &Path, scope: Scope) -> Result<Target, Error> {
    let directory = DataDirectory::open(path)?;
    let server = Server::connect(&arguments.connect_options()).await?;
    require_same(&directory, &server)?;
    let mut remarks: Vec<String> = server.version_remark().into_iter().collect();
    remarks.extend(different_place_remark(&directory, &server));
    Ok(Target { server: Some(server), data_directory: Some(directory), scope, remarks })
}

/// Only the directory is named: the server that runs in it belongs to it.
async fn open_directory(arguments: &ConnectionArguments, path: &Path, scope: Scope) -> Result<Target, Error> {
    let directory = DataDirectory::open(path)?;
    let Some(postmaster) = directory.read_postmaster() else {
        let remarks = vec![format!("no server runs in {}: its files are looked at alone", directory.path.display())];
        return Ok(Target { server: None, data_directory: Some(directory), scope, remarks });
    };
    match Server::connect(&options_for(&postmaster, arguments)).await {
        Ok(server) => {
            require_same(&directory, &server)?;
            let remarks = server.version_remark().into_iter().collect();
            Ok(Target { server: Some(server), data_directory: Some(directory), scope, remarks })
        }
        // Databases are told apart by name only by the server.
        Err(error) if scope != Scope::All => Err(error),
        Err(error) => {
            let hint = error.hint().map(|hint| format!(" ({hint})")).unwrap_or_default();
            let remarks = vec![format!("its files are looked at alone, for pgthaw {error}{hint}")];
            Ok(Target { server: None, data_directory: Some(directory), scope, remarks })
        }
    }
}

/// Only a server is meant: its directory is used if it is here.
async fn open_server(arguments: &ConnectionArguments, scope: Scope) -> Result<Target, Error> {
    let server = Server::connect(&arguments.connect_options()).await?;
    let mut remarks: Vec<String> = server.version_remark().into_iter().collect();
    let data_directory = match find_directory(&server) {
        Ok(directory) => Some(directory),
        Err(why) => {
            remarks.push(format!("SQL alone is used, the OS page cache cannot be seen: {why}"));
            None
        }
    };
    Ok(Target { server: Some(server), data_directory, scope, remarks })
}

/// The directory of a server that runs on this host; otherwise why not, and what would help.
fn find_directory(server: &Server) -> Result<DataDirectory, String> {
    let Some(path) = &server.facts.data_directory else {
        return Err(format!(
            "role \"{}\" may not see the setting data_directory (GRANT pg_monitor TO \"{}\", or name the directory with --data-dir)",
            server.facts.role, server.facts.role
        ));
    };
    let shown = path.display();
    match DataDirectory::open(path) {
        Ok(directory) if server.facts.postmaster_pid.is_some() => Ok(directory),
        Ok(_) => Err(format!(
            "{shown} is on this host too, but the server does not run here (if the directory is the server's, such as a container's, say so with --data-dir)"
        )),
        Err(Error::DataDirectory { .. }) => {
            Err(format!("the server's data directory {shown} is not on this host (run pgthaw on the server's host)"))
        }
        Err(Error::File { source, .. }) if source.kind() == io::ErrorKind::PermissionDenied => {
            Err(format!("no permission on {shown} (run pgthaw as its owner, usually postgres, or as root)"))
        }
        Err(error) => Err(error.to_string()),
    }
}

/// How to reach the server that runs in a directory.
fn options_for(postmaster: &Postmaster, arguments: &ConnectionArguments) -> ConnectOptions {
    let socket = postmaster.socket_directory.as_ref().map(|directory| directory.display().to_string());
    ConnectOptions {
        host: socket.or(postmaster.listen_address.clone()).or(Some("localhost".into())),
        port: postmaster.port,
        ..arguments.connect_options()
    }
}

fn require_same(directory: &DataDirectory, server: &Server) -> Result<(), Error> {
    if directory.system_identifier == server.facts.system_identifier {
        return Ok(());
    }
    Err(Error::OtherCluster {
        path: directory.path.clone(),
        directory: directory.system_identifier,
        server: server.facts.system_identifier,
        address: server.address.clone(),
    })
}

/// A standby has its primary's system identifier: one that is named by mistake shows in the path.
fn different_place_remark(directory: &DataDirectory, server: &Server) -> Option<String> {
    let of_server = server.facts.data_directory.as_ref()?;
    let is_same = of_server.canonicalize().is_ok_and(|path| path == directory.path);
    (!is_same).then(|| {
        format!(
            "the server says that its data directory is {}; {} is taken for it, as both have system identifier {}",
            of_server.display(),
            directory.path.display(),
            directory.system_identifier
        )
    })
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

    #[test]
    fn the_server_of_a_directory_is_reached_by_its_socket() {
        let arguments = ConnectionArguments { username: Some("u".into()), ..Default::default() };
        let mut postmaster = Postmaster {
            pid: 1,
            port: Some(5433),
            socket_directory: Some("/run/x".into()),
            listen_address: Some("10.0.0.1".into()),
        };
        let options = options_for(&postmaster, &arguments);
        assert_eq!((options.host.as_deref(), options.port), (Some("/run/x"), Some(5433)));
        assert_eq!(options.user.as_deref(), Some("u"));
        postmaster.socket_directory = None;
        assert_eq!(options_for(&postmaster, &arguments).host.as_deref(), Some("10.0.0.1"));
        postmaster.listen_address = None;
        assert_eq!(options_for(&postmaster, &arguments).host.as_deref(), Some("localhost"));
    }
}
