//! Files that a process may have open at a time (RLIMIT_NOFILE).

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit of open files to the hard one. Children inherit it.
pub fn allow_all() {
    let limit = getrlimit(Resource::Nofile);
    // Where that is refused, there are as many as before.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// So many may be open.
pub fn read_limit() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}
