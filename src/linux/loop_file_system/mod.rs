//! A file system of one's own: an image file, a loop device, a mount. It is gone when its owner is, and what a killed one
//! has left can be taken over or removed.
//!
//! The image is written in full beforehand, and its device takes no discards: no file system pays for the allocation of the
//! one below, and none makes holes that have to be filled again. Where that is possible the loop device reads and writes
//! past the page cache, which would hold everything twice.

mod asked;
mod facts;
mod programs;

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use procfs::process::{MountInfo, Process};

use self::programs::run;
use super::block_device::{BlockDevice, read_block_device};
use super::cgroup::clear_limits_on_own;
use super::direct_read::AlignedBuffer;
use super::read_ahead::ReadAhead;
use super::{DeviceNumber, Error};
use crate::files::OwnDirectory;
use crate::units::Bytes;

pub use self::asked::{FileSystemAsked, FileSystemKind};
pub use self::facts::{Deviation, FileSystemFacts};

const IMAGE: &str = "image";
const MOUNT_POINT: &str = "mount";

/// The image is written in pieces of this size, and has a multiple of it.
const PIECE_BYTES: u64 = 4 << 20;

/// xfs takes no less than 300 MB.
const IMAGE_BYTES_MIN: u64 = 512 << 20;

/// A server that is still stopping keeps its file system busy.
const UNMOUNT_LIMIT: Duration = Duration::from_secs(60);
/// Whoever looks at a loop device just then holds it for a moment.
const DETACH_LIMIT: Duration = Duration::from_secs(10);
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// A file system in a directory of its own, which holds its image and its mount point. Dropping it removes all of that.
#[derive(Debug)]
pub struct LoopFileSystem {
    directory: PathBuf,
    is_removed: bool,
}

impl LoopFileSystem {
    /// A file system in this directory, which exists and is given to it; nothing is made yet.
    pub fn in_directory(directory: &Path) -> LoopFileSystem {
        LoopFileSystem { directory: directory.to_owned(), is_removed: false }
    }

    /// Writes the image, `size` or a little more. `goes_on` is told the share that is done, 0 to 1; it returns false to
    /// stop, and so does this then.
    pub fn write_image(&self, size: Bytes, mut goes_on: impl FnMut(f64) -> bool) -> Result<bool, Error> {
        let path = self.image();
        let failed = |error| Error::file("write", &path, error);
        let pieces = size.0.max(IMAGE_BYTES_MIN).div_ceil(PIECE_BYTES);
        let open = |flags: i32| {
            // Nothing has its name yet but what a first try without success has left.
            let _ = fs::remove_file(&path);
            File::options().write(true).create_new(true).mode(0o600).custom_flags(flags).open(&path)
        };
        // Some file systems have no O_DIRECT.
        let file = open(libc::O_DIRECT).or_else(|_| open(0)).map_err(failed)?;
        let zeros = AlignedBuffer::new(PIECE_BYTES as usize);
        for piece in 0..pieces {
            if !goes_on(piece as f64 / pieces as f64) {
                return Ok(false);
            }
            file.write_all_at(zeros.as_slice(), piece * PIECE_BYTES).map_err(failed)?;
        }
        file.sync_all().map_err(failed)?;
        Ok(true)
    }

    /// Makes the file system in the image, and mounts it.
    pub fn make(&self, asked: &FileSystemAsked) -> Result<(), Error> {
        let device = self.attach(asked)?;
        run(asked.kind.maker(), asked.kind.maker_arguments().iter().copied().chain([device.as_str()]))?;
        self.mount(asked, &device)
    }

    /// Mounts what a killed run has made, unless it is mounted still.
    pub fn mount_again(&self, asked: &FileSystemAsked) -> Result<(), Error> {
        if self.find_mount()?.is_some() {
            self.forget_limits();
            return Ok(());
        }
        self.detach()?;
        let device = self.attach(asked)?;
        self.mount(asked, &device)
    }

    pub fn mount_point(&self) -> PathBuf {
        self.directory.join(MOUNT_POINT)
    }

    /// The file that holds it.
    pub fn image(&self) -> PathBuf {
        self.directory.join(IMAGE)
    }

    /// Reads what the kernel says of the loop device.
    pub fn read_device(&self) -> Result<BlockDevice, Error> {
        read_block_device(&self.mount_point())
    }

    /// What is so, read back from the kernel.
    pub fn read_facts(&self) -> Result<FileSystemFacts, Error> {
        let mount = self.find_mount()?.ok_or_else(|| Error::Unavailable {
            what: "reading back the mount",
            reason: format!("{} is no longer mounted", self.mount_point().display()),
            remedy: "let nobody unmount it while the study runs".into(),
        })?;
        FileSystemFacts::read(&mount, &self.read_device()?, &self.image())
    }

    /// Unmounts it, and removes the image with its directory. Dropping does the same and keeps quiet.
    pub fn remove(mut self) -> Result<(), Error> {
        self.is_removed = true;
        self.take_away()
    }

    /// Attaches the image, and returns the device's path.
    fn attach(&self, asked: &FileSystemAsked) -> Result<String, Error> {
        let image = self.image();
        let image = image.to_string_lossy();
        let sectors = asked.logical_block_bytes.map(|bytes| format!("--sector-size={bytes}"));
        let common = ["--find", "--show"].into_iter().chain(sectors.as_deref());
        let direct = run("losetup", common.clone().chain(["--direct-io=on", &image]));
        // Where the file system below has no direct I/O the page cache holds the image too, and cold starts evict it.
        let device = match direct {
            Ok(said) => said,
            Err(_) => {
                self.detach()?;
                run("losetup", common.chain([&*image]))?
            }
        };
        let device = device.trim().to_owned();
        let queue = queue_directory(&device);
        // One that has none says so by refusing.
        let _ = fs::write(queue.join("discard_max_bytes"), "0");
        if let Some(scheduler) = &asked.scheduler {
            let path = queue.join("scheduler");
            // One that is not taken is read back later, as any other setting.
            let _ = fs::write(&path, scheduler);
        }
        Ok(device)
    }

    fn mount(&self, asked: &FileSystemAsked, device: &str) -> Result<(), Error> {
        let path = self.mount_point();
        let made = fs::create_dir_all(&path);
        made.map_err(|error| Error::file("create", &path, error))?;
        let options = asked.options.join(",");
        let options = (!options.is_empty()).then_some(["-o", &options]);
        let named = path.to_string_lossy();
        let arguments = ["-t", asked.kind.name()].into_iter().chain(options.into_iter().flatten());
        run("mount", arguments.chain([device, &*named]))?;
        // The server's user must get through, whatever the root of the file system says.
        let opened = fs::set_permissions(&path, Permissions::from_mode(0o755));
        opened.map_err(|error| Error::file("open to others", &path, error))?;
        self.forget_limits();
        // It stays for as long as it is mounted: nothing but the mount has to be undone, then.
        run("losetup", ["--detach", device]).map(drop)
    }

    /// Takes back the limits that a killed run left on the same device.
    fn forget_limits(&self) {
        // Where nothing was left there is nothing to put back.
        let _ = ReadAhead::repair(&self.mount_point());
        let _ = self.read_device().and_then(|device| clear_limits_on_own(device.number));
    }

    fn find_mount(&self) -> Result<Option<MountInfo>, Error> {
        let mounts = Process::myself().and_then(|process| process.mountinfo());
        let mounts = mounts.map_err(|error| Error::proc("read the mounts", error))?;
        let path = self.mount_point();
        let path = fs::canonicalize(&path).unwrap_or(path);
        // The last one lies on top.
        Ok(mounts.into_iter().rfind(|mount| mount.mount_point == path))
    }

    fn take_away(&self) -> Result<(), Error> {
        let began = Instant::now();
        while let Some(mount) = self.find_mount()? {
            self.forget_limits();
            if let Some(device) = &mount.mount_source {
                put_back_queue(device);
            }
            let path = self.mount_point();
            match run("umount", [&*path.to_string_lossy()]) {
                Ok(_) => {}
                Err(error) if began.elapsed() > UNMOUNT_LIMIT => return Err(error),
                Err(_) => std::thread::sleep(POLL_INTERVAL),
            }
        }
        self.detach()?;
        // First: whoever is killed meanwhile leaves what says whose it was, and not the image alone.
        let _ = fs::remove_file(self.image());
        match OwnDirectory::open(&self.directory).and_then(|own| own.remove(IMAGE)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(Error::file("remove", &self.directory, error))
            }
            _ => Ok(()),
        }
    }

    /// Detaches the devices that the image is attached to without being mounted.
    fn detach(&self) -> Result<(), Error> {
        let image = self.image();
        if !image.exists() {
            return Ok(());
        }
        let began = Instant::now();
        loop {
            let of_image = ["--noheadings", "--output", "NAME", "--associated", &image.to_string_lossy()];
            let listed = run("losetup", of_image)?;
            let mut devices = listed.lines().map(str::trim).filter(|device| !device.is_empty()).peekable();
            if devices.peek().is_none() || began.elapsed() > DETACH_LIMIT {
                return Ok(());
            }
            for device in devices {
                put_back_queue(device);
                // It may go by itself meanwhile, for its mount has ended; the kernel takes a moment for it.
                let _ = run("losetup", ["--detach", device]);
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}

impl Drop for LoopFileSystem {
    fn drop(&mut self) {
        if !self.is_removed {
            // What stays is removed by the next run; there is nobody left to tell.
            let _ = self.take_away();
        }
    }
}

/// `/sys/block/loop3/queue` of `/dev/loop3`.
fn queue_directory(device: &str) -> PathBuf {
    let name = Path::new(device).file_name().unwrap_or_default();
    Path::new("/sys/block").join(name).join("queue")
}

/// A loop device outlives what was attached to it, and so would its settings.
fn put_back_queue(device: &str) {
    let queue = queue_directory(device);
    let own = fs::read_to_string(queue.join("discard_max_hw_bytes")).unwrap_or_default();
    for (file, value) in [("discard_max_bytes", own.trim()), ("scheduler", "none")] {
        // What it does not take it did not have before.
        let _ = fs::write(queue.join(file), value);
    }
}

/// The number of a device of one's own, for a limit on the whole of it.
pub fn is_loop(device: DeviceNumber) -> bool {
    // Documentation/admin-guide/devices.txt.
    device.major == 7
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Explain as _;

    fn asked(kind: FileSystemKind, options: &[&str]) -> FileSystemAsked {
        let options = options.iter().map(|option| (*option).to_owned()).collect();
        FileSystemAsked { kind, options, scheduler: None, logical_block_bytes: None }
    }

    /// `None` where it cannot be had; the refusal says why and what to do.
    fn made(asked: &FileSystemAsked) -> Option<LoopFileSystem> {
        if let Err(error) = asked.check_available() {
            assert!(error.hint().is_some(), "{error}");
            untested!("{error}");
        }
        let directory = tempfile::Builder::new().prefix("pgthaw-fs-").tempdir_in("/var/tmp").unwrap().keep();
        let file_system = LoopFileSystem::in_directory(&directory);
        assert!(file_system.write_image(Bytes(0), |_| true).unwrap());
        match file_system.make(asked) {
            Ok(()) => Some(file_system),
            // The kernel may not have it.
            Err(error) => {
                assert!(error.to_string().contains("unknown filesystem type"), "{error}");
                untested!(machine: "{error}")
            }
        }
    }

    #[test]
    fn is_mounted_as_asked_and_gone_afterwards() {
        for kind in FileSystemKind::ALL {
            let asked = asked(kind, &["noatime"]);
            let Some(file_system) = made(&asked) else { continue };
            let facts = file_system.read_facts().unwrap();
            assert_eq!(facts.kind, kind.name());
            assert!(facts.options.contains(&"noatime".to_owned()), "{facts:?}");
            assert_eq!(facts.deviations(&asked), [], "{facts:?}");
            assert!(is_loop(file_system.read_device().unwrap().number));
            let text = file_system.mount_point().join("text");
            fs::write(&text, "here").unwrap();
            // As after a kill: the next one finds it.
            let again = LoopFileSystem::in_directory(&file_system.directory);
            again.mount_again(&asked).unwrap();
            run("umount", [&*file_system.mount_point().to_string_lossy()]).unwrap();
            again.mount_again(&asked).unwrap();
            assert_eq!(fs::read_to_string(&text).unwrap(), "here");
            let directory = again.directory.clone();
            again.remove().unwrap();
            assert!(!directory.exists());
            let attached = run("losetup", ["--all"]).unwrap();
            assert!(!attached.contains(&*directory.to_string_lossy()), "{attached}");
        }
    }

    #[test]
    fn what_is_not_in_force_is_told_with_what_is() {
        // `sync` counts for the server's files, `commit` for the journal.
        let wanted = asked(FileSystemKind::Ext4, &["commit=7", "data=ordered", "barrier"]);
        let Some(file_system) = made(&wanted) else { return };
        let facts = file_system.read_facts().unwrap();
        assert_eq!(facts.deviations(&wanted), [], "{facts:?}");
        let other = FileSystemAsked {
            scheduler: Some("no-such-scheduler".into()),
            logical_block_bytes: Some(4096),
            ..asked(FileSystemKind::Ext4, &["commit=9", "nobarrier"])
        };
        let told: Vec<String> =
            facts.deviations(&other).into_iter().map(|one| format!("{}: {}", one.what, one.found)).collect();
        assert_eq!(told.len(), 4, "{told:?}");
        assert!(told[0].contains("commit=9") && told[0].contains("commit=7"), "{told:?}");
        assert!(told[2].contains("no-such-scheduler"), "{told:?}");
        assert!(told[3].contains("4096") && told[3].contains("512"), "{told:?}");
    }

    #[test]
    fn a_mount_that_fails_leaves_nothing() {
        let Some(file_system) = made(&asked(FileSystemKind::Ext4, &[])) else { return };
        let directory = file_system.directory.clone();
        run("umount", [&*file_system.mount_point().to_string_lossy()]).unwrap();
        let error = file_system.mount_again(&asked(FileSystemKind::Ext4, &["no_such_option"])).unwrap_err();
        assert!(error.to_string().contains("mount"), "{error}");
        drop(file_system);
        assert!(!directory.exists());
        let attached = run("losetup", ["--all"]).unwrap();
        assert!(!attached.contains(&*directory.to_string_lossy()), "{attached}");
    }
}
