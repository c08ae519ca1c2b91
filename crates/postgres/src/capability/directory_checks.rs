//! The data directory: is it here, is it this server's, whose is it?

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

use crate::{DataDirectory, Error, Psql, RelationPath, Server, SystemUser, quote_argument};
use host::failure::Capability;
use host::units::Fork;

const GROUP: &str = "server";

/// Can the data directory be read, and does it belong to the server?
pub fn check_data_directory(server: Option<&Server>, named: Option<&Path>) -> (Capability, Option<DataDirectory>) {
    const NAME: &str = "data-dir";
    let path = named.or_else(|| server?.facts.data_directory.as_deref());
    let Some(path) = path else {
        let (reason, remedy) = match (server, server.and_then(Server::closed_owner)) {
            // A role that may know where it is would see no more of its files.
            (_, Some(owner)) => (
                format!("it is {}'s: nobody else but root sees what the page cache has of it", owner.name),
                run_as(owner.uid),
            ),
            (Some(server), None) => (
                "the role may not know where it is".to_owned(),
                format!(
                    "{}, or `pgthaw doctor -D DIRECTORY`",
                    Psql::anywhere().grant(&server.database, "pg_monitor", &server.facts.role)
                ),
            ),
            (None, None) => {
                ("no server answered and none was named".to_owned(), "`pgthaw doctor --data-dir DIRECTORY`".into())
            }
        };
        return (Capability::no(GROUP, NAME, reason, remedy), None);
    };
    match open_own(server, path) {
        Ok(directory) => (Capability::yes(GROUP, NAME, describe(server, &directory)), Some(directory)),
        Err(error) => {
            let refused = Capability::failed(GROUP, NAME, &error);
            let remedy = owner_of_closed(path).map(run_as).or(refused.remedy);
            (Capability { remedy, ..refused }, None)
        }
    }
}

/// Whose a directory is that pgthaw may not look into.
fn owner_of_closed(path: &Path) -> Option<u32> {
    let owner = path.metadata().ok()?.uid();
    (std::fs::read_dir(path).err()?.kind() == std::io::ErrorKind::PermissionDenied).then_some(owner)
}

fn run_as(uid: u32) -> String {
    // Of a user without a name sudo takes the number.
    let name = SystemUser::of_uid(uid).map_or_else(|| format!("#{uid}"), |user| user.name);
    format!("`sudo -u {} pgthaw doctor` (as the owner of the data directory)", quote_argument(&name))
}

/// A user as people know him.
fn user(uid: u32) -> String {
    SystemUser::of_uid(uid).map_or_else(|| uid.to_string(), |user| user.name)
}

fn open_own(server: Option<&Server>, path: &Path) -> Result<DataDirectory, Error> {
    let directory = DataDirectory::open(path)?;
    match server {
        Some(server) if server.facts.system_identifier != directory.system_identifier => Err(Error::OtherCluster {
            path: path.to_owned(),
            directory: directory.system_identifier,
            server: server.facts.system_identifier,
            address: server.address.clone(),
        }),
        _ => Ok(directory),
    }
}

fn describe(server: Option<&Server>, directory: &DataDirectory) -> String {
    let path = directory.path.display();
    let identifier = directory.system_identifier;
    match server.map(|server| server.facts.postmaster_pid) {
        Some(Some(pid)) => format!("{path} is this server's (cluster {identifier}, postmaster {pid})"),
        Some(None) => format!("{path} is of this cluster ({identifier}), but no process here serves it"),
        None => format!("{path} holds cluster {identifier} of PostgreSQL {}", directory.version_major),
    }
}

/// Does pgthaw run as the directory's owner, or as root?
///
/// `of_directory`: what was found of the directory, whose remedy is this one's where it could not be read.
pub fn check_ownership(directory: Option<&DataDirectory>, of_directory: &Capability) -> Capability {
    const NAME: &str = "ownership";
    let Some(directory) = directory else {
        let remedy = of_directory.remedy.clone().unwrap_or_default();
        return Capability::no(GROUP, NAME, "no data directory can be read", remedy);
    };
    let (owner, own) = (directory.owner_uid, geteuid().as_raw());
    match own {
        0 => Capability::yes(GROUP, NAME, format!("the directory is user {}'s, pgthaw runs as root", user(owner))),
        _ if own == owner => Capability::yes(GROUP, NAME, format!("pgthaw runs as its owner, user {}", user(owner))),
        _ => {
            let detail = format!("the directory is user {}'s, pgthaw runs as user {}", user(owner), user(own));
            Capability::no(GROUP, NAME, detail, run_as(owner))
        }
    }
}

/// A file that holds a block at least: any of the shared catalogs.
pub fn find_relation_file(directory: &DataDirectory) -> Option<PathBuf> {
    let entries = directory.files.directory("global").ok()?.entries().ok()?;
    let relations = entries.iter().filter_map(|entry| format!("global/{}", entry.name.to_str()?).parse().ok());
    let has_blocks = |path: &PathBuf| {
        let file = directory.files.open_file(path).and_then(|file| file.metadata());
        file.is_ok_and(|file| file.len() > 0)
    };
    let mut files = relations.map(|path: RelationPath| path.segment_file(Path::new(""), Fork::Main, 0));
    files.find(has_blocks).map(|below| directory.path.join(below))
}
