//! Entries for `fuzz/`: study files, and what servers log.

use std::path::Path;

use crate::study::{Sweep, parse_checkpoints, parse_sweep};

/// Reads a study file, whose other files are in `directory`.
pub fn read_study(text: &str, directory: &Path) -> Result<Sweep, String> {
    parse_sweep(text, directory, false)
}

/// Reads what a server's log says of checkpoints; those that ended.
pub fn read_server_log(text: &str) -> usize {
    parse_checkpoints(text, 0).0.len()
}
