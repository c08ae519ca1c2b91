//! What the server's device and memory can give: as told, as probed, or a common cloud volume.

use std::path::Path;

use super::arguments::PredictArguments;
use cache::warm;
use command::read_device_with;
use host::linux::machine::count_cores;
use host::linux::memory::read_memory;
use model::Device;

/// The device, and where its figures are from. Limits that are told hold on top of what was probed.
pub fn read_device(arguments: &PredictArguments, directory: Option<&Path>) -> Result<(Device, String), warm::Error> {
    read_device_with(arguments.riops, arguments.rbps, directory)
}

/// Processors, as told or as this machine has.
pub fn read_cores(arguments: &PredictArguments) -> f64 {
    arguments.cores.unwrap_or_else(count_cores)
}

/// Pages that server and page cache can hold together. Of a server elsewhere it is not known.
pub fn read_memory_pages(
    arguments: &PredictArguments,
    is_local: bool,
    block_bytes: f64,
    assumptions: &mut Vec<String>,
) -> f64 {
    let here = is_local.then(read_memory).and_then(Result::ok).map(|memory| memory.total_bytes);
    match arguments.memory.or(here) {
        Some(memory) => {
            assumptions.push(format!("{memory} of memory for what is cached"));
            memory.0 as f64 / block_bytes
        }
        None => {
            assumptions.push("all of it fits into memory (--memory says how much there is)".to_owned());
            f64::INFINITY
        }
    }
}
