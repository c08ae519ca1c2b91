//! What the device of a study gives, as far as anybody knows: for the forecast that `bench` makes before its trials.

use std::path::Path;

use super::doctor_probe::find_profile;
use super::predict::hardware::{DEFAULT_LATENCY_SECONDS, probed};
use crate::bench::Disk;
use crate::model::Device;

/// The limit where one is asked for, else what `doctor --probe` measured.
pub fn find_bench_device(disk: &Disk, directory: &Path) -> Option<Device> {
    if disk.riops.is_none() && disk.rbps.is_none() {
        return find_profile(directory).ok().flatten().map(|record| probed(&record));
    }
    let reads = disk.riops.map_or(f64::INFINITY, |reads| reads as f64);
    let bandwidth = disk.rbps.map_or(f64::INFINITY, |bytes| bytes.0 as f64);
    Some(Device::with_limits(reads, bandwidth, DEFAULT_LATENCY_SECONDS))
}
