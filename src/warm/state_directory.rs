//! Where pgthaw keeps what it learnt about this machine.

use std::path::PathBuf;

use crate::linux::home::state_home;

/// Its name in the directory where the user's programs keep their state.
pub const STATE: &str = "pgthaw";

/// What was measured of devices is kept here, below it.
pub const DEVICES: &str = "devices";

/// `$XDG_STATE_HOME/pgthaw`, by default `~/.local/state/pgthaw`; without a home `/var/lib/pgthaw`.
pub fn state_directory() -> PathBuf {
    state_home().unwrap_or_else(|| PathBuf::from("/var/lib")).join(STATE)
}
