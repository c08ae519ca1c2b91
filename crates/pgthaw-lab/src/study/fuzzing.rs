//! Entry points for study files and server logs.

use std::path::Path;

use crate::study::{Sweep, parse_checkpoints, parse_sweep};

pub fn read_study(text: &str, directory: &Path) -> Result<Sweep, String> {
    parse_sweep(text, directory, false)
}

/// Returns the number of ended checkpoints.
pub fn read_server_log(text: &str) -> usize {
    parse_checkpoints(text, 0).0.len()
}
