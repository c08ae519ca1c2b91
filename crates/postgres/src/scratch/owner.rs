//! Whom a scratch server runs as, and directories of theirs.

use std::io;
use std::path::Path;

use crate::error::CREATE_DIRECTORY_IN;
use crate::owner_mark::remove_marked;
use crate::{DataDirectory, Error, OwnerMark};
use host::files::{Directory, OwnDirectory, SMALL_FILE_BYTES_MAX, read_text_at_most};

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

// ---- removing ----
//
// Removing a cluster so that a kill at any moment leaves nothing that looks like one.

/// What a data directory is called while it is removed.
const REMOVED: &str = "removed";

/// Does the directory of a scratch cluster hold a whole one?
pub fn has_cluster(directory: &Path) -> bool {
    let data = Directory::open_itself(directory).and_then(|directory| directory.subdirectory(DATA));
    data.and_then(|data| data.open_file("PG_VERSION")).is_ok()
}

/// Removes the directory of a stopped scratch cluster. Whoever is killed meanwhile leaves no half of a cluster that might be taken
/// over, and what says whose it was goes last.
///
/// # Errors
/// `PermissionDenied` for a directory of another user.
pub fn remove_cluster(directory: &Path) -> io::Result<()> {
    remove_own_cluster(&OwnDirectory::open(directory)?)
}

/// [`remove_cluster`] of one that is open.
pub(super) fn remove_own_cluster(own: &OwnDirectory) -> io::Result<()> {
    // Without a data directory the rest is to be removed all the same.
    let _ = own.directory().rename(DATA, REMOVED);
    let _ = own.directory().remove_file(LOG);
    remove_marked(own)
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

#[cfg(test)]
mod removing_tests {
    use std::fs;

    use super::*;

    #[test]
    fn half_of_a_cluster_is_none_and_is_removed() {
        let parent = tempfile::tempdir().unwrap();
        let directory = parent.path().join("pgthaw-lab-x");
        for name in ["data", "removed"] {
            fs::create_dir_all(directory.join(name).join("base")).unwrap();
            fs::write(directory.join(name).join("PG_VERSION"), "15").unwrap();
        }
        assert!(has_cluster(&directory));
        fs::rename(directory.join("data"), directory.join("other")).unwrap();
        assert!(!has_cluster(&directory));
        fs::rename(directory.join("other"), directory.join("data")).unwrap();
        remove_cluster(&directory).unwrap();
        assert!(!directory.exists());
    }
}
