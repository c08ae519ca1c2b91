//! What is asked of a run of loaders.

use std::path::PathBuf;
use std::time::Duration;

use crate::postgres::{Programs, Workload};
use crate::study::{Disk, Loader};
use crate::units::Bytes;

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
    pub programs: Programs,
    /// Where the cluster is made: on the disk that is measured.
    pub parent: PathBuf,
    pub scale: u32,
    /// Makes what is wanted.
    pub workload: Workload,
    /// Each holds every loader once.
    pub rounds: u32,
    pub disk: Disk,
    pub seed: u64,
    /// `None`: a quarter of the database, at most 256 MB.
    pub shared_buffers: Option<Bytes>,
    /// Leave the cluster in place.
    pub is_kept: bool,
    pub loaders: Vec<Loader>,
    pub wanted: WantedSource,
    pub patience: Duration,
}
