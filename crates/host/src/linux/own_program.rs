//! Reads this program's file ahead. After a reboot, page faults would load it by over a hundred serial reads, queued
//! behind the server's reads.

use std::env::var_os;
use std::fs::{File, OpenOptions};
use std::io::IoSliceMut;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{io, thread};

use nix::unistd::User;
use procfs::process::Process;
use rustix::fs::{Access, AtFlags, CWD, accessat};
use rustix::io::{ReadWriteFlags, preadv2};
use rustix::process::geteuid;

use super::foreign_memory::read_mappings;
use crate::files::open_regular;

/// The running program, even if its file was replaced.
const OWN_PROGRAM: &str = "/proc/self/exe";

/// Parallel reads: enough to get a share of a busy device.
const READERS: u64 = 4;

const READ_BYTES: usize = 1 << 20;

/// Tested pages: mincore(2) would test all, but only for the file's owner.
const PLACES: u64 = 64;

/// The program counts as cold if this many of the tested pages are not cached.
const MISSING_MIN: usize = 8;

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
        // If no thread can start, page faults load this part.
        let _ = thread::Builder::new().spawn(move || read_part(&program, start, end));
    }
}

pub fn find_beside(name: &str) -> Option<PathBuf> {
    let own = std::env::current_exe().ok();
    let beside = own.as_deref().and_then(Path::parent).map(|directory| directory.join(name));
    beside.filter(|program| program.is_file()).or_else(|| find_in_path(name, &[]))
}

pub fn find_in_path(name: &str, others: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = std::env::split_paths(&path).chain(others.iter().map(PathBuf::from));
    places.map(|directory| directory.join(name)).find(|program| program.is_file())
}

/// Mapped range of the program's file.
fn find_used() -> Option<Range<u64>> {
    let own = read_mappings("self", &std::env::current_exe().ok()?).ok()?;
    let ranges = own.into_iter().map(|(addresses, offset)| offset..offset + (addresses.end - addresses.start));
    ranges.reduce(|all, next| all.start.min(next.start)..all.end.max(next.end))
}

fn is_missing(file: &File, at: u64) -> bool {
    let mut byte = [0];
    let read = preadv2(file, &mut [IoSliceMut::new(&mut byte)], at, ReadWriteFlags::NOWAIT);
    read == Err(rustix::io::Errno::AGAIN)
}

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

/// Overwrites words in /proc/PID/cmdline with the result of `hide`, padded with spaces.
pub fn hide_arguments(hide: impl Fn(&str) -> Option<String>) {
    let _ = write_over(hide);
}

fn write_over(hide: impl Fn(&str) -> Option<String>) -> io::Result<()> {
    let process = Process::myself().map_err(io::Error::other)?;
    let Some(mut at) = process.stat().map_err(io::Error::other)?.arg_start else { return Ok(()) };
    let words = std::fs::read("/proc/self/cmdline")?;
    let memory = OpenOptions::new().write(true).open("/proc/self/mem")?;
    for word in words.split(|byte| *byte == 0) {
        if let Some(shown) = hide(&String::from_utf8_lossy(word)) {
            let mut bytes: Vec<u8> = shown.into_bytes();
            bytes.resize(word.len(), b' ');
            memory.write_all_at(&bytes, at)?;
        }
        at += word.len() as u64 + 1;
    }
    Ok(())
}

/// `$XDG_STATE_HOME`, by default `~/.local/state`.
pub fn state_home() -> Option<PathBuf> {
    absolute("XDG_STATE_HOME").or_else(|| home().as_deref().map(state_in))
}

pub fn state_in(home: &Path) -> PathBuf {
    home.join(".local/state")
}

/// `$HOME`. If this user may not write there, the password database's home (`runuser -u postgres` keeps root's
/// `$HOME`).
pub fn home() -> Option<PathBuf> {
    let named = absolute("HOME");
    if named.as_deref().is_some_and(|named| !is_foreign(named)) {
        return named;
    }
    let known = home_of(geteuid().as_raw()).filter(|home| home.is_dir() && !is_foreign(home));
    known.or(named)
}

fn absolute(name: &str) -> Option<PathBuf> {
    var_os(name).map(PathBuf::from).filter(|path| path.is_absolute())
}

pub fn may_write(directory: &Path) -> bool {
    accessat(CWD, directory, Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS).is_ok()
}

fn is_foreign(home: &Path) -> bool {
    let access = accessat(CWD, home, Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS);
    access.is_err_and(|error| error == rustix::io::Errno::ACCESS)
}

pub fn home_of(uid: u32) -> Option<PathBuf> {
    User::from_uid(nix::unistd::Uid::from_raw(uid)).ok().flatten().map(|user| user.dir)
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
