//! The memory of other processes: where a variable of theirs is, and what it holds.

use std::fs::File;
use std::io::{self, IoSliceMut, Read as _};
use std::path::{Path, PathBuf};

use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid;
use object::{Object as _, ObjectSegment as _, ObjectSymbol as _};
use procfs::ProcResult;
use procfs::process::{MMapPath, MemoryMap, Process};

use super::Error;

/// Where a variable of a program is in a process that runs it. Processes that were forked from it have it at the same place.
///
/// The program is read from /proc/PID/exe: what runs, even where its file was replaced meanwhile.
///
/// # Errors
/// [`Error::Unavailable`] when the program does not tell where it has such a variable.
pub fn find_variable(pid: u32, name: &str) -> Result<u64, Error> {
    let path = PathBuf::from(format!("/proc/{pid}/exe"));
    let program = read_program(&path).map_err(|error| Error::file("read", &path, error))?;
    let shown = path.read_link().map_err(|error| Error::file("read", &path, error))?;
    let parsed = object::File::parse(&*program)
        .map_err(|error| Error::file("read", &path, io::Error::new(io::ErrorKind::InvalidData, error)))?;
    // Where it stands in the program, as if that began at 0 or at its own fixed place.
    let is_it = |symbol: &object::Symbol<'_, '_>| symbol.name() == Ok(name) && symbol.is_definition();
    let symbol = parsed.dynamic_symbols().chain(parsed.symbols()).find(is_it).ok_or_else(|| Error::Unavailable {
        what: "to see what PostgreSQL's processes wait for",
        reason: format!("{} has no symbol {name}", shown.display()),
        remedy: "PostgreSQL 13 or newer has it, unless its symbols were stripped away: use the distribution's package"
            .into(),
    })?;
    let first = parsed.segments().min_by_key(|segment| segment.file_range().0);
    let (address, offset) = first.map_or((0, 0), |segment| (segment.address(), segment.file_range().0));
    let (start, start_offset) = find_mapping(pid, &shown)?;
    let moved = start.wrapping_sub(start_offset).wrapping_sub(address.wrapping_sub(offset));
    Ok(symbol.address().wrapping_add(moved))
}

/// No more than a server's program can be: whoever owns it may have made it of any size.
fn read_program(path: &Path) -> io::Result<Vec<u8>> {
    const BYTES_MAX: u64 = 256 << 20;
    let mut program = Vec::new();
    let read = File::open(path)?.take(BYTES_MAX).read_to_end(&mut program)?;
    if read as u64 == BYTES_MAX { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(program) }
}

/// Where the process has its program in memory: the lowest address, and the offset in the file that it stands for.
fn find_mapping(pid: u32, program: &Path) -> Result<(u64, u64), Error> {
    let own = Process::new(pid as i32).and_then(|process| read_mappings(&process, program));
    let own = own.map_err(|error| Error::proc("read /proc/PID/maps", error))?;
    own.first().map(|map| (map.address.0, map.offset)).ok_or_else(|| Error::Call {
        action: "find the program of a process in its memory",
        source: io::ErrorKind::NotFound.into(),
    })
}

/// The parts of a file that the process has in its memory, by ascending address.
pub(super) fn read_mappings(process: &Process, file: &Path) -> ProcResult<Vec<MemoryMap>> {
    let is_of_it = |map: &MemoryMap| matches!(&map.pathname, MMapPath::Path(path) if path == file);
    Ok(process.maps()?.into_iter().filter(is_of_it).collect())
}

/// Reads a pointer of another process, and the 32 bits so many bytes behind what it points to; `None` where it points to nothing.
/// Needs the right to trace the process: its owner's, or root's.
pub fn read_pointed(pid: u32, pointer: u64, offset: u64) -> Result<Option<u32>, Error> {
    let Some(address) = read_pointer(pid, pointer)? else { return Ok(None) };
    let mut value = [0; 4];
    read(pid, address.wrapping_add(offset), &mut value)?;
    Ok(Some(u32::from_ne_bytes(value)))
}

/// The same of so many times 32 bits that it points to.
pub fn read_pointed_words(pid: u32, pointer: u64, words: usize) -> Result<Option<Vec<u32>>, Error> {
    let Some(address) = read_pointer(pid, pointer)? else { return Ok(None) };
    let mut bytes = vec![0; 4 * words];
    read(pid, address, &mut bytes)?;
    let word = |four: &[u8]| u32::from_ne_bytes([four[0], four[1], four[2], four[3]]);
    Ok(Some(bytes.chunks_exact(4).map(word).collect()))
}

/// Reads a pointer of another process; `None` where it points to nothing.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// What is looked for in this very process.
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
    fn a_variable_is_found_where_it_is() {
        assert_eq!(find_variable(std::process::id(), "PGTHAW_POINTED").unwrap(), &raw const PGTHAW_POINTED as u64);
        let missing = find_variable(std::process::id(), "my_wait_event_info").unwrap_err().to_string();
        assert!(missing.contains("has no symbol my_wait_event_info"), "{missing}");
    }
}
