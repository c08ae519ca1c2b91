//! What is said of a run: its verdict, and the figures behind it.

use serde::{Deserialize, Serialize};

use super::Fit;
use super::series::tell_rate;

/// The steady part must be so much of the run.
pub(super) const LEAST_TAIL_SHARE: f64 = 0.15;

/// The verdict with its figures. Seconds count from the run's start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "typescript"), derive(ts_rs::TS))]
pub struct Judgement {
    pub verdict: Verdict,
    /// Why, in one sentence.
    pub reason: String,
    /// Why it is open whether it was steady; `None` where that was seen.
    pub undecided: Option<Undecided>,
    /// Is its level that of a warm server? `None` without a level, and in records of before.
    pub warmth: Option<Warmth>,
    /// Its level as a share of the run's common one, if different.
    pub level_share: Option<f64>,
    /// Start of the final level, never before `to_95_seconds`; only for steady and periodic.
    pub steady_from_seconds: Option<f64>,
    /// The least duration of a level, besides 15 % of the run.
    pub level_lasts_seconds: f64,
    pub period_seconds: Option<f64>,
    /// Transactions per second of the steady part, or promised by the fit.
    pub steady_tps: Option<f64>,
    /// Noise of the level: 95 % of levels of this length lie within this share of `steady_tps`. `None` without a
    /// measured level.
    pub level_error_share: Option<f64>,
    /// Over the whole run.
    pub mean_tps: f64,
    /// `mean_tps` ÷ `steady_tps` - 1: the error of the mean over the run.
    pub mean_error_share: Option<f64>,
    /// Seconds until these shares of `steady_tps`, measured or by the fit (`None`). 0: it began there or above.
    pub to_50_seconds: Option<f64>,
    pub to_90_seconds: Option<f64>,
    pub to_95_seconds: Option<f64>,
    pub run_seconds: f64,
    /// The run length for a steady verdict, if known.
    pub should_have_run_seconds: Option<f64>,
    /// The warm-up's parameters by the closed form.
    pub fit: Option<Fit>,
    /// Why there is no fit.
    pub no_fit: Option<String>,
    pub remarks: Vec<String>,
}

impl Judgement {
    /// Did it keep a level, with or without dips, that is not known to be a cold server's?
    pub fn is_steady(&self) -> bool {
        matches!(self.verdict, Verdict::Steady | Verdict::Periodic) && !self.is_known_cold()
    }

    /// Is its level that of a cold server?
    pub fn is_known_cold(&self) -> bool {
        self.warmth.as_ref().is_some_and(|warmth| warmth.is_warm == Some(false))
    }

    /// The exit status of `pgthaw judge`; 1 to 3 are pgthaw's failures.
    pub fn exit_code(&self) -> u8 {
        match self.verdict {
            Verdict::Degrading => 12,
            _ if !self.is_steady() => 10,
            Verdict::Periodic => 11,
            _ => 0,
        }
    }

    /// The run length that proves a level from an instant on.
    pub(super) fn needed_seconds(&self, from_seconds: f64) -> f64 {
        (from_seconds / (1.0 - LEAST_TAIL_SHARE)).max(from_seconds + self.level_lasts_seconds)
    }

    /// Makes the verdict agree with the printed time to 95 %: steady begins there at the earliest, or cannot be told if
    /// too little is left.
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
        let Reason { verdict, undecided, sentence } = Reason::too_short();
        (self.verdict, self.reason, self.undecided) = (verdict, sentence, undecided);
        (self.level_share, self.warmth) = (None, None);
        (self.steady_from_seconds, self.period_seconds) = (None, None);
        (self.steady_tps, self.mean_error_share, self.level_error_share) = (None, None, None);
        (self.to_50_seconds, self.to_90_seconds, self.to_95_seconds) = (None, None, None);
        self.should_have_run_seconds = Some(needed);
    }

    /// Adds that its level is this share of the other trials' level, to which its times refer.
    pub fn tell_share(&mut self, share: f64) {
        let Some(tps) = self.steady_tps.filter(|_| self.steady_from_seconds.is_some()) else { return };
        let told =
            format!(", at {} tps where the run's steady throughput is {}", tell_rate(tps), tell_rate(tps / share));
        // One that was kept has it already.
        if !self.reason.ends_with(&told) {
            self.reason += &told;
        }
        self.level_share = Some(share);
    }

    /// Takes back the fit's promise for a run that did not reach it: it does not cover all `pages`.
    pub(super) fn drop_promise(&mut self, pages: f64) {
        self.steady_tps = None;
        self.mean_error_share = None;
        (self.to_50_seconds, self.to_90_seconds, self.to_95_seconds) = (None, None, None);
        self.should_have_run_seconds = None;
        self.remarks.push(format!("the fit promises nothing: the workload chooses from {pages:.0} pages"));
    }
}

// ---- verdict ----

/// The answer in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "typescript"), derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Throughput kept its level from `steady_from_seconds` on.
    Steady,
    /// Still rising at the end, or indistinguishable from a cold start.
    NotReached,
    /// Throughput keeps its level but for what comes back after each `period_seconds`.
    Periodic,
    /// Throughput was higher before than at the end, and still falls.
    Degrading,
}

/// Whether a level is that of a warm server, and how that is known.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "typescript"), derive(ts_rs::TS))]
pub struct Warmth {
    /// `None`: not known.
    pub is_warm: Option<bool>,
    /// The evidence, in one sentence.
    pub evidence: String,
    /// What would decide it, where it is not known.
    pub would_tell: Option<String>,
}

impl Warmth {
    pub(super) fn known(is_warm: bool, evidence: impl Into<String>) -> Warmth {
        Warmth { is_warm: Some(is_warm), evidence: evidence.into(), would_tell: None }
    }

    /// `is_sized`: is the number of pages known?
    pub(super) fn unknown(is_sized: bool, evidence: impl Into<String>) -> Warmth {
        let pages = if is_sized { "" } else { "the number of blocks that the workload chooses from (--pages), " };
        let would_tell = format!(
            "{pages}the device's reads in each second (a CSV column reads), or the same run under `pgthaw bench`"
        );
        Warmth { is_warm: None, evidence: evidence.into(), would_tell: Some(would_tell) }
    }
}

// ---- reason ----

/// Why a run has its verdict.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Reason {
    pub verdict: Verdict,
    pub undecided: Option<Undecided>,
    pub sentence: String,
}

/// Why it is open whether a run was steady.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "typescript"), derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum Undecided {
    /// Too little of a level.
    TooShort,
    /// Noise hides its level.
    Noisy,
}

/// A share as a percentage, for shares that are at most 1.
pub(super) fn percent(share: f64) -> String {
    format!("{:.0} %", 100.0 * share)
}

/// An interval around a level, whose error is that of its logarithm: `±4.6 %`, or the rates between which it lies.
pub fn tell_error(level: f64, error: f64) -> String {
    match error {
        ..0.5 => format!("±{:.1} %", 100.0 * error),
        _ => format!("between {} and {} tps", tell_rate(level * (-error).exp()), tell_rate(level * error.exp())),
    }
}

impl Reason {
    /// The verdict was seen.
    pub fn seen(verdict: Verdict, sentence: impl Into<String>) -> Reason {
        Reason { verdict, undecided: None, sentence: sentence.into() }
    }

    /// Whether the run was steady is open.
    pub fn open(undecided: Undecided, sentence: impl Into<String>) -> Reason {
        Reason { verdict: Verdict::NotReached, undecided: Some(undecided), sentence: sentence.into() }
    }

    pub fn too_short() -> Reason {
        Reason::open(Undecided::TooShort, "its level at the end did not last long enough to be one")
    }

    /// It rose or fell from one rate to another over its last seconds.
    pub fn moved(verdict: Verdict, how: &str, [from, to]: [f64; 2], seconds: f64) -> Reason {
        let (from, to) = (tell_rate(from), tell_rate(to));
        Reason::seen(verdict, format!("it {how} from {from} to {to} tps over its last {seconds:.0} s"))
    }

    /// Noise hides the level between two rates.
    pub fn noisy([low, high]: [f64; 2]) -> Reason {
        let sentence =
            format!("it moved between {} and {} tps: too noisy for a level", tell_rate(low), tell_rate(high));
        Reason::open(Undecided::Noisy, sentence)
    }
}

#[cfg(test)]
mod reason_tests {
    use super::*;

    #[test]
    fn no_sentence_has_more_than_all() {
        let noisy = Reason::noisy([500.0, 9000.4]);
        assert_eq!((noisy.verdict, noisy.undecided), (Verdict::NotReached, Some(Undecided::Noisy)));
        assert_eq!(noisy.sentence, "it moved between 500 and 9000 tps: too noisy for a level");
        let seen = Reason::moved(Verdict::NotReached, "still rose", [2.0, 30.0], 30.0);
        assert_eq!((seen.verdict, seen.undecided), (Verdict::NotReached, None));
        assert_eq!(seen.sentence, "it still rose from 2.0 to 30 tps over its last 30 s");
        assert_eq!(tell_error(1000.0, 0.046), "±4.6 %");
        assert_eq!(tell_error(1000.0, 2.0_f64.ln()), "between 500 and 2000 tps");
    }
}
