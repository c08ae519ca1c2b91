//! Honest trials: a proven start state, a strategy, a workload, and what was measured each second.

mod record;

pub use record::{
    Device, Disk, Machine, RelationResidency, ResidencyStrip, Run, Sample, StartState, StrategyOutcome, Study, Trial,
};
