//! What a run of loaders says.

mod summary;

pub use summary::{LoaderRatio, LoaderSummary, LoadingSummary, RatioOf, compute_loading_summary};
