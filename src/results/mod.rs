//! The results store: every run, its trials, and every second of them, in SQL.
//!
//! One SQLite file. The schema is in `migrations/`, in SQL that PostgreSQL takes too; docs/formats.md documents it.

mod error;
mod loading;
mod names;
mod read;
mod store;
mod sweep_gauges;
mod sweep_read;
mod sweep_write;
mod write;

pub use error::Error;
pub use read::NEWEST;
pub use store::{Store, default_path};
