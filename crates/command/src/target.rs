//! Resolves the options to a server, a data directory or both, and their databases.

use std::io;
use std::path::PathBuf;

use clap::Args;

use crate::ConnectionArguments;
use cache::warm::{Refusal, SkipReason};
use cache::{Databases, LastStart, MapInputs, Situation, Tiers};
use host::failure::{ErrorKind, Explain};
use host::linux::page_cache::SystemPageCache;
use postgres::{
    Address, ConnectOptions, DataDirectory, Database, Error, Postmaster, Server, ServerFacts, grant,
    read_configured_setting, read_databases,
};
use terminal::printable;

/// Connects to the named server; with `--data-dir` alone, to the server that runs in that directory.
pub async fn connect_to_meant(arguments: &ConnectionArguments) -> Result<Server, Error> {
    match arguments.open_directory()?.filter(|_| !arguments.names_server()) {
        None => arguments.connect(|options| options).await,
        Some(directory) => connect_to_server_of(&directory, arguments).await,
    }
}

async fn connect_to_server_of(directory: &DataDirectory, arguments: &ConnectionArguments) -> Result<Server, Error> {
    let Some(found) = directory.find_postmaster() else { return connect_to_invisible(directory, arguments).await };
    let pid = found.pid;
    let Some(postmaster) = directory.reach(found) else {
        return connect_to_invisible(directory, arguments).await.map_err(|_| Error::InContainer {
            path: directory.path.clone(),
            pid,
            action: "open its socket",
        });
    };
    let server = arguments.connect(|options| options_for(&postmaster, options)).await?;
    server.require_cluster_of(directory)?;
    Ok(server)
}

/// Connects to a server in another container that shares the directory, through the shared socket or the shared network.
/// Sends no password: without a visible process, nothing proves that the lock file's server has the address.
async fn connect_to_invisible(directory: &DataDirectory, arguments: &ConnectionArguments) -> Result<Server, Error> {
    let not_running = || Error::NotRunning { path: directory.path.clone() };
    let lock = directory.read_lock().ok_or_else(not_running)?;
    let has_socket = |place: &PathBuf| lock.port.is_some_and(|port| place.join(format!(".s.PGSQL.{port}")).exists());
    let address =
        Postmaster { socket_directory: lock.socket_directory.filter(has_socket), listen_address: None, ..lock };
    let arguments = ConnectionArguments { ask_password: false, no_password: true, ..arguments.clone() };
    let server = arguments.connect(|options| options_for(&address, options)).await.ok();
    server.filter(|server| server.has_locked(directory)).ok_or_else(not_running)
}

/// Whether only the server's process is invisible, as from another container: the server itself answers.
pub async fn is_served_invisibly(directory: &DataDirectory, arguments: &ConnectionArguments) -> bool {
    directory.find_postmaster().is_none() && connect_to_invisible(directory, arguments).await.is_ok()
}

/// System identifier, if known without connecting.
pub fn find_cluster(arguments: &ConnectionArguments) -> Option<u64> {
    find_directory(arguments).ok().flatten().map(|directory| directory.system_identifier)
}

/// Data directory, if known without connecting.
pub fn find_directory(arguments: &ConnectionArguments) -> Result<Option<DataDirectory>, Error> {
    if let Some(directory) = arguments.open_directory()? {
        return Ok(Some(directory));
    }
    let socket = arguments.connect_options()?.socket_file();
    Ok(socket.and_then(|file| DataDirectory::of_socket(&file)))
}

/// Address of the server, if known without connecting.
pub fn find_address(arguments: &ConnectionArguments) -> Option<Address> {
    let options = arguments.connect_options().ok()?;
    let options = match arguments.open_directory().ok()?.filter(|_| !arguments.names_server()) {
        Some(directory) => options_for(&directory.reach(directory.find_postmaster()?)?, options),
        None => options,
    };
    options.describe().ok()
}

/// A cluster. At least one of `server` and `data_directory` is present.
#[derive(Debug, Default)]
pub struct Target {
    /// `None` if pgthaw uses only files.
    pub server: Option<Server>,
    /// Why a running server refused the connection.
    pub server_refusal: Option<Error>,
    /// `None` if pgthaw uses only SQL.
    pub data_directory: Option<DataDirectory>,
    pub directory_refusal: Option<Refusal>,
    pub scope: Scope,
    pub remarks: Vec<String>,
}

/// Names of the selected databases; empty means all. The shared catalogs are always included.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope(pub Vec<String>);

impl Scope {
    /// `database` is empty for a shared catalog.
    pub fn includes(&self, database: &str) -> bool {
        self.0.is_empty() || database.is_empty() || self.0.iter().any(|name| name == database)
    }
}

pub fn page_cache_of(directory: Option<&DataDirectory>) -> SystemPageCache {
    directory.map_or_else(SystemPageCache::new, |directory| SystemPageCache::of(&directory.files))
}

impl Target {
    pub async fn open(arguments: &ConnectionArguments) -> anyhow::Result<Target> {
        let scope = Scope(arguments.databases()?);
        Ok(match arguments.open_directory()? {
            Some(directory) if arguments.names_server() => {
                let server = arguments.connect(|options| options).await?;
                server.require_cluster_of(&directory)?;
                let place = different_place_remark(&directory, &server);
                let remarks = server.version_remark().into_iter().chain(place).collect();
                let (server, data_directory) = (Some(server), Some(directory));
                Target { server, data_directory, scope, remarks, ..Target::default() }
            }
            Some(directory) => open_directory(arguments, directory, scope).await?,
            None => open_server(arguments, scope).await?,
        })
    }

    /// `None` if the server does not run on this host.
    pub fn find_postmaster(&self) -> Option<u32> {
        let postmaster = self.data_directory.as_ref().and_then(DataDirectory::find_postmaster_pid);
        let told = self.server.as_ref().and_then(|server| server.facts.postmaster_pid);
        postmaster.or(told)
    }

    /// # Errors
    /// `NotRunning` if only files are used.
    pub fn require_server(&self) -> Result<&Server, Error> {
        self.server.as_ref().ok_or_else(|| Error::NotRunning { path: self.address().into() })
    }

    pub fn page_cache(&self) -> SystemPageCache {
        page_cache_of(self.data_directory.as_ref())
    }

    pub fn map_inputs<'a>(&'a self, page_cache: &'a SystemPageCache, databases: &'a [Database]) -> MapInputs<'a> {
        let (server, data_directory) = (self.server.as_ref(), self.data_directory.as_ref());
        MapInputs { server, data_directory, ..MapInputs::of(page_cache, databases) }
    }

    pub fn let_go(&mut self) {
        self.server.iter_mut().for_each(Server::let_go);
    }

    /// Without a server, OIDs serve as names.
    pub async fn databases(&self) -> Result<Vec<Database>, Error> {
        let mut databases = match (&self.server, &self.data_directory) {
            (Some(server), _) => ask_databases(server).await?,
            (None, Some(directory)) => directory.list_databases(&mut Vec::new())?,
            (None, None) => Vec::new(),
        };
        let is_absent = |name: &&String| databases.iter().all(|database| database.name != **name);
        if let Some(name) = self.scope.0.iter().find(is_absent) {
            let (database, cluster) = (name.clone(), self.address());
            return Err(match self.server {
                Some(_) => Error::DatabaseMissing { database, cluster },
                None => {
                    let oids: Vec<&str> = databases.iter().map(|known| known.name.as_str()).collect();
                    Error::DatabaseUnknown { database, cluster, oids: oids.join(", ") }
                }
            });
        }
        databases.retain(|database| self.scope.includes(&database.name));
        Ok(databases)
    }

    pub fn last_start(&self) -> LastStart {
        let told = self.server.as_ref().and_then(|server| server.started_at).map_or(LastStart::Unknown, LastStart::At);
        match (&self.data_directory, &self.server) {
            // On another host or in a container, only SQL knows the server's start.
            (_, Some(Server { started_at: Some(_), facts: ServerFacts { postmaster_pid: None, .. }, .. })) => told,
            (Some(directory), None) => last_start_of(directory),
            // A server that answers is running, even if its process is invisible, as in a container.
            (Some(directory), Some(_)) => match last_start_of(directory) {
                LastStart::NotRunning => told,
                known => known,
            },
            (None, _) => told,
        }
    }

    /// Over SQL alone, only shared_buffers can be restored, so `tiers.os` is ignored if both tiers are set.
    pub async fn situation(&self, tiers: Tiers) -> Situation {
        let os = tiers.os && (self.data_directory.is_some() || !tiers.buffers);
        let databases = match (&self.data_directory, &self.server) {
            (Some(directory), _) => databases_of(directory),
            (None, Some(server)) => ask_databases(server).await.ok().and_then(oids_of),
            (None, None) => None,
        };
        let directory = self.data_directory.as_ref().map(|directory| directory.path.clone());
        Situation::now(self.last_start(), Tiers { os, ..tiers }).among(databases).of(directory)
    }

    pub fn system_identifier(&self) -> Option<u64> {
        let of_server = self.server.as_ref().map(|server| server.facts.system_identifier);
        of_server.or(self.data_directory.as_ref().map(|directory| directory.system_identifier))
    }

    pub fn address(&self) -> String {
        match (&self.server, &self.data_directory) {
            (Some(server), _) => server.address.clone(),
            (None, Some(directory)) => directory.path.display().to_string(),
            (None, None) => String::new(),
        }
    }
}

async fn ask_databases(server: &Server) -> Result<Vec<Database>, Error> {
    let mut connection = server.connect_to(&server.database).await?;
    let databases = read_databases(&mut connection).await?;
    server.give_back(connection);
    Ok(databases)
}

fn oids_of(databases: Vec<Database>) -> Option<Databases> {
    Databases::of(databases.iter().map(|one| one.oid))
}

fn databases_of(directory: &DataDirectory) -> Option<Databases> {
    directory.list_databases(&mut Vec::new()).ok().and_then(oids_of)
}

pub fn situation_of(directory: &DataDirectory, tiers: Tiers) -> Situation {
    let situation = Situation::now(last_start_of(directory), tiers).among(databases_of(directory));
    situation.of(Some(directory.path.clone()))
}

fn last_start_of(directory: &DataDirectory) -> LastStart {
    match directory.find_postmaster() {
        Some(postmaster) => postmaster.read_start().map_or(LastStart::Unknown, LastStart::At),
        None => LastStart::NotRunning,
    }
}

async fn open_directory(
    arguments: &ConnectionArguments,
    directory: DataDirectory,
    scope: Scope,
) -> Result<Target, Error> {
    let (server, server_refusal, remark) = match connect_to_server_of(&directory, arguments).await {
        Ok(server) => {
            let remark = server.version_remark();
            (Some(server), None, remark)
        }
        Err(error @ (Error::NotRunning { .. } | Error::InContainer { .. })) => {
            (None, None, Some(format!("{error}; pgthaw reads only the files of the cluster")))
        }
        Err(error @ Error::OtherCluster { .. }) => return Err(error),
        // Only the server knows the databases' names.
        Err(error) if scope != Scope::default() => return Err(error),
        Err(error) => {
            let remark = format!("{}; pgthaw reads only the files of the data directory", error.with_hint());
            (None, Some(error), Some(remark))
        }
    };
    let (data_directory, remarks) = (Some(directory), remark.into_iter().collect());
    Ok(Target { server, server_refusal, data_directory, scope, remarks, ..Target::default() })
}

fn options_for(postmaster: &Postmaster, options: ConnectOptions) -> ConnectOptions {
    let socket = postmaster.socket_directory.as_ref().map(|directory| directory.display().to_string());
    ConnectOptions {
        host: socket.or(postmaster.listen_address.clone()).or(Some("localhost".into())),
        port: postmaster.port,
        address_was_read: true,
        postmaster_pid: (!postmaster.is_here).then_some(postmaster.pid),
        ..options
    }
}

/// A standby has its primary's system identifier, so only the path shows a wrong directory.
fn different_place_remark(directory: &DataDirectory, server: &Server) -> Option<String> {
    let of_server = server.facts.data_directory.as_ref().filter(|_| directory.files.container().is_none())?;
    let is_same = of_server.canonicalize().is_ok_and(|path| path == directory.path);
    (!is_same).then(|| {
        format!(
            "the server reports the data directory {}; pgthaw uses {}, which has the same system identifier {}",
            of_server.display(),
            directory.path.display(),
            directory.system_identifier
        )
    })
}

async fn open_server(arguments: &ConnectionArguments, scope: Scope) -> Result<Target, Error> {
    let server = arguments.connect(|options| options).await?;
    let mut remarks: Vec<String> = server.version_remark().into_iter().collect();
    let (data_directory, directory_refusal) = match find_own_directory(&server) {
        Ok(directory) => (Some(directory), None),
        Err((reason, why)) => {
            remarks.push(format!("pgthaw uses only SQL and cannot see the OS page cache: {why}"));
            (None, Some(Refusal::with_detail(reason, why)))
        }
    };
    Ok(Target { server: Some(server), data_directory, directory_refusal, scope, remarks, ..Target::default() })
}

fn find_own_directory(server: &Server) -> Result<DataDirectory, (SkipReason, String)> {
    let Some(path) = &server.facts.data_directory else {
        let ServerFacts { role, .. } = &server.facts;
        if let Some(owner) = server.closed_owner() {
            // A GRANT would not help: the files would stay inaccessible.
            let owner = printable(&owner.name);
            let why = format!(
                "only {owner}, the owner of the server's files, and root can see which of them are cached (run pgthaw as {owner} or as root)"
            );
            return Err((SkipReason::NoPermission, why));
        }
        let remedy = grant(&server.database, "pg_monitor", role);
        let why = format!(
            "role \"{role}\" may not read the setting data_directory ({remedy}, or give the directory with --data-dir)"
        );
        return Err((SkipReason::NoPrivilege, why));
    };
    let shown = path.display();
    let is_own = |directory: &DataDirectory| {
        server.facts.postmaster_pid.is_some() || directory.find_postmaster().is_none() && server.has_locked(directory)
    };
    let (reason, why) = match server.open_directory(path) {
        Ok(directory) if is_own(&directory) => return Ok(directory),
        Ok(_) => (
            SkipReason::NoDataDirectory,
            format!(
                "{shown} exists on this host, but no server process uses it here (if the server runs in a container, run pgthaw as root; if this is its directory, give it with --data-dir)"
            ),
        ),
        Err(Error::DataDirectory { .. }) => (
            SkipReason::NoDataDirectory,
            format!(
                "no server process on this host has the data directory {shown} (run pgthaw on the server's host; for a container there, as root)"
            ),
        ),
        Err(Error::File { source, .. }) if source.kind() == io::ErrorKind::PermissionDenied => (
            SkipReason::NoPermission,
            format!("no permission on {shown} (run pgthaw as its owner, usually postgres, or as root)"),
        ),
        Err(error) if error.is_too_few_files() => (SkipReason::TooFewFiles, error.with_hint()),
        Err(error) => (SkipReason::NoDataDirectory, error.to_string()),
    };
    Err((reason, why))
}

// Servers whose caches pgthaw may empty: marked by `cluster_name` or by the settings.

const LAB_PREFIXES: [&str; 2] = ["lab", "pgthaw"];

/// Which servers may be made cold or restarted.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Safety")]
pub struct LabArguments {
    /// Proceed even if this is not a lab server
    #[arg(long)]
    pub yes: bool,

    /// System identifier (see pg_controldata) of a lab server, which pgthaw may restart and evict without asking; may
    /// be repeated. In pgthaw.toml: lab_servers
    #[arg(long = "lab-server", value_name = "IDENTIFIER", hide_short_help = true)]
    pub lab_servers: Vec<u64>,
}

#[derive(Debug, thiserror::Error)]
#[error("{action} makes the server at {address} slow until it is warm again, and it is not a lab server")]
pub struct NotALabServer {
    action: &'static str,
    address: String,
    system_identifier: Option<u64>,
}

impl Explain for NotALabServer {
    fn kind(&self) -> ErrorKind {
        ErrorKind::Usage
    }

    fn hint(&self) -> Option<String> {
        let identifier = self.system_identifier.map_or("its system identifier".to_owned(), |number| number.to_string());
        Some(format!(
            "use --yes to run the command anyway; a lab server has the cluster_name lab or lab-..., or is listed in pgthaw.toml: lab_servers = [{identifier}]"
        ))
    }
}

pub fn is_lab_server(target: &Target, lab_servers: &[u64]) -> bool {
    target.system_identifier().is_some_and(|identifier| lab_servers.contains(&identifier))
        || is_lab_name(&cluster_name(target))
}

fn cluster_name(target: &Target) -> String {
    match (&target.server, &target.data_directory) {
        (Some(server), _) => server.facts.cluster_name.clone(),
        // A server with an unknown name is no lab server.
        (None, Some(directory)) => read_configured_setting(directory, "cluster_name").unwrap_or_default(),
        (None, None) => String::new(),
    }
}

/// Refuses `action` (the command's name) without `--yes`, unless the server is a lab server.
pub fn require_lab_server(
    target: &Target,
    arguments: &LabArguments,
    action: &'static str,
) -> Result<(), NotALabServer> {
    if arguments.yes || is_lab_server(target, &arguments.lab_servers) {
        return Ok(());
    }
    Err(NotALabServer { action, address: target.address(), system_identifier: target.system_identifier() })
}

fn is_lab_name(cluster_name: &str) -> bool {
    let is_rest = |rest: &str| rest.is_empty() || rest.starts_with(['-', '_']);
    LAB_PREFIXES.iter().any(|prefix| cluster_name.strip_prefix(prefix).is_some_and(is_rest))
}

#[cfg(test)]
mod cluster_tests {
    use super::*;

    #[test]
    fn a_scope_always_has_the_shared_catalogs() {
        let scope = Scope(vec!["shop".into()]);
        assert!(scope.includes("shop") && scope.includes("") && !scope.includes("shop2"));
        assert!(Scope::default().includes("anything"));
    }
}

#[cfg(test)]
mod directory_tests {
    use super::*;

    #[test]
    fn the_server_of_a_directory_is_reached_by_its_socket() {
        let given = ConnectOptions { user: Some("u".into()), ..Default::default() };
        let options_for = |postmaster: &Postmaster| super::options_for(postmaster, given.clone());
        let mut postmaster = Postmaster {
            pid: 1,
            port: Some(5433),
            socket_directory: Some("/run/x".into()),
            listen_address: Some("10.0.0.1".into()),
            started_at: None,
            is_here: true,
        };
        let options = options_for(&postmaster);
        assert_eq!((options.host.as_deref(), options.port), (Some("/run/x"), Some(5433)));
        assert_eq!((options.user.as_deref(), options.address_was_read), (Some("u"), true));
        postmaster.socket_directory = None;
        assert_eq!(options_for(&postmaster).host.as_deref(), Some("10.0.0.1"));
        postmaster.listen_address = None;
        assert_eq!(options_for(&postmaster).host.as_deref(), Some("localhost"));
    }
}

#[cfg(test)]
mod lab_server_tests {
    use super::*;
    use postgres::LAB_CLUSTER_NAME;

    #[test]
    fn production_is_no_lab() {
        for name in ["", "main", "production", "elaborate", "my-lab", "labour-payroll"] {
            assert!(!is_lab_name(name), "{name}");
        }
        for name in ["lab", "lab-7", LAB_CLUSTER_NAME] {
            assert!(is_lab_name(name), "{name}");
        }
    }
}
