//! What root writes where somebody else may is written as that user: then nothing that he puts there in time lets him reach
//! further than he reaches himself.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

use nix::unistd::User;
use rustix::process::{Gid, Uid, geteuid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

/// Group of a user whom the password database does not know: the kernel's overflow group.
const NO_GROUP: u32 = 65_534;

/// Symbolic links that a path may lead through, as in the kernel.
const LINKS_MAX: u32 = 40;

/// Does something as the user who decides what `path` leads to, where that is not root and this process is root; as itself
/// otherwise. What it makes is that user's.
///
/// # Errors
/// When this process may not act as that user; nothing was done then.
pub fn as_owner_of<T: Send>(path: &Path, work: impl FnOnce() -> T + Send) -> io::Result<T> {
    let Some((uid, gid)) = foreign_owner(path) else { return Ok(work()) };
    // The kernel knows users by thread. This one is his from now on, and so are those that it starts.
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

/// Would [`as_owner_of`] act as somebody else?
pub fn has_foreign_owner(path: &Path) -> bool {
    foreign_owner(path).is_some()
}

/// Who decides what a path leads to, when that is not root: he owns the first name on the way that is not root's. `None` for
/// whoever is not root himself.
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
        // What is not there yet is made in what was reached.
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

/// The user's own group, by the password database: a file of his may be of a group that he is not in.
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

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt as _, chown, symlink};

    use super::*;

    const NOBODY: u32 = 65_534;

    /// A directory that everybody may enter.
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
        // Through a link of root's as well.
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
        // What leads back to itself ends.
        symlink("circle", place.path().join("circle")).unwrap();
        assert_eq!(foreign_owner(&place.path().join("circle")), None);
    }

    #[test]
    fn he_has_his_own_group_and_not_the_directorys() {
        needs_root!();
        let place = open_place();
        let (foreign, roots) = (place.path().join("foreign"), place.path().join("roots"));
        fs::create_dir(&foreign).unwrap();
        // Of root's group, as a directory is that was given away with chown(1).
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
        // A user whom nobody knows has no group that anybody is in.
        assert_eq!(group_of(3_999_999_999).as_raw(), NO_GROUP);
    }
}
