//! How often cached pages were read, as the kernel's lists of pages know it: `/proc/self/pagemap` tells which frame holds a
//! page of a mapped file, `/proc/kpageflags` what the kernel thinks of the frame. Only root may.
//!
//! Looking must not count as reading. Pages are mapped by a fault on one of sixteen (the kernel maps the cached neighbours
//! of a fault, without touching them), in a mapping with MADV_SEQUENTIAL, whose end the kernel does not take for a use of
//! its pages either. MADV_POPULATE_READ would be simpler, and marks every page as used.

use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::os::unix::fs::FileExt as _;
use std::ptr;

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};

use super::Activity;
use crate::units::PageRange;

/// Pages that are looked at a time: less than a megabyte of memory, however large the file is.
const WINDOW_PAGES: u64 = 16_384;

/// Pages that the kernel maps around a fault: `fault_around_bytes` of `mm/memory.c`, 64 KiB.
const FAULT_AROUND_BYTES: u64 = 64 << 10;

/// Faults of one system call: IOV_MAX.
const FAULTS_MAX: usize = 1024;

/// `Documentation/admin-guide/mm/pagemap.rst` of the kernel: a page's entry says whether it is mapped, and its frame.
const ENTRY_BYTES: usize = 8;
const PRESENT: u64 = 1 << 63;
const FRAME: u64 = (1 << 55) - 1;

/// `include/uapi/linux/kernel-page-flags.h`.
const REFERENCED: u64 = 1 << 2;
const ACTIVE: u64 = 1 << 6;

/// Frames whose flags are read at once, and frames of no interest that are read over for it.
const FRAMES_MAX: u64 = 4096;
const FRAME_GAP_MAX: u64 = 16;

/// The kernel's tables, open.
#[derive(Debug)]
pub struct PageTables {
    pagemap: File,
    flags: File,
    /// What the bytes of faults are written to: a write from memory that has gone (the file was truncated) fails, where
    /// reading that memory would kill this process.
    sink: File,
}

impl PageTables {
    /// Opens them. Root may; others get EACCES or EPERM.
    pub fn open() -> io::Result<PageTables> {
        let flags = File::open("/proc/kpageflags")?;
        let pagemap = File::open("/proc/self/pagemap")?;
        let sink = memfd_create("pgthaw-page-flags", MemfdFlags::CLOEXEC)?.into();
        Ok(PageTables { pagemap, flags, sink })
    }

    /// Calls `visit` for `range`, all of whose pages are cached, with maximal runs of pages of the same activity, in order. A
    /// page that cannot be seen, as one that has just been evicted, is idle.
    pub fn visit_activity(
        &self,
        file: BorrowedFd<'_>,
        page_bytes: u64,
        range: PageRange,
        visit: &mut dyn FnMut(PageRange, Activity),
    ) -> io::Result<()> {
        let mut start = range.start;
        while start < range.end {
            let window = PageRange::new(start, range.end.min(start + WINDOW_PAGES));
            let activities = self.read_window(file, page_bytes, window)?;
            let mut at = 0;
            for run in activities.chunk_by(|one, other| one == other) {
                let first = window.start + at;
                at += run.len() as u64;
                visit(PageRange::new(first, window.start + at), run[0]);
            }
            start = window.end;
        }
        Ok(())
    }

    fn read_window(&self, file: BorrowedFd<'_>, page_bytes: u64, window: PageRange) -> io::Result<Vec<Activity>> {
        let mapping = Mapping::new(file, page_bytes, window)?;
        mapping.fault_around(&self.sink)?;
        let mut frames = self.read_frames(&mapping, page_bytes, window.pages())?;
        frames.sort_unstable();
        let mut activities = vec![Activity::Idle; window.pages() as usize];
        self.visit_flags(&frames, |page, flags| activities[page] = as_activity(flags))?;
        Ok(activities)
    }

    /// The frames of the window's mapped pages, each with the page's place in the window.
    fn read_frames(&self, mapping: &Mapping, page_bytes: u64, pages: u64) -> io::Result<Vec<(u64, usize)>> {
        let mut entries = vec![0; pages as usize * ENTRY_BYTES];
        let first = mapping.address() / page_bytes;
        self.pagemap.read_exact_at(&mut entries, first * ENTRY_BYTES as u64)?;
        let entries = numbers(&entries).enumerate().filter(|(_, entry)| entry & PRESENT != 0);
        let frames: Vec<(u64, usize)> = entries.map(|(page, entry)| (entry & FRAME, page)).collect();
        match frames.first() {
            // Who lacks CAP_SYS_ADMIN is told that every frame is 0.
            Some((0, _)) => Err(io::ErrorKind::PermissionDenied.into()),
            _ => Ok(frames),
        }
    }

    /// The flags of `frames`, which are in order.
    fn visit_flags(&self, frames: &[(u64, usize)], mut visit: impl FnMut(usize, u64)) -> io::Result<()> {
        let mut buffer = Vec::new();
        let mut rest = frames;
        while let Some((first, _)) = rest.first() {
            let is_near =
                |at: &usize| rest[*at].0 - rest[at - 1].0 <= FRAME_GAP_MAX && rest[*at].0 - first < FRAMES_MAX;
            let length = (1..rest.len()).take_while(is_near).count() + 1;
            let (group, later) = rest.split_at(length);
            buffer.resize((group[length - 1].0 - first + 1) as usize * ENTRY_BYTES, 0);
            self.flags.read_exact_at(&mut buffer, first * ENTRY_BYTES as u64)?;
            for (frame, page) in group {
                let at = (frame - first) as usize * ENTRY_BYTES;
                visit(*page, numbers(&buffer[at..at + ENTRY_BYTES]).next().unwrap_or(0));
            }
            rest = later;
        }
        Ok(())
    }
}

fn numbers(bytes: &[u8]) -> impl Iterator<Item = u64> {
    bytes.as_chunks::<ENTRY_BYTES>().0.iter().map(|entry| u64::from_ne_bytes(*entry))
}

fn as_activity(flags: u64) -> Activity {
    match (flags & ACTIVE != 0, flags & REFERENCED != 0) {
        (false, false) => Activity::Idle,
        (false, true) => Activity::Referenced,
        (true, false) => Activity::Active,
        (true, true) => Activity::ActiveReferenced,
    }
}

/// A window of a file in this process's memory, to be faulted in by the kernel's hand alone.
struct Mapping {
    memory: *mut c_void,
    bytes: usize,
}

impl Mapping {
    fn new(file: BorrowedFd<'_>, page_bytes: u64, window: PageRange) -> io::Result<Mapping> {
        let bytes = (window.pages() * page_bytes) as usize;
        // SAFETY: the kernel chooses the address, so no existing mapping is touched; this process never reads the memory.
        let memory = unsafe {
            mmap(ptr::null_mut(), bytes, ProtFlags::READ, MapFlags::SHARED, file, window.start * page_bytes)
        }?;
        let mapping = Mapping { memory, bytes };
        // SAFETY: the range is the mapping that was just made, and the advice changes nothing that anybody could see.
        unsafe { madvise(memory, bytes, Advice::Sequential) }?;
        Ok(mapping)
    }

    fn address(&self) -> u64 {
        self.memory as u64
    }

    /// Makes the kernel map the window's pages: writes one byte of each stretch that it maps at a fault. Where the file has
    /// been cut off meanwhile the pages stay unmapped.
    fn fault_around(&self, sink: &File) -> io::Result<()> {
        let (start, end) = (self.address(), self.address() + self.bytes as u64);
        let aligned = (start / FAULT_AROUND_BYTES + 1) * FAULT_AROUND_BYTES;
        let addresses: Vec<u64> =
            std::iter::once(start).chain((aligned..end).step_by(FAULT_AROUND_BYTES as usize)).collect();
        for some in addresses.chunks(FAULTS_MAX) {
            let byte = |address: &u64| libc::iovec { iov_base: *address as *mut c_void, iov_len: 1 };
            let bytes: Vec<libc::iovec> = some.iter().map(byte).collect();
            // SAFETY: each piece is one byte within the mapping, which outlives the call. The kernel alone reads it, and
            // answers EFAULT for memory that has no file behind it any more.
            let written = unsafe { libc::pwritev(sink.as_raw_fd(), bytes.as_ptr(), bytes.len() as i32, 0) };
            if written < 0 {
                match io::Error::last_os_error() {
                    error if error.raw_os_error() == Some(libc::EFAULT) => {}
                    error => return Err(error),
                }
            }
        }
        Ok(())
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this is the mapping that `new` made, and nothing refers into it. It cannot fail for a whole mapping.
        let _ = unsafe { munmap(self.memory, self.bytes) };
    }
}
