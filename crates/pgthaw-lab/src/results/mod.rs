//! The results store: every study, its trials, and every second of them, in SQL.
//!
//! A SQLite file, or a PostgreSQL server that a file stands before. The schema is in `migrations/`, in SQL that both take;
//! docs/formats.md documents it.

mod database;
mod error;
mod export;
mod queue;
mod read;
mod records;
mod store;
mod trust;
mod write;

pub use error::{DamagedStudy, Error, Place, ServerPlace};
pub use export::{ExportFormat, ExportTable};
pub use read::{Listed, NEWEST, StudyLine};
pub use store::{Store, default_path};
