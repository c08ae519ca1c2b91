//! The median, which every figure over repeats and seconds is.

pub use crate::model::compute_median;
