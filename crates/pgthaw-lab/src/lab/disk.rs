use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use super::launch::Work;
use super::left::{FILE_SYSTEM_PREFIX, claim, find_left};
use crate::study::{
    Disk, Error, Event, Events, FileSystemSpec, Finding, Part, Places, Result, Sweep, TrialDevice, image_bytes,
};
use host::failure::Explain as _;
use host::files::OwnDirectory;
use host::linux;
use host::linux::{
    BlockDevice, DeviceLimit, DeviceNumber, Devices, DiskLimit, FileSystemAsked, FileSystemFacts, LoopFileSystem,
    ReadAhead, ReadLimit, WriteLimit, read_block_device,
};
use host::units::Bytes;
use observe::{DeviceUse, OsSample};

/// Adds to `disk` why its limits or read-ahead cannot be enforced. `is_own`: only the study uses the device.
pub fn choose_in_force(directory: &Path, mut disk: Disk, is_own: bool) -> Disk {
    if disk.read_ahead.is_some() {
        disk.read_ahead_not_enforced = ReadAhead::available(directory).err().map(|error| explain(&error));
    }
    let is_there = || if is_own { Ok(()) } else { read_block_device(directory).map(drop) };
    let is_possible = || is_there().and_then(|()| DiskLimit::available());
    if disk.riops.is_some() || disk.rbps.is_some() {
        disk.not_enforced = is_possible().err().map(|error| explain(&error));
    }
    if disk.limits_writes() {
        let possible = is_possible().and_then(|_| DiskLimit::writes_available(is_own));
        disk.writes_not_enforced = possible.err().map(|error| explain(&error));
    }
    disk
}

pub fn explain(error: &linux::Error) -> String {
    match error.hint() {
        Some(hint) => format!("{error}; {hint}"),
        None => error.to_string(),
    }
}

#[derive(Clone, Debug)]
pub struct PartDisk {
    pub part: &'static str,
    pub device: DeviceNumber,
    pub directory: PathBuf,
    pub disk: Disk,
}

/// `None` if nothing is limited, or without a device.
pub fn create_limit(
    disk: &Disk,
    parts: &[PartDisk],
    device: Option<DeviceNumber>,
    is_own: bool,
    memory: Option<Bytes>,
) -> Result<Option<DiskLimit>> {
    let is_asked = disk.is_limited() || memory.is_some() || parts.iter().any(|part| part.disk.is_limited());
    let Some(device) = device.filter(|_| is_asked) else { return Ok(None) };
    let limit_of = |number: DeviceNumber, disk: &Disk| {
        let reads = ReadLimit { reads_per_second: disk.riops, read_bytes_per_second: disk.rbps };
        let writes = WriteLimit { writes_per_second: disk.wiops, written_bytes_per_second: disk.wbps };
        DeviceLimit {
            number,
            reads: if disk.not_enforced.is_none() { reads } else { ReadLimit::default() },
            writes: if disk.writes_not_enforced.is_none() { writes } else { WriteLimit::default() },
        }
    };
    let parts = parts.iter().filter(|part| part.disk.is_limited()).map(|part| limit_of(part.device, &part.disk));
    let devices = [limit_of(device, disk)].into_iter().chain(parts).collect();
    Ok(Some(DiskLimit::create(devices, is_own, memory)?))
}

/// False if `disk` changes read-ahead, which affects only files opened later.
pub fn leaves_files_as_they_were(disk: &Disk) -> bool {
    disk.read_ahead.is_none() || disk.read_ahead_not_enforced.is_some()
}

pub fn repair_read_ahead(directory: &Path, events: &Events) {
    // Ignores errors: without permission, there is nothing to repair.
    if let Ok(Some(own)) = ReadAhead::repair(directory) {
        let remark = format!("restored the device's read-ahead to {own}: a killed run had changed it");
        events.tell(Event::Remark(remark));
    }
}

/// Names of the main file system's device and of its log device.
pub const REST: &str = "rest";
const LOG: &str = "log";

#[derive(Debug)]
pub struct FileSystemMaker<'a> {
    pub parent: &'a Path,
    pub name: &'a str,
    pub spec: &'a FileSystemSpec,
    pub places: &'a Places,
    pub sweep: &'a Sweep,
    pub work: Work<'a>,
}

#[derive(Debug, Default)]
pub struct GroundFacts {
    /// `None` if the cluster is on an existing file system.
    pub own: Option<FileSystemFacts>,
    pub parts: BTreeMap<&'static str, FileSystemFacts>,
    pub deviations: Vec<Finding>,
}

#[derive(Debug)]
pub struct OwnFileSystem {
    // Dropped first: the parts lie in a directory of `mounted`.
    parts: BTreeMap<Part, LoopFileSystem>,
    mounted: LoopFileSystem,
    asked: FileSystemAsked,
    places: Places,
    _claim: File,
}

impl FileSystemMaker<'_> {
    pub fn make(&self, text: &str) -> Result<OwnFileSystem> {
        if let Some(directory) = find_left(self.parent, text) {
            let claim = claim(&directory, text)?;
            let left = LoopFileSystem::in_directory(&directory);
            // Without a complete cluster, the file system may be incomplete too.
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
        // The server's user needs access to the mount point.
        let opened = made.directory().give_to(None, 0o711);
        opened.map_err(|source| Error::file("open to others", &directory, source))?;
        let file_system = LoopFileSystem::in_directory(&directory);
        let mut parts = BTreeMap::new();
        self.work.step(format!("creating the file system {}", self.name));
        self.make_one(&file_system, image_bytes(None, self.spec, self.sweep))?;
        for part in self.places.keys() {
            self.work.step(format!("creating the file system {} for the {}", self.name, part.name()));
            let one = file_system.create_part(part.name())?;
            self.make_one(&one, image_bytes(Some(*part), self.spec, self.sweep))?;
            parts.insert(*part, one);
        }
        Ok(self.own(file_system, parts, claim))
    }

    fn make_one(&self, file_system: &LoopFileSystem, size: Bytes) -> Result<()> {
        let is_written = file_system.write_images(&self.spec.asked, size, |share| {
            self.work.events.tell(Event::StepShare(share));
            !self.work.stop.is_requested()
        })?;
        if !is_written {
            return Err(Error::Interrupted);
        }
        let made = file_system.make(&self.spec.asked, &|| !self.work.stop.is_requested());
        // An interruption by the user precedes the error that it caused.
        self.work.stop.check()?;
        Ok(made?)
    }

    fn mount_again(&self, left: &LoopFileSystem) -> Result<BTreeMap<Part, LoopFileSystem>> {
        let goes_on = || !self.work.stop.is_requested();
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
    pub fn mount_point(&self) -> PathBuf {
        self.mounted.mount_point()
    }

    pub fn part_mount_points(&self) -> Vec<(Part, PathBuf)> {
        self.parts.iter().map(|(part, one)| (*part, one.mount_point())).collect()
    }

    pub fn images(&self) -> Vec<PathBuf> {
        [&self.mounted].into_iter().chain(self.parts.values()).map(LoopFileSystem::image).collect()
    }

    pub fn devices(&self) -> Devices {
        let main = self.mounted.read_device().ok().map(|device| device.number);
        Devices { main, parts: self.several().into_iter().map(|(name, device)| (name, device.number)).collect() }
    }

    /// Devices by the part that they hold; empty with only one device.
    fn several(&self) -> Vec<(&'static str, BlockDevice)> {
        let log = self.mounted.read_log_device().map(|device| (LOG, device));
        let rest = self.mounted.read_device().ok().map(|device| (REST, device));
        let parts = self.parts.iter().flat_map(|(part, one)| {
            let own = one.read_device().ok().map(|device| (part.name(), device));
            own.into_iter().chain(one.read_log_device().map(|device| (part.log_name(), device)))
        });
        let all: Vec<_> = rest.into_iter().chain(log).chain(parts).collect();
        if all.len() > 1 { all } else { Vec::new() }
    }

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

    pub fn read_facts(&self) -> Result<GroundFacts> {
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

    fn read_facts_of(&self, one: &LoopFileSystem) -> Result<FileSystemFacts> {
        Ok(FileSystemFacts { commands: self.asked.render_commands(), ..one.read_facts()? })
    }

    fn find_deviations(&self, facts: &FileSystemFacts, of: &str) -> Vec<Finding> {
        let deviations = facts.deviations(&self.asked).into_iter();
        deviations.map(|one| Finding::NotInForce { what: format!("{}{of}", one.what), reason: one.found }).collect()
    }

    /// `disk` names the main device's disk.
    pub fn describe_devices(&self, disk: &str, facts: &GroundFacts, seconds: &[OsSample]) -> Vec<TrialDevice> {
        let describe = |(name, device): &(&'static str, BlockDevice)| {
            let part = self.parts.iter().find(|(part, _)| part.name() == *name);
            let disk = part
                .map_or_else(|| (*name == REST).then(|| disk.to_owned()), |(part, _)| self.places.get(part).cloned());
            let uses = || seconds.iter().filter_map(|second| second.parts.get(*name));
            let mean = |of: fn(&DeviceUse) -> f64| uses().map(of).sum::<f64>() / uses().count().max(1) as f64;
            let (writes, written) = (mean(|one| one.writes as f64), mean(|one| one.written_bytes.0 as f64));
            TrialDevice {
                part: (*name).to_owned(),
                disk,
                device: device.name.clone(),
                reads_per_second: mean(|one| one.reads as f64),
                read_bytes_per_second: mean(|one| one.read_bytes.0 as f64),
                writes_per_second: writes,
                written_bytes_per_second: written,
                bytes_per_write: (writes > 0.0).then(|| written / writes),
                busy_ratio: mean(|one| one.busy_ratio),
                file_system: facts.parts.get(name).cloned(),
            }
        };
        self.several().iter().map(describe).collect()
    }

    pub fn remove(self) -> Result<()> {
        Ok(self.mounted.remove()?)
    }
}
