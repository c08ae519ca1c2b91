//! Judges whether a measured curve keeps a level, and whether that level is a warm server's (docs/model.md).
//!
//! A warm-up only rises, so a curve's falls measure its noise. Penalised segmentation finds the final level.

mod fit;
mod judgement;
mod series;
mod steps;
#[cfg(test)]
mod synthetic;
mod tail;
#[cfg(test)]
mod verdict_tests;
mod warmth;

pub use fit::{Estimate, Fit, fit_warm_up};
pub use judgement::{Judgement, Undecided, Verdict, Warmth, tell_error};
pub use series::{Bucket, Facts, Reader, Series};
pub use steps::judge;
pub use tail::compute_running_median;
