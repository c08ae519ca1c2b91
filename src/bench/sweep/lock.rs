//! One process runs a sweep at a time, wherever its clusters lie.

use std::fs::{self, File, TryLockError};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use crate::bench::Error;
use crate::bench::tournament::new_run_id;

/// The right to run a sweep. The kernel takes it from whoever is killed.
#[derive(Debug)]
pub struct SweepLock {
    id: String,
    path: PathBuf,
    /// Its lock counts.
    _file: File,
}

impl SweepLock {
    /// For a sweep that begins, which gets a new id. Its results are kept in the `directory`, its clusters below `parent`.
    pub fn of_new(directory: &Path, parent: &Path) -> Result<SweepLock, Error> {
        SweepLock::take(directory, &new_run_id(Timestamp::now()), parent)
    }

    /// For a sweep that goes on.
    pub fn take(directory: &Path, id: &str, parent: &Path) -> Result<SweepLock, Error> {
        remove_left(directory);
        let path = directory.join(format!("sweep-{id}.lock"));
        let failed = |source| Error::file("write", &path, source);
        loop {
            let mut file = open(&path).map_err(failed)?;
            match file.try_lock() {
                // Whoever had it removes the file and then lets go: another may have made a new one.
                Ok(()) if !is_at(&file, &path) => continue,
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    let mut who = String::new();
                    file.read_to_string(&mut who).map_err(failed)?;
                    return Err(Error::RunningAlready { id: id.to_owned(), who });
                }
                Err(TryLockError::Error(source)) => return Err(failed(source)),
            }
            let who = format!("as process {} in {}", std::process::id(), parent.display());
            file.set_len(0).and_then(|()| file.write_all(who.as_bytes())).map_err(failed)?;
            return Ok(SweepLock { id: id.to_owned(), path, _file: file });
        }
    }

    /// Of the sweep.
    pub fn id(&self) -> &str {
        &self.id
    }
}

impl Drop for SweepLock {
    fn drop(&mut self) {
        // One that stays does no harm.
        let _ = fs::remove_file(&self.path);
    }
}

/// Removes the locks of those who were killed.
fn remove_left(directory: &Path) {
    let is_lock = |name: &str| name.starts_with("sweep-") && name.ends_with(".lock");
    for path in fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path()) {
        let is_named = path.file_name().is_some_and(|name| is_lock(&name.to_string_lossy()));
        let Some(file) = is_named.then(|| File::open(&path).ok()).flatten() else { continue };
        if file.try_lock().is_ok() && is_at(&file, &path) {
            // Whoever is about to lock it sees that it is gone, and makes another.
            let _ = fs::remove_file(&path);
        }
    }
}

fn open(path: &Path) -> std::io::Result<File> {
    File::options().create(true).truncate(false).read(true).write(true).open(path)
}

fn is_at(file: &File, path: &Path) -> bool {
    let inode = |found: fs::Metadata| (found.dev(), found.ino());
    file.metadata().map(inode).ok() == fs::metadata(path).map(inode).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sweep_is_run_by_one_and_the_other_hears_by_whom() {
        let directory = tempfile::tempdir().unwrap();
        let take = |parent: &str| SweepLock::take(directory.path(), "7", Path::new(parent));
        let held = take("/var/one").unwrap();
        let refused = take("/var/two").unwrap_err().to_string();
        let own = format!("the sweep 7 is running already, as process {} in /var/one", std::process::id());
        assert_eq!(refused, own);
        assert_ne!(SweepLock::of_new(directory.path(), Path::new("/")).unwrap().id(), "7");
        drop(held);
        // What killed ones have left.
        for id in [7, 8] {
            fs::write(directory.path().join(format!("sweep-{id}.lock")), "as process 1 in /var/tmp").unwrap();
        }
        let held = take("/").unwrap();
        assert!(take("/").unwrap_err().to_string().ends_with(" in /"));
        drop(held);
        assert!(fs::read_dir(directory.path()).unwrap().next().is_none());
    }
}
