pub mod block_device;
pub mod capability;
pub mod cgroup;
pub mod clock;
mod device_number;
pub mod direct_read;
mod error;
pub mod foreign_memory;
pub mod guard;
mod loop_file_system;
pub mod machine;
pub mod open_files;
pub mod own_program;
pub mod page_cache;
pub mod process;
pub mod read_ahead;
pub mod signals;
pub mod sockets;
pub mod threads;

pub use block_device::{BlockDevice, DEFAULT_READ_AHEAD, DeviceCounters, Devices, read_block_device, read_controller};
pub use cgroup::{DeviceLimit, DiskLimit, ReadLimit, WriteLimit};
pub use clock::read_monotonic;
pub use device_number::DeviceNumber;
pub use error::{Error, Result};
pub use loop_file_system::{
    FileSystemAsked, FileSystemFacts, FileSystemKind, IMAGE_BYTES_MIN, LoopFileSystem, Making, OwnCommands,
    PLACEHOLDERS,
};
pub use machine::{
    MachineIdentity, Memory, Pressure, count_cores, pages_out_idle, read_free_bytes, read_identity, read_machine,
};
pub use page_cache::{CachedFile, PageCache, SystemPageCache};
pub use process::{ProcessorTimes, TaskTime};
pub use read_ahead::ReadAhead;
