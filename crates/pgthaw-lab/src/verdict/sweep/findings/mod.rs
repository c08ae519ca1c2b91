//! Verdicts on the measurement itself: what speaks against a trial, or against the whole sweep, each with its remedy.

mod bloat;
mod generator;
mod imported;
mod study;
mod trial;

pub use bloat::TableGrowth;
pub use generator::busiest_thread;
pub use imported::judge_import;
pub use study::{compute_start_verdicts, compute_sweep_verdicts};
pub use trial::{Circumstances, compute_trial_verdicts};
