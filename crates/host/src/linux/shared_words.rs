//! Memory that somebody else writes while this process looks at it, such as a map of a BPF program's.

use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use super::Error;

/// How often a record that is being written is looked at again.
const ATTEMPTS: usize = 10_000;

/// Words of 64 bits, mapped to be read. Unmapped when dropped.
#[derive(Debug)]
pub struct SharedWords {
    first: NonNull<AtomicU64>,
    count: usize,
}

// SAFETY: the mapping belongs to the process and not to a thread, and is only read, atomically.
unsafe impl Send for SharedWords {}
// SAFETY: as above.
unsafe impl Sync for SharedWords {}

impl SharedWords {
    /// Maps the first `count` words of what the descriptor stands for.
    pub fn map(memory: BorrowedFd<'_>, count: usize) -> Result<SharedWords, Error> {
        let flags = MapFlags::SHARED;
        // SAFETY: the kernel chooses a free range, and nothing else refers to it.
        let address =
            unsafe { mmap(std::ptr::null_mut(), count * size_of::<u64>(), ProtFlags::READ, flags, memory, 0) };
        let address = address.map_err(|error| Error::Call { action: "map a BPF map", source: error.into() })?;
        let first = NonNull::new(address.cast()).ok_or_else(|| Error::Call {
            action: "map a BPF map",
            source: std::io::ErrorKind::AddrNotAvailable.into(),
        })?;
        Ok(SharedWords { first, count })
    }

    /// One word as it is now. 0 of a word that is not there.
    pub fn read(&self, index: usize) -> u64 {
        self.words().get(index).map_or(0, |word| word.load(Ordering::Acquire))
    }

    /// A record of `count` words as it was at one moment. Its first word is a sequence count: odd while the record is written, and
    /// another afterwards. `None` where the writer was never done.
    pub fn read_record(&self, first: usize, count: usize) -> Option<Vec<u64>> {
        let record = self.words().get(first..first + count)?;
        (0..ATTEMPTS).find_map(|_| {
            let before = record.first()?.load(Ordering::Acquire);
            if before % 2 == 1 {
                std::hint::spin_loop();
                return None;
            }
            let copy: Vec<u64> = record.iter().map(|word| word.load(Ordering::Relaxed)).collect();
            fence(Ordering::Acquire);
            (record.first()?.load(Ordering::Relaxed) == before).then_some(copy)
        })
    }

    fn words(&self) -> &[AtomicU64] {
        // SAFETY: the range was mapped with this length, stays mapped as long as self, and words are aligned: it begins at a page.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.count) }
    }
}

impl Drop for SharedWords {
    fn drop(&mut self) {
        // SAFETY: this very range was mapped, and nothing refers to it any more.
        let _ = unsafe { munmap(self.first.as_ptr().cast(), self.count * size_of::<u64>()) };
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::fd::AsFd as _;

    use super::*;

    #[test]
    fn a_record_is_read_when_nobody_writes_it() {
        let mut file = tempfile::tempfile().unwrap();
        let words = [2_u64, 7, 9, 3, 8, 8];
        words.iter().for_each(|word| file.write_all(&word.to_ne_bytes()).unwrap());
        let shared = SharedWords::map(file.as_fd(), 6).unwrap();
        assert_eq!(shared.read_record(0, 3), Some(vec![2, 7, 9]));
        assert_eq!(shared.read_record(3, 3), None, "its count is odd");
        assert_eq!(shared.read_record(4, 3), None, "it is not all there");
        assert_eq!((shared.read(5), shared.read(6)), (8, 0));
    }
}
