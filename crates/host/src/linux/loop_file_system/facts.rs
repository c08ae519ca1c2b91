//! What a mounted file system and its device are set to, and how that differs from what was asked for.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use procfs::process::MountInfo;
use serde::{Deserialize, Serialize};

use super::asked::FileSystemAsked;
use crate::linux::Error;
use crate::linux::block_device::BlockDevice;
use crate::units::Bytes;

/// What is so without being shown, unless its opposite is.
const SILENT: [&str; 12] = [
    "async",
    "auto",
    "autodefrag=off",
    "barrier",
    "datacow",
    "datasum",
    "defaults",
    "delalloc",
    "dev",
    "exec",
    "rw",
    "suid",
];

/// Two words for one thing.
const ALIASES: [(&str, &str); 6] = [
    ("barrier=0", "nobarrier"),
    ("barrier=1", "barrier"),
    ("block_validity=0", "noblock_validity"),
    ("atime", "strictatime"),
    ("discard=off", "nodiscard"),
    ("norelatime", "strictatime"),
];

/// A file system as the kernel has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileSystemFacts {
    /// `ext4`, `xfs`, `btrfs`.
    pub kind: String,
    /// Options of the mount and of the file system, as /proc/self/mountinfo has them; with ext4 also those that it has by itself.
    pub options: Vec<String>,
    pub image_bytes: Bytes,
    /// Does the loop device read and write past the page cache?
    pub direct_io: bool,
    pub scheduler: String,
    pub read_ahead_bytes: Bytes,
    pub logical_block_bytes: u32,
    /// The study's own commands by which it was made and mounted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<String>,
}

/// Something that is not as it was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deviation {
    /// `the mount option noatime`.
    pub what: String,
    /// What was read instead.
    pub found: String,
}

impl FileSystemFacts {
    /// Reads them of a mount, its device and the file that holds it.
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

    /// What was asked for and is not so.
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
        // `compress=zstd` is shown with the level that it means.
        let with_more = format!("{option}:");
        let is_shown = |name: &str| self.options.iter().any(|shown| shown == name || shown.starts_with(&with_more));
        let opposite = option.strip_prefix("no").map_or_else(|| format!("no{option}"), str::to_owned);
        match option {
            // With neither of the two every access counts.
            "strictatime" => !is_shown("relatime") && !is_shown("noatime"),
            _ => is_shown(option) || (SILENT.contains(&option) && !is_shown(&opposite)),
        }
    }
}

fn render(options: &HashMap<String, Option<String>>) -> impl Iterator<Item = String> {
    options.iter().map(|(name, value)| match value {
        Some(value) => format!("{name}={value}"),
        None => name.clone(),
    })
}

/// The one in brackets, of `[none] mq-deadline`.
fn chosen_scheduler(text: &str) -> String {
    let chosen = text.split_whitespace().find_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
    chosen.unwrap_or(text.trim()).to_owned()
}

#[cfg(test)]
mod tests {
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
