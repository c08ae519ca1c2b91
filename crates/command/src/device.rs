//! Device limits: given by the user, probed, or those of a common cloud volume.

use std::path::Path;

use cache::warm::probe::{DeviceRecord, ProfileStore};
use cache::warm::{DeviceProfile, Error};
use host::linux::block_device::{BlockDevice, DEFAULT_READ_AHEAD, read_block_device};
use host::linux::cgroup::{ReadLimit, has_read_limit, read_limit_of};
use host::units::Bytes;
use model::{DEFAULT_LATENCY_SECONDS, Device, READ_CPU_SECONDS};

/// Stored profile of the directory's device, probed under the read limit of this process and the server.
pub fn find_profile(directory: &Path, server: Option<u32>) -> Result<Option<DeviceRecord>, Error> {
    let device = read_block_device(directory)?;
    ProfileStore::open().find(&device, find_limit(&device, server))
}

/// As `find_profile`; `None` without a directory or known device.
pub fn find_profile_of(directory: Option<&Path>, server: Option<u32>) -> Result<Option<DeviceRecord>, Error> {
    match directory.map(|directory| find_profile(directory, server)) {
        None | Some(Err(Error::Linux(_))) => Ok(None),
        Some(found) => found,
    }
}

pub fn read_device_with(
    riops: Option<f64>,
    rbps: Option<Bytes>,
    directory: Option<&Path>,
    server: Option<u32>,
) -> Result<(Device, String), Error> {
    let is_told = riops.is_some() || rbps.is_some();
    let (known, source) = match find_profile_of(directory, server)? {
        Some(record) => {
            let day = record.measured_at.strftime("%Y-%m-%d");
            let source = if is_told { format!("as given; latency probed {day}") } else { format!("probed {day}") };
            (probed(&record), source)
        }
        None => {
            let limit = find_limit_of(directory, server);
            let DeviceProfile { reads_per_second, bandwidth, .. } = DeviceProfile::limited(limit);
            let source = match (is_told, limit == ReadLimit::default()) {
                (true, _) => "as given",
                (_, false) => "the limit of the cgroup",
                _ => "the rates of a common cloud volume: this device was not probed",
            };
            (Device::with_limits(reads_per_second, bandwidth.0 as f64, DEFAULT_LATENCY_SECONDS), source.to_owned())
        }
    };
    let reads_per_second = riops.unwrap_or(known.reads_per_second);
    let bandwidth = rbps.map_or(known.bandwidth, |rbps| rbps.0 as f64);
    let rate = Bytes(bandwidth as u64).per_second();
    let described = format!("the device serves {reads_per_second:.0} reads/s and {rate} ({source})");
    Ok((Device { reads_per_second, bandwidth, ..known }, described))
}

/// Device with the measured read latencies, minus the kernel's CPU time, which the model adds.
pub fn probed(record: &DeviceRecord) -> Device {
    let measurement = &record.measurement;
    let point = |point: &cache::warm::probe::DepthPoint| {
        let depth = f64::from(point.depth);
        (depth, depth / point.reads_per_second.max(f64::MIN_POSITIVE))
    };
    let mut latency: Vec<(f64, f64)> = measurement.by_depth.iter().map(point).collect();
    if latency.is_empty() {
        latency.push((1.0, measurement.latency_us_p50 * 1e-6));
    }
    latency.iter_mut().for_each(|(_, seconds)| *seconds = (*seconds - READ_CPU_SECONDS).max(READ_CPU_SECONDS));
    Device {
        reads_per_second: measurement.profile.reads_per_second,
        bandwidth: measurement.profile.bandwidth.0 as f64,
        latency,
    }
}

pub fn read_ahead_bytes(told: Option<Bytes>, directory: Option<&Path>) -> Bytes {
    let set = || read_block_device(directory?).ok().map(|device| device.read_ahead_bytes);
    told.or_else(set).unwrap_or(DEFAULT_READ_AHEAD)
}

pub fn find_limit(device: &BlockDevice, server: Option<u32>) -> ReadLimit {
    let limited = std::iter::once(std::process::id()).chain(server);
    let limits = limited.filter_map(|pid| read_limit_of(pid, device.number).ok());
    limits.fold(ReadLimit::default(), ReadLimit::and)
}

/// As `find_limit`; no limit without a directory or known device. Identifies the device, which is slow under load, only
/// if a cgroup has a limit.
pub fn find_limit_of(directory: Option<&Path>, server: Option<u32>) -> ReadLimit {
    let has_limit = || std::iter::once(std::process::id()).chain(server).any(has_read_limit);
    let device = directory.filter(|_| has_limit()).and_then(|directory| read_block_device(directory).ok());
    device.map(|device| find_limit(&device, server)).unwrap_or_default()
}
