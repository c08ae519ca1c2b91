//! Entries for `fuzz/`: files that others may have written.

use super::Postmaster;
use super::connect::split_password_line;
use super::data_directory::{ControlFile, parse_postmaster};

/// Reads `global/pg_control`; the block size and the blocks of a segment.
pub fn read_control_file(contents: &[u8]) -> Option<(u32, u32)> {
    ControlFile::parse(contents).ok().map(|file| (file.block_size, file.segment_blocks))
}

/// Reads `postmaster.pid`.
pub fn read_postmaster(text: &str) -> Option<Postmaster> {
    parse_postmaster(text)
}

/// Reads a line of the password file.
pub fn read_password_line(line: &str) -> Option<[String; 5]> {
    split_password_line(line)
}
