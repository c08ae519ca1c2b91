//! A limit on a device whoever uses it, of a device that nobody else uses.
//!
//! In version 1 a cgroup's limit does not hold for what the kernel writes on its behalf: a file system's journal, and dirty
//! pages that are written back. All of that is done in the root cgroup, which can be limited too.

use std::fs;
use std::path::PathBuf;

use super::hierarchy::{CgroupVersion, Controller, Hierarchy};
use super::throttle::{self, ReadUsage};
use crate::linux::{DeviceNumber, Error};
use crate::units::Bytes;

/// Ends the limits that a killed run has left on a device of its own.
pub fn clear_limits_on_own(device: DeviceNumber) -> Result<(), Error> {
    let hierarchy = Hierarchy::find(Controller::Io)?;
    match hierarchy.version {
        CgroupVersion::V1 => WholeDevice::create(hierarchy, device).map(drop),
        // There the limit is a cgroup's, which is swept away when the next one is made.
        CgroupVersion::V2 => Ok(()),
    }
}

/// The root cgroup with limits on one device, until this is dropped.
#[derive(Debug)]
pub struct WholeDevice {
    hierarchy: Hierarchy,
    device: DeviceNumber,
    /// What was read before: the root counts from when the device was made.
    before: ReadUsage,
}

impl WholeDevice {
    /// Begins without a limit, whatever was left there.
    pub fn create(hierarchy: Hierarchy, device: DeviceNumber) -> Result<WholeDevice, Error> {
        let mut whole = WholeDevice { hierarchy, device, before: ReadUsage::default() };
        whole.clear()?;
        whole.before = whole.read_usage()?;
        Ok(whole)
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.hierarchy.mount_point.join(name)
    }

    pub fn read(&self, name: &str) -> Result<String, Error> {
        let path = self.file(name);
        fs::read_to_string(&path).map_err(|error| Error::cgroup("read", &path, error))
    }

    pub fn write(&self, name: &str, text: &str) -> Result<(), Error> {
        let path = self.file(name);
        fs::write(&path, text).map_err(|error| Error::cgroup("write to", &path, error))
    }

    /// Moves a process where the limit holds.
    pub fn join(&self, pid: u32) -> Result<(), Error> {
        self.write("cgroup.procs", &pid.to_string())
    }

    pub fn read_usage(&self) -> Result<ReadUsage, Error> {
        let usage = throttle::read_usage(self.hierarchy.version, self.device, |file| self.read(file))?;
        Ok(ReadUsage {
            reads: usage.reads.saturating_sub(self.before.reads),
            read_bytes: Bytes(usage.read_bytes.0.saturating_sub(self.before.read_bytes.0)),
        })
    }

    /// Ends the limits. Dropping ends them too, and keeps quiet.
    pub fn clear(&self) -> Result<(), Error> {
        let lines = throttle::lines_without_limit(CgroupVersion::V1, self.device);
        lines.iter().try_for_each(|(file, line)| self.write(file, line))
    }
}

impl Drop for WholeDevice {
    fn drop(&mut self) {
        // Nobody else uses the device; there is nobody left to tell.
        let _ = self.clear();
    }
}
