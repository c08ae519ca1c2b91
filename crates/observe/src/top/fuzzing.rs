//! Fuzz targets: records as untrusted input.

use std::io::Write as _;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::{RecordReader, TopFrame};

pub fn read_steps(bytes: &[u8]) -> Vec<TopFrame> {
    let Ok(mut reader) = RecordReader::new(bytes, Path::new("record")) else { return Vec::new() };
    std::iter::from_fn(|| reader.read().ok().flatten()).collect()
}

pub fn read_lines(lines: &[u8]) -> Vec<TopFrame> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    let head: &[u8] = b"{\"pgthaw_top\":1,\"pgthaw\":\"0\"}\n";
    let written = encoder.write_all(head).and_then(|()| encoder.write_all(lines));
    match written.and_then(|()| encoder.finish()) {
        Ok(packed) => read_steps(&packed),
        Err(_) => Vec::new(),
    }
}
