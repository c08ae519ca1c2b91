//! Who uses a temporary directory: told by a file in it that its owner holds locked. The kernel lets go of the lock when the owner
//! dies, however it dies, and so what a killed process left can be told from what is in use, and removed.
//!
//! A directory without such a file is nobody's business: it was kept, or is for somebody who will come back for it.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use super::DataDirectory;

/// How the names of all temporary directories begin.
const PREFIX: &str = "pgthaw-";

/// The file in a directory that is in use.
const MARK: &str = ".pgthaw-owner";

/// A directory's mark. Dropping it leaves the file, for the directory goes with its owner.
#[derive(Debug)]
pub struct OwnerMark {
    path: PathBuf,
    /// Its lock counts.
    _file: File,
}

impl OwnerMark {
    /// Marks a directory as in use by this process.
    pub fn place(directory: &Path) -> io::Result<OwnerMark> {
        // Locked before it has its name: nobody ever sees it unlocked.
        let draft = directory.join(format!("{MARK}-{}", std::process::id()));
        let path = directory.join(MARK);
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
        file.lock()?;
        fs::rename(&draft, &path)?;
        Ok(OwnerMark { path, _file: file })
    }

    /// From now on the directory stays when this process goes.
    pub fn remove(&self) -> io::Result<()> {
        fs::remove_file(&self.path)
    }
}

/// Removes the directories below `parent` whose owners were killed, and tells which. One whose server is still stopping stays
/// until the next time; so does what cannot be removed.
pub fn remove_abandoned(parent: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(parent) else { return Vec::new() };
    let directories = entries.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX));
    let mut removed = Vec::new();
    for directory in directories.map(|entry| entry.path()) {
        // Held until the directory is gone, so that two do not remove it at once.
        let Some(_mark) = take_abandoned(&directory) else { continue };
        if fs::remove_dir_all(&directory).is_ok() {
            removed.push(directory);
        }
    }
    removed
}

/// The mark of a directory whose owner, the same user, is dead.
fn take_abandoned(directory: &Path) -> Option<File> {
    // Others may write to /tmp too: a link is not followed, a pipe not waited for, and a mark that this user did not make does not count.
    let is_directory = fs::symlink_metadata(directory).ok()?.is_dir();
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let mark = OpenOptions::new().write(true).custom_flags(flags).open(directory.join(MARK)).ok()?;
    let is_own = mark.metadata().ok()?.uid() == rustix::process::geteuid().as_raw();
    let is_abandoned = is_directory && is_own && mark.try_lock().is_ok();
    (is_abandoned && !has_server(directory)).then_some(mark)
}

/// Does the server of a scratch cluster run? It stops by itself when its owner is gone, which takes a moment.
fn has_server(directory: &Path) -> bool {
    DataDirectory::open(&directory.join("data")).is_ok_and(|data| data.read_postmaster().is_some())
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    fn make(parent: &Path, name: &str) -> PathBuf {
        let directory = parent.join(name);
        fs::create_dir(&directory).unwrap();
        fs::write(directory.join("file"), "something").unwrap();
        directory
    }

    #[test]
    fn what_is_in_use_or_kept_or_a_strangers_stays() {
        let parent = tempfile::tempdir().unwrap();
        let used = make(parent.path(), "pgthaw-lab-used");
        let kept = make(parent.path(), "pgthaw-lab-kept");
        let unmarked = make(parent.path(), "pgthaw-lab-unmarked");
        let other = make(parent.path(), "other");
        let _used = OwnerMark::place(&used).unwrap();
        OwnerMark::place(&kept).unwrap().remove().unwrap();
        drop(OwnerMark::place(&other).unwrap());
        std::os::unix::fs::symlink(&other, parent.path().join("pgthaw-link")).unwrap();
        assert_eq!(remove_abandoned(parent.path()), Vec::<PathBuf>::new());
        assert!([used, kept, unmarked, other].iter().all(|path| path.join("file").exists()));
    }

    #[test]
    fn what_a_dead_process_left_goes() {
        let parent = tempfile::tempdir().unwrap();
        let left = make(parent.path(), "pgthaw-lab-left");
        drop(OwnerMark::place(&left).unwrap());
        assert_eq!(remove_abandoned(parent.path()), std::slice::from_ref(&left));
        assert!(!left.exists());
        assert!(remove_abandoned(&left).is_empty(), "a place that is not there has nothing");
    }

    #[test]
    fn a_lock_does_not_pass_to_the_programs_that_its_owner_starts() {
        let parent = tempfile::tempdir().unwrap();
        let left = make(parent.path(), "pgthaw-lab-left");
        let mark = OwnerMark::place(&left).unwrap();
        let mut sleeper = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().unwrap();
        drop(mark);
        assert_eq!(remove_abandoned(parent.path()), [left]);
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
    }
}
