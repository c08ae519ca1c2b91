//! The disk that a study asks for: a limit on the device that holds the data directory, and its read-ahead.

use std::path::{Path, PathBuf};

use super::error::Error;
use crate::failure::Explain as _;
use crate::linux::{self, DeviceNumber, DiskLimit, ReadAhead, ReadLimit, WriteLimit, read_block_device};
use crate::study::{Disk, Event, Events};
use crate::units::Bytes;

/// The disk as it can be had in a directory; what cannot be had says why.
pub fn choose_in_force(directory: &Path, disk: Disk) -> Disk {
    choose_in_force_on(directory, disk, DeviceUse::Shared)
}

/// Who uses the device that is limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceUse {
    /// Anybody: those who join the limit are limited.
    Shared,
    /// Whom the study starts, alone: the device itself is limited.
    Own,
}

/// The same, where it is known who uses the device.
pub fn choose_in_force_on(directory: &Path, mut disk: Disk, device_use: DeviceUse) -> Disk {
    if disk.read_ahead.is_some() {
        disk.read_ahead_not_enforced = ReadAhead::available(directory).err().map(|error| explain(&error));
    }
    let is_there = || match device_use {
        DeviceUse::Shared => read_block_device(directory).map(drop),
        DeviceUse::Own => Ok(()),
    };
    let is_possible = || is_there().and_then(|()| DiskLimit::available());
    if disk.riops.is_some() || disk.rbps.is_some() {
        disk.not_enforced = is_possible().err().map(|error| explain(&error));
    }
    if disk.limits_writes() {
        let is_own = device_use == DeviceUse::Own;
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

/// A part of a server that has a device of its own.
#[derive(Clone, Debug)]
pub struct PartDisk {
    /// Its name.
    pub part: &'static str,
    pub device: DeviceNumber,
    /// On its file system.
    pub directory: PathBuf,
    /// As it can be had there.
    pub disk: Disk,
}

/// The limit that is asked for, also of the server's `parts`, with one on the memory of those who join; `None` where there is nothing
/// to limit, or no device that can be.
pub fn create_limit(
    disk: &Disk,
    parts: &[PartDisk],
    device: Option<DeviceNumber>,
    device_use: DeviceUse,
    memory: Option<Bytes>,
) -> Result<Option<DiskLimit>, Error> {
    let is_asked = disk.is_limited() || memory.is_some() || parts.iter().any(|part| part.disk.is_limited());
    let Some(device) = device.filter(|_| is_asked) else { return Ok(None) };
    let limit = match device_use {
        DeviceUse::Shared => DiskLimit::create(device, read_limit_of(disk))?,
        DeviceUse::Own => DiskLimit::create_for_own(device, read_limit_of(disk))?,
    };
    let limit = limit_writes(limit, disk)?;
    let of_part = |limit: DiskLimit, part: &PartDisk| {
        limit.with_own(part.device, read_limit_of(&part.disk), write_limit_of(&part.disk))
    };
    let limit = parts.iter().filter(|part| part.disk.is_limited()).try_fold(limit, of_part)?;
    Ok(Some(match memory {
        Some(memory) => limit.with_memory(memory)?,
        None => limit,
    }))
}

pub fn read_limit_of(disk: &Disk) -> ReadLimit {
    match disk.not_enforced {
        None => ReadLimit { reads_per_second: disk.riops, read_bytes_per_second: disk.rbps },
        Some(_) => ReadLimit::default(),
    }
}

fn write_limit_of(disk: &Disk) -> WriteLimit {
    match disk.writes_not_enforced {
        None => WriteLimit { writes_per_second: disk.wiops, written_bytes_per_second: disk.wbps },
        Some(_) => WriteLimit::default(),
    }
}

fn limit_writes(limit: DiskLimit, disk: &Disk) -> Result<DiskLimit, Error> {
    match write_limit_of(disk) {
        asked if asked == WriteLimit::default() => Ok(limit),
        asked => Ok(limit.with_writes(asked)?),
    }
}

/// Can a server go on after a trial on this disk? Files that it has opened keep the read-ahead that they were opened with.
pub fn leaves_files_as_they_were(disk: &Disk) -> bool {
    disk.read_ahead.is_none() || disk.read_ahead_not_enforced.is_some()
}

/// Tells what of the disk asked for is not in force.
pub fn tell_disk_remarks(disk: &Disk, events: &Events) {
    if let Some(reason) = &disk.not_enforced {
        events.tell(Event::Remark(format!("the native disk is measured, without a limit: {reason}")));
    }
    if let Some(reason) = &disk.read_ahead_not_enforced {
        events.tell(Event::Remark(format!("the device keeps its own read-ahead: {reason}")));
    }
}

/// Puts back the read-ahead that a killed run left changed.
pub fn repair_read_ahead(directory: &Path, events: &Events) {
    // Who may not see whether there is anything to repair has no part in it.
    if let Ok(Some(own)) = ReadAhead::repair(directory) {
        let remark = format!("a run that was killed had left the device's read-ahead changed: it is {own} again");
        events.tell(Event::Remark(remark));
    }
}
