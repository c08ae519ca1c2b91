//! Observes a server and its machine while something runs: counters, gauges, waits and where the time goes.

#[cfg(test)]
#[macro_use]
extern crate host;

mod budget;
mod error;
mod gauges;
pub mod pages;
mod probes;
mod sampler;
pub mod stall;
mod statistic;
pub mod time;
pub mod top;
mod waits;

#[cfg(not(any(test, feature = "formats")))]
use derives::{JsonSchema, TS};
#[cfg(any(test, feature = "formats"))]
use {schemars::JsonSchema, ts_rs::TS};

pub use budget::{
    BudgetedSource, GivenUp, Reduction, RefusedSource, looks_after, looks_in_words, open_time_source, render_looks,
};
pub use error::Error;
pub use gauges::{
    DeviceUse, GaugeSources, MachineReading, OsSample, OthersUse, PressureRatios, TaskShare, sample_gauges,
};
pub use probes::{forget_pages_ahead, open_page_probe, open_pages_ahead, open_time_probe};
pub use sampler::{
    BackendReads, BackendRole, Cadence, Counters, Reading, Readings, STRATEGY_ROLE, Sampling, Second, Sources,
    WORKLOAD_ROLE, apply_end_strategy_backends, compute_seconds, compute_tenths, sample_counters,
};
pub use statistic::{BUCKETS, Statistic};
pub use waits::{Flushes, ObservedWait, WaitSample, WaitSampler, Waits};

/// Whether kernel programs were compiled in.
pub const HAS_PROBES: bool = cfg!(probes);
