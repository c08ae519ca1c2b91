//! Files that a process may have open at a time (RLIMIT_NOFILE).

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// What to do where they run out.
pub const TOO_FEW: &str = "ulimit -n limits the files that a process may have open, LimitNOFILE= those of a service: raise it (1024 is usual)";

/// Lets this process have as many open as it may allow itself. What it starts inherits that, so who starts others does without.
pub fn allow_all() {
    let limit = getrlimit(Resource::Nofile);
    // Where that is refused, there are as many as before.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// So many may be open.
pub fn read_limit() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Did something fail because no more may be open?
pub fn is_too_few(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EMFILE)
}
