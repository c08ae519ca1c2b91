use std::collections::{BTreeSet, HashMap};
use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{self, Stdio};
use std::time::Duration;

use procfs::process::MountInfo;
use serde::{Deserialize, Serialize};

use crate::linux::Error;
use crate::linux::block_device::BlockDevice;
use crate::linux::own_program::find_in_path;
use crate::units::Bytes;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, strum::EnumString, strum::IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum FileSystemKind {
    Ext4,
    Xfs,
    Btrfs,
}

crate::named!(FileSystemKind);

/// Placeholders in a study's own commands: loop device, log device, mount point, unique name.
pub const PLACEHOLDERS: [&str; 4] = ["{device}", "{log_device}", "{directory}", "{name}"];

pub type Command = Vec<String>;

/// A study's own commands for its file system, run without a shell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OwnCommands {
    pub make: Vec<Command>,
    /// Empty if `make` also mounts.
    pub mount: Vec<Command>,
    /// `umount` if empty.
    pub unmount: Vec<Command>,
    pub log_device: Option<Bytes>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Making {
    Kind(FileSystemKind),
    Commands(OwnCommands),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FileSystemAsked {
    #[serde(flatten)]
    pub making: Making,
    /// Mount options, as in `mount -o`. Empty if the study has its own commands, which contain any options.
    pub options: Vec<String>,
    /// Scheduler of the loop device; `None` is the kernel's choice.
    pub scheduler: Option<String>,
    pub logical_block_bytes: Option<u32>,
}

impl FileSystemAsked {
    pub fn render_commands(&self) -> Vec<String> {
        let Making::Commands(own) = &self.making else { return Vec::new() };
        let render = |command: &Command| {
            shlex::try_join(command.iter().map(String::as_str)).unwrap_or_else(|_| command.join(" "))
        };
        own.make.iter().chain(&own.mount).map(render).collect()
    }

    pub(super) fn commands(&self) -> OwnCommands {
        let kind = match &self.making {
            Making::Commands(own) => return own.clone(),
            Making::Kind(kind) => kind.name(),
        };
        // Lazy initialisation in the background would be measured too.
        let made = match kind {
            "ext4" => "-q -F -E nodiscard,lazy_itable_init=0,lazy_journal_init=0",
            _ => "-q -f -K",
        };
        let words = |command: String| command.split(' ').map(str::to_owned).collect::<Command>();
        let mut mount = words(format!("mount -t {kind} {{device}} {{directory}}"));
        if !self.options.is_empty() {
            mount.splice(1..1, ["-o".to_owned(), self.options.join(",")]);
        }
        OwnCommands {
            make: vec![words(format!("mkfs.{kind} {made} {{device}}"))],
            mount: vec![mount],
            unmount: Vec::new(),
            log_device: None,
        }
    }

    pub fn log_device(&self) -> Option<Bytes> {
        self.commands().log_device
    }

    pub fn check_available(&self) -> Result<(), Error> {
        if !rustix::process::geteuid().is_root() {
            let remedy = "run pgthaw as root, or omit points.file_system";
            return Err(impossible("only root can create, attach and mount an image", remedy));
        }
        let OwnCommands { make, mount, unmount, .. } = self.commands();
        let own = [make, mount, unmount].concat();
        let own = own.iter().filter_map(|command| command.first()).map(String::as_str);
        for program in ["losetup", "mount", "umount"].into_iter().chain(own) {
            find(program)?;
            // Only the loaded module creates /dev/zfs.
            if ["zfs", "zpool"].contains(&program) && !Path::new("/dev/zfs").exists() {
                let remedy = "`apt-get install zfs-dkms` (needs the headers of the running kernel), then modprobe zfs";
                return Err(impossible("the zfs module is not loaded (no /dev/zfs)", remedy));
            }
        }
        if !Path::new("/dev/loop-control").exists() {
            let remedy = "modprobe loop; in a container: `docker run --privileged`";
            return Err(impossible("there is no /dev/loop-control", remedy));
        }
        Ok(())
    }
}

/// Values of `PLACEHOLDERS`.
pub(super) type Names = [String; PLACEHOLDERS.len()];

pub(super) fn fill_each(names: &Names, commands: &[Command]) -> Vec<Command> {
    let fill = |word: &String| {
        let all = PLACEHOLDERS.iter().zip(names);
        all.fold(word.clone(), |word, (placeholder, value)| word.replace(placeholder, value))
    };
    commands.iter().map(|command| command.iter().map(fill).collect()).collect()
}

/// Options that are in effect if the kernel lists neither them nor their opposite.
const SILENT: &str = "async auto autodefrag=off barrier datacow datasum defaults delalloc dev exec rw suid";

const ALIASES: [(&str, &str); 6] = [
    ("barrier=0", "nobarrier"),
    ("barrier=1", "barrier"),
    ("block_validity=0", "noblock_validity"),
    ("atime", "strictatime"),
    ("discard=off", "nodiscard"),
    ("norelatime", "strictatime"),
];

/// State of a mounted file system, as reported by the kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
pub struct FileSystemFacts {
    pub kind: String,
    /// Options of the mount and of the file system.
    pub options: Vec<String>,
    /// Size of the image file.
    pub image_bytes: Bytes,
    /// Whether the loop device bypasses the page cache of the image file.
    pub direct_io: bool,
    /// I/O scheduler of the loop device.
    pub scheduler: String,
    pub read_ahead_bytes: Bytes,
    pub logical_block_bytes: u32,
    /// The study's own commands.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deviation {
    pub what: String,
    pub found: String,
}

impl FileSystemFacts {
    pub fn read(mount: &MountInfo, device: &BlockDevice, image: &Path) -> Result<FileSystemFacts, Error> {
        let directory = Path::new("/sys/block").join(&device.name);
        let read = |file: &str| {
            let path = directory.join(file);
            fs::read_to_string(&path).map_err(|error| Error::file("read", &path, error))
        };
        let of_ext4 = fs::read_to_string(format!("/proc/fs/ext4/{}/options", device.name)).unwrap_or_default();
        let mut options = BTreeSet::new();
        options.extend(render(&mount.mount_options).chain(render(&mount.super_options)));
        options.extend(of_ext4.lines().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()));
        let metadata = fs::metadata(image).map_err(|error| Error::file("look at", image, error))?;
        Ok(FileSystemFacts {
            kind: mount.fs_type.clone(),
            options: options.into_iter().collect(),
            image_bytes: Bytes(metadata.size()),
            direct_io: read("loop/dio")?.trim() == "1",
            scheduler: chosen_scheduler(&read("queue/scheduler")?),
            read_ahead_bytes: device.read_ahead_bytes,
            logical_block_bytes: read("queue/logical_block_size")?.trim().parse().unwrap_or_default(),
            commands: Vec::new(),
        })
    }

    pub fn deviations(&self, asked: &FileSystemAsked) -> Vec<Deviation> {
        let shown = || format!("{} is mounted with {}", self.kind, self.options.join(","));
        let options = asked.options.iter().filter(|option| !self.has(option));
        let mut deviations: Vec<Deviation> =
            options.map(|option| Deviation { what: format!("the mount option {option}"), found: shown() }).collect();
        if let Some(scheduler) = asked.scheduler.as_ref().filter(|asked| **asked != self.scheduler) {
            let found = format!("the device has {}", self.scheduler);
            deviations.push(Deviation { what: format!("the scheduler {scheduler}"), found });
        }
        if let Some(bytes) = asked.logical_block_bytes.filter(|asked| *asked != self.logical_block_bytes) {
            let found = format!("the device has {} bytes", self.logical_block_bytes);
            deviations.push(Deviation { what: format!("the logical block of {bytes} bytes"), found });
        }
        deviations
    }

    fn has(&self, option: &str) -> bool {
        let option = ALIASES.iter().find(|(alias, _)| *alias == option).map_or(option, |(_, name)| name);
        // The kernel shows `compress=zstd` with a level, as `compress=zstd:3`.
        let with_more = format!("{option}:");
        let is_shown = |name: &str| self.options.iter().any(|shown| shown == name || shown.starts_with(&with_more));
        let opposite = option.strip_prefix("no").map_or_else(|| format!("no{option}"), str::to_owned);
        match option {
            // Without relatime and noatime, every access updates the access time.
            "strictatime" => !is_shown("relatime") && !is_shown("noatime"),
            _ => is_shown(option) || (SILENT.split(' ').any(|silent| silent == option) && !is_shown(&opposite)),
        }
    }
}

fn render(options: &HashMap<String, Option<String>>) -> impl Iterator<Item = String> {
    options.iter().map(|(name, value)| match value {
        Some(value) => format!("{name}={value}"),
        None => name.clone(),
    })
}

/// The scheduler in brackets: `[none] mq-deadline`.
fn chosen_scheduler(text: &str) -> String {
    let chosen = text.split_whitespace().find_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
    chosen.unwrap_or(text.trim()).to_owned()
}

const PLACES: [&str; 4] = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"];

fn find(program: &str) -> Result<PathBuf, Error> {
    find_in_path(program, &PLACES).ok_or_else(|| {
        let remedy = match package_of(program) {
            Some(package) => format!("`apt-get install {package}`"),
            None => format!("install the package that contains {program}, or give its full path"),
        };
        impossible(format!("there is no {program}"), remedy)
    })
}

pub(super) fn impossible(reason: impl Into<String>, remedy: impl Into<String>) -> Error {
    Error::Unavailable { what: "creating a file system for the study", reason: reason.into(), remedy: remedy.into() }
}

fn package_of(program: &str) -> Option<&'static str> {
    Some(match program {
        "mkfs.ext4" => "e2fsprogs",
        "mkfs.xfs" => "xfsprogs",
        "mkfs.btrfs" => "btrfs-progs",
        "zfs" | "zpool" => "zfsutils-linux",
        "mkfs.f2fs" => "f2fs-tools",
        "mkfs.jfs" => "jfsutils",
        "mkfs.nilfs2" => "nilfs-tools",
        "bcachefs" | "mkfs.bcachefs" => "bcachefs-tools",
        "losetup" | "mount" | "umount" => "mount",
        _ => return None,
    })
}

pub(super) fn run<'a>(program: &str, arguments: impl IntoIterator<Item = &'a str>) -> Result<String, Error> {
    run_while(program, arguments, &|| true)
}

const ENDED_INTERVAL: Duration = Duration::from_millis(10);

/// Maximum bytes of a program's output that an error quotes.
const SAID_BYTES_MAX: u64 = 4096;

/// Runs a program. Kills its process group if `goes_on` returns false.
fn run_while<'a>(
    program: &str,
    arguments: impl IntoIterator<Item = &'a str>,
    goes_on: &dyn Fn() -> bool,
) -> Result<String, Error> {
    let failed = |output: String| Error::Program { program: program.to_owned(), output };
    let wrong = |error: io::Error| failed(error.to_string());
    // Files, unlike pipes, accept any amount of output without a reader.
    let (mut printed, mut complained) = (tempfile::tempfile().map_err(wrong)?, tempfile::tempfile().map_err(wrong)?);
    let mut command = process::Command::new(find(program)?);
    command.args(arguments).stdin(Stdio::null()).env("LC_ALL", "C");
    command.stdout(printed.try_clone().map_err(wrong)?).stderr(complained.try_clone().map_err(wrong)?);
    // A process group of its own: Ctrl-C reaches only pgthaw, which cleans up.
    let mut child = command.process_group(0).spawn().map_err(wrong)?;
    let status = loop {
        match child.try_wait().map_err(wrong)? {
            Some(status) => break status,
            None if goes_on() => std::thread::sleep(ENDED_INTERVAL),
            None => {
                let group = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw);
                group.map(|group| rustix::process::kill_process_group(group, rustix::process::Signal::KILL));
                child.wait().map_err(wrong)?;
                return Err(failed("stopped before it ended".to_owned()));
            }
        }
    };
    if status.success() {
        return read_end(&mut printed, u64::MAX).map_err(wrong);
    }
    let said = read_end(&mut complained, SAID_BYTES_MAX).and_then(|complaint| match complaint.trim() {
        "" => read_end(&mut printed, SAID_BYTES_MAX),
        complaint => Ok(complaint.to_owned()),
    });
    let said = said.map_err(wrong)?;
    Err(failed(if said.trim().is_empty() { status.to_string() } else { said.trim().to_owned() }))
}

fn read_end(file: &mut File, most: u64) -> io::Result<String> {
    let length = file.seek(SeekFrom::End(0))?;
    file.seek(SeekFrom::Start(length.saturating_sub(most)))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

pub(super) fn run_each(commands: &[Vec<String>], goes_on: &dyn Fn() -> bool) -> Result<(), Error> {
    for command in commands {
        let Some((program, arguments)) = command.split_first() else { continue };
        run_while(program, arguments.iter().map(String::as_str), goes_on)?;
    }
    Ok(())
}

#[cfg(test)]
mod facts_tests {
    use super::*;
    use crate::linux::loop_file_system::{FileSystemKind, Making};

    fn facts(options: &str) -> FileSystemFacts {
        FileSystemFacts {
            kind: "ext4".into(),
            options: options.split(',').map(str::to_owned).collect(),
            image_bytes: Bytes(0),
            direct_io: true,
            scheduler: "none".into(),
            read_ahead_bytes: Bytes(131_072),
            logical_block_bytes: 512,
            commands: Vec::new(),
        }
    }

    #[test]
    fn an_option_is_in_force_when_it_is_shown_or_goes_without_saying() {
        let facts = facts("rw,relatime,nobarrier,compress=zstd:3,data=writeback");
        for option in ["rw", "relatime", "barrier=0", "compress=zstd", "data=writeback", "defaults", "datacow", "exec"]
        {
            assert!(facts.has(option), "{option}");
        }
        for option in ["noatime", "barrier", "barrier=1", "ro", "data=ordered", "strictatime", "discard", "compress"] {
            assert!(!facts.has(option), "{option}");
        }
    }

    #[test]
    fn a_deviation_says_what_was_read() {
        let asked = FileSystemAsked {
            making: Making::Kind(FileSystemKind::Ext4),
            options: vec!["noatime".into()],
            scheduler: Some("bfq".into()),
            logical_block_bytes: Some(4096),
        };
        let told: Vec<String> = facts("rw,relatime").deviations(&asked).into_iter().map(|one| one.what).collect();
        assert_eq!(told, ["the mount option noatime", "the scheduler bfq", "the logical block of 4096 bytes"]);
        assert_eq!(chosen_scheduler("none [mq-deadline] kyber\n"), "mq-deadline");
        assert_eq!(chosen_scheduler("none\n"), "none");
    }
}

#[cfg(test)]
mod programs_tests {
    use super::*;
    use crate::failure::Explain as _;

    #[test]
    fn what_is_missing_names_its_package() {
        for (program, package) in [("mkfs.xfs", "xfsprogs"), ("mkfs.btrfs", "btrfs-progs"), ("mount", "mount")] {
            assert_eq!(package_of(program), Some(package));
        }
        let error = find("mkfs.no-such").unwrap_err();
        assert!(error.to_string().contains("there is no mkfs.no-such"), "{error}");
        assert!(error.hint().unwrap().contains("the package that contains mkfs.no-such"), "{error}");
    }

    #[test]
    fn a_program_that_does_not_end_is_stopped_with_what_it_started() {
        let looks = std::cell::Cell::new(0);
        let goes_on = || looks.replace(looks.get() + 1) < 3;
        let mark = format!("{}.25", 1000 + std::process::id());
        let sleeps = vec!["sh".to_owned(), "-c".to_owned(), format!("sleep {mark} & wait")];
        let error = run_each(&[sleeps], &goes_on).unwrap_err().to_string();
        assert!(error.contains("stopped before it ended"), "{error}");
        let left = || run("pgrep", ["-f", mark.as_str()]).is_ok();
        assert!((0..100).any(|_| !left() || {
            std::thread::sleep(ENDED_INTERVAL);
            false
        }));
    }

    #[test]
    fn of_much_that_a_program_says_the_end_is_told() {
        let loud = ["-c", "head -c 300000 /dev/zero | tr '\\0' x >&2; echo the reason >&2; exit 1"];
        let error = run("sh", loud).unwrap_err().to_string();
        assert!(error.contains("the reason") && error.len() < 5000, "{}", error.len());
    }

    #[test]
    fn arguments_reach_a_program_as_they_are() {
        let error = run("umount", ["/no; touch /tmp/pgthaw-no-such $(x)"]).unwrap_err().to_string();
        assert!(error.contains("/no; touch /tmp/pgthaw-no-such $(x)"), "{error}");
        assert!(!PathBuf::from("/tmp/pgthaw-no-such").exists());
    }
}
