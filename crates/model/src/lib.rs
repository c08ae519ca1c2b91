//! How a cache warms up, computed: the curve of a workload that starts cold, how long it takes, and what a measured
//! curve says. Pure functions, no input or output. docs/model.md derives the formulas.

mod closed_form;
mod error;
mod fit;
mod general;
mod outlook;
mod series;
mod stall;
mod statistics;
mod steady;
#[cfg(test)]
mod synthetic;

pub use closed_form::{Component, FillTime, Knee, RowDensity, WarmUp};
pub use error::Error;
pub use fit::{Estimate, Fit, fit_warm_up};
pub use general::{
    Access, AccessKind, Bin, Device, Forecast, ForecastPoint, PageClass, Popularity, Server, WarmStep, Warmer,
    Workload, compute_forecast,
};
pub use outlook::{
    AT_ONCE, ColdStart, Outlook, READ_CPU_SECONDS, Scenario, Span, UNCERTAINTY, compute_hit_seconds, compute_outlook,
    is_at_once, show_computed, tell_after, tell_computed_after, tell_from,
};
pub use series::{Bucket, Collector, Facts, Reader, Series};
pub use stall::{StallFinder, StallSpan, find_stalls};
pub use statistics::compute_median;
pub use steady::{Judgement, Undecided, Verdict, find_disorder, judge};
