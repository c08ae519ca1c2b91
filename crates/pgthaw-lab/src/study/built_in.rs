use std::io;
use std::path::Path;

use host::files::read_at_most;
use postgres::SCRIPT_BYTES_MAX;

pub const BUILT_IN_STUDIES: [(&str, &[&str]); 4] = [
    ("warmup", &[include_str!("built_in/warmup.toml")]),
    ("residency", &[include_str!("built_in/residency.toml")]),
    ("forecast", &[include_str!("built_in/forecast.toml")]),
    ("demo", &[include_str!("built_in/demo-everything.toml"), include_str!("built_in/demo-hot.toml")]),
];

const BUILT_IN_SCRIPTS: [(&str, &str); 1] = [("newest-tenth.sql", include_str!("built_in/newest-tenth.pgbench"))];

pub fn find_built_in_script(name: &Path) -> Option<&'static str> {
    BUILT_IN_SCRIPTS.iter().find(|(known, _)| Path::new(known) == name).map(|(_, text)| *text)
}

/// Only built-in scripts have relative names.
pub fn read_named(path: &Path) -> io::Result<Vec<u8>> {
    match find_built_in_script(path) {
        Some(text) => Ok(text.as_bytes().to_vec()),
        None => read_at_most(path, SCRIPT_BYTES_MAX),
    }
}
