//! The ground: units, failures, files where others may write, and what Linux tells and does. `unsafe` is here alone.

#[cfg(any(test, feature = "fixtures"))]
#[macro_use]
pub mod untested;

pub mod failure;
pub mod files;
pub mod linux;
pub mod units;
