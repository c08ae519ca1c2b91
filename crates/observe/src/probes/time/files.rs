//! Decodes file records from 64-bit words, with the layout of files.h.

use crate::Statistic;
use crate::time::{FileCall, FileCallKind, FileKind, FileName, FileTimes, ProcessTimes, Written};
use host::linux::process::read_file_call;

/// Sizes in 64-bit words.
pub(super) const STATISTIC_WORDS: usize = 21;
pub(super) const FILE_WORDS: usize = STATISTIC_WORDS + 8 + NAMES * NAME_BYTES / 8;
pub(super) const KEY_WORDS: usize = 2;

/// Size of `struct call`. In a record of a slow call, the pid follows.
pub(super) const CALL_WORDS: usize = 8;

pub(super) const FILES: usize = 16384;

const NAMES: usize = 4;
const NAME_BYTES: usize = 32;

pub(super) type Key = [u64; KEY_WORDS];
pub(super) type KnownFile = [u64; FILE_WORDS];

/// Does not set the file's name.
pub(super) fn parse_call(pid: u32, words: &[u64], has_ended: bool) -> Option<(FileCall, Key)> {
    let [begin_ns, until, number, _, device, inode, writes, bytes]: [u64; CALL_WORDS] = *words.first_chunk()?;
    let call = FileCall {
        pid,
        kind: kind_of(number as u32)?,
        begin_ns,
        end_ns: has_ended.then_some(until),
        file: FileName::default(),
        device: device_of(device as u32),
        unsynced: Some(Written { writes, bytes }),
    };
    Some((call, [device, inode]))
}

/// The record has the file's own name first, then its directories outwards.
pub(super) fn parse_name(words: &KnownFile) -> FileName {
    let bytes: Vec<u8> =
        words[FILE_WORDS - NAMES * NAME_BYTES / 8..].iter().flat_map(|word| word.to_ne_bytes()).collect();
    let text = |name: &[u8]| String::from_utf8_lossy(name.split(|byte| *byte == 0).next().unwrap_or(name)).into_owned();
    let names: Vec<String> = bytes.chunks(NAME_BYTES).map(text).collect();
    FileName::of_names(&names)
}

pub(super) fn parse_file(words: &KnownFile) -> FileTimes {
    let counts = &words[STATISTIC_WORDS..];
    FileTimes {
        file: parse_name(words),
        syncs: parse_statistic(words),
        sleeps: counts[5],
        slept_ns: counts[6],
        written: Written { writes: counts[1], bytes: counts[2] },
        unsynced: Written { writes: counts[3], bytes: counts[4] },
        ..FileTimes::default()
    }
}

pub(super) fn is_left(file: &FileTimes, before: &FileTimes) -> bool {
    file.file.kind == FileKind::Temporary && file == before
}

pub(super) fn parse_statistic(words: &[u64]) -> Statistic {
    let halves = words[5..STATISTIC_WORDS].iter().flat_map(|word| [word & 0xffff_ffff, word >> 32]);
    let mut histogram = [0; crate::BUCKETS];
    histogram.iter_mut().zip(halves).for_each(|(bucket, count)| *bucket = count);
    let length = |ns: u64| (words[1] > 0).then_some(ns);
    Statistic { count: words[1], total_ns: words[2], min_ns: length(words[3]), max_ns: length(words[4]), histogram }
}

/// x86-64 (arch/x86/entry/syscalls/syscall_64.tbl).
pub(super) fn kind_of(number: u32) -> Option<FileCallKind> {
    Some(match number {
        74 => FileCallKind::Fsync,
        75 => FileCallKind::Fdatasync,
        277 => FileCallKind::SyncFileRange,
        1 | 18 | 20 | 285 | 296 | 328 => FileCallKind::Write,
        _ => return None,
    })
}

/// 20 bits of minor number (include/linux/kdev_t.h).
fn device_of(number: u32) -> (u32, u32) {
    (number >> 20, number & 0xf_ffff)
}

/// Class of IO wait events, as in files.h.
pub(super) const IO_EVENTS: u32 = 0x0a;

/// File calls that were in progress when the probe opened, each with the start time of its process.
#[derive(Debug, Default)]
pub(super) struct CallsBefore(Vec<(u64, FileCall)>);

impl CallsBefore {
    /// Notes the file call that the process is in, if any, as begun at `now_ns`.
    pub fn look(&mut self, pid: u32, start_ticks: u64, now_ns: u64) {
        let Some(seen) = read_file_call(pid) else { return };
        let Some(kind) = kind_of(seen.number) else { return };
        let names: Vec<String> =
            seen.path.components().rev().map(|part| part.as_os_str().to_string_lossy().into_owned()).collect();
        let file = FileName::of_names(&names);
        let call = FileCall { pid, kind, begin_ns: now_ns, end_ns: None, file, device: seen.device, unsynced: None };
        self.0.push((start_ticks, call));
    }

    /// If the process still sleeps in its call, adds the call to `process`. Otherwise returns it as ended.
    pub fn tell(&mut self, process: &mut ProcessTimes, at_ns: u64) -> Option<FileCall> {
        let place = self.0.iter().position(|(birth, call)| (call.pid, *birth) == (process.pid, process.birth))?;
        let has_slept_on = process.switches == 0 && process.ended_ns.is_none() && process.open.is_some();
        if has_slept_on {
            process.call.get_or_insert_with(|| self.0[place].1.clone());
            return None;
        }
        let (_, call) = self.0.swap_remove(place);
        // After the call, the process only ran or was ready: subtracts that time.
        let since = process.running_ns.saturating_add(process.ready_ns.unwrap_or_default());
        Some(FileCall { end_ns: Some(at_ns.saturating_sub(since).max(call.begin_ns)), ..call })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(names: [&str; NAMES]) -> KnownFile {
        let mut bytes = Vec::new();
        for name in names {
            bytes.extend(name.bytes().chain(std::iter::repeat(0)).take(NAME_BYTES));
        }
        let mut words = [0; FILE_WORDS];
        let texts = bytes.chunks(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap()));
        words[STATISTIC_WORDS + 8..].iter_mut().zip(texts).for_each(|(word, text)| *word = text);
        words
    }

    #[test]
    fn a_file_has_its_name_and_its_counts() {
        let mut words = file(["16387.1", "16386", "base", "data"]);
        (words[1], words[2], words[3], words[4]) = (2, 900, 400, 500);
        words[STATISTIC_WORDS + 1..STATISTIC_WORDS + 7].copy_from_slice(&[7, 57_344, 3, 24_576, 1, 80]);
        let times = parse_file(&words);
        assert_eq!(
            (times.file.path.as_str(), times.syncs.count, times.syncs.max_ns),
            ("base/16386/16387.1", 2, Some(500))
        );
        assert_eq!(times.written, Written { writes: 7, bytes: 57_344 });
        assert_eq!((times.unsynced.writes, times.sleeps, times.slept_ns), (3, 1, 80));
        assert!(!is_left(&times, &times));
        let temporary = parse_file(&file(["pgsql_tmp7.0", "pgsql_tmp", "base", ""]));
        assert!(is_left(&temporary, &temporary));
    }

    #[test]
    fn calls_are_told_by_their_numbers() {
        let (call, key) = parse_call(7, &[10, 30, 74 | 12 << 32, 0, 254 << 20 | 3, 99, 5, 40_960], true).unwrap();
        assert_eq!((call.pid, call.kind, call.end_ns, call.device), (7, FileCallKind::Fsync, Some(30), (254, 3)));
        assert_eq!((call.unsynced, key), (Some(Written { writes: 5, bytes: 40_960 }), [254 << 20 | 3, 99]));
        let (open, _) = parse_call(7, &[10, 20, 75 | 12 << 32, 0, 254 << 20, 99, 0, 0], false).unwrap();
        assert_eq!((open.pid, open.kind, open.begin_ns, open.end_ns), (7, FileCallKind::Fdatasync, 10, None));
        assert_eq!(parse_call(7, &[10, 20, 3, 0, 0, 0, 0, 0], false), None);
    }
}
