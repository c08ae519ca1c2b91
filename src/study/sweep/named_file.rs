//! Files that a study names.

use std::path::{Path, PathBuf};

use crate::pgbench::BUILTIN_SCRIPTS;

/// A file beside the study file, by its whole name: pgbench runs elsewhere.
pub fn find_file(key: &str, directory: &Path, name: &Path) -> Result<PathBuf, String> {
    let path = directory.join(name);
    let found = path.canonicalize().map_err(|error| {
        format!(
            "{key}: {}: {error}; a built-in script is one of {}, anything else a file beside the study file",
            path.display(),
            BUILTIN_SCRIPTS.join(", ")
        )
    })?;
    if found.is_file() { Ok(found) } else { Err(format!("{key}: {} is no file", path.display())) }
}
