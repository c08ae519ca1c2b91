use std::io::{self, IoSliceMut};
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid;
use object::{Object as _, ObjectSegment as _, ObjectSymbol as _};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use super::Error;
use crate::files::read_at_most;

/// Address of a variable, the same in all processes that a server forked. Works even if the program's file was
/// replaced.
///
/// # Errors
/// `Error::Unavailable` without such a symbol.
pub fn find_variable(pid: u32, name: &str) -> Result<u64, Error> {
    let path = PathBuf::from(format!("/proc/{pid}/exe"));
    let program = read_at_most(&path, PROGRAM_BYTES_MAX).map_err(|error| Error::file("read", &path, error))?;
    let shown = path.read_link().map_err(|error| Error::file("read", &path, error))?;
    let parsed = object::File::parse(&*program)
        .map_err(|error| Error::file("read", &path, io::Error::new(io::ErrorKind::InvalidData, error)))?;
    let is_it = |symbol: &object::Symbol<'_, '_>| symbol.name() == Ok(name) && symbol.is_definition();
    let symbol = parsed.dynamic_symbols().chain(parsed.symbols()).find(is_it).ok_or_else(|| Error::Unavailable {
        what: "reading wait events from memory",
        reason: format!("{} has no symbol {name}", shown.display()),
        remedy: "use PostgreSQL 13 or later, built with symbols, such as the distribution's package".into(),
    })?;
    let first = parsed.segments().min_by_key(|segment| segment.file_range().0);
    let (address, offset) = first.map_or((0, 0), |segment| (segment.address(), segment.file_range().0));
    let mappings = read_mappings(&pid.to_string(), &shown);
    let mappings = mappings.map_err(|source| Error::Call { action: "read /proc/PID/maps", source })?;
    // At the lowest address.
    let (addresses, start_offset) = mappings.first().ok_or_else(|| Error::Call {
        action: "find the server's program in its /proc/PID/maps",
        source: io::ErrorKind::NotFound.into(),
    })?;
    let moved = addresses.start.wrapping_sub(*start_offset).wrapping_sub(address.wrapping_sub(offset));
    Ok(symbol.address().wrapping_add(moved))
}

/// Limits the memory for reading the program's file, whose size its owner chooses.
const PROGRAM_BYTES_MAX: u64 = 256 << 20;

/// Address range in memory, and offset in the mapped file.
pub(super) type Mapping = (Range<u64>, u64);

/// Mapped parts of a file in a process (`self` or a pid), by address. Skips unreadable lines: the process can put any
/// text into lines about other files.
pub(super) fn read_mappings(process: &str, file: &Path) -> io::Result<Vec<Mapping>> {
    let lines = std::fs::read(format!("/proc/{process}/maps"))?;
    Ok(lines.split(|byte| *byte == b'\n').filter_map(|line| parse_mapping(line, file)).collect())
}

/// Format: `start-end permissions offset device inode path`.
fn parse_mapping(line: &[u8], file: &Path) -> Option<Mapping> {
    let mut words = str::from_utf8(line).ok()?.splitn(6, ' ');
    let (start, end) = words.next()?.split_once('-')?;
    let offset = words.nth(1)?;
    let is_of_it = Path::new(words.nth(2)?.trim_start()) == file;
    let number = |digits| u64::from_str_radix(digits, 16).ok();
    is_of_it.then_some((number(start)?..number(end)?, number(offset)?))
}

/// Reads 32 bits, `offset` bytes beyond the target of the pointer at address `pointer`; `None` if that is null. Only
/// root and the process's owner may.
pub fn read_pointed(pid: u32, pointer: u64, offset: u64) -> Result<Option<u32>, Error> {
    read_pointer(pid, pointer)?.map(|address| read_word(pid, address.wrapping_add(offset))).transpose()
}

/// Reads 32 bits. Needs the right to trace the process.
pub fn read_word(pid: u32, address: u64) -> Result<u32, Error> {
    let mut value = [0; 4];
    read(pid, address, &mut value)?;
    Ok(u32::from_ne_bytes(value))
}

/// As `read_pointed`, for `words` times 32 bits.
pub fn read_pointed_words(pid: u32, pointer: u64, words: usize) -> Result<Option<Vec<u32>>, Error> {
    let Some(address) = read_pointer(pid, pointer)? else { return Ok(None) };
    let mut bytes = vec![0; 4 * words];
    read(pid, address, &mut bytes)?;
    Ok(Some(bytes.as_chunks().0.iter().map(|four| u32::from_ne_bytes(*four)).collect()))
}

/// `None` if null.
pub fn read_pointer(pid: u32, pointer: u64) -> Result<Option<u64>, Error> {
    let mut address = [0; 8];
    read(pid, pointer, &mut address)?;
    Ok(Some(u64::from_ne_bytes(address)).filter(|address| *address != 0))
}

fn read(pid: u32, address: u64, into: &mut [u8]) -> Result<(), Error> {
    let failed = |source| Error::Call { action: "read the memory of a process", source };
    let there = RemoteIoVec { base: address as usize, len: into.len() };
    let wanted = into.len();
    let here = &mut [IoSliceMut::new(into)];
    match process_vm_readv(Pid::from_raw(pid as i32), here, &[there]) {
        Ok(bytes) if bytes == wanted => Ok(()),
        Ok(_) => Err(failed(io::ErrorKind::UnexpectedEof.into())),
        Err(error) => Err(failed(error.into())),
    }
}

const ATTEMPTS: usize = 10_000;

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

    pub fn read(&self, index: usize) -> u64 {
        self.words().get(index).map_or(0, |word| word.load(Ordering::Acquire))
    }

    /// Consistent copy of a record of `count` words. The first is a sequence count, odd during a write. `None` if the
    /// writer never finished.
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
        // SAFETY: the range was mapped with this length, stays mapped as long as self, and words are aligned: it begins
        // at a page.
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
mod foreign_memory_tests {
    use super::*;

    #[unsafe(no_mangle)]
    static PGTHAW_POINTED: u32 = 4711;

    #[test]
    fn a_pointer_of_a_process_is_followed() {
        let pointer = &raw const PGTHAW_POINTED as u64;
        let me = std::process::id();
        assert_eq!(read_pointed(me, &raw const pointer as u64, 0).unwrap(), Some(4711));
        assert!(read_pointed(me, 8, 0).is_err());
        let nothing = 0_u64;
        assert_eq!(read_pointed(me, &raw const nothing as u64, 8).unwrap(), None);
        assert_eq!(read_pointed_words(me, &raw const pointer as u64, 1).unwrap(), Some(vec![4711]));
    }

    #[test]
    fn whatever_a_process_has_mapped_is_read() {
        let file = Path::new("/usr/lib/post gres");
        let parse = |line: &str| parse_mapping(line.as_bytes(), file);
        let line = "55d0e000-55d0f000 r-xp 0000a000 08:01 1234                       /usr/lib/post gres";
        assert_eq!(parse(line), Some((0x55d0_e000..0x55d0_f000, 0xa000)));
        for path in ["/SYSV1", "/SYSV0000000\u{e9}", "[stack:", "[", "", "/usr/lib/post gres (deleted)"] {
            assert_eq!(parse(&format!("55d0e000-55d0f000 r-xp 0000a000 08:01 1234 {path}")), None);
            assert_eq!(parse(path), None);
        }
        assert_eq!(parse("55d0e000 r-xp /usr/lib/post gres"), None);
    }

    #[test]
    fn a_variable_is_found_where_it_is() {
        assert_eq!(find_variable(std::process::id(), "PGTHAW_POINTED").unwrap(), &raw const PGTHAW_POINTED as u64);
        let missing = find_variable(std::process::id(), "my_wait_event_info").unwrap_err().to_string();
        assert!(missing.contains("has no symbol my_wait_event_info"), "{missing}");
    }
}

#[cfg(test)]
mod shared_words_tests {
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
