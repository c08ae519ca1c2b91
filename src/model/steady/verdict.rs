//! What can be said of a run.

use serde::{Deserialize, Serialize};

/// The answer in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Throughput kept its level from `steady_from_seconds` on.
    Steady,
    /// Throughput was still rising at the end, or it cannot be told from a cold start that has not risen yet.
    NotReached,
    /// Throughput keeps its level but for what comes back after each `period_seconds`.
    Periodic,
    /// Throughput was higher before than at the end, and still falls.
    Degrading,
}

impl Verdict {
    /// The exit status of `pgthaw steady`. 1 to 3 are failures of pgthaw itself.
    pub fn exit_code(self) -> u8 {
        match self {
            Verdict::Steady => 0,
            Verdict::NotReached => 10,
            Verdict::Periodic => 11,
            Verdict::Degrading => 12,
        }
    }
}
