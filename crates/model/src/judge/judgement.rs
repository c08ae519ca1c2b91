use serde::{Deserialize, Serialize};

use super::Fit;
use super::series::tell_rate;

pub(super) const LEAST_TAIL_SHARE: f64 = 0.15;

/// Verdict on a curve of throughput. Seconds count from the start of the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema, crate::TS)]
pub struct Judgement {
    pub verdict: Verdict,
    /// Reason for the verdict, as a sentence.
    pub reason: String,
    /// Why no level is known. `None` if the verdict is clear.
    pub undecided: Option<Undecided>,
    /// Whether the level is a warm server's. `None` without a level, and in old records.
    pub warmth: Option<Warmth>,
    /// `steady_tps` ÷ that of comparable trials, if the run never reached 95 % of theirs.
    pub level_share: Option<f64>,
    /// Start of the level, never before `to_95_seconds`. `None` unless steady or periodic.
    pub steady_from_seconds: Option<f64>,
    /// Minimum duration of a level, which must also last at least 15 % of the run.
    pub level_lasts_seconds: f64,
    /// Time between drops of throughput.
    pub period_seconds: Option<f64>,
    /// Throughput of the level; if it was not reached, the fitted throughput.
    pub steady_tps: Option<f64>,
    /// Half the width of the 95 % interval of `steady_tps`, as a difference of logarithms.
    pub level_error_share: Option<f64>,
    /// Mean throughput of the whole run.
    pub mean_tps: f64,
    /// `mean_tps` ÷ `steady_tps` − 1.
    pub mean_error_share: Option<f64>,
    /// Time to 50 % of `steady_tps`; 0 if the run began with it.
    pub to_50_seconds: Option<f64>,
    /// Time to 90 % of `steady_tps`; 0 if the run began with it.
    pub to_90_seconds: Option<f64>,
    /// Time to 95 % of `steady_tps`; 0 if the run began with it.
    pub to_95_seconds: Option<f64>,
    pub run_seconds: f64,
    /// Run length that a verdict of steady or periodic needs, if known.
    pub should_have_run_seconds: Option<f64>,
    pub fit: Option<Fit>,
    /// Why the model was not fitted.
    pub no_fit: Option<String>,
    pub remarks: Vec<String>,
}

impl Judgement {
    pub fn is_steady(&self) -> bool {
        matches!(self.verdict, Verdict::Steady | Verdict::Periodic) && !self.is_known_cold()
    }

    pub fn is_known_cold(&self) -> bool {
        self.warmth.as_ref().is_some_and(|warmth| warmth.is_warm == Some(false))
    }

    /// Exit statuses 1 to 3 are pgthaw's own failures.
    pub fn exit_code(&self) -> u8 {
        match self.verdict {
            Verdict::Degrading => 12,
            _ if !self.is_steady() => 10,
            Verdict::Periodic => 11,
            _ => 0,
        }
    }

    pub(super) fn needed_seconds(&self, from_seconds: f64) -> f64 {
        (from_seconds / (1.0 - LEAST_TAIL_SHARE)).max(from_seconds + self.level_lasts_seconds)
    }

    /// Moves the start of the level to `to_95_seconds` if that is later. The verdict becomes undecided if too little of
    /// the run remains.
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

    /// Stores `share`, this level ÷ that of comparable trials, and states both levels in the reason.
    pub fn tell_share(&mut self, share: f64) {
        let Some(tps) = self.steady_tps.filter(|_| self.steady_from_seconds.is_some()) else { return };
        let told =
            format!(", at {} tps where the run's steady throughput is {}", tell_rate(tps), tell_rate(tps / share));
        // A stored reason has this text already.
        if !self.reason.ends_with(&told) {
            self.reason += &told;
        }
        self.level_share = Some(share);
    }

    pub(super) fn drop_promise(&mut self, pages: f64) {
        self.steady_tps = None;
        self.mean_error_share = None;
        (self.to_50_seconds, self.to_90_seconds, self.to_95_seconds) = (None, None, None);
        self.should_have_run_seconds = None;
        self.remarks
            .push(format!("the fit gives no forecast: its number of pages differs from the workload's {pages:.0}"));
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema, crate::TS)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// A level that lasts until the end of the run.
    Steady,
    /// No level: throughput still rises, or the run is too short or noisy.
    NotReached,
    /// A level with drops of throughput every `period_seconds`.
    Periodic,
    /// Throughput that was higher before, still falls, or is zero at the end.
    Degrading,
}

/// Whether a level is a warm server's, with evidence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema, crate::TS)]
pub struct Warmth {
    /// `None` if unknown.
    pub is_warm: Option<bool>,
    pub evidence: String,
    /// Data that would show whether the level is warm.
    pub would_tell: Option<String>,
}

impl Warmth {
    pub(super) fn known(is_warm: bool, evidence: impl Into<String>) -> Warmth {
        Warmth { is_warm: Some(is_warm), evidence: evidence.into(), would_tell: None }
    }

    /// `is_sized`: whether the number of pages is known.
    pub(super) fn unknown(is_sized: bool, evidence: impl Into<String>) -> Warmth {
        let pages = if is_sized { "" } else { "the number of blocks that the workload chooses from (--pages), " };
        let would_tell = format!(
            "{pages}the device's reads in each second (a CSV column named reads), or the same run under `pgthaw bench`"
        );
        Warmth { is_warm: None, evidence: evidence.into(), would_tell: Some(would_tell) }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Reason {
    pub verdict: Verdict,
    pub undecided: Option<Undecided>,
    pub sentence: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema, crate::TS)]
#[serde(rename_all = "snake_case")]
pub enum Undecided {
    TooShort,
    /// The throughput varies too much.
    Noisy,
}

pub fn tell_error(level: f64, error: f64) -> String {
    match error {
        ..0.5 => format!("±{:.1} %", 100.0 * error),
        _ => format!("between {} and {} tps", tell_rate(level * (-error).exp()), tell_rate(level * error.exp())),
    }
}

impl Reason {
    pub fn seen(verdict: Verdict, sentence: impl Into<String>) -> Reason {
        Reason { verdict, undecided: None, sentence: sentence.into() }
    }

    pub fn open(undecided: Undecided, sentence: impl Into<String>) -> Reason {
        Reason { verdict: Verdict::NotReached, undecided: Some(undecided), sentence: sentence.into() }
    }

    pub fn too_short() -> Reason {
        Reason::open(Undecided::TooShort, "its throughput was level at the end, but not for long enough")
    }

    pub fn moved(verdict: Verdict, how: &str, [from, to]: [f64; 2], seconds: f64) -> Reason {
        let (from, to) = (tell_rate(from), tell_rate(to));
        Reason::seen(verdict, format!("it {how} from {from} to {to} tps over its last {seconds:.0} s"))
    }

    pub fn noisy([low, high]: [f64; 2]) -> Reason {
        let (low, high) = (tell_rate(low), tell_rate(high));
        Reason::open(
            Undecided::Noisy,
            format!("its throughput varied from {low} to {high} tps: too noisy to be steady"),
        )
    }
}

#[cfg(test)]
mod reason_tests {
    use super::*;

    #[test]
    fn no_sentence_has_more_than_all() {
        let noisy = Reason::noisy([500.0, 9000.4]);
        assert_eq!((noisy.verdict, noisy.undecided), (Verdict::NotReached, Some(Undecided::Noisy)));
        assert_eq!(noisy.sentence, "its throughput varied from 500 to 9000 tps: too noisy to be steady");
        let seen = Reason::moved(Verdict::NotReached, "still rose", [2.0, 30.0], 30.0);
        assert_eq!((seen.verdict, seen.undecided), (Verdict::NotReached, None));
        assert_eq!(seen.sentence, "it still rose from 2.0 to 30 tps over its last 30 s");
        assert_eq!(tell_error(1000.0, 0.046), "±4.6 %");
        assert_eq!(tell_error(1000.0, 2.0_f64.ln()), "between 500 and 2000 tps");
    }
}
