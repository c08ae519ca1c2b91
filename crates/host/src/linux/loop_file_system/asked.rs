//! What is asked of a file system, and whether it can be had here.

use std::path::Path;

use super::programs::find;
use crate::linux::Error;
use crate::units::Bytes;

/// A kind of file system that can be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FileSystemKind {
    Ext4,
    Xfs,
    Btrfs,
}

impl FileSystemKind {
    pub const ALL: [FileSystemKind; 3] = [FileSystemKind::Ext4, FileSystemKind::Xfs, FileSystemKind::Btrfs];

    /// As `mount -t` has it.
    pub fn name(self) -> &'static str {
        match self {
            FileSystemKind::Ext4 => "ext4",
            FileSystemKind::Xfs => "xfs",
            FileSystemKind::Btrfs => "btrfs",
        }
    }

    /// The program that makes it.
    pub fn maker(self) -> &'static str {
        match self {
            FileSystemKind::Ext4 => "mkfs.ext4",
            FileSystemKind::Xfs => "mkfs.xfs",
            FileSystemKind::Btrfs => "mkfs.btrfs",
        }
    }

    /// Nothing is left for later: a thread that goes on making the file system would be measured too.
    pub fn maker_arguments(self) -> &'static [&'static str] {
        match self {
            FileSystemKind::Ext4 => &["-q", "-F", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0"],
            FileSystemKind::Xfs | FileSystemKind::Btrfs => &["-q", "-f", "-K"],
        }
    }
}

/// What stands for something in the commands of one's own: the loop device, that of the log, where it is mounted, and a name that
/// no other file system has.
pub const PLACEHOLDERS: [&str; 4] = ["{device}", "{log_device}", "{directory}", "{name}"];

/// A program and its arguments.
pub type Command = Vec<String>;

/// Commands by which a file system is made, mounted and unmounted. No shell reads them.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct OwnCommands {
    pub make: Vec<Command>,
    /// Nothing where it is mounted when it is made.
    pub mount: Vec<Command>,
    /// `umount` when there is none.
    pub unmount: Vec<Command>,
    /// Of a second loop device, for its log or journal.
    pub log_device: Option<Bytes>,
}

/// How a file system is made.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Making {
    Kind(FileSystemKind),
    Commands(OwnCommands),
}

/// What is asked of a file system.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct FileSystemAsked {
    #[serde(flatten)]
    pub making: Making,
    /// As `mount -o` has them; none beside commands of one's own, which have them themselves.
    pub options: Vec<String>,
    /// Of the loop device: its I/O scheduler, and its sectors in bytes; `None` is the kernel's choice.
    pub scheduler: Option<String>,
    pub logical_block_bytes: Option<u32>,
}

impl FileSystemAsked {
    /// The commands of one's own by which it is made and mounted, as one would type them.
    pub fn render_commands(&self) -> Vec<String> {
        let Making::Commands(own) = &self.making else { return Vec::new() };
        let render = |command: &Command| {
            shlex::try_join(command.iter().map(String::as_str)).unwrap_or_else(|_| command.join(" "))
        };
        own.make.iter().chain(&own.mount).map(render).collect()
    }

    /// Bytes of a second device, for its log.
    pub fn log_device(&self) -> Option<Bytes> {
        match &self.making {
            Making::Commands(own) => own.log_device,
            Making::Kind(_) => None,
        }
    }

    /// Can it be made here? The error says what is missing.
    pub fn check_available(&self) -> Result<(), Error> {
        if !rustix::process::geteuid().is_root() {
            return Err(Error::Unavailable {
                what: "a file system of one's own",
                reason: "it is made, attached and mounted by root".into(),
                remedy: "run pgthaw as root, or leave out points.file_system".into(),
            });
        }
        for program in ["losetup", "mount", "umount"] {
            find(program)?;
        }
        match &self.making {
            Making::Kind(kind) => drop(find(kind.maker())?),
            Making::Commands(own) => own.check_available()?,
        }
        match Path::new("/dev/loop-control").exists() {
            true => Ok(()),
            false => Err(Error::Unavailable {
                what: "a file system of one's own",
                reason: "there is no /dev/loop-control".into(),
                remedy: "modprobe loop; in a container: `docker run --privileged`".into(),
            }),
        }
    }
}

impl OwnCommands {
    fn check_available(&self) -> Result<(), Error> {
        let commands = [&self.make, &self.mount, &self.unmount].into_iter().flatten();
        for program in commands.filter_map(|command| command.first()) {
            find(program)?;
            // It makes the device when it is loaded.
            if ["zfs", "zpool"].contains(&program.as_str()) && !Path::new("/dev/zfs").exists() {
                return Err(Error::Unavailable {
                    what: "a file system of one's own",
                    reason: "this kernel has no module zfs: there is no /dev/zfs".into(),
                    remedy: "`apt-get install zfs-dkms` (its headers have to fit the kernel), then modprobe zfs".into(),
                });
            }
        }
        Ok(())
    }
}

/// What the placeholders of one file system stand for.
#[derive(Debug)]
pub(super) struct Names {
    pub device: String,
    pub log_device: String,
    pub directory: String,
    pub name: String,
}

impl Names {
    /// The command with what its placeholders stand for; each is part of one argument, whatever it holds.
    pub fn fill(&self, command: &[String]) -> Command {
        let values = [&self.device, &self.log_device, &self.directory, &self.name];
        let fill = |word: &String| {
            let all = PLACEHOLDERS.iter().zip(values);
            all.fold(word.clone(), |word, (placeholder, value)| word.replace(placeholder, value))
        };
        command.iter().map(fill).collect()
    }
}
