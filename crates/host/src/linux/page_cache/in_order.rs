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
use super::window::Window;
use crate::linux::Error;
use crate::units::{Bytes, PageRange};

/// Its number, from Documentation/admin-guide/devices.txt of the kernel.
const NULL_DEVICE: (u32, u32) = (1, 3);

/// A file of the machine's.
#[derive(Debug)]
pub struct SystemInOrder {
    file: File,
    path: PathBuf,
    splice_bytes: u64,
    page_bytes: u64,
    reader: OwnedFd,
    writer: OwnedFd,
    nowhere: File,
}

impl SystemInOrder {
    /// `file` is to be nobody else's: the kernel keeps with each open file how far it was read.
    pub fn new(file: File, path: PathBuf, window: Window, page_bytes: u64) -> io::Result<SystemInOrder> {
        if window.is_doubled() {
            fadvise(&file, 0, None, Advice::Sequential)?;
        }
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
        fcntl_setpipe_size(&writer, window.bytes().0 as usize)?;
        let nowhere = open_null()?;
        let splice_bytes = window.piece().0;
        Ok(SystemInOrder { file, path, splice_bytes, page_bytes, reader, writer, nowhere })
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
