//! Waits for lightweight locks by tranche, counted at the server's own probes (USDT): on request, and for a limited time. Every process
//! that comes by stops there, which costs the server.
//!
//! Field names are part of `--json` (docs/formats.md): add, never rename.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use super::time::ProbeCost;
use super::{Error, LwlockProbe, Statistic};
use crate::failure::Explain as _;
use crate::linux::clock::read_monotonic;

/// Why waits for lightweight locks are not counted, or no more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "ended")]
pub enum LwlocksEnd {
    /// They were counted until the look ended.
    End,
    /// The time for it was over before.
    Limit,
    /// Looking cost too much.
    Budget,
    /// The server was restarted.
    Restart,
    /// They could not be counted.
    Refused { reason: String, remedy: Option<String> },
}

/// What was counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LwlockWaits {
    pub end: LwlocksEnd,
    /// For so long.
    pub length_ns: u64,
    pub limit_ns: u64,
    /// Of each tranche, by its name.
    pub tranches: BTreeMap<String, Statistic>,
    /// Waits that no tranche has, for there were too many of these.
    pub lost: u64,
}

/// Counts until it has to end.
#[derive(Debug)]
pub struct LwlockWatch {
    probe: Option<LwlockProbe>,
    begin_ns: u64,
    waits: LwlockWaits,
    /// Of what has ended.
    spent: ProbeCost,
}

impl LwlockWatch {
    /// Begins with the server of this postmaster, for `limit` at most. Where that cannot be done it says so in the end.
    pub fn begin(postmaster_pid: Option<u32>, limit: Duration) -> LwlockWatch {
        let opened = postmaster_pid.ok_or(Error::NotHere).and_then(LwlockProbe::open);
        let (probe, end) = match opened {
            Ok(probe) => (Some(probe), LwlocksEnd::End),
            Err(error) => (None, LwlocksEnd::Refused { reason: error.to_string(), remedy: error.hint() }),
        };
        // To attach takes a while, which is no part of the time.
        let begin_ns = read_monotonic().as_nanos() as u64;
        let limit_ns = limit.as_nanos() as u64;
        let waits = LwlockWaits { end, length_ns: 0, limit_ns, tranches: BTreeMap::new(), lost: 0 };
        LwlockWatch { probe, begin_ns, waits, spent: ProbeCost::default() }
    }

    /// Ends when it is time.
    pub fn keep_within_limit(&mut self, now_ns: u64) -> Result<(), Error> {
        self.probe.as_mut().into_iter().for_each(LwlockProbe::learn_names);
        match now_ns.saturating_sub(self.begin_ns) >= self.waits.limit_ns {
            true => self.end(now_ns, LwlocksEnd::Limit).map(drop),
            false => Ok(()),
        }
    }

    /// Counts no more, and no process stops. Whether it counted until now.
    pub fn end(&mut self, now_ns: u64, end: LwlocksEnd) -> Result<bool, Error> {
        let Some(mut probe) = self.probe.take() else { return Ok(false) };
        self.spent = probe.cost();
        (self.waits.tranches, self.waits.lost) = probe.read()?;
        self.waits.end = end;
        self.waits.length_ns = now_ns.saturating_sub(self.begin_ns);
        Ok(true)
    }

    /// What it costs: by the kernel's own count, and what the stops are taken to cost.
    pub fn cost(&self) -> ProbeCost {
        self.probe.as_ref().map_or_else(|| self.spent.clone(), LwlockProbe::cost)
    }

    /// What was counted by its end.
    pub fn waits(&self) -> &LwlockWaits {
        &self.waits
    }
}
