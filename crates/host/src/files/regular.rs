//! What is no regular file, or too large, is refused before it is read.

use std::fs::{File, FileType, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fs::{OFlags, fcntl_setfl, fstatfs};

/// What `fstatfs` says of a pipe without a name.
const PIPE_FILE_SYSTEM: u64 = 0x5049_5045;

/// Opens a file for reading that a user named, through links if he likes.
///
/// # Errors
/// `InvalidInput` for a directory, a pipe, a socket or a device. Nobody at the other end of a pipe is waited for.
pub fn open_regular(path: &Path) -> io::Result<File> {
    open_regular_with(path, OFlags::RDONLY)
}

/// [`open_regular`] with more flags of open(2), such as NOATIME.
pub fn open_regular_with(path: &Path, flags: OFlags) -> io::Result<File> {
    let flags = (flags | OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    // A socket cannot be opened at all (ENXIO).
    let file =
        OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(|error| {
            match std::fs::metadata(path) {
                Ok(metadata) if !metadata.is_file() => not_regular(metadata.file_type()),
                _ => error,
            }
        })?;
    require_regular(&file)?;
    Ok(file)
}

/// [`open_regular`], or what a shell hands over: `/dev/fd/N`, `/dev/stdin` or `<(command)`, a pipe that has no name. Its other
/// end is waited for when it is read.
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

/// All of a file that must not have more than `limit` bytes.
///
/// # Errors
/// Those of [`open_regular`]; `FileTooLarge` when it has more, whatever it says its size is.
pub fn read_at_most(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    read_open_at_most(open_regular(path)?, limit)
}

/// Reads a regular file as text, as [`read_at_most`] reads bytes.
///
/// # Errors
/// Those of [`read_at_most`], and `InvalidData` for what is not UTF-8.
pub fn read_text_at_most(path: &Path, limit: u64) -> io::Result<String> {
    read_open_text_at_most(open_regular(path)?, limit)
}

/// Reads an open file as text, as [`read_open_at_most`] reads bytes.
///
/// # Errors
/// Those of [`read_open_at_most`], and `InvalidData` for what is not UTF-8.
pub fn read_open_text_at_most(file: impl Read, limit: u64) -> io::Result<String> {
    let not_text = |_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8 text");
    String::from_utf8(read_open_at_most(file, limit)?).map_err(not_text)
}

/// The rest of what is open, if that is no more than `limit` bytes.
///
/// # Errors
/// `FileTooLarge` when there is more.
pub fn read_open_at_most(file: impl Read, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > limit {
        true => Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it has more than {limit} bytes"))),
        false => Ok(bytes),
    }
}

/// `InvalidInput` unless it is a regular file.
pub(super) fn require_regular(file: &File) -> io::Result<()> {
    let kind = file.metadata()?.file_type();
    if kind.is_file() { Ok(()) } else { Err(not_regular(kind)) }
}

fn not_regular(kind: FileType) -> io::Error {
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
mod tests {
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
        // It says that it has no bytes.
        assert_eq!(read_at_most(Path::new("/proc/self/maps"), 10).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        std::fs::write(&path, [0xff]).unwrap();
        assert_eq!(read_text_at_most(&path, 4).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
