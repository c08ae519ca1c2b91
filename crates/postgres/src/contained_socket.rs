use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use host::files::{Directory, OPEN_DIRECTORIES, SMALL_FILE_BYTES_MAX, read_text_at_most};
use rustix::fs::{fstat, symlinkat};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

/// Name of the link to the socket's directory, beside the link to the socket.
pub(super) const PLACE: &str = "place";

/// Makes a directory that stays valid while pgthaw runs, with a link to the server's socket. The container can redirect
/// neither: the directory is in a file system that only this process sees, and the link leads to an opened socket.
///
/// # Errors
/// Unless the socket belongs to the server's user. Needs root.
pub(super) fn pin_socket(container: &Directory, place: &Path, port: u16, server: u32) -> io::Result<PathBuf> {
    let name = format!(".s.PGSQL.{port}");
    let socket = container.open_within(place)?.open_socket(&name)?;
    let owner = std::fs::metadata(format!("/proc/{server}"))?.uid();
    if fstat(&socket)?.st_uid != owner {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    let file_system = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(file_system.as_fd())?;
    let directory = fsmount(file_system.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())?;
    symlinkat(format!("{OPEN_DIRECTORIES}{}", socket.as_raw_fd()), &directory, name)?;
    symlinkat(place, &directory, PLACE)?;
    let path = format!("{OPEN_DIRECTORIES}{}", directory.as_raw_fd());
    // Later connections need both descriptors.
    std::mem::forget((socket, directory));
    Ok(path.into())
}

/// Number of a user or group in the user namespace of a process, according to the process's `uid_map` or `gid_map`
/// (user_namespaces(7)). Returns `number` unchanged if the map does not contain it.
pub(super) fn number_inside(pid: u32, map: &str, number: u32) -> u32 {
    let map = read_text_at_most(format!("/proc/{pid}/{map}").as_ref(), SMALL_FILE_BYTES_MAX).unwrap_or_default();
    let mapped = map.lines().find_map(|line| {
        let mut numbers = line.split_whitespace().map(str::parse::<u32>);
        let (inside, outside, count) = (numbers.next()?.ok()?, numbers.next()?.ok()?, numbers.next()?.ok()?);
        let at = number.checked_sub(outside).filter(|at| *at < count)?;
        inside.checked_add(at)
    });
    mapped.unwrap_or(number)
}
