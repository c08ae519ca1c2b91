//! That no more files may be open: told in the same words whether a file or a connection was wanted.

use std::io;

/// What to do where they run out.
pub const TOO_FEW_FILES: &str = "ulimit -n limits the files that a process may have open, LimitNOFILE= those of a service: raise it (1024 is usual)";

/// Did something fail because no more may be open?
pub fn is_too_few_files(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EMFILE)
}
