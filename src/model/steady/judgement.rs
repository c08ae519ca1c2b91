//! What is said of a run: its verdict, and the figures behind it.

use serde::{Deserialize, Serialize};

use super::reason::{Reason, Undecided};
use super::verdict::Verdict;
use crate::model::Fit;

/// The steady part must be so much of the run.
pub(super) const LEAST_TAIL_SHARE: f64 = 0.15;

/// What a level had to last, of judgements that were kept before that was: ten seconds of a trial.
fn ten_seconds() -> f64 {
    10.0
}

/// The verdict, and the figures behind it. Seconds count from the start of the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Judgement {
    pub verdict: Verdict,
    /// Why, in one sentence.
    pub reason: String,
    /// Why it is open whether it was steady; `None` where that was seen, and of judgements that were kept before it was told.
    #[serde(default)]
    pub undecided: Option<Undecided>,
    /// The share of the run's common level that its own is of, where that is another one.
    #[serde(default)]
    pub level_share: Option<f64>,
    /// Since when the level is that of the end, never before `to_95_seconds`; `None` unless the verdict is steady or
    /// periodic.
    pub steady_from_seconds: Option<f64>,
    /// What a level has to last to be one, beside 15 % of the run.
    #[serde(default = "ten_seconds")]
    pub level_lasts_seconds: f64,
    pub period_seconds: Option<f64>,
    /// Transactions per second: of the steady part, or what the fit promises when it was not reached.
    pub steady_tps: Option<f64>,
    /// The level's own noise, as it was seen: 95 % of levels that last as long lie within this share of `steady_tps`. `None` where
    /// there is no measured level, and of judgements that were kept before it was told.
    #[serde(default)]
    pub level_error_share: Option<f64>,
    /// Over the whole run.
    pub mean_tps: f64,
    /// `mean_tps` ÷ `steady_tps` - 1: how wrong the mean over the whole run is.
    pub mean_error_share: Option<f64>,
    /// Seconds until these shares of `steady_tps`: measured, or by the fit (`None`) when not reached. 0 is at once: the run
    /// began at that level or above it.
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
    /// How long a run that keeps its level from an instant on has to last for that to be seen.
    pub(super) fn needed_seconds(&self, from_seconds: f64) -> f64 {
        (from_seconds / (1.0 - LEAST_TAIL_SHARE)).max(from_seconds + self.level_lasts_seconds)
    }

    /// Makes the verdict agree with the time to 95 % that is printed beside it: steady is from then on at the earliest, and
    /// where too little is left from then on, that it cannot be told.
    pub fn settle(&mut self, to_95_seconds: Option<f64>) {
        let Some((from, reached)) = self.steady_from_seconds.zip(to_95_seconds).filter(|(from, at)| from < at) else {
            return;
        };
        let needed = self.needed_seconds(reached);
        if needed <= self.run_seconds {
            self.steady_from_seconds = Some(from.max(reached));
            self.should_have_run_seconds = Some(needed);
            return;
        }
        let reason = Reason::TooShort;
        (self.verdict, self.reason, self.undecided) = (reason.verdict(), reason.sentence(), reason.undecided());
        self.level_share = None;
        (self.steady_from_seconds, self.period_seconds) = (None, None);
        (self.steady_tps, self.mean_error_share, self.level_error_share) = (None, None, None);
        (self.to_50_seconds, self.to_90_seconds, self.to_95_seconds) = (None, None, None);
        self.should_have_run_seconds = Some(needed);
    }

    /// Tells that its level is another one than that of the other trials, which its times are of: so much of it.
    pub fn tell_share(&mut self, share: f64) {
        if self.steady_from_seconds.is_none() {
            return;
        }
        let told = format!(", at {:.0} % of the run's steady throughput", 100.0 * share);
        // One that was kept has it already.
        if !self.reason.ends_with(&told) {
            self.reason += &told;
        }
        self.level_share = Some(share);
    }

    /// Takes back what the fit promised of a run that did not reach it: it does not know of all `pages`.
    pub(super) fn drop_promise(&mut self, pages: f64) {
        self.steady_tps = None;
        self.mean_error_share = None;
        (self.to_50_seconds, self.to_90_seconds, self.to_95_seconds) = (None, None, None);
        self.should_have_run_seconds = None;
        self.remarks.push(format!("the fit promises nothing: the workload chooses from {pages:.0} pages"));
    }
}
