//! Why a run has its verdict: what was found, as a value. Its verdict and its sentence follow from it.

use serde::{Deserialize, Serialize};

use super::Verdict;

/// What was found of a run. Shares are 0 to 1, seconds those of the run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Reason {
    NothingServed { seconds: f64 },
    SilentAtEnd { seconds: f64 },
    FasterBefore { share: f64 },
    ReadsFall,
    TooShort,
    Rises { share: f64, error: f64, seconds: f64 },
    Falls { share: f64, error: f64, seconds: f64 },
    RateLimited,
    Noisy { error: f64 },
    BesideWarmer,
    HidesARise { share: f64 },
    AsFlat(Flat),
    RoseTooSoon { transactions: f64, pages: f64 },
    Unfinished { share: f64, probability: f64 },
    Dips,
    KeptLevel { error: f64 },
}

/// A run that a cold server could have made too.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Flat {
    /// That the workload chooses from; `None` where nobody told.
    pub pages: Option<f64>,
    pub has_warm_up: bool,
    pub transactions: f64,
    /// By which these make a cold server faster, and which the noise may hide.
    pub rise_share: f64,
    pub hidden_share: f64,
}

/// Why it is open whether a run was steady, where it was not seen that it was not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum Undecided {
    /// Too little of a level.
    TooShort,
    /// The interval of its level has nought in it, or its noise hides any rise.
    Noisy,
    /// A cold server would have been as flat: by what it served, or for the rate was limited.
    AsFlat,
    /// A cold server with a database whose size nobody told would have been as flat. Who could tell it is told how beside it.
    AsFlatOfUnknownSize,
}

impl Reason {
    pub fn verdict(&self) -> Verdict {
        use Reason::*;
        match self {
            SilentAtEnd { .. } | FasterBefore { .. } | Falls { .. } => Verdict::Degrading,
            Dips => Verdict::Periodic,
            KeptLevel { .. } => Verdict::Steady,
            NothingServed { .. }
            | ReadsFall
            | TooShort
            | Rises { .. }
            | RateLimited
            | Noisy { .. }
            | BesideWarmer
            | HidesARise { .. }
            | AsFlat(_)
            | RoseTooSoon { .. }
            | Unfinished { .. } => Verdict::NotReached,
        }
    }

    pub fn undecided(&self) -> Option<Undecided> {
        match self {
            Reason::TooShort => Some(Undecided::TooShort),
            // Both say that no level can be told.
            Reason::Noisy { .. } | Reason::HidesARise { .. } => Some(Undecided::Noisy),
            Reason::AsFlat(Flat { pages: None, .. }) => Some(Undecided::AsFlatOfUnknownSize),
            // A limit makes every server flat.
            Reason::AsFlat(_) | Reason::RateLimited => Some(Undecided::AsFlat),
            _ => None,
        }
    }

    /// Why, in one sentence.
    pub fn sentence(&self) -> String {
        let percent = |share: f64| format!("{:.0} %", 100.0 * share);
        match *self {
            Reason::NothingServed { seconds } => format!("not one transaction was served in its {seconds:.0} s"),
            Reason::SilentAtEnd { seconds } => format!("it served next to nothing in its last {seconds:.0} s"),
            Reason::FasterBefore { share } => format!("it was {} faster before", percent(share)),
            Reason::ReadsFall => "its reads from the device still fell in the second half of its level".into(),
            Reason::TooShort => "its level at the end did not last long enough to be one".into(),
            Reason::Rises { share, error, seconds } => {
                format!("it still rose by {} (±{}) over its last {seconds:.0} s", percent(share), percent(error))
            }
            Reason::Falls { share, error, seconds } => {
                format!("it fell by {} (±{}) over its last {seconds:.0} s", percent(share), percent(error))
            }
            Reason::RateLimited => "the rate was limited: a cold server keeps it too".into(),
            Reason::Noisy { error } => format!("its level cannot be told from its noise (±{})", percent(error)),
            Reason::BesideWarmer => "it still read from the device, beside a warmer".into(),
            Reason::HidesARise { share } => {
                format!("it moved by so much that a rise of {} would be hidden: no level can be told", percent(share))
            }
            Reason::AsFlat(flat) => flat.sentence(),
            Reason::RoseTooSoon { transactions, pages } => format!(
                "it rose to its level within {transactions:.0} transactions, too few to have read most of {pages:.0} pages: \
                 the rest may be cold"
            ),
            Reason::Unfinished { share, probability } => format!(
                "by the way it rose it was at {} of its level, and below 90 % with a probability of {}",
                percent(share),
                percent(probability)
            ),
            Reason::Dips => "the same dips come back again and again".into(),
            Reason::KeptLevel { error } => format!("it kept its level until the end (±{:.1} %)", 100.0 * error),
        }
    }
}

impl Flat {
    fn sentence(&self) -> String {
        let since = if self.has_warm_up { "after a short slow start" } else { "from the start" };
        let what = self.pages.map_or("a database whose size is not known".into(), |pages| format!("{pages:.0} pages"));
        format!(
            "it was flat {since}, and a cold server with {what} would have been as flat: its {:.0} transactions since \
             then make it faster by {:.1} %, and the noise may hide {:.1} %",
            self.transactions,
            100.0 * self.rise_share,
            100.0 * self.hidden_share
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_open_is_told_by_its_kind() {
        let flat = |pages| {
            Reason::AsFlat(Flat {
                pages,
                has_warm_up: false,
                transactions: 900.0,
                rise_share: 0.01,
                hidden_share: 0.02,
            })
        };
        let known = flat(Some(4000.0));
        assert_eq!((known.verdict(), known.undecided()), (Verdict::NotReached, Some(Undecided::AsFlat)));
        assert!(known.sentence().contains("a cold server with 4000 pages would have been as flat"));
        assert_eq!(flat(None).undecided(), Some(Undecided::AsFlatOfUnknownSize));
        assert!(flat(None).sentence().contains("whose size is not known"));
        // What says that nothing can be told leaves it open.
        let hides = Reason::HidesARise { share: 1.4 };
        assert_eq!((hides.verdict(), hides.undecided()), (Verdict::NotReached, Some(Undecided::Noisy)));
        assert!(hides.sentence().contains("no level can be told"));
        let limited = Reason::RateLimited;
        assert_eq!((limited.verdict(), limited.undecided()), (Verdict::NotReached, Some(Undecided::AsFlat)));
        let seen = Reason::Rises { share: 0.2, error: 0.05, seconds: 30.0 };
        assert_eq!((seen.verdict(), seen.undecided()), (Verdict::NotReached, None));
        assert_eq!(seen.sentence(), "it still rose by 20 % (±5 %) over its last 30 s");
    }
}
