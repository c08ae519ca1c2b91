//! Honest trials: a proven start state, a strategy, a workload, and what was measured each second.

mod error;
mod forecast;
mod loading;
mod race;
mod residency;
mod sweep;
mod warmer;
mod watch;

pub use forecast::describe_cold_start;
pub use loading::{LoadingFinished, LoadingOptions, WantedSource, apply_read_ranges, run_loading};
pub use sweep::{Earlier, StudyAsked, SweepFinished, SweepOptions, run_sweeps};
