//! What a restore did, what it left out, and why.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::plan::Forecast;
use crate::postgres::{RelationKind, RelationName};
use crate::units::{Bytes, Fork};

/// One of the two caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// The kernel's page cache.
    Os,
    /// shared_buffers.
    Buffers,
}

impl Tier {
    /// The word for it in tables, `--tier` and `--json`.
    pub fn name(self) -> &'static str {
        match self {
            Tier::Os => "os",
            Tier::Buffers => "buffers",
        }
    }
}

/// What a restore did. Everything under `resident_*` was measured, not deduced from what was issued.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Receipt {
    /// When the snapshot was taken.
    pub snapshot_taken_at: Timestamp,
    pub started_at: Timestamp,
    /// Bytes of a block.
    pub block_size: u32,
    /// Was this a dry run? Then nothing was read, and `forecast` says what would be.
    pub is_dry_run: bool,
    /// What the plan of the OS tier promised.
    pub forecast: Forecast,
    /// `None` for a tier that was not asked for.
    pub os: Option<TierReceipt>,
    pub buffers: Option<TierReceipt>,
    /// Per relation, fork and tier, in the snapshot's order.
    pub relations: Vec<RelationReceipt>,
    /// What was asked for and is not resident now.
    pub skipped: Vec<Skipped>,
    /// `None` when it ran to its end.
    pub stopped_by: Option<StopReason>,
    pub remarks: Vec<String>,
}

/// The sums of one tier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct TierReceipt {
    pub asked_bytes: Bytes,
    /// Of what was asked for; `None` when it could not be measured.
    pub resident_before_bytes: Option<Bytes>,
    pub resident_after_bytes: Option<Bytes>,
    /// Reads that were issued; in the buffers tier, statements.
    pub reads: u64,
    /// Bytes that these brought in.
    pub read_bytes: Bytes,
    /// From the first read until residency was verified.
    pub seconds: f64,
}

/// What became of one fork in one tier.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RelationReceipt {
    #[serde(flatten)]
    pub name: RelationName,
    pub kind: RelationKind,
    pub fork: Fork,
    pub tier: Tier,
    pub found: FoundAs,
    pub asked_bytes: Bytes,
    pub resident_before_bytes: Option<Bytes>,
    pub resident_after_bytes: Option<Bytes>,
    pub read_bytes: Bytes,
    /// Blocks that it has grown by since the snapshot. Nobody asked for them.
    pub grown_blocks: u64,
}

/// How the relation of the snapshot was found again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FoundAs {
    /// Its file is where the snapshot says.
    SameFile,
    /// It is in another tablespace, its blocks in their order.
    Moved,
    /// Its file has another number: it was rewritten, or this is another cluster. Blocks are not where they were, so the
    /// whole fork was asked for.
    WholeRewritten,
    /// It was not found.
    NotFound,
}

/// What was asked for and is not there.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Skipped {
    #[serde(flatten)]
    pub name: RelationName,
    pub fork: Fork,
    pub tier: Tier,
    pub blocks: u64,
    pub reason: SkipReason,
    /// The error's text, where there was one.
    pub detail: Option<String>,
}

/// Why something is not resident.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SkipReason {
    /// The catalog knows no such relation.
    Dropped,
    /// Its file is gone and there was no server to say what became of it.
    FileGone,
    /// It was rewritten, and less than half of it had been resident.
    Rewritten,
    /// It is shorter now.
    Truncated,
    /// Its database is gone or does not let this role in.
    DatabaseUnreachable,
    /// The file may not be read, or its residency may not be seen.
    NoPermission,
    /// The device or the server refused to read it.
    ReadFailed,
    /// The budget was spent on something hotter.
    OverBudget,
    /// There is no memory that it could stay in.
    NoMemory,
    /// It was read and is not resident all the same.
    DidNotStay,
    /// The user stopped the restore before.
    Interrupted,
    /// The server bypasses the page cache (`debug_io_direct`).
    DirectIo,
    /// There is no server that could load it, or none any more.
    NoServer,
    /// The database has no pg_prewarm.
    NoPrewarm,
    /// shared_buffers had no free buffer for it.
    NoFreeBuffer,
    /// The data directory is not on this host, or not known.
    NoDataDirectory,
}

/// Why a restore did not run to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    Interrupted,
    NoMemory,
    DirectIo,
}

impl StopReason {
    /// The reason to give for what was not read any more.
    pub fn skip_reason(self) -> SkipReason {
        match self {
            StopReason::Interrupted => SkipReason::Interrupted,
            StopReason::NoMemory => SkipReason::NoMemory,
            StopReason::DirectIo => SkipReason::DirectIo,
        }
    }
}

impl Receipt {
    pub fn is_interrupted(&self) -> bool {
        self.stopped_by == Some(StopReason::Interrupted)
    }

    /// Was something asked for, nothing of it done, and a privilege or a capability the reason?
    pub fn missing_capability(&self) -> bool {
        let is_capability = |skipped: &Skipped| {
            use SkipReason::*;
            matches!(skipped.reason, NoPermission | NoPrewarm | DirectIo | NoDataDirectory)
        };
        let tiers = [self.os, self.buffers];
        let is_idle = tiers.iter().flatten().all(|tier| tier.read_bytes.0 == 0);
        is_idle && self.skipped.iter().any(is_capability)
    }
}

impl TierReceipt {
    /// Adds a fork's row.
    pub fn add(&mut self, row: &RelationReceipt) {
        self.asked_bytes += row.asked_bytes;
        self.read_bytes += row.read_bytes;
        self.resident_before_bytes = sum(self.resident_before_bytes, row.resident_before_bytes);
        self.resident_after_bytes = sum(self.resident_after_bytes, row.resident_after_bytes);
    }
}

/// What could not be measured adds nothing.
fn sum(one: Option<Bytes>, other: Option<Bytes>) -> Option<Bytes> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one + other),
        (one, other) => one.or(other),
    }
}
