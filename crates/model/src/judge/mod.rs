//! Was a run ever warm? One verdict over a measured curve.
//!
//! The noise of the curve is measured from the curve: a warm-up only rises, so what falls is noise. Penalised segmentation
//! finds levels, a walk back from the end finds since when the level has been that of the end, and then the tail has to pass:
//! long enough, no trend beyond its noise, reads at their floor where they are known. The way in which the curve came to its
//! level has to be that of a warm-up that is over, and of one that can have read all pages where their number is known. docs/model.md
//! gives the reasons.

mod fit;
mod judgement;
mod series;
mod statistics;
mod steps;
#[cfg(test)]
mod synthetic;
mod tail;
#[cfg(test)]
mod verdict_tests;

pub use fit::{Estimate, Fit, fit_warm_up};
pub use judgement::{Judgement, Undecided, Verdict, find_disorder};
pub use series::{Bucket, Collector, Facts, Reader, Series};
pub use steps::judge;
