//! A target of which only the server is named: its data directory is used if it is here.

use std::io;

use super::{Scope, Target};
use crate::commands::ConnectionArguments;
use crate::postgres::{DataDirectory, Error, Psql, Server, ServerFacts};

/// Connects, and finds the directory.
pub(super) async fn open_server(arguments: &ConnectionArguments, scope: Scope) -> Result<Target, Error> {
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
        let ServerFacts { role, .. } = &server.facts;
        let remedy = Psql::at(&server.address).grant(&server.database, "pg_monitor", role);
        return Err(format!(
            "role \"{role}\" may not see the setting data_directory ({remedy}, or name the directory with --data-dir)"
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
