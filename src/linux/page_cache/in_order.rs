//! Reads a file in order for the sake of the cache: the kernel reads ahead, in large folios, and nothing is copied.
//!
//! Pages go from the file into a pipe and from there to /dev/null by splice(2), as references. No splice is longer than a window of
//! the kernel's read-ahead: such a one would be read at once, page by page. And each ends where a folio does, which is a power of two
//! long and begins at a multiple of that: a folio in two splices would count as used twice (`filemap_splice_read` of mm/filemap.c,
//! `page_cache_ra_order` of mm/readahead.c).

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::PathBuf;

use rustix::fs::{Advice, OFlags, fadvise, major, minor};
use rustix::io::retry_on_intr;
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};

use super::InOrder;
use crate::linux::Error;
use crate::units::{Bytes, PageRange};

/// A longer window gains little, and is on its way for long after a stop. Far below the pipe that anybody may have
/// (/proc/sys/fs/pipe-max-size).
const WINDOW_MAX: Bytes = Bytes(256 << 10);

/// Its number, from Documentation/admin-guide/devices.txt of the kernel.
const NULL_DEVICE: (u32, u32) = (1, 3);

/// Below this reading in order gains little.
const WINDOW_MIN: Bytes = Bytes(64 << 10);

/// A reader touches a window's first page, and the kernel begins the next one: there are at most the rest of one and one more.
const WINDOWS_AHEAD: u64 = 2;

/// How far the kernel reads ahead at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    bytes: Bytes,
    /// POSIX_FADV_SEQUENTIAL is told, which makes it twice that of the disk.
    is_doubled: bool,
}

impl Window {
    /// The window of a disk with this read-ahead; `None` where it is too long, or hardly any.
    pub fn of(read_ahead: Bytes) -> Option<Window> {
        let doubled = Bytes(2 * read_ahead.0);
        let is_doubled = doubled <= WINDOW_MAX;
        let bytes = if is_doubled { doubled } else { read_ahead };
        (WINDOW_MIN..=WINDOW_MAX).contains(&bytes).then_some(Window { bytes, is_doubled })
    }
}

/// A file of the machine's.
#[derive(Debug)]
pub struct SystemInOrder {
    file: File,
    path: PathBuf,
    window: Window,
    /// The largest folio of a window: as much is read at a time.
    splice_bytes: u64,
    page_bytes: u64,
    reader: OwnedFd,
    writer: OwnedFd,
    nowhere: File,
}

impl SystemInOrder {
    /// `file` is to be nobody else's: the kernel keeps with each open file how far it was read.
    pub fn new(file: File, path: PathBuf, window: Window, page_bytes: u64) -> io::Result<SystemInOrder> {
        if window.is_doubled {
            fadvise(&file, 0, None, Advice::Sequential)?;
        }
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
        fcntl_setpipe_size(&writer, window.bytes.0 as usize)?;
        let nowhere = open_null()?;
        let splice_bytes = 1 << window.bytes.0.ilog2();
        Ok(SystemInOrder { file, path, window, splice_bytes, page_bytes, reader, writer, nowhere })
    }

    /// Brings up to `bytes` from `offset`, by one splice.
    fn bring(&self, mut offset: u64, bytes: usize) -> io::Result<u64> {
        let brought =
            retry_on_intr(|| splice(&self.file, Some(&mut offset), &self.writer, None, bytes, SpliceFlags::empty()))?;
        let mut left = brought;
        while left > 0 {
            left -= retry_on_intr(|| splice(&self.reader, None, &self.nowhere, None, left, SpliceFlags::empty()))?;
        }
        Ok(brought as u64)
    }
}

impl InOrder for SystemInOrder {
    fn window(&self) -> Bytes {
        Bytes(self.splice_bytes)
    }

    fn reach(&self) -> Bytes {
        Bytes(WINDOWS_AHEAD * self.window.bytes.0)
    }

    fn apply_read(&mut self, range: PageRange) -> Result<Bytes, Error> {
        let (mut at, end) = (range.start * self.page_bytes, range.end * self.page_bytes);
        while at < end {
            let bytes = (self.splice_bytes - at % self.splice_bytes).min(end - at);
            match self.bring(at, bytes as usize).map_err(|error| Error::file("read", &self.path, error))? {
                0 => break,
                brought => at += brought,
            }
        }
        Ok(Bytes(at - range.start * self.page_bytes))
    }
}

/// The null device. What stands there otherwise, as a file that somebody made, would get the data.
fn open_null() -> io::Result<File> {
    let nonblocking = OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().write(true).custom_flags(nonblocking).open("/dev/null")?;
    let metadata = file.metadata()?;
    let number = (major(metadata.rdev()), minor(metadata.rdev()));
    match metadata.file_type().is_char_device() && number == NULL_DEVICE {
        true => Ok(file),
        false => Err(io::Error::other("/dev/null is not the null device")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_fits_into_a_pipe() {
        let of = |read_ahead: u64| {
            Window::of(Bytes(read_ahead << 10)).map(|window| (window.bytes.0 >> 10, window.is_doubled))
        };
        assert_eq!([0, 16, 32, 128].map(of), [None, None, Some((64, true)), Some((256, true))]);
        assert_eq!([192, 256, 512].map(of), [Some((192, false)), Some((256, false)), None]);
    }
}
