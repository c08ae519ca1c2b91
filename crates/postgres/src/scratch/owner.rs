//! The process that owns a temporary directory keeps a file in it locked. The kernel releases the lock when the process
//! dies. Kept directories have no such file.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use host::files::{Directory, FileType, MADE_UP_CHARACTERS, OwnDirectory};
use host::linux::process;
use nix::unistd::User;
use rustix::fs::OFlags;

use crate::error::CREATE_DIRECTORY_IN;
use crate::{DataDirectory, Error, Result};

const PREFIX: &str = "pgthaw-";

pub(super) const MARK: &str = ".pgthaw-owner";

pub(super) const SOCKETS: &str = "s";

/// An older empty directory counts as abandoned: its owner was killed before it placed the marker file.
const MARKED_WITHIN: Duration = Duration::from_secs(3600);

#[derive(Debug)]
pub struct OwnerMark {
    directory: Directory,
    /// Holds the lock.
    _file: File,
}

impl OwnerMark {
    pub fn place(directory: &Directory) -> io::Result<OwnerMark> {
        // The marker file is locked before it gets its final name.
        let draft = format!("{MARK}-{}", std::process::id());
        let file = directory.create_file(&draft, 0o600)?;
        file.lock()?;
        directory.rename(&draft, MARK)?;
        Ok(OwnerMark { directory: directory.try_clone()?, _file: file })
    }

    pub fn remove(&self) -> io::Result<()> {
        self.directory.remove_file(MARK)
    }
}

/// Temporary directory with a marker file, removed on drop.
#[derive(Debug)]
pub struct MarkedDirectory {
    directory: OwnDirectory,
    path: PathBuf,
    _mark: OwnerMark,
}

impl MarkedDirectory {
    pub fn create(prefix: &str, parent: &Path) -> io::Result<MarkedDirectory> {
        let directory = OwnDirectory::create(prefix, parent)?;
        let mark = OwnerMark::place(directory.directory())?;
        Ok(MarkedDirectory { path: directory.path(), directory, _mark: mark })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn directory(&self) -> &Directory {
        self.directory.directory()
    }
}

impl Drop for MarkedDirectory {
    fn drop(&mut self) {
        // The marker file goes last: a failure leaves the directory marked.
        let _ = self.directory.remove(MARK);
    }
}

/// Keeps directories whose server is still stopping.
pub fn remove_abandoned(parent: &Path) -> Vec<PathBuf> {
    let Ok(entries) = Directory::open(parent).and_then(|parent| parent.entries()) else { return Vec::new() };
    let is_named = |name: &OsStr| name.to_string_lossy().starts_with(PREFIX);
    let named = entries.into_iter().filter(|entry| entry.kind == FileType::Directory && is_named(&entry.name));
    let mut removed = Vec::new();
    for directory in named.filter_map(|entry| OwnDirectory::open(&parent.join(entry.name)).ok()) {
        // The lock blocks concurrent removers.
        let mark = take_abandoned(&directory);
        let is_abandoned = mark.is_some() || is_forgotten(&directory, MARKED_WITHIN);
        if is_abandoned && directory.remove(MARK).is_ok() {
            removed.push(directory.path());
        }
    }
    removed
}

/// Whether the owner was killed before it placed a marker file.
fn is_forgotten(directory: &OwnDirectory, age: Duration) -> bool {
    let path = directory.path();
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let is_made_up = name.rsplit_once('-').is_some_and(|(_, made_up)| {
        made_up.len() == MADE_UP_CHARACTERS && made_up.chars().all(|one| one.is_ascii_alphanumeric())
    });
    let Ok(found) = directory.directory().facts() else { return false };
    let changed_at = SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(found.st_mtime).unwrap_or(0));
    let is_old = || changed_at.elapsed().is_ok_and(|elapsed| elapsed >= age);
    is_made_up && found.st_mode & 0o777 == 0o700 && is_old() && holds_drafts_alone(directory.directory())
}

fn holds_drafts_alone(directory: &Directory) -> bool {
    let is_draft = |name: &OsStr| name.to_string_lossy().starts_with(&format!("{MARK}-"));
    directory.entries().is_ok_and(|entries| entries.iter().all(|entry| is_draft(&entry.name)))
}

/// Takes the lock if the owner is dead.
fn take_abandoned(directory: &OwnDirectory) -> Option<File> {
    let mark = directory.directory().open_file_with(MARK, OFlags::RDWR).ok()?;
    let is_own = std::os::unix::fs::MetadataExt::uid(&mark.metadata().ok()?) == rustix::process::geteuid().as_raw();
    (is_own && mark.try_lock().is_ok() && !has_server(&directory.path())).then_some(mark)
}

/// Whether a server still runs: it stops shortly after its owner.
pub fn has_server(directory: &Path) -> bool {
    let place = directory.join(SOCKETS);
    let sockets = Directory::open_itself(&place).and_then(|found| found.entries()).unwrap_or_default();
    let mut sockets =
        sockets.iter().filter(|entry| entry.kind == FileType::Socket).map(|entry| place.join(&entry.name));
    DataDirectory::open(&directory.join("data")).is_ok_and(|data| data.read_postmaster().is_some())
        || sockets.any(|socket| DataDirectory::of_socket(&socket).is_some())
}

pub const CLUSTER_PREFIX: &str = "pgthaw-lab-";

/// The server's user owns `DATA`; this process's user owns `LOG`.
pub const DATA: &str = "data";
pub const LOG: &str = "server.log";

/// User of the server, because a server refuses to run as root.
#[derive(Clone, Copy, Debug)]
pub struct Owner {
    pub uid: u32,
    pub gid: u32,
}

impl Owner {
    pub fn of(data_directory: &DataDirectory) -> Result<Owner> {
        let facts = data_directory.files.root().facts();
        let facts = facts.map_err(|source| Error::file("look at", &data_directory.path, source))?;
        Ok(Owner { uid: facts.st_uid, gid: facts.st_gid })
    }

    pub fn run(self, command: &mut Command) {
        process::run_as(command, self.uid, self.gid);
    }
}

/// The server's user can only traverse the directory.
pub fn new_directory(parent: &Path, owner: Option<Owner>) -> Result<(OwnDirectory, OwnerMark)> {
    let make = || {
        let directory = OwnDirectory::create(CLUSTER_PREFIX, parent)?;
        let mark = OwnerMark::place(directory.directory())?;
        let_through(directory.directory(), owner)?;
        Ok((directory, mark))
    };
    make().map_err(|source| Error::File { action: CREATE_DIRECTORY_IN, path: parent.to_owned(), source })
}

pub fn let_through(directory: &Directory, owner: Option<Owner>) -> std::io::Result<()> {
    directory.give_to(None, if owner.is_some() { 0o711 } else { 0o700 })
}

pub fn make_for(owner: Option<Owner>, directory: &Directory, name: &str) -> std::io::Result<()> {
    directory.create_subdirectory(name, 0o700)?.give_to(owner.map(|owner| (owner.uid, owner.gid)), 0o700)
}

/// User that runs root's servers: `postgres`, else `nobody`. `None` for other users.
pub fn server_owner() -> Option<Owner> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let named = |name: &str| User::from_name(name).ok().flatten();
    let user = named("postgres").or_else(|| named("nobody"))?;
    Some(Owner { uid: user.uid.as_raw(), gid: user.gid.as_raw() })
}

const REMOVED: &str = "removed";

pub fn has_cluster(directory: &Path) -> bool {
    let data = Directory::open_itself(directory).and_then(|directory| directory.subdirectory(DATA));
    data.and_then(|data| data.open_file("PG_VERSION")).is_ok()
}

/// Renames `data` first and removes the marker file last, so that a kill leaves no partial cluster.
pub fn remove_cluster(directory: &Path) -> io::Result<()> {
    remove_own_cluster(&OwnDirectory::open(directory)?)
}

pub(super) fn remove_own_cluster(own: &OwnDirectory) -> io::Result<()> {
    let _ = own.directory().rename(DATA, REMOVED);
    let _ = own.directory().remove_file(LOG);
    own.remove(MARK)
}

#[cfg(test)]
mod owner_mark_tests {
    use std::fs;
    use std::io::Read as _;
    use std::os::unix::fs::DirBuilderExt as _;
    use std::process::Stdio;

    use super::*;

    fn make(parent: &Path, name: &str) -> PathBuf {
        let directory = parent.join(name);
        fs::create_dir(&directory).unwrap();
        fs::write(directory.join("file"), "something").unwrap();
        directory
    }

    fn place(directory: &Path) -> io::Result<OwnerMark> {
        OwnerMark::place(&Directory::open(directory)?)
    }

    #[test]
    fn what_is_in_use_or_kept_or_a_strangers_stays() {
        let parent = tempfile::tempdir().unwrap();
        let used = make(parent.path(), "pgthaw-lab-used");
        let kept = make(parent.path(), "pgthaw-lab-kept");
        let unmarked = make(parent.path(), "pgthaw-lab-unmarked");
        let other = make(parent.path(), "other");
        let _used = place(&used).unwrap();
        place(&kept).unwrap().remove().unwrap();
        drop(place(&other).unwrap());
        std::os::unix::fs::symlink(&other, parent.path().join("pgthaw-link")).unwrap();
        assert_eq!(remove_abandoned(parent.path()), Vec::<PathBuf>::new());
        assert!([used, kept, unmarked, other].iter().all(|path| path.join("file").exists()));
    }

    #[test]
    fn what_a_dead_process_left_goes() {
        let parent = tempfile::tempdir().unwrap();
        let left = make(parent.path(), "pgthaw-lab-left");
        drop(place(&left).unwrap());
        assert_eq!(remove_abandoned(parent.path()), std::slice::from_ref(&left));
        assert!(!left.exists());
        assert!(remove_abandoned(&left).is_empty(), "a place that is not there has nothing");
    }

    #[test]
    fn whoever_is_killed_while_it_removes_leaves_the_mark() {
        let parent = tempfile::tempdir().unwrap();
        let left = make(parent.path(), "pgthaw-lab-left");
        drop(place(&left).unwrap());
        fs::create_dir(left.join("data")).unwrap();
        fs::write(left.join("data/1"), "").unwrap();
        let mounted = Command::new("mount").args(["-t", "tmpfs", "none"]).arg(left.join("data")).output();
        if !mounted.is_ok_and(|output| output.status.success()) {
            untested!("nothing can be mounted");
        }
        assert!(OwnDirectory::open(&left).unwrap().remove(MARK).is_err());
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
        let is_forgotten =
            |path: &PathBuf, age| is_forgotten(&OwnDirectory::open(path).unwrap(), Duration::from_secs(age));
        assert!([&empty, &draft].iter().all(|path| is_forgotten(path, 0)));
        assert!(!others.iter().any(|path| is_forgotten(path, 0)));
        assert!(!is_forgotten(&empty, 3600), "somebody may be about to mark it");
        assert!(remove_abandoned(parent.path()).is_empty());
    }

    #[test]
    fn a_lock_does_not_pass_to_the_programs_that_its_owner_starts() {
        let parent = tempfile::tempdir().unwrap();
        let left = make(parent.path(), "pgthaw-lab-left");
        let mark = place(&left).unwrap();
        let mut sleeper = Command::new("sh");
        sleeper.args(["-c", "echo; exec sleep 60"]).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut sleeper = sleeper.spawn().unwrap();
        sleeper.stdout.take().unwrap().read_exact(&mut [0]).unwrap();
        drop(mark);
        assert_eq!(remove_abandoned(parent.path()), [left]);
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
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
