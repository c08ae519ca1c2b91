//! What the warm server showed before the trials: all that a forecast of them may know.

use postgres::{Activity, ServerFacts};

/// The workload on the warm server, without a limit.
#[derive(Clone, Debug)]
pub struct Calibration {
    /// Transactions per second; `None` when it served nothing.
    pub tps: Option<f64>,
    /// What it asked for meanwhile.
    pub activity: Activity,
    pub facts: ServerFacts,
}
