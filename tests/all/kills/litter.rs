//! Where pgthaw may leave something: a home, temporary and runtime directory for one test alone.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Lets everything that a command keeps for itself fall into the home directory.
pub fn confine(command: &mut Command, home: &Path) {
    for (name, variable) in [("tmp", "TMPDIR"), ("run", "XDG_RUNTIME_DIR")] {
        let directory = home.join(name);
        if !directory.exists() {
            fs::create_dir(&directory).unwrap();
            fs::set_permissions(&directory, Permissions::from_mode(0o700)).unwrap();
        }
        command.env(variable, directory);
    }
    // A panic is seen by its message; the backtrace takes seconds.
    command.env("RUST_BACKTRACE", "0");
}

/// Every path below a directory.
pub fn paths_below(directory: &Path) -> BTreeSet<PathBuf> {
    let mut paths = BTreeSet::new();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            paths.append(&mut paths_below(&entry.path()));
        }
        paths.insert(entry.path());
    }
    paths
}

/// The snapshots below a directory, whole.
pub fn snapshots_below(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let is_snapshot = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy();
        name.ends_with(".parquet") && !name.starts_with('.')
    };
    paths_below(directory).into_iter().filter(is_snapshot).map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

/// Every path below a directory that is no snapshot.
pub fn others_below(directory: &Path) -> BTreeSet<PathBuf> {
    let snapshots = snapshots_below(directory);
    paths_below(directory).into_iter().filter(|path| !snapshots.contains_key(path)).collect()
}
