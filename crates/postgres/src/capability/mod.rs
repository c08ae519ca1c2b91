//! What a server, its directory and its programs let pgthaw do: each answer is tried.

mod directory_checks;
mod extension_checks;
mod server_checks;

use std::path::{Path, PathBuf};

use super::{DataDirectory, Error, Programs, Server};
use host::failure::Capability;

/// What was found out, and what the host's checks need of it.
#[derive(Debug)]
pub struct Checked {
    pub capabilities: Vec<Capability>,
    /// The data directory, when it can be read and is the server's own.
    pub directory: Option<DataDirectory>,
    /// A file of a relation in it.
    pub relation_file: Option<PathBuf>,
    pub server_pid: Option<u32>,
}

/// Checks the server that `connection` led to, or tells why it led nowhere; the data directory `named`, or else the
/// server's; and the extensions in `databases`, or else in all of the cluster.
pub async fn check_server(connection: &Result<Server, Error>, databases: &[String], named: Option<&Path>) -> Checked {
    let server = connection.as_ref().ok();
    let mut capabilities = vec![server_checks::check_connection(connection)];
    let (directory_line, directory) = directory_checks::check_data_directory(server, named);
    let ownership = directory_checks::check_ownership(directory.as_ref(), &directory_line);
    capabilities.extend([directory_line, ownership]);
    match server {
        Some(server) => {
            capabilities.push(server_checks::check_role(server).await);
            capabilities.push(server_checks::check_io(&server.facts));
            capabilities.extend(extension_checks::check_extensions(server, databases).await);
        }
        None => capabilities.extend(without_server()),
    }
    let server_pid = match server {
        Some(server) => server.facts.postmaster_pid,
        None => directory.as_ref().and_then(DataDirectory::read_postmaster).map(|postmaster| postmaster.pid),
    };
    let relation_file = directory.as_ref().and_then(directory_checks::find_relation_file);
    Checked { capabilities, directory, relation_file, server_pid }
}

/// The lines that need a server, when none answered.
fn without_server() -> Vec<Capability> {
    let remedy = "start the server, or say where it is: -h, -p, -U, -d";
    let names = [server_checks::NAMES.as_slice(), extension_checks::NAMES.as_slice()];
    let groups = [server_checks::GROUP, extension_checks::GROUP];
    let lines = groups.into_iter().zip(names).flat_map(|(group, names)| names.iter().map(move |name| (group, *name)));
    lines.map(|(group, name)| Capability::no(group, name, "no server answered", remedy)).collect()
}

/// Looks for pgbench, which makes the load of a benchmark.
pub fn check_pgbench() -> Capability {
    const GROUP: &str = "other tools";
    const NAME: &str = "pgbench";
    match Programs::find(None).and_then(|programs| programs.path(NAME)) {
        Ok(path) => Capability::yes(GROUP, NAME, path.display().to_string()),
        Err(error) => Capability::failed(GROUP, NAME, &error),
    }
}
