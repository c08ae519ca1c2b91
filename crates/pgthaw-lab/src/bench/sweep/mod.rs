//! Sweeps: a study file, the points that it means, and their trials in random order, each kept when it ends.

mod run;
mod start;
mod trial;

pub use run::{Earlier, StudyAsked, SweepFinished, SweepOptions, run_sweeps};
