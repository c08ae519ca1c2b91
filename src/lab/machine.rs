//! The host that is measured, and the disk that holds a directory.

use std::path::Path;

use super::error::Error;
use crate::linux::{BlockDevice, read_controller, read_machine, read_mount};
use crate::study::{Device, Machine, NO_DISK};

/// The host, and the disk that holds `directory`.
pub fn describe_machine(directory: &Path, device: Option<&BlockDevice>) -> Result<Machine, Error> {
    let facts = read_machine()?;
    let device = device.map_or_else(|| Device::nameless(NO_DISK), describe_device);
    Ok(Machine {
        hostname: facts.hostname,
        kernel: facts.kernel,
        cpu_model: facts.cpu_model,
        cores: facts.cores,
        memory_bytes: facts.memory_bytes,
        file_system: read_mount(directory)?.file_system,
        device,
    })
}

fn describe_device(device: &BlockDevice) -> Device {
    let behind = read_controller(device.number);
    Device {
        name: device.name.clone(),
        major_minor: device.number.to_string(),
        rotational: device.is_rotational,
        read_ahead_bytes: device.read_ahead_bytes,
        model: behind.model,
        drivers: behind.drivers,
        write_cache: behind.write_cache,
    }
}
