//! Brings residency back and takes it away: plan, restore, evict, receipt.

mod buffers;
mod control;
mod device_profile;
mod error;
pub mod evict;
mod heat;
pub mod plan;
mod receipt;
pub mod restore;
mod threads;

pub use control::{Control, Phase, Room, Unwatched, Watcher};
pub use device_profile::DeviceProfile;
pub use error::Error;
pub use receipt::{FoundAs, Receipt, RelationReceipt, SkipReason, Skipped, StopReason, Tier, TierReceipt};
