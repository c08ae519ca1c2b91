//! Base crate: units, failures, safe files and Linux. The only crate with `unsafe`.

#[cfg(any(test, feature = "fixtures"))]
#[macro_use]
pub mod fixtures;

pub mod failure;
pub mod files;
pub mod linux;
#[cfg(any(test, feature = "formats"))]
pub mod schema_fixture;
pub mod units;

#[cfg(not(any(test, feature = "formats")))]
use derives::{JsonSchema, TS};
#[cfg(any(test, feature = "formats"))]
use {schemars::JsonSchema, ts_rs::TS};
