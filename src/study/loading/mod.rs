//! A run of loaders: who gets what a snapshot asks for into the page cache, how soon and at what cost.

mod loader;
mod record;

pub use loader::Loader;
pub use record::{LoadOutcome, LoadingRun, LoadingStudy, LoadingTrial};
