//! What happens each second while something runs: counters read on an absolute schedule, and whose they are; what the whole
//! machine does; what the server's processes wait for; where their time goes.

#[cfg(test)]
#[macro_use]
extern crate host;

mod backends;
mod budget;
mod error;
mod gauges;
mod open;
mod others;
pub mod pages;
mod probes;
mod roles;
mod sample;
mod sampler;
mod series;
pub mod stall;
mod statistic;
pub mod time;
pub mod top;
mod waits;

pub use backends::{BackendReads, BackendRole, BackendTotals, apply_end_strategy_backends};
pub use budget::{BudgetedSource, GivenUp, Reduction, looks_after, looks_in_words, render_looks};
pub use error::Error;
pub use gauges::{GaugeSampler, GaugeSources, ServerPart};
pub use open::{RefusedSource, open_local_source, open_time_source};
pub use others::{MachineReading, OthersUse};
pub use probes::{PageProbe, ProbeOptions, TimeProbe, forget_pages_ahead, open_pages_ahead};
pub use roles::{STRATEGY_ROLE, WORKLOAD_ROLE};
pub use sample::{DeviceUse, Flushes, ObservedWait, OsSample, PressureRatios, TaskShare, WaitSample, WaitSum, Waits};
pub use sampler::{Cadence, Readings, Sampler, Sources};
pub use series::{Counters, Reading, Second, compute_seconds, compute_tenths};
pub use statistic::{BUCKETS, Statistic};
pub use waits::WaitSampler;

/// Whether programs for the kernel were compiled in.
pub const HAS_PROBES: bool = cfg!(probes);
