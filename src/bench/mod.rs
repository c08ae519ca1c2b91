//! Honest trials: a proven start state, a strategy, a workload, and what was measured each second.

mod error;
mod forecast;
mod loading;
mod options;
mod preparation;
mod race;
mod residency;
mod sweep;
mod tournament;
mod trial;
mod warmer;
mod watch;

pub use forecast::{describe_cold_start, read_ahead_in_force};
pub use loading::{LoadingFinished, LoadingOptions, WantedSource, apply_read_ranges, run_loading};
pub use options::Options;
pub use sweep::{Earlier, SweepFinished, SweepOptions, run_sweep};
pub use tournament::run_tournament;
