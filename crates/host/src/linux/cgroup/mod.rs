//! Control groups, version 1 and 2: a limit on a disk, the memory that a process may use, processes set apart from others.

mod disk_limit;
#[cfg(test)]
mod disk_limit_tests;
mod hierarchy;
mod isolation;
mod memory;
mod own_cgroup;
mod throttle;
mod whole_device;

pub use disk_limit::{DiskLimit, read_limit_of};
pub use hierarchy::CgroupVersion;
pub use isolation::{Isolation, remove_left_near};
pub use memory::{MemoryLimit, join_memory_of, memory_directory_of, move_memory_to, read_memory_limit};
pub use own_cgroup::LeftCgroup;
pub use throttle::{ReadLimit, ReadUsage, WriteLimit};
pub use whole_device::clear_limits_on_own;
