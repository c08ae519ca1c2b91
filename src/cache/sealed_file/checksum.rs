//! The checksum inside the file: the SHA-256 of the whole file with the checksum's own 64 digits taken as zeros.
//!
//! It stands in the footer as the last key of the file's metadata, so any reader of Parquet shows it and none minds
//! it. It tells damage, not forgery.

use std::fs::File;
use std::io::{self, BufReader, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use parquet::errors::ParquetError;
use parquet::file::reader::ChunkReader;
use rustix::fs::{SeekFrom, seek};
use sha2::{Digest as _, Sha256};

use super::Flaw;
use crate::files::open_regular;

/// The metadata's key.
pub const KEY: &str = "pgthaw.sha256";

/// What the writer puts there first.
pub const ZEROS: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// Parquet's magic number, at both ends of the file.
const MAGIC: &[u8; 4] = b"PAR1";

/// A footer of ours has about a kilobyte per row group: that of a film of 10⁹ events some 8 MB.
const MAX_FOOTER_BYTES: u64 = 16 << 20;

/// In the footer, thrift's compact form has the value right after the key: type "binary" and its length.
fn marker() -> Vec<u8> {
    [KEY.as_bytes(), &[0x18, ZEROS.len() as u8]].concat()
}

/// Puts the checksum of a freshly written file into its place.
pub fn apply_checksum(file: &File) -> Result<(), Flaw> {
    let missing = || Flaw::Damaged("its footer has no checksum".into());
    let offset = Footer::read(file)?.checksum_offset().ok_or_else(missing)?;
    let write = |digest: String| file.write_all_at(digest.as_bytes(), offset);
    compute_digest(file, offset).and_then(write).map_err(|source| Flaw::Failed { action: "write", source })
}

/// Opens what is a file: to open a pipe would wait for somebody who writes into it. One with holes, which no writer of ours makes, is
/// refused: it would be hashed for as long as it says that it is, for nothing.
pub fn open_written(path: &Path) -> Result<File, Flaw> {
    let file = open_regular(path).map_err(|source| Flaw::Failed { action: "open", source })?;
    let size = file.metadata().map_err(|source| Flaw::Failed { action: "look at", source })?.len();
    // Of a file system that cannot tell it is taken to have none.
    match size > 0 && seek(&file, SeekFrom::Hole(0)).is_ok_and(|first| first < size) {
        true => Err(Flaw::Damaged("it has holes, where nothing was ever written".into())),
        false => Ok(file),
    }
}

/// Compares the file with the checksum that its footer holds; `None` when it holds none.
pub fn verify(source: &impl ChunkReader, footer: &Footer) -> Result<Option<String>, Flaw> {
    let Some(offset) = footer.checksum_offset() else {
        return Ok(None);
    };
    let start = (offset - footer.offset) as usize;
    let written = footer.bytes.get(start..start + ZEROS.len()).unwrap_or_default();
    let digest = compute_digest(source, offset).map_err(|source| Flaw::Failed { action: "read", source })?;
    if written != digest.as_bytes() {
        return Err(Flaw::Damaged("its content does not match its checksum".to_owned()));
    }
    Ok(Some(digest))
}

/// The end of the file: thrift's bytes, without the length and the magic number that follow.
#[derive(Debug)]
pub struct Footer {
    offset: u64,
    pub bytes: Vec<u8>,
}

impl Footer {
    /// Reads the footer of a file that claims to be Parquet.
    pub fn read(source: &impl ChunkReader) -> Result<Footer, Flaw> {
        let read = |start, length| {
            source.get_bytes(start, length).map_err(|error| Flaw::Failed { action: "read", source: as_io_error(error) })
        };
        let not_one = |reason: &str| Flaw::NotOne(reason.into());
        let size = source.len();
        match size {
            0 => return Err(not_one("it is empty")),
            1..12 => return Err(not_one("it is too short to be one")),
            _ => {}
        }
        if *read(0, MAGIC.len())? != *MAGIC {
            return Err(not_one("it is not a Parquet file"));
        }
        let tail = read(size - 8, 8)?;
        let (length, magic) = tail.split_at(4);
        if magic != MAGIC {
            return Err(Flaw::Damaged(
                "it begins as a Parquet file and does not end as one; it was cut off, or changed at its end".into(),
            ));
        }
        let length = u64::from(u32::from_le_bytes([length[0], length[1], length[2], length[3]]));
        if length > MAX_FOOTER_BYTES || length + 12 > size {
            return Err(Flaw::Damaged(format!("its footer cannot have {length} bytes")));
        }
        let offset = size - 8 - length;
        let bytes = read(offset, length as usize)?.to_vec();
        Ok(Footer { offset, bytes })
    }

    /// Where in the file the checksum's digits begin. The last place counts: a label may hold anything.
    pub fn checksum_offset(&self) -> Option<u64> {
        let marker = marker();
        let found = self.bytes.windows(marker.len()).rposition(|window| window == marker)? + marker.len();
        (found + ZEROS.len() <= self.bytes.len()).then_some(self.offset + found as u64)
    }
}

/// The digest in lower-case hexadecimal, reading the 64 bytes at `zeroed` as zeros.
fn compute_digest(source: &impl ChunkReader, zeroed: u64) -> io::Result<String> {
    let mut reader = BufReader::with_capacity(1 << 20, source.get_read(0).map_err(as_io_error)?);
    let mut hasher = Sha256::new();
    io::copy(&mut reader.by_ref().take(zeroed), &mut hasher)?;
    io::copy(&mut reader.by_ref().take(ZEROS.len() as u64), &mut io::sink())?;
    hasher.update(ZEROS);
    io::copy(&mut reader, &mut hasher)?;
    Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The disk's own error, when that is what Parquet's stands for: a full disk has a hint of its own.
pub fn as_io_error(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(inner) => match inner.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(other) => io::Error::other(other),
        },
        other => io::Error::other(other),
    }
}

/// The same file with the checksum that it should have; as it is when it has no place for one.
#[cfg(any(test, fuzzing))]
pub fn mend(bytes: &[u8]) -> Vec<u8> {
    let mut mended = bytes.to_vec();
    let source = bytes::Bytes::copy_from_slice(bytes);
    let offset = Footer::read(&source).ok().and_then(|footer| footer.checksum_offset());
    if let Some((offset, digest)) = offset.and_then(|offset| Some((offset, compute_digest(&source, offset).ok()?))) {
        mended[offset as usize..][..ZEROS.len()].copy_from_slice(digest.as_bytes());
    }
    mended
}
