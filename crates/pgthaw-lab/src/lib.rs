//! The laboratory: studies of warming, of settings, disks and scales; their results, and the pages that show them.

#[cfg(test)]
#[macro_use]
extern crate host;

pub mod bench;
mod cli;
pub mod lab;
pub mod laboratory;
pub mod report;
pub mod results;
pub mod serve;
pub mod study;
pub mod verdict;

pub use cli::Cli;
