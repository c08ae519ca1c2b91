//! The kernel's flags for a file's cached pages, which only root can read. Reading them must mark no page as used. One
//! fault per 64 KiB maps the cached pages around it without marking them; MADV_POPULATE_READ would mark each. After
//! MADV_SEQUENTIAL, unmapping marks none.

use std::ffi::c_void;
use std::fs::File;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::os::unix::fs::FileExt as _;
use std::{io, ptr};

use nix::errno::Errno;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};
use rustix::param::page_size;

use super::{Activity, PageCounts};
use crate::units::PageRange;

/// Pages queried at a time; the buffers take less than 1 MB.
const WINDOW_PAGES: u64 = 16_384;

/// `fault_around_bytes` of `mm/memory.c`, 64 KiB.
const FAULT_AROUND_BYTES: u64 = 64 << 10;

/// Limit of vectors in one pwritev(2), IOV_MAX.
const FAULTS_MAX: usize = 1024;

/// Format of /proc/PID/pagemap: `Documentation/admin-guide/mm/pagemap.rst`
const ENTRY_BYTES: usize = 8;
const PRESENT: u64 = 1 << 63;
const FRAME: u64 = (1 << 55) - 1;

/// Flags in /proc/kpageflags: `include/uapi/linux/kernel-page-flags.h`
const REFERENCED: u64 = 1 << 2;
const ACTIVE: u64 = 1 << 6;

/// Maximum frames per read of /proc/kpageflags, and maximum gap between needed frames within a read.
const FRAMES_MAX: u64 = 4096;
const FRAME_GAP_MAX: u64 = 16;

pub fn page_bytes() -> u64 {
    page_size() as u64
}

#[derive(Debug)]
pub struct PageTables {
    pagemap: File,
    flags: File,
    /// Pages are faulted by writing one byte of each to this file. If the mapped file was truncated, the write fails; a
    /// read would kill this process.
    sink: File,
}

impl PageTables {
    /// Fails with EACCES or EPERM without root.
    pub fn open() -> io::Result<PageTables> {
        let flags = File::open("/proc/kpageflags")?;
        let pagemap = File::open("/proc/self/pagemap")?;
        let sink = memfd_create("pgthaw-page-flags", MemfdFlags::CLOEXEC)?.into();
        Ok(PageTables { pagemap, flags, sink })
    }

    /// Visits runs of pages with equal activity, in order. All of `range` must be cached. Pages without visible
    /// state are idle.
    pub fn visit_activity(
        &self,
        file: BorrowedFd<'_>,
        range: PageRange,
        visit: &mut dyn FnMut(PageRange, Activity),
    ) -> io::Result<()> {
        for window in range.parts(WINDOW_PAGES) {
            let activities = self.read_window(file, window)?;
            runs(window.start, &activities).for_each(|(run, activity)| visit(run, activity));
        }
        Ok(())
    }

    fn read_window(&self, file: BorrowedFd<'_>, window: PageRange) -> io::Result<Vec<Activity>> {
        let mapping = Mapping::new(file, window, ProtFlags::READ)?;
        // SAFETY: the range is the mapping that was just made, and the advice does not change its content.
        unsafe { madvise(mapping.memory, mapping.bytes, Advice::Sequential) }?;
        mapping.fault_around(&self.sink)?;
        let mut frames = self.read_frames(&mapping, window.pages())?;
        frames.sort_unstable();
        let mut activities = vec![Activity::Idle; window.pages() as usize];
        self.visit_flags(&frames, |page, flags| activities[page] = as_activity(flags))?;
        Ok(activities)
    }

    fn read_frames(&self, mapping: &Mapping, pages: u64) -> io::Result<Vec<(u64, usize)>> {
        let mut entries = vec![0; pages as usize * ENTRY_BYTES];
        let first = mapping.address() / page_bytes();
        self.pagemap.read_exact_at(&mut entries, first * ENTRY_BYTES as u64)?;
        let entries = numbers(&entries).enumerate().filter(|(_, entry)| entry & PRESENT != 0);
        let frames: Vec<(u64, usize)> = entries.map(|(page, entry)| (entry & FRAME, page)).collect();
        match frames.first() {
            // Without CAP_SYS_ADMIN, every frame reads as 0.
            Some((0, _)) => Err(io::ErrorKind::PermissionDenied.into()),
            _ => Ok(frames),
        }
    }

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

/// Bytes per call of mincore(2), whose result then takes 64 KiB.
const WINDOW_BYTES: u64 = 256 << 20;

/// Visits runs in order. Adjacent runs are possible.
pub fn visit_resident(file: BorrowedFd<'_>, range: PageRange, mut visit: impl FnMut(PageRange)) -> io::Result<()> {
    let window_pages = WINDOW_BYTES / page_bytes();
    let mut residency = vec![0_u8; window_pages.min(range.pages()) as usize];
    for window in range.parts(window_pages) {
        let answer = &mut residency[..window.pages() as usize];
        Mapping::new(file, window, ProtFlags::empty())?.read_residency(answer)?;
        runs(window.start, answer).filter(|(_, byte)| byte & 1 == 1).for_each(|(run, _)| visit(run));
    }
    Ok(())
}

/// Runs of pages with equal values, in order.
fn runs<T: Copy + PartialEq>(first: u64, values: &[T]) -> impl Iterator<Item = (PageRange, T)> {
    let mut end = first;
    values.chunk_by(T::eq).map(move |run| {
        let start = end;
        end += run.len() as u64;
        (PageRange::new(start, end), run[0])
    })
}

/// The mapped memory is never read: a truncated file would raise SIGBUS.
struct Mapping {
    memory: *mut c_void,
    bytes: usize,
}

impl Mapping {
    fn new(file: BorrowedFd<'_>, window: PageRange, access: ProtFlags) -> io::Result<Mapping> {
        let (offset, bytes) = (window.start * page_bytes(), (window.pages() * page_bytes()) as usize);
        // SAFETY: the kernel chooses the address, so no existing mapping is touched, and nobody reads the pages.
        let memory = unsafe { mmap(ptr::null_mut(), bytes, access, MapFlags::SHARED, file, offset) }?;
        Ok(Mapping { memory, bytes })
    }

    fn address(&self) -> u64 {
        self.memory as u64
    }

    /// Faults one page per FAULT_AROUND_BYTES. Pages beyond a truncated end stay unmapped.
    fn fault_around(&self, sink: &File) -> io::Result<()> {
        let (start, end) = (self.address(), self.address() + self.bytes as u64);
        let aligned = (start / FAULT_AROUND_BYTES + 1) * FAULT_AROUND_BYTES;
        let addresses: Vec<u64> =
            std::iter::once(start).chain((aligned..end).step_by(FAULT_AROUND_BYTES as usize)).collect();
        for some in addresses.chunks(FAULTS_MAX) {
            let byte = |address: &u64| libc::iovec { iov_base: *address as *mut c_void, iov_len: 1 };
            let bytes: Vec<libc::iovec> = some.iter().map(byte).collect();
            // SAFETY: each piece is one byte within the mapping, which outlives the call. The kernel alone reads it,
            // and returns EFAULT for memory beyond the end of a truncated file.
            let written = unsafe { libc::pwritev(sink.as_raw_fd(), bytes.as_ptr(), bytes.len() as i32, 0) };
            match Errno::result(written) {
                Ok(_) | Err(Errno::EFAULT) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn read_residency(&self, answer: &mut [u8]) -> io::Result<()> {
        assert!(answer.len() >= self.bytes.div_ceil(page_size()), "the buffer is too small for the mapping's pages");
        loop {
            // SAFETY: the range is mapped while `self` lives, and `answer` has a byte for each of its pages.
            match Errno::result(unsafe { libc::mincore(self.memory, self.bytes, answer.as_mut_ptr()) }) {
                Err(Errno::EAGAIN) => {}
                answered => return Ok(answered.map(drop)?),
            }
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this is the mapping that `new` made, and nothing refers into it. munmap(2) of a whole mapping cannot
        // fail.
        let _ = unsafe { munmap(self.memory, self.bytes) };
    }
}

/// Number of the system call cachestat on all architectures. rustix and libc lack it for x86-64.
const SYS_CACHESTAT: libc::c_long = 451;

/// From `include/uapi/linux/mman.h`, in bytes. Length 0 means to the end.
#[repr(C)]
struct CachestatRange {
    offset: u64,
    length: u64,
}

/// Fails with ENOSYS before Linux 6.5, and since about 6.14 with EPERM for a file that mincore(2) hides too.
/// `length` must not be 0.
pub fn count_cached(file: BorrowedFd<'_>, offset: u64, length: u64) -> io::Result<PageCounts> {
    let range = CachestatRange { offset, length };
    let mut found = PageCounts::default();
    // SAFETY: both structs have the kernel's layout and outlive the call, which keeps no pointer to them.
    let status = unsafe { libc::syscall(SYS_CACHESTAT, file.as_raw_fd(), &raw const range, &raw mut found, 0) };
    Errno::result(status)?;
    Ok(found)
}
