//! cachestat(2): counts the pages of a file that are in the page cache, without looking at each.

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};

use super::PageCounts;

/// The system call's number: the same on every architecture that got it after the numbers were unified (Linux 5.1).
/// Neither rustix nor libc has it for x86-64.
const SYS_CACHESTAT: libc::c_long = 451;

/// `struct cachestat_range` of `include/uapi/linux/mman.h`, in bytes. A length of 0 means to the end of the file.
#[repr(C)]
struct CachestatRange {
    offset: u64,
    length: u64,
}

/// `struct cachestat` of `include/uapi/linux/mman.h`, in pages.
#[repr(C)]
#[derive(Default)]
struct Cachestat {
    cached: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// Counts the pages that overlap `length` bytes from `offset`; `length` is not 0. The kernel says ENOSYS before Linux
/// 6.5, and EPERM since 6.14 (and in some older ones) of a file that mincore(2) would not tell about either.
pub fn count(file: BorrowedFd<'_>, offset: u64, length: u64) -> io::Result<PageCounts> {
    let range = CachestatRange { offset, length };
    let mut found = Cachestat::default();
    // SAFETY: both structs have the kernel's layout and outlive the call, which keeps no pointer to them.
    let status = unsafe { libc::syscall(SYS_CACHESTAT, file.as_raw_fd(), &raw const range, &raw mut found, 0) };
    if status != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(PageCounts {
        cached: found.cached,
        dirty: found.dirty,
        writeback: found.writeback,
        evicted: found.evicted,
        recently_evicted: found.recently_evicted,
    })
}
