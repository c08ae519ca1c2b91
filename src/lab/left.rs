//! What killed runs have left of sweeps: told by its claim, and taken over by its own sweep or removed by another.

use std::collections::BTreeSet;
use std::fs::{File, TryLockError};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use super::error::Error;
use crate::files::{Directory, EntryKind, OwnDirectory, SMALL_FILE_BYTES_MAX};
use crate::linux::LoopFileSystem;
use crate::postgres::{CLUSTER_PREFIX, has_server, remove_cluster};
use crate::study::{Event, Events};
use crate::units::Bytes;

/// Names the sweep in the directory of its cluster. Whoever runs the sweep holds it locked.
const CLAIM_FILE: &str = "pgthaw-sweep";

/// Directories that hold a file system of a study are named by this.
pub const FILE_SYSTEM_PREFIX: &str = "pgthaw-fs-";

/// What the kernel counts a file's room in.
const SECTOR_BYTES: u64 = 512;

/// The directory below `parent` with this claim.
pub fn find_left(parent: &Path, text: &str) -> Option<PathBuf> {
    directories(parent).into_iter().find(|path| read_claim(path).is_some_and(|found| found == text))
}

/// This user's own directories below `parent`, which others may write too.
fn directories(parent: &Path) -> Vec<PathBuf> {
    let entries = Directory::open(parent).and_then(|parent| parent.entries()).unwrap_or_default();
    let paths = entries.into_iter().filter(|entry| entry.kind == EntryKind::Directory);
    paths.map(|entry| parent.join(entry.name)).filter(|path| OwnDirectory::open(path).is_ok()).collect()
}

/// What a directory is claimed with.
fn read_claim(directory: &Path) -> Option<String> {
    OwnDirectory::open(directory).ok()?.directory().read_text_at_most(CLAIM_FILE, SMALL_FILE_BYTES_MAX).ok()
}

/// Claims a directory until the file is closed.
pub fn claim(directory: &Path, text: &str) -> Result<File, Error> {
    let path = directory.join(CLAIM_FILE);
    let failed = |source| Error::file("write", &path, source);
    // Not truncated: until it is locked it may be somebody else's.
    let opened = OwnDirectory::open(directory).and_then(|own| own.directory().open_or_create(CLAIM_FILE, 0o600));
    let mut file = opened.map_err(failed)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let who = format!("in {}", directory.display());
            return Err(Error::RunningAlready { id: text.to_owned(), who });
        }
        Err(TryLockError::Error(source)) => return Err(failed(source)),
    }
    file.write_all(text.as_bytes()).map_err(failed)?;
    Ok(file)
}

/// Takes the claim away from a directory that stays.
pub fn disclaim(directory: &Path) -> Result<(), Error> {
    let removed = OwnDirectory::open(directory).and_then(|own| own.directory().remove_file(CLAIM_FILE));
    removed.map_err(|source| Error::file("remove", &directory.join(CLAIM_FILE), source))
}

/// Bytes of the disk below a directory, without what is mounted there.
pub fn read_held_bytes(directory: &Path) -> Bytes {
    fn sum(directory: &Directory, device: u64) -> u64 {
        let entries = directory.entries().unwrap_or_default().into_iter();
        let held = entries.filter_map(|entry| Some((directory.facts_of(&entry.name).ok()?, entry)));
        let held = held.filter(|(found, _)| found.st_dev == device).map(|(found, entry)| {
            let is_directory = entry.kind == EntryKind::Directory;
            let below = is_directory.then(|| directory.subdirectory(Path::new(&entry.name)).ok()).flatten();
            found.st_blocks.cast_unsigned() * SECTOR_BYTES + below.map_or(0, |below| sum(&below, device))
        });
        held.sum()
    }
    let found = Directory::open(directory).and_then(|found| Ok((found.facts()?.st_dev, found)));
    Bytes(found.map_or(0, |(device, found)| sum(&found, device)))
}

/// Removes what nobody comes back for: the file systems of every sweep but `own`, for they hold room, a device and a mount, and
/// clusters of sweeps that are neither `own` nor `unfinished`.
pub fn remove_left(parent: &Path, own: Option<&str>, unfinished: &BTreeSet<String>, events: &Events) {
    for directory in directories(parent) {
        let name = directory.file_name().unwrap_or_default().to_string_lossy().into_owned();
        // Of a living run it is locked, or not yet written.
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
        Ok(()) => "a run that was killed had left a file system: it is removed".to_owned(),
        Err(error) => format!("a run that was killed has left a file system that cannot be removed: {error}"),
    })
}

/// `None`: it stays, for it is in use, or its server is still stopping, or another user's.
fn remove_stopped(directory: &Path, text: &str) -> Option<String> {
    let _claim = claim(directory, text).ok().filter(|_| !has_server(directory))?;
    let shown = directory.display();
    Some(match remove_cluster(directory) {
        Ok(()) => format!("a run that was killed had left {shown}, and its sweep does not go on: it is removed"),
        Err(error) => format!("a run that was killed has left {shown}, which cannot be removed: {error}"),
    })
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
        remove_left(parent.path(), Some("2"), &BTreeSet::from(["3".to_owned()]), &Events::to(sender));
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
}
