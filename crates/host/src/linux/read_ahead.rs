//! Changes a disk's read-ahead temporarily, until the next boot at most. /run/pgthaw keeps the original value.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io::{ErrorKind as IoErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::major;

use super::Error;
use super::block_device::{BlockDevice, read_block_device};
use super::machine::read_mount;
use crate::files::{Directory, SMALL_FILE_BYTES_MAX, read_open_at_most};
use crate::units::Bytes;

/// Only root may enter, so no other user can hold its locks.
const STATE_DIRECTORY: &str = "/run/pgthaw";

/// Restores the original value when dropped. If several runs set the same value, the last one restores the original.
/// Files that are already open keep their value.
#[derive(Debug)]
pub struct ReadAhead {
    files: Files,
    /// Its shared lock shows that a run is alive; `None` after `end`.
    holder: Option<File>,
}

impl ReadAhead {
    pub fn available(path: &Path) -> Result<(), Error> {
        let files = Files::find(path)?;
        let _turn = files.take_turn()?;
        files.apply(files.read()?)
    }

    /// Sets a multiple of 1 KiB. Fails if the kernel applies another value, or if another living run keeps a
    /// different one.
    pub fn set(path: &Path, asked: Bytes) -> Result<ReadAhead, Error> {
        Files::find(path)?.set(asked)
    }

    /// Undoes a killed run's change. Returns the restored value, if any.
    pub fn repair(path: &Path) -> Result<Option<Bytes>, Error> {
        let files = Files::find(path)?;
        // A missing directory means no change since boot.
        if !files.state_directory.exists() {
            return Ok(None);
        }
        let _turn = files.take_turn()?;
        files.put_back_unless_held()
    }

    /// Unlike dropping, reports errors.
    pub fn put_back(mut self) -> Result<(), Error> {
        self.end()
    }

    fn end(&mut self) -> Result<(), Error> {
        let Some(holder) = self.holder.take() else { return Ok(()) };
        let _turn = self.files.take_turn()?;
        drop(holder);
        self.files.put_back_unless_held().map(drop)
    }
}

impl Drop for ReadAhead {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

#[derive(Clone, Debug)]
struct Files {
    setting: PathBuf,
    /// File in /sys with the setting that a mounted file system uses.
    mounted: PathBuf,
    state_directory: PathBuf,
    state: PathBuf,
}

impl Files {
    fn find(path: &Path) -> Result<Files, Error> {
        let metadata = fs::metadata(path).map_err(|error| Error::file("look at", path, error))?;
        if major(metadata.dev()) == 0 {
            let file_system = read_mount(path)?.fs_type;
            return Err(Error::Unavailable {
                what: "setting the read-ahead",
                reason: format!("{file_system} ignores its disk's read-ahead setting"),
                remedy: "use --read-ahead native, or move the data directory to ext4 or xfs".into(),
            });
        }
        Ok(Files::of(&read_block_device(path)?, Path::new("/sys"), Path::new(STATE_DIRECTORY)))
    }

    fn of(device: &BlockDevice, system: &Path, state_directory: &Path) -> Files {
        Files {
            setting: system.join("block").join(&device.name).join("queue/read_ahead_kb"),
            mounted: system.join("class/bdi").join(device.number.to_string()).join("read_ahead_kb"),
            state_directory: state_directory.to_owned(),
            state: state_directory.join(format!("read-ahead-{}", device.number)),
        }
    }

    fn take_turn(&self) -> Result<File, Error> {
        let directory = &self.state_directory;
        let made = DirBuilder::new().recursive(true).mode(0o700).create(directory);
        made.map_err(|error| Error::setting("create", directory, error))?;
        let turn = File::open(directory).map_err(|error| Error::setting("open", directory, error))?;
        turn.lock().map_err(|error| Error::setting("lock", directory, error))?;
        Ok(turn)
    }

    fn set(self, asked: Bytes) -> Result<ReadAhead, Error> {
        let _turn = self.take_turn()?;
        let state = self.open_state(true);
        let mut holder = state.map_err(|error| Error::setting("open", &self.state, error))?;
        if self.lock(&holder)? {
            if let Err(error) = self.remember_and_apply(&mut holder, asked) {
                drop(holder);
                let _ = self.put_back_unless_held();
                return Err(error);
            }
            holder.unlock().map_err(|error| Error::setting("unlock", &self.state, error))?;
        } else if self.read()? != asked {
            return Err(Error::Unavailable {
                what: "setting the read-ahead",
                reason: format!("another pgthaw process keeps the read-ahead at {}", self.read()?),
                remedy: "wait until that process ends, or use the same read-ahead".into(),
            });
        }
        holder.lock_shared().map_err(|error| Error::setting("lock", &self.state, error))?;
        Ok(ReadAhead { files: self, holder: Some(holder) })
    }

    fn open_state(&self, is_made: bool) -> std::io::Result<File> {
        let directory = Directory::open(&self.state_directory)?;
        let name = self.state.file_name().unwrap_or_default();
        if is_made { directory.open_to_append(name, 0o600) } else { directory.open_file(name) }
    }

    fn lock(&self, state: &File) -> Result<bool, Error> {
        match state.try_lock() {
            Err(TryLockError::Error(error)) => Err(Error::setting("lock", &self.state, error)),
            locked => Ok(locked.is_ok()),
        }
    }

    fn remember_and_apply(&self, state: &mut File, asked: Bytes) -> Result<(), Error> {
        if self.read_remembered()?.is_none() {
            let own = self.read()?;
            let written = writeln!(state, "{}", own.0 >> 10);
            written.map_err(|error| Error::setting("write to", &self.state, error))?;
        }
        self.apply(asked)
    }

    fn apply(&self, asked: Bytes) -> Result<(), Error> {
        let written = fs::write(&self.setting, format!("{}\n", asked.0 >> 10));
        written.map_err(|error| Error::setting("write to", &self.setting, error))?;
        for path in [&self.setting, &self.mounted] {
            let in_force = read_kib(path)?;
            if in_force != asked {
                return Err(Error::Unavailable {
                    what: "this read-ahead",
                    reason: format!("requested {asked}, but {} shows {in_force}", path.display()),
                    remedy: "use a multiple of the page size, such as 128KiB, or --read-ahead native".into(),
                });
            }
        }
        Ok(())
    }

    fn put_back_unless_held(&self) -> Result<Option<Bytes>, Error> {
        let state = match self.open_state(false) {
            Err(error) if error.kind() == IoErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(|error| Error::setting("open", &self.state, error))?,
        };
        if !self.lock(&state)? {
            return Ok(None);
        }
        let own = self.read_remembered()?;
        own.map_or(Ok(()), |own| self.apply(own))?;
        fs::remove_file(&self.state).map_err(|error| Error::setting("remove", &self.state, error))?;
        Ok(own)
    }

    fn read(&self) -> Result<Bytes, Error> {
        read_kib(&self.setting)
    }

    /// `None` if a killed run had not written the original value, and so changed nothing.
    fn read_remembered(&self) -> Result<Option<Bytes>, Error> {
        let text = self.open_state(false).and_then(|state| read_open_at_most(state, SMALL_FILE_BYTES_MAX));
        let text = text.map_err(|error| Error::setting("read", &self.state, error))?;
        let text = String::from_utf8_lossy(&text);
        // The line feed proves that the number is complete.
        Ok(text.strip_suffix('\n').and_then(parse_kib))
    }
}

fn read_kib(path: &Path) -> Result<Bytes, Error> {
    let text = fs::read_to_string(path).map_err(|error| Error::setting("read", path, error))?;
    parse_kib(text.trim()).ok_or_else(|| Error::Unavailable {
        what: "setting the read-ahead",
        reason: format!("{} contains {text:?}, not a number of KiB", path.display()),
        remedy: "use --read-ahead native".into(),
    })
}

fn parse_kib(text: &str) -> Option<Bytes> {
    text.parse::<u64>().ok()?.checked_mul(1 << 10).map(Bytes)
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;
    use crate::failure::Explain as _;
    use crate::linux::DeviceNumber;

    const OWN: Bytes = Bytes(8 << 20);
    const ASKED: Bytes = Bytes(128 << 10);

    fn system() -> (TempDir, Files) {
        let system = tempfile::tempdir().unwrap();
        let device = BlockDevice {
            name: "sda".into(),
            number: DeviceNumber { major: 8, minor: 0 },
            identity: "sda".into(),
            is_rotational: false,
            read_ahead_bytes: OWN,
            max_request_bytes: Bytes(0),
        };
        let files = Files::of(&device, system.path(), &system.path().join("run"));
        for path in [&files.setting, &files.mounted] {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
        }
        fs::write(&files.setting, "8192\n").unwrap();
        std::os::unix::fs::symlink(&files.setting, &files.mounted).unwrap();
        (system, files)
    }

    #[test]
    fn is_as_asked_until_dropped() {
        let (_system, files) = system();
        let held = files.clone().set(ASKED).unwrap();
        assert_eq!(files.read().unwrap(), ASKED);
        drop(held);
        assert_eq!(files.read().unwrap(), OWN);
        assert!(!files.state.exists());
    }

    #[test]
    fn the_last_of_several_runs_puts_it_back() {
        let (_system, files) = system();
        let first = files.clone().set(ASKED).unwrap();
        let second = files.clone().set(ASKED).unwrap();
        first.put_back().unwrap();
        assert_eq!(files.read().unwrap(), ASKED);
        second.put_back().unwrap();
        assert_eq!(files.read().unwrap(), OWN);
    }

    #[test]
    fn a_living_run_keeps_its_own() {
        let (_system, files) = system();
        let held = files.clone().set(ASKED).unwrap();
        let error = files.clone().set(Bytes(4 << 10)).unwrap_err();
        assert!(error.to_string().contains("another pgthaw process"), "{error}");
        assert!(error.hint().is_some());
        assert_eq!(files.put_back_unless_held().unwrap(), None);
        assert_eq!(files.read().unwrap(), ASKED);
        drop(held);
        assert_eq!(files.read().unwrap(), OWN);
    }

    #[test]
    fn what_a_killed_run_left_is_put_back() {
        let (_system, files) = system();
        let mut held = files.clone().set(ASKED).unwrap();
        // As for a killed process.
        drop(held.holder.take());
        drop(held);
        assert_eq!(files.read().unwrap(), ASKED);
        assert_eq!(files.put_back_unless_held().unwrap(), Some(OWN));
        assert_eq!(files.read().unwrap(), OWN);
        assert_eq!(files.put_back_unless_held().unwrap(), None);
    }

    #[test]
    fn a_run_after_a_killed_one_knows_the_disks_own() {
        let (_system, files) = system();
        let mut killed = files.clone().set(ASKED).unwrap();
        drop(killed.holder.take());
        drop(killed);
        drop(files.clone().set(Bytes(4 << 10)).unwrap());
        assert_eq!(files.read().unwrap(), OWN);
    }

    #[test]
    fn a_file_system_that_does_not_follow_its_disk_is_told_and_nothing_is_left() {
        let (_system, files) = system();
        fs::remove_file(&files.mounted).unwrap();
        fs::write(&files.mounted, "8192\n").unwrap();
        let error = files.clone().set(ASKED).unwrap_err();
        assert!(error.to_string().contains("bdi"), "{error}");
        assert_eq!(files.read().unwrap(), OWN);
        assert!(!files.state.exists());
    }

    #[test]
    fn the_kernel_takes_the_read_ahead_and_takes_it_back() {
        let place = Path::new("/var/tmp");
        if let Err(error) = ReadAhead::available(place) {
            assert!(error.hint().is_some(), "{error}");
            untested!("{error}");
        }
        let in_force = || read_block_device(place).unwrap().read_ahead_bytes;
        let held = ReadAhead::set(place, ASKED).unwrap();
        assert_eq!(in_force(), ASKED);
        held.put_back().unwrap();
    }
}
