//! Files in directories where other users may write. A name is looked up once; later calls use the descriptor. Below an
//! opened directory, links are errors, and so are pipes, sockets and devices where a file is expected.

use std::str::FromStr;
use std::sync::OnceLock;

use rustix::fs::Mode;
use rustix::process::umask;

mod directory;
mod draft;
mod owner;
mod tree;

pub use directory::{
    Directory, Entry, OPEN_DIRECTORIES, directory_of, open_regular, open_regular_or_pipe, open_regular_with,
    read_at_most, read_open_at_most, read_open_text_at_most, read_text_at_most,
};
pub use draft::{Draft, draft_beside, remove_abandoned_drafts, write_whole};
pub use owner::{MADE_UP_CHARACTERS, OwnDirectory, as_owner_of, has_foreign_owner};
pub use rustix::fs::FileType;
pub use tree::Tree;

pub const SMALL_FILE_BYTES_MAX: u64 = 1 << 20;

pub const FILE_MODE: u32 = 0o666;
pub const DIRECTORY_MODE: u32 = 0o777;

/// Umask at this process's start.
static GIVEN: OnceLock<Mode> = OnceLock::new();

/// Runs `start` with the initial umask. Other threads must not create files meanwhile.
pub fn with_given_umask<T>(start: impl FnOnce() -> T) -> T {
    let Some(given) = GIVEN.get() else { return start() };
    let own = umask(*given);
    let started = start();
    umask(own);
    started
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileMode(u32);

impl FileMode {
    pub const PRIVATE: FileMode = FileMode(0o600);

    pub const PUBLIC: FileMode = FileMode(0o644);

    pub fn apply(self) {
        let before = umask(Mode::from_raw_mode(DIRECTORY_MODE & !self.of_directories()));
        // Only the first call stores the umask: later ones would store pgthaw's own.
        let _ = GIVEN.set(before);
    }

    /// Mode of directories: readers of a file may search its directory, writers may create files in it.
    fn of_directories(self) -> u32 {
        self.0 | (self.0 & 0o444) >> 2
    }
}

impl FromStr for FileMode {
    type Err = String;

    fn from_str(text: &str) -> Result<FileMode, String> {
        let digits = (3..=4).contains(&text.len()) && text.bytes().all(|byte| (b'0'..=b'7').contains(&byte));
        let mode = u32::from_str_radix(text, 8).ok().filter(|_| digits);
        match mode.ok_or("must be an octal mode as in chmod, such as 640")? {
            mode if mode & 0o600 != 0o600 => Err("the owner needs read and write: 600, 640, 644, 660 or 664".into()),
            mode if mode & !0o664 != 0 => Err("must not be executable or world-writable".into()),
            mode => Ok(FileMode(mode)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_written_as_chmod_takes_it() {
        for (text, file, directory) in
            [("600", 0o600, 0o700), ("0640", 0o640, 0o750), ("644", 0o644, 0o755), ("660", 0o660, 0o770)]
        {
            let mode: FileMode = text.parse().unwrap();
            assert_eq!((mode.0, mode.of_directories()), (file, directory), "{text}");
        }
        for wrong in ["", "6", "64", "06400", "+640", "rw", "680", "400", "755", "666", "4640"] {
            assert!(wrong.parse::<FileMode>().is_err(), "{wrong}");
        }
    }
}
