//! What will be read in a moment, one file after another. Beside a cold server's own misses each of these reads waits its turn at the
//! device; those that the kernel is told of beforehand wait together.

use std::fs::File;
use std::num::NonZeroU64;
use std::thread;

use rustix::fs::{Advice, fadvise};

/// A file of no more bytes is brought in as a whole, of a larger one both ends: a footer says what is where.
const WHOLE_BYTES_MAX: u64 = 256 << 10;
const END_BYTES: u64 = 64 << 10;

/// Has the kernel bring in files, and returns at once: opening them may wait for the device too. What cannot be brought in, or where no
/// thread can be started, is read when it is needed.
pub fn announce<Files: IntoIterator<Item = File>>(files: impl FnOnce() -> Files + Send + 'static) {
    let _ = thread::Builder::new().spawn(|| files().into_iter().for_each(|file| _ = bring_in(&file)));
}

fn bring_in(file: &File) -> std::io::Result<()> {
    let length = file.metadata()?.len();
    if length <= WHOLE_BYTES_MAX {
        return Ok(fadvise(file, 0, None, Advice::WillNeed)?);
    }
    fadvise(file, 0, NonZeroU64::new(END_BYTES), Advice::WillNeed)?;
    Ok(fadvise(file, length - END_BYTES, None, Advice::WillNeed)?)
}

#[cfg(test)]
mod tests {
    use std::io::IoSliceMut;
    use std::time::{Duration, Instant};

    use rustix::io::{Errno, ReadWriteFlags, preadv2};

    use super::*;

    /// Would whoever reads this byte wait for the device?
    fn is_missing(file: &File, at: u64) -> bool {
        preadv2(file, &mut [IoSliceMut::new(&mut [0])], at, ReadWriteFlags::NOWAIT) == Err(Errno::AGAIN)
    }

    /// A file that is written out and not in memory, on a real disk: tmpfs has nothing to evict to.
    fn cold_file(directory: &tempfile::TempDir, name: &str, bytes: usize) -> File {
        let path = directory.path().join(name);
        std::fs::write(&path, vec![7; bytes]).unwrap();
        let file = File::open(&path).unwrap();
        file.sync_all().unwrap();
        fadvise(&file, 0, None, Advice::Random).unwrap();
        fadvise(&file, 0, None, Advice::DontNeed).unwrap();
        file
    }

    #[test]
    fn a_small_file_comes_whole_and_of_a_large_one_both_ends() {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let (small, large) = (cold_file(&directory, "small", 100_000), cold_file(&directory, "large", 1 << 20));
        let expected = [(&small, 0), (&small, 99_999), (&large, 0), (&large, (1 << 20) - 1)];
        // A file system without a page cache of its own keeps everything, or nothing.
        if !is_missing(&small, 0) {
            return;
        }
        let [told, told_large] = [&small, &large].map(|file| file.try_clone().unwrap());
        announce(move || [told, told_large]);
        let started = Instant::now();
        while expected.iter().any(|(file, at)| is_missing(file, *at)) {
            assert!(started.elapsed() < Duration::from_secs(20), "it does not come");
            thread::sleep(Duration::from_millis(5));
        }
        assert!(is_missing(&large, 512 << 10), "the midst of it nobody asked for");
    }
}
