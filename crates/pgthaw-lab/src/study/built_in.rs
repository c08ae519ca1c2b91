//! Studies and scripts that pgthaw brings along.

use std::io;
use std::path::Path;

use host::files::read_at_most;
use postgres::SCRIPT_BYTES_MAX;

/// The studies by name. The demo has two acts, each a study of its own.
pub const BUILT_IN_STUDIES: [(&str, &[&str]); 4] = [
    ("warmup", &[include_str!("built_in/warmup.toml")]),
    ("residency", &[include_str!("built_in/residency.toml")]),
    ("forecast", &[include_str!("built_in/forecast.toml")]),
    ("demo", &[include_str!("built_in/demo-everything.toml"), include_str!("built_in/demo-hot.toml")]),
];

/// The scripts by the names that study files give them.
const BUILT_IN_SCRIPTS: [(&str, &str); 1] = [("newest-tenth.sql", include_str!("built_in/newest-tenth.pgbench"))];

/// The text of a script; `None` where no script has this name.
pub fn find_built_in_script(name: &Path) -> Option<&'static str> {
    BUILT_IN_SCRIPTS.iter().find(|(known, _)| Path::new(known) == name).map(|(_, text)| *text)
}

/// Reads a file that a study names. Files of one's own have whole names, scripts that pgthaw brings along have not.
pub fn read_named(path: &Path) -> io::Result<Vec<u8>> {
    match find_built_in_script(path) {
        Some(text) => Ok(text.as_bytes().to_vec()),
        None => read_at_most(path, SCRIPT_BYTES_MAX),
    }
}
