use std::fmt;

use rustix::fs::{major, minor};

/// Printed as `254:0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DeviceNumber {
    pub major: u32,
    pub minor: u32,
}

impl DeviceNumber {
    pub(super) fn from_raw(raw: u64) -> DeviceNumber {
        DeviceNumber { major: major(raw), minor: minor(raw) }
    }

    pub(super) fn parse(text: &str) -> Option<DeviceNumber> {
        let (major, minor) = text.trim().split_once(':')?;
        Some(DeviceNumber { major: major.parse().ok()?, minor: minor.parse().ok()? })
    }
}

impl fmt::Display for DeviceNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}
