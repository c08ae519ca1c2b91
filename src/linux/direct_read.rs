//! Reads past the page cache: what comes from the device and from nothing above it.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use super::Error;

/// The strictest alignment that devices ask of the offset, the length and the memory of a direct read, in bytes.
pub const ALIGNMENT: usize = 4096;

/// A file that was opened with O_DIRECT, to be read.
#[derive(Debug)]
pub struct DirectFile {
    file: OwnedFd,
    path: PathBuf,
}

/// Memory that a direct read may write to.
#[derive(Debug)]
pub struct AlignedBuffer {
    memory: Vec<u8>,
    start: usize,
}

impl AlignedBuffer {
    /// Room for `bytes`, rounded up to the alignment.
    pub fn new(bytes: usize) -> AlignedBuffer {
        let memory = vec![0; bytes.next_multiple_of(ALIGNMENT) + ALIGNMENT];
        let start = memory.as_ptr().align_offset(ALIGNMENT);
        AlignedBuffer { memory, start }
    }

    /// All of it: zeros where nothing was read.
    pub fn as_slice(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.memory.len() - ALIGNMENT]
    }

    fn slice(&mut self, bytes: usize) -> &mut [u8] {
        &mut self.memory[self.start..self.start + bytes]
    }
}

impl DirectFile {
    /// Opens a file. The error has EINVAL where the file system has no O_DIRECT.
    pub fn open(path: &Path) -> Result<DirectFile, Error> {
        let flags = OFlags::RDONLY | OFlags::DIRECT | OFlags::CLOEXEC;
        let file = rustix::fs::open(path, flags, Mode::empty());
        let file = file.map_err(|error| Error::file("open with O_DIRECT", path, error.into()))?;
        Ok(DirectFile { file, path: path.to_owned() })
    }

    /// Reads `bytes` at `offset`, both multiples of [`ALIGNMENT`]. Fewer at the end of the file.
    pub fn read_at(&self, offset: u64, bytes: usize, buffer: &mut AlignedBuffer) -> Result<usize, Error> {
        let read = rustix::io::retry_on_intr(|| rustix::io::pread(&self.file, buffer.slice(bytes), offset));
        read.map_err(|error| Error::file("read with O_DIRECT", &self.path, error.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_was_written() {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let path = directory.path().join("file");
        let text: Vec<u8> = (0..3 * ALIGNMENT + 100).map(|byte| (byte / ALIGNMENT) as u8).collect();
        std::fs::write(&path, &text).unwrap();
        // Some file systems in memory have no O_DIRECT.
        let Ok(file) = DirectFile::open(&path) else { return };
        let mut buffer = AlignedBuffer::new(2 * ALIGNMENT);
        assert_eq!(file.read_at(ALIGNMENT as u64, 2 * ALIGNMENT, &mut buffer).unwrap(), 2 * ALIGNMENT);
        assert_eq!(buffer.slice(2 * ALIGNMENT), &text[ALIGNMENT..3 * ALIGNMENT]);
        assert_eq!(file.read_at(3 * ALIGNMENT as u64, 2 * ALIGNMENT, &mut buffer).unwrap(), 100);
    }
}
