//! What a warmer of an idle server brought back, of a study whose trials end when what is wanted is resident.
//!
//! Field names are part of `--json` (docs/formats.md): add, never rename.

use serde::{Deserialize, Serialize};

use host::units::Bytes;

/// This share of what is wanted counts as "resident": the kernel may take a few pages back at any moment.
pub const RESIDENT_SHARE: f64 = 0.99;

/// How soon it was there, and at what cost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Brought {
    /// What the snapshot asks the page cache for, and in how many pieces it lies there.
    pub wanted_pages: u64,
    pub wanted_pieces: u64,
    /// What was in shared_buffers, and of it with a usage count of 3 or more.
    pub former_buffers_bytes: Bytes,
    pub former_hot_bytes: Bytes,
    /// The least that the disk allows; `None` on a disk without limits.
    pub bound: Option<Bound>,
    /// Seconds until [`RESIDENT_SHARE`] of what is wanted was seen resident, every page looked at; `None`: not within the trial,
    /// or the warmer leaves nothing in the page cache.
    pub resident_after_seconds: Option<f64>,
    /// Seconds until shared_buffers were back; of warmers that bring them back.
    pub buffers_after_seconds: Option<f64>,
    /// Wanted bytes that were resident when all was over, every page looked at again.
    pub resident_bytes: Bytes,
    /// Processor time of the warmer's own processes (not of the server's, which read for it).
    pub cpu_seconds: Option<f64>,
    /// By all under the limit; of the whole machine without one.
    pub device_reads: Option<u64>,
    /// Of fio: the bytes that it read, and the seconds that it says it took.
    pub own_bytes: Option<Bytes>,
    pub own_seconds: Option<f64>,
}

/// The best merging of all: no order of reads, no heat, nobody else who reads.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Bound {
    pub reads: u64,
    /// Gaps included.
    pub read_bytes: Bytes,
    pub seconds: f64,
}

/// One look at both tiers while a warmer is at work.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct LoadSample {
    pub seconds: f64,
    /// Wanted bytes that had been seen resident by then; at most, when it is not exact.
    pub resident_bytes: Bytes,
    pub is_exact: bool,
    /// Former buffers that were back, and hot ones as hot as before; of warmers that bring them back.
    pub buffers_bytes: Option<Bytes>,
    pub hot_bytes: Option<Bytes>,
}
