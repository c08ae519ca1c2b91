//! Entry points for `fuzz/`.

use super::Postmaster;
use super::connect::split_password_line;
use super::data_directory::{ControlFile, parse_postmaster};

pub fn read_control_file(contents: &[u8]) -> Option<(u32, u32)> {
    ControlFile::parse(contents).ok().map(|file| (file.block_size, file.segment_blocks))
}

pub fn read_postmaster(text: &str) -> Option<Postmaster> {
    parse_postmaster(text)
}

pub fn read_password_line(line: &str) -> Option<[String; 5]> {
    split_password_line(line)
}
