//! Records of `top`, and the last hour in memory.
//!
//! A record (docs/formats.md) is gzip-compressed JSON lines. It is untrusted input.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, BufWriter, Read as _, Write as _};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::read::{DeflateDecoder, GzDecoder};
use flate2::write::{DeflateEncoder, GzEncoder};
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::top::frame::{Activity, TopFrame};
use host::files::{Directory, FILE_MODE, directory_of, open_regular};

const FORMAT: u32 = 1;

/// Maximum bytes of a line: ten times those of a step with several hundred wait events.
const LINE_BYTES_MAX: u64 = 4 << 20;

/// Maximum number of steps: about two weeks with a step each second.
pub(super) const FRAMES_MAX: u64 = 1_250_000;

/// Steps between two flushes. A truncated record is readable up to the last flush.
const FLUSHED_AFTER: u32 = 10;

/// First line of a record. Each other line is a step.
#[derive(Debug, Serialize, Deserialize, crate::JsonSchema)]
pub struct RecordHead {
    /// Version of the format: 1.
    pgthaw_top: u32,
    /// Version of pgthaw.
    pgthaw: String,
}

/// Without `finish`, at most the last ten steps are missing.
#[derive(Debug)]
pub struct RecordWriter {
    encoder: GzEncoder<BufWriter<File>>,
    path: PathBuf,
    unflushed: u32,
}

impl RecordWriter {
    pub fn create(path: &Path) -> Result<RecordWriter, Error> {
        let failed = |source| Error::file("create", path, source);
        let name = path.file_name().ok_or_else(|| failed(io::ErrorKind::InvalidInput.into()))?;
        let file = Directory::open(directory_of(path)).and_then(|directory| directory.create_file(name, FILE_MODE));
        let encoder = GzEncoder::new(BufWriter::new(file.map_err(failed)?), Compression::default());
        let mut writer = RecordWriter { encoder, path: path.to_owned(), unflushed: 0 };
        writer.write_line(&RecordHead { pgthaw_top: FORMAT, pgthaw: env!("CARGO_PKG_VERSION").into() })?;
        writer.flush()?;
        Ok(writer)
    }

    pub fn write(&mut self, frame: &TopFrame) -> Result<(), Error> {
        self.write_line(frame)?;
        self.unflushed += 1;
        if self.unflushed >= FLUSHED_AFTER { self.flush() } else { Ok(()) }
    }

    /// Excludes unflushed steps.
    pub fn bytes(&self) -> u64 {
        self.encoder.get_ref().get_ref().metadata().map_or(0, |facts| facts.len())
    }

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

#[derive(Debug)]
pub struct RecordReader<R = File> {
    lines: BufReader<GzDecoder<R>>,
    path: PathBuf,
    line: u64,
    pub is_cut: bool,
}

impl RecordReader {
    pub fn open(path: &Path) -> Result<RecordReader, Error> {
        RecordReader::new(open_regular(path).map_err(|source| Error::file("open", path, source))?, path)
    }
}

impl<R: io::Read> RecordReader<R> {
    pub fn new(bytes: R, path: &Path) -> Result<RecordReader<R>, Error> {
        let lines = BufReader::new(GzDecoder::new(bytes));
        let mut reader = RecordReader { lines, path: path.to_owned(), line: 0, is_cut: false };
        let first = reader.read_line()?.unwrap_or_default();
        let head: RecordHead =
            serde_json::from_slice(&first).map_err(|_| reader.refuse("it does not begin like a record".to_owned()))?;
        match head.pgthaw_top {
            FORMAT => Ok(reader),
            found => Err(Error::OtherRecord { path: reader.path, found, known: FORMAT }),
        }
    }

    pub fn read(&mut self) -> Result<Option<TopFrame>, Error> {
        let Some(line) = self.read_line()? else { return Ok(None) };
        if self.line > FRAMES_MAX {
            return Err(self.refuse(format!("it has more than {FRAMES_MAX} steps")));
        }
        match serde_json::from_slice(&line) {
            Ok(frame) => Ok(Some(frame)),
            // The record was truncated here.
            Err(_) if self.is_cut => Ok(None),
            Err(error) => Err(self.refuse(format!("line {} is not a step: {error}", self.line))),
        }
    }

    fn read_line(&mut self) -> Result<Option<Vec<u8>>, Error> {
        let mut line = Vec::new();
        self.line += 1;
        if let Err(error) = (&mut self.lines).take(LINE_BYTES_MAX).read_until(b'\n', &mut line) {
            match error.kind() {
                io::ErrorKind::UnexpectedEof if self.line > 1 => self.is_cut = true,
                io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => {
                    return Err(self.refuse(format!("line {} cannot be decompressed: {error}", self.line)));
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

/// At ten steps per second, the size limit is reached first.
const KEPT_NS: u64 = 3600 * 1_000_000_000;
const KEPT_BYTES: usize = 64 << 20;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Brief {
    pub at_ms: i64,
    pub length_ns: u64,
    pub activity: Activity,
    /// The server did not answer.
    pub is_gap: bool,
}

/// Steps, oldest first.
#[derive(Debug)]
pub struct History {
    steps: VecDeque<(Brief, Vec<u8>)>,
    length_ns: u64,
    bytes: usize,
    kept_ns: u64,
    kept_bytes: usize,
    pub dropped: u64,
}

impl History {
    pub fn live() -> History {
        History { steps: VecDeque::new(), length_ns: 0, bytes: 0, kept_ns: KEPT_NS, kept_bytes: KEPT_BYTES, dropped: 0 }
    }

    /// The length is unlimited.
    pub fn of_record() -> History {
        History { kept_ns: u64::MAX, ..History::live() }
    }

    pub fn push(&mut self, frame: &TopFrame) {
        let Some(packed) = pack(frame) else { return };
        self.length_ns = self.length_ns.saturating_add(frame.length_ns);
        self.bytes += packed.len() + size_of::<(Brief, Vec<u8>)>();
        let TopFrame { at_ms, length_ns, activity, .. } = *frame;
        self.steps.push_back((Brief { at_ms, length_ns, activity, is_gap: frame.failure.is_some() }, packed));
        while self.steps.len() > 1 && (self.length_ns > self.kept_ns || self.bytes > self.kept_bytes) {
            let Some((brief, packed)) = self.steps.pop_front() else { return };
            self.length_ns = self.length_ns.saturating_sub(brief.length_ns);
            self.bytes -= packed.len() + size_of::<(Brief, Vec<u8>)>();
            self.dropped += 1;
        }
    }

    pub fn len(&self) -> usize {
        self.steps.len()
    }

    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    pub fn briefs(&self, first: usize, end: usize) -> impl DoubleEndedIterator<Item = &Brief> {
        self.steps.iter().take(end).skip(first).map(|(brief, _)| brief)
    }

    pub fn frame(&self, place: usize) -> Option<TopFrame> {
        unpack(&self.steps.get(place)?.1)
    }
}

fn pack(frame: &TopFrame) -> Option<Vec<u8>> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(&serde_json::to_vec(frame).ok()?).ok()?;
    encoder.finish().ok()
}

fn unpack(packed: &[u8]) -> Option<TopFrame> {
    let mut text = Vec::new();
    DeflateDecoder::new(packed).read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::frame::TopStatistic;
    use crate::top::frame::tests::span;

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
            (b"plain text".to_vec(), "cannot be decompressed"),
            (Vec::new(), "cannot be decompressed"),
            (packed("{}\n"), "does not begin like a record"),
            (packed(newer), "has format 2"),
            (packed(&format!("{head}\n{{\"at_ms\": true}}\n")), "line 2 is not a step"),
            (packed(&long), "has more than"),
        ] {
            let refused = read_all(&bytes).unwrap_err().to_string();
            assert!(refused.contains(reason), "{refused}: {reason}");
        }
    }
}

#[cfg(test)]
mod history_tests {
    use super::*;
    use crate::top::frame::TopStatistic;
    use crate::top::frame::tests::{SECOND, span};

    fn frame(second: u64) -> TopFrame {
        TopFrame {
            at_ms: second as i64 * 1000,
            length_ns: SECOND,
            activity: Activity::of(&span()),
            statistics: TopStatistic::all_of(&span()),
            ..TopFrame::default()
        }
    }

    #[test]
    fn the_last_hour_is_kept_as_it_was() {
        let mut history = History::live();
        (0..4000).for_each(|second| history.push(&frame(second)));
        assert_eq!((history.len(), history.dropped), (3600, 400));
        assert_eq!((history.frame(0), history.frame(3599)), (Some(frame(400)), Some(frame(3999))));
        assert_eq!(history.frame(3600), None);
        let drawn: Vec<i64> = history.briefs(3598, 9999).map(|brief| brief.at_ms).collect();
        assert_eq!(drawn, [3_998_000, 3_999_000]);
        assert!(history.bytes < 8 << 20, "{}", history.bytes);
    }

    #[test]
    fn memory_is_bounded_whatever_a_record_has() {
        let mut history = History { kept_bytes: 100_000, ..History::of_record() };
        (0..4000).for_each(|second| history.push(&frame(second)));
        assert!(history.bytes <= 100_000 && history.dropped > 0, "{}", history.bytes);
        assert_eq!(history.len() as u64 + history.dropped, 4000);
        let mut whole = History::of_record();
        (0..4000).for_each(|second| whole.push(&frame(second)));
        assert_eq!(whole.len(), 4000, "a record is no hour");
    }
}
