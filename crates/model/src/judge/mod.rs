//! Two answers over a measured curve: does it keep a level, and is that level a warm server's? docs/model.md gives the
//! reasons.
//!
//! A warm-up only rises, so the falls of a curve measure its noise. Penalised segmentation finds levels; a walk back
//! from the end finds where the last one began. That tail must be long enough, without a trend beyond its noise. Whether
//! it is warm is a matter of reads, of the way it rose, and of the pages that its transactions can have read. Often the
//! curve alone does not say.

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
pub use series::{Bucket, Collector, Facts, Reader, Series};
pub use steps::judge;
