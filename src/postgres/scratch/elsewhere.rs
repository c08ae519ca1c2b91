//! Directories of a cluster that lie elsewhere, such as on another file system.

use std::io;
use std::path::Path;
use std::process::Command;

use super::making::run_until_stopped;
use super::owner::make_for;
use super::{ScratchCluster, server_owner};
use crate::files::Directory;
use crate::postgres::Error;

impl ScratchCluster {
    /// Moves a directory of the stopped cluster's data into the directory `elsewhere`, over what has its name there, and leaves a link
    /// to it.
    pub fn move_directory(&self, name: &str, elsewhere: &Path) -> Result<(), Error> {
        let (from, to) = (self.data_directory().join(name), elsewhere.join(name));
        remove_from(elsewhere, name).map_err(|source| Error::file("remove", &to, source))?;
        run_until_stopped(Command::new("cp").args(["-aT".as_ref(), from.as_os_str(), to.as_os_str()]))?;
        let linked = self.data().and_then(|data| {
            data.root().remove_tree(name)?;
            data.root().link(name, &to)
        });
        linked.map_err(|source| Error::file("replace by a link", &from, source))
    }

    /// Makes an empty directory of the server's in the directory `elsewhere`, in place of what has its name there.
    pub fn make_directory(&self, name: &str, elsewhere: &Path) -> Result<(), Error> {
        let made =
            remove_from(elsewhere, name).and_then(|()| make_for(server_owner(), &Directory::open(elsewhere)?, name));
        made.map_err(|source| Error::file("make", &elsewhere.join(name), source))
    }
}

fn remove_from(directory: &Path, name: &str) -> io::Result<()> {
    match Directory::open(directory)?.remove_tree(name) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
