//! What can be said of a run.

use serde::{Deserialize, Serialize};

use crate::model::Fit;

/// The answer in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// From `steady_from_seconds` on throughput kept its level.
    Steady,
    /// It was still rising at the end, or it cannot be told from a cold start that has not risen yet.
    NotReached,
    /// It keeps its level but for what comes back after each `period_seconds`.
    Periodic,
    /// It was faster before than at the end, and still falls.
    Degrading,
}

impl Verdict {
    /// The exit status of `pgthaw steady`. 1 to 3 are failures of pgthaw itself.
    pub fn exit_code(self) -> u8 {
        match self {
            Verdict::Steady => 0,
            Verdict::NotReached => 10,
            Verdict::Periodic => 11,
            Verdict::Degrading => 12,
        }
    }
}

/// The verdict, and the figures behind it. Seconds count from the start of the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Judgement {
    pub verdict: Verdict,
    /// Why, in one sentence.
    pub reason: String,
    /// Since when the level is that of the end; `None` unless the verdict is steady or periodic.
    pub steady_from_seconds: Option<f64>,
    pub period_seconds: Option<f64>,
    /// Transactions per second: of the steady part, or what the fit promises when it was not reached.
    pub steady_tps: Option<f64>,
    /// Over the whole run.
    pub mean_tps: f64,
    /// `mean_tps` ÷ `steady_tps` - 1: how wrong the mean over the whole run is.
    pub mean_error_share: Option<f64>,
    /// Seconds until these shares of `steady_tps`: measured, or by the fit (`None`) when not reached.
    pub to_50_seconds: Option<f64>,
    pub to_90_seconds: Option<f64>,
    pub to_95_seconds: Option<f64>,
    pub run_seconds: f64,
    /// How long it should have been for a verdict of steady; `None` when nothing says so.
    pub should_have_run_seconds: Option<f64>,
    /// The warm-up's parameters by the closed form.
    pub fit: Option<Fit>,
    /// Why there is no fit.
    pub no_fit: Option<String>,
    pub remarks: Vec<String>,
}

impl Judgement {
    /// Takes back what the fit promised of a run that did not reach it: it does not know of all `pages`.
    pub(super) fn drop_promise(&mut self, pages: f64) {
        self.steady_tps = None;
        self.mean_error_share = None;
        (self.to_50_seconds, self.to_90_seconds, self.to_95_seconds) = (None, None, None);
        self.should_have_run_seconds = None;
        self.remarks.push(format!("the fit promises nothing: the workload chooses from {pages:.0} pages"));
    }
}
