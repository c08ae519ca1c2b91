mod buffers;
mod control;
mod device_profile;
mod error;
pub mod evict;
mod heat;
pub mod hydrate;
pub mod plan;
pub mod probe;
mod receipt;
pub mod restore;
pub mod traffic;

pub use control::{Control, Host, Phase, Room, Unwatched, Watcher};
pub use device_profile::{DEVICES, DeviceProfile, PlannedDevice, ProfileSource, STATE, state_directory};
pub use error::{Error, Result};
pub use heat::{Evidence, coarse, levels as compute_heat_levels};
pub use host::linux::threads::map_on_threads;
pub use receipt::{
    BuffersForecast, FoundAs, MemoryReceipt, Receipt, Refusal, RelationReceipt, SkipReason, Skipped, StopReason, Tier,
    TierReceipt, TrafficReceipt,
};
pub use traffic::Sharing;
