//! What is asked of a file system, and whether it can be had here.

use std::path::Path;

use super::programs::find;
use crate::linux::Error;

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

/// What is asked of a file system.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct FileSystemAsked {
    pub kind: FileSystemKind,
    /// As `mount -o` has them.
    pub options: Vec<String>,
    /// Of the loop device: its I/O scheduler, and its sectors in bytes; `None` is the kernel's choice.
    pub scheduler: Option<String>,
    pub logical_block_bytes: Option<u32>,
}

impl FileSystemAsked {
    /// Can it be made here? The error says what is missing.
    pub fn check_available(&self) -> Result<(), Error> {
        if !rustix::process::geteuid().is_root() {
            return Err(Error::Unavailable {
                what: "a file system of one's own",
                reason: "it is made, attached and mounted by root".into(),
                remedy: "run pgthaw as root, or leave out points.file_system".into(),
            });
        }
        for program in [self.kind.maker(), "losetup", "mount", "umount"] {
            find(program)?;
        }
        match Path::new("/dev/loop-control").exists() {
            true => Ok(()),
            false => Err(Error::Unavailable {
                what: "a file system of one's own",
                reason: "there is no /dev/loop-control".into(),
                remedy: "modprobe loop; in a container: docker run --privileged".into(),
            }),
        }
    }
}
