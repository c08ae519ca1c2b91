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

/// A cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[derive(Serialize, Deserialize, strum::IntoStaticStr, crate::JsonSchema)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Tier {
    /// The kernel's page cache.
    Os,
    /// shared_buffers.
    Buffers,
}

host::named!(Tier);

/// Receipt of a restore. Fields `resident_*` are measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, crate::JsonSchema)]
pub struct Receipt {
    /// The restored snapshot. `None` if the blocks have another source.
    pub snapshot: Option<Selected>,
    pub snapshot_taken_at: Timestamp,
    pub started_at: Timestamp,
    pub block_size: u32,
    /// Whether the snapshot is of another cluster. Then `whole_rewritten` and `rewritten` mean only that the file
    /// differs, and `dropped` means that no relation has that name.
    pub is_other_cluster: bool,
    /// Nothing was read; `forecast` holds the planned reads.
    pub is_dry_run: bool,
    pub device: PlannedDevice,
    /// Forecast for the page cache.
    pub forecast: Forecast,
    /// Forecast for shared_buffers. `None` if not requested.
    pub buffers_forecast: Option<BuffersForecast>,
    /// Restore of the page cache, which also gets the blocks for shared_buffers. `None` if not requested.
    pub os: Option<TierReceipt>,
    /// Restore of shared_buffers. `None` if not requested.
    pub buffers: Option<TierReceipt>,
    /// Receipts per relation, fork and tier, in snapshot order.
    pub relations: Vec<RelationReceipt>,
    /// Requested blocks that are not resident.
    pub skipped: Vec<Skipped>,
    pub traffic: TrafficReceipt,
    pub memory: MemoryReceipt,
    /// With `--tier exclusive`: bytes cached in both tiers. `os` was measured before their eviction.
    pub no_double: Option<NoDouble>,
    /// Why the restore ended early. `None` after a complete run.
    pub stopped_by: Option<StopReason>,
    /// Sentences, for example on skipped buffers of template databases.
    pub remarks: Vec<String>,
}

/// Bytes in the page cache that are also in shared_buffers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, crate::JsonSchema)]
pub struct NoDouble {
    /// Before the eviction.
    pub cached_before_bytes: Bytes,
    /// After the eviction.
    pub cached_after_bytes: Bytes,
}

/// Forecast for shared_buffers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, crate::JsonSchema)]
pub struct BuffersForecast {
    /// Number of statements, including those that only raise usage counts.
    pub statements: u64,
    /// Bytes to load.
    pub load_bytes: Bytes,
    /// Blocks beyond the budget or the free buffers.
    pub over_budget_blocks: u64,
}

/// Restore of a tier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, crate::JsonSchema)]
pub struct TierReceipt {
    /// Requested bytes.
    pub asked_bytes: Bytes,
    /// Requested bytes that were resident before. `None` if not measured.
    pub resident_before_bytes: Option<Bytes>,
    /// Requested bytes that are resident now. `None` if not measured.
    pub resident_after_bytes: Option<Bytes>,
    /// Number of reads; for shared_buffers, number of statements.
    pub reads: u64,
    /// Bytes read that were not cached when the read was issued; in a dry run, bytes to read.
    pub read_bytes: Bytes,
    /// From the first read to the verification.
    pub seconds: f64,
}

/// How the restore shared the device with the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, crate::JsonSchema)]
pub struct TrafficReceipt {
    /// `--pace`.
    pub sharing: Sharing,
    /// Seconds of reading while most of the busy server processes waited for the disk.
    pub waiting_seconds: f64,
    /// Seconds of reading while most of the busy server processes did not wait for the disk.
    pub flowing_seconds: f64,
    /// Seconds of reading at a rate reduced in favour of the server.
    pub yielded_seconds: f64,
    /// The restore's final share of the bandwidth during `flowing_seconds`.
    pub flowing_share: Option<f64>,
    /// CPUs that the server used at the bandwidth share `flowing_share` ÷ CPUs that it used at a share of 93 %. 1 if
    /// unmeasured; `None` without `flowing_share`.
    pub flowing_gain: Option<f64>,
    /// Number of new plans that were made because server processes became busy or idle.
    pub replanned: u32,
    /// Time lost compared with reading at the full rate.
    pub cost_seconds: f64,
}

/// Memory for the page cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, crate::JsonSchema)]
pub struct MemoryReceipt {
    /// Room for the page cache at the start, cached pages included. `None` if unknown.
    pub room_bytes: Option<Bytes>,
    /// Limit that determines `room_bytes`.
    pub bound: Option<MemoryBound>,
    /// Bytes that were evicted soon after reading, and read again.
    pub reread_bytes: Bytes,
    /// Unrequested bytes that reads loaded from gaps between requested blocks.
    pub read_over_bytes: Bytes,
    /// Bytes of `read_over_bytes` that were evicted again.
    pub let_go_bytes: Bytes,
}

impl MemoryReceipt {
    pub fn add(&mut self, later: MemoryReceipt) {
        self.room_bytes = self.room_bytes.or(later.room_bytes);
        self.bound = self.bound.or(later.bound);
        self.reread_bytes += later.reread_bytes;
        self.read_over_bytes += later.read_over_bytes;
        self.let_go_bytes += later.let_go_bytes;
    }
}

/// Restore of a fork in a tier.
#[derive(Clone, Debug, PartialEq, Serialize, crate::JsonSchema)]
pub struct RelationReceipt {
    #[serde(flatten)]
    pub name: RelationName,
    pub kind: RelationKind,
    pub fork: Fork,
    pub tier: Tier,
    pub found: FoundAs,
    /// Requested bytes.
    pub asked_bytes: Bytes,
    pub resident_before_bytes: Option<Bytes>,
    pub resident_after_bytes: Option<Bytes>,
    pub read_bytes: Bytes,
    /// Blocks added since the snapshot; not requested.
    pub grown_blocks: u64,
}

/// How the fork was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, crate::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FoundAs {
    /// At the snapshot's path.
    SameFile,
    /// In another tablespace, with blocks in the same order.
    Moved,
    /// A new file without blocks, as after TRUNCATE.
    Emptied,
    /// In a new file, where rows are at other positions, so the whole fork was requested.
    WholeRewritten,
    /// Not found, or not requested.
    NotFound,
}

/// Requested blocks of a fork that are not resident.
#[derive(Clone, Debug, PartialEq, Serialize, crate::JsonSchema)]
pub struct Skipped {
    #[serde(flatten)]
    pub name: RelationName,
    pub fork: Fork,
    pub tier: Tier,
    pub blocks: u64,
    pub reason: SkipReason,
    /// Cause and remedy, as a sentence.
    pub detail: Option<String>,
}

/// Why blocks are missing. Each description states the reason's exit status. Status 3 takes precedence over 1, and 1
/// over 0. Status 3 is ignored if its blocks are below 0.1 % of a tier's requested bytes, or below both 1 MB and 1 %.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, crate::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SkipReason {
    /// Exit status 0: the relation is not in the catalog.
    Dropped,
    /// Exit status 0: the file is missing for an unknown reason.
    FileGone,
    /// Exit status 0: the relation was rewritten, so its blocks have unknown positions. The page cache gets the whole
    /// fork if at least half was requested.
    Rewritten,
    /// Exit status 0: the fork is shorter now.
    Truncated,
    /// Exit status 0: the database accepts no connections (such as template0).
    DatabaseUnreachable,
    /// Exit status 3: no permission to read the file or its residency.
    NoPermission,
    /// Exit status 1: a read failed.
    ReadFailed,
    /// Exit status 1: the limit on open files (`ulimit -n`) is too low.
    TooFewFiles,
    /// Exit status 0: the budget went to hotter blocks.
    OverBudget,
    /// Exit status 0: there is no memory to keep the blocks cached.
    NoMemory,
    /// Exit status 0: the blocks did not stay resident.
    DidNotStay,
    /// Exit status 0: the restore was interrupted.
    Interrupted,
    /// The server bypasses the page cache (`debug_io_direct`). Exit status 3 with `--tier os`; 0 if shared_buffers were
    /// requested.
    DirectIo,
    /// No server runs. Exit status 1 with `--tier buffers`; 0 if the page cache was requested.
    NoServer,
    /// Exit status 1: the server disappeared, or does not answer.
    ServerGone,
    /// Exit status 3: the server refused the login.
    LoginRefused,
    /// Exit status 3: the role lacks a privilege in the server.
    NoPrivilege,
    /// Exit status 3 (0 if only system catalogs were requested): pg_prewarm is missing.
    NoPrewarm,
    /// Exit status 0: shared_buffers have no free buffer.
    NoFreeBuffer,
    /// Exit status 3: pg_buffercache is unreadable, and `--budget buffers=` is missing.
    FreeBuffersUnknown,
    /// Exit status 3: the data directory is not on this host.
    NoDataDirectory,
}

impl SkipReason {
    /// Kind of failure; `None` for an expected omission.
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

/// Why a restore ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, crate::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    Interrupted,
    /// No memory left in the cgroup or the machine.
    NoMemory,
    /// The kernel evicted loaded pages during the restore.
    Evicted,
    /// The server bypasses the page cache.
    DirectIo,
}

impl StopReason {
    pub fn skip_reason(self) -> SkipReason {
        match self {
            StopReason::Interrupted => SkipReason::Interrupted,
            StopReason::NoMemory | StopReason::Evicted => SkipReason::NoMemory,
            StopReason::DirectIo => SkipReason::DirectIo,
        }
    }
}

/// Whether hardly any of the requested bytes are missing, such as those of the few tables in database `postgres`.
fn is_negligible(left: Bytes, asked: Bytes) -> bool {
    left.0 < asked.0 / 1000 || left.0 < (1 << 20).min(asked.0 / 100)
}

impl Receipt {
    pub fn is_interrupted(&self) -> bool {
        self.stopped_by == Some(StopReason::Interrupted)
    }

    /// A missing privilege ranks first, because it persists. `None` if all omissions were expected or negligible.
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

    /// A missing server is no failure if the page cache was requested: that needs no server.
    fn kind_of(&self, skipped: &Skipped) -> Option<ErrorKind> {
        match skipped.reason {
            SkipReason::NoServer if self.os.is_none() => Some(ErrorKind::Failed),
            // A server with direct I/O does not use the page cache.
            SkipReason::DirectIo if self.buffers.is_some() => None,
            // A database without user tables needs no pg_prewarm.
            SkipReason::NoPrewarm if !self.has_user_tables(&skipped.name.database) => None,
            reason => reason.kind(),
        }
    }

    fn has_user_tables(&self, database: &str) -> bool {
        let is_own = |schema: &str| matches!(schema, "pg_catalog" | "information_schema" | "pg_toast");
        self.skipped.iter().any(|skipped| skipped.name.database == database && !is_own(&skipped.name.schema))
    }
}

impl TierReceipt {
    pub fn add(&mut self, row: &RelationReceipt) {
        self.asked_bytes += row.asked_bytes;
        self.read_bytes += row.read_bytes;
        self.resident_before_bytes = sum(self.resident_before_bytes, row.resident_before_bytes);
        self.resident_after_bytes = sum(self.resident_after_bytes, row.resident_after_bytes);
    }
}

/// Unmeasured values add nothing.
fn sum(one: Option<Bytes>, other: Option<Bytes>) -> Option<Bytes> {
    [one, other].into_iter().flatten().reduce(|one, other| one + other)
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub reason: SkipReason,
    /// Cause and remedy; `None` if the reason suffices.
    pub detail: Option<String>,
}

impl Refusal {
    pub fn because(reason: SkipReason) -> Refusal {
        Refusal { reason, detail: None }
    }

    pub fn with_detail(reason: SkipReason, detail: impl Into<String>) -> Refusal {
        Refusal { reason, detail: Some(detail.into()) }
    }

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
        // The message about open files already contains the hint.
        let says_all = reason == SkipReason::TooFewFiles;
        Refusal::with_detail(reason, if says_all { error.to_string() } else { error.with_hint() })
    }

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
