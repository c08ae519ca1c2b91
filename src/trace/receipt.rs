//! What `run` did for a job.

use std::path::PathBuf;

use serde::Serialize;

use super::decision::Decision;
use super::film::{FilmHeader, Totals};
use super::preload::Preloaded;
use super::put_back::PutBack;
use crate::units::Bytes;

/// What `run` did for a job.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunReceipt {
    /// From the job's start to its end.
    pub seconds: f64,
    /// Before the job's start, to look at what is cached.
    pub prepared_seconds: f64,
    /// The film that was gone by, by its name.
    pub film: Option<String>,
    pub decision: Decision,
    /// `None` where nothing was brought.
    pub preloaded: Option<Preloaded>,
    pub kept: Option<KeptFilm>,
    /// `None` where that was not asked for, or could not be done.
    pub put_back: Option<PutBack>,
    /// Another run goes on: it puts back when it ends.
    pub is_left_to_another: bool,
    pub remarks: Vec<String>,
}

/// The film of a job, as it was kept.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KeptFilm {
    pub path: PathBuf,
    pub totals: Totals,
    /// Bytes that came meanwhile and were not preloaded, and those that were.
    pub fetched_bytes: Bytes,
    pub preloaded_bytes: Bytes,
    pub device_reads: Option<u64>,
    pub device_bytes: Option<Bytes>,
    pub lost_events: u64,
}

impl KeptFilm {
    pub fn new(path: PathBuf, header: &FilmHeader) -> KeptFilm {
        KeptFilm {
            path,
            totals: header.totals,
            fetched_bytes: header.bytes(header.totals.fetched_blocks),
            preloaded_bytes: header.bytes(header.totals.preloaded_blocks),
            device_reads: header.device_reads,
            device_bytes: header.device_bytes,
            lost_events: header.lost_events,
        }
    }
}
