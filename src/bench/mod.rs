//! Honest trials: a proven start state, a strategy, a workload, and what was measured each second.

mod headline;
mod record;
mod summary;

pub use headline::{PGTHAW, render_headline};
pub use record::{
    Device, Disk, Machine, RelationResidency, ResidencyStrip, Run, Sample, StartState, StrategyOutcome, Study, Trial,
};
pub use summary::{NOTHING, Spread, StrategySummary, Summary, compute_summary};
