//! Image file, loop device and mount, removed at the end of a run. A later run can take over or remove those of a
//! killed run. The image is fully written beforehand, without discards, so that no allocation is measured. Direct I/O
//! avoids caching the data twice.

mod asked;

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use procfs::process::MountInfo;

use self::asked::{Names, fill_each, impossible, run, run_each};
use super::Error;
use super::block_device::{BlockDevice, read_block_device, read_named_device};
use super::cgroup::clear_limits_on_own;
use super::direct_read::AlignedBuffer;
use super::process::read_mounts;
use super::read_ahead::ReadAhead;
use crate::files::{OwnDirectory, SMALL_FILE_BYTES_MAX};
use crate::units::Bytes;

pub use self::asked::{FileSystemAsked, FileSystemFacts, FileSystemKind, Making, OwnCommands, PLACEHOLDERS};

const IMAGE: &str = "image";
const LOG_IMAGE: &str = "log-image";
/// File with the study's unmount commands, for a later run.
const UNMOUNT: &str = "unmount";
const MOUNT_POINT: &str = "mount";

/// Size of a write; the image's size is a multiple of it.
const PIECE_BYTES: u64 = 4 << 20;

/// xfs needs at least 300 MB.
pub const IMAGE_BYTES_MIN: Bytes = Bytes(512 << 20);

/// Unmounting is retried: a stopping server keeps its file system busy.
const UNMOUNT_LIMIT: Duration = Duration::from_secs(60);
/// Detaching is retried: any process that reads a loop device holds it briefly.
const DETACH_LIMIT: Duration = Duration::from_secs(10);
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Dropping it removes its directory with image and mount point.
#[derive(Debug)]
pub struct LoopFileSystem {
    directory: PathBuf,
    is_removed: bool,
}

impl LoopFileSystem {
    pub fn in_directory(directory: &Path) -> LoopFileSystem {
        LoopFileSystem { directory: directory.to_owned(), is_removed: false }
    }

    /// Creates another file system in a subdirectory, removed with this one.
    pub fn create_part(&self, name: &str) -> Result<LoopFileSystem, Error> {
        let directory = self.directory.join(name);
        // The server's user must reach the mount point.
        let made = fs::create_dir_all(&directory)
            .and_then(|()| fs::set_permissions(&directory, Permissions::from_mode(0o711)));
        made.map_err(|error| Error::file("create", &directory, error))?;
        Ok(LoopFileSystem::in_directory(&directory))
    }

    fn parts(&self) -> Vec<LoopFileSystem> {
        let entries = fs::read_dir(&self.directory).into_iter().flatten().flatten();
        let images = entries.map(|entry| entry.path()).filter(|path| path.join(IMAGE).exists());
        images.map(|path| LoopFileSystem { directory: path, is_removed: true }).collect()
    }

    /// Writes the image, of at least `size`, and the log's image. Calls `goes_on` with the written share of each image,
    /// 0 to 1, and stops if it returns false.
    pub fn write_images(
        &self,
        asked: &FileSystemAsked,
        size: Bytes,
        mut goes_on: impl FnMut(f64) -> bool,
    ) -> Result<bool, Error> {
        if let Some(log) = asked.log_device()
            && !self.write_image(LOG_IMAGE, log.0, &mut goes_on)?
        {
            return Ok(false);
        }
        self.write_image(IMAGE, size.max(IMAGE_BYTES_MIN).0, &mut goes_on)
    }

    fn write_image(&self, name: &str, bytes: u64, mut goes_on: impl FnMut(f64) -> bool) -> Result<bool, Error> {
        let path = self.directory.join(name);
        let failed = |error| Error::file("write", &path, error);
        let pieces = bytes.div_ceil(PIECE_BYTES);
        let open = |flags: i32| {
            // open(2) with O_DIRECT may create the file and still fail.
            let _ = fs::remove_file(&path);
            File::options().write(true).create_new(true).mode(0o600).custom_flags(flags).open(&path)
        };
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

    pub fn make(&self, asked: &FileSystemAsked, goes_on: &dyn Fn() -> bool) -> Result<(), Error> {
        let (names, commands) = (self.attach_all(asked)?, asked.commands());
        self.keep_unmount(&commands, &names)?;
        // A study's own `make` commands may also mount the file system.
        self.make_mount_point()?;
        run_each(&fill_each(&names, &commands.make), goes_on)?;
        self.mount(asked, &names, goes_on)
    }

    pub fn mount_again(&self, asked: &FileSystemAsked, goes_on: &dyn Fn() -> bool) -> Result<(), Error> {
        if self.find_mount()?.is_some() {
            self.forget_limits();
            return Ok(());
        }
        self.detach()?;
        let names = self.attach_all(asked)?;
        self.mount(asked, &names, goes_on)
    }

    pub fn mount_point(&self) -> PathBuf {
        self.directory.join(MOUNT_POINT)
    }

    pub fn image(&self) -> PathBuf {
        self.directory.join(IMAGE)
    }

    pub fn read_device(&self) -> Result<BlockDevice, Error> {
        // A file system on several devices has no device number.
        read_block_device(&self.mount_point()).or_else(|error| self.read_attached(IMAGE).ok_or(error))
    }

    pub fn read_log_device(&self) -> Option<BlockDevice> {
        self.read_attached(LOG_IMAGE)
    }

    fn read_attached(&self, image: &str) -> Option<BlockDevice> {
        let device = list_devices(&self.directory.join(image)).ok()?.into_iter().next()?;
        read_named_device(&Path::new(&device).file_name()?.to_string_lossy())
    }

    pub fn read_facts(&self) -> Result<FileSystemFacts, Error> {
        let mount = self.find_mount()?.ok_or_else(|| Error::Unavailable {
            what: "reading the mount options",
            reason: format!("{} is no longer mounted", self.mount_point().display()),
            remedy: "do not unmount it while the study runs".into(),
        })?;
        FileSystemFacts::read(&mount, &self.read_device()?, &self.image())
    }

    /// Unlike dropping, reports errors.
    pub fn remove(mut self) -> Result<(), Error> {
        self.is_removed = true;
        self.take_away()
    }

    fn attach_all(&self, asked: &FileSystemAsked) -> Result<Names, Error> {
        let device = self.attach(asked, IMAGE)?;
        let log_device = asked.log_device().map(|_| self.attach(asked, LOG_IMAGE)).transpose()?;
        let directory = self.mount_point().to_string_lossy().into_owned();
        Ok([device, log_device.unwrap_or_default(), directory, self.name()])
    }

    fn name(&self) -> String {
        let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        match (name(&self.directory), self.directory.parent()) {
            (own, Some(parent)) if !own.starts_with("pgthaw-") => format!("{}-{own}", name(parent)),
            (own, _) => own,
        }
    }

    fn attach(&self, asked: &FileSystemAsked, image: &str) -> Result<String, Error> {
        let image = self.directory.join(image);
        let image = image.to_string_lossy();
        let sectors = asked.logical_block_bytes.map(|bytes| format!("--sector-size={bytes}"));
        let common = ["--find", "--show"].into_iter().chain(sectors.as_deref());
        let direct = run("losetup", common.clone().chain(["--direct-io=on", &image]));
        // Without direct I/O, the page cache also holds the image, which is evicted before cold starts.
        let device = match direct {
            Ok(said) => said,
            Err(_) => {
                self.detach()?;
                run("losetup", common.chain([&*image]))?
            }
        };
        let device = device.trim().to_owned();
        let queue = queue_directory(&device);
        // Fails on a device without discards.
        let _ = fs::write(queue.join("discard_max_bytes"), "0");
        // `FileSystemFacts::deviations` reports a scheduler that the kernel rejected.
        asked.scheduler.iter().for_each(|scheduler| _ = fs::write(queue.join("scheduler"), scheduler));
        Ok(device)
    }

    fn make_mount_point(&self) -> Result<(), Error> {
        let path = self.mount_point();
        fs::create_dir_all(&path).map_err(|error| Error::file("create", &path, error))
    }

    fn keep_unmount(&self, own: &OwnCommands, names: &Names) -> Result<(), Error> {
        if own.unmount.is_empty() {
            return Ok(());
        }
        let text = serde_json::to_string(&fill_each(names, &own.unmount)).unwrap_or_default();
        let path = self.directory.join(UNMOUNT);
        fs::write(&path, text).map_err(|error| Error::file("write", &path, error))
    }

    fn read_unmount(&self) -> Option<Vec<asked::Command>> {
        // Trusted commands: only this user can write in the directory.
        let own = OwnDirectory::open(&self.directory).ok()?;
        serde_json::from_str(&own.directory().read_text_at_most(UNMOUNT, SMALL_FILE_BYTES_MAX).ok()?).ok()
    }

    fn mount(&self, asked: &FileSystemAsked, names: &Names, goes_on: &dyn Fn() -> bool) -> Result<(), Error> {
        self.make_mount_point()?;
        let path = self.mount_point();
        run_each(&fill_each(names, &asked.commands().mount), goes_on)?;
        if self.find_mount()?.is_none() {
            let elsewhere: Vec<String> =
                self.find_mounts_elsewhere()?.iter().map(|path| path.display().to_string()).collect();
            let elsewhere =
                if elsewhere.is_empty() { String::new() } else { format!(", only at {}", elsewhere.join(", ")) };
            let reason = format!(
                "the file system's commands succeeded, but nothing is mounted at {}{elsewhere}",
                path.display()
            );
            return Err(impossible(reason, "the make or mount command in [file_systems] must mount at {directory}"));
        }
        let opened = fs::set_permissions(&path, Permissions::from_mode(0o755));
        opened.map_err(|error| Error::file("open to other users", &path, error))?;
        self.forget_limits();
        // The kernel detaches a mounted loop device at the unmount.
        let [device, log_device, ..] = names;
        let mut devices = [device, log_device].into_iter().filter(|device| !device.is_empty());
        devices.try_for_each(|device| run("losetup", ["--detach", device]).map(drop))
    }

    fn forget_limits(&self) {
        // Both calls fail if there is nothing to undo.
        let _ = ReadAhead::repair(&self.mount_point());
        let _ = self.read_device().and_then(|device| clear_limits_on_own(device.number));
    }

    fn find_mount(&self) -> Result<Option<MountInfo>, Error> {
        let path = self.mount_point();
        let path = fs::canonicalize(&path).unwrap_or(path);
        // Of several mounts on this path, the last is on top.
        Ok(read_mounts()?.into_iter().rfind(|mount| mount.mount_point == path))
    }

    fn find_mounts_elsewhere(&self) -> Result<Vec<PathBuf>, Error> {
        let devices = self.list_devices()?;
        let is_ours = |mount: &MountInfo| mount.mount_source.as_ref().is_some_and(|device| devices.contains(device));
        Ok(read_mounts()?.into_iter().filter(is_ours).map(|mount| mount.mount_point).rev().collect())
    }

    fn take_away(&self) -> Result<(), Error> {
        self.parts().iter().try_for_each(LoopFileSystem::take_away)?;
        let (began, own) = (Instant::now(), self.read_unmount());
        let run_own = |commands: &Vec<_>| run_each(commands, &|| began.elapsed() < UNMOUNT_LIMIT);
        if self.find_mount().is_ok_and(|mount| mount.is_none()) {
            let _ = own.as_ref().map(run_own);
        }
        while let Some(mount) = self.find_mount()? {
            self.forget_limits();
            if let Some(device) = &mount.mount_source {
                put_back_queue(device);
            }
            let path = self.mount_point();
            let umount = || run("umount", [&*path.to_string_lossy()]).map(drop);
            match own.as_ref().map_or_else(umount, |own| run_own(own).or_else(|error| umount().map_err(|_| error))) {
                Ok(()) => {}
                Err(error) if began.elapsed() > UNMOUNT_LIMIT => return Err(error),
                Err(_) => std::thread::sleep(POLL_INTERVAL),
            }
        }
        for path in self.find_mounts_elsewhere()? {
            run("umount", [&*path.to_string_lossy()])?;
        }
        self.detach()?;
        // Frees the space even if the directory cannot be removed.
        let _ = fs::remove_file(self.image());
        match OwnDirectory::open(&self.directory).and_then(|own| own.remove(IMAGE)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(Error::file("remove", &self.directory, error))
            }
            _ => Ok(()),
        }
    }

    fn list_devices(&self) -> Result<Vec<String>, Error> {
        let mut devices = list_devices(&self.image())?;
        devices.extend(list_devices(&self.directory.join(LOG_IMAGE))?);
        Ok(devices)
    }

    fn detach(&self) -> Result<(), Error> {
        let began = Instant::now();
        loop {
            let devices = self.list_devices()?;
            if devices.is_empty() || began.elapsed() > DETACH_LIMIT {
                return Ok(());
            }
            for device in devices {
                put_back_queue(&device);
                let _ = run("losetup", ["--detach", &device]);
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}

impl Drop for LoopFileSystem {
    fn drop(&mut self) {
        if !self.is_removed {
            // The next run removes leftovers.
            let _ = self.take_away();
        }
    }
}

fn list_devices(image: &Path) -> Result<Vec<String>, Error> {
    if !image.exists() {
        return Ok(Vec::new());
    }
    let listed = run("losetup", ["--noheadings", "--output", "NAME", "--associated", &image.to_string_lossy()])?;
    let devices = listed.lines().map(str::trim).filter(|device| !device.is_empty());
    Ok(devices.map(str::to_owned).collect())
}

fn queue_directory(device: &str) -> PathBuf {
    let name = Path::new(device).file_name().unwrap_or_default();
    Path::new("/sys/block").join(name).join("queue")
}

/// Resets a loop device's settings, which would otherwise apply to its next image.
fn put_back_queue(device: &str) {
    let queue = queue_directory(device);
    let own = fs::read_to_string(queue.join("discard_max_hw_bytes")).unwrap_or_default();
    for (file, value) in [("discard_max_bytes", own.trim()), ("scheduler", "none")] {
        let _ = fs::write(queue.join(file), value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Explain as _;

    fn asked(kind: FileSystemKind, options: &[&str]) -> FileSystemAsked {
        let options = options.iter().map(|option| (*option).to_owned()).collect();
        FileSystemAsked { making: Making::Kind(kind), options, scheduler: None, logical_block_bytes: None }
    }

    fn made(asked: &FileSystemAsked) -> Option<LoopFileSystem> {
        if let Err(error) = asked.check_available() {
            assert!(error.hint().is_some(), "{error}");
            untested!("{error}");
        }
        let directory = tempfile::Builder::new().prefix("pgthaw-fs-").tempdir_in("/var/tmp").unwrap().keep();
        let file_system = LoopFileSystem::in_directory(&directory);
        assert!(file_system.write_images(asked, Bytes(0), |_| true).unwrap());
        match file_system.make(asked, &|| true) {
            Ok(()) => Some(file_system),
            Err(error) => {
                assert!(error.to_string().contains("unknown filesystem type"), "{error}");
                untested!(machine: "{error}")
            }
        }
    }

    #[test]
    fn is_mounted_as_asked_and_gone_afterwards() {
        for kind in [FileSystemKind::Ext4, FileSystemKind::Xfs, FileSystemKind::Btrfs] {
            let asked = asked(kind, &["noatime"]);
            let Some(file_system) = made(&asked) else { continue };
            let facts = file_system.read_facts().unwrap();
            assert_eq!(facts.kind, kind.name());
            assert!(facts.options.contains(&"noatime".to_owned()), "{facts:?}");
            assert_eq!(facts.deviations(&asked), [], "{facts:?}");
            // Documentation/admin-guide/devices.txt: 7 is a loop device.
            assert_eq!(file_system.read_device().unwrap().number.major, 7);
            let text = file_system.mount_point().join("text");
            fs::write(&text, "here").unwrap();
            let again = LoopFileSystem::in_directory(&file_system.directory);
            again.mount_again(&asked, &|| true).unwrap();
            run("umount", [&*file_system.mount_point().to_string_lossy()]).unwrap();
            again.mount_again(&asked, &|| true).unwrap();
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
    fn what_is_mounted_elsewhere_is_told_and_taken_away() {
        let elsewhere = tempfile::tempdir_in("/var/tmp").unwrap();
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let own = OwnCommands {
            make: vec![words("mkfs.ext4 -q {device}")],
            mount: vec![words(&format!("mount {{device}} {}", elsewhere.path().display()))],
            unmount: Vec::new(),
            log_device: None,
        };
        let asked = FileSystemAsked { making: Making::Commands(own), ..asked(FileSystemKind::Ext4, &[]) };
        if let Err(error) = asked.check_available() {
            untested!("{error}");
        }
        let directory = tempfile::Builder::new().prefix("pgthaw-fs-").tempdir_in("/var/tmp").unwrap().keep();
        let file_system = LoopFileSystem::in_directory(&directory);
        assert!(file_system.write_images(&asked, Bytes(0), |_| true).unwrap());
        let error = file_system.make(&asked, &|| true).unwrap_err().to_string();
        assert!(error.contains(&format!(", only at {}", elsewhere.path().display())), "{error}");
        drop(file_system);
        assert!(!directory.exists());
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        assert!(!mounts.contains(&*elsewhere.path().to_string_lossy()), "{mounts}");
        let attached = run("losetup", ["--all"]).unwrap();
        assert!(!attached.contains(&*directory.to_string_lossy()), "{attached}");
    }

    #[test]
    fn a_command_that_fails_has_a_hint_of_its_own() {
        let hint = |program: &str| Error::Program { program: program.into(), output: String::new() }.hint().unwrap();
        assert!(hint("mount").contains("mount option") && !hint("mkfs.ext4").contains("mount option"));
    }

    #[test]
    fn a_mount_that_fails_leaves_nothing() {
        let Some(file_system) = made(&asked(FileSystemKind::Ext4, &[])) else { return };
        let directory = file_system.directory.clone();
        run("umount", [&*file_system.mount_point().to_string_lossy()]).unwrap();
        let error = file_system.mount_again(&asked(FileSystemKind::Ext4, &["no_such_option"]), &|| true).unwrap_err();
        assert!(error.to_string().contains("mount"), "{error}");
        drop(file_system);
        assert!(!directory.exists());
        let attached = run("losetup", ["--all"]).unwrap();
        assert!(!attached.contains(&*directory.to_string_lossy()), "{attached}");
    }
}
