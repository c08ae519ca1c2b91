//! The laboratory: studies of warming, settings, disks and scales, their results and pages.

#[cfg(test)]
#[macro_use]
extern crate host;

pub mod bench;
mod cli;
pub mod lab;
pub mod laboratory;
pub mod report;
pub mod results;
#[cfg(test)]
mod schema_tests;
pub mod serve;
pub mod study;
pub mod verdict;

#[cfg(not(test))]
use derives::{JsonSchema, TS};
#[cfg(test)]
use {schemars::JsonSchema, ts_rs::TS};

pub use cli::Cli;
