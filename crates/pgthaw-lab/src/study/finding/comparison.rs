//! What is said of comparisons.

use super::Finding;
use host::units::counted;

impl Finding {
    /// Sentence and remedy of what is found of a comparison; empty of all else.
    pub(super) fn comparison_words(&self) -> (String, String) {
        match self {
            Finding::TwoSweeps => (
                "the sides are of two sweeps, one after the other: a drift of the machine looks like a difference"
                    .into(),
                "measure both in one sweep".into(),
            ),
            Finding::TooFewPairs { pairs, needed } => (
                format!("{} cannot show a difference at p < 0.05, however large it is", counted(*pairs, "pair")),
                format!("repeats = {needed} or more"),
            ),
            Finding::WithinNoise { within, differences, floor_ratio } => (
                format!(
                    "{within} of {} {} within the noise floor: equal sides of the sweep differ by up to {:.1} %",
                    counted(*differences, "difference"),
                    if *within == 1 { "is" } else { "are" },
                    100.0 * (floor_ratio - 1.0)
                ),
                "take them for none, or measure with more repeats and longer trials until the floor is lower".into(),
            ),
            Finding::UncutCheckpoints { unequal, pairs } => (
                format!(
                    "in {unequal} of {} one trial saw more checkpoints than the other, and they were not cut to whole cycles",
                    counted(*pairs, "pair")
                ),
                "let trials last several times checkpoint_timeout, and compare tps or worst-second".into(),
            ),
            _ => (String::new(), String::new()),
        }
    }
}
