//! Whom a scratch server runs as, and directories of theirs.

use std::path::Path;

use crate::files::{Directory, OwnDirectory, SMALL_FILE_BYTES_MAX, read_text_at_most};
use crate::postgres::error::CREATE_DIRECTORY_IN;
use crate::postgres::{DataDirectory, Error, OwnerMark};

/// How the names of clusters' directories begin.
pub const CLUSTER_PREFIX: &str = "pgthaw-lab-";

/// In the directory of a cluster: the data directory, which belongs to the server's user, and the log, which does not.
pub const DATA: &str = "data";
pub const LOG: &str = "server.log";

/// Whom the server runs as: it refuses to be root.
#[derive(Clone, Copy, Debug)]
pub struct Owner {
    pub uid: u32,
    pub gid: u32,
}

impl Owner {
    /// Who owns a data directory runs its server.
    pub fn of(data_directory: &DataDirectory) -> Result<Owner, Error> {
        let facts = data_directory.files.root().facts();
        let facts = facts.map_err(|source| Error::file("look at", &data_directory.path, source))?;
        Ok(Owner { uid: facts.st_uid, gid: facts.st_gid })
    }
}

/// A new directory for a cluster, marked as this process's. It stays this process's user's: where the server has another one,
/// that one passes through and writes nothing into it.
pub fn new_directory(parent: &Path, owner: Option<Owner>) -> Result<(OwnDirectory, OwnerMark), Error> {
    let make = || {
        let directory = OwnDirectory::create(CLUSTER_PREFIX, parent)?;
        let mark = OwnerMark::place(directory.directory())?;
        let_through(directory.directory(), owner)?;
        Ok((directory, mark))
    };
    make().map_err(|source| Error::File { action: CREATE_DIRECTORY_IN, path: parent.to_owned(), source })
}

/// Lets the user that the server runs as pass to what is his.
pub fn let_through(directory: &Directory, owner: Option<Owner>) -> std::io::Result<()> {
    directory.give_to(None, if owner.is_some() { 0o711 } else { 0o700 })
}

/// Makes a directory in another for the user that the server runs as, closed to others.
pub fn make_for(owner: Option<Owner>, directory: &Directory, name: &str) -> std::io::Result<()> {
    directory.create_subdirectory(name, 0o700)?.give_to(owner.map(|owner| (owner.uid, owner.gid)), 0o700)
}

/// Root runs servers as the system user `postgres`, or, where there is none, as `nobody`; others as themselves.
pub fn server_owner() -> Option<Owner> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let passwd = read_text_at_most(Path::new("/etc/passwd"), SMALL_FILE_BYTES_MAX).unwrap_or_default();
    find_user(&passwd, "postgres").or_else(|| find_user(&passwd, "nobody"))
}

fn find_user(passwd: &str, name: &str) -> Option<Owner> {
    let fields = passwd.lines().map(|line| line.split(':').collect::<Vec<_>>()).find(|fields| fields[0] == name)?;
    Some(Owner { uid: fields.get(2)?.parse().ok()?, gid: fields.get(3)?.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_users() {
        let passwd = "root:x:0:0:root:/root:/bin/bash\npostgres:x:104:110::/var/lib/postgresql:/bin/bash\n";
        let owner = find_user(passwd, "postgres").unwrap();
        assert_eq!((owner.uid, owner.gid), (104, 110));
        assert!(find_user(passwd, "nobody").is_none());
    }
}
