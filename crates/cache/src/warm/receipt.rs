//! What a restore did, what it left out, and why.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::PlannedDevice;
use super::plan::Forecast;
use super::traffic::Sharing;
use crate::Selected;
use host::failure::{ErrorKind, Explain as _};
use host::linux;
use host::linux::machine::MemoryBound;
use host::units::{Bytes, Fork};
use postgres::{Error, RelationKind, RelationName};

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
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Receipt {
    /// Which snapshot, and why; `None` of a map that is none.
    pub snapshot: Option<Selected>,
    /// When the snapshot was taken.
    pub snapshot_taken_at: Timestamp,
    pub started_at: Timestamp,
    /// Bytes of a block.
    pub block_size: u32,
    /// Is the snapshot of another cluster? Then all its relations lie otherwise here, and none was rewritten or dropped.
    pub is_other_cluster: bool,
    /// Was this a dry run? Then nothing was read, and `forecast` says what would be.
    pub is_dry_run: bool,
    /// What the plan of the OS tier takes the device for.
    pub device: PlannedDevice,
    /// What the plan of the OS tier promised.
    pub forecast: Forecast,
    /// What the plan of the buffers tier promised; `None` when it was not asked for.
    pub buffers_forecast: Option<BuffersForecast>,
    /// `None` for a tier that was not asked for.
    pub os: Option<TierReceipt>,
    pub buffers: Option<TierReceipt>,
    /// Per relation, fork and tier, in the snapshot's order.
    pub relations: Vec<RelationReceipt>,
    /// What was asked for and is not resident now.
    pub skipped: Vec<Skipped>,
    /// What the server's traffic was like while the OS tier was read.
    pub traffic: TrafficReceipt,
    /// What the page cache had room for.
    pub memory: MemoryReceipt,
    /// What was taken out of the page cache again because it is in shared_buffers; `None` when that was not asked for.
    pub no_double: Option<NoDouble>,
    /// `None` when it ran to its end.
    pub stopped_by: Option<StopReason>,
    pub remarks: Vec<String>,
}

/// Blocks that are in shared_buffers, in the page cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NoDouble {
    /// Bytes of these blocks in the page cache before they were dropped there, and below it after.
    pub cached_before_bytes: Bytes,
    pub cached_after_bytes: Bytes,
}

/// What loading into shared_buffers comes to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct BuffersForecast {
    /// Some load, the others use again what has to be hot.
    pub statements: u64,
    /// Bytes that are not in shared_buffers yet.
    pub load_bytes: Bytes,
    /// Blocks that neither the budget nor the free buffers have room for.
    pub over_budget_blocks: u64,
}

/// The sums of one tier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct TierReceipt {
    pub asked_bytes: Bytes,
    /// Bytes asked for that were resident before, and below it after; `None` when it could not be measured.
    pub resident_before_bytes: Option<Bytes>,
    pub resident_after_bytes: Option<Bytes>,
    /// Reads that were issued; in the buffers tier, statements.
    pub reads: u64,
    /// Bytes that these brought in.
    pub read_bytes: Bytes,
    /// Seconds from the first read until residency was verified.
    pub seconds: f64,
}

/// How the device was shared. Seconds of reading, not of looking.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct TrafficReceipt {
    pub sharing: Sharing,
    /// Most of the server's busy processes waited for the disk.
    pub waiting_seconds: f64,
    /// Most of them ran.
    pub flowing_seconds: f64,
    /// The restore read at a lower rate, to let them.
    pub yielded_seconds: f64,
    /// The part of the bandwidth that it took while traffic flowed, as it was found in the end, and how many times as much the server's
    /// processes worked beside it as beside 93 %; `None` when nothing flowed.
    pub flowing_share: Option<f64>,
    pub flowing_gain: Option<f64>,
    /// How often the rest was planned again, because others came or went.
    pub replanned: u32,
    /// Seconds by which it would have been done sooner at the rate that the device had given before.
    pub cost_seconds: f64,
}

/// The memory that the OS tier was loaded into.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MemoryReceipt {
    /// What could be cached at the beginning, what was cached already included; `None` when nobody knows.
    pub room_bytes: Option<Bytes>,
    /// What bounds it.
    pub bound: Option<MemoryBound>,
    /// Bytes that had gone again soon after they were read, and were read once more.
    pub reread_bytes: Bytes,
    /// Bytes that nobody asked for: they stood in gaps that were read over, and were not cached before.
    pub read_over_bytes: Bytes,
    /// Bytes of these that were taken out of the page cache again.
    pub let_go_bytes: Bytes,
}

impl MemoryReceipt {
    /// Adds what a later pass met with. What there is room for was asked before the first.
    pub fn add(&mut self, later: MemoryReceipt) {
        self.room_bytes = self.room_bytes.or(later.room_bytes);
        self.bound = self.bound.or(later.bound);
        self.reread_bytes += later.reread_bytes;
        self.read_over_bytes += later.read_over_bytes;
        self.let_go_bytes += later.let_go_bytes;
    }
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
    /// The fork's file is where the snapshot says.
    SameFile,
    /// The fork is in another tablespace, its blocks in their order.
    Moved,
    /// The fork's file has another number and no block: it was TRUNCATEd, or rewritten without this fork.
    Emptied,
    /// The fork's file has another number: it was rewritten, or this is another cluster. Blocks are not where they were, so the
    /// whole fork was asked for.
    WholeRewritten,
    /// The fork was not found, or not asked for.
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
    /// The file is gone and nobody says what became of it.
    FileGone,
    /// The relation was rewritten: which of its blocks are wanted is not known. The OS tier gets all of it instead if at least half
    /// of it had been resident.
    Rewritten,
    /// The relation is shorter now.
    Truncated,
    /// Nobody may connect to its database, as to template0.
    DatabaseUnreachable,
    /// The file may not be read, or its residency may not be seen.
    NoPermission,
    /// The device or the server refused to read it.
    ReadFailed,
    /// It could not be opened, or no connection could, for no more files may be open.
    TooFewFiles,
    /// The budget was spent on something hotter.
    OverBudget,
    /// There is no memory that it could stay in.
    NoMemory,
    /// The block was read and is not resident all the same.
    DidNotStay,
    /// The user stopped the restore before.
    Interrupted,
    /// The server bypasses the page cache (`debug_io_direct`).
    DirectIo,
    /// No server runs that could load it.
    NoServer,
    /// The server that ran went away, or does not answer.
    ServerGone,
    /// The server does not let this role in.
    LoginRefused,
    /// The role lacks a privilege in the server.
    NoPrivilege,
    /// The database has no pg_prewarm.
    NoPrewarm,
    /// shared_buffers had no free buffer for it.
    NoFreeBuffer,
    /// Nobody can see which buffers are free, and no budget says how many to fill.
    FreeBuffersUnknown,
    /// The data directory is not on this host.
    NoDataDirectory,
}

impl SkipReason {
    /// What sort of failure it is. `None`: it is a matter of course.
    pub fn kind(self) -> Option<ErrorKind> {
        use SkipReason::*;
        match self {
            NoPermission | LoginRefused | NoPrivilege | NoPrewarm | FreeBuffersUnknown | DirectIo | NoDataDirectory => {
                Some(ErrorKind::Privilege)
            }
            ServerGone | ReadFailed | TooFewFiles => Some(ErrorKind::Failed),
            Dropped | FileGone | Rewritten | Truncated | DatabaseUnreachable | OverBudget | NoMemory | DidNotStay
            | Interrupted | NoServer | NoFreeBuffer => None,
        }
    }
}

/// Why a restore did not run to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    Interrupted,
    /// The cgroup or the machine has no memory left for more.
    NoMemory,
    /// What was loaded was taken back by the kernel while more was being loaded.
    Evicted,
    DirectIo,
}

impl StopReason {
    /// The reason to give for what was not read any more.
    pub fn skip_reason(self) -> SkipReason {
        match self {
            StopReason::Interrupted => SkipReason::Interrupted,
            StopReason::NoMemory | StopReason::Evicted => SkipReason::NoMemory,
            StopReason::DirectIo => SkipReason::DirectIo,
        }
    }
}

/// Does it not matter that this was left out of what was asked for? What is told of it is the same. The small bound is for large
/// caches, the other for the few tables that somebody has in the database `postgres` of a small one.
fn is_negligible(left: Bytes, asked: Bytes) -> bool {
    left.0 < asked.0 / 1000 || left.0 < (1 << 20).min(asked.0 / 100)
}

impl Receipt {
    pub fn is_interrupted(&self) -> bool {
        self.stopped_by == Some(StopReason::Interrupted)
    }

    /// What sort of failure kept something that was asked for from being loaded: a missing privilege or capability before
    /// all else, because it stays. `None` when all that was left out was so as a matter of course, or is next to nothing.
    pub fn failure(&self) -> Option<ErrorKind> {
        if self.is_interrupted() {
            return Some(ErrorKind::Interrupted);
        }
        let kinds: Vec<(&Skipped, ErrorKind)> =
            self.skipped.iter().filter_map(|skipped| Some((skipped, self.kind_of(skipped)?))).collect();
        let lacks_privilege = |(tier, sums): (Tier, Option<TierReceipt>)| {
            let lacking = kinds.iter().filter(|(skipped, kind)| skipped.tier == tier && *kind == ErrorKind::Privilege);
            let blocks: u64 = lacking.map(|(skipped, _)| skipped.blocks).sum();
            blocks > 0
                && !is_negligible(Bytes(blocks * u64::from(self.block_size)), sums.unwrap_or_default().asked_bytes)
        };
        if [(Tier::Os, self.os), (Tier::Buffers, self.buffers)].into_iter().any(lacks_privilege) {
            return Some(ErrorKind::Privilege);
        }
        kinds.iter().map(|(_, kind)| *kind).find(|kind| *kind != ErrorKind::Privilege)
    }

    /// Before the server's start the page cache alone can be filled. Whoever asks for shared_buffers alone needs a server.
    fn kind_of(&self, skipped: &Skipped) -> Option<ErrorKind> {
        match skipped.reason {
            SkipReason::NoServer if self.os.is_none() => Some(ErrorKind::Failed),
            // Such a server has no use for the page cache; what it has use for was loaded.
            SkipReason::DirectIo if self.buffers.is_some() => None,
            // A database without tables of anybody's needs no pg_prewarm: `postgres` usually is one.
            SkipReason::NoPrewarm if !self.has_user_tables(&skipped.name.database) => None,
            reason => reason.kind(),
        }
    }

    /// Was anything asked for in this database that is not PostgreSQL's own?
    fn has_user_tables(&self, database: &str) -> bool {
        let is_own = |schema: &str| matches!(schema, "pg_catalog" | "information_schema" | "pg_toast");
        self.skipped.iter().any(|skipped| skipped.name.database == database && !is_own(&skipped.name.schema))
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
    [one, other].into_iter().flatten().reduce(|one, other| one + other)
}

// ---- refusal ----
//
// Why a server or a directory is of no use, as the receipt tells it.

/// A reason, with its cause in words for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub reason: SkipReason,
    /// What happened, and what would mend it. `None` when the reason says it all.
    pub detail: Option<String>,
}

impl Refusal {
    /// A reason that says it all.
    pub fn because(reason: SkipReason) -> Refusal {
        Refusal { reason, detail: None }
    }

    /// A reason with its cause.
    pub fn with_detail(reason: SkipReason, detail: impl Into<String>) -> Refusal {
        Refusal { reason, detail: Some(detail.into()) }
    }

    /// Why the server did not do what it was asked.
    pub fn of(error: &Error) -> Refusal {
        let reason = match (error, error.kind()) {
            (Error::ExtensionMissing { .. }, _) => SkipReason::NoPrewarm,
            (Error::Connect { .. }, ErrorKind::Privilege) => SkipReason::LoginRefused,
            (_, ErrorKind::Privilege) => SkipReason::NoPrivilege,
            _ if error.is_too_few_files() => SkipReason::TooFewFiles,
            _ if error.is_server_gone() => SkipReason::ServerGone,
            (Error::Connect { .. }, _) if error.is_closed_database() => SkipReason::DatabaseUnreachable,
            _ => SkipReason::ReadFailed,
        };
        // The reason of too few files says what to do.
        let says_all = reason == SkipReason::TooFewFiles;
        Refusal::with_detail(reason, if says_all { error.to_string() } else { error.with_hint() })
    }

    /// Why a file could not be read.
    pub fn of_read(error: &linux::Error) -> Refusal {
        let reason = if error.is_too_few_files() { SkipReason::TooFewFiles } else { SkipReason::ReadFailed };
        Refusal::with_detail(reason, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receipt(os: bool, reasons: &[SkipReason]) -> Receipt {
        let name = RelationName { database: "d".into(), schema: "s".into(), name: "t".into() };
        let skip = |reason: &SkipReason| Skipped {
            name: name.clone(),
            fork: Fork::Main,
            tier: Tier::Buffers,
            blocks: 1,
            reason: *reason,
            detail: None,
        };
        Receipt {
            block_size: 8192,
            os: os.then(TierReceipt::default),
            buffers: Some(TierReceipt::default()),
            skipped: reasons.iter().map(skip).collect(),
            ..Receipt::default()
        }
    }

    #[test]
    fn what_is_left_out_as_a_matter_of_course_is_no_failure() {
        use SkipReason::*;
        assert_eq!(receipt(true, &[]).failure(), None);
        assert_eq!(receipt(true, &[OverBudget, Dropped, Truncated, NoServer]).failure(), None);
        assert_eq!(receipt(false, &[NoServer]).failure(), Some(ErrorKind::Failed));
        assert_eq!(receipt(true, &[Dropped, ServerGone]).failure(), Some(ErrorKind::Failed));
        assert_eq!(receipt(true, &[ServerGone, NoPrivilege]).failure(), Some(ErrorKind::Privilege));
        assert_eq!(receipt(true, &[DirectIo]).failure(), None, "shared_buffers are what counts");
        assert_eq!(Receipt { buffers: None, ..receipt(true, &[DirectIo]) }.failure(), Some(ErrorKind::Privilege));
        let mut catalogs = receipt(true, &[NoPrewarm]);
        assert_eq!(catalogs.failure(), Some(ErrorKind::Privilege));
        catalogs.skipped[0].name.schema = "pg_catalog".into();
        assert_eq!(catalogs.failure(), None, "a database with nothing but catalogs needs no pg_prewarm");
        let stopped = Receipt { stopped_by: Some(StopReason::Interrupted), ..receipt(true, &[NoPrivilege]) };
        assert_eq!(stopped.failure(), Some(ErrorKind::Interrupted));
    }

    #[test]
    fn a_privilege_that_is_missing_for_next_to_nothing_is_no_failure() {
        use SkipReason::*;
        let asked = |asked_bytes: u64, reasons: &[SkipReason], blocks: u64| {
            let sums = TierReceipt { asked_bytes: Bytes(asked_bytes), ..TierReceipt::default() };
            let mut receipt = Receipt { buffers: Some(sums), ..receipt(true, reasons) };
            receipt.skipped.iter_mut().for_each(|skipped| skipped.blocks = blocks);
            receipt.failure()
        };
        let privilege = Some(ErrorKind::Privilege);
        assert_eq!(asked(62_700_000, &[NoPrewarm; 3], 2), None, "48 kB of three files");
        assert_eq!(asked(4_000_000, &[NoPrewarm; 3], 2), privilege, "more than 1 %");
        assert_eq!(asked(1 << 29, &[NoPrivilege; 2], 63), None, "less than 1 MB");
        assert_eq!(asked(1 << 29, &[NoPrivilege; 2], 64), privilege, "1 MB, in all");
        assert_eq!(asked(1 << 34, &[NoPrivilege, NoPrewarm], 1000), None, "16 MB of 16 GB");
        assert_eq!(asked(1 << 34, &[NoPrivilege, NoPrewarm], 1100), privilege, "more than 0.1 %");
        assert_eq!(asked(1 << 34, &[NoPrivilege, ReadFailed], 1), Some(ErrorKind::Failed), "a defect of the device");
        assert_eq!(asked(1 << 34, &[ServerGone], 1), Some(ErrorKind::Failed));
    }
}
