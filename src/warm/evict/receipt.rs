//! What an eviction did, what stayed, and why.

use serde::Serialize;

use crate::postgres::RelationName;
use crate::units::{Bytes, Fork};

/// What an eviction did. Everything under `resident_*` was measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EvictReceipt {
    /// Was this a dry run? Then nothing was evicted.
    pub is_dry_run: bool,
    /// `None` for a tier that was not asked for.
    pub os: Option<EvictedTier>,
    pub buffers: Option<EvictedTier>,
    /// Were shared_buffers asked for, and left as they are because this server cannot evict from them?
    pub buffers_stay: bool,
    /// Forks that had something in the OS page cache, in the map's order.
    pub relations: Vec<EvictedFork>,
    /// What is still in the OS page cache.
    pub stayed: Vec<Stay>,
    /// What is still in shared_buffers, the most first, of a server that can evict.
    pub buffers_stayed: Vec<BuffersStay>,
    pub is_interrupted: bool,
    pub remarks: Vec<String>,
}

/// One tier, of the relations that were meant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EvictedTier {
    /// `None` when it could not be measured.
    pub resident_before_bytes: Option<Bytes>,
    pub resident_after_bytes: Option<Bytes>,
}

/// One fork in the OS tier.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EvictedFork {
    #[serde(flatten)]
    pub name: RelationName,
    pub fork: Fork,
    pub resident_before_bytes: Bytes,
    /// `None` when it was not looked at again.
    pub resident_after_bytes: Option<Bytes>,
}

/// Something that is still cached.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Stay {
    #[serde(flatten)]
    pub name: RelationName,
    pub fork: Fork,
    pub bytes: Bytes,
    pub reason: StayReason,
    /// The error's text, where there was one.
    pub detail: Option<String>,
}

/// A relation that still has buffers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BuffersStay {
    #[serde(flatten)]
    pub name: RelationName,
    pub bytes: Bytes,
}

/// Why something is still cached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StayReason {
    /// Written again since.
    Dirty,
    /// Being written.
    Writeback,
    /// The server runs: it read it again, or was just using it.
    ServerRuns,
    /// Another process has it mapped or locked.
    InUse,
    /// The kernel or the file system refused.
    Refused,
}

impl EvictReceipt {
    pub fn new(is_dry_run: bool) -> EvictReceipt {
        EvictReceipt {
            is_dry_run,
            os: None,
            buffers: None,
            buffers_stay: false,
            relations: Vec::new(),
            stayed: Vec::new(),
            buffers_stayed: Vec::new(),
            is_interrupted: false,
            remarks: Vec::new(),
        }
    }
}

impl EvictedTier {
    /// Not evicted yet.
    pub fn before(bytes: Option<Bytes>) -> EvictedTier {
        EvictedTier { resident_before_bytes: bytes, resident_after_bytes: None }
    }
}
