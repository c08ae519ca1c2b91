//! The file systems that are made for a site: that of its cluster, and one for each part on a device of its own.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use super::disk::PartDisk;
use super::error::Error;
use super::left::{FILE_SYSTEM_PREFIX, claim, find_left};
use super::stop::Stop;
use crate::files::OwnDirectory;
use crate::linux::{BlockDevice, Devices, FileSystemAsked, FileSystemFacts, LoopFileSystem};
use crate::observe::OsSample;
use crate::study::{
    Disk, Event, Events, FileSystemSpec, Finding, Part, Places, Sweep, TrialDevice, image_bytes, part_image_bytes,
};

/// What lies on the device of the data directory, where parts lie elsewhere, and what its file system's log lies on.
const REST: &str = "rest";
const LOG: &str = "log";

/// What is asked of the file systems of a site.
#[derive(Debug)]
pub struct FileSystemMaker<'a> {
    /// Where they are made.
    pub parent: &'a Path,
    /// In the study.
    pub name: &'a str,
    pub spec: &'a FileSystemSpec,
    pub places: &'a Places,
    pub sweep: &'a Sweep,
    pub events: &'a Events,
    pub stop: &'a Stop,
}

/// What a trial's file systems were set to while it ran.
#[derive(Debug, Default)]
pub struct GroundFacts {
    /// Of the one that was made for the cluster; `None` on the one that was there.
    pub own: Option<FileSystemFacts>,
    /// Of each part with a device of its own, by its name.
    pub parts: BTreeMap<&'static str, FileSystemFacts>,
    /// What is not as it was asked for.
    pub deviations: Vec<Finding>,
}

/// File systems that were made for a site.
#[derive(Debug)]
pub struct OwnFileSystem {
    // Dropped in this order: they lie in a directory of the other.
    parts: BTreeMap<Part, LoopFileSystem>,
    mounted: LoopFileSystem,
    asked: FileSystemAsked,
    /// Names of the parts' disks.
    places: Places,
    /// Held while it is in use.
    _claim: File,
}

impl FileSystemMaker<'_> {
    /// Makes them, claimed with `text`, or mounts what a killed run has left with this claim.
    pub fn make(&self, text: &str) -> Result<OwnFileSystem, Error> {
        if let Some(directory) = find_left(self.parent, text) {
            let claim = claim(&directory, text)?;
            let left = LoopFileSystem::in_directory(&directory);
            // Without a whole cluster it is not worth much, and may be half made itself.
            if let Ok(parts) = self.mount_again(&left)
                && find_left(&left.mount_point(), text).is_some()
            {
                return Ok(self.own(left, parts, claim));
            }
            left.remove()?;
        }
        let made = OwnDirectory::create(FILE_SYSTEM_PREFIX, self.parent);
        let made = made.map_err(|source| Error::file("create a directory in", self.parent, source))?;
        let directory = made.path();
        let claim = claim(&directory, text)?;
        // The server's user goes through to the mount point.
        let opened = made.directory().give_to(None, 0o711);
        opened.map_err(|source| Error::file("open to others", &directory, source))?;
        let file_system = LoopFileSystem::in_directory(&directory);
        let mut parts = BTreeMap::new();
        self.events.tell(Event::Step(format!("making the file system {}", self.name)));
        self.make_one(&file_system, image_bytes(self.spec, self.sweep))?;
        for part in self.places.keys() {
            self.events.tell(Event::Step(format!("making the file system {} for the {}", self.name, part.name())));
            let one = file_system.create_part(part.name())?;
            self.make_one(&one, part_image_bytes(*part, self.spec, self.sweep))?;
            parts.insert(*part, one);
        }
        Ok(self.own(file_system, parts, claim))
    }

    fn make_one(&self, file_system: &LoopFileSystem, size: crate::units::Bytes) -> Result<(), Error> {
        let is_written = file_system.write_images(&self.spec.asked, size, |share| {
            self.events.tell(Event::StepShare(share));
            !self.stop.is_requested()
        })?;
        if !is_written {
            return Err(Error::Interrupted);
        }
        let made = file_system.make(&self.spec.asked, &|| !self.stop.is_requested());
        // What was stopped failed for that.
        self.stop.check()?;
        Ok(made?)
    }

    fn mount_again(&self, left: &LoopFileSystem) -> Result<BTreeMap<Part, LoopFileSystem>, Error> {
        let goes_on = || !self.stop.is_requested();
        left.mount_again(&self.spec.asked, &goes_on)?;
        let mount = |part: &Part| {
            let one = left.create_part(part.name())?;
            one.mount_again(&self.spec.asked, &goes_on)?;
            Ok((*part, one))
        };
        self.places.keys().map(mount).collect()
    }

    fn own(&self, mounted: LoopFileSystem, parts: BTreeMap<Part, LoopFileSystem>, claim: File) -> OwnFileSystem {
        let (asked, places) = (self.spec.asked.clone(), self.places.clone());
        OwnFileSystem { parts, mounted, asked, places, _claim: claim }
    }
}

impl OwnFileSystem {
    /// Where the cluster's is mounted.
    pub fn mount_point(&self) -> PathBuf {
        self.mounted.mount_point()
    }

    /// Where each part's is mounted.
    pub fn part_mount_points(&self) -> Vec<(Part, PathBuf)> {
        self.parts.iter().map(|(part, one)| (*part, one.mount_point())).collect()
    }

    /// The files that they lie in.
    pub fn images(&self) -> Vec<PathBuf> {
        [&self.mounted].into_iter().chain(self.parts.values()).map(LoopFileSystem::image).collect()
    }

    /// What the server lies on.
    pub fn devices(&self) -> Devices {
        let main = self.mounted.read_device().ok().map(|device| device.number);
        let all = self.each_device();
        let parts = if all.len() > 1 {
            all.into_iter().map(|(name, device)| (name, device.number)).collect()
        } else {
            BTreeMap::new()
        };
        Devices { main, parts }
    }

    /// Every device by what lies on it.
    fn each_device(&self) -> Vec<(&'static str, BlockDevice)> {
        let log = self.mounted.read_log_device().map(|device| (LOG, device));
        let rest = self.mounted.read_device().ok().map(|device| (REST, device));
        let parts = self.parts.iter().flat_map(|(part, one)| {
            let own = one.read_device().ok().map(|device| (part.name(), device));
            own.into_iter().chain(one.read_log_device().map(|device| (part.log_name(), device)))
        });
        rest.into_iter().chain(log).chain(parts).collect()
    }

    /// What limits each part's device, of the disks that are in force here by name.
    pub fn part_disks(&self, disks: &BTreeMap<String, Disk>) -> Vec<PartDisk> {
        let part = |(part, one): (&Part, &LoopFileSystem)| {
            let disk = disks.get(self.places.get(part)?)?.clone();
            Some(PartDisk {
                part: part.name(),
                device: one.read_device().ok()?.number,
                directory: one.mount_point(),
                disk,
            })
        };
        self.parts.iter().filter_map(part).collect()
    }

    /// What limits each of several devices, by what lies on it; `disk` limits the rest.
    pub fn limits(&self, disk: &Disk, disks: &BTreeMap<String, Disk>) -> Vec<(&'static str, Disk)> {
        let parts = self.part_disks(disks).into_iter().map(|part| (part.part, part.disk));
        if self.each_device().len() > 1 {
            [(REST, disk.clone())].into_iter().chain(parts).collect()
        } else {
            Vec::new()
        }
    }

    /// All of them as the kernel has them, and what is not as it was asked for.
    pub fn read_facts(&self) -> Result<GroundFacts, Error> {
        let own = self.read_facts_of(&self.mounted)?;
        let mut facts =
            GroundFacts { deviations: self.find_deviations(&own, ""), own: Some(own), ..GroundFacts::default() };
        for (part, one) in &self.parts {
            let of_part = self.read_facts_of(one)?;
            let of = format!(" of the device for the {}", part.name());
            facts.deviations.extend(self.find_deviations(&of_part, &of));
            facts.parts.insert(part.name(), of_part);
        }
        Ok(facts)
    }

    fn read_facts_of(&self, one: &LoopFileSystem) -> Result<FileSystemFacts, Error> {
        Ok(FileSystemFacts { commands: self.asked.render_commands(), ..one.read_facts()? })
    }

    fn find_deviations(&self, facts: &FileSystemFacts, of: &str) -> Vec<Finding> {
        let deviations = facts.deviations(&self.asked).into_iter();
        deviations.map(|one| Finding::NotInForce { what: format!("{}{of}", one.what), reason: one.found }).collect()
    }

    /// What each of several devices did in these seconds; `disk` is the name of what limits the rest.
    pub fn describe_devices(&self, disk: &str, facts: &GroundFacts, seconds: &[OsSample]) -> Vec<TrialDevice> {
        let all = self.each_device();
        let describe = |(name, device): &(&'static str, BlockDevice)| {
            let part = self.parts.iter().find(|(part, _)| part.name() == *name);
            let disk = part
                .map_or_else(|| (*name == REST).then(|| disk.to_owned()), |(part, _)| self.places.get(part).cloned());
            let facts = facts.parts.get(name).cloned();
            TrialDevice::new(name, disk, &device.name, facts, seconds)
        };
        if all.len() > 1 { all.iter().map(describe).collect() } else { Vec::new() }
    }

    /// Takes all of them away.
    pub fn remove(self) -> Result<(), Error> {
        // The parts go with it.
        Ok(self.mounted.remove()?)
    }
}
