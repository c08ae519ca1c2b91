//! What the user means: a running server, a data directory, or both, and which of its databases.

mod cluster;
mod directory;
mod server;

use super::ConnectionArguments;
use postgres::{DataDirectory, Error, Server};

pub use cluster::{Scope, Target, page_cache_of, situation_of};

impl Target {
    /// Finds out what the arguments mean, and opens it.
    pub async fn open(arguments: &ConnectionArguments) -> anyhow::Result<Target> {
        let scope = Scope::of(&arguments.databases()?);
        let mut target = match &arguments.data_dir {
            Some(path) if arguments.names_server() => directory::open_both(arguments, path, scope).await?,
            Some(path) => directory::open_directory(arguments, path, scope).await?,
            None => server::open_server(arguments, scope).await?,
        };
        // Programs read them too.
        target.remarks.iter_mut().for_each(|text| *text = terminal::complete_commands(text));
        Ok(target)
    }
}

/// Connects to the server that the arguments mean: where a directory alone is named, to the one that runs in it.
pub async fn connect_to_meant(arguments: &ConnectionArguments) -> Result<Server, Error> {
    let Some(path) = arguments.data_dir.as_ref().filter(|_| !arguments.names_server()) else {
        return arguments.connect(|options| options).await;
    };
    let directory = DataDirectory::open(path)?;
    match directory.read_postmaster() {
        Some(postmaster) => arguments.connect(|options| directory::options_for(&postmaster, options)).await,
        None => Err(Error::NotRunning { path: directory.path }),
    }
}

/// The cluster, when it can be known without asking the server.
pub fn find_cluster(arguments: &ConnectionArguments) -> Option<u64> {
    find_directory(arguments).ok().flatten().map(|directory| directory.system_identifier)
}

/// The data directory, when it can be known without asking the server.
pub fn find_directory(arguments: &ConnectionArguments) -> Result<Option<DataDirectory>, Error> {
    match &arguments.data_dir {
        Some(path) => DataDirectory::open(path).map(Some),
        None => {
            let socket = arguments.connect_options()?.socket_file();
            Ok(socket.and_then(|file| DataDirectory::of_socket(&file)))
        }
    }
}
