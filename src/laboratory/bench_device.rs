//! What the device of a study gives, as far as anybody knows: for the forecast that `bench` makes before its trials.

use std::path::Path;

use crate::command::{find_profile, read_device_with};
use crate::model::Device;
use crate::study::Disk;
use crate::warm;

/// The limits in force, with the latency of `doctor --probe`; without either a common cloud volume. Says which.
pub fn read_bench_device(disk: &Disk, directory: &Path) -> Result<(Device, String), warm::Error> {
    let riops = disk.riops.filter(|_| disk.not_enforced.is_none());
    let rbps = disk.rbps.filter(|_| disk.not_enforced.is_none());
    read_device_with(riops.map(|riops| riops as f64), rbps, Some(directory))
}

/// The device of a study where it need not be guessed: a limit is in force, or `doctor --probe` measured it.
pub fn find_bench_device(disk: &Disk, directory: &Path) -> Option<Device> {
    let is_limited = disk.not_enforced.is_none() && (disk.riops.is_some() || disk.rbps.is_some());
    let is_known = is_limited || matches!(find_profile(directory), Ok(Some(_)));
    let (device, _) = is_known.then(|| read_bench_device(disk, directory).ok()).flatten()?;
    Some(device)
}
