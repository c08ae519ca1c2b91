//! The state that a trial starts from.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The state in which a trial is asked to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StartAsked {
    /// The server stopped, the cluster's files out of the page cache, the server started.
    Cold,
    /// Everything read, then some seconds of the workload.
    Warm,
    /// Cold, then `pgthaw restore` of a snapshot of the warm state, to its end.
    Restored,
    /// As the trial before has left it.
    AsIs,
}

impl StartAsked {
    pub const ALL: [StartAsked; 4] = [StartAsked::Cold, StartAsked::Warm, StartAsked::Restored, StartAsked::AsIs];

    /// The word of the study file.
    pub fn name(self) -> &'static str {
        match self {
            StartAsked::Cold => "cold",
            StartAsked::Warm => "warm",
            StartAsked::Restored => "restored",
            StartAsked::AsIs => "as-is",
        }
    }
}

impl FromStr for StartAsked {
    type Err = String;

    fn from_str(text: &str) -> Result<StartAsked, String> {
        let found = StartAsked::ALL.into_iter().find(|start| start.name() == text);
        found.ok_or_else(|| format!("it is one of {}", StartAsked::ALL.map(StartAsked::name).join(", ")))
    }
}
