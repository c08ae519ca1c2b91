//! pgthaw gets a cold PostgreSQL back to full speed, and proves it. See ARCHITECTURE.md for how the folders depend on
//! each other; `tests/architecture/` holds them to it.

#[cfg(test)]
#[macro_use]
mod untested;

pub mod bench;
pub mod cache;
pub mod command;
pub mod commands;
pub mod failure;
pub mod files;
pub mod lab;
pub mod laboratory;
pub mod linux;
pub mod model;
pub mod observe;
pub mod pgbench;
pub mod postgres;
pub mod report;
pub mod results;
pub mod serve;
pub mod study;
pub mod terminal;
pub mod trace;
pub mod units;
pub mod verdict;
pub mod warm;
