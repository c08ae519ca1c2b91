//! Loads and reads `pages.bpf.c`, which reports blocks fetched into the page cache and, since Linux 6.12, blocks that
//! processes request.

use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use aya::Ebpf;
use aya::maps::{Array, HashMap, MapData, RingBuf};
use rustix::fs::{major, minor};

use crate::Error;
use crate::error::refusal;
use crate::pages::{PageEvent, PageEventKind, PageWatch, PagesRoom, Role, WatchedFile};
use crate::probes::load::{CostCount, attach, open_loader, refused, take_map};
use crate::time::ProbeCost;
use host::linux;
use host::linux::page_cache::{PageCache as _, SystemPageCache};
use host::linux::threads::{Over, lock};

static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/pages.bpf.o"));

const WORD_UNITS: u64 = 64;

/// Room for files that appear later, and for files that grow: 16 million units (blocks or pages), with a bit each.
const FURTHER_FILES: usize = 8192;
const FURTHER_WORDS: u64 = 1 << 18;

/// Maximum of files and of bitmap words (32 MB) for a probe loaded before its files are known.
const FILES_AHEAD: usize = 1 << 15;
const WORDS_AHEAD_MAX: u64 = 1 << 22;

static AHEAD: Mutex<Option<(PagesRoom, Result<PageProbe, Error>)>> = Mutex::new(None);

/// Indexes in the BPF map `controls`.
const LOST: u32 = 0;
const AGAIN_BELOW: u32 = 1;
const LOST_OF_OTHERS: u32 = 2;

/// Drop, or this process's end, unloads the BPF programs.
pub struct PageProbe {
    ebpf: Ebpf,
    files: HashMap<MapData, [u64; 2], FileRecord>,
    processes: HashMap<MapData, u32, ProcessRecord>,
    requested: Array<MapData, u64>,
    fetched: Array<MapData, u64>,
    shared: Array<MapData, u64>,
    controls: Array<MapData, u64>,
    events: RingBuf<MapData>,
    arrivals: RingBuf<MapData>,
    cost: CostCount,
    known: Vec<Known>,
    files_max: usize,
    free_words: std::ops::Range<u64>,
    blind: Option<String>,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    file: WatchedFile,
    first_word: u64,
    words: u64,
}

impl PageProbe {
    pub fn open(files: &[WatchedFile], unit_pages: u32, control: &Path) -> Result<PageProbe, Error> {
        let words: u64 = files.iter().map(|file| words_of(file, false)).sum();
        let (files_max, words) = (files.len() + FURTHER_FILES, words + words / 4 + FURTHER_WORDS);
        let is_for_these = |room: &PagesRoom| room.unit_pages == unit_pages && room.control == control;
        let has_room = |probe: &PageProbe| probe.files_max >= files_max && probe.free_words.end >= words;
        let ahead = lock(&AHEAD).take().filter(|(room, _)| is_for_these(room));
        let mut probe = match ahead.map(|(_, opened)| opened).transpose()?.filter(has_room) {
            Some(probe) => probe,
            None => PageProbe::load((files_max, words), unit_pages, control)?,
        };
        for file in files {
            probe.add(*file)?;
        }
        Ok(probe)
    }

    fn load((files_max, words): (usize, u64), unit_pages: u32, control: &Path) -> Result<PageProbe, Error> {
        let (types, mut loader) = open_loader()?;
        let words = u32::try_from(words).map_err(|_| refusal("the cluster is too large", "record fewer databases"))?;
        let mut ebpf = loader
            .override_global("own_pid", &std::process::id(), true)
            .override_global("unit_shift", &unit_pages.trailing_zeros(), true)
            .map_max_entries("files", (files_max + 1) as u32)
            .map_max_entries("requested", words)
            .map_max_entries("fetched", words)
            .map_max_entries("shared", words)
            .load(OBJECT)
            .map_err(refused)?;
        let mut probe = PageProbe {
            files: take_map(&mut ebpf, "files")?.try_into().map_err(refused)?,
            processes: take_map(&mut ebpf, "processes")?.try_into().map_err(refused)?,
            requested: take_map(&mut ebpf, "requested")?.try_into().map_err(refused)?,
            fetched: take_map(&mut ebpf, "fetched")?.try_into().map_err(refused)?,
            shared: take_map(&mut ebpf, "shared")?.try_into().map_err(refused)?,
            controls: take_map(&mut ebpf, "controls")?.try_into().map_err(refused)?,
            events: take_map(&mut ebpf, "events")?.try_into().map_err(refused)?,
            arrivals: take_map(&mut ebpf, "arrivals")?.try_into().map_err(refused)?,
            cost: CostCount::begin(),
            ebpf,
            known: Vec::new(),
            files_max,
            free_words: 0..u64::from(words),
            blind: None,
        };
        attach(&mut probe.ebpf, "pages_fetched", "mm_filemap_add_to_page_cache", &types)?;
        match attach(&mut probe.ebpf, "pages_requested", "mm_filemap_get_pages", &types) {
            Ok(_) => probe.prove(control)?,
            Err(error) => probe.blind = Some(error.to_string()),
        }
        Ok(probe)
    }

    fn prove(&mut self, control: &Path) -> Result<(), Error> {
        let failed = |source| Error::Linux(linux::Error::file("read", control, source));
        let facts = control.metadata().map_err(failed)?;
        let key = file_key(facts.dev(), facts.ino());
        self.files.insert(key, FileRecord::default(), 0).map_err(refused)?;
        let read = SystemPageCache::new()
            .open(control)
            .and_then(|file| file.map_or(Ok(0), |file| file.apply_read(0, &mut [0])));
        let own_pid = std::process::id();
        let is_seen = self.processes.get(&own_pid, 0).is_ok();
        self.files.remove(&key).map_err(refused)?;
        read?;
        match is_seen {
            true => Ok(()),
            false => Err(refusal(
                "the kernel and stat() report different device or inode numbers for the cluster's files",
                "move the data directory to a file system such as ext4 or XFS, not overlay or btrfs",
            )),
        }
    }

    fn place(&mut self, file: &WatchedFile, with_all: bool) -> Option<(u64, u64)> {
        let words = words_of(file, with_all);
        let first = self.free_words.start;
        if first + words > self.free_words.end {
            return None;
        }
        self.free_words.start += words;
        Some((first, words))
    }

    fn tell_place(&mut self, number: usize) -> Result<(), Error> {
        let Known { file, first_word, words } = self.known[number];
        // The kernel program numbers files from 1.
        let record = [number as u32 + 1, first_word as u32, (words * WORD_UNITS) as u32, file.salt, 0];
        self.files.insert(file_key(file.device, file.inode), record, 0).map_err(refused)
    }
}

/// Loads the page probe, which takes tens of milliseconds, while the caller collects the files. A concurrent
/// `open_page_probe` waits, and fails if this fails.
pub fn open_pages_ahead(room: impl FnOnce() -> Option<PagesRoom>) {
    let mut ahead = lock(&AHEAD);
    let Some(room) = room() else { return };
    let words = room.units / WORD_UNITS + 3 * FILES_AHEAD as u64;
    // Adds a quarter so that each file can grow, as `open` does. Then adds a quarter of the sum for new files and for
    // files that grow further.
    let words = (words + words / 4) * 5 / 4 + FURTHER_WORDS;
    if words <= WORDS_AHEAD_MAX {
        let opened = PageProbe::load((FILES_AHEAD, words), room.unit_pages, &room.control);
        *ahead = Some((room, opened));
    }
}

pub fn forget_pages_ahead() {
    lock(&AHEAD).take();
}

fn words_of(file: &WatchedFile, with_all: bool) -> u64 {
    let units = if with_all { file.most_units } else { (file.units + file.units / 4 + 128).min(file.most_units) };
    units.max(1).div_ceil(WORD_UNITS)
}

host::debug_by!(PageProbe: files_max);

impl PageWatch for PageProbe {
    fn blind_to_requests(&self) -> Option<&str> {
        self.blind.as_deref()
    }

    fn add(&mut self, file: WatchedFile) -> Result<bool, Error> {
        if self.known.len() == self.files_max {
            return Ok(false);
        }
        let Some((first_word, words)) = self.place(&file, false) else { return Ok(false) };
        self.known.push(Known { file, first_word, words });
        self.tell_place(self.known.len() - 1)?;
        Ok(true)
    }

    fn make_room(&mut self, file: u32) -> Result<bool, Error> {
        let Some(known) = self.known.get(file as usize).copied() else { return Ok(false) };
        let Some((first_word, words)) = self.place(&known.file, true) else { return Ok(false) };
        // Units requested or fetched during the copy are reported twice.
        for word in 0..known.words.min(words) {
            for bits in [&mut self.requested, &mut self.fetched, &mut self.shared] {
                let before = bits.get(&((known.first_word + word) as u32), 0).map_err(refused)?;
                bits.set((first_word + word) as u32, before, 0).map_err(refused)?;
            }
        }
        self.known[file as usize] = Known { first_word, words, ..known };
        self.tell_place(file as usize)?;
        Ok(true)
    }

    fn set_role(&mut self, pid: u32, role: Role) -> Result<(), Error> {
        let mut record = self.processes.get(&pid, 0).unwrap_or_default();
        // A write loses counts that the kernel adds meanwhile, so each role is written only once.
        match std::mem::replace(&mut record[0], role as u32) == role as u32 {
            true => Ok(()),
            false => self.processes.insert(pid, record, 0).map_err(refused),
        }
    }

    fn forget(&mut self, pid: u32) {
        let _ = self.processes.remove(&pid);
    }

    fn wait_for_arrivals(&mut self, over: &Over, at_most: Duration) -> Vec<u32> {
        over.wait_or_readable(self.arrivals.as_fd(), at_most);
        let mut arrived = Vec::new();
        while let Some(item) = self.arrivals.next() {
            arrived.extend(item.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes)));
        }
        arrived
    }

    fn drain(&mut self, visit: &mut dyn FnMut(PageEvent)) {
        while let Some(item) = self.events.next() {
            let event = parse_event(&item);
            drop(item);
            if let Some(event) = event {
                visit(event);
            }
        }
    }

    fn clear(&mut self, file: u32, first_unit: u64, units: u64) {
        let Some(known) = self.known.get(file as usize) else { return };
        let at = (known.first_word + first_unit / WORD_UNITS) as u32;
        // A unit requested meanwhile is reported twice.
        if let Ok(before) = self.requested.get(&at, 0) {
            let _ = self.requested.set(at, before & !units, 0);
        }
    }

    fn tell_again_below(&mut self, below: u64) -> Result<(), Error> {
        self.controls.set(AGAIN_BELOW, below, 0).map_err(refused)
    }

    fn lost(&self) -> u64 {
        self.controls.get(&LOST, 0).unwrap_or_default()
    }

    fn has_lost_others(&self) -> bool {
        self.controls.get(&LOST_OF_OTHERS, 0).unwrap_or_default() > 0
    }

    fn cost(&self) -> Option<ProbeCost> {
        self.cost.read(&self.ebpf)
    }
}

/// `struct file` of pages.bpf.c: number, first word, units, salt, is_grown.
type FileRecord = [u32; 5];

/// `struct process` of pages.bpf.c: `role` and `file`, then `first`, `last`, `pages` and `again` with two words each.
type ProcessRecord = [u32; 10];

/// `struct event` of pages.bpf.c: five 64-bit words and four of 32 bits.
const EVENT_BYTES: usize = 56;

/// Key in the BPF map `files`: inode and MKDEV (include/linux/kdev_t.h).
fn file_key(device: u64, inode: u64) -> [u64; 2] {
    [inode, pair(major(device) << 20 | minor(device), 0)]
}

fn pair(first: u32, second: u32) -> u64 {
    let [a, b, c, d] = first.to_ne_bytes();
    let [e, f, g, h] = second.to_ne_bytes();
    u64::from_ne_bytes([a, b, c, d, e, f, g, h])
}

fn parse_event(bytes: &[u8]) -> Option<PageEvent> {
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
    fn what_was_opened_ahead_is_taken_if_it_has_room() {
        needs_root!();
        let place = tempfile::tempdir_in("/var/tmp").unwrap();
        let control = place.path().join("control");
        std::fs::write(&control, [0; 8192]).unwrap();
        let ahead = |unit_pages| {
            open_pages_ahead(|| Some(PagesRoom { unit_pages, control: control.clone(), units: 100 }));
        };
        let open = |units| {
            let file = WatchedFile { device: 1, inode: 2, units, most_units: units, salt: 0 };
            PageProbe::open(&[file], 2, &control)
        };
        ahead(2);
        match open(100) {
            Ok(probe) => assert_eq!((probe.files_max, probe.known.len()), (FILES_AHEAD, 1)),
            Err(error) => untested!("{error}"),
        }
        assert!(lock(&AHEAD).is_none(), "it was taken");
        ahead(1);
        assert_eq!(open(100).unwrap().files_max, 1 + FURTHER_FILES, "it is for units of another size");
        ahead(2);
        assert_eq!(open(64 << 20).unwrap().files_max, 1 + FURTHER_FILES, "it has too few words");
        ahead(2);
        forget_pages_ahead();
        assert!(lock(&AHEAD).is_none());
    }
}

#[cfg(test)]
mod record_tests {
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
