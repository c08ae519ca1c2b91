//! How long until what a snapshot asks for is verified resident, on an idle server: loaders from the same proven cold
//! state, in random order, under the same limit. What counts is what the page cache says, never a command's end.

mod bound;
mod buffers;
mod loader;
mod prepare;
mod ranges;
mod record;
mod study;
mod summary;
mod trial;
mod wanted;
mod watch;

pub use bound::Bound;
pub use loader::Loader;
pub use ranges::apply_read_ranges;
pub use record::{LoadOutcome, LoadSample, LoadingRun, LoadingTrial};
pub use study::{LoadingFinished, LoadingOptions, WantedSource, run_loading};
pub use summary::{LoaderRatio, LoaderSummary, LoadingSummary, RatioOf, compute_loading_summary};
