//! A directory tree whose files have one owner, such as a data directory.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use rustix::fs::{Gid, OFlags, Stat, Uid, fchown};

use super::{Directory, Draft, read_open_at_most, remove_abandoned_drafts};
use crate::linux::threads::lock;

/// Prefix of temporary files; none of PostgreSQL's file names starts with it.
const REPLACED_PREFIX: &str = ".pgthaw-replaced-";

/// Opens only regular files of the directory's owner, and follows no links, so that the owner cannot make a privileged
/// reader open other files.
#[derive(Debug)]
pub struct Tree {
    root: Directory,
    owner: u32,
    doors: &'static [&'static str],
    /// Root directory of the tree's container, and the tree's path below it.
    container: Option<(Directory, PathBuf)>,
    /// Opened directories behind permitted links (`doors`), by path below the root.
    open: Mutex<HashMap<PathBuf, Arc<Directory>>>,
}

impl Tree {
    /// `doors` are names that may be links to directories of the same owner. A door with a trailing slash, such as
    /// `pg_tblspc/`, stands for every name in that directory.
    pub fn open(path: &Path, doors: &'static [&'static str]) -> io::Result<Tree> {
        Tree::of(Directory::open(path)?, doors)
    }

    pub fn of(root: Directory, doors: &'static [&'static str]) -> io::Result<Tree> {
        let owner = root.facts()?.st_uid;
        Ok(Tree { root, owner, doors, container: None, open: Mutex::default() })
    }

    /// Opens the tree at `path` below a container's root directory; links in `path` cannot lead out.
    pub fn open_within(container: Directory, path: &Path, doors: &'static [&'static str]) -> io::Result<Tree> {
        let tree = Tree::of(container.open_within(path)?, doors)?;
        Ok(Tree { container: Some((container, path.to_owned())), ..tree })
    }

    pub fn path(&self) -> &Path {
        self.root.path()
    }

    pub fn owner(&self) -> u32 {
        self.owner
    }

    pub fn root(&self) -> &Directory {
        &self.root
    }

    /// # Errors
    /// `InvalidInput` unless it is a regular file behind permitted links (`doors`) only; `PermissionDenied` for
    /// another user's file.
    pub fn open_file(&self, below: impl AsRef<Path>) -> io::Result<File> {
        self.open_file_with(below, OFlags::RDONLY)
    }

    pub fn open_file_with(&self, below: impl AsRef<Path>, flags: OFlags) -> io::Result<File> {
        let below = below.as_ref();
        let opened = match self.door_of(below) {
            Some((door, behind)) => self.go_through(&door)?.open_file_with(behind, flags),
            None => self.root.open_file_with(below, flags),
        };
        let file = opened.map_err(|error| match error.raw_os_error() {
            Some(libc::ELOOP) => io::Error::new(io::ErrorKind::InvalidInput, "its path contains a symbolic link"),
            _ => error,
        })?;
        self.require_owner(file.metadata()?.uid())?;
        Ok(file)
    }

    /// Metadata of a file, even if this user may not read the file.
    pub fn facts_of(&self, below: &Path) -> io::Result<Stat> {
        match self.door_of(below) {
            Some((door, behind)) => self.go_through(&door)?.facts_below(behind),
            None => self.root.facts_below(below),
        }
    }

    pub fn container(&self) -> Option<&Directory> {
        self.container.as_ref().map(|(root, _)| root)
    }

    pub fn read_at_most(&self, below: impl AsRef<Path>, limit: u64) -> io::Result<Vec<u8>> {
        read_open_at_most(self.open_file(below)?, limit)
    }

    pub fn append(&self, name: &str, text: &str) -> io::Result<()> {
        self.open_file_with(name, OFlags::WRONLY | OFlags::APPEND)?.write_all(text.as_bytes())
    }

    pub fn replace(&self, name: &str, mut content: impl Read) -> io::Result<()> {
        remove_abandoned_drafts(&self.root, REPLACED_PREFIX)?;
        let draft = Draft::create(self.root.try_clone()?, REPLACED_PREFIX, 0o600)?;
        io::copy(&mut content, &mut draft.file())?;
        let facts = self.root.facts()?;
        fchown(draft.file(), Some(Uid::from_raw(facts.st_uid)), Some(Gid::from_raw(facts.st_gid)))?;
        draft.place(name)
    }

    pub fn directory(&self, below: impl AsRef<Path>) -> io::Result<Directory> {
        let below = below.as_ref();
        match self.door_of(below) {
            Some((door, behind)) if behind.as_os_str().is_empty() => self.go_through(&door)?.subdirectory("."),
            Some((door, behind)) => self.go_through(&door)?.subdirectory(behind),
            None => self.root.subdirectory(if below.as_os_str().is_empty() { Path::new(".") } else { below }),
        }
    }

    fn door_of<'a>(&self, below: &'a Path) -> Option<(PathBuf, &'a Path)> {
        let depth = |door: &&str| Path::new(door).components().count() + usize::from(door.ends_with('/'));
        let mut components = below.components();
        let is_behind = |door: &&&str| below.starts_with(door) && below.components().count() >= depth(door);
        let depth = self.doors.iter().find(is_behind).map(depth)?;
        let door = components.by_ref().take(depth).collect();
        Some((door, components.as_path()))
    }

    fn go_through(&self, door: &Path) -> io::Result<Arc<Directory>> {
        let mut open = lock(&self.open);
        if let Some(directory) = open.get(door) {
            return Ok(Arc::clone(directory));
        }
        let directory = match &self.container {
            Some((container, path)) => container.open_within(&path.join(door))?,
            None => self.root.subdirectory_behind_link(door)?,
        };
        self.require_owner(directory.facts()?.st_uid)?;
        let directory = Arc::new(directory);
        open.insert(door.to_owned(), Arc::clone(&directory));
        Ok(directory)
    }

    fn require_owner(&self, uid: u32) -> io::Result<()> {
        match uid == self.owner {
            true => Ok(()),
            false => Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                format!("it belongs to user {uid}, but {} belongs to user {}", self.path().display(), self.owner),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{chown, symlink};

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    const DOORS: &[&str] = &["log", "elsewhere/"];

    fn tree() -> (tempfile::TempDir, Tree) {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        for directory in ["root/base", "root/elsewhere/3", "other/deep"] {
            fs::create_dir_all(path(directory)).unwrap();
        }
        for file in ["root/base/1", "root/elsewhere/3/1", "other/1", "other/deep/1", "secret"] {
            fs::write(path(file), file).unwrap();
        }
        symlink(path("other"), path("root/log")).unwrap();
        symlink(path("other"), path("root/elsewhere/7")).unwrap();
        symlink(path("other"), path("root/more")).unwrap();
        symlink("../../secret", path("root/base/2")).unwrap();
        symlink("../secret", path("other/2")).unwrap();
        mknodat(CWD, path("root/base/3"), FileType::Fifo, Mode::RUSR, 0).unwrap();
        let tree = Tree::open(&path("root"), DOORS).unwrap();
        (place, tree)
    }

    #[test]
    fn links_lead_through_doors_alone() {
        let (_place, tree) = tree();
        let read = |below: &str| tree.read_at_most(below, 100).map(|bytes| String::from_utf8(bytes).unwrap());
        assert_eq!(read("base/1").unwrap(), "root/base/1");
        assert_eq!(read("elsewhere/7/deep/1").unwrap(), "other/deep/1");
        assert_eq!(read("elsewhere/3/1").unwrap(), "root/elsewhere/3/1", "a door may be a directory");
        assert_eq!(read("log/1").unwrap(), "other/1");
        for below in ["base/2", "more/1", "elsewhere/7/2", "log/2", "elsewhere/7/../../secret", "logs/1", "base/3"] {
            assert!(read(below).is_err(), "{below}");
        }
        assert_eq!(read("base/9").unwrap_err().kind(), io::ErrorKind::NotFound);
        assert!(read("base/2").unwrap_err().to_string().contains("symbolic link"));
        let names = |below: &str| tree.directory(below).map(|found| found.entries().unwrap().len());
        assert_eq!((names("log").unwrap(), names("elsewhere").unwrap(), names("").unwrap()), (3, 2, 4));
        assert!(names("more").is_err());
    }

    #[test]
    fn links_of_a_container_lead_to_its_own_files() {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        for (file, text) in [("data/base/1", "1"), ("etc/secret", "the container's"), ("space/1", "a space's")] {
            fs::create_dir_all(path(file).parent().unwrap()).unwrap();
            fs::write(path(file), text).unwrap();
        }
        fs::create_dir(path("data/elsewhere")).unwrap();
        symlink("/data", path("pgdata")).unwrap();
        symlink("/etc", path("data/log")).unwrap();
        for (name, target) in
            [("1", "/space"), ("2", "../../space"), ("3", "/proc/self/root/etc"), ("4", "/../../../../../../../etc")]
        {
            symlink(target, path("data/elsewhere").join(name)).unwrap();
        }
        let tree = Tree::open_within(Directory::open(place.path()).unwrap(), Path::new("/pgdata"), DOORS).unwrap();
        let read = |below: &str| tree.read_at_most(below, 100).map(|bytes| String::from_utf8(bytes).unwrap());
        assert_eq!((read("base/1").unwrap(), read("elsewhere/1/1").unwrap()), ("1".into(), "a space's".into()));
        assert_eq!(
            (read("elsewhere/2/1").unwrap(), read("log/secret").unwrap()),
            ("a space's".into(), "the container's".into())
        );
        assert_eq!(read("elsewhere/4/secret").unwrap(), "the container's");
        assert!(read("elsewhere/3/passwd").is_err() && read("log/passwd").is_err());
        assert!(
            tree.facts_of("elsewhere/1/1".as_ref()).unwrap().st_size > 0 && tree.facts_of("base/2".as_ref()).is_err()
        );
    }

    #[test]
    fn what_a_killed_replacement_left_goes_with_the_next_one() {
        let place = tempfile::tempdir().unwrap();
        let left = |name: &str| {
            fs::write(place.path().join(name), "half").unwrap();
            let owner = if name.ends_with('2') { 65_534 } else { 0 };
            if rustix::process::geteuid().is_root() {
                chown(place.path(), Some(65_534), None).unwrap();
                chown(place.path().join(name), Some(owner), None).unwrap();
            }
        };
        [".pgthaw-replaced-1", ".pgthaw-replaced-2", ".other-3"].into_iter().for_each(left);
        let tree = Tree::open(place.path(), &[]).unwrap();
        tree.replace("blocks", &b"whole"[..]).unwrap();
        assert_eq!(tree.read_at_most("blocks", 100).unwrap(), b"whole");
        let mut names: Vec<_> = tree.root().entries().unwrap().into_iter().map(|entry| entry.name).collect();
        names.sort();
        assert_eq!(names, [".other-3", "blocks"]);
    }

    #[test]
    fn a_door_stays_the_one_that_was_opened_and_leads_to_the_owners_alone() {
        needs_root!();
        let (place, tree) = tree();
        tree.read_at_most("log/1", 100).unwrap();
        fs::remove_file(place.path().join("root/log")).unwrap();
        symlink("/etc", place.path().join("root/log")).unwrap();
        assert!(tree.open_file("log/passwd").is_err() && tree.open_file("log/1").is_ok());
        chown(place.path().join("root/base/1"), Some(65_534), None).unwrap();
        assert_eq!(tree.open_file("base/1").unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        chown(place.path().join("other"), Some(65_534), None).unwrap();
        assert_eq!(tree.open_file("elsewhere/7/1").unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    }
}
