//! Something that pgthaw can or cannot do here: a failure that was looked for before it happened.

use serde::Serialize;

use super::Explain;

/// One line of `pgthaw doctor`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Capability {
    /// What `--require` takes: `os`, `disk-limit`.
    pub name: &'static str,
    /// The heading it stands under.
    pub group: &'static str,
    pub ok: bool,
    /// What was found, or why it is not possible.
    pub detail: String,
    /// The command that mends it; `None` when it is possible, or when nothing mends it.
    pub remedy: Option<String>,
    /// Is it possible somewhere, but not everywhere that was asked for?
    #[serde(skip)]
    pub is_partly: bool,
}

impl Capability {
    /// A capability that is there.
    pub fn yes(group: &'static str, name: &'static str, detail: impl Into<String>) -> Capability {
        Capability { name, group, ok: true, detail: detail.into(), remedy: None, is_partly: false }
    }

    /// A capability that is not there.
    pub fn no(
        group: &'static str,
        name: &'static str,
        detail: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Capability {
        Capability { name, group, ok: false, detail: detail.into(), remedy: Some(remedy.into()), is_partly: false }
    }

    /// A capability that is not there, for the reason and with the remedy that an error tells.
    pub fn failed(group: &'static str, name: &'static str, error: &dyn Explain) -> Capability {
        Capability { name, group, ok: false, detail: error.to_string(), remedy: error.hint(), is_partly: false }
    }
}
