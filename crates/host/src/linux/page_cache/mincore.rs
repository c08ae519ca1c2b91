//! mincore(2): which pages of a file are in the page cache, one byte a page, through windows of its mapping.

use std::ffi::c_void;
use std::io;
use std::os::fd::BorrowedFd;
use std::ptr;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::param::page_size;

use crate::units::PageRange;

/// Bytes that are mapped at a time: the answer then needs 64 KiB, however long the file is.
const WINDOW_BYTES: u64 = 256 << 20;

/// Calls `visit` with every maximal run of resident pages of `range`, in order.
pub fn visit_resident(
    file: BorrowedFd<'_>,
    page_bytes: u64,
    range: PageRange,
    mut visit: impl FnMut(PageRange),
) -> io::Result<()> {
    let window_pages = WINDOW_BYTES / page_bytes;
    let mut residency = vec![0_u8; window_pages.min(range.pages()) as usize];
    let mut run: Option<PageRange> = None;
    let mut start = range.start;
    while start < range.end {
        let end = range.end.min(start + window_pages);
        let answer = &mut residency[..(end - start) as usize];
        Window::map(file, start * page_bytes, answer.len() * page_bytes as usize)?.read_residency(answer)?;
        for (page, byte) in (start..end).zip(answer.iter()) {
            match (&mut run, byte & 1 == 1) {
                (Some(open), true) => open.end = page + 1,
                (None, true) => run = Some(PageRange::new(page, page + 1)),
                (_, false) => run.take().into_iter().for_each(&mut visit),
            }
        }
        start = end;
    }
    run.into_iter().for_each(visit);
    Ok(())
}

/// A mapped piece of a file. Mapped without any access, so that a truncated file cannot raise SIGBUS.
struct Window {
    address: *mut c_void,
    bytes: usize,
}

impl Window {
    fn map(file: BorrowedFd<'_>, offset: u64, bytes: usize) -> io::Result<Window> {
        // SAFETY: the kernel chooses the address, so no existing mapping is touched, and nobody reads the pages.
        let address = unsafe { mmap(ptr::null_mut(), bytes, ProtFlags::empty(), MapFlags::SHARED, file, offset) }?;
        Ok(Window { address, bytes })
    }

    /// Fills `answer`, a byte for each page of the window: bit 0 is set when the page is resident.
    fn read_residency(&self, answer: &mut [u8]) -> io::Result<()> {
        // The kernel counts by its own pages, whatever the caller takes for one.
        assert!(answer.len() >= self.bytes.div_ceil(page_size()), "the answer has no room for the window");
        loop {
            // SAFETY: the range is mapped while `self` lives, and `answer` has a byte for each of the kernel's pages of it.
            if unsafe { libc::mincore(self.address, self.bytes, answer.as_mut_ptr()) } == 0 {
                return Ok(());
            }
            let error = io::Error::last_os_error();
            if error.raw_os_error() != Some(libc::EAGAIN) {
                return Err(error);
            }
        }
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        // SAFETY: this is the mapping that `map` made, and nothing refers into it. It cannot fail for a whole mapping.
        let _ = unsafe { munmap(self.address, self.bytes) };
    }
}
