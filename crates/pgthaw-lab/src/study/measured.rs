//! What a race measured, second by second, before anything is concluded from it.

use std::time::Duration;

use super::sweep::{Job, LoadSample};
use host::units::Bytes;
use observe::time::TrialTime;
use observe::{OsSample, OthersUse, Second};

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
