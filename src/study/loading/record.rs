//! What a run of loaders and its trials leave behind. Field names are part of `--json` (docs/formats.md): add, never
//! rename.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::postgres::ServerFacts;
use crate::study::record::{Disk, Machine, StartState};
use crate::study::sweep::{Bound, LoadSample};
use crate::units::Bytes;

/// One invocation of `bench residency`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadingRun {
    pub id: String,
    pub started_at: Timestamp,
    pub ended_at: Option<Timestamp>,
    pub pgthaw_version: String,
    pub machine: Machine,
    pub server: ServerFacts,
    pub settings: Vec<(String, String)>,
    pub study: LoadingStudy,
    pub warnings: Vec<String>,
}

/// What was asked to be measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadingStudy {
    pub scale: u32,
    /// The script whose reads from a cold start are wanted; `None`: everything is.
    pub script: Option<String>,
    pub script_seconds: u32,
    pub clients: u32,
    pub rounds: u32,
    pub loaders: Vec<String>,
    /// Loaders that were asked for and cannot run here, with how to get them.
    pub skipped_loaders: Vec<(String, String)>,
    pub disk: Disk,
    pub seed: u64,
    pub database_bytes: Bytes,
    /// What the snapshot asks the page cache for, and in how many pieces it lies there.
    pub wanted_bytes: Bytes,
    pub wanted_pages: u64,
    pub wanted_pieces: u64,
    /// This share of the wanted pages counts as "resident".
    pub resident_share: f64,
    /// What was in shared_buffers, and of it with a usage count of 3 or more.
    pub former_buffers_bytes: Bytes,
    pub former_hot_bytes: Bytes,
    /// The least that the disk allows; `None` on a disk without limits.
    pub bound: Option<Bound>,
    /// Seconds after which a loader is not waited for any longer.
    pub patience_seconds: u32,
}

/// One loader in one round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadingTrial {
    pub loader: String,
    /// From 1. All loaders of a round make pairs.
    pub round: u32,
    /// Position in the random order, from 1.
    pub position: u32,
    pub started_at: Timestamp,
    pub start_state: StartState,
    pub command: String,
    pub outcome: LoadOutcome,
    pub samples: Vec<LoadSample>,
    pub warnings: Vec<String>,
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadOutcome {
    /// Until the wanted share was seen resident, every page looked at; `None`: not within the patience, or the loader
    /// leaves nothing in the page cache.
    pub resident_after_seconds: Option<f64>,
    /// Until shared_buffers were back; of loaders that bring them back.
    pub buffers_after_seconds: Option<f64>,
    /// Until the command was seen to have ended.
    pub ended_after_seconds: Option<f64>,
    /// Of fio: the bytes that it read, and the seconds that it says it took.
    pub own_bytes: Option<Bytes>,
    pub own_seconds: Option<f64>,
    /// Wanted bytes that were resident when all was over, every page looked at again.
    pub resident_bytes: Bytes,
    /// Processor time of its own processes (not of the server's, which read for it).
    pub cpu_seconds: Option<f64>,
    /// By all under the limit; of the whole machine without one.
    pub device_read_bytes: Option<Bytes>,
    pub device_reads: Option<u64>,
    pub failure: Option<String>,
    /// The end of what it printed.
    pub output: String,
}
