//! Base crate: units, failures, safe files and Linux. The only crate with `unsafe`.

#[cfg(any(test, feature = "fixtures"))]
#[macro_use]
pub mod untested;

pub mod failure;
pub mod files;
pub mod linux;
pub mod units;
