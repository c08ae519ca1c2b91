//! How long the databases of a study took to make.

use serde::{Deserialize, Serialize};

/// A database that was made for a study, and how long that took. One that an earlier study has left is not among them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct DatabaseMaking {
    /// As the study names them: of the axes `database`, `scale`, `file_system` and `server`.
    pub database: String,
    pub scale: u32,
    pub file_system: String,
    pub server: String,
    pub seconds: f64,
    /// In their order; what pgthaw did between them is in none.
    pub steps: Vec<MakingStep>,
}

/// A step of it: one of `pgbench -i`, as pgbench calls it, or SQL and programs of the study.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct MakingStep {
    pub step: String,
    pub seconds: f64,
}
