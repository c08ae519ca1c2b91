//! A directory of one's own in a place where others may write too.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use rand::distr::{Alphanumeric, SampleString as _};

use super::{Directory, directory_of};

/// Letters and digits that are made up for a name.
pub const MADE_UP_CHARACTERS: usize = 6;

/// A directory of this process's user, known by what it is and not by what it is called: should somebody rename it and put
/// another one in its place, that one is left alone.
#[derive(Debug)]
pub struct OwnDirectory {
    parent: Directory,
    name: OsString,
    directory: Directory,
}

impl OwnDirectory {
    /// Makes one below `parent` that is closed to others. Its name is `prefix` and some letters.
    pub fn create(prefix: &str, parent: &Path) -> io::Result<OwnDirectory> {
        let parent = open_parent(parent)?;
        loop {
            let made_up = Alphanumeric.sample_string(&mut rand::rng(), MADE_UP_CHARACTERS);
            let name = OsString::from(format!("{prefix}{made_up}"));
            match parent.create_subdirectory(&name, 0o700) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => return OwnDirectory { directory: made?, parent, name }.require_own(),
            }
        }
    }

    /// Opens one that was made before.
    ///
    /// # Errors
    /// `PermissionDenied` for a directory of somebody else, `NotADirectory` for a link.
    pub fn open(path: &Path) -> io::Result<OwnDirectory> {
        let unnamed = || io::Error::new(io::ErrorKind::InvalidInput, format!("{} has no name", path.display()));
        let name = path.file_name().ok_or_else(unnamed)?.to_owned();
        let parent = directory_of(path);
        OwnDirectory::open_in(open_parent(parent)?, &name)
    }

    /// [`OwnDirectory::open`] of a name in an open directory.
    pub fn open_in(parent: Directory, name: &OsStr) -> io::Result<OwnDirectory> {
        let directory = parent.subdirectory(Path::new(name))?;
        OwnDirectory { parent, name: name.to_owned(), directory }.require_own()
    }

    fn require_own(self) -> io::Result<OwnDirectory> {
        match self.directory.facts()?.st_uid {
            uid if uid == rustix::process::geteuid().as_raw() => Ok(self),
            uid => Err(io::Error::new(io::ErrorKind::PermissionDenied, format!("it belongs to user {uid}"))),
        }
    }

    /// Itself.
    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    /// What it was called when it was opened.
    pub fn path(&self) -> PathBuf {
        self.parent.path().join(&self.name)
    }

    /// Removes it with all that is in it, what is called `last` after everything else.
    ///
    /// # Errors
    /// When something cannot be removed. What has its name meanwhile without being it stays.
    pub fn remove(&self, last: impl AsRef<OsStr>) -> io::Result<()> {
        self.directory.remove_contents(last)?;
        match self.parent.holds(&self.name, &self.directory)? {
            // Whatever takes the name in this moment is not removed unless it is empty.
            true => self.parent.remove_empty(&self.name),
            false => Ok(()),
        }
    }
}

/// Opens a directory by its path from the root: programs are run in it, where a relative path would mean another place.
fn open_parent(parent: &Path) -> io::Result<Directory> {
    Directory::open(&std::path::absolute(parent)?)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{chown, symlink};

    use super::*;

    #[test]
    fn what_took_its_name_stays() {
        let place = tempfile::tempdir().unwrap();
        let own = OwnDirectory::create("pgthaw-", place.path()).unwrap();
        fs::write(own.path().join("file"), "").unwrap();
        fs::rename(own.path(), place.path().join("moved")).unwrap();
        fs::create_dir(own.path()).unwrap();
        fs::write(own.path().join("victim"), "").unwrap();
        own.remove("mark").unwrap();
        assert!(own.path().join("victim").exists() && !place.path().join("moved/file").exists());
        fs::remove_dir_all(own.path()).unwrap();
        symlink(place.path().join("moved"), own.path()).unwrap();
        assert!(OwnDirectory::open(&own.path()).is_err(), "a link is none");
        own.remove("mark").unwrap();
        assert!(place.path().join("moved").exists());
    }

    #[test]
    fn another_users_is_not_ones_own() {
        needs_root!();
        let place = tempfile::tempdir().unwrap();
        let own = OwnDirectory::create("pgthaw-", place.path()).unwrap();
        chown(own.path(), Some(65_534), None).unwrap();
        assert_eq!(OwnDirectory::open(&own.path()).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    }
}
