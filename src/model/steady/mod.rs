//! Was a run ever warm? One verdict over a measured curve.
//!
//! Penalised segmentation finds levels, a walk back from the end finds since when the level has been that of the end, and
//! then the tail has to pass: long enough, no trend, no period, reads at their floor where they are known, and where the
//! run was flat from the start, proof that it was not the plateau of a cold start. docs/model.md gives the reasons.

mod approach;
mod consistency;
mod judge;
mod noise;
mod period;
mod plateau;
mod segment;
mod tail;
mod verdict;
#[cfg(test)]
mod verdict_tests;

pub use consistency::find_disorder;
pub use judge::judge;
pub use verdict::{Judgement, Verdict};
