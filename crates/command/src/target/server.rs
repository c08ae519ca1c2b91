//! A target of which only the server is named: its data directory is used if it is here.

use std::io;

use super::cluster::{Scope, Target};
use crate::ConnectionArguments;
use cache::warm::{Refusal, SkipReason};
use host::failure::TOO_FEW_FILES;
use postgres::{DataDirectory, Error, Psql, Server, ServerFacts};
use terminal::printable;

/// Connects, and finds the directory.
pub(super) async fn open_server(arguments: &ConnectionArguments, scope: Scope) -> Result<Target, Error> {
    let server = arguments.connect(|options| options).await?;
    let mut remarks: Vec<String> = server.version_remark().into_iter().collect();
    let (data_directory, directory_refusal) = match find_directory(&server) {
        Ok(directory) => (Some(directory), None),
        Err((reason, why)) => {
            remarks.push(format!("SQL alone is used, the OS page cache cannot be seen: {why}"));
            (None, Some(Refusal::with_detail(reason, why)))
        }
    };
    Ok(Target { server: Some(server), data_directory, directory_refusal, scope, remarks, server_refusal: None })
}

/// The directory of a server that runs on this host; otherwise why not, and what would help.
fn find_directory(server: &Server) -> Result<DataDirectory, (SkipReason, String)> {
    let Some(path) = &server.facts.data_directory else {
        let ServerFacts { role, .. } = &server.facts;
        if let Some(owner) = server.closed_owner() {
            // What the role lacks would help no further than to the next refusal.
            let owner = printable(&owner.name);
            let why = format!(
                "its files are {owner}'s, and nobody else but root sees what is cached of them (run pgthaw as {owner} or as root)"
            );
            return Err((SkipReason::NoPermission, why));
        }
        let remedy = Psql::anywhere().grant(&server.database, "pg_monitor", role);
        let why = format!(
            "role \"{role}\" may not see the setting data_directory ({remedy}, or name the directory with --data-dir)"
        );
        return Err((SkipReason::NoPrivilege, why));
    };
    let shown = path.display();
    let (reason, why) = match DataDirectory::open(path) {
        Ok(directory) if server.facts.postmaster_pid.is_some() => return Ok(directory),
        Ok(_) => (
            SkipReason::NoDataDirectory,
            format!(
                "{shown} is on this host too, but the server does not run here (if the directory is the server's, such as a container's, say so with --data-dir)"
            ),
        ),
        Err(Error::DataDirectory { .. }) => (
            SkipReason::NoDataDirectory,
            format!("the server's data directory {shown} is not on this host (run pgthaw on the server's host)"),
        ),
        Err(Error::File { source, .. }) if source.kind() == io::ErrorKind::PermissionDenied => (
            SkipReason::NoPermission,
            format!("no permission on {shown} (run pgthaw as its owner, usually postgres, or as root)"),
        ),
        Err(error) if error.is_too_few_files() => (SkipReason::TooFewFiles, format!("{error} ({TOO_FEW_FILES})")),
        Err(error) => (SkipReason::NoDataDirectory, error.to_string()),
    };
    Err((reason, why))
}
