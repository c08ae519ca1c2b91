//! Honest trials: a proven start state, a strategy, a workload, and what was measured each second.

pub mod disk;
mod error;
pub mod order;
mod record;
pub mod statistics;
pub mod throughput;
pub mod warm;

pub use error::Error;
pub use record::{
    Device, Disk, Machine, RelationResidency, ResidencyStrip, Run, Sample, StartState, StrategyOutcome, Study, Trial,
};
