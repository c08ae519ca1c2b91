//! Reads past the page cache: what comes from the device and from nothing above it.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use super::Error;
use crate::files::{Tree, open_regular_with};

/// The strictest alignment that devices ask of the offset, the length and the memory of a direct read, in bytes.
pub const ALIGNMENT: usize = 4096;

/// A file that was opened with O_DIRECT, to be read.
#[derive(Debug)]
pub struct DirectFile {
    file: File,
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
    /// Opens a file that this process made. The error has EINVAL where the file system has no O_DIRECT.
    pub fn open(path: &Path) -> Result<DirectFile, Error> {
        DirectFile::adopt(open_regular_with(path, OFlags::DIRECT), path.to_owned())
    }

    /// Opens a file of a tree, by its path below it.
    pub fn open_below(files: &Tree, below: &Path) -> Result<DirectFile, Error> {
        DirectFile::adopt(files.open_file_with(below, OFlags::DIRECT), files.path().join(below))
    }

    fn adopt(opened: io::Result<File>, path: PathBuf) -> Result<DirectFile, Error> {
        match opened {
            Ok(file) => Ok(DirectFile { file, path }),
            Err(source) => Err(Error::File { action: "open with O_DIRECT", path, source }),
        }
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
        let file = match DirectFile::open(&path) {
            Ok(file) => file,
            // Some file systems in memory have no O_DIRECT.
            Err(error) => untested!(machine: "{error}"),
        };
        let mut buffer = AlignedBuffer::new(2 * ALIGNMENT);
        assert_eq!(file.read_at(ALIGNMENT as u64, 2 * ALIGNMENT, &mut buffer).unwrap(), 2 * ALIGNMENT);
        assert_eq!(buffer.slice(2 * ALIGNMENT), &text[ALIGNMENT..3 * ALIGNMENT]);
        assert_eq!(file.read_at(3 * ALIGNMENT as u64, 2 * ALIGNMENT, &mut buffer).unwrap(), 100);
    }
}
