use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Gid, Mode, OFlags, RenameFlags, ResolveFlags, Stat, Uid, fchmod, fchown, fcntl_setfl,
    fstat, fstatfs, fsync, mkdirat, openat, openat2, renameat_with, statat, unlinkat,
};
use rustix::io::Errno;

const OPEN_DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

pub const OPEN_DIRECTORIES: &str = "/proc/self/fd/";

/// Maximum depth of a directory tree to remove: each level keeps a descriptor open.
const DEPTH_MAX: usize = 100;

/// An open directory. Lookups below it follow no symbolic link and refuse `..`.
#[derive(Debug)]
pub struct Directory {
    descriptor: OwnedFd,
    path: PathBuf,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub name: OsString,
    /// Links are not followed.
    pub kind: FileType,
}

impl Directory {
    /// Follows links, since the path is a user's choice.
    pub fn open(path: &Path) -> io::Result<Directory> {
        Directory::adopt(openat(CWD, path, OPEN_DIRECTORY, Mode::empty())?, path)
    }

    pub fn create(path: &Path) -> io::Result<Directory> {
        match Directory::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                std::fs::create_dir_all(path)?;
                Directory::open(path)
            }
            opened => opened,
        }
    }

    /// Fails if the last component of `path` is a link.
    pub fn open_itself(path: &Path) -> io::Result<Directory> {
        Directory::adopt(openat(CWD, path, OPEN_DIRECTORY | OFlags::NOFOLLOW, Mode::empty())?, path)
    }

    /// Opens `path` as if this directory were the root: no link or `..` leads out. Magic links of /proc are errors.
    pub fn open_within(&self, path: &Path) -> io::Result<Directory> {
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        let opened = openat2(&self.descriptor, path, OPEN_DIRECTORY, Mode::empty(), resolve)?;
        let named = |path: &Path| self.path.join(path.strip_prefix("/").unwrap_or(path));
        let directory = Directory { descriptor: opened, path: named(path) };
        // For a directory in a container, the kernel reports a path without links. It may be unreachable.
        let real = named(&std::fs::read_link(directory.pinned())?);
        let is_it = Directory::open_itself(&real).is_ok_and(|other| other.is_same(&directory));
        Ok(if is_it { Directory { path: real, ..directory } } else { directory })
    }

    fn adopt(descriptor: OwnedFd, path: &Path) -> io::Result<Directory> {
        Ok(Directory { descriptor, path: path.to_owned() })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn facts(&self) -> io::Result<Stat> {
        Ok(fstat(&self.descriptor)?)
    }

    pub fn facts_of(&self, name: impl AsRef<OsStr>) -> io::Result<Stat> {
        Ok(statat(&self.descriptor, single(name.as_ref())?, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    pub fn holds(&self, name: impl AsRef<OsStr>, opened: impl AsFd) -> io::Result<bool> {
        let (named, opened) = match self.facts_of(name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            named => (named?, fstat(opened)?),
        };
        Ok((named.st_dev, named.st_ino) == (opened.st_dev, opened.st_ino))
    }

    pub fn subdirectory(&self, below: impl AsRef<Path>) -> io::Result<Directory> {
        let below = below.as_ref();
        Directory::adopt(self.open_below(below, OPEN_DIRECTORY)?, &self.path.join(below))
    }

    /// Only the last component of `below` may be a link.
    pub(super) fn subdirectory_behind_link(&self, below: &Path) -> io::Result<Directory> {
        let name = below.file_name().ok_or(Errno::INVAL)?;
        let open = |parent: BorrowedFd<'_>| openat(parent, name, OPEN_DIRECTORY, Mode::empty());
        let opened = match below.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            Some(parent) => open(self.subdirectory(parent)?.as_fd())?,
            None => open(self.as_fd())?,
        };
        Directory::adopt(opened, &self.path.join(below))
    }

    /// # Errors
    /// `InvalidInput` unless it is a regular file; ELOOP for a link.
    pub fn open_file(&self, below: impl AsRef<Path>) -> io::Result<File> {
        self.open_file_with(below, OFlags::RDONLY)
    }

    pub fn open_file_with(&self, below: impl AsRef<Path>, flags: OFlags) -> io::Result<File> {
        let flags = flags | OFlags::NONBLOCK | OFlags::NOCTTY;
        require_regular(self.open_below(below.as_ref(), flags)?.into())
    }

    pub(super) fn facts_below(&self, below: &Path) -> io::Result<Stat> {
        Ok(fstat(self.open_below(below, OFlags::PATH)?)?)
    }

    pub fn is_same(&self, other: &Directory) -> bool {
        let place = |one: &Directory| one.facts().map(|facts| (facts.st_dev, facts.st_ino)).ok();
        place(self).is_some_and(|own| place(other) == Some(own))
    }

    /// A link is an error. Later changes of the name have no effect.
    pub fn open_socket(&self, name: impl AsRef<OsStr>) -> io::Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let socket = openat(&self.descriptor, single(name.as_ref())?, flags, Mode::empty())?;
        match FileType::from_raw_mode(fstat(&socket)?.st_mode) {
            FileType::Socket => Ok(socket),
            _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a socket")),
        }
    }

    /// Path by the descriptor, which no rename or link can redirect.
    pub fn pinned(&self) -> PathBuf {
        format!("{OPEN_DIRECTORIES}{}", self.descriptor.as_raw_fd()).into()
    }

    pub fn read_at_most(&self, below: impl AsRef<Path>, limit: u64) -> io::Result<Vec<u8>> {
        read_open_at_most(self.open_file(below)?, limit)
    }

    pub fn read_text_at_most(&self, below: impl AsRef<Path>, limit: u64) -> io::Result<String> {
        read_open_text_at_most(self.open_file(below)?, limit)
    }

    /// Fails if the name exists, even as a link.
    pub fn create_file(&self, name: impl AsRef<OsStr>, mode: u32) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(File::from(openat(&self.descriptor, single(name.as_ref())?, flags, Mode::from_raw_mode(mode))?))
    }

    /// # Errors
    /// `PermissionDenied` for another user's file: its owner could hold the lock forever.
    pub fn open_or_create(&self, name: impl AsRef<OsStr>, mode: u32) -> io::Result<File> {
        let name = name.as_ref();
        match self.create_file(name, mode) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => return made,
        }
        let file = self.open_file_with(Path::new(single(name)?), OFlags::RDWR)?;
        match fstat(&file)?.st_uid {
            uid if uid == rustix::process::geteuid().as_raw() => Ok(file),
            uid => Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                format!("it belongs to user {uid}, who could keep it locked forever: remove it"),
            )),
        }
    }

    pub fn open_to_append(&self, name: impl AsRef<OsStr>, mode: u32) -> io::Result<File> {
        let name = name.as_ref();
        match self.create_file(name, mode) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        self.open_file_with(Path::new(single(name)?), OFlags::WRONLY | OFlags::APPEND)
    }

    pub fn give_to(&self, owner: Option<(u32, u32)>, mode: u32) -> io::Result<()> {
        fchmod(&self.descriptor, Mode::from_raw_mode(mode))?;
        let Some((uid, gid)) = owner else { return Ok(()) };
        Ok(fchown(&self.descriptor, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))?)
    }

    pub fn try_clone(&self) -> io::Result<Directory> {
        Directory::adopt(self.descriptor.try_clone()?, &self.path)
    }

    pub fn create_subdirectory(&self, name: impl AsRef<OsStr>, mode: u32) -> io::Result<Directory> {
        let name = single(name.as_ref())?;
        mkdirat(&self.descriptor, name, Mode::from_raw_mode(mode))?;
        self.subdirectory(name)
    }

    pub fn create_or_open_subdirectory(&self, name: impl AsRef<OsStr>, mode: u32) -> io::Result<Directory> {
        match self.create_subdirectory(name.as_ref(), mode) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => self.subdirectory(Path::new(name.as_ref())),
            made => made,
        }
    }

    pub fn rename(&self, from: impl AsRef<OsStr>, to: impl AsRef<OsStr>) -> io::Result<()> {
        let (from, to) = (single(from.as_ref())?, single(to.as_ref())?);
        Ok(renameat_with(&self.descriptor, from, &self.descriptor, to, RenameFlags::empty())?)
    }

    pub fn rename_to_free(&self, from: impl AsRef<OsStr>, to: impl AsRef<OsStr>) -> io::Result<()> {
        let (from, to) = (single(from.as_ref())?, single(to.as_ref())?);
        match renameat_with(&self.descriptor, from, &self.descriptor, to, RenameFlags::NOREPLACE) {
            // Some file systems, such as NFS, lack RENAME_NOREPLACE. A hard link does the same: it fails if the name exists.
            Err(Errno::INVAL | Errno::NOSYS) => {
                rustix::fs::linkat(&self.descriptor, from, &self.descriptor, to, AtFlags::empty())?;
                self.remove_file(from)
            }
            renamed => Ok(renamed?),
        }
    }

    pub fn link(&self, name: impl AsRef<OsStr>, target: &Path) -> io::Result<()> {
        Ok(rustix::fs::symlinkat(target, &self.descriptor, single(name.as_ref())?)?)
    }

    /// Removes a link, not its target; fails for a directory.
    pub fn remove_file(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        Ok(unlinkat(&self.descriptor, single(name.as_ref())?, AtFlags::empty())?)
    }

    pub fn remove_empty(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        Ok(unlinkat(&self.descriptor, single(name.as_ref())?, AtFlags::REMOVEDIR)?)
    }

    /// Follows no link and enters no other file system.
    pub fn remove_tree(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        self.remove_tree_of(single(name.as_ref())?, self.facts()?.st_dev, DEPTH_MAX)
    }

    fn remove_tree_of(&self, name: &OsStr, device: u64, depth: usize) -> io::Result<()> {
        if depth == 0 {
            return Err(io::Error::other(format!("{} has too many levels of subdirectories", self.path.display())));
        }
        let directory = match self.subdirectory(Path::new(name)) {
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOTDIR | libc::ELOOP)) => {
                return self.remove_file(name);
            }
            directory => directory?,
        };
        if directory.facts()?.st_dev != device {
            return Err(io::Error::new(
                io::ErrorKind::ResourceBusy,
                format!("{} is a mount point", directory.path.display()),
            ));
        }
        directory.empty(device, depth - 1, None)?;
        self.remove_empty(name)
    }

    /// Removes all entries as `remove_tree` does, `last` at the end.
    pub fn remove_contents(&self, last: impl AsRef<OsStr>) -> io::Result<()> {
        self.empty(self.facts()?.st_dev, DEPTH_MAX, Some(last.as_ref()))
    }

    fn empty(&self, device: u64, depth: usize, last: Option<&OsStr>) -> io::Result<()> {
        let mut entries = self.entries()?;
        entries.sort_by_key(|entry| Some(&*entry.name) == last);
        for entry in entries {
            let removed = match entry.kind {
                FileType::Directory => self.remove_tree_of(&entry.name, device, depth),
                _ => self.remove_file(&entry.name),
            };
            match removed {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    pub fn entries(&self) -> io::Result<Vec<Entry>> {
        let mut entries = Vec::new();
        for entry in Dir::read_from(&self.descriptor)? {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes()).to_owned();
            if name == "." || name == ".." {
                continue;
            }
            let kind = match entry.file_type() {
                FileType::Unknown => match self.facts_of(&name) {
                    Ok(facts) => FileType::from_raw_mode(facts.st_mode),
                    Err(_) => continue,
                },
                kind => kind,
            };
            entries.push(Entry { name, kind });
        }
        Ok(entries)
    }

    /// Makes created, renamed and removed names survive a power failure.
    pub fn sync(&self) -> io::Result<()> {
        Ok(fsync(&self.descriptor)?)
    }

    fn open_below(&self, below: &Path, flags: OFlags) -> io::Result<OwnedFd> {
        let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        match openat2(&self.descriptor, below, flags, Mode::empty(), resolve) {
            // Linux before 5.6 and some containers lack openat2. EAGAIN: a directory was renamed meanwhile.
            Err(Errno::NOSYS | Errno::PERM | Errno::AGAIN) => self.walk_below(below, flags),
            opened => Ok(opened?),
        }
    }

    fn walk_below(&self, below: &Path, flags: OFlags) -> io::Result<OwnedFd> {
        let mut at = self.descriptor.try_clone()?;
        let mut last = OsStr::new(".");
        for component in below.components() {
            let name = match component {
                Component::Normal(name) => name,
                Component::CurDir => continue,
                _ => return Err(Errno::XDEV.into()),
            };
            if last != "." {
                at = openat(&at, last, OPEN_DIRECTORY | OFlags::NOFOLLOW, Mode::empty())?;
            }
            last = name;
        }
        Ok(openat(&at, last, flags, Mode::empty())?)
    }
}

impl AsFd for Directory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

pub fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn single(name: &OsStr) -> io::Result<&OsStr> {
    let mut components = Path::new(name).components();
    match (components.next(), components.next()) {
        (Some(Component::Normal(only)), None) if only == name => Ok(name),
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{name:?} is not a plain file name"))),
    }
}

const PIPE_FILE_SYSTEM: u64 = 0x5049_5045;

/// Opens a file that a user named; follows links. Never waits for a pipe.
///
/// # Errors
/// `InvalidInput` unless it is a regular file.
pub fn open_regular(path: &Path) -> io::Result<File> {
    open_regular_with(path, OFlags::RDONLY)
}

pub fn open_regular_with(path: &Path, flags: OFlags) -> io::Result<File> {
    let flags = (flags | OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    let opened = OpenOptions::new().read(true).custom_flags(flags).open(path);
    let file = opened.map_err(|error| match std::fs::metadata(path) {
        Ok(metadata) if !metadata.is_file() => not_regular(metadata.file_type()),
        _ => error,
    })?;
    require_regular(file)
}

/// Also opens an anonymous pipe from the shell: `/dev/fd/N`, `/dev/stdin` or `<(command)`. Reading it may block.
pub fn open_regular_or_pipe(path: &Path) -> io::Result<File> {
    let handed_over = || {
        let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
        let file = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
        let is_nameless = fstatfs(&file).is_ok_and(|facts| facts.f_type as u64 == PIPE_FILE_SYSTEM);
        fcntl_setfl(&file, OFlags::empty()).ok().filter(|()| is_nameless)?;
        Some(file)
    };
    match std::fs::metadata(path) {
        Ok(facts) if facts.file_type().is_fifo() => handed_over().map_or_else(|| open_regular(path), Ok),
        _ => open_regular(path),
    }
}

/// # Errors
/// `FileTooLarge` above `limit` bytes, whatever size the metadata shows.
pub fn read_at_most(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    read_open_at_most(open_regular(path)?, limit)
}

/// # Errors
/// As `read_at_most`; also `InvalidData` if it is not UTF-8.
pub fn read_text_at_most(path: &Path, limit: u64) -> io::Result<String> {
    read_open_text_at_most(open_regular(path)?, limit)
}

/// # Errors
/// As `read_open_at_most`; also `InvalidData` if it is not UTF-8.
pub fn read_open_text_at_most(file: impl Read, limit: u64) -> io::Result<String> {
    let not_text = |_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8 text");
    String::from_utf8(read_open_at_most(file, limit)?).map_err(not_text)
}

/// # Errors
/// `FileTooLarge` above `limit` bytes.
pub fn read_open_at_most(file: impl Read, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > limit {
        true => Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it has more than {limit} bytes"))),
        false => Ok(bytes),
    }
}

fn require_regular(file: File) -> io::Result<File> {
    match file.metadata()?.file_type() {
        kind if kind.is_file() => Ok(file),
        kind => Err(not_regular(kind)),
    }
}

fn not_regular(kind: std::fs::FileType) -> io::Error {
    let what = match kind {
        kind if kind.is_dir() => "a directory",
        kind if kind.is_fifo() => "a pipe",
        kind if kind.is_socket() => "a socket",
        kind if kind.is_symlink() => "a symbolic link",
        _ => "a device",
    };
    io::Error::new(io::ErrorKind::InvalidInput, format!("it is {what}, not a regular file"))
}

#[cfg(test)]
mod directory_tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn tree() -> (tempfile::TempDir, Directory) {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().join("root");
        fs::create_dir_all(root.join("inside/deep")).unwrap();
        fs::create_dir(place.path().join("outside")).unwrap();
        fs::write(place.path().join("outside/secret"), "secret").unwrap();
        fs::write(root.join("inside/file"), "text").unwrap();
        symlink("../outside", root.join("out")).unwrap();
        symlink("inside", root.join("within")).unwrap();
        symlink("../../outside/secret", root.join("inside/link")).unwrap();
        let directory = Directory::open(&root).unwrap();
        (place, directory)
    }

    type Open = fn(&Directory, &Path) -> io::Result<OwnedFd>;

    #[test]
    fn nothing_leads_out_with_openat2_and_without() {
        let (_place, root) = tree();
        let ways: [Open; 2] = [
            |root, path| root.open_below(path, OFlags::RDONLY),
            |root, path| root.walk_below(path, OFlags::RDONLY | OFlags::NOFOLLOW),
        ];
        for open in ways {
            for path in ["inside/file", "inside", "./inside/deep", "."] {
                open(&root, Path::new(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
            }
            for path in ["out/secret", "out", "within/file", "inside/link", "../outside/secret", "inside/../..", "/etc"]
            {
                assert!(open(&root, Path::new(path)).is_err(), "{path}");
            }
        }
    }

    #[test]
    fn what_was_opened_stays_what_it_was() {
        let (place, root) = tree();
        fs::rename(place.path().join("root"), place.path().join("moved")).unwrap();
        symlink("outside", place.path().join("root")).unwrap();
        assert_eq!(root.read_text_at_most("inside/file", 10).unwrap(), "text");
        assert!(root.open_file("secret").is_err());
        assert!(Directory::open_itself(&place.path().join("root")).is_err());
    }

    #[test]
    fn a_tree_goes_without_what_its_links_lead_to() {
        let (place, root) = tree();
        for name in ["inside", "out", "within"] {
            root.remove_tree(name).unwrap();
        }
        assert_eq!(root.entries().unwrap(), []);
        assert!(place.path().join("outside/secret").exists());
        assert_eq!(root.remove_tree("inside").unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_name_is_one_name() {
        let (_place, root) = tree();
        for name in ["", ".", "..", "a/b", "/a", "a/", "../outside"] {
            assert!(root.create_file(name, 0o600).is_err(), "{name}");
            assert!(root.remove_tree(name).is_err(), "{name}");
        }
        assert_eq!(root.entries().unwrap().len(), 3, "nothing went");
        assert!(root.create_file("out", 0o600).is_err(), "a link is not written through");
    }

    #[test]
    fn names_change_over_others_or_not() {
        let (_place, root) = tree();
        let one = root.create_file("one", 0o600).unwrap();
        root.create_file("two", 0o600).unwrap();
        assert_eq!(root.rename_to_free("one", "two").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        root.rename("one", "two").unwrap();
        assert!(root.holds("two", &one).unwrap());
        assert!(!root.holds("one", &one).unwrap());
    }
}

#[cfg(test)]
mod regular_tests {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    #[test]
    fn what_is_no_regular_file_is_refused_at_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        mknodat(CWD, path("pipe"), FileType::Fifo, Mode::RUSR, 0).unwrap();
        let _socket = UnixListener::bind(path("socket")).unwrap();
        std::fs::create_dir(path("directory")).unwrap();
        symlink(path("pipe"), path("link")).unwrap();
        let said = |path: &Path| open_regular(path).unwrap_err().to_string();
        assert_eq!(said(&path("pipe")), "it is a pipe, not a regular file");
        assert_eq!(said(&path("link")), "it is a pipe, not a regular file");
        assert_eq!(said(&path("socket")), "it is a socket, not a regular file");
        assert_eq!(said(&path("directory")), "it is a directory, not a regular file");
        assert_eq!(said(Path::new("/dev/zero")), "it is a device, not a regular file");
        assert_eq!(open_regular(&path("absent")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn reads_what_is_not_too_large() {
        let directory = tempfile::tempdir().unwrap();
        let (path, link) = (directory.path().join("file"), directory.path().join("link"));
        std::fs::write(&path, "1234").unwrap();
        symlink(&path, &link).unwrap();
        assert_eq!(read_text_at_most(&link, 4).unwrap(), "1234");
        assert_eq!(read_at_most(&path, 3).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        assert_eq!(read_at_most(Path::new("/proc/self/maps"), 10).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        std::fs::write(&path, [0xff]).unwrap();
        assert_eq!(read_text_at_most(&path, 4).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
