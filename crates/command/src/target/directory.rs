//! A target whose data directory is named: alone, or with its server.

use std::path::Path;

use super::cluster::{Scope, Target};
use crate::ConnectionArguments;
use host::failure::Explain as _;
use postgres::{ConnectOptions, DataDirectory, Error, Postmaster, Server};

/// The server and the directory are both named: they must be the same cluster.
pub(super) async fn open_both(arguments: &ConnectionArguments, path: &Path, scope: Scope) -> Result<Target, Error> {
    let directory = DataDirectory::open(path)?;
    let server = arguments.connect(|options| options).await?;
    require_same(&directory, &server)?;
    let mut remarks: Vec<String> = server.version_remark().into_iter().collect();
    remarks.extend(different_place_remark(&directory, &server));
    Ok(Target::of_directory(directory, Some(server), scope, remarks))
}

/// Only the directory is named: the server that runs in it belongs to it.
pub(super) async fn open_directory(
    arguments: &ConnectionArguments,
    path: &Path,
    scope: Scope,
) -> Result<Target, Error> {
    let directory = DataDirectory::open(path)?;
    let Some(postmaster) = directory.read_postmaster() else {
        let shown = directory.path.display();
        let remark = match directory.find_postmaster_pid() {
            Some(pid) => format!(
                "the server of {shown} runs in a container (process {pid} of this host), and where it listens is told for in there: its files are looked at alone (name its address with -h or -p too)"
            ),
            None => format!("no server runs in {shown}: its files are looked at alone"),
        };
        return Ok(Target::of_directory(directory, None, scope, vec![remark]));
    };
    match arguments.connect(|options| options_for(&postmaster, options)).await {
        Ok(server) => {
            require_same(&directory, &server)?;
            let remarks = server.version_remark().into_iter().collect();
            Ok(Target::of_directory(directory, Some(server), scope, remarks))
        }
        // Databases are told apart by name only by the server.
        Err(error) if scope != Scope::All => Err(error),
        Err(error) => {
            let hint = error.hint().map(|hint| format!(" ({hint})")).unwrap_or_default();
            let remarks = vec![format!("its files are looked at alone, for pgthaw {error}{hint}")];
            Ok(Target { server_refusal: Some(error), ..Target::of_directory(directory, None, scope, remarks) })
        }
    }
}

/// How to reach the server that runs in a directory.
pub(super) fn options_for(postmaster: &Postmaster, options: ConnectOptions) -> ConnectOptions {
    let socket = postmaster.socket_directory.as_ref().map(|directory| directory.display().to_string());
    ConnectOptions {
        host: socket.or(postmaster.listen_address.clone()).or(Some("localhost".into())),
        port: postmaster.port,
        address_was_read: true,
        ..options
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
    fn the_server_of_a_directory_is_reached_by_its_socket() {
        let given = ConnectOptions { user: Some("u".into()), ..Default::default() };
        let options_for = |postmaster: &Postmaster| super::options_for(postmaster, given.clone());
        let mut postmaster = Postmaster {
            pid: 1,
            port: Some(5433),
            socket_directory: Some("/run/x".into()),
            listen_address: Some("10.0.0.1".into()),
            started_at: None,
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
