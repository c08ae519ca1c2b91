//! The results store: studies, trials and seconds in SQL.
//!
//! A SQLite file, or a PostgreSQL server with a local file as queue. docs/formats.md documents the schema.

mod database;
mod error;
mod export;
mod queue;
mod read;
mod records;
mod store;
mod trust;
mod write;

pub use error::{DamagedStudy, Error, Place, Result, ServerPlace};
pub use export::{ExportFormat, ExportTable};
pub use read::{ListedStudy, NEWEST, StudyLine};
pub use store::{Store, default_path};
