//! This program's own code. After a restart of the machine it is as cold as the server: by page faults it would come in a hundred and
//! more reads, one after another, each behind the server's own misses (docs/journal/2026-11-25-heat-without-a-witness.md).

use std::fs::File;
use std::io::IoSliceMut;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use procfs::process::Process;
use rustix::io::{ReadWriteFlags, preadv2};

use super::foreign_memory::read_mappings;
use crate::files::open_regular;

/// Always the program that runs, whatever stands under its name by now.
const OWN_PROGRAM: &str = "/proc/self/exe";

/// Reads at a time: so many get a part of the device beside others' misses.
const READERS: u64 = 4;

/// Bytes of a read.
const READ_BYTES: usize = 1 << 20;

/// Places at which it is looked whether the program is in memory. The kernel tells nobody but its owner which pages are.
const PLACES: u64 = 64;

/// From so many missing places on the program is cold.
const MISSING_MIN: usize = 8;

/// Has this program read in large pieces, if much of it is not in memory. Returns at once; what cannot be read comes by page faults.
pub fn read_own_program() {
    let Ok(program) = open_regular(Path::new(OWN_PROGRAM)) else { return };
    let Some(used) = find_used() else { return };
    let length = used.end - used.start;
    let is_missing = |at: &u64| is_missing(&program, *at);
    if (0..PLACES).map(|number| used.start + length / PLACES * number).filter(is_missing).count() < MISSING_MIN {
        return;
    }
    let (program, part) = (Arc::new(program), length.div_ceil(READERS));
    for start in (0..READERS).map(|number| used.start + number * part) {
        let (program, end) = (Arc::clone(&program), used.end.min(start + part));
        // Where no thread can be started it comes by page faults.
        let _ = thread::Builder::new().spawn(move || read_part(&program, start, end));
    }
}

/// A program of this name beside this one, else one on PATH.
pub fn find_beside(name: &str) -> Option<PathBuf> {
    let own = std::env::current_exe().ok();
    let beside = own.as_deref().and_then(Path::parent).map(|directory| directory.join(name));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let others = std::env::split_paths(&path).map(|directory| directory.join(name));
    beside.into_iter().chain(others).find(|program| program.is_file())
}

/// The part of the program's file that is mapped. Names of functions stand behind it, a fifth of the file, and nobody asks for them.
fn find_used() -> Option<Range<u64>> {
    let myself = Process::myself().ok()?;
    let own = read_mappings(&myself, &myself.exe().ok()?).ok()?;
    let ranges = own.into_iter().map(|map| map.offset..map.offset + (map.address.1 - map.address.0));
    ranges.reduce(|all, next| all.start.min(next.start)..all.end.max(next.end))
}

/// Would whoever reads this byte wait for the device?
fn is_missing(file: &File, at: u64) -> bool {
    let mut byte = [0];
    let read = preadv2(file, &mut [IoSliceMut::new(&mut byte)], at, ReadWriteFlags::NOWAIT);
    read == Err(rustix::io::Errno::AGAIN)
}

/// Reads what lies from `start` to `end`, for the page cache alone.
fn read_part(program: &File, start: u64, end: u64) {
    let mut buffer = vec![0; READ_BYTES];
    let mut at = start;
    while at < end {
        match program.read_at(&mut buffer, at) {
            Ok(0) | Err(_) => return,
            Ok(bytes) => at += bytes as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_mapped_is_most_of_the_program_and_not_all() {
        let used = find_used().unwrap();
        let size = std::fs::metadata(OWN_PROGRAM).unwrap().len();
        assert!(used.start == 0 && used.end > size / 10 && used.end < size, "{used:?} of {size}");
    }

    #[test]
    fn what_was_just_written_is_not_missing() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("program");
        std::fs::write(&path, vec![1; 1 << 16]).unwrap();
        let file = File::open(&path).unwrap();
        assert!(!is_missing(&file, 0) && !is_missing(&file, 65_000));
        assert!(!is_missing(&file, 1 << 20), "nobody waits for what is not there");
    }
}
