//! What is told in the end: times by name and by second, what could not be seen, and what looking cost.
//!
//! Field names are part of `--json` (docs/formats.md): add, never rename.

use serde::{Deserialize, Serialize};

use super::account::{By, Imperfect, Lived, NamedStatistic, StatisticName, TimeSecond, TimeShares};
use super::culprits::{Blocker, TemporaryFiles};
use super::source::{FileTimes, ProbeCost, Tier, TimeSource as _};
use super::watch::Watched;
use crate::budget::{BudgetedSource, Reduction, RefusedSource};
use crate::stall::Stall;

/// What looking on cost while it lasted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LookingCost {
    /// Of the programs in the kernel, by its own count; `None` where there are none, or it does not count.
    pub kernel: Option<ProbeCost>,
    /// Why it does not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel_refusal: Option<String>,
    /// Processor time of pgthaw's own process.
    pub own_cpu_ns: u64,
    pub processors: f64,
}

impl LookingCost {
    /// Of the time of all processors of the machine, 0 to 1. `None` of no time at all.
    pub fn share(&self, length_ns: u64) -> Option<f64> {
        let used = self.own_cpu_ns.saturating_add(self.kernel.as_ref().map_or(0, ProbeCost::total_ns));
        (length_ns > 0).then(|| used as f64 / (length_ns as f64 * self.processors.max(1.0)))
    }
}

/// Where the time went.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TimeReport {
    pub source: Tier,
    /// Better sources that could not be had.
    pub refused: Vec<RefusedSource>,
    pub by: By,
    pub length_ns: u64,
    /// That were there at some time, without pgthaw's own.
    pub processes: u32,
    #[serde(flatten)]
    pub total: TimeShares,
    pub explained: Option<f64>,
    /// The client backends alone.
    pub clients: TimeShares,
    #[serde(skip)]
    pub lived: Lived,
    /// Commands from their receipt until the next is waited for, by who handled them: most time first. They lie across the kinds of time.
    pub handled_by: Vec<NamedStatistic>,
    /// Of these, the commands that had begun before the look, and those that lasted when it ended. What of them lay within it counts.
    pub begun_before: u64,
    pub lasting: u64,
    /// Those with the most time first; who has nothing to do behind all others.
    pub statistics: Vec<NamedStatistic>,
    pub seconds: Vec<TimeSecond>,
    pub stalls: Vec<Stall>,
    /// Those with the longest syncs first.
    pub files: Vec<FileTimes>,
    /// Those that others waited for longest first, then those that were idle in a transaction.
    pub blockers: Vec<Blocker>,
    /// Of each query the most that it had at a time, the most bytes first.
    pub temporary_files: Vec<TemporaryFiles>,
    /// What was given up to stay within the budget.
    pub reductions: Vec<Reduction>,
    #[serde(flatten)]
    pub imperfect: Imperfect,
    pub cost: LookingCost,
    pub remarks: Vec<String>,
}

impl TimeReport {
    /// From what was added up and found.
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
