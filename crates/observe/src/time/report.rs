//! The final report: times by name and second, gaps in the observation, and its cost.
//!
//! Part of `--json`: never rename fields.

use serde::{Deserialize, Serialize};

use super::account::{By, Imperfect, Lived, NamedStatistic, TimeSecond, TimeShares};
use super::culprits::{Blocker, TemporaryFiles};
use super::source::{FileTimes, ProbeCost, Tier};
use crate::budget::{Reduction, RefusedSource};
use crate::stall::Stall;

/// Overhead of the observation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct LookingCost {
    /// Cost of BPF programs. `None` if there are none, or the kernel does not count it.
    pub kernel: Option<ProbeCost>,
    /// Why the kernel does not count the cost of the BPF programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel_refusal: Option<String>,
    pub own_cpu_ns: u64,
    pub processors: f64,
}

impl LookingCost {
    /// Share of all processors, 0 to 1. `None` if `length_ns` is 0.
    pub fn share(&self, length_ns: u64) -> Option<f64> {
        let used = self.own_cpu_ns.saturating_add(self.kernel.as_ref().map_or(0, ProbeCost::total_ns));
        (length_ns > 0).then(|| used as f64 / (length_ns as f64 * self.processors.max(1.0)))
    }
}

/// Where the server's time went, without pgthaw's own sessions (docs/waits.md). The exit status is that of the
/// observed command, or 0 without one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, crate::JsonSchema)]
pub struct TimeReport {
    pub source: Tier,
    pub refused: Vec<RefusedSource>,
    pub by: By,
    pub length_ns: u64,
    /// Processes seen at any time, without pgthaw's own.
    pub processes: u32,
    #[serde(flatten)]
    pub total: TimeShares,
    /// All but `unknown_ns`, as a share of `lived_ns`. `None` unless the source is `bpf`.
    pub explained: Option<f64>,
    /// Times of client backends.
    pub clients: TimeShares,
    #[serde(skip)]
    pub lived: Lived,
    /// Time of commands by group of processes, most time first. A command lasts from its receipt until the wait for the
    /// next one. `statistics` contains this time too. Only with source `bpf`.
    pub handled_by: Vec<NamedStatistic>,
    /// Commands in progress at the start. Only their time within the observation counts.
    pub begun_before: u64,
    /// Commands in progress at the end. Only their time within the observation counts.
    pub lasting: u64,
    /// Most time first, idle processes last.
    pub statistics: Vec<NamedStatistic>,
    /// Times by second. The last entry may be longer or shorter.
    pub seconds: Vec<TimeSecond>,
    pub stalls: Vec<Stall>,
    /// Files, longest syncs first. Only with source `bpf`.
    pub files: Vec<FileTimes>,
    /// At most 100, largest `held_up_ns` first, each in its state when it had the most
    /// waiters. Idle transactions without waiters come last.
    pub blockers: Vec<Blocker>,
    /// At most 100 entries, most bytes first.
    pub temporary_files: Vec<TemporaryFiles>,
    pub reductions: Vec<Reduction>,
    #[serde(flatten)]
    pub imperfect: Imperfect,
    pub cost: LookingCost,
    pub remarks: Vec<String>,
    /// Begin and end of a history, Unix time in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorded_ms: Option<(i64, i64)>,
}
