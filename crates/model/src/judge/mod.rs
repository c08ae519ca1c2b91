//! Was a run ever warm? One verdict over a measured curve; docs/model.md gives the reasons.
//!
//! A warm-up only rises, so the falls of a curve measure its noise. Penalised segmentation finds levels; a walk back
//! from the end finds where the last one began. That tail must be long enough, without a trend beyond its noise, with
//! reads at their floor where known; and the rise to it must be that of a finished warm-up which can have read all
//! pages.

mod fit;
mod judgement;
mod series;
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
