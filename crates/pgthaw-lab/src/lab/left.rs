//! Leftovers of killed runs: identified by a claim, and adopted by the same sweep or removed.

use std::collections::BTreeSet;
use std::fs::{File, TryLockError};
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use jiff::Timestamp;

use crate::study::{Error, Event, Events, Result, new_run_id};
use host::files::{Directory, FileType, OwnDirectory, SMALL_FILE_BYTES_MAX, read_open_at_most};
use host::linux::LoopFileSystem;
use host::units::Bytes;
use postgres::{CLUSTER_PREFIX, has_server, remove_cluster};

/// File in a sweep's directory with the sweep's id; locked while the sweep runs.
const CLAIM_FILE: &str = "pgthaw-sweep";

pub const FILE_SYSTEM_PREFIX: &str = "pgthaw-fs-";

/// Unit of `st_blocks`.
const SECTOR_BYTES: u64 = 512;

pub fn find_left(parent: &Path, text: &str) -> Option<PathBuf> {
    directories(parent).into_iter().find(|path| read_claim(path).is_some_and(|found| found == text))
}

/// Returns only directories of this user, because other users may write to `parent`.
fn directories(parent: &Path) -> Vec<PathBuf> {
    let entries = Directory::open(parent).and_then(|parent| parent.entries()).unwrap_or_default();
    let paths = entries.into_iter().filter(|entry| entry.kind == FileType::Directory);
    paths.map(|entry| parent.join(entry.name)).filter(|path| OwnDirectory::open(path).is_ok()).collect()
}

fn read_claim(directory: &Path) -> Option<String> {
    OwnDirectory::open(directory).ok()?.directory().read_text_at_most(CLAIM_FILE, SMALL_FILE_BYTES_MAX).ok()
}

/// Claims the directory for a sweep, until the returned file is closed.
pub fn claim(directory: &Path, text: &str) -> Result<File> {
    let path = directory.join(CLAIM_FILE);
    let failed = |source| Error::file("write", &path, source);
    // Until the lock is held, the file may belong to another run.
    let opened = OwnDirectory::open(directory).and_then(|own| own.directory().open_or_create(CLAIM_FILE, 0o600));
    let mut file = opened.map_err(failed)?;
    let who = || format!("in {}", directory.display());
    file.try_lock().map_err(|error| match error {
        TryLockError::WouldBlock => Error::RunningAlready { id: text.to_owned(), who: who() },
        TryLockError::Error(source) => failed(source),
    })?;
    file.write_all(text.as_bytes()).map_err(failed)?;
    Ok(file)
}

pub fn disclaim(directory: &Path) -> Result<()> {
    let removed = OwnDirectory::open(directory).and_then(|own| own.directory().remove_file(CLAIM_FILE));
    removed.map_err(|source| Error::file("remove", &directory.join(CLAIM_FILE), source))
}

/// Bytes that the directory's files occupy on the disk, without other mounts.
pub fn read_held_bytes(directory: &Path) -> Bytes {
    fn sum(directory: &Directory, device: u64) -> u64 {
        let entries = directory.entries().unwrap_or_default().into_iter();
        let held = entries.filter_map(|entry| Some((directory.facts_of(&entry.name).ok()?, entry)));
        let held = held.filter(|(found, _)| found.st_dev == device).map(|(found, entry)| {
            let is_directory = entry.kind == FileType::Directory;
            let below = is_directory.then(|| directory.subdirectory(Path::new(&entry.name)).ok()).flatten();
            found.st_blocks.cast_unsigned() * SECTOR_BYTES + below.map_or(0, |below| sum(&below, device))
        });
        held.sum()
    }
    let found = Directory::open(directory).and_then(|found| Ok((found.facts()?.st_dev, found)));
    Bytes(found.map_or(0, |(device, found)| sum(&found, device)))
}

/// Removes other sweeps' file systems, which hold space and a device, and clusters of sweeps that are neither `own` nor
/// `unfinished`.
pub fn remove_left(parent: &Path, own: Option<&str>, unfinished: &BTreeSet<String>, events: &Events) {
    for directory in directories(parent) {
        let name = directory.file_name().unwrap_or_default().to_string_lossy().into_owned();
        // A living run's claim is locked, or not written yet.
        let Some(text) = read_claim(&directory).filter(|text| !text.is_empty()) else { continue };
        let id = text.split(' ').next().unwrap_or_default();
        let said = match own != Some(id) {
            true if name.starts_with(FILE_SYSTEM_PREFIX) => remove_file_system(&directory, &text),
            true if name.starts_with(CLUSTER_PREFIX) && !unfinished.contains(id) => remove_stopped(&directory, &text),
            _ => None,
        };
        said.into_iter().for_each(|said| events.tell(Event::Remark(said)));
    }
}

fn remove_file_system(directory: &Path, text: &str) -> Option<String> {
    let _claim = claim(directory, text).ok()?;
    Some(match LoopFileSystem::in_directory(directory).remove() {
        Ok(()) => "removed a file system left by a killed run".to_owned(),
        Err(error) => format!("cannot remove a file system left by a killed run: {error}"),
    })
}

const STOPPING: Duration = Duration::from_secs(10);

/// Returns a remark; `None` if the cluster is in use.
fn remove_stopped(directory: &Path, text: &str) -> Option<String> {
    let _claim = claim(directory, text).ok()?;
    let deadline = Instant::now() + STOPPING;
    while has_server(directory) {
        if Instant::now() >= deadline {
            return None;
        }
        sleep(Duration::from_millis(100));
    }
    let shown = directory.display();
    Some(match remove_cluster(directory) {
        Ok(()) => format!("removed {shown}, left by a killed run whose sweep will not be resumed"),
        Err(error) => format!("cannot remove {shown}, left by a killed run: {error}"),
    })
}

const WHO_BYTES_MAX: u64 = 64 << 10;

/// Prevents two processes from running the same sweep, until the process dies.
#[derive(Debug)]
pub struct SweepLock {
    id: String,
    directory: Directory,
    name: String,
    _file: File,
}

impl SweepLock {
    /// `directory` holds the results, `parent` the clusters.
    pub fn of_new(directory: &Path, parent: &Path) -> Result<SweepLock> {
        SweepLock::take(directory, &new_run_id(Timestamp::now()), parent)
    }

    pub fn take(directory: &Path, id: &str, parent: &Path) -> Result<SweepLock> {
        let name = format!("sweep-{id}.lock");
        let path = directory.join(&name);
        let failed = |source| Error::file("write", &path, source);
        let directory = Directory::open(directory).map_err(failed)?;
        remove_left_locks(&directory);
        loop {
            let mut file = directory.open_or_create(&name, 0o600).map_err(failed)?;
            match file.try_lock() {
                // The former holder deletes the file before unlocking it, so the name may be another file's.
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

    pub fn id(&self) -> &str {
        &self.id
    }
}

impl Drop for SweepLock {
    fn drop(&mut self) {
        let _ = self.directory.remove_file(&self.name);
    }
}

fn remove_left_locks(directory: &Directory) {
    let is_lock = |name: &str| name.starts_with("sweep-") && name.ends_with(".lock");
    for entry in directory.entries().unwrap_or_default() {
        let is_named = is_lock(&entry.name.to_string_lossy());
        let Some(file) = is_named.then(|| directory.open_file(&entry.name).ok()).flatten() else { continue };
        // Only its owner removes a lock file.
        let is_own = file.metadata().is_ok_and(|facts| facts.uid() == rustix::process::geteuid().as_raw());
        if is_own && file.try_lock().is_ok() && directory.holds(&entry.name, &file).unwrap_or(false) {
            // A run that is about to lock this file creates a new one.
            let _ = directory.remove_file(&entry.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn make(parent: &Path, name: &str, text: &str) -> PathBuf {
        let directory = parent.join(name);
        fs::create_dir_all(directory.join("data/base")).unwrap();
        drop(claim(&directory, text).unwrap());
        directory
    }

    #[test]
    fn a_claim_is_held_by_one() {
        let parent = tempfile::tempdir().unwrap();
        let directory = parent.path().join("pgthaw-lab-x");
        fs::create_dir(&directory).unwrap();
        assert_eq!(find_left(parent.path(), "7"), None);
        let held = claim(&directory, "7").unwrap();
        assert!(matches!(claim(&directory, "7"), Err(Error::RunningAlready { .. })));
        assert_eq!(find_left(parent.path(), "7"), Some(directory.clone()));
        assert_eq!(find_left(parent.path(), "8"), None);
        drop(held);
        drop(claim(&directory, "7").unwrap());
    }

    #[test]
    fn clusters_of_sweeps_that_do_not_go_on_are_removed_and_no_others() {
        let parent = tempfile::tempdir().unwrap();
        let ended = make(parent.path(), "pgthaw-lab-ended", "1 server=15");
        let own = make(parent.path(), "pgthaw-lab-own", "2");
        let unfinished = make(parent.path(), "pgthaw-lab-later", "3");
        let used = make(parent.path(), "pgthaw-lab-used", "4");
        let stranger = make(parent.path(), "something", "5");
        let _used = claim(&used, "4").unwrap();
        let (sender, _told) = tokio::sync::mpsc::unbounded_channel();
        remove_left(parent.path(), Some("2"), &BTreeSet::from(["3".to_owned()]), &Events(sender));
        assert!(!ended.exists());
        assert!([own, unfinished, used, stranger].iter().all(|left| left.join("data/base").exists()));
    }

    #[test]
    fn what_a_directory_holds_is_counted_at_every_depth() {
        let parent = tempfile::tempdir().unwrap();
        let directory = make(parent.path(), "pgthaw-lab-x", "1");
        fs::write(directory.join("data/base/1"), vec![1_u8; 1 << 20]).unwrap();
        let held = read_held_bytes(&directory);
        assert!(held.0 >= 1 << 20 && held.0 < 2 << 20, "{held}");
        assert_eq!(read_held_bytes(&parent.path().join("nothing")), Bytes(0));
    }

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
