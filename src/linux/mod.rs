//! What the kernel knows and does: the page cache, block devices, cgroups, processes.

pub mod arguments;
pub mod block_device;
pub mod capability;
pub mod cgroup;
pub mod clock;
pub mod direct_read;
mod error;
pub mod extents;
pub mod families;
pub mod home;
pub mod idle_memory;
pub mod loop_file_system;
pub mod machine;
pub mod memory;
pub mod page_cache;
pub mod pressure;
pub mod process;
pub mod read_ahead;
pub mod schedule;
pub mod threads;

pub use block_device::DeviceNumber;
pub use error::Error;
