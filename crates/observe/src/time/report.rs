//! The final report: times by name and second, gaps, and the cost of the observation.
//!
//! Field names are part of `--json` (docs/formats.md): add, never rename.

use serde::{Deserialize, Serialize};

use super::account::{By, Imperfect, Lived, NamedStatistic, StatisticName, TimeSecond, TimeShares};
use super::culprits::{Blocker, TemporaryFiles};
use super::source::{FileTimes, ProbeCost, Tier, TimeSource as _};
use super::watch::Watched;
use crate::budget::{BudgetedSource, Reduction, RefusedSource};
use crate::stall::Stall;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LookingCost {
    /// Kernel programs. `None` without any, or if the kernel does not count.
    pub kernel: Option<ProbeCost>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel_refusal: Option<String>,
    pub own_cpu_ns: u64,
    pub processors: f64,
}

impl LookingCost {
    /// Share of all processors, 0 to 1. `None` without time.
    pub fn share(&self, length_ns: u64) -> Option<f64> {
        let used = self.own_cpu_ns.saturating_add(self.kernel.as_ref().map_or(0, ProbeCost::total_ns));
        (length_ns > 0).then(|| used as f64 / (length_ns as f64 * self.processors.max(1.0)))
    }
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TimeReport {
    pub source: Tier,
    pub refused: Vec<RefusedSource>,
    pub by: By,
    pub length_ns: u64,
    /// Processes seen at any time, without pgthaw's own.
    pub processes: u32,
    #[serde(flatten)]
    pub total: TimeShares,
    pub explained: Option<f64>,
    pub clients: TimeShares,
    #[serde(skip)]
    pub lived: Lived,
    /// Commands from receipt until the wait for the next, most time first. They overlap the kinds of time.
    pub handled_by: Vec<NamedStatistic>,
    /// Commands begun before and unfinished after the observation, counted with their time within it.
    pub begun_before: u64,
    pub lasting: u64,
    /// Most time first, idle processes last.
    pub statistics: Vec<NamedStatistic>,
    pub seconds: Vec<TimeSecond>,
    pub stalls: Vec<Stall>,
    /// Longest syncs first.
    pub files: Vec<FileTimes>,
    /// Longest total wait first, then sessions idle in a transaction.
    pub blockers: Vec<Blocker>,
    /// Maximum of each query, most bytes first.
    pub temporary_files: Vec<TemporaryFiles>,
    pub reductions: Vec<Reduction>,
    #[serde(flatten)]
    pub imperfect: Imperfect,
    pub cost: LookingCost,
    pub remarks: Vec<String>,
}

impl TimeReport {
    pub fn new(
        watched: Watched,
        source: &BudgetedSource,
        by: By,
        refused: Vec<RefusedSource>,
        cost: LookingCost,
        remarks: Vec<String>,
    ) -> TimeReport {
        let accounting = watched.accounting;
        let length_ns = accounting.length_ns();
        let handled = accounting.handled.into_iter();
        let handled = handled.map(|(place, statistic)| (StatisticName::of_commands(place), statistic)).collect();
        let mut files = watched.files;
        files.sort_by_key(|file| std::cmp::Reverse((file.syncs.total_ns, file.slept_ns, file.written.bytes)));
        TimeReport {
            handled_by: NamedStatistic::all_of(handled),
            begun_before: accounting.begun_before,
            lasting: accounting.lasting,
            source: source.tier(),
            refused,
            by,
            length_ns,
            processes: accounting.processes,
            total: accounting.total,
            explained: accounting.total.explained(),
            clients: accounting.clients,
            lived: accounting.lived,
            statistics: NamedStatistic::all_of(accounting.statistics),
            seconds: accounting.seconds,
            stalls: watched.stalls,
            files,
            blockers: watched.culprits.seen_blockers,
            temporary_files: watched.culprits.seen_temporary,
            reductions: source.reductions.clone(),
            imperfect: accounting.imperfect,
            cost,
            remarks,
        }
    }
}
