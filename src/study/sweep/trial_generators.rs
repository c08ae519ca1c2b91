//! What a trial keeps of its generators.
//!
//! Field names are part of `--json` (docs/formats.md): add, never rename.

use serde::{Deserialize, Serialize};

/// The hosts that made a trial's load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct TrialGenerators {
    /// From the first start to the last, in milliseconds.
    pub start_spread_ms: f64,
    pub hosts: Vec<TrialGenerator>,
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct TrialGenerator {
    pub host: String,
    pub clients: u32,
    /// Threads.
    pub jobs: u32,
    pub pgbench_version: String,
    /// By how much its clock was ahead of this host's, and by how much that may be wrong, in milliseconds.
    pub clock_offset_ms: f64,
    pub clock_uncertainty_ms: f64,
    /// When pgbench was begun after the instant that was agreed upon, in milliseconds by this host's clock.
    pub started_after_ms: f64,
    /// By its pgbench's count.
    pub transactions: u64,
    pub tps: f64,
    /// Are its processes this machine's own? Otherwise nobody sees what its threads did.
    pub is_seen: bool,
}

impl TrialGenerators {
    /// Of these hosts.
    pub fn new(hosts: Vec<TrialGenerator>) -> TrialGenerators {
        let starts = || hosts.iter().map(|host| host.started_after_ms);
        let spread = starts().fold(f64::NEG_INFINITY, f64::max) - starts().fold(f64::INFINITY, f64::min);
        TrialGenerators { start_spread_ms: if hosts.is_empty() { 0.0 } else { spread }, hosts }
    }

    /// Threads that can be seen.
    pub fn seen_jobs(&self) -> u32 {
        self.hosts.iter().filter(|host| host.is_seen).fold(0, |jobs, host| host.jobs.saturating_add(jobs))
    }

    /// The hosts whose threads nobody sees.
    pub fn unseen(&self) -> Vec<String> {
        self.hosts.iter().filter(|host| !host.is_seen).map(|host| host.host.clone()).collect()
    }

    /// What the spread may be wrong by: as much as the two least certain clocks together.
    pub fn start_uncertainty_ms(&self) -> f64 {
        let mut uncertain: Vec<f64> = self.hosts.iter().map(|host| host.clock_uncertainty_ms).collect();
        uncertain.sort_by(|one, other| other.total_cmp(one));
        uncertain.iter().take(2).sum()
    }
}
