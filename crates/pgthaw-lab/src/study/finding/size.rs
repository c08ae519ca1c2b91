//! What is said of trials, scales and databases that are too small.

use super::Finding;
use host::units::counted;

impl Finding {
    /// Sentence and remedy of trials, scales and databases that are too small for what is asked of them; empty of all else.
    pub(super) fn size_words(&self) -> (String, String) {
        match self {
            // Without figures, so that it is the same of all trials of a study, and told once.
            Finding::ShortRun { .. } => (
                "it lasted less than a minute and served fewer than 100,000 transactions: too little to stand for the server".into(),
                "points.seconds = 60, or more".into(),
            ),
            Finding::ClientsBeyondScale { clients, scale, waiting } => (
                format!(
                    "{clients} clients update {}: in the mean {waiting:.1} of them waited for another's row",
                    counted(*scale, "branch")
                ),
                "a scale of at least the clients, or a script that updates no branch (simple-update)".into(),
            ),
            Finding::FitsCaches { in_shared_buffers, in_memory, points } => (
                format!(
                    "the database fits into shared_buffers at {in_shared_buffers} of {}, and into memory at {in_memory}: a warm server reads nothing from the disk there",
                    counted(*points, "point")
                ),
                "nothing, where that is meant; else larger scales, and [exceeds] says from which on it may not".into(),
            ),
            _ => (String::new(), String::new()),
        }
    }
}
