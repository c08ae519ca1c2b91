//! A memory limit that some processes live under.

use std::fs;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::servers;

/// A cgroup that allows its processes so much memory; removed when dropped.
#[derive(Debug)]
pub struct MemoryLimit(PathBuf);

impl MemoryLimit {
    /// `None` where none can be made, as without root.
    pub fn create(bytes: u64) -> Option<MemoryLimit> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("pgthaw-test-memory-{}-{number}", std::process::id());
        for (parent, file) in [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")] {
            let directory = Path::new(parent).join(&name);
            if fs::create_dir(&directory).is_ok() {
                if fs::write(directory.join(file), bytes.to_string()).is_ok() {
                    return Some(MemoryLimit(directory));
                }
                let _ = fs::remove_dir(directory);
            }
        }
        untested!("no memory cgroup can be made")
    }

    /// Runs a command inside, to its end.
    pub fn run(&self, mut command: Command) -> servers::Output {
        let procs = fs::File::options().write(true).open(self.0.join("cgroup.procs")).unwrap();
        // SAFETY: between fork and exec one write(2) is made, which is async-signal-safe.
        unsafe { command.pre_exec(move || (&procs).write_all(b"0")) };
        servers::output_of(&mut command).ok()
    }

    /// Moves a process in. What it starts from then on is inside too.
    pub fn add(&self, pid: u32) {
        fs::write(self.0.join("cgroup.procs"), pid.to_string()).unwrap();
    }

    /// Bytes of page cache that are charged to it.
    pub fn cached_bytes(&self) -> u64 {
        let statistics = fs::read_to_string(self.0.join("memory.stat")).unwrap();
        // Version 1 and 2.
        let number = |word: &str| statistics.lines().find_map(|line| line.strip_prefix(word)?.trim().parse().ok());
        number("cache ").or_else(|| number("file ")).unwrap()
    }
}

impl Drop for MemoryLimit {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}
