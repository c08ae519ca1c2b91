//! What a race measured, second by second, before anything is concluded from it.

use std::time::Duration;

use super::gauges::OsSample;
use super::others::OthersUse;
use super::sweep::{Job, LoadSample};
use super::time::TrialTime;
use crate::units::Bytes;

/// What a strategy did.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    pub command: String,
    /// Since the start; `None` when it was still running at the end, or there is no command.
    pub ended_after: Option<Duration>,
    /// By its own processes and by its backends.
    pub issued_bytes: Option<Bytes>,
    pub failure: Option<String>,
    /// The end of what it printed.
    pub output: String,
    /// Processor time of its own processes.
    pub cpu: Option<Duration>,
    /// Bytes and seconds, by its own account; of fio.
    pub own: Option<(Bytes, f64)>,
}

/// What was seen of what is wanted while it came back.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seen {
    pub resident_after_seconds: Option<f64>,
    pub buffers_after_seconds: Option<f64>,
    /// When all was over, every page looked at again.
    pub resident_bytes: Bytes,
    pub looks: Vec<LoadSample>,
}

/// What was measured.
#[derive(Debug)]
pub struct Measured {
    /// The start, in whole seconds since 1970.
    pub start_unix: i64,
    /// The same, since the machine booted.
    pub start_monotonic: Duration,
    pub seconds: Vec<Second>,
    /// Read by the workload in each tenth of a second.
    pub foreground_tenths: Vec<Bytes>,
    /// Transactions in each second, as pgbench said meanwhile.
    pub progress: Vec<f64>,
    /// When the load began, since the start.
    pub load_began_after: Duration,
    /// When pgbench was over, since the start.
    pub ended_after: Duration,
    pub outcome: Outcome,
    /// What was resident at the start and at the end of each second, of each relation that has a strip.
    pub relations: Vec<Vec<Bytes>>,
    /// Processors that pgbench used in each second.
    pub generator_shares: Vec<f64>,
    /// What the machine did; nothing where it was not gauged.
    pub os_samples: Vec<OsSample>,
    /// Where the time of the server's processes went; `None` where nobody looked.
    pub time: Option<TrialTime>,
    /// Read by everybody under the limit from the server's start on until the clock started; `None` without a limit.
    pub head_start_bytes: Option<Bytes>,
    /// What was seen of what is wanted, beside a warmer of an idle server.
    pub seen: Option<Seen>,
    /// What everybody else had of the machine; `None` where the kernel does not tell.
    pub others: Option<OthersUse>,
}

impl Measured {
    /// What somebody waited for whose transactions ended the trial.
    pub fn job(&self, transactions: u64) -> Job {
        let load = self.ended_after.saturating_sub(self.load_began_after);
        Job {
            transactions,
            warmer_seconds: self.outcome.ended_after.map(|after| after.as_secs_f64()),
            load_seconds: load.as_secs_f64(),
            whole_seconds: self.ended_after.as_secs_f64(),
        }
    }
}

/// What was read from the device so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counters {
    /// By anybody.
    pub device_read_bytes: Bytes,
    pub device_reads: u64,
    /// By the workload's own backends.
    pub workload_read_bytes: Bytes,
    /// By the server's processes on behalf of the strategy.
    pub strategy_read_bytes: Bytes,
}

/// One second of the run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Second {
    /// When the reading that closed this second was really taken.
    pub monotonic: Duration,
    pub wall_ms: i64,
    /// How long after the second's end that was.
    pub lateness: Duration,
    /// What was read within the second.
    pub counters: Counters,
    /// At the second's end.
    pub os_resident_bytes: Bytes,
}

impl Counters {
    /// What was added since `earlier`.
    pub fn since(self, earlier: Counters) -> Counters {
        self.with(earlier, |now, before| now.saturating_sub(before))
    }

    /// The counters after `share` (0 to 1) of the way from here to `later`.
    pub fn towards(self, later: Counters, share: f64) -> Counters {
        self.with(later, |from, to| from + (to.saturating_sub(from) as f64 * share).round() as u64)
    }

    fn with(self, other: Counters, combine: impl Fn(u64, u64) -> u64) -> Counters {
        let bytes = |a: Bytes, b: Bytes| Bytes(combine(a.0, b.0));
        Counters {
            device_read_bytes: bytes(self.device_read_bytes, other.device_read_bytes),
            device_reads: combine(self.device_reads, other.device_reads),
            workload_read_bytes: bytes(self.workload_read_bytes, other.workload_read_bytes),
            strategy_read_bytes: bytes(self.strategy_read_bytes, other.strategy_read_bytes),
        }
    }
}
