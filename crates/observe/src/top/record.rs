//! Records of what `top` showed: lines of JSON, compressed with gzip, which other programs read too (docs/formats.md). A record is
//! untrusted input.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, BufWriter, Read as _, Write as _};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};

use super::frame::TopFrame;
use crate::Error;
use host::files::{Directory, FILE_MODE, directory_of, open_regular};

/// What this pgthaw writes, and reads.
const FORMAT: u32 = 1;

/// A step of some hundred names has a tenth of it.
const LINE_BYTES_MAX: u64 = 4 << 20;

/// A record of two weeks of seconds has about as many steps.
const FRAMES_MAX: u64 = 1_250_000;

/// Steps between two places up to which a record can be read whatever happens to its writer.
const FLUSHED_AFTER: u32 = 10;

/// The first line.
#[derive(Debug, Serialize, Deserialize)]
struct Head {
    /// The format's number; nothing else begins so.
    pgthaw_top: u32,
    /// The version that wrote it.
    pgthaw: String,
}

/// Writes a record. It is whole when it was finished, and can be read up to its last ten steps when it was not.
#[derive(Debug)]
pub struct RecordWriter {
    encoder: GzEncoder<BufWriter<File>>,
    path: PathBuf,
    unflushed: u32,
}

impl RecordWriter {
    /// Makes the file, whose name must be free.
    pub fn create(path: &Path) -> Result<RecordWriter, Error> {
        let failed = |source| Error::file("make", path, source);
        let name = path.file_name().ok_or_else(|| failed(io::ErrorKind::InvalidInput.into()))?;
        let file = Directory::open(directory_of(path)).and_then(|directory| directory.create_file(name, FILE_MODE));
        let encoder = GzEncoder::new(BufWriter::new(file.map_err(failed)?), Compression::default());
        let mut writer = RecordWriter { encoder, path: path.to_owned(), unflushed: 0 };
        writer.write_line(&Head { pgthaw_top: FORMAT, pgthaw: env!("CARGO_PKG_VERSION").into() })?;
        writer.flush()?;
        Ok(writer)
    }

    /// Adds a step.
    pub fn write(&mut self, frame: &TopFrame) -> Result<(), Error> {
        self.write_line(frame)?;
        self.unflushed += 1;
        if self.unflushed >= FLUSHED_AFTER { self.flush() } else { Ok(()) }
    }

    /// Ends the record.
    pub fn finish(self) -> Result<(), Error> {
        let RecordWriter { encoder, path, .. } = self;
        let finished = encoder.finish().and_then(|file| file.into_inner().map_err(io::IntoInnerError::into_error));
        finished.map(drop).map_err(|source| Error::file("write", &path, source))
    }

    fn write_line(&mut self, value: &impl Serialize) -> Result<(), Error> {
        let written = serde_json::to_writer(&mut self.encoder, value).map_err(io::Error::from);
        let written = written.and_then(|()| self.encoder.write_all(b"\n"));
        written.map_err(|source| Error::file("write", &self.path, source))
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.unflushed = 0;
        self.encoder.flush().map_err(|source| Error::file("write", &self.path, source))
    }
}

/// Reads a record, step after step.
#[derive(Debug)]
pub struct RecordReader<R = File> {
    lines: BufReader<GzDecoder<R>>,
    path: PathBuf,
    line: u64,
    /// Whoever wrote it was stopped: its last steps may be missing.
    pub is_cut: bool,
}

impl RecordReader {
    /// Opens a record.
    ///
    /// # Errors
    /// When it is none, or one of another version of pgthaw.
    pub fn open(path: &Path) -> Result<RecordReader, Error> {
        RecordReader::new(open_regular(path).map_err(|source| Error::file("open", path, source))?, path)
    }
}

impl<R: io::Read> RecordReader<R> {
    /// Begins to read; `path` is what errors call it.
    pub fn new(bytes: R, path: &Path) -> Result<RecordReader<R>, Error> {
        let lines = BufReader::new(GzDecoder::new(bytes));
        let mut reader = RecordReader { lines, path: path.to_owned(), line: 0, is_cut: false };
        let first = reader.read_line()?.unwrap_or_default();
        let head: Head =
            serde_json::from_slice(&first).map_err(|_| reader.refuse("it does not begin as one".to_owned()))?;
        match head.pgthaw_top {
            FORMAT => Ok(reader),
            found => Err(Error::OtherRecord { path: reader.path, found, known: FORMAT }),
        }
    }

    /// The next step; `None` after the last.
    pub fn read(&mut self) -> Result<Option<TopFrame>, Error> {
        let Some(line) = self.read_line()? else { return Ok(None) };
        if self.line > FRAMES_MAX {
            return Err(self.refuse(format!("it has more than {FRAMES_MAX} steps")));
        }
        match serde_json::from_slice(&line) {
            Ok(frame) => Ok(Some(frame)),
            // Its end is not there.
            Err(_) if self.is_cut => Ok(None),
            Err(error) => Err(self.refuse(format!("line {} is no step: {error}", self.line))),
        }
    }

    fn read_line(&mut self) -> Result<Option<Vec<u8>>, Error> {
        let mut line = Vec::new();
        self.line += 1;
        if let Err(error) = (&mut self.lines).take(LINE_BYTES_MAX).read_until(b'\n', &mut line) {
            match error.kind() {
                io::ErrorKind::UnexpectedEof if self.line > 1 => self.is_cut = true,
                io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => {
                    return Err(self.refuse(format!("line {} cannot be unpacked: {error}", self.line)));
                }
                _ => return Err(Error::file("read", &self.path, error)),
            }
        }
        if line.len() as u64 >= LINE_BYTES_MAX {
            return Err(self.refuse(format!("line {} has more than {LINE_BYTES_MAX} bytes", self.line)));
        }
        Ok((!line.is_empty()).then_some(line))
    }

    fn refuse(&self, reason: String) -> Error {
        Error::NotARecord { path: self.path.clone(), reason }
    }
}

#[cfg(test)]
mod tests {
    use super::super::frame::tests::span;
    use super::super::frame::{Activity, TopStatistic};
    use super::*;

    fn frame(at_ms: i64) -> TopFrame {
        let (activity, statistics) = (Activity::of(&span()), TopStatistic::all_of(&span()));
        TopFrame {
            at_ms,
            length_ns: 1_000_000_007,
            activity,
            statistics,
            explained: Some(0.1 + 0.2),
            ..TopFrame::default()
        }
    }

    fn record(frames: i64) -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("record");
        let mut writer = RecordWriter::create(&path).unwrap();
        (0..frames).for_each(|at_ms| writer.write(&frame(at_ms)).unwrap());
        writer.finish().unwrap();
        (directory, path)
    }

    fn read_all(bytes: &[u8]) -> Result<(Vec<TopFrame>, bool), Error> {
        let mut reader = RecordReader::new(bytes, Path::new("record"))?;
        let mut frames = Vec::new();
        while let Some(frame) = reader.read()? {
            frames.push(frame);
        }
        Ok((frames, reader.is_cut))
    }

    fn packed(text: &str) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn what_was_recorded_is_read_back_as_it_was() {
        let (_directory, path) = record(25);
        let (frames, is_cut) = read_all(&std::fs::read(&path).unwrap()).unwrap();
        assert_eq!(frames, (0..25).map(frame).collect::<Vec<_>>());
        assert!(!is_cut);
        let taken = RecordWriter::create(&path).unwrap_err();
        assert!(taken.to_string().contains("File exists"), "{taken}: nothing is written over");
    }

    #[test]
    fn one_that_was_cut_short_is_read_as_far_as_it_goes() {
        let (_directory, path) = record(25);
        let bytes = std::fs::read(&path).unwrap();
        let (frames, is_cut) = read_all(&bytes[..bytes.len() - 12]).unwrap();
        assert!(is_cut && (20..=25).contains(&frames.len()), "{}", frames.len());
        assert_eq!(frames[..], (0..25).map(frame).collect::<Vec<_>>()[..frames.len()]);
    }

    #[test]
    fn what_is_no_record_is_refused_and_said_why() {
        let head = r#"{"pgthaw_top": 1, "pgthaw": "0.1.0"}"#;
        let long = format!("{head}\n{}\n", "x".repeat(5 << 20));
        let newer = r#"{"pgthaw_top": 2, "pgthaw": "9.0.0"}"#;
        for (bytes, reason) in [
            (b"plain text".to_vec(), "cannot be unpacked"),
            (Vec::new(), "cannot be unpacked"),
            (packed("{}\n"), "does not begin as one"),
            (packed(newer), "has format 2"),
            (packed(&format!("{head}\n{{\"at_ms\": true}}\n")), "line 2 is no step"),
            (packed(&long), "has more than"),
        ] {
            let refused = read_all(&bytes).unwrap_err().to_string();
            assert!(refused.contains(reason), "{refused}: {reason}");
        }
    }
}
