//! Sweeps: a study file, the points that it means, and their trials in random order, each kept when it ends.

mod calibrate;
mod earlier;
mod run;
mod start;
mod trial;

pub use earlier::Earlier;
pub use run::{StudyAsked, SweepFinished, SweepOptions, run_sweeps};
