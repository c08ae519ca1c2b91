//! Who uses a temporary directory: told by a file in it that its owner holds locked. The kernel lets go of the lock when the owner
//! dies, however it dies, and so what a killed process left can be told from what is in use, and removed.
//!
//! A directory without such a file is nobody's business: it was kept, or is for somebody who will come back for it.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::OFlags;
use tempfile::TempDir;

use super::DataDirectory;
use super::scratch::server_owner;

/// How the names of all temporary directories begin.
const PREFIX: &str = "pgthaw-";

/// The file in a directory that is in use.
const MARK: &str = ".pgthaw-owner";

/// What `tempfile` puts behind the last hyphen of a name.
const MADE_UP_CHARACTERS: usize = 6;

/// A directory without a mark in which nothing is, and of such an age, is of somebody who was killed at the worst moment.
const MARKED_WITHIN: Duration = Duration::from_secs(3600);

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

/// A temporary directory that is marked as this process's. Dropping it removes it.
#[derive(Debug)]
pub struct MarkedDirectory {
    directory: TempDir,
    _mark: OwnerMark,
}

impl MarkedDirectory {
    /// Makes one below `parent`, whose name begins with `prefix`.
    pub fn create(prefix: &str, parent: &Path) -> io::Result<MarkedDirectory> {
        let directory = tempfile::Builder::new().prefix(prefix).tempdir_in(parent)?;
        let mark = OwnerMark::place(directory.path())?;
        Ok(MarkedDirectory { directory, _mark: mark })
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }
}

impl Drop for MarkedDirectory {
    fn drop(&mut self) {
        // What stays is removed by the next run: it has its mark still.
        let _ = remove_marked(self.directory.path());
    }
}

/// From now on the directory of somebody who was killed is nobody's, for whoever takes it over.
pub fn remove_mark(directory: &Path) {
    // Mostly there is none.
    let _ = fs::remove_file(directory.join(MARK));
}

/// Removes a directory with all that is in it, its mark last: whoever is killed meanwhile leaves it marked, and so does a server
/// that still removes or makes files of its own.
pub fn remove_marked(directory: &Path) -> io::Result<()> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        match entry.file_type()?.is_dir() {
            true => fs::remove_dir_all(entry.path())?,
            false => files.push(entry.path()),
        }
    }
    files.sort_by_key(|path| path.ends_with(MARK));
    for path in files {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    fs::remove_dir(directory)
}

/// Removes the directories below `parent` whose owners were killed, and tells which. One whose server is still stopping stays
/// until the next time; so does what cannot be removed.
pub fn remove_abandoned(parent: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(parent) else { return Vec::new() };
    let directories = entries.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX));
    let mut removed = Vec::new();
    for directory in directories.map(|entry| entry.path()) {
        if is_forgotten(&directory, MARKED_WITHIN) {
            removed.extend(remove_marked(&directory).is_ok().then_some(directory));
            continue;
        }
        // Held until the directory is gone, so that two do not remove it at once.
        let Some(_mark) = take_abandoned(&directory) else { continue };
        if remove_marked(&directory).is_ok() {
            removed.push(directory);
        }
    }
    removed
}

/// Was its owner killed before it was marked, or after the mark was removed with everything else?
fn is_forgotten(directory: &Path, age: Duration) -> bool {
    let name = directory.file_name().unwrap_or_default().to_string_lossy();
    let is_made_up = name.rsplit_once('-').is_some_and(|(_, made_up)| {
        made_up.len() == MADE_UP_CHARACTERS && made_up.chars().all(|one| one.is_ascii_alphanumeric())
    });
    let Ok(found) = fs::symlink_metadata(directory) else { return false };
    let users = [Some(rustix::process::geteuid().as_raw()), server_owner().map(|owner| owner.uid)];
    let is_own = found.is_dir() && found.mode() & 0o777 == 0o700 && users.contains(&Some(found.uid()));
    let is_old = || found.modified().is_ok_and(|at| at.elapsed().is_ok_and(|elapsed| elapsed >= age));
    is_made_up && is_own && is_old() && holds_drafts_alone(directory)
}

/// Nothing, or marks that did not get their name.
fn holds_drafts_alone(directory: &Path) -> bool {
    let is_draft = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().starts_with(&format!("{MARK}-"));
    fs::read_dir(directory).is_ok_and(|entries| entries.flatten().all(|entry| is_draft(&entry)))
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

/// Does a server run in the directory of a scratch cluster, or listen in the directory of its socket? It stops by itself when its
/// owner is gone, which takes a moment.
pub fn has_server(directory: &Path) -> bool {
    let sockets = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut sockets = sockets.filter(|path| path.extension().is_some_and(|extension| extension != "lock"));
    DataDirectory::open(&directory.join("data")).is_ok_and(|data| data.read_postmaster().is_some())
        || sockets.any(|socket| DataDirectory::of_socket(&socket).is_some())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::DirBuilderExt as _;
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
    fn whoever_is_killed_while_it_removes_leaves_the_mark() {
        let parent = tempfile::tempdir().unwrap();
        let left = make(parent.path(), "pgthaw-lab-left");
        drop(OwnerMark::place(&left).unwrap());
        // What cannot be removed stands for the moment of the kill: an entry of which nobody knows what it is.
        fs::create_dir(left.join("data")).unwrap();
        fs::write(left.join("data/1"), "").unwrap();
        let mounted = Command::new("mount").args(["-t", "tmpfs", "none"]).arg(left.join("data")).output();
        if !mounted.is_ok_and(|output| output.status.success()) {
            return;
        }
        assert!(remove_marked(&left).is_err());
        assert!(left.join(MARK).exists());
        assert!(Command::new("umount").arg(left.join("data")).status().unwrap().success());
        assert_eq!(remove_abandoned(parent.path()), [left]);
    }

    #[test]
    fn an_old_directory_without_a_mark_and_with_nothing_in_it_goes() {
        let parent = tempfile::tempdir().unwrap();
        let make = |name: &str, mode: u32| {
            let directory = parent.path().join(name);
            fs::DirBuilder::new().mode(mode).create(&directory).unwrap();
            directory
        };
        let (empty, draft) = (make("pgthaw-aB3xYz", 0o700), make("pgthaw-lab-aB3xYz", 0o700));
        fs::write(draft.join(format!("{MARK}-77")), "").unwrap();
        let full = make("pgthaw-full00", 0o700);
        fs::write(full.join("file"), "").unwrap();
        let others = [full, make("pgthaw-scratch", 0o700), make("pgthaw-place1", 0o755)];
        let is_forgotten = |path: &PathBuf, age| is_forgotten(path, Duration::from_secs(age));
        assert!([&empty, &draft].iter().all(|path| is_forgotten(path, 0)));
        assert!(!others.iter().any(|path| is_forgotten(path, 0)));
        assert!(!is_forgotten(&empty, 3600), "somebody may be about to mark it");
        assert!(remove_abandoned(parent.path()).is_empty());
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
