//! What is asked of a run of loaders.

use std::time::Duration;

use crate::bench::options::Options;
use crate::study::Loader;

/// This share of what is wanted counts as "resident": the kernel may take a few pages back at any moment.
pub const RESIDENT_SHARE: f64 = 0.99;

/// What the snapshot asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WantedSource {
    Everything,
    /// What the workload reads from a cold start.
    Script,
}

/// What is asked of a run of loaders.
#[derive(Clone, Debug)]
pub struct LoadingOptions {
    /// Its workload makes what is wanted; its repeats are the rounds. Its strategies are set by `loaders`.
    pub base: Options,
    pub loaders: Vec<Loader>,
    pub wanted: WantedSource,
    pub patience: Duration,
}
