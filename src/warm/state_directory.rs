//! Where pgthaw keeps what it learnt about this machine.

use std::path::PathBuf;

/// `$XDG_STATE_HOME/pgthaw`, by default `~/.local/state/pgthaw`; without a home `/var/lib/pgthaw`.
pub fn state_directory() -> PathBuf {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = absolute("XDG_STATE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".local/state")));
    state.unwrap_or_else(|| PathBuf::from("/var/lib")).join("pgthaw")
}
