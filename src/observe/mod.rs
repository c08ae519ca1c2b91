//! What happens each second while something runs: counters read on an absolute schedule, and whose they are; what the whole
//! machine does; what the server's processes wait for.

mod backends;
mod error;
mod gauges;
mod others;
mod sampler;
mod series;
mod waits;

pub use backends::{
    BackendReads, BackendRole, BackendTotals, STRATEGY_ROLE, WORKLOAD_ROLE, apply_end_strategy_backends,
};
pub use error::Error;
pub use gauges::{DeviceUse, GaugeSampler, GaugeSources, OsSample, PressureRatios, ServerPart, TaskShare};
pub use others::{MachineReading, OthersUse};
pub use sampler::{Cadence, Readings, Sampler, Sources};
pub use series::{Counters, Reading, Second, compute_seconds, compute_tenths};
pub use waits::{ObservedWait, WaitSample, WaitSampler, Waits};
