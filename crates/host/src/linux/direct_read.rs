use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use rustix::fs::OFlags;

use super::Error;
use crate::files::{Tree, open_regular_with};

/// Alignment in bytes that every device accepts for offset, length and memory of a direct read.
pub const ALIGNMENT: usize = 4096;

#[derive(Debug)]
pub struct DirectFile {
    file: File,
    path: PathBuf,
}

#[derive(Debug)]
pub struct AlignedBuffer {
    memory: Vec<u8>,
    start: usize,
}

impl AlignedBuffer {
    pub fn new(bytes: usize) -> AlignedBuffer {
        let memory = vec![0; bytes.next_multiple_of(ALIGNMENT) + ALIGNMENT];
        let start = memory.as_ptr().align_offset(ALIGNMENT);
        AlignedBuffer { memory, start }
    }

    pub fn as_slice(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.memory.len() - ALIGNMENT]
    }

    fn slice(&mut self, bytes: usize) -> &mut [u8] {
        &mut self.memory[self.start..self.start + bytes]
    }
}

impl DirectFile {
    /// EINVAL if the file system lacks O_DIRECT.
    pub fn open(path: &Path) -> Result<DirectFile, Error> {
        DirectFile::adopt(open_regular_with(path, OFlags::DIRECT), path.to_owned())
    }

    pub fn open_below(files: &Tree, below: &Path) -> Result<DirectFile, Error> {
        DirectFile::adopt(files.open_file_with(below, OFlags::DIRECT), files.path().join(below))
    }

    fn adopt(opened: io::Result<File>, path: PathBuf) -> Result<DirectFile, Error> {
        match opened {
            Ok(file) => Ok(DirectFile { file, path }),
            Err(source) => Err(Error::File { action: "open with O_DIRECT", path, source }),
        }
    }

    /// `offset` and `bytes` must be multiples of `ALIGNMENT`. Returns fewer bytes at the end of the file.
    pub fn read_at(&self, offset: u64, bytes: usize, buffer: &mut AlignedBuffer) -> Result<usize, Error> {
        let read = rustix::io::retry_on_intr(|| rustix::io::pread(&self.file, buffer.slice(bytes), offset));
        read.map_err(|error| Error::file("read with O_DIRECT", &self.path, error.into()))
    }
}

/// Bytes contiguous in the file and on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    pub start: u64,
    /// Offset on the device or logical volume.
    pub device_start: u64,
    pub bytes: u64,
}

/// `_IOWR('f', 11, struct fiemap)` of `include/uapi/linux/fs.h`.
const FS_IOC_FIEMAP: libc::c_ulong = 0xc020_660b;

/// `include/uapi/linux/fiemap.h`: last extent of the file; unknown position on the device.
const LAST: u32 = 0x1;
const UNKNOWN: u32 = 0x2;

const EXTENTS: usize = 64;

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct FiemapExtent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved_64: [u64; 2],
    flags: u32,
    reserved: [u32; 3],
}

#[repr(C)]
struct Fiemap {
    start: u64,
    length: u64,
    flags: u32,
    mapped_extents: u32,
    extent_count: u32,
    reserved: u32,
    extents: [FiemapExtent; EXTENTS],
}

/// Extents in order. EOPNOTSUPP if the file system lacks FIEMAP.
pub fn read_extents(file: BorrowedFd<'_>) -> io::Result<Vec<Extent>> {
    let mut found = Vec::new();
    let mut start = 0;
    loop {
        let mut map = Fiemap {
            start,
            length: u64::MAX - start,
            flags: 0,
            mapped_extents: 0,
            extent_count: EXTENTS as u32,
            reserved: 0,
            extents: [FiemapExtent::default(); EXTENTS],
        };
        // SAFETY: the struct has the kernel's layout, says how many extents it has room for, and outlives the call.
        Errno::result(unsafe { libc::ioctl(file.as_raw_fd(), FS_IOC_FIEMAP as _, &raw mut map) })?;
        let mapped = &map.extents[..(map.mapped_extents as usize).min(EXTENTS)];
        let known = mapped.iter().filter(|extent| extent.flags & UNKNOWN == 0);
        found.extend(known.map(|extent| Extent {
            start: extent.logical,
            device_start: extent.physical,
            bytes: extent.length,
        }));
        match mapped.last() {
            // The offset must grow, else the loop would not end.
            Some(last) if last.flags & LAST == 0 && last.logical.saturating_add(last.length) > start => {
                start = last.logical.saturating_add(last.length);
            }
            _ => return Ok(found),
        }
    }
}

#[cfg(test)]
mod direct_read_tests {
    use super::*;

    #[test]
    fn reads_what_was_written() {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let path = directory.path().join("file");
        let text: Vec<u8> = (0..3 * ALIGNMENT + 100).map(|byte| (byte / ALIGNMENT) as u8).collect();
        std::fs::write(&path, &text).unwrap();
        let file = match DirectFile::open(&path) {
            Ok(file) => file,
            Err(error) => untested!(machine: "{error}"),
        };
        let mut buffer = AlignedBuffer::new(2 * ALIGNMENT);
        assert_eq!(file.read_at(ALIGNMENT as u64, 2 * ALIGNMENT, &mut buffer).unwrap(), 2 * ALIGNMENT);
        assert_eq!(buffer.slice(2 * ALIGNMENT), &text[ALIGNMENT..3 * ALIGNMENT]);
        assert_eq!(file.read_at(3 * ALIGNMENT as u64, 2 * ALIGNMENT, &mut buffer).unwrap(), 100);
    }
}

#[cfg(test)]
mod extents_tests {
    use std::io::Write as _;
    use std::os::fd::AsFd as _;

    use super::*;

    #[test]
    fn every_byte_of_a_file_has_a_place() {
        let mut file = tempfile::tempfile_in("/var/tmp").unwrap();
        file.write_all(&vec![7; 3 << 20]).unwrap();
        file.sync_all().unwrap();
        let extents = match read_extents(file.as_fd()) {
            Ok(extents) => extents,
            Err(error) => untested!(machine: "this file system does not tell: {error}"),
        };
        let ends: Vec<u64> = extents.iter().map(|extent| extent.start + extent.bytes).collect();
        assert!(extents.iter().skip(1).zip(&ends).all(|(extent, end)| extent.start == *end), "{extents:?}");
        assert!(extents[0].start == 0 && ends.last().is_some_and(|end| *end >= 3 << 20), "{extents:?}");
    }
}
