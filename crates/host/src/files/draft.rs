//! Files that are written under a temporary name and then renamed, so that no reader sees a partial file.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::fs::OFlags;

use super::{Directory, FILE_MODE, as_owner_of, directory_of};

/// File under a temporary name, removed on drop unless `place` renamed it. Its lock distinguishes it from drafts of
/// killed processes.
#[derive(Debug)]
pub struct Draft {
    directory: Directory,
    name: OsString,
    file: File,
    is_placed: bool,
    is_synced: bool,
}

impl Draft {
    /// No other file's name may start with `prefix`. The umask applies to `mode`.
    pub fn create(directory: Directory, prefix: &str, mode: u32) -> io::Result<Draft> {
        loop {
            let name = OsString::from(format!("{prefix}{:016x}", rand::random::<u64>()));
            let file = match directory.create_file(&name, mode) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                file => file?,
            };
            // If the file system has no locks, abandoned drafts stay.
            let _ = file.lock();
            match directory.holds(&name, &file) {
                Ok(true) => return Ok(Draft { directory, name, file, is_placed: false, is_synced: true }),
                Ok(false) => {}
                Err(error) => {
                    let _ = directory.remove_file(&name);
                    return Err(error);
                }
            }
        }
    }

    pub fn file(&self) -> &File {
        &self.file
    }

    /// Does not wait for the device. A power failure may empty or remove the file.
    pub fn without_sync(mut self) -> Draft {
        self.is_synced = false;
        self
    }

    pub fn place(mut self, name: impl AsRef<OsStr>) -> io::Result<()> {
        self.sync_file()?;
        self.directory.rename(&self.name, name)?;
        self.note_placed()
    }

    fn sync_file(&self) -> io::Result<()> {
        if self.is_synced { self.file.sync_all() } else { Ok(()) }
    }

    fn note_placed(&mut self) -> io::Result<()> {
        self.is_placed = true;
        if self.is_synced { self.directory.sync() } else { Ok(()) }
    }

    /// # Errors
    /// `AlreadyExists` if the name is taken.
    pub fn place_new(self, name: impl AsRef<OsStr>) -> io::Result<()> {
        self.place_first_free([name.as_ref().to_owned()]).map(drop)
    }

    /// Uses the first name that is not taken, and returns it.
    ///
    /// # Errors
    /// `AlreadyExists` if all are taken.
    pub fn place_first_free(mut self, names: impl IntoIterator<Item = OsString>) -> io::Result<OsString> {
        self.sync_file()?;
        for name in names {
            match self.directory.rename_to_free(&self.name, &name) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                renamed => {
                    renamed?;
                    self.note_placed()?;
                    return Ok(name);
                }
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.is_placed {
            // If this fails, the next writer in the directory removes the draft.
            let _ = self.directory.remove_file(&self.name);
        }
    }
}

const WHOLE_PREFIX: &str = ".pgthaw-draft-";

/// Replaces a file or link atomically, through a draft beside it.
pub fn write_whole(path: &Path, content: &[u8]) -> io::Result<()> {
    let draft = draft_beside(path)?;
    draft.file().write_all(content)?;
    draft.place(path.file_name().ok_or(io::ErrorKind::IsADirectory)?)
}

/// Creates a draft in the file's directory, and removes drafts of killed processes. Root acts as the directory's owner,
/// not as the owner of an existing file: in /tmp, any user could create that file to receive root's data.
pub fn draft_beside(path: &Path) -> io::Result<Draft> {
    as_owner_of(directory_of(path), || {
        let directory = Directory::create(directory_of(path))?;
        remove_abandoned_drafts(&directory, WHOLE_PREFIX)?;
        Draft::create(directory, WHOLE_PREFIX, FILE_MODE)
    })?
}

/// Removes drafts that this user or the directory's owner abandoned. Returns their number.
pub fn remove_abandoned_drafts(directory: &Directory, prefix: &str) -> io::Result<usize> {
    let mut removed = 0;
    for entry in directory.entries()? {
        let is_draft = entry.name.to_str().is_some_and(|name| name.starts_with(prefix));
        if is_draft && remove_if_abandoned(directory, &entry.name)? {
            removed += 1;
        }
    }
    Ok(removed)
}

fn remove_if_abandoned(directory: &Directory, name: &OsStr) -> io::Result<bool> {
    // The file is another user's, not regular, or already removed.
    let Ok(file) = directory.open_file_with(name, OFlags::RDONLY) else { return Ok(false) };
    let uid = file.metadata()?.uid();
    let is_own = uid == rustix::process::geteuid().as_raw() || uid == directory.facts()?.st_uid;
    match file.try_lock() {
        Ok(()) if is_own && directory.holds(name, &file)? => directory.remove_file(name).map(|()| true),
        _ => Ok(false),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn place() -> (tempfile::TempDir, impl Fn() -> Directory) {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().to_owned();
        (place, move || Directory::open(&path).unwrap())
    }

    fn draft(directory: Directory, text: &str) -> Draft {
        let draft = Draft::create(directory, ".draft-", 0o600).unwrap();
        draft.file().write_all(text.as_bytes()).unwrap();
        draft
    }

    #[test]
    fn it_appears_whole_and_private_or_not_at_all() {
        let (place, open) = place();
        drop(draft(open(), "nothing"));
        assert_eq!(open().entries().unwrap(), []);
        draft(open(), "one").place_new("file").unwrap();
        let taken = draft(open(), "two").place_new("file").unwrap_err();
        assert_eq!(taken.kind(), io::ErrorKind::AlreadyExists);
        draft(open(), "three").place("file").unwrap();
        let path = place.path().join("file");
        assert_eq!(fs::read_to_string(&path).unwrap(), "three");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(open().entries().unwrap().len(), 1);
    }

    #[test]
    fn a_link_is_replaced_and_not_followed() {
        let (place, open) = place();
        fs::write(place.path().join("victim"), "mine").unwrap();
        symlink("victim", place.path().join("file")).unwrap();
        draft(open(), "new").place("file").unwrap();
        assert_eq!(fs::read_to_string(place.path().join("victim")).unwrap(), "mine");
    }

    #[test]
    fn only_what_nobody_writes_any_more_is_swept() {
        let (place, open) = place();
        fs::write(place.path().join(".draft-left"), "").unwrap();
        fs::write(place.path().join("victim"), "").unwrap();
        symlink("victim", place.path().join(".draft-link")).unwrap();
        let written = draft(open(), "being written");
        assert_eq!(remove_abandoned_drafts(&open(), ".draft-").unwrap(), 1);
        assert!(!place.path().join(".draft-left").exists() && place.path().join("victim").exists());
        written.place("file").unwrap();
    }
}
