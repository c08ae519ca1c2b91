//! The memory of other processes: where a variable of theirs is, and what it holds.

use std::fs::File;
use std::io::{self, IoSliceMut, Read as _};
use std::path::{Path, PathBuf};

use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid;
use object::{Object as _, ObjectSegment as _, ObjectSymbol as _};
use procfs::process::{MMapPath, Process};

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
        remedy: "PostgreSQL 14 or newer has it, unless its symbols were stripped away: use the distribution's package"
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
    let maps = Process::new(pid as i32).and_then(|process| process.maps());
    let maps = maps.map_err(|error| Error::proc("read /proc/PID/maps", error))?;
    let mut own = maps.into_iter().filter(|map| matches!(&map.pathname, MMapPath::Path(path) if path == program));
    own.next().map(|map| (map.address.0, map.offset)).ok_or_else(|| Error::Call {
        action: "find the program of a process in its memory",
        source: io::ErrorKind::NotFound.into(),
    })
}

/// Reads a pointer of another process, and the 32 bits that it points to. Needs the right to trace the process: its owner's, or root's.
pub fn read_pointed(pid: u32, pointer: u64) -> Result<u32, Error> {
    let (mut address, mut value) = ([0; 8], [0; 4]);
    read(pid, pointer, &mut address)?;
    read(pid, u64::from_ne_bytes(address), &mut value)?;
    Ok(u32::from_ne_bytes(value))
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
        assert_eq!(read_pointed(me, &raw const pointer as u64).unwrap(), 4711);
        assert!(read_pointed(me, 8).is_err());
    }

    #[test]
    fn a_variable_is_found_where_it_is() {
        assert_eq!(find_variable(std::process::id(), "PGTHAW_POINTED").unwrap(), &raw const PGTHAW_POINTED as u64);
        let missing = find_variable(std::process::id(), "my_wait_event_info").unwrap_err().to_string();
        assert!(missing.contains("has no symbol my_wait_event_info"), "{missing}");
    }
}
