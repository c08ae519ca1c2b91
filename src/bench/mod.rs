//! Honest trials: a proven start state, a strategy, a workload, and what was measured each second.

pub mod disk;
mod error;
mod headline;
pub mod order;
mod record;
pub mod statistics;
mod summary;
pub mod throughput;
pub mod warm;

pub use error::Error;
pub use headline::{PGTHAW, render_headline};
pub use record::{
    Device, Disk, Machine, RelationResidency, ResidencyStrip, Run, Sample, StartState, StrategyOutcome, Study, Trial,
};
pub use summary::{NOTHING, Spread, StrategySummary, Summary, compute_summary};
