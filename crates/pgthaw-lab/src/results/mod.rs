//! The results store: every study, its trials, and every second of them, in SQL.
//!
//! A SQLite file, or a PostgreSQL server that a file stands before. The schema is in `migrations/`, in SQL that both take;
//! docs/formats.md documents it.

mod columns;
mod damaged;
mod database;
mod error;
mod export;
mod place;
mod queue;
mod records;
mod store;
mod study_lines;
mod sweep_gauges;
mod sweep_outline;
mod sweep_read;
mod sweep_write;
mod trust;
mod unsent;

pub use damaged::DamagedStudy;
pub use error::Error;
pub use export::{ExportFormat, ExportTable};
pub use place::{Place, ServerPlace};
pub use queue::Sent;
pub use store::{Store, default_path};
pub use study_lines::StudyLine;
pub use sweep_outline::Listed;
pub use sweep_read::NEWEST;
