//! Models of cache warm-up and judgement of measured curves. Pure functions; docs/model.md explains the formulas.

mod closed_form;
mod error;
#[cfg(all(feature = "judge", any(test, feature = "fixtures")))]
mod fixtures;
mod general;
#[cfg(feature = "judge")]
mod judge;
mod outlook;
mod scenarios;
mod stall;

#[cfg(not(any(test, feature = "formats")))]
use derives::{JsonSchema, TS};
#[cfg(any(test, feature = "formats"))]
use {schemars::JsonSchema, ts_rs::TS};

pub use closed_form::{FillTime, Knee, RowDensity, Steepest, WARM_SHARE, WarmUp};
pub use error::Error;
#[cfg(all(feature = "judge", any(test, feature = "fixtures")))]
pub use fixtures::find_disorder;
pub use general::{
    Access, AccessKind, Bin, Device, Forecast, ForecastPoint, PageClass, Popularity, Server, WarmStep, Warmer,
    Workload, compute_forecast,
};
#[cfg(feature = "judge")]
pub use judge::{
    Bucket, Estimate, Facts, Fit, Judgement, Reader, Series, Undecided, Verdict, Warmth, compute_running_median,
    fit_warm_up, judge, tell_error,
};
pub use outlook::{
    AT_ONCE, Outlook, READ_CPU_SECONDS, STARTUP_READS, Scenario, Span, UNCERTAINTY, compute_hit_seconds,
    compute_outlook, is_at_once, show_computed, tell_after, tell_computed_after, tell_from,
};
pub use scenarios::{
    ColdRestart, DEFAULT_LATENCY_SECONDS, Knees, Numbers, RESTORE_BEGINS_SECONDS, RESTORE_DEPTH, RoughEstimate,
    explain_later_restores, parse_hit, parse_reads,
};
pub use stall::{StallFinder, StallSpan, find_stalls};

/// `None` if empty. All values must be finite.
pub fn compute_median(mut values: Vec<f64>) -> Option<f64> {
    let middle = values.len() / 2;
    if values.is_empty() {
        return None;
    }
    let is_odd = values.len() % 2 == 1;
    let (below, upper, _) = values.select_nth_unstable_by(middle, f64::total_cmp);
    let lower = if is_odd { *upper } else { below.iter().copied().fold(f64::NEG_INFINITY, f64::max) };
    Some(f64::midpoint(lower, *upper))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_odd_even_and_no_numbers() {
        assert_eq!(compute_median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(compute_median(vec![4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(compute_median(vec![]), None);
    }
}
