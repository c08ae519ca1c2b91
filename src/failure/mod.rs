//! How a failure is told: each folder's error says its kind, which decides the exit status, and a hint, which says
//! what to do about it.

mod capability;
mod full_disk;
mod quoting;
mod readiness;
mod too_few_files;

pub use capability::Capability;
pub use full_disk::FullDisk;
pub use quoting::quote_argument;
pub use readiness::{Missing, NEEDED, Readiness, Tiers, compute_readiness};
pub use too_few_files::{TOO_FEW_FILES, is_too_few_files};

/// What to do where no thread can be started.
pub const NO_THREADS: &str = "ulimit -u limits the user's processes and threads, TasksMax= those of a service, pids.max those of a \
     container: raise it, or end what else runs under it";

/// What sort of failure this is. The exit status follows from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// Something went wrong while doing what was asked: exit 1.
    Failed,
    /// What was asked makes no sense, such as an unknown relation or a wrong directory: exit 2.
    Usage,
    /// A privilege or a capability is missing: exit 3.
    Privilege,
    /// Somebody stopped it: exit 130 after Ctrl-C, and 128 and the signal's number after another.
    Interrupted,
}

impl ErrorKind {
    /// The process's exit status; that of Ctrl-C, where somebody stopped it.
    pub fn exit_code(self) -> u8 {
        match self {
            ErrorKind::Failed => 1,
            ErrorKind::Usage => 2,
            ErrorKind::Privilege => 3,
            ErrorKind::Interrupted => 130,
        }
    }

    /// The stable name that `--json` prints.
    pub fn name(self) -> &'static str {
        match self {
            ErrorKind::Failed => "failed",
            ErrorKind::Usage => "usage",
            ErrorKind::Privilege => "privilege",
            ErrorKind::Interrupted => "interrupted",
        }
    }
}

/// An error that can say what to do about it. Every folder's error type is one.
pub trait Explain: std::error::Error {
    fn kind(&self) -> ErrorKind;

    /// One sentence or command that mends it; `None` when the message already says all there is.
    fn hint(&self) -> Option<String>;

    /// The full disk that it is about; `None`: something else went wrong. Its remedy takes the place of the hint.
    fn full_disk(&self) -> Option<FullDisk> {
        None
    }
}
