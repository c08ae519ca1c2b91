//! Tools that pgthaw is compared with.

use std::env;
use std::path::PathBuf;

use crate::failure::Capability;

const GROUP: &str = "other tools";

/// Programs and the Debian packages that have them.
const PROGRAMS: [(&str, &str); 2] = [("vmtouch", "vmtouch"), ("fio", "fio")];

/// A line for each program.
pub fn check_programs() -> Vec<Capability> {
    let check = |(name, package): (&'static str, &str)| match find_program(name) {
        Some(path) => Capability::yes(GROUP, name, path.display().to_string()),
        None => Capability::no(GROUP, name, "not in PATH", format!("apt-get install {package}")),
    };
    PROGRAMS.into_iter().map(check).collect()
}

fn find_program(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|directory| directory.join(name)).find(|file| file.is_file())
}
