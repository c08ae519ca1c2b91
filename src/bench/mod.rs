//! Honest trials: a proven start state, a strategy, a workload, and what was measured each second.

mod error;
mod forecast;
mod race;
mod residency;
mod resident;
mod sweep;
mod warmer;
mod watch;

pub use forecast::describe_cold_start;
pub use resident::apply_read_ranges;
pub use sweep::{Earlier, StudyAsked, SweepFinished, SweepOptions, run_sweeps};
