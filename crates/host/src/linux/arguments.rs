//! This process's own command line, as others see it in the list of processes.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;

use procfs::process::Process;

/// Writes over the words of the command line that `hide` shows differently, filled up with spaces: until then others can read
/// them in /proc/PID/cmdline. What the kernel does not let one write stays as it is.
pub fn hide_arguments(hide: impl Fn(&str) -> Option<String>) {
    // There is nothing to be done about a failure, and nothing depends on it.
    let _ = write_over(hide);
}

fn write_over(hide: impl Fn(&str) -> Option<String>) -> io::Result<()> {
    let process = Process::myself().map_err(io::Error::other)?;
    let Some(mut at) = process.stat().map_err(io::Error::other)?.arg_start else { return Ok(()) };
    let words = std::fs::read("/proc/self/cmdline")?;
    let mut memory: Option<File> = None;
    for word in words.split(|byte| *byte == 0) {
        if let Some(shown) = std::str::from_utf8(word).ok().and_then(&hide) {
            let mut bytes: Vec<u8> = shown.into_bytes();
            bytes.resize(word.len(), b' ');
            let memory = match &mut memory {
                Some(memory) => memory,
                none => none.insert(OpenOptions::new().write(true).open("/proc/self/mem")?),
            };
            memory.write_all_at(&bytes, at)?;
        }
        at += word.len() as u64 + 1;
    }
    Ok(())
}
