mod race;
mod residency;
mod resident;
mod run;
mod start;
mod trial;
mod warmer;

pub use crate::lab::{Earlier, StudyAsked, SweepOptions};
pub use resident::apply_read_ranges;
pub use run::{SweepFinished, describe_cold_start, run_sweeps};
