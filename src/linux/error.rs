//! Failures of the system's own calls.

use std::io;
use std::path::{Path, PathBuf};

use crate::failure::{ErrorKind, Explain};

/// A failed system call, with the file it was made for.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot {action} {}: {source}", path.display())]
    File { action: &'static str, path: PathBuf, source: io::Error },
    #[error("the kernel does not tell this user what of {} is in the page cache", .0.display())]
    ResidencyHidden(PathBuf),
    #[error("cannot {action}: {source}")]
    Call { action: &'static str, source: io::Error },
}

impl Error {
    /// The error of doing `action` (a verb, such as "open") to `path`.
    pub fn file(action: &'static str, path: &Path, source: io::Error) -> Error {
        Error::File { action, path: path.to_owned(), source }
    }
}

impl Explain for Error {
    fn kind(&self) -> ErrorKind {
        match self {
            Error::ResidencyHidden(_) => ErrorKind::Privilege,
            Error::File { source, .. } | Error::Call { source, .. } => match source.kind() {
                io::ErrorKind::PermissionDenied => ErrorKind::Privilege,
                _ => ErrorKind::Failed,
            },
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Error::ResidencyHidden(_) => {
                Some("run pgthaw as the owner of the data directory (usually postgres) or as root".into())
            }
            Error::File { source, .. } | Error::Call { source, .. } => match source.kind() {
                io::ErrorKind::PermissionDenied => {
                    Some("run pgthaw as the owner of the data directory (usually postgres) or as root".into())
                }
                io::ErrorKind::StorageFull => Some("free some space, or name another directory".into()),
                _ => None,
            },
        }
    }
}
