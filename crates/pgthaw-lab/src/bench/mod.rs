//! Honest trials: a proven start state, a strategy, a workload, and what was measured each second.

mod forecast;
mod race;
mod residency;
mod resident;
mod sweep;
mod warmer;

pub use forecast::describe_cold_start;
pub use resident::apply_read_ranges;
pub use sweep::{Earlier, StudyAsked, SweepFinished, SweepOptions, run_sweeps};

use crate::lab::{Error, Measuring};

impl From<cache::Error> for Error {
    fn from(error: cache::Error) -> Error {
        Error::Measuring(Measuring(Box::new(error)))
    }
}

impl From<observe::Error> for Error {
    fn from(error: observe::Error) -> Error {
        Error::Measuring(Measuring(Box::new(error)))
    }
}

impl From<model::Error> for Error {
    fn from(error: model::Error) -> Error {
        Error::Measuring(Measuring(Box::new(error)))
    }
}
