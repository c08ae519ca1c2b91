//! Brings residency back and takes it away: plan, restore, evict, receipt.

mod device_profile;
pub mod plan;

pub use device_profile::DeviceProfile;
