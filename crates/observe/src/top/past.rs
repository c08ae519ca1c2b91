//! The history: a ring of records, which are untrusted input.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;

use crate::Error;
use crate::stall::local_time;
use crate::top::frame::TopFrame;
use crate::top::record::{FRAMES_MAX, RecordReader, RecordWriter};
use host::files::{DIRECTORY_MODE, Directory, as_owner_of};
use host::linux::clock::read_wall_ms;

const ENDING: &str = ".gz";

/// Limits of a record, and of all records together.
const SEGMENT_MS: i64 = 3_600_000;
const BYTES_MAX: u64 = 500 << 20;
const SEGMENT_BYTES: u64 = BYTES_MAX / 10;

#[derive(Debug)]
struct Segment {
    begin_ms: i64,
    name: String,
    bytes: u64,
}

fn list(directory: &Directory) -> io::Result<Vec<Segment>> {
    let segment = |name: String| {
        let begin: Timestamp = name.strip_suffix(ENDING)?.parse().ok()?;
        let bytes = directory.facts_of(&name).ok()?.st_size.cast_unsigned();
        Some(Segment { begin_ms: begin.as_millisecond(), name, bytes })
    };
    let names = directory.entries()?.into_iter().filter_map(|entry| entry.name.into_string().ok());
    let mut segments: Vec<Segment> = names.filter_map(segment).collect();
    segments.sort_by_key(|segment| segment.begin_ms);
    Ok(segments)
}

#[derive(Debug)]
pub struct HistoryWriter {
    path: PathBuf,
    keep_ms: i64,
    segment: Option<(i64, RecordWriter)>,
}

impl HistoryWriter {
    /// `path`: directory of the records, made if missing.
    pub fn new(path: PathBuf, keep: Duration) -> HistoryWriter {
        let keep_ms = i64::try_from(keep.as_millis()).unwrap_or(i64::MAX);
        HistoryWriter { path, keep_ms, segment: None }
    }

    /// # Errors
    /// For example, if the disk is full.
    pub fn write(&mut self, frame: &TopFrame) -> Result<(), Error> {
        self.write_to_segment(frame).map_err(|error| match error {
            Error::File { action, source, .. } => Error::file(action, &self.path, source),
            other => other,
        })
    }

    fn write_to_segment(&mut self, frame: &TopFrame) -> Result<(), Error> {
        let now_ms = read_wall_ms();
        let is_full = |(begin_ms, record): &(i64, RecordWriter)| {
            !(0..SEGMENT_MS).contains(&(now_ms - begin_ms)) || record.bytes() >= SEGMENT_BYTES
        };
        if self.segment.as_ref().is_some_and(is_full) {
            self.finish()?;
        }
        let (_, record) = match &mut self.segment {
            Some(segment) => segment,
            none => {
                let record = as_owner_of(&self.path, || begin(&self.path, now_ms, self.keep_ms));
                none.insert((now_ms, record.unwrap_or_else(|error| Err(Error::file("create", &self.path, error)))?))
            }
        };
        record.write(frame)
    }

    pub fn finish(&mut self) -> Result<(), Error> {
        self.segment.take().map_or(Ok(()), |(_, record)| record.finish())
    }
}

fn begin(path: &Path, now_ms: i64, keep_ms: i64) -> Result<RecordWriter, Error> {
    let failed = |source| Error::file("create", path, source);
    let (parent, name) = path.parent().zip(path.file_name()).ok_or_else(|| failed(io::ErrorKind::NotFound.into()))?;
    let directory = Directory::open(parent).and_then(|parent| parent.create_or_open_subdirectory(name, DIRECTORY_MODE));
    let directory = directory.map_err(failed)?;
    prune(&directory, now_ms.saturating_sub(keep_ms)).map_err(|source| Error::file("prune", path, source))?;
    let begin = Timestamp::from_millisecond(now_ms).unwrap_or_default().strftime("%Y%m%dT%H%M%SZ");
    let name = format!("{begin}{ENDING}");
    RecordWriter::create(&directory.path().join(&name)).inspect_err(|_| {
        let _ = directory.remove_file(&name);
    })
}

/// Deletes old records, and the oldest ones until the next record has room.
fn prune(directory: &Directory, since_ms: i64) -> io::Result<()> {
    let segments = list(directory)?;
    let mut bytes: u64 = segments.iter().map(|segment| segment.bytes).sum();
    for (at, segment) in segments.iter().enumerate() {
        let is_old = segments.get(at + 1).map_or(segment.begin_ms + SEGMENT_MS, |next| next.begin_ms) < since_ms;
        if is_old || bytes > BYTES_MAX - SEGMENT_BYTES {
            directory.remove_file(&segment.name)?;
            bytes -= segment.bytes;
        }
    }
    Ok(())
}

#[derive(Debug)]
pub struct HistoryReader {
    directory: Directory,
    segments: Vec<Segment>,
    /// Why records could not be read.
    pub damaged: Vec<String>,
}

impl HistoryReader {
    pub fn open(path: PathBuf) -> Result<HistoryReader, Error> {
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::NotFound => Error::NoHistory { path: path.clone() },
            _ => Error::file("read", &path, source),
        };
        let directory = Directory::open(&path).map_err(failed)?;
        let segments = list(&directory).map_err(failed)?;
        if segments.is_empty() {
            return Err(Error::NoHistory { path });
        }
        Ok(HistoryReader { directory, segments, damaged: Vec::new() })
    }

    /// Passes the steps that end in this time to `hear`, until it returns false.
    ///
    /// # Errors
    /// If there is no such step.
    pub fn read(&mut self, from_ms: i64, to_ms: i64, mut hear: impl FnMut(TopFrame) -> bool) -> Result<(), Error> {
        let mut heard = 0;
        let ends = self.segments.iter().skip(1).map(|next| next.begin_ms).chain([i64::MAX]);
        let wanted: Vec<usize> = (self.segments.iter().zip(ends).enumerate())
            .filter(|(_, (segment, end_ms))| segment.begin_ms <= to_ms && *end_ms >= from_ms)
            .map(|(at, _)| at)
            .collect();
        for at in wanted {
            let mut is_over = false;
            self.read_segment(at, |frame| {
                if !(from_ms..=to_ms).contains(&frame.at_ms) {
                    return frame.at_ms <= to_ms;
                }
                heard += 1;
                is_over = heard > FRAMES_MAX || !hear(frame);
                !is_over
            });
            if is_over {
                break;
            }
        }
        match heard {
            0 => Err(self.not_covered()),
            _ => Ok(()),
        }
    }

    fn read_segment(&mut self, at: usize, mut hear: impl FnMut(TopFrame) -> bool) {
        let Some(segment) = self.segments.get(at) else { return };
        let path = self.directory.path().join(&segment.name);
        let opened = self.directory.open_file(&segment.name).map_err(|source| Error::file("open", &path, source));
        let read = opened.and_then(|file| {
            let mut record: RecordReader<File> = RecordReader::new(file, &path)?;
            while let Some(frame) = record.read()? {
                if !hear(frame) {
                    break;
                }
            }
            Ok(())
        });
        self.damaged.extend(read.err().map(|error| error.to_string()));
    }

    fn not_covered(&mut self) -> Error {
        let begin_ms = self.segments.first().map_or(0, |segment| segment.begin_ms);
        let mut end_ms = begin_ms;
        for at in (0..self.segments.len()).rev() {
            self.read_segment(at, |frame| {
                end_ms = end_ms.max(frame.at_ms);
                true
            });
            if end_ms > begin_ms {
                break;
            }
        }
        let told = |ms: i64| local_time(ms).strftime("%F %T").to_string();
        Error::NotInHistory { begin: told(begin_ms), end: told(end_ms) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::LookBack;

    const HOUR: i64 = SEGMENT_MS;

    fn write(cluster: &Path, at_ms: &[i64]) {
        let mut writer = HistoryWriter::new(cluster.join("history"), Duration::from_hours(1));
        for at_ms in at_ms {
            writer.write(&TopFrame { at_ms: *at_ms, length_ns: 1_000_000_000, ..TopFrame::default() }).unwrap();
        }
        writer.finish().unwrap();
    }

    fn read(cluster: &Path, from_ms: i64, to_ms: i64) -> Result<(Vec<i64>, Vec<String>), Error> {
        let mut reader = HistoryReader::open(cluster.join("history"))?;
        let mut steps = Vec::new();
        reader.read(from_ms, to_ms, |frame| {
            steps.push(frame.at_ms);
            true
        })?;
        Ok((steps, reader.damaged))
    }

    #[test]
    fn steps_within_a_time_are_read_and_others_named() {
        let cluster = tempfile::tempdir().unwrap();
        assert!(matches!(read(cluster.path(), 0, 1), Err(Error::NoHistory { .. })));
        let now = read_wall_ms();
        let steps: Vec<i64> = (0..25).map(|second| now + 1000 * second).collect();
        write(cluster.path(), &steps);
        assert_eq!(read(cluster.path(), now, i64::MAX).unwrap(), (steps.clone(), Vec::new()));
        assert_eq!(read(cluster.path(), now + 1500, now + 3000).unwrap().0, steps[2..4]);
        let error = read(cluster.path(), 0, now - HOUR).unwrap_err().to_string();
        assert!(error.contains("it covers 20"), "{error}");
        let record = std::fs::read_dir(cluster.path().join("history")).unwrap().next().unwrap().unwrap().path();
        let bytes = std::fs::read(&record).unwrap();
        std::fs::write(&record, &bytes[..bytes.len() - 12]).unwrap();
        let cut = read(cluster.path(), 0, i64::MAX).unwrap().0;
        assert!(cut.len() >= 20 && cut[..] == steps[..cut.len()], "{cut:?}");
    }

    #[test]
    fn the_oldest_are_deleted_by_age_and_size() {
        let cluster = tempfile::tempdir().unwrap();
        write(cluster.path(), &[1]);
        let path = cluster.path().join("history");
        let names =
            || list(&Directory::open(&path).unwrap()).unwrap().into_iter().map(|one| one.name).collect::<Vec<_>>();
        let newest = names().remove(0);
        for (name, bytes) in
            [("20200101T000000Z.gz", 1), ("20200101T010000Z.gz", 300 << 20), ("20200101T020000Z.gz", 400 << 20)]
        {
            std::fs::File::create(path.join(name)).unwrap().set_len(bytes).unwrap();
        }
        std::fs::write(path.join("notes"), "").unwrap();
        let directory = Directory::open(&path).unwrap();
        let since = |text: &str| text.parse::<Timestamp>().unwrap().as_millisecond();
        prune(&directory, since("2020-01-01T01:30:00Z")).unwrap();
        assert_eq!(names(), ["20200101T020000Z.gz", &newest], "one by age, one by size");
        prune(&directory, read_wall_ms()).unwrap();
        assert_eq!(names(), [newest]);
        assert!(path.join("notes").exists());
    }

    #[test]
    fn damaged_and_absurd_records_do_no_harm() {
        let cluster = tempfile::tempdir().unwrap();
        write(cluster.path(), &[i64::MIN, 5, i64::MAX]);
        let path = cluster.path().join("history");
        std::fs::write(path.join("20200101T000000Z.gz"), "nothing").unwrap();
        std::os::unix::fs::symlink("/dev/zero", path.join("20200102T000000Z.gz")).unwrap();
        let (steps, damaged) = read(cluster.path(), i64::MIN, i64::MAX).unwrap();
        assert_eq!((steps, damaged.len()), (vec![i64::MIN, 5, i64::MAX], 2));
        let mut sum = LookBack::default();
        let absurd = crate::time::TimeShares { lived_ns: u64::MAX, commands: Some(u64::MAX), ..Default::default() };
        for at_ms in [i64::MIN, i64::MAX, 0] {
            let statistics = crate::top::TopStatistic::all_of(&crate::top::frame::tests::span());
            sum.add(TopFrame { at_ms, length_ns: u64::MAX, time: absurd, statistics, ..TopFrame::default() });
        }
        assert_eq!(sum.finish(&damaged).total.lived_ns, u64::MAX);
    }
}
