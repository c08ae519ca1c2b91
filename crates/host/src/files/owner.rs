//! In directories where another user may write, root writes as that user, so that planted links give no access.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};
use std::{fs, io};

use nix::unistd::User;
use rand::distr::{Alphanumeric, SampleString as _};
use rustix::process::{Gid, Uid, geteuid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

use super::{Directory, directory_of};

/// The kernel's overflow group, for unknown users.
const NO_GROUP: u32 = 65_534;

const LINKS_MAX: u32 = 40;

/// Runs `work` as the user who controls `path`, if this process is root and that user is not.
///
/// # Errors
/// If this process may not act as that user; `work` did not run.
pub fn as_owner_of<T: Send>(path: &Path, work: impl FnOnce() -> T + Send) -> io::Result<T> {
    let Some((uid, gid)) = foreign_owner(path) else { return Ok(work()) };
    // Linux has user IDs per thread.
    std::thread::scope(|scope| {
        let worker = scope.spawn(move || {
            set_thread_groups(&[gid])?;
            set_thread_res_gid(gid, gid, gid)?;
            set_thread_res_uid(uid, uid, uid)?;
            Ok(work())
        });
        worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

pub fn has_foreign_owner(path: &Path) -> bool {
    foreign_owner(path).is_some()
}

/// First owner other than root among the path's components. Always `None` if this process is not root.
fn foreign_owner(path: &Path) -> Option<(Uid, Gid)> {
    if !geteuid().is_root() {
        return None;
    }
    let mut left: VecDeque<OsString> = names_of(&std::path::absolute(path).ok()?);
    let mut reached = PathBuf::from("/");
    let mut links = 0;
    while let Some(name) = left.pop_front() {
        if name == ".." {
            reached.pop();
            continue;
        }
        let next = reached.join(&name);
        // If `next` is missing, the caller creates it in `reached`, whose owner is root.
        let Ok(facts) = fs::symlink_metadata(&next) else { break };
        if facts.uid() != 0 {
            return Some((Uid::from_raw(facts.uid()), group_of(facts.uid())));
        }
        match fs::read_link(&next) {
            Ok(target) if links < LINKS_MAX => {
                links += 1;
                if target.is_absolute() {
                    reached = PathBuf::from("/");
                }
                let mut names = names_of(&target);
                names.append(&mut left);
                left = names;
            }
            _ => reached = next,
        }
    }
    None
}

/// The user's primary group. A file's group is unsuitable: the user may not be a member.
fn group_of(uid: u32) -> Gid {
    let user = User::from_uid(nix::unistd::Uid::from_raw(uid)).ok().flatten();
    Gid::from_raw(user.map_or(NO_GROUP, |user| user.gid.as_raw()))
}

fn names_of(path: &Path) -> VecDeque<OsString> {
    let named = |component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        _ => None,
    };
    path.components().filter_map(named).collect()
}

pub const MADE_UP_CHARACTERS: usize = 6;

/// Directory of this process's user. If another directory takes its name, `remove` does not empty that directory.
#[derive(Debug)]
pub struct OwnDirectory {
    parent: Directory,
    name: OsString,
    directory: Directory,
}

impl OwnDirectory {
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

    /// # Errors
    /// `PermissionDenied` for another user's directory, `NotADirectory` for a link.
    pub fn open(path: &Path) -> io::Result<OwnDirectory> {
        let unnamed = || io::Error::new(io::ErrorKind::InvalidInput, format!("{} has no name", path.display()));
        let name = path.file_name().ok_or_else(unnamed)?.to_owned();
        let parent = open_parent(directory_of(path))?;
        OwnDirectory { directory: parent.subdirectory(&name)?, parent, name }.require_own()
    }

    fn require_own(self) -> io::Result<OwnDirectory> {
        match self.directory.facts()?.st_uid {
            uid if uid == rustix::process::geteuid().as_raw() => Ok(self),
            uid => Err(io::Error::new(io::ErrorKind::PermissionDenied, format!("it belongs to user {uid}"))),
        }
    }

    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    pub fn path(&self) -> PathBuf {
        self.parent.path().join(&self.name)
    }

    /// Removes the directory and its entries, `last` at the end.
    pub fn remove(&self, last: impl AsRef<OsStr>) -> io::Result<()> {
        self.directory.remove_contents(last)?;
        match self.parent.holds(&self.name, &self.directory)? {
            // By now, another directory may have this name; it is removed only if empty.
            true => self.parent.remove_empty(&self.name),
            false => Ok(()),
        }
    }
}

/// Makes the path absolute, for programs that run in another directory.
fn open_parent(parent: &Path) -> io::Result<Directory> {
    Directory::open(&std::path::absolute(parent)?)
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt as _, chown, symlink};

    use super::*;

    const NOBODY: u32 = 65_534;

    fn open_place() -> tempfile::TempDir {
        let place = tempfile::tempdir().unwrap();
        fs::set_permissions(place.path(), Permissions::from_mode(0o755)).unwrap();
        place
    }

    #[test]
    fn what_root_makes_in_a_directory_of_another_is_his() {
        needs_root!();
        let place = open_place();
        let foreign = place.path().join("foreign");
        fs::create_dir(&foreign).unwrap();
        chown(&foreign, Some(NOBODY), Some(NOBODY)).unwrap();
        symlink("foreign", place.path().join("link")).unwrap();
        for directory in [foreign.clone(), place.path().join("link/deep/er")] {
            as_owner_of(&directory, || fs::create_dir_all(directory.join("made"))).unwrap().unwrap();
            let facts = fs::metadata(directory.join("made")).unwrap();
            assert_eq!((facts.uid(), facts.gid()), (NOBODY, NOBODY));
        }
        let own = place.path().join("own");
        as_owner_of(&own, || fs::write(&own, "")).unwrap().unwrap();
        assert_eq!(fs::metadata(&own).unwrap().uid(), 0);
    }

    #[test]
    fn what_is_planted_there_leads_root_nowhere() {
        needs_root!();
        let place = open_place();
        let (foreign, roots) = (place.path().join("foreign"), place.path().join("roots"));
        for directory in [&foreign, &roots] {
            fs::create_dir(directory).unwrap();
        }
        fs::set_permissions(&roots, Permissions::from_mode(0o700)).unwrap();
        symlink("../roots", foreign.join("store")).unwrap();
        std::os::unix::fs::lchown(foreign.join("store"), Some(NOBODY), Some(NOBODY)).unwrap();
        chown(&foreign, Some(NOBODY), Some(NOBODY)).unwrap();
        let planted = foreign.join("store");
        let failure = as_owner_of(&planted, || fs::write(planted.join("file"), "")).unwrap().unwrap_err();
        assert_eq!(failure.kind(), std::io::ErrorKind::PermissionDenied);
        assert!(geteuid().is_root(), "this thread is what it was");
        symlink("circle", place.path().join("circle")).unwrap();
        assert_eq!(foreign_owner(&place.path().join("circle")), None);
    }

    #[test]
    fn he_has_his_own_group_and_not_the_directorys() {
        needs_root!();
        let place = open_place();
        let (foreign, roots) = (place.path().join("foreign"), place.path().join("roots"));
        fs::create_dir(&foreign).unwrap();
        chown(&foreign, Some(NOBODY), Some(0)).unwrap();
        fs::write(&roots, "mine").unwrap();
        fs::set_permissions(&roots, Permissions::from_mode(0o660)).unwrap();
        let (groups, made, read) = as_owner_of(&foreign, || {
            let groups = rustix::process::getgroups().unwrap();
            (groups, fs::write(foreign.join("made"), ""), fs::read(&roots))
        })
        .unwrap();
        made.unwrap();
        assert_eq!(groups, [group_of(NOBODY)]);
        assert_ne!(group_of(NOBODY), Gid::ROOT);
        assert_eq!(fs::metadata(foreign.join("made")).unwrap().gid(), group_of(NOBODY).as_raw());
        assert_eq!(read.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        assert_eq!(group_of(3_999_999_999).as_raw(), NO_GROUP);
    }
}

#[cfg(test)]
mod own_directory_tests {
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
