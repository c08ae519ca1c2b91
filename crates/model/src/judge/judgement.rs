//! What is said of a run: its verdict, and the figures behind it.

use serde::{Deserialize, Serialize};

use super::Fit;

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
        self.level_share = None;
        (self.steady_from_seconds, self.period_seconds) = (None, None);
        (self.steady_tps, self.mean_error_share, self.level_error_share) = (None, None, None);
        (self.to_50_seconds, self.to_90_seconds, self.to_95_seconds) = (None, None, None);
        self.should_have_run_seconds = Some(needed);
    }

    /// Adds that its level is this share of the other trials' level, to which its times refer.
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

impl Verdict {
    /// The exit status of `pgthaw judge`; 1 to 3 are pgthaw's failures.
    pub fn exit_code(self) -> u8 {
        match self {
            Verdict::Steady => 0,
            Verdict::NotReached => 10,
            Verdict::Periodic => 11,
            Verdict::Degrading => 12,
        }
    }
}

// ---- consistency ----
//
// The rules by which the figures of one judgement must agree (docs/model.md has them in words).

/// Tolerance of equal times, in seconds.
const SAME_SECONDS: f64 = 1e-6;

/// Difference up to which shares are equal that were computed in different ways.
const SAME_SHARE: f64 = 1e-9;

impl Judgement {
    /// Contradictions among its figures, as sentences; none if it may be shown.
    pub fn find_contradictions(&self) -> Vec<String> {
        let is_level = matches!(self.verdict, Verdict::Steady | Verdict::Periodic);
        let verdict = self.verdict;
        let mut found = vec![
            (self.steady_from_seconds.is_some() == is_level, "it is steady from an instant, or it is not steady"),
            (self.period_seconds.is_some() == (verdict == Verdict::Periodic), "a period is one of a periodic run"),
            (!is_level || self.steady_tps.is_some(), "a steady run has a steady throughput"),
            (
                verdict != Verdict::Degrading || self.steady_tps.is_none(),
                "a run that degrades has no steady throughput",
            ),
            (self.to_95_seconds.is_none() || self.steady_tps.is_some(), "95 % of nothing is reached"),
            (is_level || self.level_error_share.is_none(), "the noise of a level that there is not"),
            (self.has_agreeing_mean(), "the mean's error is that of another mean or level"),
        ];
        if let (true, Some(from)) = (is_level, self.steady_from_seconds) {
            let is_before_end = from + self.level_lasts_seconds <= self.run_seconds + SAME_SECONDS;
            found.push((is_no_later(self.to_95_seconds, from), "it is steady before its own 95 %"));
            found.push((is_before_end, "the level did not last as long as one must"));
            found.push((is_no_later(self.should_have_run_seconds, self.run_seconds), "a steady run was long enough"));
        } else if let Some(needed) = self.should_have_run_seconds {
            found.push((needed > self.run_seconds, "a run that was long enough would have a verdict"));
        }
        let broken = found.into_iter().filter(|(holds, _)| !holds).map(|(_, rule)| rule.to_owned());
        let times = [self.to_50_seconds, self.to_90_seconds, self.to_95_seconds];
        broken.chain(find_disorder(times)).collect()
    }

    fn has_agreeing_mean(&self) -> bool {
        let expected = self.steady_tps.map(|steady| self.mean_tps / steady - 1.0);
        match (expected, self.mean_error_share) {
            (Some(expected), Some(share)) => (expected - share).abs() < SAME_SHARE,
            (expected, share) => expected.is_none() && share.is_none(),
        }
    }
}

fn is_no_later(seconds: Option<f64>, than: f64) -> bool {
    seconds.is_some_and(|seconds| seconds <= than + SAME_SECONDS)
}

/// Reports times to 50, 90 and 95 % in the wrong order; a later one must be missing if an earlier is.
pub fn find_disorder(times: [Option<f64>; 3]) -> Option<String> {
    let in_order = |pair: &[Option<f64>]| match (pair[0], pair[1]) {
        (Some(less), Some(more)) => less <= more,
        (None, Some(_)) => false,
        (_, None) => true,
    };
    (!times.windows(2).all(in_order)).then(|| "more of the throughput is reached before less of it".to_owned())
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
    /// Its level's interval includes 0, or noise hides any rise.
    Noisy,
    /// A cold server would be as flat, by its transactions or a limited rate.
    AsFlat,
    /// A cold server with a database of unknown size would be as flat. The remedy is to say the size.
    AsFlatOfUnknownSize,
}

/// A share as a percentage.
pub(super) fn percent(share: f64) -> String {
    format!("{:.0} %", 100.0 * share)
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

    pub fn rate_limited() -> Reason {
        // A limit makes every server flat.
        Reason::open(Undecided::AsFlat, "the rate was limited: a cold server keeps it too")
    }

    /// It rose or fell by a share of its level, with an error that is a share too, over its last seconds.
    pub fn moved(verdict: Verdict, how: &str, share: f64, error: f64, seconds: f64) -> Reason {
        let (share, error) = (percent(share), percent(error));
        Reason::seen(verdict, format!("it {how} by {share} (±{error}) over its last {seconds:.0} s"))
    }

    /// Noise would hide a rise of this share.
    pub fn hidden(share: f64) -> Reason {
        let share = percent(share);
        let sentence = format!("it moved by so much that a rise of {share} would be hidden: no level can be told");
        Reason::open(Undecided::Noisy, sentence)
    }

    /// A cold server could have made the run too. `pages` that the workload chooses from, if known; the rise that the
    /// transactions make, and the one that noise may hide, as shares.
    pub fn flat(pages: Option<f64>, has_warm_up: bool, transactions: f64, rise: f64, hidden: f64) -> Reason {
        let undecided = if pages.is_some() { Undecided::AsFlat } else { Undecided::AsFlatOfUnknownSize };
        let since = if has_warm_up { "after a short slow start" } else { "from the start" };
        let what = pages.map_or("a database whose size is not known".into(), |pages| format!("{pages:.0} pages"));
        let sentence = format!(
            "it was flat {since}, and a cold server with {what} would have been as flat: its {transactions:.0} transactions \
             since then make it faster by {:.1} %, and the noise may hide {:.1} %",
            100.0 * rise,
            100.0 * hidden
        );
        Reason::open(undecided, sentence)
    }
}

#[cfg(test)]
mod reason_tests {
    use super::*;

    #[test]
    fn what_is_open_is_told_by_its_kind() {
        let flat = |pages| Reason::flat(pages, false, 900.0, 0.01, 0.02);
        let known = flat(Some(4000.0));
        assert_eq!((known.verdict, known.undecided), (Verdict::NotReached, Some(Undecided::AsFlat)));
        assert!(known.sentence.contains("a cold server with 4000 pages would have been as flat"));
        assert_eq!(flat(None).undecided, Some(Undecided::AsFlatOfUnknownSize));
        assert!(flat(None).sentence.contains("whose size is not known"));
        // What says that nothing can be told leaves it open.
        let hides = Reason::hidden(1.4);
        assert_eq!((hides.verdict, hides.undecided), (Verdict::NotReached, Some(Undecided::Noisy)));
        assert!(hides.sentence.contains("no level can be told"));
        let limited = Reason::rate_limited();
        assert_eq!((limited.verdict, limited.undecided), (Verdict::NotReached, Some(Undecided::AsFlat)));
        let seen = Reason::moved(Verdict::NotReached, "still rose", 0.2, 0.05, 30.0);
        assert_eq!((seen.verdict, seen.undecided), (Verdict::NotReached, None));
        assert_eq!(seen.sentence, "it still rose by 20 % (±5 %) over its last 30 s");
    }
}
