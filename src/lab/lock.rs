//! One process runs a sweep at a time, wherever its clusters lie.

use std::fs::{File, TryLockError};
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use jiff::Timestamp;

use super::error::Error;
use crate::files::{Directory, read_open_at_most};
use crate::study::new_run_id;

/// Bytes that a lock file says whose it is with.
const WHO_BYTES_MAX: u64 = 64 << 10;

/// The right to run a sweep. The kernel takes it from whoever is killed.
#[derive(Debug)]
pub struct SweepLock {
    id: String,
    directory: Directory,
    name: String,
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
        let name = format!("sweep-{id}.lock");
        let path = directory.join(&name);
        let failed = |source| Error::file("write", &path, source);
        let directory = Directory::open(directory).map_err(failed)?;
        remove_left(&directory);
        loop {
            let mut file = directory.open_or_create(&name, 0o600).map_err(failed)?;
            match file.try_lock() {
                // Whoever had it removes the file and then lets go: another may have made a new one.
                Ok(()) if !directory.holds(&name, &file).map_err(failed)? => continue,
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    let who = read_open_at_most(&mut file, WHO_BYTES_MAX).map_err(failed)?;
                    let who = String::from_utf8_lossy(&who).into_owned();
                    return Err(Error::RunningAlready { id: id.to_owned(), who });
                }
                Err(TryLockError::Error(source)) => return Err(failed(source)),
            }
            let who = format!("as process {} in {}", std::process::id(), parent.display());
            file.set_len(0).and_then(|()| file.write_all(who.as_bytes())).map_err(failed)?;
            return Ok(SweepLock { id: id.to_owned(), directory, name, _file: file });
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
        let _ = self.directory.remove_file(&self.name);
    }
}

/// Removes the locks of those who were killed.
fn remove_left(directory: &Directory) {
    let is_lock = |name: &str| name.starts_with("sweep-") && name.ends_with(".lock");
    for entry in directory.entries().unwrap_or_default() {
        let is_named = is_lock(&entry.name.to_string_lossy());
        let Some(file) = is_named.then(|| directory.open_file(&entry.name).ok()).flatten() else { continue };
        // Another user's is his to remove.
        let is_own = file.metadata().is_ok_and(|facts| facts.uid() == rustix::process::geteuid().as_raw());
        if is_own && file.try_lock().is_ok() && directory.holds(&entry.name, &file).unwrap_or(false) {
            // Whoever is about to lock it sees that it is gone, and makes another.
            let _ = directory.remove_file(&entry.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

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

    #[test]
    fn the_lock_of_another_user_is_left_to_him() {
        needs_root!();
        let directory = tempfile::tempdir().unwrap();
        let [his, own] = ["sweep-7.lock", "sweep-8.lock"].map(|name| directory.path().join(name));
        for path in [&his, &own] {
            fs::write(path, "as process 1 in /var/tmp").unwrap();
        }
        std::os::unix::fs::chown(&his, Some(65_534), None).unwrap();
        drop(SweepLock::take(directory.path(), "9", Path::new("/")).unwrap());
        assert!(his.exists() && !own.exists());
        assert_eq!(fs::read_to_string(&his).unwrap(), "as process 1 in /var/tmp");
    }
}
