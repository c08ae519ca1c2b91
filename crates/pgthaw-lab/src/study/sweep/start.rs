//! The state that a trial starts from, and when its load begins.

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

/// When the load of a trial begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LoadBegins {
    /// At the start, beside what warms the server.
    #[default]
    AtOnce,
    /// When what warms the server has ended.
    AfterWarmer,
}

impl LoadBegins {
    pub const ALL: [LoadBegins; 2] = [LoadBegins::AtOnce, LoadBegins::AfterWarmer];

    /// The word of the study file.
    pub fn name(self) -> &'static str {
        match self {
            LoadBegins::AtOnce => "at-once",
            LoadBegins::AfterWarmer => "after-warmer",
        }
    }

    /// The same, where serde asks.
    pub fn is_at_once(&self) -> bool {
        *self == LoadBegins::AtOnce
    }
}

impl FromStr for LoadBegins {
    type Err = String;

    fn from_str(text: &str) -> Result<LoadBegins, String> {
        let found = LoadBegins::ALL.into_iter().find(|begins| begins.name() == text);
        found.ok_or_else(|| format!("it is one of {}", LoadBegins::ALL.map(LoadBegins::name).join(", ")))
    }
}
