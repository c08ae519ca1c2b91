//! What is said of the account of the server's time.

use super::Finding;
use crate::study::saturation::percent;
use host::units::counted;

impl Finding {
    /// Sentence and remedy of what is found of where the server's time went; empty of all else.
    pub(super) fn account_words(&self) -> (String, String) {
        match self {
            Finding::DearAccount { ratio } => (
                format!("to tell where the server's time goes took {} of all processors", percent(*ratio)),
                "leave it, for every trial bears it alike; time = false in a study file does without".into(),
            ),
            Finding::ProcessorsExceeded { used, processors } => (
                format!(
                    "by the account of its time the server used {used:.2} of {}: it is wrong",
                    counted(*processors, "processor")
                ),
                "take none of its kinds of time for sure, and tell of it with the kernel's version".into(),
            ),
            _ => (String::new(), String::new()),
        }
    }
}
