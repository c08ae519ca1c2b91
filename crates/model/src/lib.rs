//! How a cache warms up, computed: the curve of a workload that starts cold, how long it takes, and what a measured
//! curve says. Pure functions, no input or output. docs/model.md derives the formulas.

mod closed_form;
mod error;
mod general;
#[cfg(feature = "judge")]
mod judge;
mod median;
mod outlook;
mod scenarios;
mod stall;

pub use closed_form::{Component, FillTime, Knee, RowDensity, WarmUp};
pub use error::Error;
pub use general::{
    Access, AccessKind, Bin, Device, Forecast, ForecastPoint, PageClass, Popularity, Server, WarmStep, Warmer,
    Workload, compute_forecast,
};
#[cfg(feature = "judge")]
pub use judge::{
    Bucket, Collector, Estimate, Facts, Fit, Judgement, Reader, Series, Undecided, Verdict, find_disorder, fit_warm_up,
    judge,
};
pub use median::compute_median;
pub use outlook::{
    AT_ONCE, ColdStart, Outlook, READ_CPU_SECONDS, Scenario, Span, UNCERTAINTY, compute_hit_seconds, compute_outlook,
    is_at_once, show_computed, tell_after, tell_computed_after, tell_from,
};
pub use scenarios::{
    ColdRestart, DEFAULT_LATENCY_SECONDS, Knees, Numbers, RESTORE_BEGINS_SECONDS, RESTORE_DEPTH, RoughEstimate,
    Steepest, explain_later_restores, parse_hit, parse_reads,
};
pub use stall::{StallFinder, StallSpan, find_stalls};
