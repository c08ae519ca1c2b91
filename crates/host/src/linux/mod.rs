//! What the kernel knows and does: the page cache, block devices, cgroups, processes.

pub mod arguments;
pub mod block_device;
pub mod capability;
pub mod cgroup;
pub mod clients;
pub mod clock;
pub mod direct_read;
mod error;
pub mod extents;
pub mod families;
pub mod foreign_memory;
pub mod home;
pub mod idle_memory;
pub mod loop_file_system;
pub mod machine;
pub mod memory;
pub mod open_files;
pub mod own_program;
pub mod page_cache;
pub mod pressure;
pub mod process;
pub mod read_ahead;
pub mod ready;
pub mod schedule;
pub mod shared_words;
pub mod signals;
pub mod sockets;
pub mod threads;

pub use block_device::{
    BlockDevice, DEFAULT_READ_AHEAD, DeviceCounters, DeviceNumber, Devices, read_block_device, read_controller,
};
pub use cgroup::{DiskLimit, ReadLimit, WriteLimit};
pub use clock::read_monotonic;
pub use error::Error;
pub use loop_file_system::{
    FileSystemAsked, FileSystemFacts, FileSystemKind, IMAGE_BYTES_MIN, LoopFileSystem, Making, OwnCommands,
    PLACEHOLDERS,
};
pub use machine::{MachineIdentity, count_cores, read_free_bytes, read_identity, read_machine, read_mount};
pub use memory::{MemoryUse, pages_out_idle};
pub use page_cache::{CachedFile, PageCache, SystemPageCache};
pub use pressure::Pressure;
pub use read_ahead::ReadAhead;
pub use schedule::{ProcessorTimes, TaskTime};
