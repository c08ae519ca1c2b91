//! What the program in the kernel and this one tell each other, byte by byte. pages.bpf.c has the same layout.

use std::time::Duration;

use rustix::fs::{major, minor};

use crate::pages::{PageEvent, PageEventKind};

/// Number, first word, units, salt, is_grown.
pub(super) type FileRecord = [u32; 5];

/// Role and file, first, last, pages, again.
pub(super) type ProcessRecord = [u64; 5];

/// The role of one that is left out.
const OTHER: u32 = 1;

/// Of an event: five words of 64 bits, then four of 32.
const EVENT_BYTES: usize = 56;

/// By what the kernel knows a file of this device and inode: MKDEV of include/linux/kdev_t.h.
pub(super) fn file_key(device: u64, inode: u64) -> [u64; 2] {
    [inode, pair(major(device) << 20 | minor(device), 0)]
}

pub(super) fn file_record(number: u32, first_word: u32, units: u32, salt: u32) -> FileRecord {
    [number, first_word, units, salt, 0]
}

pub(super) fn other_process() -> ProcessRecord {
    [pair(OTHER, 0), 0, 0, 0, 0]
}

/// Two numbers that stand one after the other.
fn pair(first: u32, second: u32) -> u64 {
    let [a, b, c, d] = first.to_ne_bytes();
    let [e, f, g, h] = second.to_ne_bytes();
    u64::from_ne_bytes([a, b, c, d, e, f, g, h])
}

/// `None` of what is no event.
pub(super) fn parse_event(bytes: &[u8]) -> Option<PageEvent> {
    let bytes: &[u8; EVENT_BYTES] = bytes.try_into().ok()?;
    let word = |at: usize| bytes[at * 8..].first_chunk().map_or(0, |word| u64::from_ne_bytes(*word));
    let half = |at: usize| bytes[at * 4..].first_chunk().map_or(0, |half| u32::from_ne_bytes(*half));
    let kind = match half(13) {
        1 => PageEventKind::Requested,
        2 => PageEventKind::Again,
        3 => PageEventKind::Fetched,
        4 => PageEventKind::Grown,
        _ => return None,
    };
    Some(PageEvent {
        time: Duration::from_nanos(word(0)),
        kind,
        units: word(1),
        fetched: word(2),
        pages: word(3),
        pages_again: word(4).cast_signed(),
        file: half(10).checked_sub(1)?,
        first_unit: u64::from(half(11)) * 64,
        pid: half(12),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_read_as_the_kernel_wrote_it() {
        let mut bytes = Vec::new();
        [1_500_u64, 0b1010, 0b10, 77, u64::MAX].iter().for_each(|word| bytes.extend(word.to_ne_bytes()));
        [3_u32, 2, 4242, 1].iter().for_each(|half| bytes.extend(half.to_ne_bytes()));
        let event = parse_event(&bytes).unwrap();
        assert_eq!((event.time.as_nanos(), event.kind, event.file), (1500, PageEventKind::Requested, 2));
        assert_eq!((event.first_unit, event.units, event.fetched), (128, 0b1010, 0b10));
        assert_eq!((event.pid, event.pages, event.pages_again), (4242, 77, -1));
        assert_eq!(parse_event(&bytes[1..]), None);
        bytes[52] = 9;
        assert_eq!(parse_event(&bytes), None);
    }

    #[test]
    fn a_device_is_numbered_as_the_kernel_does() {
        let device = rustix::fs::makedev(254, 3);
        assert_eq!(file_key(device, 7), [7, pair(254 << 20 | 3, 0)]);
    }
}
