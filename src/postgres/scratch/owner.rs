//! Whom a scratch server runs as, and directories of theirs.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};

use crate::files::as_owner_of;
use crate::postgres::error::CREATE_DIRECTORY_IN;
use crate::postgres::{DataDirectory, Error, OwnerMark};

/// How the names of clusters' directories begin.
pub const CLUSTER_PREFIX: &str = "pgthaw-lab-";

/// Whom the server runs as: it refuses to be root.
#[derive(Clone, Copy, Debug)]
pub struct Owner {
    pub uid: u32,
    pub gid: u32,
}

impl Owner {
    /// Who owns a data directory runs its server.
    pub fn of(data_directory: &DataDirectory) -> Result<Owner, Error> {
        let path = &data_directory.path;
        let metadata = fs::metadata(path);
        let metadata = metadata.map_err(|source| Error::File { action: "look at", path: path.clone(), source })?;
        Ok(Owner { uid: metadata.uid(), gid: metadata.gid() })
    }
}

/// A new directory for a cluster, marked as this process's.
pub fn new_directory(parent: &Path, owner: Option<Owner>) -> Result<(PathBuf, OwnerMark), Error> {
    let make = || {
        let directory = tempfile::Builder::new().prefix(CLUSTER_PREFIX).tempdir_in(parent)?;
        let mark = OwnerMark::place(directory.path())?;
        give_to(directory.path(), owner)?;
        Ok((directory.keep(), mark))
    };
    make().map_err(|source| Error::File { action: CREATE_DIRECTORY_IN, path: parent.to_owned(), source })
}

/// Gives a directory to the user that the server runs as, and closes it to others.
pub fn give_to(directory: &Path, owner: Option<Owner>) -> std::io::Result<()> {
    fs::set_permissions(directory, Permissions::from_mode(0o700))?;
    match owner {
        Some(owner) => chown(directory, Some(owner.uid), Some(owner.gid)),
        None => Ok(()),
    }
}

/// Writes a file that the server reads: it is its user's, as what this process makes is its own alone.
pub fn write_as_owner(path: &Path, text: &str) -> std::io::Result<()> {
    as_owner_of(path, || fs::write(path, text))?
}

/// Root runs servers as the system user `postgres`, or, where there is none, as `nobody`; others as themselves.
pub fn server_owner() -> Option<Owner> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
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
